/* trim.c - taking away a stream's oldest events: below a sequence, or beyond what is to be kept.
 *
 * Relies on the group's order: a step runs with no group in flight. Keeps true: a step is one commit,
 * which removes some of the oldest events and says in the stream's record where it begins now, how
 * much was before it and which record CRC; and which group record is the oldest now. So a crash
 * between any two steps leaves a journal that has been trimmed less far, and nothing else.
 *
 * `trimming` is raised before the commit and `first` after it: a reader that finds an event gone asks
 * the one, one that looks where to begin asks the other. */
#include "journal_int.h"

#include <assert.h>

#define STEP_MOST 4096u /* keys of one commit: it holds others up for so long */

/* ---- holds ------------------------------------------------------------------------------- */

void seam_j_hold_add(struct seam_journal *j, struct seam_jhold *hold)
{
    pthread_mutex_lock(&j->lock);
    hold->next = j->holds;
    j->holds = hold;
    pthread_mutex_unlock(&j->lock);
}

void seam_j_hold_move(struct seam_journal *j, struct seam_jhold *hold, uint64_t sequence)
{
    pthread_mutex_lock(&j->lock);
    if (hold->sequence < sequence)
        hold->sequence = sequence;
    pthread_mutex_unlock(&j->lock);
}

void seam_j_hold_remove(struct seam_journal *j, struct seam_jhold *hold)
{
    pthread_mutex_lock(&j->lock);
    struct seam_jhold **at = &j->holds;
    while (*at != NULL && *at != hold)
        at = &(*at)->next;
    if (*at != NULL)
        *at = hold->next;
    pthread_mutex_unlock(&j->lock);
}

/* Under lock: who holds the stream's events from the lowest sequence on; NULL: nobody. */
static const struct seam_jhold *lowest_hold(const struct seam_journal *j, uint32_t stream)
{
    const struct seam_jhold *lowest = NULL;
    for (const struct seam_jhold *h = j->holds; h != NULL; h = h->next)
        if (h->stream == stream && (lowest == NULL || h->sequence < lowest->sequence))
            lowest = h;
    return lowest;
}

/* ---- one step ---------------------------------------------------------------------------- */

struct step {
    struct seam_journal *j;
    uint32_t stream;
    uint64_t below;
    uint64_t first; /* set: where the stream begins now */
    bool more;      /* set: there is something left to remove */
};

/* What the stream's record will say. */
static int new_record(struct seam_journal *j, const struct seam_jstream *s, uint64_t first,
                      struct seam_fmt_stream *ret, struct seam_err *err)
{
    struct seam_fmt_event last_gone;
    *ret = (struct seam_fmt_stream){.stream = s->id, .first = first, .base = s->base,
                                    .base_crc = s->base_crc};
    if (first == s->first)
        return SEAM_OK;
    int rc = seam_j_event(j, s->id, first - 1, &last_gone, err);
    if (rc == SEAM_NOTFOUND)
        return seam_fail(err, SEAM_E_CORRUPT, "stream %u, sequence %llu: the event is missing",
                         s->id, (unsigned long long)(first - 1));
    if (rc != SEAM_OK)
        return rc;
    ret->base = last_gone.offset + last_gone.length;
    ret->base_crc = last_gone.crc;
    return SEAM_OK;
}

/* The oldest group that an event is still of, when stream s begins at `first`: no group record below
 * it says anything of what is there. */
