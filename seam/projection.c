/* projection.c - opening and closing a projection, and its own record.
 *
 * Relies on the journal for streams and record CRCs. Keeps true: the position stored is that of an
 * event of this journal's stream, or the projection does not open. */
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
    bool build = p->meta_key.bytes[p->meta_key.len - 1] == SEAM_TAG_BUILD;
    if (rc == SEAM_OK && (meta.generation == UINT32_MAX || meta.building != build))
        rc = seam_fail(err, SEAM_E_CORRUPT,
                       "the projection's record has an impossible generation, or is another's");
    if (rc == SEAM_OK) {
        seam_copy(name, meta.stream);
        meta.stream.ptr = name;
        *ret = meta;
    }
    seam_unpin(&pin);
    return rc;
}

/* Puts the record; with renewed a table of no key yet, the only one that counts. */
static int store_meta(struct seam_projection *p, const struct seam_fmt_meta *meta, bool renewed,
                      struct seam_err *err)
{
    uint8_t value[SEAM_FMT_META_MAX], mark[SEAM_FMT_SWEEP];
    struct seam_fmt_key build = p->meta_key, sweep;
    size_t len = seam_fmt_meta_write(value, meta);
    struct seam_op ops[3] = {{SEAM_PUT, seam_fmt_slice(&p->meta_key), {value, len}, {NULL, 0}}};
    build.bytes[build.len - 1] = SEAM_TAG_BUILD;
    ops[1] = (struct seam_op){.kind = SEAM_DELETE, .key = seam_fmt_slice(&build)};
    ops[2] = seam_p_sweep_op(p, &sweep, mark);
    int rc = seam_write(p->db, ops, renewed ? 3 : 1, SEAM_ACK_NONE, NULL, err);
    if (rc == SEAM_OK)
        p->meta = *meta;
    return rc;
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
int seam_p_check_position(struct seam_projection *p, struct seam_err *err)
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
        if (meta.generation >= UINT32_MAX - 2)
            return seam_fail(err, SEAM_E_INVALID, "the projection was rebuilt too often");
        meta.generation += 2; /* the next one may be in the building */
        memset(&meta.position, 0, sizeof(meta.position));
        meta.unit_ops = meta.unit_crc = 0;
    }
    if (!fresh && !o->discard && (o->journal == NULL || same)) {
        p->meta = meta;
        return SEAM_OK;
    }
    int rc = store_meta(p, &meta, o->discard, err);
    if (rc == SEAM_E_READ_ONLY && fresh)
        return seam_fail(err, SEAM_E_NO_STORE, "there is no projection of this name in this store");
    return rc;
}

/* A table without the record that goes with it; discarded, the new one is above all that are there. */
static int check_fresh(struct seam_projection *p, bool discard, struct seam_err *err)
{
    struct seam_fmt_key lower, highest;
    struct seam_pin pin = {0};
    seam_p_table(p, 0, &lower);
    seam_p_table(p, UINT32_MAX, &highest);
    struct seam_slice tag = seam_bytes(lower.bytes, lower.len - 4);
    int rc = seam_floor(p->db, NULL, tag, seam_fmt_slice(&highest), &pin, err);
    if (rc == SEAM_OK && pin.key.len < lower.len)
        rc = seam_fail(err, SEAM_E_CORRUPT, "the projection's table has a key that is too short");
    uint32_t last = 0;
    if (rc == SEAM_OK)
        last = seam_get32_be((const uint8_t *)pin.key.ptr + tag.len);
    seam_unpin(&pin);
    if (rc == SEAM_NOTFOUND)
        return SEAM_OK;
    if (rc == SEAM_OK && !discard)
        return seam_fail(err, SEAM_E_CORRUPT,
                         "the projection's record is missing, not its table: rebuild it (discard)");
    if (rc == SEAM_OK && last >= UINT32_MAX - 2)
        return seam_fail(err, SEAM_E_CORRUPT, "the projection's table has an impossible generation");
    p->meta.generation = rc == SEAM_OK ? last + 1 : 0;
    return rc;
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

/* Takes up what an earlier object left: tables to sweep, a table to build. */
static int take_up(struct seam_projection *p, bool discard, struct seam_err *err)
{
    int rc = seam_p_sweep_load(p, err);
    if (rc == SEAM_OK && p->journal != NULL)
        rc = seam_p_build_load(p, err);
    if (rc != SEAM_OK)
        return rc;
    /* Where nothing is fed, no later call goes on with it. */
    rc = discard || p->journal == NULL ? seam_p_sweep_all(p, err) : seam_p_sweep_step(p, err);
    return rc == SEAM_E_READ_ONLY ? SEAM_OK : rc;
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
        rc = seam_p_check_position(p, err);
    }
    if (rc != SEAM_OK)
        return rc;
    seam_p_table(p, p->meta.generation, &p->table);
    rc = take_up(p, o->discard, err);
    return rc == SEAM_OK && p->journal != NULL ? settle(p, err) : rc;
}

void seam_p_free(struct seam_projection *p)
{
    if (p->build != NULL)
        seam_p_free(p->build);
    if (p->journal != NULL)
        seam_j_hold_remove(p->journal, &p->hold);
    seam_journal_reader_close(p->reader);
    p->os->free(p->os->ctx, p->emit.ops);
    p->os->free(p->os->ctx, p->swept.ptr);
    seam_p_arena_free(&p->emit.arena);
    if (p->instant != NULL)
        seam_p_instant_drop(p, p->instant);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->rebuilding);
    seam_p_turn_destroy(&p->writing);
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
    if (pthread_mutex_init(&p->rebuilding, NULL) == 0) {
        if (seam_p_turn_init(&p->writing)) {
            if (init_now(&p->now) == 0)
                return true;
            seam_p_turn_destroy(&p->writing);
        }
        pthread_mutex_destroy(&p->rebuilding);
    }
    pthread_mutex_destroy(&p->lock);
    return false;
}

struct seam_projection *seam_p_new(struct seam_db *db, struct seam_slice name, struct seam_slice prefix,
                                   const struct seam_platform *os)
{
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
    p->batch = 256;
    p->batch_bytes = UINT64_MAX;
    seam_copy(p->name, name);
    p->hold.name = seam_bytes(p->name, name.len);
    p->emit.p = p;
    p->emit.arena.os = os;
    seam_p_emit_reset(&p->emit);
    uint8_t len = (uint8_t)name.len;
    seam_fmt_begin(&p->meta_key, prefix, SEAM_TAG_PROJECTION);
    seam_fmt_add(&p->meta_key, seam_bytes(&len, 1));
    seam_fmt_add(&p->meta_key, name);
    p->meta_key.bytes[p->meta_key.len++] = SEAM_TAG_META;
    return p;
}

static struct seam_projection *new_projection(struct seam_db *db, struct seam_slice name,
                                              const struct seam_projection_options *o)
{
    const struct seam_platform *os = o->platform != NULL ? o->platform : seam_platform_system();
    struct seam_projection *p = seam_p_new(db, name, o->prefix, os);
    if (p == NULL)
        return NULL;
    p->journal = o->journal;
    p->projector = o->projector;
    p->projector_ctx = o->projector_ctx;
    p->batch = o->batch != 0 ? o->batch : p->batch;
    p->build_batch = o->batch; /* 0: its own */
    p->ack = o->ack;
    p->split = o->split_units;
    p->atomic = o->atomic_reads;
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
        seam_p_free(p);
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
    seam_p_free(projection);
    return SEAM_OK;
}
