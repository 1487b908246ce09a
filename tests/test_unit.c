/* test_unit.c - test_unit JOURNAL-ENGINE PROJECTION-ENGINE|same: events too large for one commit.
 *
 * Every commit of the projection's db takes at most 40 ops. An event "N v" puts v at N keys, and what a
 * reader finds there must be one event's. */
#include "projection_support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static const char *journal_engine, *table_engine;

enum { KEYS = 300 };

static int project_many(void *ctx, const struct seam_event *event, struct seam_emit *out,
                        struct seam_err *err)
{
    char line[32], key[16], *value;
    (void)ctx;
    size_t len = event->data.len < sizeof line - 1 ? event->data.len : sizeof line - 1;
    memcpy(line, event->data.ptr, len);
    line[len] = '\0';
    unsigned n = (unsigned)strtoul(line, &value, 10);
    for (unsigned i = 0; i < n; i++) {
        (void)snprintf(key, sizeof key, "%04u", i);
        struct seam_op op = {.kind = SEAM_PUT, .key = text(key), .head = text(value + 1)};
        int rc = seam_emit_op(out, &op, err);
        if (rc != SEAM_OK)
            return rc;
    }
    return SEAM_OK;
}

static struct seam_projection *open_table(struct pair *p, bool split, bool atomic)
{
    struct seam_projection_options o = pair_options(p, project_many, NULL);
    o.split_units = split;
    o.atomic_reads = atomic;
    return table_open(p, "t", &o);
}

/* How many keys there are, all of one value, which goes to buf. */
static unsigned count_view(struct seam_projection *t, struct seam_view *view, char buf[16])
{
    struct seam_projection_cursor *c;
    struct seam_slice key, value, none = {NULL, 0};
    struct seam_err err;
    unsigned n = 0;
    buf[0] = '\0';
    ok(seam_projection_cursor_open(t, view, none, none, &c, &err), err);
    while (seam_projection_cursor_move(c, SEAM_NEXT, none, &key, &err) == SEAM_OK) {
        ok(seam_projection_cursor_value(c, &value, &err), err);
        assert_true(value.len < 16);
        if (n == 0)
            (void)snprintf(buf, 16, "%.*s", (int)value.len, (const char *)value.ptr);
        assert_int_equal(strlen(buf), value.len);
        assert_memory_equal(buf, value.ptr, value.len);
        n++;
    }
    seam_projection_cursor_close(c);
    return n;
}

static void too_large(void **state)
{
    (void)state;
    struct pair p;
    struct seam_err err;
    char buf[16];
    uint64_t applied = 7;
    pair_open(&p, journal_engine, table_engine, "limit:ops=40+");
    struct seam_projection *t = open_table(&p, false, false);
    pair_append(&p, text("5 a"));
    pair_append(&p, text("300 b"));
    assert_int_equal(seam_projection_catch_up(t, 0, &applied, &err), SEAM_E_TOO_LARGE);
    assert_int_equal(applied, 1);
    assert_string_equal(err.limit, "ops");
    assert_int_equal(count_view(t, NULL, buf), 5);
    table_close(t);
    pair_close(&p);
}

static void classified(void **state)
{
    (void)state;
    struct pair p;
    struct seam_err err;
    struct seam_fit fit;
    struct seam_limits limits;
    pair_open(&p, journal_engine, table_engine, "limit:ops=40+");
    struct seam_projection *t = open_table(&p, true, false);
    seam_db_limits(p.db, &limits);
    struct seam_event event = {.data = text("300 b")};
    ok(seam_projection_classify(t, &event, &fit, &err), err);
    assert_int_equal(fit.verdict, SEAM_SPLITS);
    assert_int_equal(fit.commits, (300 + limits.ops - 2) / (limits.ops - 1));
    event.data = text("3 b");
    ok(seam_projection_classify(t, &event, &fit, &err), err);
    assert_int_equal(fit.verdict, SEAM_FITS);
    event.data = text("0 b");
    ok(seam_projection_classify(t, &event, &fit, &err), err);
    assert_int_equal(fit.verdict, SEAM_FITS);
    table_close(t);
    pair_close(&p);
}

static void applied_in_parts(void **state)
{
    (void)state;
    struct pair p;
    struct seam_position at;
    char buf[16];
    pair_open(&p, journal_engine, table_engine, "limit:ops=40+");
    struct seam_projection *t = open_table(&p, true, false);
    pair_append(&p, text("5 a"));
    pair_append(&p, text("300 b"));
    pair_append(&p, text("2 b"));
    pair_append(&p, text("41 b"));
    assert_int_equal(table_catch_up(t, 0), 4);
    assert_int_equal(count_view(t, NULL, buf), 300);
    assert_string_equal(buf, "b");
    seam_projection_position(t, &at);
    assert_int_equal(at.sequence, 4);
    assert_int_equal(at.parts, 0);
    table_close(t);
    pair_reopen(&p);
    t = open_table(&p, true, false);
    assert_int_equal(table_catch_up(t, 0), 0);
    assert_int_equal(count_view(t, NULL, buf), 300);
    table_close(t);
    pair_close(&p);
}

/* ---- readers meanwhile ----------------------------------------------------------------------- */

struct watch {
    struct seam_projection *t;
    atomic_bool stop;
    atomic_uint looks, faults;
};

/* Views show a whole unit, and never an older one than the view before. */
static void *watch_views(void *arg)
{
    struct watch *w = arg;
    uint64_t last = 0;
    while (!atomic_load(&w->stop)) {
        struct seam_view *view;
        struct seam_position at;
        struct seam_pin low = {0}, high = {0};
        struct seam_err err;
        if (seam_view_open(w->t, &view, &err) != SEAM_OK) {
            atomic_fetch_add(&w->faults, 1);
            continue;
        }
        seam_view_position(view, &at);
        int a = seam_projection_get(w->t, view, text("0000"), &low, &err);
        int b = seam_projection_get(w->t, view, text("0299"), &high, &err);
        bool same = a == b && (a != SEAM_OK || (low.value.len == high.value.len &&
                                                memcmp(low.value.ptr, high.value.ptr, low.value.len) == 0));
        if (!same || at.parts != 0 || at.sequence < last)
            atomic_fetch_add(&w->faults, 1);
        last = at.sequence;
        seam_unpin(&low);
        seam_unpin(&high);
        seam_view_close(view);
        atomic_fetch_add(&w->looks, 1);
    }
    return NULL;
}

static void nobody_sees_a_part(void **state)
{
    (void)state;
    struct pair p;
    pthread_t threads[2];
    struct watch w = {0};
    pair_open(&p, journal_engine, table_engine, "limit:ops=40+");
    w.t = open_table(&p, true, true);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, watch_views, &w), 0);
    for (int i = 0; i < 30; i++) {
        char event[32];
        (void)snprintf(event, sizeof event, "%d v%d", KEYS, i);
        pair_append(&p, text(event));
        assert_int_equal(table_catch_up(w.t, 0), 1);
    }
    while (atomic_load(&w.looks) < 100 && atomic_load(&w.faults) == 0) {
    }
    atomic_store(&w.stop, true);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&w.faults), 0);
    table_close(w.t);
    pair_close(&p);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s JOURNAL-ENGINE PROJECTION-ENGINE|same\n", argv[0]);
        return 2;
    }
    journal_engine = argv[1];
    table_engine = argv[2];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(too_large),
        cmocka_unit_test(classified),
        cmocka_unit_test(applied_in_parts),
        cmocka_unit_test(nobody_sees_a_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