static int oldest_group(struct seam_journal *j, const struct seam_jstream *s, uint64_t first,
                        uint64_t *ret, struct seam_err *err)
{
    uint64_t oldest = j->group_no;
    for (uint32_t i = 0; i < j->streams; i++) {
        const struct seam_jstream *at = j->by_id[i];
        uint64_t from = at == s ? first : at->first;
        struct seam_fmt_event event;
        if (from > at->last)
            continue;
        int rc = at == s || at->first_group == 0 ? seam_j_event(j, at->id, from, &event, err)
                                                 : SEAM_OK;
        if (rc == SEAM_NOTFOUND)
            return seam_fail(err, SEAM_E_CORRUPT, "stream %u, sequence %llu: the event is missing",
                             at->id, (unsigned long long)from);
        if (rc != SEAM_OK)
            return rc;
        if (at != s && at->first_group == 0)
            j->by_id[i]->first_group = event.group;
        uint64_t group = at == s ? event.group : at->first_group;
        oldest = group < oldest ? group : oldest;
    }
    *ret = oldest;
    return SEAM_OK;
}

/* The ops of a step: both records, both ranges. */
struct ops {
    struct seam_op at[4];
    size_t n;
    struct seam_fmt_key keys[6];
    uint8_t stream[SEAM_FMT_STREAM], journal[SEAM_FMT_JOURNAL];
};

static void add(struct ops *o, enum seam_kind kind, const struct seam_fmt_key *key,
                struct seam_slice head)
{
    o->at[o->n++] = (struct seam_op){kind, seam_fmt_slice(key), head, {NULL, 0}};
}

static void fill_ops(const struct seam_journal *j, const struct seam_jstream *s,
                     const struct seam_fmt_stream *to, uint64_t group, struct ops *o)
{
    o->n = 0;
    if (to->first > s->first) {
        seam_fmt_begin(&o->keys[0], j->prefix, SEAM_TAG_STREAM);
        seam_fmt_add(&o->keys[0], s->name);
        seam_fmt_stream_write(o->stream, s->name, to);
        add(o, SEAM_PUT, &o->keys[0], seam_bytes(o->stream, sizeof o->stream));
        seam_j_event_key(j, s->id, s->first, &o->keys[1]);
        seam_j_event_key(j, s->id, to->first, &o->keys[2]);
        add(o, SEAM_DELETE_RANGE, &o->keys[1], seam_fmt_slice(&o->keys[2]));
    }
    if (group > j->first_group) {
        struct seam_fmt_journal own = {.first_group = group, .witness = j->has_witness};
        memcpy(own.uuid, j->uuid, sizeof own.uuid);
        seam_fmt_begin(&o->keys[3], j->prefix, SEAM_TAG_JOURNAL);
        seam_fmt_journal_write(o->journal, &own);
        add(o, SEAM_PUT, &o->keys[3], seam_bytes(o->journal, sizeof o->journal));
        seam_j_group_key(j, j->first_group, &o->keys[4]);
        seam_j_group_key(j, group, &o->keys[5]);
        add(o, SEAM_DELETE_RANGE, &o->keys[4], seam_fmt_slice(&o->keys[5]));
    }
}

