/* park.h - a counter that threads sleep on until it has come so far, and timed waits.
 *
 * Private to engine/. Relies on the futex on Linux, elsewhere (and with SEAM_PARK_PORTABLE) on a
 * mutex and a condition of its own. Keeps true: who set the count before somebody looked, or
 * sleeps, is seen: a count that is set and then woken leaves nobody asleep who waited for it. */
#ifndef SEAM_ENGINE_PARK_H
#define SEAM_ENGINE_PARK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Conditions that count on the monotonic clock, where that can be asked for. */
static inline int seam_cond_init(pthread_cond_t *cond)
{
#if defined(__APPLE__)
    return pthread_cond_init(cond, NULL);
#else
    pthread_condattr_t attr;
    int rc = pthread_condattr_init(&attr);
    if (rc != 0)
        return rc;
    rc = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    if (rc == 0)
        rc = pthread_cond_init(cond, &attr);
    (void)pthread_condattr_destroy(&attr);
    return rc;
#endif
}

static inline void seam_cond_wait_ns(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t ns)
{
    struct timespec t;
#if defined(__APPLE__)
    t.tv_sec = (time_t)(ns / 1000000000u);
    t.tv_nsec = (long)(ns % 1000000000u);
    (void)pthread_cond_timedwait_relative_np(cond, mutex, &t);
#else
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    ns += (uint64_t)t.tv_nsec;
    t.tv_sec += (time_t)(ns / 1000000000u);
    t.tv_nsec = (long)(ns % 1000000000u);
    (void)pthread_cond_timedwait(cond, mutex, &t);
#endif
}

#if defined(__linux__) && !defined(SEAM_PARK_PORTABLE)

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

struct seam_count {
    _Atomic uint32_t at;
};

static inline int seam_count_init(struct seam_count *c, uint32_t at)
{
    atomic_init(&c->at, at);
    return 0;
}

static inline void seam_count_destroy(struct seam_count *c)
{
    (void)c;
}

/* Sleeps until the count is at n or beyond, by less than 2^31. */
static inline void seam_count_reach(struct seam_count *c, uint32_t n)
{
    for (;;) {
        uint32_t at = atomic_load_explicit(&c->at, memory_order_acquire);
        if ((int32_t)(at - n) >= 0)
            return;
        (void)syscall(SYS_futex, &c->at, FUTEX_WAIT_PRIVATE, at, NULL, NULL, 0);
    }
}

static inline void seam_count_set(struct seam_count *c, uint32_t n)
{
    atomic_store_explicit(&c->at, n, memory_order_release);
}

/* Wakes all who sleep, to look again. */
static inline void seam_count_wake(struct seam_count *c)
{
    (void)syscall(SYS_futex, &c->at, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

#else

struct seam_count {
    pthread_mutex_t mutex;
    pthread_cond_t moved;
    uint32_t at;
};

static inline int seam_count_init(struct seam_count *c, uint32_t at)
{
    c->at = at;
    int rc = pthread_mutex_init(&c->mutex, NULL);
    if (rc == 0 && (rc = seam_cond_init(&c->moved)) != 0)
        (void)pthread_mutex_destroy(&c->mutex);
    return rc;
}

static inline void seam_count_destroy(struct seam_count *c)
{
    (void)pthread_cond_destroy(&c->moved);
    (void)pthread_mutex_destroy(&c->mutex);
}

static inline void seam_count_reach(struct seam_count *c, uint32_t n)
{
    (void)pthread_mutex_lock(&c->mutex);
    while ((int32_t)(c->at - n) < 0)
        (void)pthread_cond_wait(&c->moved, &c->mutex);
    (void)pthread_mutex_unlock(&c->mutex);
}

static inline void seam_count_set(struct seam_count *c, uint32_t n)
{
    (void)pthread_mutex_lock(&c->mutex);
    c->at = n;
    (void)pthread_mutex_unlock(&c->mutex);
}

static inline void seam_count_wake(struct seam_count *c)
{
    (void)pthread_mutex_lock(&c->mutex);
    (void)pthread_cond_broadcast(&c->moved);
    (void)pthread_mutex_unlock(&c->mutex);
}

#endif

#endif
