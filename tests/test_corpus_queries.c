/* test_corpus_queries.c - reads: load keys come once, absent keys are absent, floor queries know
 * their answer, skews are what they say. The model is the sorted bulk load. */
#include "corpus_support.h"

#include <stdlib.h>
#include <string.h>

/* Shapes whose edges differ: one version, versions that do not divide keys, one key, longest key,
 * shortest key. */
static const char *const shapes[] = {
    "representative:keys=20K",
    "stress:large_percent=0",
    "broker:keys=5K",
    "fanout:unit_min=10,unit_max=10,keys=3K",
    "representative:keys=1000,versions=1",
    "representative:keys=1003,versions=7",
    "representative:keys=1",
    "representative:keys=2,skew=hot",
    "representative:keys=3,versions=2",
    "representative:keys=500,key_min=511,key_max=511",
    "representative:keys=500,key_min=16,key_max=16,value_min=16,value_max=16",
    "representative:keys=500,key_min=16,key_max=27,skew=hot,hot_percent=100",
};

#define SHAPES (sizeof shapes / sizeof *shapes)

struct opened {
    struct seam_corpus *c;
    struct seam_maker *m;
    struct seam_corpus_info info;
    struct test_keys loaded;
};

static struct opened open_shape(const char *spec, uint64_t seed)
{
    struct opened o;
    o.c = corpus_must_open(spec, seed);
    o.m = corpus_must_make(o.c);
    seam_corpus_describe(o.c, &o.info);
    o.loaded = test_keys_loaded(o.m, o.info.keys);
    return o;
}

static void close_shape(struct opened *o)
{
    free(o->loaded.key);
    seam_maker_close(o->m);
    seam_corpus_close(o->c);
}

static uint64_t knob(const struct opened *o, const char *name)
{
    for (size_t i = 0; i < o->info.n_knobs; i++)
        if (strcmp(o->info.knobs[i].name, name) == 0)
            return o->info.knobs[i].value;
    fail_msg("no knob %s", name);
    return 0;
}

static void test_load_keys_once(void **state)
{
    (void)state;
    for (size_t s = 0; s < SHAPES; s++) {
        struct opened o = open_shape(shapes[s], 42);
        for (size_t j = 0; j < o.loaded.n; j++) {
            assert_in_range(o.loaded.key[j].len, knob(&o, "key_min"), knob(&o, "key_max"));
            assert_in_range(o.loaded.key[j].len, 16, 511);
            if (j > 0)
                assert_true(seam_compare(test_key_slice(&o.loaded.key[j - 1]),
                                         test_key_slice(&o.loaded.key[j])) < 0);
        }
        close_shape(&o);
    }
}

static void test_picks(void **state)
{
    (void)state;
    for (size_t s = 0; s < SHAPES; s++) {
        struct opened o = open_shape(shapes[s], 42);
        for (uint64_t n = 0; n < 2000; n++) {
            struct seam_slice key, again;
            uint64_t i = UINT64_MAX;
            const struct test_key *at;
            seam_maker_pick(o.m, n, &key, &i);
            assert_true(i < o.info.keys);
            at = test_keys_floor(&o.loaded, key);
            assert_non_null(at);
            assert_int_equal(seam_compare(test_key_slice(at), key), 0);
            assert_int_equal(at->i, i);
            seam_maker_pick(o.m, n, &again, NULL);
            assert_int_equal(seam_compare(test_key_slice(at), again), 0);
        }
        close_shape(&o);
    }
}

static bool begins(struct seam_slice key, struct seam_slice prefix)
{
    return key.len >= prefix.len && memcmp(key.ptr, prefix.ptr, prefix.len) == 0;
}

/* Absent from the load and from all that units and merges write; and beside a key that is there. */
static void test_absent(void **state)
{
    (void)state;
    for (size_t s = 0; s < SHAPES; s++) {
        struct opened o = open_shape(shapes[s], 42);
        struct test_keys absent = {.key = calloc(500, sizeof *absent.key), .n = 500};
        struct seam_unit unit = {.n = 0};
        assert_non_null(absent.key);
        for (size_t n = 0; n < 500; n++) {
            struct seam_slice key, prefix;
            const struct test_key *below;
            seam_maker_absent(o.m, n, &key);
            test_key_copy(&absent.key[n], key, n);
            below = test_keys_floor(&o.loaded, key);
            assert_non_null(below);
            assert_false(test_keys_has(&o.loaded, key));
            prefix = seam_bytes(key.ptr, key.len - 8);
            assert_int_equal(below->len, key.len);
            assert_true(begins(test_key_slice(below), prefix));
        }
        test_keys_sort(&absent);
        for (uint64_t u = 0; u < 500; u++) {
            assert_int_equal(seam_maker_unit(o.m, u, &unit, NULL), SEAM_OK);
            for (size_t j = 0; j < unit.n; j++)
                assert_false(test_keys_has(&absent, unit.ops[j].key));
            assert_int_equal(seam_maker_incoming(o.m, u, &unit, NULL), SEAM_OK);
            for (size_t j = 0; j < unit.n; j++)
                assert_false(test_keys_has(&absent, unit.ops[j].key));
        }
        free(absent.key);
        close_shape(&o);
    }
}

