/* test_rawlog.c - the rail rawlog keeps what it acked: read back whole and in order, over wraps,
 * reopens, torn groups and kills; never what was not acked as if it had been.
 *
 * Messages prove themselves: thread, counter and a filler that both determine. */
#include "rails.h"

#include <seam/platform.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { MIB = 1 << 20, MOST = 1 << 16, THREADS = 4, LONGEST = 6000 };

struct found {
    uint64_t first, last; /* sequences; 0: none */
    uint64_t *mark;       /* thread << 32 | counter, by sequence modulo MOST */
};

static void make_dir(char *ret, size_t cap, const char *where)
{
    snprintf(ret, cap, "%s/rawlog-XXXXXX", where);
    assert_non_null(mkdtemp(ret));
}

static void remove_dir(const char *dir)
{
    char path[512];

    snprintf(path, sizeof path, "%s/rawlog", dir);
    unlink(path);
    rmdir(dir);
}

static uint32_t length_of(uint32_t thread, uint32_t counter)
{
    return 8 + (thread * 7919 + counter * 104729) % (counter % 64 == 63 ? LONGEST - 8 : 300);
}

static void make_message(unsigned char *ret, uint32_t thread, uint32_t counter)
{
    uint32_t len = length_of(thread, counter);

    memcpy(ret, &thread, 4);
    memcpy(ret + 4, &counter, 4);
    for (uint32_t i = 8; i < len; i++)
        ret[i] = (unsigned char)(thread * 31 + counter * 17 + i);
}

static int take(void *arg, uint64_t seq, struct seam_slice message)
{
    struct found *found = arg;
    unsigned char want[LONGEST];
    uint32_t thread, counter;

    assert_true(message.len >= 8);
    memcpy(&thread, message.ptr, 4);
    memcpy(&counter, (const char *)message.ptr + 4, 4);
    assert_int_equal(message.len, length_of(thread, counter));
    make_message(want, thread, counter);
    assert_memory_equal(message.ptr, want, message.len);
    if (found->first == 0)
        found->first = seq;
    else
        assert_int_equal(seq, found->last + 1);
    found->last = seq;
    found->mark[seq % MOST] = (uint64_t)thread << 32 | counter;
    return 0;
}

static void scan(const char *dir, struct found *found)
{
    struct seam_err err;

    found->first = found->last = 0;
    if (found->mark == NULL)
        found->mark = calloc(MOST, sizeof found->mark[0]);
    assert_non_null(found->mark);
    assert_int_equal(seam_rawlog_scan(dir, take, found, &err), SEAM_OK);
}

static struct seam_rawlog *open_log(const char *dir, enum seam_rawlog_io io)
{
    const struct seam_rawlog_options options = {.io = io, .region = MIB, .direct_max = 16 << 10};
    struct seam_rawlog *log = NULL;
    struct seam_err err;
    int rc = seam_rawlog_open(dir, &options, &log, &err);

    if (rc == SEAM_E_UNSUPPORTED)
        return NULL;
    if (rc != SEAM_OK)
        print_message("%s\n", err.text);
    assert_int_equal(rc, SEAM_OK);
    return log;
}

/* Appends n messages of counters from *counter as one unit. */
static uint64_t append(struct seam_rawlog *log, uint32_t *counter, size_t n)
{
    static unsigned char bytes[64][LONGEST];
    struct seam_slice messages[64];
    struct seam_err err;
    uint64_t seq;

    assert_true(n <= 64);
    for (size_t i = 0; i < n; i++) {
        make_message(bytes[i], 0, *counter);
        messages[i] = seam_bytes(bytes[i], length_of(0, *counter));
        ++*counter;
    }
    assert_int_equal(seam_rawlog_append(log, messages, n, &seq, NULL, &err), SEAM_OK);
    return seq;
}

static void round_trip(const char *where, enum seam_rawlog_io io)
{
    char dir[256];
    struct seam_rawlog *log;
    struct seam_rawlog_stats stats;
    struct found found = {0};
    uint32_t counter = 1;
    uint64_t next = 1;

    make_dir(dir, sizeof dir, where);
    for (unsigned session = 0; session < 4; session++) {
        log = open_log(dir, io);
        if (log == NULL) {
            print_message("skipped: no direct writes on this file system\n");
            remove_dir(dir);
            skip();
        }
        scan(dir, &found);
        assert_int_equal(found.last, next - 1);
        for (unsigned i = 0; i < 400; i++) {
            size_t n = i % 50 == 49 ? 64 : 1 + i % 3;

            assert_int_equal(append(log, &counter, n), next);
            next += n;
        }
        seam_rawlog_stats(log, &stats);
        assert_int_equal(stats.appends, 400);
        assert_int_equal(stats.groups, 400);
        if (io == SEAM_RAWLOG_BUFFERED)
            assert_int_equal(stats.direct_groups, 0);
        seam_rawlog_close(log);
        scan(dir, &found);
        assert_int_equal(found.last, next - 1);
        for (uint64_t seq = found.first; seq <= found.last; seq++)
            assert_int_equal(found.mark[seq % MOST], seq);
    }
    assert_true(found.first > 1); /* it wrapped */
    assert_true(found.last - found.first > 500);
    free(found.mark);
    remove_dir(dir);
}

