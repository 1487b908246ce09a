/* report_json.c - the report as one JSON document, schema seam.bench/1 (docs/bench-json.md).
 *
 * Keeps true: what is unknown is null; the document is whole or there is an error. */
#include "plan.h"

#include <jansson.h>

#include <errno.h>
#include <math.h>
#include <string.h>

static json_t *real(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static json_t *number(int64_t v)
{
    return v < 0 ? json_null() : json_integer((json_int_t)v);
}

static json_t *limit(uint64_t v)
{
    return v > INT64_MAX ? json_null() : json_integer((json_int_t)v);
}

static json_t *text(const char *s)
{
    json_t *o = s && s[0] ? json_string(s) : NULL;
    return o ? o : json_null(); /* what the system tells need not be UTF-8 */
}

static json_t *flag(int v)
{
    return v < 0 ? json_null() : json_boolean(v);
}

static json_t *list_of(const char *const *reasons)
{
    json_t *list = json_array();
    for (; *reasons; reasons++)
        json_array_append_new(list, json_string(*reasons));
    return list;
}

static json_t *environment(const struct report *r)
{
    const struct seam_environment *e = &r->env;
    json_t *o = json_object();
    json_object_set_new(o, "cpu", text(e->cpu_model));
    json_object_set_new(o, "cpus", number(e->cpus));
    json_object_set_new(o, "memory_bytes", number(e->memory_bytes));
    json_object_set_new(o, "kernel", text(e->kernel));
    json_object_set_new(o, "virtual_machine", flag(e->virtual_machine));
    json_object_set_new(o, "governor", text(e->governor));
    json_object_set_new(o, "on_battery", flag(e->on_battery));
    json_object_set_new(o, "cgroup_memory_max", number(e->cgroup_memory_max));
    json_object_set_new(o, "cgroup_cpus_max", real(e->cgroup_cpus_max < 0 ? NAN : e->cgroup_cpus_max));
    json_object_set_new(o, "filesystem", text(e->filesystem));
    json_object_set_new(o, "mount_options", text(e->mount_options));
    json_object_set_new(o, "device", text(e->device));
    json_object_set_new(o, "device_model", text(e->device_model));
    json_object_set_new(o, "write_cache", text(e->write_cache));
    json_object_set_new(o, "fua", flag(e->fua));
    json_object_set_new(o, "rotational", flag(e->rotational));
    json_object_set_new(o, "scheduler", text(e->scheduler));
    json_object_set_new(o, "logical_block", number(e->logical_block));
    json_object_set_new(o, "flush_us_low", real(r->flush_low_us));
    json_object_set_new(o, "flush_us_high", real(r->flush_high_us));
    json_object_set_new(o, "fsync_us", real(r->fsync_us));
    json_object_set_new(o, "fdatasync_us", real(r->fdatasync_us));
    json_object_set_new(o, "not_durable", list_of(e->not_durable));
    json_object_set_new(o, "seam", json_string(seam_version()));
    return o;
}

static json_t *versions(void)
{
    struct seam_engine_info info[64];
    size_t n = seam_engines(info, 64);
    json_t *o = json_object();
    for (size_t i = 0; i < n && i < 64; i++)
        if (info[i].built_in && !info[i].wrapper)
            json_object_set_new(o, info[i].name, text(info[i].version));
    return o;
}

static json_t *corpus(const struct report *r)
{
    json_t *o = json_object();
    json_object_set_new(o, "profile", json_string(r->plan->profile));
    json_object_set_new(o, "digest", text(r->digest));
    json_object_set_new(o, "digest_units", json_integer((json_int_t)r->digest_units));
    json_object_set_new(o, "keys", json_integer((json_int_t)r->plan->keys));
    json_object_set_new(o, "key_average", json_integer((json_int_t)r->corpus.key_average));
    json_object_set_new(o, "value_average", json_integer((json_int_t)r->corpus.value_average));
    return o;
}

static json_t *knobs(const struct plan *p)
{
    json_t *o = json_object();
    json_object_set_new(o, "runs", json_integer(p->runs));
    json_object_set_new(o, "seconds", json_real(p->seconds));
    json_object_set_new(o, "warm_seconds", json_real(p->warm_seconds));
    json_object_set_new(o, "keys", json_integer((json_int_t)p->keys));
    json_object_set_new(o, "value", json_integer(p->value));
    json_object_set_new(o, "ingest", json_integer((json_int_t)p->ingest));
    json_object_set_new(o, "journal_dir", text(p->journal_dir));
    json_object_set_new(o, "steady", json_integer((json_int_t)p->steady));
    json_object_set_new(o, "unflushed", json_integer((json_int_t)p->unflushed));
    json_object_set_new(o, "quick", json_boolean(p->quick));
    json_object_set_new(o, "engine_memory", json_integer((json_int_t)BENCH_ENGINE_MEMORY));
    return o;
}

static json_t *limits(const struct plan *p)
{
    json_t *list = json_array();
    for (size_t i = 0; i < p->n_engines; i++) {
        const struct seam_limits *l = &p->engines[i].limits;
        if (!p->engines[i].opened)
            continue;
        json_t *o = json_object();
        json_object_set_new(o, "engine", json_string(p->engines[i].spec));
        json_object_set_new(o, "key", limit(l->key));
        json_object_set_new(o, "value", limit(l->value));
        json_object_set_new(o, "ops", limit(l->ops));
        json_object_set_new(o, "bytes", limit(l->bytes));
        json_object_set_new(o, "range_keys", limit(l->range_keys));
        json_object_set_new(o, "best_ack", json_string(seam_ack_name(l->best)));
        json_object_set_new(o, "ack_but", text(report_ack_but(l)));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *figures(const double *v, uint32_t n)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(list, real(v[i]));
    return list;
}

static json_t *ingest(const struct plan_row *row)
{
    json_t *o = json_object();
    json_object_set_new(o, "acks", json_integer((json_int_t)row->sum.operations));
    json_object_set_new(o, "bytes_per_second", real(row->sum.ingest_bytes / row->sum.seconds));
    json_object_set_new(o, "flushes", real(row->sum.ingest_flushes));
    json_object_set_new(o, "compactions", real(row->sum.ingest_compactions));
    return o;
}

static json_t *rate(const struct plan_row *row)
{
    struct bench_spread s;
    json_t *o = json_object();
    bench_spread(row->rate, row->rounds, &s);
    json_object_set_new(o, "unit", json_string(bench_workload_unit(row->turn.workload)));
    json_object_set_new(o, "median", real(s.median));
    json_object_set_new(o, "low", real(s.low));
    json_object_set_new(o, "high", real(s.high));
    json_object_set_new(o, "series", figures(row->rate, row->rounds));
    return o;
}

static json_t *latency(const struct plan_row *row)
{
    static const struct {
        const char *name;
        double p;
    } points[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}, {"p9999", 0.9999}};
    json_t *o = json_object();
    for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++)
        json_object_set_new(o, points[i].name, real(row_percentile_us(row, points[i].p)));
    json_object_set_new(o, "max", row->sum.latency.count ? json_real((double)row->sum.latency.max / 1000)
                                                         : json_null());
    return o;
}

