/* test_rocksdb.c - the RocksDB engine: its error table row by row, batches and range deletes
 * without an end, what open leaves on disk, and what prepare refuses. */
#include "errmap.h"
#include "rdb.h"
#include "test_rocksdb_support.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the error table ----------------------------------------------------------------------- */

/* Texts as RocksDB 7.8.3 gives them, one or more for each row. */
static const struct {
    const char *text;
    int code, os_errno;
} texts[] = {
    {"Corruption: block checksum mismatch: stored = 1, computed = 2, type = 4  in /d/000009.sst "
     "offset 0 size 99", SEAM_E_CORRUPT, 0},
    {"Corruption: CURRENT file corrupted", SEAM_E_CORRUPT, 0},
    {"Corruption: IO error: No such file or directory: while stat a file for size: "
     "/d/000012.sst: No such file or directory  The file /d/MANIFEST-5 may be corrupted.",
     SEAM_E_CORRUPT, 0},
    {"IO error: No space left on device: While appending to file: /d/000004.log: No space left on "
     "device", SEAM_E_NO_SPACE, ENOSPC},
    {"IO error: While fsync: /d/1.sst: Disk quota exceeded", SEAM_E_NO_SPACE, EDQUOT},
    {"IO error: While appending to file: /d/1.log: File too large", SEAM_E_NO_SPACE, EFBIG},
    {"IO error: Space limit reached: Max allowed space was reached", SEAM_E_NO_SPACE, 0},
    {"IO error: While mkdir: /d: Cannot allocate memory", SEAM_E_NOMEM, ENOMEM},
    {"Operation aborted: Memory limit reached", SEAM_E_NOMEM, 0},
    {"IO error: While opening a file for sequentially reading: /d/CURRENT: Permission denied",
     SEAM_E_PERMISSION, EACCES},
    {"IO error: While lock file: /d/LOCK: Permission denied", SEAM_E_PERMISSION, EACCES},
    {"IO error: While unlink() file: /d/1.sst: Operation not permitted", SEAM_E_PERMISSION, EPERM},
    {"IO error: While open a file for appending: /d/1.log: Read-only file system",
     SEAM_E_READ_ONLY, EROFS},
    {"IO error: While open a file for random read: /d/1.sst: Too many open files", SEAM_E_IO,
     EMFILE},
    {"IO error: While fdatasync: /d/1.log: Stale file handle", SEAM_E_IO, ESTALE},
    {"IO error: While fdatasync: /d/1.log: Input/output error", SEAM_E_IO, EIO},
    {"IO error: lock hold by current process, acquire time 1 acquiring thread 2: /d/LOCK: No "
     "locks available", SEAM_E_BUSY, 0},
    {"IO error: While lock file: /d/LOCK: Resource temporarily unavailable", SEAM_E_BUSY, EAGAIN},
    {"IO error: lock /d/LOCK: No locks available", SEAM_E_IO, ENOLCK},
    {"Invalid argument: /d/: exists (error_if_exists is true)", SEAM_E_EXISTS, 0},
    {"Invalid argument: /d/CURRENT: does not exist (create_if_missing is false)", SEAM_E_NO_STORE,
     0},
    {"IO error: No such file or directory: While opening a file for sequentially reading: "
     "/d/MANIFEST-000005: No such file or directory", SEAM_E_CORRUPT, ENOENT},
    {"IO error: While rename a file to /d/CURRENT: Device or resource busy", SEAM_E_IO, 0},
    {"NotFound: /d/OPTIONS-000007", SEAM_E_CORRUPT, 0},
    {"Not implemented: Not supported operation in read only mode.", SEAM_E_UNSUPPORTED, 0},
    {"Invalid argument: Compression type ZSTD is not linked with the binary.", SEAM_E_INVALID, 0},
    {"Result incomplete: Write stall", SEAM_E_BUSY, 0},
    {"Operation timed out: Timeout waiting to lock key", SEAM_E_BUSY, 0},
    {"Resource busy: ", SEAM_E_BUSY, 0},
    {"Operation failed. Try again.: Iterator moved", SEAM_E_BUSY, 0},
    {"Shutdown in progress: ", SEAM_E_IO, 0},
    {"Operation aborted: Column family dropped", SEAM_E_IO, 0},
    {"Operation expired: ", SEAM_E_IO, 0},
    {"", SEAM_E_IO, 0},
};

