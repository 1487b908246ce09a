/* vlog.c - the native engine: its table, options, open, close, prepare, commit and figures.
 *
 * One append-only log holds every commit whole; an ordered index in memory points at it or, for
 * small values, holds them too. Relies on space.c for room, log.c for writing, recover.c for what
 * an open finds, read.c for reading. Keeps true: all that a commit needs is taken in prepare, so
 * that after it only a device can fail the commit. */
#include "log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HUGE_PAGE (UINT64_C(2) << 20)
/* Of direct writes: what most groups need in a store that has little memory, and one huge page. */
#define STAGE_LEAST (VLOG_STREAM_LEAST + 2 * VLOG_BLOCK)
#define STAGE_MOST HUGE_PAGE
#define SEGMENT_LEAST (UINT64_C(64) << 10)
#define NODE_SHARE 96u /* of a tree node, charged per insert while it is only promised */

enum { SET_SEGMENT, SET_THRESHOLD, SET_FILL_WAIT, SET_IO, SET_SPARE, SET_SEGMENTS };

static const struct seam_tuning tunings[] = {
    {"segment", SEAM_TUNE_SIZE, "16M", "size of a log segment", 64u << 10, 1u << 30, NULL},
    {"threshold", SEAM_TUNE_SIZE, "4K",
     "values at least as long stay in the log and are read from it", 0, 256u << 20, NULL},
    {"fill_wait", SEAM_TUNE_COUNT, "80",
     "microseconds a commit waits for others, when three or more threads write; 0: never", 0,
     100000, NULL},
    {"io", SEAM_TUNE_WORD, "auto", "how groups are written: auto probes for direct writes", 0, 0,
     "auto|direct|buffered"},
    {"spare", SEAM_TUNE_COUNT, "2",
     "segments kept ready by a thread; 0: no thread, made when a commit needs one", 0, 64, NULL},
    {"segments", SEAM_TUNE_COUNT, "512", "segment files at most; each is an open file, or two", 8,
     1000000, NULL},
    {NULL, SEAM_TUNE_FLAG, NULL, NULL, 0, 0, NULL},
};

static struct vlog *self(struct seam_engine *e)
{
    return (struct vlog *)(void *)e;
}

static const char *version(void)
{
    return seam_version();
}

/* ---- open and close -------------------------------------------------------------------------- */

static int locks_init(struct vlog *v)
{
    pthread_rwlockattr_t attr;
    int rc = pthread_rwlockattr_init(&attr);
    if (rc != 0)
        return rc;
#ifdef __GLIBC__
    /* Readers come without pause in some uses; a commit must still get its turn. */
    rc = pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
#endif
    if (rc == 0)
        rc = pthread_rwlock_init(&v->lock, &attr);
    (void)pthread_rwlockattr_destroy(&attr);
    if (rc != 0)
        return rc;
    pthread_mutex_t *mutexes[] = {&v->pool, &v->making, &v->space_lock};
    size_t made = 0;
    while (rc == 0 && made < 3)
        rc = pthread_mutex_init(mutexes[made++], NULL);
    made -= rc != 0;
    if (rc == 0)
        rc = pthread_cond_init(&v->wake, NULL);
    if (rc == 0)
        return rc;
    while (made > 0)
        (void)pthread_mutex_destroy(mutexes[--made]);
    (void)pthread_rwlock_destroy(&v->lock);
    return rc;
}

static void locks_destroy(struct vlog *v)
{
    (void)pthread_cond_destroy(&v->wake);
    (void)pthread_mutex_destroy(&v->space_lock);
    (void)pthread_mutex_destroy(&v->making);
    (void)pthread_mutex_destroy(&v->pool);
    (void)pthread_rwlock_destroy(&v->lock);
}

/* The buffer of direct writes: within a huge page if it may be had, since a direct write of single
 * pages goes to the device in as many pieces. */
static int stage_init(struct vlog *v, struct seam_err *err)
{
    uint64_t align = v->memory_cap < 8 * HUGE_PAGE ? VLOG_BLOCK : HUGE_PAGE;
    v->stage_len = v->memory_cap < 8 * HUGE_PAGE ? STAGE_LEAST : STAGE_MOST;
    v->stage_block = v->os->alloc(v->os->ctx, v->stage_len + (size_t)align);
    if (!v->stage_block)
        return seam_fail(err, SEAM_E_NOMEM, "vlog: no memory for the write buffer");
    uintptr_t at = (uintptr_t)v->stage_block;
    v->stage = v->stage_block + (vlog_round(at, align) - at);
    if (align == HUGE_PAGE && v->os->huge)
        v->os->huge(v->os->ctx, v->stage, v->stage_len);
    return SEAM_OK;
}

