/* seam.h - the storage-engine contract, for callers.
 *
 * One set of calls over interchangeable engines: an in-memory reference, LMDB, RocksDB, plug-ins.
 * What this page promises holds on every engine; where an engine differs, the difference is a field
 * of struct seam_limits, never a surprise. Engine authors read <seam/backend.h> as well.
 *
 * CONTENTS   1 errors   2 ops   3 acks   4 outcomes   5 limits   6 prepare, commit, abort
 *            7 snapshots, pins, cursors   8 open and close   9 stats   10 engines by name
 *
 * RULES THAT HOLD EVERYWHERE
 * - Bytes passed in are borrowed until the call returns (ops: until their ticket is consumed) and
 *   are never modified. Bytes handed out are never written by the caller.
 * - Keys are ordered by memcmp, a prefix before what it is a prefix of.
 * - Every function that can fail returns an enum seam_code: SEAM_OK (0); SEAM_NOTFOUND (1), which
 *   is an answer; or a negative code. On failure the `ret_` parameters are untouched and *err, when
 *   err is not NULL, says what was wrong and what to do. There is no thread-local or global state.
 * - The library never prints, exits, aborts or installs signal handlers. (An engine that may abort
 *   the process from inside a third-party library declares SEAM_CAP_MAY_ABORT.)
 * - A struct seam_db may be used by any number of threads at once. A snapshot, a cursor, a pin and
 *   a ticket belong to one thread at a time, and may move between threads.
 * - A handle is not carried over fork(): in the child every call on it answers SEAM_E_FORKED. The child
 *   calls seam_close all the same, to let go of the store's lock that it inherited, else the store
 *   stays locked while the child lives and the parent has ended without closing.
 * - Times are in milliseconds, sizes in bytes, unless the name says otherwise. */
#ifndef SEAM_SEAM_H
#define SEAM_SEAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define SEAM_API __attribute__((visibility("default")))
#define SEAM_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define SEAM_API
#define SEAM_PRINTF(f, a)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- 1 errors ---------------------------------------------------------------------------- */

/* The closed set of codes: name, value, what it means. Texts may change, names and values may not. */
#define SEAM_CODES(X)                                                                            \
    X(OK, 0, "done")                                                                             \
    X(NOTFOUND, 1, "no such key, or the end of a cursor's range")                                \
    X(E_INVALID, -1, "the call or one of its ops is malformed; nothing was done")                \
    X(E_TOO_LARGE, -2, "over a limit of this engine; nothing was done")                          \
    X(E_NO_SPACE, -3, "memory budget, log or disk cannot take this commit; nothing was done")    \
    X(E_BUSY, -4, "held by somebody else, or open handles remain; try again later")              \
    X(E_UNSUPPORTED, -5, "this engine cannot do or promise this; nothing was done")              \
    X(E_POISONED, -6, "a device failed earlier on this handle: close it and open it again")      \
    X(E_UNKNOWN, -7, "a device failed on the way: the commit may or may not survive")            \
    X(E_IO, -8, "the system failed a read or a file operation")                                  \
    X(E_CORRUPT, -9, "stored bytes are damaged: what they say is not used")                      \
    X(E_NOMEM, -10, "out of memory; nothing was done")                                           \
    X(E_NO_ENGINE, -11, "no engine or wrapper of this name, or it is not built in")              \
    X(E_OPTION, -12, "unknown option, or a value it does not take")                              \
    X(E_NO_STORE, -13, "the directory is missing or is not a store")                             \
    X(E_EXISTS, -14, "there is something there already")                                         \
    X(E_MISMATCH, -15, "a store of another engine, kind or format version")                      \
    X(E_READ_ONLY, -16, "opened read-only, or the file system is")                               \
    X(E_PERMISSION, -17, "the system refuses access")                                            \
    X(E_FORKED, -18, "the handle was opened before fork(): open the store again in the child")   \
    X(E_MISUSE, -19, "the caller broke a lifetime or order rule (found by the strict wrapper)")  \
    X(E_NEEDS_HISTORY, -20, "events that were trimmed would be needed")                          \
    X(E_LOST, -21, "what was known to be safe is not there any more, or not the same")

