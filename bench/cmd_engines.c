/* cmd_engines.c - `seam engines`: what is built in, with limits and options.
 *
 * Relies on the registry through seam_engines; limits are learnt from a store in a directory that
 * is made and removed again. */
#include "plan.h"

#include <jansson.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct bench_option options[] = {
    {"--json", NULL, "one JSON document, schema seam.engines/1", 1},
    {"--color", "WHEN", "auto, always, never", 2},
    {NULL, NULL, NULL, 0},
};

/* In a directory of its own under the temporary directory: nothing is measured here. An exit code;
 * what went wrong has been told. */
static int limits_of(const char *engine, struct seam_limits *ret)
{
    struct data_dir d;
    struct seam_options o = {.mode = SEAM_OPEN_CREATE};
    struct seam_db *db = NULL;
    struct seam_err err;
    char path[2 * BENCH_PATH];
    const char *tmp = getenv("TMPDIR");
    memset(&d, 0, sizeof(d));
    snprintf(d.path, sizeof(d.path), "%s/seam-engines.XXXXXX", tmp && tmp[0] ? tmp : "/tmp");
    if (!mkdtemp(d.path))
        return bench_failed("seam engines", "%s: limits unknown: cannot make a store in '%s': %s",
                            engine, tmp && tmp[0] ? tmp : "/tmp", strerror(errno));
    snprintf(path, sizeof(path), "%s/store-limits", d.path);
    int rc = seam_open(engine, path, &o, &db, &err);
    if (rc == SEAM_OK) {
        seam_db_limits(db, ret);
        (void)seam_close(db, NULL);
    }
    (void)data_remove_store(&d, "store-limits");
    rmdir(d.path);
    return rc == SEAM_OK ? BENCH_OK
                         : bench_failed("seam engines", "%s: limits unknown: %s", engine, err.text);
}

static const char *const caps[] = {"RESERVES", "LAZY_RANGE", "READ_AFTER_POISON", "MAY_ABORT",
                                   "MAY_SKIP"};

