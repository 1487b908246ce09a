/* run_rebuild.c - a projection rebuilt by generation from its journal, both in one db: alone, or while
 * one thread reads the old generation.
 *
 * Relies on the corpus' load set: an event of the journal is one of its entries, which the projector
 * puts into the table. Keeps true: the journal and the old generation are flushed, and the store opened
 * anew, before the clock runs; it runs from the call to the change and one flush at the best ack after
 * it; the old generation is not swept meanwhile; what was built is read whole and held against the corpus. */
#include "run.h"

#include <seam/backend.h>
#include <seam/journal.h>
#include <seam/projection.h>

#include <stdlib.h>
#include <string.h>

enum { APPEND_EVENTS = 512, APPEND_BYTES = 1 << 20, KEY_LENGTH = 2, QUERIES = 16384, CHECK_EVERY = 16 };

struct rebuild {
    struct run *r;
    struct seam_journal *journal;
    struct seam_projection *table;
    uint32_t stream;
    uint64_t events, bytes; /* bytes of keys and values */
};

/* An event is the length of a key, 2 bytes big-endian, the key, and the value. */
static int project(void *ctx, const struct seam_event *event, struct seam_emit *out, struct seam_err *err)
{
    const uint8_t *at = event->data.ptr;
    (void)ctx;
    size_t key = event->data.len < KEY_LENGTH ? SIZE_MAX : (size_t)at[0] << 8 | at[1];
    if (key > event->data.len - KEY_LENGTH)
        return seam_fail(err, SEAM_E_CORRUPT, "event %llu is no entry", (unsigned long long)event->sequence);
    struct seam_op op = {.kind = SEAM_PUT, .key = seam_bytes(at + KEY_LENGTH, key)};
    op.head = seam_bytes(at + KEY_LENGTH + key, event->data.len - KEY_LENGTH - key);
    return seam_emit_op(out, &op, err);
}

/* ---- the store --------------------------------------------------------------------------- */

static bool open_all(struct rebuild *b, bool *ret_fresh)
{
    struct run *r = b->r;
    const struct seam_slice name = seam_bytes("bench", 5);
    struct seam_projection_options options = {.stream = name, .projector = project};
    if (!run_open(r, ret_fresh))
        return false;
    int rc = seam_journal_open(r->db, NULL, &b->journal, &r->err);
    if (rc == SEAM_OK)
        rc = seam_journal_stream(b->journal, name, true, &b->stream, &r->err);
    options.journal = b->journal;
    if (rc == SEAM_OK)
        rc = seam_projection_open(r->db, name, &options, &b->table, &r->err);
    return rc == SEAM_OK || run_fail(r, "projection", rc);
}

static bool close_all(struct rebuild *b)
{
    int rc = seam_projection_close(b->table, &b->r->err);
    int rc_journal = seam_journal_close(b->journal, rc == SEAM_OK ? &b->r->err : NULL);
    b->table = NULL;
    b->journal = NULL;
    if (rc == SEAM_OK)
        rc = rc_journal;
    return (b->r->db == NULL || run_close(b->r)) && (rc == SEAM_OK || run_fail(b->r, "close", rc));
}

/* ---- filling ----------------------------------------------------------------------------- */

/* The events of one append, in one piece of memory. */
struct chunk {
    struct seam_slice events[APPEND_EVENTS];
    uint8_t *bytes;
    uint64_t used;
    size_t n, most;
};

static bool chunk_make(const struct run *r, struct chunk *c)
{
    memset(c, 0, sizeof(*c));
    c->bytes = malloc(APPEND_BYTES + KEY_LENGTH + r->info.key_max + r->info.value_max);
    c->most = r->limits.ops <= APPEND_EVENTS ? (size_t)r->limits.ops - 1 : APPEND_EVENTS;
    return c->bytes != NULL;
}

/* false: it is full. An entry alone is taken whatever its size: the engine may refuse it. */
static bool chunk_add(const struct run *r, struct chunk *c, struct seam_slice key, struct seam_slice value)
{
    uint64_t most = r->limits.bytes / 2 < APPEND_BYTES ? r->limits.bytes / 2 : APPEND_BYTES; /* envelopes */
    uint64_t len = KEY_LENGTH + key.len + value.len;
    uint8_t *at = c->bytes + c->used;
    if (c->n == c->most || (c->n > 0 && c->used + len > most))
        return false;
    at[0] = (uint8_t)(key.len >> 8);
    at[1] = (uint8_t)key.len;
    memcpy(at + KEY_LENGTH, key.ptr, key.len);
    memcpy(at + KEY_LENGTH + key.len, value.ptr, value.len);
    c->events[c->n++] = seam_bytes(at, len);
    c->used += len;
    return true;
}

