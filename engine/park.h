/* park.h - a place for one thread to sleep until another gives it a number, and timed waits.
 *
 * Private to engine/. Relies on the futex on Linux, elsewhere (and with SEAM_PARK_PORTABLE) on a
 * mutex and a condition of its own. Keeps true: the thread that is woken may free the park at
 * once; the one that wakes it touches it no more after the number is seen, but for a futex wake of
 * its address, which is harmless to whatever lies there by then. */
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

#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

struct seam_park {
    _Atomic uint32_t word; /* 0: asleep */
};

static inline int seam_park_init(struct seam_park *p)
{
    atomic_init(&p->word, 0);
    return 0;
}

static inline void seam_park_destroy(struct seam_park *p)
{
    (void)p;
}

static inline void seam_park_reset(struct seam_park *p)
{
    atomic_store_explicit(&p->word, 0, memory_order_relaxed);
}

/* Sleeps until woken and returns the number; with ns > 0 at most about that long, then 0. */
static inline uint32_t seam_park_wait(struct seam_park *p, uint64_t ns)
{
    struct timespec t;
    t.tv_sec = (time_t)(ns / 1000000000u);
    t.tv_nsec = (long)(ns % 1000000000u);
    for (;;) {
        uint32_t word = atomic_load_explicit(&p->word, memory_order_acquire);
        if (word != 0)
            return word;
        long rc = syscall(SYS_futex, &p->word, FUTEX_WAIT_PRIVATE, 0, ns > 0 ? &t : NULL, NULL, 0);
        if (ns > 0 && rc != 0)
            return atomic_load_explicit(&p->word, memory_order_acquire);
    }
}

/* number: not 0. */
static inline void seam_park_wake(struct seam_park *p, uint32_t number)
{
    atomic_store_explicit(&p->word, number, memory_order_release);
    (void)syscall(SYS_futex, &p->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

#else

struct seam_park {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    uint32_t word;
};

static inline int seam_park_init(struct seam_park *p)
{
    p->word = 0;
    int rc = pthread_mutex_init(&p->mutex, NULL);
    if (rc == 0 && (rc = seam_cond_init(&p->cond)) != 0)
        (void)pthread_mutex_destroy(&p->mutex);
    return rc;
}

static inline void seam_park_destroy(struct seam_park *p)
{
    (void)pthread_cond_destroy(&p->cond);
    (void)pthread_mutex_destroy(&p->mutex);
}

static inline void seam_park_reset(struct seam_park *p)
{
    (void)pthread_mutex_lock(&p->mutex);
    p->word = 0;
    (void)pthread_mutex_unlock(&p->mutex);
}

static inline uint32_t seam_park_wait(struct seam_park *p, uint64_t ns)
{
    (void)pthread_mutex_lock(&p->mutex);
    if (ns > 0 && p->word == 0)
        seam_cond_wait_ns(&p->cond, &p->mutex, ns);
    while (ns == 0 && p->word == 0)
        (void)pthread_cond_wait(&p->cond, &p->mutex);
    uint32_t word = p->word;
    (void)pthread_mutex_unlock(&p->mutex);
    return word;
}

static inline void seam_park_wake(struct seam_park *p, uint32_t number)
{
    (void)pthread_mutex_lock(&p->mutex);
    p->word = number;
    (void)pthread_cond_signal(&p->cond);
    (void)pthread_mutex_unlock(&p->mutex);
}

#endif

#endif
