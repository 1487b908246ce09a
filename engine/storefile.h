/* storefile.h - the two small files of a store directory: what STORE and EPOCH hold, byte for byte.
 * Private to engine/; used by storedir.c. */
#ifndef SEAM_ENGINE_STOREFILE_H
#define SEAM_ENGINE_STOREFILE_H

#include <seam/backend.h>

#define SEAM_STOREFILE_MAX 4096u
#define SEAM_STOREFILE_NAME_MAX 64u

struct seam_storefile {
    char engine[SEAM_STOREFILE_NAME_MAX + 1]; /* [a-z0-9_]+ */
    uint32_t format;
    uint8_t uuid[16];
    uint64_t created; /* seconds since 1970 */
};

/* Writes STORE's text into buf[0..SEAM_STOREFILE_MAX) and returns its length. */
size_t seam_storefile_text(const struct seam_storefile *store, char *buf);
/* The reverse. text must be what seam_storefile_text would write, to the byte; E_MISMATCH for a
 * whole file of another version or kind, E_CORRUPT for anything else. `dir` is for the error. */
int seam_storefile_parse(const char *text, size_t len, const char *dir, struct seam_storefile *ret,
                         struct seam_err *err);
/* Reads DIR/STORE. A missing one is E_CORRUPT: call only when it was seen. */
int seam_storefile_read(const struct seam_platform *os, int fd_dir, const char *dir,
                        struct seam_storefile *ret, struct seam_err *err);

/* EPOCH: two slots in blocks of their own, so that a torn write spoils one at most. */
#define SEAM_EPOCH_BLOCK 4096u

struct seam_epochfile {
    uint64_t epoch; /* the highest valid one */
    uint64_t next;  /* what the next writer takes: above every epoch that may have been told */
    unsigned slot;  /* the slot that holds `epoch`; the next write goes to the other */
};

/* Reads an open EPOCH; uuid NULL: whatever it says. No valid slot: E_CORRUPT. */
int seam_epochfile_read(const struct seam_platform *os, int fd, const char *dir,
                        const uint8_t *uuid, struct seam_epochfile *ret, struct seam_err *err);
/* Writes one slot; does not flush. 0 or -errno. */
int seam_epochfile_write(const struct seam_platform *os, int fd, unsigned slot, uint64_t epoch,
                         const uint8_t *uuid);

/* storesweep.c: removes the directory, one level of files and empty directories first. 0, also if it
 * is not there, or -errno. */
int seam_storesweep_dir(const struct seam_platform *os, int dir, const char *name);

#endif
