/* run_deleted.c - a store of which nine keys of ten have been deleted, and what it must answer.
 *
 * Relies on the load set coming in random order: every tenth entry stays, so the tombstones lie all over
 * the key space. Keeps true: every engine gets the same time to settle after the last delete. */
#include "run.h"

#include <stdlib.h>
#include <string.h>

enum { STAYS = 10, COMMIT = 1000 };

bool run_delete(struct run *r, const struct run_set *set)
{
    struct seam_op *ops = calloc(COMMIT, sizeof(*ops));
    uint64_t most = r->limits.ops < COMMIT ? r->limits.ops : COMMIT, n = 0;
    int rc = ops ? SEAM_OK : SEAM_E_NOMEM;
    for (uint64_t i = 0; rc == SEAM_OK && i < set->n; i++) {
        if (i % STAYS != 0) {
            ops[n].kind = SEAM_DELETE;
            ops[n++].key = set->ops[i].key;
        }
        if (n == most || (n > 0 && i + 1 == set->n)) {
            rc = seam_write(r->db, ops, n, SEAM_ACK_NONE, NULL, &r->err);
            n = 0;
        }
    }
    free(ops);
    if (rc == SEAM_OK)
        rc = seam_sync(r->db, r->limits.best, &r->err);
    if (rc != SEAM_OK)
        return run_fail(r, "delete", rc);
    r->os->sleep_us(r->os->ctx, RUN_SETTLE_US);
    return true;
}

/* ---- what is left ------------------------------------------------------------------------ */

struct left_key {
    struct seam_slice key;
    uint64_t load;
};

static int compare(struct seam_slice a, struct seam_slice b)
{
    int c = memcmp(a.ptr, b.ptr, a.len < b.len ? a.len : b.len);
    return c ? c : a.len < b.len ? -1 : a.len > b.len;
}

static int by_key(const void *a, const void *b)
{
    return compare(((const struct left_key *)a)->key, ((const struct left_key *)b)->key);
}

static bool collect(struct run *r, struct run_left *ret, struct left_key *found)
{
    uint8_t *at = ret->bytes;
    for (uint64_t i = 0; i < ret->n; i++) {
        struct seam_slice key, value;
        int rc = seam_maker_load(r->maker, i * STAYS, &key, &value, &r->err);
        if (rc != SEAM_OK)
            return run_fail(r, "corpus", rc);
        memcpy(at, key.ptr, key.len);
        found[i].key = seam_bytes(at, key.len);
        found[i].load = i * STAYS;
        at += key.len;
    }
    qsort(found, ret->n, sizeof(*found), by_key);
    for (uint64_t i = 0; i < ret->n; i++) {
        ret->keys[i] = found[i].key;
        ret->loads[i] = found[i].load;
    }
    return true;
}

bool run_left_make(struct run *r, struct run_left *ret)
{
    ret->n = (r->info.keys + STAYS - 1) / STAYS;
    ret->keys = calloc(ret->n, sizeof(*ret->keys));
    ret->loads = calloc(ret->n, sizeof(*ret->loads));
    ret->bytes = malloc(ret->n * r->info.key_max);
    struct left_key *found = calloc(ret->n, sizeof(*found));
    bool ok = ret->keys && ret->loads && ret->bytes && found;
    ok = ok ? collect(r, ret, found) : run_fail(r, "corpus", SEAM_E_NOMEM);
    free(found);
    return ok;
}

void run_left_free(struct run_left *left)
{
    free(left->keys);
    free(left->loads);
    free(left->bytes);
    memset(left, 0, sizeof(*left));
}

uint64_t run_left_floor(const struct run_left *left, struct seam_slice prefix, struct seam_slice key)
{
    uint64_t low = 0, high = left->n; /* keys before low are <= key, those from high on are > */
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (compare(left->keys[middle], key) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return UINT64_MAX;
    const struct seam_slice *at = &left->keys[low - 1];
    bool under = at->len >= prefix.len && (!prefix.len || memcmp(at->ptr, prefix.ptr, prefix.len) == 0);
    return under ? left->loads[low - 1] : UINT64_MAX;
}
