/* parse.c - sizes, counts, and lists of engines, as people write them.
 *
 * Relies on spec_text.c for backslashes. Keeps true: a suffix that is not known is an error, never
 * ignored. */
#include "core.h"

#include <stdio.h>
#include <string.h>

static int bad_number(const char *text, const char *why, bool size, struct seam_err *err)
{
    return seam_fail(err, SEAM_E_OPTION, "'%.40s' %s: a %s is a number with an optional %s", text,
                     why, size ? "size" : "count",
                     size ? "K, M, G or T (1024 each; also KiB, MiB, GiB, TiB)"
                          : "K, M, G or T (1000 each)");
}

/* The power of the suffix, or -1. */
static int suffix_power(const char *s, bool size)
{
    static const char letters[] = "KMGT";
    if (*s == 0)
        return 0;
    char upper = (char)(*s >= 'a' && *s <= 'z' ? *s - 32 : *s);
    const char *found = memchr(letters, upper, 4);
    if (!found)
        return size && upper == 'B' && s[1] == 0 ? 0 : -1;
    s++;
    if (size && (strcmp(s, "iB") == 0 || strcmp(s, "i") == 0 || strcmp(s, "B") == 0))
        return (int)(found - letters) + 1;
    return *s == 0 ? (int)(found - letters) + 1 : -1;
}

static bool times(uint64_t *value, uint64_t by)
{
    return !__builtin_mul_overflow(*value, by, value);
}

/* digits [ "." digits ] suffix; a fraction must come out as a whole number of units or is cut. */
static int parse(const char *text, bool size, uint64_t *ret, struct seam_err *err)
{
    uint64_t whole = 0, part = 0, scale = 1, unit = 1;
    const char *s = text;
    if (*s < '0' || *s > '9')
        return bad_number(text, "is not a number", size, err);
    for (; *s >= '0' && *s <= '9'; s++)
        if (!times(&whole, 10) || __builtin_add_overflow(whole, (uint64_t)(*s - '0'), &whole))
            return bad_number(text, "is too large", size, err);
    if (*s == '.') {
        const char *first = ++s;
        for (; *s >= '0' && *s <= '9'; s++)
            if (scale < 1000000) {
                part = part * 10 + (uint64_t)(*s - '0');
                scale *= 10;
            }
        if (s == first)
            return bad_number(text, "ends at its point", size, err);
    }
    int power = suffix_power(s, size);
    if (power < 0)
        return bad_number(text, "has an unknown suffix", size, err);
    for (int i = 0; i < power; i++)
        unit *= size ? 1024 : 1000;
    if (scale > 1 && power == 0)
        return bad_number(text, "is a fraction", size, err);
    if (!times(&whole, unit) || __builtin_add_overflow(whole, part * unit / scale, &whole))
        return bad_number(text, "is too large", size, err);
    *ret = whole;
    return SEAM_OK;
}

int seam_parse_size(const char *text, uint64_t *ret, struct seam_err *err)
{
    return parse(text, true, ret, err);
}

int seam_parse_count(const char *text, uint64_t *ret, struct seam_err *err)
{
    return parse(text, false, ret, err);
}

/* A part after a comma goes on with the engine before it if it sets an option: '=' comes before
 * any ':' or '+'. */
static bool goes_on(const char *part)
{
    size_t n = seam_spec_span(part, ",:+=");
    return part[n] == '=';
}

int seam_engine_list_next(const char **rest, char *buf, size_t cap, struct seam_err *err)
{
    const char *s = *rest;
    if (!s || *s == 0)
        return SEAM_NOTFOUND;
    size_t len = seam_spec_span(s, ",");
    while (s[len] == ',' && goes_on(s + len + 1))
        len += 1 + seam_spec_span(s + len + 1, ",");
    if (len == 0 || (s[len] == ',' && s[len + 1] == 0))
        return seam_fail(err, SEAM_E_OPTION, "the list of engines has an empty part: '%.60s'", s);
    if (len >= cap)
        return seam_fail(err, SEAM_E_OPTION, "an engine's spec is over %zu bytes: '%.60s...'",
                         cap - 1, s);
    memcpy(buf, s, len);
    buf[len] = 0;
    *rest = s[len] == ',' ? s + len + 1 : s + len;
    return SEAM_OK;
}
