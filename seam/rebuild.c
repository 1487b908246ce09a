/* rebuild.c - a new table beside the one that is read, and the change from one to the other.
 *
 * Relies on the feed: the new table is fed by it as a projection of its own whose record is the build
 * record. Keeps true: until one commit puts the projection's record in place of the build record,
 * readers have the old table, with its own position; with that commit the old table remains to be
 * swept; a build record is gone on with only while its position is a record of the same stream of the
 * same journal. The new table is never at an earlier event than the old one when it takes over. */
#include "projection_int.h"

enum { BATCH = 4096, BATCH_BYTES = 4 * 1024 * 1024 };

/* ---- the table in the building ----------------------------------------------------------- */

static struct seam_projection *new_build(const struct seam_projection *p, struct seam_err *err)
{
    struct seam_projection *b = seam_p_new(p->db, p->hold.name, seam_bytes(NULL, 0), p->os);
    if (b == NULL) {
        (void)seam_fail(err, SEAM_E_NOMEM, "no memory to rebuild a projection");
        return NULL;
    }
    b->journal = p->journal;
    b->stream = b->hold.stream = p->stream;
    b->projector = p->projector;
    b->projector_ctx = p->projector_ctx;
    b->batch = p->build_batch != 0 ? p->build_batch : BATCH;
    b->batch_bytes = BATCH_BYTES;
    b->ack = p->limits.best >= SEAM_ACK_PROCESS ? SEAM_ACK_PROCESS : SEAM_ACK_NONE;
    b->split = p->split;
    b->one_commit = true;
    b->meta_key = p->meta_key;
    b->meta_key.bytes[b->meta_key.len - 1] = SEAM_TAG_BUILD;
    b->meta = (struct seam_fmt_meta){.building = true};
    return b;
}

/* Fits to what the projection is fed from, and can be gone on with. */
static int check_build(struct seam_projection *p, struct seam_projection *b, struct seam_err *err)
{
    if (memcmp(b->meta.journal, p->meta.journal, sizeof b->meta.journal) != 0 ||
        seam_compare(b->meta.stream, p->meta.stream) != 0 ||
        b->meta.generation <= p->meta.generation)
        return seam_fail(err, SEAM_E_MISMATCH, "the table in the building is of another stream");
    return seam_p_check_position(b, err);
}

/* The build record goes, and what it stood for is swept. */
static int drop(struct seam_projection *p, struct seam_err *err)
{
    struct seam_fmt_key build = p->meta_key, sweep;
    uint8_t mark[SEAM_FMT_SWEEP];
    build.bytes[build.len - 1] = SEAM_TAG_BUILD;
    struct seam_op ops[2] = {{.kind = SEAM_DELETE, .key = seam_fmt_slice(&build)}};
    ops[1] = seam_p_sweep_op(p, &sweep, mark);
    int rc = seam_write(p->db, ops, 2, SEAM_ACK_NONE, NULL, err);
    if (rc != SEAM_OK)
        return rc;
    if (p->build != NULL) {
        seam_p_free(p->build);
        p->build = NULL;
    }
    seam_p_sweep_begin(p);
    return SEAM_OK;
}

int seam_p_build_load(struct seam_projection *p, struct seam_err *err)
{
    struct seam_projection *b = new_build(p, err);
    if (b == NULL)
        return SEAM_E_NOMEM;
    int rc = seam_p_meta(b, NULL, &b->meta, b->stream_name, err);
    if (rc == SEAM_OK) {
        b->hold.sequence = b->meta.position.sequence;
        seam_j_hold_add(p->journal, &b->hold);
        rc = check_build(p, b, err);
    }
    if (rc == SEAM_OK) {
        seam_p_table(b, b->meta.generation, &b->table);
        p->build = b;
        return SEAM_OK;
    }
    seam_p_free(b);
    if (rc == SEAM_E_MISMATCH || rc == SEAM_E_NEEDS_HISTORY)
        rc = drop(p, err);
    return rc == SEAM_NOTFOUND || rc == SEAM_E_READ_ONLY ? SEAM_OK : rc;
}

