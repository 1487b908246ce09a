/* test_locks.c - every lock and condition that an open makes fails once, in turn.
 *
 * Relies on the dynamic linker: the functions defined here are those that the library calls, which is
 * linked into this program; calls from other libraries are passed on. In round k the k-th call
 * fails; the open then says so, nothing of it is left, and the next one works. Without sanitizers
 * only: they have such functions of their own. */
#include "support.h"

#include <seam/journal.h>
#include <seam/platform.h>
#include <seam/projection.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

static atomic_long until_failure; /* <= 0: no more */
static atomic_long outstanding;   /* allocations, and locks and conditions that were made */

#ifndef SEAM_SANITIZED

static bool ours(const void *caller)
{
    static const char here;
    Dl_info program, info;
    return dladdr(&here, &program) != 0 && dladdr(caller, &info) != 0 &&
           info.dli_fbase == program.dli_fbase;
}

/* The number that a call of ours is to fail with, or 0. */
static int refuse(const void *caller)
{
    return ours(caller) && atomic_fetch_sub(&until_failure, 1) == 1 ? ENOMEM : 0;
}

static int made(const void *caller, int rc)
{
    if (rc == 0 && ours(caller))
        atomic_fetch_add(&outstanding, 1);
    return rc;
}

static void *real(const char *name)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    assert_non_null(symbol);
    return symbol;
}

#define CALLER __builtin_extract_return_addr(__builtin_return_address(0))

/* name(object, attr) makes one, end(object) ends it. */
#define PAIR(name, end, object, attributes)                                                       \
    int name(object *made_here, const attributes *attr)                                           \
    {                                                                                             \
        union {                                                                                   \
            void *symbol;                                                                         \
            int (*call)(object *, const attributes *);                                            \
        } r = {real(#name)};                                                                      \
        int rc = refuse(CALLER);                                                                  \
        return rc != 0 ? rc : made(CALLER, r.call(made_here, attr));                              \
    }                                                                                             \
    int end(object *made_here)                                                                    \
    {                                                                                             \
        union {                                                                                   \
            void *symbol;                                                                         \
            int (*call)(object *);                                                                \
        } r = {real(#end)};                                                                       \
        if (ours(CALLER))                                                                         \
            atomic_fetch_sub(&outstanding, 1);                                                    \
        return r.call(made_here);                                                                 \
    }

PAIR(pthread_mutex_init, pthread_mutex_destroy, pthread_mutex_t, pthread_mutexattr_t)
PAIR(pthread_rwlock_init, pthread_rwlock_destroy, pthread_rwlock_t, pthread_rwlockattr_t)
PAIR(pthread_cond_init, pthread_cond_destroy, pthread_cond_t, pthread_condattr_t)
#endif

static void *counted_alloc(void *ctx, size_t len)
{
    void *p = seam_platform_system()->alloc(ctx, len);
    if (p)
        atomic_fetch_add(&outstanding, 1);
    return p;
}

static void counted_free(void *ctx, void *p)
{
    if (p)
        atomic_fetch_sub(&outstanding, 1);
    seam_platform_system()->free(ctx, p);
}

/* ---- what is opened ------------------------------------------------------------------------ */

static struct seam_platform os;
static struct seam_db *db; /* for what is opened over one */

static int open_close_db(const char *dir, struct seam_err *err)
{
    struct seam_options options = {.mode = SEAM_OPEN_CREATE, .platform = &os};
    struct seam_db *opened = NULL;
    int rc = seam_open(support_spec(), dir, &options, &opened, err);
    if (rc != SEAM_OK)
        assert_null(opened);
    return rc == SEAM_OK ? seam_close(opened, NULL) : rc;
}

static int open_close_journal(const char *dir, struct seam_err *err)
{
    struct seam_journal_options options = {.platform = &os};
    struct seam_journal *j = NULL;
    (void)dir;
    int rc = seam_journal_open(db, &options, &j, err);
    if (rc == SEAM_OK)
        rc = seam_journal_close(j, NULL);
    return rc;
}

static int open_close_projection(const char *dir, struct seam_err *err)
{
    struct seam_projection_options options = {.platform = &os};
    struct seam_projection *p = NULL;
    (void)dir;
    int rc = seam_projection_open(db, seam_bytes("p", 1), &options, &p, err);
    if (rc == SEAM_OK)
        rc = seam_projection_close(p, NULL);
    return rc;
}

static void fail_each(int (*open_close)(const char *dir, struct seam_err *err), long least)
{
    char dir[512];
    long round = 1;
    snprintf(dir, sizeof dir, "%s", support_dir());
    for (;; round++) {
        struct seam_err err = {0};
        long before = atomic_load(&outstanding);
        atomic_store(&until_failure, round);
        int rc = open_close(dir, &err);
        bool failed = atomic_load(&until_failure) <= 0;
        atomic_store(&until_failure, 0);
        assert_int_equal(atomic_load(&outstanding), before);
        if (!failed) {
            expect_ok(rc, &err);
            break;
        }
        expect_code(rc, SEAM_E_NOMEM, &err);
        assert_true(strlen(err.text) > 0);
        expect_ok(open_close(dir, &err), &err);
    }
    assert_true(round > least);
}

static void locks_of_a_db(void **state)
{
    (void)state;
#ifdef SEAM_SANITIZED
    skip();
#endif
    fail_each(open_close_db, 3); /* a ledger, a window's two, and the engine's own */
}

static void locks_over_a_db(void **state)
{
    (void)state;
#ifdef SEAM_SANITIZED
    skip();
#endif
    db = support_open(support_dir());
    fail_each(open_close_journal, 3);
    fail_each(open_close_projection, 2);
    support_close(db);
}

int main(int argc, char **argv)
{
    int rc = support_begin(argc, argv);
    if (rc != 0)
        return rc;
    os = *seam_platform_system();
    os.alloc = counted_alloc;
    os.free = counted_free;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(locks_of_a_db),
        cmocka_unit_test(locks_over_a_db),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
