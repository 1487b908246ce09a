/* random.h - the corpus's own numbers: counter-based, integers only, the same everywhere.
 *
 * The mixer is the finaliser of SplitMix64: G. L. Steele, D. Lea, C. H. Flood, "Fast Splittable
 * Pseudorandom Number Generators", OOPSLA 2014, with the constants of David Stafford's variant 13;
 * written here from that description. A draw is mix(key + counter * odd constant), so that any
 * number of any stream can be had without those before it, which makes threads irrelevant.
 *
 * Relies on unsigned wrap-around only. Keeps true: no floating point, no state but the caller's. */
#ifndef SEAM_CORPUS_RANDOM_H
#define SEAM_CORPUS_RANDOM_H

#include <stdint.h>

#define RANDOM_GAMMA UINT64_C(0x9e3779b97f4a7c15) /* 2^64 / golden ratio, odd */

/* A bijection of 64-bit numbers. */
static inline uint64_t random_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Number i of the stream `key`. */
static inline uint64_t random_at(uint64_t key, uint64_t i)
{
    return random_mix(key + (i + 1) * RANDOM_GAMMA);
}

/* 0 <= result < n, from 32 random bits; the bias is at most n / 2^32. */
static inline uint32_t random_scale(uint32_t bits, uint32_t n)
{
    return (uint32_t)(((uint64_t)bits * n) >> 32);
}

/* A stream read in order. */
struct random {
    uint64_t state;
};

static inline struct random random_stream(uint64_t key, uint64_t i)
{
    struct random r;
    r.state = random_at(key, i);
    return r;
}

static inline uint64_t random_next(struct random *r)
{
    r->state += RANDOM_GAMMA;
    return random_mix(r->state);
}

static inline uint32_t random_below(struct random *r, uint32_t n)
{
    return random_scale((uint32_t)(random_next(r) >> 32), n);
}

/* A permutation of 0 .. n-1, n >= 1: three rounds of multiply, add and shift-xor, each a bijection
 * of the numbers below the next power of two; results >= n are permuted again ("cycle walking"),
 * fewer than two rounds on average. */
struct permutation {
    uint64_t n, mask, mul[3], add[3], back[3]; /* back: mul's inverses modulo 2^64 */
    unsigned shift;                            /* at least half the bits: its own inverse */
};

static inline void permutation_init(struct permutation *p, uint64_t n, uint64_t key)
{
    unsigned bits = 1;
    while (bits < 63 && (UINT64_C(1) << bits) < n)
        bits++;
    p->n = n;
    p->mask = (UINT64_C(1) << bits) - 1;
    p->shift = (bits + 1) / 2;
    for (unsigned i = 0; i < 3; i++) {
        p->mul[i] = random_at(key, 2 * i) | 1;
        p->add[i] = random_at(key, 2 * i + 1);
        /* Newton: right for 3 bits to begin with, twice as many each time. */
        p->back[i] = p->mul[i];
        for (unsigned step = 0; step < 5; step++)
            p->back[i] *= 2 - p->mul[i] * p->back[i];
    }
}

static inline uint64_t permutation_at(const struct permutation *p, uint64_t x)
{
    do {
        for (unsigned i = 0; i < 3; i++) {
            x = (x * p->mul[i] + p->add[i]) & p->mask;
            x ^= x >> p->shift;
        }
    } while (x >= p->n);
    return x;
}

/* The x whose permutation_at is y. */
static inline uint64_t permutation_back(const struct permutation *p, uint64_t y)
{
    do {
        for (unsigned i = 3; i-- > 0;) {
            y ^= y >> p->shift;
            y = ((y - p->add[i]) * p->back[i]) & p->mask;
        }
    } while (y >= p->n);
    return y;
}

static inline void put_le32(uint8_t *p, uint32_t x)
{
    for (unsigned i = 0; i < 4; i++)
        p[i] = (uint8_t)(x >> (8 * i));
}

static inline void put_le64(uint8_t *p, uint64_t x)
{
    for (unsigned i = 0; i < 8; i++)
        p[i] = (uint8_t)(x >> (8 * i));
}

static inline void put_be64(uint8_t *p, uint64_t x)
{
    for (unsigned i = 0; i < 8; i++)
        p[i] = (uint8_t)(x >> (56 - 8 * i));
}

static inline uint32_t get_le32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t get_le64(const uint8_t *p)
{
    return (uint64_t)get_le32(p) | (uint64_t)get_le32(p + 4) << 32;
}

#endif
