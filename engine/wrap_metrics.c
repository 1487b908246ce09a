/* wrap_metrics.c - the wrapper `metrics`: counts and latencies of every call that passes it.
 *
 * Relies on atomics only: no lock, so it changes no order. Keeps true: each call is counted once,
 * with the time the layers below took. Numbers read while others write may be of slightly
 * different instants. */
#include <seam/backend.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define METRICS_CALLS(X)                                                                           \
    X(prepare)                                                                                     \
    X(abort)                                                                                       \
    X(commit)                                                                                      \
    X(sync)                                                                                        \
    X(snap_open)                                                                                   \
    X(get)                                                                                         \
    X(near)                                                                                        \
    X(cursor_open)                                                                                 \
    X(cursor_move)                                                                                 \
    X(cursor_value)

enum {
#define CALL_ENUM(name) CALL_##name,
    METRICS_CALLS(CALL_ENUM)
#undef CALL_ENUM
        CALLS
};

static const char *const call_names[] = {
#define CALL_NAME(name) #name,
    METRICS_CALLS(CALL_NAME)
#undef CALL_NAME
};

/* Four buckets per power of two of nanoseconds; those below 4 ns hold one value each. */
#define BUCKETS 256u

struct tally {
    _Atomic uint64_t calls, errors, ns, max_ns;
    _Atomic uint64_t bucket[BUCKETS];
};

struct metrics {
    struct seam_engine base; /* first */
    const struct seam_platform *os;
    _Atomic uint64_t ops, bytes; /* of commits that returned SEAM_OK */
    struct tally tally[CALLS];
};

static unsigned bucket_of(uint64_t ns)
{
    if (ns < 4)
        return (unsigned)ns;
    unsigned log = 63u - (unsigned)__builtin_clzll(ns);
    return log * 4 + (unsigned)((ns >> (log - 2)) & 3u);
}

/* The greatest value that falls into the bucket. */
static uint64_t bucket_top(unsigned bucket)
{
    if (bucket < 8)
        return bucket < 4 ? bucket : 3;
    unsigned log = bucket / 4;
    uint64_t width = UINT64_C(1) << (log - 2);
    return (UINT64_C(1) << log) + (bucket % 4) * width + (width - 1);
}

static uint64_t now(const struct metrics *m)
{
    return m->os->now_ns(m->os->ctx, SEAM_CLOCK_MONOTONIC);
}

/* Notes a call that began at `start` and answered rc; returns rc. */
static int note(struct metrics *m, unsigned call, uint64_t start, int rc)
{
    struct tally *t = &m->tally[call];
    uint64_t end = now(m);
    uint64_t ns = end > start ? end - start : 0;
    atomic_fetch_add_explicit(&t->calls, 1, memory_order_relaxed);
    if (rc < 0)
        atomic_fetch_add_explicit(&t->errors, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&t->ns, ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&t->bucket[bucket_of(ns)], 1, memory_order_relaxed);
    uint64_t max = atomic_load_explicit(&t->max_ns, memory_order_relaxed);
    while (ns > max && !atomic_compare_exchange_weak_explicit(
                           &t->max_ns, &max, ns, memory_order_relaxed, memory_order_relaxed)) {
    }
    return rc;
}

static const char *metrics_version(void)
{
    return seam_version();
}

static int metrics_open(const struct seam_open_args *args, struct seam_engine **ret,
                        struct seam_err *err)
{
    struct metrics *m = args->os->alloc(args->os->ctx, sizeof *m);
    if (!m)
        return seam_fail(err, SEAM_E_NOMEM, "out of memory for the wrapper metrics");
    memset(m, 0, sizeof *m);
    m->os = args->os;
    *ret = &m->base;
    return SEAM_OK;
}

static int metrics_close(struct seam_engine *e, struct seam_err *err)
{
    struct metrics *m = (struct metrics *)e;
    int rc = seam_layer_close(e->below, err);
    m->os->free(m->os->ctx, m);
    return rc;
}

static int metrics_prepare(struct seam_engine *e, struct seam_commit *c, uint64_t deadline_ns,
                           struct seam_err *err)
{
    struct metrics *m = (struct metrics *)e;
    uint64_t start = now(m);
    return note(m, CALL_prepare, start, seam_layer_prepare(e->below, c, deadline_ns, err));
}

static void metrics_abort(struct seam_engine *e, struct seam_commit *c)
{
    struct metrics *m = (struct metrics *)e;
    uint64_t start = now(m);
    seam_layer_abort(e->below, c);
    (void)note(m, CALL_abort, start, SEAM_OK);
}

static int metrics_commit(struct seam_engine *e, struct seam_commit *c, struct seam_acked *ret,
                          struct seam_err *err)
{
    struct metrics *m = (struct metrics *)e;
    uint64_t n = c->n, bytes = c->bytes, start = now(m);
    int rc = note(m, CALL_commit, start, seam_layer_commit(e->below, c, ret, err));
    if (rc == SEAM_OK) {
        atomic_fetch_add_explicit(&m->ops, n, memory_order_relaxed);
        atomic_fetch_add_explicit(&m->bytes, bytes, memory_order_relaxed);
    }
    return rc;
}

static int metrics_sync(struct seam_engine *e, enum seam_ack level, struct seam_err *err)
{
    struct metrics *m = (struct metrics *)e;
    uint64_t start = now(m);
    return note(m, CALL_sync, start, seam_layer_sync(e->below, level, err));
}

static int metrics_snap_open(struct seam_engine *e, void **ret_snap, struct seam_err *err)
{
    struct metrics *m = (struct metrics *)e;
    uint64_t start = now(m);
    return note(m, CALL_snap_open, start, seam_layer_snap_open(e->below, ret_snap, err));
}

