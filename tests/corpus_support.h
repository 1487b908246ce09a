/* corpus_support.h - what the corpus tests share: opening, and the bulk-load set in key order. */
#ifndef CORPUS_SUPPORT_H
#define CORPUS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <seam/backend.h>
#include <seam/corpus.h>

#include <stdbool.h>

struct seam_corpus *corpus_must_open(const char *spec, uint64_t seed);
struct seam_maker *corpus_must_make(const struct seam_corpus *c);

/* A copy of a key, and which load entry it is. */
struct test_key {
    uint8_t bytes[512];
    size_t len;
    uint64_t i;
};

struct test_keys {
    struct test_key *key;
    size_t n;
};

void test_key_copy(struct test_key *key, struct seam_slice from, uint64_t i);
struct seam_slice test_key_slice(const struct test_key *key);
/* All keys of the bulk load, sorted. Free with free(ret.key). */
struct test_keys test_keys_loaded(struct seam_maker *m, uint64_t n);
void test_keys_sort(struct test_keys *keys);
/* The last key <= at, NULL if there is none. */
const struct test_key *test_keys_floor(const struct test_keys *keys, struct seam_slice at);
bool test_keys_has(const struct test_keys *keys, struct seam_slice key);
/* SEAM_SEED or a fixed number; printed. */
uint64_t test_seed(void);

#endif
