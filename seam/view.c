/* view.c - reading a projection: views, get, floor, ceiling and cursors, in its own keys.
 *
 * Relies on a table's keys all beginning with one prefix of fixed length, so that the order of the
 * projection's keys is the order of the stored ones. Keeps true: no key is handed out with the
 * prefix; a view reads the table that its own snapshot's record points to. */
#include "projection_int.h"

#include <assert.h>

struct seam_view {
    struct seam_projection *p;
    struct seam_p_instant *instant;
    struct seam_snap *snap; /* the instant's */
    struct seam_fmt_key table;
};

/* ---- instants ---------------------------------------------------------------------------- */

int seam_p_instant_open(struct seam_projection *p, struct seam_p_instant **ret,
                        struct seam_err *err)
{
    uint8_t name[SEAM_STREAM_NAME_MAX];
    struct seam_fmt_meta meta;
    struct seam_p_instant *instant = p->os->alloc(p->os->ctx, sizeof(*instant));
    if (instant == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "no memory for a view");
    int rc = seam_snap_open(p->db, &instant->snap, err);
    if (rc == SEAM_OK) {
        rc = seam_p_meta(p, instant->snap, &meta, name, err);
        if (rc == SEAM_NOTFOUND)
            rc = seam_fail(err, SEAM_E_CORRUPT, "the projection's record is missing");
        if (rc != SEAM_OK)
            seam_snap_close(instant->snap);
    }
    if (rc != SEAM_OK) {
        p->os->free(p->os->ctx, instant);
        return rc;
    }
    instant->position = meta.position;
    instant->generation = meta.generation;
    instant->refs = 1;
    *ret = instant;
    return SEAM_OK;
}

void seam_p_instant_drop(struct seam_projection *p, struct seam_p_instant *instant)
{
    pthread_mutex_lock(&p->lock);
    bool last = --instant->refs == 0;
    pthread_mutex_unlock(&p->lock);
    if (!last)
        return;
    seam_snap_close(instant->snap);
    p->os->free(p->os->ctx, instant);
}

static int inside(struct seam_err *err)
{
    return seam_fail(err, SEAM_E_BUSY,
                     "the projection is inside a unit, of which nobody is to see a part");
}

/* The instant that is shown while a unit is applied; NULL: there is none. */
static struct seam_p_instant *share(struct seam_projection *p)
{
    pthread_mutex_lock(&p->lock);
    struct seam_p_instant *instant = p->instant;
    if (instant != NULL)
        instant->refs++;
    pthread_mutex_unlock(&p->lock);
    return instant;
}

/* ---- views ------------------------------------------------------------------------------- */

/* An instant to look at: the shared one, or one of now. A unit that begins in between leaves a
 * shared one; one that ends in between leaves a now that is whole. */
static int look(struct seam_projection *p, struct seam_p_instant **ret, struct seam_err *err)
{
    pthread_rwlock_rdlock(&p->now);
    struct seam_p_instant *instant = share(p);
    int rc = instant == NULL ? seam_p_instant_open(p, &instant, err) : SEAM_OK;
    pthread_rwlock_unlock(&p->now);
    if (rc == SEAM_OK && p->atomic && instant->position.parts > 0) {
        seam_p_instant_drop(p, instant);
        return inside(err);
    }
    if (rc == SEAM_OK)
        *ret = instant;
    return rc;
}

int seam_view_open(struct seam_projection *projection, struct seam_view **ret, struct seam_err *err)
{
    const struct seam_platform *os = projection->os;
    struct seam_view *view = os->alloc(os->ctx, sizeof(*view));
    if (view == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "no memory for a view");
    memset(view, 0, sizeof(*view));
    int rc = look(projection, &view->instant, err);
    if (rc != SEAM_OK) {
        os->free(os->ctx, view);
        return rc;
    }
    view->p = projection;
    view->snap = view->instant->snap;
    seam_p_table(projection, view->instant->generation, &view->table);
    pthread_mutex_lock(&projection->lock);
    projection->views++;
    pthread_mutex_unlock(&projection->lock);
    *ret = view;
    return SEAM_OK;
}

void seam_view_close(struct seam_view *view)
{
    if (view == NULL)
        return;
    struct seam_projection *p = view->p;
    seam_p_instant_drop(p, view->instant);
    pthread_mutex_lock(&p->lock);
    p->views--;
    pthread_mutex_unlock(&p->lock);
    p->os->free(p->os->ctx, view);
}

void seam_view_position(const struct seam_view *view, struct seam_position *ret)
{
    *ret = view->instant->position;
}

void seam_projection_position(struct seam_projection *projection, struct seam_position *ret)
{
    pthread_mutex_lock(&projection->lock);
    *ret = projection->meta.position;
    pthread_mutex_unlock(&projection->lock);
}