static void each_row_of_the_error_table(void **state)
{
    enum { MOST = 64 };
    bool hit[MOST] = {false};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        int os_errno = -1;
        assert_int_equal(seam_rocksdb_errcode(texts[i].text, &os_errno), texts[i].code);
        assert_int_equal(os_errno, texts[i].os_errno);
        size_t row = 0;
        while (seam_rocksdb_errrows[row].needle &&
               !strstr(texts[i].text, seam_rocksdb_errrows[row].needle))
            row++;
        assert_true(row < MOST);
        hit[row] = true;
        if (seam_rocksdb_errrows[row].os_errno) /* the row's words are the system's */
            assert_true(strstr(seam_rocksdb_errrows[row].needle,
                               strerror(seam_rocksdb_errrows[row].os_errno)) ||
                        strstr(seam_rocksdb_errrows[row].needle, "lock file"));
    }
    size_t row = 0;
    do {
        if (!hit[row])
            fail_msg("no text for the row '%s'", seam_rocksdb_errrows[row].needle);
    } while (seam_rocksdb_errrows[row++].needle);
}

static void damage(struct fixture *f, const char *name, off_t at, const char *bytes, size_t len)
{
    int fd = openat(f->dir, name, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, len, at), (ssize_t)len);
    close(fd);
}

static void errors_as_rocksdb_gives_them(void **state)
{
    struct fixture *f = *state;
    struct seam_engine *open_one = f->e;
    assert_int_equal(fixture_open(f, false, false, NULL), SEAM_E_BUSY);
    assert_int_equal(fixture_open(f, true, false, NULL), SEAM_E_BUSY);
    f->e = open_one;
    assert_int_equal(fixture_close(f), SEAM_OK);
    assert_int_equal(fixture_open(f, true, false, NULL), SEAM_E_EXISTS);
    assert_non_null(strstr(f->err.text, "rocksdb: open: "));

    char current[64] = "";
    int fd = openat(f->dir, "CURRENT", O_RDONLY);
    ssize_t len = read(fd, current, sizeof current);
    close(fd);
    assert_true(len > 0);
    damage(f, "CURRENT", 0, "MANIFEST-9", 10);
    assert_int_equal(fixture_open(f, false, false, NULL), SEAM_E_CORRUPT);
    assert_int_equal(fixture_open(f, false, true, NULL), SEAM_E_CORRUPT);
    damage(f, "CURRENT", 0, current, (size_t)len);
    assert_int_equal(renameat(f->dir, "CURRENT", f->dir, "away"), 0);
    uint64_t before = fingerprint(f);
    assert_int_equal(fixture_open(f, false, false, NULL), SEAM_E_CORRUPT);
    assert_non_null(strstr(f->err.text, "CURRENT is missing"));
    assert_int_equal(fingerprint(f), before);
    assert_int_equal(renameat(f->dir, "away", f->dir, "CURRENT"), 0);
    assert_int_equal(fixture_open(f, false, false, NULL), SEAM_OK);
}

/* ---- batches -------------------------------------------------------------------------------- */

static void values_in_two_parts(void **state)
{
    struct fixture *f = *state;
    char buf[32];
    struct seam_op ops[] = {
        {SEAM_PUT, S("ab"), S("head"), S("body")},
        {SEAM_PUT, S("a"), S("head"), NONE},
        {SEAM_PUT, S("b"), NONE, S("body")},
        {SEAM_PUT, S("c"), NONE, NONE},
    };
    assert_int_equal(commit(f, ops, 4, SEAM_ACK_POWER, NULL), SEAM_OK);
    assert_int_equal(get(f, S("ab"), buf, sizeof buf), 8);
    assert_string_equal(buf, "headbody");
    assert_int_equal(get(f, S("a"), buf, sizeof buf), 4);
    assert_string_equal(buf, "head");
    assert_int_equal(get(f, S("b"), buf, sizeof buf), 4);
    assert_string_equal(buf, "body");
    assert_int_equal(get(f, S("c"), buf, sizeof buf), 0);
    assert_false(has(f, S("d")));
}

static void acks_and_places(void **state)
{
    struct fixture *f = *state;
    static const enum seam_ack given[] = {SEAM_ACK_PROCESS, SEAM_ACK_PROCESS, SEAM_ACK_POWER,
                                          SEAM_ACK_POWER};
    uint64_t last = 0;
    for (int ack = SEAM_ACK_NONE; ack <= SEAM_ACK_POWER; ack++) {
        struct seam_acked acked;
        struct seam_op ops[] = {put(S("k"), S("v")), put(S("l"), S("w"))};
        assert_int_equal(commit(f, ops, 2, (enum seam_ack)ack, &acked), SEAM_OK);
        assert_int_equal(acked.given, given[ack]);
        assert_true(acked.commit_no > last);
        last = acked.commit_no;
        assert_int_equal(seam_backend_rocksdb.sync(f->e, (enum seam_ack)ack, &f->err), SEAM_OK);
    }
}

