/* log.c - the log's end: groups of commits written, flushed, and then made visible.
 *
 * Relies on engine/group.c for one leader at a time, and on space.c for room. Keeps true:
 *   - what is on the disk is a prefix of the order of commits: a group is written behind the one
 *     before, and one that must be flushed flushes all that is not yet;
 *   - nobody sees a commit before it is as safe as its ack says;
 *   - a flushed block is never written again where writes are direct: a group ends with padding;
 *   - after a write or flush that failed, or did part, nothing is written any more.
 *
 * A group goes out in one write that is direct and synchronous, if it fits the stage and all before it is
 * flushed; a large one in direct writes of a stage each and one flush; else through the page cache straight
 * from the callers' memory. */
#include "log.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* ---- entries and the map -------------------------------------------------------------------- */

void vlog_entry_fill(struct vlog_entry *e, struct seam_slice key, struct seam_slice head,
                     struct seam_slice body, bool large, uint32_t crc)
{
    memset(e, 0, offsetof(struct vlog_entry, bytes));
    atomic_init(&e->holds, 1);
    e->key_len = (uint32_t)key.len;
    e->value_len = (uint32_t)(head.len + body.len);
    e->crc = crc;
    e->large = large;
    memcpy(e->bytes, key.ptr, key.len);
    if (!large && head.len > 0)
        memcpy(e->bytes + key.len, head.ptr, head.len);
    if (!large && body.len > 0)
        memcpy(e->bytes + key.len + head.len, body.ptr, body.len);
}

struct vlog_entry *vlog_entry_new(struct vlog *v, struct seam_slice key, struct seam_slice head,
                                  struct seam_slice body, bool large, uint32_t crc)
{
    size_t in = large ? 0 : head.len + body.len;
    struct vlog_entry *e = vlog_slab_alloc(&v->slab, vlog_entry_len(key.len, in));
    if (e)
        vlog_entry_fill(e, key, head, body, large, crc);
    return e;
}

void vlog_write_lock(struct vlog *v)
{
    (void)pthread_rwlock_wrlock(&v->lock);
    (void)pthread_mutex_lock(&v->pool);
}

void vlog_write_unlock(struct vlog *v)
{
    (void)pthread_mutex_unlock(&v->pool);
    (void)pthread_rwlock_unlock(&v->lock);
}

uint64_t vlog_memory_used(const struct vlog *v)
{
    const struct vlog_tree *t = &v->map.tree;
    uint64_t nodes = t->chunk_bytes / sizeof(struct vlog_chunk) *
                     (sizeof t->chunks->nodes / sizeof t->chunks->nodes[0]);
    return v->map.entry_bytes + (nodes - t->free_nodes) * sizeof(struct vlog_node);
}

void vlog_memory_give(struct vlog *v, uint64_t promised)
{
    uint64_t used = vlog_memory_used(v);
    seam_ledger_give(v->memory, promised, used);
    atomic_store_explicit(&v->memory_used, used, memory_order_relaxed);
}

void vlog_apply(struct vlog *v, uint64_t seq, enum seam_kind kind, struct seam_slice key,
                struct seam_slice end, struct vlog_entry *e)
{
    switch (kind) {
    case SEAM_PUT:
        vlog_map_put(&v->map, seq, e);
        break;
    case SEAM_DELETE:
        vlog_map_delete(&v->map, seq, key);
        break;
    case SEAM_DELETE_RANGE:
        vlog_map_delete_range(&v->map, seq, key, end);
        break;
    }
}

static void apply_unit(struct vlog *v, const struct seam_commit *c, uint64_t seq,
                       uint64_t frame_at)
{
    struct vlog_unit *u = c->need.priv;
    for (size_t i = 0; i < c->n; i++) {
        const struct seam_op *op = &c->ops[i];
        struct vlog_entry *e = NULL;
        if (op->kind == SEAM_PUT) {
            e = u->entries;
            u->entries = e->next;
            e->segment = v->end.last;
            e->offset += (uint32_t)frame_at;
        }
        vlog_apply(v, seq, op->kind, op->key, op->head, e);
    }
}

/* ---- one write ------------------------------------------------------------------------------- */

/* Parts of a write, sent when they are many. */
struct writer {
    struct vlog *v;
    int fd, rc, n;
    uint64_t at, len; /* where the parts begin, and their sum */
};

