/* run_append.c - durable commits: messages appended raw or through the journal, or the corpus' units,
 * on an engine or a rail.
 *
 * Relies on the corpus for messages that prove themselves. Keeps true: messages are made before the
 * meter starts, units between commits (their rate and CPU hold that, their latency does not); a commit
 * is timed from the call to its ack. What was acked is looked for in run_check.c. */
#include "run.h"

#include "rails.h"

#include <seam/backend.h>
#include <seam/journal.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void run_key(uint64_t number, uint8_t key[RUN_KEY])
{
    memcpy(key, "message/", 8);
    for (int i = 0; i < 8; i++)
        key[8 + i] = (uint8_t)(number >> (56 - 8 * i));
}

const uint8_t *run_message(const struct run *r, const uint8_t *ring, uint64_t number)
{
    return ring + (number % RUN_RING) * r->turn->value;
}

/* One thread's commit under construction. */
struct batch {
    struct seam_op *ops;
    struct seam_slice *slices; /* for the rails */
    uint8_t (*keys)[RUN_KEY];
    size_t n, n_slices;
    uint64_t bytes, first;
    struct seam_maker *maker;
    uint64_t unit;
};

static bool batch_open(struct run *r, struct batch *b)
{
    size_t n = r->turn->workload == BENCH_UNITS ? r->info.unit_ops_max : r->turn->batch;
    memset(b, 0, sizeof(*b));
    b->ops = calloc(n, sizeof(*b->ops));
    b->slices = calloc(n * 3, sizeof(*b->slices));
    b->keys = calloc(n, sizeof(*b->keys));
    if (r->turn->workload == BENCH_UNITS &&
        seam_maker_open(r->corpus, &b->maker, NULL) != SEAM_OK)
        return false;
    return b->ops && b->slices && b->keys;
}

static void batch_close(struct batch *b)
{
    free(b->ops);
    free(b->slices);
    free(b->keys);
    seam_maker_close(b->maker);
}

static void batch_messages(struct run *r, struct run_append *a, struct batch *b)
{
    b->n = r->turn->batch;
    b->first = atomic_fetch_add_explicit(&a->next, b->n, memory_order_relaxed);
    b->bytes = b->n * (RUN_KEY + (uint64_t)r->turn->value);
    for (size_t i = 0; i < b->n; i++) {
        run_key(b->first + i, b->keys[i]);
        b->ops[i].kind = SEAM_PUT;
        b->ops[i].key = seam_bytes(b->keys[i], RUN_KEY);
        b->ops[i].head = seam_bytes(run_message(r, a->ring, b->first + i), r->turn->value);
        b->slices[i] = b->ops[i].head;
    }
    b->n_slices = b->n;
}

uint64_t run_first_unit(const struct run *r)
{
    return (uint64_t)r->turn->round << 20;
}

static int batch_unit(struct run *r, struct run_append *a, struct batch *b, struct seam_err *err)
{
    struct seam_unit unit;
    b->unit = run_first_unit(r) + atomic_fetch_add_explicit(&a->next, 1, memory_order_relaxed);
    int rc = seam_maker_unit(b->maker, b->unit, &unit, err);
    if (rc != SEAM_OK)
        return rc;
    if (unit.n > r->info.unit_ops_max)
        return seam_fail(err, SEAM_E_INVALID, "unit %llu is larger than the profile says",
                         (unsigned long long)b->unit);
    b->n = unit.n;
    b->bytes = unit.bytes;
    b->n_slices = 0;
    memcpy(b->ops, unit.ops, unit.n * sizeof(*b->ops));
    for (size_t i = 0; i < unit.n; i++) {
        b->slices[b->n_slices++] = unit.ops[i].key;
        if (unit.ops[i].head.len)
            b->slices[b->n_slices++] = unit.ops[i].head;
        if (unit.ops[i].body.len)
            b->slices[b->n_slices++] = unit.ops[i].body;
    }
    return SEAM_OK;
}

static int hand_over(struct run *r, struct run_append *a, struct batch *b, int *ret_given,
                     struct seam_err *err)
{
    struct seam_acked acked = {SEAM_ACK_NONE, 0, 0, 0, 0};
    int rc = SEAM_OK;
    *ret_given = -1;
    if (a->null)
        return SEAM_OK;
    if (a->log) {
        rc = seam_rawlog_append(a->log, b->slices, b->n_slices, NULL, NULL, err);
        *ret_given = SEAM_ACK_POWER;
        return rc;
    }
    if (a->journal) {
        struct seam_append done = {0, 0, {SEAM_ACK_NONE, 0, 0, 0, 0}};
        rc = seam_journal_append(a->journal, a->stream, b->slices, b->n, r->turn->ack, &done, err);
        acked = done.acked;
    } else {
        rc = seam_write(r->db, b->ops, b->n, r->turn->ack, &acked, err);
    }
    *ret_given = (int)acked.given;
    return rc;
}

