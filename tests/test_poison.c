/* test_poison.c - what the library does when the engine below answers UNKNOWN, and ack windows.
 *
 * Relies on mem and on a wrapper of its own, given through options.engines, that claims every ack
 * and fails on demand. */
#include <seam/backend.h>
#include <seam/seam.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What the wrapper is to do, set by the tests; one db at a time. */
static struct {
    _Atomic bool fail_commit, fail_sync;
    _Atomic int syncs;
    uint32_t caps;
    void (*meanwhile)(void); /* called once, while a commit is on its way */
    bool no_threads;
    int signals_blocked; /* in the thread that flushes: 1 or 0; -1: not seen */
    struct seam_db *db;
    struct seam_err err; /* of what went on meanwhile */
} plan;

#ifndef SEAM_SANITIZED
/* The library's thread cannot be had while plan.no_threads. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
    union {
        void *symbol;
        int (*call)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    } real;
    real.symbol = dlsym(RTLD_NEXT, "pthread_create");
    return plan.no_threads ? EAGAIN : real.call(thread, attr, start, arg);
}
#endif

struct claims {
    struct seam_engine base;
};

static int claims_open(const struct seam_open_args *args, struct seam_engine **ret,
                       struct seam_err *err)
{
    struct claims *c = calloc(1, sizeof(*c));
    (void)args;
    if (!c)
        return seam_fail(err, SEAM_E_NOMEM, "no memory");
    *ret = &c->base;
    return SEAM_OK;
}

static int claims_close(struct seam_engine *e, struct seam_err *err)
{
    int rc = seam_layer_close(e->below, err);
    free(e);
    return rc;
}

static void claims_limits(const struct seam_engine *e, struct seam_limits *ret)
{
    seam_layer_limits(e->below, ret);
    ret->best = SEAM_ACK_POWER;
    ret->caps = plan.caps;
}

static int claims_commit(struct seam_engine *e, struct seam_commit *c, struct seam_acked *ret,
                         struct seam_err *err)
{
    enum seam_ack asked = c->ack;
    void (*meanwhile)(void) = plan.meanwhile;
    plan.meanwhile = NULL;
    if (meanwhile)
        meanwhile();
    if (plan.fail_commit) {
        seam_layer_abort(e->below, c);
        seam_fail_os(err, EIO, "the device");
        if (err)
            err->code = SEAM_E_UNKNOWN;
        return SEAM_E_UNKNOWN;
    }
    c->ack = SEAM_ACK_NONE;
    int rc = seam_layer_commit(e->below, c, ret, err);
    ret->given = asked;
    return rc;
}

static int claims_sync(struct seam_engine *e, enum seam_ack level, struct seam_err *err)
{
    sigset_t blocked;
    (void)e;
    (void)level;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    plan.signals_blocked = sigismember(&blocked, SIGTERM) && sigismember(&blocked, SIGALRM);
    atomic_fetch_add(&plan.syncs, 1);
    return plan.fail_sync ? seam_fail(err, SEAM_E_UNKNOWN, "the flush failed") : SEAM_OK;
}

static const struct seam_backend claims = {
    .abi = SEAM_BACKEND_ABI,
    .flags = SEAM_BACKEND_WRAPPER | SEAM_BACKEND_CONCURRENT,
    .name = "claims",
    .summary = "claims every ack",
    .open = claims_open,
    .close = claims_close,
    .limits = claims_limits,
    .commit = claims_commit,
    .sync = claims_sync,
};

static const struct seam_backend *const engines[] = {&claims, NULL};

static int setup(void **state)
{
    struct seam_options options = {.engines = engines};
    struct seam_db *db = NULL;
    memset(&plan, 0, sizeof(plan));
    if (seam_open("claims+mem", NULL, &options, &db, NULL) != SEAM_OK)
        return -1;
    *state = plan.db = db;
    return 0;
}

static int put(struct seam_db *db, const char *key, uint32_t ack, struct seam_acked *acked,
               struct seam_err *err)
{
    struct seam_op op = {SEAM_PUT, seam_bytes(key, strlen(key)), {NULL, 0}, {NULL, 0}};
    return seam_write(db, &op, 1, ack, acked, err);
}

static void after_unknown_nothing_is_written(void **state)
{
    struct seam_db *db = *state;
    struct seam_err err;
    struct seam_ticket *ticket;
    struct seam_snap *before, *after;
    struct seam_cursor *cursor;
    struct seam_pin pin;
    const struct seam_slice none = {NULL, 0};
    struct seam_op op = {SEAM_PUT, seam_bytes("t", 1), {NULL, 0}, {NULL, 0}};
    assert_int_equal(put(db, "a", SEAM_ACK_POWER, NULL, &err), SEAM_OK);
    assert_int_equal(seam_snap_open(db, &before, &err), SEAM_OK);
    assert_int_equal(seam_prepare(db, &op, 1, SEAM_ACK_NONE, &ticket, &err), SEAM_OK);
    plan.fail_commit = true;
    assert_int_equal(put(db, "b", SEAM_ACK_POWER, NULL, &err), SEAM_E_UNKNOWN);
    assert_int_equal(err.code, SEAM_E_UNKNOWN);
    assert_int_equal(err.os_errno, EIO);
    assert_true(seam_db_poisoned(db));
    plan.fail_commit = false; /* the device works again: the handle must not */
    assert_int_equal(put(db, "c", SEAM_ACK_NONE, NULL, &err), SEAM_E_POISONED);
    assert_int_equal(seam_commit(ticket, NULL, &err), SEAM_E_POISONED);
    assert_int_equal(seam_sync(db, SEAM_ACK_POWER, &err), SEAM_E_POISONED);
    assert_int_equal(plan.syncs, 0);
    /* What was open stays readable; new reads are refused without READ_AFTER_POISON. */
    assert_int_equal(seam_get(db, before, seam_bytes("a", 1), &pin, &err), SEAM_OK);
    seam_unpin(&pin);
    assert_int_equal(seam_get(db, before, seam_bytes("b", 1), &pin, &err), SEAM_NOTFOUND);
    assert_int_equal(seam_get(db, NULL, seam_bytes("a", 1), &pin, &err), SEAM_E_POISONED);
    assert_int_equal(seam_snap_open(db, &after, &err), SEAM_E_POISONED);
    assert_int_equal(seam_cursor_open(db, NULL, none, none, &cursor, &err), SEAM_E_POISONED);
    assert_int_equal(seam_cursor_open(db, before, none, none, &cursor, &err), SEAM_OK);
    seam_cursor_close(cursor);
    seam_snap_close(before);
    assert_int_equal(seam_close(db, &err), SEAM_OK);
}

