/* table.c - rows of short cells, padded to columns.
 *
 * Keeps true: a cell is cut, never overrun; a lack of memory loses rows and says so. */
#include "bench.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { WIDE = 160 };

struct row {
    char cell[BENCH_TABLE_COLUMNS][BENCH_TABLE_CELL];
    size_t n;
    char wide[WIDE]; /* what follows the cells, outside the columns */
};

struct bench_table {
    char align[BENCH_TABLE_COLUMNS + 1];
    struct row *rows;
    size_t n, cap;
    bool lost;
};

struct bench_table *bench_table_new(const char *align)
{
    struct bench_table *t = calloc(1, sizeof *t);
    if (t != NULL)
        snprintf(t->align, sizeof t->align, "%s", align);
    return t;
}

void bench_table_free(struct bench_table *t)
{
    if (t == NULL)
        return;
    free(t->rows);
    free(t);
}

void bench_table_row(struct bench_table *t)
{
    if (t == NULL)
        return;
    if (t->n == t->cap) {
        size_t cap = t->cap == 0 ? 16 : 2 * t->cap;
        struct row *rows = realloc(t->rows, cap * sizeof *rows);
        if (rows == NULL) {
            t->lost = true;
            return;
        }
        t->rows = rows;
        t->cap = cap;
    }
    memset(&t->rows[t->n++], 0, sizeof *t->rows);
}

void bench_table_cell(struct bench_table *t, const char *fmt, ...)
{
    va_list args;
    if (t == NULL || t->n == 0 || t->rows[t->n - 1].n == strlen(t->align))
        return;
    struct row *r = &t->rows[t->n - 1];
    va_start(args, fmt);
    vsnprintf(r->cell[r->n++], BENCH_TABLE_CELL, fmt, args);
    va_end(args);
}

void bench_table_wide(struct bench_table *t, const char *fmt, ...)
{
    va_list args;
    if (t == NULL || t->n == 0)
        return;
    va_start(args, fmt);
    vsnprintf(t->rows[t->n - 1].wide, WIDE, fmt, args);
    va_end(args);
}

/* Columns a person sees: a byte that continues a UTF-8 sequence takes none. */
static int width(const char *s)
{
    int n = 0;
    for (; *s != '\0'; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static void print_row(const struct bench_table *t, const struct row *r, const int *widths,
                      FILE *out)
{
    int owed = 0; /* blanks not yet printed, so that none ends a line */
    for (size_t c = 0; c < r->n; c++) {
        int pad = widths[c] - width(r->cell[c]);
        bool right = t->align[c] == 'r';
        owed += right ? pad : 0;
        if (r->cell[c][0] != '\0') {
            fprintf(out, "%*s%s", owed, "", r->cell[c]);
            owed = 0;
        }
        owed += (right ? 0 : pad) + 2;
    }
    if (r->wide[0] != '\0')
        fprintf(out, "%*s%s", owed, "", r->wide);
    fputc('\n', out);
}

void bench_table_print(const struct bench_table *t, FILE *out, bool color)
{
    int widths[BENCH_TABLE_COLUMNS] = {0};
    if (t == NULL)
        return;
    for (size_t i = 0; i < t->n; i++)
        for (size_t c = 0; c < t->rows[i].n; c++)
            if (width(t->rows[i].cell[c]) > widths[c])
                widths[c] = width(t->rows[i].cell[c]);
    for (size_t i = 0; i < t->n; i++) {
        if (color && i == 0)
            fputs("\033[1m", out);
        print_row(t, &t->rows[i], widths, out);
        if (color && i == 0)
            fputs("\033[0m", out);
    }
    if (t->lost)
        fputs("(rows lost: out of memory)\n", out);
}
