/* test_lmdb.c - what only the LMDB engine has: its error table, what it finds before mapping a file,
 * the rewrite at open, acks by flag, groups redone singly, LMDB's reader table, and the bound on the
 * pages of a commit.
 *
 * Relies on the engine's private header for the group's work and the reservations; opens through
 * the public calls wherever those can show it. */
#include "lmdb_private.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PATH_ROOM 512

/* ---- a directory of its own for each test ------------------------------------------------------ */

struct room {
    char dir[64];      /* made, empty */
    char store[128];   /* dir/s */
    char data[160];    /* dir/s/engine/data.mdb */
};

static int setup(void **state)
{
    struct room *r = calloc(1, sizeof *r);
    if (r == NULL)
        return -1;
    snprintf(r->dir, sizeof r->dir, "/tmp/seam-lmdb-XXXXXX");
    if (mkdtemp(r->dir) == NULL) {
        free(r);
        return -1;
    }
    snprintf(r->store, sizeof r->store, "%s/s", r->dir);
    snprintf(r->data, sizeof r->data, "%s/engine/data.mdb", r->store);
    *state = r;
    return 0;
}

static void run(const char *fmt, const char *a, const char *b)
{
    char cmd[PATH_ROOM];
    snprintf(cmd, sizeof cmd, fmt, a, b);
    assert_int_equal(system(cmd), 0);
}

static int teardown(void **state)
{
    struct room *r = *state;
    run("rm -rf '%s'%s", r->dir, "");
    free(r);
    return 0;
}

/* ---- shorthands -------------------------------------------------------------------------------- */

static struct seam_slice str(const char *s)
{
    return seam_bytes(s, strlen(s));
}

static struct seam_op put_op(const char *k, const char *v)
{
    struct seam_op op = {SEAM_PUT, str(k), {NULL, 0}, str(v)};
    return op;
}

static struct seam_db *must_open(const char *spec, const char *dir, const struct seam_options *o)
{
    struct seam_db *db = NULL;
    struct seam_err err;
    int rc = seam_open(spec, dir, o, &db, &err);
    if (rc != SEAM_OK)
        fail_msg("open: %s %s", seam_code_name(rc), err.text);
    return db;
}

static struct seam_db *make(const char *spec, const char *dir)
{
    struct seam_options o = {.mode = SEAM_OPEN_CREATE};
    return must_open(spec, dir, &o);
}

static void must_close(struct seam_db *db)
{
    struct seam_err err;
    int rc = seam_close(db, &err);
    if (rc != SEAM_OK)
        fail_msg("close: %s %s", seam_code_name(rc), err.text);
}

static struct seam_acked must_put(struct seam_db *db, const char *k, const char *v, uint32_t ack)
{
    struct seam_op op = put_op(k, v);
    struct seam_acked acked = {0};
    struct seam_err err;
    int rc = seam_write(db, &op, 1, ack, &acked, &err);
    if (rc != SEAM_OK)
        fail_msg("write: %s %s", seam_code_name(rc), err.text);
    return acked;
}

static bool has(struct seam_db *db, const char *k, const char *v)
{
    struct seam_pin pin;
    int rc = seam_get(db, NULL, str(k), &pin, NULL);
    if (rc != SEAM_OK)
        return false;
    bool same = seam_compare(pin.value, str(v)) == 0;
    seam_unpin(&pin);
    return same;
}

static void open_fails(const char *dir, enum seam_open_mode mode, int code, const char *word)
{
    struct seam_db *db = NULL;
    struct seam_options o = {.mode = mode};
    struct seam_err err = {0};
    int rc = seam_open("lmdb", dir, &o, &db, &err);
    if (rc != code || strstr(err.text, word) == NULL)
        fail_msg("open answered %s '%s', not %s with '%s'", seam_code_name(rc), err.text,
                 seam_code_name(code), word);
    assert_null(db);
}

static uint64_t seed(void)
{
    const char *text = getenv("SEAM_SEED");
    uint64_t s = text != NULL ? strtoull(text, NULL, 0) : 20261201;
    print_message("SEAM_SEED=%llu\n", (unsigned long long)s);
    return s * 2654435761u + 88172645463325252u;
}