static void trimmed_to(struct seam_journal *j, struct seam_jstream *s,
                       const struct seam_fmt_stream *to, uint64_t group)
{
    pthread_mutex_lock(&j->lock);
    if (to->first > s->first)
        s->first_group = 0;
    s->first = to->first;
    s->base = to->base;
    s->base_crc = to->base_crc;
    if (s->first > s->last)
        s->last_group = 0;
    j->first_group = group;
    pthread_mutex_unlock(&j->lock);
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Keys that a step may remove of each of the two kinds. */
static uint64_t step_keys(const struct seam_journal *j)
{
    uint64_t half = j->limits.range_keys / 2;
    return half == 0 ? 1 : min_u64(half, STEP_MOST);
}

/* Where the group records are to begin after this step, on their way to `group`. An engine that counts
 * one key a commit takes them when the events are gone. */
static uint64_t next_group(const struct seam_journal *j, uint64_t group, bool with_events)
{
    if (group <= j->first_group || (with_events && j->limits.range_keys < 2))
        return j->first_group;
    return j->first_group + min_u64(group - j->first_group, step_keys(j));
}

static int run_step(void *arg, struct seam_err *err)
{
    struct step *t = arg;
    struct seam_journal *j = t->j;
    struct seam_jstream *s = seam_j_by_id(j, t->stream);
    struct seam_fmt_stream to;
    struct ops o;
    uint64_t group = 0, keys = step_keys(j);
    if (atomic_load(&j->poisoned))
        return seam_fail(err, SEAM_E_POISONED, "the journal is poisoned: open it again");
    uint64_t first = t->below > s->first ? s->first + min_u64(t->below - s->first, keys) : s->first;
    int rc = new_record(j, s, first, &to, err);
    if (rc == SEAM_OK)
        rc = oldest_group(j, s, first, &group, err);
    if (rc != SEAM_OK)
        return rc;
    uint64_t until = next_group(j, group, first > s->first);
    assert(until <= j->group_no || until == j->first_group); /* the newest is never removed */
    fill_ops(j, s, &to, until, &o);
    pthread_mutex_lock(&j->lock);
    s->trimming = first > s->trimming ? first : s->trimming;
    pthread_mutex_unlock(&j->lock);
    if (o.n > 0)
        rc = seam_write(j->db, o.at, o.n, SEAM_ACK_NONE, NULL, err);
    if (rc == SEAM_E_UNKNOWN || rc == SEAM_E_POISONED)
        seam_j_poison(j);
    if (rc != SEAM_OK)
        return rc;
    trimmed_to(j, s, &to, until);
    t->first = first;
    t->more = first < t->below || until < group;
    return SEAM_OK;
}

/* ---- what is asked for ------------------------------------------------------------------- */

struct ends {
    uint64_t first, last, durable, base, bytes;
    uint64_t trimming; /* events below may be gone already */
    uint64_t held; /* 0: by nobody; else the first sequence that somebody needs */
    char by[80];
};

static int get_ends(struct seam_journal *j, uint32_t stream, struct ends *ret, struct seam_err *err)
{
    pthread_mutex_lock(&j->lock);
    const struct seam_jstream *s = seam_j_by_id(j, stream);
    if (s != NULL) {
        const struct seam_jhold *hold = lowest_hold(j, stream);
        *ret = (struct ends){.first = s->first, .last = s->last, .durable = s->durable, .base = s->base,
                             .bytes = s->bytes, .trimming = s->trimming};
        ret->held = hold != NULL ? hold->sequence + 1 : 0;
        if (hold != NULL)
            (void)seam_key_text(hold->name, ret->by, sizeof ret->by);
    }
    pthread_mutex_unlock(&j->lock);
    if (s == NULL)
        return seam_fail(err, SEAM_E_INVALID, "the journal has no stream %u", stream);
    return SEAM_OK;
}

static int trim_to(struct seam_journal *j, uint32_t stream, uint64_t below, uint64_t *ret_first,
                   struct seam_err *err)
{
    struct step t = {.j = j, .stream = stream, .below = below, .more = true};
    int rc = SEAM_OK;
    while (rc == SEAM_OK && t.more) {
        rc = seam_group_exclusive(j->group, run_step, &t, err);
        if (t.first > 0 && ret_first != NULL)
            *ret_first = t.first;
    }
    return rc;
}

int seam_journal_trim(struct seam_journal *journal, uint32_t stream, uint64_t below, bool force,
                      uint64_t *ret_first, struct seam_err *err)
{
    struct ends at;
    int rc = get_ends(journal, stream, &at, err);
    if (rc != SEAM_OK)
        return rc;
    if (below > at.durable + 1)
        return seam_fail(err, SEAM_E_INVALID,
                         "stream %u: cannot trim below %llu: only up to %llu is durable", stream,
                         (unsigned long long)below, (unsigned long long)at.durable);
    if (!force && at.held > 0 && below > at.held)
        return seam_fail(err, SEAM_E_BUSY,
                         "stream %u: cannot trim below %llu: '%s' needs %llu and what follows",
                         stream, (unsigned long long)below, at.by, (unsigned long long)at.held);
    return trim_to(journal, stream, below, ret_first, err);
}

/* ---- looking for a place ----------------------------------------------------------------- */

/* What a search asks of an event: true from some sequence on. */
typedef bool (*event_test)(const struct seam_fmt_event *event, uint64_t what);

static bool at_or_after(const struct seam_fmt_event *event, uint64_t time_ns)
{
    return event->time_ns >= time_ns;
}

static bool begins_behind(const struct seam_fmt_event *event, uint64_t offset)
{
    return event->offset >= offset;
}

/* The first sequence in [first, last] that the test holds for, last + 1 if none. Times and offsets
 * never go back, so halving finds it. */
static int search(struct seam_journal *j, uint32_t stream, const struct ends *at, event_test test,
                  uint64_t what, uint64_t *ret, struct seam_err *err)
{
    uint64_t lo = at->first, hi = at->last + 1;
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        struct seam_fmt_event event;
        int rc = seam_j_event(j, stream, mid, &event, err);
        if (rc == SEAM_NOTFOUND) {
            struct ends now; /* trimmed meanwhile, or lost */
            rc = get_ends(j, stream, &now, err);
            if (rc != SEAM_OK || mid >= now.trimming)
                return rc != SEAM_OK ? rc
                                     : seam_fail(err, SEAM_E_CORRUPT,
                                                 "stream %u, sequence %llu: the event is missing",
                                                 stream, (unsigned long long)mid);
            lo = now.trimming;
            continue;
        }
        if (rc != SEAM_OK)
            return rc;
        if (test(&event, what))
            hi = mid;
        else
            lo = mid + 1;
    }
    *ret = lo;
    return SEAM_OK;
}