enum { KEYS = 40, MODEL_OPS = 12 };

static uint64_t seed_of(void)
{
    const char *text = getenv("SEAM_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 0) : 20261201;
    print_message("SEAM_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

static uint32_t draw(uint64_t *seed, uint32_t below)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return (uint32_t)((*seed >> 20) % below);
}

/* 0xff repeated, and plain keys between. Key i < key i + 1. */
static struct seam_slice model_key(char buf[64], unsigned i)
{
    if (i < KEYS / 2) {
        snprintf(buf, 64, "k%02u", i);
        return seam_bytes(buf, 3);
    }
    memset(buf, 0xff, 64);
    return seam_bytes(buf, i - KEYS / 2 + 1);
}

static struct seam_op model_op(uint64_t *seed, char (*bufs)[64], int *model, int value, char *text)
{
    unsigned at = draw(seed, KEYS), end = at + 1 + draw(seed, KEYS - at);
    struct seam_slice key = model_key(bufs[0], at);
    switch (draw(seed, 6)) {
    case 0:
        model[at] = 0;
        return del(key);
    case 1:
        for (unsigned i = at; i < end; i++)
            model[i] = 0;
        if (end < KEYS)
            return del_range(key, model_key(bufs[1], end));
        return del_range(key, NONE);
    case 2:
        for (unsigned i = at; i < KEYS; i++)
            model[i] = 0;
        return del_range(key, NONE);
    default:
        model[at] = value;
        snprintf(text, 16, "%d", value);
        return put(key, seam_bytes(text, strlen(text)));
    }
}

static void model_check(struct fixture *f, const int *model)
{
    char buf[64], value[16];
    void *cursor;
    struct seam_slice key;
    assert_int_equal(seam_backend_rocksdb.cursor_open(f->e, NULL, NONE, NONE, &cursor, &f->err), 0);
    int rc = seam_backend_rocksdb.cursor_move(f->e, cursor, SEAM_FIRST, NONE, &key, &f->err);
    for (unsigned i = 0; i < KEYS; i++) {
        struct seam_slice want = model_key(buf, i);
        if (model[i] == 0) {
            assert_false(has(f, want));
            continue;
        }
        assert_true(get(f, want, value, sizeof value) > 0);
        assert_int_equal(strtol(value, NULL, 10), model[i]);
        assert_int_equal(rc, SEAM_OK);
        assert_int_equal(seam_compare(key, want), 0);
        rc = seam_backend_rocksdb.cursor_move(f->e, cursor, SEAM_NEXT, NONE, &key, &f->err);
    }
    assert_int_equal(rc, SEAM_NOTFOUND);
    seam_backend_rocksdb.cursor_close(f->e, cursor);
}

/* Ops act in order, the last wins, and ranges without an end reach the greatest key. */
static void ranges_in_batches_match_a_model(void **state)
{
    struct fixture *f = *state;
    static const char *const small[] = {"write_buffer=65536", "blob=1", "blob_min=1", NULL};
    int model[KEYS] = {0};
    uint64_t seed = seed_of();
    for (int round = 1; round <= 1500; round++) {
        struct seam_op ops[MODEL_OPS];
        char bufs[MODEL_OPS][2][64], texts_of[MODEL_OPS][16];
        size_t n = 1 + draw(&seed, MODEL_OPS);
        for (size_t i = 0; i < n; i++)
            ops[i] = model_op(&seed, bufs[i], model, round * 16 + (int)i + 1, texts_of[i]);
        assert_int_equal(commit(f, ops, n, SEAM_ACK_PROCESS, NULL), SEAM_OK);
        model_check(f, model);
        if (round % 250 == 0)
            assert_int_equal(fixture_reopen(f, round % 500 ? small : NULL), SEAM_OK);
    }
    model_check(f, model);
}

/* The longest key lies under the long end, and a commit carries that end once. */
static void a_range_without_end_reaches_the_longest_key(void **state)
{
    struct fixture *f = *state;
    char *longest = malloc(SEAM_ROCKSDB_KEY);
    memset(longest, 0xff, SEAM_ROCKSDB_KEY);
    struct seam_slice key = seam_bytes(longest, SEAM_ROCKSDB_KEY);
    struct seam_op first = put(key, S("v"));
    assert_int_equal(commit(f, &first, 1, SEAM_ACK_PROCESS, NULL), SEAM_OK);
    assert_true(has(f, key));
    struct seam_op range = del_range(S("\xff"), NONE);
    assert_int_equal(commit(f, &range, 1, SEAM_ACK_PROCESS, NULL), SEAM_OK);
    assert_false(has(f, key));
    struct seam_op *many = malloc(20000 * sizeof *many);
    for (size_t i = 0; i < 20000; i++)
        many[i] = i % 2 ? put(key, S("v")) : del_range(S("a"), NONE);
    assert_int_equal(commit(f, many, 20000, SEAM_ACK_PROCESS, NULL), SEAM_OK);
    assert_true(has(f, key));
    assert_int_equal(commit(f, many, 19999, SEAM_ACK_PROCESS, NULL), SEAM_OK);
    assert_false(has(f, key));
    free(many);
    free(longest);
}

/* ---- files ---------------------------------------------------------------------------------- */

/* In a process of its own, which ends as if killed. */
static int leave_in(const char *path)
{
    struct fixture *f = fixture_new(path);
    struct seam_op op = put(S("left"), S("in the log"));
    int rc = fixture_open(f, false, false, NULL);
    rc = rc == SEAM_OK ? commit(f, &op, 1, SEAM_ACK_PROCESS, NULL) : rc;
    _exit(rc == SEAM_OK ? 0 : 1);
}

static void leave_a_log(struct fixture *f)
{
    assert_int_equal(fixture_close(f), SEAM_OK);
    pid_t child;
    int status = 0;
    char self[] = "/proc/self/exe", leave[] = "leave";
    char *const argv[] = {self, leave, f->path, NULL};
    assert_int_equal(posix_spawn(&child, self, NULL, NULL, argv, environ), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void recovery_rewrites_the_log_into_a_table(void **state)
{
    struct fixture *f = *state;
    leave_a_log(f);
    assert_int_equal(count_files(f, ".sst"), 0);
    assert_int_equal(fixture_open(f, false, false, NULL), SEAM_OK);
    assert_int_equal(count_files(f, ".sst"), 1);
    assert_true(has(f, S("left")));
}

static void a_read_only_open_writes_nothing(void **state)
{
    struct fixture *f = *state;
    leave_a_log(f);
    uint64_t before = fingerprint(f);
    assert_int_equal(fixture_open(f, false, true, NULL), SEAM_OK);
    assert_true(has(f, S("left")));
    struct seam_stats stats;
    assert_int_equal(seam_backend_rocksdb.stats(f->e, &stats, &f->err), SEAM_OK);
    assert_int_equal(fixture_close(f), SEAM_OK);
    assert_int_equal(fingerprint(f), before);
}

static void the_information_log_stays_empty(void **state)
{
    struct fixture *f = *state;
    struct stat st;
    struct seam_op op = put(S("k"), S("v"));
    assert_int_equal(commit(f, &op, 1, SEAM_ACK_POWER, NULL), SEAM_OK);
    assert_int_equal(fixture_reopen(f, NULL), SEAM_OK);
    assert_int_equal(fixture_reopen(f, NULL), SEAM_OK);
    assert_int_equal(fstatat(f->dir, "LOG", &st, 0), 0);
    assert_int_equal(st.st_size, 0);
    assert_int_equal(fixture_close(f), SEAM_OK);
    assert_int_equal(count_files(f, ".dbtmp"), 0);
}

static void options_do_what_they_say(void **state)
{
    struct fixture *f = *state;
    static const char *const blob[] = {"blob=1", "statistics=1", NULL};
    static const char *const others[] = {"compression=2", "bloom_bits=0", "jobs=1",
                                         "write_buffer=65536", "cache=1048576", "buffers=2", NULL};
    static const char *const recycle[] = {"recycle=1", NULL};
    char text[4096];
    char *large = calloc(1, 8192);
    struct seam_stats stats;
    struct seam_op op = put(S("large"), seam_bytes(large, 8192));

    struct seam_limits limits;

    seam_backend_rocksdb.describe(f->e, text, sizeof text);
    assert_non_null(strstr(text, "ack: power\n"));
    seam_backend_rocksdb.limits(f->e, &limits);
    assert_false(limits.caps & SEAM_CAP_MAY_SKIP);
    assert_int_equal(fixture_reopen(f, blob), SEAM_OK);
    assert_int_equal(commit(f, &op, 1, SEAM_ACK_POWER, NULL), SEAM_OK);
    memset(&stats, 0xff, sizeof stats);
    assert_int_equal(seam_backend_rocksdb.stats(f->e, &stats, &f->err), SEAM_OK);
    assert_int_equal(stats.groups, 1);
    assert_int_equal(stats.flushes, 1);
    assert_true(stats.disk_bytes > 0 && stats.memory_bytes > 0);
    assert_int_equal(stats.keys, -1);
    assert_int_equal(fixture_reopen(f, blob), SEAM_OK);
    assert_int_equal(count_files(f, ".blob"), 1);
    assert_int_equal(get(f, S("large"), NULL, 0), 8192);
    assert_int_equal(fixture_reopen(f, others), SEAM_OK);
    assert_int_equal(get(f, S("large"), NULL, 0), 8192);
    assert_int_equal(fixture_reopen(f, recycle), SEAM_OK);
    size_t wanted = seam_backend_rocksdb.describe(f->e, text, 8);
    assert_true(wanted > 100);
    assert_int_equal(strlen(text), 7);
    seam_backend_rocksdb.describe(f->e, text, sizeof text);
    assert_non_null(strstr(text, "ack: power, may skip damaged records\n"));
    seam_backend_rocksdb.limits(f->e, &limits);
    assert_true(limits.caps & SEAM_CAP_MAY_SKIP);
    free(large);
}

/* ---- what prepare refuses -------------------------------------------------------------------- */

static void prepare_refuses_what_does_not_fit(void **state)
{
    struct fixture *f = *state;
    char *large = calloc(1, 1 << 20);
    struct seam_op op = put(S("large"), seam_bytes(large, 1 << 20));
    struct seam_op small = put(S("small"), S("v"));

    f->space = 2 << 20; /* the log, a table, and a margin */
    assert_int_equal(commit(f, &op, 1, SEAM_ACK_PROCESS, NULL), SEAM_E_NO_SPACE);
    assert_string_equal(f->err.limit, "disk");
    assert_false(has(f, S("large")));
    assert_int_equal(commit(f, &small, 1, SEAM_ACK_PROCESS, NULL), SEAM_OK);
    f->space = 0; /* but for what the log has set aside, a memtable's size and some */
    assert_int_equal(commit(f, &op, 1, SEAM_ACK_PROCESS, NULL), SEAM_OK);
    op.body = op.head;
    assert_int_equal(commit(f, &op, 1, SEAM_ACK_PROCESS, NULL), SEAM_E_NO_SPACE);
    op.body = NONE;
    f->space = UINT64_MAX;
    f->alloc_most = 1 << 20;
    assert_int_equal(commit(f, &op, 1, SEAM_ACK_PROCESS, NULL), SEAM_E_NOMEM);
    f->alloc_most = SIZE_MAX;
    assert_int_equal(commit(f, &op, 1, SEAM_ACK_PROCESS, NULL), SEAM_OK);
    free(large);
}

static void a_cap_on_the_disk_is_kept(void **state)
{
    struct fixture *f = *state;
    char *block = calloc(1, 100 << 10);
    uint64_t seed = seed_of();
    for (size_t i = 0; i < 100 << 10; i++)
        block[i] = (char)draw(&seed, 256);
    f->disk = 4 << 20;
    assert_int_equal(fixture_reopen(f, NULL), SEAM_OK);
    int done = 0, rc = SEAM_OK;
    for (; done < 100 && rc == SEAM_OK; done++) {
        char key[16];
        snprintf(key, sizeof key, "%08d", done);
        struct seam_op op = put(seam_bytes(key, 8), seam_bytes(block, 100 << 10));
        rc = commit(f, &op, 1, SEAM_ACK_PROCESS, NULL);
    }
    assert_int_equal(rc, SEAM_E_NO_SPACE);
    assert_string_equal(f->err.limit, "disk");
    assert_in_range(done, 5, 40);
    struct seam_rocksdb_space space;
    assert_int_equal(seam_rocksdb_list((struct seam_rocksdb *)f->e, &space), 0);
    assert_true(space.size <= 4 << 20);
    free(block);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "leave") == 0)
        return leave_in(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_of_the_error_table),
        TEST(errors_as_rocksdb_gives_them),
        TEST(values_in_two_parts),
        TEST(acks_and_places),
        TEST(ranges_in_batches_match_a_model),
        TEST(a_range_without_end_reaches_the_longest_key),
        TEST(recovery_rewrites_the_log_into_a_table),
        TEST(a_read_only_open_writes_nothing),
        TEST(the_information_log_stays_empty),
        TEST(options_do_what_they_say),
        TEST(prepare_refuses_what_does_not_fit),
        TEST(a_cap_on_the_disk_is_kept),
    };
    int failed = cmocka_run_group_tests_name("rocksdb", tests, NULL, NULL);
    return faults_tests() + failed ? 1 : 0;
}