static void test_auto(void **state)
{
    (void)state;
    round_trip(".", SEAM_RAWLOG_AUTO);
}

static void test_direct(void **state)
{
    (void)state;
    round_trip(".", SEAM_RAWLOG_DIRECT);
}

static void test_buffered(void **state)
{
    (void)state;
    round_trip(".", SEAM_RAWLOG_BUFFERED);
}

static void test_memory_file_system(void **state)
{
    struct statfs fs;

    (void)state;
    if (statfs("/dev/shm", &fs) != 0 || access("/dev/shm", W_OK) != 0) {
        print_message("skipped: no writable /dev/shm\n");
        skip();
    }
    round_trip("/dev/shm", SEAM_RAWLOG_AUTO);
}

static void test_refused(void **state)
{
    char dir[256];
    struct seam_rawlog *log;
    struct seam_slice big = {"", (size_t)MIB / 4}, none = {NULL, 0};
    struct seam_err err;
    uint64_t seq = 0;
    struct found found = {0};

    (void)state;
    make_dir(dir, sizeof dir, ".");
    assert_int_equal(seam_rawlog_scan(dir, take, &found, &err), SEAM_E_NO_STORE);
    log = open_log(dir, SEAM_RAWLOG_AUTO);
    assert_int_equal(seam_rawlog_append(log, &none, 0, NULL, NULL, &err), SEAM_E_INVALID);
    assert_int_equal(seam_rawlog_append(log, &big, 1, NULL, NULL, &err), SEAM_E_TOO_LARGE);
    assert_string_equal(err.limit, "bytes");
    assert_int_equal(seam_rawlog_append(log, &none, 1, &seq, NULL, &err), SEAM_OK);
    assert_int_equal(seq, 1);
    seam_rawlog_close(log);
    remove_dir(dir);
    assert_true(seam_rawlog_open("./no/such/directory", NULL, &log, &err) < 0);
}

/* Offset of the last frame that holds message `counter` alone, found by its bytes. */
static long find_message(const char *dir, uint32_t counter, unsigned char *bytes, size_t len)
{
    unsigned char *file = malloc(MIB + 4096);
    char path[512];
    long at = -1;
    int fd;

    make_message(bytes, 0, counter);
    snprintf(path, sizeof path, "%s/rawlog", dir);
    fd = open(path, O_RDONLY);
    assert_true(file != NULL && fd >= 0 && pread(fd, file, MIB + 4096, 0) == MIB + 4096);
    close(fd);
    for (long i = 0; i + (long)len <= MIB + 4096; i++)
        if (memcmp(file + i, bytes, len) == 0)
            at = i;
    free(file);
    return at;
}

static void flip(const char *dir, long at)
{
    char path[512];
    unsigned char byte = 0;
    int fd;

    snprintf(path, sizeof path, "%s/rawlog", dir);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= 0x40;
    assert_true(pwrite(fd, &byte, 1, at) == 1);
    close(fd);
}

/* A torn group leaves whole frames behind the tear: they must not come back once the tear is
 * overwritten by a frame of the same size. */
static void test_torn_tail_stays_gone(void **state)
{
    char dir[256];
    struct seam_rawlog *log;
    struct found found = {0};
    unsigned char bytes[LONGEST];
    uint32_t counter = 1, again = 2;
    long at;

    (void)state;
    make_dir(dir, sizeof dir, ".");
    log = open_log(dir, SEAM_RAWLOG_AUTO);
    for (int i = 0; i < 5; i++)
        append(log, &counter, 1);
    seam_rawlog_close(log);
    at = find_message(dir, 2, bytes, length_of(0, 2));
    assert_true(at > 0);
    flip(dir, at);
    scan(dir, &found);
    assert_int_equal(found.last, 1);
    log = open_log(dir, SEAM_RAWLOG_AUTO);
    assert_int_equal(append(log, &again, 1), 2);
    seam_rawlog_close(log);
    scan(dir, &found);
    assert_int_equal(found.first, 1);
    assert_int_equal(found.last, 2); /* 3, 4 and 5 of the session before stay gone */
    free(found.mark);
    remove_dir(dir);
}

