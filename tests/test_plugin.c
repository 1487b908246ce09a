/* test_plugin.c - engines that are loaded from a shared object, and those of options.engines.
 *
 * Runs in the directory of the shared objects. Relies on the example of a plug-in and on mem. */
#include <seam/backend.h>
#include <seam/seam.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct seam_db *open_ok(const char *spec, const struct seam_options *options)
{
    struct seam_db *db = NULL;
    struct seam_err err = {0};
    int rc = seam_open(spec, NULL, options, &db, &err);

    if (rc != SEAM_OK)
        fail_msg("%s: %s: %s", spec, seam_code_name(rc), err.text);
    return db;
}

static void put(struct seam_db *db, const char *key, const char *value)
{
    struct seam_op op = {SEAM_PUT, seam_bytes(key, strlen(key)), seam_bytes(value, strlen(value)),
                         {NULL, 0}};
    struct seam_err err = {0};

    assert_int_equal(seam_write(db, &op, 1, SEAM_ACK_NONE, NULL, &err), SEAM_OK);
}

static void expect_pin(struct seam_pin *pin, const char *key, const char *value)
{
    if (key)
        assert_memory_equal(pin->key.ptr, key, strlen(key));
    assert_int_equal(pin->value.len, strlen(value));
    assert_memory_equal(pin->value.ptr, value, strlen(value));
    seam_unpin(pin);
}

static void by_path_with_options_and_under_wrappers(void **state)
{
    static const char *const specs[] = {
        "./libseam_example.so", PLUGINS "/libseam_example.so:value=64K",
        "strict+./libseam_example.so", "metrics+strict+limit:ops=10+./libseam_example.so:value=64K"};

    (void)state;
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        struct seam_db *db = open_ok(specs[i], NULL);
        struct seam_limits limits;
        struct seam_stats stats;
        struct seam_pin pin;
        char text[64];
        struct seam_slice key = {"k3", 2}, prefix = {"k", 1};

        seam_db_limits(db, &limits);
        assert_int_equal(limits.value, strstr(specs[i], "64K") ? 65536 : 1048576);
        put(db, "k1", "one");
        put(db, "k5", "five");
        assert_int_equal(seam_get(db, NULL, seam_bytes("k1", 2), &pin, NULL), SEAM_OK);
        expect_pin(&pin, NULL, "one");
        /* the example has no near: a cursor and a copy stand in, and outlive what they show */
        assert_int_equal(seam_floor(db, NULL, prefix, key, &pin, NULL), SEAM_OK);
        put(db, "k1", "another");
        expect_pin(&pin, "k1", "one");
        assert_int_equal(seam_ceiling(db, NULL, prefix, key, &pin, NULL), SEAM_OK);
        expect_pin(&pin, "k5", "five");
        assert_int_equal(seam_db_stats(db, &stats, NULL), SEAM_OK);
        assert_int_equal(stats.commits, 3);
        assert_int_equal(stats.pins, 0);
        if (!strstr(specs[i], "metrics")) {
            assert_int_equal(stats.keys, -1);
            assert_int_equal(seam_db_describe(db, text, sizeof(text)), 0);
        }
        assert_int_equal(seam_close(db, NULL), SEAM_OK);
    }
}

/* The characters that separate, in a path; the handle's name is a spec that opens the same. */
static void paths_may_hold_what_separates(void **state)
{
    static const char from[] = PLUGINS "/libseam_example.so", to[] = "./odd:+,=\\ one.so";
    static const char *const names[] = {
        "strict+./odd\\:\\+\\,\\=\\\\ one.so:value=64K",
        "./odd\\:\\+\\,\\=\\\\ one.so", "mem"};
    const char *rest = "strict+./odd\\:\\+\\,\\=\\\\ one.so:value=65536,"
                       "./odd\\:\\+\\,\\=\\\\ one.so:value=1M,mem";
    char spec[128], name[128];

    (void)state;
    (void)unlink(to);
    assert_int_equal(symlink(from, to), 0);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(seam_engine_list_next(&rest, spec, sizeof(spec), NULL), SEAM_OK);
        struct seam_db *db = open_ok(spec, NULL);
        assert_string_equal(seam_db_engine(db), names[i]);
        snprintf(name, sizeof(name), "%s", seam_db_engine(db));
        put(db, "k", "v");
        assert_int_equal(seam_close(db, NULL), SEAM_OK);
        db = open_ok(name, NULL);
        assert_string_equal(seam_db_engine(db), name);
        assert_int_equal(seam_close(db, NULL), SEAM_OK);
    }
    /* Outside of a list the equals sign of a path separates nothing. */
    assert_int_equal(seam_close(open_ok("./odd\\:\\+\\,=\\\\ one.so", NULL), NULL), SEAM_OK);
    assert_int_equal(unlink(to), 0);
}