static void note_acked(struct run_append *a, uint64_t end)
{
    uint64_t seen = atomic_load_explicit(&a->acked, memory_order_relaxed);
    while (seen < end && !atomic_compare_exchange_weak(&a->acked, &seen, end))
        ;
}

static void append_body(struct run_worker *w)
{
    struct run *r = w->r;
    struct run_append *a = w->arg;
    struct batch b;
    struct seam_err err = {0};
    bool more = batch_open(r, &b);
    if (!more)
        (void)run_note_failure(w, SEAM_E_NOMEM, NULL);
    run_ready(w);
    while (more && atomic_load_explicit(w->phase, memory_order_relaxed) != RUN_STOP) {
        int given, rc = SEAM_OK;
        if (b.maker)
            rc = batch_unit(r, a, &b, &err);
        else
            batch_messages(r, a, &b);
        int phase = atomic_load_explicit(w->phase, memory_order_relaxed);
        uint64_t begin = run_now(r);
        if (rc == SEAM_OK)
            rc = hand_over(r, a, &b, &given, &err);
        uint64_t took = run_now(r) - begin;
        if (rc != SEAM_OK) {
            more = run_note_failure(w, rc, &err);
            continue;
        }
        note_acked(a, b.maker ? b.unit - run_first_unit(r) + 1 : b.first + b.n);
        if (phase == RUN_TIMED)
            bench_hist_add(w->hist, took);
        if (atomic_load_explicit(w->phase, memory_order_relaxed) != RUN_TIMED)
            continue;
        run_count(w, 1);
        w->records += b.n;
        w->bytes += b.bytes;
        if (w->ack_given < 0 || given < w->ack_given)
            w->ack_given = given;
    }
    batch_close(&b);
}

static bool journal_open(struct run *r, struct run_append *a)
{
    int rc = seam_journal_open(r->db, NULL, &a->journal, &r->err);
    if (rc == SEAM_OK)
        rc = seam_journal_stream(a->journal, seam_bytes("bench", 5), true, &a->stream, &r->err);
    return rc == SEAM_OK || run_fail(r, "journal", rc);
}

bool run_ring_make(struct run *r, uint8_t **ret)
{
    uint8_t *ring = *ret = malloc((size_t)RUN_RING * r->turn->value);
    if (!ring)
        return run_fail(r, "messages", SEAM_E_NOMEM);
    for (uint64_t i = 0; i < RUN_RING; i++) {
        struct seam_slice message;
        int rc = seam_maker_message(r->maker, i, r->turn->value, &message, &r->err);
        if (rc != SEAM_OK)
            return run_fail(r, "messages", rc);
        memcpy(ring + i * r->turn->value, message.ptr, message.len);
    }
    return true;
}

static bool append_open(struct run *r, struct run_append *a)
{
    bool fresh;
    a->null = strcmp(r->turn->engine, "null") == 0;
    if (a->null)
        return true;
    if (strcmp(r->turn->engine, "rawlog") != 0)
        return run_open(r, &fresh) &&
               (r->turn->workload != BENCH_JOURNAL || journal_open(r, a));
    const struct seam_rawlog_options options = {.region = RUN_LOAD_BYTES};
    if (mkdir(r->turn->dir, 0700) != 0 && errno != EEXIST)
        return run_fail(r, "open", SEAM_E_IO);
    int rc = seam_rawlog_open(r->turn->dir, &options, &a->log, &r->err);
    return rc == SEAM_OK || run_fail(r, "open", rc);
}

void run_append(struct run *r)
{
    struct run_append a;
    struct run_ingest ingest;
    struct seam_usage usage;
    bool beside = r->turn->workload == BENCH_INGEST;
    memset(&a, 0, sizeof(a));
    memset(&ingest, 0, sizeof(ingest));
    if ((r->turn->workload == BENCH_UNITS || run_ring_make(r, &a.ring)) &&
        (!beside || run_set_make(r, &ingest.set))) {
        seam_usage_read(&usage);
        r->rss_before = usage.rss_bytes;
        r->acked = beside ? &a.acked : NULL;
        if (append_open(r, &a) && run_steady(r, a.ring) && (!beside || run_ingest_start(r, &ingest)) &&
            run_threads(r, append_body, &a) && run_ingest_stop(r, &ingest)) {
            r->ret->acks = a.null ? NAN : (double)r->ret->operations;
            (void)run_check_append(r, &a);
        }
    }
    (void)run_ingest_stop(r, &ingest); /* if something failed on the way */
    run_set_free(&ingest.set);
    (void)seam_journal_close(a.journal, NULL);
    if (r->db)
        (void)run_close(r);
    if (a.log) {
        r->ret->disk_bytes = (double)seam_directory_bytes(r->turn->dir);
        seam_rawlog_close(a.log);
        if (r->ret->error_code == SEAM_OK)
            (void)run_check_rawlog(r, &a);
    }
    free(a.ring);
}
