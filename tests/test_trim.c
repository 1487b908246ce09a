/* test_trim.c - test_trim ENGINE: a journal's oldest events go, and nothing else does.
 *
 * What an event holds follows from its stream and sequence, so a check needs no copy. */
#include "projection_support.h"

#include <stdlib.h>

enum { EVENTS = 400 };

static const char *engine;

/* Event i of stream s, of a length that follows from both. */
static struct seam_slice event_of(uint32_t s, uint64_t i, char *buf)
{
    int n = snprintf(buf, 64, "%u:%llu", s, (unsigned long long)i);
    size_t len = (size_t)n + (size_t)(i * 7 + s) % 30;
    memset(buf + n, '.', len - (size_t)n);
    return seam_bytes(buf, len);
}

static void append_some(struct seam_journal *j, uint32_t s, uint64_t upto)
{
    struct seam_err err;
    struct seam_stream_info info;
    ok(seam_journal_info(j, s, &info, &err), err);
    for (uint64_t i = info.last + 1; i <= upto; i++) {
        char buf[128];
        struct seam_slice event = event_of(s, i, buf);
        uint32_t ack = i % 50 == 0 ? best_ack(seam_journal_db(j)) : SEAM_ACK_NONE;
        ok(seam_journal_append(j, s, &event, 1, ack, NULL, &err), err);
    }
    if (best_ack(seam_journal_db(j)) >= SEAM_ACK_POWER)
        ok(seam_journal_sync(j, SEAM_ACK_POWER, &err), err);
}

/* The stream holds exactly [first, last], each as it was appended. */
static void expect_stream(struct seam_journal *j, uint32_t s, uint64_t first, uint64_t last)
{
    struct seam_err err;
    struct seam_stream_info info;
    struct seam_journal_reader *r;
    struct seam_event event;
    uint64_t bytes = 0;
    char buf[128];
    ok(seam_journal_info(j, s, &info, &err), err);
    assert_int_equal(info.first, first);
    assert_int_equal(info.last, last);
    ok(seam_journal_reader_open(j, s, 0, NULL, &r, &err), err);
    for (uint64_t i = first; i <= last; i++) {
        struct seam_slice want = event_of(s, i, buf);
        ok(seam_journal_reader_next(r, &event, &err), err);
        assert_int_equal(event.sequence, i);
        assert_int_equal(event.data.len, want.len);
        assert_memory_equal(event.data.ptr, want.ptr, want.len);
        bytes += want.len;
    }
    assert_int_equal(seam_journal_reader_next(r, &event, &err), SEAM_NOTFOUND);
    seam_journal_reader_close(r);
    assert_int_equal(info.bytes, bytes);
    if (first > 1)
        assert_int_equal(seam_journal_reader_open(j, s, first - 1, NULL, &r, &err),
                         SEAM_E_NEEDS_HISTORY);
}

/* Records of events and groups below what is left are gone from the store too. */
static size_t count_keys(struct seam_db *db, char tag)
{
    struct seam_err err;
    struct seam_cursor *c;
    char upper = (char)(tag + 1);
    size_t n = 0;
    struct seam_slice key, none = {NULL, 0};
    ok(seam_cursor_open(db, NULL, seam_bytes(&tag, 1), seam_bytes(&upper, 1), &c, &err), err);
    while (seam_cursor_move(c, SEAM_NEXT, none, &key, &err) == SEAM_OK)
        n++;
    seam_cursor_close(c);
    return n;
}

static void trims_and_goes_on(void **state)
{
    (void)state;
    struct store s;
    struct seam_journal *j;
    struct seam_err err;
    uint64_t first = 0;
    store_open(&s, "", engine, NULL);
    journal_open(&s, &j);
    uint32_t a = journal_stream(j, "a"), b = journal_stream(j, "b");
    append_some(j, a, EVENTS);
    append_some(j, b, 10);
    ok(seam_journal_trim(j, a, 1, false, &first, &err), err);
    expect_stream(j, a, 1, EVENTS);
    ok(seam_journal_trim(j, a, 301, false, &first, &err), err);
    assert_int_equal(first, 301);
    expect_stream(j, a, 301, EVENTS);
    expect_stream(j, b, 1, 10);
    assert_int_equal(count_keys(s.db, 'E'), EVENTS - 300 + 10);
    assert_int_equal(count_keys(s.db, 'G'), EVENTS - 300 + 10);
    ok(seam_journal_trim(j, a, EVENTS + 1, false, &first, &err), err);
    expect_stream(j, a, EVENTS + 1, EVENTS);
    ok(seam_journal_trim(j, b, 11, false, NULL, &err), err);
    assert_int_equal(count_keys(s.db, 'E'), 0);
    assert_int_equal(count_keys(s.db, 'G'), 1); /* the newest stays */
    append_some(j, a, EVENTS + 20);
    expect_stream(j, a, EVENTS + 1, EVENTS + 20);
    journal_close(j);
    store_reopen(&s);
    journal_open(&s, &j);
    expect_stream(j, a, EVENTS + 1, EVENTS + 20);
    expect_stream(j, b, 11, 10);
    append_some(j, b, 12);
    expect_stream(j, b, 11, 12);
    journal_close(j);
    store_close(&s);
}