static void test_floor(void **state)
{
    uint64_t seed = test_seed();
    (void)state;
    for (size_t s = 0; s < SHAPES; s++) {
        struct opened o = open_shape(shapes[s], seed);
        uint64_t none = 0, exact = 0;
        for (uint64_t n = 0; n < 3000; n++) {
            struct seam_slice prefix, key;
            uint64_t i = 0;
            const struct test_key *at;
            seam_maker_floor(o.m, n, &prefix, &key, &i);
            assert_true(begins(key, prefix));
            assert_int_equal(prefix.len + 8, key.len);
            at = test_keys_floor(&o.loaded, key);
            if (at == NULL || !begins(test_key_slice(at), prefix)) {
                assert_int_equal(i, UINT64_MAX);
                none++;
            } else {
                assert_int_equal(i, at->i);
                exact += seam_compare(test_key_slice(at), key) == 0;
            }
        }
        assert_in_range(exact, 1, 2999);
        assert_in_range(none, 1, 2900);
        close_shape(&o);
    }
}

/* No entity's prefix is the beginning of another's key: floors never wander. */
static void test_prefixes_apart(void **state)
{
    struct opened o = open_shape("representative:keys=4K,versions=2,key_min=16,key_max=64", 42);
    (void)state;
    for (size_t j = 1; j < o.loaded.n; j++) {
        struct seam_slice a = test_key_slice(&o.loaded.key[j - 1]);
        struct seam_slice b = test_key_slice(&o.loaded.key[j]);
        if (memcmp(a.ptr, b.ptr, 8) != 0) {
            assert_false(begins(b, seam_bytes(a.ptr, a.len - 8)));
        } else {
            assert_int_equal(a.len, b.len);
            assert_memory_equal(a.ptr, b.ptr, a.len - 8);
        }
    }
    close_shape(&o);
}

static uint64_t *count_picks(const struct opened *o, uint64_t picks)
{
    uint64_t *count = calloc((size_t)o->info.keys, sizeof *count);
    assert_non_null(count);
    for (uint64_t n = 0; n < picks; n++) {
        struct seam_slice key;
        uint64_t i;
        seam_maker_pick(o->m, n, &key, &i);
        count[i]++;
    }
    return count;
}

static int more_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Zipf over 1000 keys: the harmonic number is 7.485, so the first has 133.6 thousandths of the
 * picks, the second half of that, and rank 100 a hundredth. */
static void test_zipf(void **state)
{
    struct opened o = open_shape("representative:keys=1000,skew=zipf", 42);
    uint64_t *count = count_picks(&o, 200000);
    uint64_t tail = 0;
    (void)state;
    qsort(count, 1000, sizeof *count, more_first);
    assert_in_range(count[0], 26000, 27500);
    assert_in_range(count[1], 12900, 13900);
    assert_in_range(count[2], 8500, 9300);
    assert_in_range(count[99], 200, 330);
    for (size_t i = 500; i < 1000; i++)
        tail += count[i]; /* (7.485 - 6.793) / 7.485 = 9.2 % */
    assert_in_range(tail, 17500, 19500);
    free(count);
    close_shape(&o);
}

static void test_hot_and_uniform(void **state)
{
    struct opened o =
        open_shape("representative:keys=1000,skew=hot,hot_permille=10,hot_percent=80", 42);
    uint64_t *count = count_picks(&o, 100000), hot = 0;
    (void)state;
    qsort(count, 1000, sizeof *count, more_first);
    for (size_t i = 0; i < 10; i++)
        hot += count[i];
    assert_in_range(hot, 79000, 81000);
    free(count);
    close_shape(&o);
    o = open_shape("representative:keys=1000,skew=uniform", 42);
    count = count_picks(&o, 100000);
    qsort(count, 1000, sizeof *count, more_first);
    assert_in_range(count[0], 100, 150);
    assert_in_range(count[999], 55, 100);
    free(count);
    close_shape(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load_keys_once),  cmocka_unit_test(test_picks),
        cmocka_unit_test(test_absent),          cmocka_unit_test(test_floor),
        cmocka_unit_test(test_prefixes_apart),  cmocka_unit_test(test_zipf),
        cmocka_unit_test(test_hot_and_uniform),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