int seam_journal_at_time(struct seam_journal *journal, uint32_t stream, uint64_t time_ns,
                         uint64_t *ret_sequence, struct seam_err *err)
{
    struct ends at;
    uint64_t found;
    int rc = get_ends(journal, stream, &at, err);
    if (rc == SEAM_OK)
        rc = search(journal, stream, &at, at_or_after, time_ns, &found, err);
    if (rc == SEAM_OK && found > at.last)
        return SEAM_NOTFOUND;
    if (rc == SEAM_OK)
        *ret_sequence = found;
    return rc;
}

int seam_journal_retain(struct seam_journal *journal, uint32_t stream,
                        const struct seam_retention *keep, bool force, uint64_t *ret_first,
                        struct seam_err *err)
{
    struct ends at;
    uint64_t below, found;
    int rc = get_ends(journal, stream, &at, err);
    if (rc != SEAM_OK)
        return rc;
    below = at.first;
    if (keep->events > 0 && at.last - at.first + 1 > keep->events)
        below = at.last + 1 - keep->events;
    if (keep->bytes > 0 && at.bytes - at.base > keep->bytes) {
        rc = search(journal, stream, &at, begins_behind, at.bytes - keep->bytes, &found, err);
        below = rc == SEAM_OK && found > below ? found : below;
    }
    if (rc == SEAM_OK && keep->age_ms > 0) {
        uint64_t now = journal->os->now_ns(journal->os->ctx, SEAM_CLOCK_REAL);
        uint64_t age = keep->age_ms < UINT64_MAX / 1000000 ? keep->age_ms * 1000000 : UINT64_MAX;
        if (now > age)
            rc = search(journal, stream, &at, at_or_after, now - age, &found, err);
        below = rc == SEAM_OK && now > age && found > below ? found : below;
    }
    if (rc != SEAM_OK)
        return rc;
    below = min_u64(below, at.durable + 1);
    if (!force && at.held > 0)
        below = min_u64(below, at.held);
    if (ret_first != NULL)
        *ret_first = at.first;
    return below > at.first ? trim_to(journal, stream, below, ret_first, err) : SEAM_OK;
}