enum seam_code {
#define SEAM_CODE_ENUM(name, value, text) SEAM_##name = value,
    SEAM_CODES(SEAM_CODE_ENUM)
#undef SEAM_CODE_ENUM
};

#define SEAM_NO_OP ((size_t)-1)

/* What went wrong, filled by the failing call. Plain data, owned by the caller, nothing to free.
 * `text` is one line for a person: the thing, what was wrong with it, what to do; it never holds a
 * value's bytes, and keys only escaped and cut at 64 bytes. */
struct seam_err {
    int code;              /* enum seam_code */
    int os_errno;          /* errno of the system call that failed, else 0 */
    size_t op;             /* index of the op at fault, else SEAM_NO_OP */
    const char *limit;     /* static name of the limit that was hit ("ops", "bytes"), else NULL */
    uint64_t max, got;     /* that limit's maximum (of memory and disk: what is left) and the
                              offending value */
    uint64_t unknown_acks; /* of E_UNKNOWN and E_POISONED: commits acked PROCESS or OS since the last
                              good flush, now unknown too; never fewer than there are */
    char text[256];
};

/* "SEAM_E_INVALID" and so on; "SEAM_?" for a number that is no code. Static. */
SEAM_API const char *seam_code_name(int code);
/* The table's meaning of a code. Static. */
SEAM_API const char *seam_code_text(int code);
/* Library version "major.minor.patch". Static. */
SEAM_API const char *seam_version(void);

/* ---- 2 ops ------------------------------------------------------------------------------- */

/* Bytes somewhere else; never owns. {NULL, 0} is "none" where a parameter allows none. */
struct seam_slice {
    const void *ptr;
    size_t len;
};

static inline struct seam_slice seam_bytes(const void *ptr, size_t len)
{
    struct seam_slice s;
    s.ptr = ptr;
    s.len = len;
    return s;
}

/* A commit is an array of ops. They act in array order and the last wins: a PUT after a
 * DELETE_RANGE that covers it survives. There is no batch object to build or free. */
enum seam_kind {
    SEAM_PUT = 1,     /* key := head followed by body (either may be empty, so may the value) */
    SEAM_DELETE,      /* key must go; a key that is not there is no error; head and body empty */
    SEAM_DELETE_RANGE /* every key in [key, head) must go; head {NULL,0}, and only that, means no
                         upper end */
};

struct seam_op {
    enum seam_kind kind;
    struct seam_slice key, head, body;
};

/* VALIDATION is done here, once, for every engine: n >= 1; kind one of the three; key length
 * 1..limits.key; value length <= limits.value; begin < end; no {NULL, len > 0}; DELETE carries no
 * value, DELETE_RANGE no body. A bad op first, middle or last gives E_INVALID (or E_TOO_LARGE for
 * key and value lengths) with its index in err->op; nothing is written and the next commit works. */

/* ---- 3 acks ------------------------------------------------------------------------------ */

/* What a commit's ack promises. Each level includes those before it.
 * Asked per commit; what was given is reported. An engine may give more, and says so; asked for
 * what it cannot give it answers E_UNSUPPORTED at prepare; it never gives less. */
enum seam_ack {
    SEAM_ACK_NONE,    /* visible; may be gone after anything */
    SEAM_ACK_PROCESS, /* survives a kill of this process */
    SEAM_ACK_OS,      /* survives a crash of the kernel */
    SEAM_ACK_POWER    /* survives a power cut; not visible to anyone before its flush returned */
};

/* An `ack` parameter is one of the levels, or a level within a window:
 *     SEAM_ACK_POWER | SEAM_ACK_WINDOW(1000)     "power, at most 1 s late"
 * which is acked at PROCESS (or the best below) at once and raised to the level within the window
 * by a background flush. A failed background flush poisons the handle. ms: 1..16777215. */
#define SEAM_ACK_WINDOW(ms) ((uint32_t)(ms) << 8)
#define SEAM_ACK_LEVEL(ack) ((enum seam_ack)((ack) & 0xffu))
#define SEAM_ACK_WINDOW_MS(ack) ((uint32_t)(ack) >> 8)