/* Everything that remains is swept before: so the next generation's table is empty. */
static int begin(struct seam_projection *p, struct seam_err *err)
{
    uint8_t value[SEAM_FMT_META_MAX];
    if (p->meta.generation >= UINT32_MAX - 2)
        return seam_fail(err, SEAM_E_INVALID, "the projection was rebuilt too often");
    struct seam_projection *b = new_build(p, err);
    if (b == NULL)
        return SEAM_E_NOMEM;
    b->meta.generation = p->meta.generation + 1;
    memcpy(b->meta.journal, p->meta.journal, sizeof b->meta.journal);
    seam_copy(b->stream_name, p->meta.stream);
    b->meta.stream = seam_bytes(b->stream_name, p->meta.stream.len);
    seam_p_table(b, b->meta.generation, &b->table);
    seam_j_hold_add(p->journal, &b->hold); /* before it is asked whether all is there yet */
    int rc = seam_p_check_position(b, err);
    if (rc == SEAM_OK) {
        size_t len = seam_fmt_meta_write(value, &b->meta);
        struct seam_op op = {SEAM_PUT, seam_fmt_slice(&b->meta_key), {value, len}, {NULL, 0}};
        rc = seam_write(p->db, &op, 1, SEAM_ACK_NONE, NULL, err);
    }
    if (rc != SEAM_OK) {
        seam_p_free(b);
        return rc;
    }
    p->build = b;
    return SEAM_OK;
}

/* ---- the change -------------------------------------------------------------------------- */

/* The events up to the new position are needed until the change is sure to stay. */
static int settle(struct seam_projection *p, enum seam_ack given, struct seam_err *err)
{
    struct seam_projection *b = p->build;
    int rc = SEAM_OK;
    if (b->hold.sequence < p->hold.sequence) {
        seam_j_hold_remove(p->journal, &p->hold);
        p->hold.sequence = b->hold.sequence;
        seam_j_hold_add(p->journal, &p->hold);
    }
    seam_p_free(b);
    p->build = NULL;
    if (p->db != seam_journal_db(p->journal) && given < SEAM_ACK_POWER &&
        p->limits.best >= SEAM_ACK_POWER)
        rc = seam_sync(p->db, SEAM_ACK_POWER, err);
    if (rc == SEAM_OK)
        seam_p_settled(p, p->meta.position.sequence);
    return rc;
}

/* No read of "now" is under way while it is done: none shows the new table and a later one the old. */
static int commit_change(struct seam_projection *p, struct seam_acked *acked, struct seam_err *err)
{
    struct seam_projection *b = p->build;
    struct seam_fmt_meta meta = b->meta;
    struct seam_fmt_key sweep;
    uint8_t value[SEAM_FMT_META_MAX], mark[SEAM_FMT_SWEEP];
    meta.building = false;
    meta.stream = p->meta.stream;
    size_t len = seam_fmt_meta_write(value, &meta);
    struct seam_op ops[3] = {{SEAM_PUT, seam_fmt_slice(&p->meta_key), {value, len}, {NULL, 0}}};
    ops[1] = (struct seam_op){.kind = SEAM_DELETE, .key = seam_fmt_slice(&b->meta_key)};
    ops[2] = seam_p_sweep_op(p, &sweep, mark);
    pthread_rwlock_wrlock(&p->now);
    int rc = seam_write(p->db, ops, 3, p->ack, acked, err);
    if (rc == SEAM_OK) {
        pthread_mutex_lock(&p->lock);
        p->meta = meta;
        pthread_mutex_unlock(&p->lock);
        p->table = b->table;
    }
    pthread_rwlock_unlock(&p->now);
    return rc;
}

static int change(struct seam_projection *p, bool *ret_ended, struct seam_err *err)
{
    struct seam_acked acked = {0};
    int rc = commit_change(p, &acked, err);
    if (rc != SEAM_OK)
        return rc;
    *ret_ended = true;
    seam_p_unit_end(p); /* a unit that was begun in the old table is whole in the new one */
    seam_journal_reader_close(p->reader);
    p->reader = NULL;
    seam_p_sweep_begin(p);
    return settle(p, acked.given, err);
}