uint32_t seam_p_handles(struct seam_projection *p)
{
    if (p == NULL)
        return 0;
    pthread_mutex_lock(&p->lock);
    uint32_t n = p->views + p->cursors;
    pthread_mutex_unlock(&p->lock);
    return n;
}

/* ---- whole keys -------------------------------------------------------------------------- */

/* A key with its table's prefix; on the stack unless it is long. */
struct whole {
    const struct seam_platform *os;
    uint8_t *ptr;
    size_t len, cap;
    uint8_t small[512];
};

static int whole_set(struct whole *w, const struct seam_fmt_key *table, struct seam_slice key,
                     struct seam_err *err)
{
    size_t cap = w->ptr == NULL ? sizeof(w->small) : w->cap;
    if (key.ptr == NULL && key.len > 0)
        return seam_fail(err, SEAM_E_INVALID, "a key has a length and no bytes");
    if (key.len > SIZE_MAX / 2)
        return seam_fail(err, SEAM_E_INVALID, "a key of %zu bytes", key.len);
    if (table->len + key.len > cap) {
        uint8_t *more = w->os->alloc(w->os->ctx, table->len + key.len);
        if (more == NULL)
            return seam_fail(err, SEAM_E_NOMEM, "no memory for a key of %zu bytes", key.len);
        w->os->free(w->os->ctx, w->ptr);
        w->ptr = more;
        w->cap = table->len + key.len;
    }
    uint8_t *to = w->ptr != NULL ? w->ptr : w->small;
    memcpy(to, table->bytes, table->len);
    seam_copy(to + table->len, key);
    w->len = table->len + key.len;
    return SEAM_OK;
}

static struct seam_slice whole_slice(const struct whole *w)
{
    return seam_bytes(w->ptr != NULL ? w->ptr : w->small, w->len);
}

static void whole_init(struct whole *w, const struct seam_platform *os)
{
    w->os = os;
    w->ptr = NULL;
    w->len = w->cap = 0;
}

static void whole_free(struct whole *w)
{
    w->os->free(w->os->ctx, w->ptr);
}

static struct seam_slice strip(struct seam_slice key, size_t prefix)
{
    assert(key.len >= prefix);
    return seam_bytes((const uint8_t *)key.ptr + prefix, key.len - prefix);
}

/* ---- single reads ------------------------------------------------------------------------ */

/* The projector that feeds a table in the building reads that one. */
static bool by_builder(struct seam_projection *p)
{
    if (!atomic_load(&p->projecting))
        return false;
    pthread_mutex_lock(&p->lock);
    bool same = pthread_equal(p->projector_thread, pthread_self()) != 0;
    pthread_mutex_unlock(&p->lock);
    return same;
}

/* A read of "now", if view is NULL: nothing that changes what now is may begin before leave. *ret:
 * the table to read. */
static int enter(struct seam_projection *p, const struct seam_view *view,
                 const struct seam_fmt_key **ret, struct seam_err *err)
{
    *ret = view != NULL ? &view->table : &p->table;
    if (view != NULL)
        return SEAM_OK;
    pthread_rwlock_rdlock(&p->now);
    if (by_builder(p))
        *ret = &p->build->table;
    if (!p->atomic)
        return SEAM_OK;
    pthread_mutex_lock(&p->lock);
    bool shut = p->instant != NULL || p->meta.position.parts > 0;
    pthread_mutex_unlock(&p->lock);
    if (!shut)
        return SEAM_OK;
    pthread_rwlock_unlock(&p->now);
    return inside(err);
}

static void leave(struct seam_projection *p, const struct seam_view *view)
{
    if (view == NULL)
        pthread_rwlock_unlock(&p->now);
}

int seam_projection_get(struct seam_projection *projection, struct seam_view *view,
                        struct seam_slice key, struct seam_pin *ret, struct seam_err *err)
{
    struct whole w;
    const struct seam_fmt_key *table;
    int rc = enter(projection, view, &table, err);
    if (rc != SEAM_OK)
        return rc;
    whole_init(&w, projection->os);
    rc = whole_set(&w, table, key, err);
    if (rc == SEAM_OK)
        rc = seam_get(projection->db, view != NULL ? view->snap : NULL, whole_slice(&w), ret, err);
    leave(projection, view);
    whole_free(&w);
    return rc;
}

typedef int (*near_fn)(struct seam_db *db, struct seam_snap *snap, struct seam_slice prefix,
                       struct seam_slice key, struct seam_pin *ret, struct seam_err *err);

