/* digest.c - the corpus's fingerprint.
 *
 * MurmurHash3, x64 flavour, 128 bits, by Austin Appleby (2011, public domain), written from the
 * published algorithm, with its input fed in pieces. Each number 0 .. units-1 is hashed by itself
 * and the hashes are added modulo 2^128, then hashed once more with the seed and the count: so the
 * result does not depend on who hashed what when. It finds accidents, not adversaries. */
#include "internal.h"

#include <seam/backend.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define DIGEST_THREADS_MAX 64u
#define DIGEST_CHUNK 16u /* numbers that a thread takes at once */

#define MURMUR_C1 UINT64_C(0x87c37b91114253d5)
#define MURMUR_C2 UINT64_C(0x4cf5ad432745937f)

static uint64_t rotate(uint64_t x, unsigned by)
{
    return x << by | x >> (64 - by);
}

static uint64_t murmur_k1(uint64_t k)
{
    return rotate(k * MURMUR_C1, 31) * MURMUR_C2;
}

static uint64_t murmur_k2(uint64_t k)
{
    return rotate(k * MURMUR_C2, 33) * MURMUR_C1;
}

static uint64_t murmur_finish(uint64_t k)
{
    k = (k ^ (k >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    k = (k ^ (k >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    return k ^ (k >> 33);
}

static void murmur_blocks(uint64_t h[2], const uint8_t *p, size_t blocks)
{
    uint64_t h1 = h[0], h2 = h[1];
    for (; blocks > 0; blocks--, p += 16) {
        h1 = rotate(h1 ^ murmur_k1(get_le64(p)), 27) + h2;
        h1 = h1 * 5 + 0x52dce729;
        h2 = rotate(h2 ^ murmur_k2(get_le64(p + 8)), 31) + h1;
        h2 = h2 * 5 + 0x38495ab5;
    }
    h[0] = h1;
    h[1] = h2;
}

void corpus_hash_init(struct corpus_hash *h, uint32_t seed)
{
    memset(h, 0, sizeof *h);
    h->h[0] = h->h[1] = seed;
}

void corpus_hash_add(struct corpus_hash *h, const void *bytes, size_t len)
{
    const uint8_t *p = bytes;
    size_t have = (size_t)(h->len % 16);
    h->len += len;
    if (have > 0) {
        size_t take = 16 - have < len ? 16 - have : len;
        if (take == 0)
            return;
        memcpy(h->tail + have, p, take);
        if (have + take < 16)
            return;
        murmur_blocks(h->h, h->tail, 1);
        p += take;
        len -= take;
    }
    murmur_blocks(h->h, p, len / 16);
    if (len % 16 > 0)
        memcpy(h->tail, p + len / 16 * 16, len % 16);
}

void corpus_hash_end(struct corpus_hash *h, uint64_t ret[2])
{
    size_t have = (size_t)(h->len % 16);
    uint64_t h1, h2;
    memset(h->tail + have, 0, 16 - have);
    h1 = h->h[0] ^ murmur_k1(get_le64(h->tail)) ^ h->len;
    h2 = h->h[1] ^ murmur_k2(get_le64(h->tail + 8)) ^ h->len;
    h1 += h2;
    h2 += h1;
    h1 = murmur_finish(h1);
    h2 = murmur_finish(h2);
    h1 += h2;
    h2 += h1;
    ret[0] = h1;
    ret[1] = h2;
}

/* ---- what is hashed ---------------------------------------------------------------------- */

static void add_number(struct corpus_hash *h, uint64_t x)
{
    uint8_t bytes[8];
    put_le64(bytes, x);
    corpus_hash_add(h, bytes, sizeof bytes);
}

static void add_slice(struct corpus_hash *h, struct seam_slice s)
{
    add_number(h, s.len);
    if (s.len > 0)
        corpus_hash_add(h, s.ptr, s.len);
}

static void add_unit(struct corpus_hash *h, const struct seam_unit *unit)
{
    add_number(h, unit->n);
    add_number(h, unit->bytes);
    for (size_t j = 0; j < unit->n; j++) {
        const struct seam_op *op = &unit->ops[j];
        add_number(h, (uint64_t)op->kind);
        add_slice(h, op->key);
        add_slice(h, op->head);
        add_slice(h, op->body);
        if (unit->stamps != NULL)
            add_number(h, unit->stamps[j]);
    }
}

static void add_queries(struct corpus_hash *h, struct seam_maker *m, uint64_t n)
{
    struct seam_slice key, prefix;
    uint64_t i;
    seam_maker_pick(m, n, &key, &i);
    add_slice(h, key);
    add_number(h, i);
    seam_maker_absent(m, n, &key);
    add_slice(h, key);
    seam_maker_floor(m, n, &prefix, &key, &i);
    add_slice(h, prefix);
    add_slice(h, key);
    add_number(h, i);
}

static int hash_number(const struct seam_corpus *c, struct seam_maker *m, uint64_t n,
                       uint64_t ret[2], struct seam_err *err)
{
    struct corpus_hash h;
    struct seam_unit unit;
    struct seam_slice key, value;
    int rc = seam_maker_unit(m, n, &unit, err);
    if (rc != SEAM_OK)
        return rc;
    corpus_hash_init(&h, 0);
    add_number(&h, n);
    add_unit(&h, &unit);
    rc = seam_maker_incoming(m, n, &unit, err);
    if (rc != SEAM_OK)
        return rc;
    add_unit(&h, &unit);
    rc = seam_maker_load(m, n % c->keys, &key, &value, err);
    if (rc != SEAM_OK)
        return rc;
    add_slice(&h, key);
    add_slice(&h, value);
    rc = seam_maker_message(m, n, 0, &value, err);
    if (rc != SEAM_OK)
        return rc;
    add_slice(&h, value);
    add_queries(&h, m, n);
    corpus_hash_end(&h, ret);
    return SEAM_OK;
}

/* ---- threads ----------------------------------------------------------------------------- */

struct digest {
    const struct seam_corpus *c;
    uint64_t units;
    atomic_uint_fast64_t next; /* the first number that nobody took yet */
    atomic_bool failed;
};

struct digest_worker {
    struct digest *d;
    pthread_t thread;
    uint64_t sum[2];
    int rc;
    struct seam_err err;
};

static void add_128(uint64_t sum[2], const uint64_t x[2])
{
    sum[1] += x[1];
    sum[0] += x[0] + (sum[1] < x[1]);
}

static void *digest_run(void *arg)
{
    struct digest_worker *w = arg;
    struct digest *d = w->d;
    struct seam_maker *m = NULL;
    w->rc = seam_maker_open(d->c, &m, &w->err);
    while (w->rc == SEAM_OK && !atomic_load(&d->failed)) {
        uint64_t n = atomic_fetch_add(&d->next, DIGEST_CHUNK), end = n + DIGEST_CHUNK;
        if (n >= d->units)
            break;
        if (end > d->units)
            end = d->units;
        for (; n < end && w->rc == SEAM_OK; n++) {
            uint64_t one[2];
            w->rc = hash_number(d->c, m, n, one, &w->err);
            if (w->rc == SEAM_OK)
                add_128(w->sum, one);
        }
    }
    if (w->rc != SEAM_OK)
        atomic_store(&d->failed, true);
    seam_maker_close(m);
    return NULL;
}

int seam_corpus_digest(const struct seam_corpus *corpus, uint64_t units, unsigned threads,
                       char ret_hex[33], struct seam_err *err)
{
    struct digest d = {.c = corpus, .units = units};
    struct digest_worker workers[DIGEST_THREADS_MAX];
    struct corpus_hash h;
    uint64_t sum[2] = {0, 0};
    unsigned started = 1;
    if (units == 0 || units > CORPUS_UNITS_MAX)
        return seam_fail(err, SEAM_E_INVALID, "digest of %llu units: 1..%u are possible",
                         (unsigned long long)units, CORPUS_UNITS_MAX);
    threads = threads == 0 ? 1 : threads > DIGEST_THREADS_MAX ? DIGEST_THREADS_MAX : threads;
    memset(workers, 0, threads * sizeof *workers);
    for (unsigned i = 0; i < threads; i++)
        workers[i].d = &d;
    /* A thread that cannot be had leaves its share to the others. */
    while (started < threads &&
           pthread_create(&workers[started].thread, NULL, digest_run, &workers[started]) == 0)
        started++;
    digest_run(&workers[0]);
    for (unsigned i = 1; i < started; i++)
        pthread_join(workers[i].thread, NULL);
    for (unsigned i = 0; i < started; i++) {
        if (workers[i].rc != SEAM_OK) {
            if (err != NULL)
                *err = workers[i].err;
            return workers[i].rc;
        }
        add_128(sum, workers[i].sum);
    }
    corpus_hash_init(&h, 0);
    add_number(&h, corpus->seed);
    add_number(&h, units);
    add_number(&h, sum[0]);
    add_number(&h, sum[1]);
    corpus_hash_end(&h, sum);
    snprintf(ret_hex, 33, "%016llx%016llx", (unsigned long long)sum[0], (unsigned long long)sum[1]);
    return SEAM_OK;
}
