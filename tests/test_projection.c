/* test_projection.c - projections: tables, cursors, batches, and what may be applied.
 *
 * argv[1] names the journal's engine, argv[2] the projection's, or "same" for one db. */
#include "projection_support.h"

static const char *journal_engine, *table_engine;

/* ---- tables ------------------------------------------------------------------------------ */

static void tables(void **state)
{
    (void)state;
    struct pair p;
    struct seam_position at;
    struct seam_view *view;
    struct seam_err err;
    pair_open(&p, journal_engine, table_engine, "");
    struct seam_projection_options o = pair_options(&p, project, NULL);
    struct seam_projection *t = table_open(&p, "t", &o), *u = table_open(&p, "u", &o);
    static const char *const events[] = {"+a=1",         "+b=2", "+=empty", "+p=3", "+p\xff=4",
                                         "+p\xff\xff=5", "+q=6", "nothing", "-b",   "+c="};
    for (size_t i = 0; i < 10; i++)
        pair_append(&p, text(events[i]));
    seam_projection_position(t, &at);
    assert_int_equal(at.sequence, 0);
    assert_int_equal(table_catch_up(t, 3), 3);
    ok(seam_view_open(t, &view, &err), err);
    assert_int_equal(table_catch_up(t, 0), 7);
    assert_int_equal(table_catch_up(t, 0), 0);
    seam_projection_position(t, &at);
    assert_int_equal(at.sequence, 10);
    seam_view_position(view, &at);
    assert_int_equal(at.sequence, 3);
    table_expect(t, view, "b", "2");
    table_expect(t, view, "q", NULL);
    table_expect_near(t, view, true, "", "z", "b");
    table_expect(t, NULL, "b", NULL);
    table_expect(t, NULL, "", "empty");
    table_expect(t, NULL, "c", "");
    table_expect(t, NULL, "p\xff", "4");
    table_expect(u, NULL, "a", NULL);
    table_expect_near(t, NULL, true, "p", "p\xff\xff\xff", "p\xff\xff");
    table_expect_near(t, NULL, true, "p\xff", "p", NULL);
    table_expect_near(t, NULL, true, "p\xff", "q", "p\xff\xff");
    table_expect_near(t, NULL, true, "", "", "");
    table_expect_near(t, NULL, true, "a", "zzz", "a");
    table_expect_near(t, NULL, false, "", "b", "c");
    table_expect_near(t, NULL, false, "p", "p\xff\xff\xff", NULL);
    table_expect_near(t, NULL, false, "", "r", NULL);
    assert_int_equal(seam_projection_close(t, &err), SEAM_E_BUSY);
    seam_view_close(view);
    /* Ranges stay in the table. */
    assert_int_equal(table_catch_up(u, 0), 10);
    pair_append(&p, text("*b"));
    assert_int_equal(table_catch_up(t, 0), 1);
    assert_int_equal(table_count(t), 2);
    assert_int_equal(table_count(u), 7);
    table_close(t);
    table_close(u);
    pair_close(&p);
}

