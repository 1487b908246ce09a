/* test_corpus.c - digests, units and proofs: the bytes are the same everywhere, are what the
 * profiles say, and no changed byte goes unseen.
 *
 * Relies on corpus/internal.h for the hash and the permutation, which have no public face. */
#include "corpus_support.h"

#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Published results of MurmurHash3_x64_128 with seed 0, fed whole and byte by byte. */
static void test_hash(void **state)
{
    static const struct {
        const char *text;
        uint64_t h[2];
    } rows[] = {
        {"", {0, 0}},
        {"hello", {UINT64_C(0xcbd8a7b341bd9b02), UINT64_C(0x5b1e906a48ae1d19)}},
        {"The quick brown fox jumps over the lazy dog",
         {UINT64_C(0xe34bbc7bbc071b6c), UINT64_C(0x7a433ca9c49a9347)}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct corpus_hash h;
        uint64_t got[2];
        size_t len = strlen(rows[i].text);
        corpus_hash_init(&h, 0);
        corpus_hash_add(&h, rows[i].text, len);
        corpus_hash_end(&h, got);
        assert_memory_equal(got, rows[i].h, sizeof got);
        corpus_hash_init(&h, 0);
        for (size_t j = 0; j < len; j++)
            corpus_hash_add(&h, rows[i].text + j, 1);
        corpus_hash_end(&h, got);
        assert_memory_equal(got, rows[i].h, sizeof got);
    }
}

static void test_permutation(void **state)
{
    static uint8_t seen[5000];
    (void)state;
    for (uint64_t n = 1; n <= sizeof seen; n += n < 70 ? 1 : 493) {
        struct permutation p;
        permutation_init(&p, n, n * 77);
        memset(seen, 0, sizeof seen);
        for (uint64_t x = 0; x < n; x++) {
            uint64_t y = permutation_at(&p, x);
            assert_true(y < n);
            assert_int_equal(seen[y], 0);
            seen[y] = 1;
            assert_int_equal(permutation_back(&p, y), x);
        }
    }
}

static void digest(const struct seam_corpus *c, uint64_t units, unsigned threads, char hex[33])
{
    struct seam_err err;
    if (seam_corpus_digest(c, units, threads, hex, &err) != SEAM_OK)
        fail_msg("%s", err.text);
    assert_int_equal(strlen(hex), 32);
}

static void test_digest(void **state)
{
    static const char *const specs[] = {"representative", "stress:large_max=64K,large_min=1K",
                                        "broker", "fanout:unit_min=100,unit_max=300"};
    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        struct seam_corpus *a = corpus_must_open(specs[i], 42), *b = corpus_must_open(specs[i], 42);
        struct seam_corpus *other = corpus_must_open(specs[i], 43);
        char one[33], eight[33], again[33], less[33], changed[33];
        digest(a, 200, 1, one);
        digest(a, 200, 8, eight);
        digest(b, 200, 3, again);
        digest(b, 199, 1, less);
        digest(other, 200, 8, changed);
        assert_string_equal(one, eight);
        assert_string_equal(one, again);
        assert_string_not_equal(one, less);
        assert_string_not_equal(one, changed);
        seam_corpus_close(a);
        seam_corpus_close(b);
        seam_corpus_close(other);
    }
}

/* golden/corpus.txt: profile, seed, units, digest; '#' begins a comment. Whatever compiler built
 * this, the digests must be these. */
static void test_golden(void **state)
{
    FILE *f = fopen(CORPUS_GOLDEN, "r");
    char line[256], spec[100], hex[33], got[33];
    unsigned long long seed, units;
    unsigned rows = 0, wrong = 0;
    (void)state;
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL) {
        if (line[0] == '#' || line[0] == '\n')
            continue;
        assert_int_equal(sscanf(line, "%99s %llu %llu %32s", spec, &seed, &units, hex), 4);
        struct seam_corpus *c = corpus_must_open(spec, seed);
        digest(c, units, 2, got);
        seam_corpus_close(c);
        if (strcmp(got, hex) != 0) {
            print_error("is     %s %llu %llu %s\nshould %s", spec, seed, units, got, line);
            wrong++;
        }
        rows++;
    }
    fclose(f);
    assert_int_equal(wrong, 0);
    assert_true(rows >= 5);
}

