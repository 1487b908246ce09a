/* test_rocksdb_faults.c - the RocksDB engine when a flush fails or is looked at while it happens,
 * and when a table is damaged.
 *
 * Relies on the dynamic linker: fdatasync, as defined here, is the one that librocksdb.so calls. */
#include "test_rocksdb_support.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct {
    atomic_int calls, fail_from; /* fail_from 0: never */
    atomic_int code;             /* errno of the failures; 0: EIO */
    struct fixture *watch;       /* while a flush is under way: is the key visible? */
    atomic_int seen;
} hook;

__attribute__((visibility("default"))) int fdatasync(int fd);
int fdatasync(int fd)
{
    int call = atomic_fetch_add(&hook.calls, 1) + 1;
    int from = atomic_load(&hook.fail_from);
    if (hook.watch && has(hook.watch, seam_bytes("watched", 7)))
        atomic_fetch_add(&hook.seen, 1);
    if (from && call >= from) {
        int code = atomic_load(&hook.code);
        errno = code ? code : EIO;
        return -1;
    }
    return (int)syscall(SYS_fdatasync, fd);
}

static void fail_next_flush(void)
{
    atomic_store(&hook.fail_from, atomic_load(&hook.calls) + 1);
}

static int faults_setup(void **state)
{
    atomic_store(&hook.fail_from, 0);
    return fixture_setup(state);
}

static int faults_teardown(void **state)
{
    atomic_store(&hook.fail_from, 0);
    atomic_store(&hook.code, 0);
    hook.watch = NULL;
    return fixture_teardown(state);
}

static void a_flushed_commit_is_seen_only_after_its_flush(void **state)
{
    struct fixture *f = *state;
    struct seam_op op = put(S("watched"), S("v"));
    hook.watch = f;
    atomic_store(&hook.seen, 0);
    int before = atomic_load(&hook.calls);
    assert_int_equal(commit(f, &op, 1, SEAM_ACK_POWER, NULL), SEAM_OK);
    hook.watch = NULL;
    assert_true(atomic_load(&hook.calls) > before);
    assert_int_equal(atomic_load(&hook.seen), 0);
    assert_true(has(f, S("watched")));
}

static void a_failed_flush_is_unknown_and_reads_go_on(void **state)
{
    struct fixture *f = *state;
    struct seam_op op = put(S("before"), S("v")), lost = put(S("lost"), S("v"));
    assert_int_equal(commit(f, &op, 1, SEAM_ACK_POWER, NULL), SEAM_OK);
    void *snap;
    assert_int_equal(seam_backend_rocksdb.snap_open(f->e, &snap, &f->err), SEAM_OK);
    fail_next_flush();
    assert_int_equal(commit(f, &lost, 1, SEAM_ACK_POWER, NULL), SEAM_E_UNKNOWN);
    assert_int_equal(f->err.os_errno, EIO);
    assert_non_null(strstr(f->err.text, "rocksdb: commit: "));
    atomic_store(&hook.fail_from, 0);
    assert_true(has(f, S("before")));
    assert_false(has(f, S("lost")));
    seam_backend_rocksdb.snap_close(f->e, snap);
    /* What comes later is not handed over: it is NOT DONE. */
    assert_int_equal(commit(f, &op, 1, SEAM_ACK_PROCESS, NULL), SEAM_E_POISONED);
    assert_int_equal(seam_backend_rocksdb.sync(f->e, SEAM_ACK_POWER, &f->err), SEAM_E_POISONED);
    /* Nothing is flushed again, and the store opens with every acked commit. */
    int calls = atomic_load(&hook.calls);
    assert_int_equal(fixture_close(f), SEAM_OK);
    assert_int_equal(atomic_load(&hook.calls), calls);
    assert_int_equal(fixture_open(f, false, false, NULL), SEAM_OK);
    assert_true(has(f, S("before")));
    assert_int_equal(commit(f, &op, 1, SEAM_ACK_POWER, NULL), SEAM_OK);
}

/* RocksDB may resume by itself when the disk was full: what was acked is there all the same, the handle
 * stays poisoned, and the log whose flush failed is not flushed again: with EIO nothing is. */
static void a_full_disk_is_resumed_from_without_loss(void **state)
{
    struct fixture *f = *state;
    struct seam_op op = put(S("k"), S("v")), lost = put(S("lost"), S("v"));
    for (int by_sync = 0; by_sync < 2; by_sync++) {
        assert_int_equal(commit(f, &op, 1, SEAM_ACK_PROCESS, NULL), SEAM_OK);
        atomic_store(&hook.code, ENOSPC);
        fail_next_flush();
        int rc = by_sync ? seam_backend_rocksdb.sync(f->e, SEAM_ACK_POWER, &f->err)
                         : commit(f, &lost, 1, SEAM_ACK_POWER, NULL);
        assert_int_equal(rc, SEAM_E_UNKNOWN);
        assert_int_equal(f->err.os_errno, ENOSPC);
        atomic_store(&hook.fail_from, 0);
        int calls = atomic_load(&hook.calls);
        for (int i = 0; i < 50 && atomic_load(&hook.calls) == calls; i++) /* either way is right */
            f->os.sleep_us(f->os.ctx, 5000);
        assert_true(has(f, S("k")));
        assert_int_equal(commit(f, &op, 1, SEAM_ACK_PROCESS, NULL), SEAM_E_POISONED);
        assert_int_equal(seam_backend_rocksdb.sync(f->e, SEAM_ACK_POWER, &f->err), SEAM_E_POISONED);
        assert_int_equal(fixture_reopen(f, NULL), SEAM_OK);
        assert_true(has(f, S("k")));
    }
}

