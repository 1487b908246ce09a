/* plan.c - the command line of `seam bench` made into a plan, and the plan into rows.
 *
 * Keeps true: everything that can be wrong in a command line is told before anything is written. */
#include "plan.h"

#include <jansson.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPT_PROFILE,
    OPT_ENGINES,
    OPT_WORKLOADS,
    OPT_RUNS,
    OPT_THREADS,
    OPT_BATCH,
    OPT_ACK,
    OPT_TIME,
    OPT_DIR,
    OPT_JOURNAL_DIR,
    OPT_SEED,
    OPT_KEYS,
    OPT_VALUE,
    OPT_UNFLUSHED,
    OPT_INGEST,
    OPT_STEADY,
    OPT_QUICK,
    OPT_DRY_RUN,
    OPT_JSON,
    OPT_COLOR
};

static const struct bench_option options[] = {
    {"--profile", "P", "corpus: representative, stress, broker, fanout, or a file (representative)",
     OPT_PROFILE},
    {"--engines", "LIST", "engines and variants: vlog,rocksdb,rocksdb:blob,lmdb (all built in)",
     OPT_ENGINES},
    {"--workloads", "LIST", "of those below, and limits (all but units, append-under-ingest)",
     OPT_WORKLOADS},
    {"--runs", "N", "rounds; at least 6 for a verdict (6)", OPT_RUNS},
    {"--threads", "LIST", "of append, journal and units (1,8,32)", OPT_THREADS},
    {"--batch", "LIST", "puts in one commit, events in one append to the journal (1,50,1000)",
     OPT_BATCH},
    {"--ack", "LIST", "none, process, os, power; priced side by side (power)", OPT_ACK},
    {"--time", "S", "measured time of one turn: 0.5, 250ms (1)", OPT_TIME},
    {"--dir", "D", "where the data goes; made if missing, its parent not (./seam-bench)", OPT_DIR},
    {"--journal-dir", "D", "where the journals go, for another device (--dir)", OPT_JOURNAL_DIR},
    {"--seed", "N", "of the corpus (42)", OPT_SEED},
    {"--keys", "N", "keys in the loaded stores (the profile's)", OPT_KEYS},
    {"--value", "SIZE", "bytes of an appended value (256)", OPT_VALUE},
    {"--unflushed", "SIZE", "bytes acked at process before reopen-after-kill's kill (50M)",
     OPT_UNFLUSHED},
    {"--ingest", "SIZE", "bytes a second of append-under-ingest's ingest (32M)", OPT_INGEST},
    {"--steady", "SIZE", "bytes written before each durable turn, so that logs have rolled (none)",
     OPT_STEADY},
    {"--quick", NULL, "a first look within a minute: 3 short rounds, fewer rows", OPT_QUICK},
    {"--dry-run", NULL, "print the plan and stop; writes nothing", OPT_DRY_RUN},
    {"--json", "FILE", "the whole result as one document; - for stdout", OPT_JSON},
    {"--color", "WHEN", "auto, always, never", OPT_COLOR},
    {NULL, NULL, NULL, 0},
};

/* "append, journal, ..., limits" */
static const char *workload_names(char *buf, size_t cap)
{
    buf[0] = 0;
    for (int w = 0; w <= BENCH_FILL; w++) {
        size_t used = strlen(buf);
        const char *name = w < BENCH_FILL ? bench_workload_name((enum bench_workload)w) : "limits";
        snprintf(buf + used, cap - used, "%s%s", used ? ", " : "", name);
    }
    return buf;
}

