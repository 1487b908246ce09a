/* conformance_text.c - what is text: codes, levels, sizes, lists of engines, specs, tunings. */
#include "conformance.h"

static void test_codes(void **state)
{
    (void)state;
#define CHECK(name, value, text)                                                                   \
    assert_int_equal(SEAM_##name, value);                                                          \
    assert_string_equal(seam_code_name(value), "SEAM_" #name);                                     \
    assert_string_equal(seam_code_text(value), text);
    SEAM_CODES(CHECK)
#undef CHECK
    assert_string_equal(seam_code_name(2), "SEAM_?");
    assert_string_equal(seam_code_name(-22), "SEAM_?");
    assert_string_equal(seam_code_name(-100000), "SEAM_?");
    assert_non_null(seam_code_text(4711));
}

static void test_version(void **state)
{
    unsigned a, b, c;
    char rest;

    (void)state;
    assert_int_equal(sscanf(seam_version(), "%u.%u.%u%c", &a, &b, &c, &rest), 3);
}

static void test_ack_names(void **state)
{
    static const char *const names[] = {"none", "process", "os", "power"};

    (void)state;
    for (int level = 0; level < 4; level++) {
        assert_string_equal(seam_ack_name((enum seam_ack)level), names[level]);
        assert_int_equal(seam_ack_parse(names[level]), level);
    }
    assert_int_equal(seam_ack_parse("POWER"), -1);
    assert_int_equal(seam_ack_parse(""), -1);
    assert_int_equal(seam_ack_parse("nonesuch"), -1);
    assert_int_equal(SEAM_ACK_LEVEL(SEAM_ACK_POWER | SEAM_ACK_WINDOW(1000)), SEAM_ACK_POWER);
    assert_int_equal(SEAM_ACK_WINDOW_MS(SEAM_ACK_OS | SEAM_ACK_WINDOW(16777215)), 16777215);
}

static void test_numbers(void **state)
{
    struct {
        const char *text;
        uint64_t size, count; /* UINT64_MAX: refused */
    } t[] = {
        {"0", 0, 0},
        {"4096", 4096, 4096},
        {"64K", 65536, 64000},
        {"1.5M", 1572864, 1500000},
        {"2G", UINT64_C(2) << 30, UINT64_C(2000000000)},
        {"16KiB", 16384, UINT64_MAX},
        {"1MiB", 1048576, UINT64_MAX},
        {"1GiB", UINT64_C(1) << 30, UINT64_MAX},
        {"", UINT64_MAX, UINT64_MAX},
        {"K", UINT64_MAX, UINT64_MAX},
        {"-1", UINT64_MAX, UINT64_MAX},
        {"1X", UINT64_MAX, UINT64_MAX},
        {"1 K", UINT64_MAX, UINT64_MAX},
        {"1KK", UINT64_MAX, UINT64_MAX},
        {"1.", UINT64_MAX, UINT64_MAX},
        {".5K", UINT64_MAX, UINT64_MAX},
        {"0x10", UINT64_MAX, UINT64_MAX},
        {"99999999999999999999", UINT64_MAX, UINT64_MAX},
        {"99999999999999999G", UINT64_MAX, UINT64_MAX},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
        uint64_t n = 4711;
        struct seam_err err = {0};
        expect_code(seam_parse_size(t[i].text, &n, &err),
                    t[i].size == UINT64_MAX ? SEAM_E_OPTION : SEAM_OK, &err);
        assert_int_equal(n, t[i].size == UINT64_MAX ? 4711 : t[i].size);
        n = 4711;
        expect_code(seam_parse_count(t[i].text, &n, &err),
                    t[i].count == UINT64_MAX ? SEAM_E_OPTION : SEAM_OK, &err);
        assert_int_equal(n, t[i].count == UINT64_MAX ? 4711 : t[i].count);
    }
}

static void test_engine_lists(void **state)
{
    const char *rest = "vlog,rocksdb:blob,write_buffer=8M,lmdb,strict+limit:ops=1,bytes=2+mem,x";
    static const char *const parts[] = {"vlog", "rocksdb:blob,write_buffer=8M", "lmdb",
                                        "strict+limit:ops=1,bytes=2+mem", "x"};
    static const char *const bad[] = {",", "a,,b", ",a", "a,"};
    char buf[64] = "kept";

    (void)state;
    for (size_t i = 0; i < 5; i++) {
        expect_ok(seam_engine_list_next(&rest, buf, sizeof(buf), NULL), NULL);
        assert_string_equal(buf, parts[i]);
    }
    expect_code(seam_engine_list_next(&rest, buf, sizeof(buf), NULL), SEAM_NOTFOUND, NULL);
    expect_code(seam_engine_list_next(&rest, buf, sizeof(buf), NULL), SEAM_NOTFOUND, NULL);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int rc = SEAM_OK;
        rest = bad[i];
        for (int n = 0; n < 4 && rc == SEAM_OK; n++)
            rc = seam_engine_list_next(&rest, buf, sizeof(buf), NULL);
        expect_code(rc, SEAM_E_OPTION, NULL);
    }
    rest = "abcd";
    expect_code(seam_engine_list_next(&rest, buf, 4, NULL), SEAM_E_OPTION, NULL);
    expect_ok(seam_engine_list_next(&rest, buf, 5, NULL), NULL);
}

static void test_engines(void **state)
{
    struct seam_engine_info all[64], two[2];
    size_t n = seam_engines(all, 64);

    (void)state;
    assert_in_range(n, 4, 64);
    assert_int_equal(seam_engines(NULL, 0), n);
    assert_int_equal(seam_engines(two, 2), n);
    assert_string_equal(two[1].name, all[1].name);
    for (size_t i = 0; i < n; i++) {
        const struct seam_tuning *t = seam_engine_tunings(all[i].name);
        assert_true(strlen(all[i].summary) > 0);
        assert_int_equal(all[i].built_in, all[i].version != NULL);
        if (all[i].built_in)
            assert_non_null(t);
        for (; t && t->name; t++) {
            assert_non_null(t->fallback);
            assert_non_null(t->help);
            assert_int_equal(t->kind == SEAM_TUNE_WORD, t->words != NULL);
        }
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(all[i].name, all[j].name);
    }
    assert_true(support_has("mem") || !support_has("nonesuch"));
    assert_null(seam_engine_tunings("nonesuch"));
}

static void expect_spec(const char *spec, int code, const char *named)
{
    struct seam_options o = {.mode = SEAM_OPEN_CREATE};
    const char *dir = support_dir();
    struct seam_db *db = (struct seam_db *)(void *)&o;
    struct seam_err err = {0};

    support_expect_code(seam_open(spec, dir, &o, &db, &err), code, &err, spec, __FILE__, __LINE__);
    assert_ptr_equal(db, (void *)&o);
    assert_int_equal(support_fingerprint(dir), 0);
    if (!strstr(err.text, named))
        fail_msg("the error for '%s' does not name '%s': %s", spec, named, err.text);
}

static void test_bad_specs(void **state)
{
    (void)state;
    expect_spec("nonesuch", SEAM_E_NO_ENGINE, "nonesuch");
    expect_spec("", SEAM_E_NO_ENGINE, "");
    expect_spec("+", SEAM_E_NO_ENGINE, "");
    expect_spec("strict", SEAM_E_NO_ENGINE, "strict");
    expect_spec(support_text("nonesuch+%s", support_spec()), SEAM_E_NO_ENGINE, "nonesuch");
    expect_spec(support_text("%s+%s", support_engine(), support_spec()), SEAM_E_NO_ENGINE,
                "comes last");
    expect_spec(support_text("%s+strict", support_engine()), SEAM_E_NO_ENGINE, "comes last");
    expect_spec("./no/such/library.so", SEAM_E_NO_ENGINE, "library.so");
    expect_spec(support_text("%s:nonesuch=1", support_engine()), SEAM_E_OPTION, "nonesuch");
    expect_spec(support_text("strict:nonesuch+%s", support_engine()), SEAM_E_OPTION, "nonesuch");
    expect_spec(support_text("limit:ops=many+%s", support_engine()), SEAM_E_OPTION, "many");
    expect_spec(support_text("limit:ops=-1+%s", support_engine()), SEAM_E_OPTION, "-1");
    expect_spec(support_text("limit:ops=1,nonesuch=2+%s", support_engine()), SEAM_E_OPTION,
                "nonesuch");
}

/* Every tuning of the engine takes its own default, and refuses what it does not take. */
static void test_tunings(void **state)
{
    const struct seam_tuning *t = seam_engine_tunings(support_engine());

    (void)state;
    for (; t && t->name; t++) { /* NULL: a plug-in */
        struct seam_options o = {.mode = SEAM_OPEN_CREATE};
        struct seam_db *db = support_open_with(
            support_text("%s:%s=%s", support_engine(), t->name, t->fallback), support_dir(), &o);
        support_close(db);
        expect_spec(support_text("%s:%s=?", support_engine(), t->name), SEAM_E_OPTION, t->name);
    }
}

static void test_bad_options(void **state)
{
    struct seam_options bad[] = {{.mode = SEAM_OPEN_CREATE, .headroom_percent = 101},
                                 {.mode = (enum seam_open_mode)17}};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const char *dir = support_dir();
        struct seam_db *db = NULL;
        expect_code(seam_open(support_spec(), dir, &bad[i], &db, NULL), SEAM_E_OPTION, NULL);
        assert_int_equal(support_fingerprint(dir), 0);
        assert_null(db);
    }
}

int conformance_text(void)
{
    const struct CMUnitTest text[] = {
        cmocka_unit_test(test_codes),        cmocka_unit_test(test_version),
        cmocka_unit_test(test_ack_names),    cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_engine_lists), cmocka_unit_test(test_engines),
        cmocka_unit_test(test_bad_specs),    cmocka_unit_test(test_tunings),
        cmocka_unit_test(test_bad_options),
    };
    return cmocka_run_group_tests(text, NULL, NULL);
}
