/* conformance_ticket.c - prepare, commit, abort: a ticket holds amounts and nothing else. */
#include "conformance.h"

#include <pthread.h>
#include <unistd.h>

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

static struct seam_ticket *prepare_ok(const struct seam_op *ops, size_t n)
{
    struct seam_err err = {0};
    struct seam_ticket *t = NULL;

    expect_ok(seam_prepare(db, ops, n, SEAM_ACK_NONE, &t, &err), &err);
    assert_non_null(t);
    return t;
}

static void commit_ok(struct seam_ticket *t)
{
    struct seam_err err = {0};

    expect_ok(seam_commit(t, NULL, &err), &err);
}

static int64_t tickets_open(void)
{
    struct seam_stats stats;

    expect_ok(seam_db_stats(db, &stats, NULL), NULL);
    return stats.tickets;
}

static void test_prepare_commit(void **state)
{
    struct seam_op ops[] = {op_put(LIT("a"), LIT("1")), op_put(LIT("b"), LIT("2"))};
    struct seam_acked acked = {SEAM_ACK_OS, 9, 9, 9, 9};
    struct seam_ticket *t;

    (void)state;
    t = prepare_ok(ops, 2);
    assert_int_equal(tickets_open(), 1);
    expect_ok(seam_commit(t, &acked, NULL), NULL);
    assert_int_equal(acked.window_ms, 0);
    assert_int_equal(tickets_open(), 0);
    expect_keys(db, NULL, "a b");
}

static void test_abort(void **state)
{
    struct seam_op ops[] = {op_put(LIT("a"), LIT("1")), op_range(LIT("k"), LIT("l"))};
    struct seam_ticket *t;

    (void)state;
    put_ok(db, LIT("k"), LIT("v"));
    for (int i = 0; i < 100; i++) {
        t = prepare_ok(ops, 2);
        seam_abort(t);
    }
    seam_abort(NULL);
    assert_int_equal(tickets_open(), 0);
    expect_keys(db, NULL, "k");
    put_ok(db, LIT("l"), LIT("v"));
}

static void test_invisible_until_commit(void **state)
{
    struct seam_op put = op_put(LIT("a"), LIT("1"));
    struct seam_op clear = op_range(LIT("k"), NONE);
    struct seam_ticket *t1, *t2;
    struct seam_snap *snap;
    struct seam_pin pin;

    (void)state;
    put_ok(db, LIT("k"), LIT("v"));
    t1 = prepare_ok(&put, 1);
    t2 = prepare_ok(&clear, 1);
    expect_keys(db, NULL, "k");
    expect_absent(db, NULL, LIT("a"));
    expect_ok(seam_snap_open(db, &snap, NULL), NULL);
    commit_ok(t1);
    commit_ok(t2);
    expect_keys(db, snap, "k");
    expect_code(seam_floor(db, snap, NONE, LIT("b"), &pin, NULL), SEAM_NOTFOUND, NULL);
    seam_snap_close(snap);
    expect_keys(db, NULL, "a");
}

/* The order is that of the commits, not of the prepares. */
static void test_order_of_commits(void **state)
{
    struct seam_op ops[4] = {op_put(LIT("k"), LIT("0")), op_put(LIT("k"), LIT("1")),
                             op_delete(LIT("k")), op_range(LIT("a"), LIT("z"))};
    struct seam_ticket *t[4];
    struct seam_acked acked[4];

    (void)state;
    for (int i = 0; i < 4; i++)
        t[i] = prepare_ok(&ops[i], 1);
    for (int i = 3; i >= 0; i--)
        expect_ok(seam_commit(t[i], &acked[i], NULL), NULL);
    expect_holds(db, NULL, LIT("k"), LIT("0"));
    for (int i = 0; i < 3; i++)
        if (acked[i].commit_no != 0)
            assert_true(acked[i].commit_no > acked[i + 1].commit_no);
}

/* What a range covers is decided when it is committed. */
static void test_range_covers_what_came_between(void **state)
{
    struct seam_op range = op_range(LIT("a"), LIT("z"));
    struct seam_ticket *t;
    struct seam_limits limits;

    (void)state;
    seam_db_limits(db, &limits);
    put_ok(db, LIT("b"), LIT("1"));
    t = prepare_ok(&range, 1);
    put_ok(db, LIT("c"), LIT("1"));
    put_ok(db, LIT("zz"), LIT("1"));
    commit_ok(t);
    expect_keys(db, NULL, "zz");
}

