/* verify.c - reading a whole journal and holding every part of it against the others.
 *
 * Relies on one snapshot of the db, so that appends and trims may go on meanwhile; the witness is read
 * before it, and so never knows more. Needs no open journal: one that does not open can be looked at.
 * Keeps true: memory is bounded by the number of streams; a fault ends nothing but what cannot be read
 * any more, and is counted once where that can be told. */
#include "journal_int.h"

#include <stdio.h>

struct vstream {
    bool known;
    uint32_t base_crc, last_crc;
    uint64_t first, last, base;
    uint64_t claimed; /* the newest end that a group record names */
};

struct verify {
    struct seam_journal j; /* not open: db, prefix and witness only */
    struct seam_snap *snap;
    struct seam_verified out;
    struct seam_err first; /* of the first fault */
    struct vstream *streams;
    uint32_t n;
    bool has_own;
    struct seam_fmt_journal own;
    struct seam_fmt_witness witness; /* group 0: nothing to hold against */
    /* While walking group records, and a stream's events: */
    uint64_t next, newest;
    bool linked; /* the one before was whole */
    struct seam_fmt_group group;
    struct vstream *s;
    struct seam_fmt_event event;
};

/* ---- faults ------------------------------------------------------------------------------ */

static void note(struct verify *v, uint32_t stream, uint64_t sequence, const struct seam_err *what)
{
    if (v->out.faults++ > 0)
        return;
    v->out.stream = stream;
    v->out.sequence = sequence;
    v->first = *what;
}

static void note_event(struct verify *v, uint32_t stream, uint64_t sequence, const char *what)
{
    struct seam_err one = {.op = SEAM_NO_OP};
    (void)seam_fail(&one, SEAM_E_CORRUPT, "stream %u, sequence %llu: %s", stream,
                    (unsigned long long)sequence, what);
    note(v, stream, sequence, &one);
}

static void note_group(struct verify *v, uint64_t number, const char *what)
{
    struct seam_err one = {.op = SEAM_NO_OP};
    (void)seam_fail(&one, SEAM_E_CORRUPT, "group record %llu: %s", (unsigned long long)number, what);
    note(v, 0, number, &one);
}

static bool is_damage(int rc)
{
    return rc == SEAM_E_CORRUPT || rc == SEAM_E_MISMATCH || rc == SEAM_E_IO;
}

/* ---- walking keys ------------------------------------------------------------------------ */

/* rc: of reading the value, which is there if it is SEAM_OK; one: its error. */
typedef void (*walk_fn)(struct verify *v, struct seam_slice key, int rc, struct seam_slice value,
                        struct seam_err *one);

/* Every key of [lower, upper), in order. A key that cannot be reached is a fault and ends it. */
static int walk(struct verify *v, const struct seam_fmt_key *lower, const struct seam_fmt_key *upper,
                uint32_t stream, walk_fn fn, struct seam_err *err)
{
    struct seam_cursor *cursor;
    struct seam_slice key, value, none = {NULL, 0};
    struct seam_err one = {.op = SEAM_NO_OP};
    int rc = seam_cursor_open(v->j.db, v->snap, seam_fmt_slice(lower), seam_fmt_slice(upper), &cursor,
                              err);
    if (rc != SEAM_OK)
        return rc;
    while ((rc = seam_cursor_move(cursor, SEAM_NEXT, none, &key, &one)) == SEAM_OK) {
        rc = seam_cursor_value(cursor, &value, &one);
        if (rc != SEAM_OK && !is_damage(rc))
            break;
        fn(v, key, rc, value, &one);
    }
    seam_cursor_close(cursor);
    if (rc == SEAM_NOTFOUND)
        return SEAM_OK;
    if (!is_damage(rc)) {
        if (err != NULL)
            *err = one;
        return rc;
    }
    note(v, stream, v->next, &one);
    return SEAM_OK;
}

static int walk_tag(struct verify *v, uint8_t tag, walk_fn fn, struct seam_err *err)
{
    struct seam_fmt_key lower, upper;
    seam_fmt_begin(&lower, v->j.prefix, tag);
    seam_fmt_begin(&upper, v->j.prefix, (uint8_t)(tag + 1));
    return walk(v, &lower, &upper, 0, fn, err);
}

