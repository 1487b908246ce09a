/* test_stop.c - behind a commit or flush that failed nothing reaches the engine, many threads or one.
 *
 * Relies on mem and on a wrapper of its own, given through options.engines, in two kinds: `single`
 * leaves it to the library to let one call in at a time; `grouped` takes many at once and commits
 * through engine/group.c. Both fail once, on demand, and count every call that comes after. */
#include <seam/backend.h>
#include <seam/seam.h>

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { THREADS = 8, EACH = 400 };

/* What the wrapper is to do and what it saw; one db at a time. */
static struct {
    atomic_int until_failure; /* calls; the last of them fails */
    atomic_bool failed;
    atomic_int late;    /* calls that began after it failed */
    atomic_int inside;  /* commits and syncs in the wrapper now */
    atomic_int crowded; /* calls that found another one there */
    atomic_int held;    /* tickets of the wrapper's that are not consumed */
    bool silent;        /* the failure leaves the error as it is */
    struct seam_group *group;
} plan;

struct brittle {
    struct seam_engine base;  /* first */
    struct seam_group *group; /* NULL: single */
};

/* One call reaches the device. */
static int reach(struct seam_err *err)
{
    if (atomic_load(&plan.failed))
        atomic_fetch_add(&plan.late, 1);
    if (atomic_fetch_sub(&plan.until_failure, 1) != 1)
        return SEAM_OK;
    atomic_store(&plan.failed, true);
    (void)sched_yield(); /* the answer takes its time; others come meanwhile */
    if (plan.silent)
        return SEAM_E_UNKNOWN;
    return seam_fail(err, SEAM_E_UNKNOWN, "the device");
}

static void run(void *ctx, struct seam_member *first, size_t n)
{
    (void)ctx, (void)n;
    struct seam_err err;
    int rc = reach(&err);
    for (struct seam_member *m = first; m; m = m->next) {
        m->rc = rc;
        m->err = err;
    }
}

static int grouped_open(const struct seam_open_args *args, struct seam_engine **ret,
                        struct seam_err *err)
{
    struct seam_group_config config = {.run = run, .max_members = 3};
    struct brittle *b = calloc(1, sizeof *b);
    assert_non_null(b);
    int rc = seam_group_open(args->os, &config, &b->group, err);
    plan.group = b->group;
    *ret = &b->base;
    return rc;
}

static int single_open(const struct seam_open_args *args, struct seam_engine **ret,
                       struct seam_err *err)
{
    struct brittle *b = calloc(1, sizeof *b);
    (void)args, (void)err;
    assert_non_null(b);
    *ret = &b->base;
    return SEAM_OK;
}

static int brittle_close(struct seam_engine *e, struct seam_err *err)
{
    struct brittle *b = (struct brittle *)e;
    int rc = seam_layer_close(e->below, err);
    seam_group_close(b->group);
    free(b);
    return rc;
}

static void brittle_limits(const struct seam_engine *e, struct seam_limits *ret)
{
    seam_layer_limits(e->below, ret);
    ret->best = SEAM_ACK_POWER;
}

static int brittle_prepare(struct seam_engine *e, struct seam_commit *c, uint64_t deadline_ns,
                           struct seam_err *err)
{
    int rc = seam_layer_prepare(e->below, c, deadline_ns, err);
    if (rc == SEAM_OK)
        atomic_fetch_add(&plan.held, 1);
    return rc;
}

static void brittle_abort(struct seam_engine *e, struct seam_commit *c)
{
    atomic_fetch_sub(&plan.held, 1);
    seam_layer_abort(e->below, c);
}

static int brittle_commit(struct seam_engine *e, struct seam_commit *c, struct seam_acked *ret,
                          struct seam_err *err)
{
    struct brittle *b = (struct brittle *)e;
    struct seam_member m = {.commit = c};
    enum seam_ack asked = c->ack;
    int rc;
    if (atomic_fetch_add(&plan.inside, 1) > 0)
        atomic_fetch_add(&plan.crowded, 1);
    if (b->group)
        rc = seam_group_commit(b->group, &m);
    else
        rc = m.rc = reach(&m.err);
    atomic_fetch_sub(&plan.held, 1);
    if (rc != SEAM_OK) {
        seam_layer_abort(e->below, c);
        if (err)
            *err = m.err;
    } else {
        c->ack = SEAM_ACK_NONE;
        rc = seam_layer_commit(e->below, c, ret, err);
        ret->given = asked;
    }
    atomic_fetch_sub(&plan.inside, 1);
    return rc;
}

