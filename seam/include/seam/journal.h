/* journal.h - an append-only journal of named streams over one engine.
 *
 * Events go into streams; each stream numbers its events 1, 2, 3, ... without gaps. A journal lives
 * in a struct seam_db under a key prefix, so that it may have the db to itself or share it with
 * projections (<seam/projection.h>). What is written is told byte by byte in
 * docs/journal-format.md.
 *
 * WHAT HOLDS
 * - Every event carries its stream, sequence, time, length, the CRC of the event before it, and a
 *   CRC-32C over all that and the payload. Every read checks them; E_CORRUPT names stream and
 *   sequence, and the damaged bytes are not handed out.
 * - Appends of many threads are gathered into groups. A group is one commit of the engine; one
 *   group is in flight at a time; each writes one group record, which opening the journal checks.
 * - An append is all or nothing, and has the three outcomes of <seam/seam.h>: one that was NOT DONE
 *   leaves no gap in the numbers; after UNKNOWN the journal is poisoned, so that no number is given
 *   twice, until journal and db are closed and opened again.
 * - Order is by sequence. Times are the real clock's, but never go back within a journal.
 * - A journal may be used by any number of threads. A reader belongs to one thread at a time.
 * - At most one journal object per (db, prefix) is open at a time: the caller sees to that.
 *
 * Rules for codes, ret_ parameters, err and borrowed bytes are those of <seam/seam.h>. */
#ifndef SEAM_JOURNAL_H
#define SEAM_JOURNAL_H

#include <seam/seam.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SEAM_STREAM_NAME_MAX 128 /* bytes of a stream's name; any bytes, at least one */
#define SEAM_JOURNAL_PREFIX_MAX 64

struct seam_journal;
struct seam_journal_reader;

/* ---- open and close ---------------------------------------------------------------------- */

/* THE WITNESS. A file beside the engine's notes the last group that is known to be durable, with a
 * checksum chain over all before it. What an engine loses without a word, by rot or because an older
 * copy was put in its place, is so found at the next open: E_LOST. Damage older than the witness is
 * always found, younger is not: how much later it is written is this mode. It costs one small flush
 * each time. A volatile engine, or one that does not give POWER, has none. */
enum seam_witness_mode {
    SEAM_WITNESS_LAZY,      /* witness_ms after the first group it does not know yet, by a thread of
                               the journal's; at open, sync and close too */
    SEAM_WITNESS_EVERY_ACK, /* before an ack at POWER is given */
    SEAM_WITNESS_AT_CLOSE,  /* at open and close only */
    SEAM_WITNESS_NONE       /* neither looked at nor written */
};

/* Zero-initialised is the default. */
struct seam_journal_options {
    struct seam_slice prefix; /* every key begins with it; copied. Two journals on one db need
                                 prefixes of which neither begins with the other */
    uint32_t group_events;    /* most appends in one group; 0: 1024 */
    uint32_t fill_wait_us;    /* longest wait for a group to fill, and never more than half of what
                                 a group takes; 0: 200; UINT32_MAX: never wait */
    enum seam_witness_mode witness;
    uint32_t witness_ms; /* LAZY; 0: 100 */
    bool accept_loss;    /* open in spite of E_LOST, or of a WITNESS that is damaged or another
                            journal's, at what is there: from then on that is what is witnessed */
    const struct seam_platform *platform; /* clock, memory, randomness; NULL: the system's. The
                                             witness is written with the db's */
};

/* Opens the journal in db, or makes an empty one where there is none. options may be NULL. The db
 * is borrowed until seam_journal_close. Each stream's end is found by one seek and held against the
 * group records. Errors: E_CORRUPT (what is stored does not agree with itself), E_MISMATCH (another
 * format version; a witness of another journal), E_LOST (what the witness saw is not there),
 * E_NO_STORE (none there, and the db is read-only), E_INVALID, and those of reads and writes. */
SEAM_API int seam_journal_open(struct seam_db *db, const struct seam_journal_options *options,
                               struct seam_journal **ret, struct seam_err *err);

/* E_BUSY while readers are open, and the journal stays open. Another error: it is closed, but its last
 * flush or its witness failed: acks given stand. No call on it may be going on. The db
 * stays open. NULL is allowed. */
