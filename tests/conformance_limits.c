/* conformance_limits.c - every limit at one below, at it, and one above; classification; memory.
 *
 * An engine's own limit is used where it is small enough to be met in a test, the wrapper `limit`
 * otherwise. */
#include "conformance.h"

static struct seam_db *open_limited(const char *limit)
{
    struct seam_options o = {.mode = SEAM_OPEN_CREATE, .headroom_percent = 100};
    const char *spec = *limit ? support_text("limit:%s+%s", limit, support_spec()) : support_spec();

    return support_open_with(spec, support_dir(), &o);
}

/* n puts of keys that sort as they are numbered; bytes is what they sum to. */
struct unit {
    struct seam_op *ops;
    unsigned char (*keys)[4];
    size_t n;
};

static struct unit unit_of(size_t n)
{
    struct unit u = {calloc(n + 1, sizeof(*u.ops)), calloc(n + 1, sizeof(*u.keys)), n};

    assert_non_null(u.ops);
    assert_non_null(u.keys);
    for (size_t i = 0; i < n; i++) {
        u.keys[i][0] = 'k';
        u.keys[i][1] = (unsigned char)(i >> 16);
        u.keys[i][2] = (unsigned char)(i >> 8);
        u.keys[i][3] = (unsigned char)i;
        u.ops[i] = op_put(seam_bytes(u.keys[i], 4), NONE);
    }
    return u;
}

static void unit_free(struct unit *u)
{
    free(u->ops);
    free(u->keys);
}

static void expect_over(struct seam_db *db, const struct seam_op *ops, size_t n, const char *limit,
                        uint64_t max, uint64_t got, size_t op)
{
    struct seam_err err = {0};

    expect_code(seam_write(db, ops, n, SEAM_ACK_NONE, NULL, &err), SEAM_E_TOO_LARGE, &err);
    assert_non_null(err.limit);
    assert_string_equal(err.limit, limit);
    assert_int_equal(err.max, max);
    assert_int_equal(err.got, got);
    assert_int_equal(err.op, op);
    assert_non_null(strstr(err.text, limit));
}

static void test_key_limit(void **state)
{
    struct seam_limits limits;
    struct seam_db *db = open_limited("");
    size_t max;
    char *key;

    (void)state;
    seam_db_limits(db, &limits);
    if (limits.key > 1u << 20) {
        support_close(db);
        db = open_limited("key=200");
        seam_db_limits(db, &limits);
    }
    max = limits.key;
    key = calloc(1, max + 1);
    assert_non_null(key);
    memset(key, 'k', max + 1);
    put_ok(db, seam_bytes(key, max - 1), LIT("1"));
    put_ok(db, seam_bytes(key, max), LIT("2"));
    for (size_t at = 0; at < 3; at++) {
        struct seam_op ops[3] = {op_put(LIT("a"), NONE), op_put(LIT("b"), NONE),
                                 op_put(LIT("c"), NONE)};
        ops[at] = op_put(seam_bytes(key, max + 1), NONE);
        expect_over(db, ops, 3, "key", max, max + 1, at);
        ops[at] = op_delete(seam_bytes(key, max + 1));
        expect_over(db, ops, 3, "key", max, max + 1, at);
        ops[at] = op_range(seam_bytes(key, max + 1), NONE);
        expect_over(db, ops, 3, "key", max, max + 1, at);
    }
    expect_absent(db, NULL, LIT("a"));
    expect_holds(db, NULL, seam_bytes(key, max - 1), LIT("1"));
    expect_holds(db, NULL, seam_bytes(key, max), LIT("2"));
    write_ok(db, (struct seam_op[]){op_delete(seam_bytes(key, max))}, 1);
    expect_absent(db, NULL, seam_bytes(key, max));
    support_close(db);
    free(key);
}

