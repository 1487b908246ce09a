/* args.c - the command line: options, lists, one-line errors.
 *
 * Keeps true: what is not known is refused by name, with what is allowed. */
#include "bench.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void say(const char *command, const char *fmt, va_list args)
{
    char text[1024];
    vsnprintf(text, sizeof text, fmt, args);
    for (char *c = text; *c != '\0'; c++) /* one line, whatever a name on the way held */
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = '?';
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

static void unknown(const struct bench_args *a, const char *word)
{
    char allowed[512] = "";
    size_t used = 0;
    for (const struct bench_option *o = a->options; o->name != NULL; o++) {
        int n = snprintf(allowed + used, sizeof allowed - used, "%s%s", used ? " " : "", o->name);
        if (n < 0 || (size_t)n >= sizeof allowed - used)
            break;
        used += (size_t)n;
    }
    bench_usage(a->command, "unknown %s '%s'; allowed: %s --help",
                word[0] == '-' ? "option" : "argument", word, allowed);
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
    unknown(a, word);
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