static int near_key(struct seam_projection *p, struct seam_view *view, near_fn fn,
                    struct seam_slice prefix, struct seam_slice key, struct seam_pin *ret,
                    struct seam_err *err)
{
    struct whole whole_prefix, whole_key;
    const struct seam_fmt_key *table;
    int rc = enter(p, view, &table, err);
    if (rc != SEAM_OK)
        return rc;
    whole_init(&whole_prefix, p->os);
    whole_init(&whole_key, p->os);
    rc = whole_set(&whole_prefix, table, prefix, err);
    if (rc == SEAM_OK)
        rc = whole_set(&whole_key, table, key, err);
    if (rc == SEAM_OK)
        rc = fn(p->db, view != NULL ? view->snap : NULL, whole_slice(&whole_prefix),
                whole_slice(&whole_key), ret, err);
    if (rc == SEAM_OK)
        ret->key = strip(ret->key, table->len);
    leave(p, view);
    whole_free(&whole_prefix);
    whole_free(&whole_key);
    return rc;
}

int seam_projection_floor(struct seam_projection *projection, struct seam_view *view,
                          struct seam_slice prefix, struct seam_slice key, struct seam_pin *ret,
                          struct seam_err *err)
{
    return near_key(projection, view, seam_floor, prefix, key, ret, err);
}

int seam_projection_ceiling(struct seam_projection *projection, struct seam_view *view,
                            struct seam_slice prefix, struct seam_slice key, struct seam_pin *ret,
                            struct seam_err *err)
{
    return near_key(projection, view, seam_ceiling, prefix, key, ret, err);
}

/* ---- cursors ----------------------------------------------------------------------------- */

struct seam_projection_cursor {
    struct seam_projection *p;
    struct seam_cursor *cursor;
    struct seam_fmt_key table;
    struct whole at;
};

/* upper := the end that was asked for, or the table's. */
static int set_upper(struct whole *w, const struct seam_fmt_key *table, struct seam_slice upper,
                     struct seam_err *err)
{
    if (upper.ptr != NULL || upper.len > 0)
        return whole_set(w, table, upper, err);
    struct seam_fmt_key after = *table;
    seam_put32_be(after.bytes + after.len - 4, seam_get32_be(after.bytes + after.len - 4) + 1);
    return whole_set(w, &after, seam_bytes(NULL, 0), err);
}

int seam_projection_cursor_open(struct seam_projection *projection, struct seam_view *view,
                                struct seam_slice lower, struct seam_slice upper,
                                struct seam_projection_cursor **ret, struct seam_err *err)
{
    const struct seam_platform *os = projection->os;
    struct whole low, high;
    struct seam_projection_cursor *c = os->alloc(os->ctx, sizeof(*c));
    if (c == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "no memory for a cursor");
    const struct seam_fmt_key *table;
    int rc = enter(projection, view, &table, err);
    if (rc != SEAM_OK) {
        os->free(os->ctx, c);
        return rc;
    }
    c->p = projection;
    c->table = *table;
    whole_init(&c->at, os);
    whole_init(&low, os);
    whole_init(&high, os);
    rc = whole_set(&low, &c->table, lower, err);
    if (rc == SEAM_OK)
        rc = set_upper(&high, &c->table, upper, err);
    if (rc == SEAM_OK)
        rc = seam_cursor_open(projection->db, view != NULL ? view->snap : NULL, whole_slice(&low),
                              whole_slice(&high), &c->cursor, err);
    leave(projection, view);
    whole_free(&low);
    whole_free(&high);
    if (rc != SEAM_OK) {
        os->free(os->ctx, c);
        return rc;
    }
    pthread_mutex_lock(&projection->lock);
    projection->cursors++;
    pthread_mutex_unlock(&projection->lock);
    *ret = c;
    return SEAM_OK;
}

int seam_projection_cursor_move(struct seam_projection_cursor *cursor, enum seam_move how,
                                struct seam_slice at, struct seam_slice *ret_key,
                                struct seam_err *err)
{
    struct seam_slice whole = {NULL, 0}, key;
    if (how == SEAM_GE || how == SEAM_LE) {
        int rc = whole_set(&cursor->at, &cursor->table, at, err);
        if (rc != SEAM_OK)
            return rc;
        whole = whole_slice(&cursor->at);
    }
    int rc = seam_cursor_move(cursor->cursor, how, whole, &key, err);
    if (rc == SEAM_OK && ret_key != NULL)
        *ret_key = strip(key, cursor->table.len);
    return rc;
}

int seam_projection_cursor_value(struct seam_projection_cursor *cursor, struct seam_slice *ret,
                                 struct seam_err *err)
{
    return seam_cursor_value(cursor->cursor, ret, err);
}

void seam_projection_cursor_close(struct seam_projection_cursor *cursor)
{
    if (cursor == NULL)
        return;
    struct seam_projection *p = cursor->p;
    seam_cursor_close(cursor->cursor);
    whole_free(&cursor->at);
    pthread_mutex_lock(&p->lock);
    p->cursors--;
    pthread_mutex_unlock(&p->lock);
    p->os->free(p->os->ctx, cursor);
}
