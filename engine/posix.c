/* posix.c - the system's platform table: Linux first, macOS and the BSDs by compile guards.
 *
 * Relies on openat and its family. Keeps true: every call answers a value >= 0 or -errno; no name
 * is followed if it is a symbolic link; what is opened as a file is a regular file of one name, so
 * that nobody can make the store write to something else; what is made has mode 0600 or 0700
 * whatever the umask; a failed flush is never tried again here. */
#include <seam/platform.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/mman.h>
#include <sys/random.h>
#endif

#ifndef O_DSYNC
#define O_DSYNC O_SYNC
#endif
#define PARTS_AT_ONCE 64 /* at least _XOPEN_IOV_MAX (16), at most every system's IOV_MAX (1024) */
#define CREATE_TRIES 16

static int refuse_odd_file(int fd, bool want_dir)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return -errno;
    if (want_dir)
        return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
    if (S_ISDIR(st.st_mode))
        return -EISDIR;
    if (!S_ISREG(st.st_mode))
        return -ENXIO;
    return st.st_nlink > 1 ? -EMLINK : 0;
}

/* O_EXCL first, so that it is known whether this call made the file and has to set its mode. */
static int open_or_create(int dir, const char *name, int how, bool must_be_new, bool *ret_made)
{
    for (int i = 0; i < CREATE_TRIES; i++) {
        int fd = openat(dir, name, how | O_CREAT | O_EXCL, 0600);
        if (fd >= 0) {
            *ret_made = true;
            return fd;
        }
        if (errno == EINTR)
            continue;
        if (errno != EEXIST || must_be_new)
            return -errno;
        fd = openat(dir, name, how);
        if (fd >= 0)
            return fd;
        if (errno != ENOENT && errno != EINTR)
            return -errno;
    }
    return -EAGAIN;
}

static int direct_flag(int flags, int *how)
{
    if (!(flags & SEAM_FILE_DIRECT))
        return 0;
#if defined(O_DIRECT)
    *how |= O_DIRECT;
    return 0;
#else
    (void)how;
    return -EINVAL;
#endif
}

static int sys_open(void *ctx, int dir, const char *name, int flags)
{
    (void)ctx;
    /* O_NONBLOCK so that a planted FIFO cannot block the open; regular files do not care. */
    int how = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    bool want_dir = (flags & SEAM_FILE_DIR) != 0;
    bool create = (flags & (SEAM_FILE_CREATE | SEAM_FILE_NEW)) != 0;
    bool made = false;
    if (want_dir) {
        if (flags & ~SEAM_FILE_DIR)
            return -EINVAL;
        how |= O_DIRECTORY;
    }
    how |= create || (flags & SEAM_FILE_WRITE) ? O_RDWR : O_RDONLY;
    if (flags & SEAM_FILE_DSYNC)
        how |= O_DSYNC;
    int rc = direct_flag(flags, &how);
    if (rc < 0)
        return rc;
    int fd;
    if (create) {
        fd = open_or_create(dir, name, how, (flags & SEAM_FILE_NEW) != 0, &made);
        if (fd < 0)
            return fd;
    } else {
        do
            fd = openat(dir, name, how);
        while (fd < 0 && errno == EINTR);
        if (fd < 0)
            return -errno;
    }
    rc = made && fchmod(fd, 0600) != 0 ? -errno : refuse_odd_file(fd, want_dir);
    if (rc == 0)
        return fd;
    if (made)
        (void)unlinkat(dir, name, 0);
    (void)close(fd);
    return rc;
}

static int sys_open_root(void *ctx, const char *path)
{
    (void)ctx;
    int fd;
    do
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    while (fd < 0 && errno == EINTR);
    return fd < 0 ? -errno : fd;
}

static int sys_close(void *ctx, int fd)
{
    (void)ctx;
    /* After EINTR the descriptor is closed on Linux; closing it again could hit another's. */
    return close(fd) == 0 || errno == EINTR ? 0 : -errno;
}

static ssize_t sys_pread(void *ctx, int fd, void *buf, size_t len, uint64_t offset)
{
    (void)ctx;
    if (offset > INT64_MAX)
        return -EINVAL;
    ssize_t got = pread(fd, buf, len, (off_t)offset);
    return got < 0 ? -errno : got;
}

static ssize_t sys_pwritev(void *ctx, int fd, const struct iovec *parts, int n, uint64_t offset)
{
    (void)ctx;
    if (offset > INT64_MAX)
        return -EINVAL;
    ssize_t put = pwritev(fd, parts, n < PARTS_AT_ONCE ? n : PARTS_AT_ONCE, (off_t)offset);
    return put < 0 ? -errno : put;
}

#if defined(F_FULLFSYNC)
/* Only where there is no such flush the weaker one is made; one that failed is not tried again. */
static int full_sync(int fd)
{
    if (fcntl(fd, F_FULLFSYNC) != -1)
        return 0;
    if (errno != ENOTSUP && errno != EOPNOTSUPP && errno != EINVAL && errno != ENOTTY)
        return -errno;
    return fsync(fd) == 0 ? 0 : -errno;
}
#endif

