/* open.c - options into RocksDB's, create, open and close.
 *
 * Relies on the library for the store's directory, its lock and the flush of its parents.
 * Keeps true: recovery stops at the first damaged record and never steps over one (unless `recycle`
 * was asked for); what recovery read from logs is in a flushed table before open returns; nothing
 * is created in place of a missing file; a read-only open writes nothing; RocksDB writes nothing to
 * the log of its own doings, because the writer of that log asserts on a full disk in Debian's
 * build. */
#include "errmap.h"
#include "rdb.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#ifdef __linux__
#include <sys/xattr.h>
#endif

int seam_rocksdb_fail(struct seam_err *err, int code, const char *what, char *text)
{
    int os_errno;
    int mapped = seam_rocksdb_errcode(text, &os_errno);
    int rc = seam_fail(err, code ? code : mapped, "rocksdb: %s: %.170s", what, text);
    if (err) {
        err->os_errno = os_errno;
        for (char *p = err->text; *p; p++)
            if ((unsigned char)*p < 0x20 || *p == 0x7f)
                *p = '?';
    }
    rocksdb_free(text);
    return rc;
}

uint64_t seam_rocksdb_property(const struct seam_rocksdb *r, const char *name)
{
    uint64_t value = 0;
    return rocksdb_property_int(r->db, name, &value) == 0 ? value : 0;
}

struct listing {
    struct seam_rocksdb *r;
    struct seam_rocksdb_space space;
};

static int list_one(void *arg, const char *name)
{
    struct listing *l = arg;
    struct seam_file_info info;
    int rc = l->r->os->stat(l->r->os->ctx, l->r->dir, name, &info);
    if (rc < 0)
        return rc;
    if (info.kind != SEAM_FILE_REGULAR) /* or deleted in between */
        return 0;
    l->space.size += info.size;
    l->space.allocated += info.allocated;
    size_t len = strlen(name);
    if (len > 4 && strcmp(name + len - 4, ".sst") == 0)
        l->space.tables += info.size;
    if (len > 5 && strcmp(name + len - 5, ".blob") == 0)
        l->space.tables += info.size / 4; /* the share that is collected at once */
    if (len > 4 && strcmp(name + len - 4, ".log") == 0) {
        l->space.logs += info.size;
        if (info.allocated > info.size)
            l->space.log_spare += info.allocated - info.size;
    }
    return 0;
}

int seam_rocksdb_list(struct seam_rocksdb *r, struct seam_rocksdb_space *ret)
{
    struct listing l = {r, {0, 0, 0, 0, 0}};
    int rc = r->os->list(r->os->ctx, r->dir, list_one, &l);
    if (rc < 0)
        return rc;
    *ret = l.space;
    return 0;
}

/* In the order of the words of the options compression and blob_compression: lz4, none, zstd,
 * snappy; the numbers are RocksDB's. */
static const int compressions[] = {rocksdb_lz4_compression, rocksdb_no_compression,
                                   rocksdb_zstd_compression, rocksdb_snappy_compression};

static uint64_t clamp(uint64_t value, uint64_t least, uint64_t most)
{
    return value < least ? least : value > most ? most : value;
}

/* A quarter of the memory to each of three memtables and to the cache, unless said otherwise. */
static void plan_memory(struct seam_rocksdb *r, uint64_t memory)
{
    const uint64_t *set = r->settings;
    r->write_buffer = set[SEAM_ROCKSDB_SET_WRITE_BUFFER];
    if (!r->write_buffer) {
        r->write_buffer = clamp(memory / 4, 64 << 10, 256 << 20);
        if (r->disk_cap != UINT64_MAX) /* so that logs and flushes leave the cap some use */
            r->write_buffer = clamp(r->write_buffer, 64 << 10, clamp(r->disk_cap / 16, 64 << 10,
                                                                     256 << 20));
    }
    r->buffers = set[SEAM_ROCKSDB_SET_BUFFERS];
    r->cache_bytes = set[SEAM_ROCKSDB_SET_CACHE];
    if (!r->cache_bytes)
        r->cache_bytes = memory / 4;
}

