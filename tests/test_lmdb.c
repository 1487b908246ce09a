/* test_lmdb.c - what only the LMDB engine has: its error table, what it finds before mapping a
 * file, the rewrite at open, acks by flag, groups redone singly, and LMDB's reader table.
 *
 * Relies on the engine's private header for the group's work; opens through the public calls
 * wherever those can show it. */
#include "test_lmdb_support.h"

static const struct seam_options existing = {.mode = SEAM_OPEN_EXISTING};

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

/* ---- the error table ---------------------------------------------------------------------------
 */

static void errors_row_by_row(void **state)
{
    (void)state;
    static const struct {
        int rc, code;
    } rows[] = {
        {MDB_KEYEXIST, SEAM_E_IO},
        {MDB_NOTFOUND, SEAM_NOTFOUND},
        {MDB_PAGE_NOTFOUND, SEAM_E_CORRUPT},
        {MDB_CORRUPTED, SEAM_E_CORRUPT},
        {MDB_PANIC, SEAM_E_POISONED},
        {MDB_VERSION_MISMATCH, SEAM_E_MISMATCH},
        {MDB_INVALID, SEAM_E_CORRUPT},
        {MDB_MAP_FULL, SEAM_E_NO_SPACE},
        {MDB_DBS_FULL, SEAM_E_IO},
        {MDB_READERS_FULL, SEAM_E_BUSY},
        {MDB_TLS_FULL, SEAM_E_NOMEM},
        {MDB_TXN_FULL, SEAM_E_TOO_LARGE},
        {MDB_CURSOR_FULL, SEAM_E_CORRUPT},
        {MDB_PAGE_FULL, SEAM_E_CORRUPT},
        {MDB_MAP_RESIZED, SEAM_E_NO_SPACE},
        {MDB_INCOMPATIBLE, SEAM_E_MISMATCH},
        {MDB_BAD_RSLOT, SEAM_E_IO},
        {MDB_BAD_TXN, SEAM_E_IO},
        {MDB_BAD_VALSIZE, SEAM_E_INVALID},
        {MDB_BAD_DBI, SEAM_E_IO},
        {ENOSPC, SEAM_E_NO_SPACE},
        {ENOMEM, SEAM_E_NOMEM},
        {EACCES, SEAM_E_PERMISSION},
        {EROFS, SEAM_E_READ_ONLY},
        {EIO, SEAM_E_IO},
        {-1, SEAM_E_IO},
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

/* ---- the file before it is mapped --------------------------------------------------------------
 */

static void missing_file(void **state)
{
    struct room *r = *state;
    struct seam_db *db = make("lmdb", r->store);
    must_put(db, "a", "1", SEAM_ACK_POWER);
    support_close(db);
    assert_int_equal(unlink(r->data), 0);
    open_fails(r->store, SEAM_OPEN_EXISTING, SEAM_E_CORRUPT, "data.mdb is missing");
    open_fails(r->store, SEAM_OPEN_CREATE, SEAM_E_CORRUPT, "data.mdb is missing");
    open_fails(r->store, SEAM_OPEN_READ_ONLY, SEAM_E_CORRUPT, "data.mdb is missing");
    assert_int_equal(access(r->data, F_OK), -1);
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
    char key[16];
    for (int i = 0; i < 300; i++) {
        snprintf(key, sizeof key, "key%04d", i);
        must_put(db, key, "a value that takes some room in the leaves", SEAM_ACK_NONE);
    }
    support_close(db);
    uint64_t txn[2], last[2];
    metas_read(r->data, txn, last);
    uint64_t need = (last[txn[0] < txn[1]] + 1) * 4096;
    assert_true(file_size(r->data) >= need);
    copy_file(r->data, r->copy);
    for (uint64_t len = 0; len < need; len += len < 8192 ? 512 : 4096 + 17) {
        assert_int_equal(truncate(r->data, (off_t)len), 0);
        open_fails(r->store, SEAM_OPEN_EXISTING, SEAM_E_CORRUPT, "data.mdb");
        open_fails(r->store, SEAM_OPEN_READ_ONLY, SEAM_E_CORRUPT, "data.mdb");
        assert_int_equal(file_size(r->data), len);
        copy_file(r->copy, r->data);
    }
    assert_int_equal(truncate(r->data, (off_t)need), 0); /* only unused pages gone: no harm */
    db = support_open_with("lmdb", r->store, &existing);
    assert_true(has(db, "key0299", "a value that takes some room in the leaves"));
    support_close(db);
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
    support_close(db);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (off_t page = 0; page < 2; page++)
            flip(r->data, page * 4096 + rows[i].at, rows[i].bits);
        open_fails(r->store, SEAM_OPEN_EXISTING, rows[i].code, "data.mdb");
        for (off_t page = 0; page < 2; page++)
            flip(r->data, page * 4096 + rows[i].at, rows[i].bits);
    }
    db = support_open_with("lmdb", r->store, &existing);
    assert_true(has(db, "a", "1"));
    support_close(db);
}

static void links_are_refused(void **state)
{
    struct room *r = *state;
    const char *moved = support_text("%s/moved.mdb", r->dir);
    support_close(make("lmdb", r->store));
    assert_int_equal(rename(r->data, moved), 0);
    assert_int_equal(symlink(moved, r->data), 0);
    open_fails(r->store, SEAM_OPEN_EXISTING, SEAM_E_CORRUPT, "not a regular file");
    open_fails(r->store, SEAM_OPEN_READ_ONLY, SEAM_E_CORRUPT, "not a regular file");
    assert_int_equal(unlink(r->data), 0);
    assert_int_equal(link(moved, r->data), 0);
    open_fails(r->store, SEAM_OPEN_EXISTING, SEAM_E_CORRUPT, "2 names");
    assert_int_equal(unlink(moved), 0);
    assert_int_equal(unlink(r->lock), 0);
    assert_int_equal(symlink("/dev/null", r->lock), 0);
    open_fails(r->store, SEAM_OPEN_EXISTING, SEAM_E_CORRUPT, "lock.mdb");
    assert_int_equal(unlink(r->lock), 0);
    support_close(
        support_open_with("lmdb", r->store, &existing)); /* a copy without lock.mdb is whole */
}

static void another_stores_file(void **state)
{
    struct room *r = *state;
    const char *other = support_text("%s/other", r->dir);
    const char *data = support_text("%s/engine/data.mdb", other);
    support_close(make("lmdb", r->store));
    support_close(make("lmdb", other));
    copy_file(data, r->data);
    open_fails(r->store, SEAM_OPEN_EXISTING, SEAM_E_MISMATCH, "another store");
    open_fails(r->store, SEAM_OPEN_READ_ONLY, SEAM_E_MISMATCH, "another store");
}

static void modes(void **state)
{
    struct room *r = *state;
    struct stat st;
    mode_t old = umask(0);
    support_close(make("lmdb", r->store));
    umask(old);
    assert_int_equal(stat(r->data, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(stat(r->lock, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
}

/* ---- open ---------------------------------------------------------------------------------------
 */

static void open_commits_twice(void **state)
{
    struct room *r = *state;
    uint64_t before[2], after[2], last[2];
    support_close(make("lmdb", r->store));
    metas_read(r->data, before, last);
    struct seam_db *db = support_open_with("lmdb", r->store, &existing);
    struct seam_stats st;
    assert_int_equal(seam_db_stats(db, &st, NULL), SEAM_OK);
    assert_int_equal(st.flushes, 4);
    support_close(db);
    metas_read(r->data, after, last);
    for (int i = 0; i < 2; i++) /* both meta pages are new, each by one commit */
        assert_int_equal(after[i], before[i] + 2);
}

static void read_only_writes_nothing(void **state)
{
    struct room *r = *state;
    struct seam_db *db = make("lmdb", r->store);
    must_put(db, "a", "1", SEAM_ACK_POWER);
    support_close(db);
    assert_int_equal(unlink(r->lock), 0);
    uint64_t before = support_fingerprint(r->store);
    struct seam_options o = {.mode = SEAM_OPEN_READ_ONLY};
    struct seam_db *one = support_open_with("lmdb", r->store, &o),
                   *two = support_open_with("lmdb", r->store, &o);
    assert_true(has(one, "a", "1"));
    assert_true(has(two, "a", "1"));
    struct seam_stats st;
    assert_int_equal(seam_db_stats(one, &st, NULL), SEAM_OK);
    assert_int_equal(st.keys, 1);
    struct seam_op op = put_op("b", "2");
    assert_int_equal(seam_write(one, &op, 1, SEAM_ACK_POWER, NULL, NULL), SEAM_E_READ_ONLY);
    support_close(one);
    support_close(two);
    assert_true(support_fingerprint(r->store) == before);
    assert_int_equal(access(r->lock, F_OK), -1);
}

static void options_that_do_not_fit(void **state)
{
    struct room *r = *state;
    static const char *const specs[] = {"lmdb:map=1M",       "lmdb:map=256T",
                                        "lmdb:maxreaders=0", "lmdb:readahead=2",
                                        "lmdb:fill_wait=1s", "lmdb:nosync"};
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        struct seam_db *db = NULL;
        struct seam_options o = {.mode = SEAM_OPEN_CREATE};
        assert_int_equal(seam_open(specs[i], r->store, &o, &db, NULL), SEAM_E_OPTION);
        assert_null(db);
    }
    struct seam_db *db =
        make("lmdb:map=64M,maxreaders=8,fill_wait=0,reserve_chunk=64K,readahead=0", r->store);
    must_put(db, "a", "1", SEAM_ACK_POWER);
    assert_true(has(db, "a", "1"));
    support_close(db);
}

/* ---- acks ---------------------------------------------------------------------------------------
 */

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
    } rows[] = {{SEAM_ACK_POWER, SEAM_ACK_POWER, 2},
                {SEAM_ACK_NONE, SEAM_ACK_PROCESS, 1},
                {SEAM_ACK_PROCESS, SEAM_ACK_PROCESS, 1},
                {SEAM_ACK_OS, SEAM_ACK_POWER, 2},
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
    support_close(db);
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
    support_close(db);
}

/* ---- groups
 * --------------------------------------------------------------------------------------- */

static void mixed_group(void **state)
{
    struct bare b;
    bare_open(&b, *state, seam_platform_system(), UINT64_MAX);
    struct seam_op ops[2] = {put_op("a", "1"), put_op("b", "2")};
    struct seam_commit c[2];
    struct seam_member m[2];
    memset(m, 0, sizeof m);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            bare_prepare(&b, &c[i], &ops[i], 1, i == 0 ? SEAM_ACK_NONE : SEAM_ACK_POWER), SEAM_OK);
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

/* One member that LMDB refuses: those before it are done, those behind it are not handed over. */
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
            assert_int_equal(m[i].rc, i < bad    ? SEAM_OK
                                      : i == bad ? SEAM_E_UNKNOWN
                                                 : SEAM_E_POISONED);
            assert_int_equal(m[i].err.code, m[i].rc);
            assert_int_equal(bare_has(&b, key[i]), i < bad);
            assert_int_equal(m[i].acked.group, i < bad ? 1 : 0);
        }
    }
    assert_int_equal(atomic_load(&b.e->counts.redone), 3);
    assert_int_equal(seam_ledger_promised(b.e->space.ledger), 0);
    bare_close(&b);
}

