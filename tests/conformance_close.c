/* conformance_close.c - close with open handles, stats, descriptions, the engine's own threads, and
 * what fork() does. */
#include "conformance.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static struct seam_db *db;

static int setup(void **state)
{
    (void)state;
    db = support_open(support_dir());
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    support_close(db);
    db = NULL;
    return 0;
}

static void test_close_with_handles(void **state)
{
    struct seam_op op = op_put(LIT("x"), LIT("y"));
    struct seam_ticket *ticket;
    struct seam_snap *snaps[2];
    struct seam_pin pins[3];
    struct seam_cursor *cursors[4];
    struct seam_stats stats;
    struct seam_err err = {0};

    (void)state;
    put_ok(db, LIT("k"), LIT("v"));
    expect_ok(seam_prepare(db, &op, 1, SEAM_ACK_NONE, &ticket, NULL), NULL);
    for (int i = 0; i < 2; i++)
        expect_ok(seam_snap_open(db, &snaps[i], NULL), NULL);
    for (int i = 0; i < 3; i++)
        expect_ok(seam_get(db, i ? snaps[0] : NULL, LIT("k"), &pins[i], NULL), NULL);
    for (int i = 0; i < 4; i++)
        expect_ok(seam_cursor_open(db, i ? snaps[1] : NULL, NONE, NONE, &cursors[i], NULL), NULL);
    expect_code(seam_close(db, &err), SEAM_E_BUSY, &err);
    assert_non_null(strstr(err.text, "1 ticket"));
    assert_non_null(strstr(err.text, "2 snapshot"));
    assert_non_null(strstr(err.text, "3 pin"));
    assert_non_null(strstr(err.text, "4 cursor"));
    expect_ok(seam_db_stats(db, &stats, NULL), NULL);
    assert_int_equal(stats.tickets, 1);
    assert_int_equal(stats.snapshots, 2);
    assert_int_equal(stats.pins, 3);
    assert_int_equal(stats.cursors, 4);
    /* It stays open and works. */
    put_ok(db, LIT("k"), LIT("w"));
    for (int i = 0; i < 3; i++)
        expect_bytes(pins[i].value, LIT("v"));
    expect_ok(seam_cursor_move(cursors[0], SEAM_NEXT, NONE, NULL, NULL), NULL);
    for (int i = 0; i < 4; i++) {
        seam_cursor_close(cursors[i]);
        expect_code(seam_close(db, NULL), SEAM_E_BUSY, NULL);
    }
    for (int i = 0; i < 3; i++) {
        seam_unpin(&pins[i]);
        expect_code(seam_close(db, NULL), SEAM_E_BUSY, NULL);
    }
    for (int i = 0; i < 2; i++) {
        seam_snap_close(snaps[i]);
        expect_code(seam_close(db, NULL), SEAM_E_BUSY, NULL);
    }
    expect_ok(seam_commit(ticket, NULL, NULL), NULL);
    expect_holds(db, NULL, LIT("x"), LIT("y"));
    expect_ok(seam_close(NULL, NULL), NULL);
}

/* ---- stats --------------------------------------------------------------------------------- */

static void test_stats(void **state)
{
    struct seam_stats before, after, empty;

    (void)state;
    expect_ok(seam_db_stats(db, &before, NULL), NULL);
    assert_int_equal(before.commits, 0);
    assert_int_equal(before.tickets, 0);
    assert_int_equal(before.snapshots, 0);
    for (int i = 0; i < 10; i++) {
        struct seam_op ops[2] = {op_put2(seam_bytes(&i, sizeof(i)), LIT("ab"), LIT("cde")),
                                 op_put(LIT("same"), LIT("12345678"))};
        write_ok(db, ops, 2);
    }
    write_ok(db, (struct seam_op[]){op_delete(LIT("same"))}, 1);
    expect_code(seam_write(db, NULL, 0, SEAM_ACK_NONE, NULL, NULL), SEAM_E_INVALID, NULL);
    expect_ok(seam_db_stats(db, &after, NULL), NULL);
    assert_int_equal(after.commits, 11);
    assert_int_equal(after.ops, 21);
    assert_int_equal(after.user_bytes, 10 * (4 + 5 + 4 + 8) + 4);
    if (after.keys != -1)
        assert_int_equal(after.keys, 10);
    if (after.live_bytes != -1)
        assert_int_equal(after.live_bytes, 10 * (4 + 5));
    if (after.groups != -1)
        assert_in_range(after.groups, 1, 11 + (before.groups > 0 ? before.groups : 0));
    write_ok(db, (struct seam_op[]){op_range(LIT("\0"), NONE)}, 1);
    expect_ok(seam_db_stats(db, &empty, NULL), NULL);
    if (empty.keys != -1)
        assert_int_equal(empty.keys, 0);
    if (empty.live_bytes != -1)
        assert_int_equal(empty.live_bytes, 0);
#define CHECK(name, text) assert_true(empty.name >= -1);
    SEAM_STATS(CHECK)
#undef CHECK
}