static void cursors(void **state)
{
    (void)state;
    struct pair p;
    struct seam_err err;
    struct seam_slice key, value, none = {NULL, 0};
    struct seam_projection_cursor *c;
    pair_open(&p, journal_engine, table_engine, "");
    struct seam_projection_options o = pair_options(&p, project, NULL);
    struct seam_projection *before = table_open(&p, "s", &o), *t = table_open(&p, "t", &o);
    static const char *const events[] = {"+a=1", "+b=2", "+c=3", "+d=4"};
    for (size_t i = 0; i < 4; i++)
        pair_append(&p, text(events[i]));
    table_catch_up(before, 0);
    table_catch_up(t, 0);
    ok(seam_projection_cursor_open(t, NULL, text("b"), none, &c, &err), err);
    assert_int_equal(seam_projection_close(t, &err), SEAM_E_BUSY);
    ok(seam_projection_cursor_move(c, SEAM_LAST, none, &key, &err), err);
    assert_int_equal(key.len, 1);
    assert_memory_equal(key.ptr, "d", 1);
    ok(seam_projection_cursor_value(c, &value, &err), err);
    assert_memory_equal(value.ptr, "4", 1);
    assert_int_equal(seam_projection_cursor_move(c, SEAM_NEXT, none, &key, &err), SEAM_NOTFOUND);
    ok(seam_projection_cursor_move(c, SEAM_GE, text("bb"), &key, &err), err);
    assert_memory_equal(key.ptr, "c", 1);
    ok(seam_projection_cursor_move(c, SEAM_PREV, none, &key, &err), err);
    assert_memory_equal(key.ptr, "b", 1);
    assert_int_equal(seam_projection_cursor_move(c, SEAM_PREV, none, &key, &err), SEAM_NOTFOUND);
    ok(seam_projection_cursor_move(c, SEAM_LE, text("cz"), &key, &err), err);
    assert_memory_equal(key.ptr, "c", 1);
    seam_projection_cursor_close(c);
    ok(seam_projection_cursor_open(t, NULL, text("b"), text("d"), &c, &err), err);
    ok(seam_projection_cursor_move(c, SEAM_LAST, none, &key, &err), err);
    assert_memory_equal(key.ptr, "c", 1);
    char longer[700];
    memset(longer, 'a', sizeof(longer));
    ok(seam_projection_cursor_move(c, SEAM_GE, seam_bytes(longer, 700), &key, &err), err);
    assert_memory_equal(key.ptr, "b", 1);
    seam_projection_cursor_close(c);
    table_close(before);
    table_close(t);
    pair_close(&p);
}

/* ---- batches ----------------------------------------------------------------------------- */

static void batches_under(const char *wrap, uint32_t batch)
{
    struct pair p;
    struct seam_err err;
    uint64_t refuse = 150, applied = 0;
    pair_open(&p, journal_engine, table_engine, wrap);
    append_numbers(&p);
    struct seam_projection_options o = pair_options(&p, project_numbers, &refuse);
    o.batch = batch;
    struct seam_projection *t = table_open(&p, "t", &o);
    assert_int_equal(table_catch_up(t, 100), 100);
    check_numbers(t, 100);
    /* Events before a failing one are applied, it is not, and a repeat meets it again. */
    assert_int_equal(seam_projection_catch_up(t, 0, &applied, &err), SEAM_E_INVALID);
    assert_string_equal(err.text, "not this one");
    assert_int_equal(applied, 49);
    check_numbers(t, 149);
    assert_int_equal(seam_projection_catch_up(t, 0, &applied, &err), SEAM_E_INVALID);
    assert_int_equal(applied, 0);
    refuse = 0;
    assert_int_equal(table_catch_up(t, 0), NUMBERS - 149);
    check_numbers(t, NUMBERS);
    table_close(t);
    pair_close(&p);
}

static void batches(void **state)
{
    (void)state;
    batches_under("", 1);
    batches_under("", 7);
    batches_under("", 0);
    batches_under("limit:ops=20+", 0);
    batches_under("limit:bytes=24K+", 0);
}

/* Emits as many puts as the event says. */
static int project_many(void *ctx, const struct seam_event *event, struct seam_emit *out,
                        struct seam_err *err)
{
    (void)ctx;
    int n = *(const uint8_t *)event->data.ptr, rc = SEAM_OK;
    for (int i = 0; i < n && rc == SEAM_OK; i++) {
        uint8_t key = (uint8_t)i;
        struct seam_op op = {.kind = SEAM_PUT, .key = {&key, 1}};
        rc = seam_emit_op(out, &op, err);
    }
    return rc;
}

static void too_large(void **state)
{
    (void)state;
    struct pair p;
    struct seam_err err;
    struct seam_position at;
    uint64_t applied = 0;
    pair_open(&p, journal_engine, table_engine, "limit:ops=20+");
    struct seam_projection_options o = pair_options(&p, project_many, NULL);
    struct seam_projection *t = table_open(&p, "t", &o);
    pair_append(&p, seam_bytes("\x03", 1));
    pair_append(&p, seam_bytes("\x11", 1)); /* 17 and the position: just fits */
    pair_append(&p, seam_bytes("\x05", 1));
    pair_append(&p, seam_bytes("\x12", 1));
    assert_int_equal(seam_projection_catch_up(t, 0, &applied, &err), SEAM_E_TOO_LARGE);
    assert_string_equal(err.limit, "ops");
    assert_non_null(strstr(err.text, "sequence 4"));
    assert_int_equal(applied, 3);
    seam_projection_position(t, &at);
    assert_int_equal(at.sequence, 3);
    assert_int_equal(table_count(t), 17);
    table_close(t);
    pair_close(&p);
}