/* A number's bytes do not depend on what was asked before. */
static void test_any_order(void **state)
{
    struct seam_corpus *c = corpus_must_open("representative:keys=1K", 7);
    struct seam_maker *a = corpus_must_make(c), *b = corpus_must_make(c);
    struct seam_slice key, other, message;
    struct seam_unit x = {.n = 0}, y = {.n = 0};
    (void)state;
    for (uint64_t i = 0; i < 50; i++) {
        assert_int_equal(seam_maker_unit(a, i, &x, NULL), SEAM_OK);
        for (uint64_t j = i + 3; j-- > i;) {
            seam_maker_pick(b, j, &key, NULL);
            seam_maker_floor(b, j, &key, &other, NULL);
            assert_int_equal(seam_maker_message(b, j, 0, &message, NULL), SEAM_OK);
            assert_int_equal(seam_maker_incoming(b, j, &y, NULL), SEAM_OK);
            assert_int_equal(seam_maker_unit(b, j, &y, NULL), SEAM_OK);
        }
        assert_int_equal(x.n, y.n);
        assert_int_equal(x.bytes, y.bytes);
        for (size_t j = 0; j < x.n; j++) {
            assert_int_equal(x.ops[j].kind, y.ops[j].kind);
            assert_int_equal(seam_compare(x.ops[j].key, y.ops[j].key), 0);
            assert_int_equal(seam_compare(x.ops[j].head, y.ops[j].head), 0);
            assert_int_equal(seam_compare(x.ops[j].body, y.ops[j].body), 0);
        }
    }
    seam_maker_close(a);
    seam_maker_close(b);
    seam_corpus_close(c);
}

/* ---- proofs ------------------------------------------------------------------------------ */

static void flip_value(const struct seam_corpus *c, struct seam_slice key, uint8_t *copy,
                       size_t len, size_t bit)
{
    struct seam_err err;
    uint64_t generation = 99;
    copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
    assert_int_equal(seam_corpus_check_value(c, key, seam_bytes(copy, len), &generation, &err),
                     SEAM_E_CORRUPT);
    assert_int_equal(err.code, SEAM_E_CORRUPT);
    assert_true(strlen(err.text) > 20);
    assert_int_equal(generation, 99);
    copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

static void test_values_prove_themselves(void **state)
{
    struct seam_corpus *c = corpus_must_open("representative:keys=100", 42);
    struct seam_corpus *other = corpus_must_open("representative:keys=100", 43);
    struct seam_maker *m = corpus_must_make(c), *n = corpus_must_make(c);
    struct seam_slice key = {NULL, 0}, value = {NULL, 0}, wrong = {NULL, 0}, ignored;
    uint8_t copy[512];
    (void)state;
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t generation = 7;
        assert_int_equal(seam_maker_load(m, i, &key, &value, NULL), SEAM_OK);
        assert_in_range(value.len, 20, 400);
        assert_int_equal(seam_corpus_check_value(c, key, value, &generation, NULL), SEAM_OK);
        assert_int_equal(generation, 0);
        assert_int_equal(seam_corpus_check_value(c, key, value, NULL, NULL), SEAM_OK);
        memcpy(copy, value.ptr, value.len);
        for (size_t bit = 0; bit < value.len * 8; bit += i < 5 ? 1 : 13)
            flip_value(c, key, copy, value.len, bit);
        for (size_t len = 0; len < value.len; len++)
            assert_int_equal(seam_corpus_check_value(c, key, seam_bytes(copy, len), NULL, NULL),
                             SEAM_E_CORRUPT);
        copy[value.len] = 0;
        assert_int_equal(
            seam_corpus_check_value(c, key, seam_bytes(copy, value.len + 1), NULL, NULL),
            SEAM_E_CORRUPT);
        assert_int_equal(seam_maker_load(n, (i + 1) % 100, &wrong, &ignored, NULL), SEAM_OK);
        assert_int_equal(seam_corpus_check_value(c, wrong, value, NULL, NULL), SEAM_E_CORRUPT);
        assert_int_equal(seam_corpus_check_value(other, key, value, NULL, NULL), SEAM_E_CORRUPT);
        assert_int_equal(seam_corpus_check_value(c, seam_bytes("", 0), value, NULL, NULL),
                         SEAM_E_CORRUPT);
    }
    seam_maker_close(m);
    seam_maker_close(n);
    seam_corpus_close(c);
    seam_corpus_close(other);
}

