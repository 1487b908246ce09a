/* log.h - the engine's own state and what its files share: segments, spares, the log's end.
 *
 * LOCKS, in the order in which they are taken:
 *   lock    guards map: shared to search, exclusive to change;
 *   pool    the tree's free nodes and what was promised of them;
 *   slab    its own: memory of entries;
 *   making  held by the one thread that makes a segment file;
 *   space   spares, promises of log bytes, file numbers, what the files take.
 * The log's end (struct vlog_end) is the group leader's alone. */
#ifndef VLOG_LOG_H
#define VLOG_LOG_H

#include "format.h"
#include "map.h"

#include <pthread.h>

#define VLOG_STREAM_LEAST (256u << 10)   /* groups from this on stay out of the page cache, see log.c */
#define VLOG_TAIL_ROOM (2u * VLOG_BLOCK) /* kept free in each segment for its trailer */
#define VLOG_PARTS 256
#define VLOG_COARSE (64u << 10) /* bytes of a group from which it is large; see space.c */

enum vlog_io { VLOG_IO_AUTO, VLOG_IO_DIRECT, VLOG_IO_BUFFERED };

/* A segment file: a spare, then part of the log, then dead. */
struct vlog_segment {
    struct vlog_segment *next;
    uint64_t id, size, end; /* end: of its frames, once it is sealed */
    uint64_t live;          /* entries whose bytes are in it; under lock */
    uint32_t number, seed;
    int fd;
    int direct_fd, stream_fd; /* past the page cache, the first flushes each write; -1: none */
};

struct vlog_end {
    struct vlog_segment *first, *last; /* the segments that count, by id */
    struct vlog_segment *dead;         /* dropped; to be let go when a flushed frame says so */
    uint64_t pos, durable, marked;     /* in last: end, flushed up to, said to be flushed up to */
    uint64_t oldest, seq;
    uint64_t groups; /* written into last */
    uint32_t prev;
    bool header_due; /* nothing of last is written yet */
};

struct vlog_space {
    struct vlog_segment *spares, *dead;
    uint64_t promised, largest; /* bytes of tickets; the largest of those that are out */
    uint64_t disk, disk_cap;    /* what all files take, and may take */
    uint64_t files, files_cap;  /* how many they are, each an open descriptor or two; and may be */
    uint64_t next_size;
    uint32_t next_number, spare_count;
    bool stop, wake;
    bool coarse; /* the last segment was filled by few, large groups */
};

struct vlog_counters {
    _Atomic uint64_t groups, flushes, written, padding, direct_groups, rolls, segments, recycled,
        made, recovered, cut_bytes, large_reads;
};

struct vlog {
    struct seam_engine base;
    const struct seam_platform *os;
    int dir;
    uint8_t uuid[16];
    uint64_t epoch;
    bool read_only;

    uint64_t segment_size, threshold, memory_cap;
    uint32_t fill_wait_us, spare_target, block; /* block: of direct writes; 0: there are none */
    enum vlog_io io;

    pthread_rwlock_t lock;
    struct vlog_map map;

    pthread_mutex_t pool;
    uint64_t promised_inserts;
    struct seam_ledger *memory;
    _Atomic uint64_t memory_used; /* when it was told last */
    struct vlog_slab slab;

    pthread_mutex_t making, space_lock;
    pthread_cond_t wake;
    struct vlog_space space;
    pthread_t maker;
    bool has_maker;

    struct seam_group *group;
    struct vlog_end end;
    atomic_bool poisoned;
    unsigned char *stage, *stage_block; /* stage: aligned, inside stage_block */
    size_t stage_len;
    struct iovec parts[VLOG_PARTS];
    struct vlog_counters count;
};

/* What a ticket carries. */
struct vlog_unit {
    struct vlog_entry *entries;   /* of its PUTs, in order; offset counts from the frame */
    struct vlog_segment *own;     /* a segment made for a commit too large for a usual one */
    uint64_t memory, inserts;
    uint64_t total, promised;     /* of the frame; taken from the space */
    uint64_t threshold;           /* of its large values */
    size_t buffer;                /* length of what this lies in */
    uint32_t index, ops, body_crc;
    bool any_large;
    unsigned char frame[];        /* header and index section */
};

static inline uint64_t vlog_payload(const struct vlog_segment *s)
{
    return s->size < VLOG_BLOCK + VLOG_TAIL_ROOM ? 0 : s->size - VLOG_BLOCK - VLOG_TAIL_ROOM;
}

static inline void vlog_segment_live(struct vlog_segment *s)
{
    s->live++;
}

static inline void vlog_segment_unlive(struct vlog_segment *s)
{
    s->live--;
}

static inline bool vlog_is_large(uint64_t threshold, const struct seam_op *op)
{
    uint64_t len = op->head.len + op->body.len;
    return op->kind == SEAM_PUT && len > 0 && len >= threshold;
}

/* What a trailer says of the next segment's file: its number, and its size in blocks above. */
static inline uint64_t vlog_file_mark(const struct vlog_segment *s)
{
    return s->number | s->size / VLOG_BLOCK << 32;
}

