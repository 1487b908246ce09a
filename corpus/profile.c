/* profile.c - reads a profile: a built-in one or a file, and the knobs changed in the spec.
 *
 * Relies on inih for the INI syntax, fed line by line from memory so that an error can name its
 * line. Keeps true: a profile is taken whole or refused with one line that names the file, the
 * line, the knob and what is allowed; the file may hold anything at all. */
#include "profile.h"

#include <seam/backend.h>

#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROFILE_FILE_MAX 65536u
#define PROFILE_LINE_MAX 190u /* inih's buffer has 200 */

static const char *const corpus_skews[] = {"uniform", "hot", "zipf", NULL};
static const char *const corpus_chooses[] = {"skew", "sweep", NULL};

struct knob_row {
    const char *section, *name;
    enum knob_kind kind;
    uint64_t def, least, most;
    const char *help;
};

static const struct knob_row knob_rows[KNOBS] = {
#define CORPUS_KNOB_ROW(id, section, name, kind, def, least, most, help)                           \
    {section, name, kind, def, least, most, help},
    CORPUS_KNOBS(CORPUS_KNOB_ROW)
#undef CORPUS_KNOB_ROW
};

/* Where the parser is; `name` and `line` for errors. */
struct parser {
    struct profile *profile;
    const char *name, *at, *end;
    int line;     /* of the text last handed to inih; 0: knobs from the spec */
    int bad_line; /* of the first error of ours, 0: none */
    bool given[KNOBS], described;
    struct seam_err *err;
};

static const char *const *knob_words(const struct knob_row *row)
{
    return row->kind == KIND_SKEW ? corpus_skews : row->kind == KIND_CHOOSE ? corpus_chooses : NULL;
}

/* Text from a file for an error: printable, short. */
static const char *clean(const char *text, char *buf, size_t cap)
{
    return seam_key_text(seam_bytes(text, strnlen(text, 40)), buf, cap);
}

/* "FILE:LINE" or the spec's name. */
static const char *place(const struct parser *p, char *buf, size_t cap)
{
    char name[80];
    size_t len = strlen(p->name); /* the end of a long path says more than its beginning */
    seam_key_text(seam_bytes(p->name + (len > 60 ? len - 60 : 0), len > 60 ? 60 : len), name,
                  sizeof name);
    if (p->line > 0)
        snprintf(buf, cap, "%s%s:%d", len > 60 ? "..." : "", name, p->line);
    else
        snprintf(buf, cap, "%s%s", len > 60 ? "..." : "", name);
    return buf;
}

/* A number with an optional suffix; false if it is not one or has more than 64 bits. */
static bool parse_number(const char *text, uint64_t unit, uint64_t *ret)
{
    uint64_t x = 0, times = 1;
    const char *s = text;
    for (; *s >= '0' && *s <= '9'; s++) {
        uint64_t digit = (uint64_t)(*s - '0');
        if (x > (UINT64_MAX - digit) / 10)
            return false;
        x = x * 10 + digit;
    }
    if (s == text)
        return false;
    if (*s != '\0') {
        times = *s == 'K' ? unit : *s == 'M' ? unit * unit : *s == 'G' ? unit * unit * unit : 0;
        if (times == 0 || s[1] != '\0' || x > UINT64_MAX / times)
            return false;
    }
    *ret = x * times;
    return true;
}

static int set_word(struct parser *p, size_t i, const char *text)
{
    char where[160], value[200], allowed[64] = "";
    const char *const *words = knob_words(&knob_rows[i]);
    for (size_t w = 0; words[w] != NULL; w++) {
        if (strcmp(words[w], text) == 0) {
            p->profile->knob[i] = w;
            return SEAM_OK;
        }
        size_t len = strlen(allowed);
        snprintf(allowed + len, sizeof allowed - len, "%s%s", w > 0 ? ", " : "", words[w]);
    }
    return seam_fail(p->err, SEAM_E_OPTION, "%s: %s = '%s': allowed are %s",
                     place(p, where, sizeof where), knob_rows[i].name,
                     clean(text, value, sizeof value), allowed);
}

