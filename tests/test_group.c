/* test_group.c - group commit: order, each once, one at a time, cuts, exclusive calls, fill-wait.
 * Includes group.c to see the queue, so that no test waits for a time to pass. */
#include "group.c"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>

#include <cmocka.h>

enum { MOST = 20000 };

/* What run saw. Plain fields: two runs at once would be a data race that TSan reports. */
struct record {
    int values[MOST];
    size_t n, groups[MOST], n_groups;
    atomic_bool hold; /* run waits while this is set */
    atomic_bool held;
};

static struct record rec;
static int fails; /* the value that answers E_UNKNOWN; -1: none */

static void run(void *ctx, struct seam_member *first, size_t n)
{
    struct record *r = ctx;
    size_t count = 0;
    for (struct seam_member *m = first; m; m = m->next) {
        const int *value = m->arg;
        r->values[r->n++] = *value;
        m->rc = *value == fails          ? SEAM_E_UNKNOWN
                : *value % 100 == 99 ? SEAM_E_NO_SPACE /* whatever else a journal's member answers */
                                     : SEAM_OK;
        m->acked.group = (uint32_t)n;
        count++;
    }
    assert_int_equal(count, n);
    r->groups[r->n_groups++] = n;
    while (atomic_load(&r->hold)) {
        atomic_store(&r->held, true);
        (void)sched_yield();
    }
}

static struct seam_group *open_group(const struct seam_platform *os,
                                     const struct seam_group_config *how)
{
    struct seam_group_config config = *how;
    struct seam_group *g = NULL;
    memset(&rec, 0, sizeof rec);
    fails = -1;
    config.run = run;
    config.ctx = &rec;
    assert_int_equal(seam_group_open(os, &config, &g, NULL), SEAM_OK);
    return g;
}

static void wait_queued(struct seam_group *g, uint64_t want)
{
    for (;;) {
        (void)pthread_mutex_lock(&g->mutex);
        uint64_t queued = g->queued;
        (void)pthread_mutex_unlock(&g->mutex);
        if (queued == want)
            return;
        (void)sched_yield();
    }
}

struct writer {
    struct seam_group *group;
    int value, rc;
    uint32_t group_size;
    uint64_t bytes;
    bool exclusive;
    pthread_t thread;
};

static int note_exclusive(void *arg, struct seam_err *err)
{
    struct writer *w = arg;
    rec.values[rec.n++] = w->value;
    rec.groups[rec.n_groups++] = 0;
    return w->value == fails ? seam_fail(err, SEAM_E_UNKNOWN, "the flush") : SEAM_OK;
}

static void *write_one(void *arg)
{
    struct writer *w = arg;
    if (w->exclusive) {
        w->rc = seam_group_exclusive(w->group, note_exclusive, w, NULL);
        return NULL;
    }
    struct seam_commit commit;
    struct seam_member m;
    memset(&commit, 0, sizeof commit);
    memset(&m, 0, sizeof m);
    commit.bytes = w->bytes;
    m.commit = w->bytes > 0 ? &commit : NULL;
    m.arg = &w->value;
    w->rc = seam_group_commit(w->group, &m);
    w->group_size = m.acked.group;
    return NULL;
}

static void start(struct writer *w, struct seam_group *g, int value, uint64_t bytes, bool exclusive)
{
    *w = (struct writer){g, value, -1, 0, bytes, exclusive, 0};
    assert_int_equal(pthread_create(&w->thread, NULL, write_one, w), 0);
}

static void join(struct writer *w, int n)
{
    for (int i = 0; i < n; i++)
        assert_int_equal(pthread_join(w[i].thread, NULL), 0);
}

/* One writer runs and is held; the others queue up behind it one after the other; `runs` of them
 * are seen by run. */
static void queue_for(struct seam_group *g, struct writer *w, int n, const uint64_t *bytes,
                      unsigned exclusives, int runs)
{
    atomic_store(&rec.hold, true);
    start(&w[0], g, 0, 0, false);
    while (!atomic_load(&rec.held))
        (void)sched_yield();
    for (int i = 1; i < n; i++) {
        start(&w[i], g, i, bytes ? bytes[i] : 0, (exclusives >> i & 1u) != 0);
        wait_queued(g, (uint64_t)i);
    }
    atomic_store(&rec.hold, false);
    join(w, n);
    assert_int_equal(rec.n, runs);
    for (int i = 0; i < runs; i++)
        assert_int_equal(rec.values[i], i);
}

static void queue_up(struct seam_group *g, struct writer *w, int n, const uint64_t *bytes,
                     unsigned exclusives)
{
    queue_for(g, w, n, bytes, exclusives, n);
}

static void alone(void **state)
{
    (void)state;
    struct seam_group_config how = {.max_members = 0};
    struct seam_group *g = open_group(seam_platform_system(), &how);
    struct writer w = {.group = g};
    for (w.value = 0; w.value < 200; w.value++) {
        (void)write_one(&w);
        assert_int_equal(w.rc, w.value % 100 == 99 ? SEAM_E_NO_SPACE : SEAM_OK);
        assert_int_equal(w.group_size, 1);
    }
    assert_int_equal(rec.n, 200);
    seam_group_close(g);
    seam_group_close(NULL);
}

