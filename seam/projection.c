/* projection.c - opening and closing a projection, its own record, and the sweep of old tables.
 *
 * Relies on the journal for streams and record CRCs. Keeps true: the position stored is that of an
 * event of this journal's stream, or the projection does not open; a table is swept only after the
 * record that no longer points to it was committed. */
#include "journal_int.h"
#include "projection_int.h"

#include <assert.h>

/* ---- its own record ---------------------------------------------------------------------- */

void seam_p_table(const struct seam_projection *p, uint32_t generation, struct seam_fmt_key *table)
{
    table->len = p->meta_key.len - 1;
    memcpy(table->bytes, p->meta_key.bytes, table->len);
    table->bytes[table->len++] = SEAM_TAG_TABLE;
    seam_fmt_add32(table, generation);
}

int seam_p_meta(const struct seam_projection *p, struct seam_snap *snap, struct seam_fmt_meta *ret,
                uint8_t name[SEAM_STREAM_NAME_MAX], struct seam_err *err)
{
    struct seam_pin pin = {0};
    struct seam_fmt_meta meta;
    int rc = seam_get(p->db, snap, seam_fmt_slice(&p->meta_key), &pin, err);
    if (rc != SEAM_OK)
        return rc;
    rc = seam_fmt_meta_read(pin.value, &meta, err);
    if (rc == SEAM_OK && meta.generation == UINT32_MAX)
        rc = seam_fail(err, SEAM_E_CORRUPT, "the projection's record has an impossible generation");
    if (rc == SEAM_OK) {
        seam_copy(name, meta.stream);
        meta.stream.ptr = name;
        *ret = meta;
    }
    seam_unpin(&pin);
    return rc;
}

static int store_meta(struct seam_projection *p, const struct seam_fmt_meta *meta,
                      struct seam_err *err)
{
    uint8_t value[SEAM_FMT_META_MAX];
    size_t len = seam_fmt_meta_write(value, meta);
    struct seam_op op = {SEAM_PUT, seam_fmt_slice(&p->meta_key), {value, len}, {NULL, 0}};
    int rc = seam_write(p->db, &op, 1, SEAM_ACK_NONE, NULL, err);
    if (rc == SEAM_OK)
        p->meta = *meta;
    return rc;
}

/* ---- sweep ------------------------------------------------------------------------------- */

enum { SWEEP_OPS = 512 };

/* Deletes up to SWEEP_OPS keys; *from is moved behind them. SEAM_NOTFOUND: there was none left. */
static int sweep_step(struct seam_projection *p, struct seam_slice *from, struct seam_slice upper,
                      struct seam_err *err)
{
    struct seam_emit *out = &p->emit;
    struct seam_slice none = {NULL, 0}, key;
    struct seam_cursor *cursor;
    uint64_t bytes = 0;
    size_t n = 0, most = SWEEP_OPS < p->limits.ops ? SWEEP_OPS : (size_t)p->limits.ops;
    int rc = seam_cursor_open(p->db, NULL, *from, upper, &cursor, err);
    if (rc != SEAM_OK)
        return rc;
    while (n < most && (rc = seam_cursor_move(cursor, SEAM_NEXT, none, &key, err)) == SEAM_OK) {
        struct seam_op *op = NULL;
        bytes += key.len;
        if (n > 0 && bytes > p->limits.bytes)
            break;
        uint8_t *copy = seam_p_arena_take(&out->arena, key.len, err);
        rc = copy == NULL ? SEAM_E_NOMEM : seam_p_op(out, &op, err);
        if (rc != SEAM_OK)
            break;
        memcpy(copy, key.ptr, key.len);
        *op = (struct seam_op){.kind = SEAM_DELETE, .key = {copy, key.len}};
        *from = op->key;
        n++;
    }
    seam_cursor_close(cursor);
    if (rc != SEAM_OK && rc != SEAM_NOTFOUND)
        return rc;
    return n == 0 ? SEAM_NOTFOUND : seam_write(p->db, out->ops + 1, n, SEAM_ACK_NONE, NULL, err);
}

