/* round.c - runs the rows: round by round, block by block, engines rotated, a raw flush probe between
 * the turns.
 *
 * Relies on wire.c for the turns. Keeps true: a turn never starts on another turn's store, but for
 * reads and merges, whose store is filled once an engine; what is interrupted is not counted. */
#include "plan.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

volatile int round_interrupted; /* a signal handler has nowhere else to put it */

static void on_signal(int number)
{
    (void)number;
    round_interrupted = 1;
}

void round_catch_signals(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_handler = on_signal;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    struct sigaction hup; /* the terminal went; unless it was said that this is to go on, as by nohup */
    if (sigaction(SIGHUP, NULL, &hup) == 0 && hup.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

void report_caveat(struct report *r, const char *fmt, ...)
{
    char text[PLAN_TEXT];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    for (size_t i = 0; i < r->n_caveats; i++)
        if (strcmp(r->caveats[i], text) == 0)
            return;
    if (r->n_caveats < PLAN_CAVEATS)
        memcpy(r->caveats[r->n_caveats++], text, sizeof(text));
}

/* ---- progress ---------------------------------------------------------------------------- */

struct progress {
    bool on;
    size_t done, turns;
    struct timespec began;
};

static double seconds_since(const struct timespec *then)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - then->tv_sec) + (double)(now.tv_nsec - then->tv_nsec) / 1e9;
}

static void show(const struct progress *p, const struct bench_turn *turn)
{
    char left[BENCH_TEXT];
    if (!p->on)
        return;
    double spent = seconds_since(&p->began);
    double rest = p->done ? spent / (double)p->done * (double)(p->turns - p->done) : 0;
    fprintf(stderr, "\r\033[K[%zu/%zu] %s %s, %s left", p->done, p->turns,
            bench_workload_name(turn->workload), turn->engine,
            p->done ? bench_text_span(rest, left) : "?");
    fflush(stderr);
}

/* ---- figures over rounds ----------------------------------------------------------------- */

static void add_real(double *sum, double v, bool first)
{
    *sum = first ? v : *sum + v; /* NaN in one round makes the sum unknown */
}

static void most(double *sum, double v, bool first)
{
    if (first || isnan(*sum) || v > *sum)
        *sum = v;
}

static void note_failure(struct plan_row *row, const struct bench_figures *f)
{
    row->failed = true;
    if (row->sum.error_code == SEAM_OK && f->error_code != SEAM_OK) {
        row->sum.error_code = f->error_code;
        memcpy(row->sum.error, f->error, sizeof(f->error));
    }
}

void round_add(struct plan_row *row, const struct bench_figures *f, double flush_us)
{
    struct bench_figures *s = &row->sum;
    bool first = s->operations == 0 && row->rounds == 0;
    bool good = f->done && f->wrong == 0;
    if (first)
        s->ack_given = -1;
    if (!good || f->failures)
        note_failure(row, f);
    row->rate[row->rounds] = f->done ? f->rate : NAN;
    row->flush_us[row->rounds] = flush_us;
    row->p50_us[row->rounds] = f->done ? bench_hist_percentile(&f->latency, 0.5) / 1000 : NAN;
    row->p999_us[row->rounds] = f->done ? bench_hist_percentile(&f->latency, 0.999) / 1000 : NAN;
    row->rounds++;
    s->failures += f->failures;
    s->wrong += f->wrong;
    for (size_t i = 0; i < 32; i++)
        s->failures_by_code[i] += f->failures_by_code[i];
    if (!f->done)
        return;
    first = !s->done;
    s->done = true;
    s->operations += f->operations;
    bench_hist_merge(&s->latency, &f->latency);
    add_real(&s->seconds, f->seconds, first);
    add_real(&s->flushes, f->flushes, first);
    add_real(&s->acks, f->acks, first);
    add_real(&s->records, f->records, first);
    add_real(&s->user_bytes, f->user_bytes, first);
    add_real(&s->device_bytes, f->device_bytes, first);
    add_real(&s->cpu_us, f->cpu_us, first);
    add_real(&s->ingest_bytes, f->ingest_bytes, first);
    add_real(&s->ingest_flushes, f->ingest_flushes, first);
    add_real(&s->ingest_compactions, f->ingest_compactions, first);
    add_real(&s->beside_reads, f->beside_reads, first);
    most(&s->rss_peak_bytes, f->rss_peak_bytes, first);
    most(&s->disk_bytes, f->disk_bytes, first);
    if (f->ack_given >= 0 && (s->ack_given < 0 || f->ack_given < s->ack_given))
        s->ack_given = f->ack_given; /* the weakest; a round too short for an ack says nothing */
    if (s->answers[0] == 0)
        memcpy(s->answers, f->answers, sizeof(f->answers));
    else if (strcmp(s->answers, f->answers) != 0)
        row->failed = true, s->wrong++;
}

