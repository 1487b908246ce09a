/* test_wrappers.c - strict, metrics and limit over a toy engine whose answers the test scripts, so
 * that an engine and a caller can be made to break each rule. */
#include <seam/backend.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

extern const struct seam_backend seam_wrapper_strict, seam_wrapper_metrics, seam_wrapper_limit;

/* ---- the toy ----------------------------------------------------------------------------- */

struct toy {
    struct seam_engine base;   /* first */
    char bytes[32];            /* lent out by every read */
    const char *const *script; /* the keys that moves give, one after the other; NULL: none left */
    int rc;                    /* answered by reads and commits */
    enum seam_ack given;
    int snaps, pins, cursors, tickets, commits, aborts; /* open, or calls */
    uint64_t keys; /* a cursor without a script gives so many */
    uint64_t at;
    bool gives_null; /* instead of snapshots and cursors */
};

static int toy_close(struct seam_engine *e, struct seam_err *err)
{
    (void)e, (void)err;
    return SEAM_OK;
}

static void toy_limits(const struct seam_engine *e, struct seam_limits *ret)
{
    (void)e;
    *ret =
        (struct seam_limits){511,           1 << 20, 1000, 1 << 24,
                             UINT64_MAX,    1024,    1024, SEAM_CAP_LAZY_RANGE | SEAM_CAP_RESERVES,
                             SEAM_ACK_POWER};
}

static int toy_prepare(struct seam_engine *e, struct seam_commit *c, uint64_t deadline_ns,
                       struct seam_err *err)
{
    struct toy *t = (struct toy *)e;
    (void)deadline_ns;
    if (t->rc != SEAM_OK)
        return seam_fail(err, t->rc, "toy");
    c->need.priv = t;
    t->tickets++;
    return SEAM_OK;
}

static void toy_abort(struct seam_engine *e, struct seam_commit *c)
{
    struct toy *t = (struct toy *)e;
    assert_ptr_equal(c->need.priv, t);
    t->tickets--;
    t->aborts++;
}

static int toy_commit(struct seam_engine *e, struct seam_commit *c, struct seam_acked *ret,
                      struct seam_err *err)
{
    struct toy *t = (struct toy *)e;
    assert_ptr_equal(c->need.priv, t);
    t->tickets--;
    t->commits++;
    if (t->rc != SEAM_OK)
        return seam_fail(err, t->rc, "toy");
    c->ack = SEAM_ACK_NONE; /* a layer may ask for less below it */
    ret->given = t->given;
    return SEAM_OK;
}

static int toy_sync(struct seam_engine *e, enum seam_ack level, struct seam_err *err)
{
    (void)e, (void)level, (void)err;
    return SEAM_OK;
}

static int toy_snap_open(struct seam_engine *e, void **ret_snap, struct seam_err *err)
{
    (void)err;
    if (((struct toy *)e)->gives_null)
        return SEAM_OK;
    ((struct toy *)e)->snaps++;
    *ret_snap = e;
    return SEAM_OK;
}

static void toy_snap_close(struct seam_engine *e, void *snap)
{
    assert_ptr_equal(snap, e);
    ((struct toy *)e)->snaps--;
}

static int toy_get(struct seam_engine *e, void *snap, struct seam_slice key, struct seam_pin *ret,
                   struct seam_err *err)
{
    struct toy *t = (struct toy *)e;
    assert_true(!snap || snap == e);
    (void)key;
    if (t->rc < 0)
        return seam_fail(err, t->rc, "toy");
    if (t->rc == SEAM_NOTFOUND)
        return SEAM_NOTFOUND;
    ret->value = seam_bytes(t->bytes, strlen(t->bytes));
    ret->own[0] = t;
    t->pins++;
    return SEAM_OK;
}

