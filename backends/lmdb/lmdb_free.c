/* lmdb_free.c - how many pages inside the file LMDB may use again now.
 *
 * LMDB keeps, in a database of its own (handle 0), one list of pages for each transaction that let
 * them go; it takes from a list once no reader is as old as its transaction. So the pages of all
 * lists below the oldest reader stay usable until a commit uses them.
 *
 * A commit that takes from a list writes what is left of it again. A list longer than a page needs
 * pages side by side for that. LMDB cuts what it writes into lists of one page as long as there are
 * transaction numbers enough below the list's own; that is certain when all lists together have
 * less than a page's worth for each number up to the first list's.
 *
 * Relies on that layout (key: the transaction, 8 bytes; value: a count and so many page numbers, 8
 * bytes each, host order) and on mdb_reader_list for who reads what; both belong to LMDB 0.9.
 * Keeps true: never counts a page that LMDB could not use; what cannot be read counts as nothing.
 */
#include "lmdb_private.h"

#include <stdio.h>
#include <string.h>

#define LISTS_MOST 100000u /* lists looked at, so that counting stays short */

/* One line of LMDB's table: "pid thread transaction", or '-' for a reader that is parked. */
static int oldest_of(const char *line, void *arg)
{
    uint64_t *oldest = arg;
    int pid = 0;
    unsigned long long thread = 0, txn = 0;
    if (sscanf(line, "%d %llx %llu", &pid, &thread, &txn) == 3 && txn < *oldest)
        *oldest = txn;
    return 0;
}

static void count_lists(MDB_cursor *at, uint64_t oldest, const struct lmdb_tree *tree,
                        uint64_t page, struct lmdb_free *ret)
{
    MDB_val k, v;
    struct lmdb_free found = {0, 0};
    uint64_t first = 0, all = 0;
    int rc = mdb_cursor_get(at, &k, &v, MDB_FIRST);
    for (unsigned i = 0; rc == 0; i++) {
        uint64_t txn, n;
        if (i == LISTS_MOST || k.mv_size != sizeof txn || v.mv_size < sizeof n)
            return;
        memcpy(&txn, k.mv_data, sizeof txn);
        memcpy(&n, v.mv_data, sizeof n);
        if (n > v.mv_size / sizeof n - 1)
            return;
        first = i == 0 ? txn : first;
        all += v.mv_size / sizeof n;
        found.usable += txn < oldest ? n : 0;
        if (v.mv_size > page - 16)
            found.runs += (v.mv_size + 15) / page + 1;
        rc = mdb_cursor_get(at, &k, &v, MDB_NEXT);
    }
    if (rc != MDB_NOTFOUND || found.usable > tree->used)
        return;
    if (all / (page / 16) > first) /* half of what a page takes, for lists to come */
        found.runs = tree->free_large;
    *ret = found;
}

void lmdb_free_count(struct lmdb_engine *e, const struct lmdb_tree *tree, struct lmdb_free *ret)
{
    struct lmdb_reader *r = NULL;
    MDB_cursor *at = NULL;
    ret->usable = 0;
    ret->runs = tree->free_large;
    if (lmdb_reader_take(e, &r, NULL) != SEAM_OK)
        return;
    uint64_t oldest = mdb_txn_id(r->txn); /* this reader is in the table itself */
    if (mdb_reader_list(e->env, oldest_of, &oldest) >= 0 && mdb_cursor_open(r->txn, 0, &at) == 0) {
        count_lists(at, oldest, tree, e->space.page, ret);
        mdb_cursor_close(at);
    }
    lmdb_reader_give(e, r);
}