static void a_failed_sync_is_unknown(void **state)
{
    struct fixture *f = *state;
    struct seam_op op = put(S("k"), S("v"));
    assert_int_equal(commit(f, &op, 1, SEAM_ACK_PROCESS, NULL), SEAM_OK);
    fail_next_flush();
    assert_int_equal(seam_backend_rocksdb.sync(f->e, SEAM_ACK_PROCESS, &f->err), SEAM_OK);
    assert_int_equal(seam_backend_rocksdb.sync(f->e, SEAM_ACK_POWER, &f->err), SEAM_E_UNKNOWN);
    atomic_store(&hook.fail_from, 0);
    assert_true(has(f, S("k")));
    assert_int_equal(fixture_reopen(f, NULL), SEAM_OK);
    assert_true(has(f, S("k")));
}

static void a_failed_last_flush_is_told_at_close(void **state)
{
    struct fixture *f = *state;
    struct seam_op op = put(S("k"), S("v"));
    assert_int_equal(commit(f, &op, 1, SEAM_ACK_PROCESS, NULL), SEAM_OK);
    fail_next_flush();
    assert_int_equal(fixture_close(f), SEAM_E_UNKNOWN);
    atomic_store(&hook.fail_from, 0);
    assert_int_equal(fixture_open(f, false, false, NULL), SEAM_OK);
    assert_true(has(f, S("k")));
}

static void flip_in_table(struct fixture *f)
{
    for (int no = 1; no < 100; no++) {
        char name[16], byte;
        snprintf(name, sizeof name, "%06d.sst", no);
        int fd = openat(f->dir, name, O_RDWR);
        if (fd < 0)
            continue;
        assert_int_equal(pread(fd, &byte, 1, 20000), 1);
        byte = (char)~byte;
        assert_int_equal(pwrite(fd, &byte, 1, 20000), 1);
        close(fd);
        return;
    }
    fail_msg("no table");
}

/* Damage in the middle of a table ends a scan with an error, never with an end. */
static void damage_is_an_error_and_not_an_end(void **state)
{
    struct fixture *f = *state;
    static const char *const plain[] = {"compression=1", NULL};
    char key[16];
    char value[100] = {0};
    for (int i = 0; i < 500; i++) {
        snprintf(key, sizeof key, "%08d", i);
        struct seam_op op = put(seam_bytes(key, 8), seam_bytes(value, sizeof value));
        assert_int_equal(commit(f, &op, 1, SEAM_ACK_PROCESS, NULL), SEAM_OK);
    }
    assert_int_equal(fixture_reopen(f, plain), SEAM_OK);
    assert_int_equal(fixture_close(f), SEAM_OK);
    flip_in_table(f);
    assert_int_equal(fixture_open(f, false, false, plain), SEAM_OK);
    void *cursor;
    struct seam_slice at;
    for (int back = 0; back < 2; back++) {
        assert_int_equal(seam_backend_rocksdb.cursor_open(f->e, NULL, NONE, NONE, &cursor, &f->err),
                         SEAM_OK);
        int rc = seam_backend_rocksdb.cursor_move(f->e, cursor, back ? SEAM_LAST : SEAM_FIRST,
                                                  NONE, &at, &f->err);
        while (rc == SEAM_OK)
            rc = seam_backend_rocksdb.cursor_move(f->e, cursor, back ? SEAM_PREV : SEAM_NEXT, NONE,
                                                  &at, &f->err);
        assert_int_equal(rc, SEAM_E_CORRUPT);
        seam_backend_rocksdb.cursor_close(f->e, cursor);
    }
    int corrupt = 0;
    for (int i = 0; i < 500; i++) {
        struct seam_pin pin;
        snprintf(key, sizeof key, "%08d", i);
        int rc = seam_backend_rocksdb.get(f->e, NULL, seam_bytes(key, 8), &pin, &f->err);
        assert_true(rc == SEAM_OK || rc == SEAM_E_CORRUPT);
        corrupt += rc != SEAM_OK;
        if (rc == SEAM_OK)
            seam_backend_rocksdb.unpin(f->e, &pin);
        rc = seam_backend_rocksdb.near(f->e, NULL, NONE, NONE, SEAM_LE, seam_bytes(key, 8), &pin,
                                       &f->err);
        assert_true(rc == SEAM_OK || rc == SEAM_E_CORRUPT);
        if (rc == SEAM_OK) {
            assert_int_equal(seam_compare(pin.key, seam_bytes(key, 8)), 0);
            seam_backend_rocksdb.unpin(f->e, &pin);
        }
    }
    assert_in_range(corrupt, 1, 60);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, faults_setup, faults_teardown)

int faults_tests(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_flushed_commit_is_seen_only_after_its_flush),
        TEST(a_failed_flush_is_unknown_and_reads_go_on),
        TEST(a_full_disk_is_resumed_from_without_loss),
        TEST(a_failed_sync_is_unknown),
        TEST(a_failed_last_flush_is_told_at_close),
        TEST(damage_is_an_error_and_not_an_end),
    };
    return cmocka_run_group_tests_name("rocksdb faults", tests, NULL, NULL);
}