static void test_messages_prove_themselves(void **state)
{
    static const size_t sizes[] = {0, 16, 17, 100, 4096, 300000, 1 << 20};
    struct seam_corpus *c = corpus_must_open("broker:scale=1000", 42);
    struct seam_corpus *other = corpus_must_open("broker:scale=1000", 43);
    struct seam_maker *m = corpus_must_make(c);
    struct seam_slice message = {NULL, 0};
    struct seam_err err;
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        uint64_t number = UINT64_C(1) << (s * 9), index = 1;
        uint8_t *copy = malloc(1 << 20);
        assert_non_null(copy);
        assert_int_equal(seam_maker_message(m, number, sizes[s], &message, &err), SEAM_OK);
        assert_int_equal(message.len, sizes[s] == 0 ? 256 : sizes[s]);
        assert_int_equal(seam_corpus_check_message(c, message, &index, NULL), SEAM_OK);
        assert_int_equal(index, number);
        assert_int_equal(seam_corpus_check_message(other, message, NULL, NULL), SEAM_E_CORRUPT);
        memcpy(copy, message.ptr, message.len);
        for (size_t bit = 0; bit < message.len * 8; bit += 1 + message.len / 64 * 5) {
            copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_int_equal(
                seam_corpus_check_message(c, seam_bytes(copy, message.len), &index, &err),
                SEAM_E_CORRUPT);
            copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        assert_int_equal(
            seam_corpus_check_message(c, seam_bytes(copy, message.len - 1), NULL, NULL),
            SEAM_E_CORRUPT);
        assert_int_equal(index, number);
        free(copy);
    }
    seam_maker_close(m);
    seam_corpus_close(c);
    seam_corpus_close(other);
}

/* Values of units, head and body joined, belong to their keys and carry the unit's generation. */
static void check_put(const struct seam_corpus *c, const struct seam_op *op, uint64_t generation)
{
    size_t len = op->head.len + op->body.len;
    uint8_t *joined = malloc(len);
    uint64_t is = 0;
    assert_non_null(joined);
    memcpy(joined, op->head.ptr, op->head.len);
    if (op->body.len > 0)
        memcpy(joined + op->head.len, op->body.ptr, op->body.len);
    assert_int_equal(seam_corpus_check_value(c, op->key, seam_bytes(joined, len), &is, NULL),
                     SEAM_OK);
    assert_int_equal(is, generation);
    free(joined);
}

/* ---- units ------------------------------------------------------------------------------- */

static void test_representative_units(void **state)
{
    struct seam_corpus *c = corpus_must_open("representative:keys=10K", 42);
    struct seam_maker *m = corpus_must_make(c);
    struct test_keys loaded = test_keys_loaded(m, 10000);
    uint64_t ops = 0, deletes = 0, inserts = 0, lengths[9] = {0};
    struct seam_unit unit = {.n = 0};
    (void)state;
    for (uint64_t u = 0; u < 2000; u++) {
        uint64_t bytes = 0;
        assert_int_equal(seam_maker_unit(m, u, &unit, NULL), SEAM_OK);
        assert_in_range(unit.n, 1, 8);
        assert_null(unit.stamps);
        lengths[unit.n]++;
        for (size_t j = 0; j < unit.n; j++) {
            const struct seam_op *op = &unit.ops[j];
            assert_in_range(op->key.len, 24, 32);
            bytes += op->key.len + op->head.len + op->body.len;
            ops++;
            if (op->kind == SEAM_DELETE) {
                assert_true(test_keys_has(&loaded, op->key));
                assert_int_equal(op->head.len + op->body.len, 0);
                deletes++;
                continue;
            }
            assert_int_equal(op->kind, SEAM_PUT);
            assert_in_range(op->head.len + op->body.len, 20, 400);
            check_put(c, op, u + 1);
            inserts += !test_keys_has(&loaded, op->key);
        }
        assert_int_equal(unit.bytes, bytes);
    }
    assert_in_range(deletes * 100 / ops, 4, 6);
    assert_in_range(inserts * 100 / ops, 18, 22);
    for (size_t n = 1; n <= 8; n++)
        assert_in_range(lengths[n], 200, 300);
    free(loaded.key);
    seam_maker_close(m);
    seam_corpus_close(c);
}

