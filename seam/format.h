/* format.h - the bytes of journal and projections: keys, records, and what is checked in them.
 *
 * Relies on the contract's key order (memcmp) and on seam_crc32c. docs/journal-format.md tells the
 * same as byte tables; golden bytes in the tests hold both.
 * Keeps true: integers in keys are big-endian, so that they sort; in values little-endian. Every
 * length is checked before use, every record is as long as it says and carries a CRC over
 * itself. */
#ifndef SEAM_ROOM_FORMAT_H
#define SEAM_ROOM_FORMAT_H

#include <seam/journal.h>
#include <seam/projection.h>

#include <string.h>

#define SEAM_FMT_VERSION 1u

enum { /* the byte after the prefix */
       SEAM_TAG_JOURNAL = 'J',
       SEAM_TAG_STREAM = 'C',
       SEAM_TAG_EVENT = 'E',
       SEAM_TAG_GROUP = 'G',
       SEAM_TAG_PROJECTION = 'P',
       SEAM_TAG_META = 'M', /* these four after the projection's name */
       SEAM_TAG_BUILD = 'B',
       SEAM_TAG_SWEEP = 'S',
       SEAM_TAG_TABLE = 'T'
};

enum {
    SEAM_FMT_EVENT_KEY = 13, /* without the prefix */
    SEAM_FMT_GROUP_KEY = 9,
    SEAM_FMT_ENVELOPE = 52,
    SEAM_FMT_GROUP_HEAD = 52, /* then entries, then a CRC */
    SEAM_FMT_GROUP_ENTRY = 16,
    SEAM_FMT_GROUP_MIN = SEAM_FMT_GROUP_HEAD + 4,
    SEAM_FMT_JOURNAL = 48,
    SEAM_FMT_STREAM = 32,
    SEAM_FMT_META_HEAD = 80, /* then the stream's name, then a CRC */
    SEAM_FMT_META_MAX = SEAM_FMT_META_HEAD + SEAM_STREAM_NAME_MAX + 4,
    SEAM_FMT_SWEEP = 16,
    SEAM_FMT_KEY_MAX = SEAM_JOURNAL_PREFIX_MAX + 1 + SEAM_STREAM_NAME_MAX, /* the longest of ours */
    SEAM_FMT_TABLE_MAX = SEAM_JOURNAL_PREFIX_MAX + 2 + SEAM_PROJECTION_NAME_MAX + 5
};

/* A key under construction. */
struct seam_fmt_key {
    size_t len;
    uint8_t bytes[SEAM_FMT_KEY_MAX + 16];
};

static inline void seam_put16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static inline void seam_put32(uint8_t *p, uint32_t v)
{
    seam_put16(p, (uint16_t)v);
    seam_put16(p + 2, (uint16_t)(v >> 16));
}

static inline void seam_put64(uint8_t *p, uint64_t v)
{
    seam_put32(p, (uint32_t)v);
    seam_put32(p + 4, (uint32_t)(v >> 32));
}

static inline uint16_t seam_get16(const uint8_t *p)
{
    return (uint16_t)(p[0] | (unsigned)p[1] << 8);
}

static inline uint32_t seam_get32(const uint8_t *p)
{
    return (uint32_t)seam_get16(p) | (uint32_t)seam_get16(p + 2) << 16;
}

static inline uint64_t seam_get64(const uint8_t *p)
{
    return (uint64_t)seam_get32(p) | (uint64_t)seam_get32(p + 4) << 32;
}

static inline void seam_put32_be(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)(v >> 24);
    p[1] = (uint8_t)(v >> 16);
    p[2] = (uint8_t)(v >> 8);
    p[3] = (uint8_t)v;
}

static inline void seam_put64_be(uint8_t *p, uint64_t v)
{
    seam_put32_be(p, (uint32_t)(v >> 32));
    seam_put32_be(p + 4, (uint32_t)v);
}

