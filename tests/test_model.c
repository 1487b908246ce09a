/* test_model.c - test_model ENGINE-SPEC: random work, and every answer compared with a sorted array
 * (model.c) and with the mem engine doing the same beside it.
 *
 * SEAM_SEED replays a run exactly; SEAM_OPS is how many steps. Everything random comes from one
 * generator in one thread. Handles are kept open over many commits, so that what must not change is
 * looked at long after. */
#include "model.h"

enum { SNAPS = 5, CURSORS = 5, PINS = 8, HELD = 3, BATCH_MAX = 24, SIDES = 2 };

/* A place in a cursor's model: -1 before the first, n after the last, FRESH. */
#define FRESH SIZE_MAX
#define BEFORE (SIZE_MAX - 1)

struct held_snap {
    bool open;
    struct seam_snap *on[SIDES];
    struct model then;
};

struct held_cursor {
    bool open;
    struct seam_cursor *on[SIDES];
    struct model then; /* cut to the bounds */
    size_t place;
    int snap; /* index in snaps, -1: its own */
};

struct held_pin {
    bool open, has_key;
    struct seam_pin on[SIDES];
    struct model_entry entry;
    int snap;
};

struct held_batch {
    bool open;
    size_t n;
    struct model_op ops[BATCH_MAX];
    struct seam_op seam[BATCH_MAX];
    struct seam_ticket *on[SIDES];
};

struct world {
    struct support_rng rng;
    const char *dir;
    size_t sides; /* 1 when mem itself is tested */
    struct seam_db *db[SIDES];
    struct model now;
    struct held_snap snaps[SNAPS];
    struct held_cursor cursors[CURSORS];
    struct held_pin pins[PINS];
    struct held_batch held[HELD];
    struct held_batch direct;
    uint64_t step;
};

static uint64_t below(struct world *w, uint64_t n)
{
    return support_below(&w->rng, n);
}

static void say(const struct world *w, size_t side, const char *what)
{
    print_error("step %llu of SEAM_SEED=%llu, side %s: %s\n", (unsigned long long)w->step,
                (unsigned long long)support_seed(), side ? "mem" : support_spec(), what);
}