static void refuses_what_is_not_there(void **state)
{
    (void)state;
    struct store s;
    struct seam_journal *j;
    struct seam_err err;
    uint64_t first = 77;
    store_open(&s, "", engine, NULL);
    journal_open(&s, &j);
    uint32_t a = journal_stream(j, "a");
    append_some(j, a, 5);
    assert_int_equal(seam_journal_trim(j, a + 1, 2, false, &first, &err), SEAM_E_INVALID);
    assert_int_equal(seam_journal_trim(j, a, 7, true, &first, &err), SEAM_E_INVALID);
    assert_int_equal(first, 77);
    if (best_ack(s.db) >= SEAM_ACK_POWER) {
        char buf[128];
        struct seam_slice event = event_of(a, 6, buf);
        ok(seam_journal_append(j, a, &event, 1, SEAM_ACK_NONE, NULL, &err), err);
        assert_int_equal(seam_journal_trim(j, a, 7, true, &first, &err), SEAM_E_INVALID);
        assert_non_null(strstr(err.text, "durable"));
    }
    expect_stream(j, a, 1, journal_last(j, a));
    journal_close(j);
    store_close(&s);
}

/* A reader in the midst of what is trimmed is told so, and never sees a gap. */
static void readers_are_told(void **state)
{
    (void)state;
    struct store s;
    struct seam_journal *j;
    struct seam_err err;
    struct seam_journal_reader *early, *late;
    struct seam_event event;
    store_open(&s, "", engine, NULL);
    journal_open(&s, &j);
    uint32_t a = journal_stream(j, "a");
    append_some(j, a, 50);
    ok(seam_journal_reader_open(j, a, 3, NULL, &early, &err), err);
    ok(seam_journal_reader_open(j, a, 41, NULL, &late, &err), err);
    ok(seam_journal_trim(j, a, 41, false, NULL, &err), err);
    assert_int_equal(seam_journal_reader_next(early, &event, &err), SEAM_E_NEEDS_HISTORY);
    assert_non_null(strstr(err.text, "41"));
    ok(seam_journal_reader_next(late, &event, &err), err);
    assert_int_equal(event.sequence, 41);
    seam_journal_reader_close(early);
    seam_journal_reader_close(late);
    journal_close(j);
    store_close(&s);
}

static void keeps_what_is_asked(void **state)
{
    (void)state;
    struct store s;
    struct seam_journal *j;
    struct seam_err err;
    struct seam_stream_info info;
    struct seam_retention keep = {.events = 120};
    uint64_t first = 0;
    store_open(&s, "", engine, NULL);
    journal_open(&s, &j);
    uint32_t a = journal_stream(j, "a");
    append_some(j, a, EVENTS);
    ok(seam_journal_retain(j, a, &keep, false, &first, &err), err);
    assert_int_equal(first, EVENTS - 119);
    expect_stream(j, a, EVENTS - 119, EVENTS);
    keep = (struct seam_retention){.bytes = 1000};
    ok(seam_journal_retain(j, a, &keep, false, &first, &err), err);
    ok(seam_journal_info(j, a, &info, &err), err);
    assert_true(info.bytes <= 1000);
    char buf[128];
    assert_true(info.bytes + event_of(a, first - 1, buf).len > 1000);
    expect_stream(j, a, first, EVENTS);
    keep = (struct seam_retention){.events = 1000, .bytes = 1 << 20, .age_ms = 1000000};
    uint64_t before = first;
    ok(seam_journal_retain(j, a, &keep, false, &first, &err), err);
    assert_int_equal(first, before); /* nothing is that much or that old */
    journal_close(j);
    store_close(&s);
}

