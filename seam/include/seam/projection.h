/* projection.h - a materialised table fed from one stream of a journal.
 *
 * A projector, a function of yours, turns each event into puts and deletes. They are committed in
 * one batch with the position (epoch, sequence, record CRC) of the last event in it, so a crash can
 * neither skip an event nor apply one twice. A projection may live in the journal's db or in
 * another, on the same engine or a different one; several live in one db under different names.
 *
 * WHAT HOLDS
 * - Only events that cannot be lost are applied: with the journal in another db, those at or below
 *   its durable mark (struct seam_stream_info); in the same db all visible ones, since a crash
 *   keeps a prefix of the db's commits. On an engine without SEAM_ACK_POWER the mark promises
 *   nothing.
 * - At open the position must be a record of the journal, with the same CRC; else E_MISMATCH, and
 *   the projection has to begin anew (options.discard).
 * - Keys given and returned are the projection's own: the prefix under which they are stored is
 *   added and taken off here. Values are not copied.
 * - Reads may come from any thread. Writes of one projection (catch_up, merge, and each commit of a
 *   rebuild) take turns, in the order of asking.
 * - At most one object per (db, prefix, name) is open at a time: the caller sees to that. */
#ifndef SEAM_PROJECTION_H
#define SEAM_PROJECTION_H

#include <seam/journal.h>
#include <seam/seam.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SEAM_PROJECTION_NAME_MAX 64 /* bytes of a projection's name; any bytes, at least one */

struct seam_projection;

/* ---- the projector ----------------------------------------------------------------------- */

/* Where a projector puts its ops. */
struct seam_emit;

#define SEAM_EMIT_COPIED 4096

/* Adds one op. Its key (for DELETE_RANGE also the end, op->head; {NULL,0}: the table's end) is the
 * projection's own, is copied, and may be empty. A value's head and body are copied up to
 * SEAM_EMIT_COPIED bytes each; a longer one is not, and must stay as it is until the projector is
 * called again or seam_projection_catch_up returns: pointing into the event's data is fine.
 * E_INVALID, E_NOMEM. */
SEAM_API int seam_emit_op(struct seam_emit *out, const struct seam_op *op, struct seam_err *err);

/* Turns one event into any number of ops, none too. A code other than SEAM_OK ends the catch-up
 * with that code; nothing of this event is applied. It is called by the thread that catches up,
 * once per event and again after a crash or an error, so what it does must depend on the event
 * only. It may read the projection, but sees there only what is committed (options.batch = 1 makes
 * that everything before this event). */
typedef int (*seam_projector)(void *ctx, const struct seam_event *event, struct seam_emit *out,
                              struct seam_err *err);

/* ---- open and close ---------------------------------------------------------------------- */

/* Zero-initialised is the default: a table that only merge writes. */
struct seam_projection_options {
    struct seam_slice prefix;     /* before every key, SEAM_JOURNAL_PREFIX_MAX at most; copied */
    struct seam_journal *journal; /* that feeds it; borrowed until close; NULL: none */
    struct seam_slice stream;     /* its stream, by name; made if it is not there; copied */
    seam_projector projector;
    void *projector_ctx;
    uint32_t batch; /* most events in one commit; 0: 256 */
    uint32_t ack;   /* of catch_up's commits; 0: SEAM_ACK_NONE */
    bool discard;   /* drop what is there and begin at the stream's first event */
    bool split_units;  /* an event that is too large for one commit is applied in several */
    bool atomic_reads; /* and nobody sees it before the last of them */
    const struct seam_platform *platform; /* NULL: the system's */
};

/* Opens the projection of that name, or makes an empty one. options may be NULL.
 * Errors: E_MISMATCH (fed from another journal or stream, another format version, or the position
 * is no record of the journal: rebuild with options.discard), E_NEEDS_HISTORY (the events after the
 * position were trimmed), E_CORRUPT, E_NO_STORE (none there, and the db is read-only), E_INVALID,
 * and those of reads and writes. */
SEAM_API int seam_projection_open(struct seam_db *db, struct seam_slice name,
                                  const struct seam_projection_options *options,
                                  struct seam_projection **ret, struct seam_err *err);
/* E_BUSY while views or cursors are open. NULL is allowed. */
SEAM_API int seam_projection_close(struct seam_projection *projection, struct seam_err *err);

