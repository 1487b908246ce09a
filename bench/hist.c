/* hist.c - a log-linear histogram of latencies in nanoseconds.
 *
 * Keeps true: a percentile that fewer than 10 samples lie beyond is not told. */
#include "bench.h"

#include <math.h>

enum { STEPS = 1 << BENCH_HIST_STEP_BITS, SAMPLES_BEYOND = 10 };

size_t bench_hist_index(uint64_t ns)
{
    if (ns < 2 * STEPS)
        return (size_t)ns;
    unsigned top = 63u - (unsigned)__builtin_clzll(ns);
    unsigned shift = top - BENCH_HIST_STEP_BITS;
    size_t i = ((size_t)shift << BENCH_HIST_STEP_BITS) + (size_t)(ns >> shift);
    return i < BENCH_HIST_BUCKETS ? i : BENCH_HIST_BUCKETS - 1;
}

uint64_t bench_hist_value(size_t index)
{
    if (index < 2 * STEPS)
        return index;
    unsigned shift = (unsigned)(index >> BENCH_HIST_STEP_BITS) - 1;
    uint64_t low = (uint64_t)(index - ((size_t)shift << BENCH_HIST_STEP_BITS)) << shift;
    return low + ((1ull << shift) >> 1);
}

void bench_hist_add(struct bench_hist *h, uint64_t ns)
{
    h->bucket[bench_hist_index(ns)]++;
    h->count++;
    if (ns > h->max)
        h->max = ns;
}

void bench_hist_merge(struct bench_hist *h, const struct bench_hist *other)
{
    for (size_t i = 0; i < BENCH_HIST_BUCKETS; i++)
        h->bucket[i] += other->bucket[i];
    h->count += other->count;
    if (other->max > h->max)
        h->max = other->max;
}

double bench_hist_percentile(const struct bench_hist *h, double p)
{
    double below = (double)h->count * p;
    if ((double)h->count - below < SAMPLES_BEYOND - 1e-6)
        return NAN;
    uint64_t rank = (uint64_t)ceil(below), seen = 0;
    for (size_t i = 0; i < BENCH_HIST_BUCKETS; i++) {
        seen += h->bucket[i];
        if (seen >= rank && seen > 0)
            return (double)bench_hist_value(i);
    }
    return (double)h->max;
}
