/* cmd_corpus.c - `seam corpus`: what a profile is made of, and its digest. */
#include "plan.h"

#include <jansson.h>

#include <stdlib.h>
#include <string.h>

enum { OPT_PROFILE, OPT_SEED, OPT_UNITS, OPT_JSON, OPT_COLOR };

static const struct bench_option options[] = {
    {"--profile", "P", "a built-in profile or a file (all built-in ones are listed)", OPT_PROFILE},
    {"--seed", "N", "(42)", OPT_SEED},
    {"--units", "N", "how many units the digest covers (100)", OPT_UNITS},
    {"--json", NULL, "one JSON document, schema seam.corpus/1", OPT_JSON},
    {"--color", "WHEN", "auto, always, never", OPT_COLOR},
    {NULL, NULL, NULL, 0},
};

static void print_text(const struct seam_corpus_info *i, uint64_t units, const char *digest)
{
    printf("%s, seed %llu, digest of %llu units %s\n%s\n", i->name, (unsigned long long)i->seed,
           (unsigned long long)units, digest, i->description);
    printf("keys %llu, units %llu of at most %llu ops; key %llu B, value %llu B on average, %llu at most\n",
           (unsigned long long)i->keys, (unsigned long long)i->units,
           (unsigned long long)i->unit_ops_max, (unsigned long long)i->key_average,
           (unsigned long long)i->value_average, (unsigned long long)i->value_max);
    for (size_t k = 0; k < i->n_knobs; k++) {
        const struct seam_corpus_knob *knob = &i->knobs[k];
        printf("  [%s] %s = ", knob->section, knob->name);
        if (knob->word)
            printf("%s\n", knob->word);
        else
            printf("%llu\n", (unsigned long long)knob->value);
    }
}

static int print_json(const struct seam_corpus_info *i, uint64_t units, const char *digest)
{
    json_t *o = json_object(), *knobs = json_object();
    json_object_set_new(o, "schema", json_string("seam.corpus/1"));
    json_object_set_new(o, "profile", json_string(i->name));
    json_object_set_new(o, "seed", json_integer((json_int_t)i->seed));
    json_object_set_new(o, "digest", json_string(digest));
    json_object_set_new(o, "digest_units", json_integer((json_int_t)units));
    json_object_set_new(o, "keys", json_integer((json_int_t)i->keys));
    json_object_set_new(o, "units", json_integer((json_int_t)i->units));
    for (size_t k = 0; k < i->n_knobs; k++) {
        const struct seam_corpus_knob *knob = &i->knobs[k];
        char name[128];
        snprintf(name, sizeof(name), "%s.%s", knob->section, knob->name);
        json_object_set_new(knobs, name, knob->word ? json_string(knob->word)
                                                    : json_integer((json_int_t)knob->value));
    }
    json_object_set_new(o, "knobs", knobs);
    int failed = json_dumpf(o, stdout, JSON_INDENT(1)) != 0 || putchar('\n') == EOF;
    json_decref(o);
    return failed ? BENCH_FAILED : BENCH_OK;
}

static int show(const char *profile, uint64_t seed, uint64_t units, bool json)
{
    struct seam_corpus *corpus = NULL;
    struct seam_corpus_info info;
    struct seam_err err;
    char digest[33];
    int rc = seam_corpus_open(profile, seed, &corpus, &err);
    if (rc == SEAM_OK) {
        seam_corpus_describe(corpus, &info);
        units = units < info.units ? units : info.units;
        rc = seam_corpus_digest(corpus, units, 2, digest, &err);
    }
    if (rc != SEAM_OK) {
        seam_corpus_close(corpus);
        return rc == SEAM_E_NOMEM ? bench_failed("seam corpus", "%s", err.text)
                                  : bench_usage("seam corpus", "%s", err.text);
    }
    if (json)
        rc = print_json(&info, units, digest);
    else
        print_text(&info, units, digest);
    seam_corpus_close(corpus);
    return rc;
}

static int list_profiles(void)
{
    for (size_t i = 0; seam_corpus_profile_at(i); i++)
        printf("%-16s %s\n", seam_corpus_profile_at(i)->name, seam_corpus_profile_at(i)->summary);
    return BENCH_OK;
}

static int number(const char *name, const char *text, uint64_t least, uint64_t *ret)
{
    char why[256];
    if (bench_list_counts(text, least, UINT64_MAX, ret, 1, why, sizeof(why)) == 1)
        return BENCH_OK;
    return bench_usage("seam corpus", "%s: %s", name, why);
}

int bench_cmd_corpus(int argc, char **argv)
{
    struct bench_args args = {"seam corpus", options, argc, 1, argv};
    const char *value = NULL, *profile = NULL;
    uint64_t seed = 42, units = 100;
    const char *of_one = NULL; /* an option that means nothing for the list */
    bool json = false;
    int id, rc = BENCH_OK;
    while (rc == BENCH_OK && (id = bench_args_next(&args, &value)) >= 0) {
        if (id == OPT_PROFILE)
            profile = value;
        else if (id == OPT_SEED)
            rc = number(of_one = "--seed", value, 0, &seed);
        else if (id == OPT_UNITS)
            rc = number(of_one = "--units", value, 1, &units);
        else if (id == OPT_JSON)
            json = true;
        else if (bench_color_parse(value) < 0)
            rc = bench_usage("seam corpus", "--color is auto, always or never, not '%s'", value);
    }
    if (rc != BENCH_OK || id == BENCH_ARG_BAD)
        return BENCH_USAGE;
    if (id == BENCH_ARG_HELP) {
        puts("seam corpus - what a profile is made of, and the digest of what it makes\n\n"
             "Examples\n  seam corpus\n  seam corpus --profile fanout --units 1\n"
             "  seam corpus --profile ./mine.ini --seed 7 --json\n");
        bench_args_help(stdout, options);
        return BENCH_OK;
    }
    if (!profile && !json && of_one)
        return bench_usage("seam corpus", "%s needs --profile: without it the profiles are listed",
                           of_one);
    rc = profile || json ? show(profile ? profile : "representative", seed, units, json)
                         : list_profiles();
    return rc;
}