#define VLOG_NAME_LEN 16
void vlog_segment_name(uint32_t number, char *buf /* VLOG_NAME_LEN */);
void vlog_segment_free(struct vlog *v, struct vlog_segment *s); /* closes; NULL is allowed */

/* ---- space.c: segment files ----------------------------------------------------------------- */

/* Makes a spare of `size` bytes, already written unless sparse, flushed, under its name. */
int vlog_segment_make(struct vlog *v, uint64_t size, bool sparse, struct vlog_segment **ret,
                      struct seam_err *err);
/* Of `size`, or on a full disk of a half, a quarter ..., not below `least`. */
int vlog_segment_make_least(struct vlog *v, uint64_t size, uint64_t least, bool sparse,
                            struct vlog_segment **ret, struct seam_err *err);
int vlog_segment_open_direct(struct vlog *v, struct vlog_segment *s);
/* Opened when it is needed; the one that has it is the last. */
int vlog_segment_open_stream(struct vlog *v, struct vlog_segment *s);
void vlog_segment_close_direct(struct vlog *v, struct vlog_segment *s); /* both */
int vlog_write_header(struct vlog *v, struct vlog_segment *s, const struct vlog_header *h);
/* Takes log bytes for one frame of u->total; may make segments. */
int vlog_space_take(struct vlog *v, struct vlog_unit *u, struct seam_err *err);
void vlog_space_give(struct vlog *v, struct vlog_unit *u);
/* u's frame is to go into the last segment, although it may have one of its own. */
void vlog_space_used(struct vlog *v, struct vlog_unit *u);
/* The first spare that a frame of `total` fits in, taken; NULL if the promises were not kept.
 * coarse: what it replaces was filled by large groups. */
struct vlog_segment *vlog_space_pop(struct vlog *v, uint64_t total, bool coarse);
void vlog_space_push(struct vlog *v, struct vlog_segment *s);
/* Segments nobody refers to: to be recycled or removed. */
void vlog_space_bury(struct vlog *v, struct vlog_segment *dead);
void vlog_segment_remove(struct vlog *v, struct vlog_segment *s);
int vlog_maker_start(struct vlog *v, struct seam_err *err);
void vlog_maker_stop(struct vlog *v);
void vlog_maker_wake(struct vlog *v); /* the slab is cold */

/* ---- log.c: the log's end -------------------------------------------------------------------- */

void vlog_group_run(void *ctx, struct seam_member *first, size_t n);
/* Flushes what is written; the caller leads. 0 or -errno; poisons. */
int vlog_flush(struct vlog *v);
/* Writes an empty frame that says what is flushed, so that damage before it will be known. */
int vlog_beacon(struct vlog *v);
/* Applies one op; e: the entry of a PUT, taken. */
void vlog_apply(struct vlog *v, uint64_t seq, enum seam_kind kind, struct seam_slice key,
                struct seam_slice end, struct vlog_entry *e);
struct vlog_entry *vlog_entry_new(struct vlog *v, struct seam_slice key, struct seam_slice head,
                                  struct seam_slice body, bool large, uint32_t crc);
/* The same into memory of vlog_entry_len. */
void vlog_entry_fill(struct vlog_entry *e, struct seam_slice key, struct seam_slice head,
                     struct seam_slice body, bool large, uint32_t crc);
static inline size_t vlog_entry_len(size_t key_len, size_t inline_len)
{
    return offsetof(struct vlog_entry, bytes) + key_len + inline_len;
}
void vlog_write_lock(struct vlog *v); /* lock and pool */
void vlog_write_unlock(struct vlog *v);
uint64_t vlog_memory_used(const struct vlog *v); /* under pool */
/* Gives back to the ledger what was promised, and tells it what is used. Under pool. */
void vlog_memory_give(struct vlog *v, uint64_t promised);

/* ---- recover.c ------------------------------------------------------------------------------- */

int vlog_create(struct vlog *v, struct seam_err *err);
int vlog_recover(struct vlog *v, struct seam_err *err);

/* ---- read.c ---------------------------------------------------------------------------------- */

int vlog_snap_open(struct seam_engine *e, void **ret, struct seam_err *err);
void vlog_snap_close(struct seam_engine *e, void *snap);
int vlog_get(struct seam_engine *e, void *snap, struct seam_slice key, struct seam_pin *ret,
             struct seam_err *err);
int vlog_near(struct seam_engine *e, void *snap, struct seam_slice lower, struct seam_slice upper,
              enum seam_move how, struct seam_slice at, struct seam_pin *ret,
              struct seam_err *err);
void vlog_unpin(struct seam_engine *e, struct seam_pin *pin);
int vlog_cursor_open(struct seam_engine *e, void *snap, struct seam_slice lower,
                     struct seam_slice upper, void **ret, struct seam_err *err);
int vlog_cursor_move(struct seam_engine *e, void *cursor, enum seam_move how, struct seam_slice at,
                     struct seam_slice *ret_key, struct seam_err *err);
int vlog_cursor_value(struct seam_engine *e, void *cursor, struct seam_slice *ret,
                      struct seam_err *err);
void vlog_cursor_close(struct seam_engine *e, void *cursor);

#endif
