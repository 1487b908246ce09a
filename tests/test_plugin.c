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
        {"./a:b/lib.so", SEAM_E_NO_ENGINE, "written '\\:'"},
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

/* ---- memory of the platform ---------------------------------------------------------------- */

/* Counts what is out; refuses while `refuse` is set. One thread. */
struct counted {
    long out, calls;
    bool refuse;
};

static void *counted_alloc(void *ctx, size_t size)
{
    struct counted *c = ctx;
    void *ptr = c->refuse ? NULL : malloc(size);
    c->calls++;
    c->out += ptr != NULL;
    return ptr;
}

static void counted_free(void *ctx, void *ptr)
{
    ((struct counted *)ctx)->out -= ptr != NULL;
    free(ptr);
}

/* The copies that stand in where an engine has no near are the platform's memory, as all else. */
static void copied_pins_are_the_platforms_memory(void **state)
{
    static const char *const specs[] = {"./libseam_example.so", "metrics+strict+./libseam_example.so"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct counted count = {0, 0, false};
        struct seam_platform os = *seam_platform_system();
        struct seam_options options = {.platform = &os};
        struct seam_pin pin;
        struct seam_err err;
        os.ctx = &count;
        os.alloc = counted_alloc;
        os.free = counted_free;
        struct seam_db *db = open_ok(specs[i], &options);
        put(db, "k1", "one");
        long before = count.out, calls = count.calls;
        assert_int_equal(seam_floor(db, NULL, seam_bytes("k", 1), seam_bytes("k3", 2), &pin, &err),
                         SEAM_OK);
        assert_true(count.out > before);
        long copies = count.calls - calls;
        seam_unpin(&pin);
        assert_true(i > 0 || count.out == before); /* strict keeps poisoned copies for a while */
        count.refuse = true;
        assert_int_equal(seam_floor(db, NULL, seam_bytes("k", 1), seam_bytes("k3", 2), &pin, &err),
                         SEAM_E_NOMEM);
        count.refuse = false;
        assert_true(copies >= 2); /* the cursor and the copy */
        assert_int_equal(seam_close(db, NULL), SEAM_OK);
        assert_int_equal(count.out, 0);
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

/* A limit that only prepare could keep, without one. */
static uint64_t most_range_keys;

static void few_limits(const struct seam_engine *e, struct seam_limits *ret)
{
    seam_layer_limits(e->below, ret);
    ret->range_keys = most_range_keys;
}

static int few_prepare(struct seam_engine *e, struct seam_commit *c, uint64_t deadline_ns,
                       struct seam_err *err)
{
    return seam_layer_prepare(e->below, c, deadline_ns, err);
}

static int opens_nothing(const struct seam_open_args *args, struct seam_engine **ret,
                         struct seam_err *err)
{
    (void)args, (void)ret, (void)err;
    return SEAM_OK;
}

static void what_cannot_be_kept_is_refused_at_open(void **state)
{
    struct seam_backend few = passes("few"), counts = passes("counts"), none = passes("none");
    const struct seam_backend *const engines[] = {&few, &counts, &none, NULL};
    struct seam_options options = {.engines = engines};
    struct seam_db *db = NULL;
    struct seam_err err = {0};

    (void)state;
    few.limits = counts.limits = few_limits;
    counts.prepare = few_prepare;
    none.open = opens_nothing;
    most_range_keys = 7;
    assert_int_equal(seam_open("few+mem", NULL, &options, &db, &err), SEAM_E_NO_ENGINE);
    assert_non_null(strstr(err.text, "'few' has a limit range_keys of 7, but no prepare"));
    assert_int_equal(seam_open("strict+few+mem", NULL, &options, &db, &err), SEAM_E_NO_ENGINE);
    assert_null(db);
    assert_int_equal(seam_close(open_ok("counts+mem", &options), NULL), SEAM_OK);
    assert_int_equal(seam_close(open_ok("few+counts+mem", &options), NULL), SEAM_OK);
    most_range_keys = UINT64_MAX;
    assert_int_equal(seam_close(open_ok("few+mem", &options), NULL), SEAM_OK);
    assert_int_equal(seam_open("none+mem", NULL, &options, &db, &err), SEAM_E_IO);
    assert_non_null(strstr(err.text, "'none' said done, but opened nothing"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_path_with_options_and_under_wrappers),
        cmocka_unit_test(paths_may_hold_what_separates),
        cmocka_unit_test(errors_outlive_the_plugin),
        cmocka_unit_test(what_is_no_plugin_says_so),
        cmocka_unit_test(copied_pins_are_the_platforms_memory),
        cmocka_unit_test(given_engines_are_searched_first),
        cmocka_unit_test(what_cannot_be_kept_is_refused_at_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
