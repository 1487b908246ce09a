/* corpus.c - opens a corpus: knobs, permutations, skew tables, filler; and checks proofs.
 *
 * Relies on profile.c for knobs in range. Keeps true: everything is computed with integers from the
 * profile and the seed alone. */
#include "internal.h"

#include <seam/backend.h>

#include <assert.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#define FILLER_CELL 32u
#define FILLER_WORDS 16u /* repeated cells are one of these */

/* Zipf with exponent 1: rank r has weight 1/r. Octave b holds the ranks from 2^b to below 2^(b+1);
 * its weight here is that of all its ranks at 1/2^b each, the most any of them has, and the maker
 * gives the ranks their due by rejection. */
static void make_octaves(struct seam_corpus *c)
{
    uint64_t sum = 0;
    uint32_t b = 0;
    for (; b < CORPUS_OCTAVES && (UINT64_C(1) << b) <= c->keys; b++) {
        uint64_t low = UINT64_C(1) << b;
        uint64_t count = (c->keys + UINT64_C(1) < 2 * low ? c->keys + UINT64_C(1) : 2 * low) - low;
        sum += (count << 26) >> b;
        assert(sum <= UINT32_MAX);
        c->octave_sum[b] = (uint32_t)sum;
    }
    c->octaves = b;
}

/* Cells of 32 bytes, `compressible` percent of them one of 16 that come again and again. */
static int make_filler(struct seam_corpus *c, struct seam_err *err)
{
    const uint64_t *k = c->profile.knob;
    uint64_t longest =
        k[KNOB_VALUE_MAX] > k[KNOB_LARGE_MAX] ? k[KNOB_VALUE_MAX] : k[KNOB_LARGE_MAX];
    uint64_t key = c->stream[STREAM_FILLER];
    if (k[KNOB_LARGE_PERCENT] == 0)
        longest = k[KNOB_VALUE_MAX];
    c->filler_len =
        (size_t)((CORPUS_SPREAD + longest + FILLER_CELL - 1) / FILLER_CELL * FILLER_CELL);
    c->filler = malloc(c->filler_len);
    if (c->filler == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "no memory for a corpus: %llu bytes",
                         (unsigned long long)c->filler_len);
    for (size_t at = 0; at < c->filler_len; at += FILLER_CELL) {
        uint64_t cell = random_at(key, at / FILLER_CELL + FILLER_WORDS);
        if (random_scale((uint32_t)(cell >> 32), 100) < k[KNOB_COMPRESSIBLE])
            cell = random_at(key, cell % FILLER_WORDS);
        for (size_t i = 0; i < FILLER_CELL; i += 8)
            put_le64(c->filler + at + i, random_at(cell, i));
    }
    return SEAM_OK;
}

/* size, unless 0, is the size itself, whatever profile and scale say. */
static int apply_scale(struct seam_corpus *c, uint64_t size, struct seam_err *err)
{
    const uint64_t *k = c->profile.knob;
    uint64_t scale = k[KNOB_SCALE];
    uint64_t keys = k[KNOB_KEYS] / scale, units = k[KNOB_UNITS] / scale;
    uint64_t least = k[KNOB_CHOOSE] == CHOOSE_SWEEP ? k[KNOB_UNIT_MAX] : 1;
    if (size && (size < least || size > CORPUS_KEYS_MOST))
        return seam_fail(err, SEAM_E_OPTION, "%s: keys: allowed is %llu to %llu, not %llu", c->profile.name,
                         (unsigned long long)least, (unsigned long long)CORPUS_KEYS_MOST,
                         (unsigned long long)size);
    c->keys = (uint32_t)(size ? size : keys < least ? least : keys);
    c->units = units == 0 ? 1 : units;
    c->versions = (uint32_t)k[KNOB_VERSIONS];
    if (c->versions > c->keys)
        c->versions = c->keys;
    return SEAM_OK;
}

int seam_corpus_open(const char *profile, uint64_t seed, struct seam_corpus **ret,
                     struct seam_err *err)
{
    return seam_corpus_open_sized(profile, seed, 0, ret, err);
}

int seam_corpus_open_sized(const char *profile, uint64_t seed, uint64_t keys, struct seam_corpus **ret,
                           struct seam_err *err)
{
    struct seam_corpus *c;
    int rc;
    if (profile == NULL || ret == NULL)
        return seam_fail(err, SEAM_E_INVALID, "corpus: profile and result must not be NULL");
    c = calloc(1, sizeof *c);
    if (c == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "no memory for a corpus");
    rc = corpus_profile_read(profile, &c->profile, err);
    if (rc != SEAM_OK)
        goto out;
    c->seed = seed;
    for (unsigned i = 0; i < STREAMS; i++)
        c->stream[i] = random_at(random_mix(seed), i);
    for (unsigned i = 0; i < KNOBS; i++)
        corpus_profile_knob(&c->profile, (enum knob)i, &c->knobs[i]);
    rc = apply_scale(c, keys, err);
    if (rc != SEAM_OK)
        goto out;
    permutation_init(&c->order, c->keys, c->stream[STREAM_ORDER]);
    permutation_init(&c->heat, c->keys, c->stream[STREAM_HEAT]);
    make_octaves(c);
    c->hot = (uint32_t)(c->keys * c->profile.knob[KNOB_HOT_PERMILLE] / 1000);
    if (c->hot == 0)
        c->hot = 1;
    rc = make_filler(c, err);
    if (rc == SEAM_OK)
        *ret = c;
out:
    if (rc != SEAM_OK)
        seam_corpus_close(c);
    return rc;
}