static int flush(void *arg, struct seam_err *err)
{
    (void)arg;
    return reach(err);
}

static int brittle_sync(struct seam_engine *e, enum seam_ack level, struct seam_err *err)
{
    struct brittle *b = (struct brittle *)e;
    (void)level;
    if (atomic_fetch_add(&plan.inside, 1) > 0)
        atomic_fetch_add(&plan.crowded, 1);
    int rc = b->group ? seam_group_exclusive(b->group, flush, NULL, err) : reach(err);
    atomic_fetch_sub(&plan.inside, 1);
    return rc;
}

#define BRITTLE(kind, more)                                                                        \
    {                                                                                              \
        .abi = SEAM_BACKEND_ABI, .flags = SEAM_BACKEND_WRAPPER | (more), .name = #kind,            \
        .summary = "fails once", .open = kind##_open, .close = brittle_close,                      \
        .limits = brittle_limits, .prepare = brittle_prepare, .abort = brittle_abort,              \
        .commit = brittle_commit, .sync = brittle_sync,                                            \
    }
static const struct seam_backend single = BRITTLE(single, 0);
static const struct seam_backend grouped = BRITTLE(grouped, SEAM_BACKEND_CONCURRENT);
static const struct seam_backend *const engines[] = {&single, &grouped, NULL};

static const char *const specs[] = {"single+mem", "grouped+mem", "strict+single+mem",
                                    "metrics+strict+grouped+mem"};
enum { SPECS = sizeof specs / sizeof specs[0] };

/* ---- the callers --------------------------------------------------------------------------- */

struct caller {
    struct seam_db *db;
    uint32_t ack;
    int id, syncs; /* every so many calls; 0: never */
    int done, unknown, refused, others;
    uint64_t most_in_doubt; /* that an UNKNOWN told */
    pthread_t thread;
};

static void *call(void *arg)
{
    struct caller *c = arg;
    for (int i = 0; i < EACH; i++) {
        char key[2] = {(char)('a' + c->id), (char)i};
        struct seam_op op = {SEAM_PUT, seam_bytes(key, 2), {NULL, 0}, {NULL, 0}};
        struct seam_err err;
        struct seam_acked acked;
        bool sync = c->syncs > 0 && i % c->syncs == 0;
        int rc = sync ? seam_sync(c->db, SEAM_ACK_OS, &err)
                      : seam_write(c->db, &op, 1, c->ack, &acked, &err);
        if (rc == SEAM_OK)
            c->done += !sync;
        else if (rc == SEAM_E_UNKNOWN)
            c->unknown++;
        else if (rc == SEAM_E_POISONED)
            c->refused++;
        else
            c->others++;
        if (rc == SEAM_E_UNKNOWN && err.unknown_acks > c->most_in_doubt)
            c->most_in_doubt = err.unknown_acks;
        c->others += rc != SEAM_OK && err.code != rc;
    }
    return NULL;
}

static struct seam_db *open_brittle(const char *spec, int until_failure)
{
    struct seam_options options = {.engines = engines};
    struct seam_db *db = NULL;
    memset(&plan, 0, sizeof plan);
    atomic_store(&plan.until_failure, until_failure);
    assert_int_equal(seam_open(spec, NULL, &options, &db, NULL), SEAM_OK);
    return db;
}

static void close_brittle(struct seam_db *db)
{
    struct seam_stats stats;
    assert_int_equal(atomic_load(&plan.late), 0);
    assert_int_equal(atomic_load(&plan.held), 0);
    assert_int_equal(seam_db_stats(db, &stats, NULL), SEAM_OK);
    assert_int_equal(stats.tickets, 0);
    assert_int_equal(seam_close(db, NULL), SEAM_OK);
}