/* A snapshot from before a trim still reads from where the stream began then. */
static void snapshots_keep(void **state)
{
    (void)state;
    struct store s;
    struct seam_journal *j;
    struct seam_err err;
    struct seam_snap *snap;
    struct seam_journal_reader *r;
    struct seam_event event;
    store_open(&s, "", engine, NULL);
    journal_open(&s, &j);
    uint32_t a = journal_stream(j, "a");
    append_some(j, a, 50);
    ok(seam_journal_trim(j, a, 11, false, NULL, &err), err);
    ok(seam_snap_open(s.db, &snap, &err), err);
    append_some(j, a, 60);
    uint32_t late = journal_stream(j, "late");
    append_some(j, late, 5);
    ok(seam_journal_trim(j, a, 56, false, NULL, &err), err);
    for (uint64_t from = 0; from <= 20; from += 20) {
        ok(seam_journal_reader_open(j, a, from, snap, &r, &err), err);
        for (uint64_t i = from == 0 ? 11 : from; i <= 50; i++) {
            ok(seam_journal_reader_next(r, &event, &err), err);
            assert_int_equal(event.sequence, i);
        }
        assert_int_equal(seam_journal_reader_next(r, &event, &err), SEAM_NOTFOUND);
        seam_journal_reader_close(r);
    }
    assert_int_equal(seam_journal_reader_open(j, a, 10, snap, &r, &err), SEAM_E_NEEDS_HISTORY);
    ok(seam_journal_reader_open(j, late, 0, snap, &r, &err), err);
    assert_int_equal(seam_journal_reader_next(r, &event, &err), SEAM_NOTFOUND);
    seam_journal_reader_close(r);
    seam_snap_close(snap);
    journal_close(j);
    store_close(&s);
}

/* A trim of nothing writes nothing, in a journal without any event too; and what is appended later is
 * trimmed and opened as ever. */
static void nothing_to_trim(void **state)
{
    (void)state;
    struct store s;
    struct seam_journal *j;
    struct seam_err err;
    struct seam_stats before, after;
    enum { MANY = 4500 }; /* more groups than one step takes */
    store_open(&s, "", engine, NULL);
    journal_open(&s, &j);
    uint32_t a = journal_stream(j, "a"), empty = journal_stream(j, "empty");
    ok(seam_db_stats(s.db, &before, &err), err);
    ok(seam_journal_trim(j, a, 0, false, NULL, &err), err);
    ok(seam_journal_trim(j, a, 1, true, NULL, &err), err);
    ok(seam_db_stats(s.db, &after, &err), err);
    assert_int_equal(after.commits, before.commits);
    append_some(j, a, MANY);
    ok(seam_journal_trim(j, empty, 1, false, NULL, &err), err);
    expect_stream(j, a, 1, MANY);
    ok(seam_journal_trim(j, a, 11, false, NULL, &err), err);
    assert_int_equal(count_keys(s.db, 'G'), MANY - 10);
    journal_close(j);
    store_reopen(&s);
    journal_open(&s, &j);
    expect_stream(j, a, 11, MANY);
    ok(seam_journal_trim(j, a, MANY, false, NULL, &err), err);
    assert_int_equal(count_keys(s.db, 'G'), 1);
    journal_close(j);
    store_reopen(&s);
    journal_open(&s, &j);
    expect_stream(j, a, MANY, MANY);
    journal_close(j);
    store_close(&s);
}

/* The same streams as numbers, through appends, trims and reopenings in an order of chance. */
static void random_orders(void **state)
{
    (void)state;
    enum { STREAMS = 3, TURNS = 150 };
    static const char *const names[STREAMS] = {"x", "y", "z"};
    struct store s;
    struct seam_journal *j;
    struct seam_err err;
    uint64_t seed = test_seed(), first[STREAMS], last[STREAMS];
    uint32_t id[STREAMS];
    store_open(&s, "", engine, NULL);
    journal_open(&s, &j);
    for (int i = 0; i < STREAMS; i++) {
        first[i] = 1;
        last[i] = 0;
        id[i] = journal_stream(j, names[i]);
    }
    for (int turn = 0; turn < TURNS; turn++) {
        int i = (int)(next_random(&seed) % STREAMS);
        uint64_t kind = next_random(&seed) % 8;
        if (kind < 4) {
            last[i] += next_random(&seed) % 12;
            append_some(j, id[i], last[i]);
        } else if (kind < 7) {
            uint64_t below = first[i] + next_random(&seed) % (last[i] + 2 - first[i]);
            ok(seam_journal_trim(j, id[i], below, false, NULL, &err), err);
            first[i] = below;
        } else {
            journal_close(j);
            store_reopen(&s);
            journal_open(&s, &j);
        }
        expect_stream(j, id[i], first[i], last[i]);
    }
    for (int i = 0; i < STREAMS; i++)
        expect_stream(j, id[i], first[i], last[i]);
    journal_close(j);
    store_close(&s);
}