int seam_p_sweep(struct seam_projection *p, const struct seam_fmt_key *lower,
                 const struct seam_fmt_key *upper, struct seam_err *err)
{
    int rc = SEAM_OK;
    uint8_t *kept = NULL; /* the last key deleted: outlives the arena's emptying */
    struct seam_slice from = seam_fmt_slice(lower);
    while (rc == SEAM_OK) {
        seam_p_emit_reset(&p->emit);
        struct seam_slice next = from;
        rc = sweep_step(p, &next, seam_fmt_slice(upper), err);
        if (rc != SEAM_OK)
            break;
        uint8_t *copy = p->os->alloc(p->os->ctx, next.len);
        if (copy == NULL) {
            rc = seam_fail(err, SEAM_E_NOMEM, "no memory to sweep a projection");
            break;
        }
        memcpy(copy, next.ptr, next.len);
        p->os->free(p->os->ctx, kept);
        kept = copy;
        from = seam_bytes(kept, next.len);
    }
    p->os->free(p->os->ctx, kept);
    seam_p_emit_reset(&p->emit);
    return rc == SEAM_NOTFOUND ? SEAM_OK : rc;
}

/* Tables that no record points to: what a discard, or a crash during one, has left. */
static int sweep_old(struct seam_projection *p, struct seam_err *err)
{
    struct seam_fmt_key lower, upper;
    seam_p_table(p, 0, &lower);
    seam_p_table(p, p->meta.generation, &upper);
    int rc = seam_p_sweep(p, &lower, &upper, err);
    return rc == SEAM_E_READ_ONLY ? SEAM_OK : rc;
}

/* ---- open -------------------------------------------------------------------------------- */

static int check_options(struct seam_slice name, const struct seam_projection_options *o,
                         struct seam_err *err)
{
    if (name.ptr == NULL || name.len == 0 || name.len > SEAM_PROJECTION_NAME_MAX)
        return seam_fail(err, SEAM_E_INVALID, "a projection's name has 1 to %d bytes, not %zu",
                         SEAM_PROJECTION_NAME_MAX, name.len);
    if (o->prefix.len > SEAM_JOURNAL_PREFIX_MAX || (o->prefix.ptr == NULL && o->prefix.len > 0))
        return seam_fail(err, SEAM_E_INVALID, "a projection's prefix has at most %d bytes, not %zu",
                         SEAM_JOURNAL_PREFIX_MAX, o->prefix.len);
    if (o->journal != NULL && o->projector == NULL)
        return seam_fail(err, SEAM_E_INVALID, "a projection fed from a journal needs a projector");
    return SEAM_OK;
}

static bool is_fed(const struct seam_fmt_meta *meta)
{
    static const uint8_t none[16];
    return memcmp(meta->journal, none, sizeof(none)) != 0;
}

/* The position must be a record of the journal. */
static int check_position(struct seam_projection *p, struct seam_err *err)
{
    const struct seam_position *at = &p->meta.position;
    uint32_t crc = 0;
    int rc = seam_j_record_crc(p->journal, p->stream, at->sequence, &crc, err);
    if (rc == SEAM_NOTFOUND || (rc == SEAM_OK && at->sequence > 0 && crc != at->crc))
        return seam_fail(err, SEAM_E_MISMATCH,
                         "the projection is at sequence %llu, which %s: rebuild it (discard)",
                         (unsigned long long)at->sequence,
                         rc == SEAM_NOTFOUND ? "the journal has not reached"
                                             : "is another event in the journal");
    return rc;
}