void seam_corpus_close(struct seam_corpus *corpus)
{
    if (corpus == NULL)
        return;
    free(corpus->filler);
    corpus_profile_free(&corpus->profile);
    free(corpus);
}

/* The least of n + 1 even draws from least..most is about this much. */
static uint64_t average_between(uint64_t least, uint64_t most, uint64_t skew)
{
    return least + (most - least) / (skew + 2);
}

void seam_corpus_describe(const struct seam_corpus *corpus, struct seam_corpus_info *ret)
{
    const uint64_t *k = corpus->profile.knob;
    uint64_t small = average_between(k[KNOB_VALUE_MIN], k[KNOB_VALUE_MAX], k[KNOB_VALUE_SKEW]);
    uint64_t large = average_between(k[KNOB_LARGE_MIN], k[KNOB_LARGE_MAX], 0);
    uint64_t percent = k[KNOB_LARGE_PERCENT];
    ret->name = corpus->profile.name;
    ret->description = corpus->profile.description;
    ret->seed = corpus->seed;
    ret->keys = corpus->keys;
    ret->units = corpus->units;
    ret->unit_ops_average = average_between(k[KNOB_UNIT_MIN], k[KNOB_UNIT_MAX], 0);
    ret->unit_ops_max = k[KNOB_UNIT_MAX];
    ret->key_average = average_between(k[KNOB_KEY_MIN], k[KNOB_KEY_MAX], 0);
    ret->key_max = k[KNOB_KEY_MAX];
    ret->value_average = (small * (100 - percent) + large * percent) / 100;
    ret->value_max = percent == 0                            ? k[KNOB_VALUE_MAX]
                     : percent == 100                        ? k[KNOB_LARGE_MAX]
                     : k[KNOB_LARGE_MAX] > k[KNOB_VALUE_MAX] ? k[KNOB_LARGE_MAX]
                                                             : k[KNOB_VALUE_MAX];
    ret->message = k[KNOB_MESSAGE];
    ret->knobs = corpus->knobs;
    ret->n_knobs = KNOBS;
}

uint64_t corpus_key_hash(const struct seam_corpus *c, const uint8_t *key, size_t len)
{
    uint64_t h = c->stream[STREAM_HASH] ^ len;
    size_t i = 0;
    for (; i + 8 <= len; i += 8)
        h = random_mix(h ^ get_le64(key + i));
    if (i < len) {
        uint8_t last[8] = {0};
        memcpy(last, key + i, len - i);
        h = random_mix(h ^ get_le64(last));
    }
    return h;
}

/* What values and messages share: room for a proof, and their length. */
static int check_frame(const char *what, struct seam_slice bytes, struct seam_err *err)
{
    uint32_t len;
    if (bytes.len < SEAM_CORPUS_PROOF)
        return seam_fail(err, SEAM_E_CORRUPT, "%s of %zu bytes: too short for its proof of %u",
                         what, bytes.len, SEAM_CORPUS_PROOF);
    len = get_le32((const uint8_t *)bytes.ptr + 4);
    if (len != bytes.len)
        return seam_fail(err, SEAM_E_CORRUPT, "%s of %zu bytes says that it has %u", what,
                         bytes.len, len);
    return SEAM_OK;
}

static int check_crc(const char *what, uint32_t begin, struct seam_slice bytes,
                     struct seam_err *err)
{
    const uint8_t *p = bytes.ptr;
    uint32_t said = get_le32(p), is = seam_crc32c(begin, p + 4, bytes.len - 4);
    if (said == is)
        return SEAM_OK;
    return seam_fail(err, SEAM_E_CORRUPT, "%s of %zu bytes: CRC is %08x, it says %08x", what,
                     bytes.len, is, said);
}

int seam_corpus_check_value(const struct seam_corpus *corpus, struct seam_slice key,
                            struct seam_slice value, uint64_t *ret_generation, struct seam_err *err)
{
    const uint8_t *p = value.ptr;
    char what[320], text[280];
    uint32_t hash;
    int rc = check_frame("value", value, NULL);
    if (rc == SEAM_OK) {
        hash = (uint32_t)corpus_key_hash(corpus, key.ptr, key.len);
        if (get_le32(p + 12) == hash && check_crc("value", 0, value, NULL) == SEAM_OK) {
            if (ret_generation != NULL)
                *ret_generation = get_le32(p + 8);
            return SEAM_OK;
        }
    }
    /* Only a bad value pays for the text that names its key. */
    snprintf(what, sizeof what, "value of key %s", seam_key_text(key, text, sizeof text));
    rc = check_frame(what, value, err);
    if (rc == SEAM_OK)
        rc = check_crc(what, 0, value, err);
    if (rc == SEAM_OK)
        rc = seam_fail(err, SEAM_E_CORRUPT,
                       "%s: whole, but it is another key's or from another seed", what);
    return rc;
}

int seam_corpus_check_message(const struct seam_corpus *corpus, struct seam_slice message,
                              uint64_t *ret_index, struct seam_err *err)
{
    int rc = check_frame("message", message, err);
    if (rc == SEAM_OK)
        rc = check_crc("message", (uint32_t)corpus->stream[STREAM_MESSAGE], message, err);
    if (rc == SEAM_OK && ret_index != NULL)
        *ret_index = get_le64((const uint8_t *)message.ptr + 8);
    return rc;
}