/* Many threads; one call fails. Sums what they were told. */
static struct caller crowd(const char *spec, int until_failure, uint32_t ack, int syncs)
{
    struct seam_db *db = open_brittle(spec, until_failure);
    struct caller callers[THREADS], sum = {.db = NULL};
    struct seam_err err;
    for (int i = 0; i < THREADS; i++) {
        callers[i] = (struct caller){.db = db, .ack = ack, .id = i, .syncs = syncs};
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        struct caller *c = &callers[i];
        assert_int_equal(pthread_join(c->thread, NULL), 0);
        sum.done += c->done;
        sum.unknown += c->unknown;
        sum.refused += c->refused;
        sum.others += c->others;
        if (c->most_in_doubt > sum.most_in_doubt)
            sum.most_in_doubt = c->most_in_doubt;
    }
    assert_int_equal(sum.others, 0);
    assert_true(seam_db_poisoned(db));
    assert_true(sum.unknown > 0);
    if (strstr(spec, "single"))
        assert_int_equal(atomic_load(&plan.crowded), 0);
    struct seam_op op = {SEAM_PUT, seam_bytes("k", 1), {NULL, 0}, {NULL, 0}};
    assert_int_equal(seam_write(db, &op, 1, SEAM_ACK_NONE, NULL, &err), SEAM_E_POISONED);
    if ((enum seam_ack)ack < SEAM_ACK_POWER) { /* the next writer is told as well */
        assert_true(err.unknown_acks >= (uint64_t)sum.done);
        assert_true(err.unknown_acks <= (uint64_t)(sum.done + sum.unknown));
    }
    close_brittle(db);
    return sum;
}

static void commits_stop(void **state)
{
    (void)state;
    for (size_t i = 0; i < SPECS; i++) {
        for (int at = 1; at <= 601; at += 100) {
            struct caller sum = crowd(specs[i], at, SEAM_ACK_POWER, 0);
            assert_int_equal(sum.done + sum.unknown + sum.refused, THREADS * EACH);
            if (strstr(specs[i], "single")) { /* each call is its own group */
                assert_int_equal(sum.done, at - 1);
                assert_int_equal(sum.unknown, 1);
            } else {
                assert_true(sum.unknown <= 3);
            }
        }
    }
}

static void commits_and_flushes_stop(void **state)
{
    (void)state;
    for (size_t i = 0; i < SPECS; i++)
        for (int at = 1; at <= 601; at += 100)
            (void)crowd(specs[i], at, SEAM_ACK_POWER, 5);
}

/* No flush returned, so every weak ack that was given is in doubt, and the call that failed says so,
 * though others get theirs at the same time. */
static void weak_acks_are_all_counted(void **state)
{
    (void)state;
    for (size_t i = 0; i < SPECS; i++) {
        for (int at = 2; at <= 602; at += 50) {
            struct caller sum = crowd(specs[i], at, SEAM_ACK_PROCESS, 0);
            assert_true(sum.most_in_doubt >= (uint64_t)sum.done);
        }
    }
}

/* ---- one thread ---------------------------------------------------------------------------- */

/* Tickets that were prepared before the failure are given back, at the commit or by abort. */
static void tickets_are_given_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < SPECS; i++) {
        struct seam_db *db = open_brittle(specs[i], 1);
        struct seam_op op = {SEAM_PUT, seam_bytes("k", 1), {NULL, 0}, {NULL, 0}};
        struct seam_ticket *t[3];
        struct seam_err err;
        for (int k = 0; k < 3; k++)
            assert_int_equal(seam_prepare(db, &op, 1, SEAM_ACK_POWER, &t[k], NULL), SEAM_OK);
        assert_int_equal(atomic_load(&plan.held), 3);
        assert_int_equal(seam_commit(t[0], NULL, &err), SEAM_E_UNKNOWN);
        assert_string_equal(err.text, "the device");
        assert_int_equal(seam_commit(t[1], NULL, &err), SEAM_E_POISONED);
        seam_abort(t[2]);
        close_brittle(db);
    }
}

/* An engine that refuses before the library knows of the failure: NOT DONE, in the engine's words;
 * the handle is poisoned all the same. The group fails behind the library's back here. */
