/* feed.c - feeding a projection: events become ops, ops become commits with a position.
 *
 * Relies on the journal's reader for order and damage. Keeps true: a commit holds whole events and
 * the position of the last of them; after any failure the next catch-up begins right behind the
 * stored position; no event is applied that the journal may still lose. */
#include "projection_int.h"

#include <assert.h>

enum { BLOCK = 64 * 1024 };

/* ---- arena ------------------------------------------------------------------------------- */

void *seam_p_arena_take(struct seam_arena *arena, size_t len, struct seam_err *err)
{
    struct seam_arena_block *block = arena->blocks;
    if (block == NULL || block->cap - block->used < len) {
        size_t cap = len > BLOCK / 4 ? len : BLOCK;
        block = cap < SIZE_MAX - sizeof(*block)
                    ? arena->os->alloc(arena->os->ctx, sizeof(*block) + cap)
                    : NULL;
        if (block == NULL) {
            (void)seam_fail(err, SEAM_E_NOMEM, "no memory for the keys of a commit");
            return NULL;
        }
        block->used = 0;
        block->cap = cap;
        block->next = arena->blocks;
        arena->blocks = block;
    }
    void *at = block->bytes + block->used;
    block->used += len;
    return at;
}

static void free_blocks(struct seam_arena *arena, struct seam_arena_block *block)
{
    while (block != NULL) {
        struct seam_arena_block *next = block->next;
        arena->os->free(arena->os->ctx, block);
        block = next;
    }
}

void seam_p_arena_empty(struct seam_arena *arena)
{
    if (arena->blocks == NULL)
        return;
    free_blocks(arena, arena->blocks->next);
    arena->blocks->next = NULL;
    arena->blocks->used = 0;
}

void seam_p_arena_free(struct seam_arena *arena)
{
    free_blocks(arena, arena->blocks);
    arena->blocks = NULL;
}

/* ---- ops --------------------------------------------------------------------------------- */

void seam_p_emit_reset(struct seam_emit *out)
{
    seam_p_arena_empty(&out->arena);
    out->n = 1;
    out->bytes = 0;
    out->borrowed = out->ranges = false;
}

int seam_p_op(struct seam_emit *out, struct seam_op **ret, struct seam_err *err)
{
    const struct seam_platform *os = out->arena.os;
    if (out->n >= out->cap) {
        size_t cap = out->cap == 0 ? 256 : out->cap * 2;
        struct seam_op *ops = os->alloc(os->ctx, cap * sizeof(*ops));
        if (ops == NULL)
            return seam_fail(err, SEAM_E_NOMEM, "no memory for a commit of %zu ops", cap);
        if (out->cap > 0)
            memcpy(ops, out->ops, out->cap * sizeof(*ops));
        os->free(os->ctx, out->ops);
        out->ops = ops;
        out->cap = cap;
    }
    *ret = &out->ops[out->n++];
    return SEAM_OK;
}

int seam_p_key(struct seam_emit *out, struct seam_slice key, struct seam_slice *ret,
               struct seam_err *err)
{
    const struct seam_fmt_key *table = &out->p->table;
    uint8_t *joined = seam_p_arena_take(&out->arena, table->len + key.len, err);
    if (joined == NULL)
        return SEAM_E_NOMEM;
    memcpy(joined, table->bytes, table->len);
    seam_copy(joined + table->len, key);
    *ret = seam_bytes(joined, table->len + key.len);
    return SEAM_OK;
}

/* A value's part: copied if small, so that it stays when the next event is read. */
static int keep(struct seam_emit *out, struct seam_slice part, struct seam_slice *ret,
                struct seam_err *err)
{
    *ret = part;
    if (part.len == 0)
        return SEAM_OK;
    if (part.len > SEAM_EMIT_COPIED) {
        out->borrowed = true;
        return SEAM_OK;
    }
    void *copy = seam_p_arena_take(&out->arena, part.len, err);
    if (copy == NULL)
        return SEAM_E_NOMEM;
    memcpy(copy, part.ptr, part.len);
    ret->ptr = copy;
    return SEAM_OK;
}

static bool half(struct seam_slice s)
{
    return s.ptr == NULL && s.len > 0;
}