/* ---- one turn ---------------------------------------------------------------------------- */

static int feed(struct seam_projection *p, uint64_t most, uint64_t *applied, struct seam_err *err)
{
    pthread_mutex_lock(&p->lock);
    p->projector_thread = pthread_self();
    pthread_mutex_unlock(&p->lock);
    atomic_store(&p->projecting, true);
    int rc = seam_p_feed(p->build, most, applied, err);
    atomic_store(&p->projecting, false);
    return rc;
}

/* The event that the new table has to have got to: also one that the old one has a part of. */
static uint64_t target(const struct seam_projection *p)
{
    return p->meta.position.sequence + (p->meta.position.parts > 0 ? 1 : 0);
}

/* One commit of the new table, then the change if it is far enough. */
static int turn(struct seam_projection *p, uint64_t most, struct seam_rebuild_progress *at,
                struct seam_err *err)
{
    struct seam_projection *b = p->build;
    uint64_t applied = 0;
    int rc = SEAM_OK;
    bool behind = b->meta.position.sequence < target(p) || b->meta.position.parts > 0;
    if (behind)
        rc = feed(p, most, &applied, err);
    if (rc == SEAM_OK && behind && applied == 0)
        rc = seam_fail(err, SEAM_E_MISMATCH, "the projection is ahead of what may be applied");
    at->applied += applied;
    at->sequence = b->meta.position.sequence;
    at->target = target(p);
    if (rc == SEAM_OK && at->sequence >= at->target && b->meta.position.parts == 0) {
        rc = change(p, &at->ended, err);
        at->target = at->sequence;
    } else if (rc == SEAM_E_NEEDS_HISTORY)
        (void)drop(p, NULL);
    return rc;
}

/* ---- the whole --------------------------------------------------------------------------- */

static int sweep(struct seam_projection *p, struct seam_err *err)
{
    int rc = SEAM_OK;
    bool more = true;
    while (rc == SEAM_OK && more) {
        seam_p_turn_take(&p->writing);
        rc = seam_p_sweep_step(p, err);
        more = p->sweeping;
        seam_p_turn_give(&p->writing);
    }
    return rc;
}

static int rebuild(struct seam_projection *p, uint64_t most, struct seam_rebuild_progress *at,
                   struct seam_err *err)
{
    int rc = SEAM_OK;
    if (p->build == NULL) {
        rc = sweep(p, err);
        if (rc != SEAM_OK)
            return rc;
        seam_p_turn_take(&p->writing);
        rc = begin(p, err);
        seam_p_turn_give(&p->writing);
    }
    while (rc == SEAM_OK && !at->ended && (most == 0 || at->applied < most)) {
        seam_p_turn_take(&p->writing);
        rc = turn(p, most == 0 ? 0 : most - at->applied, at, err);
        seam_p_turn_give(&p->writing);
    }
    return rc == SEAM_OK && at->ended && most == 0 ? sweep(p, err) : rc;
}

int seam_projection_rebuild(struct seam_projection *projection,
                            const struct seam_rebuild_options *options,
                            struct seam_rebuild_progress *ret, struct seam_err *err)
{
    struct seam_rebuild_progress at = {0};
    if (projection->journal == NULL)
        return seam_fail(err, SEAM_E_INVALID, "the projection was opened without a journal");
    pthread_mutex_lock(&projection->rebuilding);
    int rc = rebuild(projection, options != NULL ? options->max_events : 0, &at, err);
    seam_p_turn_take(&projection->writing);
    at.swept = !projection->sweeping;
    seam_p_turn_give(&projection->writing);
    pthread_mutex_unlock(&projection->rebuilding);
    if (ret != NULL)
        *ret = at;
    return rc;
}

int seam_projection_rebuild_drop(struct seam_projection *projection, struct seam_err *err)
{
    pthread_mutex_lock(&projection->rebuilding);
    seam_p_turn_take(&projection->writing);
    int rc = projection->build != NULL ? drop(projection, err) : SEAM_OK;
    seam_p_turn_give(&projection->writing);
    pthread_mutex_unlock(&projection->rebuilding);
    return rc;
}