static int set_knob(struct parser *p, size_t i, const char *text)
{
    const struct knob_row *row = &knob_rows[i];
    char where[160], value[200];
    uint64_t x;
    if (p->given[i])
        return seam_fail(p->err, SEAM_E_OPTION, "%s: %s is given twice: leave one",
                         place(p, where, sizeof where), row->name);
    p->given[i] = true;
    if (knob_words(row) != NULL)
        return set_word(p, i, text);
    if (!parse_number(text, row->kind == KIND_SIZE ? 1024 : 1000, &x))
        return seam_fail(p->err, SEAM_E_OPTION,
                         "%s: %s = '%s' is no number: digits, then K, M or G, %llu..%llu",
                         place(p, where, sizeof where), row->name, clean(text, value, sizeof value),
                         (unsigned long long)row->least, (unsigned long long)row->most);
    if (x < row->least || x > row->most)
        return seam_fail(p->err, SEAM_E_OPTION, "%s: %s = %s is out of range: %llu..%llu",
                         place(p, where, sizeof where), row->name, clean(text, value, sizeof value),
                         (unsigned long long)row->least, (unsigned long long)row->most);
    p->profile->knob[i] = x;
    return SEAM_OK;
}

static int set_description(struct parser *p, const char *text)
{
    char where[160];
    if (p->described)
        return seam_fail(p->err, SEAM_E_OPTION, "%s: description is given twice: leave one",
                         place(p, where, sizeof where));
    p->described = true;
    /* Lines are shorter than this. */
    snprintf(p->profile->description, sizeof p->profile->description, "%s", text);
    return SEAM_OK;
}

/* section NULL: knobs of the spec, which are known by their name alone. */
static int set_named(struct parser *p, const char *section, const char *name, const char *text)
{
    char where[160], what[200], list[96] = "";
    bool known_section = section != NULL && strcmp(section, "corpus") == 0;
    if (known_section && strcmp(name, "description") == 0)
        return set_description(p, text);
    for (size_t i = 0; i < KNOBS; i++) {
        if (section != NULL && strcmp(section, knob_rows[i].section) != 0)
            continue;
        known_section = section != NULL;
        if (strcmp(name, knob_rows[i].name) == 0)
            return set_knob(p, i, text);
        size_t len = strlen(list);
        if (len + strlen(knob_rows[i].name) + 3 < sizeof list)
            snprintf(list + len, sizeof list - len, "%s%s", len > 0 ? ", " : "", knob_rows[i].name);
    }
    if (section == NULL)
        return seam_fail(p->err, SEAM_E_OPTION, "%s: no knob '%s': see docs/profiles.md",
                         place(p, where, sizeof where), clean(name, what, sizeof what));
    if (!known_section)
        return seam_fail(
            p->err, SEAM_E_OPTION,
            "%s: no section [%s]: corpus, keys, values, units, reads, incoming, messages",
            place(p, where, sizeof where), clean(section, what, sizeof what));
    return seam_fail(p->err, SEAM_E_OPTION, "%s: [%s] has no knob '%s': it has %s",
                     place(p, where, sizeof where), section, clean(name, what, sizeof what), list);
}

static int on_knob(void *arg, const char *section, const char *name, const char *text)
{
    struct parser *p = arg;
    if (p->bad_line != 0)
        return 0;
    if (set_named(p, section, name, text) == SEAM_OK)
        return 1;
    p->bad_line = p->line;
    return 0;
}

/* inih's reader, like fgets. Leading blanks are dropped: to inih they would mean a continuation of
 * the line before. Lines were checked to fit. */
static char *next_line(char *buf, int cap, void *arg)
{
    struct parser *p = arg;
    const char *end;
    size_t len;
    if (p->at == p->end)
        return NULL;
    end = memchr(p->at, '\n', (size_t)(p->end - p->at));
    p->line++;
    while (p->at < end && (*p->at == ' ' || *p->at == '\t'))
        p->at++;
    len = (size_t)(end - p->at) + 1;
    if (cap < 2 || len > (size_t)cap - 1)
        len = cap < 2 ? 0 : (size_t)cap - 1;
    memcpy(buf, p->at, len);
    buf[len] = '\0';
    p->at = end + 1;
    return buf;
}

