/* json_check.c - json_check [--any] FILE|-: whether FILE is one JSON document, and (without --any) a
 * seam.bench/1 as docs/bench-json.md says. Prints what is wrong; exit 1. */
#include <jansson.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int complain(const char *what, const char *name)
{
    fprintf(stderr, "json_check: %s: %s\n", what, name);
    return 1;
}

static int has(const json_t *o, const char *const *names)
{
    for (; *names; names++)
        if (!json_object_get(o, *names))
            return complain("missing", *names);
    return 0;
}

static int number_or_null(const json_t *o, const char *const *names)
{
    for (; *names; names++) {
        const json_t *v = json_object_get(o, *names);
        if (!json_is_number(v) && !json_is_null(v))
            return complain("neither a number nor null", *names);
    }
    return 0;
}

static int check_ack(const json_t *row)
{
    const json_t *ack = json_object_get(row, "ack");
    static const char *const names[] = {"asked", "given", "how", "but", NULL};
    const char *given = json_string_value(json_object_get(ack, "given"));
    const char *how = json_string_value(json_object_get(ack, "how"));
    const char *engine = json_string_value(json_object_get(row, "engine"));
    const char *but = json_string_value(json_object_get(ack, "but"));
    if (has(ack, names))
        return 1;
    if (json_is_number(json_object_get(row, "flushes_per_ack")) && !given)
        return complain("flushes without an ack", "given");
    if (how && strcmp(how, "counted") == 0 && !json_is_number(json_object_get(row, "flushes_per_ack")))
        return complain("counted without flushes", "how");
    bool skips = given && engine && strstr(engine, "recycle");
    if (skips != (but && strcmp(but, "may skip damaged records") == 0))
        return complain("not what the engine's acks leave out", "but");
    return 0;
}

static int check_row(const json_t *row)
{
    static const char *const fields[] = {"workload", "engine", "threads", "batch", "runs", "rate",
                                         "latency_us", "ack", "errors", "of_rawlog", "left_out", NULL};
    static const char *const numbers[] = {"flushes_per_ack", "device_bytes_per_user_byte",
                                          "cpu_us_per_op", "rss_peak_bytes", "disk_bytes",
                                          "times_flush", NULL};
    static const char *const rates[] = {"median", "low", "high", NULL};
    static const char *const points[] = {"p50", "p90", "p99", "p999", "p9999", "max", NULL};
    const json_t *rate = json_object_get(row, "rate");
    if (has(row, fields) || number_or_null(row, numbers) || number_or_null(rate, rates) ||
        number_or_null(json_object_get(row, "latency_us"), points) || check_ack(row))
        return 1;
    if (!json_is_object(json_object_get(row, "errors")))
        return complain("no object", "errors");
    if (json_array_size(json_object_get(rate, "series")) !=
        (size_t)json_integer_value(json_object_get(row, "runs")))
        return complain("not one entry a round", "series");
    return 0;
}

static int check_bench(const json_t *o)
{
    static const char *const fields[] = {"schema", "environment", "seed", "corpus", "results",
                                         "caveats", "knobs", "limits", NULL};
    static const char *const corpus[] = {"profile", "digest", NULL};
    const char *schema = json_string_value(json_object_get(o, "schema"));
    const json_t *results = json_object_get(o, "results");
    if (has(o, fields) || has(json_object_get(o, "corpus"), corpus))
        return 1;
    if (!schema || strcmp(schema, "seam.bench/1") != 0)
        return complain("not seam.bench/1", "schema");
    for (size_t i = 0; i < json_array_size(results); i++)
        if (check_row(json_array_get(results, i)))
            return 1;
    return json_array_size(results) ? 0 : complain("empty", "results");
}

int main(int argc, char **argv)
{
    int any = argc > 1 && strcmp(argv[1], "--any") == 0;
    const char *path = argc > 1 + any ? argv[1 + any] : "-";
    json_error_t why;
    FILE *in = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
    json_t *o = in ? json_loadf(in, JSON_REJECT_DUPLICATES, &why) : NULL;
    if (!o)
        return complain(path, in ? why.text : "cannot be opened");
    int rc = any ? 0 : check_bench(o);
    json_decref(o);
    if (in != stdin)
        fclose(in);
    return rc;
}