struct seam_acked {
    enum seam_ack given; /* what holds now */
    uint32_t window_ms;  /* 0, or: the level asked will hold within this time */
    int32_t flushes;     /* device flushes of the group this commit was in, as the engine counts
                            them; -1 unknown. The bench counts them from outside. */
    uint32_t group;      /* commits in that group, 0 unknown */
    uint64_t commit_no;  /* place in the engine's total order, 0 unknown */
};

/* "none", "process", "os", "power"; static. And back: -1 if it is none of them. */
SEAM_API const char *seam_ack_name(enum seam_ack level);
SEAM_API int seam_ack_parse(const char *name);

/* ---- 4 outcomes -------------------------------------------------------------------------- */

/* A commit ends in one of three ways, told by its code:
 *   SEAM_DONE      it holds, at the level acked;
 *   SEAM_NOT_DONE  refused before anything was handed to the engine: too large, no space, invalid,
 *                  busy, poisoned. It is not there and never will be;
 *   SEAM_UNKNOWN   a device failed on the way. It may or may not be there after a reopen, whole or
 *                  not at all, and what the first read after the reopen says then stays so.
 * After UNKNOWN the handle is poisoned: every later write answers E_POISONED until the store is
 * closed and opened again; a failed flush is never tried again (the kernel may have marked the lost
 * pages clean); every member of a failed group is UNKNOWN; and commits acked PROCESS or OS since the
 * last good flush are unknown too: err->unknown_acks says how many. Snapshots, cursors and pins
 * that are open stay readable; opening new ones answers E_POISONED unless the engine declares
 * SEAM_CAP_READ_AFTER_POISON. */
enum seam_outcome { SEAM_DONE, SEAM_NOT_DONE, SEAM_UNKNOWN };

static inline enum seam_outcome seam_outcome(int code)
{
    return code == SEAM_OK ? SEAM_DONE : code == SEAM_E_UNKNOWN ? SEAM_UNKNOWN : SEAM_NOT_DONE;
}

/* ORDER. Commits are totally ordered, by when they are committed and not by when they were
 * prepared. Each is all or nothing. One that returned SEAM_OK is in every snapshot opened later.
 * After a crash the store holds a prefix of that order, at least as long as the acks say. */

/* ---- 5 limits ---------------------------------------------------------------------------- */

enum {
    SEAM_CAP_RESERVES = 1,          /* after prepare only a device error can fail the commit */
    SEAM_CAP_LAZY_RANGE = 2,        /* a range delete costs one op, however much it covers */
    SEAM_CAP_READ_AFTER_POISON = 4, /* new reads work after UNKNOWN */
    SEAM_CAP_MAY_ABORT = 8,         /* a third-party library may abort the process (never acked data) */
    SEAM_CAP_MAY_SKIP = 16          /* recovery may step over a damaged record and go on behind it, so
                                       what a crash leaves need not be a prefix; for benchmarks only */
};

/* What one db takes. As reported by seam_db_limits the headroom (options.headroom_percent, default
 * 90) has been applied to ops, bytes and range_keys, so that what classifies as fitting is what
 * prepare admits. UINT64_MAX is "no limit known". */
struct seam_limits {
    uint64_t key;        /* longest key */
    uint64_t value;      /* longest value */
    uint64_t ops;        /* ops of one commit */
    uint64_t bytes;      /* key and value bytes of one commit, summed over its ops */
    uint64_t range_keys; /* keys that one commit's range deletes may cover; without LAZY_RANGE */
    uint64_t tickets;    /* tickets outstanding at once */
    uint64_t pins;       /* snapshots, pins and cursors open at once */
    uint32_t caps;       /* SEAM_CAP_* */
    enum seam_ack best;  /* the strongest ack this engine gives */
};

enum seam_verdict {
    SEAM_FITS,   /* one commit */
    SEAM_SPLITS, /* k commits, each of which fits; atomic each, not together */
    SEAM_NEVER,  /* one op alone is over a limit */
    SEAM_ASK     /* holds a range delete, limits.range_keys is finite, and only the store knows how
                    many keys that covers */
};

