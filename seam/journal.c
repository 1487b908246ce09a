/* journal.c - opening and closing a journal, its streams, and what others may ask of it.
 *
 * Relies on load.c for what is stored, on append.c for the group's run. Keeps true: what
 * journal_int.h says of who writes what. */
#include "journal_int.h"

#include <assert.h>
#include <time.h>

enum { FILL_WAIT_US = 200 };

/* ---- keys -------------------------------------------------------------------------------- */

void seam_j_event_key(const struct seam_journal *j, uint32_t stream, uint64_t sequence,
                      struct seam_fmt_key *ret)
{
    seam_fmt_begin(ret, j->prefix, SEAM_TAG_EVENT);
    seam_fmt_add32(ret, stream);
    seam_fmt_add64(ret, sequence);
}

void seam_j_group_key(const struct seam_journal *j, uint64_t number, struct seam_fmt_key *ret)
{
    seam_fmt_begin(ret, j->prefix, SEAM_TAG_GROUP);
    seam_fmt_add64(ret, number);
}

/* ---- the table of streams ---------------------------------------------------------------- */

/* Where name is in by_name, or would have to be. */
static uint32_t name_place(const struct seam_journal *j, struct seam_slice name)
{
    uint32_t lo = 0, hi = j->streams;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (seam_compare(j->by_name[mid]->name, name) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

struct seam_jstream *seam_j_find(const struct seam_journal *j, struct seam_slice name)
{
    uint32_t at = name_place(j, name);
    if (at < j->streams && seam_compare(j->by_name[at]->name, name) == 0)
        return j->by_name[at];
    return NULL;
}

struct seam_jstream *seam_j_by_id(const struct seam_journal *j, uint32_t id)
{
    return id >= 1 && id <= j->streams ? j->by_id[id - 1] : NULL;
}

static int reserve_streams(struct seam_journal *j, struct seam_err *err)
{
    if (j->streams < j->streams_cap)
        return SEAM_OK;
    if (j->streams_cap > UINT32_MAX / 4)
        return seam_fail(err, SEAM_E_TOO_LARGE, "the journal has too many streams");
    uint32_t cap = j->streams_cap == 0 ? 16 : j->streams_cap * 2;
    struct seam_jstream **both = j->os->alloc(j->os->ctx, 2 * cap * sizeof(*both));
    if (both == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "no memory for %u streams", cap);
    if (j->streams > 0) {
        memcpy(both, j->by_id, j->streams * sizeof(*both));
        memcpy(both + cap, j->by_name, j->streams * sizeof(*both));
    }
    struct seam_jstream **old = j->by_id;
    j->by_id = both;
    j->by_name = both + cap;
    j->streams_cap = cap;
    j->os->free(j->os->ctx, old);
    return SEAM_OK;
}

int seam_j_new_stream(struct seam_journal *j, struct seam_slice name,
                      const struct seam_fmt_stream *in, struct seam_jstream **ret,
                      struct seam_err *err)
{
    pthread_mutex_lock(&j->lock);
    int rc = reserve_streams(j, err);
    pthread_mutex_unlock(&j->lock);
    if (rc != SEAM_OK)
        return rc;
    struct seam_jstream *s = j->os->alloc(j->os->ctx, sizeof(*s) + name.len);
    if (s == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "no memory for a stream");
    memset(s, 0, sizeof(*s));
    memcpy(s + 1, name.ptr, name.len);
    s->name = seam_bytes(s + 1, name.len);
    s->id = in->stream;
    s->first = in->first;
    s->last = s->durable = in->first - 1;
    s->base = s->bytes = in->base;
    s->base_crc = s->last_crc = in->base_crc;
    *ret = s;
    return SEAM_OK;
}

void seam_j_add_stream(struct seam_journal *j, struct seam_jstream *s)
{
    pthread_mutex_lock(&j->lock);
    assert(j->streams < j->streams_cap);
    uint32_t at = name_place(j, s->name);
    memmove(j->by_name + at + 1, j->by_name + at,
            (j->streams - at) * sizeof(struct seam_jstream *));
    j->by_name[at] = s;
    j->by_id[j->streams++] = s;
    pthread_mutex_unlock(&j->lock);
}

void seam_j_all_durable(struct seam_journal *j)
{
    while (j->dirty != NULL) {
        struct seam_jstream *s = j->dirty;
        j->dirty = s->next_dirty;
        s->dirty = false;
        s->durable = s->last;
    }
}

void seam_j_poison(struct seam_journal *j)
{
    atomic_store(&j->poisoned, true);
    pthread_mutex_lock(&j->lock);
    pthread_cond_broadcast(&j->grew);
    pthread_mutex_unlock(&j->lock);
}

/* ---- making streams ---------------------------------------------------------------------- */

struct stream_new {
    struct seam_journal *j;
    struct seam_slice name;
    uint32_t stream;
};

/* Runs with no group in flight, so that ids are given by one thread at a time. */
static int create_stream(void *arg, struct seam_err *err)
{
    struct stream_new *c = arg;
    struct seam_journal *j = c->j;
    struct seam_jstream *there = seam_j_find(j, c->name);
    if (there != NULL) {
        c->stream = there->id;
        return SEAM_OK;
    }
    if (atomic_load(&j->poisoned))
        return seam_fail(err, SEAM_E_POISONED, "the journal is poisoned: open it again");
    struct seam_fmt_stream in = {.stream = j->streams + 1, .first = 1};
    in.base_crc = seam_fmt_seed(j->uuid, in.stream);
    struct seam_jstream *made = NULL;
    int rc = seam_j_new_stream(j, c->name, &in, &made, err);
    if (rc != SEAM_OK)
        return rc;
    uint8_t value[SEAM_FMT_STREAM];
    struct seam_fmt_key key;
    seam_fmt_begin(&key, j->prefix, SEAM_TAG_STREAM);
    seam_fmt_add(&key, c->name);
    seam_fmt_stream_write(value, c->name, &in);
    struct seam_op op = {SEAM_PUT, seam_fmt_slice(&key), {value, sizeof(value)}, {NULL, 0}};
    rc = seam_write(j->db, &op, 1, SEAM_ACK_NONE, NULL, err);
    if (rc == SEAM_OK) {
        seam_j_add_stream(j, made);
        c->stream = in.stream;
        return SEAM_OK;
    }
    j->os->free(j->os->ctx, made);
    if (rc == SEAM_E_UNKNOWN || rc == SEAM_E_POISONED)
        seam_j_poison(j);
    return rc;
}

int seam_journal_stream(struct seam_journal *journal, struct seam_slice name, bool create,
                        uint32_t *ret_stream, struct seam_err *err)
{
    if (name.ptr == NULL || name.len == 0 || name.len > SEAM_STREAM_NAME_MAX)
        return seam_fail(err, SEAM_E_INVALID, "a stream's name has 1 to %d bytes, not %zu",
                         SEAM_STREAM_NAME_MAX, name.len);
    pthread_mutex_lock(&journal->lock);
    struct seam_jstream *s = seam_j_find(journal, name);
    uint32_t id = s != NULL ? s->id : 0;
    pthread_mutex_unlock(&journal->lock);
    if (id == 0 && !create)
        return SEAM_NOTFOUND;
    if (id == 0) {
        struct stream_new c = {.j = journal, .name = name};
        int rc = seam_group_exclusive(journal->group, create_stream, &c, err);
        if (rc != SEAM_OK)
            return rc;
        id = c.stream;
    }
    *ret_stream = id;
    return SEAM_OK;
}

int seam_journal_info(struct seam_journal *journal, uint32_t stream, struct seam_stream_info *ret,
                      struct seam_err *err)
{
    pthread_mutex_lock(&journal->lock);
    const struct seam_jstream *s = seam_j_by_id(journal, stream);
    if (s != NULL) {
        ret->stream = s->id;
        ret->name = s->name;
        ret->first = s->first;
        ret->last = s->last;
        ret->durable = s->durable;
        ret->last_crc = s->last_crc;
        ret->bytes = s->bytes - s->base;
    }
    pthread_mutex_unlock(&journal->lock);
    if (s == NULL)
        return seam_fail(err, SEAM_E_INVALID, "the journal has no stream %u", stream);
    return SEAM_OK;
}

uint32_t seam_journal_stream_count(struct seam_journal *journal)
{
    pthread_mutex_lock(&journal->lock);
    uint32_t n = journal->streams;
    pthread_mutex_unlock(&journal->lock);
    return n;
}

/* ---- sync, wait -------------------------------------------------------------------------- */

struct mark {
    uint32_t stream;
    uint64_t last;
};

/* Notes what is visible before the flush: only that is known to hold after it. */
static int take_marks(struct seam_journal *j, struct mark **ret, uint32_t *ret_n,
                      struct seam_err *err)
{
    pthread_mutex_lock(&j->lock);
    uint32_t n = 0;
    for (const struct seam_jstream *s = j->dirty; s != NULL; s = s->next_dirty)
        n++;
    struct mark *marks = n > 0 ? j->os->alloc(j->os->ctx, n * sizeof(*marks)) : NULL;
    if (marks != NULL) {
        n = 0;
        for (const struct seam_jstream *s = j->dirty; s != NULL; s = s->next_dirty) {
            marks[n].stream = s->id;
            marks[n++].last = s->last;
        }
    }
    pthread_mutex_unlock(&j->lock);
    if (n > 0 && marks == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "no memory to flush %u streams", n);
    *ret = marks;
    *ret_n = n;
    return SEAM_OK;
}

static void raise_marks(struct seam_journal *j, const struct mark *marks, uint32_t n)
{
    pthread_mutex_lock(&j->lock);
    for (uint32_t i = 0; i < n; i++) {
        struct seam_jstream *s = seam_j_by_id(j, marks[i].stream);
        if (s->durable < marks[i].last)
            s->durable = marks[i].last;
    }
    struct seam_jstream **link = &j->dirty;
    while (*link != NULL) {
        struct seam_jstream *s = *link;
        if (s->durable == s->last) {
            s->dirty = false;
            *link = s->next_dirty;
        } else {
            link = &s->next_dirty;
        }
    }
    pthread_mutex_unlock(&j->lock);
}

int seam_journal_sync(struct seam_journal *journal, enum seam_ack level, struct seam_err *err)
{
    struct mark *marks = NULL;
    uint32_t n = 0;
    int rc = take_marks(journal, &marks, &n, err);
    if (rc != SEAM_OK)
        return rc;
    pthread_mutex_lock(&journal->lock);
    uint64_t group = journal->shown_group;
    uint32_t chain = journal->shown_chain;
    pthread_mutex_unlock(&journal->lock);
    rc = seam_sync(journal->db, level, err);
    if (rc == SEAM_OK && level == SEAM_ACK_POWER) {
        raise_marks(journal, marks, n);
        rc = seam_w_durable(journal, group, chain, err);
    } else if (rc == SEAM_E_UNKNOWN || rc == SEAM_E_POISONED) {
        seam_j_poison(journal);
    }
    journal->os->free(journal->os->ctx, marks);
    return rc;
}

int seam_journal_wait(struct seam_journal *journal, uint32_t stream, uint64_t sequence,
                      uint32_t timeout_ms, uint64_t *ret_last, struct seam_err *err)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    int rc = SEAM_OK;
    pthread_mutex_lock(&journal->lock);
    const struct seam_jstream *s = seam_j_by_id(journal, stream);
    journal->waiters++;
    while (rc == SEAM_OK && s != NULL && s->last <= sequence) {
        if (atomic_load(&journal->poisoned))
            rc = SEAM_E_POISONED;
        else if (timeout_ms == 0 ||
                 pthread_cond_timedwait(&journal->grew, &journal->lock, &until) != 0)
            rc = s->last > sequence ? SEAM_OK : SEAM_NOTFOUND;
    }
    journal->waiters--;
    uint64_t last = s != NULL ? s->last : 0;
    pthread_mutex_unlock(&journal->lock);
    if (s == NULL)
        return seam_fail(err, SEAM_E_INVALID, "the journal has no stream %u", stream);
    if (rc == SEAM_E_POISONED)
        return seam_fail(err, rc, "the journal is poisoned: open it again");
    if (rc == SEAM_OK && ret_last != NULL)
        *ret_last = last;
    return rc;
}

/* ---- open and close ---------------------------------------------------------------------- */

static void free_journal(struct seam_journal *j)
{
    const struct seam_platform *os = j->os;
    for (uint32_t i = 0; i < j->streams; i++)
        os->free(os->ctx, j->by_id[i]);
    os->free(os->ctx, j->by_id);
    os->free(os->ctx, j->ops);
    os->free(os->ctx, j->keys);
    os->free(os->ctx, j->envelopes);
    os->free(os->ctx, j->record);
    seam_group_close(j->group);
    seam_w_end(j);
    pthread_cond_destroy(&j->grew);
    pthread_mutex_destroy(&j->lock);
    os->free(os->ctx, j);
}

static int init_locks(struct seam_journal *j)
{
    pthread_condattr_t attr;
    if (pthread_condattr_init(&attr) != 0)
        return -1;
    int rc = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    if (rc == 0)
        rc = pthread_cond_init(&j->grew, &attr);
    pthread_condattr_destroy(&attr);
    if (rc != 0)
        return -1;
    if (pthread_mutex_init(&j->lock, NULL) != 0) {
        pthread_cond_destroy(&j->grew);
        return -1;
    }
    return 0;
}

static int new_journal(struct seam_db *db, const struct seam_journal_options *o,
                       struct seam_journal **ret, struct seam_err *err)
{
    const struct seam_platform *os = o->platform != NULL ? o->platform : seam_platform_system();
    struct seam_journal *j = os->alloc(os->ctx, sizeof(*j));
    if (j == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "no memory for a journal");
    memset(j, 0, sizeof(*j));
    j->db = db;
    j->os = os;
    atomic_init(&j->poisoned, false);
    seam_db_limits(db, &j->limits);
    seam_copy(j->prefix_bytes, o->prefix);
    j->prefix = seam_bytes(j->prefix_bytes, o->prefix.len);
    if (init_locks(j) != 0) {
        os->free(os->ctx, j);
        return seam_fail(err, SEAM_E_NOMEM, "no memory for a journal's locks");
    }
    j->accept_loss = o->accept_loss;
    int failed = seam_w_init(j, o);
    if (failed != 0) {
        pthread_cond_destroy(&j->grew);
        pthread_mutex_destroy(&j->lock);
        os->free(os->ctx, j);
        return seam_fail_os(err, failed, "cannot make the locks of a journal");
    }
    struct seam_group_config config = {.run = seam_j_run, .ctx = j};
    config.max_members = o->group_events;
    config.fill_wait_us = o->fill_wait_us == 0            ? FILL_WAIT_US
                          : o->fill_wait_us == UINT32_MAX ? 0
                                                          : o->fill_wait_us;
    int rc = seam_group_open(os, &config, &j->group, err);
    if (rc != SEAM_OK) {
        free_journal(j);
        return rc;
    }
    *ret = j;
    return SEAM_OK;
}

int seam_journal_open(struct seam_db *db, const struct seam_journal_options *options,
                      struct seam_journal **ret, struct seam_err *err)
{
    static const struct seam_journal_options defaults;
    const struct seam_journal_options *o = options != NULL ? options : &defaults;
    if (o->prefix.len > SEAM_JOURNAL_PREFIX_MAX || (o->prefix.ptr == NULL && o->prefix.len > 0))
        return seam_fail(err, SEAM_E_INVALID, "a journal's prefix has at most %d bytes, not %zu",
                         SEAM_JOURNAL_PREFIX_MAX, o->prefix.len);
    struct seam_journal *j = NULL;
    int rc = new_journal(db, o, &j, err);
    if (rc != SEAM_OK)
        return rc;
    rc = seam_j_load(j, err);
    if (rc != SEAM_OK) {
        free_journal(j);
        return rc;
    }
    *ret = j;
    return SEAM_OK;
}

/* What was appended last is made durable, so that the witness can speak for it. */
static int last_words(struct seam_journal *j, struct seam_err *err)
{
    if (j->witness.fd < 0 || seam_db_read_only(j->db) || atomic_load(&j->poisoned) ||
        seam_db_poisoned(j->db))
        return SEAM_OK;
    int rc = SEAM_OK;
    if (j->shown_group > j->witness.want.group)
        rc = seam_sync(j->db, SEAM_ACK_POWER, err);
    if (rc == SEAM_OK)
        rc = seam_w_durable(j, j->shown_group, j->shown_chain, err);
    return rc == SEAM_OK ? seam_w_write(j, err) : rc;
}

int seam_journal_close(struct seam_journal *journal, struct seam_err *err)
{
    if (journal == NULL)
        return SEAM_OK;
    pthread_mutex_lock(&journal->lock);
    uint32_t readers = journal->readers;
    pthread_mutex_unlock(&journal->lock);
    if (readers > 0)
        return seam_fail(err, SEAM_E_BUSY, "the journal has %u open readers: close them first",
                         readers);
    int rc = last_words(journal, err);
    free_journal(journal);
    return rc;
}

struct seam_db *seam_journal_db(const struct seam_journal *journal)
{
    return journal->db;
}

const uint8_t *seam_journal_uuid(const struct seam_journal *journal)
{
    return journal->uuid;
}

bool seam_journal_poisoned(struct seam_journal *journal)
{
    return atomic_load(&journal->poisoned);
}
