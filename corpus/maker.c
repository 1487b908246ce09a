/* maker.c - makes the corpus's keys, values, units, messages and queries.
 *
 * Relies on random.h alone for chance and on a constant corpus. Keeps true: what number i is
 * depends on (profile, seed, i) only; bodies of a unit's values lie in the corpus's filler and are
 * not copied; no call allocates once the maker's buffers have grown to what the profile needs. */
#include "internal.h"

#include <seam/backend.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NO_INDEX UINT64_MAX

struct seam_maker {
    const struct seam_corpus *c;
    uint8_t key[CORPUS_KEY_MAX + 1], prefix[CORPUS_KEY_MAX + 1];
    uint8_t *joined; /* a value or message in one piece */
    size_t joined_cap;
    /* One unit; room for unit_max ops, made when the first is asked for. */
    struct seam_op *ops;
    uint64_t *stamps;
    uint8_t *keys, *heads;
};

/* Which key: an entity, and the number of a version of it. */
struct place {
    uint32_t entity;
    uint64_t version;
};

int seam_maker_open(const struct seam_corpus *corpus, struct seam_maker **ret, struct seam_err *err)
{
    struct seam_maker *m = calloc(1, sizeof *m);
    if (m == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "no memory for a corpus maker");
    m->c = corpus;
    *ret = m;
    return SEAM_OK;
}

void seam_maker_close(struct seam_maker *maker)
{
    if (maker == NULL)
        return;
    free(maker->joined);
    free(maker->ops);
    free(maker->stamps);
    free(maker->keys);
    free(maker->heads);
    free(maker);
}

/* ---- keys -------------------------------------------------------------------------------- */

static struct place place_of(const struct seam_corpus *c, uint64_t i)
{
    uint32_t at = (uint32_t)permutation_at(&c->order, i);
    struct place p;
    p.entity = at / c->versions;
    p.version = at % c->versions;
    return p;
}

/* The load index that has this place. */
static uint64_t index_of(const struct seam_corpus *c, struct place p)
{
    return permutation_back(&c->order, (uint64_t)p.entity * c->versions + p.version);
}

/* How many versions of an entity the bulk load has: the last entity may have fewer. */
static uint32_t versions_of(const struct seam_corpus *c, uint32_t entity)
{
    uint64_t first = (uint64_t)entity * c->versions;
    uint64_t left = c->keys - first;
    return left < c->versions ? (uint32_t)left : c->versions;
}

/* The number a version sorts by: steps, with a jitter that is a multiple of 4 and less than a step,
 * so that the low two bits are free to say what was never written. */
static uint64_t version_word(const struct seam_corpus *c, uint32_t entity, uint64_t version)
{
    uint64_t jitter = random_at(c->stream[STREAM_VERSION] ^ entity, version);
    return (version + 1) * CORPUS_VERSION_STEP + (jitter >> 57) * 4;
}

/* Entity and padding; the result's length is without the version. */
static uint32_t put_prefix(const struct seam_corpus *c, uint32_t entity, uint8_t *to)
{
    uint32_t least = (uint32_t)c->profile.knob[KNOB_KEY_MIN] - CORPUS_KEY_MIN;
    uint32_t range = (uint32_t)(c->profile.knob[KNOB_KEY_MAX] - c->profile.knob[KNOB_KEY_MIN]);
    uint64_t padding = random_at(c->stream[STREAM_PADDING], entity);
    uint32_t len = least + random_scale((uint32_t)(padding >> 32), range + 1);
    put_be64(to, random_mix(c->stream[STREAM_ENTITY] + entity));
    for (uint32_t i = 0; i < len; i += 8) {
        uint8_t eight[8];
        padding = random_mix(padding);
        put_le64(eight, padding);
        memcpy(to + 8 + i, eight, len - i < 8 ? len - i : 8);
    }
    return 8 + len;
}

static struct seam_slice put_key(const struct seam_corpus *c, uint32_t entity, uint64_t word,
                                 uint8_t *to)
{
    uint32_t len = put_prefix(c, entity, to);
    put_be64(to + len, word);
    return seam_bytes(to, len + 8);
}

static struct seam_slice put_loaded(const struct seam_corpus *c, struct place p, uint8_t *to)
{
    return put_key(c, p.entity, version_word(c, p.entity, p.version), to);
}

/* ---- skew -------------------------------------------------------------------------------- */

static uint32_t zipf(const struct seam_corpus *c, struct random *r)
{
    for (;;) {
        uint64_t bits = random_next(r);
        uint32_t x = random_below(r, c->octave_sum[c->octaves - 1]), b = 0;
        uint64_t low, high, rank;
        while (x >= c->octave_sum[b])
            b++;
        low = UINT64_C(1) << b;
        high = 2 * low <= c->keys ? 2 * low : c->keys + UINT64_C(1);
        rank = low + random_scale((uint32_t)bits, (uint32_t)(high - low));
        if ((bits >> 32) * rank < low << 32) /* with probability low / rank */
            return (uint32_t)rank - 1;
    }
}