static void segments_free(struct vlog *v, struct vlog_segment *s)
{
    while (s) {
        struct vlog_segment *next = s->next;
        vlog_segment_free(v, s);
        s = next;
    }
}

static void vlog_free(struct vlog *v)
{
    vlog_maker_stop(v);
    seam_group_close(v->group);
    vlog_map_clear(&v->map);
    segments_free(v, v->end.first);
    segments_free(v, v->end.dead);
    segments_free(v, v->space.dead);
    segments_free(v, v->space.spares);
    seam_ledger_close(v->memory);
    vlog_slab_destroy(&v->slab);
    v->os->free(v->os->ctx, v->stage_block);
    locks_destroy(v);
    v->os->free(v->os->ctx, v);
}

static void settings(struct vlog *v, const struct seam_open_args *args)
{
    v->os = args->os;
    v->dir = args->dir;
    memcpy(v->uuid, args->uuid, 16);
    v->epoch = args->epoch;
    v->read_only = args->read_only;
    v->memory_cap = args->memory;
    v->segment_size = vlog_round(args->settings[SET_SEGMENT], VLOG_BLOCK);
    v->threshold = args->settings[SET_THRESHOLD];
    v->fill_wait_us = (uint32_t)args->settings[SET_FILL_WAIT];
    v->io = (enum vlog_io)args->settings[SET_IO];
    v->spare_target = (uint32_t)args->settings[SET_SPARE];
    v->space.disk_cap = args->disk;
    v->space.files_cap = args->settings[SET_SEGMENTS];
    v->space.next_number = 1;
    /* Under a cap the log has at least eight segments, so that it can give some back. */
    while (v->segment_size > SEGMENT_LEAST && v->segment_size > args->disk / 8)
        v->segment_size = vlog_round(v->segment_size / 2, VLOG_BLOCK);
    if (v->segment_size < SEGMENT_LEAST)
        v->segment_size = SEGMENT_LEAST;
    v->space.next_size = v->segment_size < UINT64_C(1) << 20 ? v->segment_size : UINT64_C(1) << 20;
}

static int start(struct vlog *v, const struct seam_open_args *args, struct seam_err *err)
{
    int rc = vlog_map_init(&v->map, v->os, &v->slab);
    if (rc != SEAM_OK)
        return seam_fail(err, rc, "vlog: no memory for the index");
    rc = seam_ledger_open(v->os, args->memory, &v->memory, err);
    if (rc == SEAM_OK && !v->read_only)
        rc = stage_init(v, err);
    if (rc == SEAM_OK)
        rc = args->create ? vlog_create(v, err) : vlog_recover(v, err);
    if (rc != SEAM_OK || v->read_only)
        return rc;
    struct seam_group_config config = {.run = vlog_group_run,
                                       .ctx = v,
                                       .fill_wait_us = v->fill_wait_us};
    rc = seam_group_open(v->os, &config, &v->group, err);
    return rc == SEAM_OK ? vlog_maker_start(v, err) : rc;
}

static int vlog_open(const struct seam_open_args *args, struct seam_engine **ret,
                     struct seam_err *err)
{
    struct vlog *v = args->os->alloc(args->os->ctx, sizeof *v);
    if (!v)
        return seam_fail(err, SEAM_E_NOMEM, "vlog: no memory at open");
    memset(v, 0, sizeof *v);
    settings(v, args);
    int rc = locks_init(v);
    if (rc == 0 && (rc = vlog_slab_init(&v->slab, v->os, v->memory_cap)) != 0)
        locks_destroy(v);
    if (rc != 0) {
        v->os->free(v->os->ctx, v);
        return seam_fail_os(err, rc, "vlog: cannot make its locks");
    }
    rc = start(v, args, err);
    if (rc != SEAM_OK) {
        vlog_free(v);
        return rc;
    }
    *ret = &v->base;
    return SEAM_OK;
}

static int vlog_close(struct seam_engine *e, struct seam_err *err)
{
    struct vlog *v = self(e);
    int rc = SEAM_OK;
    vlog_maker_stop(v);
    if (!v->read_only && !atomic_load(&v->poisoned)) {
        int os_rc = vlog_beacon(v);
        if (os_rc < 0) {
            rc = SEAM_E_UNKNOWN;
            (void)seam_fail_os(err, -os_rc, "vlog: the last flush of the log failed");
            if (err)
                err->code = rc;
        }
    }
    vlog_free(v);
    return rc;
}

