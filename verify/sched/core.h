/* core.h - what the scheduler's two files share: who waits for what, and handing on.
 *
 * Keeps true: of the threads under the scheduler exactly one runs, the one named by `self` in its
 * own thread-local; so all of this is used without a lock. */
#ifndef SEAM_VERIFY_SCHED_CORE_H
#define SEAM_VERIFY_SCHED_CORE_H

#include "interleave.h"

#include <pthread.h>
#include <semaphore.h>
#include <stddef.h>

#define SCHED_THREADS 64u
#define SCHED_FOREVER UINT64_MAX

enum sched_on { SCHED_ON_NOTHING, SCHED_ON_LOCK, SCHED_ON_COND, SCHED_ON_FUTEX, SCHED_ON_END,
                SCHED_ON_SLEEP };

struct sched_thread {
    sem_t baton;
    enum sched_on kind; /* ON_NOTHING: may go on */
    const void *on;
    uint64_t deadline;
    bool done, timed_out;
    uint64_t priority;
    pthread_t id;
    void *(*start)(void *);
    void *arg, *value;
};

/* Who holds a lock. */
struct sched_lock {
    const void *address;
    const struct sched_thread *owner;
    uint32_t readers;
};

/* NULL: not under the scheduler. */
struct sched_thread *sched_self(void);
uint64_t sched_clock(void);
/* Sleeps on something until it is woken, or until deadline; false if the time ran out. */
bool sched_block(enum sched_on kind, const void *on, uint64_t deadline);
void sched_wake(enum sched_on kind, const void *on, uint32_t most);
/* The lock's entry, made if need be; valid until the next call. */
struct sched_lock *sched_lock_of(const void *address);
void sched_misuse(const char *what);
int sched_start(pthread_t *ret, const pthread_attr_t *attr, void *(*start)(void *), void *arg);
struct sched_thread *sched_find(pthread_t id);

#endif
