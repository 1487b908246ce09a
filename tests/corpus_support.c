/* corpus_support.c - see corpus_support.h. Relies on the public header alone. */
#include "corpus_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct seam_corpus *corpus_must_open(const char *spec, uint64_t seed)
{
    struct seam_corpus *c = NULL;
    struct seam_err err;
    if (seam_corpus_open(spec, seed, &c, &err) != SEAM_OK)
        fail_msg("%s: %s", spec, err.text);
    return c;
}

struct seam_maker *corpus_must_make(const struct seam_corpus *c)
{
    struct seam_maker *m = NULL;
    assert_int_equal(seam_maker_open(c, &m, NULL), SEAM_OK);
    return m;
}

void test_key_copy(struct test_key *key, struct seam_slice from, uint64_t i)
{
    assert_in_range(from.len, 1, 511);
    memcpy(key->bytes, from.ptr, from.len);
    key->len = from.len;
    key->i = i;
}

struct seam_slice test_key_slice(const struct test_key *key)
{
    return seam_bytes(key->bytes, key->len);
}

static int compare_keys(const void *a, const void *b)
{
    return seam_compare(test_key_slice(a), test_key_slice(b));
}

void test_keys_sort(struct test_keys *keys)
{
    qsort(keys->key, keys->n, sizeof *keys->key, compare_keys);
}

struct test_keys test_keys_loaded(struct seam_maker *m, uint64_t n)
{
    struct test_keys keys = {.key = calloc((size_t)n, sizeof *keys.key), .n = (size_t)n};
    assert_non_null(keys.key);
    for (size_t i = 0; i < keys.n; i++) {
        struct seam_slice key = {NULL, 0}, value;
        assert_int_equal(seam_maker_load(m, i, &key, &value, NULL), SEAM_OK);
        test_key_copy(&keys.key[i], key, i);
    }
    test_keys_sort(&keys);
    return keys;
}

const struct test_key *test_keys_floor(const struct test_keys *keys, struct seam_slice at)
{
    size_t low = 0, high = keys->n; /* those below low are <= at, those from high are > at */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (seam_compare(test_key_slice(&keys->key[middle]), at) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low == 0 ? NULL : &keys->key[low - 1];
}

bool test_keys_has(const struct test_keys *keys, struct seam_slice key)
{
    const struct test_key *at = test_keys_floor(keys, key);
    return at != NULL && seam_compare(test_key_slice(at), key) == 0;
}

uint64_t test_seed(void)
{
    const char *text = getenv("SEAM_SEED");
    uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : 20260101;
    print_message("SEAM_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}
