/* test_rebuild_crash.c - test_rebuild_crash ENGINE: a rebuild, and an event in several commits, ended
 * at each of their commits: killed before and after it, refused, its outcome lost.
 *
 * The wrapper `ending`, made here, counts commits; what is to happen at which is set while nobody
 * writes. Killed is a child, which is this program with the same stores. */
#include "rebuild_support.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *engine;

enum how { KILL_BEFORE, KILL_AFTER, REFUSE, LOSE_BEFORE, LOSE_AFTER, WAYS };

static struct {
    atomic_long until; /* commits until it happens; negative: never */
    atomic_int how;
    atomic_bool met;
} plan;

/* ---- the wrapper ------------------------------------------------------------------------- */

static int ending_open(const struct seam_open_args *args, struct seam_engine **ret,
                       struct seam_err *err)
{
    (void)args;
    struct seam_engine *e = calloc(1, sizeof(*e));
    if (e == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "no memory");
    *ret = e;
    return SEAM_OK;
}

static int ending_close(struct seam_engine *e, struct seam_err *err)
{
    int rc = seam_layer_close(e->below, err);
    free(e);
    return rc;
}

static void ending_limits(const struct seam_engine *e, struct seam_limits *ret)
{
    seam_layer_limits(e->below, ret);
}

static bool now(bool preparing)
{
    bool refuse = atomic_load(&plan.how) == REFUSE;
    if (refuse != preparing || atomic_load(&plan.until) < 0 || atomic_fetch_sub(&plan.until, 1) != 0)
        return false;
    atomic_store(&plan.met, true);
    return true;
}

static int ending_prepare(struct seam_engine *e, struct seam_commit *c, uint64_t deadline_ns,
                          struct seam_err *err)
{
    if (now(true))
        return seam_fail(err, SEAM_E_BUSY, "busy once");
    return seam_layer_prepare(e->below, c, deadline_ns, err);
}

static int ending_commit(struct seam_engine *e, struct seam_commit *c, struct seam_acked *ret,
                         struct seam_err *err)
{
    if (!now(false))
        return seam_layer_commit(e->below, c, ret, err);
    int how = atomic_load(&plan.how);
    if (how == KILL_BEFORE)
        (void)raise(SIGKILL);
    if (how == LOSE_BEFORE)
        seam_layer_abort(e->below, c);
    else
        (void)seam_layer_commit(e->below, c, ret, NULL);
    if (how == KILL_AFTER)
        (void)raise(SIGKILL);
    return seam_fail(err, SEAM_E_UNKNOWN, "the device went away");
}

static const char *ending_version(void)
{
    return "1";
}

static const struct seam_backend ending = {
    .abi = SEAM_BACKEND_ABI,
    .flags = SEAM_BACKEND_WRAPPER,
    .name = "ending",
    .summary = "ends at a commit",
    .version = ending_version,
    .open = ending_open,
    .close = ending_close,
    .limits = ending_limits,
    .prepare = ending_prepare,
    .commit = ending_commit,
};

static const struct seam_backend *const extra[] = {&ending, NULL};

/* ---- one round --------------------------------------------------------------------------- */

enum { EVENTS = 39, FED = 25 }; /* event 40 is a wide one */

struct job {
    struct pair p;
    bool rebuild; /* else: the wide event 40 is applied */
};

static void job_db(struct job *job)
{
    struct pair *p = &job->p;
    struct seam_err err;
    p->same = true;
    p->of_journal.options.engines = extra;
    p->of_journal.options.mode = SEAM_OPEN_CREATE;
    ok(seam_open(p->of_journal.engine, p->of_journal.is_volatile ? NULL : p->of_journal.dir,
                 &p->of_journal.options, &p->of_journal.db, &err),
       err);
    pair_journal(p);
}

static void job_db_close(struct job *job)
{
    struct seam_err err;
    ok(seam_journal_close(job->p.j, &err), err);
    ok(seam_close(job->p.of_journal.db, &err), err);
}

static void make(struct job *job, bool rebuild)
{
    unsigned version = 1;
    memset(job, 0, sizeof *job);
    job->rebuild = rebuild;
    job->p.same = true;
    atomic_store(&plan.until, -1);
    store_open(&job->p.of_journal, "ending+limit:ops=20+", engine, extra);
    pair_journal(&job->p);
    append_plain(&job->p, EVENTS);
    struct seam_projection *t = version_table(&job->p, "t", &version, true);
    table_catch_up(t, rebuild ? FED : EVENTS);
    table_close(t);
    append_plain(&job->p, 1);
}

/* What is to be done, until something ends it. Version 2 for a rebuild. */
static int run(struct job *job, struct seam_projection *t)
{
    return job->rebuild ? seam_projection_rebuild(t, NULL, NULL, NULL)
                        : seam_projection_catch_up(t, 0, NULL, NULL);
}