static void writer_send(struct writer *w)
{
    if (w->rc >= 0 && w->n > 0)
        w->rc = seam_write_all(w->v->os, w->fd, w->v->parts, w->n, w->at);
    w->at += w->len;
    w->len = 0;
    w->n = 0;
}

static void writer_add(struct writer *w, const void *ptr, size_t len)
{
    if (len == 0)
        return;
    if (w->n == VLOG_PARTS)
        writer_send(w);
    w->v->parts[w->n].iov_base = (void *)(uintptr_t)ptr; /* only read from */
    w->v->parts[w->n++].iov_len = len;
    w->len += len;
}

static void header_of_last(struct vlog *v, unsigned char *block)
{
    const struct vlog_segment *s = v->end.last;
    struct vlog_header h = {.id = s->id,
                            .size = s->size,
                            .prev_end = 0,
                            .oldest = v->end.oldest,
                            .epoch = v->epoch,
                            .seq = v->end.seq,
                            .durable = VLOG_BLOCK,
                            .number = s->number};
    for (const struct vlog_segment *p = v->end.first; p != s; p = p->next)
        if (p->next == s)
            h.prev_end = p->end;
    memcpy(h.uuid, v->uuid, 16);
    vlog_header_encode(&h, block);
}

static struct vlog_frame frame_of(const struct vlog *v, enum vlog_kind kind, uint64_t total)
{
    struct vlog_frame f = {.total = (uint32_t)total,
                           .kind = (uint8_t)kind,
                           .seq = v->end.seq,
                           .durable = (uint32_t)v->end.durable,
                           .prev = v->end.prev,
                           .oldest = v->end.oldest};
    return f;
}

/* Gives the unit's frame its place, number and checksum. */
static void seal_unit(struct vlog *v, struct vlog_unit *u, uint64_t at)
{
    struct vlog_frame f = frame_of(v, VLOG_COMMIT, u->total);
    f.seq = ++v->end.seq;
    f.index = u->index;
    f.ops = u->ops;
    f.body_crc = u->body_crc;
    vlog_frame_encode(&f, v->end.last->seed, at, u->frame);
    v->end.prev = f.crc;
}

static const unsigned char padding[VLOG_BLOCK + VLOG_FRAME];

/* Length of a pad frame that moves pos to a multiple of block. */
static uint64_t pad_len(uint64_t pos, uint64_t block)
{
    uint64_t len = vlog_round(pos, block) - pos;
    return len > 0 && len < VLOG_FRAME ? len + block : len;
}

struct plan {
    struct seam_member *first;
    size_t n;
    uint64_t bytes, pad;
    uint64_t inserts;
    bool flush;
    bool direct; /* one write that flushes by itself */
    bool stream; /* writes of a stage each, past the page cache, and one flush */
};

/* Bytes on their way into the log past the page cache: a stage full at a time, each from a boundary of
 * blocks on. */
struct stage {
    struct vlog *v;
    int fd, rc;
    uint64_t at; /* where its first byte goes */
    size_t used;
};

static void stage_send(struct stage *s)
{
    struct iovec part = {s->v->stage, s->used};
    if (s->rc >= 0 && s->used > 0)
        s->rc = seam_write_all(s->v->os, s->fd, &part, 1, s->at);
    s->at += s->used;
    s->used = 0;
}

static void stage_add(struct stage *s, const void *ptr, size_t len)
{
    const unsigned char *from = ptr;
    while (len > 0) {
        size_t some = s->v->stage_len - s->used;
        some = some < len ? some : len;
        memcpy(s->v->stage + s->used, from, some);
        s->used += some;
        from += some;
        len -= some;
        if (s->used == s->v->stage_len)
            stage_send(s);
    }
}

static void stage_unit(struct stage *s, const struct seam_commit *c)
{
    const struct vlog_unit *u = c->need.priv;
    uint64_t len = VLOG_FRAME + u->index;
    stage_add(s, u->frame, (size_t)len);
    for (size_t k = 0; u->any_large && k < c->n; k++) {
        const struct seam_op *op = &c->ops[k];
        if (!vlog_is_large(u->threshold, op))
            continue;
        stage_add(s, op->head.ptr, op->head.len);
        stage_add(s, op->body.ptr, op->body.len);
        len += op->head.len + op->body.len;
    }
    stage_add(s, padding, (size_t)(u->total - len));
}