/* Makes the record agree with what feeds the projection, where nothing contradicts. */
static int adopt_feed(struct seam_projection *p, const struct seam_projection_options *o,
                      bool fresh, struct seam_err *err)
{
    struct seam_fmt_meta meta = p->meta;
    bool same = false;
    if (o->journal != NULL) {
        const uint8_t *uuid = seam_journal_uuid(o->journal);
        same = memcmp(meta.journal, uuid, 16) == 0 && seam_compare(meta.stream, o->stream) == 0;
        if (is_fed(&meta) && !same && !o->discard)
            return seam_fail(err, SEAM_E_MISMATCH,
                             "the projection is fed from another journal or stream: rebuild it "
                             "(discard)");
        memcpy(meta.journal, uuid, 16);
        memcpy(p->stream_name, o->stream.ptr, o->stream.len);
        meta.stream = seam_bytes(p->stream_name, o->stream.len);
    }
    if (o->discard && !fresh) {
        if (meta.generation >= UINT32_MAX - 1)
            return seam_fail(err, SEAM_E_INVALID, "the projection was rebuilt too often");
        meta.generation++;
        memset(&meta.position, 0, sizeof(meta.position));
        meta.unit_ops = meta.unit_crc = 0;
    }
    if (!fresh && !o->discard && (o->journal == NULL || same)) {
        p->meta = meta;
        return SEAM_OK;
    }
    int rc = store_meta(p, &meta, err);
    if (rc == SEAM_E_READ_ONLY && fresh)
        return seam_fail(err, SEAM_E_NO_STORE, "there is no projection of this name in this store");
    return rc;
}

/* A table without the record that goes with it. */
static int check_fresh(struct seam_projection *p, bool discard, struct seam_err *err)
{
    struct seam_fmt_key lower, upper;
    struct seam_pin pin = {0};
    seam_p_table(p, 0, &lower);
    seam_p_table(p, UINT32_MAX, &upper);
    if (discard)
        return seam_p_sweep(p, &lower, &upper, err);
    struct seam_slice tag = seam_bytes(lower.bytes, lower.len - 4);
    int rc = seam_ceiling(p->db, NULL, tag, tag, &pin, err);
    seam_unpin(&pin);
    if (rc == SEAM_OK)
        return seam_fail(err, SEAM_E_CORRUPT,
                         "the projection's record is missing, not its table: rebuild it (discard)");
    return rc == SEAM_NOTFOUND ? SEAM_OK : rc;
}

/* What was read may be a commit of this db's that no flush has followed yet. */
static int settle(struct seam_projection *p, struct seam_err *err)
{
    int rc = SEAM_OK;
    if (p->db != seam_journal_db(p->journal) && p->limits.best >= SEAM_ACK_POWER)
        rc = seam_sync(p->db, SEAM_ACK_POWER, err);
    if (rc != SEAM_OK && rc != SEAM_E_READ_ONLY)
        return rc;
    return SEAM_OK;
}

static int load(struct seam_projection *p, const struct seam_projection_options *o,
                struct seam_err *err)
{
    if (p->journal != NULL) {
        int rc = seam_journal_stream(p->journal, o->stream, true, &p->stream, err);
        if (rc != SEAM_OK)
            return rc;
    }
    p->meta.stream = seam_bytes(p->stream_name, 0);
    int rc = seam_p_meta(p, NULL, &p->meta, p->stream_name, err);
    bool fresh = rc == SEAM_NOTFOUND;
    if (fresh)
        rc = check_fresh(p, o->discard, err);
    if (rc == SEAM_OK)
        rc = adopt_feed(p, o, fresh, err);
    if (rc == SEAM_OK && p->journal != NULL) {
        /* First, so that what is looked at is not trimmed meanwhile. */
        p->hold.stream = p->stream;
        p->hold.sequence = p->meta.position.sequence;
        seam_j_hold_add(p->journal, &p->hold);
        rc = check_position(p, err);
    }
    if (rc != SEAM_OK)
        return rc;
    seam_p_table(p, p->meta.generation, &p->table);
    if (p->journal != NULL)
        rc = settle(p, err);
    return rc == SEAM_OK ? sweep_old(p, err) : rc;
}

static void free_projection(struct seam_projection *p)
{
    if (p->journal != NULL)
        seam_j_hold_remove(p->journal, &p->hold);
    seam_journal_reader_close(p->reader);
    p->os->free(p->os->ctx, p->emit.ops);
    seam_p_arena_free(&p->emit.arena);
    if (p->instant != NULL)
        seam_p_instant_drop(p, p->instant);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->writing);
    pthread_rwlock_destroy(&p->now);
    p->os->free(p->os->ctx, p);
}