static int check_op(const struct seam_op *op, struct seam_err *err)
{
    if (op->kind != SEAM_PUT && op->kind != SEAM_DELETE && op->kind != SEAM_DELETE_RANGE)
        return seam_fail(err, SEAM_E_INVALID, "the projector emitted an op of no kind");
    if (half(op->key) || half(op->head) || half(op->body))
        return seam_fail(err, SEAM_E_INVALID, "the projector emitted a length without bytes");
    if (op->kind == SEAM_DELETE && (op->head.len > 0 || op->body.len > 0))
        return seam_fail(err, SEAM_E_INVALID, "the projector emitted a delete with a value");
    if (op->kind == SEAM_DELETE_RANGE && (op->body.len > 0 || (op->head.ptr != NULL &&
                                          seam_compare(op->key, op->head) >= 0)))
        return seam_fail(err, SEAM_E_INVALID,
                         "the projector emitted a range that ends where it begins, or before, or has "
                         "a value");
    return SEAM_OK;
}

/* The end of a range: the projection's own key, or the end of its table. */
static int range_end(struct seam_emit *out, struct seam_slice end, struct seam_slice *ret,
                     struct seam_err *err)
{
    if (end.ptr != NULL)
        return seam_p_key(out, end, ret, err);
    struct seam_fmt_key after;
    seam_p_table(out->p, seam_get32_be(out->p->table.bytes + out->p->table.len - 4) + 1, &after);
    uint8_t *copy = seam_p_arena_take(&out->arena, after.len, err);
    if (copy == NULL)
        return SEAM_E_NOMEM;
    memcpy(copy, after.bytes, after.len);
    *ret = seam_bytes(copy, after.len);
    return SEAM_OK;
}

int seam_emit_op(struct seam_emit *out, const struct seam_op *op, struct seam_err *err)
{
    struct seam_op made = {.kind = op->kind};
    int rc = check_op(op, err);
    if (rc == SEAM_OK)
        rc = seam_p_key(out, op->key, &made.key, err);
    if (rc == SEAM_OK && op->kind == SEAM_DELETE_RANGE)
        rc = range_end(out, op->head, &made.head, err);
    else if (rc == SEAM_OK)
        rc = keep(out, op->head, &made.head, err);
    if (rc == SEAM_OK)
        rc = keep(out, op->body, &made.body, err);
    struct seam_op *slot = NULL;
    if (rc == SEAM_OK)
        rc = seam_p_op(out, &slot, err);
    if (rc != SEAM_OK)
        return rc;
    *slot = made;
    out->bytes += made.key.len + made.head.len + made.body.len;
    if (op->kind == SEAM_DELETE_RANGE && (out->p->limits.caps & SEAM_CAP_LAZY_RANGE) == 0)
        out->ranges = true;
    return SEAM_OK;
}

/* ---- commits ----------------------------------------------------------------------------- */

/* A run of events on its way into one commit. */
struct batch {
    uint64_t events;
    size_t n;                      /* ops of whole events, the record counted */
    struct seam_position position; /* of the last of them */
};

int seam_p_commit(struct seam_projection *p, struct seam_op *ops, size_t n,
                  const struct seam_fmt_meta *meta, struct seam_err *err)
{
    uint8_t value[SEAM_FMT_META_MAX];
    struct seam_acked acked;
    size_t len = seam_fmt_meta_write(value, meta);
    ops[0] = (struct seam_op){SEAM_PUT, seam_fmt_slice(&p->meta_key), {value, len}, {NULL, 0}};
    int rc = seam_write(p->db, ops, n, p->ack, &acked, err);
    if (rc != SEAM_OK) {
        if (err != NULL)
            err->op = SEAM_NO_OP;
        return rc;
    }
    pthread_mutex_lock(&p->lock);
    p->meta.position = meta->position;
    p->meta.unit_ops = meta->unit_ops;
    p->meta.unit_crc = meta->unit_crc;
    pthread_mutex_unlock(&p->lock);
    /* In the journal's db a trim comes later in the same order of commits. */
    if (p->db == seam_journal_db(p->journal) || acked.given >= SEAM_ACK_POWER ||
        p->limits.best < SEAM_ACK_POWER)
        seam_p_settled(p, meta->position.sequence);
    return SEAM_OK;
}

