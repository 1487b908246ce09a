/* rocksdb.c - the engine's table: name, options, limits and figures.
 *
 * RocksDB is a log-structured merge tree: a write-ahead log, memtables, and sorted tables that are
 * compacted in the background. What this engine promises and what it cannot: docs/engines. */
#include "rdb.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS "lz4|none|zstd|snappy"
#define G (1024ull << 20)

/* In the order of enum seam_rocksdb_setting. */
const struct seam_tuning seam_rocksdb_tunings[] = {
    {"write_buffer", SEAM_TUNE_SIZE, "0", "memtable size; 0: a quarter of the memory budget", 0, G,
     NULL},
    {"buffers", SEAM_TUNE_COUNT, "3", "memtables before writers stop", 2, 64, NULL},
    {"cache", SEAM_TUNE_SIZE, "0", "block cache; 0: a quarter of the memory budget", 0, 1024 * G,
     NULL},
    {"blob", SEAM_TUNE_FLAG, "0", "keep large values in blob files, collected by compaction", 0, 0,
     NULL},
    {"blob_min", SEAM_TUNE_SIZE, "4K", "smallest value that goes to a blob file", 1, G, NULL},
    {"blob_compression", SEAM_TUNE_WORD, "none", "compression of blob files", 0, 0, WORDS},
    {"compression", SEAM_TUNE_WORD, "lz4", "compression of tables", 0, 0, WORDS},
    {"bloom_bits", SEAM_TUNE_COUNT, "10", "bloom filter bits per key; 0: no filter", 0, 64, NULL},
    {"jobs", SEAM_TUNE_COUNT, "2", "background flushes and compactions at once", 1, 64, NULL},
    {"direct_io", SEAM_TUNE_FLAG, "0", "read, flush and compact around the page cache", 0, 0, NULL},
    {"statistics", SEAM_TUNE_FLAG, "0", "keep RocksDB's own counters (costs a few percent)", 0, 0,
     NULL},
    {"recycle", SEAM_TUNE_FLAG, "0",
     "reuse log files; for benchmarks: recovery may then step over a damaged record", 0, 0, NULL},
    {NULL, SEAM_TUNE_FLAG, NULL, NULL, 0, 0, NULL},
};

static const char *version(void)
{
    return SEAM_ROCKSDB_VERSION;
}

static void limits(const struct seam_engine *e, struct seam_limits *ret)
{
    const struct seam_rocksdb *r = (const struct seam_rocksdb *)e;
    memset(ret, 0, sizeof *ret);
    ret->key = SEAM_ROCKSDB_KEY;
    ret->value = SEAM_ROCKSDB_VALUE;
    ret->ops = SEAM_ROCKSDB_OPS;
    ret->bytes = SEAM_ROCKSDB_BYTES;
    ret->range_keys = UINT64_MAX;
    ret->tickets = UINT64_MAX;
    ret->pins = SEAM_ROCKSDB_HANDLES;
    ret->caps = SEAM_CAP_LAZY_RANGE | SEAM_CAP_READ_AFTER_POISON | SEAM_CAP_MAY_ABORT;
    if (r->settings[SEAM_ROCKSDB_SET_RECYCLE])
        ret->caps |= SEAM_CAP_MAY_SKIP;
    ret->best = SEAM_ACK_POWER;
}

/* A counter in the text of RocksDB's statistics: "name COUNT : 12"; -1 if it is not there. */
static int64_t ticker(const char *text, const char *name)
{
    size_t len = strlen(name);
    for (const char *p = text; (p = strstr(p, name)) != NULL; p += len) {
        if ((p != text && p[-1] != '\n') || strncmp(p + len, " COUNT : ", 9) != 0)
            continue;
        return (int64_t)strtoull(p + len + 9, NULL, 10);
    }
    return -1;
}

