/* projection_int.h - what the projection's files share.
 *
 * Keeps true: `meta` and `build` are changed by the holder of `writing` only, and under `lock`; whatever
 * belongs to a commit under way (reader, emit) or to the sweep is the holder's own. `table` is changed
 * by that holder too, while he has `now` alone. */
#ifndef SEAM_ROOM_PROJECTION_INT_H
#define SEAM_ROOM_PROJECTION_INT_H

#include "journal_int.h"
#include "turn.h"

#include <seam/backend.h>

#include <pthread.h>

/* Memory for the keys and small values of one commit; nothing in it moves until it is emptied. */
struct seam_arena_block {
    struct seam_arena_block *next;
    size_t used, cap;
    uint8_t bytes[];
};

struct seam_arena {
    const struct seam_platform *os;
    struct seam_arena_block *blocks; /* the newest first */
};

void *seam_p_arena_take(struct seam_arena *arena, size_t len, struct seam_err *err);
/* Keeps one block. */
void seam_p_arena_empty(struct seam_arena *arena);
void seam_p_arena_free(struct seam_arena *arena);

struct seam_emit {
    struct seam_projection *p;
    struct seam_arena arena;
    struct seam_op *ops; /* [0] is the projection's own record */
    size_t n, cap;
    uint64_t bytes;
    bool borrowed; /* an op points to bytes that the next event takes away */
    bool ranges;   /* a range delete whose size only the store knows */
};

/* A snapshot that several views may share. */
struct seam_p_instant {
    struct seam_snap *snap;
    struct seam_position position;
    uint32_t generation, refs; /* refs: under lock */
};

struct seam_projection {
    struct seam_db *db;
    const struct seam_platform *os;
    struct seam_limits limits;
    struct seam_journal *journal; /* NULL: fed from none */
    uint32_t stream;
    seam_projector projector;
    void *projector_ctx;
    uint32_t batch, build_batch, ack;
    uint64_t batch_bytes; /* a commit of several events is not larger */
    bool split, atomic;
    bool one_commit; /* catching up ends with the first commit */
    uint64_t refused; /* events of the last commit, if it was refused */
    uint64_t singly;  /* so many events are still to be committed one by one */
    struct seam_fmt_key meta_key, table; /* table: with the generation that reads use */
    uint8_t stream_name[SEAM_STREAM_NAME_MAX], name[SEAM_PROJECTION_NAME_MAX];
    struct seam_jhold hold; /* what the journal may not trim: behind a position that is sure to stay */

    /* Reads of "now" share `now`; whoever changes what they may see (a unit begins) has it alone. */
    pthread_rwlock_t now;
    pthread_mutex_t lock;
    struct seam_p_turn writing;
    struct seam_p_instant *instant; /* atomic, inside a unit: what is shown; under lock */
    uint32_t views, cursors;
    struct seam_fmt_meta meta;
    struct seam_journal_reader *reader; /* NULL, or stands behind the position */
    struct seam_emit emit;

    /* The table of the next generation: a projection of its own, of which only the feed is used; its
     * record is the build record. NULL: none is being built. */
    struct seam_projection *build;
    pthread_mutex_t rebuilding; /* one rebuild at a time; taken before `writing` */
    atomic_bool projecting;     /* build is being fed, by that thread, whose reads of "now" it gets */
    pthread_t projector_thread; /* under lock */

    bool sweeping; /* there are tables that nothing points to */
    struct {
        uint8_t *ptr;
        size_t len;
    } swept; /* the last key that went; NULL: begin at the first */
};

/* table := what the keys of that generation begin with. */
void seam_p_table(const struct seam_projection *p, uint32_t generation, struct seam_fmt_key *table);
/* Room for one more op; its fields are the caller's to fill. */
int seam_p_op(struct seam_emit *out, struct seam_op **ret, struct seam_err *err);
/* Table prefix and key, joined in the arena. */
int seam_p_key(struct seam_emit *out, struct seam_slice key, struct seam_slice *ret,
               struct seam_err *err);
void seam_p_emit_reset(struct seam_emit *out);
/* Reads the projection's own record under snap (NULL: now); name: room for the stream's name. */
int seam_p_meta(const struct seam_projection *p, struct seam_snap *snap, struct seam_fmt_meta *ret,
                uint8_t name[SEAM_STREAM_NAME_MAX], struct seam_err *err);
/* feed.c: commits ops[1..n) with the record that *meta says; ops[0] is there for it. */
int seam_p_commit(struct seam_projection *p, struct seam_op *ops, size_t n,
                  const struct seam_fmt_meta *meta, struct seam_err *err);
/* unit.c: what ops[0..n) take of a commit, the record counted. */
void seam_p_fit(const struct seam_projection *p, const struct seam_op *ops, size_t n,
                struct seam_fit *ret);
/* Applies the event whose ops are in emit, alone, in as many commits as it takes; goes on inside it
 * if the record says so. */
int seam_p_unit(struct seam_projection *p, const struct seam_event *event, struct seam_err *err);
/* view.c: a snapshot of now, not counted anywhere yet. */
int seam_p_instant_open(struct seam_projection *p, struct seam_p_instant **ret,
                        struct seam_err *err);
void seam_p_instant_drop(struct seam_projection *p, struct seam_p_instant *instant);
/* The position is sure to stay: what is up to it may be trimmed. */
void seam_p_settled(struct seam_projection *p, uint64_t sequence);
/* How many views and cursors are open. NULL is allowed. */
uint32_t seam_p_handles(struct seam_projection *p);
/* Whether the event's ops hold a range that an engine must count, and, if ret_keys is not NULL, how many
 * keys its ranges cover now, counted up to the limit and one more. */
int seam_p_ranges(struct seam_projection *p, const struct seam_event *event, bool *ret_any,
                  uint64_t *ret_keys, struct seam_err *err);
/* Whether the position is a record of the journal's; E_MISMATCH, E_NEEDS_HISTORY. */
int seam_p_check_position(struct seam_projection *p, struct seam_err *err);
/* NULL: no memory. Its keys, limits and locks are there, nothing is read yet. */
struct seam_projection *seam_p_new(struct seam_db *db, struct seam_slice name, struct seam_slice prefix,
                                   const struct seam_platform *os);
void seam_p_free(struct seam_projection *p);
/* feed.c: under writing. Applies up to `most` events (0: all that may be). */
int seam_p_feed(struct seam_projection *p, uint64_t most, uint64_t *applied, struct seam_err *err);
/* unit.c: what was kept for readers while a unit was applied goes. */
void seam_p_unit_end(struct seam_projection *p);

/* sweep.c. Under writing, or at open. The op that a commit needs which makes a table remains; key and
 * value: room for it. And after that commit: begin. */
struct seam_op seam_p_sweep_op(const struct seam_projection *p, struct seam_fmt_key *key,
                               uint8_t value[SEAM_FMT_SWEEP]);
void seam_p_sweep_begin(struct seam_projection *p);
int seam_p_sweep_load(struct seam_projection *p, struct seam_err *err);
/* One commit; nothing if nothing is left. */
int seam_p_sweep_step(struct seam_projection *p, struct seam_err *err);
int seam_p_sweep_all(struct seam_projection *p, struct seam_err *err);

/* rebuild.c: at open. Takes up a build that was interrupted; one that is not of this journal and
 * stream, or whose position is no record of it, is dropped. */
int seam_p_build_load(struct seam_projection *p, struct seam_err *err);

#endif
