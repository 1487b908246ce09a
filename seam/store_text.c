/* store_text.c - the bytes of STORE and MAKING.
 *
 * Relies on seam_crc32c. Keeps true: what is accepted is exactly what would be written, so every
 * flipped, missing or added byte is noticed; no number read is used before it was checked.
 *
 * Both are text, lines in a fixed order (docs/store-format.md):
 *     seam-store 1
 *     kind=store              of MAKING: kind=making
 *     uuid=32 hex digits
 *     created=N
 *     members=N
 *     member=NAME PLACE UUID ENGINE      so many times
 *     crc=8 hex digits, the CRC-32C of everything before this line */
#include "store_int.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CRC_LINE 13u /* "crc=xxxxxxxx\n" */

static const char *const places[] = {"inside", "outside", "shared", "volatile"};

/* ---- writing ----------------------------------------------------------------------------- */

static void hex(const uint8_t *uuid, char *ret)
{
    for (size_t i = 0; i < 16; i++)
        (void)snprintf(ret + 2 * i, 3, "%02x", uuid[i]);
}

static size_t add_crc(char *buf, size_t len)
{
    (void)snprintf(buf + len, CRC_LINE + 1, "crc=%08" PRIx32 "\n", seam_crc32c(0, buf, len));
    return len + CRC_LINE;
}

size_t seam_s_text_write(const struct seam_s_text *in, char *buf)
{
    char id[33];
    size_t room = SEAM_S_TEXT_MAX - CRC_LINE - 1;
    hex(in->uuid, id);
    size_t at = (size_t)snprintf(buf, room,
                                 "seam-store 1\nkind=%s\nuuid=%s\ncreated=%" PRIu64 "\nmembers=%zu\n",
                                 in->making ? "making" : "store", id, in->created, in->n);
    for (size_t i = 0; i < in->n; i++) {
        const struct seam_s_member *m = &in->members[i];
        hex(m->uuid, id);
        at += (size_t)snprintf(buf + at, room - at, "member=%s %s %s %s\n", m->name,
                               places[m->place], id, m->engine);
        assert(at < room); /* so many members of names so long */
    }
    return add_crc(buf, at);
}

const struct seam_s_member *seam_s_find(const struct seam_s_text *in, const char *name)
{
    for (size_t i = 0; in != NULL && i < in->n; i++)
        if (strcmp(in->members[i].name, name) == 0)
            return &in->members[i];
    return NULL;
}

/* ---- reading ----------------------------------------------------------------------------- */

/* What is left of a text; a word is taken up to its end character, which is taken too. */
struct rest {
    const char *at, *end;
};

static bool take(struct rest *r, const char *word)
{
    size_t len = strlen(word);
    if ((size_t)(r->end - r->at) < len || memcmp(r->at, word, len) != 0)
        return false;
    r->at += len;
    return true;
}