static int toy_near(struct seam_engine *e, void *snap, struct seam_slice lower,
                    struct seam_slice upper, enum seam_move how, struct seam_slice at,
                    struct seam_pin *ret, struct seam_err *err)
{
    struct toy *t = (struct toy *)e;
    (void)lower, (void)upper, (void)how, (void)at;
    int rc = toy_get(e, snap, at, ret, err);
    if (rc == SEAM_OK)
        ret->key = seam_bytes(t->script[0], strlen(t->script[0]));
    return rc;
}

static void toy_unpin(struct seam_engine *e, struct seam_pin *pin)
{
    assert_ptr_equal(pin->own[0], e);
    ((struct toy *)e)->pins--;
}

static int toy_cursor_open(struct seam_engine *e, void *snap, struct seam_slice lower,
                           struct seam_slice upper, void **ret_cursor, struct seam_err *err)
{
    struct toy *t = (struct toy *)e;
    (void)snap, (void)lower, (void)upper, (void)err;
    if (t->gives_null)
        return SEAM_OK;
    t->cursors++;
    t->at = 0;
    *ret_cursor = t;
    return SEAM_OK;
}

static int toy_cursor_move(struct seam_engine *e, void *cursor, enum seam_move how,
                           struct seam_slice at, struct seam_slice *ret_key, struct seam_err *err)
{
    struct toy *t = cursor;
    (void)e, (void)how, (void)at;
    if (t->rc < 0)
        return seam_fail(err, t->rc, "toy");
    if (!t->script) {
        if (t->at++ >= t->keys)
            return SEAM_NOTFOUND;
        *ret_key = seam_bytes("k", 1);
        return SEAM_OK;
    }
    const char *key = *t->script;
    if (!key)
        return SEAM_NOTFOUND;
    t->script++;
    (void)snprintf(t->bytes, sizeof t->bytes, "%s", key);
    *ret_key = seam_bytes(t->bytes, strlen(t->bytes));
    return SEAM_OK;
}

static int toy_cursor_value(struct seam_engine *e, void *cursor, struct seam_slice *ret,
                            struct seam_err *err)
{
    struct toy *t = cursor;
    (void)e;
    if (t->rc < 0)
        return seam_fail(err, t->rc, "toy");
    *ret = seam_bytes("value", 5);
    return SEAM_OK;
}

static void toy_cursor_close(struct seam_engine *e, void *cursor)
{
    (void)e;
    ((struct toy *)cursor)->cursors--;
}

static size_t toy_describe(struct seam_engine *e, char *buf, size_t cap)
{
    (void)e;
    return (size_t)snprintf(buf, cap, "toy: fine\n");
}

static const struct seam_backend toy_table = {
    .abi = SEAM_BACKEND_ABI,
    .name = "toy",
    .close = toy_close,
    .limits = toy_limits,
    .prepare = toy_prepare,
    .abort = toy_abort,
    .commit = toy_commit,
    .sync = toy_sync,
    .snap_open = toy_snap_open,
    .snap_close = toy_snap_close,
    .get = toy_get,
    .near = toy_near,
    .unpin = toy_unpin,
    .cursor_open = toy_cursor_open,
    .cursor_move = toy_cursor_move,
    .cursor_value = toy_cursor_value,
    .cursor_close = toy_cursor_close,
    .describe = toy_describe,
};

static struct seam_engine *wrap(struct toy *t, const struct seam_backend *be,
                                const uint64_t *settings)
{
    struct seam_open_args args;
    struct seam_engine *e = NULL;
    memset(t, 0, sizeof *t);
    t->base.be = &toy_table;
    t->base.os = seam_platform_system();
    t->given = SEAM_ACK_POWER;
    memset(&args, 0, sizeof args);
    args.os = seam_platform_system();
    args.dir = -1;
    args.memory = 1 << 20;
    args.settings = settings;
    args.below = &t->base;
    assert_int_equal(be->open(&args, &e, NULL), SEAM_OK);
    e->be = be;
    e->below = &t->base;
    e->os = t->base.os;
    return e;
}

