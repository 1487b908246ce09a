/* report_text.c - the report as a table for a terminal.
 *
 * Keeps true: no durable row without its ack, its flushes per ack and its multiple of a raw flush;
 * '-' is what is not known; '~' marks rows that cannot be told from their neighbour. */
#include "plan.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void report_plan_line(const struct plan *p, double estimate, size_t turns, FILE *out)
{
    char span[BENCH_TEXT], dir[BENCH_PATH];
    snprintf(dir, sizeof(dir), "%s", p->dir);
    bench_one_line(dir);
    fprintf(out, "plan     %zu turns, %u rounds, about %s   data: %s\n", turns, p->runs,
            bench_text_span(estimate, span), dir);
}

static void machine(const struct report *r, FILE *out)
{
    const struct seam_environment *e = &r->env;
    char memory[BENCH_TEXT];
    fprintf(out, "machine  %lld cpu, %s memory, %s%s%s%s%s%s", (long long)e->cpus,
            bench_text_bytes((double)e->memory_bytes, memory), e->filesystem,
            e->device[0] ? " on " : "", e->device, e->write_cache[0] ? ", write cache: " : "",
            e->write_cache, e->fua == 0 ? ", no FUA" : "");
    if (!isnan(r->flush_low_us))
        fprintf(out, "   flush of 4 KiB %.0f..%.0f us: %s", r->flush_low_us, r->flush_high_us,
                r->flush_high_us > 1.5 * r->flush_low_us ? "moving" : "steady");
    fprintf(out, "\ncorpus   %s, seed %llu, digest of %llu unit%s %.8s   %llu keys\n", r->plan->profile,
            (unsigned long long)r->plan->seed, (unsigned long long)r->digest_units,
            r->digest_units == 1 ? "" : "s", r->digest, (unsigned long long)r->plan->keys);
}

/* ---- durable rows ------------------------------------------------------------------------ */

/* Whether both were given the same ack, with the same left out of it. */
static bool same_ack(const struct report *r, const struct plan_row *a, const struct plan_row *b)
{
    const struct plan_engine *engines = r->plan->engines;
    return a->sum.ack_given == b->sum.ack_given &&
           strcmp(report_ack_but(&engines[a->engine].limits),
                  report_ack_but(&engines[b->engine].limits)) == 0;
}

/* Whether some other engine of the block cannot be told from this one. */
static bool has_twin(const struct report *r, const struct plan_row *row)
{
    for (size_t i = 0; i < r->n_rows; i++) {
        const struct plan_row *other = &r->rows[i];
        struct bench_spread ratio;
        if (other->block != row->block || other == row || other->rounds != row->rounds ||
            r->plan->engines[other->engine].rail || !same_ack(r, other, row))
            continue;
        bench_paired(row->rate, other->rate, row->rounds, &ratio);
        if (ratio.n >= 2 && bench_straddles(&ratio))
            return true;
    }
    return false;
}

static void figures(const struct report *r, struct bench_table *t, const struct plan_row *row)
{
    char a[BENCH_TEXT], b[BENCH_TEXT], c[BENCH_TEXT], ack[BENCH_ACK_TEXT];
    const struct plan_row *rail = row_of_rail(r, row->block);
    struct bench_spread rate, ratio = {NAN, NAN, NAN, 0};
    bool is_null = strcmp(row->turn.engine, "null") == 0;
    bench_spread(row->rate, row->rounds, &rate);
    if (rail && !is_null && row->sum.ack_given == SEAM_ACK_POWER)
        bench_paired(row->rate, rail->rate, row->rounds, &ratio);
    bench_table_cell(t, "%s%s", bench_text_count(rate.median, a),
                     !r->plan->engines[row->engine].rail && has_twin(r, row) ? "~" : "");
    bench_table_cell(t, "[%s..%s]", bench_text_count(rate.low, b), bench_text_count(rate.high, c));
    bench_table_cell(t, "%s", bench_text_ratio(ratio.median, a));
    bench_table_cell(t, "%s", is_null ? "-" : bench_text_ratio(row_times_flush(row), a));
    bench_table_cell(t, "%s", bench_text_ms(row_percentile_us(row, 0.5), a));
    bench_table_cell(t, "%s", bench_text_ms(row_percentile_us(row, 0.99), a));
    bench_table_cell(t, "%s", bench_text_ms(row_percentile_us(row, 0.999), a));
    bench_table_cell(t, "%s", bench_text_ratio(row_flushes_per_ack(row), a));
    bench_table_cell(t, "%s", is_null ? "-" : bench_text_ratio(row_device_per_user(row), a));
    bench_table_cell(t, "%s", bench_text_ratio(row_cpu_us_per_op(row), a));
    bench_table_cell(t, "%s", report_ack_text(row, &r->plan->engines[row->engine].limits, ack));
}

