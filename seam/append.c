/* append.c - appends: from many threads into groups, each group one commit of the engine.
 *
 * Relies on seam_group to run one leader at a time. The leader gives sequences, links the chain,
 * commits, and only then changes what others see; so a group that was refused leaves the numbers as
 * they were, and one whose outcome is unknown poisons the journal before anybody can go on.
 * Keeps true: sequences have no gaps; `last` grows by whole appends; a commit fits the db's limits,
 * since a group that would grow over them is closed before. No allocation per append, but for the
 * payloads' CRCs of one that has more than a few events. */
#include "journal_int.h"

#include <assert.h>

enum { CRCS_ON_STACK = 64 };

struct append {
    struct seam_jstream *stream; /* set by the leader when it admits */
    uint32_t id;
    const struct seam_slice *events;
    const uint32_t *crcs; /* of the payloads alone */
    size_t n;
    uint64_t bytes;
    uint32_t ack;
    uint64_t first, last;
};

/* Members [first, end) of a list that are committed together. */
struct chunk {
    struct seam_member *first, *end;
    size_t members, events;
    uint64_t bytes;
    uint32_t ack;
    struct seam_jstream *touched;
    uint32_t streams;
    struct seam_fmt_group group;
};

/* ---- acks -------------------------------------------------------------------------------- */

/* What has to hold at the return, for an ack with or without a window. */
static enum seam_ack ack_now(uint32_t ack)
{
    enum seam_ack level = SEAM_ACK_LEVEL(ack);
    if (SEAM_ACK_WINDOW_MS(ack) > 0 && level > SEAM_ACK_PROCESS)
        return SEAM_ACK_PROCESS;
    return level;
}

/* The weakest ack that gives both what they ask: a window is kept if nobody asks for more than it
 * gives at once. */
static uint32_t ack_join(uint32_t a, uint32_t b)
{
    enum seam_ack now = ack_now(a) > ack_now(b) ? ack_now(a) : ack_now(b);
    enum seam_ack late = SEAM_ACK_LEVEL(a);
    if (SEAM_ACK_LEVEL(b) > late)
        late = SEAM_ACK_LEVEL(b);
    if (late <= now)
        return (uint32_t)now;
    if (now > SEAM_ACK_PROCESS)
        return (uint32_t)late;
    uint32_t window = UINT32_MAX;
    if (SEAM_ACK_WINDOW_MS(a) > 0 && SEAM_ACK_WINDOW_MS(a) < window)
        window = SEAM_ACK_WINDOW_MS(a);
    if (SEAM_ACK_WINDOW_MS(b) > 0 && SEAM_ACK_WINDOW_MS(b) < window)
        window = SEAM_ACK_WINDOW_MS(b);
    return (uint32_t)late | SEAM_ACK_WINDOW(window);
}

/* ---- answering --------------------------------------------------------------------------- */

/* A plain copy of err: all of a refused group learn the same. */
static void answer(struct seam_member *m, int rc, const struct seam_err *err)
{
    m->rc = rc;
    m->err = *err;
}

/* ---- gathering a chunk ------------------------------------------------------------------- */

static bool fits(const struct seam_journal *j, const struct chunk *c, const struct append *a)
{
    /* There are at most as many streams as members. */
    uint64_t record = seam_fmt_group_size(c->members + 1) + j->prefix.len + SEAM_FMT_GROUP_KEY;
    return c->events + a->n + 1 <= j->limits.ops && c->events + a->n <= UINT32_MAX / 2 &&
           record <= j->limits.value && c->bytes + a->bytes + record <= j->limits.bytes;
}

/* Takes members from `from` on for as long as they fit; those of no known stream are answered and
 * stay without a stream. `one`: a single member only. */
static void gather(struct seam_journal *j, struct seam_member *from, bool one, struct chunk *c)
{
    memset(c, 0, sizeof(*c));
    c->first = from;
    struct seam_member *m = from;
    for (; m != NULL && !(one && c->members == 1); m = m->next) {
        struct append *a = m->arg;
        a->stream = seam_j_by_id(j, a->id);
        if (a->stream == NULL) {
            m->rc = seam_fail(&m->err, SEAM_E_INVALID, "the journal has no stream %u", a->id);
            continue;
        }
        if (c->members > 0 && !fits(j, c, a))
            break;
        c->ack = ack_join(c->ack, a->ack);
        c->members++;
        c->events += a->n;
        c->bytes += a->bytes;
    }
    c->end = m;
}

