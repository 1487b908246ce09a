/* write.c - prepare, commit, abort and sync.
 *
 * Relies on RocksDB's write thread: writers queue, the first writes one log record group for all
 * waiting ones, flushes the log if any of them asked for that, applies the group to the memtable
 * and publishes its last sequence number only then; so a flushed commit is not visible before its
 * flush returned, and an unflushed one that rides in a flushed group is flushed with it.
 * Keeps true: the log is never left out (a commit without one would survive nothing and a later one
 * could survive it); the batch is built, and its memory taken, at prepare; what prepare cannot
 * reserve it checks: free disk space against everything that is still only in memory and log. */
#include "rdb.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

enum {
    POOL_MOST = 64,        /* batches kept */
    POOL_BYTES = 1 << 20,  /* a batch that grew beyond this is freed */
    SPARE_DISK = 512 << 10, /* for the manifest and for tables' own blocks */
    COPY_MOST = 1600 << 20  /* bytes of one compaction: 25 tables of 64 MiB */
};

static struct seam_rocksdb *rdb(struct seam_engine *e)
{
    return (struct seam_rocksdb *)e;
}

/* ---- batches ----------------------------------------------------------------------------- */

static struct seam_rocksdb_batch *batch_take(struct seam_rocksdb *r)
{
    pthread_mutex_lock(&r->pool_lock);
    struct seam_rocksdb_batch *b = r->pool;
    if (b) {
        r->pool = b->next;
        r->pooled--;
    }
    pthread_mutex_unlock(&r->pool_lock);
    if (b)
        return b;
    b = r->os->alloc(r->os->ctx, sizeof *b);
    if (b)
        b->wb = rocksdb_writebatch_create();
    return b;
}

static void batch_free(struct seam_rocksdb *r, struct seam_rocksdb_batch *b)
{
    rocksdb_writebatch_destroy(b->wb);
    r->os->free(r->os->ctx, b);
}

static void batch_give(struct seam_rocksdb *r, struct seam_rocksdb_batch *b)
{
    size_t size = 0;
    (void)rocksdb_writebatch_data(b->wb, &size);
    bool keep = false;
    if (size <= POOL_BYTES) {
        rocksdb_writebatch_clear(b->wb);
        pthread_mutex_lock(&r->pool_lock);
        keep = r->pooled < POOL_MOST;
        if (keep) {
            b->next = r->pool;
            r->pool = b;
            r->pooled++;
        }
        pthread_mutex_unlock(&r->pool_lock);
    }
    if (!keep)
        batch_free(r, b);
}

void seam_rocksdb_drain(struct seam_rocksdb *r)
{
    while (r->pool) {
        struct seam_rocksdb_batch *b = r->pool;
        r->pool = b->next;
        batch_free(r, b);
    }
    r->pooled = 0;
}

/* RocksDB has no range without an end, so the first one of a commit ends behind the longest key
 * there may be. After it no key from its begin on is left but what this commit put since, so a later
 * one ends behind the greatest of those, or where the one before begins: the long end is written
 * once, and each key of the commit serves as an end at most once. */
struct unbounded {
    struct seam_slice from;     /* begin of the last range that deleted something */
    struct seam_slice greatest; /* of the keys put since */
};

static void add_unbounded(struct seam_rocksdb *r, rocksdb_writebatch_t *wb, struct unbounded *u,
                          struct seam_slice from)
{
    if (!u->from.ptr) {
        rocksdb_writebatch_delete_range(wb, from.ptr, from.len, r->beyond, SEAM_ROCKSDB_KEY + 1);
        u->from = from;
        return;
    }
    bool put = u->greatest.ptr && seam_compare(u->greatest, u->from) >= 0;
    struct seam_slice end = put ? u->greatest : u->from;
    int order = seam_compare(from, end);
    if (order > 0 || (order == 0 && !put))
        return; /* nothing is left there */
    /* In two parts: what directly follows a key is that key with a zero byte added. */
    const char *begins[2] = {from.ptr, ""};
    size_t begin_lens[2] = {from.len, 0};
    const char *ends[2] = {end.ptr, "\0"};
    size_t end_lens[2] = {end.len, put};
    rocksdb_writebatch_delete_rangev(wb, 2, begins, begin_lens, ends, end_lens);
    u->from = from;
    u->greatest = seam_bytes(NULL, 0);
}