static int stats(struct seam_engine *e, struct seam_stats *ret, struct seam_err *err)
{
    struct seam_rocksdb *r = (struct seam_rocksdb *)e;
    struct seam_rocksdb_space space;
    int os = seam_rocksdb_list(r, &space);
    if (os < 0)
        return seam_fail_os(err, -os, "rocksdb: listing the store's files");
    ret->disk_bytes = (int64_t)space.allocated;
    ret->memory_bytes =
        (int64_t)(seam_rocksdb_property(r, "rocksdb.size-all-mem-tables") +
                  seam_rocksdb_property(r, "rocksdb.estimate-table-readers-mem") +
                  rocksdb_cache_get_usage(r->cache) + seam_ledger_promised(r->memory));
    char *text = r->settings[SEAM_ROCKSDB_SET_STATISTICS]
                     ? rocksdb_options_statistics_get_string(r->options)
                     : NULL;
    if (text) {
        ret->groups = ticker(text, "rocksdb.write.self");
        ret->flushes = ticker(text, "rocksdb.wal.synced"); /* of the log only */
        rocksdb_free(text);
    }
    return SEAM_OK;
}

static void append(char *buf, size_t cap, size_t *len, const char *fmt, ...) SEAM_PRINTF(4, 5);
static void append(char *buf, size_t cap, size_t *len, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(*len < cap ? buf + *len : NULL, *len < cap ? cap - *len : 0, fmt, ap);
    va_end(ap);
    if (n > 0)
        *len += (size_t)n;
}

static size_t describe(struct seam_engine *e, char *buf, size_t cap)
{
    struct seam_rocksdb *r = (struct seam_rocksdb *)e;
    const uint64_t *set = r->settings;
    size_t len = 0;
    if (cap)
        buf[0] = '\0';
    append(buf, cap, &len, "ack: power%s\n",
           set[SEAM_ROCKSDB_SET_RECYCLE] ? ", may skip damaged records" : "");
    append(buf, cap, &len,
           "options: write_buffer=%" PRIu64 " buffers=%" PRIu64 " cache=%" PRIu64
           " blob=%" PRIu64 " recovery=%s recycled_logs=%d\n",
           r->write_buffer, r->buffers, r->cache_bytes, set[SEAM_ROCKSDB_SET_BLOB],
           set[SEAM_ROCKSDB_SET_RECYCLE] ? "skip-any-corrupted" : "point-in-time",
           set[SEAM_ROCKSDB_SET_RECYCLE] ? 4 : 0);
    char *text = rocksdb_property_value(r->db, "rocksdb.stats");
    if (text)
        append(buf, cap, &len, "%s\n", text);
    rocksdb_free(text);
    text = set[SEAM_ROCKSDB_SET_STATISTICS] ? rocksdb_options_statistics_get_string(r->options)
                                            : NULL;
    if (text)
        append(buf, cap, &len, "%s\n", text);
    rocksdb_free(text);
    return len;
}

extern const struct seam_backend seam_backend_rocksdb; /* registry/ names it */

const struct seam_backend seam_backend_rocksdb = {
    .abi = SEAM_BACKEND_ABI,
    .flags = SEAM_BACKEND_CONCURRENT,
    .format = 1,
    .name = "rocksdb",
    .summary = "log-structured merge tree: RocksDB through its C interface",
    .tunings = seam_rocksdb_tunings,
    .version = version,
    .open = seam_rocksdb_open,
    .close = seam_rocksdb_close,
    .limits = limits,
    .prepare = seam_rocksdb_prepare,
    .abort = seam_rocksdb_abort,
    .commit = seam_rocksdb_commit,
    .sync = seam_rocksdb_sync,
    .snap_open = seam_rocksdb_snap_open,
    .snap_close = seam_rocksdb_snap_close,
    .get = seam_rocksdb_get,
    .near = seam_rocksdb_near,
    .unpin = seam_rocksdb_unpin,
    .cursor_open = seam_rocksdb_cursor_open,
    .cursor_move = seam_rocksdb_cursor_move,
    .cursor_value = seam_rocksdb_cursor_value,
    .cursor_close = seam_rocksdb_cursor_close,
    .stats = stats,
    .describe = describe,
};
