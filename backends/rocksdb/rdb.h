/* rdb.h - what the files of this room share; the only line in Seam that includes rocksdb/c.h.
 *
 * open.c turns options into RocksDB's, opens and closes; write.c prepares and commits; read.c
 * reads; rocksdb.c is the table, limits and figures; errmap.c reads RocksDB's error texts. */
#ifndef SEAM_ROCKSDB_RDB_H
#define SEAM_ROCKSDB_RDB_H

#include <seam/backend.h>

#include <pthread.h>
#include <rocksdb/c.h>
#include <stdatomic.h>

/* Limits; docs/engines.md says why. */
enum {
    SEAM_ROCKSDB_KEY = 8192,              /* an unbounded range delete ends at one 0xff more */
    SEAM_ROCKSDB_VALUE = 128 << 20,
    SEAM_ROCKSDB_OPS = 1000000,
    SEAM_ROCKSDB_BYTES = 256 << 20,
    SEAM_ROCKSDB_HANDLES = 16384,
    SEAM_ROCKSDB_OP_COST = 16             /* tag and two lengths in a write batch, at most */
};

/* Positions in the table of options, seam_rocksdb_tunings. */
enum seam_rocksdb_setting {
    SEAM_ROCKSDB_SET_WRITE_BUFFER,
    SEAM_ROCKSDB_SET_BUFFERS,
    SEAM_ROCKSDB_SET_CACHE,
    SEAM_ROCKSDB_SET_BLOB,
    SEAM_ROCKSDB_SET_BLOB_MIN,
    SEAM_ROCKSDB_SET_BLOB_COMPRESSION,
    SEAM_ROCKSDB_SET_COMPRESSION,
    SEAM_ROCKSDB_SET_BLOOM_BITS,
    SEAM_ROCKSDB_SET_JOBS,
    SEAM_ROCKSDB_SET_DIRECT_IO,
    SEAM_ROCKSDB_SET_STATISTICS,
    SEAM_ROCKSDB_SET_RECYCLE,
    SEAM_ROCKSDB_SETTINGS
};

extern const struct seam_tuning seam_rocksdb_tunings[];

/* A write batch built at prepare; kept for reuse once consumed, because its memory is warm. */
struct seam_rocksdb_batch {
    rocksdb_writebatch_t *wb;
    struct seam_rocksdb_batch *next;
};

struct seam_rocksdb {
    struct seam_engine base;
    const struct seam_platform *os;
    int dir;
    bool read_only;
    uint64_t settings[SEAM_ROCKSDB_SETTINGS];
    uint64_t write_buffer, buffers, cache_bytes; /* as given to RocksDB */
    uint64_t disk_cap;                           /* UINT64_MAX: none */

    rocksdb_t *db;
    rocksdb_options_t *options; /* borrowed by db */
    rocksdb_cache_t *cache;
    rocksdb_writeoptions_t *write_synced, *write_unsynced;
    rocksdb_readoptions_t *read_now;

    struct seam_ledger *memory, *disk;
    char *beyond;      /* SEAM_ROCKSDB_KEY + 1 bytes of 0xff: after every key */
    atomic_bool failed; /* a commit or sync failed: nothing is flushed any more */
    atomic_bool stopped; /* RocksDB had stopped writes when it was last asked */
    atomic_uint_fast64_t unchecked;     /* bytes committed since it was last asked */
    atomic_uint_fast64_t largest;       /* batch so far: a memtable may be over its size by as much */
    atomic_uint_fast64_t unlisted;      /* bytes committed since the directory was last listed */
    atomic_uint_fast64_t listed_size, listed_tables; /* as it was then */
    atomic_uint_fast64_t reclaimed_ns;  /* when space was last asked back; 0: never */

    pthread_mutex_t pool_lock;
    struct seam_rocksdb_batch *pool;
    uint32_t pooled;
};

/* Consumes text, an error of RocksDB's C interface: fills *err with code (0: the one the text maps
 * to) and returns it. */
int seam_rocksdb_fail(struct seam_err *err, int code, const char *what, char *text);

/* Sizes in the store's directory. */
struct seam_rocksdb_space {
    uint64_t size;      /* of all files */
    uint64_t allocated; /* to them */
    uint64_t tables;    /* what compactions may copy: of the tables, and a quarter of the blobs */
    uint64_t log_spare; /* allocated to logs in advance and not used yet */
    uint64_t logs;      /* size of the logs */
};
int seam_rocksdb_list(struct seam_rocksdb *r, struct seam_rocksdb_space *ret);
/* An integer property; 0 if RocksDB does not tell. */
uint64_t seam_rocksdb_property(const struct seam_rocksdb *r, const char *name);

/* The ops of struct seam_backend. */
int seam_rocksdb_open(const struct seam_open_args *args, struct seam_engine **ret,
                      struct seam_err *err);
int seam_rocksdb_close(struct seam_engine *e, struct seam_err *err);
int seam_rocksdb_prepare(struct seam_engine *e, struct seam_commit *c, uint64_t deadline_ns,
                         struct seam_err *err);
void seam_rocksdb_abort(struct seam_engine *e, struct seam_commit *c);
int seam_rocksdb_commit(struct seam_engine *e, struct seam_commit *c, struct seam_acked *ret,
                        struct seam_err *err);
int seam_rocksdb_sync(struct seam_engine *e, enum seam_ack level, struct seam_err *err);
void seam_rocksdb_drain(struct seam_rocksdb *r); /* frees the kept batches */
int seam_rocksdb_snap_open(struct seam_engine *e, void **ret_snap, struct seam_err *err);
void seam_rocksdb_snap_close(struct seam_engine *e, void *snap);
int seam_rocksdb_get(struct seam_engine *e, void *snap, struct seam_slice key,
                     struct seam_pin *ret, struct seam_err *err);
int seam_rocksdb_near(struct seam_engine *e, void *snap, struct seam_slice lower,
                      struct seam_slice upper, enum seam_move how, struct seam_slice at,
                      struct seam_pin *ret, struct seam_err *err);
void seam_rocksdb_unpin(struct seam_engine *e, struct seam_pin *pin);
int seam_rocksdb_cursor_open(struct seam_engine *e, void *snap, struct seam_slice lower,
                             struct seam_slice upper, void **ret_cursor, struct seam_err *err);
int seam_rocksdb_cursor_move(struct seam_engine *e, void *cursor, enum seam_move how,
                             struct seam_slice at, struct seam_slice *ret_key,
                             struct seam_err *err);
int seam_rocksdb_cursor_value(struct seam_engine *e, void *cursor, struct seam_slice *ret,
                              struct seam_err *err);
void seam_rocksdb_cursor_close(struct seam_engine *e, void *cursor);

#endif
