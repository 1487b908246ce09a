/* run_load.c - the bulk load: the whole set in large commits at the lowest ack, one flush at the end.
 *
 * Relies on the corpus for the set, which is made before the meter starts. Keeps true: the time runs
 * from the first commit to the return of the last flush. */
#include "run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool set_reserve(struct run_set *s, uint64_t *cap, uint64_t more)
{
    if (s->size + more <= *cap)
        return true;
    uint64_t want = *cap * 2 > s->size + more ? *cap * 2 : s->size + more;
    uint8_t *bytes = realloc(s->bytes, want);
    if (!bytes)
        return false;
    s->bytes = bytes;
    *cap = want;
    return true;
}

/* Offsets stand in for addresses until the bytes have stopped moving. */
static bool set_fill(struct run *r, struct run_set *s)
{
    uint64_t cap = 0;
    for (uint64_t i = 0; i < s->n; i++) {
        struct seam_slice key, value;
        int rc = seam_maker_load(r->maker, i, &key, &value, &r->err);
        if (rc != SEAM_OK)
            return run_fail(r, "corpus", rc);
        if (!set_reserve(s, &cap, key.len + value.len))
            return run_fail(r, "corpus", SEAM_E_NOMEM);
        memcpy(s->bytes + s->size, key.ptr, key.len);
        memcpy(s->bytes + s->size + key.len, value.ptr, value.len);
        s->values[i] = s->size;
        s->ops[i].kind = SEAM_PUT;
        s->ops[i].key.len = key.len;
        s->ops[i].head.len = value.len;
        s->size += key.len + value.len;
    }
    for (uint64_t i = 0; i < s->n; i++) {
        s->ops[i].key.ptr = s->bytes + s->values[i];
        s->ops[i].head.ptr = s->bytes + s->values[i] + s->ops[i].key.len;
    }
    return true;
}

bool run_set_make(struct run *r, struct run_set *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->n = r->info.keys;
    ret->ops = calloc(ret->n, sizeof(*ret->ops));
    ret->values = calloc(ret->n, sizeof(*ret->values));
    if (!ret->ops || !ret->values)
        return run_fail(r, "corpus", SEAM_E_NOMEM);
    return set_fill(r, ret);
}

void run_set_free(struct run_set *s)
{
    free(s->ops);
    free(s->values);
    free(s->bytes);
    memset(s, 0, sizeof(*s));
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

bool run_set_commit(struct run *r, const struct run_set *s)
{
    uint64_t max = least(RUN_LOAD_BYTES, r->limits.bytes);
    for (uint64_t i = 0; i < s->n;) {
        uint64_t bytes = 0, n = 0;
        for (; i + n < s->n && n < r->limits.ops; n++) {
            uint64_t more = s->ops[i + n].key.len + s->ops[i + n].head.len;
            if (n > 0 && bytes + more > max)
                break;
            bytes += more;
        }
        int rc = seam_write(r->db, s->ops + i, n, SEAM_ACK_NONE, NULL, &r->err);
        if (rc != SEAM_OK)
            return run_fail(r, "load", rc);
        i += n;
    }
    int rc = seam_sync(r->db, r->limits.best, &r->err);
    return rc == SEAM_OK || run_fail(r, "flush", rc);
}

void run_load(struct run *r)
{
    struct run_set set;
    struct seam_usage usage;
    bool fresh = false;
    if (run_set_make(r, &set)) {
        seam_usage_read(&usage);
        r->rss_before = usage.rss_bytes;
    }
    if (r->ret->error_code == SEAM_OK && run_open(r, &fresh)) {
        run_meter_begin(r);
        if (run_set_commit(r, &set)) {
            run_meter_end(r);
            r->ret->operations = set.n;
            r->ret->records = (double)set.n;
            r->ret->user_bytes = (double)set.size;
            r->ret->ack_given = (int)r->limits.best;
            r->ret->rate = (double)set.n / r->ret->seconds;
            (void)run_close(r);
        }
    }
    run_set_free(&set);
}
