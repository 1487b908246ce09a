/* test_platform.c - the system's platform table: modes, refusals, locks, whole reads and writes. */
#include "files_support.h"

#include <seam/backend.h>

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const struct seam_platform *os;
static char *dir;
static int dir_fd;

static int setup(void **state)
{
    (void)state;
    os = seam_platform_system();
    dir = files_temp();
    dir_fd = os->open_root(os->ctx, dir);
    return dir_fd < 0;
}

static int teardown(void **state)
{
    (void)state;
    (void)os->close(os->ctx, dir_fd);
    files_remove(dir);
    return 0;
}

static unsigned mode_of(const char *name)
{
    struct stat st;
    assert_int_equal(fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
    return st.st_mode & 07777u;
}

static int make(const char *name, int flags)
{
    return os->open(os->ctx, dir_fd, name, SEAM_FILE_WRITE | SEAM_FILE_CREATE | flags);
}

static void modes_whatever_the_umask(void **state)
{
    (void)state;
    static const mode_t umasks[] = {0, 022, 077, 0777};
    for (size_t i = 0; i < 4; i++) {
        mode_t old = umask(umasks[i]);
        int fd = make("file", SEAM_FILE_NEW);
        int rc = os->mkdir(os->ctx, dir_fd, "sub");
        umask(old);
        assert_true(fd >= 0);
        assert_int_equal(rc, 0);
        assert_int_equal(mode_of("file"), 0600);
        assert_int_equal(mode_of("sub"), 0700);
        assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        assert_int_equal(os->close(os->ctx, fd), 0);
        assert_int_equal(os->unlink(os->ctx, dir_fd, "file"), 0);
        assert_int_equal(os->rmdir(os->ctx, dir_fd, "sub"), 0);
    }
}

static void new_and_create(void **state)
{
    (void)state;
    assert_int_equal(os->open(os->ctx, dir_fd, "a", SEAM_FILE_READ), -ENOENT);
    assert_int_equal(os->open(os->ctx, dir_fd, "a", SEAM_FILE_WRITE), -ENOENT);
    int fd = make("a", 0);
    assert_true(fd >= 0);
    struct iovec part = {(char[]){'x'}, 1};
    assert_int_equal(seam_write_all(os, fd, &part, 1, 4), 0);
    assert_int_equal(os->sync(os->ctx, fd), 0);
    (void)os->close(os->ctx, fd);
    assert_int_equal(make("a", SEAM_FILE_NEW), -EEXIST);
    fd = make("a", SEAM_FILE_DSYNC); /* what is there is opened as it is */
    assert_true(fd >= 0);
    char buf[5];
    assert_int_equal(seam_read_all(os, fd, buf, 5, 0), 0);
    assert_memory_equal(buf, "\0\0\0\0x", 5);
    assert_int_equal(seam_read_all(os, fd, buf, 5, 1), -EIO);
    assert_int_equal(os->truncate(os->ctx, fd, 2), 0);
    struct seam_file_info info;
    assert_int_equal(os->stat(os->ctx, fd, "", &info), 0);
    assert_int_equal(info.size, 2);
    assert_int_equal(info.links, 1);
    assert_int_equal(info.kind, SEAM_FILE_REGULAR);
    assert_int_equal(os->unlink(os->ctx, dir_fd, "a"), 0);
    assert_int_equal(os->stat(os->ctx, fd, "", &info), 0);
    assert_int_equal(info.links, 0);
    assert_int_equal(os->stat(os->ctx, dir_fd, "a", &info), 0);
    assert_int_equal(info.kind, SEAM_FILE_ABSENT);
    (void)os->close(os->ctx, fd);
}

static void odd_files_are_refused(void **state)
{
    (void)state;
    files_write(dir, "plain", "1", 1);
    assert_int_equal(symlinkat("plain", dir_fd, "link"), 0);
    assert_int_equal(symlinkat("nowhere", dir_fd, "dangling"), 0);
    assert_int_equal(symlinkat(dir, dir_fd, "dirlink"), 0);
    assert_int_equal(mkfifoat(dir_fd, "fifo", 0600), 0);
    assert_int_equal(mkdirat(dir_fd, "sub", 0700), 0);
    static const int flags[] = {SEAM_FILE_READ, SEAM_FILE_WRITE,
                                SEAM_FILE_WRITE | SEAM_FILE_CREATE};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(os->open(os->ctx, dir_fd, "link", flags[i]), -ELOOP);
        assert_int_equal(os->open(os->ctx, dir_fd, "dangling", flags[i]), -ELOOP);
        assert_int_equal(os->open(os->ctx, dir_fd, "fifo", flags[i]), -ENXIO);
        assert_int_equal(os->open(os->ctx, dir_fd, "sub", flags[i]), -EISDIR);
    }
    assert_true(os->open(os->ctx, dir_fd, "dirlink", SEAM_FILE_DIR) < 0);
    assert_true(os->open(os->ctx, dir_fd, "plain", SEAM_FILE_DIR) < 0);
    assert_int_equal(linkat(dir_fd, "plain", dir_fd, "second", 0), 0);
    assert_int_equal(os->open(os->ctx, dir_fd, "plain", SEAM_FILE_READ), -EMLINK);
    assert_int_equal(os->open(os->ctx, dir_fd, "second", SEAM_FILE_WRITE), -EMLINK);
    struct seam_file_info info;
    assert_int_equal(os->stat(os->ctx, dir_fd, "link", &info), 0);
    assert_int_equal(info.kind, SEAM_FILE_OTHER);
    char *path = files_join(dir, "dirlink");
    assert_true(os->open_root(os->ctx, path) < 0);
    char *through = files_join(path, ".");
    int fd = os->open_root(os->ctx, through);
    assert_true(fd >= 0);
    (void)os->close(os->ctx, fd);
    free(through);
    free(path);
}

