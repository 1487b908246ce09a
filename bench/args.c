/* args.c - the command line: options, lists, one-line errors.
 *
 * Keeps true: what is not known is refused by name, with what is allowed. */
#include "bench.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { WORD = 31 }; /* letters of the longest word that is looked at for a near one */

void bench_one_line(char *text)
{
    for (char *c = text; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = '?';
}

static void say(const char *command, const char *fmt, va_list args)
{
    char text[1024];
    vsnprintf(text, sizeof text, fmt, args);
    bench_one_line(text);
    fprintf(stderr, "%s: %s\n", command, text);
}

int bench_usage(const char *command, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say(command, fmt, args);
    va_end(args);
    return BENCH_USAGE;
}

int bench_failed(const char *command, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say(command, fmt, args);
    va_end(args);
    return BENCH_FAILED;
}

int bench_flush(const char *command, int rc)
{
    errno = 0;
    if (fflush(stdout) == 0 && ferror(stdout) == 0)
        return rc;
    (void)bench_failed(command, "cannot write to standard output%s%s", errno != 0 ? ": " : "",
                       errno != 0 ? strerror(errno) : "");
    return rc == BENCH_OK ? BENCH_FAILED : rc;
}

int bench_exit_code(int code)
{
    switch (code) {
    case SEAM_OK:
        return BENCH_OK;
    case SEAM_E_NO_ENGINE:
        return BENCH_NO_ENGINE;
    case SEAM_E_OPTION:
        return BENCH_USAGE;
    default:
        return BENCH_FAILED;
    }
}

/* Edits of one letter that make one word of the other; both are short. */
static size_t distance(const char *a, const char *b)
{
    size_t row[WORD + 1], n = strlen(b);
    for (size_t k = 0; k <= n; k++)
        row[k] = k;
    for (size_t i = 0; a[i] != '\0'; i++) {
        size_t before = row[0]++;
        for (size_t k = 0; k < n; k++) {
            size_t least = before + (a[i] != b[k]);
            before = row[k + 1];
            least = row[k] + 1 < least ? row[k] + 1 : least;
            row[k + 1] = before + 1 < least ? before + 1 : least;
        }
    }
    return row[n];
}

/* The option that a mistyped word is nearest to; NULL if it is near none. */
static const char *nearest(const struct bench_args *a, const char *word, size_t len)
{
    char typed[WORD + 1];
    const char *best = NULL;
    size_t least = 3;
    if (len > WORD)
        return NULL;
    memcpy(typed, word, len);
    typed[len] = '\0';
    for (const struct bench_option *o = a->options; o->name != NULL; o++) {
        size_t d = strlen(o->name) <= WORD ? distance(typed, o->name) : least;
        if (d < least) {
            least = d;
            best = o->name;
        }
    }
    return best;
}

static void unknown(const struct bench_args *a, const char *word, size_t len)
{
    const char *near = word[0] == '-' ? nearest(a, word, len) : NULL;
    char allowed[512] = "";
    size_t used = 0;
    for (const struct bench_option *o = a->options; near == NULL && o->name != NULL; o++) {
        int n = snprintf(allowed + used, sizeof allowed - used, " %s", o->name);
        if (n < 0 || (size_t)n >= sizeof allowed - used)
            break;
        used += (size_t)n;
    }
    bench_usage(a->command, "unknown %s '%.200s'; %s%s; see %s --help",
                word[0] == '-' ? "option" : "argument", word,
                near != NULL ? "is it " : "allowed:", near != NULL ? near : allowed, a->command);
}

int bench_args_next(struct bench_args *a, const char **ret_value)
{
    if (a->at >= a->argc)
        return BENCH_ARG_END;
    const char *word = a->argv[a->at++];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        return BENCH_ARG_HELP;
    const char *eq = word[0] == '-' ? strchr(word, '=') : NULL;
    size_t len = eq != NULL ? (size_t)(eq - word) : strlen(word);
    for (const struct bench_option *o = a->options; o->name != NULL; o++) {
        if (strlen(o->name) != len || strncmp(o->name, word, len) != 0)
            continue;
        if (o->value == NULL && eq != NULL) {
            bench_usage(a->command, "%s takes no value", o->name);
            return BENCH_ARG_BAD;
        }
        if (o->value == NULL) {
            *ret_value = NULL;
            return o->id;
        }
        /* The next option is no value: a value that begins like one is given with '='. */
        bool next = a->at < a->argc && strncmp(a->argv[a->at], "--", 2) != 0;
        const char *value = eq != NULL ? eq + 1 : next ? a->argv[a->at++] : NULL;
        if (value == NULL || value[0] == '\0') {
            bench_usage(a->command, "%s needs a value: %s %s", o->name, o->name, o->value);
            return BENCH_ARG_BAD;
        }
        *ret_value = value;
        return o->id;
    }
    unknown(a, word, len);
    return BENCH_ARG_BAD;
}

void bench_args_help(FILE *out, const struct bench_option *options)
{
    fputs("Options\n", out);
    for (const struct bench_option *o = options; o->name != NULL; o++) {
        char left[48];
        snprintf(left, sizeof left, "%s%s%s", o->name, o->value ? " " : "",
                 o->value ? o->value : "");
        fprintf(out, "  %-24s %s\n", left, o->help);
    }
    fprintf(out, "  %-24s %s\n", "--help", "this text");
}

bool bench_list_next(const char **rest, char *buf, size_t cap)
{
    if (*rest == NULL)
        return false;
    const char *comma = strchr(*rest, ',');
    size_t len = comma != NULL ? (size_t)(comma - *rest) : strlen(*rest);
    if (len >= cap)
        len = 0;
    memcpy(buf, *rest, len);
    buf[len] = '\0';
    *rest = comma != NULL ? comma + 1 : NULL;
    return true;
}

size_t bench_list_counts(const char *text, uint64_t least, uint64_t most, uint64_t *ret, size_t cap,
                         char *why, size_t why_cap)
{
    const char *rest = text;
    char part[64];
    size_t n = 0;
    struct seam_err err;
    while (bench_list_next(&rest, part, sizeof part)) {
        uint64_t v = 0;
        if (n == cap) {
            snprintf(why, why_cap, "more than %zu values in '%.64s'", cap, text);
            return 0;
        }
        if (seam_parse_count(part, &v, &err) != SEAM_OK) {
            snprintf(why, why_cap, "%s", err.text);
            return 0;
        }
        if (v < least || v > most) {
            snprintf(why, why_cap, "%s is out of range: allowed is %llu to %llu", part,
                     (unsigned long long)least, (unsigned long long)most);
            return 0;
        }
        ret[n++] = v;
    }
    return n;
}

bool bench_parse_seconds(const char *text, double *ret)
{
    static const struct {
        const char *suffix;
        double factor;
    } units[] = {{"", 1}, {"s", 1}, {"ms", 0.001}, {"m", 60}, {"min", 60}};
    char *end = NULL;
    size_t digits = strspn(text, "0123456789.");
    double v = strtod(text, &end);
    if (digits == 0 || end != text + digits || /* no 0x10, no 1e3 */ !isfinite(v) || v <= 0)
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].suffix) == 0) {
            *ret = v * units[i].factor;
            return true;
        }
    }
    return false;
}