static int child_main(const char *dir, const char *rebuild, const char *until, const char *how)
{
    struct job job = {.rebuild = rebuild[0] == '1'};
    struct store *s = &job.p.of_journal;
    unsigned version = job.rebuild ? 2 : 1;
    atomic_store(&plan.until, -1);
    (void)snprintf(s->engine, sizeof s->engine, "ending+limit:ops=20+%s", engine);
    (void)snprintf(s->dir, sizeof s->dir, "%s", dir);
    job_db(&job);
    struct seam_projection *t = version_table(&job.p, "t", &version, true);
    atomic_store(&plan.how, (int)strtol(how, NULL, 10));
    atomic_store(&plan.until, strtol(until, NULL, 10));
    if (run(&job, t) != SEAM_OK)
        return 4;
    atomic_store(&plan.until, -1);
    table_close(t);
    job_db_close(&job);
    return 0;
}

/* true: it was killed there; false: it ended before it came to that commit. */
static bool run_killed(struct job *job, int how, long until)
{
    char numbers[2][24];
    int status = 0, out;
    (void)snprintf(numbers[0], sizeof numbers[0], "%ld", until);
    (void)snprintf(numbers[1], sizeof numbers[1], "%d", how);
    const char *const args[] = {engine,     job->p.of_journal.dir, job->rebuild ? "1" : "0",
                                numbers[0], numbers[1],            NULL};
    job_db_close(job);
    int child = spawn_child(args, &out);
    assert_int_equal(waitpid(child, &status, 0), child);
    close(out);
    job_db(job);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
}

static bool run_failing(struct job *job, int how, long until)
{
    unsigned version = job->rebuild ? 2 : 1;
    struct seam_projection *t = version_table(&job->p, "t", &version, true);
    atomic_store(&plan.met, false);
    atomic_store(&plan.how, how);
    atomic_store(&plan.until, until);
    int rc = run(job, t);
    atomic_store(&plan.until, -1);
    bool met = atomic_load(&plan.met);
    assert_int_equal(rc, !met ? SEAM_OK : how == REFUSE ? SEAM_E_BUSY : SEAM_E_UNKNOWN);
    if (how == REFUSE && met && !job->rebuild) { /* inside the unit, and nobody sees it */
        struct seam_view *view;
        struct seam_err err;
        ok(seam_view_open(t, &view, &err), err);
        assert_true(table_digest(t, view) == digest_at(&job->p, 1, EVENTS));
        seam_view_close(view);
    }
    if (how == REFUSE && met && until % 2 == 0) /* this object goes on, or the next */
        assert_int_equal(run(job, t), SEAM_OK);
    table_close(t);
    if (how == REFUSE)
        return met;
    struct seam_err err;
    ok(seam_journal_close(job->p.j, &err), err);
    (void)seam_close(job->p.of_journal.db, NULL);
    job_db(job);
    return met;
}

/* Whatever happened: one table or the other, whole; and then all of it is done. */
static void check(struct job *job)
{
    struct seam_position at;
    unsigned version = job->rebuild ? 2 : 1;
    struct seam_projection *t = version_table(&job->p, "t", &version, true);
    uint64_t digest = table_digest(t, NULL);
    seam_projection_position(t, &at);
    assert_int_equal(at.parts, 0);
    assert_true(at.sequence >= (job->rebuild ? FED : EVENTS));
    assert_true(digest == digest_at(&job->p, version, at.sequence) ||
                (job->rebuild && at.sequence == FED && digest == digest_at(&job->p, 1, FED)));
    assert_int_equal(run(job, t), SEAM_OK);
    if (job->rebuild)
        table_catch_up(t, 0);
    assert_true(table_digest(t, NULL) == fresh_digest(&job->p, version));
    assert_int_equal(raw_generations(&job->p, 't'), 1);
    assert_false(raw_has(&job->p, 't', 'B'));
    assert_false(raw_has(&job->p, 't', 'S'));
    table_close(t);
}

static void each_commit(bool rebuild, const enum how *ways, size_t n)
{
    struct job job;
    for (size_t i = 0; i < n; i++) {
        bool met = true;
        long until = 0;
        for (; met; until++) {
            make(&job, rebuild);
            if (job.p.of_journal.is_volatile && ways[i] != REFUSE) {
                pair_close(&job.p);
                break;
            }
            met = ways[i] <= KILL_AFTER ? run_killed(&job, (int)ways[i], until)
                                        : run_failing(&job, (int)ways[i], until);
            check(&job);
            pair_close(&job.p);
        }
        assert_true(until == 0 || until > 4); /* it takes several commits */
    }
}

static const enum how kills[] = {KILL_BEFORE, KILL_AFTER};
static const enum how failures[] = {REFUSE, LOSE_BEFORE, LOSE_AFTER};

static void rebuild_killed(void **state)
{
    (void)state;
    each_commit(true, kills, 2);
}

static void rebuild_failing(void **state)
{
    (void)state;
    each_commit(true, failures, 3);
}

static void unit_killed(void **state)
{
    (void)state;
    each_commit(false, kills, 2);
}

static void unit_failing(void **state)
{
    (void)state;
    each_commit(false, failures, 3);
}

int main(int argc, char **argv)
{
    engine = argc > 1 ? argv[1] : "mem";
    if (strcmp(argv[0], "child") == 0 && argc > 5)
        return child_main(argv[2], argv[3], argv[4], argv[5]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rebuild_killed),
        cmocka_unit_test(rebuild_failing),
        cmocka_unit_test(unit_killed),
        cmocka_unit_test(unit_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
