/* text.c - figures as a person reads them: few digits, a suffix, '-' for what is unknown. */
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *with_suffix(double v, double base, const char *suffixes, char buf[BENCH_TEXT])
{
    size_t i = 0;
    if (isnan(v)) {
        snprintf(buf, BENCH_TEXT, "-");
        return buf;
    }
    while (v >= 999.5 && suffixes[i + 1] != '\0') {
        v /= base;
        i++;
    }
    int decimals = i == 0 || v >= 9.95 ? 0 : 1;
    if (i == 0)
        snprintf(buf, BENCH_TEXT, v < 9.95 && v != floor(v) ? "%.1f" : "%.0f", v);
    else
        snprintf(buf, BENCH_TEXT, "%.*f%c", decimals, v, suffixes[i]);
    return buf;
}

const char *bench_text_count(double v, char buf[BENCH_TEXT])
{
    return with_suffix(v, 1000, " kMGT", buf);
}

const char *bench_text_bytes(double v, char buf[BENCH_TEXT])
{
    return with_suffix(v, 1024, " KMGT", buf);
}

const char *bench_text_ratio(double v, char buf[BENCH_TEXT])
{
    if (isnan(v))
        snprintf(buf, BENCH_TEXT, "-");
    else
        snprintf(buf, BENCH_TEXT, "%.*f", v < 9.995 ? 2 : v < 99.95 ? 1 : 0, v);
    return buf;
}

const char *bench_text_ms(double us, char buf[BENCH_TEXT])
{
    double ms = us / 1000;
    if (isnan(us))
        snprintf(buf, BENCH_TEXT, "-");
    else
        snprintf(buf, BENCH_TEXT, "%.*f", ms < 0.0995 ? 3 : ms < 9.995 ? 2 : ms < 99.95 ? 1 : 0, ms);
    return buf;
}

const char *bench_text_span(double seconds, char buf[BENCH_TEXT])
{
    if (seconds < 100)
        snprintf(buf, BENCH_TEXT, "%.0f s", seconds < 1 ? 1 : seconds);
    else
        snprintf(buf, BENCH_TEXT, "%.0f min", seconds / 60);
    return buf;
}

int bench_color_parse(const char *text)
{
    static const char *const names[] = {"auto", "always", "never"};
    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0)
            return i;
    return -1;
}

bool bench_color_on(enum bench_color color, FILE *out)
{
    const char *no = getenv("NO_COLOR");
    if (color != BENCH_COLOR_AUTO)
        return color == BENCH_COLOR_ALWAYS;
    return (no == NULL || no[0] == '\0') && isatty(fileno(out)) == 1;
}
