/* test_core.c - the pure parts of the core: numbers, lists and specs of engines, validation,
 * classification, error texts.
 *
 * Relies on mem and the limit wrapper. The random test prints its seed; SEAM_SEED replays it. */
#include <seam/backend.h>
#include <seam/seam.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static void sizes_and_counts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t size, count; /* 0: refused */
    } rows[] = {
        {"4096", 4096, 4096},       {"64K", 65536, 64000},          {"64k", 65536, 64000},
        {"8M", 8388608, 8000000},   {"1G", 1073741824, 1000000000}, {"1.5M", 1572864, 1500000},
        {"2GiB", 2147483648u, 0},   {"3KB", 3072, 0},               {"7B", 7, 0},
        {"104K", 106496, 104000},   {"", 0, 0},                     {"K", 0, 0},
        {"-1", 0, 0},               {"1.", 0, 0},                   {"1.5", 0, 0},
        {"2T", 2199023255552u, 2000000000000u},                     {"1TiB", 1099511627776u, 0},
        {"0.5t", 549755813888u, 500000000000u},                     {"1P", 0, 0},
        {"5X", 0, 0},               {"5KK", 0, 0},                  {"5 K", 0, 0},
        {"1e3", 0, 0},              {"0x10", 0, 0},                 {"99999999999999999999", 0, 0},
        {"18446744073709551615K", 0, 0},                            {"5KiBs", 0, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t got = 77;
        struct seam_err err;
        int rc = seam_parse_size(rows[i].text, &got, &err);
        assert_int_equal(rc, rows[i].size ? SEAM_OK : SEAM_E_OPTION);
        assert_int_equal(got, rows[i].size ? rows[i].size : 77);
        got = 77;
        rc = seam_parse_count(rows[i].text, &got, &err);
        assert_int_equal(rc, rows[i].count ? SEAM_OK : SEAM_E_OPTION);
        assert_int_equal(got, rows[i].count ? rows[i].count : 77);
    }
}

static void lists_are_cut_between_engines(void **state)
{
    (void)state;
    const char *rest = "vlog,rocksdb:blob,write_buffer=8M,strict+limit:ops=4,bytes=2K+lmdb,mem";
    static const char *const parts[] = {"vlog", "rocksdb:blob,write_buffer=8M",
                                        "strict+limit:ops=4,bytes=2K+lmdb", "mem"};
    char buf[64];
    struct seam_err err;
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(seam_engine_list_next(&rest, buf, sizeof(buf), &err), SEAM_OK);
        assert_string_equal(buf, parts[i]);
    }
    assert_int_equal(seam_engine_list_next(&rest, buf, sizeof(buf), &err), SEAM_NOTFOUND);
    static const char *const bad[] = {",mem", "mem,", "mem,,lmdb", ","};
    for (size_t i = 0; i < 4; i++) {
        int rc;
        rest = bad[i];
        while ((rc = seam_engine_list_next(&rest, buf, sizeof(buf), &err)) == SEAM_OK)
            ;
        assert_int_equal(rc, SEAM_E_OPTION);
    }
    rest = "a-name-that-is-longer-than-the-buffer-it-is-to-be-copied-to-by-far-and-more";
    assert_int_equal(seam_engine_list_next(&rest, buf, sizeof(buf), &err), SEAM_E_OPTION);
}

static void specs_that_are_wrong_say_so(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        int code;
        const char *says;
    } rows[] = {
        {"nosuch", SEAM_E_NO_ENGINE, "nosuch"},
        {"mem:nosuch=1", SEAM_E_OPTION, "nosuch"},
        {"limit:ops=5X+mem", SEAM_E_OPTION, "5X"},
        {"limit:ops=+mem", SEAM_E_OPTION, "not a number"},
        {"strict", SEAM_E_NO_ENGINE, "wrapper"},
        {"mem+strict", SEAM_E_NO_ENGINE, "last"},
        {"mem+mem", SEAM_E_NO_ENGINE, "last"},
        {"+mem", SEAM_E_NO_ENGINE, "has no name"},
        {"mem+", SEAM_E_NO_ENGINE, "has no name"},
        {"", SEAM_E_NO_ENGINE, "named"},
        {"./no-such-plugin.so", SEAM_E_NO_ENGINE, "no-such-plugin"},
        {"./no\\+such\\:plugin.so", SEAM_E_NO_ENGINE, "'./no+such:plugin.so'"},
        {"mem\\", SEAM_E_OPTION, "backslash"},
        {"limit:ops=1\\", SEAM_E_OPTION, "backslash"},
        {"limit:ops=1P+mem", SEAM_E_OPTION, "K, M, G or T"},
        {"strict+strict+strict+strict+strict+strict+strict+strict+mem", SEAM_E_NO_ENGINE, "at most"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct seam_db *db = NULL;
        struct seam_err err;
        int rc = seam_open(rows[i].spec, NULL, NULL, &db, &err);
        if (rc != rows[i].code || !strstr(err.text, rows[i].says))
            fail_msg("'%s': %s, '%s'", rows[i].spec, seam_code_name(rc), err.text);
        assert_null(db);
        assert_null(strchr(err.text, '\n'));
    }
}

