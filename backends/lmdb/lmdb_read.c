/* lmdb_read.c - snapshots, pins and cursors over pooled LMDB read transactions.
 *
 * A reader is a read transaction with its slot in LMDB's table and one cursor. Taking one renews it
 * to the newest commit, giving it back resets it: a parked reader keeps no page alive. A snapshot
 * is a reader; a pin read "now" owns a reader until unpin, so its bytes stay in the map without a
 * copy.
 *
 * Relies on MDB_NOTLS (a read transaction moves between threads) and on LMDB's reads of one read
 * transaction not writing to it once the databases' roots have been read, which taking one for a
 * snapshot does; so the cursors of one snapshot may be used by different threads.
 * Keeps true: never more slots than limits.pins and a few of the engine's own. */
#include "lmdb_private.h"

#include <errno.h>

static struct lmdb_engine *self(struct seam_engine *e)
{
    return (struct lmdb_engine *)(void *)e;
}

static MDB_val val(struct seam_slice s)
{
    MDB_val v = {s.len, (void *)(uintptr_t)s.ptr};
    return v;
}

/* ---- readers ------------------------------------------------------------------------------ */

static void reader_free(struct lmdb_engine *e, struct lmdb_reader *r)
{
    if (r->cursor != NULL)
        mdb_cursor_close(r->cursor);
    if (r->txn != NULL)
        mdb_txn_abort(r->txn);
    e->os->free(e->os->ctx, r);
}

static int reader_make(struct lmdb_engine *e, struct lmdb_reader **ret, struct seam_err *err)
{
    struct lmdb_reader *r = e->os->alloc(e->os->ctx, sizeof *r);
    if (r == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "lmdb: no memory for a reader");
    r->txn = NULL;
    r->cursor = NULL;
    r->next = NULL;
    int rc = mdb_txn_begin(e->env, NULL, MDB_RDONLY, &r->txn);
    if (rc == MDB_READERS_FULL) { /* slots of readers that died are still taken */
        int dead = 0;
        if (mdb_reader_check(e->env, &dead) == 0 && dead > 0)
            rc = mdb_txn_begin(e->env, NULL, MDB_RDONLY, &r->txn);
    }
    if (rc == 0)
        rc = mdb_cursor_open(r->txn, e->keys, &r->cursor);
    if (rc != 0) {
        reader_free(e, r);
        return lmdb_fail(err, rc, "beginning a read");
    }
    *ret = r;
    return SEAM_OK;
}

int lmdb_reader_take(struct lmdb_engine *e, struct lmdb_reader **ret, struct seam_err *err)
{
    pthread_mutex_lock(&e->pool_lock);
    struct lmdb_reader *r = e->readers;
    if (r != NULL)
        e->readers = r->next;
    pthread_mutex_unlock(&e->pool_lock);
    if (r == NULL)
        return reader_make(e, ret, err);
    int rc = mdb_txn_renew(r->txn);
    if (rc != 0) {
        reader_free(e, r);
        return lmdb_fail(err, rc, "beginning a read");
    }
    *ret = r;
    return SEAM_OK;
}

void lmdb_reader_give(struct lmdb_engine *e, struct lmdb_reader *r)
{
    mdb_txn_reset(r->txn);
    pthread_mutex_lock(&e->pool_lock);
    r->next = e->readers;
    e->readers = r;
    pthread_mutex_unlock(&e->pool_lock);
}

void lmdb_readers_close(struct lmdb_engine *e)
{
    while (e->cursors != NULL) {
        struct lmdb_cursor *c = e->cursors;
        e->cursors = c->next;
        mdb_cursor_close(c->at);
        e->os->free(e->os->ctx, c);
    }
    while (e->readers != NULL) {
        struct lmdb_reader *r = e->readers;
        e->readers = r->next;
        reader_free(e, r);
    }
}

/* ---- snapshots and points ------------------------------------------------------------------ */

int lmdb_snap_open(struct seam_engine *base, void **ret, struct seam_err *err)
{
    struct lmdb_engine *e = self(base);
    struct lmdb_reader *r = NULL;
    MDB_stat roots;
    int rc = lmdb_reader_take(e, &r, err);
    if (rc != SEAM_OK)
        return rc;
    rc = mdb_stat(r->txn, e->keys, &roots); /* reads the database's root into the transaction */
    if (rc != 0) {
        lmdb_reader_give(e, r);
        return lmdb_fail(err, rc, "opening a snapshot");
    }
    *ret = r;
    return SEAM_OK;
}

