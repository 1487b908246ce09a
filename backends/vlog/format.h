/* format.h - the bytes of a segment; docs/vlog-format.md has the same as tables.
 *
 * All numbers are little-endian. A segment file is a header of one block, then frames, each at a
 * multiple of 8. The checksum of a frame's header begins with the store's uuid, the segment's id
 * and the frame's offset, so that a frame of another store, of another life of the same file, or at
 * another place, never verifies. */
#ifndef VLOG_FORMAT_H
#define VLOG_FORMAT_H

#include <seam/backend.h>

#define VLOG_BLOCK 4096u
#define VLOG_HEADER_USED 128u
#define VLOG_FRAME 64u
#define VLOG_OP 12u        /* of an op in the index section, without key and value */
#define VLOG_SEGMENT_MAX (UINT64_C(2) << 30)
#define VLOG_VALUE_MAX (UINT64_C(256) << 20)
#define VLOG_BYTES_MAX (UINT64_C(1) << 30)
#define VLOG_OPS_MAX (UINT64_C(8) << 20)
#define VLOG_KEY_MAX 65535u
#define VLOG_FRAME_MAX (UINT64_C(3) << 29) /* of one commit; below VLOG_SEGMENT_MAX */

enum vlog_kind {
    VLOG_COMMIT = 1, /* one commit, whole */
    VLOG_PAD,        /* nothing: up to where the next write begins */
    VLOG_TRAILER,    /* the segment ends here; `extra` tells the next one's file */
    VLOG_BEACON      /* nothing but its mark */
};

struct vlog_header {
    uint8_t uuid[16];
    uint64_t id;       /* place in the log, from 1; 0: a spare that belongs nowhere yet */
    uint64_t size;     /* of the file */
    uint64_t prev_end; /* where the frames of segment id - 1 end that count; its trailer is there */
    uint64_t oldest;   /* id of the first segment that counts */
    uint64_t epoch;    /* of the open that made it */
    uint64_t seq;      /* of the last commit before it */
    uint64_t durable;  /* all before this offset was flushed before the header was written */
    uint32_t number;   /* of the file, as in its name */
};

struct vlog_frame {
    uint32_t crc;      /* of the seed and the header's bytes 4 to 63 */
    uint32_t total;    /* bytes up to the next frame, a multiple of 8 */
    uint16_t magic;
    uint8_t kind, flags;
    uint32_t body_crc; /* of the index section */
    uint64_t seq;      /* COMMIT: its number; others: of the last commit before */
    uint32_t index;    /* length of the index section, which follows the header */
    uint32_t ops;
    uint32_t durable;  /* all before this offset was flushed before this was written */
    uint32_t prev;     /* crc of the frame before in this segment, or 0 */
    uint64_t oldest;   /* id of the first segment that counts */
    uint64_t extra;
};

/* One op of an index section. A large value is not in it but behind it, in order of ops. */
struct vlog_record {
    enum seam_kind kind;
    bool large;
    struct seam_slice key, value; /* value: of the range's end for DELETE_RANGE; large: ptr NULL */
    uint32_t crc;                 /* of a large value */
};

void vlog_header_encode(const struct vlog_header *h, unsigned char *to /* VLOG_BLOCK */);
/* False unless magic, version and checksum are right. */
bool vlog_header_decode(const unsigned char *from, struct vlog_header *ret);

/* The part of the seed that is the same for all frames of a segment. */
uint32_t vlog_seed(const uint8_t *uuid, uint64_t id);
/* Sets f->crc too. */
void vlog_frame_encode(struct vlog_frame *f, uint32_t seed, uint64_t offset, unsigned char *to);
/* False unless the header verifies and its lengths fit below `end`. */
bool vlog_frame_decode(const unsigned char *from, uint32_t seed, uint64_t offset, uint64_t end,
                       struct vlog_frame *ret);

/* Appends one op at `to`; returns the bytes used. */
size_t vlog_record_encode(const struct seam_op *op, bool large, uint32_t crc, unsigned char *to);
/* Reads the op at *at and moves *at on; false if it does not fit in len. */
bool vlog_record_decode(const unsigned char *index, size_t len, size_t *at,
                        struct vlog_record *ret);

static inline uint64_t vlog_round(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

#endif
