/* report_rebuild.c - the table of rebuilds: alone, beside a reader, and what the reader got.
 *
 * Keeps true: what reads cost a rebuild is the ratio of both, paired round by round; '-' is what is not
 * known. */
#include "plan.h"

#include <math.h>

static const struct plan_row *find(const struct report *r, enum bench_workload w, size_t engine)
{
    for (size_t i = 0; i < r->n_rows; i++)
        if (r->rows[i].turn.workload == w && r->rows[i].engine == engine)
            return &r->rows[i];
    return NULL;
}

static void rate_cells(struct bench_table *t, const struct plan_row *row)
{
    char a[BENCH_TEXT], b[BENCH_TEXT], c[BENCH_TEXT];
    struct bench_spread rate;
    if (!row->sum.done) {
        bench_table_cell(t, "%s", row->left_out[0] ? "left out" : row->rounds ? "failed" : "-");
        bench_table_cell(t, "%s", "");
        return;
    }
    bench_spread(row->rate, row->rounds, &rate);
    bench_table_cell(t, "%s", bench_text_count(rate.median, a));
    bench_table_cell(t, "[%s..%s]", bench_text_count(rate.low, b), bench_text_count(rate.high, c));
}

static void beside_cells(struct bench_table *t, const struct plan_row *alone, const struct plan_row *row)
{
    char a[BENCH_TEXT];
    struct bench_spread ratio = {NAN, NAN, NAN, 0};
    rate_cells(t, row);
    if (alone)
        bench_paired(row->rate, alone->rate, row->rounds < alone->rounds ? row->rounds : alone->rounds,
                     &ratio);
    bench_table_cell(t, "%s%s", bench_text_ratio(ratio.median, a),
                     alone && bench_straddles(&ratio) ? "~" : "");
    bench_table_cell(t, "%s", bench_text_count(row_beside_reads(row), a));
    bench_table_cell(t, "%s", bench_text_ratio(row_percentile_us(row, 0.5), a));
    bench_table_cell(t, "%s", bench_text_ratio(row_percentile_us(row, 0.99), a));
}

static void engine_row(const struct report *r, struct bench_table *t, size_t engine)
{
    const struct plan_row *alone = find(r, BENCH_REBUILD, engine);
    const struct plan_row *read = find(r, BENCH_REBUILD_READ, engine);
    const struct plan_row *cost = alone ? alone : read;
    char a[BENCH_TEXT], b[BENCH_TEXT], ack[BENCH_ACK_TEXT];
    bench_table_row(t);
    bench_table_cell(t, "%s", r->plan->engines[engine].spec);
    if (alone)
        rate_cells(t, alone);
    if (read)
        beside_cells(t, alone, read);
    bench_table_cell(t, "%s", bench_text_bytes(cost->sum.done ? cost->sum.disk_bytes : NAN, a));
    bench_table_cell(t, "%s", bench_text_bytes(cost->sum.done ? cost->sum.rss_peak_bytes : NAN, b));
    bench_table_cell(t, "%s", cost->sum.done ? report_ack_text(cost, &r->plan->engines[engine].limits, ack)
                                             : "-");
}

static void head(const struct report *r, struct bench_table *t)
{
    static const char *const alone[] = {"events/s", "[low..high]"};
    static const char *const read[] = {"beside reads", "[low..high]", "of alone", "reads/s", "p50 us", "p99"};
    bench_table_row(t);
    bench_table_cell(t, "REBUILD");
    for (size_t i = 0; i < 2 && r->plan->workloads[BENCH_REBUILD]; i++)
        bench_table_cell(t, "%s", alone[i]);
    for (size_t i = 0; i < 6 && r->plan->workloads[BENCH_REBUILD_READ]; i++)
        bench_table_cell(t, "%s", read[i]);
    bench_table_cell(t, "disk");
    bench_table_cell(t, "peak mem");
    bench_table_cell(t, "ack at its end");
}

void report_rebuild(const struct report *r, FILE *out, bool color)
{
    const struct plan_row *any = NULL;
    char events[BENCH_TEXT];
    bool alone = r->plan->workloads[BENCH_REBUILD];
    struct bench_table *t = bench_table_new(alone ? "lrlrlrrrrrrl" : "lrlrrrrrrl");
    head(r, t);
    for (size_t i = 0; i < r->n_rows; i++) {
        const struct plan_row *row = &r->rows[i];
        if (bench_workload_rebuilds(row->turn.workload) && (!any || row->block == any->block)) {
            any = any ? any : row;
            engine_row(r, t, row->engine);
        }
    }
    if (any) {
        bench_table_print(t, out, color);
        fprintf(out,
                "           a new generation of %s events from the journal in the same store, up to the\n"
                "           change and one flush at the engine's best ack; beside reads: one thread gets\n"
                "           from the old generation, us are its; disk with the journal and both\n\n",
                bench_text_count((double)any->turn.volume, events));
    }
    bench_table_free(t);
}
