/* format.c - see format.h. */
#include "format.h"

#include <seam/backend.h>

#include <assert.h>

enum { MAGIC_EVENT = 0xE5, MAGIC_GROUP = 0x67, MAGIC_STREAM = 0xC5 };

static const char magic_journal[8] = {'S', 'E', 'A', 'M', 'J', 'R', 'N', 'L'};
static const char magic_witness[8] = {'S', 'E', 'A', 'M', 'W', 'T', 'N', 'S'};
static const char magic_projection[8] = {'S', 'E', 'A', 'M', 'P', 'R', 'O', 'J'};
static const char magic_sweep[8] = {'S', 'E', 'A', 'M', 'S', 'W', 'E', 'P'};

void seam_fmt_begin(struct seam_fmt_key *key, struct seam_slice prefix, uint8_t tag)
{
    assert(prefix.len <= SEAM_JOURNAL_PREFIX_MAX);
    key->len = prefix.len;
    seam_copy(key->bytes, prefix);
    key->bytes[key->len++] = tag;
}

void seam_fmt_add(struct seam_fmt_key *key, struct seam_slice bytes)
{
    assert(key->len + bytes.len <= sizeof(key->bytes));
    seam_copy(key->bytes + key->len, bytes);
    key->len += bytes.len;
}

void seam_fmt_add32(struct seam_fmt_key *key, uint32_t v)
{
    assert(key->len + 4 <= sizeof(key->bytes));
    seam_put32_be(key->bytes + key->len, v);
    key->len += 4;
}

void seam_fmt_add64(struct seam_fmt_key *key, uint64_t v)
{
    assert(key->len + 8 <= sizeof(key->bytes));
    seam_put64_be(key->bytes + key->len, v);
    key->len += 8;
}

/* Version byte and feature bits stand in each record, so that a later format is told apart from
 * damage. */
static int check_version(uint32_t version, uint32_t features, const char *what,
                         struct seam_err *err)
{
    if (version == SEAM_FMT_VERSION && features == 0)
        return SEAM_OK;
    return seam_fail(err, SEAM_E_MISMATCH,
                     "%s has format version %u, features %x: this library knows version %u only",
                     what, version, features, SEAM_FMT_VERSION);
}

/* ---- the journal's own record ------------------------------------------------------------ */

void seam_fmt_journal_write(uint8_t out[SEAM_FMT_JOURNAL], const struct seam_fmt_journal *in)
{
    memset(out, 0, SEAM_FMT_JOURNAL);
    memcpy(out, magic_journal, 8);
    seam_put16(out + 8, SEAM_FMT_VERSION);
    memcpy(out + 16, in->uuid, 16);
    seam_put32(out + 12, in->witness ? 1 : 0);
    seam_put64(out + 32, in->first_group);
    seam_put32(out + 44, seam_crc32c(0, out, 44));
}

int seam_fmt_journal_read(struct seam_slice value, struct seam_fmt_journal *ret,
                          struct seam_err *err)
{
    const uint8_t *p = value.ptr;
    if (value.len < 12 || memcmp(p, magic_journal, 8) != 0)
        return seam_fail(err, SEAM_E_CORRUPT, "the journal's record is damaged");
    int rc = check_version(seam_get16(p + 8), seam_get16(p + 10), "the journal", err);
    if (rc != SEAM_OK)
        return rc;
    if (value.len != SEAM_FMT_JOURNAL || seam_get32(p + 44) != seam_crc32c(0, p, 44))
        return seam_fail(err, SEAM_E_CORRUPT, "the journal's record is damaged");
    memcpy(ret->uuid, p + 16, 16);
    ret->first_group = seam_get64(p + 32);
    ret->witness = (seam_get32(p + 12) & 1) != 0;
    if (ret->first_group == 0)
        return seam_fail(err, SEAM_E_CORRUPT, "the journal's record holds a zero");
    return SEAM_OK;
}

/* ---- catalogue --------------------------------------------------------------------------- */

uint32_t seam_fmt_seed(const uint8_t uuid[16], uint32_t stream)
{
    uint8_t id[4];
    seam_put32(id, stream);
    return seam_crc32c(seam_crc32c(0, uuid, 16), id, 4);
}

static uint32_t stream_crc(struct seam_slice name, const uint8_t *value)
{
    return seam_crc32c(seam_crc32c(0, name.ptr, name.len), value, SEAM_FMT_STREAM - 4);
}