/* UNITS. An event whose ops do not fit one commit of the db is refused by catch_up (E_TOO_LARGE),
 * or, with options.split_units, applied in k commits, each of which holds as many ops as fit, in
 * order, and says how far it got: (sequence, i of k) and the op to go on from. A crash between them is
 * made up for by the next catch-up, which goes on there, even if the limits are others now. Until the
 * last of them reads are "inside a unit", which the position tells (part, parts). With
 * options.atomic_reads they are not: views opened meanwhile show the instant before the first
 * of them; single reads and cursors with view NULL answer E_BUSY; and so do views too in a projection
 * that was opened inside a unit, until catch_up has ended it (open tries that first). A projector of
 * such a projection may not read it: the event is projected anew when it is gone on with. */

/* ---- writing ----------------------------------------------------------------------------- */

/* Applies up to max_events events (0: all that may be applied now), each commit as large as
 * options.batch and the db's limits allow. *ret_applied (may be NULL) counts the events committed
 * by this call and is set on errors too: they stay applied. Repeating after an error goes on where
 * it ended, but for E_UNKNOWN and E_POISONED.
 * Errors: E_TOO_LARGE (one event's ops are over a limit; the text names the event), the
 * projector's, those of the journal's readers, and of writes. E_INVALID without a journal. */
SEAM_API int seam_projection_catch_up(struct seam_projection *projection, uint64_t max_events,
                                      uint64_t *ret_applied, struct seam_err *err);

/* Makes what was applied so far safe against a power cut (seam_sync of the db), and so tells the
 * journal that it may be trimmed up to there. Where the projection lives in the journal's db, or
 * commits with ack POWER, nothing is left to do: every commit tells. Errors of seam_sync. */
SEAM_API int seam_projection_sync(struct seam_projection *projection, struct seam_err *err);

/* What the event would take, under the db's limits: FITS, SPLITS into ret->commits, NEVER (one op alone
 * is too large) or ASK (a range delete whose size only the store knows). Runs the projector, writes
 * nothing. ret->op counts the projector's ops. Errors: the projector's, E_INVALID without a journal,
 * E_NOMEM. */
SEAM_API int seam_projection_classify(struct seam_projection *projection,
                                      const struct seam_event *event, struct seam_fit *ret,
                                      struct seam_err *err);

/* ---- rebuilding -------------------------------------------------------------------------- */

/* A rebuild feeds a new table (a generation) from the stream's first event while the old one is read
 * and, by other threads, caught up as before. When it has got as far as the old one, one commit makes
 * it the table that is read, and the old one remains to be swept.
 *
 * AFTER A CRASH, an error or a close the table that was read last is read, with the position that goes
 * with it; a new one that is not ended yet stays, with its own position, and the next rebuild goes on
 * there. Never is a part of it seen.
 *
 * The projector is called for each event once more, in the thread that rebuilds, never by two threads
 * at once. If it reads the projection with view NULL (options.batch = 1) it reads the new table. What
 * was merged into the old table is not in the new one. A rebuild that goes on uses the projector there
 * is now: after changing what it does, drop what was begun.
 *
 * Until it is ended a rebuild that was begun keeps the journal from trimming what it still needs. */
struct seam_rebuild_options {
    uint64_t max_events; /* most events applied by this call; 0: until it is ended */
};

struct seam_rebuild_progress {
    uint64_t applied;  /* events, by this call */
    uint64_t sequence; /* the new table's position; ended: the projection's */
    uint64_t target;   /* where the old one is; ended: the same as sequence */
    bool ended;        /* the new table is the one that is read */
    bool swept;        /* nothing remains of older ones */
};

/* Begins a rebuild, or goes on with the one begun. Without max_events the old table is also swept, in
 * commits of bounded size; else each later catch_up does a step of that, and the next open, and the
 * next rebuild all of it before it begins. With the projection in another db than the journal the end
 * is flushed. Views opened before the end keep reading the old table: their snapshot has it, whatever
 * is swept. options and ret may be NULL; ret is set on errors too.
 * Errors: E_NEEDS_HISTORY (events were trimmed; the text names the first that is left; what was begun is
 * dropped), E_INVALID without a journal, those of catch_up. */
SEAM_API int seam_projection_rebuild(struct seam_projection *projection,
                                     const struct seam_rebuild_options *options,
                                     struct seam_rebuild_progress *ret, struct seam_err *err);