static void poisoned_from_below_is_not_done(void **state)
{
    (void)state;
    static const char *const both[] = {"grouped+mem", "strict+grouped+mem"};
    for (size_t i = 0; i < 2; i++) {
        struct seam_db *db = open_brittle(both[i], 0);
        struct seam_op op = {SEAM_PUT, seam_bytes("k", 1), {NULL, 0}, {NULL, 0}};
        struct seam_err err;
        int rc = SEAM_OK;
        assert_int_equal(seam_write(db, &op, 1, SEAM_ACK_OS, NULL, NULL), SEAM_OK);
        atomic_store(&plan.until_failure, 1);
        assert_int_equal(seam_group_exclusive(plan.group, flush, NULL, NULL), SEAM_E_UNKNOWN);
        assert_false(seam_db_poisoned(db));
        rc = i == 0 ? seam_write(db, &op, 1, SEAM_ACK_OS, NULL, &err)
                    : seam_sync(db, SEAM_ACK_OS, &err);
        assert_int_equal(rc, SEAM_E_POISONED);
        assert_int_equal(err.code, SEAM_E_POISONED);
        assert_int_equal(err.unknown_acks, 1);
        assert_non_null(strstr(err.text, "nothing of this one was handed over"));
        assert_true(seam_db_poisoned(db));
        close_brittle(db);
    }
}

/* An engine that fails and fills in nothing: the caller's error does not show what it held before. */
static void a_silent_failure_has_a_text(void **state)
{
    (void)state;
    for (int by_sync = 0; by_sync < 2; by_sync++) {
        struct seam_db *db = open_brittle("single+mem", 1);
        struct seam_op op = {SEAM_PUT, seam_bytes("k", 1), {NULL, 0}, {NULL, 0}};
        struct seam_err err;
        memset(&err, 0x5a, sizeof err);
        plan.silent = true;
        int rc = by_sync ? seam_sync(db, SEAM_ACK_OS, &err)
                         : seam_write(db, &op, 1, SEAM_ACK_OS, NULL, &err);
        assert_int_equal(rc, SEAM_E_UNKNOWN);
        assert_string_equal(err.text, "'single+mem' failed and said nothing");
        assert_int_equal(err.code, SEAM_E_UNKNOWN);
        assert_int_equal(err.os_errno, 0);
        assert_int_equal(err.unknown_acks, 0);
        close_brittle(db);
    }
}

/* What strict finds at commit was not handed over: NOT DONE, and the handle goes on. */
static void misuse_is_not_done(void **state)
{
    (void)state;
    static const char *const with_strict[] = {"strict+single+mem", "metrics+strict+grouped+mem"};
    for (size_t i = 0; i < 2; i++) {
        struct seam_db *db = open_brittle(with_strict[i], 0);
        char value[] = "value";
        struct seam_op op = {SEAM_PUT, seam_bytes("k", 1), seam_bytes(value, 5), {NULL, 0}};
        struct seam_ticket *t;
        struct seam_pin pin;
        struct seam_err err;
        assert_int_equal(seam_prepare(db, &op, 1, SEAM_ACK_OS, &t, NULL), SEAM_OK);
        value[0] = 'x';
        int rc = seam_commit(t, NULL, &err);
        assert_int_equal(rc, SEAM_E_MISUSE);
        assert_int_equal(seam_outcome(rc), SEAM_NOT_DONE);
        assert_int_equal(err.code, SEAM_E_MISUSE);
        assert_int_equal(err.unknown_acks, 0);
        assert_false(seam_db_poisoned(db));
        assert_int_equal(atomic_load(&plan.held), 0);
        assert_int_equal(seam_get(db, NULL, op.key, &pin, NULL), SEAM_NOTFOUND);
        assert_int_equal(seam_write(db, &op, 1, SEAM_ACK_OS, NULL, NULL), SEAM_OK);
        assert_int_equal(seam_get(db, NULL, op.key, &pin, NULL), SEAM_OK);
        seam_unpin(&pin);
        close_brittle(db);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commits_stop),
        cmocka_unit_test(commits_and_flushes_stop),
        cmocka_unit_test(weak_acks_are_all_counted),
        cmocka_unit_test(tickets_are_given_back),
        cmocka_unit_test(poisoned_from_below_is_not_done),
        cmocka_unit_test(a_silent_failure_has_a_text),
        cmocka_unit_test(misuse_is_not_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
