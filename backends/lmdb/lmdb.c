/* lmdb.c - the LMDB engine: its table, options, open, close and figures.
 *
 * Relies on the library for the store directory and its LOCK: one writing process, or readers only.
 * So a read-only open needs no lock of LMDB's (MDB_NOLOCK), and writes nothing.
 * Keeps true: the address range is chosen at open and never changed (LMDB's resizing faults
 * readers); pages are never written through the map; MDB_NOSYNC is never set.
 *
 * OPEN REWRITES. The newest meta page that is seen here may be in the page cache only: written by a
 * process that was killed in the middle of its flush, or, after a failed flush, marked clean by the
 * kernel though it is not on the disk. Flushing it again would prove nothing. A commit writes one
 * of the two meta pages, in turn, and flushes first what the new tree refers to. So a writer
 * commits twice before anything is read: then both meta pages, and the trees they name, come from
 * writes whose flush returned. */
#include "lmdb_private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define KEYS_NAME "keys"
#define OWN_NAME "seam"
#define OWN_READERS 64u /* slots beyond limits.pins: sizes after a commit, counting ranges, stats  \
                         */
#define MAP_SLACK 4096u /* pages of the range that the ledger does not give away */
#define OPEN_PAGES 64u  /* what the two commits of an open may need */
#define SLOT_BYTES 64u /* what a reader's slot takes in lock.mdb */
#define LOCK_HEAD 16u  /* so many slots are more than its header takes */

static const struct seam_tuning lmdb_tunings[] = {
    {"map", SEAM_TUNE_SIZE, "256G", "address range, and so the most the store can grow to",
     64ull << 20, 1ull << 46, NULL},
    {"maxreaders", SEAM_TUNE_COUNT, "1024", "pins, snapshots and cursors open at once", 1, 60000,
     NULL},
    {"fill_wait", SEAM_TUNE_COUNT, "60",
     "microseconds a commit waits for others, when three or more threads write; 0: never", 0,
     100000, NULL},
    {"reserve_chunk", SEAM_TUNE_SIZE, "16M", "step in which disk is taken ahead of use",
     64ull << 10, 1ull << 30, NULL},
    {"readahead", SEAM_TUNE_FLAG, "1", "let the kernel read ahead; 0 for stores far beyond memory",
     0, 1, NULL},
    {NULL, SEAM_TUNE_FLAG, NULL, NULL, 0, 0, NULL},
};

static struct lmdb_engine *self(struct seam_engine *e)
{
    return (struct lmdb_engine *)(void *)e;
}

static const char *version(void)
{
    return mdb_version(NULL, NULL, NULL);
}

/* ---- Seam's own records: the store's uuid and the epoch of the last open ----------------------
 */

int lmdb_own_put(MDB_txn *txn, MDB_dbi dbi, const char *name, const void *bytes, size_t len)
{
    MDB_val k = {strlen(name), (void *)(uintptr_t)name};
    MDB_val v = {len, (void *)(uintptr_t)bytes};
    return mdb_put(txn, dbi, &k, &v, 0);
}

static int own_check_uuid(const struct lmdb_engine *e, MDB_txn *txn, const uint8_t *uuid,
                          struct seam_err *err)
{
    MDB_val k = {4, (void *)(uintptr_t) "uuid"}, v;
    int rc = mdb_get(txn, e->own, &k, &v);
    if (rc == MDB_NOTFOUND || (rc == 0 && v.mv_size != 16))
        return seam_fail(err, SEAM_E_CORRUPT,
                         "%s: Seam's own record is gone: restore the store from a copy",
                         LMDB_DATA_FILE);
    if (rc != 0)
        return lmdb_fail(err, rc, "reading Seam's own record");
    if (memcmp(v.mv_data, uuid, 16) != 0)
        return seam_fail(err, SEAM_E_MISMATCH,
                         "%s belongs to another store: put back the file made with this STORE",
                         LMDB_DATA_FILE);
    return SEAM_OK;
}

/* Pages of the largest value that was ever put; without a record, of the largest there can be. */
static uint64_t own_largest(const struct lmdb_engine *e, MDB_txn *txn)
{
    MDB_val k = {7, (void *)(uintptr_t) "largest"}, v;
    uint64_t n = LMDB_MAX_VALUE / e->space.page + 1;
    if (mdb_get(txn, e->own, &k, &v) == 0 && v.mv_size == sizeof n)
        memcpy(&n, v.mv_data, sizeof n);
    return n;
}