static struct seam_slice str(const char *text)
{
    return seam_bytes(text, strlen(text));
}

static const struct seam_slice none = {NULL, 0};

/* What the caller may not look at any more: filled, unless it was freed under a sanitizer. */
static void assert_poisoned(const void *ptr, size_t len)
{
#ifdef SEAM_SANITIZED
    (void)ptr, (void)len;
#else
    for (size_t i = 0; i < len; i++)
        assert_int_equal(((const uint8_t *)ptr)[i], 0xdd);
#endif
}

/* ---- strict ------------------------------------------------------------------------------ */

static void strict_copies_and_poisons(void **state)
{
    (void)state;
    struct toy t;
    struct seam_engine *e = wrap(&t, &seam_wrapper_strict, NULL);
    static const char *const script[] = {"a", "b", NULL};
    struct seam_pin pin;
    struct seam_slice key, second, value, again;
    void *cursor = NULL;
    memset(&pin, 0, sizeof pin);
    (void)snprintf(t.bytes, sizeof t.bytes, "lent");
    assert_int_equal(seam_layer_get(e, NULL, str("k"), &pin, NULL), SEAM_OK);
    assert_int_equal(t.pins, 0); /* given back at once */
    assert_memory_equal(pin.value.ptr, "lent", 4);
    assert_ptr_not_equal(pin.value.ptr, t.bytes);
    seam_layer_unpin(e, &pin);
    assert_poisoned(pin.value.ptr, 4);
    t.script = script;
    assert_int_equal(seam_layer_cursor_open(e, NULL, none, none, &cursor, NULL), SEAM_OK);
    assert_int_equal(seam_layer_cursor_move(e, cursor, SEAM_FIRST, none, &key, NULL), SEAM_OK);
    assert_int_equal(seam_layer_cursor_value(e, cursor, &value, NULL), SEAM_OK);
    assert_int_equal(seam_layer_cursor_value(e, cursor, &again, NULL), SEAM_OK);
    assert_ptr_equal(value.ptr, again.ptr);
    assert_memory_equal(key.ptr, "a", 1);
    assert_int_equal(seam_layer_cursor_move(e, cursor, SEAM_NEXT, none, &second, NULL), SEAM_OK);
    assert_poisoned(key.ptr, 1);
    assert_poisoned(value.ptr, 5);
    assert_memory_equal(second.ptr, "b", 1);
    assert_int_equal(seam_layer_cursor_move(e, cursor, SEAM_NEXT, none, &key, NULL), SEAM_NOTFOUND);
    assert_poisoned(second.ptr, 1);
    assert_int_equal(seam_layer_cursor_value(e, cursor, &value, NULL), SEAM_E_MISUSE);
    assert_int_equal(seam_layer_cursor_move(e, cursor, SEAM_NEXT, none, &key, NULL), SEAM_E_MISUSE);
    seam_layer_cursor_close(e, cursor);
    assert_int_equal(t.cursors, 0);
    assert_int_equal(seam_layer_close(e, NULL), SEAM_OK);
}

/* One move (or two) of a cursor over [lower, upper) whose engine answers the script. */
static int scripted(const char *first, const char *second, enum seam_move how, const char *at)
{
    struct toy t;
    struct seam_engine *e = wrap(&t, &seam_wrapper_strict, NULL);
    const char *script[] = {first, second, NULL};
    struct seam_slice key;
    void *cursor = NULL;
    struct seam_err err;
    t.script = script;
    assert_int_equal(seam_layer_cursor_open(e, NULL, str("d"), str("m"), &cursor, NULL), SEAM_OK);
    int rc = seam_layer_cursor_move(e, cursor, second ? SEAM_FIRST : how, str(at), &key, &err);
    if (second && rc == SEAM_OK)
        rc = seam_layer_cursor_move(e, cursor, how, str(at), &key, &err);
    seam_layer_cursor_close(e, cursor);
    assert_int_equal(seam_layer_close(e, NULL), SEAM_OK);
    return rc;
}