static uint64_t roll(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

/* ---- the error table --------------------------------------------------------------------------- */

static void errors_row_by_row(void **state)
{
    (void)state;
    static const struct {
        int rc, code;
    } rows[] = {
        {MDB_KEYEXIST, SEAM_E_IO},          {MDB_NOTFOUND, SEAM_NOTFOUND},
        {MDB_PAGE_NOTFOUND, SEAM_E_CORRUPT}, {MDB_CORRUPTED, SEAM_E_CORRUPT},
        {MDB_PANIC, SEAM_E_POISONED},       {MDB_VERSION_MISMATCH, SEAM_E_MISMATCH},
        {MDB_INVALID, SEAM_E_CORRUPT},      {MDB_MAP_FULL, SEAM_E_NO_SPACE},
        {MDB_DBS_FULL, SEAM_E_IO},          {MDB_READERS_FULL, SEAM_E_BUSY},
        {MDB_TLS_FULL, SEAM_E_NOMEM},       {MDB_TXN_FULL, SEAM_E_TOO_LARGE},
        {MDB_CURSOR_FULL, SEAM_E_CORRUPT},  {MDB_PAGE_FULL, SEAM_E_CORRUPT},
        {MDB_MAP_RESIZED, SEAM_E_NO_SPACE}, {MDB_INCOMPATIBLE, SEAM_E_MISMATCH},
        {MDB_BAD_RSLOT, SEAM_E_IO},         {MDB_BAD_TXN, SEAM_E_IO},
        {MDB_BAD_VALSIZE, SEAM_E_INVALID},  {MDB_BAD_DBI, SEAM_E_IO},
        {ENOSPC, SEAM_E_NO_SPACE},          {ENOMEM, SEAM_E_NOMEM},
        {EACCES, SEAM_E_PERMISSION},        {EROFS, SEAM_E_READ_ONLY},
        {EIO, SEAM_E_IO},                   {-1, SEAM_E_IO},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct seam_err err = {0};
        assert_int_equal(lmdb_fail(&err, rows[i].rc, "testing"), rows[i].code);
        assert_int_equal(err.code, rows[i].code);
        assert_non_null(strstr(err.text, "lmdb: testing"));
        assert_int_equal(err.os_errno, rows[i].rc > 0 ? rows[i].rc : 0);
        assert_int_equal(lmdb_fail(NULL, rows[i].rc, "testing"), rows[i].code);
    }
    /* lmdb.h numbers its codes without a gap; none may lack a row, none may have two. */
    for (int rc = MDB_KEYEXIST; rc <= MDB_LAST_ERRCODE; rc++) {
        int found = 0;
        for (const struct lmdb_error_row *row = lmdb_errors; row->rc != 0; row++)
            found += row->rc == rc;
        assert_int_equal(found, 1);
    }
}

/* ---- the file before it is mapped -------------------------------------------------------------- */

static void missing_file(void **state)
{
    struct room *r = *state;
    struct seam_db *db = make("lmdb", r->store);
    must_put(db, "a", "1", SEAM_ACK_POWER);
    must_close(db);
    assert_int_equal(unlink(r->data), 0);
    open_fails(r->store, SEAM_OPEN_EXISTING, SEAM_E_CORRUPT, "data.mdb is missing");
    open_fails(r->store, SEAM_OPEN_CREATE, SEAM_E_CORRUPT, "data.mdb is missing");
    open_fails(r->store, SEAM_OPEN_READ_ONLY, SEAM_E_CORRUPT, "data.mdb is missing");
    assert_int_equal(access(r->data, F_OK), -1);
}

static uint64_t file_size(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return (uint64_t)st.st_size;
}

static void metas_read(const char *path, uint64_t txn[2], uint64_t last[2])
{
    unsigned char page[2][4096];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, page, sizeof page, 0), sizeof page);
    close(fd);
    for (int i = 0; i < 2; i++) {
        memcpy(&last[i], page[i] + 16 + 120, 8);
        memcpy(&txn[i], page[i] + 16 + 128, 8);
    }
}

static void cut_short(void **state)
{
    struct room *r = *state;
    struct seam_db *db = make("lmdb", r->store);
    char key[16], copy[PATH_ROOM];
    for (int i = 0; i < 300; i++) {
        snprintf(key, sizeof key, "key%04d", i);
        must_put(db, key, "a value that takes some room in the leaves", SEAM_ACK_NONE);
    }
    must_close(db);
    uint64_t txn[2], last[2];
    metas_read(r->data, txn, last);
    uint64_t need = (last[txn[0] < txn[1]] + 1) * 4096;
    assert_true(file_size(r->data) >= need);
    snprintf(copy, sizeof copy, "%s/copy", r->dir);
    run("cp '%s' '%s'", r->data, copy);
    for (uint64_t len = 0; len < need; len += len < 8192 ? 512 : 4096 + 17) {
        assert_int_equal(truncate(r->data, (off_t)len), 0);
        open_fails(r->store, SEAM_OPEN_EXISTING, SEAM_E_CORRUPT, "data.mdb");
        open_fails(r->store, SEAM_OPEN_READ_ONLY, SEAM_E_CORRUPT, "data.mdb");
        assert_int_equal(file_size(r->data), len);
        run("cp '%s' '%s'", copy, r->data);
    }
    assert_int_equal(truncate(r->data, (off_t)need), 0); /* only unused pages gone: no harm */
    db = must_open("lmdb", r->store, NULL);
    assert_true(has(db, "key0299", "a value that takes some room in the leaves"));
    must_close(db);
}

static void flip(const char *path, off_t at, unsigned char bits)
{
    unsigned char b;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &b, 1, at), 1);
    b ^= bits;
    assert_int_equal(pwrite(fd, &b, 1, at), 1);
    close(fd);
}

static void damaged_metas(void **state)
{
    struct room *r = *state;
    static const struct {
        off_t at;
        unsigned char bits;
        int code;
    } rows[] = {
        {10, 0x08, SEAM_E_CORRUPT},          /* no meta page any more */
        {16, 0x01, SEAM_E_CORRUPT},          /* magic */
        {20, 0x03, SEAM_E_MISMATCH},         /* LMDB's format version */
        {16 + 24, 0x01, SEAM_E_CORRUPT},     /* page size */
        {16 + 24 + 6, 0x40, SEAM_E_CORRUPT}, /* depth of the free list, 65 */
        {16 + 126, 0x40, SEAM_E_CORRUPT},    /* last page, far beyond the file */
        {16 + 72 + 46, 0x01, SEAM_E_CORRUPT} /* root of the main database, beyond the last page */
    };
    struct seam_db *db = make("lmdb", r->store);
    must_put(db, "a", "1", SEAM_ACK_POWER);
    must_close(db);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (off_t page = 0; page < 2; page++)
            flip(r->data, page * 4096 + rows[i].at, rows[i].bits);
        open_fails(r->store, SEAM_OPEN_EXISTING, rows[i].code, "data.mdb");
        for (off_t page = 0; page < 2; page++)
            flip(r->data, page * 4096 + rows[i].at, rows[i].bits);
    }
    db = must_open("lmdb", r->store, NULL);
    assert_true(has(db, "a", "1"));
    must_close(db);
}