static void test_stress_units(void **state)
{
    struct seam_corpus *c = corpus_must_open("stress", 42);
    struct seam_maker *m = corpus_must_make(c);
    uint64_t puts = 0, large = 0;
    struct seam_unit unit = {.n = 0};
    (void)state;
    for (uint64_t u = 0; u < 300; u++) {
        assert_int_equal(seam_maker_unit(m, u, &unit, NULL), SEAM_OK);
        assert_int_equal(unit.n, 8);
        for (size_t j = 0; j < unit.n; j++) {
            size_t len = unit.ops[j].head.len + unit.ops[j].body.len;
            if (unit.ops[j].kind == SEAM_DELETE)
                continue;
            puts++;
            if (len > 400) {
                assert_int_equal(len, 1 << 20);
                if (large++ < 5)
                    check_put(c, &unit.ops[j], u + 1);
            }
        }
    }
    assert_in_range(large * 1000 / puts, 105, 135);
    seam_maker_close(m);
    seam_corpus_close(c);
}

/* One unit of 3.5 MB becomes 95,000 entries: each another key, 37 bytes on average. */
static void test_fanout_unit(void **state)
{
    struct seam_corpus *c = corpus_must_open("fanout", 42);
    struct seam_maker *m = corpus_must_make(c);
    struct test_keys keys = {.key = calloc(95000, sizeof *keys.key), .n = 95000};
    struct seam_unit unit = {.n = 0};
    (void)state;
    assert_non_null(keys.key);
    for (uint64_t u = 0; u < 5; u += 2) { /* unit 4 wraps around the key set */
        assert_int_equal(seam_maker_unit(m, u, &unit, NULL), SEAM_OK);
        assert_int_equal(unit.n, 95000);
        assert_in_range(unit.bytes, 3450000, 3550000);
        assert_in_range(unit.bytes / unit.n, 36, 37);
        for (size_t j = 0; j < unit.n; j++) {
            assert_int_equal(unit.ops[j].kind, SEAM_PUT);
            test_key_copy(&keys.key[j], unit.ops[j].key, j);
        }
        test_keys_sort(&keys);
        for (size_t j = 1; j < keys.n; j++)
            assert_true(
                seam_compare(test_key_slice(&keys.key[j - 1]), test_key_slice(&keys.key[j])) < 0);
    }
    assert_int_equal(seam_maker_unit(m, 0, &unit, NULL), SEAM_OK);
    assert_int_equal(unit.bytes, 3515412);
    free(keys.key);
    seam_maker_close(m);
    seam_corpus_close(c);
}

static void test_inserts_are_new(void **state)
{
    struct seam_corpus *c = corpus_must_open("broker:keys=3K,versions=100", 42);
    struct seam_maker *m = corpus_must_make(c);
    struct test_keys keys = test_keys_loaded(m, 3000);
    struct seam_unit unit = {.n = 0};
    (void)state;
    keys.key = realloc(keys.key, 9000 * sizeof *keys.key);
    assert_non_null(keys.key);
    for (uint64_t u = 0; u < 3000; u++) {
        assert_int_equal(seam_maker_unit(m, u, &unit, NULL), SEAM_OK);
        assert_int_equal(unit.n, 1);
        assert_int_equal(unit.ops[0].head.len + unit.ops[0].body.len, 256);
        test_key_copy(&keys.key[keys.n++], unit.ops[0].key, u);
        assert_int_equal(seam_maker_incoming(m, u, &unit, NULL), SEAM_OK);
        test_key_copy(&keys.key[keys.n++], unit.ops[0].key, u);
    }
    assert_int_equal(keys.n, 9000);
    test_keys_sort(&keys);
    for (size_t j = 1; j < keys.n; j++)
        assert_true(seam_compare(test_key_slice(&keys.key[j - 1]), test_key_slice(&keys.key[j])) <
                    0);
    free(keys.key);
    seam_maker_close(m);
    seam_corpus_close(c);
}

