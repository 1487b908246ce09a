/* conformance_commit.c - ops and their validation, the order of ops and commits, values, acks. */
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

/* ---- validation ---------------------------------------------------------------------------- */

static void expect_refused(struct seam_op bad, int code, const char *what)
{
    for (size_t at = 0; at < 3; at++) {
        struct seam_op ops[3] = {op_put(LIT("a"), LIT("1")), op_put(LIT("b"), LIT("2")),
                                 op_put(LIT("c"), LIT("3"))};
        struct seam_ticket *ticket = (struct seam_ticket *)(void *)&db;
        struct seam_acked acked = {SEAM_ACK_OS, 77, 78, 79, 80};
        struct seam_err err = {0};

        ops[at] = bad;
        support_expect_code(seam_write(db, ops, 3, SEAM_ACK_NONE, &acked, &err), code, &err, what,
                            __FILE__, __LINE__);
        assert_int_equal(err.code, code);
        assert_int_equal(err.op, at);
        assert_true(strlen(err.text) > 0);
        assert_int_equal(acked.window_ms, 77);
        assert_int_equal(acked.commit_no, 80);
        expect_code(seam_prepare(db, ops, 3, SEAM_ACK_NONE, &ticket, NULL), code, NULL);
        assert_ptr_equal(ticket, (void *)&db);
        expect_keys(db, NULL, "kept");
    }
    put_ok(db, LIT("next"), LIT("works"));
    expect_holds(db, NULL, LIT("next"), LIT("works"));
    write_ok(db, (struct seam_op[]){op_delete(LIT("next"))}, 1);
}

static struct seam_op op_of(int kind, struct seam_slice key, struct seam_slice head,
                            struct seam_slice body)
{
    struct seam_op op = {(enum seam_kind)kind, key, head, body};
    return op;
}

static void test_bad_ops(void **state)
{
    struct seam_slice hole = {NULL, 3};

    (void)state;
    put_ok(db, LIT("kept"), LIT("v"));
    expect_refused(op_of(0, LIT("k"), NONE, NONE), SEAM_E_INVALID, "kind 0");
    expect_refused(op_of(4, LIT("k"), NONE, NONE), SEAM_E_INVALID, "kind 4");
    expect_refused(op_of(-1, LIT("k"), NONE, NONE), SEAM_E_INVALID, "kind -1");
    expect_refused(op_put(NONE, LIT("v")), SEAM_E_INVALID, "PUT without a key");
    expect_refused(op_put(LIT(""), LIT("v")), SEAM_E_INVALID, "PUT of an empty key");
    expect_refused(op_put(hole, LIT("v")), SEAM_E_INVALID, "PUT of a key without address");
    expect_refused(op_put(LIT("k"), hole), SEAM_E_INVALID, "PUT of a head without address");
    expect_refused(op_put2(LIT("k"), LIT("h"), hole), SEAM_E_INVALID, "PUT, body without address");
    expect_refused(op_delete(NONE), SEAM_E_INVALID, "DELETE without a key");
    expect_refused(op_delete(hole), SEAM_E_INVALID, "DELETE of a key without address");
    expect_refused(op_of(SEAM_DELETE, LIT("k"), LIT("v"), NONE), SEAM_E_INVALID, "DELETE + head");
    expect_refused(op_of(SEAM_DELETE, LIT("k"), NONE, LIT("v")), SEAM_E_INVALID, "DELETE + body");
    expect_refused(op_range(NONE, LIT("z")), SEAM_E_INVALID, "range without a begin");
    expect_refused(op_range(LIT("b"), LIT("a")), SEAM_E_INVALID, "reversed range");
    expect_refused(op_range(LIT("b"), LIT("b")), SEAM_E_INVALID, "empty range");
    expect_refused(op_range(LIT("b\0"), LIT("b")), SEAM_E_INVALID, "range that ends at its prefix");
    expect_refused(op_range(LIT("b"), LIT("")), SEAM_E_INVALID, "range with an empty end");
    expect_refused(op_range(LIT("a"), hole), SEAM_E_INVALID, "range, end without address");
    expect_refused(op_of(SEAM_DELETE_RANGE, LIT("a"), LIT("b"), LIT("x")), SEAM_E_INVALID,
                   "range with a body");
}

static void test_no_ops(void **state)
{
    struct seam_op op = op_put(LIT("a"), LIT("1"));
    struct seam_err err = {0};

    (void)state;
    expect_code(seam_write(db, &op, 0, SEAM_ACK_NONE, NULL, &err), SEAM_E_INVALID, &err);
    assert_int_equal(err.op, SEAM_NO_OP);
    expect_code(seam_write(db, NULL, 0, SEAM_ACK_NONE, NULL, &err), SEAM_E_INVALID, &err);
    expect_keys(db, NULL, "");
    write_ok(db, &op, 1);
}

