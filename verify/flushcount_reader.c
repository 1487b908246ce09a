/* flushcount_reader.c - reads the page that the preloaded flush counter counts in.
 *
 * Relies on the page being a shared mapping of whole words, each read once. Keeps
 * nothing itself. */
#include "flushcount.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(sizeof(struct seam_flushcount_page) <= SEAM_FLUSHCOUNT_BYTES, "one page");

static const char *const class_names[] = {
#define NAME(name, flush, text) #name,
    SEAM_FLUSHCOUNT_CLASSES(NAME)
#undef NAME
};

static const uint8_t class_flushes[] = {
#define FLUSH(name, flush, text) flush,
    SEAM_FLUSHCOUNT_CLASSES(FLUSH)
#undef FLUSH
};

struct seam_flushcount_page *seam_flushcount_create(const char *path)
{
    struct seam_flushcount_page *page = NULL;
    void *map;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600), saved;

    if (fd < 0)
        return NULL;
    if (ftruncate(fd, SEAM_FLUSHCOUNT_BYTES) == 0) {
        map = mmap(NULL, SEAM_FLUSHCOUNT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (map != MAP_FAILED)
            page = map;
    }
    saved = errno;
    if (page == NULL)
        unlink(path);
    close(fd);
    if (page != NULL) {
        page->classes = SEAM_FLUSHCOUNT_CLASS_COUNT;
        page->version = SEAM_FLUSHCOUNT_VERSION;
        page->magic = SEAM_FLUSHCOUNT_MAGIC;
    }
    errno = saved;
    return page;
}

struct seam_flushcount_page *seam_flushcount_self(void)
{
    union {
        void *object;
        struct seam_flushcount_page *(*function)(void);
    } entry;

    entry.object = dlsym(RTLD_DEFAULT, "seam_flushcount_preloaded_page");
    return entry.object != NULL ? entry.function() : NULL;
}

void seam_flushcount_close(struct seam_flushcount_page *page)
{
    if (page != NULL)
        munmap(page, SEAM_FLUSHCOUNT_BYTES);
}

void seam_flushcount_read(const struct seam_flushcount_page *page, struct seam_flushcount *ret)
{
    for (size_t i = 0; i < SEAM_FLUSHCOUNT_CLASS_COUNT; i++) {
        ret->calls[i] = page->calls[i];
        ret->bytes[i] = page->bytes[i];
    }
#define COPY(name, text) ret->name = page->name;
    SEAM_FLUSHCOUNT_FACTS(COPY)
#undef COPY
}

void seam_flushcount_minus(struct seam_flushcount *a, const struct seam_flushcount *b)
{
    for (size_t i = 0; i < SEAM_FLUSHCOUNT_CLASS_COUNT; i++) {
        a->calls[i] -= b->calls[i];
        a->bytes[i] -= b->bytes[i];
    }
#define MINUS(name, text) a->name -= b->name;
    SEAM_FLUSHCOUNT_FACTS(MINUS)
#undef MINUS
}

uint64_t seam_flushcount_flushes(const struct seam_flushcount *counts)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < SEAM_FLUSHCOUNT_CLASS_COUNT; i++)
        if (class_flushes[i])
            sum += counts->calls[i];
    return sum;
}

uint64_t seam_flushcount_written(const struct seam_flushcount *counts)
{
    return counts->bytes[SEAM_FLUSHCOUNT_write] + counts->bytes[SEAM_FLUSHCOUNT_sync_write];
}

const char *seam_flushcount_class_name(enum seam_flushcount_class cls)
{
    return (unsigned)cls < SEAM_FLUSHCOUNT_CLASS_COUNT ? class_names[cls] : "?";
}