/* ---- open ----------------------------------------------------------------------------------- */

static int databases_open(struct lmdb_engine *e, MDB_txn *txn, bool create, struct seam_err *err)
{
    unsigned flags = create ? MDB_CREATE : 0;
    int rc = mdb_dbi_open(txn, KEYS_NAME, flags, &e->keys);
    if (rc == 0)
        rc = mdb_dbi_open(txn, OWN_NAME, flags, &e->own);
    if (rc == MDB_NOTFOUND)
        return seam_fail(err, SEAM_E_MISMATCH, "%s was not made by Seam: it lacks its databases",
                         LMDB_DATA_FILE);
    return rc != 0 ? lmdb_fail(err, rc, "opening the databases") : SEAM_OK;
}

/* The first of the two commits of a writable open, or the one look of a read-only one. */
static int first_txn(struct lmdb_engine *e, const struct seam_open_args *args, struct seam_err *err)
{
    MDB_txn *txn = NULL;
    int mrc = mdb_txn_begin(e->env, NULL, args->read_only ? MDB_RDONLY : 0, &txn);
    if (mrc != 0)
        return lmdb_fail(err, mrc, "beginning the first transaction");
    int rc = databases_open(e, txn, args->create, err);
    if (rc == SEAM_OK && !args->create)
        rc = own_check_uuid(e, txn, args->uuid, err);
    if (rc == SEAM_OK && args->create)
        mrc = lmdb_own_put(txn, e->own, "uuid", args->uuid, 16);
    uint64_t none = 0;
    if (rc == SEAM_OK && mrc == 0 && args->create)
        mrc = lmdb_own_put(txn, e->own, "largest", &none, sizeof none);
    if (rc == SEAM_OK && mrc == 0 && !args->read_only)
        mrc = lmdb_own_put(txn, e->own, "epoch", &args->epoch, sizeof args->epoch);
    if (rc == SEAM_OK && mrc == 0) {
        mrc = mdb_txn_commit(txn); /* of a read-only one: keeps the handles of the databases */
        txn = NULL;
    }
    if (txn != NULL)
        mdb_txn_abort(txn);
    return rc == SEAM_OK && mrc != 0 ? lmdb_fail(err, mrc, "the first commit of the open") : rc;
}

static int second_txn(struct lmdb_engine *e, const struct seam_open_args *args,
                      struct seam_err *err)
{
    MDB_txn *txn = NULL;
    int rc = mdb_txn_begin(e->env, NULL, 0, &txn);
    if (rc == 0)
        rc = lmdb_own_put(txn, e->own, "epoch", &args->epoch, sizeof args->epoch);
    if (rc == 0) {
        rc = mdb_txn_commit(txn);
        txn = NULL;
    }
    if (txn != NULL)
        mdb_txn_abort(txn);
    return rc != 0 ? lmdb_fail(err, rc, "the second commit of the open") : SEAM_OK;
}

/* An empty file made by the platform: mode 0600 whatever the umask, and never through a link. */
static int file_make(const struct seam_open_args *args, const char *name, struct seam_err *err)
{
    int fd = args->os->open(args->os->ctx, args->dir, name,
                            SEAM_FILE_WRITE | SEAM_FILE_CREATE | SEAM_FILE_NEW);
    if (fd < 0)
        return seam_fail_os(err, -fd, "making %s", name);
    args->os->close(args->os->ctx, fd);
    return SEAM_OK;
}

/* LMDB sets the length of lock.mdb and writes it through a map: on a full disk that would end the
 * process with SIGBUS, so its blocks are taken first. A file system that cannot is left to luck. */
static int lock_blocks(const struct lmdb_engine *e, const struct seam_open_args *args,
                       struct seam_err *err)
{
    const struct seam_platform *os = args->os;
    int fd = os->open(os->ctx, args->dir, LMDB_LOCK_FILE, SEAM_FILE_WRITE);
    if (fd < 0)
        return seam_fail_os(err, -fd, "%s", LMDB_LOCK_FILE);
    int rc = os->allocate(os->ctx, fd, 0, (e->maxreaders + OWN_READERS + LOCK_HEAD) * SLOT_BYTES);
    os->close(os->ctx, fd);
    if (rc >= 0 || rc == -EOPNOTSUPP)
        return SEAM_OK;
    return seam_fail_os(err, -rc, "taking the blocks of %s", LMDB_LOCK_FILE);
}

