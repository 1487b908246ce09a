/* plan.h - what a bench run is to do, and what it found: one row for each workload, engine, thread
 * count, batch and ack, with a figure for each round.
 *
 * Keeps true: a figure that is not known is NaN; rows are compared only within one block. */
#ifndef SEAM_BENCH_PLAN_H
#define SEAM_BENCH_PLAN_H

#include "environment.h"
#include "probe.h"
#include "turn.h"

#include <seam/corpus.h>

enum { PLAN_ENGINES = 24, PLAN_LIST = 12, PLAN_CAVEATS = 64, PLAN_TEXT = 240, BENCH_ACK_TEXT = 96 };

#define PLAN_KEYS_MOST UINT64_C(1000000000)  /* that a corpus can have */
#define PLAN_COMMIT_MOST (UINT64_C(1) << 30) /* bytes; no engine takes more in one commit */

struct plan_engine {
    char spec[BENCH_SPEC];
    bool rail, is_volatile, opened;
    struct seam_limits limits; /* if opened */
};

struct plan {
    char profile[BENCH_SPEC], dir[BENCH_PATH], journal_dir[BENCH_PATH]; /* "": dir */
    struct plan_engine engines[PLAN_ENGINES]; /* rails last */
    size_t n_engines;
    bool workloads[BENCH_WORKLOADS], limits;
    uint64_t threads[PLAN_LIST], batches[PLAN_LIST];
    size_t n_threads, n_batches;
    uint32_t acks[PLAN_LIST];
    size_t n_acks;
    uint32_t runs, value;
    double seconds, warm_seconds;
    uint64_t seed, keys, unflushed, ingest, steady;
    uint64_t average; /* bytes of an entry of the corpus */
    uint64_t unit_ops; /* most of one unit of it */
    bool quick, dry_run;
    const char *json; /* NULL: none; "-": stdout */
    enum bench_color color;
};

/* One row: an engine in a block. Blocks are numbered; rows of one block are comparable. */
struct plan_row {
    size_t block, engine;
    struct bench_turn turn;
    char left_out[PLAN_TEXT];           /* why it is not run; "" if it is */
    uint32_t rounds;                    /* done */
    double rate[BENCH_ROUNDS];          /* NaN: that round failed */
    double flush_us[BENCH_ROUNDS];      /* of the raw probe around the turn */
    double p50_us[BENCH_ROUNDS], p999_us[BENCH_ROUNDS]; /* of that round; NaN: too few samples */
    struct bench_figures sum;           /* counters and latency over the rounds; peaks are maxima */
    bool failed;                        /* a round had an error, a failure or a wrong answer */
};

struct report {
    const struct plan *plan;
    struct plan_row *rows;
    size_t n_rows, n_blocks;
    struct seam_environment env;
    char digest[33];
    uint64_t digest_units; /* that it is over */
    struct seam_corpus_info corpus; /* pointers inside are of the open corpus */
    struct seam_probe_cell flush;       /* of the whole run: the short probe's turns merged */
    double flush_low_us, flush_high_us;
    double fsync_us, fdatasync_us;      /* of already written 4 KiB; NaN: not probed */
    char caveats[PLAN_CAVEATS][PLAN_TEXT];
    size_t n_caveats;
    bool interrupted, failed;
    double took_seconds;
};

/* plan.c */
/* Fills from the command line; an exit code, BENCH_OK, or -1 for "help was asked and given". */
int plan_parse(int argc, char **argv, struct plan *ret);
/* Checks engines and profile without writing anything; picks sizes. */
int plan_check(struct plan *p);
/* plan_rows.c */
/* The rows in order. NULL: no memory. */
struct plan_row *plan_rows(const struct plan *p, size_t *ret_n, size_t *ret_blocks);
double plan_estimate(const struct plan *p, const struct plan_row *rows, size_t n,
                     size_t *ret_turns);

