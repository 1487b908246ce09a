/* rawlog_format.h - the bytes of DIR/rawlog, for its writer and its reader.
 *
 * A 4 KiB head, then the ring. A group is what one flush made durable: frames behind each other, at
 * 8-byte boundaries, the first at a boundary of 512 bytes at least. No group crosses the end of the
 * ring: the next begins a new lap at its start. A frame holds one append: this header, the lengths
 * of its messages (32 bits each), their bytes, zeros up to 8. Numbers are the machine's.
 *
 * A frame is valid only where it was put, in its lap: crc is seeded with (salt, place), seq goes on
 * from frame to frame without holes, and session, which grows at each open, never goes back. So the
 * rest of an older lap, or of a group that was torn, is never read as a continuation. */
#ifndef SEAM_BENCH_RAWLOG_FORMAT_H
#define SEAM_BENCH_RAWLOG_FORMAT_H

#include <seam/backend.h>
#include <seam/platform.h>

#include "rails.h"

#include <string.h>

#define RAWLOG_NAME "rawlog"
#define RAWLOG_MAGIC UINT64_C(0x31676f6c77617273) /* "srawlog1" */

enum {
    RAWLOG_HEAD = 4096,  /* bytes before the ring */
    RAWLOG_LARGE = 4096, /* where a buffered group begins and ends: whole pages, none half read */
    RAWLOG_FRAME = 32
};

struct rawlog_head {
    uint64_t magic, salt, region;
    uint32_t block; /* 512 or 4096: small groups begin at its multiples */
    uint32_t crc;   /* of the fields before it */
};

struct rawlog_frame {
    uint32_t crc;      /* of the fields below, seeded */
    uint32_t body_crc; /* of lengths and messages */
    uint32_t lap, session;
    uint32_t n;    /* messages */
    uint32_t body; /* bytes of lengths and messages */
    uint64_t seq;  /* of the first message */
};

_Static_assert(sizeof(struct rawlog_frame) == RAWLOG_FRAME, "no padding");

/* Where the next group goes. */
struct rawlog_tail {
    uint64_t pos, seq;
    uint32_t lap, session;
};

static inline uint64_t rawlog_round(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

static inline uint32_t rawlog_frame_crc(const struct rawlog_frame *frame, uint64_t salt,
                                        uint64_t pos)
{
    const uint64_t seed[2] = {salt, pos};

    return seam_crc32c(seam_crc32c(0, seed, sizeof seed), (const char *)frame + 4,
                       RAWLOG_FRAME - 4);
}

static inline uint32_t rawlog_head_crc(const struct rawlog_head *head)
{
    return seam_crc32c(0, head, offsetof(struct rawlog_head, crc));
}

/* Reads the head of an open file of `size` bytes. E_CORRUPT if it is none. */
int seam_rawlog_head_read(const struct seam_platform *os, int fd, uint64_t size,
                          struct rawlog_head *ret, struct seam_err *err);

/* Walks ring[0..head->region), calls fn (which may be NULL) as seam_rawlog_scan does, and tells
 * where to go on writing. */
int seam_rawlog_walk(const struct rawlog_head *head, const unsigned char *ring, seam_rawlog_fn fn,
                     void *arg, struct rawlog_tail *ret);

#endif