static int files_ready(const struct lmdb_engine *e, const struct seam_open_args *args,
                       struct seam_err *err)
{
    struct seam_file_info info;
    memset(&info, 0, sizeof info);
    int rc = args->create ? file_make(args, LMDB_DATA_FILE, err)
                          : lmdb_check_file(args->os, args->dir, args->read_only, err);
    if (rc != SEAM_OK || args->read_only)
        return rc;
    rc = args->os->stat(args->os->ctx, args->dir, LMDB_LOCK_FILE, &info);
    if (rc == -ENOENT || (rc >= 0 && info.kind == SEAM_FILE_ABSENT))
        rc = file_make(args, LMDB_LOCK_FILE, err);
    else if (rc < 0)
        rc = seam_fail_os(err, -rc, "%s", LMDB_LOCK_FILE);
    else if (info.kind != SEAM_FILE_REGULAR)
        rc = seam_fail(err, SEAM_E_CORRUPT, "%s is not a regular file: remove it", LMDB_LOCK_FILE);
    return rc == SEAM_OK ? lock_blocks(e, args, err) : rc;
}

static int env_open(struct lmdb_engine *e, const struct seam_open_args *args, struct seam_err *err)
{
    uint64_t map = args->settings[LMDB_SET_MAP] & ~(uint64_t)0xffff; /* whole pages of any size */
    unsigned flags = MDB_NOTLS | (args->read_only ? MDB_RDONLY | MDB_NOLOCK : 0u) |
                     (args->settings[LMDB_SET_READAHEAD] != 0 ? 0u : MDB_NORDAHEAD);
    int rc = mdb_env_create(&e->env);
    if (rc == 0)
        rc = mdb_env_set_mapsize(e->env, map);
    if (rc == 0)
        rc = mdb_env_set_maxdbs(e->env, 2);
    if (rc == 0)
        rc = mdb_env_set_maxreaders(e->env, (unsigned)e->maxreaders + OWN_READERS);
    if (rc == 0)
        rc = mdb_env_open(e->env, args->path, flags, 0600);
    if (rc == ENOMEM)
        return seam_fail(err, SEAM_E_NOMEM,
                         "lmdb: cannot map %" PRIu64 " bytes of addresses: lower option map", map);
    return rc != 0 ? lmdb_fail(err, rc, "opening " LMDB_DATA_FILE) : SEAM_OK;
}

static int space_open(struct lmdb_engine *e, const struct seam_open_args *args,
                      struct seam_err *err)
{
    MDB_stat st;
    MDB_envinfo info;
    int fd = -1;
    int rc = mdb_env_get_fd(e->env, &fd);
    if (rc == 0)
        rc = mdb_env_stat(e->env, &st);
    if (rc == 0)
        rc = mdb_env_info(e->env, &info);
    if (rc != 0)
        return lmdb_fail(err, rc, "opening " LMDB_DATA_FILE);
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC); /* LMDB leaves this one open over exec */
    uint64_t map = info.me_mapsize - MAP_SLACK * st.ms_psize;
    e->space.fd = fd;
    e->space.page = st.ms_psize;
    e->space.node_max = (((st.ms_psize - 16u) / 2u) & ~1u) - 2u;
    e->space.chunk = args->settings[LMDB_SET_RESERVE_CHUNK];
    e->space.tree.used = info.me_last_pgno + 1;
    return lmdb_space_open(&e->space, args->os, args->disk < map ? args->disk : map, err);
}

