/* journal_int.h - what the journal's files share.
 *
 * Keeps true: `last`, `last_crc`, the tables of streams, the group number and its chain are written
 * by the group's leader only (or under seam_group_exclusive), and under `lock`; so the leader reads
 * them without it, all others with it. */
#ifndef SEAM_ROOM_JOURNAL_INT_H
#define SEAM_ROOM_JOURNAL_INT_H

#include "format.h"

#include <seam/backend.h>

#include <pthread.h>
#include <stdatomic.h>

struct seam_jstream {
    uint32_t id;
    uint64_t first, last, durable;
    uint64_t base, bytes; /* payload bytes before `first`; up to `last`, all of them ever */
    uint32_t base_crc, last_crc; /* last_crc: base_crc while there is no event */
    uint64_t last_group;  /* 0: of no event that is still there */
    uint64_t first_group; /* of event `first`; 0: not looked up. The leader's own */
    uint64_t trimming;    /* events below are being removed, or were; under lock */
    /* Of the group under way, the leader's own: */
    bool touched;
    uint64_t new_last, new_bytes;
    uint32_t new_crc;
    struct seam_jstream *next_touched;
    /* Streams with last > durable: */
    bool dirty;
    struct seam_jstream *next_dirty;
    struct seam_slice name; /* points behind this struct */
};

/* Who still needs the events of a stream behind `sequence`. Its owner's; linked under lock. */
struct seam_jhold {
    struct seam_jhold *next;
    uint32_t stream;
    uint64_t sequence;
    struct seam_slice name; /* who it is; the owner's bytes */
};

struct seam_jwitness {
    enum seam_witness_mode mode;
    uint32_t ms;
    const struct seam_platform *os; /* the db's, as dir is */
    int dir, fd;                    /* fd -1: there is none */
    char name[8 + 2 * SEAM_JOURNAL_PREFIX_MAX + 8];
    struct seam_fmt_witness seen;   /* at open */
    pthread_mutex_t lock;           /* guards all below; held while a slot is written */
    pthread_cond_t wake;
    pthread_t thread;
    bool has_thread, stop, due;
    uint32_t slot;                  /* to be written next */
    struct seam_fmt_witness want;
    int failed;                     /* errno of a lazy write */
};

struct seam_journal {
    struct seam_db *db;
    const struct seam_platform *os;
    struct seam_group *group;
    struct seam_limits limits;
    uint8_t uuid[16];
    uint64_t first_group;
    bool has_witness, accept_loss;
    struct seam_jwitness witness;
    struct seam_slice prefix;
    uint8_t prefix_bytes[SEAM_JOURNAL_PREFIX_MAX];
    atomic_bool poisoned;

    pthread_mutex_t lock;
    pthread_cond_t grew;
    uint32_t waiters, readers;
    struct seam_jstream **by_id;   /* [0] is stream 1 */
    struct seam_jstream **by_name; /* the same, sorted */
    uint32_t streams, streams_cap;
    struct seam_jstream *dirty;
    struct seam_jhold *holds;
    uint64_t shown_group; /* the newest, and its chain, for those who do not lead */
    uint32_t shown_chain;

    /* The leader's own: */
    uint64_t group_no, time_ns, state;
    uint32_t chain;
    struct seam_op *ops;
    uint8_t *keys, *envelopes, *record;
    size_t ops_cap, record_cap;
};

void seam_j_event_key(const struct seam_journal *j, uint32_t stream, uint64_t sequence,
                      struct seam_fmt_key *ret);
void seam_j_group_key(const struct seam_journal *j, uint64_t number, struct seam_fmt_key *ret);
/* NULL if there is none; under lock, or the leader. */
struct seam_jstream *seam_j_find(const struct seam_journal *j, struct seam_slice name);
struct seam_jstream *seam_j_by_id(const struct seam_journal *j, uint32_t id);
/* Makes an empty stream and room for it in the tables; the leader, or at open. */
int seam_j_new_stream(struct seam_journal *j, struct seam_slice name,
                      const struct seam_fmt_stream *in, struct seam_jstream **ret,
                      struct seam_err *err);
/* Puts it into the tables as the one of the highest number; cannot fail. */
void seam_j_add_stream(struct seam_journal *j, struct seam_jstream *stream);
/* Under lock: every event up to `last` of each stream holds at POWER. */
void seam_j_all_durable(struct seam_journal *j);
void seam_j_poison(struct seam_journal *j);
/* Fills streams, their ends and the group state from the store, and checks one against another. */
int seam_j_load(struct seam_journal *j, struct seam_err *err);
/* Record CRC of event `sequence`, 0 for the one before the first: SEAM_OK; SEAM_NOTFOUND if the
 * journal does not reach that far; E_NEEDS_HISTORY if it was trimmed. */
int seam_j_record_crc(struct seam_journal *j, uint32_t stream, uint64_t sequence, uint32_t *ret,
                      struct seam_err *err);
/* The envelope of an event, checked with its payload; SEAM_NOTFOUND if it is not there. */
int seam_j_event(struct seam_journal *j, uint32_t stream, uint64_t sequence,
                 struct seam_fmt_event *ret, struct seam_err *err);
/* What is trimmed stays above every hold's sequence, unless it is forced. */
void seam_j_hold_add(struct seam_journal *j, struct seam_jhold *hold);
/* Raises, and never lowers. */
void seam_j_hold_move(struct seam_journal *j, struct seam_jhold *hold, uint64_t sequence);
void seam_j_hold_remove(struct seam_journal *j, struct seam_jhold *hold);
/* ---- witness.c --------------------------------------------------------------------------- */

int seam_w_init(struct seam_journal *j, const struct seam_journal_options *o); /* 0 or an errno */
void seam_w_end(struct seam_journal *j);
/* There is no journal: nor may there be a witness that saw one. */
int seam_w_remains(struct seam_journal *j, struct seam_err *err);
/* Makes the file, where there is to be one. */
int seam_w_make(struct seam_journal *j, struct seam_err *err);
/* What the file says, of a journal that is not open. SEAM_NOTFOUND: there is none. */
int seam_w_read(struct seam_journal *j, struct seam_fmt_witness *ret, struct seam_err *err);
/* Holds what was loaded to the file. */
int seam_w_check(struct seam_journal *j, bool accept_loss, struct seam_err *err);
int seam_w_start(struct seam_journal *j, struct seam_err *err);
/* All groups up to this one survive a power cut. */
int seam_w_durable(struct seam_journal *j, uint64_t group, uint32_t chain, struct seam_err *err);
/* Writes now what is due; tells of lazy writes that failed. */
int seam_w_write(struct seam_journal *j, struct seam_err *err);

/* The group's run function. */
void seam_j_run(void *ctx, struct seam_member *first, size_t n);

#endif