struct seam_fit {
    enum seam_verdict verdict;
    size_t commits;    /* FITS 1, SPLITS k, ASK the least k, NEVER 0 */
    size_t op;         /* NEVER: the op; ASK: the first range; SPLITS: the first op beyond commit 1 */
    const char *limit; /* the limit that binds ("key", "value", "ops", "bytes", "range_keys") or NULL */
    uint64_t max, got; /* that limit, and what was asked of it */
};

/* Tells how the unit ops[0..n) would have to be committed under *limits. Pure: looks at no store,
 * keeps nothing, cannot fail. ops must be valid but for their sizes.
 * ret_ends: NULL, or room for n entries; gets the exclusive end index of each of ret->commits
 * commits. Splitting is greedy from the left, which gives the least number of commits. */
SEAM_API void seam_classify(const struct seam_limits *limits, const struct seam_op *ops, size_t n,
                            size_t *ret_ends, struct seam_fit *ret);

/* acc := what both take, so that the meet over several engines' limits is the portable limit. */
SEAM_API void seam_limits_meet(struct seam_limits *acc, const struct seam_limits *other);

/* ---- 6 prepare, commit, abort ------------------------------------------------------------ */

struct seam_db;
struct seam_ticket;

/* Checks ops[0..n) and takes from the db's ledger what committing them will need (memory, log
 * bytes, disk). A ticket holds AMOUNTS, not positions: no engine transaction, no lock, no sequence
 * number, no place in a log. So it may be held, committed or aborted by any thread in any order, is
 * invisible to snapshots, and never blocks another's commit, flush or collection. The array and all
 * the bytes it points to stay borrowed until the ticket is consumed.
 * Waiting for room happens here and nowhere else, at most options.stall_ms, then E_BUSY.
 * Errors: E_INVALID, E_TOO_LARGE (limit, max, got), E_NO_SPACE, E_BUSY, E_UNSUPPORTED (the ack),
 * E_POISONED, E_READ_ONLY, E_NOMEM, E_FORKED. After any of them nothing was written or is held.
 * After a crash: a ticket leaves no trace. */
SEAM_API int seam_prepare(struct seam_db *db, const struct seam_op *ops, size_t n, uint32_t ack,
                          struct seam_ticket **ret, struct seam_err *err);

/* Commits what was prepared; consumes the ticket whatever it returns. ret may be NULL.
 * SEAM_OK: done, visible, and safe to the level in ret->given. SEAM_E_UNKNOWN: see outcomes.
 * SEAM_E_POISONED: another commit failed since prepare; this one was not handed over, though it may
 * have waited for its turn in the engine by then. SEAM_E_MISUSE (strict only): the bytes of the ops
 * changed since prepare; not handed over, and the handle goes on.
 * No other code, when the engine declares RESERVES; without it, SEAM_E_UNKNOWN also covers what
 * could not be reserved, such as a disk that filled up between prepare and commit. A commit at
 * PROCESS or OS that another's failure overtook before its ack was given is UNKNOWN too.
 * After a crash: there whole or not at all; there, if acked at a level that covers the crash. */
SEAM_API int seam_commit(struct seam_ticket *ticket, struct seam_acked *ret, struct seam_err *err);

/* Gives back what was reserved; consumes the ticket. NULL is allowed. */
SEAM_API void seam_abort(struct seam_ticket *ticket);

/* prepare + commit. Errors of both. */
SEAM_API int seam_write(struct seam_db *db, const struct seam_op *ops, size_t n, uint32_t ack,
                        struct seam_acked *ret, struct seam_err *err);

/* Raises every commit that returned before this call to `level`; a POWER commit does the same.
 * Errors: E_UNSUPPORTED, E_POISONED (nothing was flushed), E_UNKNOWN (the flush failed: the handle is
 * poisoned now). */
SEAM_API int seam_sync(struct seam_db *db, enum seam_ack level, struct seam_err *err);

/* ---- 7 snapshots, pins, cursors ---------------------------------------------------------- */

struct seam_snap;
struct seam_cursor;

/* One instant of the db. Open ones keep old versions alive and so cost space: close them soon.
 * Errors: E_BUSY (limits.pins are open), E_POISONED, E_NOMEM, E_IO, E_FORKED. */