static void limits(const struct seam_engine *e, struct seam_limits *ret)
{
    (void)e;
    ret->key = VLOG_KEY_MAX;
    ret->value = VLOG_VALUE_MAX;
    ret->ops = VLOG_OPS_MAX;
    ret->bytes = VLOG_BYTES_MAX;
    ret->range_keys = UINT64_MAX;
    ret->tickets = UINT64_MAX;
    ret->pins = UINT64_MAX;
    ret->caps = SEAM_CAP_RESERVES | SEAM_CAP_READ_AFTER_POISON;
    ret->best = SEAM_ACK_POWER;
}

/* ---- prepare and abort ----------------------------------------------------------------------- */

struct sizes {
    uint64_t index, large, entries, inserts;
};

static struct sizes measure(uint64_t threshold, const struct seam_commit *c)
{
    struct sizes s = {0, 0, 0, 0};
    for (size_t i = 0; i < c->n; i++) {
        const struct seam_op *op = &c->ops[i];
        uint64_t value = op->head.len + op->body.len;
        bool large = vlog_is_large(threshold, op);
        s.index += VLOG_OP + op->key.len + (large ? 4 : value);
        if (large)
            s.large += value;
        if (op->kind == SEAM_PUT) {
            s.inserts++;
            s.entries += vlog_entry_size(op->key.len, large ? 0 : value);
        }
    }
    return s;
}

/* Beyond this much of options.memory only what a reference does not make smaller is kept in it: a store
 * that is short of memory reads more slowly before it refuses a commit. */
#define LEAN_MEMORY(cap) ((cap) / 8 * 5)
#define LEAN_THRESHOLD UINT64_C(64)

static struct sizes measure_to_fit(const struct vlog *v, const struct seam_commit *c, uint64_t *ret_threshold)
{
    struct sizes s = measure(*ret_threshold = v->threshold, c);
    uint64_t used = atomic_load_explicit(&v->memory_used, memory_order_relaxed);
    if (v->threshold <= LEAN_THRESHOLD || used + s.entries <= LEAN_MEMORY(v->memory_cap))
        return s;
    return measure(*ret_threshold = LEAN_THRESHOLD, c);
}

static void unit_free(struct vlog *v, struct vlog_unit *u)
{
    if (!u)
        return;
    while (u->entries) {
        struct vlog_entry *e = u->entries;
        u->entries = e->next;
        vlog_entry_free(&v->slab, e);
    }
    vlog_buffer_give(&v->slab, u, u->buffer);
}

/* Memory for the entries, in order; what is there of them is u's also when it was not enough. They
 * can be freed at once: their lengths are set. */
static int entries_take(struct vlog *v, const struct seam_commit *c, struct vlog_unit *u)
{
    struct vlog_entry **last = &u->entries;
    int rc = SEAM_OK;
    (void)pthread_mutex_lock(&v->slab.lock);
    for (size_t i = 0; rc == SEAM_OK && i < c->n; i++) {
        const struct seam_op *op = &c->ops[i];
        if (op->kind != SEAM_PUT)
            continue;
        bool large = vlog_is_large(u->threshold, op);
        size_t len = op->head.len + op->body.len;
        struct vlog_entry *e =
            vlog_slab_alloc_locked(&v->slab, vlog_entry_len(op->key.len, large ? 0 : len));
        rc = e ? SEAM_OK : SEAM_E_NOMEM;
        if (!e)
            continue;
        e->key_len = (uint32_t)op->key.len;
        e->value_len = (uint32_t)len;
        e->large = large;
        *last = e;
        last = &e->next;
    }
    (void)pthread_mutex_unlock(&v->slab.lock);
    *last = NULL;
    if (atomic_load_explicit(&v->slab.cold, memory_order_relaxed))
        vlog_maker_wake(v);
    return rc;
}

