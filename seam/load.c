/* load.c - what a journal reads when it is opened, and how it holds the parts against each other.
 *
 * Relies on the engine's commits being whole: a group's events and its record are there together.
 * Keeps true: no record is of a group newer than the newest, that group's streams end where its
 * record says, and the ends of all streams add up to the state in it; or E_CORRUPT. */
#include "journal_int.h"

/* ---- the journal's own record ------------------------------------------------------------ */

/* A journal without its own record is new only if nothing else of it is there either. */
static int refuse_remains(struct seam_journal *j, struct seam_err *err)
{
    static const uint8_t tags[] = {SEAM_TAG_STREAM, SEAM_TAG_EVENT, SEAM_TAG_GROUP};
    for (size_t i = 0; i < sizeof(tags); i++) {
        struct seam_fmt_key key;
        struct seam_pin pin = {0};
        seam_fmt_begin(&key, j->prefix, tags[i]);
        int rc = seam_ceiling(j->db, NULL, seam_fmt_slice(&key), seam_fmt_slice(&key), &pin, err);
        seam_unpin(&pin);
        if (rc == SEAM_OK)
            return seam_fail(err, SEAM_E_CORRUPT, "the journal's record is missing, but not its %s",
                             tags[i] == SEAM_TAG_STREAM ? "streams" : "events");
        if (rc != SEAM_NOTFOUND)
            return rc;
    }
    return SEAM_OK;
}

static int create(struct seam_journal *j, struct seam_slice key, struct seam_err *err)
{
    int rc = refuse_remains(j, err);
    if (rc == SEAM_OK)
        rc = seam_w_remains(j, err);
    if (rc != SEAM_OK)
        return rc;
    struct seam_fmt_journal own = {.first_group = 1};
    int n = j->os->random(j->os->ctx, own.uuid, sizeof(own.uuid));
    if (n < 0)
        return seam_fail_os(err, -n, "no random bytes for the journal's id");
    memcpy(j->uuid, own.uuid, sizeof(j->uuid));
    rc = seam_w_make(j, err);
    if (rc != SEAM_OK)
        return rc;
    own.witness = j->has_witness;
    uint8_t value[SEAM_FMT_JOURNAL];
    seam_fmt_journal_write(value, &own);
    struct seam_op op = {SEAM_PUT, key, {value, sizeof(value)}, {NULL, 0}};
    /* Projections in other stores will name this id: it must not be lost before they are. */
    uint32_t ack = j->limits.best < SEAM_ACK_POWER ? (uint32_t)j->limits.best : SEAM_ACK_POWER;
    rc = seam_write(j->db, &op, 1, ack, NULL, err);
    if (rc == SEAM_E_READ_ONLY)
        return seam_fail(err, SEAM_E_NO_STORE, "there is no journal in this store");
    if (rc == SEAM_OK)
        j->first_group = own.first_group;
    return rc;
}

static int load_own(struct seam_journal *j, struct seam_err *err)
{
    struct seam_fmt_key key;
    struct seam_fmt_journal own;
    struct seam_pin pin = {0};
    seam_fmt_begin(&key, j->prefix, SEAM_TAG_JOURNAL);
    int rc = seam_get(j->db, NULL, seam_fmt_slice(&key), &pin, err);
    if (rc == SEAM_NOTFOUND)
        return create(j, seam_fmt_slice(&key), err);
    if (rc != SEAM_OK)
        return rc;
    rc = seam_fmt_journal_read(pin.value, &own, err);
    seam_unpin(&pin);
    if (rc == SEAM_OK) {
        memcpy(j->uuid, own.uuid, sizeof(j->uuid));
        j->first_group = own.first_group;
        j->has_witness = own.witness;
    }
    return rc;
}

/* ---- streams ----------------------------------------------------------------------------- */