static void reads_go_on_where_the_engine_says_so(void **state)
{
    struct seam_db *db = *state;
    struct seam_pin pin;
    assert_int_equal(seam_close(db, NULL), SEAM_OK);
    struct seam_options options = {.engines = engines};
    plan.caps = SEAM_CAP_READ_AFTER_POISON;
    assert_int_equal(seam_open("claims+mem", NULL, &options, &db, NULL), SEAM_OK);
    assert_int_equal(put(db, "a", SEAM_ACK_POWER, NULL, NULL), SEAM_OK);
    plan.fail_commit = true;
    assert_int_equal(put(db, "b", SEAM_ACK_POWER, NULL, NULL), SEAM_E_UNKNOWN);
    assert_int_equal(seam_get(db, NULL, seam_bytes("a", 1), &pin, NULL), SEAM_OK);
    seam_unpin(&pin);
    assert_int_equal(seam_close(db, NULL), SEAM_OK);
}

static void acks_in_doubt_are_counted(void **state)
{
    struct seam_db *db = *state;
    struct seam_err err;
    assert_int_equal(put(db, "a", SEAM_ACK_PROCESS, NULL, NULL), SEAM_OK);
    assert_int_equal(put(db, "b", SEAM_ACK_OS, NULL, NULL), SEAM_OK);
    assert_int_equal(put(db, "c", SEAM_ACK_POWER, NULL, NULL), SEAM_OK); /* raises both */
    assert_int_equal(put(db, "d", SEAM_ACK_NONE, NULL, NULL), SEAM_OK);  /* promised nothing */
    for (int i = 0; i < 3; i++)
        assert_int_equal(put(db, "e", SEAM_ACK_PROCESS, NULL, NULL), SEAM_OK);
    plan.fail_sync = true;
    assert_int_equal(seam_sync(db, SEAM_ACK_POWER, &err), SEAM_E_UNKNOWN);
    assert_int_equal(err.unknown_acks, 3);
    assert_int_equal(seam_close(db, NULL), SEAM_OK);
}

static void fail_meanwhile(void)
{
    plan.fail_commit = true;
    (void)put(plan.db, "m", SEAM_ACK_POWER, NULL, &plan.err);
    plan.fail_commit = false;
}

/* Two flushes on their way at once: what either might have raised is in doubt for the one that
 * fails, though the other began first. */
static void acks_in_doubt_are_counted_for_each_that_fails(void **state)
{
    struct seam_db *db = *state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(put(db, "a", SEAM_ACK_PROCESS, NULL, NULL), SEAM_OK);
    plan.meanwhile = fail_meanwhile;
    (void)put(db, "b", SEAM_ACK_POWER, NULL, NULL);
    assert_int_equal(plan.err.code, SEAM_E_UNKNOWN);
    assert_int_equal(plan.err.unknown_acks, 3);
    assert_int_equal(seam_close(db, NULL), SEAM_OK);
}

/* Handed over and then not raised: that is UNKNOWN, whoever poisoned the handle. */
static void a_window_without_a_thread(void **state)
{
#ifdef SEAM_SANITIZED
    assert_int_equal(seam_close(*state, NULL), SEAM_OK);
    skip();
#else
    struct seam_db *db = *state;
    struct seam_acked acked;
    struct seam_err err;
    plan.no_threads = true;
    assert_int_equal(put(db, "a", SEAM_ACK_POWER | SEAM_ACK_WINDOW(9), &acked, &err), SEAM_OK);
    assert_int_equal(acked.given, SEAM_ACK_POWER);
    assert_int_equal(acked.window_ms, 0);
    plan.meanwhile = fail_meanwhile;
    assert_int_equal(put(db, "b", SEAM_ACK_POWER | SEAM_ACK_WINDOW(9), &acked, &err),
                     SEAM_E_UNKNOWN);
    assert_int_equal(err.code, SEAM_E_UNKNOWN);
    assert_int_equal(seam_close(db, NULL), SEAM_OK);
#endif
}

