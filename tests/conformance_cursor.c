/* conformance_cursor.c - cursors against a plain array: every move from every place, all bounds. */
#include "conformance.h"

static struct seam_db *db;

static int setup(void **state)
{
    (void)state;
    db = support_open(support_dir());
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    support_close(db);
    db = NULL;
    return 0;
}

/* ---- the model ----------------------------------------------------------------------------- */

enum { UNIVERSE = 15 };

/* In key order. */
static const struct {
    size_t len;
    unsigned char bytes[3];
} universe[UNIVERSE] = {
    {1, {0}},          {2, {0, 0xff}},    {1, {'a'}},       {2, {'a', 0}},     {2, {'a', 'b'}},
    {2, {'a', 0xff}},  {3, {'a', 0xff, 0xff}}, {1, {'b'}},  {2, {'b', 'b'}},   {1, {'c'}},
    {1, {0xfe}},       {2, {0xfe, 0xff}}, {1, {0xff}},      {2, {0xff, 0}},    {2, {0xff, 0xff}},
};

static struct seam_slice key_of(int i)
{
    return seam_bytes(universe[i].bytes, universe[i].len);
}

/* place: -1 before the first, n after the last, FRESH, or where it stands in at[]. */
enum { FRESH = 1000 };

struct model {
    int at[UNIVERSE], n, place;
};

/* lower and upper are indexes; -1 lower: none, UNIVERSE upper: none. */
static void model_open(struct model *m, const bool stored[UNIVERSE], int lower, int upper)
{
    m->n = 0;
    m->place = FRESH;
    for (int i = lower < 0 ? 0 : lower; i < upper; i++)
        if (stored[i])
            m->at[m->n++] = i;
}

static bool model_move(struct model *m, enum seam_move how, int where)
{
    bool up = how == SEAM_FIRST || how == SEAM_NEXT || how == SEAM_GE;
    int i = m->place;

    switch (how) {
    case SEAM_FIRST:
        i = 0;
        break;
    case SEAM_LAST:
        i = m->n - 1;
        break;
    case SEAM_NEXT:
        i = i == FRESH ? 0 : i < m->n ? i + 1 : i;
        break;
    case SEAM_PREV:
        i = i == FRESH ? m->n - 1 : i >= 0 ? i - 1 : i;
        break;
    case SEAM_GE:
        for (i = 0; i < m->n && m->at[i] < where;)
            i++;
        break;
    case SEAM_LE:
        for (i = m->n - 1; i >= 0 && m->at[i] > where;)
            i--;
        break;
    }
    if (i >= 0 && i < m->n) {
        m->place = i;
        return true;
    }
    m->place = up ? m->n : -1;
    return false;
}

static void check_move(struct seam_cursor *c, struct model *m, enum seam_move how, int where)
{
    struct seam_err err = {0};
    struct seam_slice key, value;
    bool found = model_move(m, how, where);

    expect_code(seam_cursor_move(c, how, key_of(where), &key, &err),
                found ? SEAM_OK : SEAM_NOTFOUND, &err);
    if (!found) {
        expect_code(seam_cursor_value(c, &value, &err), SEAM_E_INVALID, &err);
        return;
    }
    expect_bytes(key, key_of(m->at[m->place]));
    expect_ok(seam_cursor_value(c, &value, &err), &err);
    expect_bytes(value, seam_bytes(&m->at[m->place], sizeof(int)));
}

static void store_some(bool stored[UNIVERSE], struct support_rng *rng, uint64_t of_ten)
{
    write_ok(db, (struct seam_op[]){op_range(LIT("\0"), NONE)}, 1);
    for (int i = 0; i < UNIVERSE; i++) {
        stored[i] = support_below(rng, 10) < of_ten;
        if (stored[i])
            put_ok(db, key_of(i), seam_bytes(&i, sizeof(i)));
    }
}

static void open_both(struct seam_cursor **c, struct model *m, struct seam_snap *snap,
                      const bool stored[UNIVERSE], int lower, int upper)
{
    struct seam_err err = {0};
    struct seam_slice lo = lower < 0 ? NONE : key_of(lower);
    struct seam_slice hi = upper >= UNIVERSE ? NONE : key_of(upper);

    expect_ok(seam_cursor_open(db, snap, lo, hi, c, &err), &err);
    model_open(m, stored, lower, upper);
}

