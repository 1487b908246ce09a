/* test_journal.c - the journal on one engine: order, chain, refusals, reopening.
 *
 * argv[1] names the engine. The same tests hold for each. Damage: test_journal_damage.c. */
#include "seam_support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static const char *engine;

static void streams(void **state)
{
    (void)state;
    struct store s;
    struct seam_journal *j;
    struct seam_err err;
    uint32_t id = 7;
    char name[SEAM_STREAM_NAME_MAX + 1];
    store_open(&s, "", engine, NULL);
    journal_open(&s, &j);
    assert_int_equal(seam_journal_stream(j, text("a"), false, &id, &err), SEAM_NOTFOUND);
    assert_int_equal(id, 7);
    assert_int_equal(journal_stream(j, "b"), 1);
    assert_int_equal(journal_stream(j, "a"), 2);
    assert_int_equal(journal_stream(j, "b"), 1);
    memset(name, 'x', sizeof(name));
    assert_int_equal(seam_journal_stream(j, seam_bytes(name, sizeof(name)), true, &id, &err),
                     SEAM_E_INVALID);
    assert_int_equal(seam_journal_stream(j, seam_bytes(name, 0), true, &id, &err), SEAM_E_INVALID);
    ok(seam_journal_stream(j, seam_bytes(name, SEAM_STREAM_NAME_MAX), true, &id, &err), err);
    assert_int_equal(id, 3);
    struct seam_stream_info info;
    assert_int_equal(seam_journal_info(j, 4, &info, &err), SEAM_E_INVALID);
    assert_int_equal(seam_journal_info(j, 0, &info, &err), SEAM_E_INVALID);
    ok(seam_journal_info(j, 2, &info, &err), err);
    assert_int_equal(info.first, 1);
    assert_int_equal(info.last, 0);
    assert_memory_equal(info.name.ptr, "a", 1);
    assert_int_equal(info.name.len, 1);
    uint8_t uuid[16];
    memcpy(uuid, seam_journal_uuid(j), 16);
    journal_close(j);
    store_reopen(&s);
    journal_open(&s, &j);
    assert_memory_equal(uuid, seam_journal_uuid(j), 16);
    assert_int_equal(seam_journal_stream_count(j), 3);
    ok(seam_journal_stream(j, text("a"), false, &id, &err), err);
    assert_int_equal(id, 2);
    journal_close(j);
    store_close(&s);
}

static void append_and_read(void **state)
{
    (void)state;
    enum { BIG = 1 << 20 };
    struct store s;
    struct seam_journal *j;
    struct seam_err err;
    store_open(&s, "", engine, NULL);
    journal_open(&s, &j);
    uint32_t id = journal_stream(j, "orders");
    uint8_t *big = malloc(BIG);
    assert_non_null(big);
    memset(big, 0x5a, BIG);
    struct seam_slice events[3] = {text("one"), {NULL, 0}, {big, BIG}};
    struct seam_append ret;
    ok(seam_journal_append(j, id, events, 3, best_ack(s.db), &ret, &err), err);
    assert_int_equal(ret.first, 1);
    assert_int_equal(ret.last, 3);
    assert_true((uint32_t)ret.acked.given >= best_ack(s.db));
    struct seam_journal_reader *r;
    struct seam_event event;
    ok(seam_journal_reader_open(j, id, 0, NULL, &r, &err), err);
    for (size_t i = 0; i < 3; i++) {
        ok(seam_journal_reader_next(r, &event, &err), err);
        assert_int_equal(event.sequence, i + 1);
        assert_int_equal(event.stream, id);
        assert_int_equal(event.data.len, events[i].len);
        if (event.data.len > 0)
            assert_memory_equal(event.data.ptr, events[i].ptr, event.data.len);
    }
    assert_int_equal(seam_journal_reader_next(r, &event, &err), SEAM_NOTFOUND);
    /* It follows the head. */
    journal_append(j, id, "four");
    ok(seam_journal_reader_next(r, &event, &err), err);
    assert_int_equal(event.sequence, 4);
    assert_int_equal(seam_journal_close(j, &err), SEAM_E_BUSY);
    seam_journal_reader_close(r);
    /* From the middle, from the end, from beyond. */
    assert_int_equal(journal_read_all(j, id, 3, &err), 2);
    assert_int_equal(journal_read_all(j, id, 5, &err), 0);
    ok(seam_journal_reader_open(j, id, 6, NULL, &r, &err), err);
    journal_append(j, id, "five");
    assert_int_equal(seam_journal_reader_next(r, &event, &err), SEAM_NOTFOUND);
    journal_append(j, id, "six");
    ok(seam_journal_reader_next(r, &event, &err), err);
    assert_int_equal(event.sequence, 6);
    seam_journal_reader_close(r);
    assert_int_equal(seam_journal_reader_open(j, 9, 0, NULL, &r, &err), SEAM_E_INVALID);
    free(big);
    journal_close(j);
    store_close(&s);
}

