/* test_flush_faults.c - engines that flush by themselves, when a flush fails while many threads commit.
 *
 * Relies on the dynamic linker: fdatasync, pwrite and pwritev, as defined here, are the ones that
 * liblmdb.so and librocksdb.so call. The call that fails is the last, unless RocksDB resumes from a
 * full disk by new files; LMDB, which writes nothing of its own accord, writes nothing behind it. */
#include "support.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static struct {
    atomic_int until_failure; /* flushes; the last of them fails; 0: none does */
    atomic_int until_write;   /* the same for writes */
    atomic_int code;          /* errno then */
    atomic_bool failed;
    atomic_int late_flushes, late_writes; /* after it */
} hook;

__attribute__((visibility("default"))) int fdatasync(int fd);
int fdatasync(int fd)
{
    if (atomic_load(&hook.failed))
        atomic_fetch_add(&hook.late_flushes, 1);
    if (atomic_load(&hook.until_failure) > 0 && atomic_fetch_sub(&hook.until_failure, 1) == 1) {
        atomic_store(&hook.failed, true);
        errno = atomic_load(&hook.code);
        return -1;
    }
    return (int)syscall(SYS_fdatasync, fd);
}

static bool write_fails(void)
{
    if (atomic_load(&hook.failed))
        atomic_fetch_add(&hook.late_writes, 1);
    if (atomic_load(&hook.until_write) <= 0 || atomic_fetch_sub(&hook.until_write, 1) != 1)
        return false;
    atomic_store(&hook.failed, true);
    errno = atomic_load(&hook.code);
    return true;
}

__attribute__((visibility("default"))) ssize_t pwrite(int fd, const void *buf, size_t n, off_t at);
ssize_t pwrite(int fd, const void *buf, size_t n, off_t at)
{
    if (write_fails())
        return -1;
    return syscall(SYS_pwrite64, fd, buf, n, at);
}

__attribute__((visibility("default"))) ssize_t pwritev(int fd, const struct iovec *parts, int n,
                                                       off_t at);
ssize_t pwritev(int fd, const struct iovec *parts, int n, off_t at)
{
    if (write_fails())
        return -1;
    return syscall(SYS_pwritev, fd, parts, n, at, 0);
}

enum { THREADS = 4, EACH = 200 };

struct caller {
    struct seam_db *db;
    enum seam_ack ack;
    int id, done, unknown, refused, others;
    bool acked[EACH];
    pthread_t thread;
};

static void *call(void *arg)
{
    struct caller *c = arg;
    for (int i = 0; i < EACH; i++) {
        char key[24];
        (void)snprintf(key, sizeof key, "%d-%d", c->id, i);
        struct seam_op op = op_put(seam_bytes(key, strlen(key)), LIT("value"));
        int rc = seam_write(c->db, &op, 1, c->ack, NULL, NULL);
        c->acked[i] = rc == SEAM_OK;
        c->done += rc == SEAM_OK;
        c->unknown += rc == SEAM_E_UNKNOWN;
        c->refused += rc == SEAM_E_POISONED;
        c->others += rc != SEAM_OK && rc != SEAM_E_UNKNOWN && rc != SEAM_E_POISONED;
    }
    return NULL;
}

static void crowd(struct seam_db *db, enum seam_ack ack, struct caller *callers)
{
    for (int i = 0; i < THREADS; i++) {
        callers[i] = (struct caller){.db = db, .ack = ack, .id = i};
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
}

/* The flush, or the write, number `at` fails with `code`. */
static void failed_call(enum seam_ack ack, bool write, int at, int code)
{
    static struct caller callers[THREADS];
    struct seam_options options = {.mode = SEAM_OPEN_CREATE};
    struct seam_db *db = NULL;
    char dir[600], key[24];
    bool lmdb = strcmp(support_engine(), "lmdb") == 0;
    int done = 0, unknown = 0, refused = 0;
    memset(&hook, 0, sizeof hook);
    (void)snprintf(dir, sizeof dir, "%s", support_dir());
    assert_int_equal(seam_open(support_spec(), dir, &options, &db, NULL), SEAM_OK);
    atomic_store(&hook.code, code);
    atomic_store(write ? &hook.until_write : &hook.until_failure, at);
    crowd(db, ack, callers);
    for (int i = 0; i < THREADS; i++) {
        done += callers[i].done;
        unknown += callers[i].unknown;
        refused += callers[i].refused;
        assert_int_equal(callers[i].others, 0);
    }
    assert_true(unknown > 0);
    assert_true(refused > 0);
    assert_int_equal(done + unknown + refused, THREADS * EACH);
    assert_int_equal(seam_close(db, NULL), SEAM_OK); /* flushes nothing */
    if (lmdb || code != ENOSPC)
        assert_int_equal(atomic_load(&hook.late_flushes), 0);
    if (lmdb) /* of a meta page that could not be written it puts the old one back */
        assert_true(atomic_load(&hook.late_writes) <= write);
    atomic_store(&hook.failed, false);
    assert_int_equal(seam_open(support_spec(), dir, &options, &db, NULL), SEAM_OK);
    for (int i = 0; i < THREADS * EACH; i++) {
        struct seam_pin pin;
        (void)snprintf(key, sizeof key, "%d-%d", i / EACH, i % EACH);
        int rc = seam_get(db, NULL, seam_bytes(key, strlen(key)), &pin, NULL);
        if (callers[i / EACH].acked[i % EACH])
            assert_int_equal(rc, SEAM_OK);
        if (rc == SEAM_OK)
            seam_unpin(&pin);
        else
            assert_int_equal(rc, SEAM_NOTFOUND);
    }
    assert_int_equal(seam_close(db, NULL), SEAM_OK);
}

static void nothing_is_written_behind_a_failed_flush(void **state)
{
    (void)state;
    for (int at = 1; at <= 21; at += 5) {
        failed_call(SEAM_ACK_POWER, false, at, EIO);
        failed_call(SEAM_ACK_POWER, false, at, ENOSPC);
        if (strcmp(support_engine(), "lmdb") == 0) /* it flushes at any level */
            failed_call(SEAM_ACK_PROCESS, false, at, EIO);
    }
}

/* LMDB only: RocksDB writes its log by another call. */
static void nothing_is_written_behind_a_failed_write(void **state)
{
    (void)state;
    if (strcmp(support_engine(), "lmdb") != 0)
        skip();
    for (int at = 1; at <= 20; at++) {
        failed_call(SEAM_ACK_POWER, true, at, EIO);
        failed_call(SEAM_ACK_PROCESS, true, at, ENOSPC);
    }
}

int main(int argc, char **argv)
{
    int rc = support_begin(argc, argv);
    if (rc != 0)
        return rc;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_written_behind_a_failed_flush),
        cmocka_unit_test(nothing_is_written_behind_a_failed_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
