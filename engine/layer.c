/* layer.c - downward calls: each goes to the first layer at or below e that has the op.
 *
 * Relies on open having checked that the bottom engine has every required op (spec.c), so that
 * each loop ends. Optional ops that nobody has get their defaults here, and what an engine hands out
 * is looked at where a wrong one would be taken for something else. */
#include "core.h"

#include <string.h>

#define AT(e, op)                                                                                 \
    while (!(e)->be->op)                                                                          \
    (e) = (e)->below

#define AT_OPTIONAL(e, op)                                                                        \
    while ((e) && !(e)->be->op)                                                                   \
    (e) = (e)->below

/* NULL stands for "none" wherever a snapshot or cursor is passed on. */
static int check_given(const struct seam_engine *e, const void *given, const char *what,
                       struct seam_err *err)
{
    return given ? SEAM_OK
                 : seam_fail(err, SEAM_E_IO, "'%s' said done, but gave no %s: a defect of it",
                             e->be->name, what);
}

void seam_layer_limits(const struct seam_engine *e, struct seam_limits *ret)
{
    AT(e, limits);
    e->be->limits(e, ret);
}

int seam_layer_close(struct seam_engine *e, struct seam_err *err)
{
    AT(e, close);
    return e->be->close(e, err);
}

int seam_layer_prepare(struct seam_engine *e, struct seam_commit *c, uint64_t deadline_ns,
                       struct seam_err *err)
{
    AT_OPTIONAL(e, prepare);
    return e ? e->be->prepare(e, c, deadline_ns, err) : SEAM_OK;
}

void seam_layer_abort(struct seam_engine *e, struct seam_commit *c)
{
    AT_OPTIONAL(e, abort);
    if (e)
        e->be->abort(e, c);
}

int seam_layer_commit(struct seam_engine *e, struct seam_commit *c, struct seam_acked *ret,
                      struct seam_err *err)
{
    AT(e, commit);
    return e->be->commit(e, c, ret, err);
}

int seam_layer_sync(struct seam_engine *e, enum seam_ack level, struct seam_err *err)
{
    AT(e, sync);
    return e->be->sync(e, level, err);
}

int seam_layer_snap_open(struct seam_engine *e, void **ret, struct seam_err *err)
{
    AT(e, snap_open);
    void *snap = NULL;
    int rc = e->be->snap_open(e, &snap, err);
    if (rc == SEAM_OK)
        rc = check_given(e, snap, "snapshot", err);
    if (rc == SEAM_OK)
        *ret = snap;
    return rc;
}

void seam_layer_snap_close(struct seam_engine *e, void *snap)
{
    AT(e, snap_close);
    e->be->snap_close(e, snap);
}

int seam_layer_get(struct seam_engine *e, void *snap, struct seam_slice key, struct seam_pin *ret,
                   struct seam_err *err)
{
    AT(e, get);
    return e->be->get(e, snap, key, ret, err);
}

static int pin_copy(const struct seam_platform *os, struct seam_slice key, struct seam_slice value,
                    struct seam_pin *ret, struct seam_err *err)
{
    uint8_t *copy = os->alloc(os->ctx, key.len + value.len + 1);
    if (!copy)
        return seam_fail(err, SEAM_E_NOMEM, "no memory for a value of %zu bytes", value.len);
    memcpy(copy, key.ptr, key.len);
    if (value.len)
        memcpy(copy + key.len, value.ptr, value.len);
    ret->key = seam_bytes(copy, key.len);
    ret->value = seam_bytes(copy + key.len, value.len);
    ret->own[0] = copy;
    ret->own[1] = SEAM_PIN_COPY;
    return SEAM_OK;
}

/* A cursor would need the caller's bounds for as long as the pin lives, so the bytes are copied. */
static int near_by_cursor(struct seam_engine *e, void *snap, struct seam_slice lower,
                          struct seam_slice upper, enum seam_move how, struct seam_slice at,
                          struct seam_pin *ret, struct seam_err *err)
{
    void *cursor = NULL;
    struct seam_slice key = {NULL, 0}, value = {NULL, 0};
    int rc = seam_layer_cursor_open(e, snap, lower, upper, &cursor, err);
    if (rc != SEAM_OK)
        return rc;
    rc = seam_layer_cursor_move(e, cursor, how, at, &key, err);
    if (rc == SEAM_OK)
        rc = seam_layer_cursor_value(e, cursor, &value, err);
    if (rc == SEAM_OK)
        rc = pin_copy(e->os, key, value, ret, err);
    seam_layer_cursor_close(e, cursor);
    return rc;
}

int seam_layer_near(struct seam_engine *e, void *snap, struct seam_slice lower,
                    struct seam_slice upper, enum seam_move how, struct seam_slice at,
                    struct seam_pin *ret, struct seam_err *err)
{
    struct seam_engine *top = e;
    AT_OPTIONAL(e, near);
    if (!e)
        return near_by_cursor(top, snap, lower, upper, how, at, ret, err);
    return e->be->near(e, snap, lower, upper, how, at, ret, err);
}

void seam_layer_unpin(struct seam_engine *e, struct seam_pin *pin)
{
    if (pin->own[1] == SEAM_PIN_COPY) {
        e->os->free(e->os->ctx, pin->own[0]);
        return;
    }
    AT(e, unpin);
    e->be->unpin(e, pin);
}

int seam_layer_cursor_open(struct seam_engine *e, void *snap, struct seam_slice lower,
                           struct seam_slice upper, void **ret, struct seam_err *err)
{
    AT(e, cursor_open);
    void *cursor = NULL;
    int rc = e->be->cursor_open(e, snap, lower, upper, &cursor, err);
    if (rc == SEAM_OK)
        rc = check_given(e, cursor, "cursor", err);
    if (rc == SEAM_OK)
        *ret = cursor;
    return rc;
}

int seam_layer_cursor_move(struct seam_engine *e, void *cursor, enum seam_move how,
                           struct seam_slice at, struct seam_slice *ret_key, struct seam_err *err)
{
    AT(e, cursor_move);
    return e->be->cursor_move(e, cursor, how, at, ret_key, err);
}

int seam_layer_cursor_value(struct seam_engine *e, void *cursor, struct seam_slice *ret,
                            struct seam_err *err)
{
    AT(e, cursor_value);
    return e->be->cursor_value(e, cursor, ret, err);
}

void seam_layer_cursor_close(struct seam_engine *e, void *cursor)
{
    AT(e, cursor_close);
    e->be->cursor_close(e, cursor);
}

int seam_layer_stats(struct seam_engine *e, struct seam_stats *ret, struct seam_err *err)
{
    AT_OPTIONAL(e, stats);
    return e ? e->be->stats(e, ret, err) : SEAM_OK;
}

size_t seam_layer_describe(struct seam_engine *e, char *buf, size_t cap)
{
    AT_OPTIONAL(e, describe);
    if (!e) {
        if (cap)
            buf[0] = 0;
        return 0;
    }
    return e->be->describe(e, buf, cap);
}
