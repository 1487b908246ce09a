/* test_rebuild.c - test_rebuild JOURNAL-ENGINE PROJECTION-ENGINE|same [EVENTS]: a new table beside the
 * old. With EVENTS (1000000, say) only the long rebuild is run, with so many.
 *
 * Every commit of the projection's db takes at most 40 ops, so that a table takes many and some events
 * take several. */
#include "rebuild_support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static const char *journal_engine, *table_engine;

enum { EVENTS = 200 };

static struct seam_rebuild_progress step(struct seam_projection *t, uint64_t most)
{
    struct seam_rebuild_options o = {.max_events = most};
    struct seam_rebuild_progress at;
    struct seam_err err;
    ok(seam_projection_rebuild(t, &o, &at, &err), err);
    assert_true(most == 0 || at.applied <= most);
    return at;
}

static void expect_at(struct seam_projection *t, uint64_t sequence)
{
    struct seam_position at;
    seam_projection_position(t, &at);
    assert_int_equal(at.sequence, sequence);
    assert_int_equal(at.parts, 0);
}

static void expect_clean(struct pair *p, struct seam_projection *t)
{
    while (raw_has(p, 't', 'S'))
        table_catch_up(t, 0);
    assert_int_equal(raw_generations(p, 't'), 1);
    assert_false(raw_has(p, 't', 'B'));
}

/* ---- equal to one built in one go ------------------------------------------------------------ */

static void interrupted(void **state)
{
    (void)state;
    struct pair p;
    struct seam_rebuild_progress at = {0};
    unsigned version = 1;
    uint64_t sum = 0;
    pair_open(&p, journal_engine, table_engine, "limit:ops=40+");
    append_plain(&p, EVENTS);
    uint64_t one = fresh_digest(&p, 1), two = fresh_digest(&p, 2);
    assert_true(one != two);
    struct seam_projection *t = version_table(&p, "t", &version, false);
    table_catch_up(t, 0);
    version = 2;
    for (int i = 1; !at.ended; i++) {
        assert_true(table_digest(t, NULL) == one);
        at = step(t, 7);
        sum += at.applied;
        assert_int_equal(at.sequence, sum);
        if (i % 3 != 0)
            continue;
        table_close(t);
        pair_reopen(&p);
        t = version_table(&p, "t", &version, i % 2 == 0);
    }
    assert_int_equal(sum, EVENTS);
    assert_true(table_digest(t, NULL) == two);
    expect_at(t, EVENTS);
    append_plain(&p, 30);
    assert_int_equal(table_catch_up(t, 0), 30);
    expect_clean(&p, t);
    table_close(t);
    pair_reopen(&p);
    t = version_table(&p, "t", &version, false);
    expect_at(t, EVENTS + 30);
    assert_true(table_digest(t, NULL) == fresh_digest(&p, 2));
    table_close(t);
    pair_close(&p);
}

static unsigned long_events = 3000;

/* As many as one likes, in large commits; interrupted twice. */
static void long_one(void **state)
{
    (void)state;
    struct pair p;
    unsigned version = 1;
    uint64_t applied = 0;
    pair_open(&p, journal_engine, table_engine, "");
    p.of_journal.options.memory = p.of_table.options.memory = (uint64_t)2 << 30;
    pair_reopen(&p);
    append_plain(&p, long_events);
    struct seam_projection *t = version_table(&p, "t", &version, false);
    table_catch_up(t, 0);
    version = 2;
    for (int i = 0; i < 2; i++) {
        struct seam_rebuild_progress at = step(t, long_events / 3);
        assert_false(at.ended);
        applied += at.applied;
        table_expect(t, NULL, "n00000001", "v1 of 1");
        table_close(t);
        pair_reopen(&p);
        t = version_table(&p, "t", &version, false);
    }
    struct seam_rebuild_progress at = step(t, 0);
    assert_true(at.ended && at.swept);
    assert_int_equal(applied + at.applied, long_events);
    assert_true(table_digest(t, NULL) == fresh_digest(&p, 2));
    assert_int_equal(raw_generations(&p, 't'), 1);
    table_close(t);
    pair_close(&p);
}