void lmdb_snap_close(struct seam_engine *base, void *snap)
{
    lmdb_reader_give(self(base), snap);
}

int lmdb_get(struct seam_engine *base, void *snap, struct seam_slice key, struct seam_pin *ret,
             struct seam_err *err)
{
    struct lmdb_engine *e = self(base);
    struct lmdb_reader *r = snap;
    int rc = r == NULL ? lmdb_reader_take(e, &r, err) : SEAM_OK;
    if (rc != SEAM_OK)
        return rc;
    MDB_val k = val(key), v;
    rc = mdb_get(r->txn, e->keys, &k, &v);
    if (rc != 0) {
        if (snap == NULL)
            lmdb_reader_give(e, r);
        return rc == MDB_NOTFOUND ? SEAM_NOTFOUND : lmdb_fail(err, rc, "reading a key");
    }
    ret->value = seam_bytes(v.mv_data, v.mv_size);
    ret->own[0] = snap == NULL ? r : NULL;
    ret->own[1] = NULL;
    return SEAM_OK;
}

void lmdb_unpin(struct seam_engine *base, struct seam_pin *pin)
{
    if (pin->own[0] != NULL)
        lmdb_reader_give(self(base), pin->own[0]);
}

/* ---- seeks --------------------------------------------------------------------------------- */

/* The last key < end, or <= end when `or_equal`; end {NULL, 0}: the last of all. */
static int seek_back(MDB_cursor *at, struct seam_slice end, bool or_equal, MDB_val *k, MDB_val *v)
{
    if (end.ptr == NULL)
        return mdb_cursor_get(at, k, v, MDB_LAST);
    *k = val(end);
    int rc = mdb_cursor_get(at, k, v, MDB_SET_RANGE);
    if (rc == MDB_NOTFOUND)
        return mdb_cursor_get(at, k, v, MDB_LAST);
    if (rc != 0)
        return rc;
    if (or_equal && seam_compare(seam_bytes(k->mv_data, k->mv_size), end) == 0)
        return 0;
    return mdb_cursor_get(at, k, v, MDB_PREV);
}

static int seek_on(MDB_cursor *at, struct seam_slice begin, MDB_val *k, MDB_val *v)
{
    if (begin.len == 0)
        return mdb_cursor_get(at, k, v, MDB_FIRST);
    *k = val(begin);
    return mdb_cursor_get(at, k, v, MDB_SET_RANGE);
}

/* One move in [lower, upper); MDB_NOTFOUND also for a key out of bounds. */
static int move(MDB_cursor *at, struct seam_slice lower, struct seam_slice upper,
                enum seam_move how, struct seam_slice target, MDB_val *k, MDB_val *v)
{
    int rc = EINVAL;
    switch (how) {
    case SEAM_FIRST:
        rc = seek_on(at, lower, k, v);
        break;
    case SEAM_LAST:
        rc = seek_back(at, upper, false, k, v);
        break;
    case SEAM_NEXT:
        rc = mdb_cursor_get(at, k, v, MDB_NEXT);
        break;
    case SEAM_PREV:
        rc = mdb_cursor_get(at, k, v, MDB_PREV);
        break;
    case SEAM_GE:
        rc = seek_on(at, target, k, v);
        break;
    case SEAM_LE:
        rc = seek_back(at, target, true, k, v);
        break;
    }
    if (rc != 0)
        return rc;
    struct seam_slice key = seam_bytes(k->mv_data, k->mv_size);
    bool onward = how == SEAM_FIRST || how == SEAM_NEXT || how == SEAM_GE;
    if (onward && upper.ptr != NULL && seam_compare(key, upper) >= 0)
        return MDB_NOTFOUND;
    if (!onward && lower.len > 0 && seam_compare(key, lower) < 0)
        return MDB_NOTFOUND;
    return 0;
}

