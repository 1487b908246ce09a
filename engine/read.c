/* read.c - snapshots, pins, floor and ceiling, cursors.
 *
 * Relies on the layers for one seek at a time. Keeps true, for every engine: the count of open
 * handles, the arithmetic of prefixes, bounds and empty ranges, and what a cursor does at its ends.
 * An engine is asked to move on only while its cursor stands on a key. */
#include "core.h"

#include <string.h>

const char seam_pin_copy_tag = 0;

uint64_t seam_handle_count(const struct seam_db *db, int kind)
{
    return atomic_load(&db->handles) >> kind & SEAM_HANDLE_MASK;
}

static uint64_t handle_sum(uint64_t word)
{
    return (word & SEAM_HANDLE_MASK) + (word >> SEAM_HANDLE_CURSOR & SEAM_HANDLE_MASK) +
           (word >> SEAM_HANDLE_SNAP & SEAM_HANDLE_MASK);
}

int seam_handle_take(struct seam_db *db, int kind, struct seam_err *err)
{
    uint64_t max = db->limits.pins;
    uint64_t before = atomic_fetch_add(&db->handles, UINT64_C(1) << kind);
    if (handle_sum(before) < max)
        return SEAM_OK;
    seam_handle_give(db, kind);
    return seam_fail_limit(err, SEAM_E_BUSY, "pins", max, handle_sum(before) + 1, SEAM_NO_OP);
}

void seam_handle_give(struct seam_db *db, int kind)
{
    atomic_fetch_sub(&db->handles, UINT64_C(1) << kind);
}

/* now: the read is of the newest state, which a poisoned engine may no longer be able to tell. */
static int may_read(const struct seam_db *db, bool now, struct seam_err *err)
{
    int rc = seam_db_usable(db, err);
    if (rc != SEAM_OK)
        return rc;
    if (now && atomic_load(&db->poisoned) && !(db->limits.caps & SEAM_CAP_READ_AFTER_POISON))
        return seam_fail(err, SEAM_E_POISONED,
                         "a write to '%s' failed earlier: only snapshots opened before are readable",
                         db->name);
    return SEAM_OK;
}

int seam_snap_open(struct seam_db *db, struct seam_snap **ret, struct seam_err *err)
{
    int rc = may_read(db, true, err);
    if (rc == SEAM_OK)
        rc = seam_handle_take(db, SEAM_HANDLE_SNAP, err);
    if (rc != SEAM_OK)
        return rc;
    struct seam_snap *snap = db->os->alloc(db->os->ctx, sizeof(*snap));
    if (!snap) {
        rc = seam_fail(err, SEAM_E_NOMEM, "no memory for a snapshot");
    } else {
        snap->db = db;
        snap->impl = NULL;
        rc = seam_layer_snap_open(db->top, &snap->impl, err);
    }
    if (rc != SEAM_OK) {
        db->os->free(db->os->ctx, snap);
        seam_handle_give(db, SEAM_HANDLE_SNAP);
        return rc;
    }
    *ret = snap;
    return SEAM_OK;
}

void seam_snap_close(struct seam_snap *snap)
{
    if (!snap)
        return;
    struct seam_db *db = snap->db;
    if (seam_fork_mark_holds(&db->mark))
        seam_layer_snap_close(db->top, snap->impl);
    seam_handle_give(db, SEAM_HANDLE_SNAP);
    db->os->free(db->os->ctx, snap);
}

/* ---- pins -------------------------------------------------------------------------------- */

static int check_key(const struct seam_db *db, struct seam_slice key, struct seam_err *err)
{
    if (key.len >= 1 && key.len <= db->limits.key && key.ptr)
        return SEAM_OK;
    if (key.len == 0)
        return seam_fail(err, SEAM_E_INVALID, "the key is empty: keys have at least 1 byte");
    if (key.len <= db->limits.key)
        return seam_fail(err, SEAM_E_INVALID, "the key has a length but no address");
    return seam_fail_limit(err, SEAM_E_INVALID, "key", db->limits.key, key.len, SEAM_NO_OP);
}

static int pin_begin(struct seam_db *db, struct seam_snap *snap, struct seam_pin *pin,
                     struct seam_err *err)
{
    int rc = may_read(db, snap == NULL, err);
    if (rc == SEAM_OK)
        rc = seam_handle_take(db, SEAM_HANDLE_PIN, err);
    memset(pin, 0, sizeof(*pin));
    pin->db = db;
    return rc;
}

static int pin_end(struct seam_db *db, int rc, const struct seam_pin *pin, struct seam_pin *ret)
{
    if (rc == SEAM_OK)
        *ret = *pin;
    else
        seam_handle_give(db, SEAM_HANDLE_PIN);
    return rc;
}

