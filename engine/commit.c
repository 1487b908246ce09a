/* commit.c - prepare, commit, abort, write, sync, and poisoning.
 *
 * Relies on check.c for validation and on the layers for the work. Keeps true: a ticket holds
 * amounts only; everything that can refuse does so in prepare; after SEAM_E_UNKNOWN no later write
 * reaches the engine; every weak ack that a failure puts in doubt is counted by the failing call or is
 * answered SEAM_E_UNKNOWN itself. */
#include "core.h"

#include <string.h>

int seam_db_usable(const struct seam_db *db, struct seam_err *err)
{
    if (seam_fork_mark_holds(&db->mark))
        return SEAM_OK;
    return seam_fail(err, SEAM_E_FORKED, "this handle was opened before fork(): open '%s' again",
                     db->name);
}

/* Answers code, E_UNKNOWN or E_POISONED, in the words that *err has, and tells the count of acks that
 * are in doubt now. */
static int in_doubt(const struct seam_db *db, int code, struct seam_err *err)
{
    if (err) {
        if (err->code == SEAM_OK) /* see hand_begin */
            seam_fail(err, code, "'%s' failed and said nothing", db->name);
        uint64_t raised = atomic_load(&db->raised); /* first: it never passes weak */
        err->code = code;
        err->unknown_acks = atomic_load(&db->weak) - raised;
    }
    return code;
}

static int poisoned(const struct seam_db *db, struct seam_err *err)
{
    seam_fail(err, SEAM_E_POISONED,
              "a write to '%s' failed earlier: close it and open it again to learn what holds",
              db->name);
    return in_doubt(db, SEAM_E_POISONED, err);
}

/* Before a commit or sync goes down. An engine that does not say that it refuses by itself is given
 * one at a time, so that none of them begins after one that failed. */
static int hand_begin(struct seam_db *db, struct seam_err *err)
{
    if (db->one_by_one)
        (void)pthread_mutex_lock(&db->gate);
    if (!atomic_load(&db->poisoned)) {
        if (err)
            err->code = SEAM_OK; /* so that it shows if the engine fills in nothing */
        return SEAM_OK;
    }
    if (db->one_by_one)
        (void)pthread_mutex_unlock(&db->gate);
    return poisoned(db, err);
}

/* After it came back with rc: what that means. */
static int hand_end(struct seam_db *db, int rc, struct seam_err *err)
{
    if (rc != SEAM_OK && rc != SEAM_E_POISONED && rc != SEAM_E_MISUSE)
        rc = SEAM_E_UNKNOWN; /* whatever else an engine says: nobody knows what it did */
    if (rc == SEAM_E_UNKNOWN || rc == SEAM_E_POISONED)
        atomic_store(&db->poisoned, true);
    if (db->one_by_one)
        (void)pthread_mutex_unlock(&db->gate);
    return rc == SEAM_OK || rc == SEAM_E_MISUSE ? rc : in_doubt(db, rc, err);
}

static int check_ack(const struct seam_db *db, uint32_t ack, struct seam_err *err)
{
    if ((ack & 0xffu) > SEAM_ACK_POWER)
        return seam_fail(err, SEAM_E_INVALID, "ack level %u is none of none, process, os, power",
                         (unsigned)(ack & 0xffu));
    if (SEAM_ACK_LEVEL(ack) > db->limits.best)
        return seam_fail(err, SEAM_E_UNSUPPORTED, "'%s' cannot give ack %s, at most %s", db->name,
                         seam_ack_name(SEAM_ACK_LEVEL(ack)), seam_ack_name(db->limits.best));
    return SEAM_OK;
}

static int may_write(struct seam_db *db, struct seam_err *err)
{
    int rc = seam_db_usable(db, err);
    if (rc != SEAM_OK)
        return rc;
    if (db->read_only)
        return seam_fail(err, SEAM_E_READ_ONLY, "'%s' was opened read-only", db->name);
    if (!atomic_load(&db->poisoned))
        return SEAM_OK;
    atomic_store(&db->untold, false);
    return poisoned(db, err);
}

