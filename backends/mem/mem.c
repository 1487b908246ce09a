/* mem.c - the reference engine: the smallest complete implementation of <seam/backend.h>.
 *
 * A place to start reading, the oracle of the model tests, and a store for what need not outlive
 * its process. It relies on map.c for the data and keeps true what the contract asks:
 *   - prepare takes the memory of a commit from the ledger and allocates every node the commit can
 *     need, so commit only links nodes and cannot fail; that is what SEAM_CAP_RESERVES means;
 *   - a commit is applied under the exclusive lock and map.now moves once, at its end, so it is all
 *     or nothing to every reader, and the order of the lock is the order of commits;
 *   - readers hold the lock, shared, for the length of one search, never while a pin or a cursor
 *     is in a caller's hands: what they lend is kept by a view or by a hold.
 * It writes no files, so the best ack is NONE. */
#include "map.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define KEY_MAX 65535u
#define VALUE_MAX (UINT64_C(1) << 32)

struct mem {
    struct seam_engine base;
    const struct seam_platform *os;
    struct seam_ledger *memory;
    pthread_rwlock_t lock; /* guards map */
    struct mem_map map;
    uint64_t seed;         /* of the heights, so that no key set chosen outside degrades the list */
    atomic_ullong drawn;
};

struct cursor {
    struct mem_view *view, *own; /* own: to close with the cursor, or NULL */
    struct seam_slice lower, upper;
    struct mem_version *at; /* NULL: stands on nothing */
};

/* What a ticket carries: nodes for op i at [i], both NULL for a delete. */
struct nodes {
    struct mem_key *key;
    struct mem_version *version;
};

static struct mem *mem_of(struct seam_engine *e)
{
    return (struct mem *)(void *)e;
}

static const char *mem_version_text(void)
{
    return seam_version();
}

/* ---- open, close, limits ------------------------------------------------------------------- */

/* Readers come without pause in some uses; a commit must still get its turn. */
static int lock_init(pthread_rwlock_t *lock)
{
    pthread_rwlockattr_t attr;
    int rc = pthread_rwlockattr_init(&attr);

    if (rc != 0)
        return rc;
#ifdef __GLIBC__
    rc = pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
#endif
    if (rc == 0)
        rc = pthread_rwlock_init(lock, &attr);
    pthread_rwlockattr_destroy(&attr);
    return rc;
}

static int mem_open(const struct seam_open_args *args, struct seam_engine **ret,
                    struct seam_err *err)
{
    const struct seam_platform *os = args->os;
    struct mem *m = os->alloc(os->ctx, sizeof(*m));
    int rc = SEAM_E_NOMEM;

    if (!m)
        return seam_fail(err, SEAM_E_NOMEM, "mem: out of memory at open");
    memset(m, 0, sizeof(*m));
    m->os = os;
    atomic_init(&m->drawn, 0);
    if (os->random(os->ctx, &m->seed, sizeof(m->seed)) < 0)
        m->seed = os->now_ns(os->ctx, SEAM_CLOCK_REAL);
    if (mem_map_init(&m->map, os) != SEAM_OK) {
        seam_fail(err, rc, "mem: out of memory at open");
        goto fail;
    }
    rc = seam_ledger_open(os, args->memory, &m->memory, err);
    if (rc != SEAM_OK)
        goto fail;
    rc = lock_init(&m->lock);
    if (rc != 0) {
        rc = seam_fail_os(err, rc, "mem: cannot make a lock");
        goto fail;
    }
    *ret = &m->base;
    return SEAM_OK;
fail:
    seam_ledger_close(m->memory);
    if (m->map.head)
        mem_map_clear(&m->map);
    os->free(os->ctx, m);
    return rc;
}

static int mem_close(struct seam_engine *e, struct seam_err *err)
{
    struct mem *m = mem_of(e);

    (void)err;
    mem_map_clear(&m->map);
    pthread_rwlock_destroy(&m->lock);
    seam_ledger_close(m->memory);
    m->os->free(m->os->ctx, m);
    return SEAM_OK;
}

static void mem_limits(const struct seam_engine *e, struct seam_limits *ret)
{
    (void)e;
    ret->key = KEY_MAX;
    ret->value = VALUE_MAX;
    ret->ops = UINT64_MAX;
    ret->bytes = UINT64_MAX;
    ret->range_keys = UINT64_MAX;
    ret->tickets = UINT64_MAX;
    ret->pins = UINT64_MAX;
    ret->caps = SEAM_CAP_RESERVES | SEAM_CAP_READ_AFTER_POISON;
    ret->best = SEAM_ACK_NONE;
}

