/* flushcount_note.c - which descriptors and mappings are the store's, and what is counted of them.
 *
 * Relies on /proc/self/fd to learn what a new descriptor is. Keeps true: a call on another file
 * costs one load; nothing is allocated and no lock is taken, so that it may be called from anywhere
 * libc may. The state at file scope is the nature of an interposer: one table of descriptors and
 * one of shared mappings for the process, all of it atomic. */
#include "flushcount_private.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

struct seam_flushcount_page *seam_flushcount_preloaded_page(void);

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

void *seam_flushcount_next(enum call call)
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

void seam_flushcount_call(enum call call, int fd, int64_t rc, uint64_t bytes, bool flushes)
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

static bool in_store(const char *path, size_t len)
{
    return len >= store_len && memcmp(path, store, store_len) == 0 &&
           (len == store_len || path[store_len] == '/' || store_len == 0);
}

bool seam_flushcount_opened(int fd, int flags)
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

void seam_flushcount_stream(int fd, bool given)
{
    if (given ? (flags_of(fd) & FD_STORE) != 0 : seam_flushcount_opened(fd, 0))
        counters->stdio++;
}

void seam_flushcount_duplicated(int from, int fd)
{
    if (fd >= 0 && fd != from)
        set_flags(fd, flags_of(from));
}

void seam_flushcount_closing(int fd)
{
    if (fd >= 0 && fd < FD_LIMIT)
        set_flags(fd, 0);
}

void seam_flushcount_closing_range(unsigned first, unsigned last)
{
    for (unsigned fd = first; fd <= last && fd < FD_LIMIT; fd++)
        set_flags((int)fd, 0);
}

void seam_flushcount_sync(void)
{
    if (counters != NULL)
        count(SEAM_FLUSHCOUNT_sync, 0);
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

void seam_flushcount_mapped(const void *at, size_t len, int prot, int flags, int fd)
{
    uintptr_t begin = (uintptr_t)at;

    if (at == MAP_FAILED || counters == NULL)
        return;
    map_drop(begin, begin + len);
    if ((flags_of(fd) & FD_STORE) == 0 || (flags & MAP_ANONYMOUS) != 0 ||
        ((flags & MAP_TYPE) != MAP_SHARED && (flags & MAP_TYPE) != MAP_SHARED_VALIDATE))
        return;
    map_add(begin, begin + len);
    if ((prot & PROT_WRITE) != 0)
        counters->shared_maps++;
}

void seam_flushcount_unmapping(const void *at, size_t len)
{
    map_drop((uintptr_t)at, (uintptr_t)at + len);
}

bool seam_flushcount_holds(const void *at, size_t len)
{
    return map_holds((uintptr_t)at, (uintptr_t)at + (len != 0 ? len : 1));
}

void seam_flushcount_remapped(const void *at, size_t old_len, const void *to, size_t len)
{
    map_drop((uintptr_t)at, (uintptr_t)at + old_len);
    map_add((uintptr_t)to, (uintptr_t)to + len);
}

void seam_flushcount_msync(const void *at, size_t len, int flags, int rc)
{
    if (!map_holds((uintptr_t)at, (uintptr_t)at + len))
        return;
    if (rc != 0)
        counters->failed++;
    else
        count((flags & MS_SYNC) != 0 ? SEAM_FLUSHCOUNT_msync : SEAM_FLUSHCOUNT_msync_async, len);
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
        seam_flushcount_next((enum call)i);
    if (dir != NULL && resolve_store(dir)) {
        counters = map_page(getenv(SEAM_FLUSHCOUNT_ENV_FILE));
        if (counters != NULL)
            counters->processes++;
    }
    errno = saved;
}