SEAM_API int seam_snap_open(struct seam_db *db, struct seam_snap **ret, struct seam_err *err);
/* Pins and cursors of the snapshot must have been released before. NULL is allowed. */
SEAM_API void seam_snap_close(struct seam_snap *snap);

/* Bytes that an engine lent out: valid until seam_unpin, unaffected by later commits. key is set by
 * floor and ceiling only. `db` and `own` are the library's. A pin may outlive the snapshot it was
 * read at only if that snapshot was NULL. */
struct seam_pin {
    struct seam_slice key, value;
    struct seam_db *db;
    void *own[2];
};

/* In all reads below a NULL snapshot means "now".
 * Errors of reads: E_INVALID (key length), E_BUSY (limits.pins), E_POISONED (NULL snapshot only),
 * E_IO, E_CORRUPT, E_NOMEM, E_FORKED. A read error is never reported as absence. */
SEAM_API int seam_get(struct seam_db *db, struct seam_snap *snap, struct seam_slice key,
                      struct seam_pin *ret, struct seam_err *err);

/* Releases; sets *pin to zeros, so that a second call is harmless. */
SEAM_API void seam_unpin(struct seam_pin *pin);

/* floor: the last key <= `key` among the keys that begin with `prefix`; ceiling: the first >= it.
 * `key` is a whole key, prefix included, of any length; it need not begin with the prefix (a
 * smaller one has no floor, a greater one's floor is the last key under the prefix). An empty prefix
 * is the whole db. Correct for prefixes that end in 0xff bytes. The cost is that of one seek.
 * SEAM_NOTFOUND if there is none. */
SEAM_API int seam_floor(struct seam_db *db, struct seam_snap *snap, struct seam_slice prefix,
                        struct seam_slice key, struct seam_pin *ret, struct seam_err *err);
SEAM_API int seam_ceiling(struct seam_db *db, struct seam_snap *snap, struct seam_slice prefix,
                          struct seam_slice key, struct seam_pin *ret, struct seam_err *err);

enum seam_move {
    SEAM_FIRST, /* the first key in bounds */
    SEAM_LAST,  /* the last key in bounds */
    SEAM_NEXT,  /* the one after; on a fresh cursor or one before the first: the first */
    SEAM_PREV,  /* the one before; on a fresh cursor or one after the last: the last */
    SEAM_GE,    /* the first key >= at, in bounds */
    SEAM_LE     /* the last key <= at, in bounds */
};

/* A cursor over [lower, upper) of one snapshot (NULL: of one taken now and kept until close).
 * Bounds are copied; lower {NULL,0} or empty: from the first key; upper {NULL,0}: no upper end.
 * lower >= upper is an empty range, not an error. */
SEAM_API int seam_cursor_open(struct seam_db *db, struct seam_snap *snap, struct seam_slice lower,
                              struct seam_slice upper, struct seam_cursor **ret,
                              struct seam_err *err);
/* Moves. SEAM_OK: *ret_key (may be NULL) is the key it stands on, valid until the next move or
 * close, never longer. SEAM_NOTFOUND: it ran off that end; a step back gives the key at that end.
 * Changing direction anywhere is exact. `at` is used by GE and LE only and may be of any length.
 * After a read error the cursor is unpositioned, as if fresh. */
SEAM_API int seam_cursor_move(struct seam_cursor *cursor, enum seam_move how, struct seam_slice at,
                              struct seam_slice *ret_key, struct seam_err *err);
/* The value it stands on, valid until the next move or close. May read the device, so may fail.
 * E_INVALID if it stands on nothing. */
SEAM_API int seam_cursor_value(struct seam_cursor *cursor, struct seam_slice *ret,
                               struct seam_err *err);
SEAM_API void seam_cursor_close(struct seam_cursor *cursor);

/* ---- 8 open and close -------------------------------------------------------------------- */

enum seam_open_mode {
    SEAM_OPEN_EXISTING,  /* must be there */
    SEAM_OPEN_CREATE,    /* made if the directory is missing or empty */
    SEAM_OPEN_NEW,       /* E_EXISTS if there is a store */
    SEAM_OPEN_READ_ONLY  /* must be there; writes nothing, so an unclean store is read as it lies */
};

