/* run_check.c - after an append turn: is what was acked there?
 *
 * Relies on the corpus, whose messages and values prove themselves. Keeps true: with no failures every
 * number below `acked` was acked, so one that is missing was lost. The clock no longer runs. */
#include "run.h"

#include "rails.h"

#include <seam/journal.h>

#include <stdlib.h>
#include <string.h>

enum { SAMPLE = 500, EVENTS = 50000, UNITS = 8, UNIT_OPS = 256 };

bool run_check_message(struct run *r, const uint8_t *ring, uint64_t number)
{
    uint8_t key[RUN_KEY];
    struct seam_pin pin;
    run_key(number, key);
    int rc = seam_get(r->db, NULL, seam_bytes(key, RUN_KEY), &pin, &r->err);
    if (rc != SEAM_OK && rc != SEAM_NOTFOUND)
        return run_fail(r, "check", rc);
    if (rc == SEAM_NOTFOUND || pin.value.len != r->turn->value ||
        memcmp(pin.value.ptr, run_message(r, ring, number), r->turn->value) != 0)
        r->ret->wrong++;
    if (rc == SEAM_OK)
        seam_unpin(&pin);
    return true;
}

/* The last SAMPLE messages. */
static bool check_sample(struct run *r, const struct run_append *a, uint64_t end)
{
    for (uint64_t i = end > SAMPLE ? end - SAMPLE : 0; i < end; i++)
        if (!run_check_message(r, a->ring, i))
            return false;
    return true;
}

/* ---- the journal ------------------------------------------------------------------------- */

/* Events [from, from + most): whole, in order, each a message. */
static bool check_events(struct run *r, const struct run_append *a, uint64_t from, uint64_t most,
                         uint64_t last)
{
    struct seam_journal_reader *reader = NULL;
    struct seam_event event;
    uint64_t sequence = from, index;
    int rc = seam_journal_reader_open(a->journal, a->stream, from, NULL, &reader, &r->err);
    for (; rc == SEAM_OK && sequence <= last && sequence < from + most; sequence++) {
        rc = seam_journal_reader_next(reader, &event, &r->err);
        if (rc == SEAM_OK && (event.sequence != sequence || event.data.len != r->turn->value ||
                              seam_corpus_check_message(r->corpus, event.data, &index, NULL) != SEAM_OK))
            r->ret->wrong++;
    }
    seam_journal_reader_close(reader);
    r->ret->wrong += rc == SEAM_NOTFOUND; /* ends before the last acked */
    return rc >= 0 || run_fail(r, "check", rc);
}

/* The first EVENTS events, and the last SAMPLE; the last is the last that was acked. */
static bool check_journal(struct run *r, const struct run_append *a, uint64_t end)
{
    struct seam_stream_info info;
    int rc = seam_journal_info(a->journal, a->stream, &info, &r->err);
    if (rc != SEAM_OK)
        return run_fail(r, "check", rc);
    r->ret->wrong += info.first != 1 || info.last != end;
    return check_events(r, a, 1, EVENTS, end) &&
           (end <= EVENTS || check_events(r, a, end - SAMPLE + 1, SAMPLE, end));
}

/* ---- units ------------------------------------------------------------------------------- */

static bool comes_again(const struct seam_unit *unit, size_t at)
{
    const struct seam_slice key = unit->ops[at].key;
    for (size_t i = at + 1; i < unit->n; i++)
        if (unit->ops[i].kind == SEAM_DELETE_RANGE ||
            (unit->ops[i].key.len == key.len && memcmp(unit->ops[i].key.ptr, key.ptr, key.len) == 0))
            return true;
    return false;
}

static bool is_value(const struct seam_op *op, struct seam_slice value)
{
    const uint8_t *bytes = value.ptr;
    return value.len == op->head.len + op->body.len && memcmp(bytes, op->head.ptr, op->head.len) == 0 &&
           (!op->body.len || memcmp(bytes + op->head.len, op->body.ptr, op->body.len) == 0);
}

/* exact: no commit came after this unit, so its last word on a key is what is there; else what is
 * there, from whichever unit, proves itself. */
static bool check_unit(struct run *r, const struct seam_unit *unit, bool exact)
{
    for (size_t i = unit->n > UNIT_OPS ? unit->n - UNIT_OPS : 0; i < unit->n; i++) {
        const struct seam_op *op = &unit->ops[i];
        struct seam_pin pin;
        if (op->kind == SEAM_DELETE_RANGE || (exact && comes_again(unit, i)))
            continue;
        int rc = seam_get(r->db, NULL, op->key, &pin, &r->err);
        if (rc != SEAM_OK && rc != SEAM_NOTFOUND)
            return run_fail(r, "check", rc);
        bool good = rc == SEAM_NOTFOUND ||
                    seam_corpus_check_value(r->corpus, op->key, pin.value, NULL, NULL) == SEAM_OK;
        if (exact && op->kind == SEAM_PUT)
            good = rc == SEAM_OK && is_value(op, pin.value);
        else if (exact)
            good = rc == SEAM_NOTFOUND;
        r->ret->wrong += !good;
        if (rc == SEAM_OK)
            seam_unpin(&pin);
    }
    return true;
}

static bool check_units(struct run *r, uint64_t end)
{
    for (uint64_t i = end > UNITS ? end - UNITS : 0; i < end; i++) {
        struct seam_unit unit;
        int rc = seam_maker_unit(r->maker, run_first_unit(r) + i, &unit, &r->err);
        if (rc != SEAM_OK)
            return run_fail(r, "check", rc);
        if (!check_unit(r, &unit, r->turn->threads == 1 && i == end - 1))
            return false;
    }
    return true;
}

bool run_check_append(struct run *r, const struct run_append *a)
{
    uint64_t end = atomic_load(&a->acked);
    if (!r->db || r->ret->failures)
        return true;
    if (a->journal)
        return check_journal(r, a, end);
    return r->turn->workload == BENCH_UNITS ? check_units(r, end) : check_sample(r, a, end);
}

/* ---- rawlog ------------------------------------------------------------------------------ */

struct scan {
    struct run *r;
    uint64_t last; /* sequence, 0: none yet */
};

static int scan_message(void *arg, uint64_t seq, struct seam_slice message)
{
    struct scan *s = arg;
    if (s->last && seq != s->last + 1)
        s->r->ret->wrong++;
    if (s->r->turn->workload != BENCH_UNITS &&
        seam_corpus_check_message(s->r->corpus, message, NULL, NULL) != SEAM_OK)
        s->r->ret->wrong++;
    s->last = seq;
    return 0;
}

bool run_check_rawlog(struct run *r, const struct run_append *a)
{
    struct scan scan = {r, 0};
    int rc = seam_rawlog_scan(r->turn->dir, scan_message, &scan, &r->err);
    if (rc != SEAM_OK)
        return run_fail(r, "check", rc);
    if (r->turn->workload != BENCH_UNITS && r->ret->failures == 0 && scan.last != atomic_load(&a->acked))
        r->ret->wrong++;
    return true;
}
