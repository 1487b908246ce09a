/* flushcount.c - a shared object to preload: the functions of libc that it stands in front of.
 *
 * Relies on the process calling libc through the dynamic linker, and on flushcount_note.c for what
 * is counted. Keeps true: every call returns what libc's returned, with its errno. */
#include "flushcount_private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* What programs built with _FORTIFY_SOURCE call; no header declares them without it. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dir, const char *path, int flags);
int __openat64_2(int dir, const char *path, int flags);

static int opened(int fd, int flags)
{
    seam_flushcount_opened(fd, flags);
    return fd;
}

static int duplicated(int from, int fd)
{
    seam_flushcount_duplicated(from, fd);
    return fd;
}

static ssize_t wrote(enum call call, int fd, ssize_t rc, bool flushes)
{
    seam_flushcount_call(call, fd, rc, rc > 0 ? (uint64_t)rc : 0, flushes);
    return rc;
}

static void *mapped(void *at, size_t len, int prot, int flags, int fd)
{
    seam_flushcount_mapped(at, len, prot, flags, fd);
    return at;
}

/* ---- descriptors -------------------------------------------------------------------------- */

static bool takes_mode(int flags)
{
    return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
}

#define OPEN(name)                                                \
    EXPORT int name(const char *path, int flags, ...)             \
    {                                                             \
        mode_t mode = 0;                                          \
        va_list args;                                             \
                                                                  \
        va_start(args, flags);                                    \
        if (takes_mode(flags))                                    \
            mode = va_arg(args, mode_t);                          \
        va_end(args);                                             \
        return opened(NEXT(name)(path, flags, mode), flags);      \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                              \
    EXPORT int name(int dir, const char *path, int flags, ...)    \
    {                                                             \
        mode_t mode = 0;                                          \
        va_list args;                                             \
                                                                  \
        va_start(args, flags);                                    \
        if (takes_mode(flags))                                    \
            mode = va_arg(args, mode_t);                          \
        va_end(args);                                             \
        return opened(NEXT(name)(dir, path, flags, mode), flags); \
    }
OPENAT(openat)
OPENAT(openat64)

EXPORT int __open_2(const char *path, int flags)
{
    return opened(NEXT(__open_2)(path, flags), flags);
}

EXPORT int __open64_2(const char *path, int flags)
{
    return opened(NEXT(__open64_2)(path, flags), flags);
}

EXPORT int __openat_2(int dir, const char *path, int flags)
{
    return opened(NEXT(__openat_2)(dir, path, flags), flags);
}

EXPORT int __openat64_2(int dir, const char *path, int flags)
{
    return opened(NEXT(__openat64_2)(dir, path, flags), flags);
}

EXPORT int creat(const char *path, mode_t mode)
{
    return opened(NEXT(creat)(path, mode), 0);
}

EXPORT int creat64(const char *path, mode_t mode)
{
    return opened(NEXT(creat64)(path, mode), 0);
}

EXPORT int mkstemp(char *path)
{
    return opened(NEXT(mkstemp)(path), 0);
}

EXPORT int mkstemp64(char *path)
{
    return opened(NEXT(mkstemp64)(path), 0);
}

EXPORT int mkostemp(char *path, int flags)
{
    return opened(NEXT(mkostemp)(path, flags), flags);
}

EXPORT int mkostemp64(char *path, int flags)
{
    return opened(NEXT(mkostemp64)(path, flags), flags);
}

static FILE *stream(FILE *file)
{
    if (file != NULL)
        seam_flushcount_stream(fileno(file), false);
    return file;
}

EXPORT FILE *fdopen(int fd, const char *mode)
{
    FILE *file = NEXT(fdopen)(fd, mode);

    if (file != NULL)
        seam_flushcount_stream(fd, true);
    return file;
}

EXPORT FILE *fopen(const char *path, const char *mode)
{
    return stream(NEXT(fopen)(path, mode));
}

EXPORT FILE *fopen64(const char *path, const char *mode)
{
    return stream(NEXT(fopen64)(path, mode));
}

EXPORT FILE *freopen(const char *path, const char *mode, FILE *file)
{
    seam_flushcount_closing(fileno(file));
    return stream(NEXT(freopen)(path, mode, file));
}

EXPORT FILE *freopen64(const char *path, const char *mode, FILE *file)
{
    seam_flushcount_closing(fileno(file));
    return stream(NEXT(freopen64)(path, mode, file));
}

EXPORT int fclose(FILE *file)
{
    int saved = errno;

    seam_flushcount_closing(fileno(file));
    errno = saved;
    return NEXT(fclose)(file);
}

EXPORT int closedir(DIR *dir)
{
    seam_flushcount_closing(dirfd(dir));
    return NEXT(closedir)(dir);
}

EXPORT int close(int fd)
{
    seam_flushcount_closing(fd);
    return NEXT(close)(fd);
}

EXPORT int close_range(unsigned first, unsigned last, int flags)
{
    if ((flags & (int)CLOSE_RANGE_CLOEXEC) == 0)
        seam_flushcount_closing_range(first, last);
    return NEXT(close_range)(first, last, flags);
}

EXPORT void closefrom(int lowest)
{
    seam_flushcount_closing_range(lowest > 0 ? (unsigned)lowest : 0, UINT_MAX);
    NEXT(closefrom)(lowest);
}

EXPORT int dup(int fd)
{
    return duplicated(fd, NEXT(dup)(fd));
}

EXPORT int dup2(int fd, int to)
{
    return duplicated(fd, NEXT(dup2)(fd, to));
}

EXPORT int dup3(int fd, int to, int flags)
{
    return duplicated(fd, NEXT(dup3)(fd, to, flags));
}

/* The third argument, if there is one, is an int or a pointer: a pointer's width carries both. */
#define FCNTL(name)                                                                      \
    EXPORT int name(int fd, int command, ...)                                            \
    {                                                                                    \
        va_list args;                                                                    \
        void *arg;                                                                       \
        int rc;                                                                          \
                                                                                         \
        va_start(args, command);                                                         \
        arg = va_arg(args, void *);                                                      \
        va_end(args);                                                                    \
        rc = NEXT(name)(fd, command, arg);                                               \
        return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? duplicated(fd, rc) : rc; \
    }
FCNTL(fcntl)
FCNTL(fcntl64)

/* ---- writes ------------------------------------------------------------------------------- */

EXPORT ssize_t write(int fd, const void *buf, size_t len)
{
    return wrote(CALL_write, fd, NEXT(write)(fd, buf, len), false);
}

EXPORT ssize_t writev(int fd, const struct iovec *parts, int n)
{
    return wrote(CALL_writev, fd, NEXT(writev)(fd, parts, n), false);
}

EXPORT ssize_t pwrite(int fd, const void *buf, size_t len, off_t offset)
{
    return wrote(CALL_pwrite, fd, NEXT(pwrite)(fd, buf, len, offset), false);
}

EXPORT ssize_t pwrite64(int fd, const void *buf, size_t len, off64_t offset)
{
    return wrote(CALL_pwrite64, fd, NEXT(pwrite64)(fd, buf, len, offset), false);
}

EXPORT ssize_t pwritev(int fd, const struct iovec *parts, int n, off_t offset)
{
    return wrote(CALL_pwritev, fd, NEXT(pwritev)(fd, parts, n, offset), false);
}

EXPORT ssize_t pwritev64(int fd, const struct iovec *parts, int n, off64_t offset)
{
    return wrote(CALL_pwritev64, fd, NEXT(pwritev64)(fd, parts, n, offset), false);
}

EXPORT ssize_t pwritev2(int fd, const struct iovec *parts, int n, off_t offset, int flags)
{
    return wrote(CALL_pwritev2, fd, NEXT(pwritev2)(fd, parts, n, offset, flags),
                 (flags & (RWF_DSYNC | RWF_SYNC)) != 0);
}

EXPORT ssize_t pwritev64v2(int fd, const struct iovec *parts, int n, off64_t offset, int flags)
{
    return wrote(CALL_pwritev64v2, fd, NEXT(pwritev64v2)(fd, parts, n, offset, flags),
                 (flags & (RWF_DSYNC | RWF_SYNC)) != 0);
}

EXPORT ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t len,
                               unsigned flags)
{
    return wrote(CALL_copy_file_range, to,
                 NEXT(copy_file_range)(from, from_at, to, to_at, len, flags), false);
}