struct seam_platform; /* <seam/platform.h>: files, time, memory, randomness */
struct seam_backend;  /* <seam/backend.h> */

/* Zero-initialised is the default. Copied at open; pointers inside are borrowed for the db's life
 * (platform, engines) or for the call (the rest). */
struct seam_options {
    enum seam_open_mode mode;
    uint64_t memory;           /* bytes for buffers and caches; 0: 64 MiB */
    uint64_t disk;             /* cap on the store's size, kept by the ledger; 0: what the disk has */
    uint32_t stall_ms;         /* longest wait in prepare; 0: 10000; UINT32_MAX: do not wait */
    uint32_t tickets;          /* 0: 1024 */
    uint32_t headroom_percent; /* 1..100, share of the ops, bytes and range limits; 0: 90 */
    const struct seam_platform *platform;       /* NULL: the system */
    const struct seam_backend *const *engines;  /* NULL-terminated extra engines, searched first */
};

/* Opens the store in `dir` with the stack of wrappers and the engine that `engine` names:
 *     [wrapper[:option=value,...]+]...engine[:option=value,...]
 *     "lmdb"   "rocksdb:blob,write_buffer=8M"   "strict+limit:ops=104K+lmdb"
 * An option without "=value" means =1. Sizes take K, M, G, T (1024); counts take K, M, G, T (1000).
 * An engine name with a '/' is a shared object to load (see <seam/backend.h>). A backslash takes the
 * next character as it is, so that a path may hold the ones that separate: + : , = and the backslash.
 * A volatile engine (mem) ignores dir, which may be NULL.
 * The directory: DIR/STORE (kind, engine, format version, uuid), DIR/LOCK, DIR/EPOCH, DIR/engine/;
 * 0700, files 0600 whatever the umask. A store is created whole or not at all. One writer process,
 * or any number of read-only ones: others get E_BUSY at once. Before the first read is served, what
 * was not known durable is made so by rewriting it, then a flushed barrier with a new epoch is
 * written: what a reader saw once stays.
 * Errors: E_NO_ENGINE, E_OPTION, E_NO_STORE, E_EXISTS, E_MISMATCH, E_CORRUPT, E_BUSY, E_PERMISSION,
 * E_READ_ONLY, E_NO_SPACE, E_IO, E_NOMEM. After an error nothing on disk has changed, but for files
 * that an interrupted creation by Seam itself had left. */
SEAM_API int seam_open(const char *engine, const char *dir, const struct seam_options *options,
                       struct seam_db **ret, struct seam_err *err);

/* No other call on the db may be on its way or come later; a thread that still holds something of it is
 * seen: E_BUSY with the counts in the text while tickets, snapshots, pins or cursors are open, and the db
 * stays open. Any other answer means it is closed and freed; an error then says that the last flush
 * or the engine's close failed: acks given stand, windows not yet raised do not. E_UNKNOWN also if a
 * window's flush had failed in the background and no call has told so yet. NULL is allowed. */
SEAM_API int seam_close(struct seam_db *db, struct seam_err *err);

/* Never fail. seam_db_engine gives the spec, normalised: the same text for all spellings of one spec,
 * and opening by it gives the same stack. Layers by name, a plug-in by the path it was opened by; then
 * those options whose value is not the default, in the order of the engine's table, a flag as its name
 * alone or name=0, numbers in the largest of K, M, G, T that divides them. */
SEAM_API void seam_db_limits(const struct seam_db *db, struct seam_limits *ret);
SEAM_API const char *seam_db_engine(const struct seam_db *db); /* see below; lives as long as db */
SEAM_API uint64_t seam_db_epoch(const struct seam_db *db);     /* grows at each writable open; 0: volatile */
SEAM_API const uint8_t *seam_db_uuid(const struct seam_db *db); /* 16 bytes, db's life */
SEAM_API bool seam_db_poisoned(const struct seam_db *db);

/* ---- 9 stats ----------------------------------------------------------------------------- */

