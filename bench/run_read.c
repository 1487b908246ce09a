/* run_read.c - point reads, floors and scans over a filled store.
 *
 * Relies on the corpus to say what the answers must be. Keeps true: the first ANSWERS queries of
 * each kind are checked in full and digested, which also warms the caches; the timed queries are
 * made before the meter starts; while timed, each value is touched once a page, one in sixteen is
 * checked in full. */
#include "run.h"

#include <stdlib.h>
#include <string.h>

enum { ANSWERS = 1000, QUERIES = 16384, CHECK_EVERY = 16, TOUCH = 4096 };

struct query {
    struct seam_slice prefix, key;
};

/* One thread's queries, made ahead. */
struct queries {
    struct query *q;
    uint8_t *bytes;
};

static bool is_back(const struct run *r)
{
    bool back;
    return bench_workload_scans(r->turn->workload, &back) && back;
}

static bool is_scan(const struct run *r)
{
    bool back;
    return bench_workload_scans(r->turn->workload, &back);
}

static void make_query(const struct run *r, struct seam_maker *maker, uint64_t n,
                       struct seam_slice *prefix, struct seam_slice *key, uint64_t *ret_i)
{
    *prefix = seam_bytes(NULL, 0);
    *ret_i = UINT64_MAX;
    if (r->turn->workload == BENCH_GET)
        seam_maker_pick(maker, n, key, ret_i);
    else if (r->turn->workload == BENCH_GET_MISS)
        seam_maker_absent(maker, n, key);
    else
        seam_maker_floor(maker, n, prefix, key, ret_i);
}

static struct seam_slice keep(uint8_t **at, struct seam_slice s)
{
    if (!s.len)
        return seam_bytes(NULL, 0);
    memcpy(*at, s.ptr, s.len);
    *at += s.len;
    return seam_bytes(*at - s.len, s.len);
}

static bool queries_make(struct run *r, unsigned thread, struct queries *ret)
{
    struct seam_maker *maker = NULL;
    uint64_t base = ((uint64_t)r->turn->round * 64 + thread) * QUERIES, i;
    ret->q = calloc(QUERIES, sizeof(*ret->q));
    ret->bytes = malloc((size_t)QUERIES * 2 * r->info.key_max);
    bool made = ret->q && ret->bytes && seam_maker_open(r->corpus, &maker, NULL) == SEAM_OK;
    uint8_t *at = ret->bytes;
    for (uint64_t n = 0; made && n < QUERIES; n++) {
        struct seam_slice prefix, key;
        make_query(r, maker, base + n, &prefix, &key, &i);
        ret->q[n].prefix = keep(&at, prefix);
        ret->q[n].key = keep(&at, key);
    }
    seam_maker_close(maker);
    return made;
}

static void queries_free(struct queries *q)
{
    free(q->q);
    free(q->bytes);
}

static int ask(struct run *r, struct seam_slice prefix, struct seam_slice key,
               struct seam_pin *ret, struct seam_err *err)
{
    if (bench_workload_floors(r->turn->workload))
        return seam_floor(r->db, NULL, prefix, key, ret, err);
    return seam_get(r->db, NULL, key, ret, err);
}

unsigned run_touch(struct seam_slice value)
{
    const uint8_t *bytes = value.ptr;
    unsigned sum = 0;
    for (size_t i = 0; i < value.len; i += TOUCH)
        sum += bytes[i];
    return sum;
}