static void links_are_refused(void **state)
{
    struct room *r = *state;
    char moved[PATH_ROOM], lock[PATH_ROOM];
    must_close(make("lmdb", r->store));
    snprintf(moved, sizeof moved, "%s/moved.mdb", r->dir);
    assert_int_equal(rename(r->data, moved), 0);
    assert_int_equal(symlink(moved, r->data), 0);
    open_fails(r->store, SEAM_OPEN_EXISTING, SEAM_E_CORRUPT, "not a regular file");
    open_fails(r->store, SEAM_OPEN_READ_ONLY, SEAM_E_CORRUPT, "not a regular file");
    assert_int_equal(unlink(r->data), 0);
    assert_int_equal(link(moved, r->data), 0);
    open_fails(r->store, SEAM_OPEN_EXISTING, SEAM_E_CORRUPT, "2 names");
    assert_int_equal(unlink(moved), 0);
    snprintf(lock, sizeof lock, "%s/engine/lock.mdb", r->store);
    assert_int_equal(unlink(lock), 0);
    assert_int_equal(symlink("/dev/null", lock), 0);
    open_fails(r->store, SEAM_OPEN_EXISTING, SEAM_E_CORRUPT, "lock.mdb");
    assert_int_equal(unlink(lock), 0);
    must_close(must_open("lmdb", r->store, NULL)); /* a copy without lock.mdb is whole */
}

static void another_stores_file(void **state)
{
    struct room *r = *state;
    char other[PATH_ROOM], data[PATH_ROOM + 32];
    snprintf(other, sizeof other, "%s/other", r->dir);
    snprintf(data, sizeof data, "%s/engine/data.mdb", other);
    must_close(make("lmdb", r->store));
    must_close(make("lmdb", other));
    run("cp '%s' '%s'", data, r->data);
    open_fails(r->store, SEAM_OPEN_EXISTING, SEAM_E_MISMATCH, "another store");
    open_fails(r->store, SEAM_OPEN_READ_ONLY, SEAM_E_MISMATCH, "another store");
}