static void strict_checks_keys(void **state)
{
    (void)state;
    assert_int_equal(scripted("d", NULL, SEAM_FIRST, ""), SEAM_OK);
    assert_int_equal(scripted("c", NULL, SEAM_FIRST, ""), SEAM_E_CORRUPT);
    assert_int_equal(scripted("m", NULL, SEAM_LAST, ""), SEAM_E_CORRUPT);
    assert_int_equal(scripted("", NULL, SEAM_FIRST, ""), SEAM_E_CORRUPT);
    assert_int_equal(scripted("f", NULL, SEAM_GE, "f"), SEAM_OK);
    assert_int_equal(scripted("e", NULL, SEAM_GE, "f"), SEAM_E_CORRUPT);
    assert_int_equal(scripted("f", NULL, SEAM_LE, "f"), SEAM_OK);
    assert_int_equal(scripted("g", NULL, SEAM_LE, "f"), SEAM_E_CORRUPT);
    assert_int_equal(scripted("e", "f", SEAM_NEXT, ""), SEAM_OK);
    assert_int_equal(scripted("e", "e", SEAM_NEXT, ""), SEAM_E_CORRUPT);
    assert_int_equal(scripted("f", "e", SEAM_NEXT, ""), SEAM_E_CORRUPT);
    assert_int_equal(scripted("f", "e", SEAM_PREV, ""), SEAM_OK);
    assert_int_equal(scripted("f", "f", SEAM_PREV, ""), SEAM_E_CORRUPT);
    assert_int_equal(scripted("e", "f", SEAM_PREV, ""), SEAM_E_CORRUPT);
}

static void strict_checks_near(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        enum seam_move how;
        int rc;
    } cases[] = {{"f", SEAM_LE, SEAM_OK},        {"g", SEAM_LE, SEAM_E_CORRUPT},
                 {"f", SEAM_GE, SEAM_OK},        {"e", SEAM_GE, SEAM_E_CORRUPT},
                 {"a", SEAM_LE, SEAM_E_CORRUPT}, {"z", SEAM_GE, SEAM_E_CORRUPT}};
    for (size_t i = 0; i < 6; i++) {
        struct toy t;
        struct seam_engine *e = wrap(&t, &seam_wrapper_strict, NULL);
        struct seam_pin pin;
        t.script = &cases[i].key;
        memset(&pin, 0, sizeof pin);
        int rc = seam_layer_near(e, NULL, str("d"), str("m"), cases[i].how, str("f"), &pin, NULL);
        assert_int_equal(rc, cases[i].rc);
        if (rc == SEAM_OK)
            seam_layer_unpin(e, &pin);
        assert_int_equal(t.pins, 0);
        assert_int_equal(seam_layer_close(e, NULL), SEAM_OK);
    }
}

/* The engine scribbles over the key it lent. */
static void strict_sees_lent_bytes_change(void **state)
{
    (void)state;
    struct toy t;
    struct seam_engine *e = wrap(&t, &seam_wrapper_strict, NULL);
    static const char *const script[] = {"a", "b", NULL};
    struct seam_slice key, value;
    void *cursor = NULL;
    t.script = script;
    assert_int_equal(seam_layer_cursor_open(e, NULL, none, none, &cursor, NULL), SEAM_OK);
    assert_int_equal(seam_layer_cursor_move(e, cursor, SEAM_FIRST, none, &key, NULL), SEAM_OK);
    t.bytes[0] = 'x';
    assert_memory_equal(key.ptr, "a", 1);
    assert_int_equal(seam_layer_cursor_value(e, cursor, &value, NULL), SEAM_E_CORRUPT);
    seam_layer_cursor_close(e, cursor);
    assert_int_equal(seam_layer_close(e, NULL), SEAM_OK);
}

