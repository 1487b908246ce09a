/* read.c - snapshots, pins and cursors.
 *
 * Relies on map.h. Keeps true: the lock is held, shared, for the length of one search and never
 * while bytes are in a caller's hands: what is lent is kept by a view or by a hold; a large value
 * is read without the lock, from the frame it landed in, and its checksum is verified before
 * anybody sees it. */
#include "log.h"

#include <string.h>

struct cursor {
    struct vlog_view *view, *own; /* own: to close with the cursor, or NULL */
    struct seam_slice lower, upper;
    struct vlog_entry *at;        /* NULL: stands on nothing; kept by the view */
    struct vlog_pos pos;          /* its place while stamp is the tree's */
    uint64_t stamp;
    unsigned char *large;         /* buffer for large values */
    size_t large_cap;
};

static struct vlog *self(struct seam_engine *e)
{
    return (struct vlog *)(void *)e;
}

static struct seam_slice inline_value(const struct vlog_entry *e)
{
    return seam_bytes(e->bytes + e->key_len, e->value_len);
}

static int read_large(struct vlog *v, const struct vlog_entry *e, unsigned char *to,
                      struct seam_err *err)
{
    const struct vlog_segment *s = e->segment;
    char name[VLOG_NAME_LEN];
    int rc = seam_read_all(v->os, s->fd, to, e->value_len, e->offset);
    atomic_fetch_add_explicit(&v->count.large_reads, 1, memory_order_relaxed);
    vlog_segment_name(s->number, name);
    if (rc < 0)
        return seam_fail_os(err, -rc, "vlog: reading %u bytes at %u of %s", e->value_len,
                            e->offset, name);
    if (seam_crc32c(0, to, e->value_len) != e->crc)
        return seam_fail(err, SEAM_E_CORRUPT,
                         "vlog: the value of %u bytes at %u of %s is damaged", e->value_len,
                         e->offset, name);
    return SEAM_OK;
}

/* ---- snapshots ------------------------------------------------------------------------------- */

int vlog_snap_open(struct seam_engine *base, void **ret, struct seam_err *err)
{
    struct vlog *v = self(base);
    struct vlog_view *fresh = v->os->alloc(v->os->ctx, sizeof *fresh);
    if (!fresh)
        return seam_fail(err, SEAM_E_NOMEM, "vlog: no memory for a snapshot");
    (void)pthread_rwlock_wrlock(&v->lock);
    *ret = vlog_view_open(&v->map, &fresh);
    (void)pthread_rwlock_unlock(&v->lock);
    v->os->free(v->os->ctx, fresh);
    return SEAM_OK;
}

void vlog_snap_close(struct seam_engine *base, void *snap)
{
    struct vlog *v = self(base);
    vlog_write_lock(v);
    vlog_view_close(&v->map, snap);
    vlog_memory_give(v, 0);
    vlog_write_unlock(v);
}

static uint64_t instant(const struct vlog *v, const void *snap)
{
    return snap ? ((const struct vlog_view *)snap)->at : v->map.now;
}

/* ---- pins ------------------------------------------------------------------------------------ */

static void let_go(struct vlog *v, struct vlog_entry *e)
{
    if (!vlog_entry_release(e))
        return;
    vlog_write_lock(v);
    vlog_entry_remove(&v->map, e);
    vlog_memory_give(v, 0);
    vlog_write_unlock(v);
}

/* e is held; the pin takes the hold. */
static int lend(struct vlog *v, struct vlog_entry *e, struct seam_pin *ret, struct seam_err *err)
{
    ret->own[0] = e;
    ret->own[1] = NULL;
    if (!e->large) {
        ret->value = inline_value(e);
        return SEAM_OK;
    }
    unsigned char *bytes = v->os->alloc(v->os->ctx, e->value_len);
    int rc = SEAM_E_NOMEM;
    if (!bytes)
        (void)seam_fail(err, rc, "vlog: no memory for a value of %u bytes", e->value_len);
    else
        rc = read_large(v, e, bytes, err);
    if (rc != SEAM_OK) {
        v->os->free(v->os->ctx, bytes);
        let_go(v, e);
        return rc;
    }
    ret->value = seam_bytes(bytes, e->value_len);
    ret->own[1] = bytes;
    return SEAM_OK;
}

int vlog_get(struct seam_engine *base, void *snap, struct seam_slice key, struct seam_pin *ret,
             struct seam_err *err)
{
    struct vlog *v = self(base);
    (void)pthread_rwlock_rdlock(&v->lock);
    struct vlog_entry *e = vlog_map_find(&v->map, instant(v, snap), key);
    if (e)
        vlog_entry_hold(e);
    (void)pthread_rwlock_unlock(&v->lock);
    return e ? lend(v, e, ret, err) : SEAM_NOTFOUND;
}