static void test_value_limit(void **state)
{
    struct seam_limits limits;
    struct seam_db *db = open_limited("");
    size_t max;
    char *value;

    (void)state;
    seam_db_limits(db, &limits);
    if (limits.value > 8u << 20 || limits.value + 100 > limits.bytes) {
        support_close(db);
        db = open_limited("value=10000");
        seam_db_limits(db, &limits);
        assert_int_equal(limits.value, 10000);
    }
    max = limits.value;
    value = malloc(max + 1);
    assert_non_null(value);
    support_fill(value, max + 1, 3);
    put_ok(db, LIT("k"), seam_bytes(value, max - 1));
    put_ok(db, LIT("l"), seam_bytes(value, max));
    write_ok(db, (struct seam_op[]){op_put2(LIT("m"), seam_bytes(value, 1),
                                            seam_bytes(value + 1, max - 1))},
             1);
    for (size_t at = 0; at < 2; at++) {
        struct seam_op ops[2] = {op_put(LIT("a"), NONE), op_put(LIT("b"), NONE)};
        ops[at] = op_put2(LIT("x"), seam_bytes(value, 7), seam_bytes(value, max - 6));
        expect_over(db, ops, 2, "value", max, max + 1, at);
    }
    expect_keys(db, NULL, "k l m");
    expect_holds(db, NULL, LIT("l"), seam_bytes(value, max));
    expect_holds(db, NULL, LIT("m"), seam_bytes(value, max));
    support_close(db);
    free(value);
}

static void test_ops_limit(void **state)
{
    struct seam_db *db = open_limited("ops=10");
    struct unit u = unit_of(11);
    struct seam_limits limits;

    (void)state;
    seam_db_limits(db, &limits);
    assert_int_equal(limits.ops, 10);
    expect_over(db, u.ops, 11, "ops", 10, 11, SEAM_NO_OP);
    expect_keys(db, NULL, "");
    write_ok(db, u.ops, 9);
    write_ok(db, u.ops, 10);
    expect_over(db, u.ops, 11, "ops", 10, 11, SEAM_NO_OP);
    expect_absent(db, NULL, u.ops[10].key);
    expect_holds(db, NULL, u.ops[9].key, NONE);
    support_close(db);
    unit_free(&u);
}

/* The engine's own count, where a test can reach it. */
static void test_own_ops_limit(void **state)
{
    struct seam_db *db = open_limited("");
    struct seam_limits limits;
    struct unit u;

    (void)state;
    seam_db_limits(db, &limits);
    if (limits.ops > 1500000) {
        support_close(db);
        skip();
    }
    u = unit_of(limits.ops + 1);
    expect_over(db, u.ops, limits.ops + 1, "ops", limits.ops, limits.ops + 1, SEAM_NO_OP);
    expect_keys(db, NULL, "");
    write_ok(db, u.ops, limits.ops);
    expect_holds(db, NULL, u.ops[limits.ops - 1].key, NONE);
    expect_absent(db, NULL, u.ops[limits.ops].key);
    support_close(db);
    unit_free(&u);
}

static void test_headroom(void **state)
{
    struct seam_options o = {.mode = SEAM_OPEN_CREATE};
    const char *spec = support_text("limit:ops=100,bytes=1000+%s", support_spec());
    struct seam_limits limits, own;
    struct unit u = unit_of(91);
    struct seam_db *db;

    (void)state;
    db = support_open_with(support_spec(), support_dir(), &o);
    seam_db_limits(db, &own);
    support_close(db);
    db = support_open_with(spec, support_dir(), &o);
    seam_db_limits(db, &limits);
    assert_int_equal(limits.ops, 90);
    assert_int_equal(limits.bytes, 900);
    assert_int_equal(limits.key, own.key);
    assert_int_equal(limits.value, own.value);
    expect_over(db, u.ops, 91, "ops", 90, 91, SEAM_NO_OP);
    write_ok(db, u.ops, 90);
    support_close(db);
    o.headroom_percent = 50;
    db = support_open_with(spec, support_dir(), &o);
    seam_db_limits(db, &limits);
    assert_int_equal(limits.ops, 50);
    assert_int_equal(limits.bytes, 500);
    support_close(db);
    unit_free(&u);
}

static void test_bytes_limit(void **state)
{
    struct seam_db *db = open_limited("bytes=100");
    char bytes[101];
    struct seam_op two[2], range;

    (void)state;
    memset(bytes, 'v', sizeof(bytes));
    two[0] = op_put(LIT("a"), seam_bytes(bytes, 50));
    two[1] = op_put2(LIT("bb"), seam_bytes(bytes, 20), seam_bytes(bytes, 28));
    expect_over(db, two, 2, "bytes", 100, 101, SEAM_NO_OP);
    expect_keys(db, NULL, "");
    two[1].body.len = 27;
    write_ok(db, two, 2);
    two[1].body.len = 26;
    write_ok(db, two, 2);
    expect_holds(db, NULL, LIT("bb"), seam_bytes(bytes, 46));
    range = op_range(LIT("a"), LIT("c"));
    write_ok(db, &range, 1);
    expect_keys(db, NULL, "");
    support_close(db);
}

