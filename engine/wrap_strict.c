/* wrap_strict.c - the wrapper `strict`: whoever breaks a lifetime or order rule is found out.
 *
 * Relies on nothing of the engine below but its table. Keeps true:
 *   - all bytes it hands out are copies of exactly their length; a copy whose time is over is
 * filled with 0xdd and kept for a while (freed at once under sanitizers), so that a caller who
 * keeps bytes too long sees wrong ones on every engine;
 *   - keys from below ascend or descend strictly, stay in bounds, and lie on the side asked for:
 *     else E_CORRUPT; what was lent by the engine did not change while it was lent;
 *   - ops have the bytes at commit that they had at prepare; cursors are used by one thread at a
 *     time; a snapshot is closed after its pins and cursors: else E_MISUSE, at once or, where a
 * call cannot fail, at the next one that can. A commit that is refused so was not handed down. */
#include <seam/backend.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define POISON 0xdd
#define KEPT_BUFFERS 256u
#define KEPT_BYTES (UINT64_C(8) << 20)
#ifdef SEAM_SANITIZED
#define KEEP_BUFFERS false
#else
#define KEEP_BUFFERS true
#endif

struct copy {
    uint8_t *ptr; /* NULL: none */
    size_t len;
};

struct strict {
    struct seam_engine base; /* first */
    const struct seam_platform *os;
    pthread_mutex_t mutex;          /* guards all below */
    struct copy kept[KEPT_BUFFERS]; /* a ring of poisoned buffers, the oldest at kept_at */
    unsigned kept_at;
    uint64_t kept_bytes;
    char broken[160]; /* what a call that cannot fail found */
    atomic_bool is_broken;
};

struct strict_snap {
    void *below;
    atomic_uint refs; /* one of its own, one per pin and cursor */
};

struct strict_pin {
    struct strict_snap *snap; /* NULL: now */
    struct copy key, value;
};

struct strict_cursor {
    void *below;
    struct strict_snap *snap;
    struct seam_slice lower, upper; /* the library keeps their bytes */
    struct seam_slice lent;         /* the key as the engine lent it */
    struct copy key, value;         /* what the caller has; key.ptr NULL: stands on nothing */
    atomic_bool busy;
};

struct strict_need {
    uint32_t crc;
    void *priv; /* the layer's below */
};

/* ---- copies ------------------------------------------------------------------------------ */

static int make_copy(struct strict *s, struct seam_slice from, struct copy *ret,
                     struct seam_err *err)
{
    uint8_t *ptr = s->os->alloc(s->os->ctx, from.len > 0 ? from.len : 1);
    if (!ptr)
        return seam_fail(err, SEAM_E_NOMEM, "strict: out of memory to copy %zu bytes", from.len);
    if (from.len > 0)
        memcpy(ptr, from.ptr, from.len);
    ret->ptr = ptr;
    ret->len = from.len;
    return SEAM_OK;
}

static void drop_kept(struct strict *s, unsigned at)
{
    s->kept_bytes -= s->kept[at].len;
    s->os->free(s->os->ctx, s->kept[at].ptr);
    s->kept[at].ptr = NULL;
    s->kept[at].len = 0;
}

/* The caller may not look at it any more. */
static void retire(struct strict *s, struct copy *c)
{
    if (!c->ptr)
        return;
    memset(c->ptr, POISON, c->len);
    if (KEEP_BUFFERS) {
        (void)pthread_mutex_lock(&s->mutex);
        drop_kept(s, s->kept_at);
        s->kept[s->kept_at] = *c;
        s->kept_bytes += c->len;
        s->kept_at = (s->kept_at + 1) % KEPT_BUFFERS;
        for (unsigned i = 0; i + 1 < KEPT_BUFFERS && s->kept_bytes > KEPT_BYTES; i++)
            drop_kept(s, (s->kept_at + i) % KEPT_BUFFERS);
        (void)pthread_mutex_unlock(&s->mutex);
    } else {
        s->os->free(s->os->ctx, c->ptr);
    }
    c->ptr = NULL;
    c->len = 0;
}

/* ---- findings ---------------------------------------------------------------------------- */

static void find_broken(struct strict *s, const char *what)
{
    (void)pthread_mutex_lock(&s->mutex);
    if (!atomic_load(&s->is_broken))
        (void)snprintf(s->broken, sizeof s->broken, "%s", what);
    atomic_store(&s->is_broken, true);
    (void)pthread_mutex_unlock(&s->mutex);
}

