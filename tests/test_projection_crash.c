/* test_projection_crash.c - projections: each event once over restarts and kills, and positions
 * that do not match their journal.
 *
 * argv[1] names the journal's engine, argv[2] the projection's, or "same" for one db. */
#include "projection_support.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *journal_engine, *table_engine;

/* ---- exactly once ------------------------------------------------------------------------ */

struct counting {
    struct seam_projection *table;
    uint64_t number; /* stays until the commit */
};

/* Adds one to the counter that is stored: an event applied twice or skipped would show. */
static int project_count(void *ctx, const struct seam_event *event, struct seam_emit *out,
                         struct seam_err *err)
{
    struct counting *c = ctx;
    struct seam_pin pin = {0};
    uint64_t n = 0;
    (void)event;
    int rc = seam_projection_get(c->table, NULL, text("count"), &pin, err);
    if (rc == SEAM_OK)
        memcpy(&n, pin.value.ptr, sizeof(n));
    seam_unpin(&pin);
    if (rc != SEAM_OK && rc != SEAM_NOTFOUND)
        return rc;
    c->number = n + 1;
    struct seam_op op = {
        .kind = SEAM_PUT, .key = text("count"), .head = {&c->number, sizeof(c->number)}};
    return seam_emit_op(out, &op, err);
}

static void check_count(struct pair *p, struct counting *c)
{
    struct seam_err err;
    struct seam_position at;
    struct seam_pin pin = {0};
    struct seam_projection_options o = pair_options(p, project_count, c);
    o.batch = 1;
    c->table = table_open(p, "t", &o);
    seam_projection_position(c->table, &at);
    uint64_t n = 0;
    int rc = seam_projection_get(c->table, NULL, text("count"), &pin, &err);
    if (rc == SEAM_OK)
        memcpy(&n, pin.value.ptr, sizeof(n));
    seam_unpin(&pin);
    assert_int_equal(n, at.sequence);
}

static void restarts(void **state)
{
    (void)state;
    struct pair p;
    struct counting c;
    struct seam_position at;
    pair_open(&p, journal_engine, table_engine, "");
    for (int i = 0; i < 40; i++)
        pair_append(&p, text("e"));
    for (int i = 0; i < 6; i++) {
        check_count(&p, &c);
        table_catch_up(c.table, 7);
        seam_projection_position(c.table, &at);
        assert_int_equal(at.sequence, i < 5 ? (i + 1) * 7 : 40);
        table_close(c.table);
        pair_reopen(&p);
    }
    pair_close(&p);
}

/* The child: appends and applies in turn, and tells each time, until it is killed. */
static int work_until_killed(const char *journal_dir, const char *table_dir)
{
    struct pair p = {.same = strcmp(table_engine, "same") == 0};
    struct counting c;
    struct seam_slice event = text("e");
    store_attach(&p.of_journal, journal_engine, journal_dir);
    if (!p.same)
        store_attach(&p.of_table, table_engine, table_dir);
    pair_journal(&p);
    struct seam_projection_options o = pair_options(&p, project_count, &c);
    o.batch = 1;
    o.ack = SEAM_ACK_PROCESS;
    c.table = table_open(&p, "t", &o);
    for (;;) {
        if (seam_journal_append(p.j, p.stream, &event, 1, best_ack(p.of_journal.db), NULL, NULL) !=
                SEAM_OK ||
            seam_projection_catch_up(c.table, 0, NULL, NULL) != SEAM_OK ||
            write(STDOUT_FILENO, "x", 1) != 1)
            return 4;
    }
}

