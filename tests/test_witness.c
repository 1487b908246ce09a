/* test_witness.c - test_witness ENGINE: what an engine loses without a word, the journal's witness finds.
 *
 * The engine must keep files. Files are damaged between a close, or a process that just ended, and the
 * next open. */
#include "seam_support.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *engine;

/* ---- files ----------------------------------------------------------------------------------- */

static void run_program(const char *const *args)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        (void)execvp(args[0], (char *const *)(uintptr_t)args);
        _exit(127);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void copy_dir(const char *from, const char *to)
{
    const char *const gone[] = {"rm", "-rf", to, NULL}, *const copy[] = {"cp", "-r", from, to, NULL};
    run_program(gone);
    run_program(copy);
}

static const char *in_dir(const struct store *s, const char *name)
{
    static char path[4][200];
    static unsigned next;
    char *p = path[next++ % 4];
    (void)snprintf(p, 200, "%s/%s", s->dir, name);
    return p;
}

static void xor_byte(const char *path, off_t at, unsigned char with)
{
    unsigned char byte;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= with;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    (void)close(fd);
}

/* Opens the store's db again after it was closed. */
static void attach(struct store *s)
{
    char dir[64];
    (void)snprintf(dir, sizeof dir, "%s", s->dir);
    store_attach(s, engine, dir);
}

/* ---- journals -------------------------------------------------------------------------------- */

static int open_with(struct store *s, const struct seam_journal_options *o, struct seam_journal **ret,
                     struct seam_err *err)
{
    *ret = NULL;
    return seam_journal_open(s->db, o, ret, err);
}

/* Appends n events at POWER and closes both. */
static void fill(struct store *s, int n)
{
    struct seam_journal *j;
    struct seam_err err;
    struct seam_slice event = text("an event");
    journal_open(s, &j);
    uint32_t a = journal_stream(j, "a");
    for (int i = 0; i < n; i++)
        ok(seam_journal_append(j, a, &event, 1, SEAM_ACK_POWER, NULL, &err), err);
    journal_close(j);
}