static void add_put(rocksdb_writebatch_t *wb, const struct seam_op *op)
{
    if (!op->body.len) {
        rocksdb_writebatch_put(wb, op->key.ptr, op->key.len, op->head.len ? op->head.ptr : "",
                               op->head.len);
        return;
    }
    /* RocksDB takes the parts of a key and of a value apart and joins them in the batch. */
    const char *key = op->key.ptr;
    const char *parts[2] = {op->head.len ? op->head.ptr : "", op->body.ptr};
    size_t lens[2] = {op->head.len, op->body.len};
    rocksdb_writebatch_putv(wb, 1, &key, &op->key.len, 2, parts, lens);
}

static void batch_fill(struct seam_rocksdb *r, rocksdb_writebatch_t *wb,
                       const struct seam_commit *c)
{
    struct unbounded u = {{NULL, 0}, {NULL, 0}};
    for (size_t i = 0; i < c->n; i++) {
        const struct seam_op *op = &c->ops[i];
        switch (op->kind) {
        case SEAM_PUT:
            add_put(wb, op);
            if (u.from.ptr && (!u.greatest.ptr || seam_compare(op->key, u.greatest) > 0))
                u.greatest = op->key;
            break;
        case SEAM_DELETE:
            rocksdb_writebatch_delete(wb, op->key.ptr, op->key.len);
            break;
        case SEAM_DELETE_RANGE:
            if (op->head.ptr)
                rocksdb_writebatch_delete_range(wb, op->key.ptr, op->key.len, op->head.ptr,
                                                op->head.len);
            else
                add_unbounded(r, wb, &u, op->key);
            break;
        }
    }
}

/* The batch's size, at most. */
static uint64_t batch_bound(const struct seam_commit *c)
{
    uint64_t bound = 16 + c->bytes + (uint64_t)c->n * SEAM_ROCKSDB_OP_COST;
    uint64_t keys = 0, unbounded = 0;
    for (size_t i = 0; i < c->n; i++) {
        const struct seam_op *op = &c->ops[i];
        keys += op->key.len;
        unbounded += op->kind == SEAM_DELETE_RANGE && !op->head.ptr;
    }
    return bound + (unbounded ? SEAM_ROCKSDB_KEY + 1 : 0) + (unbounded > 1 ? keys : 0);
}

/* ---- what can be known before a commit ---------------------------------------------------- */

/* RocksDB stops writers while memtables or level 0 are full. That wait belongs to prepare. It comes
 * about by bytes written, so it is asked once in an eighth of a memtable. */
