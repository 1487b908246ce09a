/* turn.c - runs one turn in this process: corpus, store, meter, threads.
 *
 * Relies on run_*.c for the workloads. Keeps true: whatever fails ends up in ret->error, and a turn
 * that was not whole is not done. */
#include "run.h"

#include <seam/backend.h>

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct workload {
    const char *name, *unit;
    bool reads, durable;
};

static const struct workload workloads[BENCH_WORKLOADS] = {
    [BENCH_APPEND] = {"append", "acks/s", false, true},
    [BENCH_JOURNAL] = {"journal", "acks/s", false, true},
    [BENCH_LOAD] = {"load", "keys/s", false, false},
    [BENCH_MERGE] = {"merge", "entries/s", false, false},
    [BENCH_GET] = {"get", "reads/s", true, false},
    [BENCH_GET_MISS] = {"get-miss", "reads/s", true, false},
    [BENCH_FLOOR] = {"floor", "reads/s", true, false},
    [BENCH_SCAN] = {"scan", "keys/s", true, false},
    [BENCH_SCAN_REVERSE] = {"scan-reverse", "keys/s", true, false},
    [BENCH_FLOOR_DELETED] = {"floor-deleted", "reads/s", true, false},
    [BENCH_SCAN_REVERSE_DELETED] = {"scan-reverse-deleted", "keys/s", true, false},
    [BENCH_REOPEN] = {"reopen", "opens/s", true, false},
    [BENCH_REOPEN_AFTER_KILL] = {"reopen-after-kill", "opens/s", false, false},
    [BENCH_INGEST] = {"append-under-ingest", "acks/s", false, true},
    [BENCH_REBUILD] = {"rebuild", "events/s", false, false},
    [BENCH_REBUILD_READ] = {"rebuild-under-reads", "events/s", false, false},
    [BENCH_UNITS] = {"units", "acks/s", false, true},
    [BENCH_FILL] = {"", "keys/s", false, false},
};

const char *bench_workload_name(enum bench_workload w)
{
    return workloads[w].name;
}

int bench_workload_parse(const char *name)
{
    for (int w = 0; w < BENCH_FILL; w++)
        if (strcmp(name, workloads[w].name) == 0)
            return w;
    return -1;
}

bool bench_workload_reads(enum bench_workload w)
{
    return workloads[w].reads;
}

bool bench_workload_deleted(enum bench_workload w)
{
    return w == BENCH_FLOOR_DELETED || w == BENCH_SCAN_REVERSE_DELETED;
}

bool bench_workload_floors(enum bench_workload w)
{
    return w == BENCH_FLOOR || w == BENCH_FLOOR_DELETED;
}

bool bench_workload_scans(enum bench_workload w, bool *ret_back)
{
    *ret_back = w == BENCH_SCAN_REVERSE || w == BENCH_SCAN_REVERSE_DELETED;
    return w == BENCH_SCAN || *ret_back;
}

bool bench_workload_batched(enum bench_workload w)
{
    return w == BENCH_APPEND || w == BENCH_JOURNAL;
}

bool bench_workload_opens(enum bench_workload w)
{
    return w == BENCH_REOPEN || w == BENCH_REOPEN_AFTER_KILL;
}

bool bench_workload_rebuilds(enum bench_workload w)
{
    return w == BENCH_REBUILD || w == BENCH_REBUILD_READ;
}

bool bench_workload_durable(enum bench_workload w)
{
    return workloads[w].durable;
}

const char *bench_workload_unit(enum bench_workload w)
{
    return workloads[w].unit;
}

uint64_t run_now(const struct run *r)
{
    return r->os->now_ns(r->os->ctx, SEAM_CLOCK_MONOTONIC);
}

bool run_fail(struct run *r, const char *step, int rc)
{
    if (r->ret->error_code == SEAM_OK) {
        r->ret->error_code = rc;
        snprintf(r->ret->error, sizeof(r->ret->error), "%s: %s", step,
                 r->err.text[0] ? r->err.text : seam_code_text(rc));
    }
    return false;
}