/* ---- turns ------------------------------------------------------------------------------- */

/* Reads and merges go on with the store of the engine's first such turn; others begin anew. Reopening
 * leaves traces in a store (epochs, logs), so it has one of its own. */
static void store_name(const struct plan_row *row, char *ret, size_t cap)
{
    const char *kind = row->turn.workload == BENCH_REOPEN       ? "reopen"
                       : bench_workload_deleted(row->turn.workload) ? "deleted"
                       : bench_workload_reads(row->turn.workload) ? "reads"
                       : row->turn.workload == BENCH_MERGE      ? "merge"
                                                                : "turn";
    snprintf(ret, cap, "store-%s-%zu", kind, row->engine);
}

static bool fresh_each_turn(const struct plan_row *row)
{
    return !bench_workload_reads(row->turn.workload) && row->turn.workload != BENCH_MERGE;
}

static double probe_now(struct seam_probe *probe, struct report *r)
{
    struct seam_probe_cell cell;
    if (!probe || seam_probe_run(probe, r->plan->quick ? 20 : 50, &cell, NULL) != SEAM_OK)
        return NAN;
    if (isnan(r->flush_low_us) || cell.p50_us < r->flush_low_us)
        r->flush_low_us = cell.p50_us;
    if (isnan(r->flush_high_us) || cell.p50_us > r->flush_high_us)
        r->flush_high_us = cell.p50_us;
    return cell.p50_us;
}

/* A store that was being filled when its turn failed must not be read by the next round. */
static void run_turn(struct plan_row *row, uint32_t round, const struct data_dir *d,
                     struct bench_figures *f)
{
    char name[32];
    store_name(row, name, sizeof(name));
    snprintf(row->turn.dir, sizeof(row->turn.dir), "%.*s/%s", (int)(sizeof(row->turn.dir) - 64),
             d->path, name);
    row->turn.round = round;
    if (fresh_each_turn(row))
        (void)data_remove_store(d, name);
    bool done = wire_turn(&row->turn, d->path, f);
    if (fresh_each_turn(row) || !done)
        (void)data_remove_store(d, name);
}

static bool run_block(const struct data_dir *d, struct report *r, struct plan_row *rows, size_t n,
                      uint32_t round, struct seam_probe *probe, struct progress *progress)
{
    struct bench_figures *f = calloc(1, sizeof(*f));
    double before = probe_now(probe, r);
    for (size_t k = 0; f && k < n && !round_interrupted; k++) {
        struct plan_row *row = &rows[(k + round) % n];
        if (row->left_out[0])
            continue;
        show(progress, &row->turn);
        run_turn(row, round, d, f);
        double after = probe_now(probe, r);
        if (!round_interrupted)
            round_add(row, f, isnan(before) || isnan(after) ? after : (before + after) / 2);
        before = after;
        progress->done++;
    }
    free(f);
    return !round_interrupted;
}

static size_t block_end(const struct report *r, size_t begin)
{
    size_t end = begin;
    while (end < r->n_rows && r->rows[end].block == r->rows[begin].block)
        end++;
    return end;
}

void round_run_all(const struct plan *p, const struct data_dir *d, const struct data_dir *journal,
                   struct report *r)
{
    struct progress progress = {isatty(2) == 1, 0, 0, {0, 0}};
    struct seam_probe *probe = NULL, *journal_probe = NULL;
    struct seam_err err;
    bool going = true;
    clock_gettime(CLOCK_MONOTONIC, &progress.began);
    for (size_t i = 0; i < r->n_rows; i++)
        progress.turns += r->rows[i].left_out[0] ? 0 : p->runs;
    r->flush_low_us = r->flush_high_us = NAN;
    if (seam_probe_open(d->path, &probe, &err) != SEAM_OK)
        report_caveat(r, "no raw flush probe, so no multiples of a flush: %s", err.text);
    if (journal && seam_probe_open(journal->path, &journal_probe, &err) != SEAM_OK)
        report_caveat(r, "no raw flush probe in --journal-dir, so no multiples of a flush: %s", err.text);
    for (uint32_t round = 0; going && round < p->runs; round++)
        for (size_t i = 0; going && i < r->n_rows; i = block_end(r, i)) {
            bool there = journal && r->rows[i].turn.workload == BENCH_JOURNAL;
            going = run_block(there ? journal : d, r, &r->rows[i], block_end(r, i) - i, round,
                              there ? journal_probe : probe, &progress);
        }
    seam_probe_close(probe);
    seam_probe_close(journal_probe);
    if (progress.on)
        fprintf(stderr, "\r\033[K");
    r->interrupted = round_interrupted != 0;
    r->took_seconds = seconds_since(&progress.began);
}