static json_t *ack(const struct plan_row *row, const struct seam_limits *l)
{
    bool durable = bench_workload_durable(row->turn.workload);
    json_t *o = json_object();
    json_object_set_new(o, "asked",
                        durable ? json_string(seam_ack_name(SEAM_ACK_LEVEL(row->turn.ack))) : json_null());
    json_object_set_new(o, "given", row->sum.done && row->sum.ack_given >= 0
                                        ? json_string(seam_ack_name((enum seam_ack)row->sum.ack_given))
                                        : json_null());
    json_object_set_new(o, "how", text(row_ack_how(row)));
    json_object_set_new(o, "but", row->sum.done && row->sum.ack_given >= 0 ? text(report_ack_but(l))
                                                                           : json_null());
    return o;
}

static json_t *errors(const struct plan_row *row)
{
    json_t *o = json_object();
    for (int code = 1; code < 32; code++)
        if (row->sum.failures_by_code[code])
            json_object_set_new(o, seam_code_name(-code),
                                json_integer((json_int_t)row->sum.failures_by_code[code]));
    if (row->sum.wrong)
        json_object_set_new(o, "wrong_answers", json_integer((json_int_t)row->sum.wrong));
    if (row->sum.error_code != SEAM_OK && json_object_size(o) == 0)
        json_object_set_new(o, seam_code_name(row->sum.error_code), json_integer(1));
    return o;
}