/* ---- the store --------------------------------------------------------------------------- */

bool run_open(struct run *r, bool *ret_fresh)
{
    struct stat there;
    struct seam_options options = {.mode = SEAM_OPEN_CREATE, .memory = BENCH_ENGINE_MEMORY};
    bool made = stat(r->turn->dir, &there) != 0;
    int rc = seam_open(r->turn->engine, r->turn->dir, &options, &r->db, &r->err);
    if (rc != SEAM_OK)
        return run_fail(r, "open", rc);
    r->is_volatile = seam_db_epoch(r->db) == 0; /* also a plug-in, which no list tells of */
    *ret_fresh = made || r->is_volatile;
    seam_db_limits(r->db, &r->limits);
    return true;
}

bool run_close(struct run *r)
{
    int rc = seam_close(r->db, &r->err);
    r->db = NULL;
    r->ret->disk_bytes = r->is_volatile ? NAN : (double)seam_directory_bytes(r->turn->dir);
    return rc == SEAM_OK || run_fail(r, "close", rc);
}

/* ---- the meter --------------------------------------------------------------------------- */

static bool flushes_now(struct seam_flushcount *ret)
{
    const struct seam_flushcount_page *page = seam_flushcount_self();
    if (!page)
        return false;
    seam_flushcount_read(page, ret);
    return ret->unseen == 0;
}

/* The peak of memory is begun anew: what filled the store before may have taken more. */
void run_meter_begin(struct run *r)
{
    struct seam_usage usage;
    (void)seam_usage_reset_peak();
    seam_usage_read(&usage);
    r->begin_cpu_us = usage.cpu_us;
    seam_environment_device_io(&r->env, &r->begin_device);
    (void)flushes_now(&r->begin_flushes);
    r->begin_ns = run_now(r);
}

void run_meter_end(struct run *r)
{
    struct bench_figures *f = r->ret;
    struct seam_usage usage;
    struct seam_device_io device;
    struct seam_flushcount flushes;
    f->seconds = (double)(run_now(r) - r->begin_ns) / 1e9;
    bool counted = flushes_now(&flushes);
    seam_environment_device_io(&r->env, &device);
    seam_usage_read(&usage);
    f->cpu_us = (double)(usage.cpu_us - r->begin_cpu_us);
    f->rss_peak_bytes = usage.rss_peak_bytes < 0 || r->rss_before < 0
                            ? NAN
                            : (double)(usage.rss_peak_bytes - r->rss_before);
    f->device_bytes = device.write_bytes < 0 || r->is_volatile
                          ? NAN
                          : (double)(device.write_bytes - r->begin_device.write_bytes);
    f->flushes = NAN;
    if (counted) {
        seam_flushcount_minus(&flushes, &r->begin_flushes);
        f->flushes = (double)seam_flushcount_flushes(&flushes);
    }
}

/* ---- threads ----------------------------------------------------------------------------- */

bool run_note_failure(struct run_worker *w, int rc, const struct seam_err *err)
{
    w->failures++;
    if (rc < 0 && rc > -32)
        w->failures_by_code[-rc]++;
    if (w->first_code == SEAM_OK) {
        w->first_code = rc;
        snprintf(w->first_text, sizeof(w->first_text), "%s", err ? err->text : seam_code_text(rc));
    }
    return rc != SEAM_E_UNKNOWN && rc != SEAM_E_POISONED && w->failures < 1000;
}

struct thread_arg {
    struct run_worker worker;
    run_body *body;
    pthread_t thread;
};

enum { READY_POLL_US = 200 };

void run_ready(struct run_worker *w)
{
    const struct seam_platform *os = w->r->os;
    if (w->counted)
        return;
    w->counted = true;
    atomic_fetch_add(w->ready, 1);
    while (atomic_load(w->phase) == RUN_MAKE)
        os->sleep_us(os->ctx, READY_POLL_US);
}

static void *thread_main(void *arg)
{
    struct thread_arg *t = arg;
    t->body(&t->worker);
    run_ready(&t->worker); /* a body that ended early must not be waited for */
    atomic_store(&t->worker.ended, true);
    return NULL;
}