/* Every byte that may be damaged in a small log: the scan answers a prefix or E_CORRUPT. */
static void test_damage(void **state)
{
    char dir[256];
    struct seam_rawlog *log;
    struct found found = {0};
    struct seam_err err;
    uint32_t counter = 1;

    (void)state;
    make_dir(dir, sizeof dir, ".");
    log = open_log(dir, SEAM_RAWLOG_AUTO);
    for (int i = 0; i < 3; i++)
        append(log, &counter, 2);
    seam_rawlog_close(log);
    for (long at = 0; at < 4096 + 3 * 1024; at += at >= 40 && at < 4096 ? 509 : 1) {
        flip(dir, at);
        found.first = found.last = 0;
        if (found.mark == NULL)
            found.mark = calloc(MOST, sizeof found.mark[0]);
        int rc = seam_rawlog_scan(dir, take, &found, &err);
        assert_true(rc == SEAM_OK || (rc == SEAM_E_CORRUPT && at < 64));
        assert_true(found.last <= 6);
        flip(dir, at);
    }
    scan(dir, &found);
    assert_int_equal(found.last, 6);
    free(found.mark);
    remove_dir(dir);
}

/* ---- failing devices ----------------------------------------------------------------------- */

struct failing {
    const struct seam_platform *below;
    _Atomic int calls_left; /* writes and flushes until one fails; then all of them do */
};

static bool fails(struct failing *f)
{
    return atomic_fetch_sub(&f->calls_left, 1) <= 0;
}

static ssize_t failing_pwritev(void *ctx, int fd, const struct iovec *parts, int n,
                               uint64_t offset)
{
    struct failing *f = ctx;

    return fails(f) ? -EIO : f->below->pwritev(f->below->ctx, fd, parts, n, offset);
}

static int failing_sync(void *ctx, int fd)
{
    struct failing *f = ctx;

    return fails(f) ? -EIO : f->below->sync(f->below->ctx, fd);
}

/* A write or a flush fails: that append is unknown, no later one is tried, and what was acked
 * before is there after a reopen, with at most the unknown one behind it. */
static void fail_at(int calls, enum seam_rawlog_io io)
{
    struct failing failing = {seam_platform_system(), 1000000};
    struct seam_platform platform = *seam_platform_system(); /* whose ctx is not used */
    struct seam_rawlog_options options = {.io = io, .region = MIB, .platform = &platform};
    struct found found = {0};
    struct seam_rawlog *log;
    struct seam_slice message;
    struct seam_err err;
    unsigned char bytes[LONGEST];
    uint32_t counter = 1;
    uint64_t acked = 0, seq = 0;
    char dir[256];
    int rc;

    platform.ctx = &failing;
    platform.pwritev = failing_pwritev;
    platform.sync = failing_sync;
    make_dir(dir, sizeof dir, ".");
    rc = seam_rawlog_open(dir, &options, &log, &err);
    if (rc == SEAM_E_UNSUPPORTED) {
        remove_dir(dir);
        return;
    }
    assert_int_equal(rc, SEAM_OK);
    failing.calls_left = calls;
    for (;;) {
        make_message(bytes, 0, counter);
        message = seam_bytes(bytes, length_of(0, counter));
        rc = seam_rawlog_append(log, &message, 1, &seq, NULL, &err);
        if (rc != SEAM_OK)
            break;
        acked = seq;
        counter++;
    }
    assert_int_equal(rc, SEAM_E_UNKNOWN);
    assert_int_equal(err.code, SEAM_E_UNKNOWN);
    assert_int_equal(err.os_errno, EIO);
    failing.calls_left = 1000000;
    for (int i = 0; i < 3; i++)
        assert_int_equal(seam_rawlog_append(log, &message, 1, &seq, NULL, &err), SEAM_E_POISONED);
    seam_rawlog_close(log);
    scan(dir, &found);
    assert_true(found.last == acked || found.last == acked + 1);
    log = open_log(dir, io);
    counter = (uint32_t)found.last + 1;
    assert_int_equal(append(log, &counter, 1), found.last + 1);
    seam_rawlog_close(log);
    free(found.mark);
    remove_dir(dir);
}

static void test_failing_device(void **state)
{
    (void)state;
    for (int calls = 0; calls < 6; calls++) {
        fail_at(calls, SEAM_RAWLOG_BUFFERED);
        fail_at(calls, SEAM_RAWLOG_DIRECT);
    }
}

