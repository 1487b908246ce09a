/* ledger.c - amounts promised to tickets, against a cap.
 *
 * Relies on the platform's clock for deadlines. Keeps true: used + promised never passes the cap by
 * a take; takers are served in order of arrival, so that a large one is not starved by small ones;
 * a give wakes the first taker only, who wakes the next when he is served. */
#include "park.h"

#include <seam/backend.h>

#include <assert.h>
#include <string.h>

/* A sleep is cut in slices of this length, so that a platform clock that runs unlike the system's
 * (a test's) is looked at again. */
#define SLICE_NS 20000000u

struct taker {
    pthread_cond_t cond;
    struct taker *next;
};

struct seam_ledger {
    const struct seam_platform *os;
    pthread_mutex_t mutex; /* guards all below */
    uint64_t cap, used, promised;
    struct taker *head, *tail;
};

int seam_ledger_open(const struct seam_platform *os, uint64_t cap, struct seam_ledger **ret,
                     struct seam_err *err)
{
    struct seam_ledger *l = os->alloc(os->ctx, sizeof *l);
    if (!l)
        return seam_fail(err, SEAM_E_NOMEM, "out of memory for a ledger");
    memset(l, 0, sizeof *l);
    l->os = os;
    l->cap = cap;
    int rc = pthread_mutex_init(&l->mutex, NULL);
    if (rc != 0) {
        os->free(os->ctx, l);
        return seam_fail_os(err, rc, "cannot make a lock for a ledger");
    }
    *ret = l;
    return SEAM_OK;
}

void seam_ledger_close(struct seam_ledger *ledger)
{
    if (!ledger)
        return;
    assert(!ledger->head);
    (void)pthread_mutex_destroy(&ledger->mutex);
    ledger->os->free(ledger->os->ctx, ledger);
}

static bool fits(const struct seam_ledger *l, uint64_t amount)
{
    uint64_t left = l->cap;
    if (left == UINT64_MAX)
        return amount <= UINT64_MAX - l->promised; /* no cap: only the sum must be a number */
    if (l->used > left)
        return false;
    left -= l->used;
    return l->promised <= left && amount <= left - l->promised;
}

/* Not even when all promises are given back. */
static bool never_fits(const struct seam_ledger *l, uint64_t amount)
{
    return l->cap != UINT64_MAX && (l->used > l->cap || amount > l->cap - l->used);
}

static void wake_head(struct seam_ledger *l)
{
    if (l->head)
        (void)pthread_cond_signal(&l->head->cond);
}

static void enqueue(struct seam_ledger *l, struct taker *t)
{
    t->next = NULL;
    if (l->tail)
        l->tail->next = t;
    else
        l->head = t;
    l->tail = t;
}

static void dequeue(struct seam_ledger *l, struct taker *t)
{
    struct taker *before = NULL;
    struct taker *at = l->head;
    while (at != t) {
        before = at;
        at = at->next;
    }
    if (before)
        before->next = t->next;
    else
        l->head = t->next;
    if (l->tail == t)
        l->tail = before;
}

/* Waits, with the mutex held, at the end of the queue. SEAM_OK: at its head and amount fits. */
static int wait_for_room(struct seam_ledger *l, uint64_t amount, uint64_t deadline_ns)
{
    struct taker t;
    if (seam_cond_init(&t.cond) != 0)
        return SEAM_E_NOMEM;
    enqueue(l, &t);
    int rc;
    for (;;) {
        rc = SEAM_OK;
        if (l->head == &t && fits(l, amount))
            break;
        rc = SEAM_E_NO_SPACE;
        if (never_fits(l, amount))
            break;
        rc = SEAM_E_BUSY;
        uint64_t now = l->os->now_ns(l->os->ctx, SEAM_CLOCK_MONOTONIC);
        if (now >= deadline_ns)
            break;
        uint64_t left = deadline_ns - now;
        seam_cond_wait_ns(&t.cond, &l->mutex, left < SLICE_NS ? left : SLICE_NS);
    }
    dequeue(l, &t);
    (void)pthread_cond_destroy(&t.cond);
    return rc;
}

int seam_ledger_take(struct seam_ledger *ledger, uint64_t amount, uint64_t deadline_ns,
                     const char *limit, struct seam_err *err)
{
    (void)pthread_mutex_lock(&ledger->mutex);
    int rc = SEAM_OK;
    if (amount > 0 && never_fits(ledger, amount))
        rc = SEAM_E_NO_SPACE;
    else if (amount > 0 && (ledger->head || !fits(ledger, amount)))
        rc = wait_for_room(ledger, amount, deadline_ns);
    if (rc == SEAM_OK)
        ledger->promised += amount;
    wake_head(ledger);
    uint64_t cap = ledger->cap, used = ledger->used, promised = ledger->promised;
    (void)pthread_mutex_unlock(&ledger->mutex);
    if (rc == SEAM_OK)
        return rc;
    if (rc == SEAM_E_NOMEM)
        return seam_fail(err, rc, "out of memory to wait for %s", limit);
    uint64_t taken = rc == SEAM_E_BUSY && promised < UINT64_MAX - used ? used + promised : used;
    return seam_fail_limit(err, rc, limit, cap > taken ? cap - taken : 0, amount, SEAM_NO_OP);
}

void seam_ledger_give(struct seam_ledger *ledger, uint64_t amount, uint64_t used)
{
    (void)pthread_mutex_lock(&ledger->mutex);
    assert(amount <= ledger->promised);
    ledger->promised -= amount;
    if (used != UINT64_MAX)
        ledger->used = used;
    wake_head(ledger);
    (void)pthread_mutex_unlock(&ledger->mutex);
}

void seam_ledger_set_cap(struct seam_ledger *ledger, uint64_t cap)
{
    (void)pthread_mutex_lock(&ledger->mutex);
    ledger->cap = cap;
    wake_head(ledger);
    (void)pthread_mutex_unlock(&ledger->mutex);
}

uint64_t seam_ledger_promised(struct seam_ledger *ledger)
{
    (void)pthread_mutex_lock(&ledger->mutex);
    uint64_t promised = ledger->promised;
    (void)pthread_mutex_unlock(&ledger->mutex);
    return promised;
}