static void views_stay(void **state)
{
    (void)state;
    struct pair p;
    struct seam_view *before, *after;
    struct seam_projection_cursor *c;
    struct seam_slice none = {NULL, 0}, value;
    struct seam_err err;
    unsigned version = 1;
    pair_open(&p, journal_engine, table_engine, "limit:ops=40+");
    append_plain(&p, EVENTS);
    uint64_t one = fresh_digest(&p, 1), two = fresh_digest(&p, 2);
    struct seam_projection *t = version_table(&p, "t", &version, true);
    table_catch_up(t, 0);
    ok(seam_view_open(t, &before, &err), err);
    ok(seam_projection_cursor_open(t, NULL, none, none, &c, &err), err);
    version = 2;
    struct seam_rebuild_progress at = step(t, 0);
    assert_true(at.ended && at.swept);
    assert_int_equal(at.target, EVENTS);
    expect_clean(&p, t);
    assert_true(table_digest(t, before) == one);
    table_expect(t, before, "n00000199", "v1 of 199");
    table_expect(t, NULL, "n00000199", "v2 of 199");
    ok(seam_projection_cursor_move(c, SEAM_GE, text("n00000199"), NULL, &err), err);
    ok(seam_projection_cursor_value(c, &value, &err), err);
    assert_int_equal(((const char *)value.ptr)[1], '1');
    ok(seam_view_open(t, &after, &err), err);
    assert_true(table_digest(t, after) == two);
    seam_projection_cursor_close(c);
    seam_view_close(before);
    seam_view_close(after);
    table_close(t);
    pair_close(&p);
}

/* ---- fed and read meanwhile ------------------------------------------------------------------ */

struct others {
    struct pair *p;
    struct seam_projection *t;
    atomic_bool stop;
    atomic_uint fed, looks, faults;
};

static void *feed_on(void *arg)
{
    struct others *o = arg;
    struct seam_slice event = text("event");
    uint32_t ack = best_ack(o->p->of_journal.db);
    while (!atomic_load(&o->stop)) {
        if (seam_journal_append(o->p->j, o->p->stream, &event, 1, ack, NULL, NULL) != SEAM_OK ||
            seam_projection_catch_up(o->t, 0, NULL, NULL) != SEAM_OK)
            atomic_fetch_add(&o->faults, 1);
        atomic_fetch_add(&o->fed, 1);
    }
    return NULL;
}

/* Whichever table a view has, its own position goes with it, and never back. */
static void *look_on(void *arg)
{
    struct others *o = arg;
    uint64_t last = 0;
    while (!atomic_load(&o->stop)) {
        struct seam_view *view;
        struct seam_position at;
        struct seam_pin pin = {0};
        char number[24] = "";
        if (seam_view_open(o->t, &view, NULL) != SEAM_OK) {
            atomic_fetch_add(&o->faults, 1);
            continue;
        }
        seam_view_position(view, &at);
        int rc = seam_projection_get(o->t, view, text("last"), &pin, NULL);
        if (rc == SEAM_OK && pin.value.len < sizeof number)
            memcpy(number, pin.value.ptr, pin.value.len);
        if (rc != SEAM_OK || at.parts != 0 || strtoull(number, NULL, 10) != at.sequence ||
            at.sequence < last)
            atomic_fetch_add(&o->faults, 1);
        last = at.sequence;
        seam_unpin(&pin);
        seam_view_close(view);
        atomic_fetch_add(&o->looks, 1);
    }
    return NULL;
}