static void modes(void **state)
{
    struct room *r = *state;
    char lock[PATH_ROOM];
    struct stat st;
    mode_t old = umask(0);
    must_close(make("lmdb", r->store));
    umask(old);
    snprintf(lock, sizeof lock, "%s/engine/lock.mdb", r->store);
    assert_int_equal(stat(r->data, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(stat(lock, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
}

/* ---- open --------------------------------------------------------------------------------------- */

static void open_commits_twice(void **state)
{
    struct room *r = *state;
    uint64_t before[2], after[2], last[2];
    must_close(make("lmdb", r->store));
    metas_read(r->data, before, last);
    struct seam_db *db = must_open("lmdb", r->store, NULL);
    struct seam_stats st;
    assert_int_equal(seam_db_stats(db, &st, NULL), SEAM_OK);
    assert_int_equal(st.flushes, 4);
    must_close(db);
    metas_read(r->data, after, last);
    for (int i = 0; i < 2; i++) /* both meta pages are new, each by one commit */
        assert_int_equal(after[i], before[i] + 2);
}

static void read_only_writes_nothing(void **state)
{
    struct room *r = *state;
    char lock[PATH_ROOM], copy[PATH_ROOM];
    struct seam_db *db = make("lmdb", r->store);
    must_put(db, "a", "1", SEAM_ACK_POWER);
    must_close(db);
    snprintf(lock, sizeof lock, "%s/engine/lock.mdb", r->store);
    snprintf(copy, sizeof copy, "%s/copy", r->dir);
    assert_int_equal(unlink(lock), 0);
    run("cp '%s' '%s'", r->data, copy);
    struct seam_options o = {.mode = SEAM_OPEN_READ_ONLY};
    struct seam_db *one = must_open("lmdb", r->store, &o), *two = must_open("lmdb", r->store, &o);
    assert_true(has(one, "a", "1"));
    assert_true(has(two, "a", "1"));
    struct seam_stats st;
    assert_int_equal(seam_db_stats(one, &st, NULL), SEAM_OK);
    assert_int_equal(st.keys, 1);
    struct seam_op op = put_op("b", "2");
    assert_int_equal(seam_write(one, &op, 1, SEAM_ACK_POWER, NULL, NULL), SEAM_E_READ_ONLY);
    must_close(one);
    must_close(two);
    run("cmp -s '%s' '%s'", r->data, copy);
    assert_int_equal(access(lock, F_OK), -1);
}

static void options_that_do_not_fit(void **state)
{
    struct room *r = *state;
    static const char *const specs[] = {"lmdb:map=1M", "lmdb:map=256T", "lmdb:maxreaders=0",
                                        "lmdb:readahead=2", "lmdb:fill_wait=1s", "lmdb:nosync"};
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        struct seam_db *db = NULL;
        struct seam_options o = {.mode = SEAM_OPEN_CREATE};
        assert_int_equal(seam_open(specs[i], r->store, &o, &db, NULL), SEAM_E_OPTION);
        assert_null(db);
    }
    struct seam_db *db = make("lmdb:map=64M,maxreaders=8,fill_wait=0,reserve_chunk=64K,readahead=0",
                              r->store);
    must_put(db, "a", "1", SEAM_ACK_POWER);
    assert_true(has(db, "a", "1"));
    must_close(db);
}

/* ---- acks --------------------------------------------------------------------------------------- */

static int64_t flushes(struct seam_db *db)
{
    struct seam_stats st;
    assert_int_equal(seam_db_stats(db, &st, NULL), SEAM_OK);
    return st.flushes;
}

static void acks_by_flag(void **state)
{
    struct room *r = *state;
    struct seam_db *db = make("lmdb", r->store);
    static const struct {
        enum seam_ack asked, given;
        int flushes;
    } rows[] = {{SEAM_ACK_POWER, SEAM_ACK_POWER, 2}, {SEAM_ACK_NONE, SEAM_ACK_PROCESS, 1},
                {SEAM_ACK_PROCESS, SEAM_ACK_PROCESS, 1}, {SEAM_ACK_OS, SEAM_ACK_POWER, 2},
                {SEAM_ACK_NONE, SEAM_ACK_PROCESS, 1}};
    uint64_t last = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct seam_acked a = must_put(db, "k", "v", rows[i].asked);
        assert_int_equal(a.given, rows[i].given);
        assert_int_equal(a.flushes, rows[i].flushes);
        assert_int_equal(a.group, 1);
        assert_true(a.commit_no > last);
        last = a.commit_no;
    }
    int64_t n = flushes(db);
    assert_int_equal(seam_sync(db, SEAM_ACK_PROCESS, NULL), SEAM_OK);
    assert_int_equal(flushes(db), n);
    assert_int_equal(seam_sync(db, SEAM_ACK_POWER, NULL), SEAM_OK);
    assert_int_equal(flushes(db), n + 1);
    assert_int_equal(seam_sync(db, SEAM_ACK_POWER, NULL), SEAM_OK);
    assert_int_equal(flushes(db), n + 1); /* nothing is behind: nothing to flush */
    must_close(db);
}

/* LMDB writes nothing for a commit that changes nothing; it still has to raise those before it. */
static void empty_commit_raises(void **state)
{
    struct room *r = *state;
    struct seam_db *db = make("lmdb", r->store);
    struct seam_op gone = {SEAM_DELETE, {"no such key", 11}, {NULL, 0}, {NULL, 0}};
    struct seam_acked first, second;
    must_put(db, "k", "v", SEAM_ACK_NONE);
    assert_int_equal(seam_write(db, &gone, 1, SEAM_ACK_POWER, &first, NULL), SEAM_OK);
    assert_int_equal(first.flushes, 1);
    assert_int_equal(first.given, SEAM_ACK_POWER);
    assert_int_equal(seam_write(db, &gone, 1, SEAM_ACK_POWER, &second, NULL), SEAM_OK);
    assert_int_equal(second.flushes, 0);
    assert_true(second.commit_no > first.commit_no);
    must_close(db);
}

/* ---- the engine without the library above it ---------------------------------------------------- */

struct bare {
    struct lmdb_engine *e;
    int dir;
    uint8_t uuid[16];
    uint64_t settings[5];
};

static void bare_open(struct bare *b, const struct room *r, const struct seam_platform *os,
                      uint64_t disk)
{
    struct seam_engine *e = NULL;
    struct seam_err err;
    memset(b, 0, sizeof *b);
    b->settings[LMDB_SET_MAP] = 1ull << 30;
    b->settings[LMDB_SET_MAXREADERS] = 16;
    b->settings[LMDB_SET_RESERVE_CHUNK] = 64 << 10;
    b->settings[LMDB_SET_READAHEAD] = 1;
    b->dir = open(r->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(b->dir >= 0);
    struct seam_open_args args = {.os = os,
                                  .dir = b->dir,
                                  .path = r->dir,
                                  .create = true,
                                  .memory = 64 << 20,
                                  .disk = disk,
                                  .epoch = 1,
                                  .uuid = b->uuid,
                                  .settings = b->settings};
    int rc = seam_backend_lmdb.open(&args, &e, &err);
    if (rc != SEAM_OK)
        fail_msg("open: %s %s", seam_code_name(rc), err.text);
    e->be = &seam_backend_lmdb;
    b->e = (struct lmdb_engine *)(void *)e;
}

static void bare_close(struct bare *b)
{
    assert_int_equal(seam_backend_lmdb.close(&b->e->base, NULL), SEAM_OK);
    close(b->dir);
}

static int bare_prepare(struct bare *b, struct seam_commit *c, const struct seam_op *ops, size_t n,
                        enum seam_ack ack)
{
    memset(c, 0, sizeof *c);
    c->ops = ops;
    c->n = n;
    c->ack = ack;
    return lmdb_prepare(&b->e->base, c, 0, NULL);
}

static bool bare_has(struct bare *b, const char *k)
{
    struct seam_pin pin;
    memset(&pin, 0, sizeof pin);
    int rc = lmdb_get(&b->e->base, NULL, str(k), &pin, NULL);
    if (rc == SEAM_OK)
        lmdb_unpin(&b->e->base, &pin);
    return rc == SEAM_OK;
}

static void mixed_group(void **state)
{
    struct bare b;
    bare_open(&b, *state, seam_platform_system(), UINT64_MAX);
    struct seam_op ops[2] = {put_op("a", "1"), put_op("b", "2")};
    struct seam_commit c[2];
    struct seam_member m[2];
    memset(m, 0, sizeof m);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(bare_prepare(&b, &c[i], &ops[i], 1, i == 0 ? SEAM_ACK_NONE : SEAM_ACK_POWER),
                         SEAM_OK);
        m[i].commit = &c[i];
    }
    m[0].next = &m[1];
    lmdb_run(b.e, m, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(m[i].rc, SEAM_OK);
        assert_int_equal(m[i].acked.given, SEAM_ACK_POWER);
        assert_int_equal(m[i].acked.group, 2);
        assert_int_equal(m[i].acked.flushes, 2);
    }
    assert_int_equal(m[1].acked.commit_no, m[0].acked.commit_no + 1);
    bare_close(&b);
}

/* One member that LMDB refuses: the others of its group are done, and it alone is not. */
static void group_redone_singly(void **state)
{
    struct bare b;
    char longer[600];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = 0;
    bare_open(&b, *state, seam_platform_system(), UINT64_MAX);
    for (int bad = 0; bad < 3; bad++) {
        char key[3][32];
        struct seam_op ops[3][2];
        struct seam_commit c[3];
        struct seam_member m[3];
        memset(m, 0, sizeof m);
        for (int i = 0; i < 3; i++) {
            snprintf(key[i], sizeof key[i], "k%d%d", bad, i);
            ops[i][0] = put_op(key[i], "v");
            ops[i][1] = put_op(i == bad ? longer : "same", "v");
            assert_int_equal(bare_prepare(&b, &c[i], ops[i], 2, SEAM_ACK_POWER), SEAM_OK);
            m[i].commit = &c[i];
            m[i].next = i < 2 ? &m[i + 1] : NULL;
        }
        lmdb_run(b.e, m, 3);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(m[i].rc, i == bad ? SEAM_E_UNKNOWN : SEAM_OK);
            assert_int_equal(bare_has(&b, key[i]), i != bad);
            assert_int_equal(m[i].acked.group, i == bad ? 0 : 1);
        }
        assert_int_equal(m[bad].err.code, SEAM_E_UNKNOWN);
    }
    assert_int_equal(atomic_load(&b.e->counts.redone), 3);
    assert_int_equal(seam_ledger_promised(b.e->space.ledger), 0);
    bare_close(&b);
}

/* A range is counted before it is promised. */
static void ranges_are_counted(void **state)
{
    struct bare b;
    bare_open(&b, *state, seam_platform_system(), UINT64_MAX);
    enum { BATCH = 4096 };
    char (*keys)[8] = calloc(BATCH, sizeof *keys);
    struct seam_op *ops = calloc(BATCH, sizeof *ops);
    struct seam_commit c;
    assert_non_null(keys);
    assert_non_null(ops);
    for (uint32_t at = 0; at <= LMDB_MAX_RANGE_KEYS; at += BATCH) {
        for (uint32_t i = 0; i < BATCH; i++) {
            snprintf(keys[i], sizeof keys[i], "%06x", (at + i) & 0xffffffu);
            ops[i] = put_op(keys[i], "");
        }
        assert_int_equal(bare_prepare(&b, &c, ops, BATCH, SEAM_ACK_NONE), SEAM_OK);
        assert_int_equal(lmdb_commit(&b.e->base, &c, NULL, NULL), SEAM_OK);
    }
    struct seam_op range = {SEAM_DELETE_RANGE, {"0", 1}, {NULL, 0}, {NULL, 0}};
    struct seam_err err = {0};
    memset(&c, 0, sizeof c);
    c.ops = &range;
    c.n = 1;
    assert_int_equal(lmdb_prepare(&b.e->base, &c, 0, &err), SEAM_E_TOO_LARGE);
    assert_string_equal(err.limit, "range_keys");
    assert_int_equal(err.max, LMDB_MAX_RANGE_KEYS);
    assert_int_equal(err.op, 0);
    range.head = str("040000"); /* exactly as many as the limit */
    assert_int_equal(bare_prepare(&b, &c, &range, 1, SEAM_ACK_NONE), SEAM_OK);
    assert_int_equal(c.need.range_keys, LMDB_MAX_RANGE_KEYS);
    assert_int_equal(lmdb_commit(&b.e->base, &c, NULL, NULL), SEAM_OK);
    assert_false(bare_has(&b, "03ffff"));
    assert_true(bare_has(&b, "040000"));
    free(keys);
    free(ops);
    bare_close(&b);
}

/* ---- readers ------------------------------------------------------------------------------------ */

static void pins_have_a_limit(void **state)
{
    struct room *r = *state;
    struct seam_db *db = make("lmdb:maxreaders=4", r->store);
    struct seam_snap *snaps[4];
    struct seam_snap *more = NULL;
    struct seam_err err;
    for (int i = 0; i < 4; i++)
        assert_int_equal(seam_snap_open(db, &snaps[i], NULL), SEAM_OK);
    assert_int_equal(seam_snap_open(db, &more, &err), SEAM_E_BUSY);
    assert_string_equal(err.limit, "pins");
    seam_snap_close(snaps[2]);
    assert_int_equal(seam_snap_open(db, &snaps[2], NULL), SEAM_OK);
    for (int i = 0; i < 4; i++)
        seam_snap_close(snaps[i]);
    must_close(db);
}

/* Fills LMDB's table from another process, by LMDB itself, and dies. */
static void die_with_all_slots(const char *path)
{
    MDB_env *env = NULL;
    MDB_txn *txn = NULL;
    if (mdb_env_create(&env) != 0 || mdb_env_set_maxdbs(env, 2) != 0 ||
        mdb_env_set_mapsize(env, 64 << 20) != 0 || mdb_env_open(env, path, MDB_NOTLS, 0600) != 0)
        _exit(2);
    int rc = 0, n = 0;
    while ((rc = mdb_txn_begin(env, NULL, MDB_RDONLY, &txn)) == 0)
        n++;
    _exit(rc == MDB_READERS_FULL && n > 0 ? 0 : 3);
}

static void dead_readers_are_cleared(void **state)
{
    struct room *r = *state;
    char path[PATH_ROOM];
    int status = 0;
    struct seam_db *db = make("lmdb:maxreaders=4", r->store);
    struct seam_snap *snap = NULL, *second = NULL;
    snprintf(path, sizeof path, "%s/engine", r->store);
    assert_int_equal(seam_snap_open(db, &snap, NULL), SEAM_OK); /* the pool has no spare reader */
    pid_t pid = fork();
    if (pid == 0)
        die_with_all_slots(path);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(seam_snap_open(db, &second, NULL), SEAM_OK);
    seam_snap_close(second);
    seam_snap_close(snap);
    must_close(db);
}

/* ---- space -------------------------------------------------------------------------------------- */

static void disk_cap_is_kept(void **state)
{
    struct room *r = *state;
    struct seam_options o = {.mode = SEAM_OPEN_CREATE, .disk = 2 << 20};
    struct seam_db *db = must_open("lmdb", r->store, &o);
    static char value[100000];
    struct seam_err err;
    int rc = SEAM_OK, n = 0;
    char key[16];
    for (; n < 1000 && rc == SEAM_OK; n++) {
        snprintf(key, sizeof key, "k%03d", n);
        struct seam_op op = {SEAM_PUT, str(key), {NULL, 0}, {value, sizeof value}};
        rc = seam_write(db, &op, 1, SEAM_ACK_NONE, NULL, &err);
    }
    assert_int_equal(rc, SEAM_E_NO_SPACE);
    assert_string_equal(err.limit, "disk");
    assert_true(n > 5 && n < 25);
    assert_true(file_size(r->data) <= 2 << 20);
    struct seam_pin pin;
    assert_int_equal(seam_get(db, NULL, str(key), &pin, NULL), SEAM_NOTFOUND);
    must_put(db, "small", "still fits", SEAM_ACK_POWER);
    must_close(db);
    db = must_open("lmdb", r->store, NULL);
    assert_true(has(db, "small", "still fits"));
    must_close(db);
}

static int put_numbered(struct seam_db *db, int n, size_t value)
{
    static char bytes[4096];
    char key[16];
    snprintf(key, sizeof key, "k%06d", n);
    struct seam_op op = {SEAM_PUT, str(key), {NULL, 0}, {bytes, value}};
    return seam_write(db, &op, 1, SEAM_ACK_NONE, NULL, NULL);
}

static int delete_numbered(struct seam_db *db, int n)
{
    char key[16];
    snprintf(key, sizeof key, "k%06d", n);
    struct seam_op op = {SEAM_DELETE, str(key), {NULL, 0}, {NULL, 0}};
    return seam_write(db, &op, 1, SEAM_ACK_NONE, NULL, NULL);
}

/* A store at its cap can be emptied, and takes as much again: pages inside the file count as room. */
static void full_store_is_emptied_and_filled(void **state)
{
    struct room *r = *state;
    struct seam_options o = {.mode = SEAM_OPEN_CREATE, .disk = 2 << 20, .stall_ms = UINT32_MAX};
    struct seam_db *db = must_open("lmdb:reserve_chunk=256K", r->store, &o);
    int first = 0, n = 0, rc = SEAM_OK;
    for (int round = 0; round < 4; round++) {
        for (n = 0; (rc = put_numbered(db, n, 1800)) == SEAM_OK; n++)
            assert_true(n < 10000);
        assert_int_equal(rc, SEAM_E_NO_SPACE);
        assert_true(n > 200);
        if (round == 0)
            first = n;
        assert_true(n > first / 2);
        for (int i = 0; i < n; i++)
            assert_int_equal(delete_numbered(db, i), SEAM_OK);
        assert_true(file_size(r->data) <= 2 << 20);
    }
    /* An old reader keeps what it sees; its pages are no room, and come back when it goes. */
    struct seam_snap *snap = NULL;
    for (n = 0; (rc = put_numbered(db, n, 1800)) == SEAM_OK; n++)
        continue;
    assert_int_equal(seam_snap_open(db, &snap, NULL), SEAM_OK);
    for (int i = 0; i < n && rc != SEAM_OK; i++)
        rc = delete_numbered(db, i) == SEAM_OK ? SEAM_E_NO_SPACE : SEAM_OK;
    struct seam_pin pin;
    assert_int_equal(seam_get(db, snap, str("k000000"), &pin, NULL), SEAM_OK);
    seam_unpin(&pin);
    seam_snap_close(snap);
    for (int i = 0; i < n; i++)
        assert_int_equal(delete_numbered(db, i), SEAM_OK);
    must_put(db, "again", "1", SEAM_ACK_POWER);
    must_close(db);
}

/* The system's platform, on a disk that can be filled and emptied. */
static int full_allocate(void *ctx, int fd, uint64_t offset, uint64_t len)
{
    const struct seam_platform *os = seam_platform_system();
    const uint64_t *most = ctx;
    return offset + len > *most ? -ENOSPC : os->allocate(os->ctx, fd, offset, len);
}

static void full_disk_at_prepare(void **state)
{
    struct bare b;
    uint64_t most = 1 << 20;
    struct seam_platform os = *seam_platform_system();
    assert_null(os.ctx);
    os.ctx = &most;
    os.allocate = full_allocate;
    bare_open(&b, *state, &os, UINT64_MAX);
    if (!b.e->space.real) {
        bare_close(&b);
        skip();
    }
    static char value[1 << 20];
    struct seam_op large = {SEAM_PUT, {"large", 5}, {NULL, 0}, {value, sizeof value}};
    struct seam_op small = put_op("small", "1");
    struct seam_commit c;
    struct seam_err err = {0};
    memset(&c, 0, sizeof c);
    c.ops = &large;
    c.n = 1;
    assert_int_equal(lmdb_prepare(&b.e->base, &c, 0, &err), SEAM_E_NO_SPACE);
    assert_string_equal(err.limit, "disk");
    assert_int_equal(seam_ledger_promised(b.e->space.ledger), 0);
    assert_int_equal(bare_prepare(&b, &c, &small, 1, SEAM_ACK_POWER), SEAM_OK);
    assert_int_equal(lmdb_commit(&b.e->base, &c, NULL, NULL), SEAM_OK);
    most = UINT64_MAX;
    assert_int_equal(bare_prepare(&b, &c, &large, 1, SEAM_ACK_POWER), SEAM_OK);
    most = 0; /* what was promised is there */
    assert_int_equal(lmdb_commit(&b.e->base, &c, NULL, NULL), SEAM_OK);
    assert_true(bare_has(&b, "large"));
    bare_close(&b);
}

struct shape {
    size_t ops, key, value;
    uint32_t ids;
};

static void random_ops(uint64_t *s, const struct shape *shape, struct seam_op *ops, char (*keys)[512],
                       size_t n, const char *bytes)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t id = roll(s) % shape->ids;
        uint32_t mixed = (uint32_t)id * 2654435761u;
        size_t len = 8 + mixed % (shape->key - 7);
        memset(keys[i], 'x', 512);
        snprintf(keys[i], 512, "%08x", mixed);
        keys[i][8] = 'x';
        uint64_t kind = roll(s) % 20;
        uint64_t value = roll(s) % (roll(s) % 8 == 0 ? 4 * shape->value : shape->value);
        ops[i] = (struct seam_op){SEAM_PUT, {keys[i], len}, {NULL, 0}, {bytes, value}};
        if (kind >= 12) {
            ops[i].kind = SEAM_DELETE;
            ops[i].body = seam_bytes(NULL, 0);
        }
        if (kind == 19 && roll(s) % (2 * n) == 0) {
            ops[i].kind = SEAM_DELETE_RANGE;
            ops[i].key.len = 2; /* up to the end of the keys that begin with the next byte */
        }
    }
}

