/* store.h - a store: one journal and the projections fed from it, in one directory.
 *
 * The members may be on the same engine or on different ones, each in a directory of its own inside
 * the store's, or somewhere else (another device), and a projection may share the journal's db. The
 * store opens them all or none, knows which belong together, and makes them together: it is there
 * whole or not at all. Its directory is told byte by byte in docs/store-format.md:
 *     DIR/STORE   its id and its members    DIR/LOCK   one writer, or any number of readers
 *     DIR/journal/   DIR/projection-NAME/   one db each (<seam/seam.h>), if kept inside
 *
 * WHAT HOLDS
 * - A store is created whole or not at all: the members first, STORE last. What an interrupted
 *   creation has left is cleared, or gone on with, by the next open that creates; an open that fails
 *   leaves what was there, but for that.
 * - A member is known by the uuid of its db: one that is missing, or another's, is an error that
 *   names it, never a new empty one. The path of a member outside is given at every open and never
 *   read from disk.
 * - All members are open as long as the store is, so the slowest projection is always known.
 * - No projection is ahead of its journal after a crash: across dbs only events are applied that
 *   cannot be lost (<seam/projection.h>), whatever acks the journal is written with.
 * - A store may be used by any number of threads.
 *
 * Rules for codes, ret_ parameters, err, borrowed bytes and fork() are those of <seam/seam.h>. */
#ifndef SEAM_STORE_H
#define SEAM_STORE_H

#include <seam/journal.h>
#include <seam/projection.h>
#include <seam/seam.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SEAM_STORE_PROJECTIONS_MAX 255
#define SEAM_STORE_NAME_MAX 64 /* bytes of a projection's name: a-z, 0-9, '_' and '-' */

struct seam_store;

/* ---- open and close ---------------------------------------------------------------------- */

/* One projection of the store. name and stream are needed; the rest may be zero. Everything here is
 * borrowed for the call of open; projector_ctx for the store's life. */
struct seam_store_feed {
    const char *name;
    const char *engine; /* a spec as for seam_open; NULL: it lives in the journal's db */
    const char *dir;    /* where it is kept; NULL: inside. Not with engine NULL */
    const struct seam_options *db; /* of its db; mode and platform are the store's. NULL: defaults */
    struct seam_slice stream;
    seam_projector projector;
    void *projector_ctx;
    uint32_t batch; /* as in struct seam_projection_options, as are these */
    uint32_t ack;
    bool discard, split_units, atomic_reads;
};

/* Borrowed for the call of open; platform and db options' engines for the store's life. */
struct seam_store_options {
    enum seam_open_mode mode;
    const char *journal_engine;               /* a spec as for seam_open; needed */
    const char *journal_dir;                  /* NULL: inside */
    const struct seam_options *journal_db;    /* as above */
    const struct seam_journal_options *journal; /* NULL: defaults; its prefix must be empty, its
                                                   platform is the store's */
    const struct seam_store_feed *projections;
    size_t n;
    const struct seam_platform *platform; /* NULL: the system's */
};

/* Opens the store in `dir`, or makes it, as options->mode says; options are needed.
 * Every projection that the store has must be named: E_MISMATCH tells one that is not. One that it
 * has not is added in the mode create, with the same care as a creation; in the others that is
 * E_MISMATCH. A projection keeps its place: inside, outside, in the journal's db.
 * All names, specs and directories are checked before anything is touched. A volatile engine (mem)
 * keeps nothing and is empty at each open; a journal on one can feed no projection that is kept. If
 * all engines are volatile dir may be NULL.
 * A directory given for a member that is to be made must be missing or empty, or hold a db without
 * any key, or what an interrupted creation of this store made there.
 * Errors: E_INVALID (a name with other bytes or too long, or twice; two members in one directory; a
 * directory inside the store's own), E_NO_ENGINE, E_OPTION, E_NO_STORE (none there; or a member
 * outside is not where it was said to be), E_EXISTS, E_MISMATCH (a member is of another store, or
 * of another engine; the members named are not those that there are), E_CORRUPT (STORE or a member
 * inside is damaged or missing), E_BUSY (open already), E_PERMISSION, E_READ_ONLY, E_NO_SPACE, E_IO,
 * E_NOMEM, and those of opening journal and projections. The text names the member. If removing the
 * last trace of a creation fails, E_IO is told of a store that is there and whole. */
SEAM_API int seam_store_open(const char *dir, const struct seam_store_options *options,
                             struct seam_store **ret, struct seam_err *err);

