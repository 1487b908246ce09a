/* conformance_read.c - snapshots and pins: what a reader holds stays as it was. */
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

static void test_get(void **state)
{
    struct seam_slice hole = {NULL, 2};
    struct seam_pin pin;
    struct seam_err err = {0};

    (void)state;
    expect_absent(db, NULL, LIT("k"));
    put_ok(db, LIT("k"), LIT("v"));
    expect_holds(db, NULL, LIT("k"), LIT("v"));
    expect_absent(db, NULL, LIT("k\0"));
    expect_absent(db, NULL, LIT("j"));
    memset(&pin, 0x5a, sizeof(pin));
    expect_code(seam_get(db, NULL, NONE, &pin, &err), SEAM_E_INVALID, &err);
    expect_code(seam_get(db, NULL, LIT(""), &pin, &err), SEAM_E_INVALID, &err);
    expect_code(seam_get(db, NULL, hole, &pin, &err), SEAM_E_INVALID, &err);
    assert_int_equal(((unsigned char *)&pin)[0], 0x5a);
    assert_int_equal(((unsigned char *)&pin)[sizeof(pin) - 1], 0x5a);
}

static void test_get_key_length(void **state)
{
    struct seam_limits limits;
    struct seam_pin pin;
    char *key;

    (void)state;
    seam_db_limits(db, &limits);
    if (limits.key > 1u << 20)
        skip();
    key = calloc(1, limits.key + 1);
    assert_non_null(key);
    expect_absent(db, NULL, seam_bytes(key, limits.key));
    expect_code(seam_get(db, NULL, seam_bytes(key, limits.key + 1), &pin, NULL), SEAM_E_INVALID,
                NULL);
    free(key);
}

static void test_snapshot_sees_nothing_later(void **state)
{
    struct seam_op later[] = {op_put(LIT("a"), LIT("2")), op_delete(LIT("b")),
                              op_put(LIT("c"), LIT("2")), op_range(LIT("d"), LIT("f"))};
    struct seam_snap *snap, *after;

    (void)state;
    put_ok(db, LIT("a"), LIT("1"));
    put_ok(db, LIT("b"), LIT("1"));
    put_ok(db, LIT("d"), LIT("1"));
    put_ok(db, LIT("e"), LIT("1"));
    expect_ok(seam_snap_open(db, &snap, NULL), NULL);
    write_ok(db, later, 4);
    expect_ok(seam_snap_open(db, &after, NULL), NULL);
    for (int round = 0; round < 3; round++) {
        expect_keys(db, snap, "a b d e");
        expect_holds(db, snap, LIT("a"), LIT("1"));
        expect_holds(db, snap, LIT("b"), LIT("1"));
        expect_absent(db, snap, LIT("c"));
        expect_keys(db, after, "a c");
        expect_holds(db, after, LIT("a"), LIT("2"));
        expect_absent(db, after, LIT("e"));
        write_ok(db, (struct seam_op[]){op_range(LIT("\0"), NONE)}, 1);
        put_ok(db, LIT("z"), LIT("3"));
    }
    expect_keys(db, NULL, "z");
    seam_snap_close(snap);
    expect_keys(db, after, "a c");
    seam_snap_close(after);
    expect_keys(db, NULL, "z");
    seam_snap_close(NULL);
}

/* Every state of a short history stays readable, and they may be closed in any order. */
static void test_many_snapshots(void **state)
{
    enum { N = 40 };
    struct seam_snap *snaps[N];
    struct support_rng rng = {support_seed()};
    bool open[N];

    (void)state;
    for (int i = 0; i < N; i++) {
        put_ok(db, LIT("k"), seam_bytes(&i, sizeof(i)));
        put_ok(db, seam_bytes(&i, sizeof(i)), LIT("x"));
        expect_ok(seam_snap_open(db, &snaps[i], NULL), NULL);
        open[i] = true;
    }
    write_ok(db, (struct seam_op[]){op_range(LIT("\0"), NONE)}, 1);
    for (int left = N; left > 0; left--) {
        int go = (int)support_below(&rng, N);
        while (!open[go])
            go = (go + 1) % N;
        seam_snap_close(snaps[go]);
        open[go] = false;
        for (int i = 0; i < N; i++) {
            int next = i + 1;
            if (!open[i])
                continue;
            expect_holds(db, snaps[i], LIT("k"), seam_bytes(&i, sizeof(i)));
            expect_holds(db, snaps[i], seam_bytes(&i, sizeof(i)), LIT("x"));
            expect_absent(db, snaps[i], seam_bytes(&next, sizeof(next)));
        }
    }
    expect_keys(db, NULL, "");
}

static void test_same_instant_twice(void **state)
{
    struct seam_snap *a, *b;

    (void)state;
    put_ok(db, LIT("k"), LIT("1"));
    expect_ok(seam_snap_open(db, &a, NULL), NULL);
    expect_ok(seam_snap_open(db, &b, NULL), NULL);
    put_ok(db, LIT("k"), LIT("2"));
    seam_snap_close(a);
    expect_holds(db, b, LIT("k"), LIT("1"));
    put_ok(db, LIT("k"), LIT("3"));
    expect_holds(db, b, LIT("k"), LIT("1"));
    seam_snap_close(b);
    expect_holds(db, NULL, LIT("k"), LIT("3"));
}