/* Commits ops[0..n): the record with b's position, and n - 1 ops. */
static int commit(struct seam_projection *p, const struct batch *b, size_t n, uint64_t *applied,
                  struct seam_err *err)
{
    struct seam_emit *out = &p->emit;
    struct seam_fmt_meta meta = p->meta;
    meta.position = b->position;
    if (out->cap == 0) { /* events that emitted nothing move the position too */
        struct seam_op *slot = NULL;
        int rc = seam_p_op(out, &slot, err);
        if (rc != SEAM_OK)
            return rc;
        out->n = 1;
    }
    int rc = seam_p_commit(p, out->ops, n, &meta, err);
    p->refused = rc == SEAM_OK ? 0 : b->events;
    if (rc != SEAM_OK)
        return rc;
    *applied += b->events;
    p->singly -= p->singly > 0 ? 1 : 0;
    return SEAM_OK;
}

/* The event whose ops begin at op `before`, looked at alone, so that one that no commit can take does
 * not take others with it. *ret_unit: it takes more than one commit, or is begun already. */
static int check_event(struct seam_projection *p, const struct seam_event *event, size_t before,
                       bool *ret_unit, struct seam_err *err)
{
    struct seam_emit *out = &p->emit;
    struct seam_fit fit = {.verdict = SEAM_FITS};
    if (out->n > before)
        seam_p_fit(p, out->ops + before, out->n - before, &fit);
    *ret_unit = p->meta.position.parts > 0 || (fit.verdict == SEAM_SPLITS && p->split);
    if (*ret_unit || fit.verdict == SEAM_FITS || fit.verdict == SEAM_ASK)
        return SEAM_OK;
    int rc = seam_fail(err, SEAM_E_TOO_LARGE,
                       "stream %u, sequence %llu: its %zu ops need %s %llu, one commit takes %llu",
                       event->stream, (unsigned long long)event->sequence, out->n - before, fit.limit,
                       (unsigned long long)fit.got, (unsigned long long)fit.max);
    if (err != NULL) {
        err->limit = fit.limit;
        err->max = fit.max;
        err->got = fit.got;
    }
    return rc;
}

static bool over(const struct seam_projection *p)
{
    uint64_t own = p->meta_key.len + SEAM_FMT_META_MAX;
    uint64_t most = p->limits.bytes < p->batch_bytes ? p->limits.bytes : p->batch_bytes;
    return p->emit.n > p->limits.ops || p->emit.bytes + own > most;
}

/* Projects one event behind those of *b. Commits what has to be committed now. */
static int apply(struct seam_projection *p, const struct seam_event *event, struct batch *b,
                 uint64_t *applied, struct seam_err *err)
{
    struct seam_emit *out = &p->emit;
    size_t before = out->n;
    bool unit = false;
    int rc = p->projector(p->projector_ctx, event, out, err);
    if (rc == SEAM_OK)
        rc = check_event(p, event, before, &unit, err);
    if (rc != SEAM_OK)
        return rc;
    if (b->events > 0 && (over(p) || out->ranges || unit)) {
        rc = commit(p, b, before, applied, err);
        b->events = 0;
        if (rc != SEAM_OK)
            return rc;
        memmove(out->ops + 1, out->ops + before, (out->n - before) * sizeof(*out->ops));
        out->n -= before - 1;
        out->bytes = 0; /* counted again below */
        for (size_t i = 1; i < out->n; i++)
            out->bytes += out->ops[i].key.len + out->ops[i].head.len + out->ops[i].body.len;
        out->borrowed = true;
    }
    if (unit) {
        rc = seam_p_unit(p, event, err);
        *applied += rc == SEAM_OK ? 1 : 0;
        seam_p_emit_reset(out);
        return rc;
    }
    b->events++;
    b->n = out->n;
    b->position.epoch = seam_db_epoch(seam_journal_db(p->journal));
    b->position.sequence = event->sequence;
    b->position.crc = event->crc;
    b->position.part = b->position.parts = 0;
    if (b->events < p->batch && !out->borrowed && !out->ranges && p->singly == 0)
        return SEAM_OK;
    rc = commit(p, b, out->n, applied, err);
    b->events = 0;
    seam_p_emit_reset(out);
    return rc;
}

