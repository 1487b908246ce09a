/* check.c - validation of ops, classification of units, the meet of limits.
 *
 * Relies on nothing but its arguments: all of it is pure. Keeps true: what classifies as FITS is
 * what seam_prepare admits, because both compare with the same limits. */
#include "core.h"

#include <string.h>

static uint64_t value_len(const struct seam_op *op)
{
    uint64_t len = op->head.len;
    return len + op->body.len < len ? UINT64_MAX : len + op->body.len;
}

/* A range's end is a key, not a value. */
static uint64_t op_bytes(const struct seam_op *op)
{
    uint64_t value = value_len(op);
    return value > UINT64_MAX - op->key.len ? UINT64_MAX : value + op->key.len;
}

static bool slice_bad(struct seam_slice s)
{
    return s.ptr == NULL && s.len > 0;
}

static int bad_op(struct seam_err *err, size_t i, const char *why)
{
    seam_fail(err, SEAM_E_INVALID, "op %zu: %s", i, why);
    if (err)
        err->op = i;
    return SEAM_E_INVALID;
}

static int check_shape(const struct seam_op *op, size_t i, struct seam_err *err)
{
    if (op->kind != SEAM_PUT && op->kind != SEAM_DELETE && op->kind != SEAM_DELETE_RANGE)
        return bad_op(err, i, "its kind is none of PUT, DELETE, DELETE_RANGE");
    if (slice_bad(op->key) || slice_bad(op->head) || slice_bad(op->body))
        return bad_op(err, i, "a slice has a length but no address");
    if (op->key.len == 0)
        return bad_op(err, i, "its key is empty: keys have at least 1 byte");
    if (op->kind == SEAM_DELETE && (op->head.len || op->body.len))
        return bad_op(err, i, "a DELETE carries no value");
    if (op->kind != SEAM_DELETE_RANGE)
        return SEAM_OK;
    if (op->body.len)
        return bad_op(err, i, "a DELETE_RANGE has a key and an end, no body");
    if (op->head.ptr && seam_compare(op->key, op->head) >= 0)
        return bad_op(err, i, "a DELETE_RANGE must begin before it ends");
    return SEAM_OK;
}

/* The limit that this op breaks alone, or NULL. */
static const char *op_over(const struct seam_limits *l, const struct seam_op *op, uint64_t *max,
                           uint64_t *got)
{
    *max = l->key;
    *got = op->key.len;
    if (*got > *max)
        return "key";
    if (op->kind == SEAM_DELETE_RANGE) {
        *got = op->head.len;
        return *got > *max ? "key" : NULL;
    }
    *max = l->value;
    *got = value_len(op);
    return *got > *max ? "value" : NULL;
}

int seam_check_ops(const struct seam_limits *l, const struct seam_op *ops, size_t n,
                   uint64_t *ret_bytes, struct seam_err *err)
{
    uint64_t bytes = 0, max, got;
    if (n == 0 || !ops)
        return seam_fail(err, SEAM_E_INVALID, "a commit has at least one op");
    for (size_t i = 0; i < n; i++) {
        int rc = check_shape(&ops[i], i, err);
        if (rc != SEAM_OK)
            return rc;
        const char *limit = op_over(l, &ops[i], &max, &got);
        if (limit)
            return seam_fail_limit(err, SEAM_E_TOO_LARGE, limit, max, got, i);
        uint64_t add = op_bytes(&ops[i]);
        bytes = bytes > UINT64_MAX - add ? UINT64_MAX : bytes + add;
    }
    if (n > l->ops)
        return seam_fail_limit(err, SEAM_E_TOO_LARGE, "ops", l->ops, n, SEAM_NO_OP);
    if (bytes > l->bytes)
        return seam_fail_limit(err, SEAM_E_TOO_LARGE, "bytes", l->bytes, bytes, SEAM_NO_OP);
    *ret_bytes = bytes;
    return SEAM_OK;
}

/* One op that no commit can hold decides the whole unit. */
static bool never_fits(const struct seam_limits *l, const struct seam_op *op, size_t i,
                       struct seam_fit *ret)
{
    uint64_t max, got;
    const char *limit = op_over(l, op, &max, &got);
    if (!limit && op_bytes(op) > l->bytes) {
        limit = "bytes";
        max = l->bytes;
        got = op_bytes(op);
    }
    if (!limit && l->ops == 0) {
        limit = "ops";
        max = 0;
        got = 1;
    }
    if (!limit)
        return false;
    memset(ret, 0, sizeof(*ret));
    ret->verdict = SEAM_NEVER;
    ret->op = i;
    ret->limit = limit;
    ret->max = max;
    ret->got = got;
    return true;
}

static uint64_t unit_bytes(const struct seam_op *ops, size_t n)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t add = op_bytes(&ops[i]);
        bytes = bytes > UINT64_MAX - add ? UINT64_MAX : bytes + add;
    }
    return bytes;
}

/* The first cut decides what is told: which limit bound, and what the whole unit asks of it. */
static void note_cut(const struct seam_limits *l, const struct seam_op *ops, size_t n, size_t i,
                     bool by_ops, struct seam_fit *ret)
{
    ret->op = i;
    ret->limit = by_ops ? "ops" : "bytes";
    ret->max = by_ops ? l->ops : l->bytes;
    ret->got = by_ops ? n : unit_bytes(ops, n);
}

void seam_classify(const struct seam_limits *l, const struct seam_op *ops, size_t n,
                   size_t *ret_ends, struct seam_fit *ret)
{
    size_t commits = 0, in = 0, ask = SEAM_NO_OP;
    uint64_t bytes = 0;
    memset(ret, 0, sizeof(*ret));
    for (size_t i = 0; i < n; i++) {
        uint64_t add = op_bytes(&ops[i]);
        if (never_fits(l, &ops[i], i, ret))
            return;
        if (ops[i].kind == SEAM_DELETE_RANGE && !(l->caps & SEAM_CAP_LAZY_RANGE) &&
            l->range_keys != UINT64_MAX && ask == SEAM_NO_OP)
            ask = i;
        if (in == l->ops || bytes > l->bytes - add) {
            if (commits == 0)
                note_cut(l, ops, n, i, in == l->ops, ret);
            if (ret_ends)
                ret_ends[commits] = i;
            commits++;
            in = 0;
            bytes = 0;
        }
        in++;
        bytes += add;
    }
    if (in > 0) {
        if (ret_ends)
            ret_ends[commits] = n;
        commits++;
    }
    ret->commits = commits;
    ret->verdict = commits > 1 ? SEAM_SPLITS : SEAM_FITS;
    if (ask != SEAM_NO_OP) {
        ret->verdict = SEAM_ASK;
        ret->op = ask;
        ret->limit = "range_keys";
        ret->max = l->range_keys;
        ret->got = 0;
    }
}

static void least(uint64_t *acc, uint64_t other)
{
    if (other < *acc)
        *acc = other;
}

void seam_limits_meet(struct seam_limits *acc, const struct seam_limits *other)
{
    least(&acc->key, other->key);
    least(&acc->value, other->value);
    least(&acc->ops, other->ops);
    least(&acc->bytes, other->bytes);
    least(&acc->range_keys, other->range_keys);
    least(&acc->tickets, other->tickets);
    least(&acc->pins, other->pins);
    uint32_t faults = SEAM_CAP_MAY_ABORT | SEAM_CAP_MAY_SKIP; /* of one are faults of both */
    acc->caps = (acc->caps & other->caps) | ((acc->caps | other->caps) & faults);
    if (other->best < acc->best)
        acc->best = other->best;
}
