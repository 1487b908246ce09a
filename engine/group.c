/* group.c - group commit with a leader and followers.
 *
 * Relies on park.h. Keeps true: members run in order of arrival, each once; one batch is in flight
 * at a time; nobody but the first of a batch leads it, so leadership needs no thread of its own and
 * passes on by one wake; after a member or an exclusive call answered E_UNKNOWN nothing is run any
 * more.
 *
 * BATCHES. Who arrives joins the last batch in the queue if that is still open, else begins one. So
 * each knows the number of its batch while it waits, and all of a batch are told by one call of the
 * kernel. Batches are done in order; those of odd and of even numbers are waited for in different
 * places, so that the end of one batch does not wake the next one's.
 *
 * FILL-WAIT. Writers that come back at once after their ack just miss the group that their
 * successor is starting, so that groups settle at half of the writers. A leader may therefore wait
 * a little for the others. That costs a lone writer its latency, so it is done only when three or
 * more writers were seen at once lately, and only when a group takes long enough to be worth it. It
 * gives its turn away and looks again: going to sleep and being woken takes as long as the wait. */
#include "park.h"

#include <seam/backend.h>

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#define FILL_MIN_WRITERS 3
#define FILL_MIN_RUN_NS 15000u /* a group that runs faster has no device flush worth sharing */
#define FILL_LOOKS_PER_US 20u  /* more of them are not made, should the clock stand still */

struct waiter {
    struct seam_member *m; /* of an exclusive call: only what it answers */
    seam_group_fn fn;      /* NULL: a member of a group */
    void *arg;
    uint64_t bytes;
    uint32_t batch;
    struct waiter *next;
};

struct seam_group {
    const struct seam_platform *os;
    struct seam_group_config config;
    pthread_mutex_t mutex; /* guards all below but the counts; never held while run or fn runs */
    struct waiter *head, *tail;
    _Atomic uint64_t queued; /* waiters from head to tail; read without the mutex by fill */
    _Atomic uint32_t exclusives; /* among them; they end a fill-wait */
    bool busy;               /* somebody leads; he stands at the head until he takes his batch */
    bool failed;             /* something answered E_UNKNOWN: nothing is handed over any more */
    uint32_t batch;          /* number of the last one begun */
    uint64_t open_n, open_bytes; /* in it, while it is in the queue */
    uint64_t fill_target;        /* of the last fill-wait */
    uint64_t writers[2];         /* seen at once around the last group and the one before */
    uint64_t run_ns;             /* how long a group takes, smoothed */
    struct seam_count lead;      /* the batch whose turn it is */
    struct seam_count done[2];   /* the last batch of an even number, of an odd one */
};

/* Undoes the first n of: the mutex, the counts. */
static void unmake(struct seam_group *g, int n)
{
    if (n > 3)
        seam_count_destroy(&g->done[1]);
    if (n > 2)
        seam_count_destroy(&g->done[0]);
    if (n > 1)
        seam_count_destroy(&g->lead);
    if (n > 0)
        (void)pthread_mutex_destroy(&g->mutex);
}

static int make(struct seam_group *g)
{
    int n = 0, rc = pthread_mutex_init(&g->mutex, NULL);
    if (rc == 0 && (++n, rc = seam_count_init(&g->lead, 0)) == 0 &&
        (++n, rc = seam_count_init(&g->done[0], 0)) == 0 &&
        (++n, rc = seam_count_init(&g->done[1], UINT32_MAX)) == 0)
        return 0;
    unmake(g, n);
    return rc;
}

int seam_group_open(const struct seam_platform *os, const struct seam_group_config *config,
                    struct seam_group **ret, struct seam_err *err)
{
    struct seam_group *g = os->alloc(os->ctx, sizeof *g);
    if (!g)
        return seam_fail(err, SEAM_E_NOMEM, "out of memory for a commit group");
    memset(g, 0, sizeof *g);
    g->os = os;
    g->config = *config;
    if (g->config.max_members == 0)
        g->config.max_members = 1024;
    if (g->config.max_bytes == 0)
        g->config.max_bytes = UINT64_C(64) << 20;
    int rc = make(g);
    if (rc != 0) {
        os->free(os->ctx, g);
        return seam_fail_os(err, rc, "cannot make the locks of a commit group");
    }
    *ret = g;
    return SEAM_OK;
}