static void a_sync_takes_a_level_only(void **state)
{
    static const uint32_t bad[] = {SEAM_ACK_POWER + 1, SEAM_ACK_POWER | SEAM_ACK_WINDOW(5),
                                   SEAM_ACK_WINDOW(1)};
    struct seam_db *db = *state;
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(seam_sync(db, (enum seam_ack)bad[i], NULL), SEAM_E_INVALID);
    assert_int_equal(plan.syncs, 0);
    assert_int_equal(seam_close(db, NULL), SEAM_OK);
}

static bool soon(const struct seam_db *db, int syncs, bool want_poisoned)
{
    const struct seam_platform *os = seam_platform_system();
    for (int i = 0; i < 20000; i++) { /* 20 s: only a broken window takes that long */
        if (atomic_load(&plan.syncs) >= syncs && seam_db_poisoned(db) == want_poisoned)
            return true;
        os->sleep_us(os->ctx, 1000);
    }
    return false;
}

static void a_window_is_raised_by_itself(void **state)
{
    struct seam_db *db = *state;
    struct seam_acked acked;
    assert_int_equal(put(db, "a", SEAM_ACK_POWER | SEAM_ACK_WINDOW(20), &acked, NULL), SEAM_OK);
    assert_int_equal(acked.given, SEAM_ACK_PROCESS);
    assert_int_equal(acked.window_ms, 20);
    assert_true(soon(db, 1, false));
    assert_int_equal(plan.signals_blocked, 1);
    assert_int_equal(put(db, "b", SEAM_ACK_POWER, &acked, NULL), SEAM_OK);
    assert_int_equal(acked.given, SEAM_ACK_POWER);
    assert_int_equal(acked.window_ms, 0);
    assert_int_equal(seam_close(db, NULL), SEAM_OK);
}

static void closing_raises_what_is_owed(void **state)
{
    struct seam_db *db = *state;
    assert_int_equal(put(db, "a", SEAM_ACK_POWER | SEAM_ACK_WINDOW(10000000), NULL, NULL), SEAM_OK);
    assert_int_equal(plan.syncs, 0);
    assert_int_equal(seam_close(db, NULL), SEAM_OK);
    assert_int_equal(plan.syncs, 1);
}

static void a_window_that_cannot_be_kept_poisons(void **state)
{
    struct seam_db *db = *state;
    struct seam_err err;
    plan.fail_sync = true;
    assert_int_equal(put(db, "a", SEAM_ACK_POWER | SEAM_ACK_WINDOW(1), NULL, NULL), SEAM_OK);
    assert_true(soon(db, 1, true));
    assert_int_equal(put(db, "b", SEAM_ACK_NONE, NULL, &err), SEAM_E_POISONED);
    assert_int_equal(seam_close(db, NULL), SEAM_OK);
}

/* The caller writes nothing more, so it is the close that tells it; once, and not what was told. */
static void a_window_that_was_not_kept_is_told_at_close(void **state)
{
    struct seam_db *db = *state;
    struct seam_err err;
    plan.fail_sync = true;
    assert_int_equal(put(db, "a", SEAM_ACK_POWER | SEAM_ACK_WINDOW(1), NULL, NULL), SEAM_OK);
    assert_true(soon(db, 1, true));
    assert_int_equal(seam_close(db, &err), SEAM_E_UNKNOWN);
    assert_int_equal(err.code, SEAM_E_UNKNOWN);
    assert_int_equal(err.unknown_acks, 1);
    assert_non_null(strstr(err.text, "window"));
    assert_int_equal(plan.syncs, 1);
}

static void closing_with_a_failing_flush_says_so(void **state)
{
    struct seam_db *db = *state;
    struct seam_err err;
    assert_int_equal(put(db, "a", SEAM_ACK_POWER | SEAM_ACK_WINDOW(10000000), NULL, NULL), SEAM_OK);
    plan.fail_sync = true;
    assert_int_equal(seam_close(db, &err), SEAM_E_UNKNOWN);
    assert_int_equal(err.unknown_acks, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {
        TEST(after_unknown_nothing_is_written),
        TEST(reads_go_on_where_the_engine_says_so),
        TEST(acks_in_doubt_are_counted),
        TEST(acks_in_doubt_are_counted_for_each_that_fails),
        TEST(a_window_without_a_thread),
        TEST(a_sync_takes_a_level_only),
        TEST(a_window_is_raised_by_itself),
        TEST(closing_raises_what_is_owed),
        TEST(a_window_that_cannot_be_kept_poisons),
        TEST(a_window_that_was_not_kept_is_told_at_close),
        TEST(closing_with_a_failing_flush_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