/* ---- the journal's record and the catalogue ---------------------------------------------- */

static void count_stream(struct verify *v, struct seam_slice key, int rc, struct seam_slice value,
                         struct seam_err *one)
{
    (void)key, (void)rc, (void)value, (void)one;
    v->n++;
}

static void load_stream(struct verify *v, struct seam_slice key, int rc, struct seam_slice value,
                        struct seam_err *one)
{
    struct seam_fmt_stream in;
    size_t head = v->j.prefix.len + 1;
    if (rc == SEAM_OK)
        rc = seam_fmt_stream_read(seam_bytes((const uint8_t *)key.ptr + head, key.len - head), value,
                                  &in, one);
    if (rc == SEAM_OK && (in.stream > v->n || v->streams[in.stream - 1].known))
        rc = seam_fail(one, SEAM_E_CORRUPT, "the catalogue has %u streams and number %u %s", v->n,
                       in.stream, in.stream > v->n ? "is beyond" : "is there twice");
    if (rc != SEAM_OK) {
        note(v, 0, 0, one);
        return;
    }
    struct vstream *s = &v->streams[in.stream - 1];
    *s = (struct vstream){.known = true, .base_crc = in.base_crc, .first = in.first, .base = in.base};
    v->out.streams++;
    if (v->has_own && in.first == 1 &&
        (in.base != 0 || in.base_crc != seam_fmt_seed(v->own.uuid, in.stream)))
        note_event(v, in.stream, 0, "the stream does not begin as one of this journal does");
}

static int load_catalogue(struct verify *v, struct seam_err *err)
{
    const struct seam_platform *os = v->j.os;
    uint64_t faults = v->out.faults;
    int rc = walk_tag(v, SEAM_TAG_STREAM, count_stream, err);
    if (rc != SEAM_OK || v->n == 0)
        return rc;
    v->streams = os->alloc(os->ctx, v->n * sizeof(*v->streams));
    if (v->streams == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "no memory for %u streams", v->n);
    memset(v->streams, 0, v->n * sizeof(*v->streams));
    v->out.faults = faults; /* the second pass tells them again */
    return walk_tag(v, SEAM_TAG_STREAM, load_stream, err);
}

/* SEAM_NOTFOUND: there is none. */
static int load_own(struct verify *v, struct seam_err *err)
{
    struct seam_fmt_key key;
    struct seam_pin pin = {0};
    struct seam_err one = {.op = SEAM_NO_OP};
    seam_fmt_begin(&key, v->j.prefix, SEAM_TAG_JOURNAL);
    int rc = seam_get(v->j.db, v->snap, seam_fmt_slice(&key), &pin, &one);
    if (rc == SEAM_OK)
        rc = seam_fmt_journal_read(pin.value, &v->own, &one);
    seam_unpin(&pin);
    v->has_own = rc == SEAM_OK;
    if (is_damage(rc)) {
        note(v, 0, 0, &one);
        return SEAM_OK;
    }
    if (rc != SEAM_OK && rc != SEAM_NOTFOUND && err != NULL)
        *err = one;
    return rc;
}

/* ---- group records ----------------------------------------------------------------------- */

/* An event by its key, if it can be read and is whole; what is wrong with one that is not is told by
 * the walk over its stream. */
static bool peek_event(struct verify *v, uint32_t stream, uint64_t sequence, struct seam_fmt_event *ret)
{
    struct seam_fmt_key key;
    struct seam_pin pin = {0};
    struct seam_slice data;
    seam_j_event_key(&v->j, stream, sequence, &key);
    int rc = seam_get(v->j.db, v->snap, seam_fmt_slice(&key), &pin, NULL);
    if (rc == SEAM_OK)
        rc = seam_fmt_event_read(stream, sequence, pin.value, ret, &data, NULL);
    seam_unpin(&pin);
    return rc == SEAM_OK;
}

