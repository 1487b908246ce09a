/* cmd_probe.c - `seam probe`: what a flush costs here, and what kind of volume that means.
 *
 * Relies on probe.c. Works in a directory of the command's own, which it leaves as it was. */
#include "plan.h"

#include <jansson.h>

#include <math.h>
#include <string.h>

enum { OPT_DIR, OPT_TIME, OPT_JSON, OPT_COLOR };

static const struct bench_option options[] = {
    {"--dir", "D", "where to probe; made if missing, its parent not (./seam-bench)", OPT_DIR},
    {"--time", "S", "how long, about (5)", OPT_TIME},
    {"--json", NULL, "one JSON document, schema seam.probe/1", OPT_JSON},
    {"--color", "WHEN", "auto, always, never", OPT_COLOR},
    {NULL, NULL, NULL, 0},
};

struct probed {
    struct seam_environment env;
    struct seam_probe_cell cells[SEAM_PROBE_MAX_CELLS];
    size_t n;
};

static const struct seam_probe_cell *cell_of(const struct probed *p, enum seam_probe_how how,
                                             enum seam_probe_file file, uint32_t size)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->cells[i].how == how && p->cells[i].file == file && p->cells[i].size == size)
            return p->cells[i].n ? &p->cells[i] : NULL;
    return NULL;
}

/* By the median of a small flush: the classes are orders of magnitude apart. */
static const char *volume_class(double us)
{
    if (us < 20)
        return "memory, or a device that does not flush: no durability here";
    if (us < 150)
        return "a protected cache or fast NVMe";
    if (us < 1500)
        return "a local or virtual disk";
    if (us < 15000)
        return "a network volume or consumer disk";
    return "a spinning disk or slow network volume";
}

/* What many records in one flush gain over a flush each, from the price of a larger flush. */
static void print_batching(const struct seam_probe_cell *small, const struct seam_probe_cell *large)
{
    if (small && large)
        printf("  16 times the bytes in one flush cost %.2fx: batching 16 records can gain up to %.1fx\n",
               large->p50_us / small->p50_us, 16 * small->p50_us / large->p50_us);
}

static void print_ratio(const char *what, const struct seam_probe_cell *a,
                        const struct seam_probe_cell *b)
{
    if (a && b)
        printf("  %-56s %.2fx\n", what, a->p50_us / b->p50_us);
}

static void print_text(const struct probed *p, bool color)
{
    char mean[BENCH_TEXT], p50[BENCH_TEXT], p99[BENCH_TEXT];
    struct bench_table *t = bench_table_new("llrrrrr");
    bench_table_row(t);
    static const char *const heads[] = {"how", "file", "bytes", "calls", "mean ms", "p50 ms", "p99 ms"};
    for (size_t i = 0; i < 7; i++)
        bench_table_cell(t, "%s", heads[i]);
    for (size_t i = 0; i < p->n; i++) {
        const struct seam_probe_cell *c = &p->cells[i];
        bench_table_row(t);
        bench_table_cell(t, "%s", seam_probe_how_name(c->how));
        bench_table_cell(t, "%s", seam_probe_file_name(c->file));
        bench_table_cell(t, "%u", c->size);
        if (c->n == 0) {
            bench_table_wide(t, "not possible here");
            continue;
        }
        bench_table_cell(t, "%llu", (unsigned long long)c->n);
        bench_table_cell(t, "%s", bench_text_ms(c->mean_us, mean));
        bench_table_cell(t, "%s", bench_text_ms(c->p50_us, p50));
        bench_table_cell(t, "%s", bench_text_ms(c->p99_us < 0 ? NAN : c->p99_us, p99));
    }
    bench_table_print(t, stdout, color);
    bench_table_free(t);
    const struct seam_probe_cell *base = cell_of(p, SEAM_PROBE_FDATASYNC, SEAM_PROBE_WRITTEN, 4096);
    printf("\n%s%s%s: %s\n", p->env.filesystem, p->env.device[0] ? " on " : "", p->env.device,
           base ? volume_class(base->p50_us) : "unknown");
    print_ratio("a growing file instead of a written one",
                cell_of(p, SEAM_PROBE_FDATASYNC, SEAM_PROBE_GROWING, 4096), base);
    print_ratio("fsync instead of fdatasync",
                cell_of(p, SEAM_PROBE_FSYNC, SEAM_PROBE_WRITTEN, 4096), base);
    print_ratio("O_DIRECT|O_DSYNC instead of fdatasync",
                cell_of(p, SEAM_PROBE_DIRECT_DSYNC, SEAM_PROBE_WRITTEN, 4096), base);
    print_batching(base, cell_of(p, SEAM_PROBE_FDATASYNC, SEAM_PROBE_WRITTEN, 65536));
    for (size_t i = 0; p->env.not_durable[i]; i++)
        printf("CAREFUL  not a durability result: %s\n", p->env.not_durable[i]);
    for (size_t i = 0; p->env.careful[i]; i++)
        printf("CAREFUL  %s\n", p->env.careful[i]);
}