static int write_direct(struct vlog *v, const struct plan *p)
{
    const struct vlog_segment *last = v->end.last;
    uint64_t at = v->end.pos;
    struct stage s = {v, p->stream ? last->stream_fd : last->direct_fd, 0, v->end.header_due ? 0 : at, 0};
    if (v->end.header_due) {
        unsigned char header[VLOG_BLOCK];
        header_of_last(v, header);
        stage_add(&s, header, sizeof header);
    }
    const struct seam_member *m = p->first;
    for (size_t i = 0; i < p->n; i++, m = m->next) {
        struct vlog_unit *u = m->commit->need.priv;
        seal_unit(v, u, at);
        stage_unit(&s, m->commit);
        at += u->total;
    }
    if (p->pad > 0) {
        unsigned char pad[VLOG_FRAME];
        struct vlog_frame f = frame_of(v, VLOG_PAD, p->pad);
        vlog_frame_encode(&f, v->end.last->seed, at, pad);
        v->end.prev = f.crc;
        stage_add(&s, pad, sizeof pad);
        stage_add(&s, padding, (size_t)p->pad - sizeof pad);
        at += p->pad;
    }
    stage_send(&s);
    v->end.pos = at;
    return s.rc;
}

static int write_buffered(struct vlog *v, const struct plan *p)
{
    unsigned char header[VLOG_BLOCK], pad[VLOG_FRAME];
    uint64_t at = v->end.pos;
    struct writer w = {v, v->end.last->fd, 0, 0, v->end.header_due ? 0 : at, 0};
    if (v->end.header_due) {
        header_of_last(v, header);
        writer_add(&w, header, sizeof header);
    }
    const struct seam_member *m = p->first;
    for (size_t i = 0; i < p->n; i++, m = m->next) {
        struct vlog_unit *u = m->commit->need.priv;
        uint64_t len = VLOG_FRAME + u->index;
        seal_unit(v, u, at);
        writer_add(&w, u->frame, (size_t)len);
        for (size_t k = 0; u->any_large && k < m->commit->n; k++) {
            const struct seam_op *op = &m->commit->ops[k];
            if (!vlog_is_large(u->threshold, op))
                continue;
            writer_add(&w, op->head.ptr, op->head.len);
            writer_add(&w, op->body.ptr, op->body.len);
            len += op->head.len + op->body.len;
        }
        writer_add(&w, padding, (size_t)(u->total - len));
        at += u->total;
    }
    if (p->pad > 0) {
        struct vlog_frame f = frame_of(v, VLOG_PAD, p->pad);
        vlog_frame_encode(&f, v->end.last->seed, at, pad);
        v->end.prev = f.crc;
        writer_add(&w, pad, sizeof pad);
        writer_add(&w, padding, (size_t)p->pad - sizeof pad);
        at += p->pad;
    }
    writer_send(&w);
    v->end.pos = at;
    return w.rc;
}

int vlog_flush(struct vlog *v)
{
    if (v->end.durable == v->end.pos)
        return 0;
    int rc = v->os->sync(v->os->ctx, v->end.last->fd);
    atomic_fetch_add_explicit(&v->count.flushes, 1, memory_order_relaxed);
    if (rc < 0)
        atomic_store(&v->poisoned, true);
    else
        v->end.durable = v->end.pos;
    return rc;
}

/* Writes one frame of no content through the page cache. */
static int write_mark(struct vlog *v, enum vlog_kind kind, uint64_t extra)
{
    unsigned char block[VLOG_BLOCK + VLOG_FRAME];
    struct vlog_frame f = frame_of(v, kind, VLOG_FRAME);
    struct iovec part = {block + VLOG_BLOCK, VLOG_FRAME};
    uint64_t from = v->end.pos;
    f.extra = extra;
    vlog_frame_encode(&f, v->end.last->seed, v->end.pos, block + VLOG_BLOCK);
    if (v->end.header_due) {
        header_of_last(v, block);
        part = (struct iovec){block, sizeof block};
        from = 0;
    }
    atomic_fetch_add_explicit(&v->count.written, part.iov_len, memory_order_relaxed);
    int rc = seam_write_all(v->os, v->end.last->fd, &part, 1, from);
    v->end.header_due = false;
    v->end.prev = f.crc;
    v->end.pos += VLOG_FRAME;
    v->end.marked = f.durable;
    return rc;
}