/* What a writer does before the first read; see the top of this file. */
static int writer_ready(struct lmdb_engine *e, const struct seam_open_args *args,
                        struct seam_err *err)
{
    const struct seam_platform *os = args->os;
    int dead = 0, synced;
    (void)mdb_reader_check(e->env, &dead);
    bool roomy = lmdb_space_ahead(&e->space, OPEN_PAGES); /* else the commits find their own room */
    int rc = first_txn(e, args, err);
    if (rc == SEAM_OK)
        rc = second_txn(e, args, err);
    if (rc == SEAM_E_IO && !roomy) /* LMDB says so of a write that was cut short by a full disk */
        return seam_fail(err, SEAM_E_NO_SPACE, "no room on the disk for the commits of an open: "
                                               "free some");
    if (rc == SEAM_OK && (synced = os->sync_dir(os->ctx, args->dir)) < 0)
        rc = seam_fail_os(err, -synced, "flushing the engine's directory");
    if (rc != SEAM_OK)
        return rc;
    e->counts.flushes += 4;
    struct lmdb_reader *r = NULL;
    rc = lmdb_reader_take(e, &r, err);
    if (rc != SEAM_OK)
        return rc;
    rc = lmdb_tree_read(e, r->txn, &e->space.tree);
    e->space.tree.largest = own_largest(e, r->txn);
    e->space.tree.used = lmdb_pages_used(e);
    mdb_txn_reset(r->txn);
    e->watcher = r;
    if (rc != 0)
        return lmdb_fail(err, rc, "reading the size of the tree");
    e->space.engine = e;
    seam_ledger_give(e->space.ledger, 0, e->space.tree.used * e->space.page);
    struct seam_group_config config = {lmdb_run, e, 0, 0,
                                       (uint32_t)args->settings[LMDB_SET_FILL_WAIT]};
    return seam_group_open(os, &config, &e->group, err);
}

static void engine_free(struct lmdb_engine *e)
{
    seam_group_close(e->group);
    if (e->watcher != NULL)
        lmdb_reader_give(e, e->watcher);
    lmdb_readers_close(e);
    lmdb_space_close(&e->space);
    if (e->env != NULL)
        mdb_env_close(e->env);
    pthread_mutex_destroy(&e->pool_lock);
    e->os->free(e->os->ctx, e);
}

static int engine_open(const struct seam_open_args *args, struct seam_engine **ret,
                       struct seam_err *err)
{
    struct lmdb_engine *e = args->os->alloc(args->os->ctx, sizeof *e);
    if (e == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "lmdb: no memory to open");
    memset(e, 0, sizeof *e);
    e->os = args->os;
    e->read_only = args->read_only;
    e->maxreaders = args->settings[LMDB_SET_MAXREADERS];
    int rc = pthread_mutex_init(&e->pool_lock, NULL);
    if (rc != 0) {
        args->os->free(args->os->ctx, e);
        return seam_fail_os(err, rc, "lmdb: cannot make a lock");
    }
    rc = files_ready(e, args, err);
    if (rc == SEAM_OK)
        rc = env_open(e, args, err);
    if (rc == SEAM_OK)
        rc = args->read_only ? first_txn(e, args, err) : space_open(e, args, err);
    if (rc == SEAM_OK && !args->read_only)
        rc = writer_ready(e, args, err);
    if (rc != SEAM_OK) {
        engine_free(e);
        return rc;
    }
    *ret = &e->base;
    return SEAM_OK;
}

static int engine_close(struct seam_engine *base, struct seam_err *err)
{
    struct lmdb_engine *e = self(base);
    int rc = SEAM_OK;
    if (!e->read_only) {
        rc = lmdb_sync(base, SEAM_ACK_POWER, err);
        if (rc == SEAM_OK)
            lmdb_space_trim(&e->space);
        else if (rc == SEAM_E_POISONED) /* what failed was told, and is not tried again */
            rc = SEAM_OK;
    }
    engine_free(e);
    return rc;
}

/* ---- figures --------------------------------------------------------------------------------- */

static void limits(const struct seam_engine *base, struct seam_limits *ret)
{
    const struct lmdb_engine *e = (const struct lmdb_engine *)(const void *)base;
    *ret = (struct seam_limits){
        .key = LMDB_MAX_KEY,
        .value = LMDB_MAX_VALUE,
        .ops = LMDB_MAX_OPS,
        .bytes = LMDB_MAX_BYTES,
        .range_keys = LMDB_MAX_RANGE_KEYS,
        .tickets = UINT64_MAX,
        .pins = e->maxreaders,
        /* LMDB's assertions are compiled in: damaged pages can trip them. */
        .caps = SEAM_CAP_MAY_ABORT | (e->space.real ? SEAM_CAP_RESERVES : 0u),
        .best = SEAM_ACK_POWER,
    };
}