static void help(void)
{
    char names[PLAN_TEXT * 2];
    fputs("seam bench - the same work on every engine, side by side, with what each ack meant\n\n"
          "Examples\n"
          "  seam bench --quick\n"
          "  seam bench --engines rocksdb,rocksdb:blob,lmdb --profile stress --json stress.json\n"
          "  seam bench --workloads append --threads 1,32 --batch 1 --ack process,power\n"
          "  seam bench --dry-run\n\n",
          stdout);
    bench_args_help(stdout, options);
    printf("\nWorkloads: %s\n", workload_names(names, sizeof(names)));
    fputs("\nExit codes: 0 ok, 1 a run had errors or wrong answers, 2 usage, 3 engine not built in,\n"
          "130 interrupted (what is complete is printed). See also docs/reading-the-numbers.md.\n",
          stdout);
}

static int parse_engines(const char *list, struct plan *p)
{
    struct seam_err err;
    int rc;
    p->n_engines = 0;
    while (p->n_engines < PLAN_ENGINES - 2) {
        struct plan_engine *e = &p->engines[p->n_engines];
        rc = seam_engine_list_next(&list, e->spec, sizeof(e->spec), &err);
        if (rc == SEAM_NOTFOUND)
            return BENCH_OK;
        if (rc != SEAM_OK)
            return bench_usage("seam bench", "%s", err.text);
        for (size_t i = 0; i < p->n_engines; i++)
            if (strcmp(p->engines[i].spec, e->spec) == 0)
                return bench_usage("seam bench", "--engines: %s is named twice", e->spec);
        p->n_engines++;
    }
    return bench_usage("seam bench", "at most %d engines in one run", PLAN_ENGINES - 3);
}

static int parse_workloads(const char *list, struct plan *p)
{
    char name[32], names[PLAN_TEXT * 2];
    memset(p->workloads, 0, sizeof(p->workloads));
    p->limits = false;
    while (bench_list_next(&list, name, sizeof(name))) {
        int w = bench_workload_parse(name);
        if (strcmp(name, "limits") == 0)
            p->limits = true;
        else if (w < 0)
            return bench_usage("seam bench", "unknown workload '%s'; there are %s", name,
                               workload_names(names, sizeof(names)));
        else
            p->workloads[w] = true;
    }
    return BENCH_OK;
}

static int parse_acks(const char *list, struct plan *p)
{
    char name[32];
    p->n_acks = 0;
    while (bench_list_next(&list, name, sizeof(name))) {
        int level = seam_ack_parse(name);
        if (level < 0)
            return bench_usage("seam bench", "unknown ack '%s'; there are none, process, os, power",
                               name);
        if (p->n_acks == PLAN_LIST)
            return bench_usage("seam bench", "at most %d acks", PLAN_LIST);
        for (size_t i = 0; i < p->n_acks; i++)
            if (p->acks[i] == (uint32_t)level)
                return bench_usage("seam bench", "--ack: %s is given twice", name);
        p->acks[p->n_acks++] = (uint32_t)level;
    }
    return BENCH_OK;
}

static int parse_number(const char *name, const char *text, uint64_t least, uint64_t most,
                        uint64_t *ret)
{
    char why[256];
    if (bench_list_counts(text, least, most, ret, 1, why, sizeof(why)) == 1)
        return BENCH_OK;
    return bench_usage("seam bench", "%s: %s", name, why);
}

static int parse_list(const char *name, const char *text, uint64_t most, uint64_t *ret, size_t *n)
{
    char why[256];
    *n = bench_list_counts(text, 1, most, ret, PLAN_LIST, why, sizeof(why));
    for (size_t i = 0; i < *n; i++)
        for (size_t k = 0; k < i; k++)
            if (ret[i] == ret[k])
                return bench_usage("seam bench", "%s: %llu is given twice", name, (unsigned long long)ret[i]);
    return *n > 0 ? BENCH_OK : bench_usage("seam bench", "%s: %s", name, why);
}

static int parse_path(const char *name, const char *text, char *ret, size_t cap)
{
    if (strlen(text) >= cap)
        return bench_usage("seam bench", "%s is longer than %zu bytes", name, cap - 1);
    memcpy(ret, text, strlen(text) + 1);
    return BENCH_OK;
}