static void set_tables(struct seam_rocksdb *r, rocksdb_options_t *o)
{
    const uint64_t *set = r->settings;
    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
    r->cache = rocksdb_cache_create_lru(r->cache_bytes);
    rocksdb_block_based_options_set_block_cache(table, r->cache);
    rocksdb_block_based_options_set_format_version(table, 5);
    if (set[SEAM_ROCKSDB_SET_BLOOM_BITS]) /* the policy becomes the table's */
        rocksdb_block_based_options_set_filter_policy(
            table, rocksdb_filterpolicy_create_bloom_full((double)set[SEAM_ROCKSDB_SET_BLOOM_BITS]));
    rocksdb_options_set_block_based_table_factory(o, table);
    rocksdb_block_based_options_destroy(table);
    rocksdb_options_set_compression(o, compressions[set[SEAM_ROCKSDB_SET_COMPRESSION]]);
    rocksdb_options_set_level_compaction_dynamic_level_bytes(o, 1);
    if (set[SEAM_ROCKSDB_SET_BLOB]) {
        rocksdb_options_set_enable_blob_files(o, 1);
        rocksdb_options_set_min_blob_size(o, set[SEAM_ROCKSDB_SET_BLOB_MIN]);
        rocksdb_options_set_blob_compression_type(
            o, compressions[set[SEAM_ROCKSDB_SET_BLOB_COMPRESSION]]);
        rocksdb_options_set_enable_blob_gc(o, 1);
    }
}

/* What durability rests on, said in full although most are RocksDB's defaults. */
static void set_log(const struct seam_rocksdb *r, rocksdb_options_t *o)
{
    bool recycle = r->settings[SEAM_ROCKSDB_SET_RECYCLE] != 0;
    rocksdb_options_set_wal_recovery_mode(
        o, recycle ? rocksdb_skip_any_corrupted_records_recovery : rocksdb_point_in_time_recovery);
    rocksdb_options_set_recycle_log_file_num(o, recycle ? 4 : 0);
    rocksdb_options_set_manual_wal_flush(o, 0);
    rocksdb_options_set_wal_bytes_per_sync(o, 0);
    rocksdb_options_set_enable_pipelined_write(o, 0);
    rocksdb_options_set_unordered_write(o, 0);
    rocksdb_options_set_use_fsync(o, 0);
    rocksdb_options_set_allow_mmap_reads(o, 0);
    rocksdb_options_set_allow_mmap_writes(o, 0);
    /* Of no use with one column family, and it flushes closed logs beside a flushing commit, which
     * crashed 7.8.3 inside MarkLogsSynced. */
    rocksdb_options_set_atomic_flush(o, 0);
    rocksdb_options_set_paranoid_checks(o, 1);
}

static int make_options(struct seam_rocksdb *r, bool create, rocksdb_options_t **ret,
                        struct seam_err *err)
{
    const uint64_t *set = r->settings;
    rocksdb_options_t *base = rocksdb_options_create();
    rocksdb_options_t *o = rocksdb_options_create();
    char *text = NULL;
    /* Those that have no function in the C interface. A failed background write is not tried again
     * behind the back of a poisoned handle (but see fail_for_good in write.c). */
    rocksdb_get_options_from_string(base,
                                    "avoid_flush_during_recovery=false;"
                                    "avoid_flush_during_shutdown=true;"
                                    "max_bgerror_resume_count=0",
                                    o, &text);
    rocksdb_options_destroy(base);
    if (text) {
        rocksdb_options_destroy(o);
        return seam_rocksdb_fail(err, 0, "options", text);
    }
    rocksdb_options_set_create_if_missing(o, create);
    rocksdb_options_set_error_if_exists(o, create);
    set_log(r, o);
    set_tables(r, o);
    rocksdb_options_set_write_buffer_size(o, r->write_buffer);
    rocksdb_options_set_max_write_buffer_number(o, (int)r->buffers);
    rocksdb_options_set_max_background_jobs(o, (int)set[SEAM_ROCKSDB_SET_JOBS]);
    rocksdb_options_set_bytes_per_sync(o, 1 << 20); /* of tables: spreads their writeback */
    rocksdb_options_set_max_open_files(o, -1);
    rocksdb_options_set_manifest_preallocation_size(o, 4 << 10);
    rocksdb_options_set_stats_dump_period_sec(o, 0);
    rocksdb_options_set_stats_persist_period_sec(o, 0);
    if (set[SEAM_ROCKSDB_SET_DIRECT_IO]) {
        rocksdb_options_set_use_direct_reads(o, 1);
        rocksdb_options_set_use_direct_io_for_flush_and_compaction(o, 1);
    }
    if (set[SEAM_ROCKSDB_SET_STATISTICS])
        rocksdb_options_enable_statistics(o);
    /* The information log stays empty: RocksDB has no line of level fatal. It cannot be left out. */
    rocksdb_options_set_info_log_level(o, 4);
    rocksdb_options_set_keep_log_file_num(o, 1);
    *ret = o;
    return SEAM_OK;
}

