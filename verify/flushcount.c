/* flushcount.c - a shared object to preload: counts the flushes and writes that a process asks of
 * the system for the files of one store, whatever engine does it.
 *
 * Relies on the process calling libc through the dynamic linker, and on /proc/self/fd to learn what
 * a new descriptor is. Keeps true: every call returns what libc's returned, with its errno; calls on
 * other files cost one load. The state at file scope is the nature of an interposer: one table of
 * descriptors and one of shared mappings per process, all of it atomic, no lock, nothing allocated.
 *
 * One table, CALLS, names every interposed function; each wrapper hands its outcome to note_call or
 * note_open, so that a recorder has one place to stand in. */
#include "flushcount.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* What programs built with _FORTIFY_SOURCE call; no header declares them without it. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dir, const char *path, int flags);
int __openat64_2(int dir, const char *path, int flags);
struct seam_flushcount_page *seam_flushcount_preloaded_page(void);

#define NONE SEAM_FLUSHCOUNT_CLASS_COUNT
/* function, the class in which it counts */
#define CALLS(X)                                                                              \
    X(open, NONE) X(open64, NONE) X(openat, NONE) X(openat64, NONE) X(creat, NONE)            \
    X(creat64, NONE) X(__open_2, NONE) X(__open64_2, NONE) X(__openat_2, NONE)                \
    X(__openat64_2, NONE) X(fopen, NONE) X(fopen64, NONE) X(freopen, NONE)                    \
    X(freopen64, NONE) X(fclose, NONE) X(close, NONE) X(close_range, NONE)                    \
    X(closefrom, NONE) X(closedir, NONE) X(dup, NONE) X(dup2, NONE) X(dup3, NONE)             \
    X(fcntl, NONE) X(fcntl64, NONE) X(mmap, NONE) X(mmap64, NONE) X(munmap, NONE)             \
    X(mremap, NONE) X(write, SEAM_FLUSHCOUNT_write) X(writev, SEAM_FLUSHCOUNT_write)          \
    X(pwrite, SEAM_FLUSHCOUNT_write) X(pwrite64, SEAM_FLUSHCOUNT_write)                       \
    X(pwritev, SEAM_FLUSHCOUNT_write) X(pwritev64, SEAM_FLUSHCOUNT_write)                     \
    X(pwritev2, SEAM_FLUSHCOUNT_write) X(pwritev64v2, SEAM_FLUSHCOUNT_write)                  \
    X(copy_file_range, SEAM_FLUSHCOUNT_write) X(sendfile, SEAM_FLUSHCOUNT_write)              \
    X(sendfile64, SEAM_FLUSHCOUNT_write) X(fsync, SEAM_FLUSHCOUNT_fsync)                      \
    X(fdatasync, SEAM_FLUSHCOUNT_fdatasync) X(syncfs, SEAM_FLUSHCOUNT_syncfs)                 \
    X(sync, SEAM_FLUSHCOUNT_sync) X(msync, SEAM_FLUSHCOUNT_msync)                             \
    X(sync_file_range, SEAM_FLUSHCOUNT_sync_file_range)

enum call {
#define CALL_ENUM(name, cls) CALL_##name,
    CALLS(CALL_ENUM)
#undef CALL_ENUM
    CALL_COUNT
};

static const struct {
    const char *name;
    enum seam_flushcount_class cls;
} calls[] = {
#define CALL_ROW(name, cls) {#name, (enum seam_flushcount_class)(cls)},
    CALLS(CALL_ROW)
#undef CALL_ROW
};

enum { FD_STORE = 1, FD_SYNC = 2, FD_LIMIT = 1 << 16, MAP_LIMIT = 512 };

static _Atomic(void *) next_of[CALL_COUNT];      /* libc's functions, found at their first use */
static _Atomic uint8_t fd_flags[FD_LIMIT];       /* FD_*; 0: not of the store */
static struct { _Atomic uintptr_t begin, end; } maps[MAP_LIMIT]; /* end 0: free or being made */
static _Atomic unsigned maps_used;               /* 0: msync and munmap need not look */
static struct seam_flushcount_page *counters;    /* NULL: nothing is counted */
static char store[PATH_MAX];                     /* resolved, without a '/' at its end */
static size_t store_len;