static void test_describe(void **state)
{
    char buf[8];
    size_t want = seam_db_describe(db, NULL, 0);
    char *all = malloc(want + 1);

    (void)state;
    assert_non_null(all);
    memset(buf, 'x', sizeof(buf));
    (void)seam_db_describe(db, buf, 4);
    assert_true(memchr(buf, 0, 4) != NULL);
    assert_int_equal(buf[4], 'x');
    (void)seam_db_describe(db, all, want + 1);
    assert_true(memchr(all, 0, want + 1) != NULL);
    free(all);
}

static void test_about(void **state)
{
    static const uint8_t zero[16];
    struct seam_limits limits;

    (void)state;
    assert_non_null(strstr(seam_db_engine(db), support_engine()));
    seam_db_limits(db, &limits);
    assert_true(limits.key >= 64);
    assert_true(limits.value >= 1024);
    assert_true(limits.ops >= 1);
    assert_true(limits.tickets >= 1 && limits.tickets <= 1024);
    assert_true(limits.pins >= 1 && limits.pins < UINT64_MAX); /* the library counts them */
    assert_true(limits.best <= SEAM_ACK_POWER);
    assert_int_equal(limits.caps & ~(uint32_t)15, 0);
    if (support_volatile()) {
        assert_int_equal(seam_db_epoch(db), 0);
    } else {
        assert_true(seam_db_epoch(db) > 0);
        assert_memory_not_equal(seam_db_uuid(db), zero, 16);
    }
    assert_false(seam_db_poisoned(db));
}

/* ---- threads ------------------------------------------------------------------------------- */

#if defined(__linux__) && !defined(SEAM_SANITIZED)
/* The signals that a thread of this process has blocked, as /proc tells; ~0 if it has ended. */
static unsigned long long blocked_in(const char *thread)
{
    char line[256];
    unsigned long long mask = ~0ull;
    FILE *in = fopen(support_text("/proc/self/task/%s/status", thread), "r");

    if (!in)
        return mask;
    while (fgets(line, sizeof(line), in))
        (void)sscanf(line, "SigBlk: %llx", &mask);
    (void)fclose(in);
    return mask;
}

static void test_signals(void **state)
{
    static const int some[] = {SIGTERM, SIGINT, SIGHUP, SIGALRM, SIGUSR1, SIGCHLD};
    const struct dirent *entry;
    DIR *dir;

    (void)state;
    put_ok(db, LIT("k"), LIT("v"));
    dir = opendir("/proc/self/task");
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.' ||
            strcmp(entry->d_name, support_text("%ld", (long)getpid())) == 0)
            continue;
        for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++)
            if (!(blocked_in(entry->d_name) >> (some[i] - 1) & 1))
                fail_msg("thread %s of the engine takes signal %d", entry->d_name, some[i]);
    }
    (void)closedir(dir);
}
#else
static void test_signals(void **state)
{
    (void)state;
}
#endif

/* ---- fork ---------------------------------------------------------------------------------- */

struct handles {
    struct seam_ticket *ticket;
    struct seam_snap *snap;
    struct seam_cursor *cursor;
    struct seam_pin pin;
};

/* Runs in the child, which must not assert: returns the number of the first wrong answer. */
static int refused_in_child(struct handles *h)
{
    struct seam_op op = op_put(LIT("k"), LIT("child"));
    struct seam_slice s;
    struct seam_snap *snap;
    struct seam_cursor *cursor;
    struct seam_ticket *ticket;
    struct seam_stats stats;
    struct seam_pin pin;
    struct seam_err err = {0};
    int answers[] = {
        seam_write(db, &op, 1, SEAM_ACK_NONE, NULL, &err),
        seam_prepare(db, &op, 1, SEAM_ACK_NONE, &ticket, NULL),
        seam_sync(db, SEAM_ACK_NONE, NULL),
        seam_get(db, NULL, LIT("k"), &pin, NULL),
        seam_get(db, h->snap, LIT("k"), &pin, NULL),
        seam_floor(db, NULL, NONE, LIT("k"), &pin, NULL),
        seam_ceiling(db, h->snap, NONE, LIT("k"), &pin, NULL),
        seam_snap_open(db, &snap, NULL),
        seam_cursor_open(db, NULL, NONE, NONE, &cursor, NULL),
        seam_cursor_move(h->cursor, SEAM_NEXT, NONE, &s, NULL),
        seam_cursor_value(h->cursor, &s, NULL),
        seam_db_stats(db, &stats, NULL),
        seam_commit(h->ticket, NULL, NULL),
        seam_close(db, NULL),
    };

    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
        if (answers[i] != SEAM_E_FORKED)
            return (int)i + 1;
    if (err.code != SEAM_E_FORKED || !err.text[0])
        return 100;
    seam_unpin(&h->pin);
    seam_cursor_close(h->cursor);
    seam_snap_close(h->snap);
    seam_close(db, NULL);
    return 0;
}

