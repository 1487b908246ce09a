/* platform.h - the one table through which Seam's own code touches files, time, memory and chance.
 *
 * Relied on by engine/, backends/vlog and seam/; a test puts another table in its place to crash,
 * fail, shorten or delay any call. LMDB and RocksDB do their own I/O and are out of its reach.
 *
 * Every call returns a value >= 0, or -errno; none sets errno for its caller to read. Names are
 * relative to a directory descriptor, are one path component, and are never followed if they are
 * symbolic links. ctx is the table's own. */
#ifndef SEAM_PLATFORM_H
#define SEAM_PLATFORM_H

#include <seam/seam.h>

#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Open flags. The descriptor is close-on-exec. What is no regular file is refused (-EISDIR, -ENXIO;
 * -ELOOP for a symbolic link), and so is a file that has more than one name (-EMLINK). */
enum {
    SEAM_FILE_READ = 0,
    SEAM_FILE_WRITE = 1,
    SEAM_FILE_CREATE = 2, /* with NEW: must not exist; mode 0600 is set whatever the umask */
    SEAM_FILE_NEW = 4,
    SEAM_FILE_DIRECT = 8, /* O_DIRECT; -EINVAL where the file system has none */
    SEAM_FILE_DSYNC = 16, /* O_DSYNC */
    SEAM_FILE_DIR = 32    /* a directory */
};

enum seam_clock { SEAM_CLOCK_MONOTONIC, SEAM_CLOCK_REAL };
enum seam_file_kind { SEAM_FILE_ABSENT, SEAM_FILE_REGULAR, SEAM_FILE_DIRECTORY, SEAM_FILE_OTHER };

struct seam_file_info {
    enum seam_file_kind kind;
    uint64_t size, allocated, links;
    bool foreign; /* owned by a user who is neither this one nor root, and this one is not root */
    bool loose;   /* its group or everybody may write to it */
};

/* Called with each name but "." and ".."; a value other than 0 ends the listing and is returned. */
typedef int (*seam_list_fn)(void *arg, const char *name);

struct seam_platform {
    void *ctx;
    int (*open)(void *ctx, int dir, const char *name, int flags);
    int (*open_root)(void *ctx, const char *path); /* an existing directory, by path; its last
                                                      component is not followed, but "link/." is */
    int (*close)(void *ctx, int fd);
    ssize_t (*pread)(void *ctx, int fd, void *buf, size_t len, uint64_t offset);
    ssize_t (*pwritev)(void *ctx, int fd, const struct iovec *parts, int n, uint64_t offset);
    int (*sync)(void *ctx, int fd);     /* file data: fdatasync; F_FULLFSYNC on macOS */
    int (*sync_dir)(void *ctx, int fd); /* a directory's entries: fsync */
    int (*truncate)(void *ctx, int fd, uint64_t size);
    int (*allocate)(void *ctx, int fd, uint64_t offset, uint64_t len); /* does not move the size */
    int (*writeback)(void *ctx, int fd, uint64_t offset, uint64_t len); /* a hint, no promise */
    int (*rename)(void *ctx, int from_dir, const char *from, int to_dir, const char *to);
    int (*unlink)(void *ctx, int dir, const char *name);
    int (*rmdir)(void *ctx, int dir, const char *name);
    int (*mkdir)(void *ctx, int dir, const char *name); /* mode 0700 whatever the umask */
    int (*stat)(void *ctx, int dir, const char *name, struct seam_file_info *ret);
    /* stat of "": the descriptor itself; a name that is not there: 0 and SEAM_FILE_ABSENT */
    int (*list)(void *ctx, int dir, seam_list_fn fn, void *arg);
    int (*lock)(void *ctx, int fd, bool exclusive); /* -EWOULDBLOCK if held by another open file */
    int (*unlock)(void *ctx, int fd); /* for all descriptors of the open file, also inherited ones */
    int (*space)(void *ctx, int fd, uint64_t *ret_free);
    int (*random)(void *ctx, void *buf, size_t len);
    uint64_t (*now_ns)(void *ctx, enum seam_clock clock);
    void (*sleep_us)(void *ctx, uint64_t us);
    void *(*alloc)(void *ctx, size_t len); /* NULL: no memory; aligned as malloc */
    void (*free)(void *ctx, void *ptr);    /* NULL is allowed */
    /* A hint: whole pages from ptr on will be used, and are wanted as few large ones. NULL: none. */
    void (*huge)(void *ctx, void *ptr, size_t len);
    /* A hint: these whole pages will be written to soon, by any thread. NULL: none. */
    void (*populate)(void *ctx, void *ptr, size_t len);
};

/* The system's. Static. */
SEAM_API const struct seam_platform *seam_platform_system(void);

/* Writes or reads all of it, going on after short counts and EINTR; -EIO for an end of file met
 * while reading. What a failed write leaves is unknown. */
SEAM_API int seam_write_all(const struct seam_platform *os, int fd, struct iovec *parts, int n,
                            uint64_t offset);
SEAM_API int seam_read_all(const struct seam_platform *os, int fd, void *buf, size_t len,
                           uint64_t offset);

#ifdef __cplusplus
}
#endif

#endif