/* Text, lines that fit, and a last line that is whole. */
static int check_text(struct parser *p)
{
    char where[160];
    const char *start = p->at;
    p->line = 1;
    for (const char *s = p->at; s < p->end; s++) {
        unsigned char ch = (unsigned char)*s;
        if (ch == 0x7f || (ch < 0x20 && ch != '\n' && ch != '\r' && ch != '\t'))
            return seam_fail(p->err, SEAM_E_OPTION, "%s: byte 0x%02x: a profile is a text file",
                             place(p, where, sizeof where), ch);
        if (ch == '\n') {
            start = s + 1;
            p->line++;
        } else if ((size_t)(s - start) >= PROFILE_LINE_MAX) {
            return seam_fail(p->err, SEAM_E_OPTION, "%s: a line of more than %u bytes",
                             place(p, where, sizeof where), PROFILE_LINE_MAX);
        }
    }
    if (p->at == p->end)
        return seam_fail(p->err, SEAM_E_OPTION, "%s: the file is empty",
                         place(p, where, sizeof where));
    if (start != p->end)
        return seam_fail(p->err, SEAM_E_OPTION,
                         "%s: the last line has no end: is the file cut off? Add a newline if not",
                         place(p, where, sizeof where));
    p->line = 0;
    return SEAM_OK;
}

static int parse_text(struct parser *p, const char *text, size_t len)
{
    char where[160];
    int rc, bad;
    p->at = text;
    p->end = text + len;
    rc = check_text(p);
    if (rc != SEAM_OK)
        return rc;
    bad = ini_parse_stream(next_line, p, on_knob, p);
    if (bad < 0)
        return seam_fail(p->err, SEAM_E_NOMEM, "%s: no memory to parse it",
                         place(p, where, sizeof where));
    if (p->bad_line != 0 && p->bad_line <= bad)
        return SEAM_E_OPTION; /* told already */
    if (bad == 0)
        return SEAM_OK;
    p->line = bad;
    return seam_fail(p->err, SEAM_E_OPTION,
                     "%s: this line is no [section], no knob = value and no comment",
                     place(p, where, sizeof where));
}