static int grow(struct seam_journal *j, size_t events, struct seam_err *err)
{
    if (events < j->ops_cap)
        return SEAM_OK;
    const struct seam_platform *os = j->os;
    size_t cap = j->ops_cap == 0 ? 256 : j->ops_cap;
    while (cap <= events)
        cap *= 2;
    struct seam_op *ops = os->alloc(os->ctx, cap * sizeof(*ops));
    uint8_t *keys = os->alloc(os->ctx, cap * (j->prefix.len + SEAM_FMT_EVENT_KEY));
    uint8_t *envelopes = os->alloc(os->ctx, cap * SEAM_FMT_ENVELOPE);
    if (ops == NULL || keys == NULL || envelopes == NULL) {
        os->free(os->ctx, ops);
        os->free(os->ctx, keys);
        os->free(os->ctx, envelopes);
        return seam_fail(err, SEAM_E_NOMEM, "no memory for a group of %zu events", events);
    }
    os->free(os->ctx, j->ops);
    os->free(os->ctx, j->keys);
    os->free(os->ctx, j->envelopes);
    j->ops = ops;
    j->keys = keys;
    j->envelopes = envelopes;
    j->ops_cap = cap;
    return SEAM_OK;
}

static int grow_record(struct seam_journal *j, size_t streams, struct seam_err *err)
{
    size_t need = seam_fmt_group_size(streams);
    if (need <= j->record_cap)
        return SEAM_OK;
    uint8_t *record = j->os->alloc(j->os->ctx, need * 2);
    if (record == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "no memory for the record of a group");
    j->os->free(j->os->ctx, j->record);
    j->record = record;
    j->record_cap = need * 2;
    return SEAM_OK;
}

/* ---- numbering --------------------------------------------------------------------------- */

static void touch(struct chunk *c, struct seam_jstream *s)
{
    if (s->touched)
        return;
    s->touched = true;
    s->new_last = s->last;
    s->new_bytes = s->bytes;
    s->new_crc = s->last_crc;
    s->next_touched = c->touched;
    c->touched = s;
    c->streams++;
}

/* Gives the events of one member their numbers, keys and envelopes, beginning at op `at`. */
static void number(struct seam_journal *j, struct chunk *c, struct append *a, size_t at)
{
    struct seam_jstream *s = a->stream;
    size_t key_len = j->prefix.len + SEAM_FMT_EVENT_KEY;
    touch(c, s);
    a->first = s->new_last + 1;
    for (size_t i = 0; i < a->n; i++, at++) {
        uint8_t *key = j->keys + at * key_len, *envelope = j->envelopes + at * SEAM_FMT_ENVELOPE;
        struct seam_fmt_event event = {.stream = s->id, .length = (uint32_t)a->events[i].len};
        event.prev = s->new_crc;
        event.sequence = ++s->new_last;
        event.time_ns = c->group.time_ns;
        event.group = c->group.number;
        event.offset = s->new_bytes;
        s->new_bytes += a->events[i].len;
        seam_fmt_event_write(envelope, a->crcs[i], &event);
        s->new_crc = event.crc;
        seam_copy(key, j->prefix);
        uint8_t *p = key + j->prefix.len;
        p[0] = SEAM_TAG_EVENT;
        seam_put32_be(p + 1, s->id);
        seam_put64_be(p + 5, event.sequence);
        struct seam_op *op = &j->ops[at];
        op->kind = SEAM_PUT;
        op->key = seam_bytes(key, key_len);
        op->head = seam_bytes(envelope, SEAM_FMT_ENVELOPE);
        op->body = a->events[i];
    }
    a->last = s->new_last;
}

/* Makes the ops of the chunk: all events, then the group record. */
static int build(struct seam_journal *j, struct chunk *c, struct seam_fmt_key *record_key,
                 struct seam_err *err)
{
    int rc = grow(j, c->events + 1, err);
    if (rc == SEAM_OK)
        rc = grow_record(j, c->members, err);
    if (rc != SEAM_OK)
        return rc;
    uint64_t now = j->os->now_ns(j->os->ctx, SEAM_CLOCK_REAL);
    c->group.number = j->group_no + 1;
    c->group.epoch = seam_db_epoch(j->db);
    c->group.time_ns = now > j->time_ns ? now : j->time_ns;
    c->group.prev = j->chain;
    c->group.events = (uint32_t)c->events;
    size_t at = 0;
    for (struct seam_member *m = c->first; m != c->end; m = m->next) {
        struct append *a = m->arg;
        if (a->stream != NULL) {
            number(j, c, a, at);
            at += a->n;
        }
    }
    assert(at == c->events);
    size_t index = 0;
    c->group.state = j->state;
    for (const struct seam_jstream *s = c->touched; s != NULL; s = s->next_touched) {
        struct seam_fmt_group_entry old = {s->id, s->last_crc, s->last};
        struct seam_fmt_group_entry entry = {s->id, s->new_crc, s->new_last};
        seam_fmt_group_entry_write(j->record, index++, &entry);
        c->group.state ^= s->last > 0 ? seam_fmt_end(&old) : 0;
        c->group.state ^= seam_fmt_end(&entry);
    }
    c->group.streams = c->streams;
    seam_fmt_group_write(j->record, &c->group);
    seam_j_group_key(j, c->group.number, record_key);
    struct seam_op *op = &j->ops[at];
    op->kind = SEAM_PUT;
    op->key = seam_fmt_slice(record_key);
    op->head = seam_bytes(j->record, seam_fmt_group_size(c->streams));
    op->body = seam_bytes(NULL, 0);
    return SEAM_OK;
}

