/* run_ingest.c - a bulk ingest beside the durable appends: one thread that writes the corpus' load set
 * over and over into the same db, in commits of up to 1 MiB that ask for no ack, at a set pace.
 *
 * Relies on the set of run_load.c, made before. Keeps true: every engine is asked for the same bytes a
 * second; what it took is told; a failed ingest commit fails the turn. */
#include "run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COMMIT_BYTES = 1 << 20, NAP_US = 10000 };

static size_t next_commit(const struct run_ingest *g, uint64_t from, uint64_t *ret_bytes)
{
    const struct run_set *s = &g->set;
    uint64_t n = 0, bytes = 0;
    for (; from + n < s->n && n < g->r->limits.ops; n++) {
        uint64_t more = s->ops[from + n].key.len + s->ops[from + n].head.len;
        if (n > 0 && (bytes + more > COMMIT_BYTES || bytes + more > g->r->limits.bytes))
            break;
        bytes += more;
    }
    *ret_bytes = bytes;
    return (size_t)n;
}

/* Until `bytes` are due; in naps, so that a stop is soon seen. */
static void keep_pace(struct run_ingest *g, uint64_t begin)
{
    double due = (double)atomic_load(&g->bytes) / (double)g->r->turn->ingest * 1e9;
    while (!atomic_load(&g->stop) && (double)(run_now(g->r) - begin) < due)
        g->r->os->sleep_us(g->r->os->ctx, NAP_US);
}

static void *ingest_main(void *arg)
{
    struct run_ingest *g = arg;
    uint64_t begin = run_now(g->r);
    for (uint64_t at = 0; !atomic_load(&g->stop) && g->code == SEAM_OK;) {
        uint64_t bytes = 0;
        size_t n = next_commit(g, at, &bytes);
        g->code = seam_write(g->r->db, g->set.ops + at, n, SEAM_ACK_NONE, NULL, &g->err);
        if (g->code == SEAM_OK)
            atomic_fetch_add(&g->bytes, bytes);
        at = at + n < g->set.n ? at + n : 0;
        keep_pace(g, begin);
    }
    g->seconds = (double)(run_now(g->r) - begin) / 1e9;
    return NULL;
}

bool run_ingest_start(struct run *r, struct run_ingest *g)
{
    g->r = r;
    g->started = pthread_create(&g->thread, NULL, ingest_main, g) == 0;
    return g->started || run_fail(r, "ingest", SEAM_E_NOMEM);
}

/* ---- what the engine did meanwhile ------------------------------------------------------- */

/* The place of `word` in a line of words apart by blanks; -1: not there. */
static int place_of(const char *line, const char *end, const char *word)
{
    int n = 0;
    while (line < end) {
        line += strspn(line, " ");
        size_t len = strcspn(line, " \n");
        if (line >= end || len == 0)
            break;
        if (len == strlen(word) && strncmp(line, word, len) == 0)
            return n;
        line += len;
        n++;
    }
    return -1;
}

static double number_at(const char *line, int place)
{
    for (; place > 0; place--) {
        line += strspn(line, " ");
        line += strcspn(line, " \n");
    }
    return strtod(line, NULL);
}

/* From RocksDB's table of levels, whose Comp(cnt) counts flushes in L0: sizes take two words there. */
void run_ingest_levels(const char *text, double *ret_flushes, double *ret_compactions)
{
    const char *head = strstr(text, "Level "), *end = head ? strchr(head, '\n') : NULL;
    int place = end ? place_of(head, end, "Comp(cnt)") : -1;
    const char *l0 = end ? strstr(end, "\n  L0 ") : NULL, *sum = end ? strstr(end, "\n Sum ") : NULL;
    *ret_flushes = *ret_compactions = NAN;
    if (place < 0 || !sum)
        return;
    *ret_flushes = l0 && l0 < sum ? number_at(l0 + 1, place + 1) : 0;
    *ret_compactions = number_at(sum + 1, place + 1) - *ret_flushes;
}

static void ask_engine(struct run *r)
{
    size_t len = seam_db_describe(r->db, NULL, 0);
    char *text = calloc(1, len + 4096);
    if (text) {
        (void)seam_db_describe(r->db, text, len + 4096);
        run_ingest_levels(text, &r->ret->ingest_flushes, &r->ret->ingest_compactions);
    }
    free(text);
}

bool run_ingest_stop(struct run *r, struct run_ingest *g)
{
    if (!g->started)
        return true;
    atomic_store(&g->stop, true);
    pthread_join(g->thread, NULL);
    g->started = false;
    if (g->code != SEAM_OK) {
        r->err = g->err;
        return run_fail(r, "ingest", g->code);
    }
    r->ret->ingest_bytes = (double)atomic_load(&g->bytes) / g->seconds * r->ret->seconds;
    r->ret->user_bytes += r->ret->ingest_bytes;
    ask_engine(r);
    return true;
}
