/* lmdb_private.h - what the files of the LMDB engine share; the only place that includes lmdb.h.
 *
 * Relies on <seam/backend.h>: ops are valid and within the limits, handles are counted above.
 * Keeps true: one write transaction at a time, begun and ended by the leader of a group; readers
 * are pooled LMDB read transactions, reset while nobody uses them, so that an idle reader keeps no
 * old page alive; no descriptor of data.mdb or lock.mdb is opened or closed by Seam while the
 * environment is open (closing one would drop LMDB's own fcntl locks). */
#ifndef SEAM_LMDB_PRIVATE_H
#define SEAM_LMDB_PRIVATE_H

#include <lmdb.h>
#include <pthread.h>
#include <seam/backend.h>
#include <stdatomic.h>

enum { /* places in lmdb_tunings and in seam_open_args.settings */
       LMDB_SET_MAP,
       LMDB_SET_MAXREADERS,
       LMDB_SET_FILL_WAIT,
       LMDB_SET_RESERVE_CHUNK,
       LMDB_SET_READAHEAD
};

#define LMDB_DATA_FILE "data.mdb"
#define LMDB_LOCK_FILE "lock.mdb"

/* ---- errors (lmdb_error.c) --------------------------------------------------------------- */

struct lmdb_error_row {
    int rc;           /* MDB_... */
    int code;         /* enum seam_code it becomes */
    const char *text; /* what it means here and what to do */
};

/* Ended by rc 0. */
extern const struct lmdb_error_row lmdb_errors[];
/* Fills *err from what an mdb_ call returned (an MDB_ code, or an errno when positive). */
int lmdb_fail(struct seam_err *err, int rc, const char *doing);

/* ---- the file before LMDB maps it (lmdb_check.c) ------------------------------------------ */

/* Refuses a data.mdb that mapping would turn into a fault or into another store: missing, a link,
 * shorter than its meta page says, not LMDB's, or damaged in its meta pages. */
int lmdb_check_file(const struct seam_platform *os, int dir, bool read_only, struct seam_err *err);

/* ---- space: pages promised to tickets (lmdb_space.c, lmdb_free.c)
 * -------------------------------------- */

/* Sizes of the newest tree, in pages. */
struct lmdb_tree {
    uint64_t depth, branch, leaf, overflow; /* of the users' database */
    uint64_t free_pages, free_large; /* of LMDB's own list of free pages: all; its large records */
    uint64_t largest;                /* pages of the largest value there may be */
    uint64_t used;                   /* pages of the file in use: last page + 1 */
};

/* What a commit does to the tree, as far as its ops tell. */
struct lmdb_load {
    uint64_t puts, deletes;
    uint64_t ranges, covered;   /* range deletes, and the keys they cover at prepare */
    uint64_t node_bytes;        /* bytes its nodes take in leaves */
    uint64_t overflow, largest; /* pages its large values take: all, and one at most */
};

/* What commits add to the tree that later ones may have to copy or let go. */
struct lmdb_growth {
    uint64_t tree, large; /* pages of the tree itself, and of large values */
};

/* What a walk through LMDB's list of free pages found. */
struct lmdb_free {
    uint64_t usable; /* pages that LMDB can use again from now on, whoever begins to read */
    uint64_t runs;   /* pages of records that a commit may have to write again side by side */
};

/* The most pages that committing a load can add to the file, by the argument in lmdb_space.c. */
struct lmdb_bound {
    uint64_t pages; /* all of them */
    uint64_t list;  /* of its own record in the list of free pages */
    uint64_t runs;  /* those among them that must lie side by side */
    uint64_t room;  /* how much that could still rise if the tree grew for ever */
    struct lmdb_growth growth;
};

/* A ticket's share. In a list by age, since a commit may make the trees of older tickets larger. */
struct lmdb_hold {
    struct lmdb_hold *prev, *next;
    struct lmdb_hold *done; /* next of its group */
    struct lmdb_load load;
    struct lmdb_bound bound;
    uint64_t asked; /* bytes it took from the ledger, for itself and for growing older ones */
    uint64_t bytes; /* what it holds now */
};

struct lmdb_engine;

struct lmdb_space {
    const struct seam_platform *os;
    struct seam_ledger *ledger;
    int fd; /* LMDB's own descriptor of data.mdb */
    uint64_t page, node_max, chunk, cap;
    bool real;                  /* the file system keeps what fallocate gave */
    struct lmdb_engine *engine; /* whose free pages are counted; NULL: none */
    pthread_mutex_t lock;       /* all down to groups */
    struct lmdb_tree tree;
    uint64_t reusable;  /* pages inside the file that may be used again; at least so many */
    uint64_t free_runs; /* as lmdb_free.runs, at most; UINT64_MAX: not counted */
    uint64_t counted;   /* in which group that was */
    uint64_t runs;      /* of all holds */
    uint64_t held;      /* how many they are */
    struct lmdb_hold *first, *last;
    uint64_t worst_percent; /* of its bound that any commit used */
    uint64_t groups;
    pthread_mutex_t file_lock; /* peak, and changes of ready */
    _Atomic uint64_t ready;    /* bytes from the start of the file that have blocks */
    uint64_t peak;             /* the most that was needed of them since the last look */
};

void lmdb_space_bound(const struct lmdb_space *s, const struct lmdb_tree *tree,
                      const struct lmdb_load *load, const struct lmdb_growth *others,
                      struct lmdb_bound *ret);
/* fd, page, node_max and chunk are set before. Finds out whether reservations can be real. */
int lmdb_space_open(struct lmdb_space *s, const struct seam_platform *os, uint64_t cap,
                    struct seam_err *err);
