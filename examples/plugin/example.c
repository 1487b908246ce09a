/* example.c - the smallest complete engine outside the tree, as a plug-in.
 *
 * A sorted array of entries in memory. A commit copies the array of pointers, changes the copy and
 * puts it in the place of the old one; whoever holds an older array, a snapshot or a cursor, goes
 * on reading it. A commit so costs as much as there are keys: it is here to be read, not used.
 *
 * Relies on <seam/backend.h>: the library has validated ops, keys and bounds before they come here, and
 * lets in one commit at a time, since the table does not say SEAM_BACKEND_CONCURRENT.
 * Keeps true: an array is never changed once `now` points to it; arrays and entries live as long as
 * their counts say. What it leaves NULL (prepare, abort, near, stats, describe) the library does
 * without: it has no SEAM_CAP_RESERVES, so a commit that finds no memory answers E_UNKNOWN. */
#include <seam/backend.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { KEY_MAX = 1024, OPS_MAX = 4096, BYTES_MAX = 64 << 20 };

struct entry {
    atomic_uint refs; /* arrays and pins that hold it */
    size_t key_len, value_len;
    unsigned char bytes[]; /* key, then value */
};

struct array {
    atomic_uint refs; /* `now`, snapshots, cursors, reads on their way */
    size_t n;
    struct entry *at[];
};

struct example {
    struct seam_engine base; /* first */
    const struct seam_platform *os;
    pthread_mutex_t lock; /* guards now, between one commit and the reads */
    struct array *now;
    uint64_t value_max;
};

struct cursor {
    struct array *array;
    size_t begin, end, at; /* at: begin..end-1 while it stands on a key */
};

static struct example *example_of(const struct seam_engine *e)
{
    return (struct example *)(uintptr_t)e;
}

/* ---- entries and arrays -------------------------------------------------------------------- */

static struct seam_slice key_of(const struct entry *n)
{
    return seam_bytes(n->bytes, n->key_len);
}

static struct seam_slice value_of(const struct entry *n)
{
    return seam_bytes(n->bytes + n->key_len, n->value_len);
}

static void entry_drop(const struct example *x, struct entry *n)
{
    if (atomic_fetch_sub(&n->refs, 1) == 1)
        x->os->free(x->os->ctx, n);
}

static struct entry *entry_new(const struct example *x, const struct seam_op *op)
{
    struct seam_slice parts[] = {op->key, op->head, op->body};
    struct entry *n = x->os->alloc(x->os->ctx, sizeof(*n) + op->key.len + op->head.len + op->body.len);
    unsigned char *at;

    if (!n)
        return NULL;
    atomic_init(&n->refs, 1);
    n->key_len = op->key.len;
    n->value_len = op->head.len + op->body.len;
    at = n->bytes;
    for (size_t i = 0; i < 3; i++)
        if (parts[i].len) {
            memcpy(at, parts[i].ptr, parts[i].len);
            at += parts[i].len;
        }
    return n;
}

static void array_drop(const struct example *x, struct array *a)
{
    if (!a || atomic_fetch_sub(&a->refs, 1) != 1)
        return;
    for (size_t i = 0; i < a->n; i++)
        entry_drop(x, a->at[i]);
    x->os->free(x->os->ctx, a);
}

/* A copy with room for `more` entries. */
static struct array *array_copy(const struct example *x, const struct array *from, size_t more)
{
    size_t n = from ? from->n : 0;
    struct array *a = x->os->alloc(x->os->ctx, sizeof(*a) + (n + more) * sizeof(a->at[0]));

    if (!a)
        return NULL;
    atomic_init(&a->refs, 1);
    a->n = n;
    for (size_t i = 0; i < n; i++) {
        a->at[i] = from->at[i];
        atomic_fetch_add(&a->at[i]->refs, 1);
    }
    return a;
}

static struct array *array_hold(struct example *x)
{
    struct array *a;

    (void)pthread_mutex_lock(&x->lock);
    a = x->now;
    atomic_fetch_add(&a->refs, 1);
    (void)pthread_mutex_unlock(&x->lock);
    return a;
}

