/* test_ledger.c - the ledger: what fits, what never fits, who waits, in which order. Includes
 * ledger.c to see who is queued, so that no test waits for a time to pass. */
#include "ledger.c"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>

#include <cmocka.h>

/* A clock that only the test moves. */
static _Atomic uint64_t fake_ns;

static uint64_t fake_now(void *ctx, enum seam_clock clock)
{
    (void)ctx, (void)clock;
    return atomic_load(&fake_ns);
}

static struct seam_platform fake_os(void)
{
    struct seam_platform os = *seam_platform_system();
    os.now_ns = fake_now;
    fake_ns = 1000;
    return os;
}

static void takes_and_gives(void **state)
{
    (void)state;
    struct seam_platform os = fake_os();
    struct seam_ledger *l = NULL;
    struct seam_err err;
    assert_int_equal(seam_ledger_open(&os, 100, &l, &err), SEAM_OK);
    assert_int_equal(seam_ledger_take(l, 60, 0, "memory", &err), SEAM_OK);
    assert_int_equal(seam_ledger_take(l, 40, 0, "memory", &err), SEAM_OK);
    assert_int_equal(seam_ledger_promised(l), 100);
    assert_int_equal(seam_ledger_take(l, 0, 0, "memory", &err), SEAM_OK);
    assert_int_equal(seam_ledger_take(l, 1, 0, "memory", &err), SEAM_E_BUSY);
    assert_string_equal(err.limit, "memory");
    assert_int_equal(err.got, 1);
    assert_int_equal(err.max, 0);
    assert_int_equal(seam_ledger_take(l, 101, UINT64_MAX, "memory", &err), SEAM_E_NO_SPACE);
    assert_int_equal(err.max, 100);
    seam_ledger_give(l, 60, 50); /* now 50 used, 40 promised */
    assert_int_equal(seam_ledger_take(l, 11, 0, "memory", &err), SEAM_E_BUSY);
    assert_int_equal(seam_ledger_take(l, 10, 0, "memory", &err), SEAM_OK);
    assert_int_equal(seam_ledger_take(l, 51, UINT64_MAX, "memory", &err), SEAM_E_NO_SPACE);
    seam_ledger_give(l, 50, UINT64_MAX);
    seam_ledger_set_cap(l, 40); /* below what is in use */
    assert_int_equal(seam_ledger_take(l, 1, UINT64_MAX, "memory", &err), SEAM_E_NO_SPACE);
    seam_ledger_set_cap(l, UINT64_MAX);
    assert_int_equal(seam_ledger_take(l, UINT64_MAX - 1, 0, "memory", &err), SEAM_OK);
    assert_int_equal(seam_ledger_take(l, 2, 0, "memory", NULL), SEAM_E_BUSY);
    seam_ledger_give(l, UINT64_MAX - 1, 0);
    assert_int_equal(seam_ledger_promised(l), 0);
    seam_ledger_close(l);
    seam_ledger_close(NULL);
}

struct asker {
    struct seam_ledger *ledger;
    uint64_t amount, deadline;
    int rc;
    pthread_t thread;
};

static void *ask(void *arg)
{
    struct asker *a = arg;
    a->rc = seam_ledger_take(a->ledger, a->amount, a->deadline, "log", NULL);
    return NULL;
}

static void wait_for_queue(struct seam_ledger *l, unsigned want)
{
    for (;;) {
        unsigned n = 0;
        (void)pthread_mutex_lock(&l->mutex);
        for (const struct taker *t = l->head; t; t = t->next)
            n++;
        (void)pthread_mutex_unlock(&l->mutex);
        if (n == want)
            return;
        (void)sched_yield();
    }
}