#define check_code(w, side, got, want, err)                                                       \
    do {                                                                                          \
        int code_ = (got);                                                                        \
        if (code_ != (want)) {                                                                    \
            say(w, side, #got);                                                                   \
            expect_code(code_, want, err);                                                        \
        }                                                                                         \
    } while (0)

static void check_true(const struct world *w, size_t side, bool holds, const char *what)
{
    if (!holds) {
        say(w, side, what);
        fail();
    }
}

static void check_entry(const struct world *w, size_t side, const struct model_entry *want,
                        const struct seam_slice *key, struct seam_slice value)
{
    if (key)
        check_true(w, side, support_same(*key, model_slice(&want->key)), "another key");
    check_true(w, side, model_value_is(want, value), "another value");
}

/* ---- commits ------------------------------------------------------------------------------- */

static void draw_batch(struct world *w, struct held_batch *b)
{
    b->n = 1 + (below(w, 4) ? below(w, 4) : below(w, BATCH_MAX));
    for (size_t i = 0; i < b->n; i++) {
        model_draw_op(&w->rng, &b->ops[i]);
        b->seam[i] = model_seam_op(&b->ops[i]);
    }
}

static void drop_batch(struct held_batch *b)
{
    for (size_t i = 0; i < b->n; i++)
        model_op_free(&b->ops[i]);
    b->open = false;
}

static void apply_batch(struct world *w, struct held_batch *b)
{
    for (size_t i = 0; i < b->n; i++)
        model_apply(&w->now, &b->ops[i]);
    drop_batch(b);
}

static void do_write(struct world *w)
{
    struct held_batch *b = &w->direct;
    struct seam_err err = {0};

    draw_batch(w, b);
    for (size_t s = 0; s < w->sides; s++)
        check_code(w, s, seam_write(w->db[s], b->seam, b->n, SEAM_ACK_NONE, NULL, &err), SEAM_OK,
                   &err);
    apply_batch(w, b);
}

/* Prepares one, or finishes one that was prepared earlier. */
static void do_ticket(struct world *w)
{
    struct held_batch *b = &w->held[below(w, HELD)];
    struct seam_err err = {0};
    bool commit;

    if (!b->open) {
        draw_batch(w, b);
        for (size_t s = 0; s < w->sides; s++)
            check_code(w, s, seam_prepare(w->db[s], b->seam, b->n, SEAM_ACK_NONE, &b->on[s], &err),
                       SEAM_OK, &err);
        b->open = true;
        return;
    }
    commit = below(w, 3) != 0;
    for (size_t s = 0; s < w->sides; s++) {
        if (commit)
            check_code(w, s, seam_commit(b->on[s], NULL, &err), SEAM_OK, &err);
        else
            seam_abort(b->on[s]);
    }
    if (commit)
        apply_batch(w, b);
    else
        drop_batch(b);
}

/* A bad op anywhere: refused, and nothing of the rest is done. */
static void do_refused(struct world *w)
{
    struct held_batch *b = &w->direct;
    struct seam_err err = {0};
    size_t at;

    draw_batch(w, b);
    at = below(w, b->n);
    b->seam[at] = below(w, 2) ? op_range(LIT("b"), LIT("a")) : op_put(NONE, LIT("v"));
    for (size_t s = 0; s < w->sides; s++) {
        check_code(w, s, seam_write(w->db[s], b->seam, b->n, SEAM_ACK_NONE, NULL, &err),
                   SEAM_E_INVALID, &err);
        check_true(w, s, err.op == at, "another index of the bad op");
    }
    drop_batch(b);
}

/* ---- snapshots ----------------------------------------------------------------------------- */

static bool snap_used(const struct world *w, int i)
{
    for (size_t c = 0; c < CURSORS; c++)
        if (w->cursors[c].open && w->cursors[c].snap == i)
            return true;
    for (size_t p = 0; p < PINS; p++)
        if (w->pins[p].open && w->pins[p].snap == i)
            return true;
    return false;
}

static void close_snap(struct world *w, struct held_snap *h)
{
    for (size_t s = 0; s < w->sides; s++)
        seam_snap_close(h->on[s]);
    model_free(&h->then);
    h->open = false;
}

static void do_snap(struct world *w)
{
    int i = (int)below(w, SNAPS);
    struct held_snap *h = &w->snaps[i];
    struct seam_err err = {0};

    if (h->open) {
        if (!snap_used(w, i))
            close_snap(w, h);
        return;
    }
    for (size_t s = 0; s < w->sides; s++)
        check_code(w, s, seam_snap_open(w->db[s], &h->on[s], &err), SEAM_OK, &err);
    h->then = model_copy(&w->now);
    h->open = true;
}

/* A snapshot that is open, or -1 for now; and what was to be seen then. */
static int draw_snap(struct world *w, const struct model **then)
{
    int i = (int)below(w, SNAPS * 2);

    if (i >= SNAPS || !w->snaps[i].open) {
        *then = &w->now;
        return -1;
    }
    *then = &w->snaps[i].then;
    return i;
}

static struct seam_snap *snap_on(const struct world *w, int i, size_t side)
{
    return i < 0 ? NULL : w->snaps[i].on[side];
}

/* ---- point reads and pins ------------------------------------------------------------------ */

static bool begins(struct seam_slice key, struct seam_slice prefix)
{
    return key.len >= prefix.len && (prefix.len == 0 || memcmp(key.ptr, prefix.ptr, prefix.len) == 0);
}

static const struct model_entry *model_near(const struct model *m, struct seam_slice prefix,
                                            struct seam_slice key, bool floor)
{
    const struct model_entry *found = NULL;

    for (size_t i = 0; i < m->n; i++) {
        struct seam_slice k = model_slice(&m->entries[i].key);
        int order = model_compare(k, key);
        if (!begins(k, prefix))
            continue;
        if (!floor && order >= 0)
            return &m->entries[i];
        if (floor && order <= 0)
            found = &m->entries[i];
    }
    return found;
}

static const struct model_entry *model_get(const struct model *m, struct seam_slice key)
{
    size_t i = model_seek(m, key);

    return i < m->n && support_same(model_slice(&m->entries[i].key), key) ? &m->entries[i] : NULL;
}

static void unpin(struct world *w, struct held_pin *h)
{
    for (size_t s = 0; s < w->sides; s++) {
        check_entry(w, s, &h->entry, h->has_key ? &h->on[s].key : NULL, h->on[s].value);
        seam_unpin(&h->on[s]);
    }
    h->open = false;
}

/* get, floor or ceiling; the pin is kept when there is room for it. */
static void do_read(struct world *w)
{
    struct held_pin *h = &w->pins[below(w, PINS)], pin;
    const struct model *then;
    struct model_key key = model_draw_key(&w->rng), prefix = model_draw_key(&w->rng);
    uint64_t how = below(w, 3);
    const struct model_entry *want;
    struct seam_err err = {0};

    memset(&pin, 0, sizeof(pin));
    pin.snap = draw_snap(w, &then);
    pin.has_key = how > 0;
    prefix.len = (uint8_t)below(w, (uint64_t)prefix.len + 1);
    if (below(w, 2))
        prefix.len = prefix.len > 1 ? 1 : prefix.len;
    want = how ? model_near(then, model_slice(&prefix), model_slice(&key), how == 1)
               : model_get(then, model_slice(&key));
    for (size_t s = 0; s < w->sides; s++) {
        struct seam_snap *snap = snap_on(w, pin.snap, s);
        struct seam_slice p = model_slice(&prefix), k = model_slice(&key);
        int rc = how == 0   ? seam_get(w->db[s], snap, k, &pin.on[s], &err)
                 : how == 1 ? seam_floor(w->db[s], snap, p, k, &pin.on[s], &err)
                            : seam_ceiling(w->db[s], snap, p, k, &pin.on[s], &err);
        check_code(w, s, rc, want ? SEAM_OK : SEAM_NOTFOUND, &err);
    }
    if (!want)
        return;
    pin.entry = *want;
    pin.open = true;
    if (h->open)
        unpin(w, h);
    *h = pin;
    if (below(w, 4))
        unpin(w, h);
}

/* ---- cursors ------------------------------------------------------------------------------- */

static void close_cursor(struct world *w, struct held_cursor *h)
{
    for (size_t s = 0; s < w->sides; s++)
        seam_cursor_close(h->on[s]);
    model_free(&h->then);
    h->open = false;
}

static void open_cursor(struct world *w, struct held_cursor *h)
{
    struct model_key lower = model_draw_key(&w->rng), upper = model_draw_key(&w->rng);
    struct seam_slice lo = below(w, 2) ? NONE : model_slice(&lower);
    struct seam_slice hi = below(w, 2) ? NONE : model_slice(&upper);
    const struct model *then;
    struct seam_err err = {0};
    size_t end;

    h->snap = draw_snap(w, &then);
    for (size_t s = 0; s < w->sides; s++)
        check_code(w, s,
                   seam_cursor_open(w->db[s], snap_on(w, h->snap, s), lo, hi, &h->on[s], &err),
                   SEAM_OK, &err);
    h->then = model_copy(then);
    end = hi.ptr ? model_seek(&h->then, hi) : h->then.n;
    h->then.n = end;
    if (lo.ptr) {
        size_t begin = model_seek(&h->then, lo);
        memmove(h->then.entries, h->then.entries + begin,
                (h->then.n - begin) * sizeof(*h->then.entries));
        h->then.n -= begin;
    }
    h->place = FRESH;
    h->open = true;
}

/* The place after the move, and whether it is on a key. */
static bool model_step(struct held_cursor *h, enum seam_move how, struct seam_slice at)
{
    const struct model *m = &h->then;
    bool up = how == SEAM_FIRST || how == SEAM_NEXT || how == SEAM_GE;
    size_t to = h->place;

    switch (how) {
    case SEAM_FIRST:
        to = 0;
        break;
    case SEAM_LAST:
        to = m->n - 1; /* SIZE_MAX when empty: no key */
        break;
    case SEAM_NEXT:
        to = to == FRESH || to == BEFORE ? 0 : to < m->n ? to + 1 : m->n;
        break;
    case SEAM_PREV:
        to = to == FRESH ? m->n - 1 : to == BEFORE ? SIZE_MAX : to - 1;
        break;
    case SEAM_GE:
        to = model_seek(m, at);
        break;
    case SEAM_LE:
        to = model_seek(m, at);
        if (to == m->n || model_compare(model_slice(&m->entries[to].key), at) != 0)
            to--;
        break;
    }
    if (to < m->n) {
        h->place = to;
        return true;
    }
    h->place = up ? m->n : BEFORE;
    return false;
}

static void move_cursor(struct world *w, struct held_cursor *h)
{
    static const enum seam_move moves[] = {SEAM_NEXT, SEAM_NEXT, SEAM_NEXT,  SEAM_PREV, SEAM_PREV,
                                           SEAM_PREV, SEAM_GE,   SEAM_FIRST, SEAM_LAST, SEAM_LE};
    enum seam_move how = moves[below(w, 10)];
    struct model_key at = model_draw_key(&w->rng);
    bool found = model_step(h, how, model_slice(&at));
    bool look = below(w, 2);
    struct seam_err err = {0};

    for (size_t s = 0; s < w->sides; s++) {
        struct seam_slice key, value;
        check_code(w, s, seam_cursor_move(h->on[s], how, model_slice(&at), &key, &err),
                   found ? SEAM_OK : SEAM_NOTFOUND, &err);
        if (!found)
            continue;
        check_true(w, s, support_same(key, model_slice(&h->then.entries[h->place].key)),
                   "a cursor on another key");
        if (!look)
            continue;
        check_code(w, s, seam_cursor_value(h->on[s], &value, &err), SEAM_OK, &err);
        check_entry(w, s, &h->then.entries[h->place], &key, value);
    }
}

static void do_cursor(struct world *w)
{
    struct held_cursor *h = &w->cursors[below(w, CURSORS)];

    if (!h->open)
        open_cursor(w, h);
    for (uint64_t i = below(w, 6); i > 0; i--)
        move_cursor(w, h);
    if (below(w, 8) == 0)
        close_cursor(w, h);
}

/* ---- the whole ----------------------------------------------------------------------------- */

static void scan(struct world *w, size_t s, struct seam_snap *snap, const struct model *m)
{
    struct seam_cursor *c;
    struct seam_slice key, value;
    struct seam_err err = {0};

    check_code(w, s, seam_cursor_open(w->db[s], snap, NONE, NONE, &c, &err), SEAM_OK, &err);
    for (size_t i = 0; i < 2 * m->n; i++) {
        size_t at = i < m->n ? i : 2 * m->n - 1 - i;
        if (i == m->n)
            check_code(w, s, seam_cursor_move(c, SEAM_NEXT, NONE, &key, &err), SEAM_NOTFOUND, &err);
        check_code(w, s, seam_cursor_move(c, i < m->n ? SEAM_NEXT : SEAM_PREV, NONE, &key, &err),
                   SEAM_OK, &err);
        check_code(w, s, seam_cursor_value(c, &value, &err), SEAM_OK, &err);
        check_entry(w, s, &m->entries[at], &key, value);
    }
    check_code(w, s, seam_cursor_move(c, SEAM_PREV, NONE, &key, &err), SEAM_NOTFOUND, &err);
    seam_cursor_close(c);
}

static void scan_all(struct world *w)
{
    struct seam_stats stats;

    for (size_t s = 0; s < w->sides; s++) {
        scan(w, s, NULL, &w->now);
        for (size_t i = 0; i < SNAPS; i++)
            if (w->snaps[i].open)
                scan(w, s, w->snaps[i].on[s], &w->snaps[i].then);
        check_code(w, s, seam_db_stats(w->db[s], &stats, NULL), SEAM_OK, NULL);
        check_true(w, s, stats.keys == -1 || stats.keys == (int64_t)w->now.n, "stats.keys");
    }
}

static void close_handles(struct world *w)
{
    for (size_t i = 0; i < PINS; i++)
        if (w->pins[i].open)
            unpin(w, &w->pins[i]);
    for (size_t i = 0; i < CURSORS; i++)
        if (w->cursors[i].open)
            close_cursor(w, &w->cursors[i]);
    for (size_t i = 0; i < SNAPS; i++)
        if (w->snaps[i].open)
            close_snap(w, &w->snaps[i]);
    for (size_t i = 0; i < HELD; i++)
        if (w->held[i].open) {
            for (size_t s = 0; s < w->sides; s++)
                seam_abort(w->held[i].on[s]);
            drop_batch(&w->held[i]);
        }
}

static void reopen(struct world *w)
{
    scan_all(w);
    close_handles(w);
    if (!support_volatile()) {
        support_close(w->db[0]);
        w->db[0] = support_open(w->dir);
    }
    scan_all(w);
}

static void step(struct world *w)
{
    uint64_t kind = below(w, 1000);

    if (kind < 300)
        do_write(w);
    else if (kind < 400)
        do_ticket(w);
    else if (kind < 410)
        do_refused(w);
    else if (kind < 470)
        do_snap(w);
    else if (kind < 740)
        do_read(w);
    else if (kind < 994)
        do_cursor(w);
    else if (kind < 998)
        scan_all(w);
    else
        reopen(w);
}

static void test_against_model(void **state)
{
    static struct world w;
    uint64_t steps = support_number("SEAM_OPS", 20000);

    (void)state;
    w.rng.state = support_seed();
    w.dir = strdup(support_dir());
    w.sides = strcmp(support_spec(), "mem") == 0 || !support_has("mem") ? 1 : 2;
    w.db[0] = support_open(w.dir);
    if (w.sides == 2)
        w.db[1] = support_open_with("mem", NULL, NULL);
    for (w.step = 1; w.step <= steps; w.step++)
        step(&w);
    reopen(&w);
    close_handles(&w);
    for (size_t s = 0; s < w.sides; s++)
        support_close(w.db[s]);
    model_free(&w.now);
    free((void *)(uintptr_t)w.dir);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest model[] = {cmocka_unit_test(test_against_model)};
    int rc = support_begin(argc, argv);

    return rc ? rc : cmocka_run_group_tests(model, NULL, NULL);
}