static void fed_meanwhile(void **state)
{
    (void)state;
    struct pair p;
    pthread_t threads[3];
    struct others o = {.p = &p};
    unsigned version = 1;
    pair_open(&p, journal_engine, table_engine, "limit:ops=40+");
    append_plain(&p, EVENTS);
    o.t = version_table(&p, "t", &version, true);
    table_catch_up(o.t, 0);
    assert_int_equal(pthread_create(&threads[0], NULL, feed_on, &o), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, look_on, &o), 0);
    assert_int_equal(pthread_create(&threads[2], NULL, look_on, &o), 0);
    for (int i = 0; i < 3; i++)
        assert_true(step(o.t, 0).ended);
    while (atomic_load(&o.faults) == 0 && (atomic_load(&o.looks) < 20 || atomic_load(&o.fed) < 2)) {
    }
    atomic_store(&o.stop, true);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&o.faults), 0);
    table_catch_up(o.t, 0);
    assert_true(table_digest(o.t, NULL) == fresh_digest(&p, 1));
    expect_clean(&p, o.t);
    table_close(o.t);
    pair_close(&p);
}

/* A projector that reads what it has put: in a rebuild it has to read the new table. */
struct counting {
    struct seam_projection *t;
    uint64_t number;
};

static int project_count(void *ctx, const struct seam_event *event, struct seam_emit *out,
                         struct seam_err *err)
{
    struct counting *c = ctx;
    struct seam_pin pin = {0};
    uint64_t n = 0;
    (void)event;
    int rc = seam_projection_get(c->t, NULL, text("count"), &pin, err);
    if (rc == SEAM_OK)
        memcpy(&n, pin.value.ptr, sizeof n);
    seam_unpin(&pin);
    if (rc != SEAM_OK && rc != SEAM_NOTFOUND)
        return rc;
    c->number = n + 1;
    struct seam_op op = {
        .kind = SEAM_PUT, .key = text("count"), .head = {&c->number, sizeof c->number}};
    return seam_emit_op(out, &op, err);
}

static void read_by_its_projector(void **state)
{
    (void)state;
    struct pair p;
    struct counting c = {0};
    struct seam_pin pin = {0};
    struct seam_err err;
    uint64_t n = 0;
    pair_open(&p, journal_engine, table_engine, "");
    append_plain(&p, 40);
    struct seam_projection_options o = pair_options(&p, project_count, &c);
    o.batch = 1;
    c.t = table_open(&p, "t", &o);
    table_catch_up(c.t, 0);
    assert_false(step(c.t, 9).ended);
    assert_true(step(c.t, 0).ended);
    ok(seam_projection_get(c.t, NULL, text("count"), &pin, &err), err);
    memcpy(&n, pin.value.ptr, sizeof n);
    seam_unpin(&pin);
    assert_int_equal(n, 40);
    table_close(c.t);
    pair_close(&p);
}

/* ---- begun and not ended --------------------------------------------------------------------- */

static void dropped(void **state)
{
    (void)state;
    struct pair p;
    struct seam_err err;
    unsigned version = 1;
    pair_open(&p, journal_engine, table_engine, "limit:ops=40+");
    append_plain(&p, EVENTS);
    struct seam_projection *t = version_table(&p, "t", &version, false);
    table_catch_up(t, 0);
    ok(seam_projection_rebuild_drop(t, &err), err); /* none was begun */
    version = 2;
    step(t, 50);
    assert_int_equal(raw_generations(&p, 't'), 2);
    table_close(t);
    pair_reopen(&p);
    t = version_table(&p, "t", &version, false);
    assert_true(raw_has(&p, 't', 'B'));
    ok(seam_projection_rebuild_drop(t, &err), err);
    expect_clean(&p, t);
    assert_true(table_digest(t, NULL) == fresh_digest(&p, 1));
    /* Discarded with all that was begun. */
    step(t, 50);
    table_close(t);
    struct seam_projection_options o = pair_options(&p, project_version, &version);
    o.split_units = o.discard = true;
    t = table_open(&p, "t", &o);
    assert_int_equal(raw_generations(&p, 't'), 0);
    assert_false(raw_has(&p, 't', 'B'));
    table_catch_up(t, 0);
    assert_true(table_digest(t, NULL) == fresh_digest(&p, 2));
    expect_clean(&p, t);
    table_close(t);
    pair_close(&p);
}

