/* merge.c - merging a unit of stamped entries into a projection.
 *
 * Relies on the order of keys to fold duplicates: sorted, the entries of one key stand together and
 * the one that counts stands last; and the reads then go through the store in order.
 * Keeps true: whether a unit fits is told by the unit alone, before anything is read, so the same
 * unit is answered the same whatever is stored. */
#include "projection_int.h"

#include <assert.h>
#include <stdlib.h>

enum { STAMP = 8 };

bool seam_stamp(struct seam_slice stored, uint64_t *ret_stamp, struct seam_slice *ret_value)
{
    if (stored.len < STAMP)
        return false;
    *ret_stamp = seam_get64_be(stored.ptr);
    if (ret_value != NULL)
        *ret_value = seam_bytes((const uint8_t *)stored.ptr + STAMP, stored.len - STAMP);
    return true;
}

/* By key, then stamp, then place in the unit. */
static int compare_entries(const void *a, const void *b)
{
    const struct seam_entry *x = *(const struct seam_entry *const *)a;
    const struct seam_entry *y = *(const struct seam_entry *const *)b;
    int order = seam_compare(x->key, y->key);
    if (order != 0)
        return order;
    if (x->stamp != y->stamp)
        return x->stamp < y->stamp ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* Fills list with the entry that counts of each key, in order of keys; returns how many. */
static size_t fold(const struct seam_entry *entries, size_t n, const struct seam_entry **list)
{
    bool sorted = true;
    for (size_t i = 0; i < n; i++) {
        list[i] = &entries[i];
        sorted = sorted && (i == 0 || compare_entries(&list[i - 1], &list[i]) < 0);
    }
    if (!sorted)
        qsort(list, n, sizeof(const struct seam_entry *), compare_entries);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (i + 1 == n || seam_compare(list[i]->key, list[i + 1]->key) != 0)
            list[kept++] = list[i];
    }
    return kept;
}

static int check_entries(const struct seam_entry *entries, size_t n, struct seam_err *err)
{
    if (entries == NULL || n == 0)
        return seam_fail(err, SEAM_E_INVALID, "a unit has at least one entry");
    for (size_t i = 0; i < n; i++) {
        const struct seam_entry *e = &entries[i];
        if ((e->key.ptr != NULL || e->key.len == 0) && (e->value.ptr != NULL || e->value.len == 0))
            continue;
        int rc = seam_fail(err, SEAM_E_INVALID, "entry %zu has a length without bytes", i);
        if (err != NULL)
            err->op = i;
        return rc;
    }
    return SEAM_OK;
}

/* One PUT for each entry of the list, stamp in head, value in body. */
static int build(struct seam_emit *out, const struct seam_entry *const *list, size_t n,
                 struct seam_err *err)
{
    for (size_t i = 0; i < n; i++) {
        struct seam_op *op = NULL, made = {.kind = SEAM_PUT, .body = list[i]->value};
        int rc = seam_p_key(out, list[i]->key, &made.key, err);
        if (rc == SEAM_OK)
            rc = seam_p_op(out, &op, err);
        uint8_t *stamp = rc == SEAM_OK ? seam_p_arena_take(&out->arena, STAMP, err) : NULL;
        if (stamp == NULL)
            return SEAM_E_NOMEM;
        seam_put64_be(stamp, list[i]->stamp);
        made.head = seam_bytes(stamp, STAMP);
        *op = made;
    }
    return SEAM_OK;
}

static int check_fits(const struct seam_projection *p, const struct seam_entry *entries,
                      const struct seam_entry *const *list, size_t n, struct seam_err *err)
{
    struct seam_fit fit;
    seam_classify(&p->limits, p->emit.ops + 1, n, NULL, &fit);
    if (fit.verdict == SEAM_FITS)
        return SEAM_OK;
    size_t op =
        fit.verdict == SEAM_NEVER && fit.op < n ? (size_t)(list[fit.op] - entries) : SEAM_NO_OP;
    return seam_fail_limit(err, SEAM_E_TOO_LARGE, fit.limit, fit.max, fit.got, op);
}

/* Keeps those of ops[1..n] that are newer than what is stored. */
static int compare_stored(struct seam_projection *p, size_t n, size_t *ret_newer,
                          struct seam_err *err)
{
    struct seam_op *ops = p->emit.ops + 1;
    size_t newer = 0;
    for (size_t i = 0; i < n; i++) {
        struct seam_pin pin = {0};
        uint64_t stored;
        int rc = seam_get(p->db, NULL, ops[i].key, &pin, err);
        if (rc != SEAM_OK && rc != SEAM_NOTFOUND)
            return rc;
        bool stamped = rc == SEAM_OK && seam_stamp(pin.value, &stored, NULL);
        if (!stamped || stored < seam_get64_be(ops[i].head.ptr))
            ops[newer++] = ops[i];
        if (rc == SEAM_OK)
            seam_unpin(&pin);
    }
    *ret_newer = newer;
    return SEAM_OK;
}

static int merge(struct seam_projection *p, const struct seam_entry *entries, size_t n,
                 const struct seam_entry **list, uint32_t ack, struct seam_merged *ret,
                 struct seam_err *err)
{
    size_t newer = 0, folded = fold(entries, n, list);
    seam_p_emit_reset(&p->emit);
    int rc = build(&p->emit, list, folded, err);
    if (rc == SEAM_OK)
        rc = check_fits(p, entries, list, folded, err);
    if (rc == SEAM_OK)
        rc = compare_stored(p, folded, &newer, err);
    struct seam_merged merged = {.written = newer, .kept = n - newer};
    if (rc == SEAM_OK && newer > 0) {
        rc = seam_write(p->db, p->emit.ops + 1, newer, ack, &merged.acked, err);
        if (rc != SEAM_OK && err != NULL)
            err->op = SEAM_NO_OP; /* it counts what was left, which the caller does not see */
    }
    seam_p_emit_reset(&p->emit);
    if (rc == SEAM_OK && ret != NULL)
        *ret = merged;
    return rc;
}

int seam_projection_merge(struct seam_projection *projection, const struct seam_entry *entries,
                          size_t n, uint32_t ack, struct seam_merged *ret, struct seam_err *err)
{
    int rc = check_entries(entries, n, err);
    if (rc != SEAM_OK)
        return rc;
    const struct seam_platform *os = projection->os;
    const struct seam_entry **list = NULL;
    if (n <= SIZE_MAX / sizeof(*list))
        list = os->alloc(os->ctx, n * sizeof(*list));
    if (list == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "no memory for a unit of %zu entries", n);
    seam_p_turn_take(&projection->writing);
    rc = merge(projection, entries, n, list, ack, ret, err);
    seam_p_turn_give(&projection->writing);
    os->free(os->ctx, list);
    return rc;
}