static void killed(void **state)
{
    (void)state;
    struct pair p;
    struct seam_err err;
    pair_open(&p, journal_engine, table_engine, "");
    if (p.of_journal.is_volatile || (!p.same && p.of_table.is_volatile)) {
        pair_close(&p);
        skip();
    }
    for (int round = 0; round < 4; round++) {
        struct counting c;
        char byte;
        ok(seam_journal_close(p.j, &err), err);
        ok(seam_close(p.of_journal.db, &err), err);
        if (!p.same)
            ok(seam_close(p.of_table.db, &err), err);
        const char *const args[] = {journal_engine, table_engine, p.of_journal.dir,
                                    p.same ? "" : p.of_table.dir, NULL};
        int out, child = spawn_child(args, &out);
        for (int i = 0; i < 15 + round * 3; i++)
            assert_int_equal(read(out, &byte, 1), 1);
        kill(child, SIGKILL);
        close(out);
        assert_int_equal(waitpid(child, NULL, 0), child);
        ok(seam_open(p.of_journal.engine, p.of_journal.dir, &p.of_journal.options, &p.of_journal.db,
                     &err),
           err);
        if (!p.same)
            ok(seam_open(p.of_table.engine, p.of_table.dir, &p.of_table.options, &p.of_table.db,
                         &err),
               err);
        pair_journal(&p);
        check_count(&p, &c);
        table_catch_up(c.table, 0);
        table_close(c.table);
        check_count(&p, &c);
        table_close(c.table);
    }
    pair_close(&p);
}

/* ---- positions that do not match --------------------------------------------------------- */

static int same_random(void *ctx, void *buf, size_t len)
{
    (void)ctx;
    memset(buf, 0x42, len);
    return 0;
}

/* The journal is another one that has the same id: as if a copy had been put back. */
static void open_twin(struct store *s, struct seam_platform *os, const char *const *events,
                      size_t n, struct seam_journal **ret)
{
    struct seam_err err;
    struct seam_journal_options o = {.platform = os};
    uint32_t id;
    store_open(s, "", journal_engine, NULL);
    ok(seam_journal_open(s->db, &o, ret, &err), err);
    ok(seam_journal_stream(*ret, text("s"), true, &id, &err), err);
    for (size_t i = 0; i < n; i++) {
        struct seam_slice event = text(events[i]);
        ok(seam_journal_append(*ret, id, &event, 1, best_ack(s->db), NULL, &err), err);
    }
}

static void close_twin(struct store *s, struct seam_journal *j)
{
    struct seam_err err;
    ok(seam_journal_close(j, &err), err);
    store_close(s);
}

static void mismatches(void **state)
{
    (void)state;
    static const char *const events[] = {"+a=1", "+b=2", "+c=3"};
    static const char *const others[] = {"+a=1", "+b=2", "+d=4"};
    struct store one, two, three, of_table;
    struct seam_journal *j, *shorter, *other;
    struct seam_err err;
    struct seam_platform os = *seam_platform_system();
    os.random = same_random;
    open_twin(&one, &os, events, 3, &j);
    open_twin(&two, &os, events, 2, &shorter);
    open_twin(&three, &os, others, 3, &other);
    store_open(&of_table, "", strcmp(table_engine, "same") == 0 ? journal_engine : table_engine,
               NULL);
    struct seam_projection_options o = {.journal = j, .stream = text("s"), .projector = project};
    struct seam_projection *t = NULL;
    ok(seam_projection_open(of_table.db, text("t"), &o, &t, &err), err);
    assert_int_equal(table_catch_up(t, 0), 3);
    table_close(t);

    o.journal = shorter;
    assert_int_equal(seam_projection_open(of_table.db, text("t"), &o, &t, &err), SEAM_E_MISMATCH);
    assert_non_null(strstr(err.text, "has not reached"));
    o.journal = other;
    assert_int_equal(seam_projection_open(of_table.db, text("t"), &o, &t, &err), SEAM_E_MISMATCH);
    assert_non_null(strstr(err.text, "another event"));
    o.stream = text("r");
    assert_int_equal(seam_projection_open(of_table.db, text("t"), &o, &t, &err), SEAM_E_MISMATCH);
    assert_non_null(strstr(err.text, "another journal or stream"));
    /* Unfed it can be read, but not fed. */
    ok(seam_projection_open(of_table.db, text("t"), NULL, &t, &err), err);
    table_expect(t, NULL, "c", "3");
    assert_int_equal(seam_projection_catch_up(t, 0, NULL, &err), SEAM_E_INVALID);
    table_close(t);
    /* Rebuilt, it is the other's. */
    o.stream = text("s");
    o.discard = true;
    ok(seam_projection_open(of_table.db, text("t"), &o, &t, &err), err);
    assert_int_equal(table_count(t), 0);
    assert_int_equal(table_catch_up(t, 0), 3);
    table_expect(t, NULL, "c", NULL);
    table_expect(t, NULL, "d", "4");
    table_close(t);
    o.discard = false;
    ok(seam_projection_open(of_table.db, text("t"), &o, &t, &err), err);
    assert_int_equal(table_catch_up(t, 0), 0);
    table_close(t);
    store_close(&of_table);
    close_twin(&one, j);
    close_twin(&two, shorter);
    close_twin(&three, other);
}