/* Up to `stop`, into buf[0..cap) with a zero behind; of the bytes [a-z0-9_-] only, one at least. */
static bool take_word(struct rest *r, char stop, char *buf, size_t cap)
{
    size_t n = 0;
    for (; r->at < r->end && *r->at != stop; r->at++) {
        char c = *r->at;
        if (n + 1 >= cap || !((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-'))
            return false;
        buf[n++] = c;
    }
    buf[n] = 0;
    return n > 0 && r->at < r->end && r->at++ != NULL;
}

/* Digits as they are written: no leading zeros. */
static bool take_number(struct rest *r, uint64_t most, uint64_t *ret)
{
    char digits[21];
    uint64_t value = 0;
    if (!take_word(r, '\n', digits, sizeof(digits)) || (digits[0] == '0' && digits[1] != 0))
        return false;
    for (const char *d = digits; *d != 0; d++) {
        uint64_t digit = (uint64_t)(unsigned char)*d - '0';
        if (digit > 9 || value > (most - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *ret = value;
    return true;
}

static bool take_uuid(struct rest *r, char stop, uint8_t *ret)
{
    static const char digits[] = "0123456789abcdef";
    char id[34];
    if (!take_word(r, stop, id, sizeof(id)) || strlen(id) != 32)
        return false;
    for (size_t i = 0; i < 32; i++) {
        const char *digit = strchr(digits, id[i]);
        if (digit == NULL)
            return false;
        unsigned value = (unsigned)(digit - digits);
        ret[i / 2] = (uint8_t)(i % 2 == 0 ? value << 4 : ret[i / 2] | value);
    }
    return true;
}

static bool take_member(struct rest *r, struct seam_s_member *ret)
{
    char place[16];
    unsigned i = 0;
    if (!take(r, "member=") || !take_word(r, ' ', ret->name, sizeof(ret->name)) ||
        !take_word(r, ' ', place, sizeof(place)))
        return false;
    while (i < 4 && strcmp(place, places[i]) != 0)
        i++;
    ret->place = (enum seam_s_place)i;
    return i < 4 && take_uuid(r, ' ', ret->uuid) &&
           take_word(r, '\n', ret->engine, sizeof(ret->engine));
}

/* Of a store: the journal first, then projections, no name twice. */
static bool members_good(const struct seam_s_text *t)
{
    static const char projection[] = "projection-";
    if (!t->making && (t->n == 0 || strcmp(t->members[0].name, "journal") != 0))
        return false;
    for (size_t i = 0; i < t->n; i++) {
        struct seam_s_text before = {.members = t->members, .n = i};
        const char *name = t->members[i].name;
        bool journal = strcmp(name, "journal") == 0;
        if (!journal && (strncmp(name, projection, sizeof(projection) - 1) != 0 ||
                         name[sizeof(projection) - 1] == 0))
            return false;
        if (seam_s_find(&before, name) != NULL ||
            (journal && (i > 0 || t->members[i].place == SEAM_S_SHARED)))
            return false;
    }
    return true;
}

static bool take_lines(struct rest *r, struct seam_s_member *members, struct seam_s_text *ret)
{
    uint64_t n = 0;
    if (!take(r, "uuid=") || !take_uuid(r, '\n', ret->uuid) || !take(r, "created=") ||
        !take_number(r, UINT64_MAX, &ret->created) || !take(r, "members=") ||
        !take_number(r, SEAM_S_MEMBERS_MAX, &n))
        return false;
    ret->members = members;
    ret->n = (size_t)n;
    for (size_t i = 0; i < ret->n; i++)
        if (!take_member(r, &members[i]))
            return false;
    return r->at == r->end && members_good(ret);
}

static int corrupt(const char *where, struct seam_err *err, const char *what)
{
    return seam_fail(err, SEAM_E_CORRUPT, "%.180s %s: restore it from a copy", where, what);
}

int seam_s_text_parse(const char *text, size_t len, bool making, const char *where,
                      struct seam_s_member *members, struct seam_s_text *ret, struct seam_err *err)
{
    struct seam_s_text got = {.making = making};
    char line[CRC_LINE + 1], version[24], kind[32];
    if (len <= CRC_LINE || len > SEAM_S_TEXT_MAX - 1)
        return corrupt(where, err, "has not the size it must have");
    (void)snprintf(line, sizeof(line), "crc=%08" PRIx32 "\n", seam_crc32c(0, text, len - CRC_LINE));
    if (memcmp(line, text + len - CRC_LINE, CRC_LINE) != 0)
        return corrupt(where, err, "is damaged: its checksum is wrong");
    struct rest r = {text, text + len - CRC_LINE};
    if (!take(&r, "seam-store ") || !take_word(&r, '\n', version, sizeof(version)))
        return corrupt(where, err, "does not begin as it must");
    if (strcmp(version, "1") != 0)
        return seam_fail(err, SEAM_E_MISMATCH, "%.160s is of version %s, this library reads version 1",
                         where, version);
    if (!take(&r, "kind=") || !take_word(&r, '\n', kind, sizeof(kind)))
        return corrupt(where, err, "does not tell its kind");
    if (strcmp(kind, making ? "making" : "store") != 0)
        return seam_fail(err, SEAM_E_MISMATCH, "%.160s is of kind %s, not of kind %s", where, kind,
                         making ? "making" : "store");
    if (!take_lines(&r, members, &got))
        return corrupt(where, err, "holds a line that it must not hold");
    *ret = got;
    return SEAM_OK;
}