static int init_now(pthread_rwlock_t *lock)
{
    pthread_rwlockattr_t attr;
    int rc = pthread_rwlockattr_init(&attr);
    if (rc != 0)
        return rc;
#ifdef __GLIBC__
    /* Readers may come without pause; a unit must still get to begin. */
    rc = pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
#endif
    if (rc == 0)
        rc = pthread_rwlock_init(lock, &attr);
    (void)pthread_rwlockattr_destroy(&attr);
    return rc;
}

static bool init_locks(struct seam_projection *p)
{
    if (pthread_mutex_init(&p->lock, NULL) != 0)
        return false;
    if (pthread_mutex_init(&p->writing, NULL) == 0) {
        if (init_now(&p->now) == 0)
            return true;
        pthread_mutex_destroy(&p->writing);
    }
    pthread_mutex_destroy(&p->lock);
    return false;
}

static struct seam_projection *new_projection(struct seam_db *db, struct seam_slice name,
                                              const struct seam_projection_options *o)
{
    const struct seam_platform *os = o->platform != NULL ? o->platform : seam_platform_system();
    struct seam_projection *p = os->alloc(os->ctx, sizeof(*p));
    if (p == NULL)
        return NULL;
    memset(p, 0, sizeof(*p));
    if (!init_locks(p)) {
        os->free(os->ctx, p);
        return NULL;
    }
    p->db = db;
    p->os = os;
    seam_db_limits(db, &p->limits);
    p->journal = o->journal;
    p->projector = o->projector;
    p->projector_ctx = o->projector_ctx;
    p->batch = o->batch != 0 ? o->batch : 256;
    p->ack = o->ack;
    p->split = o->split_units;
    p->atomic = o->atomic_reads;
    seam_copy(p->name, name);
    p->hold.name = seam_bytes(p->name, name.len);
    p->emit.p = p;
    p->emit.arena.os = os;
    seam_p_emit_reset(&p->emit);
    uint8_t len = (uint8_t)name.len;
    seam_fmt_begin(&p->meta_key, o->prefix, SEAM_TAG_PROJECTION);
    seam_fmt_add(&p->meta_key, seam_bytes(&len, 1));
    seam_fmt_add(&p->meta_key, name);
    p->meta_key.bytes[p->meta_key.len++] = SEAM_TAG_META;
    return p;
}

int seam_projection_open(struct seam_db *db, struct seam_slice name,
                         const struct seam_projection_options *options,
                         struct seam_projection **ret, struct seam_err *err)
{
    static const struct seam_projection_options defaults;
    const struct seam_projection_options *o = options != NULL ? options : &defaults;
    int rc = check_options(name, o, err);
    if (rc != SEAM_OK)
        return rc;
    struct seam_projection *p = new_projection(db, name, o);
    if (p == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "no memory for a projection");
    rc = load(p, o, err);
    if (rc != SEAM_OK) {
        free_projection(p);
        return rc;
    }
    /* A unit that a crash cut in two: if its event cannot be had now, a later catch-up will end it. */
    if (p->journal != NULL && p->atomic && p->meta.position.parts > 0)
        (void)seam_projection_catch_up(p, 1, NULL, NULL);
    *ret = p;
    return SEAM_OK;
}

int seam_projection_close(struct seam_projection *projection, struct seam_err *err)
{
    if (projection == NULL)
        return SEAM_OK;
    pthread_mutex_lock(&projection->lock);
    uint32_t views = projection->views, cursors = projection->cursors;
    pthread_mutex_unlock(&projection->lock);
    if (views + cursors > 0)
        return seam_fail(err, SEAM_E_BUSY,
                         "the projection has %u open views and %u cursors: close them first", views,
                         cursors);
    free_projection(projection);
    return SEAM_OK;
}