static json_t *limits_json(const struct seam_limits *l)
{
    json_t *o = json_object(), *list = json_array();
#define LIMIT(f)                                                                                  \
    json_object_set_new(o, #f, l->f > INT64_MAX ? json_null() : json_integer((json_int_t)l->f));
    LIMIT(key) LIMIT(value) LIMIT(ops) LIMIT(bytes) LIMIT(range_keys) LIMIT(tickets) LIMIT(pins)
    for (size_t i = 0; i < sizeof(caps) / sizeof(caps[0]); i++)
        if (l->caps & (1u << i))
            json_array_append_new(list, json_string(caps[i]));
    json_object_set_new(o, "caps", list);
    json_object_set_new(o, "best_ack", json_string(seam_ack_name(l->best)));
    return o;
}

static json_t *options_json(const char *engine)
{
    json_t *list = json_array();
    for (const struct seam_tuning *t = seam_engine_tunings(engine); t && t->name; t++) {
        json_t *o = json_object();
        json_object_set_new(o, "name", json_string(t->name));
        json_object_set_new(o, "default", json_string(t->fallback));
        json_object_set_new(o, "help", json_string(t->help));
        json_array_append_new(list, o);
    }
    return list;
}

static int print_json(const struct seam_engine_info *info, size_t n)
{
    json_t *o = json_object(), *list = json_array();
    int rc = BENCH_OK;
    for (size_t i = 0; i < n; i++) {
        struct seam_limits l;
        json_t *e = json_object();
        bool learn = info[i].built_in && !info[i].wrapper;
        if (learn && limits_of(info[i].name, &l) != BENCH_OK) {
            rc = BENCH_FAILED;
            learn = false;
        }
        json_object_set_new(e, "name", json_string(info[i].name));
        json_object_set_new(e, "summary", json_string(info[i].summary));
        json_object_set_new(e, "version", info[i].version ? json_string(info[i].version) : json_null());
        json_object_set_new(e, "built_in", json_boolean(info[i].built_in));
        json_object_set_new(e, "wrapper", json_boolean(info[i].wrapper));
        json_object_set_new(e, "volatile", json_boolean(info[i].is_volatile));
        json_object_set_new(e, "limits", learn ? limits_json(&l) : json_null());
        json_object_set_new(e, "options", options_json(info[i].name));
        json_array_append_new(list, e);
    }
    json_object_set_new(o, "schema", json_string("seam.engines/1"));
    json_object_set_new(o, "engines", list);
    int failed = json_dumpf(o, stdout, JSON_INDENT(1)) != 0 || putchar('\n') == EOF;
    json_decref(o);
    return failed ? BENCH_FAILED : rc;
}

static const char *limit_text(uint64_t v, bool bytes, char buf[BENCH_TEXT])
{
    if (v == UINT64_MAX)
        return "no limit";
    return bytes ? bench_text_bytes((double)v, buf) : bench_text_count((double)v, buf);
}

static void print_limits(const struct seam_limits *l)
{
    char key[BENCH_TEXT], value[BENCH_TEXT], ops[BENCH_TEXT], bytes[BENCH_TEXT];
    printf("  best ack %s; key %s, value %s; ops a commit %s, bytes %s;", seam_ack_name(l->best),
           limit_text(l->key, true, key), limit_text(l->value, true, value),
           limit_text(l->ops, false, ops), limit_text(l->bytes, true, bytes));
    for (size_t i = 0; i < sizeof(caps) / sizeof(caps[0]); i++)
        if (l->caps & (1u << i))
            printf(" %s", caps[i]);
    putchar('\n');
}

static int print_engine(const struct seam_engine_info *info)
{
    struct seam_limits l;
    int rc = BENCH_OK;
    printf("%s%s%s%s\n  %s\n", info->name, info->version ? " " : "",
           info->version ? info->version : "", info->wrapper ? " (wrapper)" : "", info->summary);
    if (info->built_in && !info->wrapper) {
        rc = limits_of(info->name, &l);
        if (rc == BENCH_OK)
            print_limits(&l);
        else
            puts("  limits unknown");
    }
    for (const struct seam_tuning *t = seam_engine_tunings(info->name); t && t->name; t++)
        printf("    %-18s %-10s %s\n", t->name, t->fallback, t->help);
    return rc;
}

int bench_cmd_engines(int argc, char **argv)
{
    struct bench_args args = {"seam engines", options, argc, 1, argv};
    struct seam_engine_info info[64];
    const char *value;
    bool json = false;
    int id;
    while ((id = bench_args_next(&args, &value)) >= 0) {
        json = json || id == 1;
        if (id == 2 && bench_color_parse(value) < 0)
            return bench_usage("seam engines", "--color is auto, always or never, not '%s'", value);
    }
    if (id == BENCH_ARG_BAD)
        return BENCH_USAGE;
    if (id == BENCH_ARG_HELP) {
        puts("seam engines - the engines and wrappers of this build, their limits and options\n\n"
             "Examples\n  seam engines\n  seam engines --json\n\n"
             "An option is given as in rocksdb:blob,write_buffer=8M; wrappers as in strict+lmdb.\n"
          "Sizes take K, M, G and T (1024 each), counts take K, M, G and T (1000 each).\n"
          "A name with a slash is a shared object, in which a backslash takes the next character\n"
          "as it is: './lib\\:1.so'.\n");
        bench_args_help(stdout, options);
        return BENCH_OK;
    }
    size_t n = seam_engines(info, 64);
    n = n < 64 ? n : 64;
    if (json)
        return print_json(info, n);
    int rc = BENCH_OK;
    for (size_t i = 0; i < n; i++)
        if (print_engine(&info[i]) != BENCH_OK)
            rc = BENCH_FAILED;
    return rc;
}
