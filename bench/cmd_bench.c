/* cmd_bench.c - `seam bench`: plan, run, judge, report.
 *
 * Relies on plan.c, round.c and the reports. Keeps true: nothing is written before the command line
 * has been found right; what was complete is reported whatever happened. */
#include "plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Learns each engine's limits from a store of its own, which also finds options that only the
 * engine can refuse. */
static int learn_limits(struct plan *p, const struct data_dir *d)
{
    for (size_t i = 0; i < p->n_engines; i++) {
        struct plan_engine *e = &p->engines[i];
        struct seam_options o = {.mode = SEAM_OPEN_CREATE, .memory = BENCH_ENGINE_MEMORY};
        char path[2 * BENCH_PATH];
        struct seam_db *db = NULL;
        struct seam_err err;
        if (e->rail || e->opened)
            continue;
        snprintf(path, sizeof(path), "%s/store-limits", d->path);
        int rc = seam_open(e->spec, path, &o, &db, &err);
        if (rc != SEAM_OK)
            return bench_failed("seam bench", "%s: %s", e->spec, err.text);
        e->opened = true;
        seam_db_limits(db, &e->limits);
        (void)seam_close(db, NULL);
        (void)data_remove_store(d, "store-limits");
    }
    return BENCH_OK;
}

static void probe_once(struct report *r, const struct data_dir *d)
{
    static const uint32_t sizes[] = {4096};
    const struct seam_probe_options o = {sizes, 1, r->plan->quick ? 400 : 2000, 0};
    struct seam_probe_cell cells[SEAM_PROBE_HOWS * SEAM_PROBE_FILES];
    size_t n = 0;
    r->fsync_us = r->fdatasync_us = NAN;
    if (seam_probe_all(d->path, &o, cells, &n, NULL) != SEAM_OK)
        return;
    for (size_t i = 0; i < n; i++) {
        if (cells[i].file != SEAM_PROBE_WRITTEN || cells[i].n == 0)
            continue;
        if (cells[i].how == SEAM_PROBE_FSYNC)
            r->fsync_us = cells[i].p50_us;
        if (cells[i].how == SEAM_PROBE_FDATASYNC)
            r->fdatasync_us = cells[i].p50_us;
    }
}

/* Over the units that a short run gets to see; the same whenever profile, seed and keys are. */
static void digest(struct report *r, const struct seam_corpus *corpus)
{
    r->digest_units = r->corpus.unit_ops_max > 1000 ? 1 : r->corpus.value_max > 65536 ? 50 : 1000;
    if (seam_corpus_digest(corpus, r->digest_units, 2, r->digest, NULL) != SEAM_OK)
        r->digest[0] = 0;
}

static int run(struct plan *p, struct data_dir *d, const struct data_dir *journal, struct report *r)
{
    size_t turns = 0;
    int rc = learn_limits(p, d);
    if (rc != BENCH_OK)
        return rc;
    r->rows = plan_rows(p, &r->n_rows, &r->n_blocks);
    if (!r->rows)
        return bench_failed("seam bench", "out of memory");
    double estimate = plan_estimate(p, r->rows, r->n_rows, &turns);
    bool json_only = p->json && strcmp(p->json, "-") == 0;
    report_plan_line(p, estimate, turns, json_only ? stderr : stdout);
    if (fflush(stdout) != 0) /* told by the caller; better now than after the run */
        return BENCH_FAILED;
    seam_environment_read(d->path, &r->env);
    probe_once(r, d);
    round_run_all(p, d, journal, r);
    report_judge(r);
    if (!json_only)
        report_text(r, stdout);
    rc = p->json ? report_json(r, p->json) : BENCH_OK;
    if (r->interrupted)
        return BENCH_INTERRUPTED;
    return rc != BENCH_OK ? rc : r->failed ? BENCH_FAILED : BENCH_OK;
}

/* One line for what is compared with each other: each engine runs it once a round. */
static void list_blocks(const struct plan_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct bench_turn *t = &rows[i].turn;
        if (i > 0 && rows[i].block == rows[i - 1].block)
            continue;
        printf("  %-24s", bench_workload_name(t->workload));
        if (bench_workload_durable(t->workload))
            printf("%2u threads, %4u a commit, ack %s", t->threads, t->batch,
                   seam_ack_name(SEAM_ACK_LEVEL(t->ack)));
        printf("\n");
    }
}

static int dry_run(const struct plan *p)
{
    size_t n = 0, blocks = 0, turns = 0;
    int rc = data_check(p->dir, "--dir");
    if (rc == BENCH_OK && p->journal_dir[0])
        rc = data_check(p->journal_dir, "--journal-dir");
    if (rc != BENCH_OK)
        return rc;
    struct plan_row *rows = plan_rows(p, &n, &blocks);
    if (!rows)
        return bench_failed("seam bench", "out of memory");
    double estimate = plan_estimate(p, rows, n, &turns);
    report_plan_line(p, estimate, turns, stdout);
    list_blocks(rows, n);
    free(rows);
    return BENCH_OK;
}

int bench_cmd_bench(int argc, char **argv)
{
    struct report report;
    struct data_dir dir, journal;
    struct seam_corpus *corpus = NULL;
    struct plan *plan = calloc(1, sizeof(*plan));
    memset(&report, 0, sizeof(report));
    if (!plan)
        return bench_failed("seam bench", "out of memory");
    int rc = plan_parse(argc, argv, plan);
    if (rc == BENCH_OK)
        rc = plan_check(plan);
    if (rc == BENCH_OK && plan->dry_run) {
        rc = dry_run(plan);
    } else if (rc == BENCH_OK) {
        rc = data_open(plan->dir, "--dir", &dir);
        if (rc == BENCH_OK) {
            report.plan = plan;
            round_catch_signals();
            if (seam_corpus_open_sized(plan->profile, plan->seed, plan->keys, &corpus, NULL) == SEAM_OK) {
                seam_corpus_describe(corpus, &report.corpus);
                digest(&report, corpus);
            }
            bool apart = plan->journal_dir[0] != 0;
            rc = apart ? data_open(plan->journal_dir, "--journal-dir", &journal) : BENCH_OK;
            if (rc == BENCH_OK)
                rc = run(plan, &dir, apart ? &journal : NULL, &report);
            if (apart)
                data_close(&journal);
            data_close(&dir);
        }
    }
    seam_corpus_close(corpus);
    free(report.rows);
    free(plan);
    return rc < 0 ? BENCH_OK : rc;
}
