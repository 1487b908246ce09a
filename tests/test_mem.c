/* test_mem.c - what is particular to the engine mem: its memory is counted to the byte, capped, and
 * given back as soon as nobody can see what it holds. */
#include "support.h"

enum { CAP = 1 << 20 };

static struct seam_db *open_mem(void)
{
    struct seam_options o = {.stall_ms = UINT32_MAX, .memory = CAP};

    return support_open_with("mem", NULL, &o);
}

static int64_t memory(struct seam_db *db)
{
    struct seam_stats stats;

    expect_ok(seam_db_stats(db, &stats, NULL), NULL);
    return stats.memory_bytes;
}

static void clear(struct seam_db *db)
{
    write_ok(db, (struct seam_op[]){op_range(LIT("\0"), NONE)}, 1);
}

/* Fills with 1000-byte values until refused; returns how many went in. */
static int fill(struct seam_db *db)
{
    static const char value[1000];
    struct seam_err err = {0};
    int n = 0, rc = SEAM_OK;

    while (rc == SEAM_OK) {
        struct seam_op op = op_put(seam_bytes(&n, sizeof(n)), seam_bytes(value, sizeof(value)));
        rc = seam_write(db, &op, 1, SEAM_ACK_NONE, NULL, &err);
        n += rc == SEAM_OK;
    }
    expect_code(rc, SEAM_E_NO_SPACE, &err);
    assert_string_equal(err.limit, "memory");
    assert_true(err.got > err.max && err.max <= CAP);
    assert_non_null(strstr(err.text, "memory"));
    return n;
}

static void test_cap(void **state)
{
    struct seam_db *db = open_mem();
    int first, again;

    (void)state;
    first = fill(db);
    assert_in_range(first, 700, 1048);
    assert_true(memory(db) <= CAP);
    /* Full, yet a delete needs nothing, and what it frees can be used. */
    write_ok(db, (struct seam_op[]){op_delete(seam_bytes(&(int){0}, sizeof(int)))}, 1);
    put_ok(db, LIT("small"), LIT("v"));
    clear(db);
    assert_int_equal(memory(db), 0);
    again = fill(db);
    assert_in_range(again, first - 20, first + 20); /* the nodes' heights differ */
    support_close(db);
}

/* What a ticket was promised is not given to anybody else. */
static void test_promises_count(void **state)
{
    static char half[CAP / 2];
    struct seam_db *db = open_mem();
    struct seam_op op = op_put(LIT("k"), seam_bytes(half, sizeof(half)));
    struct seam_ticket *held, *more;
    struct seam_err err = {0};

    (void)state;
    expect_ok(seam_prepare(db, &op, 1, SEAM_ACK_NONE, &held, &err), &err);
    expect_code(seam_prepare(db, &op, 1, SEAM_ACK_NONE, &more, &err), SEAM_E_BUSY, &err);
    assert_string_equal(err.limit, "memory");
    seam_abort(held);
    expect_ok(seam_prepare(db, &op, 1, SEAM_ACK_NONE, &held, &err), &err);
    expect_ok(seam_commit(held, NULL, &err), &err);
    expect_code(seam_prepare(db, &op, 1, SEAM_ACK_NONE, &more, &err), SEAM_E_NO_SPACE, &err);
    clear(db);
    expect_ok(seam_prepare(db, &op, 1, SEAM_ACK_NONE, &held, &err), &err);
    seam_abort(held);
    support_close(db);
}

/* A snapshot keeps what it sees, and nothing of what came and went since. */
static void test_only_the_visible_is_kept(void **state)
{
    static const char value[20000];
    struct seam_db *db = open_mem();
    struct seam_snap *snap;
    int64_t before;

    (void)state;
    put_ok(db, LIT("a"), LIT("1"));
    put_ok(db, LIT("b"), LIT("1"));
    expect_ok(seam_snap_open(db, &snap, NULL), NULL);
    before = memory(db);
    for (int i = 0; i < 500; i++) {
        put_ok(db, LIT("a"), seam_bytes(value, sizeof(value)));
        put_ok(db, LIT("c"), seam_bytes(value, sizeof(value)));
    }
    clear(db);
    assert_int_equal(memory(db), before);
    expect_keys(db, snap, "a b");
    seam_snap_close(snap);
    assert_int_equal(memory(db), 0);
    support_close(db);
}

static void test_pin_keeps_its_own(void **state)
{
    static const char value[20000];
    struct seam_db *db = open_mem();
    struct seam_pin pin, twin;
    int64_t one;

    (void)state;
    put_ok(db, LIT("a"), LIT("pinned"));
    one = memory(db);
    expect_ok(seam_get(db, NULL, LIT("a"), &pin, NULL), NULL);
    expect_ok(seam_get(db, NULL, LIT("a"), &twin, NULL), NULL);
    for (int i = 0; i < 500; i++)
        put_ok(db, LIT("a"), seam_bytes(value, sizeof(value)));
    clear(db);
    assert_int_equal(memory(db), one);
    seam_unpin(&twin);
    assert_int_equal(memory(db), one);
    expect_bytes(pin.value, LIT("pinned"));
    seam_unpin(&pin);
    assert_int_equal(memory(db), 0);
    support_close(db);
}

/* A random history with snapshots closed in random order: at the end nothing is left. */
static void test_nothing_is_left(void **state)
{
    enum { SNAPS = 8 };
    struct support_rng rng = {support_seed()};
    struct seam_db *db = open_mem();
    struct seam_snap *snaps[SNAPS] = {NULL};

    (void)state;
    for (int i = 0; i < 20000; i++) {
        uint64_t kind = support_below(&rng, 10), which = support_below(&rng, SNAPS);
        unsigned char key = (unsigned char)support_below(&rng, 20);
        unsigned char end = (unsigned char)(key + 1 + support_below(&rng, 5));
        if (kind < 6) {
            put_ok(db, seam_bytes(&key, 1), seam_bytes(&i, sizeof(i)));
        } else if (kind == 6) {
            write_ok(db, (struct seam_op[]){op_delete(seam_bytes(&key, 1))}, 1);
        } else if (kind == 7) {
            struct seam_op op = op_range(seam_bytes(&key, 1), seam_bytes(&end, 1));
            write_ok(db, &op, 1);
        } else if (snaps[which]) {
            seam_snap_close(snaps[which]);
            snaps[which] = NULL;
        } else {
            expect_ok(seam_snap_open(db, &snaps[which], NULL), NULL);
        }
    }
    for (int i = 0; i < SNAPS; i++)
        seam_snap_close(snaps[i]);
    clear(db);
    assert_int_equal(memory(db), 0);
    support_close(db);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest mem[] = {
        cmocka_unit_test(test_cap),
        cmocka_unit_test(test_promises_count),
        cmocka_unit_test(test_only_the_visible_is_kept),
        cmocka_unit_test(test_pin_keeps_its_own),
        cmocka_unit_test(test_nothing_is_left),
    };
    int rc = support_begin(argc, argv);

    return rc ? rc : cmocka_run_group_tests(mem, NULL, NULL);
}