/* A discard leaves no key of the old table, and none of its neighbours' is touched. */
static void discards(void **state)
{
    (void)state;
    struct pair p;
    struct seam_err err;
    struct seam_slice none = {NULL, 0};
    struct seam_cursor *c;
    pair_open(&p, journal_engine, table_engine, "");
    append_numbers(&p);
    struct seam_projection_options o = pair_options(&p, project_numbers, NULL);
    struct seam_projection *t = table_open(&p, "t", &o), *u = table_open(&p, "u", &o);
    table_catch_up(t, 0);
    table_catch_up(u, 0);
    table_close(t);
    o.discard = true;
    t = table_open(&p, "t", &o);
    size_t n = 0;
    ok(seam_cursor_open(p.db, NULL, text("P\x01tT"), text("P\x01tU"), &c, &err), err);
    while (seam_cursor_move(c, SEAM_NEXT, none, NULL, &err) == SEAM_OK)
        n++;
    seam_cursor_close(c);
    assert_int_equal(n, 0);
    check_numbers(u, NUMBERS);
    assert_int_equal(table_catch_up(t, 0), NUMBERS);
    check_numbers(t, NUMBERS);
    table_close(t);
    table_close(u);
    pair_close(&p);
}

static void bad_calls(void **state)
{
    (void)state;
    struct pair p;
    struct seam_err err;
    struct seam_projection *t;
    char name[SEAM_PROJECTION_NAME_MAX + 1] = {0};
    pair_open(&p, journal_engine, table_engine, "");
    struct seam_projection_options o = {.journal = p.j, .stream = text("s")};
    assert_int_equal(seam_projection_open(p.db, text("t"), &o, &t, &err), SEAM_E_INVALID);
    o.projector = project;
    assert_int_equal(seam_projection_open(p.db, seam_bytes(name, sizeof(name)), &o, &t, &err),
                     SEAM_E_INVALID);
    assert_int_equal(seam_projection_open(p.db, seam_bytes(name, 0), &o, &t, &err), SEAM_E_INVALID);
    o.stream = seam_bytes(NULL, 0);
    assert_int_equal(seam_projection_open(p.db, text("t"), &o, &t, &err), SEAM_E_INVALID);
    /* Its record damaged, and lost. */
    o.stream = text("s");
    t = table_open(&p, "t", &o);
    pair_append(&p, text("+a=1"));
    table_catch_up(t, 0);
    table_close(t);
    struct raw_key meta = {{'P', 1, 't', 'M'}, 4};
    uint8_t buf[512];
    size_t len = raw_get(p.db, meta, buf, sizeof(buf));
    buf[40] ^= 1;
    raw_put(p.db, meta, buf, len);
    assert_int_equal(seam_projection_open(p.db, text("t"), &o, &t, &err), SEAM_E_CORRUPT);
    raw_delete(p.db, meta);
    assert_int_equal(seam_projection_open(p.db, text("t"), &o, &t, &err), SEAM_E_CORRUPT);
    o.discard = true;
    t = table_open(&p, "t", &o);
    assert_int_equal(table_catch_up(t, 0), 1);
    table_expect(t, NULL, "a", "1");
    table_close(t);
    pair_close(&p);
}

int main(int argc, char **argv)
{
    journal_engine = argc > 1 ? argv[1] : "mem";
    table_engine = argc > 2 ? argv[2] : "same";
    if (strcmp(argv[0], "child") == 0 && argc > 4)
        return work_until_killed(argv[3], argv[4]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restarts), cmocka_unit_test(killed),    cmocka_unit_test(mismatches),
        cmocka_unit_test(discards), cmocka_unit_test(bad_calls),
    };
    return cmocka_run_group_tests_name("projection_crash", tests, NULL, NULL);
}