static void instance_free(struct seam_rocksdb *r)
{
    if (r->db)
        rocksdb_close(r->db);
    seam_rocksdb_drain(r);
    if (r->read_now)
        rocksdb_readoptions_destroy(r->read_now);
    if (r->write_synced)
        rocksdb_writeoptions_destroy(r->write_synced);
    if (r->write_unsynced)
        rocksdb_writeoptions_destroy(r->write_unsynced);
    if (r->options)
        rocksdb_options_destroy(r->options);
    if (r->cache)
        rocksdb_cache_destroy(r->cache);
    seam_ledger_close(r->memory);
    seam_ledger_close(r->disk);
    r->os->free(r->os->ctx, r->beyond);
    pthread_mutex_destroy(&r->pool_lock);
    r->os->free(r->os->ctx, r);
}

static int check_files(const struct seam_open_args *args, struct seam_err *err)
{
    struct seam_file_info info;
    int rc = args->os->stat(args->os->ctx, args->dir, "CURRENT", &info);
    if (rc < 0)
        return seam_fail_os(err, -rc, "rocksdb: %s/CURRENT", args->path);
    if (info.kind != SEAM_FILE_REGULAR)
        return seam_fail(err, SEAM_E_CORRUPT,
                         "rocksdb: %.150s/CURRENT is missing or no file: restore the store from a "
                         "copy", args->path);
    return SEAM_OK;
}

/* A read-only open makes an information log too, and renames the one before: it gets a directory
 * elsewhere, which is removed as soon as the log is open. */
struct scratch {
    const struct seam_platform *os;
    int root, dir; /* -1: none */
    char name[32], path[64];
};

static int scratch_unlink(void *arg, const char *name)
{
    struct scratch *s = arg;
    (void)s->os->unlink(s->os->ctx, s->dir, name);
    return 0;
}

static void scratch_remove(struct scratch *s)
{
    if (s->dir >= 0) {
        (void)s->os->list(s->os->ctx, s->dir, scratch_unlink, s);
        (void)s->os->close(s->os->ctx, s->dir);
        (void)s->os->rmdir(s->os->ctx, s->root, s->name);
    }
    if (s->root >= 0)
        (void)s->os->close(s->os->ctx, s->root);
    s->dir = s->root = -1;
}

static int scratch_make(struct scratch *s, struct seam_err *err)
{
    static const char *const roots[] = {"/tmp", "/dev/shm", "/var/tmp", "/run"};
    uint64_t chance = 0;
    int rc = -1;
    for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++) {
        rc = s->os->random(s->os->ctx, &chance, sizeof chance);
        if (rc < 0)
            break;
        (void)snprintf(s->name, sizeof s->name, "seam-%016llx", (unsigned long long)chance);
        (void)snprintf(s->path, sizeof s->path, "%s/%s", roots[i], s->name);
        rc = s->root = s->os->open_root(s->os->ctx, roots[i]);
        if (rc >= 0)
            rc = s->os->mkdir(s->os->ctx, s->root, s->name);
        if (rc >= 0) {
            rc = s->dir = s->os->open(s->os->ctx, s->root, s->name, SEAM_FILE_DIR);
            if (rc >= 0)
                return SEAM_OK;
            (void)s->os->rmdir(s->os->ctx, s->root, s->name);
        }
        scratch_remove(s);
    }
    return seam_fail_os(err, -rc, "rocksdb: a read-only open needs a directory it can write for "
                                  "the length of the open: /tmp, /dev/shm, /var/tmp or /run");
}

/* RocksDB makes its files, in any thread and at any time, with 0644 less the umask, which belongs to
 * the whole process. A default access list on the directory decides instead of the umask: the owner
 * only. Where the file system has none, the directory's own mode of 0700 is the guard. */
static void keep_private(const char *path)
{
#ifdef __linux__
    static const unsigned char list[] = {
        2, 0, 0, 0,                            /* version, little-endian as all that follows */
        1, 0, 6, 0, 0xff, 0xff, 0xff, 0xff,    /* the owner reads and writes */
        4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,    /* the group does nothing */
        0x20, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, /* nor do others */
    };
    (void)setxattr(path, "system.posix_acl_default", list, sizeof list, 0);
#else
    (void)path;
#endif
}

/* RocksDB starts its threads here, and they take over the signal mask of the one that opens: the
 * process's signals are for the caller's threads. */
static rocksdb_t *open_masked(struct seam_rocksdb *r, const char *path, bool read_only, char **ret_text)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    rocksdb_t *db = read_only ? rocksdb_open_for_read_only(r->options, path, 0, ret_text)
                              : rocksdb_open(r->options, path, ret_text);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return db;
}