static int check_broken(struct strict *s, struct seam_err *err)
{
    if (!atomic_load(&s->is_broken))
        return SEAM_OK;
    (void)pthread_mutex_lock(&s->mutex);
    int rc = seam_fail(err, SEAM_E_MISUSE, "strict: earlier on this handle: %s", s->broken);
    (void)pthread_mutex_unlock(&s->mutex);
    return rc;
}

static int bad_key(struct seam_slice key, const char *what, struct seam_err *err)
{
    char text[80];
    return seam_fail(err, SEAM_E_CORRUPT, "strict: the engine gave the key %s, which %s",
                     seam_key_text(key, text, sizeof text), what);
}

/* Whether a key from below may be the answer to (how, at) within the bounds. */
static int check_key(struct seam_slice key, struct seam_slice lower, struct seam_slice upper,
                     enum seam_move how, struct seam_slice at, struct seam_err *err)
{
    if (key.len == 0 || !key.ptr)
        return bad_key(key, "is empty", err);
    if (lower.len > 0 && seam_compare(key, lower) < 0)
        return bad_key(key, "lies below the lower bound", err);
    if (upper.ptr && seam_compare(key, upper) >= 0)
        return bad_key(key, "does not lie below the upper bound", err);
    if (how == SEAM_GE && seam_compare(key, at) < 0)
        return bad_key(key, "is smaller than the one asked for with GE", err);
    if (how == SEAM_LE && seam_compare(key, at) > 0)
        return bad_key(key, "is greater than the one asked for with LE", err);
    return SEAM_OK;
}

/* ---- open and close ---------------------------------------------------------------------- */

static const char *strict_version(void)
{
    return seam_version();
}

static int strict_open(const struct seam_open_args *args, struct seam_engine **ret,
                       struct seam_err *err)
{
    struct strict *s = args->os->alloc(args->os->ctx, sizeof *s);
    if (!s)
        return seam_fail(err, SEAM_E_NOMEM, "out of memory for the wrapper strict");
    memset(s, 0, sizeof *s);
    s->os = args->os;
    atomic_init(&s->is_broken, false);
    int rc = pthread_mutex_init(&s->mutex, NULL);
    if (rc != 0) {
        args->os->free(args->os->ctx, s);
        return seam_fail_os(err, rc, "cannot make a lock for the wrapper strict");
    }
    *ret = &s->base;
    return SEAM_OK;
}

static int strict_close(struct seam_engine *e, struct seam_err *err)
{
    struct strict *s = (struct strict *)e;
    int rc = seam_layer_close(e->below, err);
    if (rc == SEAM_OK)
        rc = check_broken(s, err);
    for (unsigned i = 0; i < KEPT_BUFFERS; i++)
        drop_kept(s, i);
    (void)pthread_mutex_destroy(&s->mutex);
    s->os->free(s->os->ctx, s);
    return rc;
}

/* ---- commits ----------------------------------------------------------------------------- */

static uint32_t crc_part(uint32_t crc, struct seam_slice part)
{
    uint64_t len = part.len;
    crc = seam_crc32c(crc, &len, sizeof len);
    return part.len > 0 ? seam_crc32c(crc, part.ptr, part.len) : crc;
}

static uint32_t crc_ops(const struct seam_commit *c)
{
    uint32_t crc = 0;
    for (size_t i = 0; i < c->n; i++) {
        int kind = (int)c->ops[i].kind;
        crc = seam_crc32c(crc, &kind, sizeof kind);
        crc = crc_part(crc, c->ops[i].key);
        crc = crc_part(crc, c->ops[i].head);
        crc = crc_part(crc, c->ops[i].body);
    }
    return crc;
}

static int strict_prepare(struct seam_engine *e, struct seam_commit *c, uint64_t deadline_ns,
                          struct seam_err *err)
{
    struct strict *s = (struct strict *)e;
    int rc = check_broken(s, err);
    if (rc != SEAM_OK)
        return rc;
    struct strict_need *need = s->os->alloc(s->os->ctx, sizeof *need);
    if (!need)
        return seam_fail(err, SEAM_E_NOMEM, "strict: out of memory for a ticket");
    need->crc = crc_ops(c);
    rc = seam_layer_prepare(e->below, c, deadline_ns, err);
    if (rc != SEAM_OK) {
        s->os->free(s->os->ctx, need);
        return rc;
    }
    need->priv = c->need.priv;
    c->need.priv = need;
    return SEAM_OK;
}

