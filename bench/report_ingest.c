/* report_ingest.c - lines under the append-under-ingest table: what ran beside it, and its tails.
 *
 * Keeps true: ratios of tails are paired round by round, to the first engine that has the row; what an
 * engine does not tell is said to be unknown. */
#include "plan.h"

#include <math.h>

static void count_text(double v, const char *what, char *buf, size_t cap)
{
    if (isnan(v))
        snprintf(buf, cap, "%s not told", what);
    else
        snprintf(buf, cap, "%.0f %s", v, what);
}

static void one(const struct plan_row *row, const struct plan_row *first, FILE *out)
{
    char rate[BENCH_TEXT], tail[BENCH_TEXT], low[BENCH_TEXT], high[BENCH_TEXT], flushes[64], compactions[64];
    struct bench_spread ratio;
    count_text(row->sum.ingest_flushes, "memtable flushes", flushes, sizeof(flushes));
    count_text(row->sum.ingest_compactions, "compactions", compactions, sizeof(compactions));
    fprintf(out, "         %s: %llu acks beside %sB/s; %s, %s", row->turn.engine,
            (unsigned long long)row->sum.operations,
            bench_text_bytes(row->sum.ingest_bytes / row->sum.seconds, rate), flushes, compactions);
    bench_paired(row->p999_us, first->p999_us, row->rounds < first->rounds ? row->rounds : first->rounds,
                 &ratio);
    if (row != first && ratio.n > 0)
        fprintf(out, "; p99.9 %sx [%s..%s] of %s's%s", bench_text_ratio(ratio.median, tail),
                bench_text_ratio(ratio.low, low), bench_text_ratio(ratio.high, high), first->turn.engine,
                bench_straddles(&ratio) ? " ~" : "");
    fputc('\n', out);
}

void report_ingest(const struct report *r, FILE *out)
{
    const struct plan_row *first = NULL;
    for (size_t i = 0; i < r->n_rows; i++) {
        const struct plan_row *row = &r->rows[i];
        if (row->turn.workload != BENCH_INGEST || !row->sum.done)
            continue;
        if (!first || first->block != row->block)
            first = row;
        one(row, first, out);
    }
    if (first)
        fputc('\n', out);
}