/* With readers that keep everything no page is used again, so that all copies are at the file's end:
 * the bound has to hold for trees of every shape. */
static void no_commit_exceeds_its_bound(void **state)
{
    static const struct shape shapes[] = {
        {1, 20, 100, 1000},    {5, 20, 100, 20000},   {300, 40, 200, 50000}, {80, 511, 1500, 3000},
        {500, 511, 2000, 9000}, {100, 511, 9000, 2000}, {900, 30, 60, 5000},
    };
    static char bytes[40000];
    struct room *r = *state;
    uint64_t s = seed();
    char (*keys)[512] = calloc(1000, sizeof *keys);
    struct seam_op *ops = calloc(1000, sizeof *ops);
    assert_non_null(keys);
    assert_non_null(ops);
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        struct bare b;
        bare_open(&b, r, seam_platform_system(), UINT64_MAX);
        void *snap = NULL;
        for (int round = 0; round < 60; round++) {
            struct seam_commit c;
            size_t n = 1 + roll(&s) % shapes[k].ops;
            random_ops(&s, &shapes[k], ops, keys, n, bytes);
            if (snap == NULL)
                assert_int_equal(lmdb_snap_open(&b.e->base, &snap, NULL), SEAM_OK);
            assert_int_equal(bare_prepare(&b, &c, ops, n, SEAM_ACK_NONE), SEAM_OK);
            uint64_t bound = ((struct lmdb_hold *)c.need.priv)->bound.pages;
            uint64_t before = lmdb_pages_used(b.e);
            assert_int_equal(lmdb_commit(&b.e->base, &c, NULL, NULL), SEAM_OK);
            assert_true(lmdb_pages_used(b.e) - before <= bound);
            if (roll(&s) % 3 == 0) {
                lmdb_snap_close(&b.e->base, snap);
                snap = NULL;
            }
        }
        if (snap != NULL)
            lmdb_snap_close(&b.e->base, snap);
        bare_close(&b);
        run("rm -f '%s'/%s", r->dir, "*.mdb");
    }
    free(keys);
    free(ops);
}

