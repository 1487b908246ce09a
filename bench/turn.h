/* turn.h - one turn: one engine doing one workload in a process of its own.
 *
 * The parent (round.c) fills a struct bench_turn, a fresh child runs it (turn.c, run_*.c) and
 * answers with a struct bench_figures. Relies on the public headers and the rails. Keeps true: what
 * is timed has been warmed up in the same process; every value read is checked; figures that are
 * not known are NaN or -1, never 0. */
#ifndef SEAM_BENCH_TURN_H
#define SEAM_BENCH_TURN_H

#include "bench.h"

enum bench_workload { /* names: "append", "load", ... in this order */
    BENCH_APPEND,       /* durable commits of `batch` puts of `value` bytes, ascending keys */
    BENCH_JOURNAL,      /* the same through seam_journal_append: `batch` events an append */
    BENCH_LOAD,         /* bulk load of `keys` entries of the corpus, 64 MiB commits, one last flush */
    BENCH_MERGE,        /* seam_projection_merge of the corpus' incoming units over the loaded store */
    BENCH_GET,          /* point reads of keys that are there, by the profile's skew */
    BENCH_GET_MISS,     /* of keys that are not */
    BENCH_FLOOR,        /* "last key <= k under prefix p" */
    BENCH_SCAN,         /* whole store forward, values touched */
    BENCH_SCAN_REVERSE, /* and backward */
    BENCH_FLOOR_DELETED,        /* floor and scan-reverse where nine keys of ten have been deleted */
    BENCH_SCAN_REVERSE_DELETED,
    BENCH_REOPEN,       /* open a cleanly closed store and serve the first get */
    BENCH_REOPEN_AFTER_KILL, /* the same after SIGKILL, with `volume` bytes acked at PROCESS, unflushed */
    BENCH_INGEST,       /* append, while a bulk ingest of `ingest` bytes a second runs in the same db;
                           goes on until `volume` acks are timed */
    BENCH_REBUILD,      /* seam_projection_rebuild over a journal of the first `volume` entries of the
                           load set */
    BENCH_REBUILD_READ, /* the same while one thread reads the old generation */
    BENCH_UNITS,        /* the corpus' units as commits, a flush each: `stress` transactions */
    BENCH_FILL,         /* not a row: makes the store that the reads and merge use */
    BENCH_WORKLOADS
};

const char *bench_workload_name(enum bench_workload w);
int bench_workload_parse(const char *name); /* -1: none of them; FILL has no name */
bool bench_workload_reads(enum bench_workload w);   /* needs a filled store, leaves it as it is */
bool bench_workload_deleted(enum bench_workload w); /* reads a store of which 90 % was deleted */
bool bench_workload_floors(enum bench_workload w);
bool bench_workload_scans(enum bench_workload w, bool *ret_back);
bool bench_workload_batched(enum bench_workload w); /* has rows for each batch */
bool bench_workload_opens(enum bench_workload w);   /* times openings: nothing for volatile engines */
bool bench_workload_rebuilds(enum bench_workload w);
bool bench_workload_durable(enum bench_workload w); /* each operation is a commit with an ack */
const char *bench_workload_unit(enum bench_workload w); /* "acks/s", "keys/s", "events/s", "reads/s" */

/* Given to every engine alike for buffers and caches, so that none is starved. */
#define BENCH_ENGINE_MEMORY (UINT64_C(512) << 20)

enum { BENCH_SPEC = 512, BENCH_PATH = 1024 };

enum { RUN_KEY = 16 }; /* bytes of an appended message's key */

struct bench_turn {
    enum bench_workload workload;
    char engine[BENCH_SPEC];  /* a spec, or "rawlog" or "null" (append and units only) */
    char profile[BENCH_SPEC]; /* of the corpus */
    char dir[BENCH_PATH];     /* the store's; for reads a filled one. The child's working space is
                                 its parent directory */
    uint64_t seed;            /* of the corpus */
    uint32_t round;           /* which part of the corpus' queries and messages this turn uses */
    uint32_t threads, batch;
    uint32_t ack;             /* as in seam_write */
    uint32_t value;           /* bytes of an appended value */
    uint64_t volume;          /* as the workload says; bytes, where it does not */
    uint64_t steady;          /* bytes written before durable turns, run_steady.c */
    uint64_t ingest;          /* bytes a second */
    uint64_t keys;            /* in the load set */
    double seconds, warm_seconds;
};

struct bench_figures {
    bool done;            /* false: see error */
    char error[512];
    int error_code;       /* enum seam_code */
    double rate;          /* operations per second */
    uint64_t operations;  /* timed */
    double seconds;       /* they took */
    struct bench_hist latency; /* of one operation (commit, read); scans: none; rebuilds: of a
                                  read beside it */
    int ack_given;        /* enum seam_ack, -1 where nothing is acked */
    double flushes;       /* counted from outside the engine while timed; NaN: no counter */
    double acks;          /* commits acked while timed; NaN for reads */
    double records;       /* puts in them */
    double user_bytes;    /* key and value bytes acked while timed */
    double device_bytes;  /* NaN where there is no device counter; up to the flush that ends it */
    double cpu_us;        /* of the process while timed */
    double rss_peak_bytes;
    double ingest_bytes;  /* taken by the bulk ingest while timed; NaN: there was none */
    double ingest_flushes, ingest_compactions; /* of the engine since open, where it tells; else NaN */
    double beside_reads;  /* by the reader beside a rebuild while timed; NaN: there was none */
    double disk_bytes;    /* of the store's directory afterwards */
    uint64_t failures;    /* operations that failed while timed */
    uint64_t failures_by_code[32]; /* index: minus the code */
    uint64_t wrong;       /* values or answers that were not what the corpus says */
    char answers[33];     /* digest over the answers of a fixed number of queries; "" if none */
};

/* The child's side: runs the turn in this process. Never fails otherwise than through ret->done. */
void bench_turn_run(const struct bench_turn *turn, struct bench_figures *ret);

#endif
