/* report_rows.c - figures derived from a row, and the judgement of a whole report.
 *
 * Keeps true: an ack is called counted only when the flushes seen from outside can carry it; what
 * differs between engines that should agree fails the run. */
#include "plan.h"

#include <math.h>
#include <string.h>

double row_flushes_per_ack(const struct plan_row *row)
{
    const struct bench_figures *s = &row->sum;
    return s->done && s->acks > 0 ? s->flushes / s->acks : NAN;
}

double row_device_per_user(const struct plan_row *row)
{
    const struct bench_figures *s = &row->sum;
    return s->done && s->user_bytes > 0 ? s->device_bytes / s->user_bytes : NAN;
}

double row_beside_reads(const struct plan_row *row)
{
    const struct bench_figures *s = &row->sum;
    return s->done && s->seconds > 0 ? s->beside_reads / s->seconds : NAN;
}

double row_cpu_us_per_op(const struct plan_row *row)
{
    const struct bench_figures *s = &row->sum;
    return s->done && s->operations > 0 ? s->cpu_us / (double)s->operations : NAN;
}

double row_percentile_us(const struct plan_row *row, double p)
{
    return bench_hist_percentile(&row->sum.latency, p) / 1000;
}

double row_times_flush(const struct plan_row *row)
{
    struct bench_spread ratio;
    bench_paired(row->p50_us, row->flush_us, row->rounds, &ratio);
    return ratio.median;
}

bool row_flush_moved(const struct plan_row *row)
{
    struct bench_spread flush;
    bench_spread(row->flush_us, row->rounds, &flush);
    return flush.high > 1.5 * flush.low;
}

/* One flush carries at most the commits that were in flight together: one a thread. A flush in
 * flight when the meter stopped may be counted without its acks, never the other way round by more
 * than one a thread and round. */
static bool flushes_carry_acks(const struct plan_row *row)
{
    const struct bench_figures *s = &row->sum;
    double threads = row->turn.threads;
    return (s->flushes + row->rounds) * threads >= s->acks * 0.99;
}

const char *row_ack_how(const struct plan_row *row)
{
    const struct bench_figures *s = &row->sum;
    if (!s->done || s->ack_given < 0 || isnan(s->acks))
        return "";
    if (s->ack_given < SEAM_ACK_OS || isnan(s->flushes))
        return "declared";
    return flushes_carry_acks(row) ? "counted" : "contradicted";
}

const char *report_ack_but(const struct seam_limits *l)
{
    return l->caps & SEAM_CAP_MAY_SKIP ? "may skip damaged records" : "";
}

const char *report_ack_text(const struct plan_row *row, const struct seam_limits *l,
                            char buf[BENCH_ACK_TEXT])
{
    const char *how = row_ack_how(row), *but = report_ack_but(l);
    const char *given = seam_ack_name((enum seam_ack)row->sum.ack_given);
    int threads = (int)row->turn.threads;
    double flushes = row_flushes_per_ack(row);
    const char *grouping = threads >= 8 && flushes > 0.9 && flushes < 1.1 ? "  not grouping" : "";
    if (!how[0])
        snprintf(buf, BENCH_ACK_TEXT, "-");
    else if (strcmp(how, "contradicted") == 0)
        snprintf(buf, BENCH_ACK_TEXT, "NOT %s: too few flushes", given);
    else
        snprintf(buf, BENCH_ACK_TEXT, "%s, %s%s%s%s", given, but, but[0] ? ", " : "", how,
                 grouping);
    return buf;
}

const struct plan_row *row_of_rail(const struct report *r, size_t block)
{
    for (size_t i = 0; i < r->n_rows; i++)
        if (r->rows[i].block == block && strcmp(r->rows[i].turn.engine, "rawlog") == 0)
            return &r->rows[i];
    return NULL;
}

/* ---- judgement --------------------------------------------------------------------------- */

static void judge_row(struct report *r, struct plan_row *row)
{
    const struct bench_figures *s = &row->sum;
    const char *name = bench_workload_name(row->turn.workload);
    if (row->left_out[0])
        return;
    if (s->error_code != SEAM_OK)
        report_caveat(r, "%s on %s: %.150s", name, row->turn.engine, s->error);
    if (s->wrong)
        report_caveat(r, "%s on %s gave %llu wrong answers", name, row->turn.engine,
                      (unsigned long long)s->wrong);
    if (strcmp(row_ack_how(row), "contradicted") == 0) {
        row->failed = true;
        report_caveat(r, "%s says power, but %.2f flushes an ack cannot carry it: not a power row",
                      row->turn.engine, row_flushes_per_ack(row));
    }
    r->failed = r->failed || row->failed;
}

/* Rows of one block of reads must have answered alike. */
static void judge_answers(struct report *r)
{
    for (size_t i = 0; i < r->n_rows; i++) {
        for (size_t k = i + 1; k < r->n_rows && r->rows[k].block == r->rows[i].block; k++) {
            struct plan_row *a = &r->rows[i], *b = &r->rows[k];
            if (!a->sum.answers[0] || !b->sum.answers[0] ||
                strcmp(a->sum.answers, b->sum.answers) == 0)
                continue;
            b->failed = r->failed = true;
            report_caveat(r, "%s: %s and %s do not give the same answers",
                          bench_workload_name(a->turn.workload), a->turn.engine, b->turn.engine);
        }
    }
}

static void judge_rounds(struct report *r)
{
    if (r->plan->runs == 1)
        report_caveat(r, "single run, a guess");
    else if (r->plan->runs < 6)
        report_caveat(r, "%u rounds: ranges, not verdicts (6 or more are)", r->plan->runs);
    if (r->flush_high_us > 1.5 * r->flush_low_us)
        report_caveat(r, "the disk moved while this ran: a flush took %.0f to %.0f us",
                      r->flush_low_us, r->flush_high_us);
    if (r->interrupted)
        report_caveat(r, "interrupted: only what was complete is shown");
}

void report_judge(struct report *r)
{
    bool counted = false, acked = false;
    for (size_t i = 0; i < r->n_rows; i++) {
        judge_row(r, &r->rows[i]);
        acked = acked || r->rows[i].sum.acks > 0;
        counted = counted || !isnan(row_flushes_per_ack(&r->rows[i]));
    }
    judge_answers(r);
    if (acked && !counted)
        report_caveat(r, "flushes were not counted: no flush counter beside the command, or a build "
                         "with sanitizers; acks are declared only");
    for (size_t i = 0; r->env.not_durable[i]; i++)
        report_caveat(r, "not a durability result: %s", r->env.not_durable[i]);
    for (size_t i = 0; r->env.careful[i]; i++)
        report_caveat(r, "%s", r->env.careful[i]);
    judge_rounds(r);
}
