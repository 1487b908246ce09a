/* report_open.c - the table of openings.
 *
 * Keeps true: ratios are paired round by round, to the first engine that has the row; the state of the
 * page cache is said. */
#include "plan.h"

#include <math.h>

static const struct plan_row *find(const struct report *r, enum bench_workload w, size_t engine)
{
    for (size_t i = 0; i < r->n_rows; i++)
        if (r->rows[i].turn.workload == w && r->rows[i].engine == engine)
            return &r->rows[i];
    return NULL;
}

static const struct plan_row *first_done(const struct report *r, enum bench_workload w)
{
    for (size_t i = 0; i < r->n_rows; i++)
        if (r->rows[i].turn.workload == w && r->rows[i].sum.done)
            return &r->rows[i];
    return NULL;
}

/* Milliseconds an opening: median, range; and how many times faster than the first engine's. */
static void open_cells(const struct report *r, struct bench_table *t, enum bench_workload w, size_t engine)
{
    const struct plan_row *row = find(r, w, engine), *first = first_done(r, w);
    char a[BENCH_TEXT], b[BENCH_TEXT], c[BENCH_TEXT];
    struct bench_spread rate, ratio;
    if (!row || !row->sum.done) {
        bench_table_cell(t, "%s", row && row->left_out[0] ? "left out" : row && row->rounds ? "failed" : "-");
        bench_table_cell(t, "%s", "");
        bench_table_cell(t, "%s", "");
        return;
    }
    bench_spread(row->rate, row->rounds, &rate);
    bench_paired(row->rate, first->rate, row->rounds < first->rounds ? row->rounds : first->rounds, &ratio);
    bench_table_cell(t, "%s", bench_text_ms(1e6 / rate.median, a));
    bench_table_cell(t, "[%s..%s]", bench_text_ms(1e6 / rate.high, b), bench_text_ms(1e6 / rate.low, c));
    bench_table_cell(t, "%s%s", bench_text_ratio(ratio.median, a),
                     row != first && bench_straddles(&ratio) ? "~" : "");
}

void report_reopen(const struct report *r, FILE *out, bool color)
{
    static const enum bench_workload both[] = {BENCH_REOPEN, BENCH_REOPEN_AFTER_KILL};
    static const char *const heads[] = {"closed, ms", "killed, ms"};
    struct bench_table *t = bench_table_new("lrlrrlr");
    char volume[BENCH_TEXT];
    bool any = false;
    bench_table_row(t);
    bench_table_cell(t, "REOPEN");
    for (size_t k = 0; k < 2; k++) {
        if (!r->plan->workloads[both[k]])
            continue;
        any = true;
        bench_table_cell(t, "%s", heads[k]);
        bench_table_cell(t, "[low..high]");
        bench_table_cell(t, "x faster");
    }
    for (size_t i = 0; i < r->plan->n_engines; i++) {
        if (r->plan->engines[i].rail)
            continue;
        bench_table_row(t);
        bench_table_cell(t, "%s", r->plan->engines[i].spec);
        for (size_t k = 0; k < 2; k++)
            if (r->plan->workloads[both[k]])
                open_cells(r, t, both[k], i);
    }
    if (any) {
        bench_table_print(t, out, color);
        fprintf(out,
                "           open and the first get, page cache warm; x faster: paired, than the first row;\n"
                "           killed: SIGKILL with %s acked at process (lmdb flushes at each ack)\n\n",
                bench_text_bytes((double)r->plan->unflushed, volume));
    }
    bench_table_free(t);
}