static int parse_value(const char *text, struct plan *p)
{
    uint64_t n;
    struct seam_err err;
    if (seam_parse_size(text, &n, &err) != SEAM_OK)
        return bench_usage("seam bench", "--value: %s", err.text);
    if (n < SEAM_CORPUS_PROOF || n > (8u << 20))
        return bench_usage("seam bench", "--value: %s is out of range: allowed is %u to 8M", text,
                           SEAM_CORPUS_PROOF);
    p->value = (uint32_t)n;
    return BENCH_OK;
}

static int parse_bytes(const char *name, const char *text, uint64_t *ret)
{
    struct seam_err err;
    if (seam_parse_size(text, ret, &err) != SEAM_OK)
        return bench_usage("seam bench", "%s: %s", name, err.text);
    if (*ret < 1 || *ret > (UINT64_C(4) << 30))
        return bench_usage("seam bench", "%s: %s is out of range: allowed is 1 to 4G", name, text);
    return BENCH_OK;
}

static int parse_one(int id, const char *value, struct plan *p)
{
    uint64_t n = 0;
    int rc = BENCH_OK, color;
    switch (id) {
    case OPT_PROFILE:
        return parse_path("--profile", value, p->profile, sizeof(p->profile) - 64);
    case OPT_ENGINES:
        return parse_engines(value, p);
    case OPT_WORKLOADS:
        return parse_workloads(value, p);
    case OPT_RUNS:
        rc = parse_number("--runs", value, 1, BENCH_ROUNDS, &n);
        p->runs = (uint32_t)n;
        return rc;
    case OPT_THREADS:
        return parse_list("--threads", value, 256, p->threads, &p->n_threads);
    case OPT_BATCH:
        return parse_list("--batch", value, 100000, p->batches, &p->n_batches);
    case OPT_ACK:
        return parse_acks(value, p);
    case OPT_TIME:
        if (!bench_parse_seconds(value, &p->seconds) || p->seconds > 3600)
            return bench_usage("seam bench", "--time '%s' is not a time like 0.5, 250ms, 2m", value);
        return BENCH_OK;
    case OPT_DIR:
        return parse_path("--dir", value, p->dir, sizeof(p->dir) - 64);
    case OPT_JOURNAL_DIR:
        return parse_path("--journal-dir", value, p->journal_dir, sizeof(p->journal_dir) - 64);
    case OPT_SEED:
        return parse_number("--seed", value, 0, UINT64_MAX, &p->seed);
    case OPT_KEYS:
        return parse_number("--keys", value, 100, PLAN_KEYS_MOST, &p->keys);
    case OPT_VALUE:
        return parse_value(value, p);
    case OPT_UNFLUSHED:
        return parse_bytes("--unflushed", value, &p->unflushed);
    case OPT_INGEST:
        return parse_bytes("--ingest", value, &p->ingest);
    case OPT_STEADY:
        return parse_bytes("--steady", value, &p->steady);
    case OPT_JSON:
        p->json = value;
        return BENCH_OK;
    case OPT_COLOR:
        color = bench_color_parse(value);
        if (color < 0)
            return bench_usage("seam bench", "--color is auto, always or never, not '%s'", value);
        p->color = (enum bench_color)color;
        return BENCH_OK;
    case OPT_DRY_RUN:
        p->dry_run = true;
        return BENCH_OK;
    default:
        return BENCH_OK; /* --quick was seen first */
    }
}

static void all_built_in(struct plan *p)
{
    struct seam_engine_info info[64];
    size_t n = seam_engines(info, 64);
    for (size_t i = 0; i < n && i < 64; i++)
        if (info[i].built_in && !info[i].wrapper && p->n_engines < PLAN_ENGINES - 2)
            snprintf(p->engines[p->n_engines++].spec, BENCH_SPEC, "%s", info[i].name);
}