static void sum_up(struct run *r, const struct run_worker *w)
{
    struct bench_figures *f = r->ret;
    f->operations += atomic_load(&w->done);
    f->records += (double)w->records;
    f->user_bytes += (double)w->bytes;
    f->failures += w->failures;
    f->wrong += w->wrong;
    for (size_t i = 0; i < 32; i++)
        f->failures_by_code[i] += w->failures_by_code[i];
    if (w->hist)
        bench_hist_merge(&f->latency, w->hist);
    if (f->ack_given < 0 || (w->ack_given >= 0 && w->ack_given < f->ack_given))
        f->ack_given = w->ack_given;
    if (w->first_code != SEAM_OK && f->error_code == SEAM_OK) {
        f->error_code = w->first_code;
        snprintf(f->error, sizeof(f->error), "%s", w->first_text);
    }
}

static size_t start_threads(struct run *r, run_body *body, void *arg, _Atomic int *phase,
                            _Atomic unsigned *ready, struct thread_arg *t)
{
    size_t started = 0;
    for (; started < r->turn->threads; started++) {
        struct run_worker *w = &t[started].worker;
        w->r = r;
        w->number = (unsigned)started;
        w->phase = phase;
        w->ready = ready;
        w->arg = arg;
        w->ack_given = -1;
        w->hist = calloc(1, sizeof(*w->hist));
        t[started].body = body;
        if (!w->hist || pthread_create(&t[started].thread, NULL, thread_main, &t[started]) != 0)
            break;
    }
    return started;
}

static void sleep_seconds(const struct run *r, double seconds)
{
    r->os->sleep_us(r->os->ctx, (uint64_t)(seconds * 1e6));
}

/* Longer than the turn's time only for a count of acks that was asked for. */
enum { ACKS_MOST_S = 120, ACKS_POLL_US = 50000 };

static void wait_for_acks(const struct run *r, uint64_t before)
{
    uint64_t begin = run_now(r);
    while (r->acked && atomic_load(r->acked) - before < r->turn->volume &&
           run_now(r) - begin < ACKS_MOST_S * UINT64_C(1000000000))
        r->os->sleep_us(r->os->ctx, ACKS_POLL_US);
}

/* A rate of a few operations is a rate; of none it is the time that was chosen. */
enum { DONE_LEAST = 10, DONE_MOST_S = 20, DONE_POLL_US = 2000 };

static void wait_for_some(const struct run *r, const struct thread_arg *t)
{
    uint64_t begin = run_now(r), done = 0;
    bool ended = false;
    while (!ended && done < DONE_LEAST && run_now(r) - begin < DONE_MOST_S * UINT64_C(1000000000)) {
        done = 0;
        ended = true;
        for (size_t i = 0; i < r->turn->threads; i++) {
            done += atomic_load_explicit(&t[i].worker.done, memory_order_relaxed);
            ended = ended && atomic_load(&t[i].worker.ended);
        }
        if (!ended && done < DONE_LEAST)
            r->os->sleep_us(r->os->ctx, DONE_POLL_US);
    }
}

bool run_threads(struct run *r, run_body *body, void *arg)
{
    _Atomic int phase = RUN_MAKE;
    _Atomic unsigned ready = 0;
    struct thread_arg *t = calloc(r->turn->threads, sizeof(*t));
    if (!t)
        return run_fail(r, "threads", SEAM_E_NOMEM);
    size_t started = start_threads(r, body, arg, &phase, &ready, t);
    if (started == r->turn->threads) {
        while (atomic_load(&ready) < started)
            r->os->sleep_us(r->os->ctx, READY_POLL_US);
        atomic_store(&phase, RUN_WARM);
        sleep_seconds(r, r->turn->warm_seconds);
        uint64_t before = r->acked ? atomic_load(r->acked) : 0;
        run_meter_begin(r);
        atomic_store(&phase, RUN_TIMED);
        sleep_seconds(r, r->turn->seconds);
        wait_for_acks(r, before);
        wait_for_some(r, t);
    }
    atomic_store(&phase, RUN_STOP);
    if (started == r->turn->threads)
        run_meter_end(r);
    for (size_t i = 0; i < started; i++)
        pthread_join(t[i].thread, NULL);
    for (size_t i = 0; i < started; i++)
        sum_up(r, &t[i].worker);
    for (size_t i = 0; i < r->turn->threads; i++)
        free(t[i].worker.hist);
    free(t);
    if (started < r->turn->threads)
        return run_fail(r, "threads", SEAM_E_NOMEM);
    r->ret->rate = r->ret->operations > 0 ? (double)r->ret->operations / r->ret->seconds : NAN;
    return true;
}