/* Writes the index section and makes the entries, so that commit only copies and links. */
static int encode(struct vlog *v, const struct seam_commit *c, const struct sizes *s,
                  struct vlog_unit *u)
{
    unsigned char *to = u->frame + VLOG_FRAME;
    uint64_t large_at = VLOG_FRAME + s->index;
    if (entries_take(v, c, u) != SEAM_OK)
        return SEAM_E_NOMEM;
    struct vlog_entry *e = u->entries;
    for (size_t i = 0; i < c->n; i++) {
        const struct seam_op *op = &c->ops[i];
        bool large = vlog_is_large(u->threshold, op);
        uint32_t crc = 0;
        if (large)
            crc = seam_crc32c(seam_crc32c(0, op->head.ptr, op->head.len), op->body.ptr,
                              op->body.len);
        to += vlog_record_encode(op, large, crc, to);
        if (op->kind != SEAM_PUT)
            continue;
        struct vlog_entry *next = e->next;
        vlog_entry_fill(e, op->key, op->head, op->body, large, crc);
        e->next = next;
        if (large) {
            e->offset = (uint32_t)large_at;
            large_at += e->value_len;
            u->any_large = true;
        }
        e = next;
    }
    u->index = (uint32_t)s->index;
    u->ops = (uint32_t)c->n;
    u->body_crc = seam_crc32c(0, u->frame + VLOG_FRAME, u->index);
    return SEAM_OK;
}

static int nodes_take(struct vlog *v, uint64_t inserts)
{
    (void)pthread_mutex_lock(&v->pool);
    uint64_t all = v->promised_inserts + inserts;
    int rc = SEAM_OK;
    /* Enough for every insert to split every level: no need to count. */
    if (v->map.tree.free_nodes < all * (v->map.tree.root->level + 2) + VLOG_LEVELS)
        rc = vlog_tree_fill(&v->map.tree, vlog_tree_need(&v->map.tree, all));
    if (rc == SEAM_OK)
        v->promised_inserts = all;
    (void)pthread_mutex_unlock(&v->pool);
    return rc;
}

static void memory_give(struct vlog *v, const struct vlog_unit *u, bool nodes)
{
    (void)pthread_mutex_lock(&v->pool);
    if (nodes)
        v->promised_inserts -= u->inserts;
    vlog_memory_give(v, u->memory);
    (void)pthread_mutex_unlock(&v->pool);
}

static int no_memory(struct seam_err *err, size_t n)
{
    return seam_fail(err, SEAM_E_NOMEM, "vlog: no memory for a commit of %zu ops", n);
}

/* Deletes take nothing of options.memory, so that a full store can be emptied. */
static int vlog_prepare(struct seam_engine *e, struct seam_commit *c, uint64_t deadline_ns,
                        struct seam_err *err)
{
    struct vlog *v = self(e);
    uint64_t threshold;
    struct sizes s = measure_to_fit(v, c, &threshold);
    uint64_t total = vlog_round(VLOG_FRAME + s.index + s.large, 8), memory = 0;
    if (total > VLOG_FRAME_MAX)
        return seam_fail_limit(err, SEAM_E_TOO_LARGE, "bytes", VLOG_FRAME_MAX, total, SEAM_NO_OP);
    if (s.inserts > 0)
        memory = s.entries + s.index + s.inserts * NODE_SHARE;
    int rc = seam_ledger_take(v->memory, memory, deadline_ns, "memory", err);
    if (rc != SEAM_OK)
        return rc;
    size_t buffer = 0;
    struct vlog_unit *u =
        vlog_buffer_take(&v->slab, sizeof *u + VLOG_FRAME + (size_t)s.index, &buffer);
    if (!u) {
        seam_ledger_give(v->memory, memory, UINT64_MAX);
        return no_memory(err, c->n);
    }
    memset(u, 0, sizeof *u);
    u->buffer = buffer;
    u->memory = memory;
    u->inserts = s.inserts;
    u->threshold = threshold;
    u->total = total;
    bool nodes = false;
    if (encode(v, c, &s, u) != SEAM_OK || nodes_take(v, s.inserts) != SEAM_OK) {
        rc = no_memory(err, c->n);
    } else {
        nodes = true;
        rc = vlog_space_take(v, u, err);
    }
    if (rc != SEAM_OK) {
        memory_give(v, u, nodes);
        unit_free(v, u);
        return rc;
    }
    c->need.priv = u;
    c->need.memory = memory;
    c->need.log = total;
    return SEAM_OK;
}

static void unit_end(struct vlog *v, struct vlog_unit *u)
{
    vlog_space_give(v, u);
    memory_give(v, u, true);
    unit_free(v, u);
}

static void vlog_abort(struct seam_engine *e, struct seam_commit *c)
{
    unit_end(self(e), c->need.priv);
    c->need.priv = NULL;
}

/* ---- commit and sync ------------------------------------------------------------------------- */