static void defaults(struct plan *p, bool quick)
{
    static const uint64_t threads[] = {1, 8, 32}, batches[] = {1, 50, 1000};
    memset(p, 0, sizeof(*p));
    snprintf(p->profile, sizeof(p->profile), "representative");
    snprintf(p->dir, sizeof(p->dir), "seam-bench");
    for (size_t i = 0; i < 3; i++) {
        p->threads[i] = threads[i];
        p->batches[i] = batches[i];
    }
    p->n_threads = p->n_batches = 3;
    p->acks[0] = SEAM_ACK_POWER;
    p->n_acks = 1;
    p->runs = 6;
    p->seconds = 1;
    p->value = 256;
    p->unflushed = UINT64_C(50) << 20;
    p->ingest = UINT64_C(32) << 20;
    p->seed = 42;
    p->quick = quick;
    for (int w = 0; w < BENCH_FILL; w++)
        p->workloads[w] = w != BENCH_UNITS && w != BENCH_INGEST;
    p->limits = true;
    if (!quick)
        return;
    p->threads[1] = 32;
    p->n_threads = p->n_batches = 2;
    p->runs = 3;
    p->seconds = 0.25;
    p->workloads[BENCH_JOURNAL] = p->workloads[BENCH_GET_MISS] = false;
    p->workloads[BENCH_SCAN] = p->workloads[BENCH_SCAN_REVERSE] = false;
    p->workloads[BENCH_FLOOR_DELETED] = p->workloads[BENCH_SCAN_REVERSE_DELETED] = false;
    p->workloads[BENCH_REOPEN] = p->workloads[BENCH_REOPEN_AFTER_KILL] = false;
    p->workloads[BENCH_REBUILD_READ] = false;
}

int plan_parse(int argc, char **argv, struct plan *ret)
{
    struct bench_args args = {"seam bench", options, argc, 1, argv};
    const char *value = NULL;
    bool quick = false, workloads = false;
    int id;
    for (int i = 1; i < argc; i++)
        quick = quick || strcmp(argv[i], "--quick") == 0;
    defaults(ret, quick);
    while ((id = bench_args_next(&args, &value)) >= 0) {
        int rc = parse_one(id, value, ret);
        workloads = workloads || id == OPT_WORKLOADS;
        if (rc != BENCH_OK)
            return rc;
    }
    if (id == BENCH_ARG_HELP) {
        help();
        return -1;
    }
    if (id == BENCH_ARG_BAD)
        return BENCH_USAGE;
    if (ret->n_engines == 0)
        all_built_in(ret);
    if (!workloads && strncmp(ret->profile, "stress", 6) == 0)
        ret->workloads[BENCH_UNITS] = true;
    ret->warm_seconds = ret->seconds < 1 ? ret->seconds / 3 : 0.33 * ret->seconds;
    return BENCH_OK;
}

/* ---- checks ------------------------------------------------------------------------------ */

/* A spec is looked at before a directory is: where there can be none, only the spec can be wrong. */
static int check_engine(struct plan_engine *e)
{
    struct seam_options o = {.mode = SEAM_OPEN_EXISTING};
    struct seam_engine_info info[64];
    struct seam_db *db = NULL;
    struct seam_err err;
    int rc = seam_open(e->spec, "/dev/null/no-store", &o, &db, &err);
    if (rc == SEAM_OK) {
        e->is_volatile = true;
        e->opened = true;
        seam_db_limits(db, &e->limits);
        (void)seam_close(db, NULL);
    }
    if (rc == SEAM_E_OPTION)
        return bench_usage("seam bench", "%s", err.text);
    if (rc != SEAM_E_NO_ENGINE)
        return BENCH_OK;
    size_t n = seam_engines(info, 64);
    bool absent = false;
    for (size_t i = 0; i < n && i < 64; i++)
        absent = absent || (!info[i].built_in && strstr(e->spec, info[i].name));
    (void)bench_usage("seam bench", "%s", err.text);
    return absent ? BENCH_NO_ENGINE : BENCH_USAGE;
}