static void strict_watches_snapshots(void **state)
{
    (void)state;
    struct toy t;
    struct seam_engine *e = wrap(&t, &seam_wrapper_strict, NULL);
    struct seam_pin pin;
    struct seam_err err;
    void *snap = NULL, *cursor = NULL;
    memset(&pin, 0, sizeof pin);
    assert_int_equal(seam_layer_snap_open(e, &snap, NULL), SEAM_OK);
    assert_int_equal(seam_layer_cursor_open(e, snap, none, none, &cursor, NULL), SEAM_OK);
    assert_int_equal(seam_layer_get(e, snap, str("k"), &pin, NULL), SEAM_OK);
    seam_layer_unpin(e, &pin);
    seam_layer_cursor_close(e, cursor);
    seam_layer_snap_close(e, snap);
    assert_int_equal(t.snaps, 0);
    assert_int_equal(seam_layer_snap_open(e, &snap, NULL), SEAM_OK);
    assert_int_equal(seam_layer_cursor_open(e, snap, none, none, &cursor, NULL), SEAM_OK);
    seam_layer_snap_close(e, snap);
    assert_int_equal(t.snaps, 1); /* kept for the cursor: found out, not crashed */
    assert_int_equal(seam_layer_get(e, NULL, str("k"), &pin, &err), SEAM_E_MISUSE);
    assert_non_null(strstr(err.text, "snapshot"));
    seam_layer_cursor_close(e, cursor);
    assert_int_equal(t.snaps, 0);
    assert_int_equal(seam_layer_close(e, NULL), SEAM_E_MISUSE);
}

static void strict_watches_ops(void **state)
{
    (void)state;
    struct toy t;
    struct seam_engine *e = wrap(&t, &seam_wrapper_strict, NULL);
    char key[] = "key", value[] = "value";
    struct seam_op op = {SEAM_PUT, seam_bytes(key, 3), seam_bytes(value, 5), {NULL, 0}};
    struct seam_commit c;
    struct seam_acked acked = {SEAM_ACK_NONE, 0, -1, 0, 0};
    struct seam_err err;
    memset(&c, 0, sizeof c);
    c.ops = &op;
    c.n = 1;
    c.bytes = 8;
    c.ack = SEAM_ACK_OS;
    assert_int_equal(seam_layer_prepare(e, &c, 0, &err), SEAM_OK);
    assert_int_equal(seam_layer_commit(e, &c, &acked, &err), SEAM_OK);
    assert_int_equal(acked.given, SEAM_ACK_POWER);
    assert_int_equal(seam_layer_prepare(e, &c, 0, &err), SEAM_OK);
    seam_layer_abort(e, &c);
    assert_int_equal(seam_layer_prepare(e, &c, 0, &err), SEAM_OK);
    value[4] = 'x';
    assert_int_equal(seam_layer_commit(e, &c, &acked, &err), SEAM_E_MISUSE);
    assert_int_equal(t.commits, 1); /* not handed down, but given back */
    assert_int_equal(t.aborts, 2);
    assert_int_equal(t.tickets, 0);
    t.given = SEAM_ACK_PROCESS; /* less than asked */
    c.ack = SEAM_ACK_OS;
    assert_int_equal(seam_layer_prepare(e, &c, 0, &err), SEAM_OK);
    assert_int_equal(seam_layer_commit(e, &c, &acked, &err), SEAM_E_UNKNOWN);
    assert_int_equal(seam_layer_prepare(e, &c, 0, &err), SEAM_OK);
    t.rc = SEAM_E_IO; /* no answer of a commit */
    assert_int_equal(seam_layer_commit(e, &c, &acked, &err), SEAM_E_UNKNOWN);
    t.rc = SEAM_OK;
    assert_int_equal(seam_layer_prepare(e, &c, 0, &err), SEAM_OK);
    t.rc = SEAM_E_POISONED; /* refused by the engine: not handed over, passed on as it is */
    assert_int_equal(seam_layer_commit(e, &c, &acked, &err), SEAM_E_POISONED);
    assert_int_equal(seam_layer_prepare(e, &c, 0, &err), SEAM_E_POISONED);
    assert_int_equal(t.tickets, 0);
    assert_int_equal(seam_layer_close(e, NULL), SEAM_OK);
}

