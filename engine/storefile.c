/* storefile.c - STORE and EPOCH, byte for byte.
 *
 * Relies on seam_crc32c. Keeps true: what is accepted is exactly what would be written, so every
 * flipped, missing or added byte is noticed; no length is taken from a file before it was checked.
 *
 * STORE is text, "name=value" lines in a fixed order:
 *     seam-store 1
 *     kind=db
 *     engine=NAME
 *     format=N
 *     uuid=32 hex digits
 *     created=N
 *     crc=8 hex digits, the CRC-32C of everything before this line
 * Later versions keep the first word and the last line, so that this one can name them. */
#include "storefile.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CRC_LINE 13u /* "crc=xxxxxxxx\n" */

static size_t append_crc(char *buf, size_t len)
{
    uint32_t crc = seam_crc32c(0, buf, len);
    (void)snprintf(buf + len, CRC_LINE + 1, "crc=%08" PRIx32 "\n", crc);
    return len + CRC_LINE;
}

size_t seam_storefile_text(const struct seam_storefile *store, char *buf)
{
    char hex[33];
    for (size_t i = 0; i < 16; i++)
        (void)snprintf(hex + 2 * i, 3, "%02x", store->uuid[i]);
    int n = snprintf(buf, SEAM_STOREFILE_MAX - CRC_LINE,
                     "seam-store 1\nkind=db\nengine=%s\nformat=%" PRIu32
                     "\nuuid=%s\ncreated=%" PRIu64 "\n",
                     store->engine, store->format, hex, store->created);
    assert(n > 0 && (unsigned)n < SEAM_STOREFILE_MAX - CRC_LINE);
    return append_crc(buf, (size_t)n);
}

/* Takes "NAME=" and what follows to the end of the line; returns the value's length, or -1. */
static ptrdiff_t take_line(const char **at, const char *end, const char *name, const char **ret)
{
    size_t len = strlen(name);
    if ((size_t)(end - *at) < len || memcmp(*at, name, len) != 0)
        return -1;
    const char *value = *at + len;
    const char *stop = memchr(value, '\n', (size_t)(end - value));
    if (!stop)
        return -1;
    *at = stop + 1;
    *ret = value;
    return stop - value;
}