/* Leaves filled to the brim by an ascending load, then one insertion into each. */
static void full_leaves_split(void **state)
{
    enum { KEYS = 40000, STEP = 20 };
    static char bytes[180];
    struct bare b;
    char (*keys)[16] = calloc(KEYS, sizeof *keys);
    struct seam_op *ops = calloc(KEYS, sizeof *ops);
    struct seam_commit c;
    void *snap = NULL;
    assert_non_null(keys);
    assert_non_null(ops);
    bare_open(&b, *state, seam_platform_system(), UINT64_MAX);
    for (int pass = 0; pass < 2; pass++) {
        size_t n = 0;
        for (int i = 0; i < KEYS; i += pass == 0 ? 1 : STEP) {
            snprintf(keys[n], sizeof keys[n], "%08d%s", i, pass == 0 ? "" : "x");
            ops[n] = (struct seam_op){SEAM_PUT, str(keys[n]), {NULL, 0}, {bytes, sizeof bytes}};
            n++;
        }
        assert_int_equal(bare_prepare(&b, &c, ops, n, SEAM_ACK_NONE), SEAM_OK);
        uint64_t bound = ((struct lmdb_hold *)c.need.priv)->bound.pages;
        uint64_t before = lmdb_pages_used(b.e);
        assert_int_equal(lmdb_commit(&b.e->base, &c, NULL, NULL), SEAM_OK);
        assert_true(lmdb_pages_used(b.e) - before <= bound);
        if (pass == 0)
            assert_int_equal(lmdb_snap_open(&b.e->base, &snap, NULL), SEAM_OK);
    }
    lmdb_snap_close(&b.e->base, snap);
    free(keys);
    free(ops);
    bare_close(&b);
}