/* ---- outcomes ---------------------------------------------------------------------------- */

static void done(struct seam_journal *j, struct chunk *c, const struct seam_acked *acked)
{
    bool power = j->limits.best >= SEAM_ACK_POWER;
    bool durable = !power || acked->given >= SEAM_ACK_POWER;
    pthread_mutex_lock(&j->lock);
    for (struct seam_jstream *s = c->touched; s != NULL; s = s->next_touched) {
        s->last = s->new_last;
        s->last_crc = s->new_crc;
        s->bytes = s->new_bytes;
        s->last_group = c->group.number;
        if (!s->dirty && !durable) {
            s->dirty = true;
            s->next_dirty = j->dirty;
            j->dirty = s;
        } else if (!s->dirty) {
            s->durable = s->last;
        }
    }
    if (durable)
        seam_j_all_durable(j);
    if (j->waiters > 0)
        pthread_cond_broadcast(&j->grew);
    j->shown_group = c->group.number;
    j->shown_chain = c->group.chain;
    pthread_mutex_unlock(&j->lock);
    j->group_no = c->group.number;
    j->chain = c->group.chain;
    j->state = c->group.state;
    j->time_ns = c->group.time_ns;
}

/* A group that is durable is told to the witness; where that is part of the ack and fails, the group
 * holds, but its ack does not. */
static int witness(struct seam_journal *j, const struct chunk *c, const struct seam_acked *acked,
                   struct seam_err *err)
{
    if (acked->given < SEAM_ACK_POWER)
        return SEAM_OK;
    int rc = seam_w_durable(j, c->group.number, c->group.chain, err);
    if (rc == SEAM_OK)
        return rc;
    seam_j_poison(j);
    err->code = SEAM_E_UNKNOWN;
    return SEAM_E_UNKNOWN;
}

/* Commits one chunk. On failure the numbers it was given are free again. */
static int commit_chunk(struct seam_journal *j, struct chunk *c, struct seam_acked *ret_acked,
                        struct seam_err *err)
{
    struct seam_fmt_key record_key;
    int rc = build(j, c, &record_key, err);
    if (rc == SEAM_OK)
        rc = seam_write(j->db, j->ops, c->events + 1, c->ack, ret_acked, err);
    if (rc == SEAM_OK) {
        done(j, c, ret_acked);
        rc = witness(j, c, ret_acked, err);
    } else if (rc == SEAM_E_UNKNOWN || rc == SEAM_E_POISONED) {
        seam_j_poison(j);
    }
    for (struct seam_jstream *s = c->touched; s != NULL; s = s->next_touched)
        s->touched = false;
    return rc;
}

/* Refusals for want of room: a smaller commit may be taken. */
static bool worth_singly(int rc)
{
    return rc == SEAM_E_TOO_LARGE || rc == SEAM_E_NO_SPACE || rc == SEAM_E_NOMEM ||
           rc == SEAM_E_INVALID;
}

static void answer_chunk(const struct chunk *c, int rc, const struct seam_acked *acked,
                         struct seam_err *err)
{
    /* The error's op counts the group's ops: of a single append they are its events. */
    if (rc != SEAM_OK && err->op >= (c->members == 1 ? c->events : 0))
        err->op = SEAM_NO_OP;
    for (struct seam_member *m = c->first; m != c->end; m = m->next) {
        const struct append *a = m->arg;
        if (a->stream == NULL)
            continue;
        if (rc != SEAM_OK) {
            answer(m, rc, err);
        } else {
            m->rc = SEAM_OK;
            m->acked = *acked;
        }
    }
}