/* With every slot taken the leader still learns how large the tree is after its commit: what is
 * promised next rests on that. */
static void the_tree_is_seen_with_all_slots_taken(void **state)
{
    struct bare b;
    bare_open(&b, *state, seam_platform_system(), UINT64_MAX);
    enum { OPS = 2000, SLOTS = 16 + 64 };
    struct lmdb_reader *taken[SLOTS + 1];
    static char keys[OPS][8];
    static struct seam_op ops[OPS];
    struct seam_commit c;
    struct lmdb_tree now;
    int n = 0;
    for (int i = 0; i < OPS; i++) {
        snprintf(keys[i], sizeof keys[i], "%06x", (unsigned)i & 0xffffffu);
        ops[i] = put_op(keys[i], "0123456789");
    }
    while (n <= SLOTS && lmdb_reader_take(b.e, &taken[n], NULL) == SEAM_OK)
        n++;
    assert_in_range(n, 17, SLOTS);
    assert_int_equal(bare_prepare(&b, &c, ops, OPS, SEAM_ACK_POWER), SEAM_OK);
    assert_int_equal(lmdb_commit(&b.e->base, &c, NULL, NULL), SEAM_OK);
    uint64_t leaf = b.e->space.tree.leaf;
    assert_true(leaf > 10);
    while (n > 0)
        lmdb_reader_give(b.e, taken[--n]);
    assert_int_equal(lmdb_reader_take(b.e, &taken[0], NULL), SEAM_OK);
    assert_int_equal(lmdb_tree_read(b.e, taken[0]->txn, &now), 0);
    assert_int_equal(now.leaf, leaf);
    lmdb_reader_give(b.e, taken[0]);
    bare_close(&b);
}