/* ---- order within a commit ----------------------------------------------------------------- */

static void test_last_op_wins(void **state)
{
    struct seam_op ops[] = {
        op_put(LIT("a"), LIT("1")),        op_put(LIT("a"), LIT("2")),
        op_put(LIT("b"), LIT("1")),        op_delete(LIT("b")),
        op_delete(LIT("c")),               op_put(LIT("c"), LIT("1")),
        op_put(LIT("d"), LIT("1")),        op_delete(LIT("d")),
        op_put(LIT("d"), LIT("2")),        op_delete(LIT("e")),
        op_put(LIT("f"), LIT("")),
    };

    (void)state;
    put_ok(db, LIT("b"), LIT("old"));
    put_ok(db, LIT("c"), LIT("old"));
    put_ok(db, LIT("e"), LIT("old"));
    write_ok(db, ops, sizeof(ops) / sizeof(ops[0]));
    expect_keys(db, NULL, "a c d f");
    expect_holds(db, NULL, LIT("a"), LIT("2"));
    expect_holds(db, NULL, LIT("c"), LIT("1"));
    expect_holds(db, NULL, LIT("d"), LIT("2"));
    expect_holds(db, NULL, LIT("f"), LIT(""));
}

static void test_range_then_put(void **state)
{
    struct seam_op fill[] = {op_put(LIT("a"), LIT("1")), op_put(LIT("b"), LIT("1")),
                             op_put(LIT("b\0"), LIT("1")), op_put(LIT("c"), LIT("1")),
                             op_put(LIT("d"), LIT("1"))};
    struct seam_op ops[] = {op_put(LIT("bb"), LIT("goes")), op_put(LIT("b"), LIT("goes")),
                            op_range(LIT("b"), LIT("d")), op_put(LIT("c"), LIT("new")),
                            op_put(LIT("cc"), LIT("new")), op_delete(LIT("a")),
                            op_put(LIT("a"), LIT("new"))};

    (void)state;
    write_ok(db, fill, 5);
    write_ok(db, ops, 7);
    expect_keys(db, NULL, "a c cc d");
    expect_holds(db, NULL, LIT("a"), LIT("new"));
    expect_holds(db, NULL, LIT("c"), LIT("new"));
    expect_holds(db, NULL, LIT("cc"), LIT("new"));
    expect_holds(db, NULL, LIT("d"), LIT("1"));
    expect_absent(db, NULL, LIT("b"));
    expect_absent(db, NULL, LIT("bb"));
    expect_absent(db, NULL, LIT("b\0"));
}

static void test_ranges_nest_and_overlap(void **state)
{
    struct seam_op fill[26];
    char keys[26];
    struct seam_op ops[] = {op_range(LIT("c"), LIT("f")), op_put(LIT("d"), LIT("1")),
                            op_range(LIT("e"), LIT("h")), op_put(LIT("e"), LIT("1")),
                            op_range(LIT("d"), LIT("e")), op_range(LIT("x"), NONE),
                            op_put(LIT("y"), LIT("1")),   op_range(LIT("m"), LIT("m\0")),
                            op_range(LIT("\0"), LIT("a\0"))};

    (void)state;
    for (size_t i = 0; i < 26; i++) {
        keys[i] = (char)('a' + i);
        fill[i] = op_put(seam_bytes(&keys[i], 1), LIT("0"));
    }
    write_ok(db, fill, 26);
    write_ok(db, ops, sizeof(ops) / sizeof(ops[0]));
    expect_keys(db, NULL, "b e h i j k l n o p q r s t u v w y");
    expect_holds(db, NULL, LIT("e"), LIT("1"));
    expect_holds(db, NULL, LIT("y"), LIT("1"));
}

static void test_range_without_end(void **state)
{
    struct seam_op fill[] = {op_put(LIT("\0"), LIT("1")), op_put(LIT("a"), LIT("1")),
                             op_put(LIT("\xff"), LIT("1")), op_put(LIT("\xff\xff\xff"), LIT("1"))};
    struct seam_op all = op_range(LIT("\0"), NONE);
    struct seam_op tail = op_range(LIT("\xff"), NONE);

    (void)state;
    write_ok(db, fill, 4);
    write_ok(db, &tail, 1);
    expect_absent(db, NULL, LIT("\xff"));
    expect_absent(db, NULL, LIT("\xff\xff\xff"));
    expect_holds(db, NULL, LIT("a"), LIT("1"));
    write_ok(db, &all, 1);
    expect_keys(db, NULL, "");
    write_ok(db, &all, 1); /* nothing to delete is no error */
    write_ok(db, fill, 4);
    expect_holds(db, NULL, LIT("\xff\xff\xff"), LIT("1"));
}