/* data.c: the directory that a run works in. */
struct data_dir {
    char path[BENCH_PATH]; /* absolute */
    bool made;             /* by this run */
    int lock_fd;           /* the marker, locked */
};
/* An exit code; one line has been told if it is not BENCH_OK. option: "--dir", or the one that gave
 * path. */
int data_open(const char *path, const char *option, struct data_dir *ret);
/* The same refusals, as far as can be told without writing. */
int data_check(const char *path, const char *option);
bool data_remove_store(const struct data_dir *d, const char *name);
void data_close(struct data_dir *d);

/* round.c */
extern volatile int round_interrupted; /* set by SIGINT and SIGTERM */
void round_catch_signals(void);
/* Runs all rows, round by round, engines rotated. journal: where the rows of JOURNAL go, NULL: d. */
void round_run_all(const struct plan *p, const struct data_dir *d, const struct data_dir *journal,
                   struct report *r);
/* Adds one turn's figures to its row; flush_us: of the raw probe around the turn, NaN: unknown. */
void round_add(struct plan_row *row, const struct bench_figures *f, double flush_us);
void report_caveat(struct report *r, const char *fmt, ...) SEAM_PRINTF(2, 3);

/* wire.c: one turn in a child process. */
bool wire_turn(const struct bench_turn *turn, const char *count_dir, struct bench_figures *ret);
/* The child's side: reads the request from stdin, runs it, answers on stdout. */
int wire_child(void);
/* For tests: text to be freed, NULL without memory; false: malformed. */
char *wire_encode_turn(const struct bench_turn *turn);
bool wire_decode_turn(const char *text, struct bench_turn *ret);
char *wire_encode_figures(const struct bench_figures *f);
bool wire_decode_figures(const char *text, struct bench_figures *ret);

/* report_rows.c: what the tables and the JSON both need of a row. */
double row_flushes_per_ack(const struct plan_row *row);
double row_device_per_user(const struct plan_row *row);
double row_beside_reads(const struct plan_row *row); /* a second, beside a rebuild */
double row_cpu_us_per_op(const struct plan_row *row);
/* Median over the rounds of the round's p50 by the raw flush around it; NaN if nothing is known. */
double row_times_flush(const struct plan_row *row);
bool row_flush_moved(const struct plan_row *row); /* over its rounds by more than 1.5 times */
double row_percentile_us(const struct plan_row *row, double p);
/* "counted", "declared", "contradicted" (the flushes counted cannot carry the ack), "" (no acks). */
const char *row_ack_how(const struct plan_row *row);
/* What an ack of an engine with these limits does not cover: "may skip damaged records"; "": nothing.
 * An ack is never told without it. */
const char *report_ack_but(const struct seam_limits *l);
/* The cell of a row: "power, may skip damaged records, counted"; "-" if nothing is acked. */
const char *report_ack_text(const struct plan_row *row, const struct seam_limits *l,
                            char buf[BENCH_ACK_TEXT]);
const struct plan_row *row_of_rail(const struct report *r, size_t block);
/* Adds the caveats that the figures call for. */
void report_judge(struct report *r);

/* report_ingest.c: what ran beside the appends, and the tails held against each other. */
void report_ingest(const struct report *r, FILE *out);
/* report_open.c: a table of its own for each; nothing if no such workload was asked for. */
void report_reopen(const struct report *r, FILE *out, bool color);

/* report_rebuild.c: likewise. */
void report_rebuild(const struct report *r, FILE *out, bool color);

/* report_text.c, report_json.c */
void report_plan_line(const struct plan *p, double estimate, size_t turns, FILE *out);
void report_text(const struct report *r, FILE *out);
/* An exit code. */
int report_json(const struct report *r, const char *path);

/* json_file.c: an exit code, told if it is not BENCH_OK. check: before anything is measured; leaves no file.
 * close: of what open returned (NULL: errno says why); failed: it was not written whole. */
int json_file_check(const char *path);
FILE *json_file_open(const char *path);
int json_file_close(const char *path, FILE *file, int failed);

#endif