/* ---- what may be applied ----------------------------------------------------------------- */

static void durable_only(void **state)
{
    (void)state;
    struct pair p;
    struct seam_err err;
    struct seam_slice event = text("+a=1");
    pair_open(&p, journal_engine, table_engine, "");
    struct seam_projection_options o = pair_options(&p, project, NULL);
    struct seam_projection *t = table_open(&p, "t", &o);
    ok(seam_journal_append(p.j, p.stream, &event, 1, SEAM_ACK_NONE, NULL, &err), err);
    bool waits = !p.same && best_ack(p.of_journal.db) == SEAM_ACK_POWER;
    assert_int_equal(table_catch_up(t, 0), waits ? 0 : 1);
    if (waits) {
        ok(seam_journal_sync(p.j, SEAM_ACK_POWER, &err), err);
        assert_int_equal(table_catch_up(t, 0), 1);
    }
    table_expect(t, NULL, "a", "1");
    table_close(t);
    pair_close(&p);
}

/* ---- one event that cannot be applied -------------------------------------------------------- */

/* Data "k", "d", "r": a key that no engine takes, a delete with a value, a range that is reversed. */
static int project_some_bad(void *ctx, const struct seam_event *event, struct seam_emit *out,
                            struct seam_err *err)
{
    static char long_key[70000];
    char key[16];
    (void)ctx;
    (void)snprintf(key, sizeof key, "%llu", (unsigned long long)event->sequence);
    struct seam_op op = {.kind = SEAM_PUT, .key = text(key), .head = event->data};
    switch (*(const char *)event->data.ptr) {
    case 'k':
        memset(long_key, 'k', sizeof long_key);
        op.key = seam_bytes(long_key, sizeof long_key);
        break;
    case 'd':
        op.kind = SEAM_DELETE;
        break;
    case 'r':
        op = (struct seam_op){.kind = SEAM_DELETE_RANGE, .key = text("b"), .head = text("a")};
        break;
    default:
        break;
    }
    return seam_emit_op(out, &op, err);
}

/* Wherever it stands in a batch, the events before it are applied, and the error is its own. */
static void bad_event_stands_alone(void **state)
{
    static const struct {
        const char *data;
        int code;
    } bad[] = {{"k", SEAM_E_TOO_LARGE}, {"d", SEAM_E_INVALID}, {"r", SEAM_E_INVALID}};
    (void)state;
    for (size_t i = 0; i < 3; i++)
        for (uint64_t at = 1; at <= 10; at += at == 1 ? 4 : 5) {
            struct pair p;
            struct seam_err err;
            struct seam_limits limits;
            uint64_t applied = 77;
            pair_open(&p, journal_engine, table_engine, "");
            seam_db_limits(p.db, &limits);
            for (uint64_t k = 1; k <= 10; k++)
                pair_append(&p, text(k == at ? bad[i].data : "good"));
            struct seam_projection_options o = pair_options(&p, project_some_bad, NULL);
            struct seam_projection *t = table_open(&p, "t", &o);
            if (bad[i].code != SEAM_E_TOO_LARGE || limits.key < 70000) {
                assert_int_equal(seam_projection_catch_up(t, 0, &applied, &err), bad[i].code);
                assert_int_equal(applied, at - 1);
                assert_int_equal(table_count(t), at - 1);
                assert_int_equal(seam_projection_catch_up(t, 0, &applied, &err), bad[i].code);
                assert_int_equal(applied, 0);
            }
            table_close(t);
            pair_close(&p);
        }
}

int main(int argc, char **argv)
{
    journal_engine = argc > 1 ? argv[1] : "mem";
    table_engine = argc > 2 ? argv[2] : "same";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_event_stands_alone),
        cmocka_unit_test(tables),    cmocka_unit_test(cursors),      cmocka_unit_test(batches),
        cmocka_unit_test(too_large), cmocka_unit_test(durable_only),
    };
    return cmocka_run_group_tests_name("projection", tests, NULL, NULL);
}