/* ---- many threads, kills ------------------------------------------------------------------ */

struct shared { /* with the child */
    _Atomic uint64_t acked[THREADS][2]; /* counter and sequence of the newest ack */
};

struct worker {
    struct seam_rawlog *log;
    struct shared *shared;
    uint32_t thread, first, n;
};

static void *work(void *arg)
{
    const struct worker *w = arg;
    unsigned char *bytes = malloc(LONGEST);
    struct seam_err err;
    uint64_t seq;

    for (uint32_t i = 0; bytes != NULL && i < w->n; i++) {
        uint32_t counter = w->first + i;
        struct seam_slice message = seam_bytes(bytes, length_of(w->thread, counter));

        make_message(bytes, w->thread, counter);
        if (seam_rawlog_append(w->log, &message, 1, &seq, NULL, &err) != SEAM_OK)
            break;
        w->shared->acked[w->thread][0] = counter;
        w->shared->acked[w->thread][1] = seq;
    }
    free(bytes);
    return NULL;
}

static void work_all(struct seam_rawlog *log, struct shared *shared, uint32_t first, uint32_t n)
{
    struct worker workers[THREADS];
    pthread_t threads[THREADS];

    for (uint32_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){log, shared, i + 1, first, n};
        workers[i].thread = i;
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
            abort();
    }
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static struct shared *make_shared(void)
{
    void *map = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(map != MAP_FAILED);
    return map;
}

static void test_threads(void **state)
{
    char dir[256];
    struct shared *shared = make_shared();
    struct found found = {0};
    struct seam_rawlog_stats stats;
    struct seam_rawlog *log;

    (void)state;
    make_dir(dir, sizeof dir, ".");
    log = open_log(dir, SEAM_RAWLOG_AUTO);
    work_all(log, shared, 1, 500);
    seam_rawlog_stats(log, &stats);
    assert_int_equal(stats.appends, 500 * THREADS);
    assert_true(stats.groups <= stats.appends);
    seam_rawlog_close(log);
    scan(dir, &found);
    assert_int_equal(found.last, 500 * THREADS);
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal(shared->acked[i][0], 500);
        assert_int_equal(found.mark[shared->acked[i][1] % MOST], (uint64_t)i << 32 | 500);
    }
    munmap(shared, sizeof *shared);
    free(found.mark);
    remove_dir(dir);
}

static void test_kill(void **state)
{
    const char *text = getenv("SEAM_SEED");
    unsigned seed = text != NULL ? (unsigned)strtoul(text, NULL, 10) : 20261201;
    struct shared *shared = make_shared();
    struct found found = {0};
    uint64_t before = 0;
    char dir[256];

    (void)state;
    print_message("SEAM_SEED=%u\n", seed);
    make_dir(dir, sizeof dir, ".");
    seam_rawlog_close(open_log(dir, SEAM_RAWLOG_AUTO));
    for (uint32_t round = 0; round < 20; round++) {
        uint64_t newest = before;
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
            work_all(open_log(dir, SEAM_RAWLOG_AUTO), shared, round * 1000000 + 1, 1000000);
            _exit(1);
        }
        seed = seed * 1103515245 + 12345;
        usleep(3000 + seed / 65536 % 60000);
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        scan(dir, &found);
        for (uint32_t i = 0; i < THREADS; i++) {
            uint64_t seq = shared->acked[i][1];

            newest = seq > newest ? seq : newest;
        }
        assert_true(found.last >= newest);
        for (uint32_t i = 0; i < THREADS; i++) {
            uint64_t counter = shared->acked[i][0], seq = shared->acked[i][1];

            /* The kill may fall between the two notes: then counter is one ahead of seq. */
            if (seq >= found.first && seq != 0) {
                uint64_t mark = found.mark[seq % MOST];

                assert_int_equal(mark >> 32, i);
                assert_true((uint32_t)mark == counter || (uint32_t)mark + 1 == counter ||
                            counter == (uint64_t)round * 1000000 + 1);
            }
        }
        before = found.last;
    }
    print_message("%llu messages, the last %llu in the ring\n", (unsigned long long)found.last,
                  (unsigned long long)(found.last - found.first + 1));
    munmap(shared, sizeof *shared);
    free(found.mark);
    remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_auto),
        cmocka_unit_test(test_direct),
        cmocka_unit_test(test_buffered),
        cmocka_unit_test(test_memory_file_system),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_torn_tail_stays_gone),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_failing_device),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_kill),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