/* A snapshot or cursor that is NULL is not taken for "now" or for one: it is an error, with strict
 * and without. */
static void null_handles_are_found(void **state)
{
    (void)state;
    struct toy t;
    struct seam_engine *strict = wrap(&t, &seam_wrapper_strict, NULL);
    struct seam_engine *both[] = {&t.base, strict};
    t.gives_null = true;
    for (size_t i = 0; i < 2; i++) {
        struct seam_err err;
        void *given = &t;
        assert_int_equal(seam_layer_snap_open(both[i], &given, &err), SEAM_E_IO);
        assert_non_null(strstr(err.text, "'toy' said done, but gave no snapshot"));
        assert_int_equal(seam_layer_cursor_open(both[i], NULL, none, none, &given, &err),
                         SEAM_E_IO);
        assert_non_null(strstr(err.text, "gave no cursor"));
        assert_ptr_equal(given, &t);
    }
    assert_int_equal(seam_layer_close(strict, NULL), SEAM_OK);
}

/* More copies than are kept. */
static void strict_forgets_the_oldest(void **state)
{
    (void)state;
    struct toy t;
    struct seam_engine *e = wrap(&t, &seam_wrapper_strict, NULL);
    (void)snprintf(t.bytes, sizeof t.bytes, "lent");
    for (int i = 0; i < 1000; i++) {
        struct seam_pin pin;
        memset(&pin, 0, sizeof pin);
        assert_int_equal(seam_layer_get(e, NULL, str("k"), &pin, NULL), SEAM_OK);
        seam_layer_unpin(e, &pin);
    }
    t.rc = SEAM_NOTFOUND;
    struct seam_pin pin;
    assert_int_equal(seam_layer_get(e, NULL, str("k"), &pin, NULL), SEAM_NOTFOUND);
    assert_int_equal(seam_layer_close(e, NULL), SEAM_OK);
}

/* ---- limit ------------------------------------------------------------------------------- */

static void limit_only_lowers(void **state)
{
    (void)state;
    struct toy t;
    static const uint64_t settings[] = {104, 0, 5 << 20, 100, 10, 0};
    struct seam_engine *e = wrap(&t, &seam_wrapper_limit, settings);
    struct seam_limits l;
    seam_layer_limits(e, &l);
    assert_int_equal(l.ops, 104);
    assert_int_equal(l.bytes, 1 << 24);
    assert_int_equal(l.value, 1 << 20); /* the engine's own is lower */
    assert_int_equal(l.key, 100);
    assert_int_equal(l.tickets, 10);
    assert_true(l.range_keys == UINT64_MAX);
    assert_true(l.caps & SEAM_CAP_LAZY_RANGE);
    assert_int_equal(seam_layer_close(e, NULL), SEAM_OK);
}

