/* errmap.c - the table from RocksDB's error texts to the contract's codes.
 *
 * Order matters: what the system said ("No space left on device") comes before the class that
 * RocksDB put it in ("IO error"), and what RocksDB says about a whole store before "Invalid
 * argument". Classes match with their colon, so that a file name cannot be taken for one. */
#include "errmap.h"

#include <errno.h>
#include <string.h>

const struct seam_rocksdb_errrow seam_rocksdb_errrows[] = {
    /* damage first: a damaged store may quote anything in its text */
    {"Corruption: ", SEAM_E_CORRUPT, 0},
    /* the system's words */
    {"No space left on device", SEAM_E_NO_SPACE, ENOSPC},
    {"Disk quota exceeded", SEAM_E_NO_SPACE, EDQUOT},
    {"File too large", SEAM_E_NO_SPACE, EFBIG},
    {"Space limit reached", SEAM_E_NO_SPACE, 0},
    {"Cannot allocate memory", SEAM_E_NOMEM, ENOMEM},
    {"Memory limit reached", SEAM_E_NOMEM, 0},
    {"Permission denied", SEAM_E_PERMISSION, EACCES},
    {"Operation not permitted", SEAM_E_PERMISSION, EPERM},
    {"Read-only file system", SEAM_E_READ_ONLY, EROFS},
    {"Too many open files", SEAM_E_IO, EMFILE},
    {"Stale file handle", SEAM_E_IO, ESTALE},
    {"Input/output error", SEAM_E_IO, EIO},
    /* another holder of RocksDB's own lock file, in this process or another */
    {"lock hold by current process", SEAM_E_BUSY, 0},
    {"No locks available", SEAM_E_IO, ENOLCK},
    {"While lock file: ", SEAM_E_BUSY, EAGAIN},
    /* whole stores */
    {"(error_if_exists is true)", SEAM_E_EXISTS, 0},
    {"(create_if_missing is false)", SEAM_E_NO_STORE, 0},
    {"No such file or directory", SEAM_E_CORRUPT, ENOENT},
    /* the classes */
    {"IO error: ", SEAM_E_IO, 0},
    {"NotFound: ", SEAM_E_CORRUPT, 0}, /* of a file: a missing key comes without a text */
    {"Not implemented: ", SEAM_E_UNSUPPORTED, 0},
    {"Invalid argument: ", SEAM_E_INVALID, 0},
    {"Result incomplete: ", SEAM_E_BUSY, 0},
    {"Operation timed out: ", SEAM_E_BUSY, 0},
    {"Resource busy: ", SEAM_E_BUSY, 0},
    {"Operation failed. Try again.: ", SEAM_E_BUSY, 0},
    {"Shutdown in progress: ", SEAM_E_IO, 0},
    {"Operation aborted: ", SEAM_E_IO, 0},
    {NULL, SEAM_E_IO, 0},
};

int seam_rocksdb_errcode(const char *text, int *ret_errno)
{
    const struct seam_rocksdb_errrow *row = seam_rocksdb_errrows;
    while (row->needle && !strstr(text, row->needle))
        row++;
    *ret_errno = row->os_errno;
    return row->code;
}
