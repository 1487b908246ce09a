/* core.c - the scheduler: whose turn it is, and handing it on.
 *
 * Relies on POSIX semaphores, one a thread, which hooks.c leaves alone. Keeps true: one thread runs
 * at a time, and nothing but the seed and what the threads call decides which is next. */
#include "core.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOCKS 512u
#define CHANGES 4u /* points where a priority falls */

static struct {
    struct sched_config config;
    struct sched_result result;
    struct sched_thread threads[SCHED_THREADS];
    uint32_t count, alive;
    struct sched_lock locks[LOCKS];
    uint32_t lock_count;
    uint64_t rng, clock, lowest;
    uint64_t changes[CHANGES];
    bool random, stopped;
    sem_t ended;
} all;

static _Thread_local struct sched_thread *self;

static uint64_t draw(void)
{
    uint64_t z = all.rng += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

struct sched_thread *sched_self(void)
{
    return all.stopped ? NULL : self;
}

uint64_t sched_clock(void)
{
    return all.clock;
}

static void wait_for(sem_t *sem)
{
    while (sem_wait(sem) != 0 && errno == EINTR) {
    }
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void describe(void)
{
    static const char *const kinds[] = {"may go on",  "waits for a lock",     "waits on a condition",
                                        "is parked",  "waits for the end of", "sleeps"};
    size_t at = 0;
    for (uint32_t i = 0; i < all.count && at < sizeof all.result.text; i++) {
        const struct sched_thread *t = &all.threads[i];
        if (t->done)
            continue;
        int n = snprintf(all.result.text + at, sizeof all.result.text - at, "thread %u %s %p; ", i,
                         kinds[t->kind], t->on);
        at += n > 0 ? (size_t)n : 0;
    }
}

/* Gives the turn back to sched_run, for good. */
static void finish(enum sched_end end)
{
    all.result.end = end;
    if (end != SCHED_DONE && all.result.text[0] == '\0')
        describe();
    (void)sem_post(&all.ended);
}

static void stand_still(void)
{
    for (;;)
        wait_for(&self->baton);
}

void sched_misuse(const char *what)
{
    (void)snprintf(all.result.text, sizeof all.result.text, "thread %u: %s",
                   (unsigned)(self - all.threads), what);
    finish(SCHED_MISUSE);
    stand_still();
}

/* ---- whose turn ------------------------------------------------------------------------------ */

static bool may_go(const struct sched_thread *t)
{
    return !t->done && t->kind == SCHED_ON_NOTHING;
}

/* The waiting thread whose time runs out first; NULL if none has a limit. */
static struct sched_thread *first_timed(void)
{
    struct sched_thread *best = NULL;
    for (uint32_t i = 0; i < all.count; i++) {
        struct sched_thread *t = &all.threads[i];
        if (!t->done && t->kind != SCHED_ON_NOTHING && t->deadline != SCHED_FOREVER &&
            (!best || t->deadline < best->deadline))
            best = t;
    }
    return best;
}

static void run_out(struct sched_thread *t)
{
    if (all.clock < t->deadline)
        all.clock = t->deadline;
    t->timed_out = true;
    t->kind = SCHED_ON_NOTHING;
}

static struct sched_thread *any_ready(void)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < all.count; i++)
        n += may_go(&all.threads[i]) ? 1 : 0;
    if (n == 0)
        return NULL;
    uint64_t which = draw() % n;
    for (uint32_t i = 0;; i++)
        if (may_go(&all.threads[i]) && which-- == 0)
            return &all.threads[i];
}

static struct sched_thread *highest_ready(void)
{
    struct sched_thread *best = NULL;
    for (uint32_t i = 0; i < CHANGES; i++)
        if (all.result.steps == all.changes[i] && self)
            self->priority = all.lowest--;
    for (uint32_t i = 0; i < all.count; i++) {
        struct sched_thread *t = &all.threads[i];
        if (may_go(t) && (!best || t->priority > best->priority))
            best = t;
    }
    return best;
}

static struct sched_thread *choose(void)
{
    if (draw() % 32 == 0) { /* a limit that is reached while others could go on */
        struct sched_thread *t = first_timed();
        if (t)
            run_out(t);
    }
    struct sched_thread *next = all.random ? any_ready() : highest_ready();
    if (!next && (next = first_timed()) != NULL)
        run_out(next);
    return next;
}