static void random_walk(const bool stored[UNIVERSE], struct support_rng *rng, int lower, int upper,
                        int moves)
{
    struct seam_cursor *c;
    struct model m;

    open_both(&c, &m, NULL, stored, lower, upper);
    for (int i = 0; i < moves; i++) {
        /* NEXT and PREV three times as often as the others, so that ends are met and crossed. */
        static const enum seam_move moves_of[] = {SEAM_NEXT, SEAM_NEXT, SEAM_NEXT, SEAM_PREV,
                                                  SEAM_PREV, SEAM_PREV, SEAM_FIRST, SEAM_LAST,
                                                  SEAM_GE,   SEAM_LE};
        check_move(c, &m, moves_of[support_below(rng, 10)], (int)support_below(rng, UNIVERSE));
    }
    seam_cursor_close(c);
}

static void test_random_walks(void **state)
{
    static const uint64_t densities[] = {10, 6, 2, 0};
    struct support_rng rng = {support_seed()};
    bool stored[UNIVERSE];

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        store_some(stored, &rng, densities[i]);
        for (int lower = -1; lower < UNIVERSE; lower++)
            for (int upper = 0; upper <= UNIVERSE; upper++)
                random_walk(stored, &rng, lower, upper, 30);
    }
}

/* From every place, fresh and both ends included, every pair of moves. */
static void test_direction_changes_everywhere(void **state)
{
    struct support_rng rng = {support_seed() + 1};
    bool stored[UNIVERSE];
    struct seam_cursor *c;
    struct model m;

    (void)state;
    store_some(stored, &rng, 6);
    for (int start = -2; start <= UNIVERSE; start++)
        for (int pair = 0; pair < 36; pair++) {
            open_both(&c, &m, NULL, stored, 2, 13);
            if (start == -1)
                check_move(c, &m, SEAM_LE, 0);
            else if (start == UNIVERSE)
                check_move(c, &m, SEAM_GE, 14);
            else if (start >= 0)
                check_move(c, &m, SEAM_GE, start);
            check_move(c, &m, (enum seam_move)(pair / 6), start < 0 ? 5 : start % UNIVERSE);
            check_move(c, &m, (enum seam_move)(pair % 6), 8);
            check_move(c, &m, SEAM_NEXT, 0);
            check_move(c, &m, SEAM_PREV, 0);
            seam_cursor_close(c);
        }
}

static void test_at_the_ends(void **state)
{
    struct seam_cursor *c;
    struct seam_slice key;

    (void)state;
    put_ok(db, LIT("a"), LIT("1"));
    put_ok(db, LIT("b"), LIT("2"));
    expect_ok(seam_cursor_open(db, NULL, NONE, NONE, &c, NULL), NULL);
    for (int i = 0; i < 3; i++) {
        expect_ok(seam_cursor_move(c, SEAM_NEXT, NONE, &key, NULL), NULL);
        expect_bytes(key, LIT("a"));
        expect_ok(seam_cursor_move(c, SEAM_NEXT, NONE, NULL, NULL), NULL);
        expect_code(seam_cursor_move(c, SEAM_NEXT, NONE, &key, NULL), SEAM_NOTFOUND, NULL);
        expect_code(seam_cursor_move(c, SEAM_NEXT, NONE, &key, NULL), SEAM_NOTFOUND, NULL);
        expect_ok(seam_cursor_move(c, SEAM_PREV, NONE, &key, NULL), NULL);
        expect_bytes(key, LIT("b"));
        expect_ok(seam_cursor_move(c, SEAM_PREV, NONE, &key, NULL), NULL);
        expect_bytes(key, LIT("a"));
        expect_code(seam_cursor_move(c, SEAM_PREV, NONE, &key, NULL), SEAM_NOTFOUND, NULL);
        expect_code(seam_cursor_move(c, SEAM_PREV, NONE, &key, NULL), SEAM_NOTFOUND, NULL);
    }
    seam_cursor_close(c);
    seam_cursor_close(NULL);
}

/* ---- bounds and arguments ------------------------------------------------------------------ */

static void test_empty_ranges(void **state)
{
    struct {
        struct seam_slice lower, upper;
    } t[] = {{LIT("b"), LIT("b")}, {LIT("c"), LIT("a")}, {LIT("b\0"), LIT("b")},
             {LIT("bb"), LIT("c")}, {NONE, LIT("")},      {NONE, LIT("a")},
             {LIT("d"), NONE}};

    (void)state;
    put_ok(db, LIT("a"), LIT("1"));
    put_ok(db, LIT("b"), LIT("2"));
    put_ok(db, LIT("c"), LIT("3"));
    for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
        for (int how = SEAM_FIRST; how <= SEAM_LE; how++) {
            struct seam_cursor *c;
            struct seam_slice value;
            expect_ok(seam_cursor_open(db, NULL, t[i].lower, t[i].upper, &c, NULL), NULL);
            for (int n = 0; n < 2; n++)
                expect_code(seam_cursor_move(c, (enum seam_move)how, LIT("b"), NULL, NULL),
                            SEAM_NOTFOUND, NULL);
            expect_code(seam_cursor_value(c, &value, NULL), SEAM_E_INVALID, NULL);
            seam_cursor_close(c);
        }
}

