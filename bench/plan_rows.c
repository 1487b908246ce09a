/* plan_rows.c - a plan into rows: which engine does which workload with how many threads, and what is
 * left out and why; and how long that will take.
 *
 * Keeps true: rows of one block differ in the engine only. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

/* Timed acks of one turn of append-under-ingest, unless it is a quick one. */
enum { INGEST_ACKS = 100000 };

/* A rebuild has as many events as the load set has keys, but no more than this. */
enum { REBUILD_EVENTS = 200000, REBUILD_EVENTS_QUICK = 50000, REBUILD_BYTES = 256 << 20 };

struct rows {
    struct plan_row *at;
    size_t n, blocks;
};

/* The most ops that a commit of the row can have. */
static uint64_t ops_of(const struct plan *p, const struct plan_row *row)
{
    enum bench_workload w = row->turn.workload;
    return w == BENCH_UNITS || w == BENCH_MERGE ? p->unit_ops : row->turn.batch;
}

static void leave_out(const struct plan *p, const struct plan_engine *e, struct plan_row *row)
{
    enum seam_ack ack = SEAM_ACK_LEVEL(row->turn.ack);
    bool durable = bench_workload_durable(row->turn.workload);
    uint64_t ops = ops_of(p, row);
    if (bench_workload_opens(row->turn.workload) && e->is_volatile)
        snprintf(row->left_out, sizeof(row->left_out), "keeps nothing: left out");
    if (e->rail || !e->opened)
        return;
    if (durable && ack > e->limits.best)
        snprintf(row->left_out, sizeof(row->left_out), "cannot give %s: left out (--ack %s)",
                 seam_ack_name(ack), seam_ack_name(e->limits.best));
    else if (ops > e->limits.ops)
        snprintf(row->left_out, sizeof(row->left_out),
                 "takes at most %llu ops a commit, of %llu: left out",
                 (unsigned long long)e->limits.ops, (unsigned long long)ops);
    else if (durable && row->turn.batch * (uint64_t)(row->turn.value + RUN_KEY) > e->limits.bytes)
        snprintf(row->left_out, sizeof(row->left_out),
                 "takes at most %llu bytes a commit: left out (--batch, --value)",
                 (unsigned long long)e->limits.bytes);
}

static uint64_t rebuild_events(const struct plan *p)
{
    uint64_t n = REBUILD_BYTES / (p->average ? p->average : 1), most = p->quick ? REBUILD_EVENTS_QUICK
                                                                                : REBUILD_EVENTS;
    n = n < 1 ? 1 : n < most ? n : most;
    return n < p->keys ? n : p->keys;
}

static uint64_t volume(const struct plan *p, enum bench_workload w)
{
    if (bench_workload_rebuilds(w))
        return rebuild_events(p);
    return w == BENCH_REOPEN_AFTER_KILL ? p->unflushed : p->quick ? 0 : INGEST_ACKS;
}

static void add_block(const struct plan *p, struct rows *rows, enum bench_workload w,
                      uint64_t threads, uint64_t batch, uint32_t ack)
{
    bool durable = bench_workload_durable(w);
    for (size_t i = 0; i < p->n_engines; i++) {
        const struct plan_engine *e = &p->engines[i];
        if (e->rail && (!durable || w == BENCH_INGEST ||
                        (strcmp(e->spec, "rawlog") == 0 && ack != SEAM_ACK_POWER)))
            continue;
        if (!rows->at) {
            rows->n++;
            continue;
        }
        struct plan_row *row = &rows->at[rows->n++];
        row->block = rows->blocks;
        row->engine = i;
        row->turn.workload = w;
        row->turn.seed = p->seed;
        row->turn.threads = (uint32_t)threads;
        row->turn.batch = (uint32_t)batch;
        row->turn.ack = ack;
        row->turn.value = p->value;
        row->turn.volume = volume(p, w);
        row->turn.ingest = p->ingest;
        row->turn.steady = durable && !e->rail && w != BENCH_JOURNAL ? p->steady : 0;
        row->turn.keys = p->keys;
        row->turn.seconds = p->seconds;
        row->turn.warm_seconds = p->warm_seconds;
        if (strcmp(e->spec, "null") == 0 && p->quick) { /* millions a second: soon told */
            row->turn.seconds = p->seconds / 5;
            row->turn.warm_seconds = p->warm_seconds / 5;
        }
        snprintf(row->turn.engine, sizeof(row->turn.engine), "%s", e->spec);
        snprintf(row->turn.profile, sizeof(row->turn.profile), "%s", p->profile);
        leave_out(p, e, row);
    }
    rows->blocks++;
}

static void add_all(const struct plan *p, struct rows *rows)
{
    rows->n = rows->blocks = 0;
    for (int w = 0; w < BENCH_FILL; w++) {
        if (!p->workloads[w])
            continue;
        if (!bench_workload_durable((enum bench_workload)w)) {
            add_block(p, rows, (enum bench_workload)w, 1, 1, SEAM_ACK_NONE);
            continue;
        }
        bool batched = bench_workload_batched((enum bench_workload)w);
        size_t batches = batched ? p->n_batches : 1;
        for (size_t a = 0; a < p->n_acks; a++)
            for (size_t b = 0; b < batches; b++)
                for (size_t t = 0; t < (w == BENCH_INGEST ? 1 : p->n_threads); t++)
                    add_block(p, rows, (enum bench_workload)w, p->threads[t],
                              batched ? p->batches[b] : 1, p->acks[a]);
    }
}

struct plan_row *plan_rows(const struct plan *p, size_t *ret_n, size_t *ret_blocks)
{
    struct rows rows = {NULL, 0, 0};
    add_all(p, &rows);
    rows.at = calloc(rows.n ? rows.n : 1, sizeof(*rows.at));
    if (!rows.at)
        return NULL;
    add_all(p, &rows);
    *ret_n = rows.n;
    *ret_blocks = rows.blocks;
    return rows.at;
}

double plan_estimate(const struct plan *p, const struct plan_row *rows, size_t n,
                     size_t *ret_turns)
{
    const double start = 0.25, fill = (double)p->keys * (4e-6 + (double)p->average / 150e6);
    double seconds = 0;
    *ret_turns = 0;
    for (size_t i = 0; i < n; i++) {
        const struct plan_row *row = &rows[i];
        double turn = start;
        if (row->left_out[0])
            continue;
        *ret_turns += p->runs;
        turn += (double)row->turn.steady / 100e6;
        if (row->turn.workload == BENCH_LOAD)
            turn += fill;
        else if (row->turn.workload == BENCH_INGEST)
            turn += fill / 2 + row->turn.seconds + (double)row->turn.volume / 4000;
        else if (row->turn.workload == BENCH_REOPEN_AFTER_KILL)
            turn += (double)row->turn.volume / 50e6;
        else if (bench_workload_rebuilds(row->turn.workload)) /* three passes: journal, table, rebuild */
            turn += (double)row->turn.volume * 3 * (4e-6 + (double)p->average / 150e6);
        else
            turn += row->turn.seconds + row->turn.warm_seconds;
        if (bench_workload_reads(row->turn.workload) || row->turn.workload == BENCH_MERGE)
            seconds += p->engines[row->engine].is_volatile ? fill * p->runs : fill;
        seconds += turn * p->runs;
    }
    return seconds;
}