/* Gives the ticket below its own again; returns the CRC that was taken at prepare. */
static uint32_t take_need(struct strict *s, struct seam_commit *c)
{
    struct strict_need *need = c->need.priv;
    uint32_t crc = need->crc;
    c->need.priv = need->priv;
    s->os->free(s->os->ctx, need);
    return crc;
}

static void strict_abort(struct seam_engine *e, struct seam_commit *c)
{
    (void)take_need((struct strict *)e, c);
    seam_layer_abort(e->below, c);
}

static int strict_commit(struct seam_engine *e, struct seam_commit *c, struct seam_acked *ret,
                         struct seam_err *err)
{
    if (take_need((struct strict *)e, c) != crc_ops(c)) {
        seam_layer_abort(e->below, c);
        return seam_fail(err, SEAM_E_MISUSE,
                         "strict: the bytes of the ops changed between prepare and commit");
    }
    struct seam_acked acked = *ret;
    enum seam_ack asked = c->ack; /* a layer below may ask for another one below it */
    int rc = seam_layer_commit(e->below, c, &acked, err);
    if (rc != SEAM_OK && rc != SEAM_E_UNKNOWN && rc != SEAM_E_POISONED && rc != SEAM_E_MISUSE)
        return seam_fail(err, SEAM_E_UNKNOWN, "strict: the engine's commit answered %s",
                         seam_code_name(rc));
    if (rc == SEAM_OK && acked.given < asked)
        return seam_fail(err, SEAM_E_UNKNOWN, "strict: the engine acked %s, asked was %s",
                         seam_ack_name(acked.given), seam_ack_name(asked));
    if (rc == SEAM_OK)
        *ret = acked;
    return rc;
}

/* ---- snapshots --------------------------------------------------------------------------- */

static int strict_snap_open(struct seam_engine *e, void **ret_snap, struct seam_err *err)
{
    struct strict *s = (struct strict *)e;
    int rc = check_broken(s, err);
    if (rc != SEAM_OK)
        return rc;
    struct strict_snap *snap = s->os->alloc(s->os->ctx, sizeof *snap);
    if (!snap)
        return seam_fail(err, SEAM_E_NOMEM, "strict: out of memory for a snapshot");
    rc = seam_layer_snap_open(e->below, &snap->below, err);
    if (rc != SEAM_OK) {
        s->os->free(s->os->ctx, snap);
        return rc;
    }
    atomic_init(&snap->refs, 1);
    *ret_snap = snap;
    return SEAM_OK;
}

static void *snap_below(const struct strict_snap *snap)
{
    return snap ? snap->below : NULL;
}

static void snap_hold(struct strict_snap *snap)
{
    if (snap)
        atomic_fetch_add(&snap->refs, 1);
}

static void snap_drop(struct strict *s, struct strict_snap *snap)
{
    if (!snap || atomic_fetch_sub(&snap->refs, 1) != 1)
        return;
    seam_layer_snap_close(s->base.below, snap->below);
    s->os->free(s->os->ctx, snap);
}

static void strict_snap_close(struct seam_engine *e, void *snap_ptr)
{
    struct strict *s = (struct strict *)e;
    struct strict_snap *snap = snap_ptr;
    if (atomic_load(&snap->refs) > 1)
        find_broken(s, "a snapshot was closed before its pins and cursors");
    snap_drop(s, snap);
}

/* ---- get, near, unpin -------------------------------------------------------------------- */

