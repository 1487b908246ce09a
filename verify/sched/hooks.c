/* hooks.c - the calls at which threads take turns, standing before libc's.
 *
 * Relies on the linker taking a definition in the program before one in a library, and on
 * RTLD_NEXT. Keeps true: a thread that is not under the scheduler gets libc's own call; one that is
 * never enters the kernel to wait. Locks that are used under the scheduler are used there only, so
 * their state lives in core.c and libc's objects are not touched. */
#include "core.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
#error "the scheduler and ThreadSanitizer want the same calls"
#endif

/* libc's definition of a call, of the call's own type. */
#define REAL(ret_type, name, params)                                                               \
    static ret_type (*real_##name(void)) params                                                    \
    {                                                                                              \
        static ret_type(*found) params;                                                            \
        if (!found) {                                                                              \
            void *symbol = dlsym(RTLD_NEXT, #name);                                                \
            memcpy(&found, &symbol, sizeof found); /* an object pointer, as POSIX has it */        \
        }                                                                                          \
        return found;                                                                              \
    }

REAL(int, pthread_create, (pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))
REAL(int, pthread_join, (pthread_t, void **))
REAL(int, pthread_mutex_lock, (pthread_mutex_t *))
REAL(int, pthread_mutex_trylock, (pthread_mutex_t *))
REAL(int, pthread_mutex_unlock, (pthread_mutex_t *))
REAL(int, pthread_rwlock_rdlock, (pthread_rwlock_t *))
REAL(int, pthread_rwlock_wrlock, (pthread_rwlock_t *))
REAL(int, pthread_rwlock_unlock, (pthread_rwlock_t *))
REAL(int, pthread_cond_wait, (pthread_cond_t *, pthread_mutex_t *))
REAL(int, pthread_cond_timedwait, (pthread_cond_t *, pthread_mutex_t *, const struct timespec *))
REAL(int, pthread_cond_signal, (pthread_cond_t *))
REAL(int, pthread_cond_broadcast, (pthread_cond_t *))
REAL(int, clock_gettime, (clockid_t, struct timespec *))
REAL(int, nanosleep, (const struct timespec *, struct timespec *))
REAL(long, syscall, (long, ...))
REAL(int, sched_yield, (void))

int sched_real_create(pthread_t *ret, const pthread_attr_t *attr, void *(*start)(void *), void *arg);

int sched_real_create(pthread_t *ret, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
    return real_pthread_create()(ret, attr, start, arg);
}

/* ---- threads --------------------------------------------------------------------------------- */

int pthread_create(pthread_t *restrict ret, const pthread_attr_t *restrict attr,
                   void *(*start)(void *), void *restrict arg)
{
    if (!sched_self())
        return sched_real_create(ret, attr, start, arg);
    int rc = sched_start(ret, attr, start, arg);
    sched_point();
    return rc;
}

int pthread_join(pthread_t id, void **ret)
{
    const struct sched_thread *t = sched_self() ? sched_find(id) : NULL;
    while (t && !t->done)
        (void)sched_block(SCHED_ON_END, t, SCHED_FOREVER);
    return real_pthread_join()(id, ret);
}

/* ---- locks ----------------------------------------------------------------------------------- */

static void lock(const void *address, bool shared)
{
    sched_point();
    for (;;) {
        struct sched_lock *l = sched_lock_of(address);
        if (!l->owner && (shared || l->readers == 0)) {
            if (shared)
                l->readers++;
            else
                l->owner = sched_self();
            return;
        }
        if (l->owner == sched_self())
            sched_misuse("takes a lock that it holds");
        (void)sched_block(SCHED_ON_LOCK, address, SCHED_FOREVER);
    }
}

static void let_go(const void *address)
{
    struct sched_lock *l = sched_lock_of(address);
    if (l->owner == sched_self())
        l->owner = NULL;
    else if (!l->owner && l->readers > 0)
        l->readers--;
    else
        sched_misuse("gives back a lock that it does not hold");
    sched_wake(SCHED_ON_LOCK, address, UINT32_MAX);
}

int pthread_mutex_lock(pthread_mutex_t *m)
{
    if (!sched_self())
        return real_pthread_mutex_lock()(m);
    lock(m, false);
    return 0;
}

int pthread_mutex_trylock(pthread_mutex_t *m)
{
    if (!sched_self())
        return real_pthread_mutex_trylock()(m);
    sched_point();
    struct sched_lock *l = sched_lock_of(m);
    if (l->owner)
        return EBUSY;
    l->owner = sched_self();
    return 0;
}

int pthread_mutex_unlock(pthread_mutex_t *m)
{
    if (!sched_self())
        return real_pthread_mutex_unlock()(m);
    let_go(m);
    sched_point();
    return 0;
}

int pthread_rwlock_rdlock(pthread_rwlock_t *m)
{
    if (!sched_self())
        return real_pthread_rwlock_rdlock()(m);
    lock(m, true);
    return 0;
}

int pthread_rwlock_wrlock(pthread_rwlock_t *m)
{
    if (!sched_self())
        return real_pthread_rwlock_wrlock()(m);
    lock(m, false);
    return 0;
}

int pthread_rwlock_unlock(pthread_rwlock_t *m)
{
    if (!sched_self())
        return real_pthread_rwlock_unlock()(m);
    let_go(m);
    sched_point();
    return 0;
}

/* ---- conditions ------------------------------------------------------------------------------ */

static uint64_t ns_of(const struct timespec *t)
{
    return (uint64_t)t->tv_sec * UINT64_C(1000000000) + (uint64_t)t->tv_nsec;
}

static bool wait_on(const pthread_cond_t *c, const pthread_mutex_t *m, uint64_t deadline)
{
    let_go(m);
    bool woken = sched_block(SCHED_ON_COND, c, deadline);
    lock(m, false);
    return woken;
}

int pthread_cond_wait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m)
{
    if (!sched_self())
        return real_pthread_cond_wait()(c, m);
    (void)wait_on(c, m, SCHED_FOREVER);
    return 0;
}

int pthread_cond_timedwait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m,
                           const struct timespec *restrict until)
{
    if (!sched_self())
        return real_pthread_cond_timedwait()(c, m, until);
    return wait_on(c, m, ns_of(until)) ? 0 : ETIMEDOUT;
}