/* ---- digest ------------------------------------------------------------------------------ */

void run_digest_add(struct run_digest *d, struct seam_slice s)
{
    uint64_t len = s.len;
    for (size_t i = 0; i < 2; i++) {
        uint32_t seed = d->crc[i] ^ (i ? 0x5ea35ea3u : 0u);
        d->crc[i] = seam_crc32c(seam_crc32c(seed, &len, sizeof(len)), s.ptr, s.len);
    }
    d->n++;
    d->bytes += len;
}

void run_digest_text(const struct run_digest *d, char ret[33])
{
    snprintf(ret, 33, "%08" PRIx32 "%08" PRIx32 "%08" PRIx32 "%08" PRIx32, d->crc[0], d->crc[1],
             (uint32_t)d->n, (uint32_t)d->bytes);
}

/* ---- the turn ---------------------------------------------------------------------------- */

static void figures_unknown(struct bench_figures *f)
{
    memset(f, 0, sizeof(*f));
    f->ack_given = -1;
    f->rate = f->seconds = f->flushes = f->acks = f->device_bytes = f->cpu_us = NAN;
    f->rss_peak_bytes = f->disk_bytes = f->beside_reads = NAN;
    f->ingest_bytes = f->ingest_flushes = f->ingest_compactions = NAN;
}

static bool run_begin(struct run *r)
{
    char parent[BENCH_PATH];
    struct seam_usage usage;
    int rc = seam_corpus_open_sized(r->turn->profile, r->turn->seed, r->turn->keys, &r->corpus, &r->err);
    if (rc == SEAM_OK)
        rc = seam_maker_open(r->corpus, &r->maker, &r->err);
    if (rc != SEAM_OK)
        return run_fail(r, "corpus", rc);
    seam_corpus_describe(r->corpus, &r->info);
    snprintf(parent, sizeof(parent), "%s", r->turn->dir);
    char *slash = strrchr(parent, '/');
    if (slash && slash != parent)
        *slash = 0;
    seam_environment_read(slash ? parent : ".", &r->env);
    seam_usage_read(&usage);
    r->rss_before = usage.rss_bytes;
    return true;
}

void bench_turn_run(const struct bench_turn *turn, struct bench_figures *ret)
{
    struct run r;
    memset(&r, 0, sizeof(r));
    figures_unknown(ret);
    r.turn = turn;
    r.ret = ret;
    r.os = seam_platform_system();
    if (run_begin(&r)) {
        switch (turn->workload) {
        case BENCH_APPEND:
        case BENCH_JOURNAL:
        case BENCH_INGEST:
        case BENCH_UNITS:
            run_append(&r);
            break;
        case BENCH_LOAD:
        case BENCH_FILL:
            run_load(&r);
            break;
        case BENCH_REOPEN:
        case BENCH_REOPEN_AFTER_KILL:
            run_reopen(&r);
            break;
        case BENCH_MERGE:
            run_merge(&r);
            break;
        case BENCH_REBUILD:
        case BENCH_REBUILD_READ:
            run_rebuild(&r);
            break;
        default:
            run_read(&r);
            break;
        }
    }
    if (r.db)
        (void)seam_close(r.db, NULL);
    seam_maker_close(r.maker);
    seam_corpus_close(r.corpus);
    ret->done = ret->error_code == SEAM_OK && ret->failures == 0;
}
