/* test_store_put.c - units: what is taken, what is refused with nothing written, who lags how far.
 *
 * Arguments: the journal's engine, and that of the projections or "same". Commits of the projection
 * "near" take 40 ops at most (36 with the headroom, one of them the record), 64 KiB (57.6 KiB) and
 * range deletes of 20 keys (18). An event "N v" puts v at N keys; "D" deletes all of them; "L N" puts
 * one value of N bytes; "E" is refused by the projector. */
#include "store_support.h"

#include <pthread.h>
#include <stdlib.h>

enum { LARGE_MOST = 70000 };

static char large[LARGE_MOST];

static int project_units(void *ctx, const struct seam_event *event, struct seam_emit *out,
                         struct seam_err *err)
{
    char line[32], key[16], *value;
    (void)ctx;
    size_t len = event->data.len < sizeof line - 1 ? event->data.len : sizeof line - 1;
    memcpy(line, event->data.ptr, len);
    line[len] = '\0';
    if (line[0] == 'E')
        return seam_fail(err, SEAM_E_INVALID, "the projector does not like it");
    struct seam_op all = {.kind = SEAM_DELETE_RANGE};
    if (line[0] == 'D')
        return seam_emit_op(out, &all, err);
    struct seam_op one = {.kind = SEAM_PUT, .key = text("large")};
    one.body = seam_bytes(large, line[0] == 'L' ? strtoul(line + 2, NULL, 10) : 0);
    if (line[0] == 'L')
        return seam_emit_op(out, &one, err);
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

struct limited {
    struct site site;
    char spec[96];
    struct seam_store *store;
    uint32_t stream;
};

static void open_limited(struct limited *l, bool split, uint32_t batch)
{
    struct seam_err err;
    bool same = strcmp(site_near, "same") == 0;
    site_new(&l->site);
    (void)snprintf(l->spec, sizeof(l->spec), "limit:ops=40,bytes=64K,range_keys=20+%s",
                   same ? site_journal : site_near);
    if (same)
        l->site.options.journal_engine = l->spec;
    else
        l->site.projections[0].engine = l->spec;
    for (size_t i = 0; i < 2; i++) {
        l->site.projections[i].projector = project_units;
        l->site.projections[i].split_units = split;
        l->site.projections[i].batch = batch;
    }
    l->store = site_open(&l->site, SEAM_OPEN_CREATE);
    ok(seam_journal_stream(seam_store_journal(l->store), text("s"), false, &l->stream, &err), err);
}

static void close_limited(struct limited *l)
{
    site_close(l->store);
    site_remove(&l->site);
}

static uint64_t last(struct limited *l)
{
    return journal_last(seam_store_journal(l->store), l->stream);
}

static struct seam_put put(struct limited *l, const char *unit, const struct seam_put_options *o)
{
    struct seam_put done;
    struct seam_err err;
    ok(seam_store_put_unit(l->store, l->stream, text(unit), SEAM_ACK_NONE, o, &done, &err), err);
    assert_int_equal(done.applying, SEAM_OK);
    assert_int_equal(done.sequence, last(l));
    return done;
}

static void refused(struct limited *l, const char *unit, size_t commits, int code, const char *limit,
                    const char *says)
{
    struct seam_err err;
    size_t k[2] = {7, 7};
    struct seam_put done = {.sequence = 99};
    struct seam_put_options o = {.commits = k};
    uint64_t before = last(l);
    int rc = seam_store_put_unit(l->store, l->stream, text(unit), SEAM_ACK_NONE, &o, &done, &err);
    if (rc != code || strstr(err.text, says) == NULL)
        print_message("%s: %s: %s\n", unit, seam_code_name(rc), err.text);
    assert_int_equal(rc, code);
    assert_non_null(strstr(err.text, says));
    assert_non_null(strstr(err.text, "projection-near"));
    if (limit != NULL) {
        assert_string_equal(err.limit, limit);
        assert_true(err.got > err.max);
    }
    assert_int_equal(k[0], commits);
    assert_int_equal(done.sequence, 99);
    assert_int_equal(last(l), before);
}

static void taken_and_seen(void **state)
{
    (void)state;
    struct limited l;
    size_t k[2] = {7, 7};
    struct seam_put_options o = {.commits = k};
    open_limited(&l, false, 0);
    for (unsigned i = 1; i <= 5; i++) {
        char unit[16], value[8];
        (void)snprintf(unit, sizeof unit, "35 v%u", i);
        (void)snprintf(value, sizeof value, "v%u", i);
        struct seam_put done = put(&l, unit, &o);
        assert_int_equal(done.sequence, i);
        assert_int_equal(done.behind, 0);
        assert_int_equal(k[0], 1);
        assert_int_equal(k[1], 1);
        table_expect(seam_store_projection(l.store, "near"), NULL, "0034", value);
        table_expect(seam_store_projection(l.store, "far"), NULL, "0034", value);
    }
    put(&l, "0 nothing", &o);
    assert_int_equal(k[0], 1);
    close_limited(&l);
}

static void refusals_write_nothing(void **state)
{
    (void)state;
    struct limited l;
    struct seam_err err;
    open_limited(&l, false, 0);
    refused(&l, "36 a", 2, SEAM_E_TOO_LARGE, "ops", "2 commits");
    refused(&l, "300 a", 9, SEAM_E_TOO_LARGE, "ops", "9 commits");
    refused(&l, "L 65000", 0, SEAM_E_TOO_LARGE, "bytes", "op 0 of the unit");
    refused(&l, "E", 0, SEAM_E_INVALID, NULL, "does not like it");
    put(&l, "18 a", NULL);
    put(&l, "D", NULL); /* covers 18 keys */
    assert_int_equal(table_count(seam_store_projection(l.store, "near")), 0);
    put(&l, "19 a", NULL);
    refused(&l, "D", 1, SEAM_E_TOO_LARGE, "range_keys", "range_keys");
    assert_int_equal(table_count(seam_store_projection(l.store, "near")), 19);
    struct seam_slice half = {NULL, 3};
    assert_int_equal(seam_store_put_unit(l.store, l.stream, half, 0, NULL, NULL, &err), SEAM_E_INVALID);
    assert_int_equal(seam_store_put_unit(l.store, l.stream, text("1 a"), 77, NULL, NULL, &err),
                     SEAM_E_INVALID);
    assert_int_equal(seam_store_put_unit(l.store, 17, text("1 a"), 0, NULL, NULL, &err),
                     SEAM_E_INVALID);
    assert_int_equal(last(&l), 3);
    assert_int_equal(put(&l, "1 b", NULL).sequence, 4);
    close_limited(&l);
}

static void split_where_allowed(void **state)
{
    (void)state;
    struct limited l;
    size_t k[2] = {0, 0};
    struct seam_put_options o = {.commits = k};
    open_limited(&l, true, 0);
    put(&l, "300 a", &o);
    assert_int_equal(k[0], 9);
    table_expect(seam_store_projection(l.store, "near"), NULL, "0299", "a");
    table_expect(seam_store_projection(l.store, "far"), NULL, "0299", "a");
    assert_int_equal(table_count(seam_store_projection(l.store, "near")), 300);
    refused(&l, "L 65000", 0, SEAM_E_TOO_LARGE, "bytes", "op 0 of the unit");
    refused(&l, "D", 1, SEAM_E_TOO_LARGE, "range_keys", "range_keys");
    close_limited(&l);
}

static uint64_t position(struct limited *l, const char *name)
{
    struct seam_position at;
    seam_projection_position(seam_store_projection(l->store, name), &at);
    return at.sequence;
}

static void lags_as_far_as_told(void **state)
{
    (void)state;
    struct limited l;
    struct seam_put_options never = {.lag = UINT64_MAX}, three = {.lag = 3};
    open_limited(&l, false, 0);
    for (int i = 0; i < 10; i++)
        assert_int_equal(put(&l, "1 a", &never).behind, 0);
    assert_int_equal(position(&l, "near"), 0);
    assert_int_equal(position(&l, "far"), 0);
    for (unsigned i = 11; i <= 20; i++) {
        assert_int_equal(put(&l, "1 b", &three).behind, 0);
        assert_true(position(&l, "near") + 3 >= i);
        assert_true(position(&l, "far") + 3 >= i);
    }
    assert_int_equal(put(&l, "1 c", NULL).behind, 0);
    assert_int_equal(position(&l, "near"), 21);
    assert_int_equal(position(&l, "far"), 21);
    close_limited(&l);
}

/* A range may be counted only after what is before it was applied. */
static void counts_after_catching_up(void **state)
{
    (void)state;
    struct limited l;
    struct seam_put_options never = {.lag = UINT64_MAX};
    open_limited(&l, false, 0);
    put(&l, "30 a", &never);
    refused(&l, "D", 1, SEAM_E_TOO_LARGE, "range_keys", "range_keys");
    assert_int_equal(position(&l, "near"), 1);
    close_limited(&l);
}

static void streams_without_projections(void **state)
{
    (void)state;
    struct limited l;
    struct seam_err err;
    struct seam_put done;
    size_t k[2] = {7, 7};
    struct seam_put_options o = {.commits = k};
    open_limited(&l, false, 0);
    uint32_t other = journal_stream(seam_store_journal(l.store), "other");
    ok(seam_store_put_unit(l.store, other, text("300 a"), 0, &o, &done, &err), err);
    assert_int_equal(done.sequence, 1);
    assert_int_equal(done.behind, 0);
    assert_int_equal(k[0], 0);
    assert_int_equal(k[1], 0);
    assert_int_equal(last(&l), 0);
    close_limited(&l);
}

/* ---- threads ----------------------------------------------------------------------------- */

enum { THREADS = 4, EACH = 30 };

struct worker {
    struct limited *l;
    unsigned id;
    uint64_t sum;
    int rc;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    for (unsigned i = 0; i < EACH && w->rc == SEAM_OK; i++) {
        char unit[16];
        struct seam_put done = {0};
        struct seam_put_options o = {.lag = (w->id + i) % 3 * 4};
        (void)snprintf(unit, sizeof unit, "%u t%u", i % 7 == 0 ? 120 : 20, w->id);
        w->rc = seam_store_put_unit(w->l->store, w->l->stream, text(unit), SEAM_ACK_NONE, &o, &done, NULL);
        if (w->rc == SEAM_OK)
            w->rc = done.applying;
        w->sum += done.sequence;
    }
    return NULL;
}

static void many_threads(void **state)
{
    (void)state;
    struct limited l;
    struct worker w[THREADS];
    pthread_t threads[THREADS];
    uint64_t sum = 0, n = THREADS * EACH;
    open_limited(&l, true, 0);
    for (unsigned i = 0; i < THREADS; i++) {
        w[i] = (struct worker){&l, i, 0, SEAM_OK};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &w[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(w[i].rc, SEAM_OK);
        sum += w[i].sum;
    }
    assert_int_equal(last(&l), n);
    assert_int_equal(sum, n * (n + 1) / 2); /* each number once */
    put(&l, "10 end", NULL);
    assert_int_equal(position(&l, "near"), n + 1);
    assert_int_equal(position(&l, "far"), n + 1);
    table_expect(seam_store_projection(l.store, "near"), NULL, "0009", "end");
    close_limited(&l);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taken_and_seen),
        cmocka_unit_test(refusals_write_nothing),
        cmocka_unit_test(split_where_allowed),
        cmocka_unit_test(lags_as_far_as_told),
        cmocka_unit_test(counts_after_catching_up),
        cmocka_unit_test(streams_without_projections),
        cmocka_unit_test(many_threads),
    };
    if (argc != 3)
        return 2;
    site_journal = argv[1];
    site_near = argv[2];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