static inline uint32_t seam_get32_be(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline uint64_t seam_get64_be(const uint8_t *p)
{
    return (uint64_t)seam_get32_be(p) << 32 | seam_get32_be(p + 4);
}

/* memcpy that takes {NULL, 0}. */
static inline void seam_copy(void *to, struct seam_slice from)
{
    if (from.len > 0)
        memcpy(to, from.ptr, from.len);
}

static inline struct seam_slice seam_fmt_slice(const struct seam_fmt_key *key)
{
    return seam_bytes(key->bytes, key->len);
}

/* key := prefix, tag. */
void seam_fmt_begin(struct seam_fmt_key *key, struct seam_slice prefix, uint8_t tag);
void seam_fmt_add(struct seam_fmt_key *key, struct seam_slice bytes);
void seam_fmt_add32(struct seam_fmt_key *key, uint32_t v);
void seam_fmt_add64(struct seam_fmt_key *key, uint64_t v);

/* ---- the journal's own record ------------------------------------------------------------ */

struct seam_fmt_journal {
    uint8_t uuid[16];
    uint64_t first_group; /* oldest group record still there */
    bool witness;         /* a WITNESS file has been made */
};

void seam_fmt_journal_write(uint8_t out[SEAM_FMT_JOURNAL], const struct seam_fmt_journal *in);
int seam_fmt_journal_read(struct seam_slice value, struct seam_fmt_journal *ret,
                          struct seam_err *err);

/* ---- catalogue: name -> stream ----------------------------------------------------------- */

struct seam_fmt_stream {
    uint32_t stream;
    uint64_t first;    /* oldest sequence still there */
    uint64_t base;     /* payload bytes of the stream before `first` */
    uint32_t base_crc; /* record CRC of first - 1; of stream 1, sequence 0: the seed */
};

/* What the first event of a stream has for the CRC of the one before it. */
uint32_t seam_fmt_seed(const uint8_t uuid[16], uint32_t stream);
void seam_fmt_stream_write(uint8_t out[SEAM_FMT_STREAM], struct seam_slice name,
                           const struct seam_fmt_stream *in);
int seam_fmt_stream_read(struct seam_slice name, struct seam_slice value,
                         struct seam_fmt_stream *ret, struct seam_err *err);

/* ---- events ------------------------------------------------------------------------------ */

struct seam_fmt_event {
    uint32_t stream, length, prev, crc;
    uint64_t sequence, time_ns, group;
    uint64_t offset; /* payload bytes of the stream before this event */
};

/* Fills the envelope and in->crc. payload_crc: seam_crc32c(0, payload). */
void seam_fmt_event_write(uint8_t out[SEAM_FMT_ENVELOPE], uint32_t payload_crc,
                          struct seam_fmt_event *in);
/* Checks all but the chain: that the value is event `sequence` of `stream`, whole. */
int seam_fmt_event_read(uint32_t stream, uint64_t sequence, struct seam_slice value,
                        struct seam_fmt_event *ret, struct seam_slice *ret_data,
                        struct seam_err *err);

/* ---- group records ----------------------------------------------------------------------- */

struct seam_fmt_group {
    uint32_t streams, events, prev, chain;
    uint64_t number, epoch, time_ns;
    uint64_t state; /* of all streams: seam_fmt_end of each one's end, added up by xor */
};

struct seam_fmt_group_entry {
    uint32_t stream, crc;
    uint64_t last;
};

static inline size_t seam_fmt_group_size(size_t streams)
{
    return SEAM_FMT_GROUP_MIN + streams * SEAM_FMT_GROUP_ENTRY;
}

/* One stream's share in a group record's state: a stream that lost its newest events changes it. */
uint64_t seam_fmt_end(const struct seam_fmt_group_entry *end);
/* Entries are written by their index, then the head and the closing CRC; in->chain is filled. The
 * chain covers prev and the entries, and each entry's CRC covers its stream's events by their own
 * chain: so the newest record's chain speaks for the whole journal. */
void seam_fmt_group_entry_write(uint8_t *out, size_t index, const struct seam_fmt_group_entry *in);
void seam_fmt_group_write(uint8_t *out, struct seam_fmt_group *in);
int seam_fmt_group_read(uint64_t number, struct seam_slice value, struct seam_fmt_group *ret,
                        struct seam_err *err);
void seam_fmt_group_entry_read(struct seam_slice value, size_t index,
                               struct seam_fmt_group_entry *ret);

/* ---- the witness ------------------------------------------------------------------------- */

enum { SEAM_FMT_WITNESS = 56, SEAM_WITNESS_BLOCK = 4096 }; /* two slots, each in a block */

struct seam_fmt_witness {
    uint8_t uuid[16];
    uint64_t epoch, group;
    uint32_t chain;
};

void seam_fmt_witness_write(uint8_t out[SEAM_FMT_WITNESS], const struct seam_fmt_witness *in);
/* A slot that is damaged or was never written: E_CORRUPT. */
int seam_fmt_witness_read(const uint8_t p[SEAM_FMT_WITNESS], struct seam_fmt_witness *ret,
                          struct seam_err *err);

/* ---- projections ------------------------------------------------------------------------- */

struct seam_fmt_meta {
    uint32_t generation; /* the table that it speaks for */
    bool building;       /* which nobody reads yet */
    uint8_t journal[16]; /* zeros: fed from none */
    struct seam_position position;
    uint64_t unit_ops;        /* inside a unit: so many of its ops are applied */
    uint32_t unit_crc;        /* inside a unit: its event's record CRC */
    struct seam_slice stream; /* name; read: points into the value */
};

size_t seam_fmt_meta_write(uint8_t out[SEAM_FMT_META_MAX], const struct seam_fmt_meta *in);
int seam_fmt_meta_read(struct seam_slice value, struct seam_fmt_meta *ret, struct seam_err *err);
/* Says only that it is there. */
void seam_fmt_sweep_write(uint8_t out[SEAM_FMT_SWEEP]);
int seam_fmt_sweep_read(struct seam_slice value, struct seam_err *err);

#endif