static void test_snapshot_of_empty(void **state)
{
    struct seam_snap *snap;
    struct seam_pin pin;

    (void)state;
    expect_ok(seam_snap_open(db, &snap, NULL), NULL);
    put_ok(db, LIT("k"), LIT("v"));
    expect_keys(db, snap, "");
    expect_code(seam_floor(db, snap, NONE, LIT("z"), &pin, NULL), SEAM_NOTFOUND, NULL);
    expect_code(seam_ceiling(db, snap, NONE, LIT("a"), &pin, NULL), SEAM_NOTFOUND, NULL);
    seam_snap_close(snap);
}

/* ---- pins ---------------------------------------------------------------------------------- */

static void churn(struct seam_slice key)
{
    char *filler = malloc(100000);

    assert_non_null(filler);
    memset(filler, 'f', 100000);
    for (int i = 0; i < 30; i++) {
        put_ok(db, key, seam_bytes(filler, (size_t)(i * 1000)));
        put_ok(db, seam_bytes(&i, sizeof(i)), seam_bytes(filler, 50000));
        write_ok(db, (struct seam_op[]){op_delete(key)}, 1);
    }
    write_ok(db, (struct seam_op[]){op_range(LIT("\0"), NONE)}, 1);
    free(filler);
}

static void test_pin_outlives_commits(void **state)
{
    static const size_t sizes[] = {0, 1, 100, 5000, 70000};
    static unsigned char bytes[70000];

    (void)state;
    support_fill(bytes, sizeof(bytes), 9);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct seam_slice value = seam_bytes(bytes, sizes[i]);
        struct seam_pin get, floor, ceiling;
        put_ok(db, LIT("key"), value);
        expect_ok(seam_get(db, NULL, LIT("key"), &get, NULL), NULL);
        expect_ok(seam_floor(db, NULL, NONE, LIT("kez"), &floor, NULL), NULL);
        expect_ok(seam_ceiling(db, NULL, LIT("k"), LIT("a"), &ceiling, NULL), NULL);
        churn(LIT("key"));
        expect_bytes(get.value, value);
        expect_bytes(floor.key, LIT("key"));
        expect_bytes(floor.value, value);
        expect_bytes(ceiling.key, LIT("key"));
        expect_bytes(ceiling.value, value);
        seam_unpin(&get);
        expect_bytes(floor.value, value);
        seam_unpin(&ceiling);
        seam_unpin(&floor);
    }
}

static void test_unpin_zeroes(void **state)
{
    static const struct seam_pin zero;
    struct seam_pin pin;

    (void)state;
    put_ok(db, LIT("k"), LIT("v"));
    expect_ok(seam_get(db, NULL, LIT("k"), &pin, NULL), NULL);
    assert_ptr_equal(pin.db, db);
    seam_unpin(&pin);
    assert_memory_equal(&pin, &zero, sizeof(pin));
    seam_unpin(&pin);
}

static void test_pin_of_snapshot(void **state)
{
    struct seam_snap *snap;
    struct seam_pin pins[3];

    (void)state;
    put_ok(db, LIT("key"), LIT("v"));
    expect_ok(seam_snap_open(db, &snap, NULL), NULL);
    churn(LIT("key"));
    expect_ok(seam_get(db, snap, LIT("key"), &pins[0], NULL), NULL);
    expect_ok(seam_floor(db, snap, LIT("k"), LIT("key"), &pins[1], NULL), NULL);
    expect_ok(seam_ceiling(db, snap, NONE, NONE, &pins[2], NULL), NULL);
    churn(LIT("other"));
    for (int i = 0; i < 3; i++) {
        expect_bytes(pins[i].value, LIT("v"));
        if (i > 0)
            expect_bytes(pins[i].key, LIT("key"));
        seam_unpin(&pins[i]);
    }
    seam_snap_close(snap);
}

/* A pin read at "now" may outlive a snapshot that happened to be open. */
static void test_pin_of_now_outlives_snapshot(void **state)
{
    struct seam_snap *snap;
    struct seam_pin pin;

    (void)state;
    put_ok(db, LIT("k"), LIT("v"));
    expect_ok(seam_snap_open(db, &snap, NULL), NULL);
    expect_ok(seam_get(db, NULL, LIT("k"), &pin, NULL), NULL);
    seam_snap_close(snap);
    churn(LIT("k"));
    expect_bytes(pin.value, LIT("v"));
    seam_unpin(&pin);
}

static void test_many_pins(void **state)
{
    enum { N = 200 };
    struct seam_pin pins[N];

    (void)state;
    for (int i = 0; i < N; i++) {
        put_ok(db, LIT("k"), seam_bytes(&i, sizeof(i)));
        expect_ok(seam_get(db, NULL, LIT("k"), &pins[i], NULL), NULL);
    }
    for (int i = 0; i < N; i++)
        expect_bytes(pins[i].value, seam_bytes(&i, sizeof(i)));
    for (int i = N - 1; i >= 0; i -= 2)
        seam_unpin(&pins[i]);
    for (int i = 0; i < N; i += 2) {
        expect_bytes(pins[i].value, seam_bytes(&i, sizeof(i)));
        seam_unpin(&pins[i]);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int conformance_read(void)
{
    const struct CMUnitTest read[] = {
        TEST(test_get),
        TEST(test_get_key_length),
        TEST(test_snapshot_sees_nothing_later),
        TEST(test_many_snapshots),
        TEST(test_same_instant_twice),
        TEST(test_snapshot_of_empty),
        TEST(test_pin_outlives_commits),
        TEST(test_unpin_zeroes),
        TEST(test_pin_of_snapshot),
        TEST(test_pin_of_now_outlives_snapshot),
        TEST(test_many_pins),
    };
    return cmocka_run_group_tests(read, NULL, NULL);
}