static int vlog_commit(struct seam_engine *e, struct seam_commit *c, struct seam_acked *ret,
                       struct seam_err *err)
{
    struct vlog *v = self(e);
    struct seam_member m;
    memset(&m, 0, sizeof m);
    m.commit = c;
    int rc = seam_group_commit(v->group, &m);
    unit_end(v, c->need.priv);
    c->need.priv = NULL;
    if (rc == SEAM_OK)
        *ret = m.acked;
    else if (err)
        *err = m.err;
    return rc;
}

static int sync_run(void *arg, struct seam_err *err)
{
    struct vlog *v = arg;
    int rc = atomic_load(&v->poisoned) ? -1 : vlog_flush(v);
    if (rc >= 0)
        return SEAM_OK;
    (void)seam_fail_os(err, -rc, "vlog: flushing the log failed");
    err->code = SEAM_E_UNKNOWN;
    return SEAM_E_UNKNOWN;
}

static int vlog_sync(struct seam_engine *e, enum seam_ack level, struct seam_err *err)
{
    struct vlog *v = self(e);
    return level < SEAM_ACK_OS ? SEAM_OK : seam_group_exclusive(v->group, sync_run, v, err);
}

/* ---- figures --------------------------------------------------------------------------------- */

static int64_t figure(const _Atomic uint64_t *x)
{
    return (int64_t)atomic_load_explicit(x, memory_order_relaxed);
}

static int stats(struct seam_engine *e, struct seam_stats *ret, struct seam_err *err)
{
    struct vlog *v = self(e);
    (void)err;
    ret->groups = figure(&v->count.groups);
    ret->flushes = figure(&v->count.flushes);
    ret->written_bytes = figure(&v->count.written);
    ret->recovered_commits = figure(&v->count.recovered);
    (void)pthread_mutex_lock(&v->space_lock);
    ret->disk_bytes = (int64_t)v->space.disk;
    (void)pthread_mutex_unlock(&v->space_lock);
    (void)pthread_rwlock_rdlock(&v->lock);
    ret->live_bytes = (int64_t)v->map.live_bytes;
    ret->keys = (int64_t)v->map.keys;
    (void)pthread_mutex_lock(&v->pool);
    ret->memory_bytes = (int64_t)vlog_memory_used(v);
    (void)pthread_mutex_unlock(&v->pool);
    (void)pthread_rwlock_unlock(&v->lock);
    return SEAM_OK;
}

static size_t describe(struct seam_engine *e, char *buf, size_t cap)
{
    struct vlog *v = self(e);
    (void)pthread_mutex_lock(&v->space_lock);
    unsigned spares = v->space.spare_count;
    (void)pthread_mutex_unlock(&v->space_lock);
    int n = snprintf(buf, cap,
                     "vlog: direct block %u\n"
                     "vlog: segments %" PRId64 ", spares %u, rolls %" PRId64 ", made %" PRId64
                     ", recycled %" PRId64 "\n"
                     "vlog: groups %" PRId64 ", direct %" PRId64 ", padding %" PRId64 " bytes\n"
                     "vlog: large values read %" PRId64 "\n"
                     "vlog: written anew at open %" PRId64 " bytes\n",
                     v->block, figure(&v->count.segments), spares, figure(&v->count.rolls),
                     figure(&v->count.made), figure(&v->count.recycled),
                     figure(&v->count.groups), figure(&v->count.direct_groups),
                     figure(&v->count.padding), figure(&v->count.large_reads),
                     figure(&v->count.cut_bytes));
    return n < 0 ? 0 : (size_t)n;
}

const struct seam_backend seam_backend_vlog = {
    .abi = SEAM_BACKEND_ABI,
    .flags = SEAM_BACKEND_CONCURRENT,
    .format = 1,
    .name = "vlog",
    .summary = "one append-only log with an ordered index in memory, Seam's own",
    .tunings = tunings,
    .version = version,
    .open = vlog_open,
    .close = vlog_close,
    .limits = limits,
    .prepare = vlog_prepare,
    .abort = vlog_abort,
    .commit = vlog_commit,
    .sync = vlog_sync,
    .snap_open = vlog_snap_open,
    .snap_close = vlog_snap_close,
    .get = vlog_get,
    .near = vlog_near,
    .unpin = vlog_unpin,
    .cursor_open = vlog_cursor_open,
    .cursor_move = vlog_cursor_move,
    .cursor_value = vlog_cursor_value,
    .cursor_close = vlog_cursor_close,
    .stats = stats,
    .describe = describe,
};
