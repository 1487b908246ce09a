/* flushcount_private.h - between the interposed functions (flushcount.c) and what they are counted
 * by (flushcount_note.c).
 *
 * One table, CALLS, names every interposed function and the class in which it counts. Each of them
 * calls libc's through NEXT and hands its outcome to one of the functions below, so that a recorder
 * has one place to stand in. None of them changes errno but by the call it makes for its caller. */
#ifndef SEAM_VERIFY_FLUSHCOUNT_PRIVATE_H
#define SEAM_VERIFY_FLUSHCOUNT_PRIVATE_H

#include "flushcount.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define NONE SEAM_FLUSHCOUNT_CLASS_COUNT
/* function, the class in which it counts */
#define CALLS(X)                                                                              \
    X(open, NONE) X(open64, NONE) X(openat, NONE) X(openat64, NONE) X(creat, NONE)            \
    X(creat64, NONE) X(__open_2, NONE) X(__open64_2, NONE) X(__openat_2, NONE)                \
    X(__openat64_2, NONE) X(fopen, NONE) X(fopen64, NONE) X(freopen, NONE)                    \
    X(freopen64, NONE) X(fdopen, NONE) X(mkstemp, NONE) X(mkstemp64, NONE) X(mkostemp, NONE)  \
    X(mkostemp64, NONE) X(fclose, NONE) X(close, NONE) X(close_range, NONE)                   \
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

/* libc's function behind this one. */
void *seam_flushcount_next(enum call call);
#define NEXT(name)                                          \
    (((union { void *object; __typeof__(&name) function; }){ \
          .object = seam_flushcount_next(CALL_##name)}).function)

/* fd is a new descriptor, or none (negative); whatever its number meant before is over. True: it is
 * of the store. */
bool seam_flushcount_opened(int fd, int flags);
/* A stream was made on fd, which it opened itself or (given) was there before. */
void seam_flushcount_stream(int fd, bool given);
void seam_flushcount_duplicated(int from, int fd);
/* Called before the number is free to be given to another thread. */
void seam_flushcount_closing(int fd);
void seam_flushcount_closing_range(unsigned first, unsigned last);

/* A call on fd returned rc; bytes is what it moved if it did not fail. flushes: its own flags ask
 * for that. */
void seam_flushcount_call(enum call call, int fd, int64_t rc, uint64_t bytes, bool flushes);
void seam_flushcount_sync(void);
void seam_flushcount_msync(const void *at, size_t len, int flags, int rc);

void seam_flushcount_mapped(const void *at, size_t len, int prot, int flags, int fd);
void seam_flushcount_unmapping(const void *at, size_t len);
/* A mapping moved from [at, at + old_len) to [to, to + len). held: what seam_flushcount_holds said
 * of the old place before. */
bool seam_flushcount_holds(const void *at, size_t len);
void seam_flushcount_remapped(const void *at, size_t old_len, const void *to, size_t len);

#endif