/* Drops a rebuild that was begun; SEAM_OK too if none was. Its table is swept like an old one. Errors of
 * writes. */
SEAM_API int seam_projection_rebuild_drop(struct seam_projection *projection, struct seam_err *err);

/* STAMPS. A merged value is stored as an 8-byte big-endian stamp followed by the entry's value, and
 * reads return it so, stamp included: seam_stamp takes it apart. In a table that is merged into,
 * every value must begin with a stamp; one shorter than 8 bytes is older than any. */
struct seam_entry {
    struct seam_slice key;
    uint64_t stamp;
    struct seam_slice value; /* without the stamp */
};

struct seam_merged {
    size_t written;          /* keys that got a newer value */
    size_t kept;             /* entries that were not newer, or lost to another of the unit */
    struct seam_acked acked; /* zeros if nothing was written */
};

/* Merges a unit entry by entry: of entries with the same key the one with the highest stamp counts
 * (of equal ones the last); it is written if its stamp is higher than the stored one's. One commit,
 * or refused with nothing written: the whole unit, after duplicates are folded, must fit the db's
 * limits. Merging a unit again changes nothing, so a caller may cut a unit that is too large. The
 * position is not touched. ret may be NULL.
 * Errors: E_INVALID, E_TOO_LARGE (err->op: index of the entry at fault where one is), reads,
 * writes. */
SEAM_API int seam_projection_merge(struct seam_projection *projection,
                                   const struct seam_entry *entries, size_t n, uint32_t ack,
                                   struct seam_merged *ret, struct seam_err *err);

/* The stamp of a stored value, and what follows it. false: shorter than a stamp. */
SEAM_API bool seam_stamp(struct seam_slice stored, uint64_t *ret_stamp,
                         struct seam_slice *ret_value);

/* ---- reading ----------------------------------------------------------------------------- */

/* The last event applied whole. All zero: none yet. */
struct seam_position {
    uint64_t epoch; /* of the journal's db when it was applied */
    uint64_t sequence;
    uint32_t crc;         /* the event's record CRC */
    uint32_t part, parts; /* 0, 0; or inside a unit: of the next event's commits, about `parts`,
                             the first `part` are done */
};

/* A view: one instant of the projection, which knows its position. */
struct seam_view;

SEAM_API int seam_view_open(struct seam_projection *projection, struct seam_view **ret,
                            struct seam_err *err);
/* Cursors and pins of the view must have been released before. NULL is allowed. */
SEAM_API void seam_view_close(struct seam_view *view);
SEAM_API void seam_view_position(const struct seam_view *view, struct seam_position *ret);
/* The position of the newest commit. */
SEAM_API void seam_projection_position(struct seam_projection *projection,
                                       struct seam_position *ret);

/* As seam_get, seam_floor and seam_ceiling, with the projection's own keys; view NULL means "now".
 * The prefix may be empty. Release with seam_unpin. */
SEAM_API int seam_projection_get(struct seam_projection *projection, struct seam_view *view,
                                 struct seam_slice key, struct seam_pin *ret, struct seam_err *err);
SEAM_API int seam_projection_floor(struct seam_projection *projection, struct seam_view *view,
                                   struct seam_slice prefix, struct seam_slice key,
                                   struct seam_pin *ret, struct seam_err *err);
SEAM_API int seam_projection_ceiling(struct seam_projection *projection, struct seam_view *view,
                                     struct seam_slice prefix, struct seam_slice key,
                                     struct seam_pin *ret, struct seam_err *err);

/* As seam_cursor_..., over [lower, upper) of the projection's own keys; upper {NULL,0}: to the
 * table's end. */
struct seam_projection_cursor;

SEAM_API int seam_projection_cursor_open(struct seam_projection *projection, struct seam_view *view,
                                         struct seam_slice lower, struct seam_slice upper,
                                         struct seam_projection_cursor **ret, struct seam_err *err);
SEAM_API int seam_projection_cursor_move(struct seam_projection_cursor *cursor, enum seam_move how,
                                         struct seam_slice at, struct seam_slice *ret_key,
                                         struct seam_err *err);
SEAM_API int seam_projection_cursor_value(struct seam_projection_cursor *cursor,
                                          struct seam_slice *ret, struct seam_err *err);
SEAM_API void seam_projection_cursor_close(struct seam_projection_cursor *cursor);

#ifdef __cplusplus
}
#endif

#endif