/* Stores that a quick run reads and loads stay at about this size. */
#define QUICK_BYTES (UINT64_C(16) << 20)
#define QUICK_KEYS 60000u

static int open_corpus(const struct plan *p, struct seam_corpus **ret)
{
    struct seam_err err;
    int rc = seam_corpus_open_sized(p->profile, p->seed, p->keys, ret, &err);
    if (rc == SEAM_OK)
        return BENCH_OK;
    return rc == SEAM_E_NOMEM ? bench_failed("seam bench", "%s", err.text)
                              : bench_usage("seam bench", "%s", err.text);
}

static int check_profile(struct plan *p)
{
    struct seam_corpus *corpus = NULL;
    struct seam_corpus_info info;
    int rc = open_corpus(p, &corpus);
    if (rc != BENCH_OK)
        return rc;
    seam_corpus_describe(corpus, &info);
    seam_corpus_close(corpus);
    p->average = info.key_average + info.value_average;
    p->unit_ops = info.unit_ops_max;
    if (p->keys == 0 && p->quick) {
        uint64_t keys = QUICK_BYTES / (p->average ? p->average : 1);
        keys = keys < 200 ? 200 : keys > QUICK_KEYS ? QUICK_KEYS : keys;
        p->keys = keys > info.keys ? info.keys : keys;
    } else if (p->keys == 0) {
        p->keys = info.keys;
    }
    rc = open_corpus(p, &corpus); /* of the size that the turns open */
    seam_corpus_close(rc == BENCH_OK ? corpus : NULL);
    return rc;
}

static void add_rails(struct plan *p)
{
    static const char *const rails[] = {"rawlog", "null"};
    for (size_t i = 0; i < 2; i++) {
        struct plan_engine *e = &p->engines[p->n_engines++];
        memset(e, 0, sizeof(*e));
        snprintf(e->spec, sizeof(e->spec), "%s", rails[i]);
        e->rail = true;
    }
}

/* An engine may take less than PLAN_COMMIT_MOST: its rows are then left out. */
static int check_commits(const struct plan *p)
{
    for (size_t i = 0; i < p->n_batches; i++)
        if (p->batches[i] * (p->value + RUN_KEY) > PLAN_COMMIT_MOST)
            return bench_usage("seam bench",
                               "--batch %llu of --value %u is %llu bytes a commit: at most %llu",
                               (unsigned long long)p->batches[i], p->value,
                               (unsigned long long)(p->batches[i] * (p->value + RUN_KEY)),
                               (unsigned long long)PLAN_COMMIT_MOST);
    return BENCH_OK;
}

/* The turns and the result are told what is here as JSON, whose texts are UTF-8. */
static int check_text(const char *option, const char *text)
{
    json_t *o = json_string(text ? text : "");
    json_decref(o);
    return o ? BENCH_OK : bench_usage("seam bench", "%s is not UTF-8: name another", option);
}

int plan_check(struct plan *p)
{
    int rc = check_commits(p);
    if (rc == BENCH_OK)
        rc = check_text("--dir", p->dir);
    if (rc == BENCH_OK)
        rc = check_text("--journal-dir", p->journal_dir);
    if (rc == BENCH_OK)
        rc = check_text("--profile", p->profile);
    for (size_t i = 0; rc == BENCH_OK && i < p->n_engines; i++)
        rc = check_text("--engines", p->engines[i].spec);
    if (rc == BENCH_OK && p->json && !p->dry_run)
        rc = json_file_check(p->json);
    if (rc == BENCH_OK)
        rc = check_profile(p);
    for (size_t i = 0; rc == BENCH_OK && i < p->n_engines; i++)
        rc = check_engine(&p->engines[i]);
    if (rc == BENCH_OK)
        add_rails(p);
    return rc;
}