/* name, meaning. -1 means unknown, never 0. Counters are since open. */
#define SEAM_STATS(X)                                                                          \
    X(commits, "commits done")                                                                 \
    X(ops, "ops in them")                                                                      \
    X(user_bytes, "key and value bytes in them")                                               \
    X(groups, "engine transactions or log writes that carried them")                           \
    X(flushes, "device flushes, as the engine counts them")                                    \
    X(written_bytes, "bytes the engine wrote to its files")                                    \
    X(disk_bytes, "space its files take now")                                                  \
    X(live_bytes, "key and value bytes of the newest version")                                 \
    X(memory_bytes, "memory its buffers and caches take now")                                  \
    X(keys, "keys in the newest version")                                                      \
    X(tickets, "tickets outstanding")                                                          \
    X(snapshots, "snapshots open")                                                             \
    X(cursors, "cursors open")                                                                 \
    X(pins, "pins not released")                                                               \
    X(stall_us, "time that prepares waited")                                                   \
    X(recovered_commits, "commits found in the log at open")

struct seam_stats {
#define SEAM_STAT_FIELD(name, text) int64_t name;
    SEAM_STATS(SEAM_STAT_FIELD)
#undef SEAM_STAT_FIELD
};

SEAM_API int seam_db_stats(struct seam_db *db, struct seam_stats *ret, struct seam_err *err);

/* Text that only this engine understands (its own counters), NUL-terminated into buf[0..cap);
 * returns the length it wanted, like snprintf. Layers above the engine put theirs first. */
SEAM_API size_t seam_db_describe(struct seam_db *db, char *buf, size_t cap);

/* ---- 10 engines by name ------------------------------------------------------------------ */

struct seam_engine_info {
    const char *name, *summary; /* static */
    const char *version;        /* of the library behind it; static; NULL if not built in */
    bool built_in, wrapper, is_volatile;
};

/* Every engine and wrapper the library knows, built in or not, in a fixed order; returns how many
 * there are; fills at most cap. */
SEAM_API size_t seam_engines(struct seam_engine_info *ret, size_t cap);

enum seam_tune { SEAM_TUNE_FLAG, SEAM_TUNE_COUNT, SEAM_TUNE_SIZE, SEAM_TUNE_WORD };

/* One tuning option of an engine or wrapper. */
struct seam_tuning {
    const char *name;
    enum seam_tune kind;
    const char *fallback; /* the default, as text: what the option's own syntax takes */
    const char *help;
    uint64_t least, most; /* COUNT and SIZE */
    const char *words;    /* WORD: "a|b|c" */
};

/* Its tuning options, terminated by a NULL name; NULL if there is no such engine. Static. */
SEAM_API const struct seam_tuning *seam_engine_tunings(const char *name);

/* What seam_open would say of the spec alone: SEAM_OK, E_NO_ENGINE, E_OPTION, E_NOMEM. Touches no
 * store; a plug-in is loaded. options: for platform and engines; may be NULL. ret_volatile (may be
 * NULL): its engine keeps nothing, and seam_open would ignore the directory. */
SEAM_API int seam_engine_check(const char *engine, const struct seam_options *options,
                               bool *ret_volatile, struct seam_err *err);

/* Cuts a list "vlog,rocksdb:blob,write_buffer=8M,lmdb" at the commas that separate engines. A part
 * that holds '=' before any ':' or '+' belongs to the engine before it; characters behind a backslash
 * do not count, and keep it in the copy. *rest moves on; the spec is
 * copied to buf. SEAM_OK, SEAM_NOTFOUND at the end, E_OPTION if a part is empty or over cap. */
SEAM_API int seam_engine_list_next(const char **rest, char *buf, size_t cap, struct seam_err *err);

/* Parses "4096", "64K", "1.5M", "2G", "1T" (1024 each, also KB and KiB, and so on) or, as a count, 1000
 * each; lower case is taken too.
 * SEAM_OK, or E_OPTION with a text that names what was wrong. */
SEAM_API int seam_parse_size(const char *text, uint64_t *ret, struct seam_err *err);
SEAM_API int seam_parse_count(const char *text, uint64_t *ret, struct seam_err *err);

/* seam_commit_start and seam_commit_wait are reserved for event loops. */

#ifdef __cplusplus
}
#endif

#endif