/* Not tried again on any error, EINTR included: the kernel may have marked lost pages clean. */
static int sys_sync(void *ctx, int fd)
{
    (void)ctx;
#if defined(F_FULLFSYNC)
    return full_sync(fd);
#elif defined(__linux__) || defined(__FreeBSD__)
    return fdatasync(fd) == 0 ? 0 : -errno;
#else
    return fsync(fd) == 0 ? 0 : -errno;
#endif
}

static int sys_sync_dir(void *ctx, int fd)
{
    (void)ctx;
#if defined(F_FULLFSYNC)
    return full_sync(fd);
#else
    return fsync(fd) == 0 ? 0 : -errno;
#endif
}

static int sys_truncate(void *ctx, int fd, uint64_t size)
{
    (void)ctx;
    if (size > INT64_MAX)
        return -EINVAL;
    int rc;
    do
        rc = ftruncate(fd, (off_t)size);
    while (rc != 0 && errno == EINTR);
    return rc == 0 ? 0 : -errno;
}

static int sys_allocate(void *ctx, int fd, uint64_t offset, uint64_t len)
{
    (void)ctx;
    if (offset > INT64_MAX || len > INT64_MAX - offset)
        return -EINVAL;
#if defined(__linux__)
    int rc;
    do
        rc = fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)len);
    while (rc != 0 && errno == EINTR);
    return rc == 0 ? 0 : -errno;
#else
    (void)fd;
    return -EOPNOTSUPP;
#endif
}

static int sys_writeback(void *ctx, int fd, uint64_t offset, uint64_t len)
{
    (void)ctx;
#if defined(__linux__)
    if (offset > INT64_MAX || len > INT64_MAX - offset)
        return -EINVAL;
    return sync_file_range(fd, (off_t)offset, (off_t)len, SYNC_FILE_RANGE_WRITE) == 0 ? 0 : -errno;
#else
    (void)fd, (void)offset, (void)len;
    return 0;
#endif
}

static int sys_rename(void *ctx, int from_dir, const char *from, int to_dir, const char *to)
{
    (void)ctx;
    return renameat(from_dir, from, to_dir, to) == 0 ? 0 : -errno;
}

static int sys_unlink(void *ctx, int dir, const char *name)
{
    (void)ctx;
    return unlinkat(dir, name, 0) == 0 ? 0 : -errno;
}

static int sys_rmdir(void *ctx, int dir, const char *name)
{
    (void)ctx;
    return unlinkat(dir, name, AT_REMOVEDIR) == 0 ? 0 : -errno;
}

static int sys_mkdir(void *ctx, int dir, const char *name)
{
    (void)ctx;
    if (mkdirat(dir, name, 0700) != 0)
        return -errno;
    /* A umask that hides the directory from its owner makes the open fail; then by name. */
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    int rc = (fd >= 0 ? fchmod(fd, 0700) : fchmodat(dir, name, 0700, 0)) == 0 ? 0 : -errno;
    if (fd >= 0)
        (void)close(fd);
    if (rc < 0)
        (void)unlinkat(dir, name, AT_REMOVEDIR);
    return rc;
}

static int sys_stat(void *ctx, int dir, const char *name, struct seam_file_info *ret)
{
    (void)ctx;
    struct stat st;
    int rc = name[0] == 0 ? fstat(dir, &st) : fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW);
    if (rc != 0 && errno != ENOENT)
        return -errno;
    memset(ret, 0, sizeof *ret);
    if (rc != 0)
        return 0;
    uid_t self = geteuid();
    ret->kind = S_ISREG(st.st_mode)   ? SEAM_FILE_REGULAR
                : S_ISDIR(st.st_mode) ? SEAM_FILE_DIRECTORY
                                      : SEAM_FILE_OTHER;
    ret->size = (uint64_t)st.st_size;
    ret->allocated = (uint64_t)st.st_blocks * 512;
    ret->links = (uint64_t)st.st_nlink;
    ret->foreign = self != 0 && st.st_uid != self && st.st_uid != 0;
    ret->loose = (st.st_mode & (S_IWGRP | S_IWOTH)) != 0;
    return 0;
}