/* A load index by the profile's skew. */
static uint64_t choose(const struct seam_corpus *c, struct random *r)
{
    const uint64_t *k = c->profile.knob;
    uint32_t rank;
    if (k[KNOB_SKEW] == SKEW_UNIFORM)
        return random_below(r, c->keys);
    if (k[KNOB_SKEW] == SKEW_ZIPF)
        rank = zipf(c, r);
    else if (random_below(r, 100) < k[KNOB_HOT_PERCENT] || c->hot == c->keys)
        rank = random_below(r, c->hot);
    else
        rank = c->hot + random_below(r, c->keys - c->hot);
    return permutation_at(&c->heat, rank);
}

/* ---- values ------------------------------------------------------------------------------ */

/* The value of a key at a generation: where its body lies, and its proof. */
static struct seam_slice make_value(const struct seam_corpus *c, struct seam_slice key,
                                    uint32_t generation, uint8_t *head)
{
    const uint64_t *k = c->profile.knob;
    uint64_t hash = corpus_key_hash(c, key.ptr, key.len);
    struct random r = random_stream(c->stream[STREAM_VALUE] ^ hash, generation);
    uint64_t bits = random_next(&r);
    uint32_t len, range;
    struct seam_slice body;
    if (random_scale((uint32_t)bits, 100) < k[KNOB_LARGE_PERCENT]) {
        range = (uint32_t)(k[KNOB_LARGE_MAX] - k[KNOB_LARGE_MIN]) + 1;
        len = (uint32_t)k[KNOB_LARGE_MIN] + random_below(&r, range);
    } else {
        uint32_t least = UINT32_MAX;
        range = (uint32_t)(k[KNOB_VALUE_MAX] - k[KNOB_VALUE_MIN]) + 1;
        for (uint64_t i = 0; i <= k[KNOB_VALUE_SKEW]; i++) {
            uint32_t draw = (uint32_t)(random_next(&r) >> 32);
            least = draw < least ? draw : least;
        }
        len = (uint32_t)k[KNOB_VALUE_MIN] + random_scale(least, range);
    }
    body = seam_bytes(c->filler + random_scale((uint32_t)(bits >> 32), CORPUS_SPREAD),
                      len - SEAM_CORPUS_PROOF);
    put_le32(head + 4, len);
    put_le32(head + 8, generation);
    put_le32(head + 12, (uint32_t)hash);
    put_le32(head, seam_crc32c(seam_crc32c(0, head + 4, 12), body.ptr, body.len));
    return body;
}

static int grow_joined(struct seam_maker *m, size_t len, struct seam_err *err)
{
    uint8_t *p;
    if (len <= m->joined_cap)
        return SEAM_OK;
    p = malloc(len); /* what was there need not be kept */
    if (p == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "no memory for %zu bytes of a corpus", len);
    free(m->joined);
    m->joined = p;
    m->joined_cap = len;
    return SEAM_OK;
}

int seam_maker_load(struct seam_maker *maker, uint64_t i, struct seam_slice *ret_key,
                    struct seam_slice *ret_value, struct seam_err *err)
{
    const struct seam_corpus *c = maker->c;
    uint8_t head[SEAM_CORPUS_PROOF];
    struct seam_slice key, body;
    size_t len;
    int rc;
    if (i >= c->keys)
        return seam_fail(err, SEAM_E_INVALID, "bulk-load entry %llu: the corpus has %u",
                         (unsigned long long)i, c->keys);
    key = put_loaded(c, place_of(c, i), maker->key);
    body = make_value(c, key, 0, head);
    len = sizeof head + body.len;
    rc = grow_joined(maker, len, err);
    if (rc != SEAM_OK)
        return rc;
    memcpy(maker->joined, head, sizeof head);
    memcpy(maker->joined + sizeof head, body.ptr, body.len);
    *ret_key = key;
    *ret_value = seam_bytes(maker->joined, len);
    return SEAM_OK;
}

