/* run.h - what the files that run a turn share: the corpus, the store, the meter.
 *
 * Private to turn.c and run_*.c. Keeps true: nothing of the harness' own is timed but the clock
 * reads around an operation and a few loads; what the harness allocates is there before the meter
 * starts and is taken off the peak of memory. */
#ifndef SEAM_BENCH_RUN_H
#define SEAM_BENCH_RUN_H

#include "turn.h"

#include "environment.h"
#include "flushcount.h"

#include <seam/corpus.h>
#include <seam/platform.h>

#include <pthread.h>
#include <stdatomic.h>

/* One commit of a bulk load, before an engine's own limits. */
#define RUN_LOAD_BYTES (UINT64_C(64) << 20)

struct run {
    const struct bench_turn *turn;
    struct bench_figures *ret;
    const struct seam_platform *os;
    struct seam_corpus *corpus;
    struct seam_corpus_info info;
    struct seam_maker *maker;
    struct seam_db *db;
    struct seam_limits limits;
    struct seam_err err;
    bool is_volatile;     /* the engine keeps nothing: it is filled in the turn itself */
    struct seam_environment env;
    const _Atomic uint64_t *acked; /* NULL, or acks so far: run_threads waits for turn->volume of them */
    int64_t rss_before;   /* the harness' own */
    /* the meter */
    uint64_t begin_ns;
    int64_t begin_cpu_us;
    struct seam_device_io begin_device;
    struct seam_flushcount begin_flushes;
};

uint64_t run_now(const struct run *r);

/* Notes the failure of a step, with r->err as the reason; returns false. */
bool run_fail(struct run *r, const char *step, int rc);
/* Opens the turn's store in turn->dir (created if it is not there). *ret_fresh: it was made now. */
bool run_open(struct run *r, bool *ret_fresh);
bool run_close(struct run *r);

/* The meter: what the process, the device and the flush counter show between the two. */
void run_meter_begin(struct run *r);
void run_meter_end(struct run *r);

/* Threads that make what they need, then warm up, are measured and stop together. */
enum { RUN_MAKE, RUN_WARM, RUN_TIMED, RUN_STOP };
struct run_worker {
    struct run *r;
    unsigned number;
    _Atomic int *phase;
    _Atomic unsigned *ready; /* threads that run_ready has counted */
    bool counted;
    void *arg;               /* the workload's own */
    struct bench_hist *hist; /* of operations that began while timed */
    _Atomic uint64_t done;   /* operations that ended while timed; by run_count */
    _Atomic bool ended;      /* the body returned */
    uint64_t records, bytes, failures, wrong; /* that ended while timed */
    uint64_t failures_by_code[32];
    int ack_given;
    int first_code;          /* of the first failure, with its text */
    char first_text[256];
};
typedef void run_body(struct run_worker *w);
/* A body calls it once it has made what it needs: returns when all have, and the warm-up begins. */
void run_ready(struct run_worker *w);
/* One thread counts, another looks: no more than a load and a store. */
static inline void run_count(struct run_worker *w, uint64_t n)
{
    uint64_t done = atomic_load_explicit(&w->done, memory_order_relaxed);
    atomic_store_explicit(&w->done, done + n, memory_order_relaxed);
}
/* Runs body in turn->threads threads and sums up into ret. Goes on beyond the turn's time until a few
 * operations have ended, so that one that takes longer has a rate too. false: told in ret. */
bool run_threads(struct run *r, run_body *body, void *arg);
/* Counts a failed operation; err NULL: there is no text. true: go on, false: the store takes no more. */
bool run_note_failure(struct run_worker *w, int rc, const struct seam_err *err);

/* run_load.c: the bulk-load set, in one piece of memory, so that making it is not timed. */
struct run_set {
    struct seam_op *ops;
    uint64_t *values; /* offsets while it is filled */
    uint8_t *bytes;
    uint64_t n, size;
};
bool run_set_make(struct run *r, struct run_set *ret);
void run_set_free(struct run_set *set);
/* Commits the whole set in large commits at the lowest ack; then one flush at the best level. */
bool run_set_commit(struct run *r, const struct run_set *set);