SEAM_API int seam_journal_close(struct seam_journal *journal, struct seam_err *err);

SEAM_API struct seam_db *seam_journal_db(const struct seam_journal *journal);
/* 16 random bytes given at creation; the journal's life. */
SEAM_API const uint8_t *seam_journal_uuid(const struct seam_journal *journal);
SEAM_API bool seam_journal_poisoned(struct seam_journal *journal);

/* ---- streams ----------------------------------------------------------------------------- */

/* The stream of that name: a number that stays the same for the journal's whole life. Looking up
 * costs no read of the store. create: made where there is none, else SEAM_NOTFOUND. A stream made
 * is as safe as the next event appended to it. Errors: E_INVALID (name), and those of a write. */
SEAM_API int seam_journal_stream(struct seam_journal *journal, struct seam_slice name, bool create,
                                 uint32_t *ret_stream, struct seam_err *err);

struct seam_stream_info {
    uint32_t stream;
    struct seam_slice name; /* until the journal is closed */
    uint64_t first;         /* oldest sequence still there; last + 1 if there is none */
    uint64_t last;          /* newest visible sequence; first - 1 if there is none */
    uint64_t durable;       /* every event up to here is known to survive a power cut: raised by an
                               append acked at POWER (of any stream), by seam_journal_sync, and at
                               open; not by a window running out, which tells nobody that it did.
                               On an engine without POWER it equals last and promises nothing */
    uint32_t last_crc;      /* record CRC of `last` */
    uint64_t bytes;         /* payload bytes of first to last */
};

SEAM_API int seam_journal_info(struct seam_journal *journal, uint32_t stream,
                               struct seam_stream_info *ret, struct seam_err *err);
/* Streams are numbered 1..count. */
SEAM_API uint32_t seam_journal_stream_count(struct seam_journal *journal);

/* ---- append ------------------------------------------------------------------------------ */

struct seam_append {
    uint64_t first, last;    /* sequences given */
    struct seam_acked acked; /* of the commit that carried them */
};

/* Appends events[0..n) to the stream, as n events with n payloads that follow each other, in one
 * commit. Payloads are borrowed until the return, of any length, empty too. ack: as in
 * <seam/seam.h>, a window too; the appends of a group get the strongest level that one of them
 * asked for. ret may be NULL.
 * NOT DONE: E_INVALID (err->op: the event), E_TOO_LARGE (one event over limits.value, or the append
 * over limits.ops or limits.bytes: err->limit, max, got; both counted with keys, envelopes and the
 * group record), E_UNSUPPORTED (ack), E_NO_SPACE, E_BUSY, E_NOMEM, E_POISONED, E_READ_ONLY.
 * UNKNOWN: E_UNKNOWN; the journal is poisoned. */
SEAM_API int seam_journal_append(struct seam_journal *journal, uint32_t stream,
                                 const struct seam_slice *events, size_t n, uint32_t ack,
                                 struct seam_append *ret, struct seam_err *err);

/* seam_sync of the db; after level POWER the durable mark is at every event that was visible at the
 * call. */
SEAM_API int seam_journal_sync(struct seam_journal *journal, enum seam_ack level,
                               struct seam_err *err);

/* ---- trim -------------------------------------------------------------------------------- */

/* Removes the stream's events below a sequence, in commits of bounded size; appends and reads go on
 * meanwhile. below: at most durable + 1, which empties the stream; its numbers go on where they were.
 * An open projection that has not applied an event yet needs it: trimming such events is refused
 * (E_BUSY names the slowest), or forced. ret_first (may be NULL) is where the stream begins then;
 * set on errors too, if some were removed. Space comes back as the engine gives it back.
 * Readers that come to what was removed get E_NEEDS_HISTORY. Errors: E_INVALID, E_BUSY, those of
 * reads and writes. After a crash the stream may begin at any sequence from the one before to
 * `below`; calling again goes on. */
SEAM_API int seam_journal_trim(struct seam_journal *journal, uint32_t stream, uint64_t below,
                               bool force, uint64_t *ret_first, struct seam_err *err);