static void test_bounds_are_copied(void **state)
{
    char lower[] = "b", upper[] = "d";
    struct seam_cursor *c;
    struct seam_slice key;

    (void)state;
    for (char k = 'a'; k <= 'e'; k++)
        put_ok(db, seam_bytes(&k, 1), LIT("v"));
    expect_ok(seam_cursor_open(db, NULL, seam_bytes(lower, 1), seam_bytes(upper, 1), &c, NULL),
              NULL);
    lower[0] = 'x';
    upper[0] = 'y';
    expect_ok(seam_cursor_move(c, SEAM_FIRST, NONE, &key, NULL), NULL);
    expect_bytes(key, LIT("b"));
    expect_ok(seam_cursor_move(c, SEAM_LAST, NONE, &key, NULL), NULL);
    expect_bytes(key, LIT("c"));
    seam_cursor_close(c);
}

static void test_seek_any_length(void **state)
{
    struct seam_limits limits;
    struct seam_cursor *c;
    struct seam_slice key;
    size_t len;
    char *text;

    (void)state;
    seam_db_limits(db, &limits);
    len = limits.key < 1u << 20 ? limits.key + 100 : 1000;
    text = malloc(len);
    assert_non_null(text);
    memset(text, 'b', len);
    put_ok(db, LIT("b"), LIT("1"));
    put_ok(db, LIT("c"), LIT("2"));
    expect_ok(seam_cursor_open(db, NULL, NONE, NONE, &c, NULL), NULL);
    expect_ok(seam_cursor_move(c, SEAM_GE, seam_bytes(text, len), &key, NULL), NULL);
    expect_bytes(key, LIT("c"));
    expect_ok(seam_cursor_move(c, SEAM_LE, seam_bytes(text, len), &key, NULL), NULL);
    expect_bytes(key, LIT("b"));
    expect_ok(seam_cursor_move(c, SEAM_GE, NONE, &key, NULL), NULL);
    expect_bytes(key, LIT("b"));
    expect_code(seam_cursor_move(c, SEAM_LE, NONE, &key, NULL), SEAM_NOTFOUND, NULL);
    expect_ok(seam_cursor_move(c, SEAM_NEXT, NONE, &key, NULL), NULL);
    expect_bytes(key, LIT("b"));
    seam_cursor_close(c);
    /* Bounds may be longer than any key, too. */
    expect_ok(seam_cursor_open(db, NULL, seam_bytes(text, len), NONE, &c, NULL), NULL);
    expect_ok(seam_cursor_move(c, SEAM_PREV, NONE, &key, NULL), NULL);
    expect_bytes(key, LIT("c"));
    expect_code(seam_cursor_move(c, SEAM_PREV, NONE, &key, NULL), SEAM_NOTFOUND, NULL);
    seam_cursor_close(c);
    expect_ok(seam_cursor_open(db, NULL, NONE, seam_bytes(text, len), &c, NULL), NULL);
    expect_ok(seam_cursor_move(c, SEAM_LAST, NONE, &key, NULL), NULL);
    expect_bytes(key, LIT("b"));
    seam_cursor_close(c);
    free(text);
}

static void test_bad_arguments(void **state)
{
    struct seam_slice hole = {NULL, 1};
    struct seam_cursor *c = (struct seam_cursor *)(void *)&db;
    struct seam_slice key = LIT("untouched"), value = LIT("untouched");

    (void)state;
    put_ok(db, LIT("a"), LIT("1"));
    expect_code(seam_cursor_open(db, NULL, hole, NONE, &c, NULL), SEAM_E_INVALID, NULL);
    expect_code(seam_cursor_open(db, NULL, NONE, hole, &c, NULL), SEAM_E_INVALID, NULL);
    assert_ptr_equal(c, (void *)&db);
    expect_ok(seam_cursor_open(db, NULL, NONE, NONE, &c, NULL), NULL);
    expect_code(seam_cursor_value(c, &value, NULL), SEAM_E_INVALID, NULL);
    expect_code(seam_cursor_move(c, SEAM_GE, hole, &key, NULL), SEAM_E_INVALID, NULL);
    expect_code(seam_cursor_move(c, (enum seam_move)99, NONE, &key, NULL), SEAM_E_INVALID, NULL);
    expect_bytes(key, LIT("untouched"));
    expect_bytes(value, LIT("untouched"));
    seam_cursor_close(c);
}

/* ---- instants ------------------------------------------------------------------------------ */