/* A windowed ack is committed at the strongest level below that costs no flush. */
static void set_ack(struct seam_ticket *t, uint32_t ack)
{
    t->level = SEAM_ACK_LEVEL(ack);
    t->window_ms = SEAM_ACK_WINDOW_MS(ack);
    t->c.ack = t->level;
    if (t->window_ms && t->level > SEAM_ACK_PROCESS)
        t->c.ack = SEAM_ACK_PROCESS;
}

static int ticket_fill(struct seam_db *db, const struct seam_op *ops, size_t n, uint32_t ack,
                       struct seam_ticket *t, struct seam_err *err)
{
    int rc = may_write(db, err);
    if (rc == SEAM_OK)
        rc = check_ack(db, ack, err);
    memset(t, 0, sizeof(*t));
    if (rc == SEAM_OK)
        rc = seam_check_ops(&db->limits, ops, n, &t->c.bytes, err);
    if (rc != SEAM_OK)
        return rc;
    t->db = db;
    t->c.ops = ops;
    t->c.n = n;
    set_ack(t, ack);
    uint64_t begin = db->os->now_ns(db->os->ctx, SEAM_CLOCK_MONOTONIC);
    uint64_t deadline = db->stall_ns ? begin + db->stall_ns : 0;
    rc = seam_ledger_take(db->tickets, 1, deadline, "tickets", err);
    if (rc != SEAM_OK)
        return rc;
    rc = seam_layer_prepare(db->top, &t->c, deadline, err);
    if (rc == SEAM_OK && t->c.need.range_keys > db->limits.range_keys) {
        /* The engine counted against its own limit; headroom is kept here. */
        rc = seam_fail_limit(err, SEAM_E_TOO_LARGE, "range_keys", db->limits.range_keys,
                             t->c.need.range_keys, SEAM_NO_OP);
        seam_layer_abort(db->top, &t->c);
    }
    if (rc != SEAM_OK)
        seam_ledger_give(db->tickets, 1, UINT64_MAX);
    uint64_t waited = db->os->now_ns(db->os->ctx, SEAM_CLOCK_MONOTONIC) - begin;
    if (waited > 1000000)
        atomic_fetch_add_explicit(&db->stall_us, waited / 1000, memory_order_relaxed);
    return rc;
}

int seam_prepare(struct seam_db *db, const struct seam_op *ops, size_t n, uint32_t ack,
                 struct seam_ticket **ret, struct seam_err *err)
{
    struct seam_ticket *t = db->os->alloc(db->os->ctx, sizeof(*t));
    if (!t)
        return seam_fail(err, SEAM_E_NOMEM, "no memory for a ticket");
    int rc = ticket_fill(db, ops, n, ack, t, err);
    if (rc != SEAM_OK) {
        db->os->free(db->os->ctx, t);
        return rc;
    }
    t->on_heap = true;
    *ret = t;
    return SEAM_OK;
}

static void ticket_free(struct seam_ticket *t)
{
    struct seam_db *db = t->db;
    if (t->on_heap)
        db->os->free(db->os->ctx, t);
    if (seam_fork_mark_holds(&db->mark)) /* a child's copy of the lock may be held for good */
        seam_ledger_give(db->tickets, 1, UINT64_MAX);
}

void seam_abort(struct seam_ticket *t)
{
    if (!t)
        return;
    if (seam_fork_mark_holds(&t->db->mark))
        seam_layer_abort(t->db->top, &t->c);
    ticket_free(t);
}

/* A flush raises the weak acks given before it began, and only once it has returned: while it is on
 * its way, and after it failed, they are in doubt for every commit that fails. */
static void note_raised(struct seam_db *db, uint64_t weak_before)
{
    uint64_t raised = atomic_load(&db->raised);
    while (raised < weak_before &&
           !atomic_compare_exchange_weak(&db->raised, &raised, weak_before))
        ;
}