static void arrival_order(void **state)
{
    (void)state;
    struct seam_group_config how = {.max_members = 0};
    struct seam_group *g = open_group(seam_platform_system(), &how);
    struct writer w[12];
    queue_up(g, w, 12, NULL, 0);
    assert_int_equal(rec.n_groups, 2);
    assert_int_equal(rec.groups[1], 11);
    assert_int_equal(w[0].group_size, 1);
    assert_int_equal(w[11].group_size, 11);
    seam_group_close(g);
}

static void cut_by_members(void **state)
{
    (void)state;
    struct seam_group_config how = {.max_members = 4};
    struct seam_group *g = open_group(seam_platform_system(), &how);
    struct writer w[12];
    queue_up(g, w, 12, NULL, 0);
    static const size_t want[] = {1, 4, 4, 3};
    assert_int_equal(rec.n_groups, 4);
    assert_memory_equal(rec.groups, want, sizeof want);
    seam_group_close(g);
}

/* One that is larger than the cut goes alone; nothing is added to overflow. */
static void cut_by_bytes(void **state)
{
    (void)state;
    struct seam_group_config how = {.max_bytes = 100};
    struct seam_group *g = open_group(seam_platform_system(), &how);
    struct writer w[9];
    static const uint64_t bytes[] = {0, 40, 60, 1, 500, 99, 2, UINT64_MAX, 7};
    queue_up(g, w, 9, bytes, 0);
    static const size_t want[] = {1, 2, 1, 1, 1, 1, 1, 1};
    assert_int_equal(rec.n_groups, 8);
    assert_memory_equal(rec.groups, want, sizeof want);
    seam_group_close(g);
}

/* Exclusive calls keep their place: no group reaches across one. */
static void exclusive_in_order(void **state)
{
    (void)state;
    struct seam_group_config how = {.max_members = 0};
    struct seam_group *g = open_group(seam_platform_system(), &how);
    struct writer w[8];
    queue_up(g, w, 8, NULL, 1u << 3 | 1u << 4 | 1u << 7);
    static const size_t want[] = {1, 2, 0, 0, 2, 0};
    assert_int_equal(rec.n_groups, 6);
    assert_memory_equal(rec.groups, want, sizeof want);
    seam_group_close(g);
}

/* ---- failures ---------------------------------------------------------------------------- */

/* Behind an UNKNOWN, of a member or of an exclusive call, nothing is run: neither what was queued
 * by then nor what comes later; each is told that it was not handed over. */
static void nothing_runs_behind(int unknown, unsigned exclusives, int runs)
{
    struct seam_group_config how = {.max_members = 3};
    struct seam_group *g = open_group(seam_platform_system(), &how);
    struct writer w[12], late = {.group = g, .value = 12};
    fails = unknown;
    queue_for(g, w, 12, NULL, exclusives, runs);
    for (int i = 0; i < 12; i++)
        assert_int_equal(w[i].rc, i == unknown ? SEAM_E_UNKNOWN
                                  : i < runs   ? SEAM_OK
                                               : SEAM_E_POISONED);
    for (int i = 0; i < 4; i++) {
        late.exclusive = i % 2 != 0;
        (void)write_one(&late);
        assert_int_equal(late.rc, SEAM_E_POISONED);
    }
    struct seam_member m = {.arg = &late.value};
    assert_int_equal(seam_group_commit(g, &m), SEAM_E_POISONED);
    assert_int_equal(m.err.code, SEAM_E_POISONED);
    assert_non_null(strstr(m.err.text, "nothing of this one was handed over"));
    assert_int_equal(rec.n, runs);
    seam_group_close(g);
}

static void a_failed_group_is_the_last(void **state)
{
    (void)state;
    nothing_runs_behind(0, 0, 1);
    nothing_runs_behind(2, 0, 4); /* its group has three members */
    nothing_runs_behind(3, 0, 4);
    nothing_runs_behind(2, 1u << 5 | 1u << 11, 4);
}

static void a_failed_exclusive_call_is_the_last(void **state)
{
    (void)state;
    nothing_runs_behind(1, 1u << 1, 2);
    nothing_runs_behind(4, 1u << 4 | 1u << 5, 5);
    nothing_runs_behind(11, 1u << 11, 12);
}

/* ---- fill-wait --------------------------------------------------------------------------- */

/* Every look at this clock moves it 10 ms, so that each run seems to take that long. */
static _Atomic uint64_t slow_ns;

static uint64_t slow_now(void *ctx, enum seam_clock clock)
{
    (void)ctx, (void)clock;
    return atomic_fetch_add(&slow_ns, 10000000) + 10000000;
}