static int64_t count_of(const atomic_uint_fast64_t *n)
{
    return (int64_t)atomic_load_explicit(n, memory_order_relaxed);
}

static int stats(struct seam_engine *base, struct seam_stats *ret, struct seam_err *err)
{
    struct lmdb_engine *e = self(base);
    struct lmdb_reader *r = NULL;
    MDB_stat keys;
    struct stat st;
    int fd = -1;
    int rc = lmdb_reader_take(e, &r, err);
    if (rc != SEAM_OK)
        return rc;
    rc = mdb_stat(r->txn, e->keys, &keys);
    lmdb_reader_give(e, r);
    if (rc != 0)
        return lmdb_fail(err, rc, "reading the size of the tree");
    ret->keys = (int64_t)keys.ms_entries;
    if (mdb_env_get_fd(e->env, &fd) == 0 && fstat(fd, &st) == 0)
        ret->disk_bytes = (int64_t)st.st_blocks * 512;
    ret->commits = count_of(&e->counts.commits);
    ret->ops = count_of(&e->counts.ops);
    ret->user_bytes = count_of(&e->counts.bytes);
    ret->groups = count_of(&e->counts.groups);
    ret->flushes = count_of(&e->counts.flushes);
    ret->recovered_commits = 0; /* there is no log */
    return SEAM_OK;
}

static size_t describe(struct seam_engine *base, char *buf, size_t cap)
{
    struct lmdb_engine *e = self(base);
    struct lmdb_space *s = &e->space;
    MDB_envinfo info;
    MDB_stat keys = {0};
    struct lmdb_tree tree = {0};
    uint64_t ready = 0, worst = 0;
    struct lmdb_reader *r = NULL;
    memset(&info, 0, sizeof info);
    (void)mdb_env_info(e->env, &info);
    if (lmdb_reader_take(e, &r, NULL) == SEAM_OK) {
        (void)mdb_stat(r->txn, e->keys, &keys);
        (void)lmdb_tree_read(e, r->txn, &tree);
        lmdb_reader_give(e, r);
    }
    if (s->ledger != NULL) {
        pthread_mutex_lock(&s->file_lock);
        pthread_mutex_lock(&s->lock);
        ready = s->ready;
        worst = s->worst_percent;
        pthread_mutex_unlock(&s->lock);
        pthread_mutex_unlock(&s->file_lock);
    }
    int n = snprintf(
        buf, cap,
        "lmdb: txn %zu, page %u, depth %u, pages branch %zu leaf %zu overflow %zu free-list "
        "%" PRIu64 " used %zu, map %zu, readers %u of %u slots, reserved to byte %" PRIu64
        " (%s), most of a reserve used %" PRIu64 "%%, groups redone singly %" PRId64 "\n",
        info.me_last_txnid, keys.ms_psize, keys.ms_depth, keys.ms_branch_pages, keys.ms_leaf_pages,
        keys.ms_overflow_pages, tree.free_pages, info.me_last_pgno + 1, info.me_mapsize,
        info.me_numreaders, info.me_maxreaders, ready, s->real ? "real blocks" : "free space only",
        worst, count_of(&e->counts.redone));
    return n > 0 ? (size_t)n : 0;
}

const struct seam_backend seam_backend_lmdb = {
    .abi = SEAM_BACKEND_ABI,
    .flags = SEAM_BACKEND_CONCURRENT,
    .format = 1,
    .name = "lmdb",
    .summary = "copy-on-write B+tree, LMDB",
    .tunings = lmdb_tunings,
    .version = version,
    .open = engine_open,
    .close = engine_close,
    .limits = limits,
    .prepare = lmdb_prepare,
    .abort = lmdb_abort,
    .commit = lmdb_commit,
    .sync = lmdb_sync,
    .snap_open = lmdb_snap_open,
    .snap_close = lmdb_snap_close,
    .get = lmdb_get,
    .near = lmdb_near,
    .unpin = lmdb_unpin,
    .cursor_open = lmdb_cursor_open,
    .cursor_move = lmdb_cursor_move,
    .cursor_value = lmdb_cursor_value,
    .cursor_close = lmdb_cursor_close,
    .stats = stats,
    .describe = describe,
};