/* Through a descriptor of its own: a shared one would share its place in the listing. */
static int sys_list(void *ctx, int dir, seam_list_fn fn, void *arg)
{
    (void)ctx;
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    DIR *d = fdopendir(fd);
    if (!d) {
        int rc = -errno;
        (void)close(fd);
        return rc;
    }
    int rc = 0;
    while (rc == 0) {
        errno = 0;
        const struct dirent *entry = readdir(d);
        if (!entry) {
            rc = -errno;
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            rc = fn(arg, entry->d_name);
    }
    (void)closedir(d);
    return rc;
}

/* flock, not fcntl: it belongs to the open file, so that a second open in this process is refused
 * too, and closing another descriptor of the file does not drop it. */
static int sys_lock(void *ctx, int fd, bool exclusive)
{
    (void)ctx;
    int rc;
    do
        rc = flock(fd, (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB);
    while (rc != 0 && errno == EINTR);
    return rc == 0 ? 0 : errno == EAGAIN ? -EWOULDBLOCK : -errno;
}

/* Said, not left to close: a process that was forked meanwhile has the open file too. */
static int sys_unlock(void *ctx, int fd)
{
    (void)ctx;
    return flock(fd, LOCK_UN) == 0 ? 0 : -errno;
}

static int sys_space(void *ctx, int fd, uint64_t *ret_free)
{
    (void)ctx;
    struct statvfs st;
    if (fstatvfs(fd, &st) != 0)
        return -errno;
    *ret_free = (uint64_t)st.f_bavail * (uint64_t)st.f_frsize;
    return 0;
}

static int sys_random(void *ctx, void *buf, size_t len)
{
    (void)ctx;
    unsigned char *at = buf;
    while (len > 0) {
        size_t ask = len < 256 ? len : 256; /* getentropy's maximum */
#if defined(__linux__)
        ssize_t got = getrandom(at, ask, 0);
        if (got < 0 && errno == EINTR)
            continue;
#else
        ssize_t got = getentropy(at, ask) == 0 ? (ssize_t)ask : -1;
#endif
        if (got < 0)
            return -errno;
        at += got;
        len -= (size_t)got;
    }
    return 0;
}

static uint64_t sys_now_ns(void *ctx, enum seam_clock clock)
{
    (void)ctx;
    struct timespec t = {0, 0};
    (void)clock_gettime(clock == SEAM_CLOCK_REAL ? CLOCK_REALTIME : CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void sys_sleep_us(void *ctx, uint64_t us)
{
    (void)ctx;
    struct timespec left;
    left.tv_sec = (time_t)(us / 1000000);
    left.tv_nsec = (long)(us % 1000000) * 1000;
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

static void *sys_alloc(void *ctx, size_t len)
{
    (void)ctx;
    return malloc(len > 0 ? len : 1);
}

static void sys_free(void *ctx, void *ptr)
{
    (void)ctx;
    free(ptr);
}

static void sys_huge(void *ctx, void *ptr, size_t len)
{
    (void)ctx;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    (void)madvise(ptr, len, MADV_HUGEPAGE);
#else
    (void)ptr, (void)len;
#endif
}

static void sys_populate(void *ctx, void *ptr, size_t len)
{
    (void)ctx;
#if defined(__linux__) && defined(MADV_POPULATE_WRITE)
    (void)madvise(ptr, len, MADV_POPULATE_WRITE);
#else
    (void)ptr, (void)len;
#endif
}

static const struct seam_platform system_table = {
    .ctx = NULL,
    .open = sys_open,
    .open_root = sys_open_root,
    .close = sys_close,
    .pread = sys_pread,
    .pwritev = sys_pwritev,
    .sync = sys_sync,
    .sync_dir = sys_sync_dir,
    .truncate = sys_truncate,
    .allocate = sys_allocate,
    .writeback = sys_writeback,
    .rename = sys_rename,
    .unlink = sys_unlink,
    .rmdir = sys_rmdir,
    .mkdir = sys_mkdir,
    .stat = sys_stat,
    .list = sys_list,
    .lock = sys_lock,
    .unlock = sys_unlock,
    .space = sys_space,
    .random = sys_random,
    .now_ns = sys_now_ns,
    .sleep_us = sys_sleep_us,
    .alloc = sys_alloc,
    .free = sys_free,
    .huge = sys_huge,
    .populate = sys_populate,
};

const struct seam_platform *seam_platform_system(void)
{
    return &system_table;
}

int seam_write_all(const struct seam_platform *os, int fd, struct iovec *parts, int n,
                   uint64_t offset)
{
    for (;;) {
        while (n > 0 && parts->iov_len == 0) {
            parts++;
            n--;
        }
        if (n <= 0)
            return 0;
        ssize_t put = os->pwritev(os->ctx, fd, parts, n, offset);
        if (put == -EINTR)
            continue;
        if (put <= 0)
            return put < 0 ? (int)put : -EIO;
        offset += (uint64_t)put;
        for (size_t left = (size_t)put; left > 0;) {
            size_t take = left < parts->iov_len ? left : parts->iov_len;
            parts->iov_base = (char *)parts->iov_base + take;
            parts->iov_len -= take;
            left -= take;
            if (parts->iov_len == 0) {
                parts++;
                n--;
            }
        }
    }
}

int seam_read_all(const struct seam_platform *os, int fd, void *buf, size_t len, uint64_t offset)
{
    char *at = buf;
    while (len > 0) {
        ssize_t got = os->pread(os->ctx, fd, at, len, offset);
        if (got == -EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? (int)got : -EIO;
        at += got;
        offset += (uint64_t)got;
        len -= (size_t)got;
    }
    return 0;
}
