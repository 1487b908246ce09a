/* sweep.c - taking away the tables that nothing points to any more.
 *
 * Relies on generations: the tables that count are the one that the projection's record names and
 * the one that is being built; all others are remains. Keeps true: a table becomes remains in a
 * commit that also puts the sweep record, which goes after the last of their keys; so remains are
 * found again after a crash, and a projection without any costs nothing to open.
 *
 * A step is one commit of bounded size. Whoever still reads an old table does so by a snapshot of
 * his own (a view, a cursor) or under `now`, which the change of tables has waited for: the sweep
 * takes nothing away under him. */
#include "projection_int.h"

enum { SWEEP_OPS = 512 };

/* The sweep's record; value: room for it. */
struct seam_op seam_p_sweep_op(const struct seam_projection *p, struct seam_fmt_key *key,
                               uint8_t value[SEAM_FMT_SWEEP])
{
    *key = p->meta_key;
    key->bytes[key->len - 1] = SEAM_TAG_SWEEP;
    seam_fmt_sweep_write(value);
    return (struct seam_op){SEAM_PUT, seam_fmt_slice(key), {value, SEAM_FMT_SWEEP}, {NULL, 0}};
}

void seam_p_sweep_begin(struct seam_projection *p)
{
    p->sweeping = true;
    p->os->free(p->os->ctx, p->swept.ptr);
    p->swept.ptr = NULL;
    p->swept.len = 0;
}

int seam_p_sweep_load(struct seam_projection *p, struct seam_err *err)
{
    struct seam_fmt_key key;
    uint8_t value[SEAM_FMT_SWEEP];
    struct seam_pin pin = {0};
    (void)seam_p_sweep_op(p, &key, value);
    int rc = seam_get(p->db, NULL, seam_fmt_slice(&key), &pin, err);
    if (rc == SEAM_NOTFOUND)
        return SEAM_OK;
    if (rc == SEAM_OK)
        rc = seam_fmt_sweep_read(pin.value, err);
    seam_unpin(&pin);
    if (rc == SEAM_OK)
        seam_p_sweep_begin(p);
    return rc;
}

/* ---- what there is to sweep -------------------------------------------------------------- */

struct range {
    struct seam_fmt_key lower, upper;
};

/* The generations below, between and above those that count. */
static size_t remains(const struct seam_projection *p, struct range ret[3])
{
    uint32_t kept[2] = {p->meta.generation, 0}, from = 0;
    size_t n = 0, count = 1;
    if (p->build != NULL)
        kept[count++] = p->build->meta.generation; /* the higher one */
    for (size_t i = 0; i <= count; i++) {
        uint32_t to = i < count ? kept[i] : UINT32_MAX;
        if (from < to) {
            seam_p_table(p, from, &ret[n].lower);
            seam_p_table(p, to, &ret[n].upper);
            n++;
        }
        from = to + 1;
    }
    return n;
}

/* Where in the range to go on: what was swept already is not looked at again, since an engine may
 * have to step over each deleted key. */
static struct seam_slice where(const struct seam_projection *p, const struct range *range)
{
    struct seam_slice lower = seam_fmt_slice(&range->lower);
    struct seam_slice swept = seam_bytes(p->swept.ptr, p->swept.len);
    return swept.ptr != NULL && seam_compare(swept, lower) > 0 ? swept : lower;
}

static void remember(struct seam_projection *p, struct seam_slice last)
{
    uint8_t *copy = p->os->alloc(p->os->ctx, last.len);
    if (copy == NULL)
        return; /* the next step takes longer, that is all */
    memcpy(copy, last.ptr, last.len);
    p->os->free(p->os->ctx, p->swept.ptr);
    p->swept.ptr = copy;
    p->swept.len = last.len;
}

/* ---- steps ------------------------------------------------------------------------------- */

