/* crash_units.c - see crash_support.h.
 *
 * Relies on a unit following from its shape, writer and number alone: the child makes it to write it,
 * the parent to know what must be there. Keys: "S" is written by all; of writer w "a!" is the mark
 * (letter 'a' + w) and "a017xx" its key 17. The mark says how many units there are. */
#include "crash_support.h"

static struct seam_slice key_at(char *buf, unsigned writer, unsigned i)
{
    int len = snprintf(buf, 16, "%c%03u%.*s", (char)('a' + writer), i, (int)(i % 7), "xxxxxx");

    return seam_bytes(buf, (size_t)len);
}

/* Mostly small, some of a page or so, a few as long as they may be. */
static size_t pick_length(struct support_rng *rng, const struct crash_unit *u, unsigned most)
{
    uint64_t kind = support_below(rng, 16), top = kind < 9 ? 200 : kind < 15 ? 4096 : most;
    size_t len;

    if (top > most)
        top = most;
    len = (size_t)support_below(rng, top + 1);
    return len <= CRASH_UNIT - u->used ? len : CRASH_UNIT - u->used;
}

static void add_put(struct crash_unit *u, struct support_rng *rng, unsigned most)
{
    size_t len = pick_length(rng, u, most), head = (size_t)support_below(rng, len + 1), i = u->n++;
    unsigned char *value = u->values + u->used;

    u->first[i] = (unsigned)support_below(rng, CRASH_KEYS);
    u->last[i] = u->first[i] + 1;
    u->fills[i] = support_next(rng);
    support_fill(value, len, u->fills[i]);
    u->used += len;
    u->ops[i] = op_put2(key_at(u->keys[2 * i], u->writer, u->first[i]), seam_bytes(value, head),
                        seam_bytes(value + head, len - head));
}

static void add_removal(struct crash_unit *u, struct support_rng *rng, bool range)
{
    size_t i = u->n++;

    u->first[i] = (unsigned)support_below(rng, CRASH_KEYS);
    u->last[i] = u->first[i] + 1 + (range ? (unsigned)support_below(rng, 20) : 0);
    if (u->last[i] > CRASH_KEYS)
        u->last[i] = CRASH_KEYS;
    if (range && u->last[i] < CRASH_KEYS)
        u->ops[i] = op_range(key_at(u->keys[2 * i], u->writer, u->first[i]),
                             key_at(u->keys[2 * i + 1], u->writer, u->last[i]));
    else
        u->ops[i] = op_delete(key_at(u->keys[2 * i], u->writer, u->first[i]));
    if (u->ops[i].kind == SEAM_DELETE)
        u->last[i] = u->first[i] + 1;
}

static uint64_t unit_seed(const struct crash_shape *shape, unsigned writer, uint64_t number)
{
    struct support_rng rng = {shape->seed ^ (uint64_t)writer << 56 ^ number * 0x9e37u};

    return support_next(&rng);
}

void crash_unit_make(struct crash_unit *u, const struct crash_shape *shape, unsigned writer,
                     uint64_t number)
{
    struct support_rng rng = {unit_seed(shape, writer, number)};
    uint64_t kind = support_below(&rng, 8);
    unsigned top = kind < 4 ? 5 : kind < 7 ? 40 : CRASH_OPS;
    unsigned n = 1 + (unsigned)support_below(&rng, top < shape->ops ? top : shape->ops);

    u->writer = writer;
    u->number = number;
    u->n = u->used = 0;
    while (u->n < n) {
        uint64_t what = support_below(&rng, 12);
        if (what < 9)
            add_put(u, &rng, shape->value);
        else
            add_removal(u, &rng, what == 11);
    }
    u->mark_key[0] = (char)('a' + writer);
    u->mark_key[1] = '!';
    u->mark[0] = number;
    u->mark[1] = shape->seed;
    u->shared[0] = writer;
    u->shared[1] = number;
    u->ops[u->n++] = op_put(seam_bytes(u->mark_key, 2), seam_bytes(u->mark, sizeof(u->mark)));
    u->ops[u->n++] = op_put(LIT("S"), seam_bytes(u->shared, sizeof(u->shared)));
}

void crash_model_apply(struct crash_model *m, const struct crash_unit *u)
{
    for (size_t i = 0; i + 2 < u->n; i++)
        for (unsigned k = u->first[i]; k < u->last[i]; k++) {
            struct crash_cell *cell = &m->cells[u->writer][k];
            cell->there = u->ops[i].kind == SEAM_PUT;
            cell->len = (uint32_t)(u->ops[i].head.len + u->ops[i].body.len);
            cell->fill = u->fills[i];
        }
    m->done[u->writer] = u->number;
    m->mark[u->writer] = u->mark[1];
}