/* One more entry of the catalogue, in order of names; ids are any permutation of 1..count. */
static int load_stream(struct seam_journal *j, struct seam_slice key, struct seam_slice value,
                       struct seam_err *err)
{
    struct seam_fmt_stream in;
    struct seam_slice name =
        seam_bytes((const uint8_t *)key.ptr + j->prefix.len + 1, key.len - j->prefix.len - 1);
    if (name.len == 0 || name.len > SEAM_STREAM_NAME_MAX)
        return seam_fail(err, SEAM_E_CORRUPT, "the catalogue has a name of %zu bytes", name.len);
    int rc = seam_fmt_stream_read(name, value, &in, err);
    if (rc != SEAM_OK)
        return rc;
    struct seam_jstream *stream = NULL;
    rc = seam_j_new_stream(j, name, &in, &stream, err);
    if (rc == SEAM_OK)
        seam_j_add_stream(j, stream);
    return rc;
}

/* Puts by_id, filled in order of names, into the order of ids. */
static int place_by_id(struct seam_journal *j, struct seam_err *err)
{
    memset(j->by_id, 0, j->streams * sizeof(*j->by_id));
    int rc = SEAM_OK;
    for (uint32_t i = 0; i < j->streams; i++) {
        struct seam_jstream *s = j->by_name[i];
        if (s->id > j->streams || j->by_id[s->id - 1] != NULL) {
            rc = seam_fail(err, SEAM_E_CORRUPT, "the catalogue has %u streams and number %u %s",
                           j->streams, s->id, s->id > j->streams ? "is beyond" : "is there twice");
            break;
        }
        j->by_id[s->id - 1] = s;
    }
    if (rc != SEAM_OK) /* so that all of them are freed */
        memcpy(j->by_id, j->by_name, j->streams * sizeof(*j->by_id));
    return rc;
}

static int load_streams(struct seam_journal *j, struct seam_err *err)
{
    struct seam_fmt_key lower, upper;
    struct seam_cursor *cursor;
    struct seam_slice none = {NULL, 0}, key, value;
    seam_fmt_begin(&lower, j->prefix, SEAM_TAG_STREAM);
    seam_fmt_begin(&upper, j->prefix, SEAM_TAG_STREAM + 1);
    int rc =
        seam_cursor_open(j->db, NULL, seam_fmt_slice(&lower), seam_fmt_slice(&upper), &cursor, err);
    if (rc != SEAM_OK)
        return rc;
    while ((rc = seam_cursor_move(cursor, SEAM_NEXT, none, &key, err)) == SEAM_OK) {
        rc = seam_cursor_value(cursor, &value, err);
        if (rc == SEAM_OK)
            rc = load_stream(j, key, value, err);
        if (rc != SEAM_OK)
            break;
    }
    seam_cursor_close(cursor);
    if (rc != SEAM_NOTFOUND)
        return rc;
    return j->streams > 0 ? place_by_id(j, err) : SEAM_OK;
}

/* ---- ends ------------------------------------------------------------------------------- */

/* The last key that begins with the first `fixed` bytes of key, whose own last 8 are all ones. */
static int last_under(struct seam_journal *j, const struct seam_fmt_key *key, struct seam_pin *ret,
                      uint64_t *ret_number, struct seam_err *err)
{
    struct seam_slice fixed = seam_bytes(key->bytes, key->len - 8);
    int rc = seam_floor(j->db, NULL, fixed, seam_fmt_slice(key), ret, err);
    if (rc != SEAM_OK)
        return rc;
    if (ret->key.len != key->len) {
        seam_unpin(ret);
        return seam_fail(err, SEAM_E_CORRUPT, "the journal has a key of a wrong length");
    }
    *ret_number = seam_get64_be((const uint8_t *)ret->key.ptr + fixed.len);
    return SEAM_OK;
}

static int load_end(struct seam_journal *j, struct seam_jstream *s, struct seam_err *err)
{
    struct seam_fmt_key key;
    struct seam_fmt_event event;
    struct seam_slice data;
    struct seam_pin pin = {0};
    uint64_t last;
    seam_j_event_key(j, s->id, UINT64_MAX, &key);
    int rc = last_under(j, &key, &pin, &last, err);
    if (rc == SEAM_NOTFOUND)
        return SEAM_OK;
    if (rc != SEAM_OK)
        return rc;
    rc = seam_fmt_event_read(s->id, last, pin.value, &event, &data, err);
    seam_unpin(&pin);
    if (rc != SEAM_OK)
        return rc;
    if (last < s->first)
        return seam_fail(err, SEAM_E_CORRUPT,
                         "stream %u: ends at sequence %llu, before its first, %llu", s->id,
                         (unsigned long long)last, (unsigned long long)s->first);
    s->last = last;
    s->last_crc = event.crc;
    s->last_group = event.group;
    s->bytes = event.offset + event.length;
    return SEAM_OK;
}