/* run_deleted.c: nine keys of ten deleted. */
enum { RUN_SETTLE_US = 2000000 }; /* what every engine gets to settle after the deletes */
bool run_delete(struct run *r, const struct run_set *set);
/* The keys that are left, in order: the oracle of what such a store answers. */
struct run_left {
    struct seam_slice *keys;
    uint64_t *loads; /* which entry of the load set */
    uint8_t *bytes;
    uint64_t n;
};
bool run_left_make(struct run *r, struct run_left *ret);
void run_left_free(struct run_left *left);
/* Which entry answers "last key <= key under prefix"; UINT64_MAX: none. */
uint64_t run_left_floor(const struct run_left *left, struct seam_slice prefix, struct seam_slice key);

/* run_read.c: opens the turn's store; one that is new is filled with the set, closed and opened anew. */
bool run_fill(struct run *r);
/* Reads a byte of each page, so that an engine that lends addresses pays for the pages behind them. */
unsigned run_touch(struct seam_slice value);

/* run_append.c: messages that prove themselves, made ahead; number i is message i % RUN_RING. */
enum { RUN_RING = 4096 };
bool run_ring_make(struct run *r, uint8_t **ret); /* to be freed, on failure too */
const uint8_t *run_message(const struct run *r, const uint8_t *ring, uint64_t number);
void run_key(uint64_t number, uint8_t key[RUN_KEY]);
uint64_t run_first_unit(const struct run *r);

/* What the threads of run_append.c share. */
struct run_append {
    uint8_t *ring;
    struct seam_rawlog *log;      /* the engine is rawlog */
    struct seam_journal *journal; /* the workload is journal */
    uint32_t stream;
    bool null;              /* the engine is null */
    _Atomic uint64_t next;  /* key or unit numbers given out */
    _Atomic uint64_t acked; /* highest acked number + 1, seen by any thread */
};

/* run_check.c: what is not what was acked counts as wrong. false: told in ret. */
/* Whether number is there and is its message. */
bool run_check_message(struct run *r, const uint8_t *ring, uint64_t number);
/* What was acked through an engine or a journal; nothing after failures. */
bool run_check_append(struct run *r, const struct run_append *a);
/* The same of the log in turn->dir, closed. */
bool run_check_rawlog(struct run *r, const struct run_append *a);

/* run_ingest.c: a bulk ingest beside the turn. Zeroed, then its set made by the caller. */
struct run_ingest {
    struct run *r;
    struct run_set set;
    pthread_t thread;
    bool started;
    _Atomic bool stop;
    _Atomic uint64_t bytes;
    double seconds;
    int code;
    struct seam_err err;
};
bool run_ingest_start(struct run *r, struct run_ingest *g); /* false: told in ret, as below */
/* Ends it, and fills ret->ingest_... after the meter has ended. */
bool run_ingest_stop(struct run *r, struct run_ingest *g);
/* Flushes and compactions out of RocksDB's table of levels; NaN if there is none in text. */
void run_ingest_levels(const char *text, double *ret_flushes, double *ret_compactions);

/* run_steady.c: writes turn->steady bytes. ring: the messages. false: told in ret. */
bool run_steady(struct run *r, const uint8_t *ring);

/* The turns. */
void run_reopen(struct run *r);
void run_append(struct run *r);
void run_load(struct run *r);
void run_read(struct run *r);
void run_merge(struct run *r);
void run_rebuild(struct run *r);

/* 128 bits over what was answered, as hex. */
struct run_digest {
    uint32_t crc[2];
    uint64_t n, bytes;
};
void run_digest_add(struct run_digest *d, struct seam_slice s);
void run_digest_text(const struct run_digest *d, char ret[33]);

#endif