void seam_fmt_stream_write(uint8_t out[SEAM_FMT_STREAM], struct seam_slice name,
                           const struct seam_fmt_stream *in)
{
    out[0] = MAGIC_STREAM;
    out[1] = SEAM_FMT_VERSION;
    seam_put16(out + 2, 0);
    seam_put32(out + 4, in->stream);
    seam_put64(out + 8, in->first);
    seam_put64(out + 16, in->base);
    seam_put32(out + 24, in->base_crc);
    seam_put32(out + 28, stream_crc(name, out));
}

int seam_fmt_stream_read(struct seam_slice name, struct seam_slice value,
                         struct seam_fmt_stream *ret, struct seam_err *err)
{
    const uint8_t *p = value.ptr;
    char text[80];
    if (value.len != SEAM_FMT_STREAM || p[0] != MAGIC_STREAM ||
        seam_get32(p + 28) != stream_crc(name, p))
        return seam_fail(err, SEAM_E_CORRUPT, "the catalogue entry of stream '%s' is damaged",
                         seam_key_text(name, text, sizeof(text)));
    int rc = check_version(p[1], seam_get16(p + 2), "a catalogue entry", err);
    if (rc != SEAM_OK)
        return rc;
    ret->stream = seam_get32(p + 4);
    ret->first = seam_get64(p + 8);
    ret->base = seam_get64(p + 16);
    ret->base_crc = seam_get32(p + 24);
    if (ret->stream == 0 || ret->first == 0)
        return seam_fail(err, SEAM_E_CORRUPT, "the catalogue entry of stream '%s' holds a zero",
                         seam_key_text(name, text, sizeof(text)));
    return SEAM_OK;
}

/* ---- events ------------------------------------------------------------------------------ */

void seam_fmt_event_write(uint8_t out[SEAM_FMT_ENVELOPE], uint32_t payload_crc,
                          struct seam_fmt_event *in)
{
    out[0] = MAGIC_EVENT;
    out[1] = SEAM_FMT_VERSION;
    seam_put16(out + 2, 0);
    seam_put32(out + 4, in->stream);
    seam_put64(out + 8, in->sequence);
    seam_put64(out + 16, in->time_ns);
    seam_put64(out + 24, in->group);
    seam_put32(out + 32, in->length);
    seam_put32(out + 36, in->prev);
    seam_put64(out + 40, in->offset);
    in->crc = seam_crc32c(payload_crc, out, 48);
    seam_put32(out + 48, in->crc);
}

static int event_bad(uint32_t stream, uint64_t sequence, const char *what, struct seam_err *err)
{
    return seam_fail(err, SEAM_E_CORRUPT, "stream %u, sequence %llu: %s", stream,
                     (unsigned long long)sequence, what);
}

int seam_fmt_event_read(uint32_t stream, uint64_t sequence, struct seam_slice value,
                        struct seam_fmt_event *ret, struct seam_slice *ret_data,
                        struct seam_err *err)
{
    const uint8_t *p = value.ptr;
    struct seam_fmt_event e;
    if (value.len < SEAM_FMT_ENVELOPE)
        return event_bad(stream, sequence, "the record is shorter than its envelope", err);
    if (p[0] != MAGIC_EVENT)
        return event_bad(stream, sequence, "the record does not begin as an event does", err);
    size_t len = value.len - SEAM_FMT_ENVELOPE;
    e.crc = seam_crc32c(seam_crc32c(0, p + SEAM_FMT_ENVELOPE, len), p, 48);
    if (seam_get32(p + 48) != e.crc)
        return event_bad(stream, sequence, "the CRC does not match", err);
    int rc = check_version(p[1], seam_get16(p + 2), "an event", err);
    if (rc != SEAM_OK)
        return rc;
    e.stream = seam_get32(p + 4);
    e.sequence = seam_get64(p + 8);
    e.time_ns = seam_get64(p + 16);
    e.group = seam_get64(p + 24);
    e.length = seam_get32(p + 32);
    e.prev = seam_get32(p + 36);
    e.offset = seam_get64(p + 40);
    if (e.stream != stream || e.sequence != sequence)
        return event_bad(stream, sequence, "the record is another event's", err);
    if (e.length != len)
        return event_bad(stream, sequence, "the record is not as long as it says", err);
    *ret = e;
    *ret_data = seam_bytes(p + SEAM_FMT_ENVELOPE, len);
    return SEAM_OK;
}