/* The name of a limit is in the plug-in; an error that holds it may outlive the db. */
static void errors_outlive_the_plugin(void **state)
{
    struct seam_db *db = open_ok("./libseam_example.so:value=4", NULL);
    struct seam_op op = {SEAM_PUT, {"k", 1}, {"12345", 5}, {NULL, 0}};
    struct seam_err err = {0};

    (void)state;
    assert_int_equal(seam_write(db, &op, 1, SEAM_ACK_NONE, NULL, &err), SEAM_E_TOO_LARGE);
    assert_int_equal(seam_close(db, NULL), SEAM_OK);
    assert_string_equal(err.limit, "value");
    assert_int_equal(err.max, 4);
}

static void what_is_no_plugin_says_so(void **state)
{
    static const struct {
        const char *spec;
        int code;
        const char *says;
    } rows[] = {
        {"./libbad_abi.so", SEAM_E_NO_ENGINE, "built for ABI 7"},
        {"./libbad_entry.so", SEAM_E_NO_ENGINE, "seam_backend_entry"},
        {"./libbad_op.so", SEAM_E_NO_ENGINE, "required op"},
        {"./libbad_null.so", SEAM_E_NO_ENGINE, "no table"},
        {"./libbad_name.so", SEAM_E_NO_ENGINE, "[a-z0-9_]+"},
        {"./libbad_tuning.so+mem", SEAM_E_NO_ENGINE, "an option without"},
        {"strict+./libbad_op.so", SEAM_E_NO_ENGINE, "required op"},
        {"./CMakeCache.txt", SEAM_E_NO_ENGINE, "cannot load './CMakeCache.txt'"},
        {"./libseam_missing.so", SEAM_E_NO_ENGINE, "cannot load './libseam_missing.so'"},
        {"./", SEAM_E_NO_ENGINE, "cannot load './'"},
        {"libseam_example.so", SEAM_E_NO_ENGINE, "no engine or wrapper 'libseam_example.so'"},
        {"example", SEAM_E_NO_ENGINE, "no engine or wrapper 'example'"},
        {"./libseam_example.so:nonesuch", SEAM_E_OPTION, "it takes value"},
        {"./libseam_example.so:value=17M", SEAM_E_OPTION, "value"},
        {"./libseam_example.so+mem", SEAM_E_NO_ENGINE, "comes last"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct seam_db *db = NULL;
        struct seam_err err = {0};
        int rc = seam_open(rows[i].spec, NULL, NULL, &db, &err);
        if (rc != rows[i].code || err.code != rc || !strstr(err.text, rows[i].says) ||
            strchr(err.text, '\n') || db)
            fail_msg("%s: %s: %s", rows[i].spec, seam_code_name(rc), err.text);
    }
}

/* ---- options.engines ----------------------------------------------------------------------- */

static int passes_open(const struct seam_open_args *args, struct seam_engine **ret,
                       struct seam_err *err)
{
    *ret = calloc(1, sizeof(**ret));
    (void)args;
    return *ret ? SEAM_OK : seam_fail(err, SEAM_E_NOMEM, "no memory");
}

static int passes_close(struct seam_engine *e, struct seam_err *err)
{
    int rc = seam_layer_close(e->below, err);
    free(e);
    return rc;
}

static size_t passes_describe(struct seam_engine *e, char *buf, size_t cap)
{
    (void)e;
    return (size_t)snprintf(buf, cap, "the caller's own");
}

static struct seam_backend passes(const char *name)
{
    struct seam_backend be = {.abi = SEAM_BACKEND_ABI, .flags = SEAM_BACKEND_WRAPPER, .name = name,
                              .summary = "passes all on", .open = passes_open,
                              .close = passes_close, .describe = passes_describe};
    return be;
}

static void given_engines_are_searched_first(void **state)
{
    struct seam_backend strict = passes("strict"), mine = passes("mine");
    const struct seam_backend *const engines[] = {&strict, &mine, NULL};
    struct seam_options options = {.engines = engines};
    struct seam_err err = {0};
    struct seam_db *db = open_ok("strict+mem", &options);
    char text[64];

    (void)state;
    (void)seam_db_describe(db, text, sizeof(text));
    assert_string_equal(text, "the caller's own");
    put(db, "k", "v");
    assert_int_equal(seam_close(db, NULL), SEAM_OK);
    db = open_ok("mine+strict+./libseam_example.so", &options);
    put(db, "k", "v");
    assert_int_equal(seam_close(db, NULL), SEAM_OK);
    assert_int_equal(seam_open("nonesuch", NULL, &options, &db, &err), SEAM_E_NO_ENGINE);
    assert_non_null(strstr(err.text, "mine"));
    mine.abi++;
    assert_int_equal(seam_open("mine+mem", NULL, &options, &db, &err), SEAM_E_NO_ENGINE);
    assert_non_null(strstr(err.text, "'mine' was built for ABI"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_path_with_options_and_under_wrappers),
        cmocka_unit_test(paths_may_hold_what_separates),
        cmocka_unit_test(errors_outlive_the_plugin),
        cmocka_unit_test(what_is_no_plugin_says_so),
        cmocka_unit_test(given_engines_are_searched_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