int seam_get(struct seam_db *db, struct seam_snap *snap, struct seam_slice key,
             struct seam_pin *ret, struct seam_err *err)
{
    struct seam_pin pin;
    int rc = check_key(db, key, err);
    if (rc == SEAM_OK)
        rc = pin_begin(db, snap, &pin, err);
    if (rc != SEAM_OK)
        return rc;
    rc = seam_layer_get(db->top, snap ? snap->impl : NULL, key, &pin, err);
    return pin_end(db, rc, &pin, ret);
}

void seam_unpin(struct seam_pin *pin)
{
    struct seam_db *db = pin->db;
    if (!db)
        return;
    if (seam_fork_mark_holds(&db->mark))
        seam_layer_unpin(db->top, pin);
    seam_handle_give(db, SEAM_HANDLE_PIN);
    memset(pin, 0, sizeof(*pin));
}

/* ---- floor and ceiling ------------------------------------------------------------------- */

/* The keys under a prefix are [prefix, end): end is the prefix without its trailing 0xff bytes, its
 * last byte then one more; a prefix of 0xff bytes only has no end. */
struct prefix_range {
    struct seam_slice lower, upper;
    uint8_t *heap, local[512];
};

static int prefix_range(const struct seam_db *db, struct seam_slice prefix,
                        struct prefix_range *ret, struct seam_err *err)
{
    const uint8_t *bytes = prefix.ptr;
    size_t len = prefix.len;
    ret->lower = prefix.len ? prefix : seam_bytes(NULL, 0);
    ret->upper = seam_bytes(NULL, 0);
    ret->heap = NULL;
    while (len > 0 && bytes[len - 1] == 0xff)
        len--;
    if (len == 0)
        return SEAM_OK;
    uint8_t *end = ret->local;
    if (len > sizeof(ret->local)) {
        end = ret->heap = db->os->alloc(db->os->ctx, len);
        if (!end)
            return seam_fail(err, SEAM_E_NOMEM, "no memory for a prefix of %zu bytes", len);
    }
    memcpy(end, bytes, len);
    end[len - 1]++;
    ret->upper = seam_bytes(end, len);
    return SEAM_OK;
}

/* How to seek for the last key <= key or the first >= key in the range; false if there is none. */
static bool seek_of(const struct prefix_range *r, struct seam_slice key, bool floor,
                    enum seam_move *how)
{
    int below = seam_compare(key, r->lower);
    bool above = r->upper.ptr && seam_compare(key, r->upper) >= 0;
    if (floor) {
        *how = above ? SEAM_LAST : SEAM_LE;
        return key.len > 0 && below >= 0;
    }
    *how = below <= 0 ? SEAM_FIRST : SEAM_GE;
    return !above;
}

static int seek_pin(struct seam_db *db, struct seam_snap *snap, struct seam_slice prefix,
                    struct seam_slice key, bool floor, struct seam_pin *ret, struct seam_err *err)
{
    struct prefix_range range;
    struct seam_pin pin;
    enum seam_move how;
    int rc = pin_begin(db, snap, &pin, err);
    if (rc != SEAM_OK)
        return rc;
    if ((prefix.len && !prefix.ptr) || (key.len && !key.ptr)) {
        rc = seam_fail(err, SEAM_E_INVALID, "a prefix or key has a length but no address");
        return pin_end(db, rc, &pin, ret);
    }
    if (prefix.len > db->limits.key) /* no key can begin with it */
        return pin_end(db, SEAM_NOTFOUND, &pin, ret);
    rc = prefix_range(db, prefix, &range, err);
    if (rc == SEAM_OK && !seek_of(&range, key, floor, &how))
        rc = SEAM_NOTFOUND;
    if (rc == SEAM_OK)
        rc = seam_layer_near(db->top, snap ? snap->impl : NULL, range.lower, range.upper, how, key,
                             &pin, err);
    db->os->free(db->os->ctx, range.heap);
    return pin_end(db, rc, &pin, ret);
}

int seam_floor(struct seam_db *db, struct seam_snap *snap, struct seam_slice prefix,
               struct seam_slice key, struct seam_pin *ret, struct seam_err *err)
{
    return seek_pin(db, snap, prefix, key, true, ret, err);
}

int seam_ceiling(struct seam_db *db, struct seam_snap *snap, struct seam_slice prefix,
                 struct seam_slice key, struct seam_pin *ret, struct seam_err *err)
{
    return seek_pin(db, snap, prefix, key, false, ret, err);
}

/* ---- cursors ----------------------------------------------------------------------------- */

enum cursor_state { CURSOR_FRESH, CURSOR_ON, CURSOR_BEFORE, CURSOR_AFTER };

struct seam_cursor {
    struct seam_db *db;
    void *impl; /* NULL: the range is empty */
    enum cursor_state state;
    struct seam_slice lower, upper; /* in bounds[] */
    uint8_t bounds[];
};

static struct seam_slice bound_copy(uint8_t **at, struct seam_slice s)
{
    if (s.len)
        memcpy(*at, s.ptr, s.len);
    struct seam_slice copy = {*at, s.len};
    *at += s.len;
    return copy;
}