/* ---- prepare, abort, commit ---------------------------------------------------------------- */

/* A quarter of the keys reach each next level. */
static uint32_t draw_height(struct mem *m)
{
    uint64_t x = m->seed + UINT64_C(0x9e3779b97f4a7c15) * atomic_fetch_add(&m->drawn, 1);
    uint32_t height = 1;

    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    while (height < MEM_MAX_HEIGHT && (x & 3) == 0) {
        height++;
        x >>= 2;
    }
    return height;
}

static void free_nodes(struct mem *m, struct nodes *nodes, size_t n)
{
    for (size_t i = 0; nodes && i < n; i++) {
        m->os->free(m->os->ctx, nodes[i].key);
        m->os->free(m->os->ctx, nodes[i].version);
    }
    m->os->free(m->os->ctx, nodes);
}

/* The most that the commit can add: every key is taken to be new and of full height, because
 * heights are drawn only after the amount was granted. */
static uint64_t most_memory(const struct seam_commit *c)
{
    uint64_t sum = c->n * sizeof(struct nodes);

    for (size_t i = 0; i < c->n; i++)
        if (c->ops[i].kind == SEAM_PUT)
            sum += mem_key_size(c->ops[i].key.len, MEM_MAX_HEIGHT) +
                   mem_version_size(c->ops[i].head.len + c->ops[i].body.len);
    return sum;
}

static int make_nodes(struct mem *m, const struct seam_commit *c, struct nodes *nodes)
{
    for (size_t i = 0; i < c->n; i++) {
        const struct seam_op *op = &c->ops[i];
        if (op->kind != SEAM_PUT)
            continue;
        nodes[i].key = mem_key_new(m->os, op->key, draw_height(m));
        nodes[i].version = mem_version_new(m->os, op->head, op->body);
        if (!nodes[i].key || !nodes[i].version)
            return SEAM_E_NOMEM;
    }
    return SEAM_OK;
}

static bool has_put(const struct seam_commit *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->ops[i].kind == SEAM_PUT)
            return true;
    return false;
}

/* Deletes take nothing at all, so a store at its cap can always be emptied. */
static int mem_prepare(struct seam_engine *e, struct seam_commit *c, uint64_t deadline_ns,
                       struct seam_err *err)
{
    struct mem *m = mem_of(e);
    struct nodes *nodes;
    uint64_t amount;
    int rc;

    if (!has_put(c))
        return SEAM_OK;
    amount = most_memory(c);
    rc = seam_ledger_take(m->memory, amount, deadline_ns, "memory", err);
    if (rc != SEAM_OK)
        return rc;
    nodes = m->os->alloc(m->os->ctx, c->n * sizeof(*nodes));
    if (nodes)
        memset(nodes, 0, c->n * sizeof(*nodes));
    if (!nodes || make_nodes(m, c, nodes) != SEAM_OK) {
        free_nodes(m, nodes, c->n);
        seam_ledger_give(m->memory, amount, UINT64_MAX);
        return seam_fail(err, SEAM_E_NOMEM, "mem: out of memory for a commit of %zu ops", c->n);
    }
    c->need.memory = amount;
    c->need.priv = nodes;
    return SEAM_OK;
}

static void mem_abort(struct seam_engine *e, struct seam_commit *c)
{
    struct mem *m = mem_of(e);

    if (!c->need.priv)
        return;
    free_nodes(m, c->need.priv, c->n);
    seam_ledger_give(m->memory, c->need.memory, UINT64_MAX);
}

static void apply(struct mem *m, uint64_t at, const struct seam_op *op, struct nodes *nodes)
{
    switch (op->kind) {
    case SEAM_PUT:
        if (mem_map_put(&m->map, at, nodes->key, nodes->version))
            nodes->key = NULL;
        nodes->version = NULL;
        break;
    case SEAM_DELETE:
        mem_map_delete(&m->map, at, op->key);
        break;
    case SEAM_DELETE_RANGE:
        mem_map_delete_range(&m->map, at, op->key, op->head);
        break;
    }
}

