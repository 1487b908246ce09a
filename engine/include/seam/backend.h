/* backend.h - the table that an engine or a wrapper fills, for engine authors.
 *
 * The library stands between callers and this table, and keeps what is the same for all engines:
 * validation, headroom, the count of handles and tickets, poisoning, ack windows, the prefix
 * arithmetic of floor and ceiling, a cursor's state at its ends, the store directory with its lock
 * and epoch, fork detection. So an engine may rely on this:
 *   - ops are valid, within its own limits, and stay borrowed from prepare to commit or abort;
 *   - the ack asked is at most limits.best, without a window;
 *   - commit and sync come one at a time, and never after one that returned SEAM_E_UNKNOWN or
 *     SEAM_E_POISONED. An engine with SEAM_BACKEND_CONCURRENT gives that up: see AFTER A FAILURE;
 *   - keys given to get are 1..limits.key long; keys given to seeks are >= 1 byte, any length;
 *   - bounds stay valid until cursor_close, lower < upper where both are given;
 *   - NEXT and PREV come only when the cursor stands on a key;
 *   - close comes when every ticket, snapshot, pin and cursor is gone.
 * and must keep this:
 *   - everything <seam/seam.h> promises to callers;
 *   - `ret` parameters untouched on failure; err filled through seam_fail;
 *   - no printing, no exit, no signal handlers, no state at file scope that is not const;
 *   - threads of its own have all signals blocked: the process's signals are for the caller's threads;
 *   - commit returns SEAM_OK or SEAM_E_UNKNOWN, with SEAM_BACKEND_CONCURRENT also SEAM_E_POISONED,
 *     and nothing else; another code is taken for UNKNOWN. With SEAM_CAP_RESERVES, UNKNOWN means
 *     that a device failed. All engine work of a commit happens inside the one call.
 * A wrapper is a backend whose open receives the layer below; every op it leaves NULL goes to the
 * layer below, and it calls down through the seam_layer_ functions. Its commit may also answer
 * SEAM_E_MISUSE, when the caller broke a rule: the layer below was given abort instead, nothing was
 * handed over, and the handle goes on.
 *
 * AFTER A FAILURE. Commits of many threads pass the library's check and then wait in the engine for
 * their turn, so when one of them fails only the engine can hold the others back. An engine that
 * sets SEAM_BACKEND_CONCURRENT gets commit and sync from many threads at once, and promises: once
 * one of them failed, it begins nothing of a commit or flush that was waiting, or that still comes.
 * To these it answers SEAM_E_POISONED, which is NOT DONE: nothing was handed over, what the ticket
 * held is given back as by any commit. UNKNOWN is for those that may have reached the device; when
 * in doubt an engine answers that. engine/group.c keeps this for whoever commits and flushes
 * through it. After a failure close flushes nothing: a failed flush is never tried again.
 * Without the flag the library itself lets one call in at a time, which costs group commit. A stack
 * has the flag if each of its layers that has commit or sync has it.
 *
 * PLUG-INS. A shared object exports `const struct seam_backend *seam_backend_entry(void)`; open it
 * by a path with a '/': "./libmine.so:option=1", in which a backslash takes the next character as it
 * is: "./a\+b.so" is a+b.so. abi must equal SEAM_BACKEND_ABI. */
#ifndef SEAM_BACKEND_H
#define SEAM_BACKEND_H

#include <seam/platform.h>
#include <seam/seam.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SEAM_BACKEND_ABI 1u

enum {                          /* seam_backend.flags */
    SEAM_BACKEND_WRAPPER = 1,   /* needs a layer below */
    SEAM_BACKEND_VOLATILE = 2,  /* keeps nothing on disk: no directory, epoch 0 */
    SEAM_BACKEND_CONCURRENT = 4 /* commit and sync from many threads: see AFTER A FAILURE */
};

struct seam_backend;

/* Base of every instance; embed it first. The library sets the fields after open. */
struct seam_engine {
    const struct seam_backend *be;
    struct seam_engine *below;       /* wrappers: the layer below; engines: NULL */
    const struct seam_platform *os;  /* of the whole stack */
};