/* ---- catching up ------------------------------------------------------------------------- */

/* The last sequence that may be applied: in one db a crash keeps a prefix of the commits, so that
 * no position outlives its event; across two it has to be durable first. */
static int reach(struct seam_projection *p, uint64_t *ret, struct seam_err *err)
{
    struct seam_stream_info info;
    int rc = seam_journal_info(p->journal, p->stream, &info, err);
    if (rc == SEAM_OK)
        *ret = seam_journal_db(p->journal) == p->db ? info.last : info.durable;
    return rc;
}

static int catch_up(struct seam_projection *p, uint64_t upto, uint64_t *applied,
                    struct seam_err *err)
{
    struct batch b = {0};
    uint64_t sequence = p->meta.position.sequence, before = *applied;
    int rc = SEAM_OK;
    seam_p_emit_reset(&p->emit);
    if (p->reader == NULL && sequence < upto)
        rc = seam_journal_reader_open(p->journal, p->stream, sequence + 1, NULL, &p->reader, err);
    while (rc == SEAM_OK && sequence < upto && !(p->one_commit && *applied > before)) {
        struct seam_event event;
        rc = seam_journal_reader_next(p->reader, &event, err);
        if (rc == SEAM_OK)
            rc = apply(p, &event, &b, applied, err);
        sequence++;
    }
    /* Whole events before one that failed are committed, so that a repeat does not meet them. */
    if (b.events > 0) {
        int last = commit(p, &b, b.n, applied, rc == SEAM_OK ? err : NULL);
        rc = rc == SEAM_OK ? last : rc;
    }
    seam_p_emit_reset(&p->emit);
    if (rc != SEAM_OK) {
        seam_journal_reader_close(p->reader);
        p->reader = NULL;
    }
    return rc;
}

/* Refusals of which the reason may lie in how much was asked for at once. */
static bool worth_singly(int rc)
{
    return rc == SEAM_E_TOO_LARGE || rc == SEAM_E_NO_SPACE || rc == SEAM_E_NOMEM ||
           rc == SEAM_E_INVALID;
}

void seam_p_settled(struct seam_projection *p, uint64_t sequence)
{
    seam_j_hold_move(p->journal, &p->hold, sequence);
}

int seam_projection_sync(struct seam_projection *projection, struct seam_err *err)
{
    struct seam_position at;
    seam_projection_position(projection, &at);
    int rc = SEAM_OK;
    if (projection->limits.best >= SEAM_ACK_POWER)
        rc = seam_sync(projection->db, SEAM_ACK_POWER, err);
    if (rc == SEAM_OK && projection->journal != NULL)
        seam_p_settled(projection, at.sequence);
    return rc;
}

int seam_p_feed(struct seam_projection *p, uint64_t most, uint64_t *applied, struct seam_err *err)
{
    uint64_t upto, at = p->meta.position.sequence;
    int rc = reach(p, &upto, err);
    if (rc != SEAM_OK)
        return rc;
    if (most != 0 && upto > at && upto - at > most)
        upto = at + most;
    do { /* what several events were refused together may be taken of each */
        p->refused = 0;
        rc = catch_up(p, upto, applied, err);
        p->singly = worth_singly(rc) ? p->refused : 0;
    } while (p->singly > 1);
    p->singly = 0;
    return rc;
}

int seam_projection_catch_up(struct seam_projection *projection, uint64_t max_events,
                             uint64_t *ret_applied, struct seam_err *err)
{
    if (projection->journal == NULL)
        return seam_fail(err, SEAM_E_INVALID, "the projection was opened without a journal");
    uint64_t applied = 0;
    seam_p_turn_take(&projection->writing);
    int rc = seam_p_feed(projection, max_events, &applied, err);
    if (rc == SEAM_OK)
        (void)seam_p_sweep_step(projection, NULL); /* nobody waits for it: the next call tries again */
    seam_p_turn_give(&projection->writing);
    if (ret_applied != NULL)
        *ret_applied = applied;
    return rc;
}
