/* conformance_outcomes.c - DONE, NOT DONE, UNKNOWN: what holds once a device has failed.
 *
 * The failure is made by a wrapper of this file, put on top of the engine under test by
 * options.engines; so what is tested is the library's part, with a real engine below. */
#include "conformance.h"

#include <seam/backend.h>

enum { FAIL_NONE, FAIL_COMMIT_LOST, FAIL_COMMIT_KEPT, FAIL_SYNC };

/* What the next commit or sync of the wrapper does; used by one thread at a time. */
static int doom;

static int doom_open(const struct seam_open_args *args, struct seam_engine **ret,
                     struct seam_err *err)
{
    struct seam_engine *e = args->os->alloc(args->os->ctx, sizeof(*e));

    if (!e)
        return seam_fail(err, SEAM_E_NOMEM, "doom: no memory");
    memset(e, 0, sizeof(*e));
    *ret = e;
    return SEAM_OK;
}

static int doom_close(struct seam_engine *e, struct seam_err *err)
{
    int rc = seam_layer_close(e->below, err);

    seam_platform_system()->free(seam_platform_system()->ctx, e);
    return rc;
}

static int doom_commit(struct seam_engine *e, struct seam_commit *c, struct seam_acked *ret,
                       struct seam_err *err)
{
    int kind = doom;

    doom = FAIL_NONE;
    if (kind == FAIL_COMMIT_LOST) {
        seam_layer_abort(e->below, c);
    } else {
        int rc = seam_layer_commit(e->below, c, ret, err);
        if (rc != SEAM_OK || kind != FAIL_COMMIT_KEPT)
            return rc;
    }
    return seam_fail(err, SEAM_E_UNKNOWN, "doom: the device was made to fail");
}

static int doom_sync(struct seam_engine *e, enum seam_ack level, struct seam_err *err)
{
    if (doom != FAIL_SYNC)
        return seam_layer_sync(e->below, level, err);
    doom = FAIL_NONE;
    return seam_fail(err, SEAM_E_UNKNOWN, "doom: the flush was made to fail");
}

static const char *doom_version(void)
{
    return "1";
}

static const struct seam_backend doom_wrapper = {
    .abi = SEAM_BACKEND_ABI,
    .flags = SEAM_BACKEND_WRAPPER,
    .name = "doom",
    .summary = "fails when told to",
    .version = doom_version,
    .open = doom_open,
    .close = doom_close,
    .commit = doom_commit,
    .sync = doom_sync,
};

static const struct seam_backend *const extra[] = {&doom_wrapper, NULL};

static struct seam_db *open_doomed(const char *dir)
{
    struct seam_options o = {.mode = SEAM_OPEN_CREATE, .engines = extra};

    doom = FAIL_NONE;
    return support_open_with(support_text("doom+%s", support_spec()), dir, &o);
}

static uint64_t put_acked(struct seam_db *db, struct seam_slice key, uint32_t ack)
{
    struct seam_op op = op_put(key, LIT("v"));
    struct seam_acked acked;
    struct seam_err err = {0};

    expect_ok(seam_write(db, &op, 1, ack, &acked, &err), &err);
    return acked.given > SEAM_ACK_NONE && acked.given < SEAM_ACK_POWER;
}

/* Everything that a poisoned handle refuses, and what it still does. */
static void expect_poisoned(struct seam_db *db, struct seam_snap *snap, struct seam_cursor *cursor,
                            const char *keys)
{
    bool reads;
    struct seam_limits limits;
    struct seam_op op = op_put(LIT("never"), LIT("v"));
    struct seam_ticket *ticket = (struct seam_ticket *)(void *)&doom;
    struct seam_snap *now = (struct seam_snap *)(void *)&doom;
    struct seam_cursor *c;
    struct seam_pin pin;
    struct seam_err err = {0};

    seam_db_limits(db, &limits);
    reads = limits.caps & SEAM_CAP_READ_AFTER_POISON;
    assert_true(seam_db_poisoned(db));
    for (int i = 0; i < 3; i++) {
        expect_code(seam_write(db, &op, 1, SEAM_ACK_NONE, NULL, &err), SEAM_E_POISONED, &err);
        assert_int_equal(seam_outcome(err.code), SEAM_NOT_DONE);
    }
    expect_code(seam_prepare(db, &op, 1, SEAM_ACK_NONE, &ticket, &err), SEAM_E_POISONED, &err);
    assert_ptr_equal(ticket, (void *)&doom);
    expect_code(seam_sync(db, SEAM_ACK_NONE, &err), SEAM_E_POISONED, &err);
    expect_code(seam_sync(db, limits.best, &err), SEAM_E_POISONED, &err);
    expect_keys(db, snap, keys);
    expect_ok(seam_cursor_move(cursor, SEAM_FIRST, NONE, NULL, NULL), NULL);
    if (reads) {
        expect_absent(db, NULL, LIT("never"));
        expect_ok(seam_snap_open(db, &now, NULL), NULL);
        seam_snap_close(now);
        return;
    }
    expect_code(seam_get(db, NULL, LIT("a"), &pin, &err), SEAM_E_POISONED, &err);
    expect_code(seam_floor(db, NULL, NONE, LIT("a"), &pin, &err), SEAM_E_POISONED, &err);
    expect_code(seam_cursor_open(db, NULL, NONE, NONE, &c, &err), SEAM_E_POISONED, &err);
    expect_code(seam_snap_open(db, &now, &err), SEAM_E_POISONED, &err);
    assert_ptr_equal(now, (void *)&doom);
}