struct seam_open_args {
    const struct seam_platform *os;
    int dir;          /* DIR/engine, open; borrowed until close; -1 for a volatile engine */
    const char *path; /* the same as a path, for libraries that want one; borrowed until close */
    bool create;      /* the directory is empty: make the store in it, flushed, and open it */
    bool read_only;   /* write nothing at all */
    uint64_t memory;  /* options.memory, never 0 */
    uint64_t disk;    /* options.disk, UINT64_MAX if there is no cap */
    uint64_t epoch;   /* of this open; 0 for a volatile engine */
    const uint8_t *uuid;       /* 16 bytes; borrowed until close */
    const uint64_t *settings;  /* one number per entry of be->tunings, in its order: FLAG 0 or 1,
                                  COUNT, SIZE, WORD its index; borrowed for the call */
    struct seam_engine *below; /* wrappers; theirs to close once open succeeded */
};

/* What a ticket holds: amounts taken from the engine's ledger, and memory that the engine has
 * allocated so that commit need not. Never a lock, a transaction, a number or a place. */
struct seam_need {
    uint64_t memory, log, disk, range_keys;
    void *priv;
};

struct seam_commit {
    const struct seam_op *ops;
    size_t n;
    uint64_t bytes;    /* key and value bytes of all ops */
    enum seam_ack ack; /* asked */
    struct seam_need need;
};

struct seam_backend {
    uint32_t abi;         /* SEAM_BACKEND_ABI */
    uint32_t flags;       /* SEAM_BACKEND_* */
    uint32_t format;      /* version of what it writes in DIR/engine; another version is E_MISMATCH */
    const char *name;     /* [a-z0-9_]+ */
    const char *summary;  /* one line */
    const struct seam_tuning *tunings;  /* ended by a NULL name; NULL: none */
    const char *(*version)(void);       /* of the library behind it; static */

    /* Required of engines. open fills *ret with an instance whose first member is struct
     * seam_engine. close frees it whatever it returns; a failed last flush is E_UNKNOWN. */
    int (*open)(const struct seam_open_args *args, struct seam_engine **ret, struct seam_err *err);
    int (*close)(struct seam_engine *e, struct seam_err *err);
    /* Without headroom. Constant for the life of the instance. */
    void (*limits)(const struct seam_engine *e, struct seam_limits *ret);

    /* Optional, but required of a layer whose limits set range_keys (a layer without LAZY_RANGE that
     * gives less than UINT64_MAX, and less than the layer below it): only it can count what a range
     * covers; open refuses it otherwise. prepare takes from the ledger what c needs and notes it in
     * c->need; may wait until deadline_ns (monotonic; os->now_ns), then E_BUSY. Errors: E_NO_SPACE,
     * E_TOO_LARGE (range_keys), E_BUSY, E_NOMEM, E_IO. abort gives it back; commit consumes it,
     * whatever it returns. */
    int (*prepare)(struct seam_engine *e, struct seam_commit *c, uint64_t deadline_ns,
                   struct seam_err *err);
    void (*abort)(struct seam_engine *e, struct seam_commit *c);

    /* Required. commit: OK, E_UNKNOWN or E_POISONED; fills ret (preset to unknown). sync: raises all
     * earlier commits to level, which is at most limits.best; the same codes. */
    int (*commit)(struct seam_engine *e, struct seam_commit *c, struct seam_acked *ret,
                  struct seam_err *err);
    int (*sync)(struct seam_engine *e, enum seam_ack level, struct seam_err *err);

    /* A snapshot and a cursor are never NULL: that is how callers say "now" and "of its own". One that
     * is, is taken for a failure (E_IO). */
    int (*snap_open)(struct seam_engine *e, void **ret_snap, struct seam_err *err);
    void (*snap_close)(struct seam_engine *e, void *snap);

    /* snap NULL: now. Sets ret->value (near: key too) and ret->own; the library sets ret->db.
     * near: one seek in [lower, upper) and its value, how is FIRST, LAST, GE or LE; may be NULL, a
     * cursor is used then. unpin releases what own says. */
    int (*get)(struct seam_engine *e, void *snap, struct seam_slice key, struct seam_pin *ret,
               struct seam_err *err);
    int (*near)(struct seam_engine *e, void *snap, struct seam_slice lower, struct seam_slice upper,
                enum seam_move how, struct seam_slice at, struct seam_pin *ret,
                struct seam_err *err);
    void (*unpin)(struct seam_engine *e, struct seam_pin *pin);