/* Turns what the engine lent into copies, and gives it back to the engine. */
static int copy_pin(struct strict *s, struct strict_snap *snap, struct seam_pin *lent, bool key,
                    struct seam_pin *ret, struct seam_err *err)
{
    struct strict_pin *pin = s->os->alloc(s->os->ctx, sizeof *pin);
    int rc = pin ? SEAM_OK : seam_fail(err, SEAM_E_NOMEM, "strict: out of memory for a pin");
    if (rc == SEAM_OK) {
        memset(pin, 0, sizeof *pin);
        rc = make_copy(s, lent->value, &pin->value, err);
    }
    if (rc == SEAM_OK && key)
        rc = make_copy(s, lent->key, &pin->key, err);
    seam_layer_unpin(s->base.below, lent);
    if (rc != SEAM_OK) {
        if (pin)
            s->os->free(s->os->ctx, pin->value.ptr);
        s->os->free(s->os->ctx, pin);
        return rc;
    }
    pin->snap = snap;
    snap_hold(snap);
    ret->value = seam_bytes(pin->value.ptr, pin->value.len);
    if (key)
        ret->key = seam_bytes(pin->key.ptr, pin->key.len);
    ret->own[0] = pin;
    ret->own[1] = NULL;
    return SEAM_OK;
}

static int strict_get(struct seam_engine *e, void *snap, struct seam_slice key,
                      struct seam_pin *ret, struct seam_err *err)
{
    struct strict *s = (struct strict *)e;
    struct seam_pin lent;
    memset(&lent, 0, sizeof lent);
    int rc = check_broken(s, err);
    if (rc == SEAM_OK)
        rc = seam_layer_get(e->below, snap_below(snap), key, &lent, err);
    return rc == SEAM_OK ? copy_pin(s, snap, &lent, false, ret, err) : rc;
}

static int strict_near(struct seam_engine *e, void *snap, struct seam_slice lower,
                       struct seam_slice upper, enum seam_move how, struct seam_slice at,
                       struct seam_pin *ret, struct seam_err *err)
{
    struct strict *s = (struct strict *)e;
    struct seam_pin lent;
    memset(&lent, 0, sizeof lent);
    int rc = check_broken(s, err);
    if (rc == SEAM_OK)
        rc = seam_layer_near(e->below, snap_below(snap), lower, upper, how, at, &lent, err);
    if (rc != SEAM_OK)
        return rc;
    rc = check_key(lent.key, lower, upper, how, at, err);
    if (rc != SEAM_OK) {
        seam_layer_unpin(e->below, &lent);
        return rc;
    }
    return copy_pin(s, snap, &lent, true, ret, err);
}

static void strict_unpin(struct seam_engine *e, struct seam_pin *ret)
{
    struct strict *s = (struct strict *)e;
    struct strict_pin *pin = ret->own[0];
    if (!pin)
        return;
    retire(s, &pin->key);
    retire(s, &pin->value);
    snap_drop(s, pin->snap);
    s->os->free(s->os->ctx, pin);
}

/* ---- cursors ----------------------------------------------------------------------------- */

static int strict_cursor_open(struct seam_engine *e, void *snap, struct seam_slice lower,
                              struct seam_slice upper, void **ret_cursor, struct seam_err *err)
{
    struct strict *s = (struct strict *)e;
    int rc = check_broken(s, err);
    if (rc != SEAM_OK)
        return rc;
    struct strict_cursor *c = s->os->alloc(s->os->ctx, sizeof *c);
    if (!c)
        return seam_fail(err, SEAM_E_NOMEM, "strict: out of memory for a cursor");
    memset(c, 0, sizeof *c);
    atomic_init(&c->busy, false);
    rc = seam_layer_cursor_open(e->below, snap_below(snap), lower, upper, &c->below, err);
    if (rc != SEAM_OK) {
        s->os->free(s->os->ctx, c);
        return rc;
    }
    c->lower = lower;
    c->upper = upper;
    c->snap = snap;
    snap_hold(snap);
    *ret_cursor = c;
    return SEAM_OK;
}

/* The key that the engine lent must still be what it was. */
static int check_lent(const struct strict_cursor *c, struct seam_err *err)
{
    if (c->lent.len > 0 && memcmp(c->lent.ptr, c->key.ptr, c->key.len) != 0)
        return seam_fail(err, SEAM_E_CORRUPT,
                         "strict: the engine changed a cursor's key before the cursor moved");
    return SEAM_OK;
}