static void check_entry(struct verify *v, const struct seam_fmt_group_entry *entry)
{
    struct seam_fmt_event event;
    if (entry->stream == 0 || entry->stream > v->n) {
        note_group(v, v->group.number, "it names a stream that is not in the catalogue");
        return;
    }
    struct vstream *s = &v->streams[entry->stream - 1];
    if (!s->known)
        return;
    if (entry->last <= s->claimed)
        note_group(v, v->group.number, "a stream in it ends where it did before");
    s->claimed = entry->last > s->claimed ? entry->last : s->claimed;
    if (entry->last >= s->first && peek_event(v, entry->stream, entry->last, &event) &&
        (event.crc != entry->crc || event.group != v->group.number))
        note_event(v, entry->stream, entry->last, "not the event that its group's record names");
    if (entry->last + 1 == s->first && entry->crc != s->base_crc)
        note_event(v, entry->stream, entry->last, "the trimmed event was another one");
}

static void check_group(struct verify *v, struct seam_slice key, int rc, struct seam_slice value,
                        struct seam_err *one)
{
    struct seam_fmt_group group, *before = &v->group;
    if (key.len != v->j.prefix.len + SEAM_FMT_GROUP_KEY) {
        note_group(v, v->next, "a key of a wrong length");
        return;
    }
    uint64_t number = seam_get64_be((const uint8_t *)key.ptr + key.len - 8);
    if (v->next != 0 && number != v->next) {
        note_group(v, v->next, "the record is missing");
        v->linked = false;
    }
    v->next = number + 1;
    if (rc == SEAM_OK)
        rc = seam_fmt_group_read(number, value, &group, one);
    if (rc != SEAM_OK) {
        note(v, 0, number, one);
        v->linked = false;
        return;
    }
    if (v->linked && group.prev != before->chain)
        note_group(v, number, "it does not follow the group before it");
    if (v->linked && (group.time_ns < before->time_ns || group.epoch < before->epoch))
        note_group(v, number, "its time or epoch goes back");
    if (number == v->witness.group && group.chain != v->witness.chain)
        note_group(v, number, "not the group that the witness saw");
    v->group = group;
    v->linked = true;
    v->out.groups++;
    for (uint32_t i = 0; i < group.streams; i++) {
        struct seam_fmt_group_entry entry;
        seam_fmt_group_entry_read(value, i, &entry);
        check_entry(v, &entry);
    }
}

static int check_groups(struct verify *v, struct seam_err *err)
{
    v->next = v->has_own ? v->own.first_group : 0;
    v->linked = false;
    int rc = walk_tag(v, SEAM_TAG_GROUP, check_group, err);
    v->newest = v->next > 0 ? v->next - 1 : 0;
    if (rc == SEAM_OK && v->has_own && v->newest + 1 == v->own.first_group && v->newest > 0)
        note_group(v, v->own.first_group, "the record is missing");
    if (rc == SEAM_OK && v->witness.group >= v->next && v->witness.group > 0)
        note_group(v, v->witness.group, "the witness saw it, and it is not there");
    return rc;
}

/* ---- events ------------------------------------------------------------------------------ */

/* The last event of its group in its stream: the group's record has to say so. Records that are gone
 * or damaged were told. */
static void check_closed(struct verify *v, const struct seam_fmt_event *e)
{
    struct seam_fmt_key key;
    struct seam_fmt_group group;
    struct seam_pin pin = {0};
    bool named = false;
    if ((v->has_own && e->group < v->own.first_group) || e->group > v->newest) {
        note_event(v, e->stream, e->sequence, "of a group that the journal does not have");
        return;
    }
    seam_j_group_key(&v->j, e->group, &key);
    int rc = seam_get(v->j.db, v->snap, seam_fmt_slice(&key), &pin, NULL);
    if (rc == SEAM_OK)
        rc = seam_fmt_group_read(e->group, pin.value, &group, NULL);
    for (uint32_t i = 0; rc == SEAM_OK && !named && i < group.streams; i++) {
        struct seam_fmt_group_entry entry;
        seam_fmt_group_entry_read(pin.value, i, &entry);
        named = entry.stream == e->stream && entry.last == e->sequence && entry.crc == e->crc;
    }
    seam_unpin(&pin);
    if (rc == SEAM_OK && !named)
        note_event(v, e->stream, e->sequence, "its group's record does not end there");
}