/* A large taker is not overtaken by small ones that came later. */
static void served_in_order(void **state)
{
    (void)state;
    struct seam_platform os = fake_os();
    struct seam_ledger *l = NULL;
    struct asker askers[4];
    assert_int_equal(seam_ledger_open(&os, 100, &l, NULL), SEAM_OK);
    assert_int_equal(seam_ledger_take(l, 90, 0, "log", NULL), SEAM_OK);
    static const uint64_t amounts[] = {80, 30, 30, 30};
    for (unsigned i = 0; i < 4; i++) {
        askers[i] = (struct asker){l, amounts[i], UINT64_MAX, -1, 0};
        assert_int_equal(pthread_create(&askers[i].thread, NULL, ask, &askers[i]), 0);
        wait_for_queue(l, i + 1);
    }
    seam_ledger_give(l, 60, 0); /* room for two of the small ones */
    wait_for_queue(l, 4);
    seam_ledger_give(l, 30, 0); /* room for the large one, and then for no other */
    wait_for_queue(l, 3);
    assert_int_equal(seam_ledger_promised(l), 80);
    seam_ledger_give(l, 80, 0);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(askers[i].thread, NULL), 0);
        assert_int_equal(askers[i].rc, SEAM_OK);
    }
    assert_int_equal(seam_ledger_promised(l), 90);
    seam_ledger_give(l, 90, 0);
    seam_ledger_close(l);
}

static void deadline_by_the_platform_clock(void **state)
{
    (void)state;
    struct seam_platform os = fake_os();
    struct seam_ledger *l = NULL;
    assert_int_equal(seam_ledger_open(&os, 10, &l, NULL), SEAM_OK);
    assert_int_equal(seam_ledger_take(l, 10, 0, "log", NULL), SEAM_OK);
    struct asker a = {l, 5, fake_ns + UINT64_C(3600000000000), -1, 0};
    struct asker b = {l, 6, UINT64_MAX, -1, 0};
    assert_int_equal(pthread_create(&a.thread, NULL, ask, &a), 0);
    wait_for_queue(l, 1);
    assert_int_equal(pthread_create(&b.thread, NULL, ask, &b), 0);
    wait_for_queue(l, 2);
    fake_ns += UINT64_C(3600000000000); /* an hour passes at once */
    assert_int_equal(pthread_join(a.thread, NULL), 0);
    assert_int_equal(a.rc, SEAM_E_BUSY);
    seam_ledger_give(l, 10, 5); /* b cannot ever fit now: told at once, though it could wait */
    assert_int_equal(pthread_join(b.thread, NULL), 0);
    assert_int_equal(b.rc, SEAM_E_NO_SPACE);
    assert_int_equal(seam_ledger_promised(l), 0);
    seam_ledger_close(l);
}

struct churner {
    struct seam_ledger *ledger;
    unsigned seed;
    pthread_t thread;
};

static void *churn(void *arg)
{
    struct churner *c = arg;
    for (unsigned i = 0; i < 2000; i++) {
        c->seed = c->seed * 1103515245u + 12345u;
        uint64_t amount = 1 + (c->seed >> 16) % 60;
        if (seam_ledger_take(c->ledger, amount, UINT64_MAX, "log", NULL) != SEAM_OK)
            return c;
        if (seam_ledger_promised(c->ledger) > 100)
            return c;
        seam_ledger_give(c->ledger, amount, UINT64_MAX);
    }
    return NULL;
}

/* Nobody is forgotten asleep, and the cap holds. */
static void many_threads(void **state)
{
    (void)state;
    struct seam_ledger *l = NULL;
    struct churner churners[8];
    assert_int_equal(seam_ledger_open(seam_platform_system(), 100, &l, NULL), SEAM_OK);
    for (unsigned i = 0; i < 8; i++) {
        churners[i] = (struct churner){l, i, 0};
        assert_int_equal(pthread_create(&churners[i].thread, NULL, churn, &churners[i]), 0);
    }
    for (unsigned i = 0; i < 8; i++) {
        void *failed = NULL;
        assert_int_equal(pthread_join(churners[i].thread, &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(seam_ledger_promised(l), 0);
    seam_ledger_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_and_gives),
        cmocka_unit_test(served_in_order),
        cmocka_unit_test(deadline_by_the_platform_clock),
        cmocka_unit_test(many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