static void test_cursor_of_now_keeps_its_instant(void **state)
{
    struct seam_cursor *c;
    struct seam_slice key, value;
    char k;

    (void)state;
    for (k = 'a'; k <= 'f'; k++)
        put_ok(db, seam_bytes(&k, 1), LIT("old"));
    expect_ok(seam_cursor_open(db, NULL, NONE, NONE, &c, NULL), NULL);
    for (k = 'a'; k <= 'f'; k++) {
        char next = (char)(k + 1), between[2] = {k, 'x'};
        struct seam_op change[3] = {op_delete(seam_bytes(&k, 1)),
                                    op_put(seam_bytes(&next, 1), LIT("new")),
                                    op_put(seam_bytes(between, 2), LIT("new"))};
        expect_ok(seam_cursor_move(c, SEAM_NEXT, NONE, &key, NULL), NULL);
        /* Change what it stands on, what comes next, and add a key between. */
        write_ok(db, change, 3);
        expect_bytes(key, seam_bytes(&k, 1));
        expect_ok(seam_cursor_value(c, &value, NULL), NULL);
        expect_bytes(value, LIT("old"));
    }
    expect_code(seam_cursor_move(c, SEAM_NEXT, NONE, &key, NULL), SEAM_NOTFOUND, NULL);
    write_ok(db, (struct seam_op[]){op_range(LIT("\0"), NONE)}, 1);
    for (k = 'f'; k >= 'a'; k--) {
        expect_ok(seam_cursor_move(c, SEAM_PREV, NONE, &key, NULL), NULL);
        expect_bytes(key, seam_bytes(&k, 1));
    }
    seam_cursor_close(c);
    expect_keys(db, NULL, "");
}

static void test_cursors_of_one_snapshot(void **state)
{
    struct support_rng rng = {support_seed() + 2};
    struct seam_cursor *c[3];
    struct seam_snap *snap;
    bool stored[UNIVERSE], later[UNIVERSE];
    struct model m[3];

    (void)state;
    store_some(stored, &rng, 6);
    expect_ok(seam_snap_open(db, &snap, NULL), NULL);
    open_both(&c[0], &m[0], snap, stored, -1, UNIVERSE);
    store_some(later, &rng, 6);
    open_both(&c[1], &m[1], snap, stored, 3, UNIVERSE);
    open_both(&c[2], &m[2], NULL, later, -1, 12);
    for (int i = 0; i < 300; i++) {
        int which = (int)support_below(&rng, 3);
        check_move(c[which], &m[which], (enum seam_move)support_below(&rng, 6),
                   (int)support_below(&rng, UNIVERSE));
        if (i % 50 == 0)
            store_some(later, &rng, 5);
    }
    for (int i = 0; i < 3; i++)
        seam_cursor_close(c[i]);
    seam_snap_close(snap);
}

/* Enough keys for several pages or blocks of any engine. */
static void test_long_scan(void **state)
{
    enum { N = 5000 };
    struct seam_cursor *c;
    struct seam_slice key;
    unsigned char k[4];

    (void)state;
    for (uint32_t i = 0; i < N; i += 100) {
        struct seam_op ops[100];
        unsigned char keys[100][4];
        for (uint32_t j = 0; j < 100; j++) {
            keys[j][0] = keys[j][1] = 0;
            keys[j][2] = (unsigned char)((i + j) >> 8);
            keys[j][3] = (unsigned char)(i + j);
            ops[j] = op_put(seam_bytes(keys[j], 4), seam_bytes(keys[j], 4));
        }
        write_ok(db, ops, 100);
    }
    expect_ok(seam_cursor_open(db, NULL, NONE, NONE, &c, NULL), NULL);
    memset(k, 0, sizeof(k));
    for (uint32_t i = 0; i < 2 * N; i++) {
        uint32_t want = i < N ? i : 2 * N - 1 - i;
        if (i == N)
            expect_code(seam_cursor_move(c, SEAM_NEXT, NONE, &key, NULL), SEAM_NOTFOUND, NULL);
        expect_ok(seam_cursor_move(c, i < N ? SEAM_NEXT : SEAM_PREV, NONE, &key, NULL), NULL);
        k[2] = (unsigned char)(want >> 8);
        k[3] = (unsigned char)want;
        expect_bytes(key, seam_bytes(k, 4));
    }
    seam_cursor_close(c);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int conformance_cursor(void)
{
    const struct CMUnitTest cursor[] = {
        TEST(test_random_walks),
        TEST(test_direction_changes_everywhere),
        TEST(test_at_the_ends),
        TEST(test_empty_ranges),
        TEST(test_bounds_are_copied),
        TEST(test_seek_any_length),
        TEST(test_bad_arguments),
        TEST(test_cursor_of_now_keeps_its_instant),
        TEST(test_cursors_of_one_snapshot),
        TEST(test_long_scan),
    };
    return cmocka_run_group_tests(cursor, NULL, NULL);
}
