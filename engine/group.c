/* group.c - group commit with a leader and followers.
 *
 * Relies on park.h: every waiting thread sleeps in a place of its own and is woken alone. Keeps
 * true: members run in order of arrival, each once; one group is in flight at a time; nobody but
 * the thread at the head of the queue leads, so leadership needs no thread of its own and passes on
 * by one wake; after a member or an exclusive call answered E_UNKNOWN nothing is run any more.
 *
 * FILL-WAIT. Writers that come back at once after their ack just miss the group that their
 * successor is starting, so that groups settle at half of the writers. A leader may therefore wait
 * a little for the others. That costs a lone writer its latency, so it is done only when three or
 * more writers were seen at once lately, and only when a group takes long enough to be worth it. */
#include "park.h"

#include <seam/backend.h>

#include <assert.h>
#include <errno.h>
#include <string.h>

enum { WAITER_LEAD = 1, WAITER_DONE, WAITER_FILLED };

#define FILL_MIN_WRITERS 3
#define FILL_MIN_RUN_NS 50000u /* a group that runs faster has no device flush worth sharing */

struct waiter {
    struct seam_member *m; /* of an exclusive call: only what it answers */
    seam_group_fn fn;      /* NULL: a member of a group */
    void *arg;
    uint64_t bytes;
    struct waiter *next;
    struct seam_park park;
};

struct seam_group {
    const struct seam_platform *os;
    struct seam_group_config config;
    pthread_mutex_t mutex; /* guards all below; never held while run or fn runs */
    struct waiter *head, *tail;
    uint64_t queued;       /* waiters from head to tail */
    bool busy;             /* somebody leads; he stands at the head until he takes his group */
    bool failed;           /* something answered E_UNKNOWN: nothing is handed over any more */
    struct waiter *filler; /* the leader while it waits for fill_target waiters */
    uint64_t fill_target;
    uint64_t writers[2]; /* seen at once around the last group and the one before */
    uint64_t run_ns;     /* how long a group takes, smoothed */
};

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
    int rc = pthread_mutex_init(&g->mutex, NULL);
    if (rc != 0) {
        os->free(os->ctx, g);
        return seam_fail_os(err, rc, "cannot make a lock for a commit group");
    }
    *ret = g;
    return SEAM_OK;
}

void seam_group_close(struct seam_group *group)
{
    if (!group)
        return;
    assert(!group->busy && !group->head);
    (void)pthread_mutex_destroy(&group->mutex);
    group->os->free(group->os->ctx, group);
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Called and returns with the mutex held; w leads and stands at the head. */
static void fill(struct seam_group *g, struct waiter *w)
{
    uint64_t writers = g->writers[0] > g->writers[1] ? g->writers[0] : g->writers[1];
    uint64_t target = min_u64(writers, g->config.max_members);
    if (g->config.fill_wait_us == 0 || writers < FILL_MIN_WRITERS || g->run_ns < FILL_MIN_RUN_NS ||
        g->queued >= target || g->failed)
        return;
    uint64_t wait_ns = min_u64((uint64_t)g->config.fill_wait_us * 1000, g->run_ns / 2);
    seam_park_reset(&w->park);
    g->filler = w;
    g->fill_target = target;
    (void)pthread_mutex_unlock(&g->mutex);
    (void)seam_park_wait(&w->park, wait_ns);
    (void)pthread_mutex_lock(&g->mutex);
    g->filler = NULL;
}

/* Cuts the group of the leader w off the queue: returns its last waiter. Links the members. */
static struct waiter *take(struct seam_group *g, struct waiter *w, uint64_t *ret_n)
{
    struct waiter *last = w;
    uint64_t n = 1, bytes = w->bytes;
    while (!w->fn && last->next && !last->next->fn && n < g->config.max_members) {
        uint64_t more = last->next->bytes;
        if (bytes >= g->config.max_bytes || more > g->config.max_bytes - bytes)
            break;
        bytes += more;
        last->m->next = last->next->m;
        last = last->next;
        n++;
    }
    last->m->next = NULL;
    g->head = last->next;
    if (!g->head)
        g->tail = NULL;
    g->queued -= n;
    *ret_n = n;
    return last;
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

/* Called with the mutex held and w at the head; returns with it released and w's group answered. */
static void lead(struct seam_group *g, struct waiter *w)
{
    if (!w->fn)
        fill(g, w);
    uint64_t n = 0;
    struct waiter *last = take(g, w, &n);
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
        g->writers[0] = n + g->queued;
    }
    struct waiter *next = g->head;
    g->busy = next != NULL;
    (void)pthread_mutex_unlock(&g->mutex);
    /* From here on the group may be closed and freed by whoever it is that returns last. The next
     * leader goes first: the device should not idle while the others are told. */
    if (next)
        seam_park_wake(&next->park, WAITER_LEAD);
    for (struct waiter *at = w != last ? w->next : NULL; at;) {
        struct waiter *after = at != last ? at->next : NULL; /* a woken waiter may be gone */
        seam_park_wake(&at->park, WAITER_DONE);
        at = after;
    }
}

static int enter(struct seam_group *g, struct waiter *w)
{
    /* The futex kind of park cannot fail; the other fails where a mutex cannot be made. */
    int failed = seam_park_init(&w->park);
    if (failed) {
        w->m->rc = seam_fail_os(&w->m->err, failed, "cannot make a place to wait for a commit group");
        return w->m->rc;
    }
    (void)pthread_mutex_lock(&g->mutex);
    if (g->tail)
        g->tail->next = w;
    else
        g->head = w;
    g->tail = w;
    g->queued++;
    bool leads = !g->busy;
    g->busy = true;
    if (!leads) {
        if (g->filler && (g->queued >= g->fill_target || w->fn)) {
            /* Under the mutex: the filler's park lives on its stack. */
            seam_park_wake(&g->filler->park, WAITER_FILLED);
            g->filler = NULL;
        }
        (void)pthread_mutex_unlock(&g->mutex);
        leads = seam_park_wait(&w->park, 0) == WAITER_LEAD;
        if (leads)
            (void)pthread_mutex_lock(&g->mutex);
    }
    if (leads)
        lead(g, w);
    seam_park_destroy(&w->park);
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