static void *next(enum call call)
{
    static const char text[] = "seam_flushcount: libc lacks a function that it declares\n";
    void *fn = next_of[call];

    if (fn == NULL) {
        fn = dlsym(RTLD_NEXT, calls[call].name);
        if (fn == NULL) {
            (void)!syscall(SYS_write, 2, text, sizeof text - 1);
            abort();
        }
        next_of[call] = fn;
    }
    return fn;
}

#define NEXT(name) \
    (((union { void *object; __typeof__(&name) function; }){.object = next(CALL_##name)}).function)

/* ---- what is counted ---------------------------------------------------------------------- */

static uint8_t flags_of(int fd)
{
    return fd >= 0 && fd < FD_LIMIT ? fd_flags[fd] : 0;
}

static void set_flags(int fd, uint8_t flags)
{
    if (fd >= 0 && fd < FD_LIMIT) {
        if (fd_flags[fd] != flags)
            fd_flags[fd] = flags;
    } else if (flags != 0 && counters != NULL) {
        counters->unseen++;
    }
}

static void count(enum seam_flushcount_class cls, uint64_t bytes)
{
    counters->calls[cls]++;
    counters->bytes[cls] += bytes;
}

/* A call on fd returned rc; bytes is what it moved if it did not fail. flushes: asked for by the
 * call itself. */
static void note_call(enum call call, int fd, int64_t rc, uint64_t bytes, bool flushes)
{
    enum seam_flushcount_class cls = calls[call].cls;
    uint8_t flags = flags_of(fd);

    if ((flags & FD_STORE) == 0)
        return;
    if (cls == SEAM_FLUSHCOUNT_write && (flushes || (flags & FD_SYNC) != 0))
        cls = SEAM_FLUSHCOUNT_sync_write;
    if (rc < 0)
        counters->failed++;
    else
        count(cls, bytes);
}

static ssize_t wrote(enum call call, int fd, ssize_t rc, bool flushes)
{
    note_call(call, fd, rc, rc > 0 ? (uint64_t)rc : 0, flushes);
    return rc;
}

static bool in_store(const char *path, size_t len)
{
    return len >= store_len && memcmp(path, store, store_len) == 0 &&
           (len == store_len || path[store_len] == '/' || store_len == 0);
}

/* fd is a new descriptor, or none. Whatever its number meant before is over. errno is kept. */
static bool note_open(int fd, int flags)
{
    char link[48], path[PATH_MAX];
    int saved = errno;
    ssize_t len = -1;
    uint8_t mark = 0;

    if (fd < 0 || counters == NULL)
        return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    len = readlink(link, path, sizeof path);
    if (len < 0)
        counters->unseen++;
    else if (in_store(path, (size_t)len))
        mark = (uint8_t)(FD_STORE | ((flags & O_DSYNC) != 0 ? FD_SYNC : 0));
    set_flags(fd, mark);
    if (mark != 0)
        counters->opens++;
    errno = saved;
    return mark != 0;
}

static int opened(int fd, int flags)
{
    note_open(fd, flags);
    return fd;
}

static int duplicated(int from, int fd)
{
    if (fd >= 0 && fd != from)
        set_flags(fd, flags_of(from));
    return fd;
}

/* ---- shared mappings ---------------------------------------------------------------------- */

static void map_add(uintptr_t begin, uintptr_t end)
{
    for (size_t i = 0; i < MAP_LIMIT; i++) {
        uintptr_t none = 0;

        if (atomic_compare_exchange_strong(&maps[i].begin, &none, begin)) {
            maps[i].end = end;
            maps_used++;
            return;
        }
    }
    counters->unseen++;
}

static bool map_holds(uintptr_t begin, uintptr_t end)
{
    if (maps_used == 0)
        return false;
    for (size_t i = 0; i < MAP_LIMIT; i++)
        if (maps[i].end != 0 && begin < maps[i].end && end > maps[i].begin)
            return true;
    return false;
}

/* [begin, end) is no longer what it was; what sticks out of it stays. */
static void map_drop(uintptr_t begin, uintptr_t end)
{
    if (maps_used == 0)
        return;
    for (size_t i = 0; i < MAP_LIMIT; i++) {
        uintptr_t a = maps[i].begin, b = maps[i].end;

        if (b == 0 || begin >= b || end <= a)
            continue;
        maps[i].end = 0;
        maps[i].begin = 0;
        maps_used--;
        if (a < begin)
            map_add(a, begin);
        if (end < b)
            map_add(end, b);
    }
}

static void *mapped(void *at, size_t len, int prot, int flags, int fd)
{
    uintptr_t begin = (uintptr_t)at;

    if (at == MAP_FAILED || counters == NULL)
        return at;
    map_drop(begin, begin + len);
    if ((flags_of(fd) & FD_STORE) == 0 || (flags & MAP_ANONYMOUS) != 0 ||
        ((flags & MAP_TYPE) != MAP_SHARED && (flags & MAP_TYPE) != MAP_SHARED_VALIDATE))
        return at;
    map_add(begin, begin + len);
    if ((prot & PROT_WRITE) != 0)
        counters->shared_maps++;
    return at;
}

/* ---- start -------------------------------------------------------------------------------- */

EXPORT struct seam_flushcount_page *seam_flushcount_preloaded_page(void)
{
    return counters;
}

/* The longest part of path that is there, resolved, and the rest as given. False: too long. */
static bool resolve_store(const char *path)
{
    char part[PATH_MAX], real[PATH_MAX];
    size_t len = strlen(path);
    int n;

    if (len == 0 || len >= sizeof part)
        return false;
    memcpy(part, path, len + 1);
    while (realpath(part, real) == NULL) {
        while (len > 0 && part[len - 1] != '/')
            len--;
        while (len > 1 && part[len - 1] == '/')
            len--;
        if (len == 0) {
            part[len++] = '.';
            part[len] = '\0';
            if (realpath(part, real) == NULL)
                return false;
            len = 0;
            break;
        }
        part[len] = '\0';
    }
    path += len;
    while (*path == '/')
        path++;
    n = snprintf(store, sizeof store, "%s%s%s", real, *path != '\0' ? "/" : "", path);
    if (n < 0 || (size_t)n >= sizeof store)
        return false;
    store_len = (size_t)n;
    while (store_len > 0 && store[store_len - 1] == '/')
        store_len--;
    return true;
}

static struct seam_flushcount_page *map_page(const char *file)
{
    struct seam_flushcount_page *page;
    struct stat st;
    void *map;
    int fd = -1, flags = MAP_SHARED | MAP_ANONYMOUS;

    if (file != NULL && *file != '\0') {
        fd = NEXT(open)(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0)
            return NULL;
        flags = MAP_SHARED;
        if (fstat(fd, &st) != 0 || (st.st_size != 0 && st.st_size != SEAM_FLUSHCOUNT_BYTES) ||
            ftruncate(fd, SEAM_FLUSHCOUNT_BYTES) != 0) {
            NEXT(close)(fd);
            return NULL;
        }
    }
    map = NEXT(mmap)(NULL, SEAM_FLUSHCOUNT_BYTES, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (fd >= 0)
        NEXT(close)(fd);
    if (map == MAP_FAILED)
        return NULL;
    page = map;
    if (page->magic == 0) {
        page->classes = SEAM_FLUSHCOUNT_CLASS_COUNT;
        page->version = SEAM_FLUSHCOUNT_VERSION;
        page->magic = SEAM_FLUSHCOUNT_MAGIC;
    }
    if (page->magic == SEAM_FLUSHCOUNT_MAGIC && page->version == SEAM_FLUSHCOUNT_VERSION &&
        page->classes == SEAM_FLUSHCOUNT_CLASS_COUNT)
        return page;
    munmap(map, SEAM_FLUSHCOUNT_BYTES);
    return NULL;
}

__attribute__((constructor)) static void start(void)
{
    const char *dir = getenv(SEAM_FLUSHCOUNT_ENV_DIR);
    int saved = errno;

    for (unsigned i = 0; i < CALL_COUNT; i++)
        next((enum call)i);
    if (dir != NULL && resolve_store(dir)) {
        counters = map_page(getenv(SEAM_FLUSHCOUNT_ENV_FILE));
        if (counters != NULL)
            counters->processes++;
    }
    errno = saved;
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

static FILE *stream(FILE *file)
{
    if (file != NULL && note_open(fileno(file), 0))
        counters->stdio++;
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
    set_flags(fileno(file), 0);
    return stream(NEXT(freopen)(path, mode, file));
}

EXPORT FILE *freopen64(const char *path, const char *mode, FILE *file)
{
    set_flags(fileno(file), 0);
    return stream(NEXT(freopen64)(path, mode, file));
}

/* The mark goes before the number is free to be given to another thread. */
EXPORT int fclose(FILE *file)
{
    int saved = errno;

    set_flags(fileno(file), 0);
    errno = saved;
    return NEXT(fclose)(file);
}

EXPORT int closedir(DIR *dir)
{
    set_flags(dirfd(dir), 0);
    return NEXT(closedir)(dir);
}

EXPORT int close(int fd)
{
    if (fd >= 0 && fd < FD_LIMIT)
        set_flags(fd, 0);
    return NEXT(close)(fd);
}

static void forget(unsigned first, unsigned last)
{
    for (unsigned fd = first; fd <= last && fd < FD_LIMIT; fd++)
        set_flags((int)fd, 0);
}

EXPORT int close_range(unsigned first, unsigned last, int flags)
{
    if ((flags & (int)CLOSE_RANGE_CLOEXEC) == 0)
        forget(first, last);
    return NEXT(close_range)(first, last, flags);
}

EXPORT void closefrom(int lowest)
{
    forget(lowest > 0 ? (unsigned)lowest : 0, UINT_MAX);
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

    note_call(CALL_fsync, fd, rc, 0, true);
    return rc;
}

EXPORT int fdatasync(int fd)
{
    int rc = NEXT(fdatasync)(fd);

    note_call(CALL_fdatasync, fd, rc, 0, true);
    return rc;
}

EXPORT int syncfs(int fd)
{
    int rc = NEXT(syncfs)(fd);

    note_call(CALL_syncfs, fd, rc, 0, true);
    return rc;
}

EXPORT void sync(void)
{
    NEXT(sync)();
    if (counters != NULL)
        count(SEAM_FLUSHCOUNT_sync, 0);
}

EXPORT int sync_file_range(int fd, off64_t offset, off64_t len, unsigned flags)
{
    int rc = NEXT(sync_file_range)(fd, offset, len, flags);

    note_call(CALL_sync_file_range, fd, rc, len > 0 ? (uint64_t)len : 0, false);
    return rc;
}

EXPORT int msync(void *at, size_t len, int flags)
{
    int rc = NEXT(msync)(at, len, flags);

    if (map_holds((uintptr_t)at, (uintptr_t)at + len)) {
        if (rc != 0)
            counters->failed++;
        else
            count((flags & MS_SYNC) != 0 ? SEAM_FLUSHCOUNT_msync : SEAM_FLUSHCOUNT_msync_async,
                  len);
    }
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
    map_drop((uintptr_t)at, (uintptr_t)at + len);
    return NEXT(munmap)(at, len);
}

EXPORT void *mremap(void *at, size_t old_len, size_t len, int flags, ...)
{
    uintptr_t begin = (uintptr_t)at;
    bool held = map_holds(begin, begin + (old_len != 0 ? old_len : 1));
    va_list args;
    void *to, *moved;

    va_start(args, flags);
    to = va_arg(args, void *);
    va_end(args);
    moved = NEXT(mremap)(at, old_len, len, flags, to);
    if (moved != MAP_FAILED && held) {
        map_drop(begin, begin + old_len);
        map_add((uintptr_t)moved, (uintptr_t)moved + len);
    }
    return moved;
}