void seam_j_run(void *ctx, struct seam_member *first, size_t n)
{
    struct seam_journal *j = ctx;
    struct seam_member *m = first;
    size_t singly = 0; /* so many members are still to go one by one */
    (void)n;
    while (m != NULL) {
        struct chunk c;
        struct seam_acked acked = {0};
        struct seam_err err = {.op = SEAM_NO_OP};
        if (atomic_load(&j->poisoned)) {
            m->rc = seam_fail(&m->err, SEAM_E_POISONED,
                              "the journal is poisoned: close it and the db, and open them again");
            m = m->next;
            continue;
        }
        gather(j, m, singly > 0, &c);
        if (c.members > 0) {
            int rc = commit_chunk(j, &c, &acked, &err);
            if (c.members > 1 && worth_singly(rc)) {
                singly = c.members;
                continue;
            }
            singly -= singly > 0;
            answer_chunk(&c, rc, &acked, &err);
        }
        m = c.end;
    }
}

/* ---- the caller's side ------------------------------------------------------------------- */

/* All that can be refused without the leader, so that one bad append does not spoil a group. */
static int check(const struct seam_journal *j, const struct seam_slice *events, size_t n,
                 uint32_t ack, uint64_t *ret_bytes, struct seam_err *err)
{
    uint64_t each = j->prefix.len + SEAM_FMT_EVENT_KEY + SEAM_FMT_ENVELOPE;
    uint64_t bytes = j->prefix.len + SEAM_FMT_GROUP_KEY + seam_fmt_group_size(1);
    uint64_t longest = j->limits.value < UINT32_MAX ? j->limits.value : UINT32_MAX;
    if (SEAM_ACK_LEVEL(ack) > SEAM_ACK_POWER)
        return seam_fail(err, SEAM_E_INVALID, "%u is no ack level", ack & 0xffu);
    if (SEAM_ACK_LEVEL(ack) > j->limits.best)
        return seam_fail(err, SEAM_E_UNSUPPORTED, "ack %s: this engine gives at most %s",
                         seam_ack_name(SEAM_ACK_LEVEL(ack)), seam_ack_name(j->limits.best));
    if (events == NULL || n == 0)
        return seam_fail(err, SEAM_E_INVALID, "an append has at least one event");
    if (n >= j->limits.ops || n > UINT32_MAX / 2)
        return seam_fail_limit(err, SEAM_E_TOO_LARGE, "ops", j->limits.ops, (uint64_t)n + 1,
                               SEAM_NO_OP);
    for (size_t i = 0; i < n; i++) {
        if (events[i].ptr == NULL && events[i].len > 0) {
            int rc = seam_fail(err, SEAM_E_INVALID, "event %zu has a length and no bytes", i);
            if (err != NULL)
                err->op = i;
            return rc;
        }
        if (events[i].len > longest || events[i].len + SEAM_FMT_ENVELOPE > longest)
            return seam_fail_limit(err, SEAM_E_TOO_LARGE, "value", longest,
                                   (uint64_t)events[i].len + SEAM_FMT_ENVELOPE, i);
        bytes += each + events[i].len;
        if (bytes > j->limits.bytes)
            return seam_fail_limit(err, SEAM_E_TOO_LARGE, "bytes", j->limits.bytes, bytes, i);
    }
    *ret_bytes = bytes - (j->prefix.len + SEAM_FMT_GROUP_KEY + seam_fmt_group_size(1));
    return SEAM_OK;
}

int seam_journal_append(struct seam_journal *journal, uint32_t stream,
                        const struct seam_slice *events, size_t n, uint32_t ack,
                        struct seam_append *ret, struct seam_err *err)
{
    uint32_t some[CRCS_ON_STACK], *crcs = some;
    struct append a = {.id = stream, .events = events, .n = n, .ack = ack};
    int rc = check(journal, events, n, ack, &a.bytes, err);
    if (rc != SEAM_OK)
        return rc;
    if (n > CRCS_ON_STACK) {
        crcs = journal->os->alloc(journal->os->ctx, n * sizeof(*crcs));
        if (crcs == NULL)
            return seam_fail(err, SEAM_E_NOMEM, "no memory for an append of %zu events", n);
    }
    /* The payloads are read here, by many threads at once, and not by the leader. */
    for (size_t i = 0; i < n; i++)
        crcs[i] = seam_crc32c(0, events[i].ptr, events[i].len);
    a.crcs = crcs;
    struct seam_commit size = {.n = n, .bytes = a.bytes};
    struct seam_member m = {.commit = &size, .arg = &a};
    rc = seam_group_commit(journal->group, &m);
    if (crcs != some)
        journal->os->free(journal->os->ctx, crcs);
    if (rc != SEAM_OK) {
        if (err != NULL)
            *err = m.err;
        return rc;
    }
    if (ret != NULL) {
        ret->first = a.first;
        ret->last = a.last;
        ret->acked = m.acked;
    }
    return SEAM_OK;
}