/* Gives unused blocks at the end of the file back, but a few for the next open. */
void lmdb_space_trim(struct lmdb_space *s);
void lmdb_space_close(struct lmdb_space *s);
void lmdb_space_load(const struct lmdb_space *s, const struct seam_op *ops, size_t n,
                     struct lmdb_load *ret);
int lmdb_space_take(struct lmdb_space *s, struct lmdb_hold *hold, uint64_t deadline_ns,
                    struct seam_err *err);
/* The hold ends, and nothing came of it. */
void lmdb_space_give(struct lmdb_space *s, struct lmdb_hold *hold);
/* The holds of a group that was committed end, in its order, linked by `done`; the tree is now
 * this. */
void lmdb_space_settle(struct lmdb_space *s, const struct lmdb_tree *tree, struct lmdb_hold *done);
/* Makes blocks real for at least `pages` pages beyond those in use; false if the disk has not. */
bool lmdb_space_ahead(struct lmdb_space *s, uint64_t pages);

void lmdb_free_count(struct lmdb_engine *e, const struct lmdb_tree *tree, struct lmdb_free *ret);

/* ---- the engine --------------------------------------------------------------------------- */

struct lmdb_reader { /* an LMDB read transaction and a cursor in it */
    MDB_txn *txn;
    MDB_cursor *cursor;
    struct lmdb_reader *next;
};

struct lmdb_cursor {
    struct lmdb_reader *own; /* NULL: it moves in somebody's snapshot */
    MDB_cursor *at;
    struct seam_slice lower, upper, value;
    struct lmdb_cursor *next;
};

struct lmdb_counts {
    atomic_uint_fast64_t commits, ops, bytes, groups, flushes, redone;
};

struct lmdb_engine {
    struct seam_engine base;
    const struct seam_platform *os;
    MDB_env *env;
    MDB_dbi keys; /* the users' keys */
    MDB_dbi own;  /* Seam's own records */
    bool read_only;
    uint64_t maxreaders;
    struct seam_group *group;
    struct lmdb_space space;

    pthread_mutex_t pool_lock; /* readers, cursors */
    struct lmdb_reader *readers;
    struct lmdb_cursor *cursors;

    /* The leader's, under the group's exclusion. */
    struct lmdb_reader *watcher; /* parked with its slot: sees the tree after each commit, however many
                                    readers there are */
    bool meta_unsynced; /* the newest commit's meta page may be in the page cache only */
    bool lazy;          /* MDB_NOMETASYNC is set */
    uint64_t largest;   /* as the newest transaction recorded it */
    uint64_t last_no;   /* newest commit_no */
    struct lmdb_counts counts;
};

/* ---- limits ------------------------------------------------------------------------------- */

/* What bounds a commit here is how long it keeps the one writer: each of these is up to two seconds
 * on a large tree (docs/engines.md has the figures). */
#define LMDB_MAX_KEY 511u
#define LMDB_MAX_VALUE (128ull << 20)
#define LMDB_MAX_BYTES (256ull << 20)
#define LMDB_MAX_OPS (256ull << 10)
#define LMDB_MAX_RANGE_KEYS (256ull << 10)

/* ---- reads (lmdb_read.c) ------------------------------------------------------------------ */

int lmdb_reader_take(struct lmdb_engine *e, struct lmdb_reader **ret, struct seam_err *err);
void lmdb_reader_give(struct lmdb_engine *e, struct lmdb_reader *r);
void lmdb_readers_close(struct lmdb_engine *e);

int lmdb_snap_open(struct seam_engine *e, void **ret, struct seam_err *err);
void lmdb_snap_close(struct seam_engine *e, void *snap);
int lmdb_get(struct seam_engine *e, void *snap, struct seam_slice key, struct seam_pin *ret,
             struct seam_err *err);
int lmdb_near(struct seam_engine *e, void *snap, struct seam_slice lower, struct seam_slice upper,
              enum seam_move how, struct seam_slice at, struct seam_pin *ret, struct seam_err *err);
void lmdb_unpin(struct seam_engine *e, struct seam_pin *pin);
int lmdb_cursor_open(struct seam_engine *e, void *snap, struct seam_slice lower,
                     struct seam_slice upper, void **ret, struct seam_err *err);
int lmdb_cursor_move(struct seam_engine *e, void *cursor, enum seam_move how, struct seam_slice at,
                     struct seam_slice *ret_key, struct seam_err *err);
int lmdb_cursor_value(struct seam_engine *e, void *cursor, struct seam_slice *ret,
                      struct seam_err *err);
void lmdb_cursor_close(struct seam_engine *e, void *cursor);

/* ---- writes (lmdb_write.c) ---------------------------------------------------------------- */

int lmdb_prepare(struct seam_engine *e, struct seam_commit *c, uint64_t deadline_ns,
                 struct seam_err *err);
void lmdb_abort(struct seam_engine *e, struct seam_commit *c);
int lmdb_commit(struct seam_engine *e, struct seam_commit *c, struct seam_acked *ret,
                struct seam_err *err);
int lmdb_sync(struct seam_engine *e, enum seam_ack level, struct seam_err *err);
/* The group's work: commits members first..., n of them. ctx is the engine. */
void lmdb_run(void *ctx, struct seam_member *first, size_t n);
/* Reads the tree's sizes in a transaction of any kind; used is the caller's to set. */
int lmdb_tree_read(struct lmdb_engine *e, MDB_txn *txn, struct lmdb_tree *ret);
uint64_t lmdb_pages_used(struct lmdb_engine *e);
/* Seam's own records. */
int lmdb_own_put(MDB_txn *txn, MDB_dbi dbi, const char *name, const void *bytes, size_t len);

extern const struct seam_backend seam_backend_lmdb;

#endif