static void test_held_while_others_commit(void **state)
{
    struct seam_op op = op_put(LIT("held"), LIT("x"));
    struct seam_limits limits;
    struct seam_ticket *t;

    (void)state;
    seam_db_limits(db, &limits);
    t = prepare_ok(&op, 1);
    for (int i = 0; i < 500; i++) {
        put_ok(db, seam_bytes(&i, sizeof(i)), LIT("v"));
        put_ok(db, LIT("held"), seam_bytes(&i, sizeof(i)));
    }
    expect_ok(seam_sync(db, limits.best, NULL), NULL);
    write_ok(db, (struct seam_op[]){op_range(LIT("\0"), NONE)}, 1);
    commit_ok(t);
    expect_keys(db, NULL, "held");
    expect_holds(db, NULL, LIT("held"), LIT("x"));
}

/* ---- other threads ------------------------------------------------------------------------- */

struct other {
    struct seam_ticket *ticket;
    bool abort;
    int rc;
};

static void *finish(void *arg)
{
    struct other *o = arg;

    if (o->abort)
        seam_abort(o->ticket);
    else
        o->rc = seam_commit(o->ticket, NULL, NULL);
    return NULL;
}

static void test_finished_by_another_thread(void **state)
{
    struct seam_op ops[2] = {op_put(LIT("a"), LIT("1")), op_put(LIT("b"), LIT("1"))};
    struct other others[2] = {{prepare_ok(&ops[0], 1), false, -99},
                              {prepare_ok(&ops[1], 1), true, -99}};

    (void)state;
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, finish, &others[i]), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    assert_int_equal(others[0].rc, SEAM_OK);
    expect_keys(db, NULL, "a");
}

/* ---- limits.tickets ------------------------------------------------------------------------ */

static void test_tickets_limit(void **state)
{
    struct seam_options o = {.mode = SEAM_OPEN_CREATE, .tickets = 4, .stall_ms = UINT32_MAX};
    struct seam_op op = op_put(LIT("k"), LIT("v"));
    struct seam_db *main_db = db;
    struct seam_ticket *t[4], *fifth = (struct seam_ticket *)(void *)&o;
    struct seam_limits limits;
    struct seam_err err = {0};

    (void)state;
    db = support_open_with(support_spec(), support_dir(), &o);
    seam_db_limits(db, &limits);
    assert_int_equal(limits.tickets, 4);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++)
            t[i] = prepare_ok(&op, 1);
        expect_code(seam_prepare(db, &op, 1, SEAM_ACK_NONE, &fifth, &err), SEAM_E_BUSY, &err);
        assert_ptr_equal(fifth, (void *)&o);
        assert_string_equal(err.limit, "tickets");
        expect_code(seam_write(db, &op, 1, SEAM_ACK_NONE, NULL, &err), SEAM_E_BUSY, &err);
        expect_keys(db, NULL, round == 0 ? "" : "k");
        seam_abort(t[1]);
        put_ok(db, LIT("k"), LIT("w"));
        t[1] = prepare_ok(&op, 1);
        for (int i = 0; i < 4; i++)
            commit_ok(t[i]);
    }
    assert_int_equal(tickets_open(), 0);
    support_close(db);
    db = main_db;
}

static void *abort_soon(void *arg)
{
    usleep(20000);
    seam_abort(arg);
    return NULL;
}

/* A prepare that waits goes on when room is given back, well before its stall time. */
static void test_prepare_waits(void **state)
{
    struct seam_options o = {.mode = SEAM_OPEN_CREATE, .tickets = 1, .stall_ms = 120000};
    struct seam_op op = op_put(LIT("k"), LIT("v"));
    struct seam_db *main_db = db;
    pthread_t thread;
    struct seam_ticket *t;

    (void)state;
    db = support_open_with(support_spec(), support_dir(), &o);
    t = prepare_ok(&op, 1);
    assert_int_equal(pthread_create(&thread, NULL, abort_soon, t), 0);
    t = prepare_ok(&op, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    commit_ok(t);
    expect_keys(db, NULL, "k");
    support_close(db);
    db = main_db;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int conformance_ticket(void)
{
    const struct CMUnitTest ticket[] = {
        TEST(test_prepare_commit),
        TEST(test_abort),
        TEST(test_invisible_until_commit),
        TEST(test_order_of_commits),
        TEST(test_range_covers_what_came_between),
        TEST(test_held_while_others_commit),
        TEST(test_finished_by_another_thread),
        TEST(test_tickets_limit),
        TEST(test_prepare_waits),
    };
    return cmocka_run_group_tests(ticket, NULL, NULL);
}
