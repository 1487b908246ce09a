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

#ifdef __cplusplus
}
#endif

#endif