/* The whole file, malloc. */
static int read_file(struct parser *p, char **ret, size_t *ret_len)
{
    char where[160];
    struct stat st;
    size_t len = 0;
    ssize_t got = 1;
    char *text = NULL;
    int rc = SEAM_OK, fd = open(p->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return seam_fail_os(p->err, errno, "%s: cannot open this profile",
                            place(p, where, sizeof where));
    if (fstat(fd, &st) != 0)
        rc = seam_fail_os(p->err, errno, "%s", place(p, where, sizeof where));
    else if (!S_ISREG(st.st_mode))
        rc = seam_fail(p->err, SEAM_E_OPTION, "%s: is not a file: give the path of an INI file",
                       place(p, where, sizeof where));
    else if ((text = malloc(PROFILE_FILE_MAX + 1)) == NULL)
        rc = seam_fail(p->err, SEAM_E_NOMEM, "%s: no memory", place(p, where, sizeof where));
    while (rc == SEAM_OK && got != 0 && len <= PROFILE_FILE_MAX) {
        got = read(fd, text + len, PROFILE_FILE_MAX + 1 - len);
        if (got < 0 && errno != EINTR)
            rc = seam_fail_os(p->err, errno, "%s: cannot read it", place(p, where, sizeof where));
        len += got > 0 ? (size_t)got : 0;
    }
    if (rc == SEAM_OK && len > PROFILE_FILE_MAX)
        rc = seam_fail(p->err, SEAM_E_OPTION, "%s: over %u bytes: this is no profile",
                       place(p, where, sizeof where), PROFILE_FILE_MAX);
    close(fd);
    if (rc != SEAM_OK) {
        free(text);
        return rc;
    }
    *ret = text;
    *ret_len = len;
    return SEAM_OK;
}

static int no_profile(struct parser *p)
{
    char what[200], list[160] = "";
    for (size_t i = 0; corpus_profiles[i].name != NULL; i++) {
        size_t len = strlen(list);
        snprintf(list + len, sizeof list - len, "%s%s", i > 0 ? ", " : "", corpus_profiles[i].name);
    }
    return seam_fail(p->err, SEAM_E_OPTION,
                     "no profile '%s': built in are %s; or give a path, ./%s",
                     clean(p->name, what, sizeof what), list, "mine.ini");
}

static int read_base(struct parser *p)
{
    size_t len = strlen(p->name);
    char *text = NULL;
    int rc;
    for (size_t i = 0; corpus_profiles[i].name != NULL; i++)
        if (strcmp(p->name, corpus_profiles[i].name) == 0)
            return parse_text(p, corpus_profiles[i].text, strlen(corpus_profiles[i].text));
    if (strchr(p->name, '/') == NULL && (len < 4 || strcmp(p->name + len - 4, ".ini") != 0))
        return no_profile(p);
    rc = read_file(p, &text, &len);
    if (rc == SEAM_OK)
        rc = parse_text(p, text, len);
    free(text);
    return rc;
}

/* "knob=value,knob=value", over what the file said. */
static int read_changes(struct parser *p, char *changes)
{
    char where[160], what[200], *rest = changes, *one;
    memset(p->given, 0, sizeof p->given);
    p->line = 0;
    while ((one = strsep(&rest, ",")) != NULL) {
        char *equals = strchr(one, '=');
        int rc;
        if (equals == NULL)
            return seam_fail(p->err, SEAM_E_OPTION, "%s: '%s' is not knob=value",
                             place(p, where, sizeof where), clean(one, what, sizeof what));
        *equals = '\0';
        rc = set_named(p, NULL, one, equals + 1);
        if (rc != SEAM_OK)
            return rc;
    }
    return SEAM_OK;
}

static int contradiction(struct parser *p, const char *text)
{
    char where[160];
    p->line = 0;
    return seam_fail(p->err, SEAM_E_OPTION, "%s: %s", place(p, where, sizeof where), text);
}

static int check_together(struct parser *p)
{
    const uint64_t *k = p->profile->knob;
    if (k[KNOB_KEY_MIN] > k[KNOB_KEY_MAX])
        return contradiction(p, "key_min is over key_max");
    if (k[KNOB_VALUE_MIN] > k[KNOB_VALUE_MAX])
        return contradiction(p, "value_min is over value_max");
    if (k[KNOB_LARGE_MIN] > k[KNOB_LARGE_MAX])
        return contradiction(p, "large_min is over large_max");
    if (k[KNOB_UNIT_MIN] > k[KNOB_UNIT_MAX])
        return contradiction(p, "unit_min is over unit_max");
    if (k[KNOB_INSERT_PERCENT] + k[KNOB_DELETE_PERCENT] > 100)
        return contradiction(p, "insert_percent and delete_percent are over 100 together");
    if (k[KNOB_STALE_PERCENT] + k[KNOB_NEW_PERCENT] > 100)
        return contradiction(p, "stale_percent and new_percent are over 100 together");
    if (k[KNOB_CHOOSE] == CHOOSE_SWEEP && k[KNOB_KEYS] < k[KNOB_UNIT_MAX])
        return contradiction(p, "choose = sweep needs at least unit_max keys");
    return SEAM_OK;
}

int corpus_profile_read(const char *spec, struct profile *ret, struct seam_err *err)
{
    struct profile profile = {.description = ""};
    struct parser p = {.profile = &profile, .err = err};
    char *changes;
    int rc;
    profile.name = strdup(spec);
    if (profile.name == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "no memory for a profile");
    for (size_t i = 0; i < KNOBS; i++)
        profile.knob[i] = knob_rows[i].def;
    /* A path may hold a ':'; changed knobs are what follows the last one, if there is a '='. */
    changes = strrchr(profile.name, ':');
    if (changes != NULL && strchr(changes, '=') != NULL)
        *changes++ = '\0';
    else
        changes = NULL;
    p.name = profile.name;
    rc = read_base(&p);
    if (rc == SEAM_OK && changes != NULL)
        rc = read_changes(&p, changes);
    if (rc == SEAM_OK)
        rc = check_together(&p);
    if (rc == SEAM_OK)
        *ret = profile;
    else
        free(profile.name);
    return rc;
}

void corpus_profile_free(struct profile *profile)
{
    if (profile != NULL) {
        free(profile->name);
        profile->name = NULL;
    }
}

void corpus_profile_knob(const struct profile *profile, enum knob i, struct seam_corpus_knob *ret)
{
    const struct knob_row *row = &knob_rows[i];
    const char *const *words = knob_words(row);
    ret->section = row->section;
    ret->name = row->name;
    ret->value = profile->knob[i];
    ret->word = words != NULL ? words[profile->knob[i]] : NULL;
    ret->least = row->least;
    ret->most = row->most;
    ret->help = row->help;
}

const struct seam_corpus_profile *seam_corpus_profile_at(size_t i)
{
    for (size_t n = 0; corpus_profiles[n].name != NULL; n++)
        if (n == i)
            return &corpus_profiles[i];
    return NULL;
}