static void check_link(struct verify *v, uint32_t stream, const struct seam_fmt_event *e)
{
    const struct seam_fmt_event *before = &v->event;
    if (e->prev != before->crc || e->offset != before->offset + before->length ||
        e->time_ns < before->time_ns || e->group < before->group)
        note_event(v, stream, e->sequence, "it does not follow the event before it");
    if (e->group != before->group && before->sequence >= v->s->first)
        check_closed(v, before);
}

static void check_event(struct verify *v, struct seam_slice key, int rc, struct seam_slice value,
                        struct seam_err *one)
{
    struct seam_fmt_event event;
    struct seam_slice data;
    uint32_t stream = (uint32_t)(v->s - v->streams) + 1;
    if (key.len != v->j.prefix.len + SEAM_FMT_EVENT_KEY) {
        note_event(v, stream, v->next, "a key of a wrong length");
        return;
    }
    uint64_t sequence = seam_get64_be((const uint8_t *)key.ptr + key.len - 8);
    if (sequence < v->next) {
        note_event(v, stream, sequence, "the event was trimmed, and is there");
        return;
    }
    if (sequence != v->next) {
        note_event(v, stream, v->next, "the event is missing");
        v->linked = false;
    }
    v->next = sequence + 1;
    if (rc == SEAM_OK)
        rc = seam_fmt_event_read(stream, sequence, value, &event, &data, one);
    if (rc != SEAM_OK) {
        note(v, stream, sequence, one);
        v->linked = false;
        return;
    }
    if (v->linked)
        check_link(v, stream, &event);
    v->event = event;
    v->linked = true;
    v->out.events++;
    v->out.bytes += data.len;
}

static int check_stream(struct verify *v, uint32_t id, struct seam_err *err)
{
    struct seam_fmt_key lower, upper;
    struct vstream *s = &v->streams[id - 1];
    v->s = s;
    v->next = s->first;
    v->linked = true;
    v->event = (struct seam_fmt_event){.stream = id, .sequence = s->first - 1, .crc = s->base_crc,
                                       .offset = s->base};
    seam_fmt_begin(&lower, v->j.prefix, SEAM_TAG_EVENT);
    seam_fmt_add32(&lower, id);
    seam_fmt_begin(&upper, v->j.prefix, SEAM_TAG_EVENT);
    seam_fmt_add32(&upper, id + 1);
    int rc = walk(v, &lower, &upper, id, check_event, err);
    if (rc != SEAM_OK)
        return rc;
    if (v->linked && v->event.sequence >= s->first)
        check_closed(v, &v->event);
    s->last = v->next - 1;
    s->last_crc = v->event.crc;
    if (s->last < s->claimed)
        note_event(v, id, s->claimed, "the event is missing, and its group's record names it");
    return SEAM_OK;
}

static void check_stray(struct verify *v, struct seam_slice key, int rc, struct seam_slice value,
                        struct seam_err *one)
{
    (void)key, (void)rc, (void)value, (void)one;
    if (v->next++ == 0)
        note_event(v, v->n + 1, 0, "events of streams that are not in the catalogue");
}

/* The ends of all streams add up to what the newest record says: told only if nothing else was. */
static void check_state(struct verify *v)
{
    uint64_t state = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        const struct vstream *s = &v->streams[i];
        struct seam_fmt_group_entry end = {i + 1, s->last_crc, s->last};
        state ^= s->last > 0 ? seam_fmt_end(&end) : 0;
    }
    if (v->out.faults == 0 && state != v->group.state)
        note_group(v, v->group.number, "the streams do not end where it says");
}

