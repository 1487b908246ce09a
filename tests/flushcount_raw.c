/* flushcount_raw.c - makes each kind of call that the flush counter counts, a known number of
 * times, and others that it must not count: STORE OUTSIDE, two directories that exist.
 *
 * Prints "class calls bytes" for each class, then "failed n", as it counted them itself, and exits
 * 1 with a line if a call did not answer as it does without the counter. */
#include "../verify/flushcount.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, TURNS = 25 };

struct tally {
    _Atomic unsigned long calls[SEAM_FLUSHCOUNT_CLASS_COUNT], bytes[SEAM_FLUSHCOUNT_CLASS_COUNT];
    _Atomic unsigned long failed;
};

struct places {
    const char *store, *outside;
    struct tally *tally;
};

#define MUST(what)                                                               \
    do {                                                                         \
        if (!(what)) {                                                           \
            printf("line %d: %s: %s\n", __LINE__, #what, strerror(errno));       \
            exit(1);                                                             \
        }                                                                        \
    } while (0)
#define DID(t, cls, n)                                          \
    do {                                                        \
        (t)->calls[SEAM_FLUSHCOUNT_##cls]++;                    \
        (t)->bytes[SEAM_FLUSHCOUNT_##cls] += (unsigned long)(n); \
    } while (0)

static int open_in(const char *dir, const char *name, int flags)
{
    char path[4096];
    int fd;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    fd = open(path, flags | O_CREAT | O_CLOEXEC, 0600);
    MUST(fd >= 0);
    return fd;
}

/* Each kind of write once; cls is what the descriptor makes of it. */
#define WRITES(t, fd, cls)                                                            \
    do {                                                                              \
        MUST(write(fd, "0123456789", 10) == 10);                                      \
        DID(t, cls, 10);                                                              \
        MUST(pwrite(fd, "0123456789", 7, 100) == 7);                                  \
        DID(t, cls, 7);                                                               \
        MUST(pwrite64(fd, "0123456789", 6, 100) == 6);                                \
        DID(t, cls, 6);                                                               \
        MUST(writev(fd, parts, 2) == 5);                                              \
        DID(t, cls, 5);                                                               \
        MUST(pwritev(fd, parts, 2, 50) == 5);                                         \
        DID(t, cls, 5);                                                               \
        MUST(pwritev64(fd, parts, 2, 50) == 5);                                       \
        DID(t, cls, 5);                                                               \
        MUST(pwritev2(fd, parts, 2, 50, 0) == 5);                                     \
        DID(t, cls, 5);                                                               \
    } while (0)

static const struct iovec parts[2] = {{(void *)(uintptr_t)"ab", 2}, {(void *)(uintptr_t)"cde", 3}};

static void plain(const struct places *p)
{
    struct tally *t = p->tally;
    int fd = open_in(p->store, "plain", O_RDWR), copy = open_in(p->store, "copy", O_RDWR);
    off64_t from = 0;
    off_t at = 0;

    WRITES(t, fd, write);
    MUST(pwritev2(fd, parts, 2, 50, RWF_DSYNC) == 5);
    DID(t, sync_write, 5);
    MUST(pwritev64v2(fd, parts, 2, 50, RWF_SYNC) == 5);
    DID(t, sync_write, 5);
    MUST(fsync(fd) == 0);
    DID(t, fsync, 0);
    for (int i = 0; i < 3; i++) {
        MUST(fdatasync(fd) == 0);
        DID(t, fdatasync, 0);
    }
    MUST(sync_file_range(fd, 0, 64, SYNC_FILE_RANGE_WRITE) == 0);
    DID(t, sync_file_range, 64);
    MUST(syncfs(fd) == 0);
    DID(t, syncfs, 0);
    MUST(copy_file_range(fd, &from, copy, NULL, 20, 0) == 20);
    DID(t, write, 20);
    MUST(sendfile(copy, fd, &at, 9) == 9);
    DID(t, write, 9);
    close(copy);
    close(fd);
}

static void flushing_descriptors(const struct places *p)
{
    struct tally *t = p->tally;
    int d = open_in(p->store, "dsync", O_RDWR | O_DSYNC);
    int s = open_in(p->store, "sync", O_RDWR | O_SYNC), again;

    WRITES(t, d, sync_write);
    WRITES(t, s, sync_write);
    again = dup(d);
    MUST(again >= 0 && write(again, "xy", 2) == 2);
    DID(t, sync_write, 2);
    close(again);
    again = fcntl(d, F_DUPFD_CLOEXEC, 30);
    MUST(again >= 30 && write(again, "xyz", 3) == 3);
    DID(t, sync_write, 3);
    close(again);
    MUST(dup2(s, 40) == 40 && write(40, "x", 1) == 1);
    DID(t, sync_write, 1);
    close(40);
    /* The same numbers for other things must not be counted any more. */
    close(d);
    close(s);
    again = open_in(p->outside, "other", O_RDWR | O_DSYNC);
    MUST(write(again, "no", 2) == 2 && fsync(again) == 0);
    MUST(dup2(again, 40) == 40 && write(40, "no", 2) == 2);
    close(40);
    close(again);
}

static void directories(const struct places *p)
{
    struct tally *t = p->tally;
    int dir = open(p->store, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd;
    char path[4096];

    MUST(dir >= 0 && fsync(dir) == 0);
    DID(t, fsync, 0);
    fd = openat(dir, "by-directory", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    MUST(fd >= 0 && write(fd, "1", 1) == 1);
    DID(t, write, 1);
    close(fd);
    close(dir);
    snprintf(path, sizeof path, "%s/link", p->outside);
    MUST(symlink(p->store, path) == 0);
    snprintf(path, sizeof path, "%s/link/through-link", p->outside);
    fd = creat(path, 0600);
    MUST(fd >= 0 && write(fd, "22", 2) == 2);
    DID(t, write, 2);
    close(fd);
    snprintf(path, sizeof path, "%s/temporary-XXXXXX", p->store);
    fd = mkostemp(path, O_DSYNC | O_CLOEXEC);
    MUST(fd >= 0 && write(fd, "4444", 4) == 4);
    DID(t, sync_write, 4);
    close(fd);
    snprintf(path, sizeof path, "%s-beside", p->store); /* a name that only begins the same */
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    MUST(fd >= 0 && write(fd, "333", 3) == 3 && fsync(fd) == 0);
    close(fd);
    unlink(path);
}

static void mappings(const struct places *p)
{
    struct tally *t = p->tally;
    int fd = open_in(p->store, "mapped", O_RDWR);
    char *map, *other;

    MUST(ftruncate(fd, 8192) == 0);
    map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    MUST(map != MAP_FAILED);
    map[0] = 1;
    MUST(msync(map, 4096, MS_SYNC) == 0);
    DID(t, msync, 4096);
    MUST(msync(map + 4096, 4096, MS_SYNC) == 0);
    DID(t, msync, 4096);
    MUST(msync(map, 8192, MS_ASYNC) == 0);
    DID(t, msync_async, 8192);
    MUST(munmap(map, 4096) == 0);
    other = mmap(map, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    MUST(other == map && msync(other, 4096, MS_SYNC) == 0);
    MUST(msync(map + 4096, 4096, MS_SYNC) == 0);
    DID(t, msync, 4096);
    munmap(map, 8192);
    close(fd);
}

static void errors(const struct places *p)
{
    struct tally *t = p->tally;
    int fd = open_in(p->store, "plain", O_RDONLY);
    char path[4096];

    errno = 0;
    MUST(write(fd, "x", 1) == -1 && errno == EBADF);
    t->failed++;
    errno = 0;
    MUST(pwritev2(fd, parts, 2, 0, 0x40000000) == -1 && errno != 0);
    t->failed++;
    close(fd);
    errno = 0;
    MUST(fsync(-1) == -1 && errno == EBADF);
    errno = 0;
    MUST(close(-1) == -1 && errno == EBADF);
    snprintf(path, sizeof path, "%s/none/none", p->store);
    errno = 0;
    MUST(open(path, O_RDONLY) == -1 && errno == ENOENT);
    errno = 0;
    MUST(fopen(path, "r") == NULL && errno == ENOENT);
    errno = 77;
    fd = open_in(p->store, "plain", O_RDONLY);
    MUST(errno == 77);
    close(fd);
}

static void *writer(void *arg)
{
    const struct places *p = arg;

    for (int i = 0; i < TURNS; i++) {
        int fd = open_in(p->store, "threads", O_WRONLY | (i % 2 != 0 ? O_DSYNC : 0));

        MUST(pwrite(fd, "0123456789", 10, 10 * i) == 10);
        if (i % 2 != 0) {
            DID(p->tally, sync_write, 10);
        } else {
            DID(p->tally, write, 10);
            MUST(fdatasync(fd) == 0);
            DID(p->tally, fdatasync, 0);
        }
        close(fd);
        fd = open_in(p->outside, "threads", O_WRONLY | O_DSYNC);
        MUST(pwrite(fd, "0", 1, 0) == 1);
        close(fd);
    }
    return NULL;
}

static void child(const struct places *p)
{
    int fd = open_in(p->store, "child", O_RDWR), status;
    pid_t pid = fork();

    MUST(pid >= 0);
    if (pid == 0) {
        bool ok = write(fd, "abcd", 4) == 4 && fsync(fd) == 0;

        _exit(ok ? 0 : 1);
    }
    MUST(waitpid(pid, &status, 0) == pid && status == 0);
    DID(p->tally, write, 4);
    DID(p->tally, fsync, 0);
    close(fd);
}

int main(int argc, char **argv)
{
    static const char *const names[] = {
#define NAME(name, flush, text) #name,
        SEAM_FLUSHCOUNT_CLASSES(NAME)
#undef NAME
    };
    static struct tally tally;
    struct places p;
    pthread_t threads[THREADS];

    if (argc != 3)
        return 2;
    p.store = argv[1];
    p.outside = argv[2];
    p.tally = &tally;
    plain(&p);
    flushing_descriptors(&p);
    directories(&p);
    mappings(&p);
    errors(&p);
    for (int i = 0; i < THREADS; i++)
        MUST(pthread_create(&threads[i], NULL, writer, &p) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    child(&p);
    sync();
    DID(&tally, sync, 0);
    for (int i = 0; i < SEAM_FLUSHCOUNT_CLASS_COUNT; i++)
        printf("%s %lu %lu\n", names[i], tally.calls[i], tally.bytes[i]);
    printf("failed %lu\n", tally.failed);
    return 0;
}
