/* errmap.h - RocksDB's C interface tells errors as text; this is the one place that reads it.
 *
 * Relies on the wording of Status::ToString and of strerror in the C locale (tests/test_rocksdb.c
 * holds each row to a text that RocksDB 7.8 gives). Keeps true: a text that no row knows is E_IO,
 * never success and never absence. */
#ifndef SEAM_ROCKSDB_ERRMAP_H
#define SEAM_ROCKSDB_ERRMAP_H

#include <seam/seam.h>

struct seam_rocksdb_errrow {
    const char *needle; /* somewhere in the text; the first row that matches says what it is */
    int code;           /* enum seam_code */
    int os_errno;       /* the system error behind it, else 0 */
};

/* Ended by a NULL needle. */
extern const struct seam_rocksdb_errrow seam_rocksdb_errrows[];

/* The code for a text, never SEAM_OK; *ret_errno gets the system error behind it, or 0. */
int seam_rocksdb_errcode(const char *text, int *ret_errno);

#endif