static void test_incoming(void **state)
{
    struct seam_corpus *c = corpus_must_open("representative:keys=10K", 42);
    struct seam_maker *m = corpus_must_make(c);
    struct test_keys loaded = test_keys_loaded(m, 10000);
    uint64_t ops = 0, stale = 0, added = 0;
    struct seam_unit unit = {.n = 0};
    (void)state;
    for (uint64_t n = 0; n < 1000; n++) {
        assert_int_equal(seam_maker_incoming(m, n, &unit, NULL), SEAM_OK);
        assert_in_range(unit.n, 1, 8);
        assert_non_null(unit.stamps);
        for (size_t j = 0; j < unit.n; j++) {
            bool there = test_keys_has(&loaded, unit.ops[j].key);
            assert_int_equal(unit.ops[j].kind, SEAM_PUT);
            assert_true(unit.stamps[j] == n + 1 || (unit.stamps[j] == 0 && there));
            check_put(c, &unit.ops[j], unit.stamps[j]);
            ops++;
            stale += unit.stamps[j] == 0;
            added += !there;
        }
    }
    assert_in_range(stale * 100 / ops, 28, 32);
    assert_in_range(added * 100 / ops, 18, 22);
    free(loaded.key);
    seam_maker_close(m);
    seam_corpus_close(c);
}

static void test_refusals(void **state)
{
    struct seam_corpus *c = corpus_must_open("representative:keys=10", 42);
    struct seam_maker *m = corpus_must_make(c);
    struct seam_slice key = {NULL, 5}, value = {NULL, 6};
    struct seam_unit unit = {.n = 77};
    struct seam_err err;
    char hex[33] = "untouched";
    (void)state;
    assert_int_equal(seam_maker_load(m, 10, &key, &value, &err), SEAM_E_INVALID);
    assert_non_null(strstr(err.text, "10"));
    assert_int_equal(seam_maker_message(m, 0, 15, &value, &err), SEAM_E_INVALID);
    assert_int_equal(seam_maker_message(m, 0, SEAM_CORPUS_MESSAGE_MAX + 1u, &value, &err),
                     SEAM_E_TOO_LARGE);
    assert_int_equal(err.max, SEAM_CORPUS_MESSAGE_MAX);
    assert_int_equal(seam_maker_unit(m, UINT64_C(4294967294), &unit, &err), SEAM_E_INVALID);
    assert_int_equal(seam_maker_incoming(m, UINT64_MAX, &unit, &err), SEAM_E_INVALID);
    assert_int_equal(seam_corpus_digest(c, 0, 1, hex, &err), SEAM_E_INVALID);
    assert_int_equal(seam_corpus_digest(c, UINT64_MAX, 1, hex, NULL), SEAM_E_INVALID);
    assert_string_equal(hex, "untouched");
    assert_int_equal(unit.n, 77);
    assert_int_equal(key.len, 5);
    assert_int_equal(value.len, 6);
    assert_int_equal(seam_maker_unit(m, UINT64_C(4294967293), &unit, &err), SEAM_OK);
    seam_maker_close(m);
    seam_maker_close(NULL);
    seam_corpus_close(c);
    seam_corpus_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_permutation),
        cmocka_unit_test(test_digest),
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_values_prove_themselves),
        cmocka_unit_test(test_messages_prove_themselves),
        cmocka_unit_test(test_representative_units),
        cmocka_unit_test(test_stress_units),
        cmocka_unit_test(test_fanout_unit),
        cmocka_unit_test(test_inserts_are_new),
        cmocka_unit_test(test_incoming),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