int lmdb_near(struct seam_engine *base, void *snap, struct seam_slice lower,
              struct seam_slice upper, enum seam_move how, struct seam_slice at,
              struct seam_pin *ret, struct seam_err *err)
{
    struct lmdb_engine *e = self(base);
    struct lmdb_reader *r = snap;
    int rc = r == NULL ? lmdb_reader_take(e, &r, err) : SEAM_OK;
    if (rc != SEAM_OK)
        return rc;
    MDB_val k, v;
    rc = mdb_cursor_renew(r->txn, r->cursor);
    if (rc == 0)
        rc = move(r->cursor, lower, upper, how, at, &k, &v);
    if (rc != 0) {
        if (snap == NULL)
            lmdb_reader_give(e, r);
        return rc == MDB_NOTFOUND ? SEAM_NOTFOUND : lmdb_fail(err, rc, "seeking a key");
    }
    ret->key = seam_bytes(k.mv_data, k.mv_size);
    ret->value = seam_bytes(v.mv_data, v.mv_size);
    ret->own[0] = snap == NULL ? r : NULL;
    ret->own[1] = NULL;
    return SEAM_OK;
}

/* ---- cursors ------------------------------------------------------------------------------- */

/* A parked cursor, or a new one. */
static int cursor_make(struct lmdb_engine *e, MDB_txn *txn, struct lmdb_cursor **ret,
                       struct seam_err *err)
{
    pthread_mutex_lock(&e->pool_lock);
    struct lmdb_cursor *c = e->cursors;
    if (c != NULL)
        e->cursors = c->next;
    pthread_mutex_unlock(&e->pool_lock);
    int rc;
    if (c != NULL) {
        rc = mdb_cursor_renew(txn, c->at);
    } else {
        c = e->os->alloc(e->os->ctx, sizeof *c);
        if (c == NULL)
            return seam_fail(err, SEAM_E_NOMEM, "lmdb: no memory for a cursor");
        c->at = NULL;
        rc = mdb_cursor_open(txn, e->keys, &c->at);
    }
    if (rc != 0) {
        if (c->at != NULL)
            mdb_cursor_close(c->at);
        e->os->free(e->os->ctx, c);
        return lmdb_fail(err, rc, "opening a cursor");
    }
    *ret = c;
    return SEAM_OK;
}

int lmdb_cursor_open(struct seam_engine *base, void *snap, struct seam_slice lower,
                     struct seam_slice upper, void **ret, struct seam_err *err)
{
    struct lmdb_engine *e = self(base);
    struct lmdb_reader *r = snap;
    int rc = r == NULL ? lmdb_reader_take(e, &r, err) : SEAM_OK;
    if (rc != SEAM_OK)
        return rc;
    struct lmdb_cursor *c = NULL;
    rc = cursor_make(e, r->txn, &c, err);
    if (rc != SEAM_OK) {
        if (snap == NULL)
            lmdb_reader_give(e, r);
        return rc;
    }
    c->own = snap == NULL ? r : NULL;
    c->lower = lower;
    c->upper = upper;
    c->value = seam_bytes(NULL, 0);
    c->next = NULL;
    *ret = c;
    return SEAM_OK;
}

int lmdb_cursor_move(struct seam_engine *base, void *cursor, enum seam_move how,
                     struct seam_slice at, struct seam_slice *ret_key, struct seam_err *err)
{
    (void)base;
    struct lmdb_cursor *c = cursor;
    MDB_val k, v;
    int rc = move(c->at, c->lower, c->upper, how, at, &k, &v);
    if (rc != 0)
        return rc == MDB_NOTFOUND ? SEAM_NOTFOUND : lmdb_fail(err, rc, "moving a cursor");
    c->value = seam_bytes(v.mv_data, v.mv_size);
    if (ret_key != NULL)
        *ret_key = seam_bytes(k.mv_data, k.mv_size);
    return SEAM_OK;
}

int lmdb_cursor_value(struct seam_engine *base, void *cursor, struct seam_slice *ret,
                      struct seam_err *err)
{
    (void)base;
    (void)err;
    *ret = ((struct lmdb_cursor *)cursor)->value;
    return SEAM_OK;
}

void lmdb_cursor_close(struct seam_engine *base, void *cursor)
{
    struct lmdb_engine *e = self(base);
    struct lmdb_cursor *c = cursor;
    struct lmdb_reader *own = c->own;
    pthread_mutex_lock(&e->pool_lock);
    c->next = e->cursors;
    e->cursors = c;
    pthread_mutex_unlock(&e->pool_lock);
    if (own != NULL)
        lmdb_reader_give(e, own);
}