/* Two words under key; zeros if there is none. */
static void read_words(struct seam_db *db, struct seam_slice key, uint64_t ret[2])
{
    struct seam_err err = {0};
    struct seam_pin pin = {0};
    int rc = seam_get(db, NULL, key, &pin, &err);

    ret[0] = ret[1] = 0;
    if (rc == SEAM_NOTFOUND)
        return;
    expect_ok(rc, &err);
    assert_int_equal(pin.value.len, 16);
    memcpy(ret, pin.value.ptr, 16);
    seam_unpin(&pin);
}

uint64_t crash_model_learn(struct crash_model *m, struct seam_db *db,
                           const struct crash_shape *shape, unsigned writer, uint64_t least,
                           uint64_t most)
{
    char key[2] = {(char)('a' + writer), '!'};
    struct crash_unit *u = malloc(sizeof(*u));
    uint64_t mark[2];

    assert_non_null(u);
    read_words(db, seam_bytes(key, 2), mark);
    if (mark[0] < least || mark[0] > most || mark[0] < m->done[writer])
        fail_msg("writer %u: %llu units are there, at least %llu were acked, %llu begun", writer,
                 (unsigned long long)mark[0], (unsigned long long)least, (unsigned long long)most);
    while (m->done[writer] < mark[0]) {
        crash_unit_make(u, shape, writer, m->done[writer] + 1);
        crash_model_apply(m, u);
    }
    free(u);
    return mark[0];
}

/* ---- the whole db ---------------------------------------------------------------------------- */

struct walk {
    struct seam_cursor *at;
    unsigned char *want; /* room for the longest value */
};

/* The cursor's next key is this one and its value is want[0..len). */
static void expect_next(struct walk *w, struct seam_slice key, size_t len)
{
    struct seam_err err = {0};
    struct seam_slice got, value;
    int rc = seam_cursor_move(w->at, SEAM_NEXT, NONE, &got, &err);

    if (rc == SEAM_NOTFOUND || (rc == SEAM_OK && !support_same(got, key)))
        fail_msg("key %.*s should be next, and %.*s is", (int)key.len, (const char *)key.ptr,
                 rc == SEAM_OK ? (int)got.len : 7, rc == SEAM_OK ? (const char *)got.ptr : "the end");
    expect_ok(rc, &err);
    expect_ok(seam_cursor_value(w->at, &value, &err), &err);
    if (!support_same(value, seam_bytes(w->want, len)))
        fail_msg("the value of %.*s (%zu bytes) is not the one written (%zu bytes)", (int)key.len,
                 (const char *)key.ptr, value.len, len);
}

static void check_writer(const struct crash_model *m, unsigned writer, struct walk *w)
{
    char key[16] = {(char)('a' + writer), '!'};

    if (m->done[writer] == 0)
        return;
    memcpy(w->want, &m->done[writer], 8);
    memcpy(w->want + 8, &m->mark[writer], 8);
    expect_next(w, seam_bytes(key, 2), 16);
    for (unsigned i = 0; i < CRASH_KEYS; i++) {
        const struct crash_cell *cell = &m->cells[writer][i];
        if (!cell->there)
            continue;
        support_fill(w->want, cell->len, cell->fill);
        expect_next(w, key_at(key, writer, i), cell->len);
    }
}

void crash_model_check(const struct crash_model *m, struct seam_db *db)
{
    struct walk w = {NULL, malloc(CRASH_UNIT)};
    struct seam_err err = {0};
    uint64_t shared[2], units = 0;
    struct seam_slice key;

    assert_non_null(w.want);
    for (unsigned i = 0; i < CRASH_WRITERS; i++)
        units += m->done[i];
    read_words(db, LIT("S"), shared);
    expect_ok(seam_cursor_open(db, NULL, NONE, NONE, &w.at, &err), &err);
    if (units > 0) {
        /* The newest unit of all is the newest of its writer. */
        assert_in_range(shared[0], 0, CRASH_WRITERS - 1);
        assert_int_equal(shared[1], m->done[shared[0]]);
        memcpy(w.want, shared, 16);
        expect_next(&w, LIT("S"), 16);
    }
    for (unsigned i = 0; i < CRASH_WRITERS; i++)
        check_writer(m, i, &w);
    expect_code(seam_cursor_move(w.at, SEAM_NEXT, NONE, &key, &err), SEAM_NOTFOUND, &err);
    seam_cursor_close(w.at);
    free(w.want);
}