EXPORT ssize_t sendfile(int to, int from, off_t *at, size_t len)
{
    return wrote(CALL_sendfile, to, NEXT(sendfile)(to, from, at, len), false);
}

EXPORT ssize_t sendfile64(int to, int from, off64_t *at, size_t len)
{
    return wrote(CALL_sendfile64, to, NEXT(sendfile64)(to, from, at, len), false);
}

/* ---- flushes ------------------------------------------------------------------------------ */

EXPORT int fsync(int fd)
{
    int rc = NEXT(fsync)(fd);

    seam_flushcount_call(CALL_fsync, fd, rc, 0, true);
    return rc;
}

EXPORT int fdatasync(int fd)
{
    int rc = NEXT(fdatasync)(fd);

    seam_flushcount_call(CALL_fdatasync, fd, rc, 0, true);
    return rc;
}

EXPORT int syncfs(int fd)
{
    int rc = NEXT(syncfs)(fd);

    seam_flushcount_call(CALL_syncfs, fd, rc, 0, true);
    return rc;
}

EXPORT void sync(void)
{
    NEXT(sync)();
    seam_flushcount_sync();
}

EXPORT int sync_file_range(int fd, off64_t offset, off64_t len, unsigned flags)
{
    int rc = NEXT(sync_file_range)(fd, offset, len, flags);

    seam_flushcount_call(CALL_sync_file_range, fd, rc, len > 0 ? (uint64_t)len : 0, false);
    return rc;
}

EXPORT int msync(void *at, size_t len, int flags)
{
    int rc = NEXT(msync)(at, len, flags);

    seam_flushcount_msync(at, len, flags, rc);
    return rc;
}

/* ---- mappings ----------------------------------------------------------------------------- */

EXPORT void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
    return mapped(NEXT(mmap)(at, len, prot, flags, fd, offset), len, prot, flags, fd);
}

EXPORT void *mmap64(void *at, size_t len, int prot, int flags, int fd, off64_t offset)
{
    return mapped(NEXT(mmap64)(at, len, prot, flags, fd, offset), len, prot, flags, fd);
}

EXPORT int munmap(void *at, size_t len)
{
    seam_flushcount_unmapping(at, len);
    return NEXT(munmap)(at, len);
}

EXPORT void *mremap(void *at, size_t old_len, size_t len, int flags, ...)
{
    bool held = seam_flushcount_holds(at, old_len);
    va_list args;
    void *to, *moved;

    va_start(args, flags);
    to = va_arg(args, void *);
    va_end(args);
    moved = NEXT(mremap)(at, old_len, len, flags, to);
    if (moved != MAP_FAILED && held)
        seam_flushcount_remapped(at, old_len, moved, len);
    return moved;
}