/* The headroom holds for counted keys too: what seam_db_limits tells is what is admitted. */
static void test_range_keys_headroom(void **state)
{
    struct seam_options o = {.mode = SEAM_OPEN_CREATE, .headroom_percent = 50};
    struct seam_db *db = support_open_with(support_text("limit:range_keys=10+%s", support_spec()),
                                           support_dir(), &o);
    struct unit u = unit_of(30);
    struct seam_limits limits;
    struct seam_op one;
    struct seam_stats stats;
    struct seam_err err = {0};

    (void)state;
    write_ok(db, u.ops, 30);
    seam_db_limits(db, &limits);
    assert_int_equal(limits.range_keys, 5);
    one = op_range(u.ops[0].key, u.ops[6].key);
    expect_code(seam_write(db, &one, 1, SEAM_ACK_NONE, NULL, &err), SEAM_E_TOO_LARGE, &err);
    assert_string_equal(err.limit, "range_keys");
    assert_int_equal(err.max, 5);
    assert_int_equal(err.got, 6);
    expect_ok(seam_db_stats(db, &stats, NULL), NULL);
    assert_int_equal(stats.tickets, 0);
    one = op_range(u.ops[0].key, u.ops[5].key);
    write_ok(db, &one, 1);
    expect_absent(db, NULL, u.ops[4].key);
    support_close(db);
    unit_free(&u);
}

static void test_range_keys_limit(void **state)
{
    struct seam_db *db = open_limited("range_keys=10");
    struct unit u = unit_of(30);
    struct seam_limits limits;
    struct seam_op two[2], one;
    struct seam_err err = {0};

    (void)state;
    write_ok(db, u.ops, 30);
    seam_db_limits(db, &limits);
    assert_int_equal(limits.range_keys, 10);
    one = op_range(u.ops[0].key, u.ops[11].key);
    expect_code(seam_write(db, &one, 1, SEAM_ACK_NONE, NULL, &err), SEAM_E_TOO_LARGE, &err);
    assert_string_equal(err.limit, "range_keys");
    assert_int_equal(err.max, 10);
    assert_true(err.got > 10);
    expect_holds(db, NULL, u.ops[0].key, NONE);
    one = op_range(u.ops[0].key, NONE);
    expect_code(seam_write(db, &one, 1, SEAM_ACK_NONE, NULL, &err), SEAM_E_TOO_LARGE, &err);
    two[0] = op_range(u.ops[0].key, u.ops[6].key);
    two[1] = op_range(u.ops[20].key, u.ops[25].key);
    expect_code(seam_write(db, two, 2, SEAM_ACK_NONE, NULL, &err), SEAM_E_TOO_LARGE, &err);
    expect_holds(db, NULL, u.ops[22].key, NONE);
    one = op_range(u.ops[0].key, u.ops[9].key);
    write_ok(db, &one, 1);
    one = op_range(u.ops[9].key, u.ops[19].key);
    write_ok(db, &one, 1);
    expect_absent(db, NULL, u.ops[18].key);
    expect_holds(db, NULL, u.ops[19].key, NONE);
    support_close(db);
    unit_free(&u);
}

static void test_pins_limit(void **state)
{
    struct seam_db *db = open_limited("");
    struct seam_limits limits;
    struct seam_snap *snap, *none = (struct seam_snap *)(void *)&limits;
    struct seam_pin *pins, pin;
    struct seam_cursor *c;
    struct seam_err err = {0};
    size_t n;

    (void)state;
    seam_db_limits(db, &limits);
    if (limits.pins > 1u << 16) {
        support_close(db);
        skip();
    }
    put_ok(db, LIT("k"), LIT("v"));
    n = limits.pins - 1;
    pins = calloc(n, sizeof(*pins));
    assert_non_null(pins);
    expect_ok(seam_snap_open(db, &snap, NULL), NULL);
    for (size_t i = 0; i < n; i++)
        expect_ok(seam_get(db, i % 2 ? snap : NULL, LIT("k"), &pins[i], &err), &err);
    expect_code(seam_get(db, NULL, LIT("k"), &pin, &err), SEAM_E_BUSY, &err);
    assert_string_equal(err.limit, "pins");
    assert_int_equal(err.max, limits.pins);
    expect_code(seam_get(db, snap, LIT("k"), &pin, &err), SEAM_E_BUSY, &err);
    expect_code(seam_snap_open(db, &none, &err), SEAM_E_BUSY, &err);
    expect_code(seam_cursor_open(db, NULL, NONE, NONE, &c, &err), SEAM_E_BUSY, &err);
    expect_code(seam_floor(db, NULL, NONE, LIT("z"), &pin, &err), SEAM_E_BUSY, &err);
    assert_ptr_equal(none, (void *)&limits);
    put_ok(db, LIT("k"), LIT("w")); /* writers are not in the way */
    seam_unpin(&pins[0]);
    expect_ok(seam_cursor_open(db, NULL, NONE, NONE, &c, &err), &err);
    seam_cursor_close(c);
    for (size_t i = 1; i < n; i++)
        seam_unpin(&pins[i]);
    seam_snap_close(snap);
    support_close(db);
    free(pins);
}