int vlog_near(struct seam_engine *base, void *snap, struct seam_slice lower,
              struct seam_slice upper, enum seam_move how, struct seam_slice at,
              struct seam_pin *ret, struct seam_err *err)
{
    struct vlog *v = self(base);
    struct vlog_pos pos;
    (void)pthread_rwlock_rdlock(&v->lock);
    struct vlog_entry *e = vlog_map_near(&v->map, instant(v, snap), lower, upper, how, at, &pos);
    if (e)
        vlog_entry_hold(e);
    (void)pthread_rwlock_unlock(&v->lock);
    if (!e)
        return SEAM_NOTFOUND;
    int rc = lend(v, e, ret, err);
    if (rc == SEAM_OK)
        ret->key = vlog_entry_key(e);
    return rc;
}

void vlog_unpin(struct seam_engine *base, struct seam_pin *pin)
{
    struct vlog *v = self(base);
    v->os->free(v->os->ctx, pin->own[1]);
    let_go(v, pin->own[0]);
}

/* ---- cursors --------------------------------------------------------------------------------- */

int vlog_cursor_open(struct seam_engine *base, void *snap, struct seam_slice lower,
                     struct seam_slice upper, void **ret, struct seam_err *err)
{
    struct vlog *v = self(base);
    struct cursor *c = v->os->alloc(v->os->ctx, sizeof *c);
    if (!c)
        return seam_fail(err, SEAM_E_NOMEM, "vlog: no memory for a cursor");
    memset(c, 0, sizeof *c);
    c->lower = lower;
    c->upper = upper;
    if (!snap) {
        int rc = vlog_snap_open(base, &snap, err);
        if (rc != SEAM_OK) {
            v->os->free(v->os->ctx, c);
            return rc;
        }
        c->own = snap;
    }
    c->view = snap;
    *ret = c;
    return SEAM_OK;
}

/* The place of c->at, and the one it steps to, under the lock. */
static struct vlog_entry *step(const struct vlog *v, const struct cursor *c, bool back,
                               struct vlog_pos *pos)
{
    *pos = c->pos;
    if (c->stamp != v->map.tree.stamp)
        *pos = vlog_tree_seek(&v->map.tree, vlog_entry_key(c->at), false);
    *pos = vlog_tree_step(*pos, back);
    return back ? vlog_map_backward(c->view->at, c->lower, pos)
                : vlog_map_forward(c->view->at, c->upper, pos);
}

int vlog_cursor_move(struct seam_engine *base, void *cursor, enum seam_move how,
                     struct seam_slice at, struct seam_slice *ret_key, struct seam_err *err)
{
    struct vlog *v = self(base);
    struct cursor *c = cursor;
    struct vlog_pos pos;
    struct vlog_entry *e;
    (void)err;
    (void)pthread_rwlock_rdlock(&v->lock);
    if (how == SEAM_NEXT || how == SEAM_PREV)
        e = step(v, c, how == SEAM_PREV, &pos);
    else
        e = vlog_map_near(&v->map, c->view->at, c->lower, c->upper, how, at, &pos);
    uint64_t stamp = v->map.tree.stamp;
    (void)pthread_rwlock_unlock(&v->lock);
    if (!e)
        return SEAM_NOTFOUND;
    c->at = e;
    c->pos = pos;
    c->stamp = stamp;
    if (ret_key)
        *ret_key = vlog_entry_key(e);
    return SEAM_OK;
}

int vlog_cursor_value(struct seam_engine *base, void *cursor, struct seam_slice *ret,
                      struct seam_err *err)
{
    struct vlog *v = self(base);
    struct cursor *c = cursor;
    if (!c->at->large) {
        *ret = inline_value(c->at);
        return SEAM_OK;
    }
    if (c->large_cap < c->at->value_len) {
        unsigned char *more = v->os->alloc(v->os->ctx, c->at->value_len);
        if (!more)
            return seam_fail(err, SEAM_E_NOMEM, "vlog: no memory for a value of %u bytes",
                             c->at->value_len);
        v->os->free(v->os->ctx, c->large);
        c->large = more;
        c->large_cap = c->at->value_len;
    }
    int rc = read_large(v, c->at, c->large, err);
    if (rc == SEAM_OK)
        *ret = seam_bytes(c->large, c->at->value_len);
    return rc;
}

void vlog_cursor_close(struct seam_engine *base, void *cursor)
{
    struct vlog *v = self(base);
    struct cursor *c = cursor;
    if (c->own)
        vlog_snap_close(base, c->own);
    v->os->free(v->os->ctx, c->large);
    v->os->free(v->os->ctx, c);
}