/* Digits only; the caller's comparison of the whole text refuses leading zeros. */
static bool take_number(const char *digits, ptrdiff_t len, uint64_t most, uint64_t *ret)
{
    uint64_t value = 0;
    if (len < 1 || len > 20)
        return false;
    for (ptrdiff_t i = 0; i < len; i++) {
        if (digits[i] < '0' || digits[i] > '9')
            return false;
        uint64_t digit = (uint64_t)(digits[i] - '0');
        if (value > (most - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *ret = value;
    return true;
}

static bool take_name(const char *text, ptrdiff_t len, char *ret)
{
    if (len < 1 || len > (ptrdiff_t)SEAM_STOREFILE_NAME_MAX)
        return false;
    for (ptrdiff_t i = 0; i < len; i++)
        if (!((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= '0' && text[i] <= '9') ||
              text[i] == '_'))
            return false;
    memcpy(ret, text, (size_t)len);
    ret[len] = 0;
    return true;
}

static bool take_uuid(const char *hex, ptrdiff_t len, uint8_t *ret)
{
    static const char digits[] = "0123456789abcdef";
    if (len != 32)
        return false;
    for (size_t i = 0; i < 32; i++) {
        const char *digit = hex[i] ? strchr(digits, hex[i]) : NULL;
        if (!digit)
            return false;
        unsigned value = (unsigned)(digit - digits);
        ret[i / 2] = (uint8_t)(i % 2 == 0 ? value << 4 : ret[i / 2] | value);
    }
    return true;
}

static int corrupt(const char *dir, struct seam_err *err, const char *what)
{
    return seam_fail(err, SEAM_E_CORRUPT, "%s/STORE %s: restore it from a copy", dir, what);
}

/* The lines between the first and the crc. */
static bool parse_lines(const char *at, const char *end, struct seam_storefile *store,
                        const char **ret_kind, ptrdiff_t *ret_kind_len)
{
    const char *value;
    uint64_t format = 0;
    ptrdiff_t len = take_line(&at, end, "kind=", &value);
    if (len < 0)
        return false;
    *ret_kind = value;
    *ret_kind_len = len;
    len = take_line(&at, end, "engine=", &value);
    if (len < 0 || !take_name(value, len, store->engine))
        return false;
    len = take_line(&at, end, "format=", &value);
    if (len < 0 || !take_number(value, len, UINT32_MAX, &format))
        return false;
    store->format = (uint32_t)format;
    len = take_line(&at, end, "uuid=", &value);
    if (len < 0 || !take_uuid(value, len, store->uuid))
        return false;
    len = take_line(&at, end, "created=", &value);
    return len >= 0 && take_number(value, len, UINT64_MAX, &store->created) && at == end;
}

int seam_storefile_parse(const char *text, size_t len, const char *dir, struct seam_storefile *ret,
                         struct seam_err *err)
{
    char again[SEAM_STOREFILE_MAX];
    struct seam_storefile store;
    memset(&store, 0, sizeof store);
    if (len <= CRC_LINE || len > SEAM_STOREFILE_MAX)
        return corrupt(dir, err, "has not the size it must have");
    memcpy(again, text, len - CRC_LINE);
    if (append_crc(again, len - CRC_LINE) != len || memcmp(again, text, len) != 0)
        return corrupt(dir, err, "is damaged: its checksum is wrong");
    const char *at = text, *end = text + len - CRC_LINE, *value;
    uint64_t version = 0;
    ptrdiff_t n = take_line(&at, end, "seam-store ", &value);
    if (n < 0 || !take_number(value, n, UINT64_MAX, &version))
        return corrupt(dir, err, "does not begin as it must");
    if (version != 1)
        return seam_fail(err, SEAM_E_MISMATCH,
                         "%s/STORE is of version %" PRIu64 ", this library reads version 1", dir,
                         version);
    const char *kind = NULL;
    if (!parse_lines(at, end, &store, &kind, &n)) {
        if (kind && !(n == 2 && memcmp(kind, "db", 2) == 0))
            return seam_fail(err, SEAM_E_MISMATCH, "%s is a store of kind %.*s, not of kind db",
                             dir, n < 32 ? (int)n : 32, kind);
        return corrupt(dir, err, "holds a line that it must not hold");
    }
    if (n != 2 || memcmp(kind, "db", 2) != 0)
        return seam_fail(err, SEAM_E_MISMATCH, "%s is a store of kind %.*s, not of kind db", dir,
                         n < 32 ? (int)n : 32, kind);
    if (seam_storefile_text(&store, again) != len || memcmp(again, text, len) != 0)
        return corrupt(dir, err, "holds a line that is not written as it must be");
    *ret = store;
    return SEAM_OK;
}

int seam_storefile_read(const struct seam_platform *os, int fd_dir, const char *dir,
                        struct seam_storefile *ret, struct seam_err *err)
{
    char text[SEAM_STOREFILE_MAX];
    struct seam_file_info info;
    int fd = os->open(os->ctx, fd_dir, "STORE", SEAM_FILE_READ);
    if (fd == -ENOENT || fd == -EMLINK || fd == -ELOOP || fd == -EISDIR || fd == -ENXIO)
        return corrupt(dir, err, fd == -ENOENT ? "is missing" : "is no plain file of one name");
    if (fd < 0)
        return seam_fail_os(err, -fd, "cannot open %s/STORE", dir);
    int rc = os->stat(os->ctx, fd, "", &info);
    bool size_ok = rc >= 0 && info.size > 0 && info.size <= SEAM_STOREFILE_MAX;
    if (size_ok)
        rc = seam_read_all(os, fd, text, (size_t)info.size, 0);
    (void)os->close(os->ctx, fd);
    if (rc < 0)
        return seam_fail_os(err, -rc, "cannot read %s/STORE", dir);
    if (!size_ok)
        return corrupt(dir, err, "has not the size it must have");
    return seam_storefile_parse(text, (size_t)info.size, dir, ret, err);
}

/* ---- EPOCH ------------------------------------------------------------------------------- */

/* A slot: magic 8, uuid 16, epoch 8 (little endian), zeros to 4092, CRC-32C of those 4092 bytes. */
static const char slot_magic[8] = {'s', 'e', 'a', 'm', 'e', 'p', 'o', '1'};
#define SLOT_CRC_AT (SEAM_EPOCH_BLOCK - 4u)

static void encode_slot(uint8_t *block, uint64_t epoch, const uint8_t *uuid)
{
    memset(block, 0, SEAM_EPOCH_BLOCK);
    memcpy(block, slot_magic, 8);
    memcpy(block + 8, uuid, 16);
    for (unsigned i = 0; i < 8; i++)
        block[24 + i] = (uint8_t)(epoch >> (8 * i));
    uint32_t crc = seam_crc32c(0, block, SLOT_CRC_AT);
    for (unsigned i = 0; i < 4; i++)
        block[SLOT_CRC_AT + i] = (uint8_t)(crc >> (8 * i));
}

/* Valid if it is what encode_slot would make of the numbers in it. */
static bool decode_slot(const uint8_t *block, const uint8_t *uuid, uint64_t *ret_epoch)
{
    uint8_t again[SEAM_EPOCH_BLOCK];
    uint64_t epoch = 0;
    for (unsigned i = 0; i < 8; i++)
        epoch |= (uint64_t)block[24 + i] << (8 * i);
    encode_slot(again, epoch, uuid ? uuid : block + 8);
    if (epoch > UINT64_MAX - 4 || memcmp(again, block, SEAM_EPOCH_BLOCK) != 0)
        return false;
    *ret_epoch = epoch;
    return true;
}

int seam_epochfile_read(const struct seam_platform *os, int fd, const char *dir,
                        const uint8_t *uuid, struct seam_epochfile *ret, struct seam_err *err)
{
    uint8_t block[SEAM_EPOCH_BLOCK];
    struct seam_file_info info;
    uint64_t epoch[2] = {0, 0};
    bool good[2] = {false, false};
    int rc = os->stat(os->ctx, fd, "", &info);
    for (unsigned i = 0; i < 2 && rc >= 0; i++) {
        if (info.size < (i + 1) * (uint64_t)SEAM_EPOCH_BLOCK)
            break;
        rc = seam_read_all(os, fd, block, sizeof block, i * (uint64_t)SEAM_EPOCH_BLOCK);
        good[i] = rc >= 0 && decode_slot(block, uuid, &epoch[i]);
    }
    if (rc < 0)
        return seam_fail_os(err, -rc, "cannot read %s/EPOCH", dir);
    if (info.size != 2 * SEAM_EPOCH_BLOCK || (!good[0] && !good[1]))
        return seam_fail(err, SEAM_E_CORRUPT,
                         "%s/EPOCH is damaged or another store's: restore it from a copy", dir);
    ret->slot = good[1] && (!good[0] || epoch[1] > epoch[0]) ? 1 : 0;
    ret->epoch = epoch[ret->slot];
    /* A bad slot is an epoch that was being written, or one that was told and went bad since. */
    ret->next = ret->epoch + (good[0] && good[1] ? 1 : 2);
    return SEAM_OK;
}

int seam_epochfile_write(const struct seam_platform *os, int fd, unsigned slot, uint64_t epoch,
                         const uint8_t *uuid)
{
    uint8_t block[SEAM_EPOCH_BLOCK];
    struct iovec part = {block, sizeof block};
    encode_slot(block, epoch, uuid);
    return seam_write_all(os, fd, &part, 1, slot * (uint64_t)SEAM_EPOCH_BLOCK);
}
