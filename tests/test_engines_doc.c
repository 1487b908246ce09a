/* test_engines_doc.c - test_engines_doc FILE: the tables of docs/engines.md hold the limits,
 * capabilities and options that the engines of this build report, no more and no fewer.
 *
 * Relies on the file's shape: a first table whose heads are the engines, and below "## ENGINE" a
 * table of options whose rows begin with "| `name` | default |". */
#include "support.h"

enum { CELLS = 8, CELL = 128, ENGINES = 6 };

static const char *path; /* of the page; set once by main */

/* Cuts "| a | b |" into cells without their blanks and backquotes; returns how many. */
static size_t cut(const char *line, char cells[CELLS][CELL])
{
    size_t n = 0;
    while (*line == '|' && n < CELLS) {
        const char *end = strchr(++line, '|');
        if (!end)
            break;
        size_t at = 0;
        for (; line < end && at + 1 < CELL; line++)
            if (*line != '`')
                cells[n][at++] = *line;
        while (at > 0 && cells[n][at - 1] == ' ')
            at--;
        cells[n][at] = 0;
        memmove(cells[n], cells[n] + strspn(cells[n], " "), CELL - strspn(cells[n], " "));
        n++;
        line = end;
    }
    return n;
}

/* "1,000,000", "8K", "none". */
static uint64_t number_of(const char *cell)
{
    char digits[CELL];
    size_t at = 0;
    uint64_t v = 0;
    if (strcmp(cell, "none") == 0)
        return UINT64_MAX;
    for (; *cell; cell++)
        if (*cell != ',')
            digits[at++] = *cell;
    digits[at] = 0;
    assert_int_equal(seam_parse_size(digits, &v, NULL), SEAM_OK);
    return v;
}

static bool built_in(const char *engine)
{
    struct seam_engine_info info[32];
    size_t n = seam_engines(info, 32);
    for (size_t i = 0; i < n && i < 32; i++)
        if (strcmp(info[i].name, engine) == 0)
            return info[i].built_in;
    return false;
}

static void limits_of(const char *engine, struct seam_limits *ret)
{
    struct seam_options o = {.mode = SEAM_OPEN_CREATE, .headroom_percent = 100};
    struct seam_db *db = NULL;
    struct seam_err err;
    if (seam_open(engine, support_dir(), &o, &db, &err) != SEAM_OK)
        fail_msg("%s: %s", engine, err.text);
    seam_db_limits(db, ret);
    assert_int_equal(seam_close(db, NULL), SEAM_OK);
}

static uint64_t limit_named(const struct seam_limits *l, const char *name)
{
    return strcmp(name, "key") == 0          ? l->key
           : strcmp(name, "value") == 0      ? l->value
           : strcmp(name, "ops") == 0        ? l->ops
           : strcmp(name, "bytes") == 0      ? l->bytes
           : strcmp(name, "range_keys") == 0 ? l->range_keys
                                             : l->pins;
}

static void check_caps(const char *engine, const struct seam_limits *l, const char *cell)
{
    static const char *const names[] = {"RESERVES", "LAZY_RANGE", "READ_AFTER_POISON", "MAY_ABORT",
                                        "MAY_SKIP"};
    for (size_t i = 0; i < 5; i++)
        if ((strstr(cell, names[i]) != NULL) != ((l->caps >> i & 1u) != 0))
            fail_msg("%s: capability %s is told wrongly", engine, names[i]);
}

static void check_cell(const char *engine, const struct seam_limits *l, const char *row,
                       const char *cell)
{
    if (strcmp(row, "caps") == 0)
        check_caps(engine, l, cell);
    if (strcmp(row, "best ack") == 0)
        assert_string_equal(cell, seam_ack_name(l->best));
    if (strncmp(row, "limit ", 6) != 0)
        return;
    uint64_t told = number_of(cell), is = limit_named(l, row + 6);
    bool pins_without_end = strcmp(row + 6, "pins") == 0 && told == UINT64_MAX && is > 1000000;
    if (told != is && !pins_without_end)
        fail_msg("%s: %s is told as %s, and is %llu", engine, row, cell, (unsigned long long)is);
}

static void limits_are_told(void **state)
{
    (void)state;
    FILE *in = fopen(path, "r");
    char line[4096], heads[CELLS][CELL], cells[CELLS][CELL];
    struct seam_limits limits[CELLS];
    size_t n = 0, limit_rows = 0;
    assert_non_null(in);
    while (fgets(line, sizeof(line), in)) {
        if (line[0] != '|' || strncmp(line, "|--", 3) == 0) {
            if (n > 0 && line[0] != '|')
                break; /* the first table only */
            continue;
        }
        if (n == 0) {
            n = cut(line, heads);
            for (size_t i = 1; i < n; i++)
                if (built_in(heads[i]))
                    limits_of(heads[i], &limits[i]);
            continue;
        }
        assert_int_equal(cut(line, cells), n);
        limit_rows += strncmp(cells[0], "limit ", 6) == 0;
        for (size_t i = 1; i < n; i++)
            if (built_in(heads[i]))
                check_cell(heads[i], &limits[i], cells[0], cells[i]);
    }
    fclose(in);
    assert_int_equal(limit_rows, 6);
}

static const struct seam_tuning *option_of(const char *engine, const char *name)
{
    const struct seam_tuning *t = seam_engine_tunings(engine);
    for (; t && t->name; t++)
        if (strcmp(t->name, name) == 0)
            return t;
    return NULL;
}

/* Rows of the section's option table; returns how many. */
static size_t check_options(const char *engine, FILE *in)
{
    char line[4096], cells[CELLS][CELL];
    size_t n = 0;
    bool table = false;
    while (fgets(line, sizeof(line), in) && strncmp(line, "## ", 3) != 0) {
        if (strncmp(line, "| option |", 10) == 0) {
            table = true;
            continue;
        }
        table = table && line[0] == '|';
        if (!table || strncmp(line, "|--", 3) == 0)
            continue;
        cut(line, cells);
        const struct seam_tuning *t = option_of(engine, cells[0]);
        if (!t)
            fail_msg("%s has no option '%s'", engine, cells[0]);
        else
            assert_string_equal(cells[1], t->fallback);
        n++;
    }
    return n;
}

static void options_are_told(void **state)
{
    (void)state;
    struct seam_engine_info info[32];
    size_t n = seam_engines(info, 32);
    for (size_t i = 0; i < n && i < 32; i++) {
        size_t has = 0;
        char line[4096], head[64];
        FILE *in = fopen(path, "r");
        bool found = false;
        if (!info[i].built_in || info[i].wrapper) {
            fclose(in);
            continue;
        }
        snprintf(head, sizeof(head), "## %s\n", info[i].name);
        while (!found && fgets(line, sizeof(line), in))
            found = strcmp(line, head) == 0;
        if (!found)
            fail_msg("there is no section about %s", info[i].name);
        for (const struct seam_tuning *t = seam_engine_tunings(info[i].name); t && t->name; t++)
            has++;
        assert_int_equal(check_options(info[i].name, in), has);
        fclose(in);
    }
}

int main(int argc, char **argv)
{
    char *mem[] = {argv[0], NULL};
    path = argc > 1 ? argv[1] : "docs/engines.md";
    if (support_begin(1, mem) != 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_told),
        cmocka_unit_test(options_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