/* Puts deletes of the first keys in [from, upper) into emit. */
static int take_keys(struct seam_projection *p, struct seam_slice from, struct seam_slice upper,
                     struct seam_err *err)
{
    struct seam_emit *out = &p->emit;
    struct seam_slice none = {NULL, 0}, key;
    struct seam_cursor *cursor;
    uint64_t bytes = 0, most = SWEEP_OPS < p->limits.ops ? SWEEP_OPS : p->limits.ops;
    int rc = seam_cursor_open(p->db, NULL, from, upper, &cursor, err);
    if (rc != SEAM_OK)
        return rc;
    while (out->n - 1 < most &&
           (rc = seam_cursor_move(cursor, SEAM_NEXT, none, &key, err)) == SEAM_OK) {
        struct seam_op *op = NULL;
        bytes += key.len;
        if (out->n > 1 && bytes > p->limits.bytes)
            break;
        uint8_t *copy = seam_p_arena_take(&out->arena, key.len, err);
        rc = copy == NULL ? SEAM_E_NOMEM : seam_p_op(out, &op, err);
        if (rc != SEAM_OK)
            break;
        memcpy(copy, key.ptr, key.len);
        *op = (struct seam_op){.kind = SEAM_DELETE, .key = {copy, key.len}};
    }
    seam_cursor_close(cursor);
    return rc == SEAM_NOTFOUND ? SEAM_OK : rc;
}

static int end_sweep(struct seam_projection *p, struct seam_op *ops, size_t n, struct seam_err *err)
{
    struct seam_fmt_key key;
    uint8_t value[SEAM_FMT_SWEEP];
    (void)seam_p_sweep_op(p, &key, value);
    ops[n++] = (struct seam_op){.kind = SEAM_DELETE, .key = seam_fmt_slice(&key)};
    int rc = seam_write(p->db, ops, n, SEAM_ACK_NONE, NULL, err);
    if (rc == SEAM_OK) {
        seam_p_sweep_begin(p);
        p->sweeping = false;
    }
    return rc;
}

/* Where a range costs one op, everything goes at once. */
static int sweep_ranges(struct seam_projection *p, const struct range *ranges, size_t n,
                        struct seam_err *err)
{
    struct seam_op ops[4];
    for (size_t i = 0; i < n; i++)
        ops[i] = (struct seam_op){SEAM_DELETE_RANGE, seam_fmt_slice(&ranges[i].lower),
                                  seam_fmt_slice(&ranges[i].upper), {NULL, 0}};
    return end_sweep(p, ops, n, err);
}

int seam_p_sweep_step(struct seam_projection *p, struct seam_err *err)
{
    struct seam_emit *out = &p->emit;
    struct range ranges[3];
    struct seam_op last[1];
    size_t n = remains(p, ranges);
    int rc = SEAM_OK;
    if (!p->sweeping)
        return SEAM_OK;
    if ((p->limits.caps & SEAM_CAP_LAZY_RANGE) != 0 && p->limits.ops > n)
        return sweep_ranges(p, ranges, n, err);
    seam_p_emit_reset(out);
    for (size_t i = 0; i < n && rc == SEAM_OK && out->n == 1; i++) {
        struct seam_slice from = where(p, &ranges[i]), upper = seam_fmt_slice(&ranges[i].upper);
        if (seam_compare(from, upper) < 0)
            rc = take_keys(p, from, upper, err);
    }
    if (rc == SEAM_OK && out->n == 1)
        rc = end_sweep(p, last, 0, err);
    else if (rc == SEAM_OK) {
        rc = seam_write(p->db, out->ops + 1, out->n - 1, SEAM_ACK_NONE, NULL, err);
        if (rc == SEAM_OK)
            remember(p, out->ops[out->n - 1].key);
    }
    seam_p_emit_reset(out);
    return rc;
}

int seam_p_sweep_all(struct seam_projection *p, struct seam_err *err)
{
    int rc = SEAM_OK;
    while (rc == SEAM_OK && p->sweeping)
        rc = seam_p_sweep_step(p, err);
    return rc;
}