/* What is to be kept of a stream: its newest events, by each of these that is not 0. */
struct seam_retention {
    uint64_t events;
    uint64_t bytes;  /* of payload; an event that only ends within them goes */
    uint64_t age_ms; /* by the events' times, against the clock now */
};

/* Trims so far that no more than `keep` is left: to the last event, if need be. Goes no further than
 * what is durable and, unless forced, than the slowest open projection; it is then an SEAM_OK that
 * kept more, as ret_first tells. Costs some reads (halving), and the trim. Errors of the trim. */
SEAM_API int seam_journal_retain(struct seam_journal *journal, uint32_t stream,
                                 const struct seam_retention *keep, bool force, uint64_t *ret_first,
                                 struct seam_err *err);

/* The first event whose time is time_ns (real clock, ns) or later. SEAM_NOTFOUND: there is none.
 * Errors: E_INVALID, those of reads. */
SEAM_API int seam_journal_at_time(struct seam_journal *journal, uint32_t stream, uint64_t time_ns,
                                  uint64_t *ret_sequence, struct seam_err *err);

/* ---- verify ------------------------------------------------------------------------------ */

struct seam_verified {
    uint32_t streams;       /* that the catalogue has */
    uint64_t events, bytes; /* that are whole, and their payload */
    uint64_t groups;        /* records that are whole */
    uint64_t faults;        /* 0: nothing is wrong */
    uint32_t stream;        /* the first fault: its stream and sequence; stream 0: its group, or 0 */
    uint64_t sequence;
};

/* Reads all of the journal under that prefix, at one snapshot, and holds every part of it against the
 * others: events, chains, group records, the ends of all streams, the witness. Goes on past a fault.
 * The journal need not be open, or fit to be opened, and the db may be read-only; if it is open,
 * appends and trims may go on. Memory: some 50 bytes for each stream. ret is set when all was looked at:
 * SEAM_OK, no fault; E_CORRUPT, ret->faults of them, err tells the first. Other errors:
 * E_NO_STORE (no journal), E_INVALID (prefix), E_NOMEM, those of reads. */
SEAM_API int seam_journal_verify(struct seam_db *db, struct seam_slice prefix,
                                 struct seam_verified *ret, struct seam_err *err);

/* ---- read -------------------------------------------------------------------------------- */

struct seam_event {
    uint32_t stream;
    uint32_t crc; /* the record's CRC, which the next event repeats */
    uint64_t sequence;
    uint64_t group;         /* number of the group it was written in */
    uint64_t time_ns;       /* real time when it was given its number, never going back */
    struct seam_slice data; /* valid until the reader's next call or close */
};

/* Reads the stream from sequence `from` on (0: from the first). snap: the events of that snapshot
 * of the journal's db, with those that were trimmed since; it must outlive the reader. NULL: the
 * reader follows the head, and takes a snapshot of its own when it needs to see further, which it
 * lets go at the end it has reached.
 * `from` may lie beyond the last event: the reader then gives nothing until it is there.
 * Errors: E_NEEDS_HISTORY (from is below the first sequence left), E_INVALID (no such stream),
 * E_NOMEM. */
SEAM_API int seam_journal_reader_open(struct seam_journal *journal, uint32_t stream, uint64_t from,
                                      struct seam_snap *snap, struct seam_journal_reader **ret,
                                      struct seam_err *err);
/* The next event. SEAM_NOTFOUND: none yet (following), or the snapshot's end; ask again later.
 * E_CORRUPT: a CRC, the chain, or a missing sequence; the reader stays where it is. Errors of
 * reads. */
SEAM_API int seam_journal_reader_next(struct seam_journal_reader *reader, struct seam_event *ret,
                                      struct seam_err *err);
SEAM_API void seam_journal_reader_close(struct seam_journal_reader *reader);

/* Waits until the stream has an event beyond `sequence`, at most timeout_ms (0: does not wait).
 * SEAM_OK: ret_last (may be NULL) is the newest sequence. SEAM_NOTFOUND: the time is over.
 * E_POISONED: nothing more will come. */
SEAM_API int seam_journal_wait(struct seam_journal *journal, uint32_t stream, uint64_t sequence,
                               uint32_t timeout_ms, uint64_t *ret_last, struct seam_err *err);

#ifdef __cplusplus
}
#endif

#endif
