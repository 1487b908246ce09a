/* wrap_limit.c - the wrapper `limit`: an engine with any ceiling, for instance one of 104,000 ops.
 *
 * Relies on the library to refuse what is over the limits that the top layer reports. Keeps true: a
 * limit is only ever lowered; range deletes are counted here, on every engine alike, and cost what
 * counting costs. */
#include <seam/backend.h>

#include <string.h>

enum { SET_OPS, SET_BYTES, SET_VALUE, SET_KEY, SET_TICKETS, SET_RANGE_KEYS, SETTINGS };

static const struct seam_tuning limit_tunings[] = {
    {"ops", SEAM_TUNE_COUNT, "0", "most ops of one commit; 0: as below", 0, UINT64_MAX, NULL},
    {"bytes", SEAM_TUNE_SIZE, "0", "most key and value bytes of one commit", 0, UINT64_MAX, NULL},
    {"value", SEAM_TUNE_SIZE, "0", "longest value", 0, UINT64_MAX, NULL},
    {"key", SEAM_TUNE_SIZE, "0", "longest key", 0, UINT64_MAX, NULL},
    {"tickets", SEAM_TUNE_COUNT, "0", "most tickets outstanding", 0, UINT64_MAX, NULL},
    {"range_keys", SEAM_TUNE_COUNT, "0", "most keys that the range deletes of one commit cover", 0,
     UINT64_MAX, NULL},
    {NULL, SEAM_TUNE_FLAG, NULL, NULL, 0, 0, NULL},
};

struct limit {
    struct seam_engine base; /* first */
    const struct seam_platform *os;
    uint64_t max[SETTINGS]; /* 0: as below */
};

static const char *limit_version(void)
{
    return seam_version();
}

static int limit_open(const struct seam_open_args *args, struct seam_engine **ret,
                      struct seam_err *err)
{
    struct limit *l = args->os->alloc(args->os->ctx, sizeof *l);
    if (!l)
        return seam_fail(err, SEAM_E_NOMEM, "out of memory for the wrapper limit");
    memset(l, 0, sizeof *l);
    l->os = args->os;
    memcpy(l->max, args->settings, sizeof l->max);
    *ret = &l->base;
    return SEAM_OK;
}

static int limit_close(struct seam_engine *e, struct seam_err *err)
{
    struct limit *l = (struct limit *)e;
    int rc = seam_layer_close(e->below, err);
    l->os->free(l->os->ctx, l);
    return rc;
}

static void lower(uint64_t *field, uint64_t max)
{
    if (max > 0 && max < *field)
        *field = max;
}

static void limit_limits(const struct seam_engine *e, struct seam_limits *ret)
{
    const struct limit *l = (const struct limit *)e;
    seam_layer_limits(e->below, ret);
    lower(&ret->ops, l->max[SET_OPS]);
    lower(&ret->bytes, l->max[SET_BYTES]);
    lower(&ret->value, l->max[SET_VALUE]);
    lower(&ret->key, l->max[SET_KEY]);
    lower(&ret->tickets, l->max[SET_TICKETS]);
    lower(&ret->range_keys, l->max[SET_RANGE_KEYS]);
    if (l->max[SET_RANGE_KEYS] > 0)
        ret->caps &= ~(uint32_t)SEAM_CAP_LAZY_RANGE;
}

/* Adds the keys in [op->key, op->head) to *count, but stops above max. */
static int count_range(struct seam_engine *e, const struct seam_op *op, uint64_t max,
                       uint64_t *count, struct seam_err *err)
{
    void *cursor = NULL;
    struct seam_slice none = {NULL, 0}, key;
    int rc = seam_layer_cursor_open(e->below, NULL, op->key, op->head, &cursor, err);
    if (rc != SEAM_OK)
        return rc;
    enum seam_move how = SEAM_FIRST;
    while (*count <= max) {
        rc = seam_layer_cursor_move(e->below, cursor, how, none, &key, err);
        if (rc != SEAM_OK)
            break;
        how = SEAM_NEXT;
        (*count)++;
    }
    seam_layer_cursor_close(e->below, cursor);
    return rc == SEAM_NOTFOUND ? SEAM_OK : rc;
}

static int limit_prepare(struct seam_engine *e, struct seam_commit *c, uint64_t deadline_ns,
                         struct seam_err *err)
{
    const struct limit *l = (const struct limit *)e;
    uint64_t max = l->max[SET_RANGE_KEYS], count = 0;
    for (size_t i = 0; max > 0 && i < c->n; i++) {
        if (c->ops[i].kind != SEAM_DELETE_RANGE)
            continue;
        int rc = count_range(e, &c->ops[i], max, &count, err);
        if (rc != SEAM_OK)
            return rc;
        if (count > max)
            return seam_fail_limit(err, SEAM_E_TOO_LARGE, "range_keys", max, count, i);
    }
    int rc = seam_layer_prepare(e->below, c, deadline_ns, err);
    if (rc == SEAM_OK && count > c->need.range_keys)
        c->need.range_keys = count; /* the library keeps the headroom, by what is told here */
    return rc;
}

const struct seam_backend seam_wrapper_limit = {
    .abi = SEAM_BACKEND_ABI,
    .flags = SEAM_BACKEND_WRAPPER,
    .name = "limit",
    .summary = "wrapper: lowers the limits of the engine below it",
    .tunings = limit_tunings,
    .version = limit_version,
    .open = limit_open,
    .close = limit_close,
    .limits = limit_limits,
    .prepare = limit_prepare,
};
