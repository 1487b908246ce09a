/* probe.h - the raw flush probe: what one durable write costs on this disk at this moment, so that
 * an engine's figures can be given as multiples of it.
 *
 * Every cell is one way of flushing, one state of the file and one size. Cells are interleaved call
 * by call in an order that rotates, so that a disk that drifts moves all of them alike. */
#ifndef SEAM_BENCH_PROBE_H
#define SEAM_BENCH_PROBE_H

#include <seam/seam.h>

enum seam_probe_how {
    SEAM_PROBE_FSYNC,        /* pwrite, fsync */
    SEAM_PROBE_FDATASYNC,    /* pwrite, fdatasync */
    SEAM_PROBE_DSYNC,        /* pwrite through O_DSYNC */
    SEAM_PROBE_DIRECT_DSYNC, /* pwrite through O_DIRECT | O_DSYNC */
    SEAM_PROBE_HOWS
};

enum seam_probe_file {
    SEAM_PROBE_WRITTEN, /* the bytes were written and flushed before, page cache warm */
    SEAM_PROBE_GROWING, /* each write extends the file */
    SEAM_PROBE_FILES
};

struct seam_probe_cell {
    enum seam_probe_how how;
    enum seam_probe_file file;
    uint32_t size;   /* bytes of one write */
    uint64_t n;      /* calls measured; 0: not supported here (no O_DIRECT, size below a block) */
    double mean_us, p50_us, p90_us, p99_us, max_us; /* -1 where n is 0; p99 -1 below n = 1000,
                                                       p90 -1 below n = 100 (10 samples beyond) */
};

/* "fsync", "fdatasync", "o_dsync", "o_direct|o_dsync"; "written", "growing". Static. */
const char *seam_probe_how_name(enum seam_probe_how how);
const char *seam_probe_file_name(enum seam_probe_file file);

struct seam_probe_options {
    const uint32_t *sizes; /* each 512 .. 1 MiB, a multiple of 512; NULL: 512, 4K, 64K, 1M */
    size_t n_sizes;
    uint32_t budget_ms;    /* about; 0: 5000 */
    uint32_t max_calls;    /* of each cell; 0: no limit but the budget */
};

enum { SEAM_PROBE_MAX_SIZES = 16,
       SEAM_PROBE_MAX_CELLS = SEAM_PROBE_MAX_SIZES * SEAM_PROBE_HOWS * SEAM_PROBE_FILES };

/* The long form: all cells, each at least once even when the budget is spent. ret: room for
 * n_sizes * HOWS * FILES cells. Files are made in dir (which must exist) and removed again. Growing
 * files are cut back, outside the measured time, when they reach 64 MiB. options may be NULL. */
int seam_probe_all(const char *dir, const struct seam_probe_options *options,
                   struct seam_probe_cell *ret, size_t *ret_n, struct seam_err *err);

/* The short form, to run between the engines' turns: one file, already written (8 MiB, made at
 * open), 4 KiB, fdatasync. */
struct seam_probe;
int seam_probe_open(const char *dir, struct seam_probe **ret, struct seam_err *err);
/* Flushes for about budget_ms, at least once. */
int seam_probe_run(struct seam_probe *probe, uint32_t budget_ms, struct seam_probe_cell *ret,
                   struct seam_err *err);
/* Removes the file. NULL is allowed. */
void seam_probe_close(struct seam_probe *probe);

#endif
