/* run_reopen.c - how long it takes until a store serves its first get: after a clean close, and after
 * its writer was killed with acked bytes that nothing had flushed.
 *
 * Relies on fork: the writer is a child of the turn's process, which has no threads by then. Keeps
 * true: only seam_open and the first get are timed; the page cache is warm, since the files were read
 * or written just before; after a kill all that was acked at PROCESS is looked for. */
#include "run.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COMMIT = 100, OPENS_LEAST = 3, OPENS_MOST = 1000, CHECK_EACH = 64 };

/* Opens and gets `key`; *ret_ns is what both took. The pin is to be released. */
static bool open_and_get(struct run *r, struct seam_slice key, struct seam_pin *ret, uint64_t *ret_ns)
{
    bool fresh = false;
    uint64_t begin = run_now(r);
    if (!run_open(r, &fresh))
        return false;
    int rc = seam_get(r->db, NULL, key, ret, &r->err);
    *ret_ns = run_now(r) - begin;
    if (rc == SEAM_OK)
        return true;
    r->ret->wrong += rc == SEAM_NOTFOUND;
    return run_fail(r, "first get", rc == SEAM_NOTFOUND ? SEAM_E_CORRUPT : rc);
}

static void add_open(struct run *r, uint64_t took)
{
    bench_hist_add(&r->ret->latency, took);
    r->ret->seconds = (r->ret->operations ? r->ret->seconds : 0) + (double)took / 1e9;
    r->ret->operations++;
    r->ret->rate = (double)r->ret->operations / r->ret->seconds;
}

/* One opening is not counted: it warms. */
static void reopen_clean(struct run *r)
{
    uint64_t budget = (uint64_t)(r->turn->seconds * 1e9), begin;
    if (!run_fill(r) || !run_close(r))
        return;
    begin = run_now(r);
    for (uint64_t n = 0; n <= OPENS_MOST; n++) {
        struct seam_slice key;
        struct seam_pin pin;
        uint64_t took = 0;
        if (n > OPENS_LEAST && run_now(r) - begin > budget)
            break;
        seam_maker_pick(r->maker, r->turn->round * (uint64_t)OPENS_MOST + n, &key, NULL);
        if (!open_and_get(r, key, &pin, &took))
            return;
        if (seam_corpus_check_value(r->corpus, key, pin.value, NULL, NULL) != SEAM_OK)
            r->ret->wrong++;
        seam_unpin(&pin);
        if (n > 0)
            add_open(r, took);
        if (!run_close(r))
            return;
    }
}

/* ---- after a kill ------------------------------------------------------------------------ */

/* Commits messages at PROCESS until `volume` bytes are acked. Returns how many; 0: it failed. */
static uint64_t write_volume(struct run *r, const uint8_t *ring)
{
    struct seam_op ops[COMMIT];
    uint8_t keys[COMMIT][RUN_KEY];
    uint64_t n = 0, bytes = 0;
    bool fresh = false;
    if (!run_open(r, &fresh))
        return 0;
    memset(ops, 0, sizeof(ops));
    while (bytes < r->turn->volume) {
        for (size_t i = 0; i < COMMIT; i++) {
            run_key(n + i, keys[i]);
            ops[i].kind = SEAM_PUT;
            ops[i].key = seam_bytes(keys[i], RUN_KEY);
            ops[i].head = seam_bytes(run_message(r, ring, n + i), r->turn->value);
        }
        int rc = seam_write(r->db, ops, COMMIT, SEAM_ACK_PROCESS, NULL, &r->err);
        if (rc != SEAM_OK) {
            (void)run_fail(r, "write", rc);
            return 0;
        }
        n += COMMIT;
        bytes += COMMIT * (RUN_KEY + (uint64_t)r->turn->value);
    }
    return n;
}

/* What the writer tells its parent before it waits to be killed. */
struct told {
    uint64_t written;
    int code;
    char error[256];
};

static void writer(struct run *r, const uint8_t *ring, int out)
{
    struct told told;
    memset(&told, 0, sizeof(told));
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    told.written = write_volume(r, ring);
    told.code = r->ret->error_code;
    snprintf(told.error, sizeof(told.error), "%.255s", r->ret->error);
    if (write(out, &told, sizeof(told)) != (ssize_t)sizeof(told))
        _exit(1);
    for (;;)
        pause();
}

/* false: told in ret. */
static bool write_and_kill(struct run *r, const uint8_t *ring, uint64_t *ret)
{
    int ends[2];
    struct told told;
    if (pipe(ends) != 0)
        return run_fail(r, "pipe", SEAM_E_IO);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        writer(r, ring, ends[1]);
    }
    close(ends[1]);
    ssize_t n = -1;
    while (pid > 0 && (n = read(ends[0], &told, sizeof(told))) < 0 && errno == EINTR)
        ;
    close(ends[0]);
    if (pid > 0) {
        kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (n != (ssize_t)sizeof(told))
        return run_fail(r, "the writer", SEAM_E_IO);
    if (told.written == 0) {
        snprintf(r->err.text, sizeof(r->err.text), "%.200s", told.error);
        return run_fail(r, "the writer", told.code);
    }
    *ret = told.written;
    return true;
}

static void reopen_after_kill(struct run *r)
{
    uint8_t *ring = NULL, key[RUN_KEY];
    uint64_t n = 0, took = 0;
    struct seam_pin pin;
    if (run_ring_make(r, &ring) && write_and_kill(r, ring, &n)) {
        run_key(n - 1, key); /* the last that was acked */
        if (open_and_get(r, seam_bytes(key, RUN_KEY), &pin, &took)) {
            seam_unpin(&pin);
            add_open(r, took);
            for (uint64_t i = 0; i < n && run_check_message(r, ring, i);)
                i += i + COMMIT < n ? CHECK_EACH : 1; /* each of the last commit */
            (void)run_close(r);
        }
    }
    free(ring);
}

void run_reopen(struct run *r)
{
    if (r->turn->workload == BENCH_REOPEN)
        reopen_clean(r);
    else
        reopen_after_kill(r);
}
