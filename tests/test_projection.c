/* test_projection.c - projections on one engine, fed from a journal on the same db or on another's.
 *
 * argv[1] names the journal's engine, argv[2] the projection's, or "same" for one db. */
#include "seam_support.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *journal_engine, *table_engine;

/* Journal and projection, wherever they are. */
struct pair {
    struct store of_journal, of_table;
    bool same;
    struct seam_db *db; /* the projection's */
    struct seam_journal *j;
    uint32_t stream;
};

static void pair_journal(struct pair *p)
{
    struct seam_err err;
    p->db = p->same ? p->of_journal.db : p->of_table.db;
    ok(seam_journal_open(p->of_journal.db, NULL, &p->j, &err), err);
    ok(seam_journal_stream(p->j, text("s"), true, &p->stream, &err), err);
}

static void pair_open(struct pair *p, const char *wrap)
{
    memset(p, 0, sizeof(*p));
    p->same = strcmp(table_engine, "same") == 0;
    store_open(&p->of_journal, p->same ? wrap : "", journal_engine, NULL);
    if (!p->same)
        store_open(&p->of_table, wrap, table_engine, NULL);
    pair_journal(p);
}

static void pair_reopen(struct pair *p)
{
    struct seam_err err;
    ok(seam_journal_close(p->j, &err), err);
    store_reopen(&p->of_journal);
    if (!p->same)
        store_reopen(&p->of_table);
    pair_journal(p);
}

static void pair_close(struct pair *p)
{
    struct seam_err err;
    ok(seam_journal_close(p->j, &err), err);
    store_close(&p->of_journal);
    if (!p->same)
        store_close(&p->of_table);
}

/* Appended so that it may be applied at once. */
static void append(struct pair *p, struct seam_slice event)
{
    struct seam_err err;
    uint32_t ack = best_ack(p->of_journal.db);
    ok(seam_journal_append(p->j, p->stream, &event, 1, ack, NULL, &err), err);
}

static struct seam_projection_options options_of(struct pair *p, seam_projector projector,
                                                 void *ctx)
{
    return (struct seam_projection_options){
        .journal = p->j, .stream = text("s"), .projector = projector, .projector_ctx = ctx};
}

static struct seam_projection *open_table(struct pair *p, const char *name,
                                          const struct seam_projection_options *o)
{
    struct seam_err err;
    struct seam_projection *table = NULL;
    ok(seam_projection_open(p->db, text(name), o, &table, &err), err);
    return table;
}

static void close_table(struct seam_projection *table)
{
    struct seam_err err;
    ok(seam_projection_close(table, &err), err);
}

static uint64_t catch_up(struct seam_projection *table, uint64_t most)
{
    struct seam_err err;
    uint64_t applied = 0;
    ok(seam_projection_catch_up(table, most, &applied, &err), err);
    return applied;
}

/* "+key=value" puts, "-key" deletes, "*key" deletes from key on, others do nothing. */
static int project(void *ctx, const struct seam_event *event, struct seam_emit *out,
                   struct seam_err *err)
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