static void read_body(struct run_worker *w)
{
    struct run *r = w->r;
    struct queries q = {NULL, NULL};
    struct seam_err err;
    volatile unsigned sink = 0;
    bool more = queries_make(r, w->number, &q), misses = r->turn->workload == BENCH_GET_MISS;
    if (!more)
        (void)run_note_failure(w, SEAM_E_NOMEM, NULL);
    run_ready(w);
    for (uint64_t n = 0; more; n++) {
        const struct query *at = &q.q[n % QUERIES];
        struct seam_pin pin;
        int phase = atomic_load_explicit(w->phase, memory_order_relaxed);
        if (phase == RUN_STOP)
            break;
        uint64_t begin = run_now(r);
        int rc = ask(r, at->prefix, at->key, &pin, &err);
        if (rc == SEAM_OK)
            sink = sink + run_touch(pin.value);
        uint64_t took = run_now(r) - begin;
        if (rc < 0)
            more = run_note_failure(w, rc, &err);
        if (rc == SEAM_OK) {
            struct seam_slice key = pin.key.len ? pin.key : at->key;
            if (misses || (n % CHECK_EVERY == 0 && seam_corpus_check_value(r->corpus, key, pin.value, NULL,
                                                                           NULL) != SEAM_OK))
                w->wrong++;
            seam_unpin(&pin);
        } else if (rc == SEAM_NOTFOUND && r->turn->workload == BENCH_GET) {
            w->wrong++;
        }
        if (phase == RUN_TIMED) {
            bench_hist_add(w->hist, took);
            run_count(w, 1);
        }
    }
    queries_free(&q);
}

/* ---- answers: a fixed number of queries, checked in full --------------------------------- */

static void check_answer(struct run *r, uint64_t i, int rc, const struct seam_pin *pin,
                         struct seam_slice asked)
{
    struct seam_slice key, value;
    bool floor = bench_workload_floors(r->turn->workload);
    if ((rc == SEAM_OK) != (i != UINT64_MAX)) {
        r->ret->wrong++;
        return;
    }
    if (rc != SEAM_OK)
        return;
    /* load reuses the maker's buffers, and `asked` may lie in them: compare the copy. */
    uint8_t *copy = malloc(asked.len + 1);
    if (copy)
        memcpy(copy, asked.ptr, asked.len);
    if (seam_maker_load(r->maker, i, &key, &value, NULL) != SEAM_OK || !copy ||
        value.len != pin->value.len || memcmp(value.ptr, pin->value.ptr, value.len) != 0)
        r->ret->wrong++;
    else if (floor && (pin->key.len != key.len || memcmp(pin->key.ptr, key.ptr, key.len) != 0))
        r->ret->wrong++;
    else if (!floor && (asked.len != key.len || memcmp(copy, key.ptr, key.len) != 0))
        r->ret->wrong++;
    free(copy);
}

static bool answer_queries(struct run *r, const struct run_left *left)
{
    struct run_digest digest = {{0, 0}, 0, 0};
    for (uint64_t n = 0; n < ANSWERS; n++) {
        struct seam_slice prefix, key;
        struct seam_pin pin;
        uint64_t i;
        make_query(r, r->maker, n, &prefix, &key, &i);
        if (left)
            i = run_left_floor(left, prefix, key);
        int rc = ask(r, prefix, key, &pin, &r->err);
        if (rc < 0)
            return run_fail(r, "read", rc);
        run_digest_add(&digest, rc == SEAM_OK ? pin.value : seam_bytes(NULL, 0));
        if (rc == SEAM_OK)
            run_digest_add(&digest, pin.key);
        check_answer(r, i, rc, &pin, key);
        if (rc == SEAM_OK)
            seam_unpin(&pin);
    }
    run_digest_text(&digest, r->ret->answers);
    return true;
}

/* ---- scans ------------------------------------------------------------------------------- */

static bool same(struct seam_slice a, struct seam_slice b)
{
    return a.len == b.len && memcmp(a.ptr, b.ptr, a.len) == 0;
}

static bool scan_open(struct run *r, struct seam_cursor **ret, struct seam_err *err)
{
    const struct seam_slice none = {NULL, 0};
    int rc = seam_cursor_open(r->db, NULL, none, none, ret, err);
    return rc == SEAM_OK || run_fail(r, "scan", rc);
}