int seam_maker_message(struct seam_maker *maker, uint64_t index, uint64_t size,
                       struct seam_slice *ret, struct seam_err *err)
{
    const struct seam_corpus *c = maker->c;
    uint64_t bits = random_at(c->stream[STREAM_MESSAGE], index);
    size_t from = random_scale((uint32_t)(bits >> 32), CORPUS_SPREAD), len, at;
    int rc;
    if (size == 0)
        size = c->profile.knob[KNOB_MESSAGE];
    if (size < SEAM_CORPUS_PROOF)
        return seam_fail(err, SEAM_E_INVALID, "message of %llu bytes: at least %u are needed",
                         (unsigned long long)size, SEAM_CORPUS_PROOF);
    if (size > SEAM_CORPUS_MESSAGE_MAX)
        return seam_fail_limit(err, SEAM_E_TOO_LARGE, "message", SEAM_CORPUS_MESSAGE_MAX, size,
                               SEAM_NO_OP);
    len = (size_t)size;
    rc = grow_joined(maker, len, err);
    if (rc != SEAM_OK)
        return rc;
    put_le32(maker->joined + 4, (uint32_t)len);
    put_le64(maker->joined + 8, index);
    for (at = SEAM_CORPUS_PROOF; at < len;) {
        size_t take = c->filler_len - from;
        take = take < len - at ? take : len - at;
        memcpy(maker->joined + at, c->filler + from, take);
        at += take;
        from = 0;
    }
    put_le32(maker->joined,
             seam_crc32c((uint32_t)c->stream[STREAM_MESSAGE], maker->joined + 4, len - 4));
    *ret = seam_bytes(maker->joined, len);
    return SEAM_OK;
}

/* ---- queries ----------------------------------------------------------------------------- */

void seam_maker_pick(struct seam_maker *maker, uint64_t n, struct seam_slice *ret_key,
                     uint64_t *ret_i)
{
    const struct seam_corpus *c = maker->c;
    struct random r = random_stream(c->stream[STREAM_PICK], n);
    uint64_t i = choose(c, &r);
    *ret_key = put_loaded(c, place_of(c, i), maker->key);
    if (ret_i != NULL)
        *ret_i = i;
}

void seam_maker_absent(struct seam_maker *maker, uint64_t n, struct seam_slice *ret_key)
{
    const struct seam_corpus *c = maker->c;
    struct random r = random_stream(c->stream[STREAM_ABSENT], n);
    struct place p = place_of(c, random_below(&r, c->keys));
    *ret_key = put_key(c, p.entity, version_word(c, p.entity, p.version) + 1, maker->key);
}

/* Of 16 queries two ask for a key that is there, one for the newest, the rest for some moment
 * between before the first version and after the last. */
void seam_maker_floor(struct seam_maker *maker, uint64_t n, struct seam_slice *ret_prefix,
                      struct seam_slice *ret_key, uint64_t *ret_i)
{
    const struct seam_corpus *c = maker->c;
    struct random r = random_stream(c->stream[STREAM_FLOOR], n);
    struct place p = place_of(c, choose(c, &r));
    uint32_t have = versions_of(c, p.entity), how = random_below(&r, 16);
    uint64_t word = version_word(c, p.entity, p.version);
    if (how == 2) {
        word = UINT64_MAX;
        p.version = have - 1;
    } else if (how > 2) {
        p.version = random_below(&r, have + 1);
        word = p.version * CORPUS_VERSION_STEP + random_below(&r, CORPUS_VERSION_STEP);
        /* It lies within the step of version p.version - 1, before or after that key; or before
         * all. */
        if (p.version > 0 && word >= version_word(c, p.entity, p.version - 1))
            p.version--;
        else
            p.version = p.version >= 2 ? p.version - 2 : NO_INDEX;
    }
    if (ret_i != NULL)
        *ret_i = p.version == NO_INDEX ? UINT64_MAX : index_of(c, p);
    *ret_prefix = seam_bytes(maker->prefix, put_prefix(c, p.entity, maker->prefix));
    *ret_key = put_key(c, p.entity, word, maker->key);
}

/* ---- units ------------------------------------------------------------------------------- */

static size_t key_room(const struct seam_corpus *c)
{
    return (size_t)c->profile.knob[KNOB_KEY_MAX];
}

static int grow_unit(struct seam_maker *m, struct seam_err *err)
{
    size_t n = (size_t)m->c->profile.knob[KNOB_UNIT_MAX];
    if (m->ops != NULL && m->stamps != NULL && m->keys != NULL && m->heads != NULL)
        return SEAM_OK;
    if (m->ops == NULL)
        m->ops = malloc(n * sizeof *m->ops);
    if (m->stamps == NULL)
        m->stamps = malloc(n * sizeof *m->stamps);
    if (m->keys == NULL)
        m->keys = malloc(n * key_room(m->c));
    if (m->heads == NULL)
        m->heads = malloc(n * SEAM_CORPUS_PROOF);
    if (m->ops == NULL || m->stamps == NULL || m->keys == NULL || m->heads == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "no memory for a unit of %zu ops", n);
    return SEAM_OK;
}