static int append_chunk(struct rebuild *b, struct chunk *c)
{
    int rc = seam_journal_append(b->journal, b->stream, c->events, c->n, SEAM_ACK_NONE, NULL, &b->r->err);
    c->n = 0;
    c->used = 0;
    return rc;
}

static int append_events(struct rebuild *b, struct chunk *c)
{
    int rc = SEAM_OK;
    for (uint64_t i = 0; rc == SEAM_OK && i < b->events;) {
        struct seam_slice key, value;
        rc = seam_maker_load(b->r->maker, i, &key, &value, &b->r->err);
        if (rc != SEAM_OK)
            break;
        if (chunk_add(b->r, c, key, value)) {
            b->bytes += key.len + value.len;
            i++;
        } else {
            rc = append_chunk(b, c);
        }
    }
    return rc == SEAM_OK && c->n > 0 ? append_chunk(b, c) : rc;
}

/* The journal, flushed, and the old generation. A store that is kept is opened anew. */
static bool fill(struct rebuild *b)
{
    struct run *r = b->r;
    struct chunk *c = malloc(sizeof(*c));
    uint64_t applied = 0;
    bool fresh;
    int rc = c && chunk_make(r, c) ? append_events(b, c) : SEAM_E_NOMEM;
    if (c)
        free(c->bytes);
    free(c);
    if (rc == SEAM_OK)
        rc = seam_journal_sync(b->journal, r->limits.best, &r->err);
    if (rc == SEAM_OK)
        rc = seam_projection_catch_up(b->table, 0, &applied, &r->err);
    if (rc == SEAM_OK)
        rc = seam_sync(r->db, r->limits.best, &r->err);
    if (rc != SEAM_OK)
        return run_fail(r, "fill", rc);
    r->ret->wrong += applied != b->events;
    return r->is_volatile || (close_all(b) && open_all(b, &fresh));
}

/* ---- reads beside it --------------------------------------------------------------------- */

struct reader {
    struct rebuild *b;
    struct seam_slice keys[QUERIES]; /* of entries that are there, by the profile's skew */
    uint8_t *bytes;
    pthread_t thread;
    bool started;
    _Atomic int phase;
    uint64_t reads, wrong; /* reads: that began while timed */
    int code;
    struct seam_err err;
};

static bool reader_make(struct rebuild *b, struct reader *g)
{
    const struct run *r = b->r;
    g->b = b;
    g->bytes = malloc((size_t)QUERIES * r->info.key_max);
    uint8_t *at = g->bytes;
    for (uint64_t n = 0; at && n < QUERIES; n++) {
        struct seam_slice key, value;
        uint64_t i;
        seam_maker_pick(r->maker, (uint64_t)r->turn->round * QUERIES + n, &key, &i);
        if (seam_maker_load(r->maker, i % b->events, &key, &value, NULL) != SEAM_OK)
            return false;
        memcpy(at, key.ptr, key.len);
        g->keys[n] = seam_bytes(at, key.len);
        at += key.len;
    }
    return at != NULL;
}

static void *reader_main(void *arg)
{
    struct reader *g = arg;
    struct run *r = g->b->r;
    volatile unsigned sink = 0;
    for (uint64_t n = 0; g->code == SEAM_OK; n++) {
        struct seam_slice key = g->keys[n % QUERIES];
        struct seam_pin pin;
        int phase = atomic_load_explicit(&g->phase, memory_order_relaxed);
        if (phase == RUN_STOP)
            break;
        uint64_t begin = run_now(r);
        int rc = seam_projection_get(g->b->table, NULL, key, &pin, &g->err);
        if (rc == SEAM_OK)
            sink = sink + run_touch(pin.value);
        uint64_t took = run_now(r) - begin;
        if (rc == SEAM_OK) {
            g->wrong += n % CHECK_EVERY == 0 &&
                        seam_corpus_check_value(r->corpus, key, pin.value, NULL, NULL) != SEAM_OK;
            seam_unpin(&pin);
        } else if (rc == SEAM_NOTFOUND) {
            g->wrong++;
        } else {
            g->code = rc;
        }
        if (phase == RUN_TIMED) {
            bench_hist_add(&r->ret->latency, took);
            g->reads++;
        }
    }
    return NULL;
}