/* ---- group records ----------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

uint64_t seam_fmt_end(const struct seam_fmt_group_entry *end)
{
    return mix(mix((uint64_t)end->stream << 32 | end->crc) + end->last);
}

void seam_fmt_group_entry_write(uint8_t *out, size_t index, const struct seam_fmt_group_entry *in)
{
    uint8_t *p = out + SEAM_FMT_GROUP_HEAD + index * SEAM_FMT_GROUP_ENTRY;
    seam_put32(p, in->stream);
    seam_put32(p + 4, in->crc);
    seam_put64(p + 8, in->last);
}

static uint32_t group_chain(const uint8_t *p, size_t end)
{
    return seam_crc32c(seam_crc32c(0, p, 48), p + SEAM_FMT_GROUP_HEAD, end - SEAM_FMT_GROUP_HEAD);
}

void seam_fmt_group_write(uint8_t *out, struct seam_fmt_group *in)
{
    size_t end = seam_fmt_group_size(in->streams) - 4;
    out[0] = MAGIC_GROUP;
    out[1] = SEAM_FMT_VERSION;
    seam_put16(out + 2, 0);
    seam_put32(out + 4, in->streams);
    seam_put64(out + 8, in->number);
    seam_put64(out + 16, in->epoch);
    seam_put64(out + 24, in->time_ns);
    seam_put32(out + 32, in->events);
    seam_put32(out + 36, in->prev);
    seam_put64(out + 40, in->state);
    in->chain = group_chain(out, end);
    seam_put32(out + 48, in->chain);
    seam_put32(out + end, seam_crc32c(0, out, end));
}

int seam_fmt_group_read(uint64_t number, struct seam_slice value, struct seam_fmt_group *ret,
                        struct seam_err *err)
{
    const uint8_t *p = value.ptr;
    if (value.len < SEAM_FMT_GROUP_MIN || p[0] != MAGIC_GROUP ||
        seam_get32(p + value.len - 4) != seam_crc32c(0, p, value.len - 4))
        return seam_fail(err, SEAM_E_CORRUPT, "group record %llu is damaged",
                         (unsigned long long)number);
    int rc = check_version(p[1], seam_get16(p + 2), "a group record", err);
    if (rc != SEAM_OK)
        return rc;
    size_t room = value.len - SEAM_FMT_GROUP_MIN;
    ret->streams = seam_get32(p + 4);
    ret->number = seam_get64(p + 8);
    ret->epoch = seam_get64(p + 16);
    ret->time_ns = seam_get64(p + 24);
    ret->events = seam_get32(p + 32);
    ret->prev = seam_get32(p + 36);
    ret->state = seam_get64(p + 40);
    ret->chain = seam_get32(p + 48);
    if (room % SEAM_FMT_GROUP_ENTRY != 0 || room / SEAM_FMT_GROUP_ENTRY != ret->streams ||
        ret->number != number || ret->chain != group_chain(p, value.len - 4))
        return seam_fail(err, SEAM_E_CORRUPT, "group record %llu is another's, or cut",
                         (unsigned long long)number);
    return SEAM_OK;
}

void seam_fmt_group_entry_read(struct seam_slice value, size_t index,
                               struct seam_fmt_group_entry *ret)
{
    assert(seam_fmt_group_size(index + 1) <= value.len);
    const uint8_t *p = value.ptr;
    p += SEAM_FMT_GROUP_HEAD + index * SEAM_FMT_GROUP_ENTRY;
    ret->stream = seam_get32(p);
    ret->crc = seam_get32(p + 4);
    ret->last = seam_get64(p + 8);
}

/* ---- the witness ------------------------------------------------------------------------- */

void seam_fmt_witness_write(uint8_t out[SEAM_FMT_WITNESS], const struct seam_fmt_witness *in)
{
    memcpy(out, magic_witness, 8);
    seam_put16(out + 8, SEAM_FMT_VERSION);
    seam_put16(out + 10, 0);
    seam_put32(out + 12, in->chain);
    memcpy(out + 16, in->uuid, 16);
    seam_put64(out + 32, in->epoch);
    seam_put64(out + 40, in->group);
    seam_put32(out + 48, 0);
    seam_put32(out + 52, seam_crc32c(0, out, 52));
}