/* ---- group records ----------------------------------------------------------------------- */

static int disagree(const struct seam_jstream *s, uint64_t group, struct seam_err *err)
{
    return seam_fail(err, SEAM_E_CORRUPT,
                     "stream %u, sequence %llu: not the end that group record %llu names", s->id,
                     (unsigned long long)s->last, (unsigned long long)group);
}

/* Every stream of the newest group must end where its record says. */
static int check_newest(struct seam_journal *j, const struct seam_fmt_group *group,
                        struct seam_slice value, struct seam_err *err)
{
    for (uint32_t i = 0; i < group->streams; i++) {
        struct seam_fmt_group_entry entry;
        seam_fmt_group_entry_read(value, i, &entry);
        const struct seam_jstream *s = seam_j_by_id(j, entry.stream);
        if (s == NULL)
            return seam_fail(err, SEAM_E_CORRUPT,
                             "group record %llu names stream %u, which is not in the catalogue",
                             (unsigned long long)group->number, entry.stream);
        bool empty = s->last < s->first; /* trimmed whole: of which group it was is gone with it */
        if (s->last != entry.last || s->last_crc != entry.crc ||
            (!empty && s->last_group != group->number))
            return disagree(s, group->number, err);
    }
    return SEAM_OK;
}

static int load_group(struct seam_journal *j, struct seam_err *err)
{
    struct seam_fmt_key key;
    struct seam_fmt_group group;
    struct seam_pin pin = {0};
    uint64_t number;
    seam_j_group_key(j, UINT64_MAX, &key);
    int rc = last_under(j, &key, &pin, &number, err);
    if (rc == SEAM_NOTFOUND)
        return SEAM_OK;
    if (rc != SEAM_OK)
        return rc;
    rc = seam_fmt_group_read(number, pin.value, &group, err);
    if (rc == SEAM_OK)
        rc = check_newest(j, &group, pin.value, err);
    seam_unpin(&pin);
    if (rc == SEAM_OK) {
        j->group_no = number;
        j->chain = group.chain;
        j->time_ns = group.time_ns;
        j->state = group.state;
    }
    return rc;
}

/* The ends do not add up: looks for the one at fault, from the newest group record back. Only so
 * much is read where something is damaged. */
static int find_fault(struct seam_journal *j, struct seam_err *err)
{
    int rc = SEAM_OK;
    for (uint64_t number = j->group_no; rc == SEAM_OK && number >= j->first_group; number--) {
        struct seam_fmt_key key;
        struct seam_fmt_group group;
        struct seam_pin pin = {0};
        seam_j_group_key(j, number, &key);
        rc = seam_get(j->db, NULL, seam_fmt_slice(&key), &pin, err);
        if (rc == SEAM_NOTFOUND)
            return seam_fail(err, SEAM_E_CORRUPT, "group record %llu is missing",
                             (unsigned long long)number);
        if (rc != SEAM_OK)
            return rc;
        rc = seam_fmt_group_read(number, pin.value, &group, err);
        for (uint32_t i = 0; rc == SEAM_OK && i < group.streams; i++) {
            struct seam_fmt_group_entry entry;
            seam_fmt_group_entry_read(pin.value, i, &entry);
            struct seam_jstream *s = seam_j_by_id(j, entry.stream);
            if (s != NULL && !s->touched && (s->last != entry.last || s->last_crc != entry.crc))
                rc = disagree(s, number, err);
            if (s != NULL)
                s->touched = true; /* older records say nothing of its end */
        }
        seam_unpin(&pin);
    }
    if (rc != SEAM_OK)
        return rc;
    return seam_fail(err, SEAM_E_CORRUPT, "the streams do not end where group record %llu says",
                     (unsigned long long)j->group_no);
}