static void limit_counts_ranges(void **state)
{
    (void)state;
    struct toy t;
    static const uint64_t settings[] = {0, 0, 0, 0, 0, 10};
    struct seam_engine *e = wrap(&t, &seam_wrapper_limit, settings);
    struct seam_limits l;
    struct seam_op ops[] = {{SEAM_PUT, str("a"), {NULL, 0}, {NULL, 0}},
                            {SEAM_DELETE_RANGE, str("a"), str("b"), {NULL, 0}},
                            {SEAM_DELETE_RANGE, str("c"), {NULL, 0}, {NULL, 0}}};
    struct seam_commit c;
    struct seam_err err;
    memset(&c, 0, sizeof c);
    c.ops = ops;
    c.n = 3;
    seam_layer_limits(e, &l);
    assert_int_equal(l.range_keys, 10);
    assert_false(l.caps & SEAM_CAP_LAZY_RANGE);
    t.keys = 5; /* each of the two ranges covers so many */
    assert_int_equal(seam_layer_prepare(e, &c, 0, &err), SEAM_OK);
    seam_layer_abort(e, &c);
    t.keys = 6;
    assert_int_equal(seam_layer_prepare(e, &c, 0, &err), SEAM_E_TOO_LARGE);
    assert_string_equal(err.limit, "range_keys");
    assert_int_equal(err.max, 10);
    assert_int_equal(err.got, 11);
    assert_int_equal(err.op, 2);
    t.rc = SEAM_E_CORRUPT;
    assert_int_equal(seam_layer_prepare(e, &c, 0, &err), SEAM_E_CORRUPT);
    assert_int_equal(t.tickets, 0);
    assert_int_equal(t.cursors, 0);
    assert_int_equal(seam_layer_close(e, NULL), SEAM_OK);
}

/* ---- metrics ----------------------------------------------------------------------------- */

static void metrics_count(void **state)
{
    (void)state;
    struct toy t;
    struct seam_engine *e = wrap(&t, &seam_wrapper_metrics, NULL);
    struct seam_op op = {SEAM_PUT, str("key"), str("value"), {NULL, 0}};
    struct seam_commit c;
    struct seam_acked acked = {SEAM_ACK_NONE, 0, -1, 0, 0};
    struct seam_pin pin;
    struct seam_stats stats;
    memset(&c, 0, sizeof c);
    memset(&pin, 0, sizeof pin);
    memset(&stats, 0xff, sizeof stats); /* -1 everywhere */
    c.ops = &op;
    c.n = 1;
    c.bytes = 8;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(seam_layer_prepare(e, &c, 0, NULL), SEAM_OK);
        t.rc = i == 2 ? SEAM_E_UNKNOWN : SEAM_OK;
        (void)seam_layer_commit(e, &c, &acked, NULL);
    }
    t.rc = SEAM_NOTFOUND;
    assert_int_equal(seam_layer_get(e, NULL, str("k"), &pin, NULL), SEAM_NOTFOUND);
    assert_int_equal(seam_layer_stats(e, &stats, NULL), SEAM_OK);
    assert_int_equal(stats.commits, 2);
    assert_int_equal(stats.ops, 2);
    assert_int_equal(stats.user_bytes, 16);
    assert_int_equal(stats.flushes, -1);
    char text[2048], small[40];
    size_t len = seam_layer_describe(e, text, sizeof text);
    assert_int_equal(len, strlen(text));
    assert_non_null(strstr(text, "metrics commit: calls=3 errors=1 "));
    assert_non_null(strstr(text, "metrics get: calls=1 errors=0 "));
    assert_non_null(strstr(text, "toy: fine\n"));
    assert_null(strstr(text, "cursor"));
    for (size_t cap = 0; cap <= sizeof small; cap++) {
        memset(small, 'z', sizeof small);
        assert_int_equal(seam_layer_describe(e, small, cap), len);
        if (cap > 0) {
            assert_int_equal(strlen(small), cap - 1);
            assert_memory_equal(small, text, cap - 1);
        }
    }
    assert_int_equal(seam_layer_close(e, NULL), SEAM_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strict_copies_and_poisons),
        cmocka_unit_test(strict_checks_keys),
        cmocka_unit_test(strict_checks_near),
        cmocka_unit_test(strict_sees_lent_bytes_change),
        cmocka_unit_test(strict_watches_snapshots),
        cmocka_unit_test(strict_watches_ops),
        cmocka_unit_test(null_handles_are_found),
        cmocka_unit_test(strict_forgets_the_oldest),
        cmocka_unit_test(limit_only_lowers),
        cmocka_unit_test(limit_counts_ranges),
        cmocka_unit_test(metrics_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
