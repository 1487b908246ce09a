/* spec_text.c - the characters of engine specs: what separates, what a backslash takes as it is, and
 * a parsed spec as text again.
 *
 * Relies on spec.c for the meaning. Keeps true: the text of a parsed spec parses to the same spec,
 * and is the same for all spellings of it: layers by name (a plug-in by the path it was given), those
 * options whose value is not the default, in the order of the layer's table, numbers in the largest
 * unit that divides them. */
#include "core.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SEPARATORS "+:,=\\"

size_t seam_spec_span(const char *s, const char *stops)
{
    size_t n = 0;
    while (s[n] && !strchr(stops, s[n]))
        n += s[n] == '\\' && s[n + 1] ? 2 : 1;
    return n;
}

int seam_spec_unescape(char *s)
{
    char *to = s;
    for (; *s; s++) {
        if (*s == '\\' && *++s == 0)
            return SEAM_E_OPTION;
        *to++ = *s;
    }
    *to = 0;
    return SEAM_OK;
}

/* Text that grows in buf[0..cap), and how long it wants to be. */
struct text {
    char *buf;
    size_t cap, len;
};

static void add_char(struct text *t, char c)
{
    if (t->len + 1 < t->cap) {
        t->buf[t->len] = c;
        t->buf[t->len + 1] = 0;
    }
    t->len++;
}

static void add(struct text *t, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        add_char(t, s[i]);
}

static void add_number(struct text *t, uint64_t n, uint64_t unit)
{
    static const char suffixes[] = "\0KMGT";
    char digits[24];
    size_t power = 0;
    while (n && n % unit == 0 && power < 4) {
        n /= unit;
        power++;
    }
    int len = snprintf(digits, sizeof digits, "%" PRIu64, n);
    add(t, digits, len > 0 ? (size_t)len : 0);
    if (power)
        add_char(t, suffixes[power]);
}

static void add_value(struct text *t, const struct seam_tuning *tuning, uint64_t value)
{
    const char *word = tuning->words;
    switch (tuning->kind) {
    case SEAM_TUNE_FLAG:
        add_char(t, value ? '1' : '0');
        break;
    case SEAM_TUNE_COUNT:
        add_number(t, value, 1000);
        break;
    case SEAM_TUNE_SIZE:
        add_number(t, value, 1024);
        break;
    case SEAM_TUNE_WORD:
        for (uint64_t i = 0; i < value; i++)
            word += strcspn(word, "|") + 1;
        add(t, word, strcspn(word, "|"));
        break;
    }
}

static void add_layer(struct text *t, const struct seam_spec_layer *layer)
{
    const struct seam_tuning *tuning = layer->be->tunings;
    const char *name = layer->path ? layer->path : layer->be->name;
    char before = ':';
    for (; *name; name++) {
        if (strchr(SEPARATORS, *name))
            add_char(t, '\\');
        add_char(t, *name);
    }
    for (size_t i = 0; tuning && tuning[i].name; i++) {
        if (layer->settings[i] == layer->defaults[i])
            continue;
        add_char(t, before);
        add(t, tuning[i].name, strlen(tuning[i].name));
        before = ',';
        if (tuning[i].kind == SEAM_TUNE_FLAG && layer->settings[i])
            continue;
        add_char(t, '=');
        add_value(t, &tuning[i], layer->settings[i]);
    }
}

size_t seam_spec_text(const struct seam_spec *spec, char *buf, size_t cap)
{
    struct text t = {buf, cap, 0};
    if (cap)
        buf[0] = 0;
    for (size_t i = 0; i < spec->n; i++) {
        if (i > 0)
            add_char(&t, '+');
        add_layer(&t, &spec->layers[i]);
    }
    return t.len;
}