/* ---- classification ------------------------------------------------------------------------ */

/* Each part that classify cuts is one that this db takes, and greedily: one op more would not be. */
static void test_classified_parts_fit(void **state)
{
    struct seam_db *db = open_limited("ops=7,bytes=60");
    struct support_rng rng = {support_seed()};
    struct seam_limits limits;
    static const char filler[64];

    (void)state;
    seam_db_limits(db, &limits);
    for (int round = 0; round < 200; round++) {
        size_t n = 1 + support_below(&rng, 40), ends[40], begin = 0;
        struct unit u = unit_of(n);
        struct seam_fit fit;
        for (size_t i = 0; i < n; i++)
            u.ops[i].head = seam_bytes(filler, support_below(&rng, round % 2 ? 8 : 50));
        seam_classify(&limits, u.ops, n, ends, &fit);
        assert_true(fit.verdict == SEAM_FITS || fit.verdict == SEAM_SPLITS);
        assert_int_equal(fit.verdict == SEAM_FITS, fit.commits == 1);
        if (fit.verdict == SEAM_SPLITS) {
            assert_int_equal(fit.op, ends[0]);
            assert_non_null(fit.limit);
        }
        for (size_t i = 0; i < fit.commits; i++) {
            assert_true(ends[i] > begin && ends[i] <= n);
            if (ends[i] < n)
                expect_code(seam_write(db, u.ops + begin, ends[i] - begin + 1, SEAM_ACK_NONE, NULL,
                                       NULL),
                            SEAM_E_TOO_LARGE, NULL);
            write_ok(db, u.ops + begin, ends[i] - begin);
            begin = ends[i];
        }
        assert_int_equal(begin, n);
        unit_free(&u);
    }
    support_close(db);
}

/* The unit of 95,000 entries: what the classification says is what happens. */
static void test_large_unit(void **state)
{
    static const char *const limits_of[] = {"", "ops=104K", "ops=106K"};
    struct unit u = unit_of(95000);

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct seam_options o = {.mode = SEAM_OPEN_CREATE};
        const char *spec = *limits_of[i]
                               ? support_text("limit:%s+%s", limits_of[i], support_spec())
                               : support_spec();
        struct seam_db *db = support_open_with(spec, support_dir(), &o);
        struct seam_limits limits;
        struct seam_fit fit, again;
        struct seam_err err = {0};
        int rc;
        seam_db_limits(db, &limits);
        memset(&fit, 0, sizeof(fit));
        memset(&again, 0, sizeof(again));
        seam_classify(&limits, u.ops, u.n, NULL, &fit);
        rc = seam_write(db, u.ops, u.n, SEAM_ACK_NONE, NULL, &err);
        if (fit.verdict == SEAM_FITS) {
            expect_ok(rc, &err);
            expect_holds(db, NULL, u.ops[u.n - 1].key, NONE);
        } else {
            expect_code(rc, SEAM_E_TOO_LARGE, &err);
            assert_string_equal(err.limit, fit.limit);
            assert_int_equal(err.max, fit.max);
            assert_int_equal(err.got, fit.got);
            expect_keys(db, NULL, "");
        }
        seam_classify(&limits, u.ops, u.n, NULL, &again);
        assert_int_equal(fit.verdict, again.verdict);
        assert_int_equal(fit.commits, again.commits);
        if (i == 1)
            assert_int_equal(fit.verdict, SEAM_SPLITS);
        support_close(db);
    }
    unit_free(&u);
}

static struct seam_fit classify(const struct seam_limits *l, const struct seam_op *ops, size_t n)
{
    struct seam_fit fit;

