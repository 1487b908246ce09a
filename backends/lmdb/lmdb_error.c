/* lmdb_error.c - LMDB's return codes as the contract's, in one table.
 *
 * Relies on nothing. Keeps true: every code that lmdb.h 0.9 names has a row (a test goes through
 * them), a positive number is an errno and goes through the common choice of seam_fail_os. */
#include "lmdb_private.h"

const struct lmdb_error_row lmdb_errors[] = {
    {MDB_KEYEXIST, SEAM_E_IO, "LMDB refused a key that exists: a defect, please report it"},
    {MDB_NOTFOUND, SEAM_NOTFOUND, "no such key"},
    {MDB_PAGE_NOTFOUND, SEAM_E_CORRUPT,
     "a page that data.mdb refers to is not in it: restore the store from a copy"},
    {MDB_CORRUPTED, SEAM_E_CORRUPT,
     "data.mdb holds a page of a wrong kind: restore the store from a copy"},
    {MDB_PANIC, SEAM_E_POISONED,
     "an update of LMDB's meta page failed earlier: close the store and open it again"},
    {MDB_VERSION_MISMATCH, SEAM_E_MISMATCH,
     "data.mdb was written by an LMDB of another format: use the version that wrote it"},
    {MDB_INVALID, SEAM_E_CORRUPT, "data.mdb is not an LMDB file: restore the store from a copy"},
    {MDB_MAP_FULL, SEAM_E_NO_SPACE,
     "the address range is used up: open the store with a larger option map"},
    {MDB_DBS_FULL, SEAM_E_IO, "LMDB has no database handle left: a defect, please report it"},
    {MDB_READERS_FULL, SEAM_E_BUSY,
     "LMDB's table of readers is full: release pins and snapshots, or raise option maxreaders"},
    {MDB_TLS_FULL, SEAM_E_NOMEM, "no thread-local key is left in this process"},
    {MDB_TXN_FULL, SEAM_E_TOO_LARGE, "more dirty pages than one LMDB transaction keeps"},
    {MDB_CURSOR_FULL, SEAM_E_CORRUPT,
     "the tree is deeper than LMDB can walk: restore the store from a copy"},
    {MDB_PAGE_FULL, SEAM_E_CORRUPT,
     "a page has less room than its header says: restore the store from a copy"},
    {MDB_MAP_RESIZED, SEAM_E_NO_SPACE,
     "the store is larger than the address range: open it with a larger option map"},
    {MDB_INCOMPATIBLE, SEAM_E_MISMATCH,
     "data.mdb holds databases of another kind: it was not made by Seam"},
    {MDB_BAD_RSLOT, SEAM_E_IO, "a reader's slot was changed by somebody else: open again"},
    {MDB_BAD_TXN, SEAM_E_IO, "the LMDB transaction had failed before"},
    {MDB_BAD_VALSIZE, SEAM_E_INVALID, "a key or a value of a size that LMDB does not take"},
    {MDB_BAD_DBI, SEAM_E_IO, "the database was changed under its handle by somebody else"},
    {0, 0, NULL},
};

int lmdb_fail(struct seam_err *err, int rc, const char *doing)
{
    if (rc > 0)
        return seam_fail_os(err, rc, "lmdb: %s", doing);
    for (const struct lmdb_error_row *row = lmdb_errors; row->rc != 0; row++) {
        if (row->rc == rc)
            return seam_fail(err, row->code, "lmdb: %s: %s", doing, row->text);
    }
    return seam_fail(err, SEAM_E_IO, "lmdb: %s: unknown LMDB error %d", doing, rc);
}