/* A backslash takes the next character as it is: it separates no parts. */
static void lists_keep_what_is_escaped(void **state)
{
    static const char *const parts[] = {"./a\\,b.so", "./c\\:d.so:x=1,y=2", "./e\\=f\\+g.so", "mem"};
    const char *rest = "./a\\,b.so,./c\\:d.so:x=1,y=2,./e\\=f\\+g.so,mem";
    char buf[64];

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(seam_engine_list_next(&rest, buf, sizeof(buf), NULL), SEAM_OK);
        assert_string_equal(buf, parts[i]);
    }
    assert_int_equal(seam_engine_list_next(&rest, buf, sizeof(buf), NULL), SEAM_NOTFOUND);
}

/* All spellings of a spec have one name, and opening by that name gives the same stack. */
static void the_name_of_a_db_is_normalised(void **state)
{
    static const struct {
        const char *spec, *name;
    } rows[] = {
        {"mem", "mem"},
        {"strict+mem", "strict+mem"},
        {"limit:+mem", NULL},
        {"limit:ops=0+mem", "limit+mem"},
        {"limit:ops=104000,bytes=2048K+mem", "limit:ops=104K,bytes=2M+mem"},
        {"limit:bytes=1.5M,ops=0104000+mem", "limit:ops=104K,bytes=1536K+mem"},
        {"limit:tickets=7,tickets=8,bytes=1T+mem", "limit:bytes=1T,tickets=8+mem"},
        {"limit:ops=1000001,bytes=1048577+mem", "limit:ops=1000001,bytes=1048577+mem"},
        {"metrics+limit:ops=18446744073709551615+strict+mem",
         "metrics+limit:ops=18446744073709551615+strict+mem"},
        {"lim\\it:o\\ps=\\1+mem", "limit:ops=1+mem"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct seam_limits limits, again;
        struct seam_db *db = NULL;
        char name[128];
        if (!rows[i].name) {
            assert_int_equal(seam_open(rows[i].spec, NULL, NULL, &db, NULL), SEAM_E_OPTION);
            continue;
        }
        assert_int_equal(seam_open(rows[i].spec, NULL, NULL, &db, NULL), SEAM_OK);
        snprintf(name, sizeof(name), "%s", seam_db_engine(db));
        assert_string_equal(name, rows[i].name);
        seam_db_limits(db, &limits);
        assert_int_equal(seam_close(db, NULL), SEAM_OK);
        assert_int_equal(seam_open(name, NULL, NULL, &db, NULL), SEAM_OK);
        assert_string_equal(seam_db_engine(db), name);
        seam_db_limits(db, &again);
        assert_memory_equal(&limits, &again, sizeof(limits));
        assert_int_equal(seam_close(db, NULL), SEAM_OK);
    }
}

static void options_that_are_wrong_say_so(void **state)
{
    (void)state;
    struct seam_db *db = NULL;
    struct seam_err err;
    struct seam_options headroom = {.headroom_percent = 101}, memory = {.memory = 1000};
    struct seam_options mode = {.mode = (enum seam_open_mode)9};
    assert_int_equal(seam_open("mem", NULL, &headroom, &db, &err), SEAM_E_OPTION);
    assert_int_equal(seam_open("mem", NULL, &memory, &db, &err), SEAM_E_OPTION);
    assert_int_equal(seam_open("mem", NULL, &mode, &db, &err), SEAM_E_OPTION);
    assert_int_equal(seam_open(NULL, NULL, NULL, &db, &err), SEAM_E_NO_ENGINE);
    assert_null(db);
}

static void codes_and_texts(void **state)
{
    (void)state;
    char text[300], huge[600];
    struct seam_err err;
    assert_string_equal(seam_code_name(SEAM_E_UNKNOWN), "SEAM_E_UNKNOWN");
    assert_string_equal(seam_code_name(12345), "SEAM_?");
    assert_int_equal(seam_outcome(SEAM_OK), SEAM_DONE);
    assert_int_equal(seam_outcome(SEAM_E_UNKNOWN), SEAM_UNKNOWN);
    assert_int_equal(seam_outcome(SEAM_E_POISONED), SEAM_NOT_DONE);
    for (int level = 0; level < 4; level++)
        assert_int_equal(seam_ack_parse(seam_ack_name((enum seam_ack)level)), level);
    assert_int_equal(seam_ack_parse("sure"), -1);
    assert_int_equal(seam_fail(NULL, SEAM_E_IO, "x"), SEAM_E_IO);
    seam_fail(&err, SEAM_E_IO, "two\nlines");
    assert_string_equal(err.text, "two lines");
    memset(huge, 'x', sizeof(huge) - 1);
    huge[sizeof(huge) - 1] = 0;
    seam_fail(&err, SEAM_E_IO, "%s", huge);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    assert_int_equal(seam_fail_os(&err, ENOSPC, "%s", huge), SEAM_E_NO_SPACE);
    assert_int_equal(seam_fail_os(&err, EROFS, "file"), SEAM_E_READ_ONLY);
    assert_int_equal(err.os_errno, EROFS);
    assert_string_equal(seam_key_text(seam_bytes("a\\\x00\xff", 4), text, sizeof(text)),
                        "a\\x5c\\x00\\xff");
    assert_int_equal(strlen(seam_key_text(seam_bytes(huge, 500), text, sizeof(text))), 64);
    seam_key_text(seam_bytes(huge, 500), text, 1);
    assert_int_equal(text[0], 0);
}

/* ---- classification ---------------------------------------------------------------------- */

static uint64_t next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

static uint64_t seed_of_run(void)
{
    const char *given = getenv("SEAM_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    print_message("SEAM_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

static size_t random_unit(uint64_t *seed, struct seam_op *ops, size_t max)
{
    static const char bytes[64];
    size_t n = 1 + next(seed) % max;
    for (size_t i = 0; i < n; i++) {
        memset(&ops[i], 0, sizeof(ops[i]));
        ops[i].kind = next(seed) % 4 ? SEAM_PUT : SEAM_DELETE;
        ops[i].key = seam_bytes(bytes, 1 + next(seed) % 20);
        if (ops[i].kind == SEAM_PUT) {
            ops[i].head = seam_bytes(bytes, next(seed) % 40);
            ops[i].body = seam_bytes(bytes, next(seed) % 24);
        }
    }
    return n;
}

static void check_split(const struct seam_limits *l, const struct seam_op *ops, size_t n,
                        const size_t *ends, const struct seam_fit *fit)
{
    size_t begin = 0;
    for (size_t k = 0; k < fit->commits; k++) {
        struct seam_fit part;
        seam_classify(l, ops + begin, ends[k] - begin, NULL, &part);
        assert_int_equal(part.verdict, SEAM_FITS);
        if (k + 1 < fit->commits) { /* greedy: one more op would not have fitted */
            seam_classify(l, ops + begin, ends[k] + 1 - begin, NULL, &part);
            assert_int_equal(part.verdict, SEAM_SPLITS);
        }
        begin = ends[k];
    }
    assert_int_equal(begin, n);
}

static void classify_says_what_prepare_does(void **state)
{
    (void)state;
    uint64_t seed = seed_of_run();
    enum { MAX = 60 };
    struct seam_op ops[MAX];
    size_t ends[MAX];
    for (int round = 0; round < 300; round++) {
        char spec[96];
        struct seam_options options = {.headroom_percent = 100};
        struct seam_db *db;
        struct seam_limits limits;
        struct seam_fit fit;
        struct seam_ticket *ticket;
        snprintf(spec, sizeof(spec), "limit:ops=%u,bytes=%u,key=%u,value=%u+mem",
                 (unsigned)(1 + next(&seed) % 50), (unsigned)(20 + next(&seed) % 1500),
                 (unsigned)(10 + next(&seed) % 20), (unsigned)(20 + next(&seed) % 80));
        assert_int_equal(seam_open(spec, NULL, &options, &db, NULL), SEAM_OK);
        size_t n = random_unit(&seed, ops, MAX);
        seam_db_limits(db, &limits);
        seam_classify(&limits, ops, n, ends, &fit);
        int rc = seam_prepare(db, ops, n, SEAM_ACK_NONE, &ticket, NULL);
        assert_int_equal(rc, fit.verdict == SEAM_FITS ? SEAM_OK : SEAM_E_TOO_LARGE);
        if (rc == SEAM_OK)
            seam_abort(ticket);
        if (fit.verdict != SEAM_NEVER)
            check_split(&limits, ops, n, ends, &fit);
        assert_int_equal(seam_close(db, NULL), SEAM_OK);
    }
}

static void ranges_are_for_the_store_to_say(void **state)
{
    (void)state;
    struct seam_limits l = {.key = 10, .value = 10, .ops = 2, .bytes = 100, .range_keys = 5};
    struct seam_op ops[3] = {{SEAM_PUT, seam_bytes("a", 1), {NULL, 0}, {NULL, 0}},
                             {SEAM_DELETE_RANGE, seam_bytes("a", 1), seam_bytes("b", 1), {NULL, 0}},
                             {SEAM_PUT, seam_bytes("a", 1), {NULL, 0}, {NULL, 0}}};
    struct seam_fit fit;
    seam_classify(&l, ops, 3, NULL, &fit);
    assert_int_equal(fit.verdict, SEAM_ASK);
    assert_int_equal(fit.op, 1);
    assert_int_equal(fit.commits, 2);
    l.range_keys = UINT64_MAX; /* no limit: however much it covers, it fits */
    seam_classify(&l, ops, 3, NULL, &fit);
    assert_int_equal(fit.verdict, SEAM_SPLITS);
    assert_string_equal(fit.limit, "ops");
    seam_classify(&l, ops, 2, NULL, &fit);
    assert_int_equal(fit.verdict, SEAM_FITS);
    assert_null(fit.limit);
    l.range_keys = 5;
    l.caps = SEAM_CAP_LAZY_RANGE;
    seam_classify(&l, ops, 3, NULL, &fit);
    assert_int_equal(fit.verdict, SEAM_SPLITS);
    seam_classify(&l, ops, 2, NULL, &fit);
    assert_int_equal(fit.verdict, SEAM_FITS);
    l.ops = 0;
    seam_classify(&l, ops, 1, NULL, &fit);
    assert_int_equal(fit.verdict, SEAM_NEVER);
}

/* 90 % of a limit of one is one. */
static void a_limit_of_one_is_not_none(void **state)
{
    struct seam_db *db = NULL;
    struct seam_limits limits;
    struct seam_op op = {SEAM_PUT, {"k", 1}, {"v", 1}, {NULL, 0}};

    (void)state;
    assert_int_equal(seam_open("limit:ops=1+mem", NULL, NULL, &db, NULL), SEAM_OK);
    seam_db_limits(db, &limits);
    assert_int_equal(limits.ops, 1);
    assert_int_equal(seam_write(db, &op, 1, SEAM_ACK_NONE, NULL, NULL), SEAM_OK);
    assert_int_equal(seam_close(db, NULL), SEAM_OK);
}

static void slices_without_an_address_are_refused(void **state)
{
    const struct seam_slice bad = {NULL, 5}, good = {"k", 1};
    struct seam_db *db = NULL;
    struct seam_pin pin;
    struct seam_err err;

    (void)state;
    assert_int_equal(seam_open("mem", NULL, NULL, &db, NULL), SEAM_OK);
    assert_int_equal(seam_get(db, NULL, bad, &pin, &err), SEAM_E_INVALID);
    assert_non_null(strstr(err.text, "no address"));
    assert_int_equal(seam_floor(db, NULL, bad, good, &pin, &err), SEAM_E_INVALID);
    assert_int_equal(seam_floor(db, NULL, good, bad, &pin, &err), SEAM_E_INVALID);
    assert_int_equal(seam_ceiling(db, NULL, bad, good, &pin, &err), SEAM_E_INVALID);
    assert_int_equal(seam_ceiling(db, NULL, good, bad, &pin, &err), SEAM_E_INVALID);
    assert_int_equal(seam_close(db, NULL), SEAM_OK); /* no pin is held */
}

static void texts_steer_no_terminal(void **state)
{
    struct seam_err err;

    (void)state;
    seam_fail(&err, SEAM_E_IO, "one\ntwo\x1b[2J\tthree\x7f");
    assert_string_equal(err.text, "one two [2J three ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_and_counts),
        cmocka_unit_test(lists_are_cut_between_engines),
        cmocka_unit_test(lists_keep_what_is_escaped),
        cmocka_unit_test(specs_that_are_wrong_say_so),
        cmocka_unit_test(the_name_of_a_db_is_normalised),
        cmocka_unit_test(options_that_are_wrong_say_so),
        cmocka_unit_test(codes_and_texts),
        cmocka_unit_test(classify_says_what_prepare_does),
        cmocka_unit_test(ranges_are_for_the_store_to_say),
        cmocka_unit_test(a_limit_of_one_is_not_none),
        cmocka_unit_test(slices_without_an_address_are_refused),
        cmocka_unit_test(texts_steer_no_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