    /* snap NULL: the cursor keeps one of its own. GE and LE come with lower <= at < upper. */
    int (*cursor_open)(struct seam_engine *e, void *snap, struct seam_slice lower,
                       struct seam_slice upper, void **ret_cursor, struct seam_err *err);
    int (*cursor_move)(struct seam_engine *e, void *cursor, enum seam_move how,
                       struct seam_slice at, struct seam_slice *ret_key, struct seam_err *err);
    int (*cursor_value)(struct seam_engine *e, void *cursor, struct seam_slice *ret,
                        struct seam_err *err);
    void (*cursor_close)(struct seam_engine *e, void *cursor);

    /* Optional. stats: all fields come preset to -1; those of handles are the library's. describe:
     * like snprintf. */
    int (*stats)(struct seam_engine *e, struct seam_stats *ret, struct seam_err *err);
    size_t (*describe)(struct seam_engine *e, char *buf, size_t cap);
};

/* The built-in engines and wrappers, in the order they are listed; NULL-terminated. Defined by
 * registry/, so that the contract does not know its engines. */
extern const struct seam_backend *const seam_registry[];
/* Names and summaries of engines that this build left out; ended by a NULL name. */
extern const struct seam_engine_info seam_registry_absent[];

/* ---- for engines ------------------------------------------------------------------------- */

/* Fills *err (NULL is allowed) and returns code. */
SEAM_API int seam_fail(struct seam_err *err, int code, const char *fmt, ...) SEAM_PRINTF(3, 4);
/* The same for a failed system call: os_errno > 0 is recorded, its text appended, and the code is
 * chosen from it: ENOSPC and EDQUOT E_NO_SPACE, ENOMEM E_NOMEM, EACCES and EPERM E_PERMISSION,
 * EROFS E_READ_ONLY, else E_IO. */
SEAM_API int seam_fail_os(struct seam_err *err, int os_errno, const char *fmt, ...)
    SEAM_PRINTF(3, 4);
/* Over a limit: names it, its maximum and what was asked. */
SEAM_API int seam_fail_limit(struct seam_err *err, int code, const char *limit, uint64_t max,
                             uint64_t got, size_t op);
/* Key bytes for an error text: printable as is, others as \xNN, cut at 64; returns buf. */
SEAM_API const char *seam_key_text(struct seam_slice key, char *buf, size_t cap);
/* <0, 0, >0 in the contract's key order. */
SEAM_API int seam_compare(struct seam_slice a, struct seam_slice b);
/* CRC-32C (Castagnoli), seed 0 to begin; chains: crc(a b) = crc(crc(0, a), b). */
SEAM_API uint32_t seam_crc32c(uint32_t crc, const void *bytes, size_t len);

/* Downward calls, for wrappers: each goes to the first layer at or below e that has the op. */
SEAM_API void seam_layer_limits(const struct seam_engine *e, struct seam_limits *ret);
SEAM_API int seam_layer_close(struct seam_engine *e, struct seam_err *err);
SEAM_API int seam_layer_prepare(struct seam_engine *e, struct seam_commit *c, uint64_t deadline_ns,
                                struct seam_err *err);
SEAM_API void seam_layer_abort(struct seam_engine *e, struct seam_commit *c);
SEAM_API int seam_layer_commit(struct seam_engine *e, struct seam_commit *c,
                               struct seam_acked *ret, struct seam_err *err);
SEAM_API int seam_layer_sync(struct seam_engine *e, enum seam_ack level, struct seam_err *err);
SEAM_API int seam_layer_snap_open(struct seam_engine *e, void **ret, struct seam_err *err);
SEAM_API void seam_layer_snap_close(struct seam_engine *e, void *snap);
SEAM_API int seam_layer_get(struct seam_engine *e, void *snap, struct seam_slice key,
                            struct seam_pin *ret, struct seam_err *err);
SEAM_API int seam_layer_near(struct seam_engine *e, void *snap, struct seam_slice lower,
                             struct seam_slice upper, enum seam_move how, struct seam_slice at,
                             struct seam_pin *ret, struct seam_err *err);
SEAM_API void seam_layer_unpin(struct seam_engine *e, struct seam_pin *pin);
SEAM_API int seam_layer_cursor_open(struct seam_engine *e, void *snap, struct seam_slice lower,
                                    struct seam_slice upper, void **ret, struct seam_err *err);
SEAM_API int seam_layer_cursor_move(struct seam_engine *e, void *cursor, enum seam_move how,
                                    struct seam_slice at, struct seam_slice *ret_key,
                                    struct seam_err *err);