static void test_range_over_empty_db(void **state)
{
    struct seam_op ops[] = {op_range(LIT("a"), LIT("z")), op_put(LIT("k"), LIT("v")),
                            op_range(LIT("l"), NONE)};

    (void)state;
    write_ok(db, ops, 3);
    expect_keys(db, NULL, "k");
}

/* ---- keys and values ----------------------------------------------------------------------- */

static void test_bytes_in_keys(void **state)
{
    struct seam_slice keys[] = {LIT("\0"),     LIT("\0\0"),   LIT("\0\xff"), LIT("a"),
                                LIT("a\0"),    LIT("a\0b"),   LIT("a\xff"),  LIT("b"),
                                LIT("\x7f"),   LIT("\x80"),   LIT("\xff"),   LIT("\xff\0"),
                                LIT("\xff\xff")};
    const size_t n = sizeof(keys) / sizeof(keys[0]);
    struct seam_cursor *c;
    struct seam_slice key, value;

    (void)state;
    for (size_t i = n; i-- > 0;)
        put_ok(db, keys[i], seam_bytes(&i, sizeof(i)));
    expect_ok(seam_cursor_open(db, NULL, NONE, NONE, &c, NULL), NULL);
    for (size_t i = 0; i < n; i++) {
        expect_holds(db, NULL, keys[i], seam_bytes(&i, sizeof(i)));
        expect_ok(seam_cursor_move(c, SEAM_NEXT, NONE, &key, NULL), NULL);
        expect_bytes(key, keys[i]);
        expect_ok(seam_cursor_value(c, &value, NULL), NULL);
        expect_bytes(value, seam_bytes(&i, sizeof(i)));
    }
    expect_code(seam_cursor_move(c, SEAM_NEXT, NONE, &key, NULL), SEAM_NOTFOUND, NULL);
    seam_cursor_close(c);
}

static void test_value_sizes(void **state)
{
    static const size_t sizes[] = {0, 1, 511, 512, 4095, 4096, 4097, 1u << 20, 20u << 20};
    struct seam_limits limits;
    unsigned char *bytes = malloc(20u << 20);

    (void)state;
    assert_non_null(bytes);
    support_fill(bytes, 20u << 20, 5);
    seam_db_limits(db, &limits);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct seam_slice key = seam_bytes(&sizes[i], sizeof(sizes[i]));
        struct seam_slice value = seam_bytes(bytes, sizes[i]);
        struct seam_op two;
        if (sizes[i] > limits.value || sizes[i] + 64 > limits.bytes)
            continue;
        put_ok(db, key, value);
        expect_holds(db, NULL, key, value);
        two = op_put2(key, seam_bytes(bytes, sizes[i] / 3),
                      seam_bytes(bytes + sizes[i] / 3, sizes[i] - sizes[i] / 3));
        write_ok(db, &two, 1);
        expect_holds(db, NULL, key, value);
    }
    free(bytes);
}

static void test_two_part_values(void **state)
{
    struct seam_op ops[] = {
        op_put2(LIT("a"), LIT("head"), LIT("body")), op_put2(LIT("b"), LIT("head"), NONE),
        op_put2(LIT("c"), NONE, LIT("body")),        op_put2(LIT("d"), NONE, NONE),
        op_put2(LIT("e"), LIT(""), LIT("")),         op_put2(LIT("f"), LIT(""), LIT("body")),
        op_put2(LIT("g"), LIT("head"), LIT("")),
    };

    (void)state;
    write_ok(db, ops, 7);
    expect_holds(db, NULL, LIT("a"), LIT("headbody"));
    expect_holds(db, NULL, LIT("b"), LIT("head"));
    expect_holds(db, NULL, LIT("c"), LIT("body"));
    expect_holds(db, NULL, LIT("d"), LIT(""));
    expect_holds(db, NULL, LIT("e"), LIT(""));
    expect_holds(db, NULL, LIT("f"), LIT("body"));
    expect_holds(db, NULL, LIT("g"), LIT("head"));
}

/* The caller's bytes are its own again when the call has returned. */
static void test_bytes_are_borrowed(void **state)
{
    char key[] = "key", value[] = "value";

    (void)state;
    put_ok(db, seam_bytes(key, 3), seam_bytes(value, 5));
    memset(key, 'x', 3);
    memset(value, 'y', 5);
    expect_keys(db, NULL, "key");
    expect_holds(db, NULL, LIT("key"), LIT("value"));
}