static struct seam_cursor *cursor_new(struct seam_db *db, struct seam_slice lower,
                                      struct seam_slice upper)
{
    struct seam_cursor *c = db->os->alloc(db->os->ctx, sizeof(*c) + lower.len + upper.len);
    if (!c)
        return NULL;
    uint8_t *at = c->bounds;
    memset(c, 0, sizeof(*c));
    c->db = db;
    if (lower.len)
        c->lower = bound_copy(&at, lower);
    if (upper.ptr)
        c->upper = bound_copy(&at, upper);
    return c;
}

static void cursor_free(struct seam_cursor *c)
{
    struct seam_db *db = c->db;
    db->os->free(db->os->ctx, c);
    seam_handle_give(db, SEAM_HANDLE_CURSOR);
}

int seam_cursor_open(struct seam_db *db, struct seam_snap *snap, struct seam_slice lower,
                     struct seam_slice upper, struct seam_cursor **ret, struct seam_err *err)
{
    int rc = may_read(db, snap == NULL, err);
    if (rc == SEAM_OK && ((lower.len && !lower.ptr) || (upper.len && !upper.ptr)))
        rc = seam_fail(err, SEAM_E_INVALID, "a bound has a length but no address");
    if (rc == SEAM_OK)
        rc = seam_handle_take(db, SEAM_HANDLE_CURSOR, err);
    if (rc != SEAM_OK)
        return rc;
    struct seam_cursor *c = cursor_new(db, lower, upper);
    if (!c) {
        seam_handle_give(db, SEAM_HANDLE_CURSOR);
        return seam_fail(err, SEAM_E_NOMEM, "no memory for a cursor");
    }
    if (!c->upper.ptr || seam_compare(c->lower, c->upper) < 0)
        rc = seam_layer_cursor_open(db->top, snap ? snap->impl : NULL, c->lower, c->upper,
                                    &c->impl, err);
    if (rc != SEAM_OK) {
        cursor_free(c);
        return rc;
    }
    *ret = c;
    return SEAM_OK;
}

/* Turns a caller's move into one that the engine may be asked; false: the answer is NOTFOUND. */
static bool move_of(const struct seam_cursor *c, enum seam_move *how, struct seam_slice at)
{
    switch (*how) {
    case SEAM_NEXT:
        if (c->state == CURSOR_FRESH || c->state == CURSOR_BEFORE)
            *how = SEAM_FIRST;
        return c->state != CURSOR_AFTER;
    case SEAM_PREV:
        if (c->state == CURSOR_FRESH || c->state == CURSOR_AFTER)
            *how = SEAM_LAST;
        return c->state != CURSOR_BEFORE;
    case SEAM_GE:
        if (seam_compare(at, c->lower) <= 0)
            *how = SEAM_FIRST;
        return !c->upper.ptr || seam_compare(at, c->upper) < 0;
    case SEAM_LE:
        if (c->upper.ptr && seam_compare(at, c->upper) >= 0)
            *how = SEAM_LAST;
        return at.len > 0 && seam_compare(at, c->lower) >= 0;
    case SEAM_FIRST:
    case SEAM_LAST:
        break;
    }
    return true;
}

static bool moves_up(enum seam_move how)
{
    return how == SEAM_FIRST || how == SEAM_NEXT || how == SEAM_GE;
}

int seam_cursor_move(struct seam_cursor *c, enum seam_move how, struct seam_slice at,
                     struct seam_slice *ret_key, struct seam_err *err)
{
    struct seam_slice key = {NULL, 0};
    enum seam_move asked = how;
    int rc = seam_db_usable(c->db, err);
    if (rc != SEAM_OK)
        return rc;
    if ((unsigned)how > SEAM_LE || (at.len && !at.ptr))
        return seam_fail(err, SEAM_E_INVALID, "no such cursor move, or a key without an address");
    rc = SEAM_NOTFOUND;
    if (move_of(c, &how, at) && c->impl)
        rc = seam_layer_cursor_move(c->db->top, c->impl, how, at, &key, err);
    if (rc == SEAM_OK) {
        c->state = CURSOR_ON;
        if (ret_key)
            *ret_key = key;
    } else if (rc == SEAM_NOTFOUND) {
        c->state = moves_up(asked) ? CURSOR_AFTER : CURSOR_BEFORE;
    } else {
        c->state = CURSOR_FRESH;
    }
    return rc;
}

int seam_cursor_value(struct seam_cursor *c, struct seam_slice *ret, struct seam_err *err)
{
    int rc = seam_db_usable(c->db, err);
    if (rc != SEAM_OK)
        return rc;
    if (c->state != CURSOR_ON)
        return seam_fail(err, SEAM_E_INVALID, "the cursor stands on no key");
    return seam_layer_cursor_value(c->db->top, c->impl, ret, err);
}

void seam_cursor_close(struct seam_cursor *c)
{
    if (!c)
        return;
    if (c->impl && seam_fork_mark_holds(&c->db->mark))
        seam_layer_cursor_close(c->db->top, c->impl);
    cursor_free(c);
}