SEAM_API int seam_layer_cursor_value(struct seam_engine *e, void *cursor, struct seam_slice *ret,
                                     struct seam_err *err);
SEAM_API void seam_layer_cursor_close(struct seam_engine *e, void *cursor);
SEAM_API int seam_layer_stats(struct seam_engine *e, struct seam_stats *ret, struct seam_err *err);
SEAM_API size_t seam_layer_describe(struct seam_engine *e, char *buf, size_t cap);

/* ---- ledger: amounts promised to tickets ------------------------------------------------- */

struct seam_ledger;

/* cap UINT64_MAX: no cap. */
SEAM_API int seam_ledger_open(const struct seam_platform *os, uint64_t cap,
                              struct seam_ledger **ret, struct seam_err *err);
SEAM_API void seam_ledger_close(struct seam_ledger *ledger);
/* Takes amount when used + promised + amount <= cap; waits for others to give back until the
 * deadline. OK; E_NO_SPACE at once if it would not fit with nothing promised; E_BUSY at the deadline.
 * `limit` names what it is in the error. */
SEAM_API int seam_ledger_take(struct seam_ledger *ledger, uint64_t amount, uint64_t deadline_ns,
                              const char *limit, struct seam_err *err);
/* Gives a promise back; used := what is in use now (UINT64_MAX: unchanged). */
SEAM_API void seam_ledger_give(struct seam_ledger *ledger, uint64_t amount, uint64_t used);
SEAM_API void seam_ledger_set_cap(struct seam_ledger *ledger, uint64_t cap);
SEAM_API uint64_t seam_ledger_promised(struct seam_ledger *ledger);

/* ---- for layers above a db --------------------------------------------------------------- */

/* The store's directory DIR, for small files of a layer's own beside STORE: a descriptor of the db's
 * platform, valid until seam_close; -1 for a volatile engine. Names that Seam itself uses there are
 * STORE, LOCK, EPOCH, engine, each with .new, and those that begin with WITNESS. */
SEAM_API int seam_db_dir(const struct seam_db *db);
SEAM_API const struct seam_platform *seam_db_platform(const struct seam_db *db);
SEAM_API bool seam_db_read_only(const struct seam_db *db);

/* ---- group commit: leader and followers -------------------------------------------------- */

struct seam_group;

struct seam_member {
    struct seam_commit *commit; /* for run; may be NULL when arg says it all */
    void *arg;
    int rc;                     /* run sets these three */
    struct seam_acked acked;
    struct seam_err err;
    struct seam_member *next;   /* in order of arrival */
    uint32_t state;             /* the group's own */
};

/* Commits the members of a group, in list order, and sets each one's rc, acked and err. Called by
 * one thread at a time, without any lock held. If one member cannot be part of a common transaction,
 * it aborts that and commits the members singly. */
typedef void (*seam_group_run)(void *ctx, struct seam_member *first, size_t n);

struct seam_group_config {
    seam_group_run run;
    void *ctx;
    uint32_t max_members;  /* 0: 1024 */
    uint64_t max_bytes;    /* a group closes at this many commit bytes; 0: 64 MiB */
    uint32_t fill_wait_us; /* longest wait of a leader for as many as the last group had; gated: only
                              when three or more writers were seen; 0: never wait */
};

SEAM_API int seam_group_open(const struct seam_platform *os, const struct seam_group_config *config,
                             struct seam_group **ret, struct seam_err *err);
SEAM_API void seam_group_close(struct seam_group *group);
/* An exclusive call: SEAM_OK, or fills *err, never NULL, and returns a code. */
typedef int (*seam_group_fn)(void *arg, struct seam_err *err);

/* Hands m in and returns when some leader (perhaps this thread) has run it: m->rc. Once a member or
 * an exclusive call has answered SEAM_E_UNKNOWN the group has failed: nothing is run any more, and
 * whoever is queued or comes later gets E_POISONED with nothing handed over. What such a member's
 * commit holds (need) is still the caller's to give back. */
SEAM_API int seam_group_commit(struct seam_group *group, struct seam_member *m);
/* Runs fn as the leader does, with no group in flight: for sync and for close. Returns what it
 * returned; E_POISONED, without a call of it, after the group failed. err may be NULL. */
SEAM_API int seam_group_exclusive(struct seam_group *group, seam_group_fn fn, void *arg,
                                  struct seam_err *err);

#ifdef __cplusplus
}
#endif

#endif
