/* test_journal_damage.c - the journal on one engine: bytes changed behind its back, and its process
 * killed.
 *
 * argv[1] names the engine. The same tests hold for each. */
#include "seam_support.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *engine;

/* ---- damage ------------------------------------------------------------------------------ */

struct damage {
    const char *what;
    void (*do_it)(struct seam_db *db);
    const char *text; /* in the error */
    bool at_open;     /* found when the journal is opened; else when it is read */
};

static void flip(struct seam_db *db, struct raw_key key, size_t at)
{
    uint8_t buf[4096];
    size_t len = raw_get(db, key, buf, sizeof(buf));
    buf[at < len ? at : len - 1] ^= 0x10;
    raw_put(db, key, buf, len);
}

static void copy(struct seam_db *db, struct raw_key from, struct raw_key to)
{
    uint8_t buf[4096];
    size_t len = raw_get(db, from, buf, sizeof(buf));
    raw_put(db, to, buf, len);
}

static void flip_payload(struct seam_db *db)
{
    flip(db, raw_event(1, 3), 50);
}
static void flip_time(struct seam_db *db)
{
    flip(db, raw_event(1, 3), 17);
}
static void flip_link(struct seam_db *db)
{
    flip(db, raw_event(1, 3), 37);
}
static void cut_short(struct seam_db *db)
{
    raw_put(db, raw_event(1, 3), "abc", 3);
}
static void lose_middle(struct seam_db *db)
{
    raw_delete(db, raw_event(1, 3));
}
static void lose_first(struct seam_db *db)
{
    raw_delete(db, raw_event(1, 1));
}
static void lose_last(struct seam_db *db)
{
    raw_delete(db, raw_event(1, 5));
}
static void copy_other(struct seam_db *db)
{
    copy(db, raw_event(1, 2), raw_event(1, 3));
}
static void copy_stream(struct seam_db *db)
{
    copy(db, raw_event(2, 3), raw_event(1, 3));
}
static void flip_last(struct seam_db *db)
{
    flip(db, raw_event(1, 5), 50);
}
static void lose_group(struct seam_db *db)
{
    raw_delete(db, raw_group(10));
}
static void lose_old_end(struct seam_db *db)
{
    raw_delete(db, raw_event(2, 5));
}
static void flip_group(struct seam_db *db)
{
    flip(db, raw_group(10), 20);
}
static void grow_end(struct seam_db *db)
{
    copy(db, raw_event(1, 5), raw_event(1, 6));
}
static void lose_own(struct seam_db *db)
{
    raw_delete(db, (struct raw_key){{'J'}, 1});
}
static void flip_own(struct seam_db *db)
{
    flip(db, (struct raw_key){{'J'}, 1}, 20);
}
static void lose_name(struct seam_db *db)
{
    raw_delete(db, (struct raw_key){{'C', 'a'}, 2});
}
static void flip_name(struct seam_db *db)
{
    flip(db, (struct raw_key){{'C', 'a'}, 2}, 9);
}
static void copy_name(struct seam_db *db)
{
    copy(db, (struct raw_key){{'C', 'a'}, 2}, (struct raw_key){{'C', 'q'}, 2});
}

static const struct damage damages[] = {
    {"payload", flip_payload, "stream 1, sequence 3", false},
    {"time", flip_time, "stream 1, sequence 3", false},
    {"link", flip_link, "stream 1, sequence 3", false},
    {"cut", cut_short, "stream 1, sequence 3", false},
    {"middle lost", lose_middle, "stream 1, sequence 3", false},
    {"first lost", lose_first, "stream 1, sequence 1", false},
    {"last lost", lose_last, "stream 1, sequence 4", true},
    {"another sequence", copy_other, "stream 1, sequence 3", false},
    {"another stream", copy_stream, "stream 1, sequence 3", false},
    {"last", flip_last, "stream 1, sequence 5", true},
    {"newest group lost", lose_group, "stream 1, sequence 5", true},
    {"end of a stream of an older group lost", lose_old_end, "stream 2, sequence 4", true},
    {"newest group", flip_group, "group record 10", true},
    {"an event more", grow_end, "stream 1, sequence 6", true},
    {"own record lost", lose_own, "record is missing", true},
    {"own record", flip_own, "record is damaged", true},
    {"name lost", lose_name, "catalogue", true},
    {"name", flip_name, "catalogue", true},
    {"name twice", copy_name, "catalogue", true},
};

