/* bench.h - what the files of the `seam` command share: exit codes, arguments, text, figures.
 *
 * Relies on the public headers only. Keeps true: results go to stdout, everything else to stderr;
 * an unknown figure is NaN or -1 inside and null or '-' outside, never 0. */
#ifndef SEAM_BENCH_H
#define SEAM_BENCH_H

#include <seam/seam.h>

#include <stdio.h>

enum { /* exit codes of every subcommand; 4 and 5 are reserved */
    BENCH_OK = 0,
    BENCH_FAILED = 1,
    BENCH_USAGE = 2,
    BENCH_NO_ENGINE = 3,
    BENCH_INTERRUPTED = 130
};

/* ---- arguments (args.c) ------------------------------------------------------------------ */

struct bench_option {
    const char *name;  /* with its dashes: "--runs" */
    const char *value; /* what the value is called in help ("N"), NULL for a flag */
    const char *help;
    int id;
};

struct bench_args {
    const char *command;                /* for messages: "seam bench" */
    const struct bench_option *options; /* ended by a NULL name */
    int argc, at;
    char **argv;
};

enum { BENCH_ARG_END = -1, BENCH_ARG_BAD = -2, BENCH_ARG_HELP = -3 };

/* The next option's id, with its value in *ret_value (NULL for a flag), or one of BENCH_ARG_*.
 * What is wrong has been told in one line on stderr when it is BENCH_ARG_BAD. */
int bench_args_next(struct bench_args *a, const char **ret_value);
void bench_args_help(FILE *out, const struct bench_option *options);
/* One line on stderr, "COMMAND: text"; returns BENCH_USAGE. */
int bench_usage(const char *command, const char *fmt, ...) SEAM_PRINTF(2, 3);
/* The same; returns BENCH_FAILED. */
int bench_failed(const char *command, const char *fmt, ...) SEAM_PRINTF(2, 3);
/* Flushes stdout. What could not be written is told, and makes BENCH_OK a BENCH_FAILED; else rc. */
int bench_flush(const char *command, int rc);
/* Puts '?' for every control character: a name from outside then stays within its line. */
void bench_one_line(char *text);
/* What exit code an error of the contract is. */
int bench_exit_code(int code);

/* Cuts the next part of a comma list into buf. False at the end; an empty or too long part is an
 * empty string. */
bool bench_list_next(const char **rest, char *buf, size_t cap);
/* A comma list of counts with suffixes, each within [least, most], into ret[0..cap); returns how
 * many, 0 with a one-line text in why on an error. */
size_t bench_list_counts(const char *text, uint64_t least, uint64_t most, uint64_t *ret, size_t cap,
                         char *why, size_t why_cap);
/* "0.25", "0.25s", "250ms" or "2m" into seconds; false if it is none of these or not positive. */
bool bench_parse_seconds(const char *text, double *ret);

/* ---- figures as text (text.c) ------------------------------------------------------------ */

enum { BENCH_TEXT = 32 };
/* At most three digits and a suffix of 1000s ("6.4k"); '-' for NaN. Returns buf, as all do. */
const char *bench_text_count(double v, char buf[BENCH_TEXT]);
/* The same with suffixes of 1024 ("171M"). */
const char *bench_text_bytes(double v, char buf[BENCH_TEXT]);
/* Milliseconds from microseconds, "0.15". */
const char *bench_text_ms(double us, char buf[BENCH_TEXT]);
/* Two significant decimals below 10, one below 100, else none. */
const char *bench_text_ratio(double v, char buf[BENCH_TEXT]);
/* "55 s", "9 min". */
const char *bench_text_span(double seconds, char buf[BENCH_TEXT]);

enum bench_color { BENCH_COLOR_AUTO, BENCH_COLOR_ALWAYS, BENCH_COLOR_NEVER };
/* "auto", "always" or "never"; -1 if it is none of them. */
int bench_color_parse(const char *text);
/* Whether to colour what goes to out: NO_COLOR and a file mean no when it is AUTO. */
bool bench_color_on(enum bench_color color, FILE *out);

/* ---- statistics (stats.c) ---------------------------------------------------------------- */

struct bench_spread {
    double median, low, high; /* NaN if n is 0 */
    size_t n;                 /* of the values that are known */
};

/* NaNs are left out. n <= BENCH_ROUNDS. */
enum { BENCH_ROUNDS = 200 };
void bench_spread(const double *v, size_t n, struct bench_spread *ret);
/* Of a[i] / b[i] over the rounds in which both are known: never a ratio of medians. */
void bench_paired(const double *a, const double *b, size_t n, struct bench_spread *ret);
/* Whether a range of paired ratios holds 1, or there are too few to tell. */
bool bench_straddles(const struct bench_spread *ratios);

/* ---- latency histogram (hist.c) ---------------------------------------------------------- */

/* Log-linear: 64 steps per power of two, so a figure is at most 1.6 % off; exact below 128 ns. */
enum { BENCH_HIST_STEP_BITS = 6, BENCH_HIST_BUCKETS = (42 - 6 + 1) << 6 };
struct bench_hist {
    uint64_t count, max;
    uint32_t bucket[BENCH_HIST_BUCKETS];
};

size_t bench_hist_index(uint64_t ns);
uint64_t bench_hist_value(size_t index); /* the middle of a bucket */
void bench_hist_add(struct bench_hist *h, uint64_t ns);
void bench_hist_merge(struct bench_hist *h, const struct bench_hist *other);
/* In ns; NaN unless at least 10 samples lie beyond it. */
double bench_hist_percentile(const struct bench_hist *h, double p);

/* ---- tables (table.c) -------------------------------------------------------------------- */

enum { BENCH_TABLE_COLUMNS = 14, BENCH_TABLE_CELL = 64 };
struct bench_table;
/* align: one character per column, 'l' or 'r'. NULL without memory; printing NULL prints nothing. */
struct bench_table *bench_table_new(const char *align);
void bench_table_free(struct bench_table *t);
/* Starts a row; then cells from the left. A row of one `wide` cell takes the rest of the line. */
void bench_table_row(struct bench_table *t);
void bench_table_cell(struct bench_table *t, const char *fmt, ...) SEAM_PRINTF(2, 3);
void bench_table_wide(struct bench_table *t, const char *fmt, ...) SEAM_PRINTF(2, 3);
/* Columns padded to their widest cell, two blanks between, nothing at line ends. */
void bench_table_print(const struct bench_table *t, FILE *out, bool color);

/* ---- commands ---------------------------------------------------------------------------- */

int bench_cmd_engines(int argc, char **argv);
int bench_cmd_probe(int argc, char **argv);
int bench_cmd_corpus(int argc, char **argv);
int bench_cmd_bench(int argc, char **argv);

#endif
