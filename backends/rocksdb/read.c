/* read.c - snapshots, gets, one-seek reads and cursors.
 *
 * Relies on RocksDB's own instants: a snapshot pins one, an iterator made without one keeps the
 * instant it was made at. Read options are borrowed by the iterator made with them and borrow the
 * bounds, so each cursor owns its own. Keeps true: an iterator that stops being valid is asked why,
 * so that a read error is never told as an end; bounds are given to RocksDB, so that a seek never
 * walks the tombstones outside of them. */
#include "rdb.h"

struct snap {
    const rocksdb_snapshot_t *at;
    rocksdb_readoptions_t *read;
};

struct cursor {
    rocksdb_iterator_t *it;
    rocksdb_readoptions_t *read;
};

static struct seam_rocksdb *rdb(struct seam_engine *e)
{
    return (struct seam_rocksdb *)e;
}

int seam_rocksdb_snap_open(struct seam_engine *e, void **ret_snap, struct seam_err *err)
{
    struct seam_rocksdb *r = rdb(e);
    struct snap *s = r->os->alloc(r->os->ctx, sizeof *s);
    if (!s)
        return seam_fail(err, SEAM_E_NOMEM, "rocksdb: no memory for a snapshot");
    s->at = rocksdb_create_snapshot(r->db);
    if (!s->at) {
        r->os->free(r->os->ctx, s);
        return seam_fail(err, SEAM_E_IO, "rocksdb: no snapshot was given");
    }
    s->read = rocksdb_readoptions_create();
    rocksdb_readoptions_set_snapshot(s->read, s->at);
    *ret_snap = s;
    return SEAM_OK;
}

void seam_rocksdb_snap_close(struct seam_engine *e, void *snap)
{
    struct seam_rocksdb *r = rdb(e);
    struct snap *s = snap;
    rocksdb_readoptions_destroy(s->read);
    rocksdb_release_snapshot(r->db, s->at);
    r->os->free(r->os->ctx, s);
}

/* pin->own: [0] the pinned value of get, or [1] the cursor of near. */
int seam_rocksdb_get(struct seam_engine *e, void *snap, struct seam_slice key,
                     struct seam_pin *ret, struct seam_err *err)
{
    struct seam_rocksdb *r = rdb(e);
    const rocksdb_readoptions_t *read = snap ? ((struct snap *)snap)->read : r->read_now;
    char *text = NULL;
    rocksdb_pinnableslice_t *value = rocksdb_get_pinned(r->db, read, key.ptr, key.len, &text);
    if (text)
        return seam_rocksdb_fail(err, 0, "get", text);
    if (!value)
        return SEAM_NOTFOUND;
    size_t len = 0;
    const char *bytes = rocksdb_pinnableslice_value(value, &len);
    ret->value = seam_bytes(bytes, len);
    ret->own[0] = value;
    ret->own[1] = NULL;
    return SEAM_OK;
}

int seam_rocksdb_cursor_open(struct seam_engine *e, void *snap, struct seam_slice lower,
                             struct seam_slice upper, void **ret_cursor, struct seam_err *err)
{
    struct seam_rocksdb *r = rdb(e);
    struct cursor *c = r->os->alloc(r->os->ctx, sizeof *c);
    if (!c)
        return seam_fail(err, SEAM_E_NOMEM, "rocksdb: no memory for a cursor");
    c->read = rocksdb_readoptions_create();
    if (snap)
        rocksdb_readoptions_set_snapshot(c->read, ((struct snap *)snap)->at);
    if (lower.len)
        rocksdb_readoptions_set_iterate_lower_bound(c->read, lower.ptr, lower.len);
    if (upper.ptr)
        rocksdb_readoptions_set_iterate_upper_bound(c->read, upper.ptr, upper.len);
    c->it = rocksdb_create_iterator(r->db, c->read);
    *ret_cursor = c;
    return SEAM_OK;
}

void seam_rocksdb_cursor_close(struct seam_engine *e, void *cursor)
{
    struct seam_rocksdb *r = rdb(e);
    struct cursor *c = cursor;
    rocksdb_iter_destroy(c->it);
    rocksdb_readoptions_destroy(c->read);
    r->os->free(r->os->ctx, c);
}

int seam_rocksdb_cursor_move(struct seam_engine *e, void *cursor, enum seam_move how,
                             struct seam_slice at, struct seam_slice *ret_key,
                             struct seam_err *err)
{
    struct cursor *c = cursor;
    (void)e;
    switch (how) {
    case SEAM_FIRST:
        rocksdb_iter_seek_to_first(c->it);
        break;
    case SEAM_LAST:
        rocksdb_iter_seek_to_last(c->it);
        break;
    case SEAM_NEXT:
        rocksdb_iter_next(c->it);
        break;
    case SEAM_PREV:
        rocksdb_iter_prev(c->it);
        break;
    case SEAM_GE:
        rocksdb_iter_seek(c->it, at.ptr, at.len);
        break;
    case SEAM_LE:
        rocksdb_iter_seek_for_prev(c->it, at.ptr, at.len);
        break;
    default:
        return seam_fail(err, SEAM_E_INVALID, "rocksdb: no such move: %d", (int)how);
    }
    if (!rocksdb_iter_valid(c->it)) {
        char *text = NULL;
        rocksdb_iter_get_error(c->it, &text);
        return text ? seam_rocksdb_fail(err, 0, "read", text) : SEAM_NOTFOUND;
    }
    size_t len = 0;
    const char *key = rocksdb_iter_key(c->it, &len);
    *ret_key = seam_bytes(key, len);
    return SEAM_OK;
}

int seam_rocksdb_cursor_value(struct seam_engine *e, void *cursor, struct seam_slice *ret,
                              struct seam_err *err)
{
    struct cursor *c = cursor;
    (void)e;
    /* A value in a blob file is read with its key, so a failure shows as an iterator that is not
     * valid, at the move. */
    if (!rocksdb_iter_valid(c->it))
        return seam_fail(err, SEAM_E_INVALID, "rocksdb: the cursor stands on nothing");
    size_t len = 0;
    const char *value = rocksdb_iter_value(c->it, &len);
    *ret = seam_bytes(value, len);
    return SEAM_OK;
}

int seam_rocksdb_near(struct seam_engine *e, void *snap, struct seam_slice lower,
                      struct seam_slice upper, enum seam_move how, struct seam_slice at,
                      struct seam_pin *ret, struct seam_err *err)
{
    void *cursor = NULL;
    struct seam_slice key = {NULL, 0}, value = {NULL, 0};
    int rc = seam_rocksdb_cursor_open(e, snap, lower, upper, &cursor, err);
    if (rc != SEAM_OK)
        return rc;
    rc = seam_rocksdb_cursor_move(e, cursor, how, at, &key, err);
    if (rc == SEAM_OK)
        rc = seam_rocksdb_cursor_value(e, cursor, &value, err);
    if (rc != SEAM_OK) {
        seam_rocksdb_cursor_close(e, cursor);
        return rc;
    }
    /* The iterator stays where it is and is the pin: nothing is copied, however large the value.
     * Its bounds are the caller's and are not looked at again. */
    ret->key = key;
    ret->value = value;
    ret->own[0] = NULL;
    ret->own[1] = cursor;
    return SEAM_OK;
}

void seam_rocksdb_unpin(struct seam_engine *e, struct seam_pin *pin)
{
    if (pin->own[0])
        rocksdb_pinnableslice_destroy(pin->own[0]);
    if (pin->own[1])
        seam_rocksdb_cursor_close(e, pin->own[1]);
    pin->own[0] = pin->own[1] = NULL;
}
