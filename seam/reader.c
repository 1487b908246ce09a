/* reader.c - reading a stream in order, at a snapshot or following the head.
 *
 * Relies on cursors over one stream's keys. Keeps true: what is handed out has the right CRC, the
 * next sequence, and the CRC of the event before it inside; a sequence that is known to be there
 * and is not found is damage, not an end. A following reader never shows an event of a commit that
 * is still under way or whose outcome is unknown: it stops at the journal's `last`. */
#include "journal_int.h"

struct seam_journal_reader {
    struct seam_journal *j;
    uint32_t stream;
    struct seam_snap *snap;     /* NULL: follows */
    struct seam_cursor *cursor; /* NULL: none open */
    uint64_t next;              /* sequence to hand out next */
    uint64_t end;               /* the cursor must reach up to here; 0: not known */
    uint32_t prev;              /* CRC of event next - 1, once linked */
    bool linked;
};

static int trimmed(uint32_t stream, uint64_t sequence, uint64_t first, struct seam_err *err)
{
    return seam_fail(err, SEAM_E_NEEDS_HISTORY,
                     "stream %u begins at sequence %llu now: %llu was trimmed", stream,
                     (unsigned long long)first, (unsigned long long)sequence);
}

static int lost(uint32_t stream, uint64_t sequence, struct seam_err *err)
{
    return seam_fail(err, SEAM_E_CORRUPT, "stream %u, sequence %llu: the event is missing", stream,
                     (unsigned long long)sequence);
}

/* An event that was to be there now is not: it was trimmed a moment ago, or it is lost. */
static int missing(struct seam_journal *j, uint32_t stream, uint64_t sequence, struct seam_err *err)
{
    pthread_mutex_lock(&j->lock);
    uint64_t first = seam_j_by_id(j, stream)->trimming;
    pthread_mutex_unlock(&j->lock);
    return sequence < first ? trimmed(stream, sequence, first, err) : lost(stream, sequence, err);
}

/* Where the stream begins in the snapshot: a trim since then has taken nothing from it. */
static int begin_at_snap(struct seam_journal *j, const struct seam_jstream *s,
                         struct seam_snap *snap, uint64_t *ret_first, uint32_t *ret_base_crc,
                         struct seam_err *err)
{
    struct seam_fmt_key key;
    struct seam_fmt_stream record;
    struct seam_pin pin = {0};
    seam_fmt_begin(&key, j->prefix, SEAM_TAG_STREAM);
    seam_fmt_add(&key, s->name);
    int rc = seam_get(j->db, snap, seam_fmt_slice(&key), &pin, err);
    if (rc == SEAM_NOTFOUND) { /* the stream was made after the snapshot */
        *ret_first = 1;
        *ret_base_crc = seam_fmt_seed(j->uuid, s->id);
        return SEAM_OK;
    }
    if (rc == SEAM_OK)
        rc = seam_fmt_stream_read(s->name, pin.value, &record, err);
    seam_unpin(&pin);
    if (rc == SEAM_OK) {
        *ret_first = record.first;
        *ret_base_crc = record.base_crc;
    }
    return rc;
}

int seam_journal_reader_open(struct seam_journal *journal, uint32_t stream, uint64_t from,
                             struct seam_snap *snap, struct seam_journal_reader **ret,
                             struct seam_err *err)
{
    pthread_mutex_lock(&journal->lock);
    const struct seam_jstream *s = seam_j_by_id(journal, stream);
    uint64_t first = s != NULL ? s->first : 0;
    uint32_t base_crc = s != NULL ? s->base_crc : 0;
    pthread_mutex_unlock(&journal->lock);
    if (s == NULL)
        return seam_fail(err, SEAM_E_INVALID, "the journal has no stream %u", stream);
    if (snap != NULL) {
        int rc = begin_at_snap(journal, s, snap, &first, &base_crc, err);
        if (rc != SEAM_OK)
            return rc;
    }
    if (from != 0 && from < first)
        return trimmed(stream, from, first, err);
    struct seam_journal_reader *r = journal->os->alloc(journal->os->ctx, sizeof(*r));
    if (r == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "no memory for a reader");
    memset(r, 0, sizeof(*r));
    r->j = journal;
    r->stream = stream;
    r->snap = snap;
    r->next = from != 0 ? from : first;
    r->linked = r->next == first;
    r->prev = base_crc;
    pthread_mutex_lock(&journal->lock);
    journal->readers++;
    pthread_mutex_unlock(&journal->lock);
    *ret = r;
    return SEAM_OK;
}

static void drop_cursor(struct seam_journal_reader *r)
{
    seam_cursor_close(r->cursor);
    r->cursor = NULL;
}

void seam_journal_reader_close(struct seam_journal_reader *reader)
{
    if (reader == NULL)
        return;
    struct seam_journal *j = reader->j;
    if (reader->cursor != NULL)
        drop_cursor(reader);
    pthread_mutex_lock(&j->lock);
    j->readers--;
    pthread_mutex_unlock(&j->lock);
    j->os->free(j->os->ctx, reader);
}


/* Opens a cursor at the next event, or at the one before it to learn its CRC. SEAM_NOTFOUND: a
 * following reader has nothing to read. */