static int mem_commit(struct seam_engine *e, struct seam_commit *c, struct seam_acked *ret,
                      struct seam_err *err)
{
    struct mem *m = mem_of(e);
    struct nodes *nodes = c->need.priv;
    uint64_t at;

    (void)err;
    pthread_rwlock_wrlock(&m->lock);
    at = m->map.now + 1;
    for (size_t i = 0; i < c->n; i++)
        apply(m, at, &c->ops[i], nodes ? &nodes[i] : NULL);
    m->map.now = at;
    seam_ledger_give(m->memory, c->need.memory, m->map.used);
    pthread_rwlock_unlock(&m->lock);
    free_nodes(m, nodes, c->n);
    ret->given = SEAM_ACK_NONE;
    ret->flushes = 0;
    ret->group = 1;
    ret->commit_no = at;
    return SEAM_OK;
}

static int mem_sync(struct seam_engine *e, enum seam_ack level, struct seam_err *err)
{
    (void)e, (void)level, (void)err;
    return SEAM_OK;
}

/* ---- snapshots and pins -------------------------------------------------------------------- */

static int mem_snap_open(struct seam_engine *e, void **ret_snap, struct seam_err *err)
{
    struct mem *m = mem_of(e);
    struct mem_view *fresh = m->os->alloc(m->os->ctx, sizeof(*fresh));

    if (!fresh)
        return seam_fail(err, SEAM_E_NOMEM, "mem: out of memory for a snapshot");
    pthread_rwlock_wrlock(&m->lock);
    *ret_snap = mem_view_open(&m->map, &fresh);
    pthread_rwlock_unlock(&m->lock);
    m->os->free(m->os->ctx, fresh);
    return SEAM_OK;
}

static void mem_snap_close(struct seam_engine *e, void *snap)
{
    struct mem *m = mem_of(e);

    pthread_rwlock_wrlock(&m->lock);
    mem_view_close(&m->map, snap);
    seam_ledger_give(m->memory, 0, m->map.used);
    pthread_rwlock_unlock(&m->lock);
}

static uint64_t instant(const struct mem *m, const void *snap)
{
    return snap ? ((const struct mem_view *)snap)->at : m->map.now;
}

static int lend(struct mem_version *version, struct seam_pin *ret)
{
    if (!version)
        return SEAM_NOTFOUND;
    mem_version_hold(version);
    ret->value = mem_version_bytes(version);
    ret->own[0] = version;
    return SEAM_OK;
}

static int mem_get(struct seam_engine *e, void *snap, struct seam_slice key, struct seam_pin *ret,
                   struct seam_err *err)
{
    struct mem *m = mem_of(e);
    int rc;

    (void)err;
    pthread_rwlock_rdlock(&m->lock);
    rc = lend(mem_find(&m->map, instant(m, snap), key), ret);
    pthread_rwlock_unlock(&m->lock);
    return rc;
}

static int mem_near(struct seam_engine *e, void *snap, struct seam_slice lower,
                    struct seam_slice upper, enum seam_move how, struct seam_slice at,
                    struct seam_pin *ret, struct seam_err *err)
{
    struct mem *m = mem_of(e);
    struct mem_version *version;
    int rc;

    (void)err;
    pthread_rwlock_rdlock(&m->lock);
    version = mem_find_near(&m->map, instant(m, snap), lower, upper, how, at);
    rc = lend(version, ret);
    if (rc == SEAM_OK)
        ret->key = mem_key_bytes(version->key);
    pthread_rwlock_unlock(&m->lock);
    return rc;
}

static void mem_unpin(struct seam_engine *e, struct seam_pin *pin)
{
    struct mem *m = mem_of(e);

    if (!mem_version_release(pin->own[0]))
        return;
    pthread_rwlock_wrlock(&m->lock);
    mem_version_remove(&m->map, pin->own[0]);
    seam_ledger_give(m->memory, 0, m->map.used);
    pthread_rwlock_unlock(&m->lock);
}

/* ---- cursors ------------------------------------------------------------------------------- */

static int mem_cursor_open(struct seam_engine *e, void *snap, struct seam_slice lower,
                           struct seam_slice upper, void **ret_cursor, struct seam_err *err)
{
    struct mem *m = mem_of(e);
    struct cursor *c = m->os->alloc(m->os->ctx, sizeof(*c));
    void *own = NULL;