static void trimmed(void **state)
{
    (void)state;
    struct pair p;
    struct seam_err err;
    uint64_t first = 0;
    unsigned version = 1;
    pair_open(&p, journal_engine, table_engine, "limit:ops=40+");
    append_plain(&p, EVENTS);
    struct seam_projection *t = version_table(&p, "t", &version, false);
    table_catch_up(t, 0);
    ok(seam_projection_sync(t, &err), err);
    step(t, 50);
    table_close(t);
    pair_reopen(&p);
    t = version_table(&p, "t", &version, false);
    /* What was begun needs the events after its position. */
    assert_int_equal(seam_journal_trim(p.j, p.stream, 120, false, &first, &err), SEAM_E_BUSY);
    assert_non_null(strstr(err.text, "t"));
    ok(seam_journal_trim(p.j, p.stream, 120, true, &first, &err), err);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(seam_projection_rebuild(t, NULL, NULL, &err), SEAM_E_NEEDS_HISTORY);
        assert_non_null(strstr(err.text, "120"));
        assert_false(raw_has(&p, 't', 'B'));
    }
    append_plain(&p, 3);
    assert_int_equal(table_catch_up(t, 0), 3);
    expect_at(t, EVENTS + 3);
    expect_clean(&p, t);
    ok(seam_journal_trim(p.j, p.stream, EVENTS, false, &first, &err), err);
    table_close(t);
    pair_close(&p);
}

static void damaged(void **state)
{
    (void)state;
    struct pair p;
    struct seam_err err;
    unsigned version = 1;
    uint8_t buf[512];
    pair_open(&p, journal_engine, table_engine, "limit:ops=40+");
    append_plain(&p, EVENTS);
    struct seam_projection *t = version_table(&p, "t", &version, false);
    struct seam_projection_options o = pair_options(&p, project_version, &version);
    o.split_units = true;
    table_catch_up(t, 0);
    step(t, 50);
    table_close(t);
    struct raw_key build = {{'P', 1, 't', 'B'}, 4}, meta = {{'P', 1, 't', 'M'}, 4};
    size_t len = raw_get(p.db, meta, buf, sizeof buf);
    raw_put(p.db, build, buf, len); /* the other's */
    assert_int_equal(seam_projection_open(p.db, text("t"), &o, &t, &err), SEAM_E_CORRUPT);
    buf[40] ^= 1;
    raw_put(p.db, build, buf, len);
    assert_int_equal(seam_projection_open(p.db, text("t"), &o, &t, &err), SEAM_E_CORRUPT);
    o.discard = true;
    t = table_open(&p, "t", &o);
    table_catch_up(t, 0);
    assert_true(table_digest(t, NULL) == fresh_digest(&p, 1));
    table_close(t);
    /* Without a journal there is nothing to rebuild from. */
    t = table_open(&p, "t", NULL);
    assert_int_equal(seam_projection_rebuild(t, NULL, NULL, &err), SEAM_E_INVALID);
    table_close(t);
    pair_close(&p);
}

int main(int argc, char **argv)
{
    if (argc != 3 && argc != 4) {
        fprintf(stderr, "usage: %s JOURNAL-ENGINE PROJECTION-ENGINE|same [EVENTS]\n", argv[0]);
        return 2;
    }
    journal_engine = argv[1];
    table_engine = argv[2];
    const struct CMUnitTest only[] = {cmocka_unit_test(long_one)};
    if (argc == 4) {
        long_events = (unsigned)strtoul(argv[3], NULL, 10);
        return cmocka_run_group_tests(only, NULL, NULL);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interrupted),
        cmocka_unit_test(long_one),
        cmocka_unit_test(views_stay),
        cmocka_unit_test(fed_meanwhile),
        cmocka_unit_test(read_by_its_projector),
        cmocka_unit_test(dropped),
        cmocka_unit_test(trimmed),
        cmocka_unit_test(damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