void seam_group_close(struct seam_group *group)
{
    if (!group)
        return;
    assert(!group->busy && !group->head);
    unmake(group, 4);
    group->os->free(group->os->ctx, group);
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Called and returns with the mutex held; the caller leads and stands at the head. */
static void fill(struct seam_group *g)
{
    uint64_t writers = g->writers[0] > g->writers[1] ? g->writers[0] : g->writers[1];
    uint64_t target = min_u64(writers, g->config.max_members), most_us = g->config.fill_wait_us;
    if (most_us == 0 || writers < FILL_MIN_WRITERS || g->run_ns < FILL_MIN_RUN_NS ||
        atomic_load(&g->queued) >= target || atomic_load(&g->exclusives) > 0 || g->failed)
        return;
    uint64_t wait_ns = min_u64(most_us * 1000, g->run_ns / 2), looks = most_us * FILL_LOOKS_PER_US;
    g->fill_target = target;
    (void)pthread_mutex_unlock(&g->mutex);
    uint64_t start = g->os->now_ns(g->os->ctx, SEAM_CLOCK_MONOTONIC);
    do {
        (void)sched_yield();
    } while (atomic_load(&g->queued) < target && atomic_load(&g->exclusives) == 0 && looks-- > 0 &&
             g->os->now_ns(g->os->ctx, SEAM_CLOCK_MONOTONIC) - start < wait_ns);
    (void)pthread_mutex_lock(&g->mutex);
}

/* Takes the batch of its leader w off the queue and links its members; returns how many. */
static uint64_t take(struct seam_group *g, struct waiter *w)
{
    struct waiter *last = w;
    uint64_t n = 1;
    for (; last->next && last->next->batch == w->batch; last = last->next, n++)
        last->m->next = last->next->m;
    last->m->next = NULL;
    g->head = last->next;
    if (!g->head)
        g->tail = NULL;
    atomic_fetch_sub(&g->queued, n);
    if (w->fn)
        atomic_fetch_sub(&g->exclusives, 1);
    return n;
}

/* Does the work of w's group, or answers that an earlier one failed. True: it failed, now or then. */
static bool run_group(struct seam_group *g, struct waiter *w, uint64_t n, bool failed)
{
    for (struct seam_member *m = w->m; m && failed; m = m->next)
        m->rc = seam_fail(&m->err, SEAM_E_POISONED,
                          "a commit before this one failed: nothing of this one was handed over");
    if (failed)
        return true;
    if (w->fn)
        w->m->rc = w->fn(w->arg, &w->m->err);
    else
        g->config.run(g->config.ctx, w->m, (size_t)n);
    for (struct seam_member *m = w->m; m && !failed; m = m->next)
        failed = m->rc == SEAM_E_UNKNOWN;
    return failed;
}

/* Called with the mutex held and w at the head; returns with it released and w's batch answered. */
static void lead(struct seam_group *g, struct waiter *w)
{
    if (!w->fn)
        fill(g);
    uint64_t n = take(g, w);
    bool failed = g->failed;
    (void)pthread_mutex_unlock(&g->mutex);

    uint64_t start = g->os->now_ns(g->os->ctx, SEAM_CLOCK_MONOTONIC);
    failed = run_group(g, w, n, failed);
    uint64_t took = g->os->now_ns(g->os->ctx, SEAM_CLOCK_MONOTONIC) - start;

    (void)pthread_mutex_lock(&g->mutex);
    g->failed = failed;
    if (!w->fn) {
        g->run_ns = g->run_ns == 0 ? took : g->run_ns - g->run_ns / 8 + took / 8;
        g->writers[1] = g->writers[0];
        g->writers[0] = n + atomic_load(&g->queued);
    }
    struct waiter *next = g->head;
    g->busy = next != NULL;
    /* Set while nobody else can lead, so that batches are set in order, and even if nobody waits: a
     * count that stayed behind by 2^31 would seem to be ahead. */
    seam_count_set(&g->done[w->batch & 1], w->batch);
    if (next)
        seam_count_set(&g->lead, next->batch);
    (void)pthread_mutex_unlock(&g->mutex);
    /* The next leader is told first: the device should not idle meanwhile. */
    if (next)
        seam_count_wake(&g->lead);
    if (n > 1)
        seam_count_wake(&g->done[w->batch & 1]);
}

/* Under the mutex: puts w into the queue; true: it begins a batch. */
static bool queue(struct seam_group *g, struct waiter *w)
{
    bool joins = g->tail && !w->fn && !g->tail->fn && g->open_n < g->config.max_members &&
                 g->open_bytes < g->config.max_bytes &&
                 w->bytes <= g->config.max_bytes - g->open_bytes;
    if (joins) {
        g->open_n++;
        g->open_bytes += w->bytes;
    } else {
        g->batch++;
        g->open_n = 1;
        g->open_bytes = w->bytes;
    }
    w->batch = g->batch;
    if (g->tail)
        g->tail->next = w;
    else
        g->head = w;
    g->tail = w;
    atomic_fetch_add(&g->queued, 1);
    if (w->fn)
        atomic_fetch_add(&g->exclusives, 1);
    return !joins;
}

static int enter(struct seam_group *g, struct waiter *w)
{
    (void)pthread_mutex_lock(&g->mutex);
    bool leads = queue(g, w), now = !g->busy;
    g->busy = true;
    if (now) { /* nobody leads, so the queue was empty */
        seam_count_set(&g->lead, w->batch);
        lead(g, w);
        return w->m->rc;
    }
    (void)pthread_mutex_unlock(&g->mutex);
    if (leads) {
        seam_count_reach(&g->lead, w->batch);
        (void)pthread_mutex_lock(&g->mutex);
        lead(g, w);
    } else {
        seam_count_reach(&g->done[w->batch & 1], w->batch);
    }
    return w->m->rc;
}

int seam_group_commit(struct seam_group *group, struct seam_member *m)
{
    struct waiter w;
    memset(&w, 0, sizeof w);
    w.m = m;
    w.bytes = m->commit ? m->commit->bytes : 0;
    m->next = NULL;
    return enter(group, &w);
}

int seam_group_exclusive(struct seam_group *group, seam_group_fn fn, void *arg,
                         struct seam_err *err)
{
    struct seam_member m;
    struct waiter w;
    memset(&m, 0, sizeof m);
    memset(&w, 0, sizeof w);
    w.m = &m;
    w.fn = fn;
    w.arg = arg;
    (void)enter(group, &w);
    if (m.rc != SEAM_OK && err)
        *err = m.err;
    return m.rc;
}