/* The clock of a test: set, not read. */
static uint64_t set_ns;

static uint64_t set_now(void *ctx, enum seam_clock clock)
{
    return clock == SEAM_CLOCK_REAL ? set_ns : seam_platform_system()->now_ns(ctx, clock);
}

static void finds_times(void **state)
{
    (void)state;
    struct store s;
    struct seam_journal *j;
    struct seam_err err;
    struct seam_platform os = *seam_platform_system();
    struct seam_journal_options o = {.platform = &os};
    uint64_t at = 0, first = 0;
    os.now_ns = set_now;
    set_ns = UINT64_C(1000000000000);
    store_open(&s, "", engine, NULL);
    ok(seam_journal_open(s.db, &o, &j, &err), err);
    uint32_t a = journal_stream(j, "a");
    for (uint64_t i = 1; i <= 20; i++, set_ns += UINT64_C(1000000000))
        append_some(j, a, i);
    ok(seam_journal_at_time(j, a, 0, &at, &err), err);
    assert_int_equal(at, 1);
    ok(seam_journal_at_time(j, a, UINT64_C(1004000000000), &at, &err), err);
    assert_int_equal(at, 5);
    ok(seam_journal_at_time(j, a, UINT64_C(1004000000001), &at, &err), err);
    assert_int_equal(at, 6);
    assert_int_equal(seam_journal_at_time(j, a, set_ns, &at, &err), SEAM_NOTFOUND);
    struct seam_retention keep = {.age_ms = 5000}; /* the clock stands at 1 s behind event 20 */
    ok(seam_journal_retain(j, a, &keep, false, &first, &err), err);
    assert_int_equal(first, 16);
    set_ns = 5; /* a clock that went back makes nothing old */
    ok(seam_journal_retain(j, a, &keep, false, &first, &err), err);
    assert_int_equal(first, 16);
    expect_stream(j, a, 16, 20);
    journal_close(j);
    store_close(&s);
}

static void projections_hold(void **state)
{
    (void)state;
    struct pair p;
    struct seam_err err;
    uint64_t first = 0;
    pair_open(&p, engine, "same", "");
    append_numbers(&p);
    struct seam_projection_options o = pair_options(&p, project_numbers, NULL);
    struct seam_projection *t = table_open(&p, "slow", &o);
    assert_int_equal(table_catch_up(t, 100), 100);
    assert_int_equal(seam_journal_trim(p.j, p.stream, 102, false, &first, &err), SEAM_E_BUSY);
    assert_non_null(strstr(err.text, "slow"));
    struct seam_retention keep = {.events = 1};
    ok(seam_journal_retain(p.j, p.stream, &keep, false, &first, &err), err);
    assert_int_equal(first, 101);
    assert_int_equal(table_catch_up(t, 0), NUMBERS - 100);
    check_numbers(t, NUMBERS);
    ok(seam_journal_retain(p.j, p.stream, &keep, false, &first, &err), err);
    assert_int_equal(first, NUMBERS);
    table_close(t);
    t = table_open(&p, "slow", &o); /* its position is the end: no history is needed */
    table_close(t);
    o.discard = true;
    t = NULL;
    struct seam_projection *again = NULL;
    int rc = seam_projection_open(p.db, text("slow"), &o, &again, &err);
    assert_int_equal(rc, SEAM_E_NEEDS_HISTORY);
    pair_close(&p);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s ENGINE\n", argv[0]);
        return 2;
    }
    engine = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trims_and_goes_on), cmocka_unit_test(refuses_what_is_not_there),
        cmocka_unit_test(readers_are_told),  cmocka_unit_test(keeps_what_is_asked),
        cmocka_unit_test(finds_times),       cmocka_unit_test(projections_hold),
        cmocka_unit_test(snapshots_keep),    cmocka_unit_test(nothing_to_trim),
        cmocka_unit_test(random_orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
