/* projection_support.c - see projection_support.h. */
#include "projection_support.h"

void pair_journal(struct pair *p)
{
    struct seam_err err;
    p->db = p->same ? p->of_journal.db : p->of_table.db;
    ok(seam_journal_open(p->of_journal.db, NULL, &p->j, &err), err);
    ok(seam_journal_stream(p->j, text("s"), true, &p->stream, &err), err);
}

void pair_open(struct pair *p, const char *journal_engine, const char *table_engine,
               const char *wrap)
{
    memset(p, 0, sizeof(*p));
    p->journal_engine = journal_engine;
    p->table_engine = table_engine;
    p->same = strcmp(p->table_engine, "same") == 0;
    store_open(&p->of_journal, p->same ? wrap : "", p->journal_engine, NULL);
    if (!p->same)
        store_open(&p->of_table, wrap, p->table_engine, NULL);
    pair_journal(p);
}

void pair_reopen(struct pair *p)
{
    struct seam_err err;
    ok(seam_journal_close(p->j, &err), err);
    store_reopen(&p->of_journal);
    if (!p->same)
        store_reopen(&p->of_table);
    pair_journal(p);
}

void pair_close(struct pair *p)
{
    struct seam_err err;
    ok(seam_journal_close(p->j, &err), err);
    store_close(&p->of_journal);
    if (!p->same)
        store_close(&p->of_table);
}

/* Appended so that it may be applied at once. */
void pair_append(struct pair *p, struct seam_slice event)
{
    struct seam_err err;
    uint32_t ack = best_ack(p->of_journal.db);
    ok(seam_journal_append(p->j, p->stream, &event, 1, ack, NULL, &err), err);
}

struct seam_projection_options pair_options(struct pair *p, seam_projector projector, void *ctx)
{
    return (struct seam_projection_options){
        .journal = p->j, .stream = text("s"), .projector = projector, .projector_ctx = ctx};
}

struct seam_projection *table_open(struct pair *p, const char *name,
                                   const struct seam_projection_options *o)
{
    struct seam_err err;
    struct seam_projection *table = NULL;
    ok(seam_projection_open(p->db, text(name), o, &table, &err), err);
    return table;
}

void table_close(struct seam_projection *table)
{
    struct seam_err err;
    ok(seam_projection_close(table, &err), err);
}

uint64_t table_catch_up(struct seam_projection *table, uint64_t most)
{
    struct seam_err err;
    uint64_t applied = 0;
    ok(seam_projection_catch_up(table, most, &applied, &err), err);
    return applied;
}

/* "+key=value" puts, "-key" deletes, "*key" deletes from key on, others do nothing. */
int project(void *ctx, const struct seam_event *event, struct seam_emit *out, struct seam_err *err)
{
    const char *p = event->data.ptr;
    size_t len = event->data.len;
    struct seam_op op = {.kind = SEAM_PUT};
    (void)ctx;
    if (len == 0)
        return SEAM_OK;
    const char *equals = memchr(p, '=', len);
    size_t key = equals != NULL ? (size_t)(equals - p) - 1 : len - 1;
    op.key = seam_bytes(p + 1, key);
    if (p[0] == '+' && equals != NULL) {
        op.head = seam_bytes(equals + 1, len - key - 2);
        return seam_emit_op(out, &op, err);
    }
    op.kind = p[0] == '-' ? SEAM_DELETE : SEAM_DELETE_RANGE;
    return p[0] == '-' || p[0] == '*' ? seam_emit_op(out, &op, err) : SEAM_OK;
}

void table_expect(struct seam_projection *table, struct seam_view *view, const char *key,
                  const char *value)
{
    struct seam_pin pin = {0};
    struct seam_err err;
    int rc = seam_projection_get(table, view, text(key), &pin, &err);
    if (value == NULL) {
        assert_int_equal(rc, SEAM_NOTFOUND);
        return;
    }
    ok(rc, err);
    assert_int_equal(pin.value.len, strlen(value));
    assert_memory_equal(pin.value.ptr, value, pin.value.len);
    seam_unpin(&pin);
}

void table_expect_near(struct seam_projection *table, struct seam_view *view, bool floor,
                       const char *prefix, const char *key, const char *found)
{
    struct seam_pin pin = {0};
    struct seam_err err;
    int rc = floor ? seam_projection_floor(table, view, text(prefix), text(key), &pin, &err)
                   : seam_projection_ceiling(table, view, text(prefix), text(key), &pin, &err);
    if (found == NULL) {
        assert_int_equal(rc, SEAM_NOTFOUND);
        return;
    }
    ok(rc, err);
    assert_int_equal(pin.key.len, strlen(found));
    assert_memory_equal(pin.key.ptr, found, pin.key.len);
    seam_unpin(&pin);
}

size_t table_count(struct seam_projection *table)
{
    struct seam_projection_cursor *c;
    struct seam_err err;
    struct seam_slice none = {NULL, 0};
    size_t n = 0;
    ok(seam_projection_cursor_open(table, NULL, none, none, &c, &err), err);
    while (seam_projection_cursor_move(c, SEAM_NEXT, none, NULL, &err) == SEAM_OK)
        n++;
    seam_projection_cursor_close(c);
    return n;
}

/* Puts a key made of the sequence, with the event's data, and overwrites one of ten others. */
int project_numbers(void *ctx, const struct seam_event *event, struct seam_emit *out,
                    struct seam_err *err)
{
    char key[2][16];
    const uint64_t *refuse = ctx;
    unsigned number = (unsigned)event->sequence;
    struct seam_op op = {.kind = SEAM_PUT};
    (void)snprintf(key[0], sizeof(key[0]), "n%08u", number);
    (void)snprintf(key[1], sizeof(key[1]), "m%u", number % 10);
    op.key = text(key[0]);
    op.head = text(key[0]);
    op.body = event->data;
    int rc = seam_emit_op(out, &op, err);
    if (rc == SEAM_OK && refuse != NULL && *refuse == event->sequence)
        return seam_fail(err, SEAM_E_INVALID, "not this one");
    op.key = text(key[1]);
    op.body = seam_bytes(NULL, 0);
    return rc == SEAM_OK ? seam_emit_op(out, &op, err) : rc;
}

void check_numbers(struct seam_projection *t, unsigned upto)
{
    struct seam_err err;
    assert_int_equal(table_count(t), upto + (upto < 10 ? upto : 10));
    for (unsigned i = 1; i <= upto; i++) {
        char key[16];
        struct seam_pin pin = {0};
        (void)snprintf(key, sizeof(key), "n%08u", i);
        ok(seam_projection_get(t, NULL, text(key), &pin, &err), err);
        assert_int_equal(pin.value.len, 9 + (i % 37 == 0 ? LARGE : 5));
        assert_memory_equal(pin.value.ptr, key, 9);
        assert_int_equal(((const uint8_t *)pin.value.ptr)[pin.value.len - 1], (uint8_t)i);
        seam_unpin(&pin);
    }
}

void append_numbers(struct pair *p)
{
    static uint8_t body[LARGE];
    for (unsigned i = 1; i <= NUMBERS; i++) {
        size_t len = i % 37 == 0 ? LARGE : 5;
        memset(body, (uint8_t)i, len);
        pair_append(p, seam_bytes(body, len));
    }
}