/* Two streams of five events each, one event to a group, in turn: stream 1 is in the newest. */
static void damaged(void **state)
{
    (void)state;
    for (size_t d = 0; d < sizeof(damages) / sizeof(damages[0]); d++) {
        const struct damage *damage = &damages[d];
        struct store s;
        struct seam_journal *j = NULL;
        struct seam_err err;
        store_open(&s, "", engine, NULL);
        journal_open(&s, &j);
        uint32_t a = journal_stream(j, "a"), b = journal_stream(j, "b");
        for (int i = 0; i < 5; i++) {
            journal_append(j, b, "event of b");
            journal_append(j, a, "event of a");
        }
        journal_close(j);
        damage->do_it(s.db);
        store_reopen(&s);
        int rc = seam_journal_open(s.db, NULL, &j, &err);
        if (!damage->at_open) {
            ok(rc, err);
            rc = (int)journal_read_all(j, a, 1, &err);
            journal_close(j);
        }
        if (rc != SEAM_E_CORRUPT || strstr(err.text, damage->text) == NULL)
            print_message("%s: %s: %s\n", damage->what, seam_code_name(rc),
                          rc < 0 ? err.text : "-");
        assert_int_equal(rc, SEAM_E_CORRUPT);
        assert_non_null(strstr(err.text, damage->text));
        store_close(&s);
    }
}

/* A reader that met damage stays where it is, and goes on once it is repaired. */
static void damage_repaired(void **state)
{
    (void)state;
    struct store s;
    struct seam_journal *j;
    struct seam_err err;
    struct seam_journal_reader *r;
    struct seam_event event;
    store_open(&s, "", engine, NULL);
    journal_open(&s, &j);
    uint32_t id = journal_stream(j, "a");
    journal_append(j, id, "one");
    journal_append(j, id, "two");
    journal_append(j, id, "three");
    flip(s.db, raw_event(1, 2), 45);
    ok(seam_journal_reader_open(j, id, 1, NULL, &r, &err), err);
    ok(seam_journal_reader_next(r, &event, &err), err);
    assert_int_equal(seam_journal_reader_next(r, &event, &err), SEAM_E_CORRUPT);
    assert_int_equal(seam_journal_reader_next(r, &event, &err), SEAM_E_CORRUPT);
    flip(s.db, raw_event(1, 2), 45);
    ok(seam_journal_reader_next(r, &event, &err), err);
    assert_int_equal(event.sequence, 2);
    ok(seam_journal_reader_next(r, &event, &err), err);
    assert_int_equal(event.sequence, 3);
    seam_journal_reader_close(r);
    journal_close(j);
    store_close(&s);
}

/* ---- killed ------------------------------------------------------------------------------ */

/* The child: appends at PROCESS and tells each acked sequence, until it is killed. */
static int append_until_killed(const char *dir)
{
    struct store s;
    struct seam_journal *j;
    store_attach(&s, engine, dir);
    journal_open(&s, &j);
    uint32_t id = journal_stream(j, "a");
    for (;;) {
        struct seam_slice events[2] = {text("first"), text("second")};
        struct seam_append ret;
        if (seam_journal_append(j, id, events, 2, SEAM_ACK_PROCESS, &ret, NULL) != SEAM_OK ||
            write(STDOUT_FILENO, &ret.last, sizeof(ret.last)) != sizeof(ret.last))
            return 4;
    }
}

static void killed(void **state)
{
    (void)state;
    struct store s;
    struct seam_err err;
    uint64_t before = 0;
    store_open(&s, "", engine, NULL);
    if (s.is_volatile) {
        store_close(&s);
        skip();
    }
    ok(seam_close(s.db, &err), err);
    for (int round = 0; round < 4; round++) {
        const char *const args[] = {engine, s.dir, NULL};
        int out, child = spawn_child(args, &out);
        uint64_t acked = 0, got;
        for (int i = 0; i < 20 + round * 7; i++) {
            assert_int_equal(read(out, &got, sizeof(got)), sizeof(got));
            acked = got;
        }
        kill(child, SIGKILL);
        while (read(out, &got, sizeof(got)) == (ssize_t)sizeof(got))
            acked = got;
        close(out);
        assert_int_equal(waitpid(child, NULL, 0), child);
        struct seam_journal *j;
        ok(seam_open(s.engine, s.dir, &s.options, &s.db, &err), err);
        journal_open(&s, &j);
        uint64_t last = journal_last(j, 1);
        assert_true(last >= acked && acked > before);
        assert_int_equal(last % 2, 0);
        assert_int_equal(journal_read_all(j, 1, 1, &err), last);
        before = last;
        journal_close(j);
        ok(seam_close(s.db, &err), err);
    }
    remove_tree(s.dir);
}

int main(int argc, char **argv)
{
    engine = argc > 1 ? argv[1] : "mem";
    if (strcmp(argv[0], "child") == 0 && argc > 2)
        return append_until_killed(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged),
        cmocka_unit_test(damage_repaired),
        cmocka_unit_test(killed),
    };
    return cmocka_run_group_tests_name("journal_damage", tests, NULL, NULL);
}