static void snapshot_reader(void **state)
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
    uint32_t id = journal_stream(j, "a");
    journal_append(j, id, "1");
    journal_append(j, id, "2");
    ok(seam_snap_open(s.db, &snap, &err), err);
    journal_append(j, id, "3");
    ok(seam_journal_reader_open(j, id, 2, snap, &r, &err), err);
    ok(seam_journal_reader_next(r, &event, &err), err);
    assert_int_equal(event.sequence, 2);
    assert_int_equal(seam_journal_reader_next(r, &event, &err), SEAM_NOTFOUND);
    assert_int_equal(seam_journal_reader_next(r, &event, &err), SEAM_NOTFOUND);
    seam_journal_reader_close(r);
    seam_snap_close(snap);
    journal_close(j);
    store_close(&s);
}

/* ---- many threads ------------------------------------------------------------------------ */

enum { APPENDERS = 8, STREAMS = 3 };

static unsigned per_thread(void)
{
#ifdef SEAM_SANITIZED
    return 150;
#else
    return 600;
#endif
}

struct crowd {
    struct seam_journal *j;
    uint32_t ids[STREAMS];
    atomic_uint number;
    atomic_ullong events[STREAMS]; /* appended, so that readers know when to stop */
    atomic_bool done;
    unsigned rounds;
};

/* Payload: who, which of his. */
static void *append_many(void *arg)
{
    struct crowd *c = arg;
    uint32_t me = atomic_fetch_add(&c->number, 1);
    uint64_t last[STREAMS] = {0};
    for (uint32_t i = 0; i < c->rounds; i++) {
        uint32_t body[5][2];
        struct seam_slice events[5];
        size_t n = 1 + (me + i) % 5;
        unsigned which = (me + i) % STREAMS;
        for (size_t k = 0; k < n; k++) {
            body[k][0] = me;
            body[k][1] = i;
            events[k] = seam_bytes(body[k], sizeof(body[k]));
        }
        struct seam_err err;
        struct seam_append ret;
        ok(seam_journal_append(c->j, c->ids[which], events, n, SEAM_ACK_NONE, &ret, &err), err);
        assert_int_equal(ret.last - ret.first + 1, n);
        assert_true(ret.first > last[which]);
        last[which] = ret.last;
        atomic_fetch_add(&c->events[which], n);
    }
    return NULL;
}

struct follower {
    struct crowd *c;
    unsigned which;
    uint64_t seen;
};

static void *follow(void *arg)
{
    struct follower *f = arg;
    struct seam_err err;
    struct seam_journal_reader *r;
    struct seam_event event;
    uint32_t newest[APPENDERS] = {0};
    ok(seam_journal_reader_open(f->c->j, f->c->ids[f->which], 1, NULL, &r, &err), err);
    for (;;) {
        bool finished = atomic_load(&f->c->done);
        int rc;
        while ((rc = seam_journal_reader_next(r, &event, &err)) == SEAM_OK) {
            uint32_t body[2];
            assert_int_equal(event.sequence, ++f->seen);
            assert_int_equal(event.data.len, sizeof(body));
            memcpy(body, event.data.ptr, sizeof(body));
            assert_true(body[0] < APPENDERS);
            assert_true(body[1] >= newest[body[0]]);
            newest[body[0]] = body[1];
        }
        if (rc != SEAM_NOTFOUND)
            print_message("%s\n", err.text);
        assert_int_equal(rc, SEAM_NOTFOUND);
        if (finished)
            break;
        (void)seam_journal_wait(f->c->j, f->c->ids[f->which], f->seen, 5, NULL, &err);
    }
    seam_journal_reader_close(r);
    return NULL;
}

static uint32_t get32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Group records: numbers without a gap, each linked to the one before, events summing up. */
static void check_groups(struct seam_db *db, uint64_t events, uint32_t most)
{
    uint8_t buf[4096];
    struct seam_pin pin = {0};
    struct seam_err err;
    uint32_t chain = 0;
    uint64_t sum = 0;
    for (uint64_t g = 1;; g++) {
        struct raw_key key = raw_group(g);
        int rc = seam_get(db, NULL, seam_bytes(key.bytes, key.len), &pin, &err);
        if (rc == SEAM_NOTFOUND)
            break;
        ok(rc, err);
        seam_unpin(&pin);
        size_t len = raw_get(db, key, buf, sizeof(buf));
        assert_true(len >= 56);
        assert_int_equal(len, 56 + 16 * get32(buf + 4));
        assert_int_equal(get32(buf + 36), chain);
        chain = get32(buf + 48);
        assert_true(get32(buf + 32) <= most);
        sum += get32(buf + 32);
    }
    assert_int_equal(sum, events);
}