    if (!c)
        return seam_fail(err, SEAM_E_NOMEM, "mem: out of memory for a cursor");
    if (!snap) {
        int rc = mem_snap_open(e, &own, err);
        if (rc != SEAM_OK) {
            m->os->free(m->os->ctx, c);
            return rc;
        }
    }
    memset(c, 0, sizeof(*c));
    c->view = snap ? snap : own;
    c->own = own;
    c->lower = lower;
    c->upper = upper;
    *ret_cursor = c;
    return SEAM_OK;
}

/* The cursor's view keeps the version it stands on, and a version keeps its key; so no hold. */
static int mem_cursor_move(struct seam_engine *e, void *cursor, enum seam_move how,
                           struct seam_slice at, struct seam_slice *ret_key, struct seam_err *err)
{
    struct mem *m = mem_of(e);
    struct cursor *c = cursor;

    (void)err;
    assert((how != SEAM_NEXT && how != SEAM_PREV) || c->at);
    pthread_rwlock_rdlock(&m->lock);
    if (how == SEAM_NEXT)
        c->at = mem_find_next(c->view->at, c->at, c->upper);
    else if (how == SEAM_PREV)
        c->at = mem_find_prev(c->view->at, c->at, c->lower);
    else
        c->at = mem_find_near(&m->map, c->view->at, c->lower, c->upper, how, at);
    pthread_rwlock_unlock(&m->lock);
    if (!c->at)
        return SEAM_NOTFOUND;
    *ret_key = mem_key_bytes(c->at->key);
    return SEAM_OK;
}

static int mem_cursor_value(struct seam_engine *e, void *cursor, struct seam_slice *ret,
                            struct seam_err *err)
{
    const struct cursor *c = cursor;

    (void)e, (void)err;
    assert(c->at);
    *ret = mem_version_bytes(c->at);
    return SEAM_OK;
}

static void mem_cursor_close(struct seam_engine *e, void *cursor)
{
    struct mem *m = mem_of(e);
    struct cursor *c = cursor;

    if (c->own)
        mem_snap_close(e, c->own);
    m->os->free(m->os->ctx, c);
}

/* ---- stats --------------------------------------------------------------------------------- */

static int mem_stats(struct seam_engine *e, struct seam_stats *ret, struct seam_err *err)
{
    struct mem *m = mem_of(e);

    (void)err;
    pthread_rwlock_rdlock(&m->lock);
    ret->groups = (int64_t)m->map.now;
    ret->keys = (int64_t)m->map.keys;
    ret->live_bytes = (int64_t)m->map.live_bytes;
    ret->memory_bytes = (int64_t)m->map.used;
    pthread_rwlock_unlock(&m->lock);
    ret->flushes = 0;
    ret->written_bytes = 0;
    ret->disk_bytes = 0;
    ret->recovered_commits = 0;
    return SEAM_OK;
}

static size_t mem_describe(struct seam_engine *e, char *buf, size_t cap)
{
    struct mem *m = mem_of(e);
    uint64_t used;
    int n;

    pthread_rwlock_rdlock(&m->lock);
    used = m->map.used;
    pthread_rwlock_unlock(&m->lock);
    n = snprintf(buf, cap, "mem: %llu bytes in nodes, %llu promised to tickets\n",
                 (unsigned long long)used, (unsigned long long)seam_ledger_promised(m->memory));
    return n < 0 ? 0 : (size_t)n;
}

extern const struct seam_backend seam_backend_mem;
const struct seam_backend seam_backend_mem = {
    .abi = SEAM_BACKEND_ABI,
    .flags = SEAM_BACKEND_VOLATILE | SEAM_BACKEND_CONCURRENT,
    .format = 1,
    .name = "mem",
    .summary = "skip list in memory, the reference; keeps nothing after close",
    .version = mem_version_text,
    .open = mem_open,
    .close = mem_close,
    .limits = mem_limits,
    .prepare = mem_prepare,
    .abort = mem_abort,
    .commit = mem_commit,
    .sync = mem_sync,
    .snap_open = mem_snap_open,
    .snap_close = mem_snap_close,
    .get = mem_get,
    .near = mem_near,
    .unpin = mem_unpin,
    .cursor_open = mem_cursor_open,
    .cursor_move = mem_cursor_move,
    .cursor_value = mem_cursor_value,
    .cursor_close = mem_cursor_close,
    .stats = mem_stats,
    .describe = mem_describe,
};