static void test_overwrite_and_delete(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        put_ok(db, LIT("k"), seam_bytes(&i, sizeof(i)));
        expect_holds(db, NULL, LIT("k"), seam_bytes(&i, sizeof(i)));
    }
    write_ok(db, (struct seam_op[]){op_delete(LIT("k"))}, 1);
    expect_absent(db, NULL, LIT("k"));
    write_ok(db, (struct seam_op[]){op_delete(LIT("k"))}, 1);
    put_ok(db, LIT("k"), LIT("back"));
    expect_holds(db, NULL, LIT("k"), LIT("back"));
}

/* ---- acks ---------------------------------------------------------------------------------- */

static void test_ack_levels(void **state)
{
    struct seam_op op = op_put(LIT("k"), LIT("v"));
    struct seam_limits limits;

    (void)state;
    seam_db_limits(db, &limits);
    for (uint32_t level = SEAM_ACK_NONE; level <= SEAM_ACK_POWER; level++) {
        struct seam_acked acked = {SEAM_ACK_NONE, 9, -9, 9, 9};
        struct seam_err err = {0};
        int rc = seam_write(db, &op, 1, level, &acked, &err);
        if (level <= limits.best) {
            expect_ok(rc, &err);
            assert_true(acked.given >= SEAM_ACK_LEVEL(level));
            assert_int_equal(acked.window_ms, 0);
            assert_true(acked.flushes >= -1);
            expect_ok(seam_sync(db, SEAM_ACK_LEVEL(level), &err), &err);
            expect_holds(db, NULL, LIT("k"), LIT("v"));
        } else {
            expect_code(rc, SEAM_E_UNSUPPORTED, &err);
            assert_int_equal(acked.window_ms, 9);
            assert_int_equal(err.op, SEAM_NO_OP);
            expect_code(seam_sync(db, SEAM_ACK_LEVEL(level), &err), SEAM_E_UNSUPPORTED, &err);
            expect_absent(db, NULL, LIT("k"));
        }
        write_ok(db, (struct seam_op[]){op_delete(LIT("k"))}, 1);
    }
    expect_code(seam_write(db, &op, 1, SEAM_ACK_POWER + 1, NULL, NULL), SEAM_E_INVALID, NULL);
    assert_false(seam_db_poisoned(db));
}

static void test_ack_window(void **state)
{
    struct seam_op op = op_put(LIT("k"), LIT("v"));
    struct seam_limits limits;

    (void)state;
    seam_db_limits(db, &limits);
    for (uint32_t level = SEAM_ACK_NONE; level <= SEAM_ACK_POWER; level++) {
        struct seam_acked acked = {SEAM_ACK_NONE, 9, -9, 9, 9};
        struct seam_err err = {0};
        int rc = seam_write(db, &op, 1, level | SEAM_ACK_WINDOW(50), &acked, &err);
        enum seam_ack now = level < SEAM_ACK_PROCESS ? SEAM_ACK_LEVEL(level) : SEAM_ACK_PROCESS;
        if (level > limits.best) {
            expect_code(rc, SEAM_E_UNSUPPORTED, &err);
            continue;
        }
        expect_ok(rc, &err);
        assert_true(acked.given >= now);
        if (acked.given < SEAM_ACK_LEVEL(level))
            assert_in_range(acked.window_ms, 1, 50);
        else
            assert_int_equal(acked.window_ms, 0);
        expect_holds(db, NULL, LIT("k"), LIT("v"));
    }
    /* One owed far in the future is raised by close, which must not wait for it. */
    if (limits.best > SEAM_ACK_PROCESS)
        expect_ok(seam_write(db, &op, 1, limits.best | SEAM_ACK_WINDOW(16777215), NULL, NULL), NULL);
}

static void test_commit_numbers_rise(void **state)
{
    uint64_t last = 0;

    (void)state;
    for (int i = 0; i < 20; i++) {
        struct seam_op op = op_put(LIT("k"), seam_bytes(&i, sizeof(i)));
        struct seam_acked acked;
        expect_ok(seam_write(db, &op, 1, SEAM_ACK_NONE, &acked, NULL), NULL);
        if (acked.commit_no == 0)
            return;
        assert_true(acked.commit_no > last);
        last = acked.commit_no;
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int conformance_commit(void)
{
    const struct CMUnitTest commit[] = {
        TEST(test_bad_ops),
        TEST(test_no_ops),
        TEST(test_last_op_wins),
        TEST(test_range_then_put),
        TEST(test_ranges_nest_and_overlap),
        TEST(test_range_without_end),
        TEST(test_range_over_empty_db),
        TEST(test_bytes_in_keys),
        TEST(test_value_sizes),
        TEST(test_two_part_values),
        TEST(test_bytes_are_borrowed),
        TEST(test_overwrite_and_delete),
        TEST(test_ack_levels),
        TEST(test_ack_window),
        TEST(test_commit_numbers_rise),
    };
    return cmocka_run_group_tests(commit, NULL, NULL);
}