static void test_fork(void **state)
{
    struct seam_op op = op_put(LIT("x"), LIT("y"));
    struct handles h;
    int status = -1;
    pid_t child;

    (void)state;
    put_ok(db, LIT("k"), LIT("v"));
    expect_ok(seam_prepare(db, &op, 1, SEAM_ACK_NONE, &h.ticket, NULL), NULL);
    expect_ok(seam_snap_open(db, &h.snap, NULL), NULL);
    expect_ok(seam_cursor_open(db, NULL, NONE, NONE, &h.cursor, NULL), NULL);
    expect_ok(seam_get(db, NULL, LIT("k"), &h.pin, NULL), NULL);
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(refused_in_child(&h));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    /* The parent's handles are as they were. */
    expect_ok(seam_commit(h.ticket, NULL, NULL), NULL);
    expect_bytes(h.pin.value, LIT("v"));
    expect_ok(seam_cursor_move(h.cursor, SEAM_NEXT, NONE, NULL, NULL), NULL);
    seam_unpin(&h.pin);
    seam_cursor_close(h.cursor);
    seam_snap_close(h.snap);
    expect_holds(db, NULL, LIT("x"), LIT("y"));
    expect_holds(db, NULL, LIT("k"), LIT("v"));
}

/* Lets the parent know, waits for its word, and opens the store that the parent has closed. */
static int open_in_child(const char *dir, int from, int to, bool close_first)
{
    struct seam_options o = {.mode = SEAM_OPEN_EXISTING};
    struct seam_db *own = NULL;
    char c;

    if (close_first && seam_close(db, NULL) != SEAM_E_FORKED)
        return 1;
    if (write(to, "r", 1) != 1 || read(from, &c, 1) != 1)
        return 2;
#ifdef SEAM_SANITIZED
    return 0; /* thread sanitizer refuses new threads in a forked child */
#endif
    if (strcmp(support_engine(), "rocksdb") == 0) /* its table of open stores was copied by the fork */
        return 0;
    if (seam_open(support_spec(), dir, &o, &own, NULL) != SEAM_OK)
        return 3;
    return seam_close(own, NULL) == SEAM_OK ? 0 : 4;
}

/* A child that lives on does not keep the store locked: the parent closes it and opens it again, then
 * the child opens it. */
static void test_fork_and_lock(void **state)
{
    char dir[512], c;
    int to_child[2], to_parent[2], status = -1;

    (void)state;
    if (support_volatile())
        return;
    for (int close_first = 0; close_first < 2; close_first++) {
        struct seam_options o = {.mode = SEAM_OPEN_CREATE};
        struct seam_db *again = NULL;
        snprintf(dir, sizeof(dir), "%s", support_dir());
        support_close(db);
        db = support_open_with(support_spec(), dir, &o);
        assert_int_equal(pipe(to_child), 0);
        assert_int_equal(pipe(to_parent), 0);
        fflush(NULL);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            (void)close(to_child[1]); /* so that it ends with the parent */
            _exit(open_in_child(dir, to_child[0], to_parent[1], close_first));
        }
        assert_int_equal(read(to_parent[0], &c, 1), 1);
        /* What the child let go of was its own: the parent's lock holds. */
        expect_code(seam_open(support_spec(), dir, &o, &again, NULL), SEAM_E_BUSY, NULL);
        support_close(db);
        db = support_open_with(support_spec(), dir, &o);
        support_close(db);
        assert_int_equal(write(to_child[1], "g", 1), 1);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        for (int i = 0; i < 2; i++) {
            (void)close(to_child[i]);
            (void)close(to_parent[i]);
        }
        db = support_open_with(support_spec(), dir, &o);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int conformance_close(void)
{
    const struct CMUnitTest close_and_stats[] = {
        TEST(test_close_with_handles), TEST(test_stats), TEST(test_describe),
        TEST(test_about),              TEST(test_fork),  TEST(test_fork_and_lock),
        TEST(test_signals),
    };
    return cmocka_run_group_tests(close_and_stats, NULL, NULL);
}
