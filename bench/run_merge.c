/* run_merge.c - incoming units merged entry by entry into a projection: read, compare stamps, write
 * what is newer.
 *
 * Relies on the corpus' incoming units, some of whose entries are stale. The first turn on a store
 * fills the projection with the bulk-load set, stamp 0. Keeps true: units are made while the clock
 * stands, so that only seam_projection_merge is timed; a sample of merged keys is checked after. */
#include "run.h"

#include <seam/projection.h>

#include <stdlib.h>
#include <string.h>

enum { ENTRIES_A_FILL = 1000, BYTES_A_FILL = 8 << 20 };

static bool merge_open(struct run *r, struct seam_projection **ret)
{
    int rc = seam_projection_open(r->db, seam_bytes("bench", 5), NULL, ret, &r->err);
    return rc == SEAM_OK || run_fail(r, "projection", rc);
}

static bool fill(struct run *r, struct seam_projection *p)
{
    struct run_set set;
    struct seam_entry *entries = calloc(ENTRIES_A_FILL, sizeof(*entries));
    bool ok = entries && run_set_make(r, &set);
    /* Half of a ceiling: the rest is for the stamps and what the projection puts beside them. */
    size_t most = r->limits.ops < ENTRIES_A_FILL ? (size_t)r->limits.ops : ENTRIES_A_FILL;
    uint64_t bytes_most = r->limits.bytes / 2 < BYTES_A_FILL ? r->limits.bytes / 2 : BYTES_A_FILL;
    for (uint64_t i = 0; ok && i < set.n;) {
        uint64_t bytes = 0;
        size_t n = 0;
        for (; n < most && i + n < set.n; n++) {
            uint64_t more = set.ops[i + n].key.len + set.ops[i + n].head.len;
            if (n > 0 && bytes + more > bytes_most)
                break;
            entries[n].key = set.ops[i + n].key;
            entries[n].value = set.ops[i + n].head;
            entries[n].stamp = 0;
            bytes += more;
        }
        int rc = seam_projection_merge(p, entries, n, SEAM_ACK_NONE, NULL, &r->err);
        ok = rc == SEAM_OK || run_fail(r, "fill", rc);
        i += n;
    }
    if (entries)
        run_set_free(&set);
    free(entries);
    int rc = ok ? seam_sync(r->db, r->limits.best, &r->err) : SEAM_OK;
    return ok && (rc == SEAM_OK || run_fail(r, "fill", rc));
}

/* An entry's value in one piece, as seam_projection_merge takes it. */
struct pieces {
    struct seam_entry *entries;
    uint8_t *bytes;
    uint64_t cap;
    size_t max;
};

static bool pieces_make(struct pieces *p, const struct seam_unit *unit)
{
    uint8_t *at;
    if (unit->bytes > p->cap) {
        free(p->bytes);
        p->cap = unit->bytes * 2;
        p->bytes = malloc(p->cap);
    }
    if (unit->n > p->max) {
        free(p->entries);
        p->max = unit->n * 2;
        p->entries = calloc(p->max, sizeof(*p->entries));
    }
    at = p->bytes;
    if (!p->entries || !at)
        return false;
    for (size_t i = 0; i < unit->n; i++) {
        const struct seam_op *op = &unit->ops[i];
        p->entries[i].key = op->key;
        p->entries[i].stamp = unit->stamps[i];
        p->entries[i].value = seam_bytes(at, op->head.len + op->body.len);
        memcpy(at, op->head.ptr, op->head.len);
        if (op->body.len)
            memcpy(at + op->head.len, op->body.ptr, op->body.len);
        at += op->head.len + op->body.len;
    }
    return true;
}

/* After a merge the stored value of each key proves itself and is no older than what came in. */
static void check_unit(struct run *r, struct seam_projection *p, const struct pieces *u, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct seam_pin pin;
        struct seam_slice value;
        uint64_t stamp = 0;
        if (seam_projection_get(p, NULL, u->entries[i].key, &pin, NULL) != SEAM_OK) {
            r->ret->wrong++;
            continue;
        }
        if (!seam_stamp(pin.value, &stamp, &value) || stamp < u->entries[i].stamp ||
            seam_corpus_check_value(r->corpus, u->entries[i].key, value, NULL, NULL) != SEAM_OK)
            r->ret->wrong++;
        seam_unpin(&pin);
    }
}

static bool merge_units(struct run *r, struct seam_projection *p)
{
    struct pieces u = {NULL, NULL, 0, 0};
    uint64_t budget = (uint64_t)(r->turn->seconds * 1e9), warm = budget / 4, spent = 0;
    uint64_t n = (uint64_t)r->turn->round * 1000000;
    bool timed = false, ok = true;
    for (; ok && (!timed || spent < budget); n++) {
        struct seam_unit unit;
        int rc = seam_maker_incoming(r->maker, n, &unit, &r->err);
        if (rc == SEAM_OK && !pieces_make(&u, &unit))
            rc = SEAM_E_NOMEM;
        struct seam_merged merged = {0, 0, {SEAM_ACK_NONE, 0, 0, 0, 0}};
        uint64_t begin = run_now(r);
        if (rc == SEAM_OK)
            rc = seam_projection_merge(p, u.entries, unit.n, SEAM_ACK_NONE, &merged, &r->err);
        uint64_t took = run_now(r) - begin;
        ok = rc == SEAM_OK || run_fail(r, "merge", rc);
        if (n % 64 == 0 && ok)
            check_unit(r, p, &u, unit.n);
        spent += took;
        if (timed && ok) {
            bench_hist_add(&r->ret->latency, took);
            r->ret->operations += unit.n;
            r->ret->user_bytes += (double)unit.bytes;
            if (merged.written && (r->ret->ack_given < 0 || (int)merged.acked.given < r->ret->ack_given))
                r->ret->ack_given = (int)merged.acked.given; /* the weakest */
        } else if (spent > warm) {
            run_meter_begin(r);
            timed = true;
            spent = 0;
        }
    }
    free(u.entries);
    free(u.bytes);
    if (!ok)
        return false;
    run_meter_end(r);
    r->ret->seconds = (double)spent / 1e9; /* of merging alone */
    r->ret->rate = (double)r->ret->operations / r->ret->seconds;
    r->ret->records = (double)r->ret->operations;
    return true;
}

void run_merge(struct run *r)
{
    struct seam_projection *p = NULL;
    bool fresh = false;
    if (!run_open(r, &fresh) || !merge_open(r, &p))
        return;
    if ((!fresh || fill(r, p)) && merge_units(r, p)) {
        int rc = seam_projection_close(p, &r->err);
        if (rc == SEAM_OK)
            (void)run_close(r);
        else
            (void)run_fail(r, "projection", rc);
        return;
    }
    (void)seam_projection_close(p, NULL);
}