static int check_streams(struct verify *v, struct seam_err *err)
{
    struct seam_fmt_key lower, upper;
    int rc = SEAM_OK;
    for (uint32_t id = 1; rc == SEAM_OK && id <= v->n; id++)
        if (v->streams[id - 1].known)
            rc = check_stream(v, id, err);
    if (rc != SEAM_OK)
        return rc;
    seam_fmt_begin(&lower, v->j.prefix, SEAM_TAG_EVENT);
    seam_fmt_add32(&lower, v->n + 1);
    seam_fmt_begin(&upper, v->j.prefix, SEAM_TAG_EVENT + 1);
    v->next = 0;
    rc = walk(v, &lower, &upper, 0, check_stray, err);
    check_state(v);
    return rc;
}

/* ---- all of it --------------------------------------------------------------------------- */

static int read_witness(struct verify *v, struct seam_err *err)
{
    struct seam_err one = {.op = SEAM_NO_OP};
    int rc = seam_w_read(&v->j, &v->witness, &one);
    if (rc == SEAM_OK && memcmp(v->witness.uuid, v->own.uuid, sizeof v->own.uuid) != 0)
        rc = seam_fail(&one, SEAM_E_MISMATCH, "%s is of another journal", v->j.witness.name);
    if (rc == SEAM_NOTFOUND && v->own.witness)
        rc = seam_fail(&one, SEAM_E_CORRUPT, "%s is missing: it was made with the journal",
                       v->j.witness.name);
    if (is_damage(rc)) {
        note(v, 0, 0, &one);
        v->witness.group = 0;
    } else if (rc != SEAM_OK && rc != SEAM_NOTFOUND) {
        if (err != NULL)
            *err = one;
        return rc;
    }
    return SEAM_OK;
}

/* Nothing at all is no journal; anything of one without its own record is a fault. */
static int check_own(struct verify *v, bool found, struct seam_err *err)
{
    const struct seam_verified *out = &v->out;
    struct seam_err one = {.op = SEAM_NO_OP};
    if (found)
        return SEAM_OK;
    if (v->n == 0 && v->newest == 0 && out->events == 0 && out->faults == 0)
        return seam_fail(err, SEAM_E_NO_STORE, "there is no journal in this store");
    (void)seam_fail(&one, SEAM_E_CORRUPT, "the journal's record is missing, but not what it is of");
    note(v, 0, 0, &one);
    return SEAM_OK;
}

static int run(struct verify *v, struct seam_err *err)
{
    int rc = load_own(v, err); /* which witness it has never changes */
    bool found = rc != SEAM_NOTFOUND;
    if (!found)
        rc = SEAM_OK;
    if (rc == SEAM_OK && v->has_own)
        rc = read_witness(v, err);
    if (rc == SEAM_OK)
        rc = seam_snap_open(v->j.db, &v->snap, err);
    if (rc == SEAM_OK && v->has_own)
        rc = load_own(v, err); /* its oldest group does, by trims */
    if (rc == SEAM_OK)
        rc = load_catalogue(v, err);
    if (rc == SEAM_OK)
        rc = check_groups(v, err);
    if (rc == SEAM_OK)
        rc = check_streams(v, err);
    if (v->snap != NULL)
        seam_snap_close(v->snap);
    return rc == SEAM_OK ? check_own(v, found, err) : rc;
}

int seam_journal_verify(struct seam_db *db, struct seam_slice prefix, struct seam_verified *ret,
                        struct seam_err *err)
{
    const struct seam_platform *os = seam_db_platform(db);
    if (prefix.len > SEAM_JOURNAL_PREFIX_MAX)
        return seam_fail(err, SEAM_E_INVALID, "a prefix has at most %d bytes", SEAM_JOURNAL_PREFIX_MAX);
    struct verify *v = os->alloc(os->ctx, sizeof(*v));
    if (v == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "no memory for verifying");
    memset(v, 0, sizeof(*v));
    v->j.db = db;
    v->j.os = os;
    seam_copy(v->j.prefix_bytes, prefix);
    v->j.prefix = seam_bytes(v->j.prefix_bytes, prefix.len);
    int rc = run(v, err);
    if (rc == SEAM_OK) {
        *ret = v->out;
        if (v->out.faults > 0) {
            rc = SEAM_E_CORRUPT;
            if (err != NULL)
                *err = v->first;
        }
    }
    os->free(os->ctx, v->streams);
    os->free(os->ctx, v);
    return rc;
}