static void owner_and_mode_of_directories(void **state)
{
    (void)state;
    struct seam_file_info info;
    assert_int_equal(os->stat(os->ctx, dir_fd, "", &info), 0);
    assert_int_equal(info.kind, SEAM_FILE_DIRECTORY);
    assert_false(info.loose);
    assert_false(info.foreign);
    assert_int_equal(fchmod(dir_fd, 0770), 0);
    assert_int_equal(os->stat(os->ctx, dir_fd, "", &info), 0);
    assert_true(info.loose);
    assert_int_equal(fchmod(dir_fd, 0702), 0);
    assert_int_equal(os->stat(os->ctx, dir_fd, "", &info), 0);
    assert_true(info.loose);
    assert_int_equal(fchmod(dir_fd, 0755), 0);
    assert_int_equal(os->stat(os->ctx, dir_fd, "", &info), 0);
    assert_false(info.loose);
}

/* Two opens of one process conflict as two processes do. */
static void locks(void **state)
{
    (void)state;
    int a = make("lock", 0);
    int b = make("lock", 0);
    int c = os->open(os->ctx, dir_fd, "lock", SEAM_FILE_READ);
    assert_int_equal(os->lock(os->ctx, a, true), 0);
    assert_int_equal(os->lock(os->ctx, b, true), -EWOULDBLOCK);
    assert_int_equal(os->lock(os->ctx, c, false), -EWOULDBLOCK);
    (void)os->close(os->ctx, a);
    assert_int_equal(os->lock(os->ctx, c, false), 0);
    assert_int_equal(os->lock(os->ctx, b, false), 0);
    assert_int_equal(os->lock(os->ctx, b, true), -EWOULDBLOCK);
    (void)os->close(os->ctx, b);
    (void)os->close(os->ctx, c);
}

static int count_names(void *arg, const char *name)
{
    unsigned *count = arg;
    (*count)++;
    return strcmp(name, "stop") == 0 ? 7 : 0;
}

static void listing(void **state)
{
    (void)state;
    unsigned count = 0;
    assert_int_equal(os->list(os->ctx, dir_fd, count_names, &count), 0);
    assert_int_equal(count, 0);
    files_write(dir, "a", "", 0);
    files_write(dir, "b", "", 0);
    for (int i = 0; i < 2; i++) { /* a second listing begins at the start */
        count = 0;
        assert_int_equal(os->list(os->ctx, dir_fd, count_names, &count), 0);
        assert_int_equal(count, 2);
    }
    files_write(dir, "stop", "", 0);
    assert_int_equal(os->list(os->ctx, dir_fd, count_names, &count), 7);
}

/* ---- whole reads and writes over a table that gives little ------------------------------- */

struct stingy {
    const struct seam_platform *real;
    unsigned calls;
    bool full;
};

static ssize_t stingy_pread(void *ctx, int fd, void *buf, size_t len, uint64_t offset)
{
    struct stingy *s = ctx;
    if (s->calls++ % 2 == 0)
        return -EINTR;
    return s->real->pread(NULL, fd, buf, len < 3 ? len : 3, offset);
}

