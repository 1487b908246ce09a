/* flushcount.h - the page that the preloaded flush counter (libseam_flushcount.so) counts in, and
 * how a program reads it.
 *
 * HOW TO USE IT. Before starting the process to be counted:
 *     LD_PRELOAD=.../libseam_flushcount.so
 *     SEAM_FLUSHCOUNT_DIR=/path/of/the/store     files below it are counted, others pass untouched
 *     SEAM_FLUSHCOUNT_FILE=/path/of/a/page       optional: a file outside the store, mapped shared
 * A parent that wants to read the figures makes the page with seam_flushcount_create and passes its
 * path; the process itself finds its page with seam_flushcount_self. Without a file the page is
 * memory of the process itself. Several processes may share one page: counters only grow.
 *
 * WHAT COUNTS. Calls that reached the system and did not fail, on descriptors that were opened
 * after the object was loaded, under the directory as resolved at open (symbolic links followed).
 * sync() counts whenever it is called, syncfs when its descriptor is in the store.
 * NOT SEEN: stores into a mapping between two msync calls, raw system calls, io_uring, statically
 * linked programs, descriptors received through a socket or inherited over exec. */
#ifndef SEAM_VERIFY_FLUSHCOUNT_H
#define SEAM_VERIFY_FLUSHCOUNT_H

#include <stdint.h>

#define SEAM_FLUSHCOUNT_ENV_DIR "SEAM_FLUSHCOUNT_DIR"
#define SEAM_FLUSHCOUNT_ENV_FILE "SEAM_FLUSHCOUNT_FILE"
#define SEAM_FLUSHCOUNT_MAGIC UINT64_C(0x31544e4c46414553) /* "SEAFLNT1" */

enum { SEAM_FLUSHCOUNT_VERSION = 1, SEAM_FLUSHCOUNT_BYTES = 4096 };

/* name, whether one of them is a device flush, text. A write through O_DSYNC or O_SYNC, or with
 * RWF_DSYNC or RWF_SYNC, is a write and a flush in one call. MS_ASYNC and sync_file_range start
 * writeback at most: they promise nothing. */
#define SEAM_FLUSHCOUNT_CLASSES(X)                                                 \
    X(fsync, 1, "fsync")                                                           \
    X(fdatasync, 1, "fdatasync")                                                   \
    X(msync, 1, "msync with MS_SYNC")                                              \
    X(sync_write, 1, "write that flushes: O_SYNC, O_DSYNC, RWF_SYNC, RWF_DSYNC")   \
    X(syncfs, 1, "syncfs")                                                         \
    X(sync, 1, "sync")                                                             \
    X(msync_async, 0, "msync without MS_SYNC")                                     \
    X(sync_file_range, 0, "sync_file_range: no promise")                           \
    X(write, 0, "write that does not flush")

enum seam_flushcount_class {
#define SEAM_FLUSHCOUNT_ENUM(name, flush, text) SEAM_FLUSHCOUNT_##name,
    SEAM_FLUSHCOUNT_CLASSES(SEAM_FLUSHCOUNT_ENUM)
#undef SEAM_FLUSHCOUNT_ENUM
    SEAM_FLUSHCOUNT_CLASS_COUNT
};

/* The rest of what is counted.
 * stdio: streams made on the store's files: what they write is not seen.
 * unseen: calls the counter knows it cannot attribute (its descriptor or mapping table is full):
 * not 0 means that the figures are not complete. processes: how many attached to this page; 0 means
 * that nothing was counted at all. */
#define SEAM_FLUSHCOUNT_FACTS(X)                                                   \
    X(failed, "calls of these classes that failed")                                \
    X(opens, "descriptors of the store opened")                                    \
    X(stdio, "streams opened")                                                     \
    X(shared_maps, "writable shared mappings: their stores are not seen")          \
    X(unseen, "calls that could not be attributed")                                \
    X(processes, "processes that attached")

/* The page: native byte order, counters only grow. calls and bytes of each class; bytes are, for
 * writes, what the call returned; for msync and sync_file_range, the length asked; else 0. */
struct seam_flushcount_page {
    _Atomic uint64_t magic;
    _Atomic uint32_t version;
    _Atomic uint32_t classes; /* SEAM_FLUSHCOUNT_CLASS_COUNT */
    _Atomic uint64_t calls[SEAM_FLUSHCOUNT_CLASS_COUNT];
    _Atomic uint64_t bytes[SEAM_FLUSHCOUNT_CLASS_COUNT];
#define SEAM_FLUSHCOUNT_FIELD(name, text) _Atomic uint64_t name;
    SEAM_FLUSHCOUNT_FACTS(SEAM_FLUSHCOUNT_FIELD)
#undef SEAM_FLUSHCOUNT_FIELD
};

/* A copy of it. */
struct seam_flushcount {
    uint64_t calls[SEAM_FLUSHCOUNT_CLASS_COUNT];
    uint64_t bytes[SEAM_FLUSHCOUNT_CLASS_COUNT];
#define SEAM_FLUSHCOUNT_FIELD(name, text) uint64_t name;
    SEAM_FLUSHCOUNT_FACTS(SEAM_FLUSHCOUNT_FIELD)
#undef SEAM_FLUSHCOUNT_FIELD
};

/* Makes the file (it must not exist), maps it. NULL: errno says why. */
struct seam_flushcount_page *seam_flushcount_create(const char *path);
/* This process's own page, when it runs under the counter, else NULL. Not to be closed. */
struct seam_flushcount_page *seam_flushcount_self(void);
void seam_flushcount_close(struct seam_flushcount_page *page);

/* Each counter is read once; they are exact when the counted process stands still. */
void seam_flushcount_read(const struct seam_flushcount_page *page, struct seam_flushcount *ret);
/* a := a - b */
void seam_flushcount_minus(struct seam_flushcount *a, const struct seam_flushcount *b);
/* Calls that are device flushes. */
uint64_t seam_flushcount_flushes(const struct seam_flushcount *counts);
/* Bytes of all writes. */
uint64_t seam_flushcount_written(const struct seam_flushcount *counts);
/* "fsync" and so on. Static. */
const char *seam_flushcount_class_name(enum seam_flushcount_class cls);

#endif