static void expect(struct seam_projection *table, struct seam_view *view, const char *key,
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

static void expect_near(struct seam_projection *table, struct seam_view *view, bool floor,
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

static size_t count(struct seam_projection *table)
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

/* ---- tables ------------------------------------------------------------------------------ */

static void tables(void **state)
{
    (void)state;
    struct pair p;
    struct seam_position at;
    struct seam_view *view;
    struct seam_err err;
    pair_open(&p, "");
    struct seam_projection_options o = options_of(&p, project, NULL);
    struct seam_projection *t = open_table(&p, "t", &o), *u = open_table(&p, "u", &o);
    static const char *const events[] = {"+a=1", "+b=2", "+=empty", "+p=3", "+p\xff=4",
                                         "+p\xff\xff=5", "+q=6", "nothing", "-b", "+c="};
    for (size_t i = 0; i < 10; i++)
        append(&p, text(events[i]));
    seam_projection_position(t, &at);
    assert_int_equal(at.sequence, 0);
    assert_int_equal(catch_up(t, 3), 3);
    ok(seam_view_open(t, &view, &err), err);
    assert_int_equal(catch_up(t, 0), 7);
    assert_int_equal(catch_up(t, 0), 0);
    seam_projection_position(t, &at);
    assert_int_equal(at.sequence, 10);
    seam_view_position(view, &at);
    assert_int_equal(at.sequence, 3);
    expect(t, view, "b", "2");
    expect(t, view, "q", NULL);
    expect_near(t, view, true, "", "z", "b");
    expect(t, NULL, "b", NULL);
    expect(t, NULL, "", "empty");
    expect(t, NULL, "c", "");
    expect(t, NULL, "p\xff", "4");
    expect(u, NULL, "a", NULL);
    expect_near(t, NULL, true, "p", "p\xff\xff\xff", "p\xff\xff");
    expect_near(t, NULL, true, "p\xff", "p", NULL);
    expect_near(t, NULL, true, "p\xff", "q", "p\xff\xff");
    expect_near(t, NULL, true, "", "", "");
    expect_near(t, NULL, true, "a", "zzz", "a");
    expect_near(t, NULL, false, "", "b", "c");
    expect_near(t, NULL, false, "p", "p\xff\xff\xff", NULL);
    expect_near(t, NULL, false, "", "r", NULL);
    assert_int_equal(seam_projection_close(t, &err), SEAM_E_BUSY);
    seam_view_close(view);
    /* Ranges stay in the table. */
    assert_int_equal(catch_up(u, 0), 10);
    append(&p, text("*b"));
    assert_int_equal(catch_up(t, 0), 1);
    assert_int_equal(count(t), 2);
    assert_int_equal(count(u), 7);
    close_table(t);
    close_table(u);
    pair_close(&p);
}

static void cursors(void **state)
{
    (void)state;
    struct pair p;
    struct seam_err err;
    struct seam_slice key, value, none = {NULL, 0};
    struct seam_projection_cursor *c;
    pair_open(&p, "");
    struct seam_projection_options o = options_of(&p, project, NULL);
    struct seam_projection *before = open_table(&p, "s", &o), *t = open_table(&p, "t", &o);
    static const char *const events[] = {"+a=1", "+b=2", "+c=3", "+d=4"};
    for (size_t i = 0; i < 4; i++)
        append(&p, text(events[i]));
    catch_up(before, 0);
    catch_up(t, 0);
    ok(seam_projection_cursor_open(t, NULL, text("b"), none, &c, &err), err);
    assert_int_equal(seam_projection_close(t, &err), SEAM_E_BUSY);
    ok(seam_projection_cursor_move(c, SEAM_LAST, none, &key, &err), err);
    assert_int_equal(key.len, 1);
    assert_memory_equal(key.ptr, "d", 1);
    ok(seam_projection_cursor_value(c, &value, &err), err);
    assert_memory_equal(value.ptr, "4", 1);
    assert_int_equal(seam_projection_cursor_move(c, SEAM_NEXT, none, &key, &err), SEAM_NOTFOUND);
    ok(seam_projection_cursor_move(c, SEAM_GE, text("bb"), &key, &err), err);
    assert_memory_equal(key.ptr, "c", 1);
    ok(seam_projection_cursor_move(c, SEAM_PREV, none, &key, &err), err);
    assert_memory_equal(key.ptr, "b", 1);
    assert_int_equal(seam_projection_cursor_move(c, SEAM_PREV, none, &key, &err), SEAM_NOTFOUND);
    ok(seam_projection_cursor_move(c, SEAM_LE, text("cz"), &key, &err), err);
    assert_memory_equal(key.ptr, "c", 1);
    seam_projection_cursor_close(c);
    ok(seam_projection_cursor_open(t, NULL, text("b"), text("d"), &c, &err), err);
    ok(seam_projection_cursor_move(c, SEAM_LAST, none, &key, &err), err);
    assert_memory_equal(key.ptr, "c", 1);
    char longer[700];
    memset(longer, 'a', sizeof(longer));
    ok(seam_projection_cursor_move(c, SEAM_GE, seam_bytes(longer, 700), &key, &err), err);
    assert_memory_equal(key.ptr, "b", 1);
    seam_projection_cursor_close(c);
    close_table(before);
    close_table(t);
    pair_close(&p);
}

/* ---- batches ----------------------------------------------------------------------------- */

/* Puts a key made of the sequence, with the event's data, and overwrites one of ten others. */
static int project_numbers(void *ctx, const struct seam_event *event, struct seam_emit *out,
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

enum { NUMBERS = 300, LARGE = 9000 };

static void check_numbers(struct seam_projection *t, unsigned upto)
{
    struct seam_err err;
    assert_int_equal(count(t), upto + (upto < 10 ? upto : 10));
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

static void append_numbers(struct pair *p)
{
    static uint8_t body[LARGE];
    for (unsigned i = 1; i <= NUMBERS; i++) {
        size_t len = i % 37 == 0 ? LARGE : 5;
        memset(body, (uint8_t)i, len);
        append(p, seam_bytes(body, len));
    }
}

static void batches_under(const char *wrap, uint32_t batch)
{
    struct pair p;
    struct seam_err err;
    uint64_t refuse = 150, applied = 0;
    pair_open(&p, wrap);
    append_numbers(&p);
    struct seam_projection_options o = options_of(&p, project_numbers, &refuse);
    o.batch = batch;
    struct seam_projection *t = open_table(&p, "t", &o);
    assert_int_equal(catch_up(t, 100), 100);
    check_numbers(t, 100);
    /* Events before a failing one are applied, it is not, and a repeat meets it again. */
    assert_int_equal(seam_projection_catch_up(t, 0, &applied, &err), SEAM_E_INVALID);
    assert_string_equal(err.text, "not this one");
    assert_int_equal(applied, 49);
    check_numbers(t, 149);
    assert_int_equal(seam_projection_catch_up(t, 0, &applied, &err), SEAM_E_INVALID);
    assert_int_equal(applied, 0);
    refuse = 0;
    assert_int_equal(catch_up(t, 0), NUMBERS - 149);
    check_numbers(t, NUMBERS);
    close_table(t);
    pair_close(&p);
}

static void batches(void **state)
{
    (void)state;
    batches_under("", 1);
    batches_under("", 7);
    batches_under("", 0);
    batches_under("limit:ops=20+", 0);
    batches_under("limit:bytes=24K+", 0);
}

/* Emits as many puts as the event says. */
static int project_many(void *ctx, const struct seam_event *event, struct seam_emit *out,
                        struct seam_err *err)
{
    (void)ctx;
    int n = *(const uint8_t *)event->data.ptr, rc = SEAM_OK;
    for (int i = 0; i < n && rc == SEAM_OK; i++) {
        uint8_t key = (uint8_t)i;
        struct seam_op op = {.kind = SEAM_PUT, .key = {&key, 1}};
        rc = seam_emit_op(out, &op, err);
    }
    return rc;
}

static void too_large(void **state)
{
    (void)state;
    struct pair p;
    struct seam_err err;
    struct seam_position at;
    uint64_t applied = 0;
    pair_open(&p, "limit:ops=20+");
    struct seam_projection_options o = options_of(&p, project_many, NULL);
    struct seam_projection *t = open_table(&p, "t", &o);
    append(&p, seam_bytes("\x03", 1));
    append(&p, seam_bytes("\x11", 1)); /* 17 and the position: just fits */
    append(&p, seam_bytes("\x05", 1));
    append(&p, seam_bytes("\x12", 1));
    assert_int_equal(seam_projection_catch_up(t, 0, &applied, &err), SEAM_E_TOO_LARGE);
    assert_string_equal(err.limit, "ops");
    assert_non_null(strstr(err.text, "sequence 4"));
    assert_int_equal(applied, 3);
    seam_projection_position(t, &at);
    assert_int_equal(at.sequence, 3);
    assert_int_equal(count(t), 17);
    close_table(t);
    pair_close(&p);
}

/* ---- exactly once ------------------------------------------------------------------------ */

struct counting {
    struct seam_projection *table;
    uint64_t number; /* stays until the commit */
};

/* Adds one to the counter that is stored: an event applied twice or skipped would show. */
static int project_count(void *ctx, const struct seam_event *event, struct seam_emit *out,
                         struct seam_err *err)
{
    struct counting *c = ctx;
    struct seam_pin pin = {0};
    uint64_t n = 0;
    (void)event;
    int rc = seam_projection_get(c->table, NULL, text("count"), &pin, err);
    if (rc == SEAM_OK)
        memcpy(&n, pin.value.ptr, sizeof(n));
    seam_unpin(&pin);
    if (rc != SEAM_OK && rc != SEAM_NOTFOUND)
        return rc;
    c->number = n + 1;
    struct seam_op op = {
        .kind = SEAM_PUT, .key = text("count"), .head = {&c->number, sizeof(c->number)}};
    return seam_emit_op(out, &op, err);
}

static void check_count(struct pair *p, struct counting *c)
{
    struct seam_err err;
    struct seam_position at;
    struct seam_pin pin = {0};
    struct seam_projection_options o = options_of(p, project_count, c);
    o.batch = 1;
    c->table = open_table(p, "t", &o);
    seam_projection_position(c->table, &at);
    uint64_t n = 0;
    int rc = seam_projection_get(c->table, NULL, text("count"), &pin, &err);
    if (rc == SEAM_OK)
        memcpy(&n, pin.value.ptr, sizeof(n));
    seam_unpin(&pin);
    assert_int_equal(n, at.sequence);
}

static void restarts(void **state)
{
    (void)state;
    struct pair p;
    struct counting c;
    struct seam_position at;
    pair_open(&p, "");
    for (int i = 0; i < 40; i++)
        append(&p, text("e"));
    for (int i = 0; i < 6; i++) {
        check_count(&p, &c);
        catch_up(c.table, 7);
        seam_projection_position(c.table, &at);
        assert_int_equal(at.sequence, i < 5 ? (i + 1) * 7 : 40);
        close_table(c.table);
        pair_reopen(&p);
    }
    pair_close(&p);
}

/* The child: appends and applies in turn, and tells each time, until it is killed. */
static int work_until_killed(const char *journal_dir, const char *table_dir)
{
    struct pair p = {.same = strcmp(table_engine, "same") == 0};
    struct counting c;
    struct seam_slice event = text("e");
    store_attach(&p.of_journal, journal_engine, journal_dir);
    if (!p.same)
        store_attach(&p.of_table, table_engine, table_dir);
    pair_journal(&p);
    struct seam_projection_options o = options_of(&p, project_count, &c);
    o.batch = 1;
    o.ack = SEAM_ACK_PROCESS;
    c.table = open_table(&p, "t", &o);
    for (;;) {
        if (seam_journal_append(p.j, p.stream, &event, 1, best_ack(p.of_journal.db), NULL, NULL) !=
                SEAM_OK ||
            seam_projection_catch_up(c.table, 0, NULL, NULL) != SEAM_OK ||
            write(STDOUT_FILENO, "x", 1) != 1)
            return 4;
    }
}

static void killed(void **state)
{
    (void)state;
    struct pair p;
    struct seam_err err;
    pair_open(&p, "");
    if (p.of_journal.is_volatile || (!p.same && p.of_table.is_volatile)) {
        pair_close(&p);
        skip();
    }
    for (int round = 0; round < 4; round++) {
        struct counting c;
        char byte;
        ok(seam_journal_close(p.j, &err), err);
        ok(seam_close(p.of_journal.db, &err), err);
        if (!p.same)
            ok(seam_close(p.of_table.db, &err), err);
        const char *const args[] = {journal_engine, table_engine, p.of_journal.dir,
                                    p.same ? "" : p.of_table.dir, NULL};
        int out, child = spawn_child(args, &out);
        for (int i = 0; i < 15 + round * 3; i++)
            assert_int_equal(read(out, &byte, 1), 1);
        kill(child, SIGKILL);
        close(out);
        assert_int_equal(waitpid(child, NULL, 0), child);
        ok(seam_open(p.of_journal.engine, p.of_journal.dir, &p.of_journal.options,
                     &p.of_journal.db, &err),
           err);
        if (!p.same)
            ok(seam_open(p.of_table.engine, p.of_table.dir, &p.of_table.options, &p.of_table.db,
                         &err),
               err);
        pair_journal(&p);
        check_count(&p, &c);
        catch_up(c.table, 0);
        close_table(c.table);
        check_count(&p, &c);
        close_table(c.table);
    }
    pair_close(&p);
}

/* ---- what may be applied ----------------------------------------------------------------- */

static void durable_only(void **state)
{
    (void)state;
    struct pair p;
    struct seam_err err;
    struct seam_slice event = text("+a=1");
    pair_open(&p, "");
    struct seam_projection_options o = options_of(&p, project, NULL);
    struct seam_projection *t = open_table(&p, "t", &o);
    ok(seam_journal_append(p.j, p.stream, &event, 1, SEAM_ACK_NONE, NULL, &err), err);
    bool waits = !p.same && best_ack(p.of_journal.db) == SEAM_ACK_POWER;
    assert_int_equal(catch_up(t, 0), waits ? 0 : 1);
    if (waits) {
        ok(seam_journal_sync(p.j, SEAM_ACK_POWER, &err), err);
        assert_int_equal(catch_up(t, 0), 1);
    }
    expect(t, NULL, "a", "1");
    close_table(t);
    pair_close(&p);
}

/* ---- positions that do not match --------------------------------------------------------- */

static int same_random(void *ctx, void *buf, size_t len)
{
    (void)ctx;
    memset(buf, 0x42, len);
    return 0;
}

/* The journal is another one that has the same id: as if a copy had been put back. */
static void open_twin(struct store *s, struct seam_platform *os, const char *const *events,
                      size_t n, struct seam_journal **ret)
{
    struct seam_err err;
    struct seam_journal_options o = {.platform = os};
    uint32_t id;
    store_open(s, "", journal_engine, NULL);
    ok(seam_journal_open(s->db, &o, ret, &err), err);
    ok(seam_journal_stream(*ret, text("s"), true, &id, &err), err);
    for (size_t i = 0; i < n; i++) {
        struct seam_slice event = text(events[i]);
        ok(seam_journal_append(*ret, id, &event, 1, best_ack(s->db), NULL, &err), err);
    }
}

static void close_twin(struct store *s, struct seam_journal *j)
{
    struct seam_err err;
    ok(seam_journal_close(j, &err), err);
    store_close(s);
}

static void mismatches(void **state)
{
    (void)state;
    static const char *const events[] = {"+a=1", "+b=2", "+c=3"};
    static const char *const others[] = {"+a=1", "+b=2", "+d=4"};
    struct store one, two, three, of_table;
    struct seam_journal *j, *shorter, *other;
    struct seam_err err;
    struct seam_platform os = *seam_platform_system();
    os.random = same_random;
    open_twin(&one, &os, events, 3, &j);
    open_twin(&two, &os, events, 2, &shorter);
    open_twin(&three, &os, others, 3, &other);
    store_open(&of_table, "", strcmp(table_engine, "same") == 0 ? journal_engine : table_engine,
               NULL);
    struct seam_projection_options o = {.journal = j, .stream = text("s"), .projector = project};
    struct seam_projection *t = NULL;
    ok(seam_projection_open(of_table.db, text("t"), &o, &t, &err), err);
    assert_int_equal(catch_up(t, 0), 3);
    close_table(t);

    o.journal = shorter;
    assert_int_equal(seam_projection_open(of_table.db, text("t"), &o, &t, &err), SEAM_E_MISMATCH);
    assert_non_null(strstr(err.text, "has not reached"));
    o.journal = other;
    assert_int_equal(seam_projection_open(of_table.db, text("t"), &o, &t, &err), SEAM_E_MISMATCH);
    assert_non_null(strstr(err.text, "another event"));
    o.stream = text("r");
    assert_int_equal(seam_projection_open(of_table.db, text("t"), &o, &t, &err), SEAM_E_MISMATCH);
    assert_non_null(strstr(err.text, "another journal or stream"));
    /* Unfed it can be read, but not fed. */
    ok(seam_projection_open(of_table.db, text("t"), NULL, &t, &err), err);
    expect(t, NULL, "c", "3");
    assert_int_equal(seam_projection_catch_up(t, 0, NULL, &err), SEAM_E_INVALID);
    close_table(t);
    /* Rebuilt, it is the other's. */
    o.stream = text("s");
    o.discard = true;
    ok(seam_projection_open(of_table.db, text("t"), &o, &t, &err), err);
    assert_int_equal(count(t), 0);
    assert_int_equal(catch_up(t, 0), 3);
    expect(t, NULL, "c", NULL);
    expect(t, NULL, "d", "4");
    close_table(t);
    o.discard = false;
    ok(seam_projection_open(of_table.db, text("t"), &o, &t, &err), err);
    assert_int_equal(catch_up(t, 0), 0);
    close_table(t);
    store_close(&of_table);
    close_twin(&one, j);
    close_twin(&two, shorter);
    close_twin(&three, other);
}

/* A discard leaves no key of the old table, and none of its neighbours' is touched. */
static void discards(void **state)
{
    (void)state;
    struct pair p;
    struct seam_err err;
    struct seam_slice none = {NULL, 0};
    struct seam_cursor *c;
    pair_open(&p, "");
    append_numbers(&p);
    struct seam_projection_options o = options_of(&p, project_numbers, NULL);
    struct seam_projection *t = open_table(&p, "t", &o), *u = open_table(&p, "u", &o);
    catch_up(t, 0);
    catch_up(u, 0);
    close_table(t);
    o.discard = true;
    t = open_table(&p, "t", &o);
    size_t n = 0;
    ok(seam_cursor_open(p.db, NULL, text("P\x01tT"), text("P\x01tU"), &c, &err), err);
    while (seam_cursor_move(c, SEAM_NEXT, none, NULL, &err) == SEAM_OK)
        n++;
    seam_cursor_close(c);
    assert_int_equal(n, 0);
    check_numbers(u, NUMBERS);
    assert_int_equal(catch_up(t, 0), NUMBERS);
    check_numbers(t, NUMBERS);
    close_table(t);
    close_table(u);
    pair_close(&p);
}

static void bad_calls(void **state)
{
    (void)state;
    struct pair p;
    struct seam_err err;
    struct seam_projection *t;
    char name[SEAM_PROJECTION_NAME_MAX + 1] = {0};
    pair_open(&p, "");
    struct seam_projection_options o = {.journal = p.j, .stream = text("s")};
    assert_int_equal(seam_projection_open(p.db, text("t"), &o, &t, &err), SEAM_E_INVALID);
    o.projector = project;
    assert_int_equal(seam_projection_open(p.db, seam_bytes(name, sizeof(name)), &o, &t, &err),
                     SEAM_E_INVALID);
    assert_int_equal(seam_projection_open(p.db, seam_bytes(name, 0), &o, &t, &err),
                     SEAM_E_INVALID);
    o.stream = seam_bytes(NULL, 0);
    assert_int_equal(seam_projection_open(p.db, text("t"), &o, &t, &err), SEAM_E_INVALID);
    /* Its record damaged, and lost. */
    o.stream = text("s");
    t = open_table(&p, "t", &o);
    append(&p, text("+a=1"));
    catch_up(t, 0);
    close_table(t);
    struct raw_key meta = {{'P', 1, 't', 'M'}, 4};
    uint8_t buf[512];
    size_t len = raw_get(p.db, meta, buf, sizeof(buf));
    buf[40] ^= 1;
    raw_put(p.db, meta, buf, len);
    assert_int_equal(seam_projection_open(p.db, text("t"), &o, &t, &err), SEAM_E_CORRUPT);
    raw_delete(p.db, meta);
    assert_int_equal(seam_projection_open(p.db, text("t"), &o, &t, &err), SEAM_E_CORRUPT);
    o.discard = true;
    t = open_table(&p, "t", &o);
    assert_int_equal(catch_up(t, 0), 1);
    expect(t, NULL, "a", "1");
    close_table(t);
    pair_close(&p);
}

/* ---- merge ------------------------------------------------------------------------------- */

static struct seam_entry entry(const char *key, uint64_t stamp, const char *value)
{
    return (struct seam_entry){text(key), stamp, text(value)};
}

static void expect_stamped(struct seam_projection *t, const char *key, uint64_t stamp,
                           const char *value)
{
    struct seam_pin pin = {0};
    struct seam_err err;
    struct seam_slice rest;
    uint64_t got;
    ok(seam_projection_get(t, NULL, text(key), &pin, &err), err);
    assert_true(seam_stamp(pin.value, &got, &rest));
    assert_int_equal(got, stamp);
    assert_int_equal(rest.len, strlen(value));
    assert_memory_equal(rest.ptr, value, rest.len);
    seam_unpin(&pin);
}

static void merges(void **state)
{
    (void)state;
    struct pair p;
    struct seam_err err;
    struct seam_merged m;
    pair_open(&p, "limit:ops=20+");
    struct seam_projection *t = open_table(&p, "t", NULL);
    struct seam_entry unit[] = {entry("b", 5, "b5"), entry("a", 3, "a3"), entry("b", 7, "b7"),
                                entry("b", 7, "b7 again"), entry("b", 6, "b6")};
    ok(seam_projection_merge(t, unit, 5, SEAM_ACK_NONE, &m, &err), err);
    assert_int_equal(m.written, 2);
    assert_int_equal(m.kept, 3);
    expect_stamped(t, "a", 3, "a3");
    expect_stamped(t, "b", 7, "b7 again");
    ok(seam_projection_merge(t, unit, 5, SEAM_ACK_NONE, &m, &err), err);
    assert_int_equal(m.written, 0);
    assert_int_equal(m.kept, 5);
    struct seam_entry second[] = {entry("a", 2, "old"), entry("b", 8, "b8"), entry("c", 0, "")};
    ok(seam_projection_merge(t, second, 3, best_ack(p.db), &m, &err), err);
    assert_int_equal(m.written, 2);
    assert_true((uint32_t)m.acked.given >= best_ack(p.db));
    expect_stamped(t, "a", 3, "a3");
    expect_stamped(t, "b", 8, "b8");
    expect_stamped(t, "c", 0, "");
    /* Too large is told by the unit after folding, and writes nothing. */
    struct seam_entry large[40];
    char keys[40][4];
    for (size_t i = 0; i < 40; i++) {
        (void)snprintf(keys[i], sizeof(keys[i]), "k%zu", i % 19);
        large[i] = entry(keys[i], i, "v");
    }
    assert_int_equal(seam_projection_merge(t, large, 40, 0, &m, &err), SEAM_E_TOO_LARGE);
    assert_string_equal(err.limit, "ops");
    assert_int_equal(err.max, 18);
    assert_int_equal(err.got, 19);
    assert_int_equal(count(t), 3);
    ok(seam_projection_merge(t, large, 18, 0, &m, &err), err);
    assert_int_equal(m.written, 18);
    large[3].key = seam_bytes(NULL, 2);
    assert_int_equal(seam_projection_merge(t, large, 18, 0, &m, &err), SEAM_E_INVALID);
    assert_int_equal(err.op, 3);
    assert_int_equal(seam_projection_merge(t, large, 0, 0, &m, &err), SEAM_E_INVALID);
    close_table(t);
    pair_close(&p);
}

/* Random units against the newest stamp of each key. */
static void merges_random(void **state)
{
    (void)state;
    enum { KEYS = 50, UNIT = 30 };
    struct pair p;
    struct seam_err err;
    uint64_t seed = test_seed(), newest[KEYS] = {0};
    bool there[KEYS] = {false};
    pair_open(&p, "");
    struct seam_projection *t = open_table(&p, "t", NULL);
    for (int round = 0; round < 100; round++) {
        struct seam_entry unit[UNIT];
        char keys[UNIT][8];
        size_t n = 1 + next_random(&seed) % UNIT;
        bool touched[KEYS] = {false};
        uint64_t before[KEYS];
        memcpy(before, newest, sizeof(before));
        for (size_t i = 0; i < n; i++) {
            unsigned k = (unsigned)(next_random(&seed) % KEYS);
            uint64_t stamp = next_random(&seed) % 1000;
            (void)snprintf(keys[i], sizeof(keys[i]), "%02u", k);
            unit[i] = (struct seam_entry){text(keys[i]), stamp, text(keys[i])};
            if (!there[k] || stamp > newest[k]) {
                newest[k] = stamp;
                touched[k] = true;
                there[k] = true;
            }
        }
        size_t written = 0;
        for (unsigned k = 0; k < KEYS; k++)
            written += touched[k];
        struct seam_merged m;
        ok(seam_projection_merge(t, unit, n, SEAM_ACK_NONE, &m, &err), err);
        assert_int_equal(m.written, written);
        assert_int_equal(m.kept, n - written);
    }
    for (unsigned k = 0; k < KEYS; k++) {
        char key[8];
        (void)snprintf(key, sizeof(key), "%02u", k);
        if (there[k])
            expect_stamped(t, key, newest[k], key);
        else
            expect(t, NULL, key, NULL);
    }
    close_table(t);
    pair_close(&p);
}

int main(int argc, char **argv)
{
    journal_engine = argc > 1 ? argv[1] : "mem";
    table_engine = argc > 2 ? argv[2] : "same";
    if (strcmp(argv[0], "child") == 0 && argc > 4)
        return work_until_killed(argv[3], argv[4]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables),     cmocka_unit_test(cursors),      cmocka_unit_test(batches),
        cmocka_unit_test(too_large),  cmocka_unit_test(restarts),     cmocka_unit_test(killed),
        cmocka_unit_test(mismatches), cmocka_unit_test(durable_only), cmocka_unit_test(discards),
        cmocka_unit_test(bad_calls),  cmocka_unit_test(merges),
        cmocka_unit_test(merges_random),
    };
    return cmocka_run_group_tests_name("projection", tests, NULL, NULL);
}