int vlog_beacon(struct vlog *v)
{
    int rc = vlog_flush(v);
    if (rc < 0 || v->end.header_due || v->end.marked == v->end.durable)
        return rc;
    rc = write_mark(v, VLOG_BEACON, 0);
    if (rc >= 0)
        rc = vlog_flush(v);
    if (rc < 0)
        atomic_store(&v->poisoned, true);
    return rc;
}

/* ---- rolling --------------------------------------------------------------------------------- */

/* Cuts off the oldest segments while nothing in them is alive. What made it dead is in later
 * frames, or in the same, all of them flushed by now. */
static void drop_dead(struct vlog *v)
{
    struct vlog_segment **dead = &v->end.dead;
    while (*dead)
        dead = &(*dead)->next;
    (void)pthread_rwlock_rdlock(&v->lock);
    while (v->end.first != v->end.last && v->end.first->live == 0) {
        struct vlog_segment *s = v->end.first;
        v->end.first = s->next;
        s->next = NULL;
        *dead = s;
        dead = &s->next;
        atomic_fetch_sub_explicit(&v->count.segments, 1, memory_order_relaxed);
    }
    (void)pthread_rwlock_unlock(&v->lock);
    v->end.oldest = v->end.first->id;
}

/* Seals the last segment and goes on in a spare that holds u's frame. */
static int roll(struct vlog *v, struct vlog_unit *u)
{
    bool coarse = v->end.pos / VLOG_COARSE > v->end.groups;
    struct vlog_segment *next = u->own ? u->own : vlog_space_pop(v, u->promised, coarse);
    struct vlog_segment *last = v->end.last;
    if (!next) {
        assert(next); /* the promises of space.c */
        return -ENOSPC;
    }
    u->own = NULL;
    last->end = v->end.pos;
    int rc = vlog_flush(v); /* so that the trailer's mark covers all before it */
    if (rc >= 0)
        rc = write_mark(v, VLOG_TRAILER, vlog_file_mark(next));
    if (rc >= 0)
        rc = vlog_flush(v);
    next->id = last->id + 1;
    next->seed = vlog_seed(v->uuid, next->id);
    next->next = NULL;
    last->next = next;
    if (rc < 0)
        return rc;
    vlog_segment_close_direct(v, last);
    v->end.last = next;
    v->end.pos = v->end.durable = v->end.marked = VLOG_BLOCK;
    v->end.groups = 0;
    v->end.prev = 0;
    v->end.header_due = true;
    atomic_fetch_add_explicit(&v->count.segments, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&v->count.rolls, 1, memory_order_relaxed);
    drop_dead(v);
    return 0;
}

/* ---- groups ---------------------------------------------------------------------------------- */

static uint64_t room(const struct vlog *v)
{
    uint64_t end = v->end.last->size - VLOG_TAIL_ROOM;
    return end > v->end.pos ? end - v->end.pos : 0;
}

/* How the group is written. What goes through the page cache is copied into pages that are new to it, which
 * costs more than the disk takes for it: a large group goes past it, by way of the stage. */
static void plan_mode(struct vlog *v, struct plan *p)
{
    const struct vlog_segment *last = v->end.last;
    uint64_t block = v->block, header = v->end.header_due ? VLOG_BLOCK : 0;
    bool aligned = block > 0 && p->flush && v->end.pos % block == 0;
    if (aligned)
        p->pad = pad_len(v->end.pos + p->bytes, block);
    p->direct = aligned && last->direct_fd >= 0 && v->end.durable == v->end.pos &&
                header + p->bytes + p->pad <= v->stage_len;
    if (p->direct)
        return;
    p->stream = aligned && p->bytes >= VLOG_STREAM_LEAST && vlog_segment_open_stream(v, v->end.last) >= 0;
    if (p->stream)
        return;
    p->pad = 0;
    if ((block > 0 && p->flush) || p->bytes > VLOG_STREAM_LEAST)
        p->pad = pad_len(v->end.pos + p->bytes, VLOG_BLOCK);
}