static void make_op(struct seam_maker *m, size_t j, struct seam_slice key, bool put,
                    uint32_t generation)
{
    struct seam_op *op = &m->ops[j];
    uint8_t *head = m->heads + j * SEAM_CORPUS_PROOF;
    op->key = key;
    if (put) {
        op->kind = SEAM_PUT;
        op->body = make_value(m->c, key, generation, head);
        op->head = seam_bytes(head, SEAM_CORPUS_PROOF);
        if (op->body.len == 0)
            op->body.ptr = NULL;
    } else {
        op->kind = SEAM_DELETE;
        op->head = op->body = seam_bytes(NULL, 0);
    }
}

static uint64_t unit_bytes(const struct seam_op *ops, size_t n)
{
    uint64_t bytes = 0;
    for (size_t j = 0; j < n; j++)
        bytes += ops[j].key.len + ops[j].head.len + ops[j].body.len;
    return bytes;
}

/* What a unit or incoming unit begins with: its length, or an error. */
static int begin_unit(struct seam_maker *m, uint64_t index, struct random *r, size_t *ret_n,
                      struct seam_err *err)
{
    const uint64_t *k = m->c->profile.knob;
    if (index >= CORPUS_UNITS_MAX)
        return seam_fail(err, SEAM_E_INVALID, "unit %llu: the last one is %u",
                         (unsigned long long)index, CORPUS_UNITS_MAX - 1);
    int rc = grow_unit(m, err);
    if (rc == SEAM_OK)
        *ret_n = (size_t)k[KNOB_UNIT_MIN] +
                 random_below(r, (uint32_t)(k[KNOB_UNIT_MAX] - k[KNOB_UNIT_MIN]) + 1);
    return rc;
}

/* A key that no other op of any unit inserts: its version is later than all that were loaded and is
 * the op's own number. `mark`: 0 for units, 2 for incoming ones, which so never meet. */
static struct seam_slice put_inserted(struct seam_maker *m, uint32_t entity, uint64_t index,
                                      size_t j, unsigned mark)
{
    const struct seam_corpus *c = m->c;
    uint64_t version = c->versions + index * c->profile.knob[KNOB_UNIT_MAX] + j;
    return put_key(c, entity, version_word(c, entity, version) + mark, m->keys + j * key_room(c));
}

int seam_maker_unit(struct seam_maker *maker, uint64_t index, struct seam_unit *ret,
                    struct seam_err *err)
{
    const struct seam_corpus *c = maker->c;
    const uint64_t *k = c->profile.knob;
    struct random r = random_stream(c->stream[STREAM_UNIT], index);
    bool sweep = k[KNOB_CHOOSE] == CHOOSE_SWEEP;
    uint64_t insert = k[KNOB_INSERT_PERCENT], gone = insert + k[KNOB_DELETE_PERCENT];
    size_t n;
    int rc = begin_unit(maker, index, &r, &n, err);
    if (rc != SEAM_OK)
        return rc;
    for (size_t j = 0; j < n; j++) {
        uint32_t what = random_below(&r, 100);
        uint64_t i = sweep ? (index * k[KNOB_UNIT_MAX] + j) % c->keys : choose(c, &r);
        struct place p = place_of(c, i);
        struct seam_slice key = what < insert ? put_inserted(maker, p.entity, index, j, 0)
                                              : put_loaded(c, p, maker->keys + j * key_room(c));
        make_op(maker, j, key, what < insert || what >= gone, (uint32_t)index + 1);
    }
    ret->ops = maker->ops;
    ret->stamps = NULL;
    ret->n = n;
    ret->bytes = unit_bytes(maker->ops, n);
    return SEAM_OK;
}

int seam_maker_incoming(struct seam_maker *maker, uint64_t n, struct seam_unit *ret,
                        struct seam_err *err)
{
    const struct seam_corpus *c = maker->c;
    const uint64_t *k = c->profile.knob;
    struct random r = random_stream(c->stream[STREAM_INCOMING], n);
    uint64_t stale = k[KNOB_STALE_PERCENT], added = stale + k[KNOB_NEW_PERCENT];
    size_t ops;
    int rc = begin_unit(maker, n, &r, &ops, err);
    if (rc != SEAM_OK)
        return rc;
    for (size_t j = 0; j < ops; j++) {
        uint32_t what = random_below(&r, 100);
        struct place p = place_of(c, choose(c, &r));
        bool is_new = what >= stale && what < added;
        struct seam_slice key = is_new ? put_inserted(maker, p.entity, n, j, 2)
                                       : put_loaded(c, p, maker->keys + j * key_room(c));
        maker->stamps[j] = what < stale ? 0 : n + 1;
        make_op(maker, j, key, true, (uint32_t)maker->stamps[j]);
    }
    ret->ops = maker->ops;
    ret->stamps = maker->stamps;
    ret->n = ops;
    ret->bytes = unit_bytes(maker->ops, ops);
    return SEAM_OK;
}