/* Streams that are not in the newest group: its record has the sum of all ends. */
static int check_ends(struct seam_journal *j, struct seam_err *err)
{
    uint64_t state = 0;
    for (uint32_t i = 0; i < j->streams; i++) {
        const struct seam_jstream *s = j->by_id[i];
        struct seam_fmt_group_entry end = {s->id, s->last_crc, s->last};
        if (s->last_group > j->group_no)
            return disagree(s, j->group_no, err);
        if (s->last > 0)
            state ^= seam_fmt_end(&end);
    }
    return state == j->state ? SEAM_OK : find_fault(j, err);
}

/* Trims keep the newest group record, and there is none before the first group. */
static int check_first_group(const struct seam_journal *j, struct seam_err *err)
{
    uint64_t most = j->group_no > 0 ? j->group_no : 1;
    if (j->first_group >= 1 && j->first_group <= most)
        return SEAM_OK;
    return seam_fail(err, SEAM_E_CORRUPT,
                     "the journal's record has %llu for its oldest group, the newest is %llu",
                     (unsigned long long)j->first_group, (unsigned long long)j->group_no);
}

/* ---- all of it --------------------------------------------------------------------------- */

/* What is there may have been written by this handle without a flush. */
static int make_durable(struct seam_journal *j, struct seam_err *err)
{
    bool power = j->limits.best >= SEAM_ACK_POWER;
    int rc = power && j->group_no > 0 ? seam_sync(j->db, SEAM_ACK_POWER, err) : SEAM_OK;
    if (rc != SEAM_OK && rc != SEAM_E_READ_ONLY)
        return rc;
    for (uint32_t i = 0; rc == SEAM_OK && i < j->streams; i++)
        j->by_id[i]->durable = j->by_id[i]->last;
    j->shown_group = j->group_no;
    j->shown_chain = j->chain;
    return SEAM_OK;
}

/* A journal that was made without a witness gets one: the file first, then the word that it is
 * there. */
static int adopt_witness(struct seam_journal *j, struct seam_err *err)
{
    if (j->has_witness)
        return SEAM_OK;
    int rc = seam_w_make(j, err);
    if (rc != SEAM_OK || !j->has_witness)
        return rc;
    struct seam_fmt_key key;
    uint8_t value[SEAM_FMT_JOURNAL];
    struct seam_fmt_journal own = {.first_group = j->first_group, .witness = true};
    memcpy(own.uuid, j->uuid, sizeof(own.uuid));
    seam_fmt_begin(&key, j->prefix, SEAM_TAG_JOURNAL);
    seam_fmt_journal_write(value, &own);
    struct seam_op op = {SEAM_PUT, seam_fmt_slice(&key), {value, sizeof(value)}, {NULL, 0}};
    uint32_t ack = j->limits.best < SEAM_ACK_POWER ? (uint32_t)j->limits.best : SEAM_ACK_POWER;
    return seam_write(j->db, &op, 1, ack, NULL, err);
}

static int witness(struct seam_journal *j, struct seam_err *err)
{
    int rc = seam_w_check(j, j->accept_loss, err);
    if (rc == SEAM_OK)
        rc = adopt_witness(j, err);
    if (rc == SEAM_OK)
        rc = seam_w_durable(j, j->group_no, j->chain, err);
    if (rc == SEAM_OK)
        rc = seam_w_write(j, err);
    return rc == SEAM_OK ? seam_w_start(j, err) : rc;
}

int seam_j_load(struct seam_journal *j, struct seam_err *err)
{
    int rc = load_own(j, err);
    if (rc == SEAM_OK)
        rc = load_streams(j, err);
    for (uint32_t i = 0; rc == SEAM_OK && i < j->streams; i++)
        rc = load_end(j, j->by_id[i], err);
    if (rc == SEAM_OK)
        rc = load_group(j, err);
    if (rc == SEAM_OK)
        rc = check_first_group(j, err);
    if (rc == SEAM_OK)
        rc = check_ends(j, err);
    if (rc == SEAM_OK)
        rc = make_durable(j, err);
    return rc == SEAM_OK ? witness(j, err) : rc;
}