int seam_fmt_witness_read(const uint8_t p[SEAM_FMT_WITNESS], struct seam_fmt_witness *ret,
                          struct seam_err *err)
{
    if (memcmp(p, magic_witness, 8) != 0 || seam_get32(p + 52) != seam_crc32c(0, p, 52))
        return seam_fail(err, SEAM_E_CORRUPT, "a slot of the witness is damaged");
    int rc = check_version(seam_get16(p + 8), seam_get16(p + 10), "the witness", err);
    if (rc != SEAM_OK)
        return rc;
    ret->chain = seam_get32(p + 12);
    memcpy(ret->uuid, p + 16, 16);
    ret->epoch = seam_get64(p + 32);
    ret->group = seam_get64(p + 40);
    return SEAM_OK;
}

/* ---- projections ------------------------------------------------------------------------- */

size_t seam_fmt_meta_write(uint8_t out[SEAM_FMT_META_MAX], const struct seam_fmt_meta *in)
{
    assert(in->stream.len <= SEAM_STREAM_NAME_MAX);
    memcpy(out, magic_projection, 8);
    seam_put16(out + 8, SEAM_FMT_VERSION);
    seam_put16(out + 10, 0);
    seam_put32(out + 12, in->generation);
    memcpy(out + 16, in->journal, 16);
    seam_put64(out + 32, in->position.epoch);
    seam_put64(out + 40, in->position.sequence);
    seam_put32(out + 48, in->position.crc);
    seam_put32(out + 52, in->position.part);
    seam_put32(out + 56, in->position.parts);
    seam_put32(out + 60, in->unit_crc);
    seam_put64(out + 64, in->unit_ops);
    seam_put32(out + 72, in->building ? 1 : 0);
    seam_put32(out + 76, (uint32_t)in->stream.len);
    seam_copy(out + SEAM_FMT_META_HEAD, in->stream);
    size_t end = SEAM_FMT_META_HEAD + in->stream.len;
    seam_put32(out + end, seam_crc32c(0, out, end));
    return end + 4;
}

int seam_fmt_meta_read(struct seam_slice value, struct seam_fmt_meta *ret, struct seam_err *err)
{
    const uint8_t *p = value.ptr;
    if (value.len < SEAM_FMT_META_HEAD + 4 || memcmp(p, magic_projection, 8) != 0 ||
        seam_get32(p + value.len - 4) != seam_crc32c(0, p, value.len - 4))
        return seam_fail(err, SEAM_E_CORRUPT, "the projection's record is damaged");
    int rc = check_version(seam_get16(p + 8), seam_get16(p + 10), "the projection", err);
    if (rc != SEAM_OK)
        return rc;
    size_t len = seam_get32(p + 76);
    if (len != value.len - SEAM_FMT_META_HEAD - 4 || len > SEAM_STREAM_NAME_MAX)
        return seam_fail(err, SEAM_E_CORRUPT, "the projection's record is not as long as it says");
    ret->generation = seam_get32(p + 12);
    memcpy(ret->journal, p + 16, 16);
    ret->position.epoch = seam_get64(p + 32);
    ret->position.sequence = seam_get64(p + 40);
    ret->position.part = seam_get32(p + 52);
    ret->position.parts = seam_get32(p + 56);
    ret->unit_crc = seam_get32(p + 60);
    ret->unit_ops = seam_get64(p + 64);
    ret->building = seam_get32(p + 72) == 1;
    if (seam_get32(p + 72) > 1)
        return seam_fail(err, SEAM_E_CORRUPT, "the projection's record is of an impossible kind");
    if (ret->position.parts > 0 && ret->position.part >= ret->position.parts)
        return seam_fail(err, SEAM_E_CORRUPT, "the projection's record has an impossible part");
    ret->position.crc = seam_get32(p + 48);
    ret->stream = seam_bytes(p + SEAM_FMT_META_HEAD, len);
    return SEAM_OK;
}

void seam_fmt_sweep_write(uint8_t out[SEAM_FMT_SWEEP])
{
    memcpy(out, magic_sweep, 8);
    seam_put16(out + 8, SEAM_FMT_VERSION);
    seam_put16(out + 10, 0);
    seam_put32(out + 12, seam_crc32c(0, out, 12));
}

int seam_fmt_sweep_read(struct seam_slice value, struct seam_err *err)
{
    const uint8_t *p = value.ptr;
    if (value.len != SEAM_FMT_SWEEP || memcmp(p, magic_sweep, 8) != 0 ||
        seam_get32(p + 12) != seam_crc32c(0, p, 12))
        return seam_fail(err, SEAM_E_CORRUPT, "the projection's sweep record is damaged");
    return check_version(seam_get16(p + 8), seam_get16(p + 10), "the projection", err);
}