static void no_fill_for_one_or_two(void **state)
{
    (void)state;
    struct seam_platform os = *seam_platform_system();
    os.now_ns = slow_now;
    struct seam_group_config how = {.fill_wait_us = 60000000};
    struct seam_group *g = open_group(&os, &how);
    struct writer w[2] = {{.group = g}, {.group = g}};
    for (int i = 0; i < 50; i++)
        (void)write_one(&w[0]);
    for (int i = 0; i < 20; i++) {
        start(&w[0], g, 1, 0, false);
        start(&w[1], g, 2, 0, false);
        join(w, 2);
    }
    assert_int_equal(g->fill_target, 0); /* no leader has ever waited */
    seam_group_close(g);
}

static void fill_waits_for_the_others(void **state)
{
    (void)state;
    struct seam_group_config how = {.fill_wait_us = 600000000};
    struct seam_group *g = open_group(seam_platform_system(), &how);
    struct writer w[4];
    g->run_ns = UINT64_C(1200000000000); /* as if groups took so long, and four writers were seen */
    g->writers[0] = 4;
    for (int i = 0; i < 4; i++) {
        start(&w[i], g, i, 0, false);
        if (i < 3)
            wait_queued(g, (uint64_t)i + 1);
    }
    join(w, 4);
    assert_int_equal(rec.n_groups, 1);
    assert_int_equal(rec.groups[0], 4);
    seam_group_close(g);
}

/* A sync does not wait for a leader that waits for writers. */
static void exclusive_ends_the_fill(void **state)
{
    (void)state;
    struct seam_group_config how = {.fill_wait_us = 600000000};
    struct seam_group *g = open_group(seam_platform_system(), &how);
    struct writer w[2];
    g->run_ns = UINT64_C(1200000000000);
    g->writers[0] = 4;
    start(&w[0], g, 0, 0, false);
    wait_queued(g, 1);
    start(&w[1], g, 1, 0, true);
    join(w, 2);
    static const size_t want[] = {1, 0};
    assert_memory_equal(rec.groups, want, sizeof want);
    seam_group_close(g);
}

static void fill_gives_up(void **state)
{
    (void)state;
    struct seam_group_config how = {.fill_wait_us = 1000};
    struct seam_group *g = open_group(seam_platform_system(), &how);
    struct writer w = {.group = g, .value = 1};
    g->run_ns = 1000000000;
    g->writers[0] = 4;
    (void)write_one(&w);
    assert_int_equal(g->fill_target, 4);
    assert_int_equal(rec.n_groups, 1);
    seam_group_close(g);
}

/* ---- many threads ------------------------------------------------------------------------ */

enum { THREADS = 8, EACH = 1000 };

static void *write_many(void *arg)
{
    struct writer *w = arg;
    int base = w->value;
    for (int i = 0; i < EACH; i++) {
        w->value = base + i;
        (void)write_one(w);
        if (w->rc != (w->value % 100 == 99 ? SEAM_E_NO_SPACE : SEAM_OK))
            return w;
        if (i % 97 == 0)
            (void)seam_group_exclusive(w->group, note_exclusive, w, NULL);
    }
    return NULL;
}

static void many_threads(void **state)
{
    (void)state;
    struct seam_group_config how = {.max_members = 5, .fill_wait_us = 50};
    struct seam_group *g = open_group(seam_platform_system(), &how);
    struct writer w[THREADS];
    static unsigned char seen[THREADS * EACH];
    int last[THREADS];
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < THREADS; i++) {
        w[i] = (struct writer){g, i * EACH, 0, 0, 1, false, 0};
        last[i] = -1;
        assert_int_equal(pthread_create(&w[i].thread, NULL, write_many, &w[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *failed = NULL;
        assert_int_equal(pthread_join(w[i].thread, &failed), 0);
        assert_null(failed);
    }
    for (size_t i = 0; i < rec.n; i++) {
        int value = rec.values[i];
        seen[value]++;
        assert_true(value >= last[value / EACH]); /* a thread's own come in its order */
        last[value / EACH] = value;
    }
    for (int i = 0; i < THREADS * EACH; i++)
        assert_int_equal(seen[i], i % EACH % 97 == 0 ? 2 : 1); /* the second is the exclusive one */
    for (size_t i = 0; i < rec.n_groups; i++)
        assert_true(rec.groups[i] <= 5);
    seam_group_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone),
        cmocka_unit_test(arrival_order),
        cmocka_unit_test(cut_by_members),
        cmocka_unit_test(cut_by_bytes),
        cmocka_unit_test(exclusive_in_order),
        cmocka_unit_test(a_failed_group_is_the_last),
        cmocka_unit_test(a_failed_exclusive_call_is_the_last),
        cmocka_unit_test(no_fill_for_one_or_two),
        cmocka_unit_test(fill_waits_for_the_others),
        cmocka_unit_test(exclusive_ends_the_fill),
        cmocka_unit_test(fill_gives_up),
        cmocka_unit_test(many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
