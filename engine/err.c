/* err.c - codes, their texts, and the one way an error is filled in.
 *
 * Relies on nothing. Keeps true: err->text is one NUL-terminated line; a failing line returns. */
#include <seam/backend.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *seam_code_name(int code)
{
    switch (code) {
#define NAME(name, value, text)                                                                   \
    case value:                                                                                   \
        return "SEAM_" #name;
        SEAM_CODES(NAME)
#undef NAME
    default:
        return "SEAM_?";
    }
}

const char *seam_code_text(int code)
{
    switch (code) {
#define TEXT(name, value, text)                                                                   \
    case value:                                                                                   \
        return text;
        SEAM_CODES(TEXT)
#undef TEXT
    default:
        return "not a code of Seam's";
    }
}

const char *seam_version(void)
{
    return SEAM_VERSION;
}

static const char *const ack_names[] = {"none", "process", "os", "power"};

const char *seam_ack_name(enum seam_ack level)
{
    return (unsigned)level < 4 ? ack_names[level] : "?";
}

int seam_ack_parse(const char *name)
{
    for (int i = 0; i < 4; i++)
        if (strcmp(name, ack_names[i]) == 0)
            return i;
    return -1;
}

/* Names and other libraries' texts come in as they are: no byte of them may steer a terminal. */
static void one_line(char *text)
{
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = ' ';
}

static void err_clear(struct seam_err *err, int code)
{
    memset(err, 0, sizeof(*err));
    err->code = code;
    err->op = SEAM_NO_OP;
}

int seam_fail(struct seam_err *err, int code, const char *fmt, ...)
{
    if (!err)
        return code;
    va_list args;
    char text[sizeof(err->text)]; /* an argument may point into *err */
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    one_line(text);
    err_clear(err, code);
    memcpy(err->text, text, sizeof(text));
    return code;
}

static int code_of_errno(int os_errno)
{
    switch (os_errno) {
    case ENOSPC:
    case EDQUOT:
        return SEAM_E_NO_SPACE;
    case ENOMEM:
        return SEAM_E_NOMEM;
    case EACCES:
    case EPERM:
        return SEAM_E_PERMISSION;
    case EROFS:
        return SEAM_E_READ_ONLY;
    default:
        return SEAM_E_IO;
    }
}

/* strerror_r is of two kinds: GNU's returns the text, which need not be in the buffer; POSIX's returns
 * a number, and the text is in the buffer if that is 0. Which one it is, its type tells. */
static inline const char *said_by_gnu(const char *said, const char *buf)
{
    (void)buf;
    return said;
}

static inline const char *said_by_posix(int failed, const char *buf)
{
    return failed ? "an error without a text" : buf;
}

#define SAID(call, buf) _Generic((call), char *: said_by_gnu, int: said_by_posix)((call), (buf))

int seam_fail_os(struct seam_err *err, int os_errno, const char *fmt, ...)
{
    int code = code_of_errno(os_errno);
    if (!err)
        return code;
    va_list args;
    char text[sizeof(err->text)];
    va_start(args, fmt);
    int used = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (os_errno > 0 && used >= 0 && (size_t)used < sizeof(text) - 1) {
        char why[96];
        const char *said = SAID(strerror_r(os_errno, why, sizeof(why)), why);
        snprintf(text + used, sizeof(text) - (size_t)used, ": %s", said);
    }
    one_line(text);
    err_clear(err, code);
    err->os_errno = os_errno > 0 ? os_errno : 0;
    memcpy(err->text, text, sizeof(text));
    return code;
}

int seam_fail_limit(struct seam_err *err, int code, const char *limit, uint64_t max, uint64_t got,
                    size_t op)
{
    if (!err)
        return code;
    if (op == SEAM_NO_OP)
        seam_fail(err, code, "limit %s: at most %llu, asked for %llu", limit,
                  (unsigned long long)max, (unsigned long long)got);
    else
        seam_fail(err, code, "op %zu: limit %s: at most %llu, asked for %llu", op, limit,
                  (unsigned long long)max, (unsigned long long)got);
    err->op = op;
    err->limit = limit;
    err->max = max;
    err->got = got;
    return code;
}

const char *seam_key_text(struct seam_slice key, char *buf, size_t cap)
{
    static const char hex[] = "0123456789abcdef";
    const unsigned char *bytes = key.ptr;
    size_t shown = key.len < 64 ? key.len : 64, at = 0;
    if (cap == 0)
        return buf;
    for (size_t i = 0; i < shown && at + 5 < cap; i++) {
        if (bytes[i] >= 0x20 && bytes[i] < 0x7f && bytes[i] != '\\') {
            buf[at++] = (char)bytes[i];
            continue;
        }
        buf[at++] = '\\';
        buf[at++] = 'x';
        buf[at++] = hex[bytes[i] >> 4];
        buf[at++] = hex[bytes[i] & 15];
    }
    buf[at] = 0;
    return buf;
}

int seam_compare(struct seam_slice a, struct seam_slice b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int c = n ? memcmp(a.ptr, b.ptr, n) : 0;
    return c ? c : (a.len > b.len) - (a.len < b.len);
}