/* A range is counted before it is promised. */
static void ranges_are_counted(void **state)
{
    struct bare b;
    bare_open(&b, *state, seam_platform_system(), UINT64_MAX);
    enum { BATCH = 4096 };
    char(*keys)[8] = calloc(BATCH, sizeof *keys);
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

/* ---- readers ------------------------------------------------------------------------------------
 */

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
    support_close(db);
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
    const char *path = support_text("%s/engine", r->store);
    int status = 0;
    struct seam_db *db = make("lmdb:maxreaders=4", r->store);
    struct seam_snap *snap = NULL, *second = NULL;
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
    support_close(db);
}

int main(int argc, char **argv)
{
    int rc = support_begin(argc, argv);
    if (rc != 0)
        return rc;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_row_by_row),
        ROOM_TEST(missing_file),
        ROOM_TEST(cut_short),
        ROOM_TEST(damaged_metas),
        ROOM_TEST(links_are_refused),
        ROOM_TEST(another_stores_file),
        ROOM_TEST(modes),
        ROOM_TEST(open_commits_twice),
        ROOM_TEST(read_only_writes_nothing),
        ROOM_TEST(options_that_do_not_fit),
        ROOM_TEST(acks_by_flag),
        ROOM_TEST(empty_commit_raises),
        ROOM_TEST(mixed_group),
        ROOM_TEST(group_redone_singly),
        ROOM_TEST(the_tree_is_seen_with_all_slots_taken),
        ROOM_TEST(ranges_are_counted),
        ROOM_TEST(pins_have_a_limit),
        ROOM_TEST(dead_readers_are_cleared),
    };
    return cmocka_run_group_tests_name("lmdb", tests, NULL, NULL);
}