static const char *engine_label(const struct plan_row *row, char buf[BENCH_SPEC + 16])
{
    const char *note = strcmp(row->turn.engine, "rawlog") == 0 ? " (limit)"
                       : strcmp(row->turn.engine, "null") == 0 ? " (harness)"
                                                               : "";
    snprintf(buf, BENCH_SPEC + 16, "%s%s", row->turn.engine, note);
    return buf;
}

static void durable_row(const struct report *r, struct bench_table *t, const struct plan_row *row,
                        bool first)
{
    char label[BENCH_SPEC + 16];
    bench_table_row(t);
    if (!first)
        bench_table_cell(t, "%s", "");
    else if (bench_workload_batched(row->turn.workload))
        bench_table_cell(t, "%u thr x %u", row->turn.threads, row->turn.batch);
    else
        bench_table_cell(t, "%u thr", row->turn.threads);
    bench_table_cell(t, "%s", engine_label(row, label));
    if (row->left_out[0])
        bench_table_wide(t, "%s", row->left_out);
    else if (!row->sum.done)
        bench_table_wide(t, "failed: %.120s", row->rounds ? row->sum.error : "not run");
    else
        figures(r, t, row);
}

static void durable_table(const struct report *r, enum bench_workload w, uint32_t ack, FILE *out,
                          bool color)
{
    struct bench_table *t = bench_table_new("llrlrrrrrrrrl");
    size_t block = SIZE_MAX;
    char title[64], name[32];
    snprintf(name, sizeof(name), "%s", bench_workload_name(w));
    for (char *c = name; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    if (w != BENCH_UNITS)
        snprintf(title, sizeof(title), "%s %u B", name, r->plan->value);
    else
        snprintf(title, sizeof(title), "%s", name);
    static const char *const heads[] = {"acks/s", "[low..high]", "rawlog=1", "x flush", "p50 ms", "p99",
                                        "p99.9", "fl/ack", "dev B/B", "cpu us", "ack given"};
    bench_table_row(t);
    bench_table_cell(t, "%s", title);
    bench_table_cell(t, "ask %s", seam_ack_name(SEAM_ACK_LEVEL(ack)));
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
        bench_table_cell(t, "%s", heads[i]);
    for (size_t i = 0; i < r->n_rows; i++) {
        const struct plan_row *row = &r->rows[i];
        if (row->turn.workload != w || row->turn.ack != ack)
            continue;
        durable_row(r, t, row, row->block != block);
        block = row->block;
    }
    bench_table_print(t, out, color);
    bench_table_free(t);
    fputc('\n', out);
}

/* ---- what a projection does -------------------------------------------------------------- */

static const enum bench_workload projection[] = {BENCH_LOAD, BENCH_MERGE, BENCH_GET, BENCH_GET_MISS,
                                                 BENCH_FLOOR, BENCH_SCAN, BENCH_SCAN_REVERSE,
                                                 BENCH_FLOOR_DELETED, BENCH_SCAN_REVERSE_DELETED};
enum { PROJECTIONS = sizeof(projection) / sizeof(projection[0]) };

static const struct plan_row *find_row(const struct report *r, enum bench_workload w, size_t engine)
{
    for (size_t i = 0; i < r->n_rows; i++)
        if (r->rows[i].turn.workload == w && r->rows[i].engine == engine)
            return &r->rows[i];
    return NULL;
}

/* "560k +-4%": the median and half of the range over the rounds. */
static void rate_cell(const struct report *r, struct bench_table *t, const struct plan_row *row)
{
    char rate[BENCH_TEXT];
    struct bench_spread s;
    if (!row || !row->sum.done) {
        bench_table_cell(t, "%s", row && row->rounds ? "failed" : "-");
        return;
    }
    bench_spread(row->rate, row->rounds, &s);
    if (s.n < 2)
        bench_table_cell(t, "%s", bench_text_count(s.median, rate));
    else
        bench_table_cell(t, "%s%s +-%.0f%%", bench_text_count(s.median, rate),
                         has_twin(r, row) ? "~" : "", 50 * (s.high - s.low) / s.median);
}

static void projection_row(const struct report *r, struct bench_table *t, size_t engine)
{
    double disk = NAN, memory = NAN;
    uint64_t failures = 0;
    char a[BENCH_TEXT], b[BENCH_TEXT];
    bench_table_row(t);
    bench_table_cell(t, "%s", r->plan->engines[engine].spec);
    for (size_t k = 0; k < PROJECTIONS; k++) {
        const struct plan_row *row = find_row(r, projection[k], engine);
        if (!r->plan->workloads[projection[k]])
            continue;
        rate_cell(r, t, row);
        if (!row)
            continue;
        failures += row->sum.failures + row->sum.wrong + (row->failed && !row->sum.failures);
        if (projection[k] == BENCH_LOAD && row->sum.done) {
            disk = row->sum.disk_bytes;
            memory = row->sum.rss_peak_bytes;
        }
    }
    bench_table_cell(t, "%s", bench_text_bytes(disk, a));
    bench_table_cell(t, "%s", bench_text_bytes(memory, b));
    bench_table_cell(t, "%llu", (unsigned long long)failures);
}

static void projection_table(const struct report *r, FILE *out, bool color)
{
    struct bench_table *t = bench_table_new("lrrrrrrrrrrrr");
    bool any = false;
    bench_table_row(t);
    bench_table_cell(t, "PROJECTION");
    for (size_t k = 0; k < PROJECTIONS; k++) {
        if (!r->plan->workloads[projection[k]])
            continue;
        bench_table_cell(t, "%s/s", bench_workload_name(projection[k]));
        any = true;
    }
    bench_table_cell(t, "disk");
    bench_table_cell(t, "peak mem");
    bench_table_cell(t, "errors");
    for (size_t i = 0; i < r->plan->n_engines; i++)
        if (!r->plan->engines[i].rail)
            projection_row(r, t, i);
    if (any) {
        bench_table_print(t, out, color);
        fputs("           keys, entries or reads a second, one thread; disk and memory after the load;\n"
              "           a load ends with a flush at the best ack of the engine, merges ask for none\n",
              out);
        if (r->plan->workloads[BENCH_FLOOR_DELETED] || r->plan->workloads[BENCH_SCAN_REVERSE_DELETED])
            fputs("           -deleted: nine keys of ten deleted, then 2 s for each engine to settle\n", out);
        fputc('\n', out);
    }
    bench_table_free(t);
}

/* ---- limits ------------------------------------------------------------------------------ */

static const char *limit_text(uint64_t v, bool bytes, char buf[BENCH_TEXT])
{
    if (v == UINT64_MAX)
        snprintf(buf, BENCH_TEXT, "no limit");
    else if (bytes)
        bench_text_bytes((double)v, buf);
    else
        bench_text_count((double)v, buf);
    return buf;
}

static void fit_text(const struct seam_limits *l, const struct seam_unit *unit, char *buf, size_t cap)
{
    struct seam_fit fit;
    seam_classify(l, unit->ops, unit->n, NULL, &fit);
    if (fit.verdict == SEAM_FITS)
        snprintf(buf, cap, "fits");
    else if (fit.verdict == SEAM_SPLITS)
        snprintf(buf, cap, "splits into %zu (%s: %llu of %llu)", fit.commits, fit.limit,
                 (unsigned long long)fit.got, (unsigned long long)fit.max);
    else
        snprintf(buf, cap, "never (%s: %llu of %llu)", fit.limit ? fit.limit : "?",
                 (unsigned long long)fit.got, (unsigned long long)fit.max);
}

static void limits_row(struct bench_table *t, const char *name, const struct seam_limits *l,
                       const struct seam_unit *unit)
{
    char a[BENCH_TEXT], b[BENCH_TEXT], c[BENCH_TEXT], d[BENCH_TEXT], fit[128] = "-";
    if (unit)
        fit_text(l, unit, fit, sizeof(fit));
    bench_table_row(t);
    bench_table_cell(t, "%s", name);
    bench_table_cell(t, "%s", limit_text(l->key, true, a));
    bench_table_cell(t, "%s", limit_text(l->value, true, b));
    bench_table_cell(t, "%s", limit_text(l->ops, false, c));
    bench_table_cell(t, "%s", limit_text(l->bytes, true, d));
    const char *but = report_ack_but(l);
    bench_table_cell(t, "%s%s%s", seam_ack_name(l->best), but[0] ? ", " : "", but);
    bench_table_cell(t, "%s", fit);
}

static void limits_table(const struct report *r, FILE *out, bool color)
{
    struct bench_table *t = bench_table_new("lrrrrll");
    struct seam_corpus *corpus = NULL;
    struct seam_maker *maker = NULL;
    struct seam_unit unit;
    bool have = seam_corpus_open("fanout", r->plan->seed, &corpus, NULL) == SEAM_OK &&
                seam_maker_open(corpus, &maker, NULL) == SEAM_OK &&
                seam_maker_unit(maker, 0, &unit, NULL) == SEAM_OK;
    struct seam_limits meet;
    size_t n = 0;
    bench_table_row(t);
    static const char *const heads[] = {"LIMITS", "key", "value", "ops", "bytes a commit", "best ack"};
    for (size_t i = 0; i < 6; i++)
        bench_table_cell(t, "%s", heads[i]);
    bench_table_cell(t, "fanout (%zu ops, one commit)", have ? unit.n : 0);
    for (size_t i = 0; i < r->plan->n_engines; i++) {
        const struct plan_engine *e = &r->plan->engines[i];
        if (!e->opened)
            continue;
        limits_row(t, e->spec, &e->limits, have ? &unit : NULL);
        if (n++ == 0)
            meet = e->limits;
        else
            seam_limits_meet(&meet, &e->limits);
    }
    if (n > 1)
        limits_row(t, "all of them", &meet, have ? &unit : NULL);
    bench_table_print(t, out, color);
    bench_table_free(t);
    seam_maker_close(maker);
    seam_corpus_close(corpus);
    fputc('\n', out);
}

/* ---- what the figures say ---------------------------------------------------------------- */

static const struct plan_row *append_row(const struct report *r, size_t engine, uint32_t threads,
                                         uint32_t batch)
{
    for (size_t i = 0; i < r->n_rows; i++) {
        const struct plan_row *row = &r->rows[i];
        if (row->turn.workload == BENCH_APPEND && row->engine == engine && row->sum.done &&
            row->turn.threads == threads && row->turn.batch == batch &&
            row->turn.ack == SEAM_ACK_POWER && row->sum.ack_given == SEAM_ACK_POWER)
            return row;
    }
    return NULL;
}

static double gain(const struct plan_row *few, const struct plan_row *many, double records)
{
    struct bench_spread ratio;
    uint32_t n = few->rounds < many->rounds ? few->rounds : many->rounds;
    bench_paired(many->rate, few->rate, n, &ratio);
    return ratio.median * records;
}

static void say_engine(const struct report *r, size_t engine, FILE *out)
{
    const struct plan *p = r->plan;
    const struct plan_row *lone = append_row(r, engine, 1, 1);
    char a[BENCH_TEXT];
    if (!lone)
        return;
    fprintf(out, "SAYS     %s: a lone power ack is %s raw flushes long%s", p->engines[engine].spec,
            bench_text_ratio(row_times_flush(lone), a), row_flush_moved(lone) ? " (?: the disk moved)" : "");
    for (size_t i = 0; i < p->n_batches; i++) {
        uint32_t batch = (uint32_t)p->batches[i];
        const struct plan_row *row = append_row(r, engine, 1, batch);
        if (row && batch > 1)
            fprintf(out, "; %u a commit: %sx the records", batch,
                    bench_text_ratio(gain(lone, row, batch), a));
    }
    for (size_t i = 0; i < p->n_threads; i++) {
        const struct plan_row *row = append_row(r, engine, (uint32_t)p->threads[i], 1);
        if (row && p->threads[i] > 1)
            fprintf(out, "; %llu threads: %sx the acks", (unsigned long long)p->threads[i],
                    bench_text_ratio(gain(lone, row, 1), a));
    }
    fputc('\n', out);
}

static void says(const struct report *r, FILE *out)
{
    char a[BENCH_TEXT];
    for (size_t i = 0; i < r->plan->n_engines; i++)
        if (!r->plan->engines[i].rail)
            say_engine(r, i, out);
    if (!isnan(r->fsync_us) && !isnan(r->fdatasync_us))
        fprintf(out, "SAYS     fsync for fdatasync of a written file costs %sx here\n",
                bench_text_ratio(r->fsync_us / r->fdatasync_us, a));
}

static void careful(const struct report *r, FILE *out)
{
    for (size_t i = 0; i < r->n_caveats; i++)
        fprintf(out, "CAREFUL  %s\n", r->caveats[i]);
    fputs("CAREFUL  ranked only within one ack; '~' cannot be told from another engine's row;"
          " '-' not known,\n         or under 10 samples beyond a percentile\n",
          out);
}

void report_text(const struct report *r, FILE *out)
{
    const struct plan *p = r->plan;
    bool color = bench_color_on(p->color, out);
    machine(r, out);
    fputc('\n', out);
    for (int w = 0; w < BENCH_FILL; w++)
        for (size_t a = 0; a < p->n_acks; a++)
            if (p->workloads[w] && bench_workload_durable((enum bench_workload)w))
                durable_table(r, (enum bench_workload)w, p->acks[a], out, color);
    report_ingest(r, out);
    projection_table(r, out, color);
    report_rebuild(r, out, color);
    report_reopen(r, out, color);
    if (p->limits)
        limits_table(r, out, color);
    says(r, out);
    careful(r, out);
}