static int open_cursor(struct seam_journal_reader *r, struct seam_err *err)
{
    struct seam_fmt_key lower, upper;
    if (r->snap != NULL) {
        r->end = 0;
        seam_fmt_begin(&upper, r->j->prefix, SEAM_TAG_EVENT);
        seam_fmt_add32(&upper, r->stream);
        seam_fmt_add64(&upper, UINT64_MAX);
    } else {
        pthread_mutex_lock(&r->j->lock);
        const struct seam_jstream *s = seam_j_by_id(r->j, r->stream);
        uint64_t first = s->first;
        r->end = s->last;
        if (!r->linked && r->next == first) {
            r->linked = true;
            r->prev = s->base_crc;
        }
        pthread_mutex_unlock(&r->j->lock);
        if (r->next < first)
            return trimmed(r->stream, r->next, first, err);
        if (r->end < r->next)
            return SEAM_NOTFOUND;
        seam_j_event_key(r->j, r->stream, r->end + 1, &upper);
    }
    seam_j_event_key(r->j, r->stream, r->linked ? r->next : r->next - 1, &lower);
    return seam_cursor_open(r->j->db, r->snap, seam_fmt_slice(&lower), seam_fmt_slice(&upper),
                            &r->cursor, err);
}

/* Moves on by one and checks all of the record but its link. */
static int step(struct seam_journal_reader *r, uint64_t sequence, struct seam_fmt_event *ret,
                struct seam_slice *ret_data, struct seam_err *err)
{
    struct seam_slice key, value, none = {NULL, 0};
    int rc = seam_cursor_move(r->cursor, SEAM_NEXT, none, &key, err);
    if (rc == SEAM_NOTFOUND && r->end >= sequence)
        return missing(r->j, r->stream, sequence, err);
    if (rc != SEAM_OK)
        return rc;
    const uint8_t *p = key.ptr;
    if (key.len != r->j->prefix.len + SEAM_FMT_EVENT_KEY ||
        seam_get64_be(p + key.len - 8) != sequence)
        return r->snap != NULL ? lost(r->stream, sequence, err)
                               : missing(r->j, r->stream, sequence, err);
    rc = seam_cursor_value(r->cursor, &value, err);
    return rc == SEAM_OK ? seam_fmt_event_read(r->stream, sequence, value, ret, ret_data, err) : rc;
}

static int read_next(struct seam_journal_reader *r, struct seam_fmt_event *ret,
                     struct seam_slice *ret_data, struct seam_err *err)
{
    int rc = r->cursor == NULL ? open_cursor(r, err) : SEAM_OK;
    if (rc == SEAM_OK && !r->linked) {
        rc = step(r, r->next - 1, ret, ret_data, err);
        if (rc == SEAM_OK) {
            r->prev = ret->crc;
            r->linked = true;
        }
    }
    if (rc == SEAM_OK)
        rc = step(r, r->next, ret, ret_data, err);
    if (rc == SEAM_OK && ret->prev != r->prev)
        rc = seam_fail(err, SEAM_E_CORRUPT,
                       "stream %u, sequence %llu: it does not follow the event before it",
                       r->stream, (unsigned long long)r->next);
    return rc;
}

int seam_journal_reader_next(struct seam_journal_reader *reader, struct seam_event *ret,
                             struct seam_err *err)
{
    struct seam_fmt_event event;
    struct seam_slice data;
    /* A following reader stands at the end of what its cursor covers: it has to look anew. */
    if (reader->cursor != NULL && reader->snap == NULL && reader->next > reader->end)
        drop_cursor(reader);
    int rc = read_next(reader, &event, &data, err);
    if (rc != SEAM_OK) {
        if (reader->cursor != NULL)
            drop_cursor(reader);
        return rc;
    }
    reader->prev = event.crc;
    reader->next++;
    ret->stream = event.stream;
    ret->crc = event.crc;
    ret->sequence = event.sequence;
    ret->group = event.group;
    ret->time_ns = event.time_ns;
    ret->data = data;
    return SEAM_OK;
}

int seam_j_event(struct seam_journal *j, uint32_t stream, uint64_t sequence,
                 struct seam_fmt_event *ret, struct seam_err *err)
{
    struct seam_fmt_key key;
    struct seam_slice data;
    struct seam_pin pin = {0};
    seam_j_event_key(j, stream, sequence, &key);
    int rc = seam_get(j->db, NULL, seam_fmt_slice(&key), &pin, err);
    if (rc == SEAM_OK)
        rc = seam_fmt_event_read(stream, sequence, pin.value, ret, &data, err);
    seam_unpin(&pin);
    return rc;
}

int seam_j_record_crc(struct seam_journal *j, uint32_t stream, uint64_t sequence, uint32_t *ret,
                      struct seam_err *err)
{
    pthread_mutex_lock(&j->lock);
    const struct seam_jstream *s = seam_j_by_id(j, stream);
    uint64_t first = s->first, last = s->last;
    uint32_t base_crc = s->base_crc;
    pthread_mutex_unlock(&j->lock);
    if (sequence > last)
        return SEAM_NOTFOUND;
    if (sequence + 1 < first)
        return seam_fail(err, SEAM_E_NEEDS_HISTORY, "stream %u begins at sequence %llu now", stream,
                         (unsigned long long)first);
    if (sequence + 1 == first) {
        *ret = base_crc;
        return SEAM_OK;
    }
    struct seam_fmt_event event;
    int rc = seam_j_event(j, stream, sequence, &event, err);
    if (rc == SEAM_NOTFOUND)
        return missing(j, stream, sequence, err);
    if (rc == SEAM_OK)
        *ret = event.crc;
    return rc;
}