/* The whole store once: every value checked, order and number too. */
static bool answer_scan(struct run *r, const struct run_left *left)
{
    struct run_digest digest = {{0, 0}, 0, 0};
    struct seam_cursor *c = NULL;
    struct seam_slice key, value;
    bool back = is_back(r);
    uint64_t n = 0, keys = left ? left->n : r->info.keys;
    if (!scan_open(r, &c, &r->err))
        return false;
    int rc = SEAM_OK;
    while (rc == SEAM_OK) {
        rc = seam_cursor_move(c, back ? SEAM_PREV : SEAM_NEXT, seam_bytes(NULL, 0), &key, &r->err);
        if (rc == SEAM_OK)
            rc = seam_cursor_value(c, &value, &r->err);
        if (rc != SEAM_OK)
            break;
        run_digest_add(&digest, key);
        run_digest_add(&digest, value);
        if (seam_corpus_check_value(r->corpus, key, value, NULL, NULL) != SEAM_OK)
            r->ret->wrong++;
        if (left && (n >= keys || !same(key, left->keys[back ? keys - 1 - n : n])))
            r->ret->wrong++;
        n++;
    }
    seam_cursor_close(c);
    if (rc < 0)
        return run_fail(r, "scan", rc);
    if (n != keys)
        r->ret->wrong++;
    run_digest_text(&digest, r->ret->answers);
    return true;
}

enum { SCAN_CHUNK = 256 };

/* Moves on by a chunk; begins anew at the end. Returns the keys seen, or a negative code. */
static int64_t scan_chunk(struct seam_cursor *c, bool back, unsigned *sink, struct seam_err *err)
{
    const struct seam_slice none = {NULL, 0};
    struct seam_slice value;
    int64_t n = 0;
    while (n < SCAN_CHUNK) {
        int rc = seam_cursor_move(c, back ? SEAM_PREV : SEAM_NEXT, none, NULL, err);
        if (rc == SEAM_NOTFOUND)
            rc = seam_cursor_move(c, back ? SEAM_LAST : SEAM_FIRST, none, NULL, err);
        if (rc == SEAM_OK)
            rc = seam_cursor_value(c, &value, err);
        if (rc != SEAM_OK)
            return rc == SEAM_NOTFOUND ? n : rc;
        *sink += run_touch(value);
        n++;
    }
    return n;
}

static void scan_body(struct run_worker *w)
{
    struct run *r = w->r;
    struct seam_cursor *c = NULL;
    struct seam_err err;
    unsigned sum = 0;
    volatile unsigned sink = 0;
    const struct seam_slice none = {NULL, 0};
    bool back = is_back(r);
    int rc = seam_cursor_open(r->db, NULL, none, none, &c, &err);
    bool more = rc == SEAM_OK || run_note_failure(w, rc, &err);
    run_ready(w);
    while (more && c && atomic_load_explicit(w->phase, memory_order_relaxed) != RUN_STOP) {
        int64_t n = scan_chunk(c, back, &sum, &err);
        if (n < 0)
            more = run_note_failure(w, (int)n, &err);
        else if (atomic_load_explicit(w->phase, memory_order_relaxed) == RUN_TIMED)
            run_count(w, (uint64_t)n);
    }
    sink = sum;
    (void)sink;
    seam_cursor_close(c);
}

/* ---- the turn ---------------------------------------------------------------------------- */

/* A store that was made just now, and one that keeps nothing, is filled first; then it is closed
 * and opened again, so that no engine is read with its write buffers full. */
bool run_fill(struct run *r)
{
    struct run_set set;
    bool fresh = false, ok = run_open(r, &fresh);
    if (!ok || !fresh)
        return ok;
    ok = run_set_make(r, &set) && run_set_commit(r, &set) &&
         (!bench_workload_deleted(r->turn->workload) || run_delete(r, &set));
    run_set_free(&set);
    if (!ok || r->is_volatile)
        return ok;
    return run_close(r) && run_open(r, &fresh);
}

void run_read(struct run *r)
{
    if (!run_fill(r))
        return;
    struct run_left left = {NULL, NULL, NULL, 0};
    const struct run_left *oracle = bench_workload_deleted(r->turn->workload) ? &left : NULL;
    bool ok = !oracle || run_left_make(r, &left);
    ok = ok && (is_scan(r) ? answer_scan(r, oracle) : answer_queries(r, oracle));
    run_left_free(&left);
    if (!ok)
        return;
    if (run_threads(r, is_scan(r) ? scan_body : read_body, NULL))
        (void)run_close(r);
}
