/* test_sched.c - that the scheduler finds what only some interleavings show, and shows it again.
 *
 * A run that ends badly leaves its threads standing, so each is made in a child. */
#include "interleave.h"
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

struct outcome {
    struct sched_result result;
    uint64_t value;
};

struct shared {
    pthread_mutex_t a, b;
    pthread_cond_t full;
    uint64_t count;
    bool flag;
};

/* Runs main in a child; what the child saw comes back through a pipe. */
static struct outcome run(uint64_t seed, void (*main)(void *), uint64_t max_steps)
{
    struct outcome got;
    int ends[2];
    memset(&got, 0, sizeof got);
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct shared s;
        struct sched_config config = {.seed = seed, .max_steps = max_steps};
        memset(&s, 0, sizeof s);
        if (sched_run(&config, main, &s, &got.result) != 0)
            _exit(2);
        got.value = s.count;
        _exit(write(ends[1], &got, sizeof got) == (ssize_t)sizeof got ? 0 : 2);
    }
    (void)close(ends[1]);
    assert_int_equal(read(ends[0], &got, sizeof got), sizeof got);
    (void)close(ends[0]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    return got;
}

static void pair(void *s, void *(*one)(void *), void *(*two)(void *))
{
    pthread_t t[2];
    if (pthread_create(&t[0], NULL, one, s) == 0 && pthread_create(&t[1], NULL, two, s) == 0) {
        (void)pthread_join(t[0], NULL);
        (void)pthread_join(t[1], NULL);
    }
}

/* ---- an update that is lost in some orders --------------------------------------------------- */

static void *add_in_two_steps(void *arg)
{
    struct shared *s = arg;
    (void)pthread_mutex_lock(&s->a);
    uint64_t seen = s->count;
    (void)pthread_mutex_unlock(&s->a);
    (void)pthread_mutex_lock(&s->a);
    s->count = seen + 1;
    (void)pthread_mutex_unlock(&s->a);
    return NULL;
}

static void lost_update(void *arg)
{
    pair(arg, add_in_two_steps, add_in_two_steps);
}

static void test_lost_update(void **state)
{
    (void)state;
    unsigned lost = 0, kept = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct outcome got = run(seed, lost_update, 0);
        assert_int_equal(got.result.end, SCHED_DONE);
        lost += got.value == 1 ? 1 : 0;
        kept += got.value == 2 ? 1 : 0;
    }
    assert_true(lost > 0);
    assert_true(kept > 0);
    assert_int_equal(lost + kept, 40);
}

static void test_replays(void **state)
{
    (void)state;
    uint64_t seen = 0;
    for (uint64_t seed = 0; seed < 10; seed++) {
        struct outcome one = run(seed, lost_update, 0), two = run(seed, lost_update, 0);
        assert_int_equal(one.result.order, two.result.order);
        assert_int_equal(one.result.steps, two.result.steps);
        assert_int_equal(one.value, two.value);
        seen |= one.result.order ^ run(0, lost_update, 0).result.order;
    }
    assert_true(seen != 0); /* seeds differ */
}

/* ---- two locks in two orders ----------------------------------------------------------------- */

static void *a_then_b(void *arg)
{
    struct shared *s = arg;
    (void)pthread_mutex_lock(&s->a);
    (void)pthread_mutex_lock(&s->b);
    (void)pthread_mutex_unlock(&s->b);
    (void)pthread_mutex_unlock(&s->a);
    return NULL;
}

static void *b_then_a(void *arg)
{
    struct shared *s = arg;
    (void)pthread_mutex_lock(&s->b);
    (void)pthread_mutex_lock(&s->a);
    (void)pthread_mutex_unlock(&s->a);
    (void)pthread_mutex_unlock(&s->b);
    return NULL;
}

static void crossed(void *arg)
{
    pair(arg, a_then_b, b_then_a);
}

static void test_deadlock(void **state)
{
    (void)state;
    unsigned stuck = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct outcome got = run(seed, crossed, 0);
        stuck += got.result.end == SCHED_DEADLOCK ? 1 : 0;
        if (got.result.end == SCHED_DEADLOCK)
            assert_non_null(strstr(got.result.text, "waits for a lock"));
        else
            assert_int_equal(got.result.end, SCHED_DONE);
    }
    assert_in_range(stuck, 1, 39);
}

/* ---- a wake that comes too early ------------------------------------------------------------- */

static void *wait_unasked(void *arg) /* does not look before it waits */
{
    struct shared *s = arg;
    (void)pthread_mutex_lock(&s->a);
    (void)pthread_cond_wait(&s->full, &s->a);
    (void)pthread_mutex_unlock(&s->a);
    return NULL;
}

static void *wait_asked(void *arg)
{
    struct shared *s = arg;
    (void)pthread_mutex_lock(&s->a);
    while (!s->flag)
        (void)pthread_cond_wait(&s->full, &s->a);
    s->count = 1;
    (void)pthread_mutex_unlock(&s->a);
    return NULL;
}

static void *tell(void *arg)
{
    struct shared *s = arg;
    (void)pthread_mutex_lock(&s->a);
    s->flag = true;
    (void)pthread_cond_signal(&s->full);
    (void)pthread_mutex_unlock(&s->a);
    return NULL;
}

static void lost_wake(void *arg)
{
    pair(arg, wait_unasked, tell);
}

static void kept_wake(void *arg)
{
    pair(arg, wait_asked, tell);
}

static void test_conditions(void **state)
{
    (void)state;
    unsigned stuck = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        stuck += run(seed, lost_wake, 0).result.end == SCHED_DEADLOCK ? 1 : 0;
        struct outcome good = run(seed, kept_wake, 0);
        assert_int_equal(good.result.end, SCHED_DONE);
        assert_int_equal(good.value, 1);
    }
    assert_in_range(stuck, 1, 39);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void spins(void *arg)
{
    (void)arg;
    for (;;)
        sched_point();
}

static void gives_back_what_is_not_held(void *arg)
{
    struct shared *s = arg;
    (void)pthread_mutex_unlock(&s->a);
}

static void sleeps(void *arg)
{
    struct shared *s = arg;
    struct timespec before, after, day = {86400, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &before);
    (void)nanosleep(&day, NULL);
    (void)clock_gettime(CLOCK_MONOTONIC, &after);
    s->count = (uint64_t)(after.tv_sec - before.tv_sec);
}

static void test_ends(void **state)
{
    (void)state;
    assert_int_equal(run(1, spins, 1000).result.end, SCHED_TOO_LONG);
    assert_int_equal(run(1, gives_back_what_is_not_held, 0).result.end, SCHED_MISUSE);
    struct outcome slept = run(1, sleeps, 0);
    assert_int_equal(slept.result.end, SCHED_DONE);
    assert_true(slept.value >= 86400);
}

int main(int argc, char **argv)
{
    int rc = support_begin(argc, argv);
    if (rc != 0)
        return rc;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lost_update), cmocka_unit_test(test_replays),
        cmocka_unit_test(test_deadlock),    cmocka_unit_test(test_conditions),
        cmocka_unit_test(test_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