static int metrics_get(struct seam_engine *e, void *snap, struct seam_slice key,
                       struct seam_pin *ret, struct seam_err *err)
{
    struct metrics *m = (struct metrics *)e;
    uint64_t start = now(m);
    return note(m, CALL_get, start, seam_layer_get(e->below, snap, key, ret, err));
}

static int metrics_near(struct seam_engine *e, void *snap, struct seam_slice lower,
                        struct seam_slice upper, enum seam_move how, struct seam_slice at,
                        struct seam_pin *ret, struct seam_err *err)
{
    struct metrics *m = (struct metrics *)e;
    uint64_t start = now(m);
    return note(m, CALL_near, start,
                seam_layer_near(e->below, snap, lower, upper, how, at, ret, err));
}

static int metrics_cursor_open(struct seam_engine *e, void *snap, struct seam_slice lower,
                               struct seam_slice upper, void **ret_cursor, struct seam_err *err)
{
    struct metrics *m = (struct metrics *)e;
    uint64_t start = now(m);
    return note(m, CALL_cursor_open, start,
                seam_layer_cursor_open(e->below, snap, lower, upper, ret_cursor, err));
}

static int metrics_cursor_move(struct seam_engine *e, void *cursor, enum seam_move how,
                               struct seam_slice at, struct seam_slice *ret_key,
                               struct seam_err *err)
{
    struct metrics *m = (struct metrics *)e;
    uint64_t start = now(m);
    return note(m, CALL_cursor_move, start,
                seam_layer_cursor_move(e->below, cursor, how, at, ret_key, err));
}

static int metrics_cursor_value(struct seam_engine *e, void *cursor, struct seam_slice *ret,
                                struct seam_err *err)
{
    struct metrics *m = (struct metrics *)e;
    uint64_t start = now(m);
    return note(m, CALL_cursor_value, start, seam_layer_cursor_value(e->below, cursor, ret, err));
}

static int64_t signed_count(uint64_t n)
{
    return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

/* Fills in what the engine below does not know. */
static int metrics_stats(struct seam_engine *e, struct seam_stats *ret, struct seam_err *err)
{
    struct metrics *m = (struct metrics *)e;
    int rc = seam_layer_stats(e->below, ret, err);
    if (rc != SEAM_OK)
        return rc;
    const struct tally *t = &m->tally[CALL_commit];
    uint64_t errors = atomic_load(&t->errors); /* first: a call is counted before its error */
    uint64_t calls = atomic_load(&t->calls);
    if (ret->commits < 0)
        ret->commits = signed_count(calls > errors ? calls - errors : 0);
    if (ret->ops < 0)
        ret->ops = signed_count(atomic_load(&m->ops));
    if (ret->user_bytes < 0)
        ret->user_bytes = signed_count(atomic_load(&m->bytes));
    return SEAM_OK;
}

/* The top of the bucket in which the given share of the calls (in per mille) has ended. */
static uint64_t quantile(const struct tally *t, uint64_t per_mille)
{
    uint64_t total = 0, below = 0;
    for (unsigned i = 0; i < BUCKETS; i++)
        total += atomic_load_explicit(&t->bucket[i], memory_order_relaxed);
    uint64_t want = total / 1000 * per_mille + (total % 1000 * per_mille + 999) / 1000;
    for (unsigned i = 0; i < BUCKETS; i++) {
        below += atomic_load_explicit(&t->bucket[i], memory_order_relaxed);
        if (below >= want && below > 0)
            return bucket_top(i);
    }
    return 0;
}

static size_t metrics_describe(struct seam_engine *e, char *buf, size_t cap)
{
    struct metrics *m = (struct metrics *)e;
    size_t wanted = 0;
    for (unsigned i = 0; i < CALLS; i++) {
        const struct tally *t = &m->tally[i];
        uint64_t calls = atomic_load(&t->calls);
        if (calls == 0)
            continue;
        uint64_t max = atomic_load(&t->max_ns), p50 = quantile(t, 500), p99 = quantile(t, 990);
        char line[256];
        int n = snprintf(line, sizeof line,
                         "metrics %s: calls=%" PRIu64 " errors=%" PRIu64 " mean_ns=%" PRIu64
                         " p50_ns=%" PRIu64 " p99_ns=%" PRIu64 " max_ns=%" PRIu64 "\n",
                         call_names[i], calls, atomic_load(&t->errors), atomic_load(&t->ns) / calls,
                         p50 < max ? p50 : max, p99 < max ? p99 : max, max);
        size_t len = n > 0 ? (size_t)n : 0;
        if (wanted < cap) {
            size_t fit = len < cap - wanted - 1 ? len : cap - wanted - 1;
            memcpy(buf + wanted, line, fit);
            buf[wanted + fit] = 0;
        }
        wanted += len;
    }
    size_t room = wanted < cap ? cap - wanted : 0;
    return wanted + seam_layer_describe(e->below, room > 0 ? buf + wanted : buf, room);
}

const struct seam_backend seam_wrapper_metrics = {
    .abi = SEAM_BACKEND_ABI,
    .flags = SEAM_BACKEND_WRAPPER | SEAM_BACKEND_CONCURRENT,
    .name = "metrics",
    .summary = "wrapper: counts calls and their latencies, shown by describe",
    .version = metrics_version,
    .open = metrics_open,
    .close = metrics_close,
    .prepare = metrics_prepare,
    .abort = metrics_abort,
    .commit = metrics_commit,
    .sync = metrics_sync,
    .snap_open = metrics_snap_open,
    .get = metrics_get,
    .near = metrics_near,
    .cursor_open = metrics_cursor_open,
    .cursor_move = metrics_cursor_move,
    .cursor_value = metrics_cursor_value,
    .stats = metrics_stats,
    .describe = metrics_describe,
};