/* Ends the turn of the calling thread, which comes back when it is chosen again. */
static void hand_on(void)
{
    all.clock += 1000;
    if (++all.result.steps == all.config.stop_step && all.config.stop) {
        all.stopped = true;
        all.config.stop(all.config.arg);
    }
    if (all.result.steps > all.config.max_steps) {
        finish(SCHED_TOO_LONG);
        stand_still();
    }
    struct sched_thread *next = choose();
    if (!next) {
        finish(SCHED_DEADLOCK);
        stand_still();
    }
    all.result.order = (all.result.order ^ (uint64_t)(next - all.threads + 1)) * UINT64_C(0x100000001b3);
    if (next == self)
        return;
    all.result.switches++;
    struct sched_thread *me = self;
    (void)sem_post(&next->baton);
    if (!me->done)
        wait_for(&me->baton);
}

void sched_point(void)
{
    if (sched_self())
        hand_on();
}

bool sched_block(enum sched_on kind, const void *on, uint64_t deadline)
{
    self->kind = kind;
    self->on = on;
    self->deadline = deadline;
    self->timed_out = false;
    hand_on();
    return !self->timed_out;
}

void sched_wake(enum sched_on kind, const void *on, uint32_t most)
{
    uint32_t from = (uint32_t)(draw() % (all.count + 1u)); /* no order is promised */
    for (uint32_t i = 0; i < all.count && most > 0; i++) {
        struct sched_thread *t = &all.threads[(from + i) % all.count];
        if (!t->done && t->kind == kind && t->on == on) {
            t->kind = SCHED_ON_NOTHING;
            most--;
        }
    }
}

struct sched_lock *sched_lock_of(const void *address)
{
    struct sched_lock *unused = NULL;
    for (uint32_t i = 0; i < all.lock_count; i++) {
        struct sched_lock *l = &all.locks[i];
        if (l->address == address)
            return l;
        if (!l->owner && l->readers == 0)
            unused = l;
    }
    if (!unused && all.lock_count < LOCKS)
        unused = &all.locks[all.lock_count++];
    if (!unused)
        sched_misuse("more locks held at once than the scheduler has room for");
    memset(unused, 0, sizeof *unused);
    unused->address = address;
    return unused;
}

/* ---- threads --------------------------------------------------------------------------------- */

static void *trampoline(void *arg)
{
    self = arg;
    wait_for(&self->baton);
    self->value = self->start(self->arg);
    self->done = true;
    sched_wake(SCHED_ON_END, self, UINT32_MAX);
    if (--all.alive > 0)
        hand_on();
    else
        finish(SCHED_DONE);
    return self->value;
}

/* Real, not hooked: hooks.c. */
int sched_real_create(pthread_t *ret, const pthread_attr_t *attr, void *(*start)(void *), void *arg);

int sched_start(pthread_t *ret, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
    if (all.count == SCHED_THREADS)
        return EAGAIN;
    struct sched_thread *t = &all.threads[all.count];
    memset(t, 0, sizeof *t);
    if (sem_init(&t->baton, 0, 0) != 0)
        return errno;
    t->start = start;
    t->arg = arg;
    t->deadline = SCHED_FOREVER;
    t->priority = (draw() >> 1) + CHANGES + 1;
    int rc = sched_real_create(&t->id, attr, trampoline, t);
    if (rc != 0) {
        (void)sem_destroy(&t->baton);
        return rc;
    }
    *ret = t->id;
    all.count++;
    all.alive++;
    all.result.threads++;
    return 0;
}

struct sched_thread *sched_find(pthread_t id)
{
    for (uint32_t i = all.count; i-- > 0;)
        if (pthread_equal(all.threads[i].id, id))
            return &all.threads[i];
    return NULL;
}

/* ---- a run ----------------------------------------------------------------------------------- */

struct first {
    void (*main)(void *arg);
    void *arg;
};

static void *run_first(void *arg)
{
    struct first *f = arg;
    f->main(f->arg);
    return NULL;
}

int sched_run(const struct sched_config *config, void (*main)(void *arg), void *arg,
              struct sched_result *ret)
{
    struct first first = {main, arg};
    pthread_t id;
    memset(&all, 0, sizeof all);
    all.config = *config;
    if (all.config.max_steps == 0)
        all.config.max_steps = 1000000;
    all.rng = config->seed;
    all.random = (config->seed & 1) == 0;
    all.clock = UINT64_C(1000000000);
    all.lowest = CHANGES;
    uint64_t span = UINT64_C(1) << (6 + draw() % 12); /* how long the run will be is not known */
    for (uint32_t i = 0; i < CHANGES; i++)
        all.changes[i] = draw() % span + 1;
    if (sem_init(&all.ended, 0, 0) != 0)
        return errno;
    int rc = sched_start(&id, NULL, run_first, &first);
    if (rc != 0)
        return rc;
    (void)sem_post(&all.threads[0].baton);
    wait_for(&all.ended);
    *ret = all.result;
    if (all.result.end == SCHED_DONE)
        (void)pthread_join(id, NULL);
    return 0;
}