static void run_crowd(const char *wrap, unsigned rounds, uint32_t most)
{
    struct store s;
    struct seam_err err;
    struct crowd c = {.rounds = rounds};
    struct follower f[STREAMS];
    pthread_t threads[APPENDERS], readers[STREAMS];
    uint64_t total = 0;
    store_open(&s, wrap, engine, NULL);
    journal_open(&s, &c.j);
    c.ids[0] = journal_stream(c.j, "x");
    c.ids[1] = journal_stream(c.j, "y");
    c.ids[2] = journal_stream(c.j, "z");
    for (unsigned i = 0; i < STREAMS; i++) {
        f[i] = (struct follower){&c, i, 0};
        assert_int_equal(pthread_create(&readers[i], NULL, follow, &f[i]), 0);
    }
    for (unsigned i = 0; i < APPENDERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, append_many, &c), 0);
    for (unsigned i = 0; i < APPENDERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    atomic_store(&c.done, true);
    for (unsigned i = 0; i < STREAMS; i++) {
        uint64_t appended = atomic_load(&c.events[i]);
        assert_int_equal(pthread_join(readers[i], NULL), 0);
        assert_int_equal(f[i].seen, appended);
        assert_int_equal(journal_last(c.j, c.ids[i]), appended);
        total += appended;
    }
    check_groups(s.db, total, most);
    journal_close(c.j);
    store_reopen(&s);
    journal_open(&s, &c.j);
    for (unsigned i = 0; i < STREAMS; i++)
        assert_int_equal(journal_read_all(c.j, c.ids[i], 1, &err), atomic_load(&c.events[i]));
    journal_close(c.j);
    store_close(&s);
}

static void crowd(void **state)
{
    (void)state;
    run_crowd("", per_thread(), UINT32_MAX);
}

/* 20 ops with a tenth of headroom: at most 18 in a commit, one of them the group record. */
static void crowd_under_limit(void **state)
{
    (void)state;
    run_crowd("limit:ops=20+", per_thread() / 2, 17);
}

/* ---- refusals ---------------------------------------------------------------------------- */

static void refused(void **state)
{
    (void)state;
    struct store s;
    struct seam_journal *j;
    struct seam_err err;
    struct seam_append ret;
    struct seam_limits limits;
    struct seam_slice events[64];
    store_open(&s, "limit:ops=20,bytes=8K+", engine, NULL);
    journal_open(&s, &j);
    seam_db_limits(s.db, &limits);
    uint32_t id = journal_stream(j, "a");
    for (size_t i = 0; i < 64; i++)
        events[i] = text("e");
    assert_int_equal(journal_append(j, id, "1").first, 1);

    size_t most = (size_t)limits.ops - 1;
    assert_int_equal(seam_journal_append(j, id, events, most + 1, 0, &ret, &err), SEAM_E_TOO_LARGE);
    assert_string_equal(err.limit, "ops");
    assert_int_equal(err.max, limits.ops);
    assert_int_equal(err.got, limits.ops + 1);
    ok(seam_journal_append(j, id, events, most, 0, &ret, &err), err);
    assert_int_equal(ret.first, 2);
    uint64_t last = ret.last;

    /* bytes: an event of key 13 and envelope 52, and a group record of key 9 and 72 */
    uint8_t *body = calloc(1, (size_t)limits.bytes);
    assert_non_null(body);
    struct seam_slice big = {body, (size_t)limits.bytes - 13 - 52 - 9 - 72 + 1};
    assert_int_equal(seam_journal_append(j, id, &big, 1, 0, &ret, &err), SEAM_E_TOO_LARGE);
    assert_string_equal(err.limit, "bytes");
    assert_int_equal(err.got, limits.bytes + 1);
    big.len--;
    ok(seam_journal_append(j, id, &big, 1, 0, &ret, &err), err);
    assert_int_equal(ret.first, ++last);
    free(body);

    events[2] = seam_bytes(NULL, 3);
    assert_int_equal(seam_journal_append(j, id, events, 5, 0, &ret, &err), SEAM_E_INVALID);
    assert_int_equal(err.op, 2);
    assert_int_equal(seam_journal_append(j, id, events, 0, 0, &ret, &err), SEAM_E_INVALID);
    assert_int_equal(seam_journal_append(j, id + 1, events, 1, 0, &ret, &err), SEAM_E_INVALID);
    assert_int_equal(seam_journal_append(j, id, events, 1, 9, &ret, &err), SEAM_E_INVALID);
    if (limits.best < SEAM_ACK_POWER)
        assert_int_equal(seam_journal_append(j, id, events, 1, SEAM_ACK_POWER, &ret, &err),
                         SEAM_E_UNSUPPORTED);
    assert_int_equal(journal_last(j, id), last);
    assert_int_equal(journal_append(j, id, "next").first, last + 1);
    assert_int_equal(journal_read_all(j, id, 1, &err), last + 1);
    journal_close(j);
    store_close(&s);
}