    memset(&fit, 0xee, sizeof(fit));
    seam_classify(l, ops, n, NULL, &fit);
    return fit;
}

static void test_verdicts(void **state)
{
    struct seam_limits l = {.key = 4, .value = 8, .ops = 3, .bytes = 20, .range_keys = 5,
                            .tickets = 1, .pins = 1};
    struct seam_op a = op_put(LIT("a"), LIT("12345678"));
    struct seam_op ops[4] = {a, a, a, a};
    struct seam_fit fit = classify(&l, ops, 2);

    (void)state;
    assert_int_equal(fit.verdict, SEAM_FITS);
    assert_int_equal(fit.commits, 1);
    fit = classify(&l, ops, 3);
    assert_int_equal(fit.verdict, SEAM_SPLITS);
    assert_int_equal(fit.commits, 2);
    assert_int_equal(fit.op, 2);
    assert_string_equal(fit.limit, "bytes");
    assert_int_equal(fit.max, 20);
    assert_int_equal(fit.got, 27);
    l.bytes = 1000;
    fit = classify(&l, ops, 4);
    assert_int_equal(fit.verdict, SEAM_SPLITS);
    assert_int_equal(fit.op, 3);
    assert_string_equal(fit.limit, "ops");
    assert_int_equal(fit.got, 4);
    ops[2] = op_put(LIT("a"), LIT("123456789"));
    fit = classify(&l, ops, 4);
    assert_int_equal(fit.verdict, SEAM_NEVER);
    assert_int_equal(fit.commits, 0);
    assert_int_equal(fit.op, 2);
    assert_string_equal(fit.limit, "value");
    ops[1] = op_delete(LIT("12345"));
    fit = classify(&l, ops, 4);
    assert_int_equal(fit.op, 1);
    assert_string_equal(fit.limit, "key");
    ops[1] = op_range(LIT("a"), NONE);
    ops[2] = a;
    fit = classify(&l, ops, 4);
    assert_int_equal(fit.verdict, SEAM_ASK);
    assert_int_equal(fit.op, 1);
    assert_int_equal(fit.commits, 2);
    assert_string_equal(fit.limit, "range_keys");
    l.caps |= SEAM_CAP_LAZY_RANGE;
    fit = classify(&l, ops, 3);
    assert_int_equal(fit.verdict, SEAM_FITS);
    l.bytes = 8;
    fit = classify(&l, &a, 1);
    assert_int_equal(fit.verdict, SEAM_NEVER);
    assert_string_equal(fit.limit, "bytes");
}

static void test_meet(void **state)
{
    struct seam_limits a = {10, 20, 30, UINT64_MAX, 50, 60, 70,
                            SEAM_CAP_RESERVES | SEAM_CAP_LAZY_RANGE, SEAM_ACK_POWER};
    struct seam_limits b = {11, 19, UINT64_MAX, 40, 49, 61, 69,
                            SEAM_CAP_RESERVES | SEAM_CAP_MAY_ABORT | SEAM_CAP_MAY_SKIP, SEAM_ACK_NONE};

    (void)state;
    seam_limits_meet(&a, &b);
    assert_int_equal(a.key, 10);
    assert_int_equal(a.value, 19);
    assert_int_equal(a.ops, 30);
    assert_int_equal(a.bytes, 40);
    assert_int_equal(a.range_keys, 49);
    assert_int_equal(a.tickets, 60);
    assert_int_equal(a.pins, 69);
    assert_int_equal(a.caps, SEAM_CAP_RESERVES | SEAM_CAP_MAY_ABORT | SEAM_CAP_MAY_SKIP);
    assert_int_equal(a.best, SEAM_ACK_NONE);
}

int conformance_limits(void)
{
    const struct CMUnitTest limits[] = {
        cmocka_unit_test(test_key_limit),       cmocka_unit_test(test_value_limit),
        cmocka_unit_test(test_ops_limit),       cmocka_unit_test(test_own_ops_limit),
        cmocka_unit_test(test_headroom),        cmocka_unit_test(test_bytes_limit),
        cmocka_unit_test(test_range_keys_headroom),
        cmocka_unit_test(test_range_keys_limit), cmocka_unit_test(test_pins_limit),
        cmocka_unit_test(test_classified_parts_fit), cmocka_unit_test(test_large_unit),
        cmocka_unit_test(test_verdicts),        cmocka_unit_test(test_meet),
    };
    return cmocka_run_group_tests(limits, NULL, NULL);
}