/* As many members from first on as fit into the last segment; at least one does. */
static struct plan plan_group(struct vlog *v, struct seam_member *first)
{
    struct plan p = {.first = first};
    for (struct seam_member *m = first; m; m = m->next) {
        struct vlog_unit *u = m->commit->need.priv;
        if (p.n > 0 && u->total + VLOG_BLOCK + VLOG_FRAME > room(v) - p.bytes)
            break;
        vlog_space_used(v, u);
        p.bytes += u->total;
        p.inserts += u->inserts;
        p.flush = p.flush || m->commit->ack >= SEAM_ACK_OS;
        p.n++;
        if (p.bytes + VLOG_BLOCK + VLOG_FRAME > room(v))
            break;
    }
    plan_mode(v, &p);
    return p;
}

static int write_plan(struct vlog *v, const struct plan *p)
{
    uint64_t seen = v->end.durable;
    uint64_t bytes = p->bytes + p->pad + (v->end.header_due ? VLOG_BLOCK : 0);
    int rc = p->direct || p->stream ? write_direct(v, p) : write_buffered(v, p);
    v->end.header_due = false;
    v->end.marked = seen;
    v->end.groups++;
    if (rc >= 0 && p->direct) {
        v->end.durable = v->end.pos;
        atomic_fetch_add_explicit(&v->count.flushes, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&v->count.direct_groups, 1, memory_order_relaxed);
    } else if (rc >= 0 && p->flush) {
        rc = vlog_flush(v);
    }
    atomic_fetch_add_explicit(&v->count.groups, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&v->count.written, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&v->count.padding, p->pad, memory_order_relaxed);
    return rc;
}

/* Makes the written group visible and answers its members. */
static void publish(struct vlog *v, const struct plan *p, uint64_t at, uint64_t seq)
{
    struct seam_member *m = p->first;
    vlog_write_lock(v);
    for (size_t i = 0; i < p->n; i++, m = m->next) {
        const struct vlog_unit *u = m->commit->need.priv;
        apply_unit(v, m->commit, ++seq, at);
        at += u->total;
        m->rc = SEAM_OK;
        m->acked.given = p->flush ? SEAM_ACK_POWER : SEAM_ACK_PROCESS;
        m->acked.window_ms = 0;
        m->acked.flushes = p->flush ? 1 : 0;
        m->acked.group = (uint32_t)p->n;
        m->acked.commit_no = seq;
    }
    v->map.now = seq;
    vlog_write_unlock(v);
}

/* Of the members from m on, n were on their way when the device failed; the rest was not begun. */
static void fail_rest(struct seam_member *m, size_t n, int os_rc)
{
    for (; m; m = m->next) {
        if (n == 0) {
            m->rc = seam_fail(&m->err, SEAM_E_POISONED,
                              "vlog: a commit before this one failed: nothing was handed over");
            continue;
        }
        (void)seam_fail_os(&m->err, os_rc < 0 ? -os_rc : 0,
                           "vlog: a write or flush of the log failed: whether this commit holds "
                           "is known after the store is opened again");
        m->err.code = m->rc = SEAM_E_UNKNOWN;
        n--;
    }
}

/* Commits some members from first on; the first that is left, or NULL. */
static struct seam_member *commit_some(struct vlog *v, struct seam_member *first)
{
    struct vlog_unit *u = first->commit->need.priv;
    int rc = 0;
    if (atomic_load(&v->poisoned))
        rc = -EIO;
    else if (u->total + VLOG_BLOCK + VLOG_FRAME > room(v))
        rc = roll(v, u);
    if (rc < 0) {
        atomic_store(&v->poisoned, true);
        fail_rest(first, 1, rc);
        return NULL;
    }
    struct plan p = plan_group(v, first);
    uint64_t at = v->end.pos, seq = v->end.seq;
    rc = write_plan(v, &p);
    if (rc < 0) {
        atomic_store(&v->poisoned, true);
        fail_rest(first, p.n, rc);
        return NULL;
    }
    if (p.flush && v->end.dead) {
        vlog_space_bury(v, v->end.dead);
        v->end.dead = NULL;
    }
    struct seam_member *rest = first;
    for (size_t i = 0; i < p.n; i++)
        rest = rest->next;
    publish(v, &p, at, seq);
    return rest;
}

void vlog_group_run(void *ctx, struct seam_member *first, size_t n)
{
    (void)n;
    while (first)
        first = commit_some(ctx, first);
}