static void fail_and_check(int kind)
{
    const char *dir = support_dir();
    struct seam_db *db = open_doomed(dir);
    struct seam_op op = op_put(LIT("x"), LIT("v"));
    struct seam_limits limits;
    struct seam_ticket *held[2];
    struct seam_acked acked = {SEAM_ACK_OS, 7, 7, 7, 7};
    struct seam_cursor *cursor;
    struct seam_snap *snap;
    struct seam_err err = {0};
    uint64_t unknown = 0;
    int rc;

    seam_db_limits(db, &limits);
    (void)put_acked(db, LIT("a"), SEAM_ACK_NONE);
    expect_ok(seam_sync(db, limits.best, &err), &err);
    if (limits.best < SEAM_ACK_POWER)
        unknown = put_acked(db, LIT("a"), SEAM_ACK_NONE); /* nothing is ever raised to POWER */
    for (char k = 'b'; k <= 'd'; k++)
        unknown += put_acked(db, seam_bytes(&k, 1), SEAM_ACK_NONE);
    for (int i = 0; i < 2; i++)
        expect_ok(seam_prepare(db, &op, 1, SEAM_ACK_NONE, &held[i], &err), &err);
    expect_ok(seam_snap_open(db, &snap, NULL), NULL);
    expect_ok(seam_cursor_open(db, NULL, NONE, NONE, &cursor, NULL), NULL);
    doom = kind;
    rc = kind == FAIL_SYNC ? seam_sync(db, limits.best, &err)
                           : seam_write(db, &op, 1, SEAM_ACK_NONE, &acked, &err);
    expect_code(rc, SEAM_E_UNKNOWN, &err);
    assert_int_equal(seam_outcome(rc), SEAM_UNKNOWN);
    assert_int_equal(err.code, SEAM_E_UNKNOWN);
    assert_non_null(strstr(err.text, "made to fail"));
    assert_int_equal(acked.window_ms, 7);
    if (limits.best == SEAM_ACK_POWER)
        assert_int_equal(err.unknown_acks, unknown);
    expect_poisoned(db, snap, cursor, "a b c d");
    expect_code(seam_commit(held[0], &acked, &err), SEAM_E_POISONED, &err);
    seam_abort(held[1]);
    seam_cursor_close(cursor);
    seam_snap_close(snap);
    (void)seam_close(db, &err);
    if (support_volatile())
        return;
    db = open_doomed(dir);
    assert_false(seam_db_poisoned(db));
    expect_holds(db, NULL, LIT("a"), LIT("v"));
    expect_absent(db, NULL, LIT("never"));
    if (kind == FAIL_COMMIT_LOST)
        expect_absent(db, NULL, LIT("x"));
    put_ok(db, LIT("again"), LIT("v"));
    support_close(db);
}

static void test_commit_lost(void **state)
{
    (void)state;
    fail_and_check(FAIL_COMMIT_LOST);
}

static void test_commit_kept(void **state)
{
    (void)state;
    fail_and_check(FAIL_COMMIT_KEPT);
}

static void test_sync_fails(void **state)
{
    struct seam_db *db = open_doomed(support_dir());
    struct seam_limits limits;

    (void)state;
    seam_db_limits(db, &limits);
    support_close(db);
    if (limits.best == SEAM_ACK_NONE)
        skip(); /* nothing to raise to */
    fail_and_check(FAIL_SYNC);
}

/* The flush that a window owes is done at close at the latest; if it fails, close says so. */
static void test_owed_flush_fails_at_close(void **state)
{
    struct seam_op op = op_put(LIT("k"), LIT("v"));
    struct seam_db *db = open_doomed(support_dir());
    struct seam_acked acked;
    struct seam_limits limits;
    struct seam_err err = {0};

    (void)state;
    seam_db_limits(db, &limits);
    if (limits.best < SEAM_ACK_OS) {
        support_close(db);
        skip();
    }
    expect_ok(seam_write(db, &op, 1, limits.best | SEAM_ACK_WINDOW(16777215), &acked, &err), &err);
    if (acked.given >= limits.best) {
        support_close(db);
        skip();
    }
    doom = FAIL_SYNC;
    expect_code(seam_close(db, &err), SEAM_E_UNKNOWN, &err);
}

static void test_outcome_of_codes(void **state)
{
    (void)state;
    assert_int_equal(seam_outcome(SEAM_OK), SEAM_DONE);
    assert_int_equal(seam_outcome(SEAM_E_UNKNOWN), SEAM_UNKNOWN);
    for (int code = -20; code < 0; code++)
        if (code != SEAM_E_UNKNOWN)
            assert_int_equal(seam_outcome(code), SEAM_NOT_DONE);
}

int conformance_outcomes(void)
{
    const struct CMUnitTest outcomes[] = {
        cmocka_unit_test(test_commit_lost),
        cmocka_unit_test(test_commit_kept),
        cmocka_unit_test(test_sync_fails),
        cmocka_unit_test(test_owed_flush_fails_at_close),
        cmocka_unit_test(test_outcome_of_codes),
    };
    return cmocka_run_group_tests(outcomes, NULL, NULL);
}