/* Closes projections, journal and dbs, and lets go of the lock. E_BUSY while readers, views, cursors
 * or pins are open: of projections: nothing was closed; of the journal or a db: the projections are
 * closed, and only seam_store_close may be called, again. Any other answer means that the store is closed
 * and freed; an error is then the first that a member's close told. NULL is allowed. */
SEAM_API int seam_store_close(struct seam_store *store, struct seam_err *err);

/* ---- members ----------------------------------------------------------------------------- */

/* They are the store's: read them, append to the journal, but do not close them. */
SEAM_API struct seam_journal *seam_store_journal(struct seam_store *store);
/* NULL: the store has none of that name. */
SEAM_API struct seam_projection *seam_store_projection(struct seam_store *store, const char *name);
/* The db that a projection is kept in; name NULL: the journal's. NULL: no such projection. */
SEAM_API struct seam_db *seam_store_db(struct seam_store *store, const char *name);
/* 16 random bytes given at creation, until close; zeros if every engine is volatile. */
SEAM_API const uint8_t *seam_store_uuid(const struct seam_store *store);

/* seam_projection_catch_up of all, each as far as it may go. An error does not keep the others from
 * catching up; the first is told, with the projection's name before its text. ret_applied (may be
 * NULL) counts all events that were applied, on errors too. */
SEAM_API int seam_store_catch_up(struct seam_store *store, uint64_t *ret_applied,
                                 struct seam_err *err);

/* ---- units ------------------------------------------------------------------------------- */

/* Zero-initialised is the default. */
struct seam_put_options {
    uint64_t lag;    /* how many events a projection of the stream may stay behind; 0: none, so that
                        what was put is seen. UINT64_MAX: put applies nothing */
    size_t *commits; /* NULL, or room for as many as there are projections, in the order in which they
                        were named at open: how many commits the unit takes there; 0: other stream.
                        Filled on refusals too, as far as it is known, else 0; NEVER is 0 */
};

struct seam_put {
    uint64_t sequence;       /* of the event that the unit is now */
    struct seam_acked acked; /* of the journal's commit */
    size_t behind;           /* projections of the stream that are more than `lag` events behind */
    int applying;            /* SEAM_OK, or the first code with which a projection could not be fed */
};

/* Puts a unit of work: one event of the stream, and what its projections make of it. First every
 * projection of the stream is asked what it would do with the event (a dry run of its projector, with
 * the sequence that the event will have, the time, crc 0 and group 0). By the answers:
 *   fits     it is taken;
 *   splits   into k commits: refused (E_TOO_LARGE, the text tells k), or taken where that projection
 *            has split_units;
 *   never    one op alone is over a limit: refused (E_TOO_LARGE);
 *   ask      a range delete that the projection's engine has to count: counted, after everything before
 *            the event was applied; refused (E_TOO_LARGE, limit "range_keys") if it covers too much.
 * Refused by any of them, nothing is written. Then the event is appended, in one commit, and the
 * projections are fed as options->lag tells, all in the calling thread.
 *
 * So no unit gets into the journal that a projection could never apply, if two things hold: which keys
 * a projector emits, and how long the values are, follows from the event's stream, sequence and data
 * alone, and the stream is appended to through this call only. Units of one stream are put one
 * at a time, of several streams at once; a stream without a projection is not held up at all.
 *
 * ack is the event's, as for seam_journal_append. A projection in another db takes only what a power
 * cut cannot take from the journal, so where one has to follow at once (lag 0) the event is appended
 * with ack POWER whatever was asked, and with a lag the journal is flushed once it is used up.
 *
 * SEAM_OK: the unit is in the journal, and what the stream's projections have not applied they will, by
 * the next put, catch_up or open. If applying failed, ret->applying is the code and *err tells it.
 * NOT DONE (nothing written): E_TOO_LARGE, a projector's own code, errors of reads, and those of
 * seam_journal_append; the text names the projection. UNKNOWN: E_UNKNOWN, as in seam_journal_append.
 * After a crash: the unit is in the journal whole or not at all, there if it was acked so; in each
 * projection the same, but for one with split_units and without atomic_reads, of which readers may see
 * the first i of k commits until catch_up has gone on. options and ret may be NULL. */
SEAM_API int seam_store_put_unit(struct seam_store *store, uint32_t stream, struct seam_slice payload,
                                 uint32_t ack, const struct seam_put_options *options,
                                 struct seam_put *ret, struct seam_err *err);

#ifdef __cplusplus
}
#endif

#endif
