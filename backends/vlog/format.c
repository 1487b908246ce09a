/* format.c - see format.h. Relies on nothing but the checksum; every length read is checked. */
#include "format.h"

#include <string.h>

#define HEADER_VERSION 1u
#define FRAME_MAGIC 0x7653u

static const unsigned char header_magic[8] = {'S', 'e', 'a', 'm', 'V', 'l', 'o', 'g'};

static void put16(unsigned char *to, uint16_t x)
{
    to[0] = (unsigned char)x;
    to[1] = (unsigned char)(x >> 8);
}

static void put32(unsigned char *to, uint32_t x)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(x >> (8 * i));
}

static void put64(unsigned char *to, uint64_t x)
{
    put32(to, (uint32_t)x);
    put32(to + 4, (uint32_t)(x >> 32));
}

static uint16_t get16(const unsigned char *from)
{
    return (uint16_t)(from[0] | from[1] << 8);
}

static uint32_t get32(const unsigned char *from)
{
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 |
           (uint32_t)from[3] << 24;
}

static uint64_t get64(const unsigned char *from)
{
    return get32(from) | (uint64_t)get32(from + 4) << 32;
}

/* ---- segment header ------------------------------------------------------------------------- */

void vlog_header_encode(const struct vlog_header *h, unsigned char *to)
{
    memset(to, 0, VLOG_BLOCK);
    memcpy(to, header_magic, 8);
    put32(to + 8, HEADER_VERSION);
    put32(to + 12, h->number);
    memcpy(to + 16, h->uuid, 16);
    put64(to + 32, h->id);
    put64(to + 40, h->size);
    put64(to + 48, h->prev_end);
    put64(to + 56, h->oldest);
    put64(to + 64, h->epoch);
    put64(to + 72, h->seq);
    put64(to + 80, h->durable);
    put32(to + VLOG_HEADER_USED - 4, seam_crc32c(0, to, VLOG_HEADER_USED - 4));
}

bool vlog_header_decode(const unsigned char *from, struct vlog_header *ret)
{
    if (memcmp(from, header_magic, 8) != 0 || get32(from + 8) != HEADER_VERSION ||
        get32(from + VLOG_HEADER_USED - 4) != seam_crc32c(0, from, VLOG_HEADER_USED - 4))
        return false;
    ret->number = get32(from + 12);
    memcpy(ret->uuid, from + 16, 16);
    ret->id = get64(from + 32);
    ret->size = get64(from + 40);
    ret->prev_end = get64(from + 48);
    ret->oldest = get64(from + 56);
    ret->epoch = get64(from + 64);
    ret->seq = get64(from + 72);
    ret->durable = get64(from + 80);
    return true;
}

/* ---- frames --------------------------------------------------------------------------------- */

uint32_t vlog_seed(const uint8_t *uuid, uint64_t id)
{
    unsigned char bytes[24];
    memcpy(bytes, uuid, 16);
    put64(bytes + 16, id);
    return seam_crc32c(0, bytes, sizeof bytes);
}

static uint32_t frame_crc(const unsigned char *frame, uint32_t seed, uint64_t offset)
{
    unsigned char bytes[8];
    put64(bytes, offset);
    return seam_crc32c(seam_crc32c(seed, bytes, 8), frame + 4, VLOG_FRAME - 4);
}

void vlog_frame_encode(struct vlog_frame *f, uint32_t seed, uint64_t offset, unsigned char *to)
{
    f->magic = FRAME_MAGIC;
    put32(to + 4, f->total);
    put16(to + 8, f->magic);
    to[10] = f->kind;
    to[11] = f->flags;
    put32(to + 12, f->body_crc);
    put64(to + 16, f->seq);
    put32(to + 24, f->index);
    put32(to + 28, f->ops);
    put32(to + 32, f->durable);
    put32(to + 36, f->prev);
    put64(to + 40, f->oldest);
    put64(to + 48, f->extra);
    put64(to + 56, 0);
    f->crc = frame_crc(to, seed, offset);
    put32(to, f->crc);
}

bool vlog_frame_decode(const unsigned char *from, uint32_t seed, uint64_t offset, uint64_t end,
                       struct vlog_frame *ret)
{
    struct vlog_frame f;
    f.magic = get16(from + 8);
    f.kind = from[10];
    f.total = get32(from + 4);
    if (f.magic != FRAME_MAGIC || f.kind < VLOG_COMMIT || f.kind > VLOG_BEACON || f.total % 8 != 0 ||
        f.total < VLOG_FRAME || offset > end || f.total > end - offset)
        return false;
    f.crc = get32(from);
    if (f.crc != frame_crc(from, seed, offset))
        return false;
    f.flags = from[11];
    f.body_crc = get32(from + 12);
    f.seq = get64(from + 16);
    f.index = get32(from + 24);
    f.ops = get32(from + 28);
    f.durable = get32(from + 32);
    f.prev = get32(from + 36);
    f.oldest = get64(from + 40);
    f.extra = get64(from + 48);
    if (f.index > f.total - VLOG_FRAME || f.ops > f.index / VLOG_OP)
        return false;
    *ret = f;
    return true;
}

/* ---- ops ------------------------------------------------------------------------------------ */

static size_t append(unsigned char *to, struct seam_slice s)
{
    if (s.len > 0)
        memcpy(to, s.ptr, s.len);
    return s.len;
}

/* kind 1 | flags 1 (1: large) | 2 zero | key length 4 | value length 4 | large: crc 4 | key |
 * value, unless large. A range's end stands as the value; flag 2 says that it has none. */
size_t vlog_record_encode(const struct seam_op *op, bool large, uint32_t crc, unsigned char *to)
{
    size_t at = VLOG_OP;
    to[0] = (unsigned char)op->kind;
    to[1] = large ? 1 : 0;
    if (op->kind == SEAM_DELETE_RANGE && !op->head.ptr)
        to[1] = 2;
    put16(to + 2, 0);
    put32(to + 4, (uint32_t)op->key.len);
    put32(to + 8, (uint32_t)(op->head.len + op->body.len));
    if (large) {
        put32(to + at, crc);
        at += 4;
    }
    at += append(to + at, op->key);
    if (!large) {
        at += append(to + at, op->head);
        at += append(to + at, op->body);
    }
    return at;
}

bool vlog_record_decode(const unsigned char *index, size_t len, size_t *at,
                        struct vlog_record *ret)
{
    if (*at > len || len - *at < VLOG_OP)
        return false;
    const unsigned char *p = index + *at;
    size_t left = len - *at - VLOG_OP, key_len = get32(p + 4), value_len = get32(p + 8);
    if (p[0] < SEAM_PUT || p[0] > SEAM_DELETE_RANGE || p[1] > 2 || key_len < 1 ||
        key_len > VLOG_KEY_MAX || value_len > VLOG_VALUE_MAX)
        return false;
    ret->kind = (enum seam_kind)p[0];
    ret->large = p[1] == 1;
    ret->crc = 0;
    p += VLOG_OP;
    if (ret->large) {
        if (left < 4 || ret->kind != SEAM_PUT)
            return false;
        ret->crc = get32(p);
        p += 4;
        left -= 4;
    }
    if (left < key_len || (!ret->large && left - key_len < value_len))
        return false;
    ret->key = seam_bytes(p, key_len);
    p += key_len;
    ret->value = seam_bytes(ret->large || (index[*at + 1] == 2) ? NULL : p, value_len);
    if (!ret->large)
        p += value_len;
    *at = (size_t)(p - index);
    return true;
}