/* ---- reopening and the durable mark ------------------------------------------------------ */

static void reopened(void **state)
{
    (void)state;
    struct store s;
    struct seam_journal *j;
    struct seam_err err;
    struct seam_stream_info info;
    store_open(&s, "", engine, NULL);
    for (uint64_t i = 0; i < 5; i++) {
        journal_open(&s, &j);
        uint32_t id = journal_stream(j, "a"), other = journal_stream(j, i == 0 ? "b" : "c");
        assert_int_equal(journal_append(j, id, "x").first, 2 * i + 1);
        journal_append(j, other, "y");
        assert_int_equal(journal_append(j, id, "z").first, 2 * i + 2);
        assert_int_equal(journal_read_all(j, id, 1, &err), 2 * i + 2);
        journal_close(j);
        store_reopen(&s);
    }
    journal_open(&s, &j);
    ok(seam_journal_info(j, 1, &info, &err), err);
    assert_int_equal(info.durable, info.last);
    journal_append(j, 1, "not flushed");
    ok(seam_journal_info(j, 1, &info, &err), err);
    if (best_ack(s.db) == SEAM_ACK_POWER) {
        assert_int_equal(info.durable, info.last - 1);
        ok(seam_journal_sync(j, SEAM_ACK_POWER, &err), err);
        ok(seam_journal_info(j, 1, &info, &err), err);
        assert_int_equal(info.durable, info.last);
        /* A commit at POWER raises the other streams too. */
        journal_append(j, 1, "not flushed");
        struct seam_slice event = text("flushed");
        ok(seam_journal_append(j, 2, &event, 1, SEAM_ACK_POWER, NULL, &err), err);
        ok(seam_journal_info(j, 1, &info, &err), err);
    }
    assert_int_equal(info.durable, info.last);
    journal_close(j);
    store_close(&s);
}

static void prefixes(void **state)
{
    (void)state;
    struct store s;
    struct seam_journal *a, *b;
    struct seam_err err;
    struct seam_journal_options first = {.prefix = text("a/")}, second = {.prefix = text("b/")};
    store_open(&s, "", engine, NULL);
    ok(seam_journal_open(s.db, &first, &a, &err), err);
    ok(seam_journal_open(s.db, &second, &b, &err), err);
    journal_append(a, journal_stream(a, "s"), "1");
    journal_append(a, journal_stream(a, "s"), "2");
    journal_append(b, journal_stream(b, "s"), "1");
    assert_int_equal(journal_read_all(a, 1, 1, &err), 2);
    assert_int_equal(journal_read_all(b, 1, 1, &err), 1);
    journal_close(a);
    journal_close(b);
    store_reopen(&s);
    ok(seam_journal_open(s.db, &first, &a, &err), err);
    assert_int_equal(journal_last(a, 1), 2);
    journal_close(a);
    char longest[SEAM_JOURNAL_PREFIX_MAX + 1] = {0};
    first.prefix = seam_bytes(longest, sizeof(longest));
    assert_int_equal(seam_journal_open(s.db, &first, &a, &err), SEAM_E_INVALID);
    store_close(&s);
}

static void waits(void **state)
{
    (void)state;
    struct store s;
    struct seam_journal *j;
    struct seam_err err;
    uint64_t last = 99;
    store_open(&s, "", engine, NULL);
    journal_open(&s, &j);
    uint32_t id = journal_stream(j, "a");
    assert_int_equal(seam_journal_wait(j, id, 0, 0, &last, &err), SEAM_NOTFOUND);
    assert_int_equal(seam_journal_wait(j, id, 0, 1, &last, &err), SEAM_NOTFOUND);
    assert_int_equal(last, 99);
    journal_append(j, id, "1");
    ok(seam_journal_wait(j, id, 0, 0, &last, &err), err);
    assert_int_equal(last, 1);
    assert_int_equal(seam_journal_wait(j, 5, 0, 0, &last, &err), SEAM_E_INVALID);
    journal_close(j);
    store_close(&s);
}

int main(int argc, char **argv)
{
    engine = argc > 1 ? argv[1] : "mem";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams),
        cmocka_unit_test(append_and_read),
        cmocka_unit_test(snapshot_reader),
        cmocka_unit_test(crowd),
        cmocka_unit_test(crowd_under_limit),
        cmocka_unit_test(refused),
        cmocka_unit_test(reopened),
        cmocka_unit_test(prefixes),
        cmocka_unit_test(waits),
    };
    return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