static int wait_writable(struct seam_rocksdb *r, uint64_t deadline_ns, struct seam_err *err)
{
    if (!atomic_load(&r->stopped) && atomic_load(&r->unchecked) < r->write_buffer / 8)
        return SEAM_OK;
    for (;;) {
        atomic_store(&r->unchecked, 0);
        bool stopped = seam_rocksdb_property(r, "rocksdb.is-write-stopped") != 0;
        atomic_store(&r->stopped, stopped);
        if (!stopped)
            return SEAM_OK;
        if (r->os->now_ns(r->os->ctx, SEAM_CLOCK_MONOTONIC) >= deadline_ns)
            return seam_fail(err, SEAM_E_BUSY,
                             "rocksdb: writes are stopped until flush and compaction catch up; "
                             "try again later, or raise jobs or buffers");
        r->os->sleep_us(r->os->ctx, 1000);
    }
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static int look(struct seam_rocksdb *r, struct seam_rocksdb_space *ret, struct seam_err *err)
{
    atomic_store(&r->unlisted, 0);
    int os = seam_rocksdb_list(r, ret);
    if (os < 0)
        return seam_fail_os(err, -os, "rocksdb: listing the store's files");
    atomic_store(&r->listed_size, ret->size);
    atomic_store(&r->listed_tables, ret->tables);
    return SEAM_OK;
}

/* The room with upper bounds for what changes between listings, which costs no lock of RocksDB's; 0
 * if that is not plenty. */
static uint64_t plenty(const struct seam_rocksdb *r, uint64_t need, uint64_t available)
{
    uint64_t since = atomic_load(&r->unlisted);
    if (since >= r->write_buffer)
        return 0;
    uint64_t tables = atomic_load(&r->listed_tables) + since;
    uint64_t memtables = r->buffers * (r->write_buffer + atomic_load(&r->largest));
    uint64_t room = less(available, memtables + least(tables, COPY_MOST) + SPARE_DISK);
    if (r->disk_cap != UINT64_MAX) {
        uint64_t used = atomic_load(&r->listed_size) + 2 * since + tables + memtables;
        room = least(room, less(r->disk_cap / 2, used));
    }
    return room >= 2 * (need + seam_ledger_promised(r->disk)) ? room : 0;
}

/* What may be promised: free space and what options.disk leaves, less what RocksDB will write without
 * being asked again: tables from the memtables, before their logs go, and the copy that a compaction
 * makes of tables before the old ones go. *ret_safe: there is room for that much. */
static int disk_room(struct seam_rocksdb *r, uint64_t need, uint64_t *ret, bool *ret_safe,
                     struct seam_err *err)
{
    uint64_t available;
    struct seam_rocksdb_space space;
    int rc = r->os->space(r->os->ctx, r->dir, &available);
    if (rc < 0)
        return seam_fail_os(err, -rc, "rocksdb: asking the file system for its free space");
    *ret = plenty(r, need, available);
    *ret_safe = *ret > 0;
    if (*ret > 0)
        return SEAM_OK;
    rc = look(r, &space, err);
    if (rc != SEAM_OK)
        return rc;
    uint64_t memtables = seam_rocksdb_property(r, "rocksdb.size-all-mem-tables");
    uint64_t pending = memtables + least(space.tables, COPY_MOST) + SPARE_DISK;
    available += space.log_spare;
    *ret_safe = available >= pending;
    *ret = less(available, pending);
    if (r->disk_cap != UINT64_MAX)
        *ret = least(*ret, less(r->disk_cap, space.size + space.tables + memtables));
    return SEAM_OK;
}

/* Space comes back when old versions are compacted away, which RocksDB does while it is written to:
 * a store that refuses writes has to ask for it. Not waited for; at most five times in a second. */
static void reclaim(struct seam_rocksdb *r)
{
    uint64_t now = r->os->now_ns(r->os->ctx, SEAM_CLOCK_MONOTONIC);
    uint64_t last = atomic_load(&r->reclaimed_ns);
    if ((last && now - last < 200000000u) ||
        !atomic_compare_exchange_strong(&r->reclaimed_ns, &last, now))
        return;
    char *text = NULL;
    rocksdb_flushoptions_t *flush = rocksdb_flushoptions_create();
    rocksdb_flushoptions_set_wait(flush, 0);
    rocksdb_flush(r->db, flush, &text);
    rocksdb_flushoptions_destroy(flush);
    rocksdb_free(text); /* what fails here shows in the next commit */
    text = NULL;
    rocksdb_suggest_compact_range(r->db, NULL, 0, NULL, 0, &text);
    rocksdb_free(text);
}

static int take_disk(struct seam_rocksdb *r, uint64_t need, uint64_t deadline_ns,
                     struct seam_err *err)
{
    uint64_t room = 0;
    bool safe = false;
    int rc = disk_room(r, need, &room, &safe, err);
    if (rc != SEAM_OK)
        return rc;
    seam_ledger_set_cap(r->disk, room);
    rc = seam_ledger_take(r->disk, need, deadline_ns, "disk", err);
    if (rc == SEAM_E_NO_SPACE && safe)
        reclaim(r);
    return rc;
}

/* ---- the ops of the table ----------------------------------------------------------------- */

int seam_rocksdb_prepare(struct seam_engine *e, struct seam_commit *c, uint64_t deadline_ns,
                         struct seam_err *err)
{
    struct seam_rocksdb *r = rdb(e);
    assert(!r->read_only);
    uint64_t size = batch_bound(c);
    uint64_t disk = 2 * size + (size >> 6); /* log with its block headers, then a table */
    int rc = wait_writable(r, deadline_ns, err);
    if (rc != SEAM_OK)
        return rc;
    rc = seam_ledger_take(r->memory, size, deadline_ns, "memory", err);
    if (rc != SEAM_OK)
        return rc;
    struct seam_rocksdb_batch *b = NULL;
    rc = take_disk(r, disk, deadline_ns, err);
    if (rc != SEAM_OK)
        goto fail;
    /* An allocation that fails inside RocksDB ends the process, so ask for as much once here: the
     * batch, twice while it grows, and its place in the memtable. */
    void *probe = r->os->alloc(r->os->ctx, 3 * size);
    b = probe ? batch_take(r) : NULL;
    r->os->free(r->os->ctx, probe);
    if (!b) {
        seam_ledger_give(r->disk, disk, UINT64_MAX);
        rc = seam_fail(err, SEAM_E_NOMEM, "rocksdb: no memory for a batch of %llu bytes",
                       (unsigned long long)size);
        goto fail;
    }
    batch_fill(r, b->wb, c);
    c->need.memory = size;
    c->need.disk = disk;
    c->need.priv = b;
    return SEAM_OK;
fail:
    seam_ledger_give(r->memory, size, UINT64_MAX);
    return rc;
}

static void give_back(struct seam_rocksdb *r, struct seam_commit *c)
{
    batch_give(r, c->need.priv);
    c->need.priv = NULL;
    seam_ledger_give(r->memory, c->need.memory, UINT64_MAX);
    seam_ledger_give(r->disk, c->need.disk, UINT64_MAX);
}

void seam_rocksdb_abort(struct seam_engine *e, struct seam_commit *c)
{
    give_back(rdb(e), c);
}

/* RocksDB writes the sequence number of a batch's first op into its first 8 bytes, little-endian,
 * when it commits it: its place in the order. */
static uint64_t batch_no(rocksdb_writebatch_t *wb)
{
    size_t len = 0;
    const unsigned char *bytes = (const unsigned char *)rocksdb_writebatch_data(wb, &len);
    uint64_t no = 0;
    for (size_t i = 8; len >= 8 && i-- > 0;)
        no = no << 8 | bytes[i];
    return no;
}

/* RocksDB itself refuses what is on its way behind a write or flush that failed. After ENOSPC it resumes
 * when it finds room, whatever max_bgerror_resume_count says: it drops the log whose flush failed, and
 * the batch with it, and writes its memtables to new files. Until the failed call has come back here, a
 * commit may be taken behind that: it is as good as its ack, since nothing that failed is relied on. */
static int fail_for_good(struct seam_rocksdb *r, const char *what, char *text, struct seam_err *err)
{
    atomic_store(&r->failed, true);
    return seam_rocksdb_fail(err, SEAM_E_UNKNOWN, what, text);
}

static int refuse_if_failed(struct seam_rocksdb *r, struct seam_err *err)
{
    return atomic_load(&r->failed) ? seam_fail(err, SEAM_E_POISONED,
                                               "rocksdb: an earlier commit or flush failed: nothing "
                                               "of this one was handed over")
                                   : SEAM_OK;
}

int seam_rocksdb_commit(struct seam_engine *e, struct seam_commit *c, struct seam_acked *ret,
                        struct seam_err *err)
{
    struct seam_rocksdb *r = rdb(e);
    struct seam_rocksdb_batch *b = c->need.priv;
    bool synced = c->ack >= SEAM_ACK_OS;
    char *text = NULL;
    int rc = refuse_if_failed(r, err);
    if (rc != SEAM_OK) {
        give_back(r, c);
        return rc;
    }
    rocksdb_write(r->db, synced ? r->write_synced : r->write_unsynced, b->wb, &text);
    if (text) {
        rc = fail_for_good(r, "commit", text, err);
    } else {
        ret->given = synced ? SEAM_ACK_POWER : SEAM_ACK_PROCESS;
        ret->commit_no = batch_no(b->wb);
        atomic_fetch_add(&r->unchecked, c->need.memory);
        atomic_fetch_add(&r->unlisted, c->need.memory);
        uint_fast64_t largest = atomic_load(&r->largest);
        while (largest < c->need.memory &&
               !atomic_compare_exchange_weak(&r->largest, &largest, c->need.memory)) {
        }
    }
    give_back(r, c);
    return rc;
}

int seam_rocksdb_sync(struct seam_engine *e, enum seam_ack level, struct seam_err *err)
{
    struct seam_rocksdb *r = rdb(e);
    if (level <= SEAM_ACK_PROCESS)
        return SEAM_OK; /* every commit is in the log, and the log is with the system */
    int rc = refuse_if_failed(r, err);
    if (rc != SEAM_OK)
        return rc;
    char *text = NULL;
    rocksdb_flush_wal(r->db, 1, &text);
    if (!text)
        return SEAM_OK;
    return fail_for_good(r, "sync", text, err);
}