int pthread_cond_signal(pthread_cond_t *c)
{
    if (!sched_self())
        return real_pthread_cond_signal()(c);
    sched_wake(SCHED_ON_COND, c, 1);
    sched_point();
    return 0;
}

int pthread_cond_broadcast(pthread_cond_t *c)
{
    if (!sched_self())
        return real_pthread_cond_broadcast()(c);
    sched_wake(SCHED_ON_COND, c, UINT32_MAX);
    sched_point();
    return 0;
}

/* ---- the futex ------------------------------------------------------------------------------- */

static long futex_wait(const uint32_t *word, uint32_t value, const struct timespec *limit)
{
    sched_point();
    if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value) {
        errno = EAGAIN;
        return -1;
    }
    uint64_t deadline = limit ? sched_clock() + ns_of(limit) : SCHED_FOREVER;
    if (sched_block(SCHED_ON_FUTEX, word, deadline))
        return 0;
    errno = ETIMEDOUT;
    return -1;
}

long syscall(long number, ...)
{
    long a[6];
    va_list args;
    va_start(args, number);
    for (size_t i = 0; i < 6; i++)
        a[i] = va_arg(args, long);
    va_end(args);
    if (!sched_self() || number != SYS_futex)
        return real_syscall()(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    const uint32_t *word = (const uint32_t *)a[0];
    if ((a[1] & ~FUTEX_PRIVATE_FLAG) == FUTEX_WAIT)
        return futex_wait(word, (uint32_t)a[2], (const struct timespec *)a[3]);
    if ((a[1] & ~FUTEX_PRIVATE_FLAG) != FUTEX_WAKE)
        sched_misuse("a futex call that the scheduler does not know");
    sched_wake(SCHED_ON_FUTEX, word, (uint32_t)a[2]);
    sched_point();
    return 0;
}

/* ---- time ------------------------------------------------------------------------------------ */

int clock_gettime(clockid_t clock, struct timespec *ret)
{
    if (!sched_self())
        return real_clock_gettime()(clock, ret);
    ret->tv_sec = (time_t)(sched_clock() / UINT64_C(1000000000));
    ret->tv_nsec = (long)(sched_clock() % UINT64_C(1000000000));
    return 0;
}

int sched_yield(void)
{
    if (!sched_self())
        return real_sched_yield()();
    sched_point();
    return 0;
}

int nanosleep(const struct timespec *want, struct timespec *left)
{
    if (!sched_self())
        return real_nanosleep()(want, left);
    (void)sched_block(SCHED_ON_SLEEP, want, sched_clock() + ns_of(want));
    return 0;
}