static int commit_done(struct seam_ticket *t, struct seam_acked *acked, struct seam_err *err)
{
    struct seam_db *db = t->db;
    atomic_fetch_add_explicit(&db->commits, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&db->ops, t->c.n, memory_order_relaxed);
    atomic_fetch_add_explicit(&db->user_bytes, t->c.bytes, memory_order_relaxed);
    if (t->window_ms == 0 || acked->given >= t->level)
        return SEAM_OK;
    acked->window_ms = t->window_ms;
    if (seam_window_owe(db, t->level, t->window_ms, NULL) == SEAM_OK)
        return SEAM_OK;
    acked->window_ms = 0; /* no thread to do it later: do it now */
    int rc = seam_db_raise(db, t->level, err);
    if (rc == SEAM_OK)
        acked->given = t->level;
    else if (rc == SEAM_E_POISONED) /* by another meanwhile; this one was handed over */
        rc = in_doubt(db, SEAM_E_UNKNOWN, err);
    return rc;
}

/* Counts an ack that a failed flush can take back. If one has failed by now it may not have seen the
 * count: then this ack is not given. */
static int count_weak(struct seam_db *db, struct seam_err *err)
{
    atomic_fetch_add(&db->weak, 1);
    if (!atomic_load(&db->poisoned))
        return SEAM_OK;
    seam_fail(err, SEAM_E_UNKNOWN,
              "another write to '%s' failed before this one could be acked: close it and open it "
              "again to learn what holds",
              db->name);
    return in_doubt(db, SEAM_E_UNKNOWN, err);
}

int seam_commit(struct seam_ticket *t, struct seam_acked *ret, struct seam_err *err)
{
    struct seam_db *db = t->db;
    struct seam_acked acked = {SEAM_ACK_NONE, 0, -1, 0, 0};
    int rc = may_write(db, err);
    if (rc == SEAM_OK)
        rc = hand_begin(db, err);
    if (rc != SEAM_OK) {
        seam_abort(t);
        return rc;
    }
    enum seam_ack asked = t->c.ack; /* a layer may ask for another below it */
    uint64_t weak = atomic_load(&db->weak);
    rc = hand_end(db, seam_layer_commit(db->top, &t->c, &acked, err), err);
    if (rc == SEAM_OK && asked == SEAM_ACK_POWER) /* given unasked it may have cost no flush */
        note_raised(db, weak);
    else if (rc == SEAM_OK && acked.given > SEAM_ACK_NONE && acked.given < SEAM_ACK_POWER)
        rc = count_weak(db, err);
    if (rc == SEAM_OK)
        rc = commit_done(t, &acked, err);
    ticket_free(t);
    if (rc == SEAM_OK && ret)
        *ret = acked;
    return rc;
}

int seam_write(struct seam_db *db, const struct seam_op *ops, size_t n, uint32_t ack,
               struct seam_acked *ret, struct seam_err *err)
{
    struct seam_ticket t;
    int rc = ticket_fill(db, ops, n, ack, &t, err);
    return rc == SEAM_OK ? seam_commit(&t, ret, err) : rc;
}

int seam_db_raise(struct seam_db *db, enum seam_ack level, struct seam_err *err)
{
    int rc = hand_begin(db, err);
    if (rc != SEAM_OK)
        return rc;
    uint64_t weak = atomic_load(&db->weak);
    rc = hand_end(db, seam_layer_sync(db->top, level, err), err);
    if (rc == SEAM_OK && level == SEAM_ACK_POWER)
        note_raised(db, weak);
    return rc;
}

int seam_sync(struct seam_db *db, enum seam_ack level, struct seam_err *err)
{
    int rc = may_write(db, err);
    if (rc == SEAM_OK && (unsigned)level > SEAM_ACK_POWER)
        rc = seam_fail(err, SEAM_E_INVALID, "seam_sync takes a level without a window, not %u",
                       (unsigned)level);
    if (rc == SEAM_OK)
        rc = check_ack(db, (uint32_t)level, err);
    if (rc != SEAM_OK || level == SEAM_ACK_NONE)
        return rc;
    return seam_db_raise(db, level, err);
}

int seam_db_untold(struct seam_db *db, struct seam_err *err)
{
    if (!atomic_exchange(&db->untold, false))
        return SEAM_OK;
    seam_fail(err, SEAM_E_UNKNOWN,
              "the flush that acks of '%s' with a window were owed failed: open it again to learn what "
              "holds",
              db->name);
    return in_doubt(db, SEAM_E_UNKNOWN, err);
}

bool seam_db_poisoned(const struct seam_db *db)
{
    return atomic_load(&db->poisoned);
}