/* Ends the reader, if there is one, and takes over what it saw. */
static bool reader_stop(struct reader *g)
{
    struct run *r = g->b->r;
    atomic_store(&g->phase, RUN_STOP);
    if (!g->started)
        return true;
    pthread_join(g->thread, NULL);
    g->started = false;
    r->ret->beside_reads = (double)g->reads;
    r->ret->wrong += g->wrong;
    if (g->code == SEAM_OK)
        return true;
    r->err = g->err;
    return run_fail(r, "read", g->code);
}

static bool reader_start(struct reader *g)
{
    struct run *r = g->b->r;
    atomic_store(&g->phase, RUN_WARM);
    if (!reader_make(g->b, g) || pthread_create(&g->thread, NULL, reader_main, g) != 0)
        return run_fail(r, "reader", SEAM_E_NOMEM);
    g->started = true;
    r->os->sleep_us(r->os->ctx, (uint64_t)(r->turn->warm_seconds * 1e6));
    return true;
}

/* ---- the turn ---------------------------------------------------------------------------- */

static bool rebuild_timed(struct rebuild *b, struct reader *g)
{
    struct run *r = b->r;
    const struct seam_rebuild_options unswept = {.max_events = UINT64_MAX};
    struct seam_rebuild_progress at = {0};
    run_meter_begin(r);
    atomic_store(&g->phase, RUN_TIMED);
    int rc = seam_projection_rebuild(b->table, &unswept, &at, &r->err);
    if (rc == SEAM_OK)
        rc = seam_sync(r->db, r->limits.best, &r->err);
    run_meter_end(r);
    if (!reader_stop(g) || rc != SEAM_OK)
        return rc == SEAM_OK ? false : run_fail(r, "rebuild", rc);
    r->ret->wrong += !at.ended || at.applied != b->events || at.sequence != b->events;
    r->ret->operations = at.applied;
    r->ret->acks = 1; /* of the flush at the end */
    r->ret->records = (double)at.applied;
    r->ret->user_bytes = (double)b->bytes;
    r->ret->ack_given = (int)r->limits.best;
    r->ret->rate = (double)at.applied / r->ret->seconds;
    return true;
}

/* Each key of the load set comes once, so there is one for each event. */
static bool check_table(struct rebuild *b)
{
    struct run *r = b->r;
    struct run_digest digest = {{0, 0}, 0, 0};
    struct seam_projection_cursor *c = NULL;
    struct seam_slice key, value, none = {NULL, 0};
    uint64_t n = 0;
    int rc = seam_projection_cursor_open(b->table, NULL, none, none, &c, &r->err);
    while (rc == SEAM_OK) {
        rc = seam_projection_cursor_move(c, SEAM_NEXT, none, &key, &r->err);
        if (rc == SEAM_OK)
            rc = seam_projection_cursor_value(c, &value, &r->err);
        if (rc != SEAM_OK)
            break;
        run_digest_add(&digest, key);
        run_digest_add(&digest, value);
        r->ret->wrong += seam_corpus_check_value(r->corpus, key, value, NULL, NULL) != SEAM_OK;
        n++;
    }
    seam_projection_cursor_close(c);
    if (rc < 0)
        return run_fail(r, "check", rc);
    r->ret->wrong += n != b->events;
    run_digest_text(&digest, r->ret->answers);
    return true;
}

void run_rebuild(struct run *r)
{
    struct rebuild b = {.r = r};
    struct reader *g = calloc(1, sizeof(*g));
    bool fresh = false, beside = r->turn->workload == BENCH_REBUILD_READ;
    b.events = r->turn->volume < r->info.keys ? r->turn->volume : r->info.keys;
    if (!g) {
        (void)run_fail(r, "reader", SEAM_E_NOMEM);
        return;
    }
    g->b = &b;
    if (open_all(&b, &fresh) && fill(&b) && (!beside || reader_start(g)) && rebuild_timed(&b, g))
        (void)check_table(&b);
    (void)reader_stop(g); /* if something failed on the way */
    (void)close_all(&b);
    free(g->bytes);
    free(g);
}