static int print_json(const struct probed *p)
{
    json_t *o = json_object(), *list = json_array();
    const struct seam_probe_cell *base = cell_of(p, SEAM_PROBE_FDATASYNC, SEAM_PROBE_WRITTEN, 4096);
    for (size_t i = 0; i < p->n; i++) {
        const struct seam_probe_cell *c = &p->cells[i];
        json_t *e = json_object();
        json_object_set_new(e, "how", json_string(seam_probe_how_name(c->how)));
        json_object_set_new(e, "file", json_string(seam_probe_file_name(c->file)));
        json_object_set_new(e, "bytes", json_integer(c->size));
        json_object_set_new(e, "calls", json_integer((json_int_t)c->n));
#define US(f) json_object_set_new(e, #f, c->f < 0 ? json_null() : json_real(c->f));
        US(mean_us) US(p50_us) US(p90_us) US(p99_us) US(max_us)
        json_array_append_new(list, e);
    }
    json_object_set_new(o, "schema", json_string("seam.probe/1"));
    json_object_set_new(o, "filesystem", json_string(p->env.filesystem));
    json_object_set_new(o, "device",
                        p->env.device[0] ? json_string(p->env.device) : json_null());
    json_object_set_new(o, "volume", base ? json_string(volume_class(base->p50_us)) : json_null());
    json_object_set_new(o, "cells", list);
    int failed = json_dumpf(o, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) != 0;
    failed = putchar('\n') == EOF || failed;
    json_decref(o);
    return failed ? BENCH_FAILED : BENCH_OK;
}

static int probe(const char *dir, double seconds, bool json, bool color)
{
    const struct seam_probe_options o = {NULL, 0, (uint32_t)(seconds * 1000), 0};
    struct probed p;
    struct data_dir d;
    struct seam_err err;
    int rc = data_open(dir, "--dir", &d);
    if (rc != BENCH_OK)
        return rc;
    seam_environment_read(d.path, &p.env);
    int code = seam_probe_all(d.path, &o, p.cells, &p.n, &err);
    data_close(&d);
    if (code != SEAM_OK)
        return bench_failed("seam probe", "%s", err.text);
    if (json)
        return print_json(&p);
    print_text(&p, color);
    return BENCH_OK;
}

int bench_cmd_probe(int argc, char **argv)
{
    struct bench_args args = {"seam probe", options, argc, 1, argv};
    const char *value = NULL, *dir = "seam-bench";
    double seconds = 5;
    bool json = false;
    int id, rc = BENCH_OK, color = BENCH_COLOR_AUTO;
    while (rc == BENCH_OK && (id = bench_args_next(&args, &value)) >= 0) {
        if (id == OPT_DIR)
            dir = value;
        else if (id == OPT_JSON)
            json = true;
        else if (id == OPT_TIME && (!bench_parse_seconds(value, &seconds) || seconds > 3600))
            rc = bench_usage("seam probe", "--time '%s' is not a time like 5, 500ms, 1m", value);
        else if (id == OPT_COLOR && (color = bench_color_parse(value)) < 0)
            rc = bench_usage("seam probe", "--color is auto, always or never, not '%s'", value);
    }
    if (rc != BENCH_OK || id == BENCH_ARG_BAD)
        return BENCH_USAGE;
    if (id == BENCH_ARG_HELP) {
        puts("seam probe - what a flush costs on this disk, by method, file and size\n\n"
             "Examples\n  seam probe\n  seam probe --dir /mnt/data --time 10\n");
        bench_args_help(stdout, options);
        return BENCH_OK;
    }
    return probe(dir, seconds, json, bench_color_on((enum bench_color)color, stdout));
}