static int move_checked(struct strict *s, struct strict_cursor *c, enum seam_move how,
                        struct seam_slice at, struct copy *ret, struct seam_slice *ret_lent,
                        struct seam_err *err)
{
    bool step = how == SEAM_NEXT || how == SEAM_PREV;
    if (step && !c->key.ptr)
        return seam_fail(err, SEAM_E_MISUSE, "strict: a step of a cursor that stands on nothing");
    int rc = check_lent(c, err);
    if (rc != SEAM_OK)
        return rc;
    struct seam_slice lent = {NULL, 0};
    rc = seam_layer_cursor_move(s->base.below, c->below, how, at, &lent, err);
    if (rc != SEAM_OK)
        return rc;
    rc = check_key(lent, c->lower, c->upper, how, at, err);
    if (rc != SEAM_OK)
        return rc;
    if (step) {
        int order = seam_compare(lent, seam_bytes(c->key.ptr, c->key.len));
        if (how == SEAM_NEXT && order <= 0)
            return bad_key(lent, "does not follow the one before it", err);
        if (how == SEAM_PREV && order >= 0)
            return bad_key(lent, "does not precede the one after it", err);
    }
    rc = make_copy(s, lent, ret, err);
    if (rc == SEAM_OK)
        *ret_lent = lent;
    return rc;
}

static int enter_cursor(struct strict *s, struct strict_cursor *c, struct seam_err *err)
{
    if (!atomic_exchange(&c->busy, true))
        return SEAM_OK;
    find_broken(s, "a cursor was used by two threads at once");
    return check_broken(s, err);
}

static int strict_cursor_move(struct seam_engine *e, void *cursor, enum seam_move how,
                              struct seam_slice at, struct seam_slice *ret_key,
                              struct seam_err *err)
{
    struct strict *s = (struct strict *)e;
    struct strict_cursor *c = cursor;
    struct copy key = {NULL, 0};
    struct seam_slice lent = {NULL, 0};
    int rc = enter_cursor(s, c, err);
    if (rc != SEAM_OK)
        return rc;
    rc = move_checked(s, c, how, at, &key, &lent, err);
    retire(s, &c->key);
    retire(s, &c->value);
    c->key = key;
    c->lent = lent;
    if (rc == SEAM_OK && ret_key)
        *ret_key = seam_bytes(key.ptr, key.len);
    atomic_store(&c->busy, false);
    return rc;
}

static int strict_cursor_value(struct seam_engine *e, void *cursor, struct seam_slice *ret,
                               struct seam_err *err)
{
    struct strict *s = (struct strict *)e;
    struct strict_cursor *c = cursor;
    struct seam_slice lent = {NULL, 0};
    int rc = enter_cursor(s, c, err);
    if (rc != SEAM_OK)
        return rc;
    if (!c->key.ptr)
        rc = seam_fail(err, SEAM_E_MISUSE, "strict: the value of a cursor that stands on nothing");
    if (rc == SEAM_OK && !c->value.ptr) { /* asked before: those bytes must stay valid */
        rc = seam_layer_cursor_value(e->below, c->below, &lent, err);
        if (rc == SEAM_OK)
            rc = check_lent(c, err);
        if (rc == SEAM_OK)
            rc = make_copy(s, lent, &c->value, err);
    }
    if (rc == SEAM_OK)
        *ret = seam_bytes(c->value.ptr, c->value.len);
    atomic_store(&c->busy, false);
    return rc;
}

static void strict_cursor_close(struct seam_engine *e, void *cursor)
{
    struct strict *s = (struct strict *)e;
    struct strict_cursor *c = cursor;
    if (atomic_load(&c->busy))
        find_broken(s, "a cursor was closed while another thread used it");
    seam_layer_cursor_close(e->below, c->below);
    retire(s, &c->key);
    retire(s, &c->value);
    snap_drop(s, c->snap);
    s->os->free(s->os->ctx, c);
}

const struct seam_backend seam_wrapper_strict = {
    .abi = SEAM_BACKEND_ABI,
    .flags = SEAM_BACKEND_WRAPPER | SEAM_BACKEND_CONCURRENT,
    .name = "strict",
    .summary = "wrapper: copies what it lends, poisons old copies, checks order, bounds, lifetimes",
    .version = strict_version,
    .open = strict_open,
    .close = strict_close,
    .prepare = strict_prepare,
    .abort = strict_abort,
    .commit = strict_commit,
    .snap_open = strict_snap_open,
    .snap_close = strict_snap_close,
    .get = strict_get,
    .near = strict_near,
    .unpin = strict_unpin,
    .cursor_open = strict_cursor_open,
    .cursor_move = strict_cursor_move,
    .cursor_value = strict_cursor_value,
    .cursor_close = strict_cursor_close,
};