static json_t *result(const struct report *r, const struct plan_row *row)
{
    const struct plan_row *rail = row_of_rail(r, row->block);
    struct bench_spread ratio = {NAN, NAN, NAN, 0};
    json_t *o = json_object(), *of = json_object();
    if (rail && strcmp(row->turn.engine, "null") != 0 && row->sum.ack_given == SEAM_ACK_POWER)
        bench_paired(row->rate, rail->rate, row->rounds, &ratio);
    json_object_set_new(o, "workload", json_string(bench_workload_name(row->turn.workload)));
    json_object_set_new(o, "engine", json_string(row->turn.engine));
    json_object_set_new(o, "threads", json_integer(row->turn.threads));
    json_object_set_new(o, "batch", json_integer(row->turn.batch));
    json_object_set_new(o, "runs", json_integer(row->rounds));
    json_object_set_new(o, "rate", rate(row));
    json_object_set_new(o, "latency_us", latency(row));
    json_object_set_new(o, "ack", ack(row, &r->plan->engines[row->engine].limits));
    json_object_set_new(o, "flushes_per_ack", real(row_flushes_per_ack(row)));
    json_object_set_new(o, "times_flush", bench_workload_durable(row->turn.workload)
                                              ? real(row_times_flush(row)) : json_null());
    json_object_set_new(of, "median", real(ratio.median));
    json_object_set_new(of, "low", real(ratio.low));
    json_object_set_new(of, "high", real(ratio.high));
    json_object_set_new(o, "of_rawlog", of);
    json_object_set_new(o, "device_bytes_per_user_byte", real(row_device_per_user(row)));
    json_object_set_new(o, "cpu_us_per_op", real(row_cpu_us_per_op(row)));
    json_object_set_new(o, "rss_peak_bytes", row->sum.done ? real(row->sum.rss_peak_bytes) : json_null());
    json_object_set_new(o, "disk_bytes", row->sum.done ? real(row->sum.disk_bytes) : json_null());
    json_object_set_new(o, "p50_us_series", figures(row->p50_us, row->rounds));
    json_object_set_new(o, "p999_us_series", figures(row->p999_us, row->rounds));
    json_object_set_new(o, "ingest", row->turn.workload == BENCH_INGEST && row->sum.done ? ingest(row)
                                                                                        : json_null());
    json_object_set_new(o, "beside_reads_per_second", real(row_beside_reads(row)));
    json_object_set_new(o, "answers", text(row->sum.answers));
    json_object_set_new(o, "errors", errors(row));
    json_object_set_new(o, "left_out", text(row->left_out));
    return o;
}

static json_t *document(const struct report *r)
{
    json_t *o = json_object(), *results = json_array(), *caveats = json_array();
    for (size_t i = 0; i < r->n_rows; i++)
        json_array_append_new(results, result(r, &r->rows[i]));
    for (size_t i = 0; i < r->n_caveats; i++)
        json_array_append_new(caveats, json_string(r->caveats[i]));
    json_object_set_new(o, "schema", json_string("seam.bench/1"));
    json_object_set_new(o, "environment", environment(r));
    json_object_set_new(o, "engines", versions());
    json_object_set_new(o, "seed", json_integer((json_int_t)r->plan->seed));
    json_object_set_new(o, "corpus", corpus(r));
    json_object_set_new(o, "knobs", knobs(r->plan));
    json_object_set_new(o, "limits", limits(r->plan));
    json_object_set_new(o, "results", results);
    json_object_set_new(o, "caveats", caveats);
    json_object_set_new(o, "interrupted", json_boolean(r->interrupted));
    json_object_set_new(o, "seconds", real(r->took_seconds));
    return o;
}

int report_json(const struct report *r, const char *path)
{
    json_t *o = document(r);
    FILE *out = json_file_open(path);
    int failed = !out || json_dumpf(o, out, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) != 0;
    if (out)
        failed = fputc('\n', out) == EOF || fflush(out) != 0 || failed;
    int why = errno;
    json_decref(o);
    errno = why;
    return json_file_close(path, out, failed);
}
