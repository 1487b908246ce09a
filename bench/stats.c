/* stats.c - medians, ranges and paired ratios of a few rounds.
 *
 * Keeps true: a round whose figure is unknown takes no part; a ratio is taken within a round. */
#include "bench.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bench_spread(const double *v, size_t n, struct bench_spread *ret)
{
    double known[BENCH_ROUNDS];
    size_t k = 0;
    assert(n <= BENCH_ROUNDS);
    for (size_t i = 0; i < n; i++)
        if (!isnan(v[i]))
            known[k++] = v[i];
    ret->n = k;
    if (k == 0) {
        ret->median = ret->low = ret->high = NAN;
        return;
    }
    qsort(known, k, sizeof *known, by_value);
    ret->low = known[0];
    ret->high = known[k - 1];
    ret->median = k % 2 ? known[k / 2] : (known[k / 2 - 1] + known[k / 2]) / 2;
}

void bench_paired(const double *a, const double *b, size_t n, struct bench_spread *ret)
{
    double ratio[BENCH_ROUNDS];
    assert(n <= BENCH_ROUNDS);
    for (size_t i = 0; i < n; i++)
        ratio[i] = b[i] > 0 ? a[i] / b[i] : NAN;
    bench_spread(ratio, n, ret);
}

bool bench_straddles(const struct bench_spread *ratios)
{
    return ratios->n < 2 || (ratios->low <= 1 && ratios->high >= 1);
}