static ssize_t stingy_pwritev(void *ctx, int fd, const struct iovec *parts, int n, uint64_t offset)
{
    struct stingy *s = ctx;
    if (s->calls++ % 2 == 0)
        return -EINTR;
    if (s->full)
        return 0;
    struct iovec some[2];
    size_t left = 5;
    int used = 0;
    for (; used < n && used < 2 && left > 0; used++) {
        some[used] = parts[used];
        if (some[used].iov_len > left)
            some[used].iov_len = left;
        left -= some[used].iov_len;
    }
    return s->real->pwritev(NULL, fd, some, used, offset);
}

static void short_counts(void **state)
{
    (void)state;
    struct stingy s = {os, 0, false};
    struct seam_platform table = *os;
    table.ctx = &s;
    table.pread = stingy_pread;
    table.pwritev = stingy_pwritev;
    int fd = make("short", 0);
    char head[] = "head:", body[] = "0123456789abcdef", none[1], tail[] = "!";
    struct iovec parts[] = {{none, 0},  {head, 5}, {none, 0}, {none, 0},
                            {body, 16}, {tail, 1}, {none, 0}};
    assert_int_equal(seam_write_all(&table, fd, parts, 7, 10), 0);
    char buf[22];
    assert_int_equal(seam_read_all(&table, fd, buf, 22, 10), 0);
    assert_memory_equal(buf, "head:0123456789abcdef!", 22);
    s.full = true;
    struct iovec part = {head, 5};
    assert_int_equal(seam_write_all(&table, fd, &part, 1, 0), -EIO);
    (void)os->close(os->ctx, fd);
}

/* More parts than the system takes at once. */
static void many_parts(void **state)
{
    (void)state;
    enum { N = 3000 };
    static struct iovec parts[N];
    static char bytes[N], back[N];
    for (int i = 0; i < N; i++) {
        bytes[i] = (char)(i * 7);
        parts[i].iov_base = &bytes[i];
        parts[i].iov_len = 1;
    }
    int fd = make("many", 0);
    assert_int_equal(seam_write_all(os, fd, parts, N, 0), 0);
    assert_int_equal(seam_read_all(os, fd, back, N, 0), 0);
    assert_memory_equal(bytes, back, N);
    (void)os->close(os->ctx, fd);
}

static void the_rest(void **state)
{
    (void)state;
    uint8_t a[600], b[600];
    memset(a, 0, sizeof a);
    memset(b, 0, sizeof b);
    assert_int_equal(os->random(os->ctx, a, sizeof a), 0);
    assert_int_equal(os->random(os->ctx, b, sizeof b), 0);
    assert_memory_not_equal(a, b, sizeof a);
    assert_memory_not_equal(a, a + 300, 300);
    uint64_t space = 0;
    assert_int_equal(os->space(os->ctx, dir_fd, &space), 0);
    assert_true(space > 0);
    uint64_t before = os->now_ns(os->ctx, SEAM_CLOCK_MONOTONIC);
    os->sleep_us(os->ctx, 1000);
    assert_true(os->now_ns(os->ctx, SEAM_CLOCK_MONOTONIC) >= before + 1000000);
    int fd = make("from", 0);
    assert_int_equal(os->writeback(os->ctx, fd, 0, 0), 0);
    int rc = os->allocate(os->ctx, fd, 0, 65536);
    assert_true(rc == 0 || rc == -EOPNOTSUPP);
    struct seam_file_info info;
    assert_int_equal(os->stat(os->ctx, fd, "", &info), 0);
    assert_int_equal(info.size, 0);
    (void)os->close(os->ctx, fd);
    assert_int_equal(os->rename(os->ctx, dir_fd, "from", dir_fd, "to"), 0);
    assert_int_equal(os->rename(os->ctx, dir_fd, "from", dir_fd, "to"), -ENOENT);
    assert_int_equal(os->sync_dir(os->ctx, dir_fd), 0);
    assert_int_equal(os->pread(os->ctx, -1, a, 1, 0), -EBADF);
    assert_int_equal(os->sync(os->ctx, -1), -EBADF);
    void *mem = os->alloc(os->ctx, 0);
    assert_non_null(mem);
    os->free(os->ctx, mem);
    os->free(os->ctx, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(modes_whatever_the_umask, setup, teardown),
        cmocka_unit_test_setup_teardown(new_and_create, setup, teardown),
        cmocka_unit_test_setup_teardown(odd_files_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(owner_and_mode_of_directories, setup, teardown),
        cmocka_unit_test_setup_teardown(locks, setup, teardown),
        cmocka_unit_test_setup_teardown(listing, setup, teardown),
        cmocka_unit_test_setup_teardown(short_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(many_parts, setup, teardown),
        cmocka_unit_test_setup_teardown(the_rest, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