static int open_db(struct seam_rocksdb *r, const struct seam_open_args *args, struct seam_err *err)
{
    char *text = NULL;
    int rc = make_options(r, args->create, &r->options, err);
    if (rc != SEAM_OK)
        return rc;
    if (args->read_only) {
        struct scratch scratch = {args->os, -1, -1, "", ""};
        rc = scratch_make(&scratch, err);
        if (rc != SEAM_OK)
            return rc;
        rocksdb_options_set_db_log_dir(r->options, scratch.path);
        r->db = open_masked(r, args->path, true, &text);
        scratch_remove(&scratch);
    } else {
        if (args->create)
            keep_private(args->path);
        r->db = open_masked(r, args->path, false, &text);
    }
    if (text) {
        r->db = NULL;
        return seam_rocksdb_fail(err, 0, "open", text);
    }
    r->write_synced = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(r->write_synced, 1);
    r->write_unsynced = rocksdb_writeoptions_create();
    r->read_now = rocksdb_readoptions_create();
    return SEAM_OK;
}

#define OPEN_DISK (256u << 10) /* what an open writes beside the tables of the logs, at most */

/* An open makes tables of what lies in the logs, before these go, and a manifest. If it ran out of
 * room on the way it would have changed files, so it is not begun. A new store is opened twice. */
static int room_to_open(struct seam_rocksdb *r, const struct seam_open_args *args,
                        struct seam_err *err)
{
    struct seam_rocksdb_space space = {0, 0, 0, 0, 0};
    uint64_t available;
    int rc = args->create ? 0 : seam_rocksdb_list(r, &space);
    if (rc >= 0)
        rc = r->os->space(r->os->ctx, r->dir, &available);
    if (rc < 0)
        return seam_fail_os(err, -rc, "rocksdb: asking the file system for its free space");
    uint64_t need = space.logs + space.logs / 16 + (args->create ? 2u : 1u) * OPEN_DISK;
    if (available >= need)
        return SEAM_OK;
    return seam_fail(err, SEAM_E_NO_SPACE,
                     "rocksdb: an open needs %llu bytes of the disk, and %llu are free: free some",
                     (unsigned long long)need, (unsigned long long)available);
}

int seam_rocksdb_open(const struct seam_open_args *args, struct seam_engine **ret,
                      struct seam_err *err)
{
    const struct seam_platform *os = args->os;
    int rc = args->create ? SEAM_OK : check_files(args, err);
    if (rc != SEAM_OK)
        return rc;
    struct seam_rocksdb *r = os->alloc(os->ctx, sizeof *r);
    if (!r)
        return seam_fail(err, SEAM_E_NOMEM, "rocksdb: no memory to open");
    memset(r, 0, sizeof *r);
    rc = pthread_mutex_init(&r->pool_lock, NULL);
    if (rc != 0) {
        os->free(os->ctx, r);
        return seam_fail_os(err, rc, "rocksdb: cannot make a lock");
    }
    r->os = os;
    r->dir = args->dir;
    r->read_only = args->read_only;
    r->disk_cap = args->disk;
    memcpy(r->settings, args->settings, sizeof r->settings);
    plan_memory(r, args->memory);
    /* Batches of tickets: the budget, but at least the largest commit there may be. */
    uint64_t largest = 2 * (uint64_t)SEAM_ROCKSDB_BYTES + 2 * SEAM_ROCKSDB_KEY +
                       (uint64_t)SEAM_ROCKSDB_OPS * SEAM_ROCKSDB_OP_COST;
    rc = seam_ledger_open(os, args->memory > largest ? args->memory : largest, &r->memory, err);
    if (rc == SEAM_OK)
        rc = seam_ledger_open(os, UINT64_MAX, &r->disk, err);
    if (rc == SEAM_OK) {
        r->beyond = os->alloc(os->ctx, SEAM_ROCKSDB_KEY + 1);
        rc = r->beyond ? SEAM_OK : seam_fail(err, SEAM_E_NOMEM, "rocksdb: no memory to open");
    }
    if (rc == SEAM_OK) {
        memset(r->beyond, 0xff, SEAM_ROCKSDB_KEY + 1);
        rc = args->read_only ? SEAM_OK : room_to_open(r, args, err);
    }
    if (rc == SEAM_OK)
        rc = open_db(r, args, err);
    atomic_store(&r->unlisted, UINT64_MAX / 8); /* list before the first use */
    if (rc != SEAM_OK) {
        instance_free(r);
        return rc;
    }
    *ret = &r->base;
    return SEAM_OK;
}

int seam_rocksdb_close(struct seam_engine *e, struct seam_err *err)
{
    struct seam_rocksdb *r = (struct seam_rocksdb *)e;
    int rc = SEAM_OK;
    if (!r->read_only) {
        if (!atomic_load(&r->failed)) /* a failed flush is never tried again */
            rc = seam_rocksdb_sync(e, SEAM_ACK_POWER, err);
        rocksdb_cancel_all_background_work(r->db, 1);
    }
    instance_free(r);
    return rc;
}