/* The index of the first key >= key, or > key. */
static size_t search(const struct array *a, struct seam_slice key, bool greater)
{
    size_t low = 0, high = a->n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int c = seam_compare(key_of(a->at[mid]), key);
        if (c < 0 || (greater && c == 0))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static size_t range_end(const struct array *a, struct seam_slice upper)
{
    return upper.ptr ? search(a, upper, false) : a->n;
}

/* ---- commits ------------------------------------------------------------------------------- */

/* [from, to) gives way to `put`, or to nothing. */
static void splice(const struct example *x, struct array *a, size_t from, size_t to,
                   struct entry *put)
{
    size_t more = put ? 1 : 0;

    for (size_t i = from; i < to; i++)
        entry_drop(x, a->at[i]);
    memmove(&a->at[from + more], &a->at[to], (a->n - to) * sizeof(a->at[0]));
    if (put)
        a->at[from] = put;
    a->n = a->n - (to - from) + more;
}

static bool apply(const struct example *x, struct array *a, const struct seam_op *op)
{
    struct entry *put = NULL;
    size_t from = search(a, op->key, false), to = search(a, op->key, true);

    if (op->kind == SEAM_DELETE_RANGE)
        to = range_end(a, op->head);
    if (op->kind == SEAM_PUT && !(put = entry_new(x, op)))
        return false;
    splice(x, a, from, to, put);
    return true;
}

/* A reader sees the array before the commit or the one after it. */
static int example_commit(struct seam_engine *e, struct seam_commit *c, struct seam_acked *ret,
                          struct seam_err *err)
{
    struct example *x = example_of(e);
    struct array *next, *last = NULL;
    bool done;

    next = array_copy(x, x->now, c->n);
    done = next != NULL;
    for (size_t i = 0; done && i < c->n; i++)
        done = apply(x, next, &c->ops[i]);
    if (done) {
        (void)pthread_mutex_lock(&x->lock);
        last = x->now;
        x->now = next;
        (void)pthread_mutex_unlock(&x->lock);
    }
    array_drop(x, done ? last : next);
    if (!done)
        return seam_fail(err, SEAM_E_UNKNOWN, "example: no memory for a commit of %zu ops", c->n);
    ret->given = SEAM_ACK_NONE;
    ret->group = 1;
    return SEAM_OK;
}

/* The best ack is NONE, so there is nothing to raise. */
static int example_sync(struct seam_engine *e, enum seam_ack level, struct seam_err *err)
{
    (void)e, (void)level, (void)err;
    return SEAM_OK;
}

/* ---- snapshots and reads ------------------------------------------------------------------- */

static int example_snap_open(struct seam_engine *e, void **ret_snap, struct seam_err *err)
{
    (void)err;
    *ret_snap = array_hold(example_of(e));
    return SEAM_OK;
}

static void example_snap_close(struct seam_engine *e, void *snap)
{
    array_drop(example_of(e), snap);
}

static int example_get(struct seam_engine *e, void *snap, struct seam_slice key,
                       struct seam_pin *ret, struct seam_err *err)
{
    struct example *x = example_of(e);
    struct array *now = snap ? NULL : array_hold(x);
    const struct array *a = snap ? snap : now;
    size_t at = search(a, key, false);
    int rc = SEAM_NOTFOUND;

    (void)err;
    if (at < a->n && seam_compare(key_of(a->at[at]), key) == 0) {
        atomic_fetch_add(&a->at[at]->refs, 1);
        ret->own[0] = a->at[at];
        ret->value = value_of(a->at[at]);
        rc = SEAM_OK;
    }
    array_drop(x, now);
    return rc;
}

static void example_unpin(struct seam_engine *e, struct seam_pin *pin)
{
    entry_drop(example_of(e), pin->own[0]);
}

/* ---- cursors ------------------------------------------------------------------------------- */

static int example_cursor_open(struct seam_engine *e, void *snap, struct seam_slice lower,
                               struct seam_slice upper, void **ret_cursor, struct seam_err *err)
{
    struct example *x = example_of(e);
    struct cursor *c = x->os->alloc(x->os->ctx, sizeof(*c));

    if (!c)
        return seam_fail(err, SEAM_E_NOMEM, "example: no memory for a cursor");
    if (snap) {
        c->array = snap;
        atomic_fetch_add(&c->array->refs, 1);
    } else {
        c->array = array_hold(x);
    }
    c->begin = c->at = search(c->array, lower, false);
    c->end = range_end(c->array, upper);
    *ret_cursor = c;
    return SEAM_OK;
}

static int example_cursor_move(struct seam_engine *e, void *cursor, enum seam_move how,
                               struct seam_slice at, struct seam_slice *ret_key,
                               struct seam_err *err)
{
    struct cursor *c = cursor;
    size_t to = c->begin; /* the place moved to, plus one: what lies before begin is begin then */

    (void)e, (void)err;
    switch (how) {
    case SEAM_FIRST:
        to = c->begin + 1;
        break;
    case SEAM_LAST:
        to = c->end;
        break;
    case SEAM_NEXT:
        to = c->at + 2;
        break;
    case SEAM_PREV:
        to = c->at;
        break;
    case SEAM_GE:
        to = search(c->array, at, false) + 1;
        break;
    case SEAM_LE:
        to = search(c->array, at, true);
        break;
    }
    if (to <= c->begin || to > c->end)
        return SEAM_NOTFOUND;
    c->at = to - 1;
    *ret_key = key_of(c->array->at[c->at]);
    return SEAM_OK;
}

static int example_cursor_value(struct seam_engine *e, void *cursor, struct seam_slice *ret,
                                struct seam_err *err)
{
    const struct cursor *c = cursor;

    (void)e, (void)err;
    *ret = value_of(c->array->at[c->at]);
    return SEAM_OK;
}

static void example_cursor_close(struct seam_engine *e, void *cursor)
{
    struct example *x = example_of(e);
    struct cursor *c = cursor;

    array_drop(x, c->array);
    x->os->free(x->os->ctx, c);
}

/* ---- open, close, limits ------------------------------------------------------------------- */

static int example_open(const struct seam_open_args *args, struct seam_engine **ret,
                        struct seam_err *err)
{
    struct example *x = args->os->alloc(args->os->ctx, sizeof(*x));

    if (!x)
        return seam_fail(err, SEAM_E_NOMEM, "example: no memory at open");
    memset(x, 0, sizeof(*x));
    x->os = args->os;
    x->value_max = args->settings[0];
    x->now = array_copy(x, NULL, 0);
    if (!x->now || pthread_mutex_init(&x->lock, NULL) != 0) {
        array_drop(x, x->now);
        args->os->free(args->os->ctx, x);
        return seam_fail(err, SEAM_E_NOMEM, "example: no memory at open");
    }
    *ret = &x->base;
    return SEAM_OK;
}

static int example_close(struct seam_engine *e, struct seam_err *err)
{
    struct example *x = example_of(e);

    (void)err;
    array_drop(x, x->now);
    (void)pthread_mutex_destroy(&x->lock);
    x->os->free(x->os->ctx, x);
    return SEAM_OK;
}

static void example_limits(const struct seam_engine *e, struct seam_limits *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->key = KEY_MAX;
    ret->value = example_of(e)->value_max;
    ret->ops = OPS_MAX;
    ret->bytes = BYTES_MAX;
    ret->range_keys = UINT64_MAX;
    ret->tickets = UINT64_MAX;
    ret->pins = 65536;
    ret->caps = SEAM_CAP_LAZY_RANGE | SEAM_CAP_READ_AFTER_POISON;
    ret->best = SEAM_ACK_NONE;
}

static const char *example_version(void)
{
    return "1";
}

static const struct seam_tuning tunings[] = {
    {"value", SEAM_TUNE_SIZE, "1M", "longest value", 1, 16 << 20, NULL},
    {NULL, SEAM_TUNE_FLAG, NULL, NULL, 0, 0, NULL},
};

static const struct seam_backend example = {
    .abi = SEAM_BACKEND_ABI,
    .flags = SEAM_BACKEND_VOLATILE,
    .format = 1,
    .name = "example",
    .summary = "sorted array in memory, copied by each commit: an example of a plug-in",
    .tunings = tunings,
    .version = example_version,
    .open = example_open,
    .close = example_close,
    .limits = example_limits,
    .commit = example_commit,
    .sync = example_sync,
    .snap_open = example_snap_open,
    .snap_close = example_snap_close,
    .get = example_get,
    .unpin = example_unpin,
    .cursor_open = example_cursor_open,
    .cursor_move = example_cursor_move,
    .cursor_value = example_cursor_value,
    .cursor_close = example_cursor_close,
};

SEAM_API const struct seam_backend *seam_backend_entry(void);
SEAM_API const struct seam_backend *seam_backend_entry(void)
{
    return &example;
}