static void expect_open(struct store *s, int code, const char *says)
{
    struct seam_journal *j;
    struct seam_err err = {.text = ""};
    int rc = open_with(s, NULL, &j, &err);
    if (rc != code)
        print_message("%s: %s\n", seam_code_name(rc), err.text);
    assert_int_equal(rc, code);
    if (rc == SEAM_OK)
        journal_close(j);
    else
        assert_non_null(strstr(err.text, says));
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void older_copy(void **state)
{
    (void)state;
    struct store s;
    struct seam_journal *j;
    struct seam_err err;
    store_open(&s, "", engine, NULL);
    fill(&s, 5);
    ok(seam_close(s.db, &err), err);
    copy_dir(in_dir(&s, "engine"), in_dir(&s, "copy"));
    attach(&s);
    fill(&s, 5);
    ok(seam_close(s.db, &err), err);
    copy_dir(in_dir(&s, "copy"), in_dir(&s, "engine"));
    attach(&s);
    expect_open(&s, SEAM_E_LOST, "had group 10");
    struct seam_journal_options o = {.accept_loss = true};
    ok(open_with(&s, &o, &j, &err), err);
    assert_int_equal(journal_last(j, 1), 5);
    assert_int_equal(journal_append(j, 1, "anew").last, 6);
    journal_close(j);
    expect_open(&s, SEAM_OK, "");
    store_close(&s);
}

static void file_gone_or_foreign(void **state)
{
    (void)state;
    struct store s, other;
    struct seam_journal *j;
    struct seam_err err;
    store_open(&s, "", engine, NULL);
    store_open(&other, "", engine, NULL);
    fill(&s, 3);
    fill(&other, 3);
    const char *const theirs[] = {"cp", in_dir(&other, "WITNESS"), in_dir(&s, "WITNESS"), NULL};
    run_program(theirs);
    expect_open(&s, SEAM_E_MISMATCH, "another journal");
    assert_int_equal(unlink(in_dir(&s, "WITNESS")), 0);
    expect_open(&s, SEAM_E_LOST, "missing");
    struct seam_journal_options o = {.witness = SEAM_WITNESS_NONE};
    ok(open_with(&s, &o, &j, &err), err);
    journal_close(j);
    o = (struct seam_journal_options){.accept_loss = true};
    ok(open_with(&s, &o, &j, &err), err);
    journal_close(j);
    expect_open(&s, SEAM_OK, "");
    store_close(&s);
    store_close(&other);
}

static uint64_t get_le(const uint8_t *p, int bytes)
{
    uint64_t v = 0;
    while (bytes-- > 0)
        v = v << 8 | p[bytes];
    return v;
}

/* The file's bytes are those that docs/journal-format.md tells. */
static void as_documented(void **state)
{
    (void)state;
    struct store s;
    struct seam_journal *j;
    struct seam_err err;
    static uint8_t file[8192], group[256];
    store_open(&s, "", engine, NULL);
    fill(&s, 3);
    journal_open(&s, &j);
    int fd = open(in_dir(&s, "WITNESS"), O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(lseek(fd, 0, SEEK_END), sizeof file);
    assert_int_equal(pread(fd, file, sizeof file, 0), sizeof file);
    (void)close(fd);
    assert_true(raw_get(s.db, raw_group(3), group, sizeof group) == 56 + 16);
    const uint8_t *p = get_le(file + 40, 8) >= get_le(file + 4096 + 40, 8) ? file : file + 4096;
    assert_memory_equal(p, "SEAMWTNS\1\0\0\0", 12);
    assert_memory_equal(p + 12, group + 48, 4);
    assert_memory_equal(p + 16, seam_journal_uuid(j), 16);
    assert_true(get_le(p + 32, 8) <= seam_db_epoch(s.db));
    assert_int_equal(get_le(p + 40, 8), 3);
    assert_int_equal(get_le(p + 48, 4), 0);
    assert_int_equal(get_le(p + 52, 4), seam_crc32c(0, p, 52));
    for (size_t i = 56; i < 4096; i++)
        assert_int_equal(file[i] | file[4096 + i], 0);
    journal_close(j);
    ok(seam_close(s.db, &err), err);
    attach(&s);
    expect_open(&s, SEAM_OK, "");
    store_close(&s);
}

/* One slot may be anything: the other says less, and the journal opens. Both: it does not. */
static void every_byte(void **state)
{
    (void)state;
    struct store s;
    store_open(&s, "", engine, NULL);
    fill(&s, 3);
    for (off_t at = 0; at < 56; at++)
        for (off_t slot = 0; slot < 2; slot++) {
            xor_byte(in_dir(&s, "WITNESS"), slot * 4096 + at, 0x10);
            expect_open(&s, SEAM_OK, "");
        }
    for (off_t at = 0; at < 56; at += 5) {
        xor_byte(in_dir(&s, "WITNESS"), at, 0x01);
        xor_byte(in_dir(&s, "WITNESS"), 4096 + at, 0x01);
        expect_open(&s, SEAM_E_CORRUPT, "both");
        xor_byte(in_dir(&s, "WITNESS"), at, 0x01);
        xor_byte(in_dir(&s, "WITNESS"), 4096 + at, 0x01);
        expect_open(&s, SEAM_OK, "");
    }
    for (off_t len = 0; len < 56; len += 9) {
        assert_int_equal(truncate(in_dir(&s, "WITNESS"), len), 0);
        expect_open(&s, SEAM_E_CORRUPT, "both");
    }
    store_close(&s);
}

static void journal_gone(void **state)
{
    (void)state;
    struct store s;
    struct seam_err err;
    store_open(&s, "", engine, NULL);
    fill(&s, 3);
    struct seam_op op = {SEAM_DELETE_RANGE, text("A"), text("Z"), {NULL, 0}};
    ok(seam_write(s.db, &op, 1, SEAM_ACK_NONE, NULL, &err), err);
    expect_open(&s, SEAM_E_LOST, "the journal is missing");
    store_close(&s);
}

/* ---- a process that ended, and rot ----------------------------------------------------------- */

/* Flips a bit in the midst of RocksDB's newest log, which it takes for the log's end. */
static void rot(const char *dir)
{
    char path[300] = "";
    off_t size = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        struct stat st;
        char one[300];
        const char *dot = strrchr(e->d_name, '.');
        (void)snprintf(one, sizeof one, "%.80s/%.200s", dir, e->d_name);
        if (dot && strcmp(dot, ".log") == 0 && stat(one, &st) == 0 && st.st_size > size) {
            size = st.st_size;
            memcpy(path, one, sizeof path);
        }
    }
    (void)closedir(d);
    assert_true(size > 0);
    xor_byte(path, size / 2, 0x40);
}

/* The child: a process without this one's threads. Ends as if killed. */
static int append_and_die(const char *dir)
{
    struct seam_journal_options o = {.witness = SEAM_WITNESS_EVERY_ACK};
    struct seam_journal *j;
    struct seam_slice event = text("an event that will rot, and those after it with it");
    struct store s;
    store_attach(&s, engine, dir);
    if (seam_journal_open(s.db, &o, &j, NULL) != SEAM_OK)
        return 2;
    for (int i = 0; i < 20; i++)
        if (seam_journal_append(j, 1, &event, 1, SEAM_ACK_POWER, NULL, NULL) != SEAM_OK)
            return 3;
    (void)raise(SIGKILL);
    return 4;
}

static void rotten_log(void **state)
{
    (void)state;
    struct store s;
    struct seam_err err;
    int status = 0;
    if (strcmp(engine, "rocksdb") != 0)
        skip();
    store_open(&s, "", engine, NULL);
    fill(&s, 1);
    ok(seam_close(s.db, &err), err);
    const char *args[] = {engine, s.dir, NULL};
    int out, child = spawn_child(args, &out);
    (void)close(out);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    rot(in_dir(&s, "engine"));
    attach(&s);
    expect_open(&s, SEAM_E_LOST, "acknowledged events are missing");
    store_close(&s);
}

/* Where LMDB's two meta pages have their transaction's number; the higher one is taken. */
enum { LMDB_TXNID = 144, LMDB_PAGE = 4096 };

/* The newer meta page loses its number, so that LMDB opens at the older one without a word. */
static void older_meta(void **state)
{
    (void)state;
    struct store s;
    struct seam_err err;
    uint64_t txn[2], zero = 0;
    if (strcmp(engine, "lmdb") != 0 || sysconf(_SC_PAGESIZE) != LMDB_PAGE)
        skip();
    store_open(&s, "", engine, NULL);
    fill(&s, 5);
    ok(seam_close(s.db, &err), err);
    int fd = open(in_dir(&s, "engine/data.mdb"), O_RDWR);
    assert_true(fd >= 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pread(fd, &txn[i], 8, i * LMDB_PAGE + LMDB_TXNID), 8);
    assert_true(txn[0] + 1 == txn[1] || txn[1] + 1 == txn[0]); /* it is what it is taken for */
    off_t newer = txn[1] > txn[0] ? LMDB_PAGE : 0;
    assert_int_equal(pwrite(fd, &zero, 8, newer + LMDB_TXNID), 8);
    (void)close(fd);
    attach(&s);
    expect_open(&s, SEAM_E_LOST, "acknowledged events are missing");
    store_close(&s);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[0], "child") == 0) {
        engine = argv[1];
        return append_and_die(argv[2]);
    }
    if (argc != 2) {
        fprintf(stderr, "usage: %s ENGINE\n", argv[0]);
        return 2;
    }
    engine = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(older_copy),   cmocka_unit_test(file_gone_or_foreign),
        cmocka_unit_test(every_byte),   cmocka_unit_test(journal_gone),
        cmocka_unit_test(rotten_log),   cmocka_unit_test(older_meta),
        cmocka_unit_test(as_documented),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