/* Many tickets held over the commits of others, taken and ended in any order: what is promised is
 * always there, and nothing stays promised. */
static void held_tickets_stay_covered(void **state)
{
    enum { HELD = 24, OPS = 120 };
    static const struct shape shape = {OPS, 40, 600, 4000};
    static char bytes[40000];
    static char keys[HELD][OPS][512];
    static struct seam_op ops[HELD][OPS];
    struct seam_commit c[HELD];
    bool held[HELD] = {false};
    uint64_t s = seed();
    struct bare b;
    void *snap = NULL;
    bare_open(&b, *state, seam_platform_system(), UINT64_MAX);
    assert_int_equal(lmdb_snap_open(&b.e->base, &snap, NULL), SEAM_OK);
    for (int round = 0; round < 600; round++) {
        size_t i = roll(&s) % HELD;
        struct lmdb_space *space = &b.e->space;
        if (!held[i]) {
            size_t n = 1 + roll(&s) % (roll(&s) % 2 == 0 ? OPS : 3);
            random_ops(&s, &shape, ops[i], keys[i], n, bytes);
            assert_int_equal(bare_prepare(&b, &c[i], ops[i], n, SEAM_ACK_NONE), SEAM_OK);
            held[i] = true;
        } else if (roll(&s) % 4 == 0) {
            lmdb_abort(&b.e->base, &c[i]);
            held[i] = false;
        } else {
            uint64_t bound = ((struct lmdb_hold *)c[i].need.priv)->bound.pages;
            uint64_t before = lmdb_pages_used(b.e);
            assert_int_equal(lmdb_commit(&b.e->base, &c[i], NULL, NULL), SEAM_OK);
            assert_true(lmdb_pages_used(b.e) - before <= bound);
            held[i] = false;
        }
        uint64_t promised = seam_ledger_promised(space->ledger);
        if (space->real) {
            uint64_t used = lmdb_pages_used(b.e), again = space->reusable;
            assert_true((used - (again < used ? again : used)) * space->page + promised <= space->ready);
            assert_true((used + space->runs) * space->page <= space->ready);
        }
    }
    for (size_t i = 0; i < HELD; i++) {
        if (held[i])
            lmdb_abort(&b.e->base, &c[i]);
    }
    assert_int_equal(seam_ledger_promised(b.e->space.ledger), 0);
    assert_null(b.e->space.first);
    lmdb_snap_close(&b.e->base, snap);
    bare_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_row_by_row),
        cmocka_unit_test_setup_teardown(missing_file, setup, teardown),
        cmocka_unit_test_setup_teardown(cut_short, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_metas, setup, teardown),
        cmocka_unit_test_setup_teardown(links_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(another_stores_file, setup, teardown),
        cmocka_unit_test_setup_teardown(modes, setup, teardown),
        cmocka_unit_test_setup_teardown(open_commits_twice, setup, teardown),
        cmocka_unit_test_setup_teardown(read_only_writes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(options_that_do_not_fit, setup, teardown),
        cmocka_unit_test_setup_teardown(acks_by_flag, setup, teardown),
        cmocka_unit_test_setup_teardown(empty_commit_raises, setup, teardown),
        cmocka_unit_test_setup_teardown(mixed_group, setup, teardown),
        cmocka_unit_test_setup_teardown(group_redone_singly, setup, teardown),
        cmocka_unit_test_setup_teardown(ranges_are_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(pins_have_a_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(dead_readers_are_cleared, setup, teardown),
        cmocka_unit_test_setup_teardown(disk_cap_is_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(full_store_is_emptied_and_filled, setup, teardown),
        cmocka_unit_test_setup_teardown(full_disk_at_prepare, setup, teardown),
        cmocka_unit_test_setup_teardown(no_commit_exceeds_its_bound, setup, teardown),
        cmocka_unit_test_setup_teardown(full_leaves_split, setup, teardown),
        cmocka_unit_test_setup_teardown(held_tickets_stay_covered, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
