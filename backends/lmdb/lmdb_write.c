/* lmdb_write.c - prepare, and group commit in LMDB's one write transaction.
 *
 * ACKS. A commit that asks for OS or POWER is LMDB's full commit: pages, fdatasync, then the meta
 * page through an O_DSYNC descriptor: two flushes, and the new tree is shown to readers only after
 * both. A commit that asks for less sets MDB_NOMETASYNC: pages, fdatasync, then the meta page into
 * the page cache. It survives a kill; a power cut may take the newest such commit, never more,
 * since the next commit's fdatasync takes this meta page along before anything refers to newer
 * pages. So the store stays a prefix, and a full commit or mdb_env_sync raises all before it.
 * (MDB_NOSYNC would write the meta page before its tree, and is never used.) The flag belongs to
 * the environment: LMDB 0.9.24 ignores it as a flag of a transaction. It is set by the leader of a
 * group, who is the only writer; readers look at other bits of the same word only.
 *
 * Relies on engine/group.c: lmdb_run is called by one thread at a time, and begins and ends its
 * transaction on that thread, as LMDB's lock demands.
 * Keeps true: a group is one transaction, acked at the highest level asked in it; if a member
 * cannot be part of it, nothing was handed over and all are done singly; behind a commit or a flush
 * that failed there is no other. */
#include "lmdb_private.h"

#include <string.h>

static struct lmdb_engine *self(struct seam_engine *e)
{
    return (struct lmdb_engine *)(void *)e;
}

static MDB_val val(struct seam_slice s)
{
    MDB_val v = {s.len, (void *)(uintptr_t)s.ptr};
    return v;
}

/* ---- prepare ------------------------------------------------------------------------------- */

/* Counts the keys of one range in the newest tree, up to `most` + 1. */
static int count_range(MDB_cursor *at, const struct seam_op *op, uint64_t most, uint64_t *ret)
{
    MDB_val k = val(op->key), v;
    uint64_t found = 0;
    int rc = mdb_cursor_get(at, &k, &v, MDB_SET_RANGE);
    while (rc == 0 && found <= most) {
        if (op->head.ptr != NULL && seam_compare(seam_bytes(k.mv_data, k.mv_size), op->head) >= 0)
            break;
        found++;
        rc = mdb_cursor_get(at, &k, &v, MDB_NEXT);
    }
    if (rc != 0 && rc != MDB_NOTFOUND)
        return rc;
    *ret = found;
    return 0;
}

static int count_ranges(struct lmdb_engine *e, const struct seam_commit *c, uint64_t *ret,
                        struct seam_err *err)
{
    struct lmdb_reader *r = NULL;
    uint64_t covered = 0;
    int rc = lmdb_reader_take(e, &r, err);
    if (rc != SEAM_OK)
        return rc;
    int mrc = mdb_cursor_renew(r->txn, r->cursor);
    for (size_t i = 0; i < c->n && mrc == 0 && rc == SEAM_OK; i++) {
        uint64_t found = 0;
        if (c->ops[i].kind != SEAM_DELETE_RANGE)
            continue;
        mrc = count_range(r->cursor, &c->ops[i], LMDB_MAX_RANGE_KEYS - covered, &found);
        covered += found;
        if (covered > LMDB_MAX_RANGE_KEYS)
            rc = seam_fail_limit(err, SEAM_E_TOO_LARGE, "range_keys", LMDB_MAX_RANGE_KEYS, covered,
                                 i);
    }
    lmdb_reader_give(e, r);
    if (mrc != 0)
        return lmdb_fail(err, mrc, "counting the keys of a range");
    if (rc == SEAM_OK)
        *ret = covered;
    return rc;
}

int lmdb_prepare(struct seam_engine *base, struct seam_commit *c, uint64_t deadline_ns,
                 struct seam_err *err)
{
    struct lmdb_engine *e = self(base);
    struct lmdb_load load;
    lmdb_space_load(&e->space, c->ops, c->n, &load);
    if (load.ranges > 0) {
        int rc = count_ranges(e, c, &load.covered, err);
        if (rc != SEAM_OK)
            return rc;
    }
    struct lmdb_hold *hold = e->os->alloc(e->os->ctx, sizeof *hold);
    if (hold == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "lmdb: no memory for a ticket");
    memset(hold, 0, sizeof *hold);
    hold->load = load;
    int rc = lmdb_space_take(&e->space, hold, deadline_ns, err);
    if (rc != SEAM_OK) {
        e->os->free(e->os->ctx, hold);
        return rc;
    }
    c->need.disk = hold->asked;
    c->need.range_keys = load.covered;
    c->need.priv = hold;
    return SEAM_OK;
}

static void let_go(struct lmdb_engine *e, struct seam_commit *c)
{
    struct lmdb_hold *hold = c->need.priv;
    if (hold == NULL)
        return;
    c->need.priv = NULL;
    lmdb_space_give(&e->space, hold);
    e->os->free(e->os->ctx, hold);
}

void lmdb_abort(struct seam_engine *base, struct seam_commit *c)
{
    let_go(self(base), c);
}

/* ---- the transaction ------------------------------------------------------------------------ */

/* Each key is found by a cursor of its own: LMDB 0.9.24 has known faults in cursors that go on
 * after a deletion (its ITS#9376, ITS#9461). */
static int delete_range(MDB_txn *txn, MDB_dbi dbi, const struct seam_op *op)
{
    for (;;) {
        MDB_cursor *at = NULL;
        MDB_val k = val(op->key), v;
        int rc = mdb_cursor_open(txn, dbi, &at);
        if (rc != 0)
            return rc;
        rc = mdb_cursor_get(at, &k, &v, MDB_SET_RANGE);
        bool inside = rc == 0 && (op->head.ptr == NULL ||
                                  seam_compare(seam_bytes(k.mv_data, k.mv_size), op->head) < 0);
        if (inside)
            rc = mdb_cursor_del(at, 0);
        mdb_cursor_close(at);
        if (rc == MDB_NOTFOUND || (rc == 0 && !inside))
            return 0;
        if (rc != 0)
            return rc;
    }
}

static int apply_op(MDB_txn *txn, MDB_dbi dbi, const struct seam_op *op)
{
    MDB_val k = val(op->key), v = {op->head.len + op->body.len, NULL};
    int rc = 0;
    switch (op->kind) {
    case SEAM_PUT:
        rc = mdb_put(txn, dbi, &k, &v, MDB_RESERVE);
        if (rc == 0 && op->head.len > 0)
            memcpy(v.mv_data, op->head.ptr, op->head.len);
        if (rc == 0 && op->body.len > 0)
            memcpy((char *)v.mv_data + op->head.len, op->body.ptr, op->body.len);
        break;
    case SEAM_DELETE:
        rc = mdb_del(txn, dbi, &k, NULL);
        rc = rc == MDB_NOTFOUND ? 0 : rc;
        break;
    case SEAM_DELETE_RANGE:
        rc = delete_range(txn, dbi, op);
        break;
    }
    return rc;
}

/* What became of one transaction. */
struct outcome {
    int rc;      /* 0, or what LMDB said */
    bool handed; /* something may have reached the file's newest meta page */
    const char *doing;
    uint64_t txn;
    int32_t flushes;
};

static enum seam_ack highest(const struct seam_member *first, size_t n)
{
    enum seam_ack most = SEAM_ACK_NONE;
    for (const struct seam_member *m = first; n > 0; m = m->next, n--)
        most = m->commit->ack > most ? m->commit->ack : most;
    return most;
}

static void set_lazy(struct lmdb_engine *e, bool lazy)
{
    if (lazy == e->lazy)
        return;
    e->lazy = lazy;
    (void)mdb_env_set_flags(e->env, MDB_NOMETASYNC, lazy);
}

static uint64_t last_txn(struct lmdb_engine *e)
{
    MDB_envinfo info;
    return mdb_env_info(e->env, &info) == 0 ? info.me_last_txnid : 0;
}

static void flush_meta(struct lmdb_engine *e, struct outcome *out)
{
    out->doing = "flushing";
    out->handed = true;
    out->rc = mdb_env_sync(e->env, 1);
    out->flushes++;
    if (out->rc == 0)
        e->meta_unsynced = false;
}

/* Records, in the transaction that makes it so, that values may be larger now than any before: how
 * many pages a deletion can let go rests on it. In powers of two, so that it is rarely written. */
static int note_largest(struct lmdb_engine *e, MDB_txn *txn, const struct seam_member *first,
                        size_t n, uint64_t *ret)
{
    uint64_t most = e->space.tree.largest, now = most;
    for (const struct seam_member *m = first; n > 0; m = m->next, n--) {
        const struct lmdb_hold *hold = m->commit->need.priv;
        if (hold != NULL && hold->load.largest > most)
            most = hold->load.largest;
    }
    while (now < most)
        now = now == 0 ? 1 : 2 * now;
    *ret = now;
    return now == e->space.tree.largest ? 0
                                        : lmdb_own_put(txn, e->own, "largest", &now, sizeof now);
}

static void transact(struct lmdb_engine *e, const struct seam_member *first, size_t n,
                     struct outcome *out)
{
    enum seam_ack ack = highest(first, n);
    MDB_txn *txn = NULL;
    *out = (struct outcome){0, false, "beginning a commit", 0, 0};
    set_lazy(e, ack <= SEAM_ACK_PROCESS);
    out->rc = mdb_txn_begin(e->env, NULL, 0, &txn);
    if (out->rc != 0)
        return;
    out->txn = mdb_txn_id(txn);
    out->doing = "applying a commit";
    out->rc = note_largest(e, txn, first, n, &e->largest);
    for (const struct seam_member *m = first; n > 0 && out->rc == 0; m = m->next, n--) {
        for (size_t i = 0; i < m->commit->n && out->rc == 0; i++)
            out->rc = apply_op(txn, e->keys, &m->commit->ops[i]);
    }
    if (out->rc != 0) {
        mdb_txn_abort(txn);
        return;
    }
    out->doing = "committing";
    out->rc = mdb_txn_commit(txn);
    /* Negative codes but PANIC come from before the first page is written. */
    out->handed = out->rc == 0 || out->rc > 0 || out->rc == MDB_PANIC;
    if (out->rc != 0)
        return;
    if (last_txn(e) >= out->txn) {
        out->flushes = e->lazy ? 1 : 2;
        e->meta_unsynced = e->lazy;
    } else if (ack >= SEAM_ACK_OS && e->meta_unsynced) {
        flush_meta(e, out); /* it changed nothing and LMDB wrote nothing, but it raises others */
    }
}

static void answer_done(struct lmdb_engine *e, struct seam_member *m, const struct outcome *out,
                        enum seam_ack asked, size_t n)
{
    uint64_t no = out->txn << 20; /* room for the members of a group and for empty commits */
    e->last_no = no > e->last_no ? no : e->last_no + 1;
    m->rc = SEAM_OK;
    m->acked.given = asked <= SEAM_ACK_PROCESS ? SEAM_ACK_PROCESS : SEAM_ACK_POWER;
    m->acked.window_ms = 0;
    m->acked.flushes = out->flushes;
    m->acked.group = (uint32_t)n;
    m->acked.commit_no = e->last_no;
    atomic_fetch_add_explicit(&e->counts.commits, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&e->counts.ops, m->commit->n, memory_order_relaxed);
    atomic_fetch_add_explicit(&e->counts.bytes, m->commit->bytes, memory_order_relaxed);
}

static void answer_unknown(struct seam_member *m, const struct outcome *out)
{
    lmdb_fail(&m->err, out->rc, out->doing);
    m->err.code = SEAM_E_UNKNOWN;
    m->err.limit = NULL;
    m->rc = SEAM_E_UNKNOWN;
}

int lmdb_tree_read(struct lmdb_engine *e, MDB_txn *txn, struct lmdb_tree *ret)
{
    MDB_stat st, list;
    int rc = mdb_stat(txn, e->keys, &st);
    if (rc == 0)
        rc = mdb_stat(txn, 0, &list); /* LMDB's own database of free pages has the handle 0 */
    if (rc != 0)
        return rc;
    ret->depth = st.ms_depth;
    ret->branch = st.ms_branch_pages;
    ret->leaf = st.ms_leaf_pages;
    ret->overflow = st.ms_overflow_pages;
    ret->free_large = list.ms_overflow_pages;
    ret->free_pages = list.ms_branch_pages + list.ms_leaf_pages + list.ms_overflow_pages;
    return 0;
}

uint64_t lmdb_pages_used(struct lmdb_engine *e)
{
    MDB_envinfo info;
    return mdb_env_info(e->env, &info) == 0 ? info.me_last_pgno + 1 : 0;
}

/* After a commit: the tree as it is now, and the reservations of the group's members end. */
static void settle(struct lmdb_engine *e, struct seam_member *first, size_t n)
{
    struct lmdb_tree tree = e->space.tree; /* only this thread changes it */
    MDB_txn *now = e->watcher->txn;
    struct lmdb_hold *done = NULL, **tail = &done;
    if (mdb_txn_renew(now) == 0) {
        (void)lmdb_tree_read(e, now, &tree);
        mdb_txn_reset(now);
    }
    tree.used = lmdb_pages_used(e);
    tree.largest = e->largest;
    for (struct seam_member *m = first; n > 0; m = m->next, n--) {
        struct lmdb_hold *hold = m->commit->need.priv;
        if (hold == NULL)
            continue;
        m->commit->need.priv = NULL;
        hold->done = NULL;
        *tail = hold;
        tail = &hold->done;
    }
    lmdb_space_settle(&e->space, &tree, done);
    while (done != NULL) {
        struct lmdb_hold *hold = done;
        done = hold->done;
        e->os->free(e->os->ctx, hold);
    }
}

/* Commits n members in one transaction and answers them. False: nothing was handed over. */
static bool commit_together(struct lmdb_engine *e, struct seam_member *first, size_t n,
                            struct outcome *out)
{
    transact(e, first, n, out);
    if (out->rc != 0)
        return out->handed;
    enum seam_ack ack = highest(first, n);
    struct seam_member *m = first;
    for (size_t i = 0; i < n; i++, m = m->next)
        answer_done(e, m, out, ack, n);
    settle(e, first, n);
    atomic_fetch_add_explicit(&e->counts.groups, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&e->counts.flushes, (uint64_t)out->flushes, memory_order_relaxed);
    return true;
}

static void commit_singly(struct lmdb_engine *e, struct seam_member *first, size_t n)
{
    bool failed = false;
    struct outcome out = {0, false, "", 0, 0};
    struct seam_member *m = first;
    atomic_fetch_add_explicit(&e->counts.redone, 1, memory_order_relaxed);
    for (; n > 0; m = m->next, n--) {
        if (failed) {
            m->rc = seam_fail(&m->err, SEAM_E_POISONED,
                              "lmdb: a commit before this one failed: nothing was handed over");
            continue;
        }
        (void)commit_together(e, m, 1, &out);
        failed = out.rc != 0;
        if (failed)
            answer_unknown(m, &out);
    }
}

void lmdb_run(void *ctx, struct seam_member *first, size_t n)
{
    struct lmdb_engine *e = ctx;
    struct outcome out;
    bool handed = commit_together(e, first, n, &out);
    if (!handed && n > 1)
        commit_singly(e, first, n);
    struct seam_member *m = first;
    for (size_t i = 0; i < n; i++, m = m->next) {
        if (out.rc != 0 && (handed || n == 1))
            answer_unknown(m, &out);
        let_go(e, m->commit); /* of those that failed */
    }
}

int lmdb_commit(struct seam_engine *base, struct seam_commit *c, struct seam_acked *ret,
                struct seam_err *err)
{
    struct seam_member m;
    memset(&m, 0, sizeof m);
    m.commit = c;
    int rc = seam_group_commit(self(base)->group, &m);
    let_go(self(base), c); /* of one that came after a failure and was not run */
    if (rc == SEAM_OK && ret != NULL)
        *ret = m.acked;
    if (rc != SEAM_OK && err != NULL)
        *err = m.err;
    return rc;
}

/* ---- sync ----------------------------------------------------------------------------------- */

static int sync_run(void *arg, struct seam_err *err)
{
    struct lmdb_engine *e = arg;
    struct outcome out = {0, false, "flushing", 0, 0};
    if (!e->meta_unsynced)
        return SEAM_OK; /* every commit so far was a full one */
    flush_meta(e, &out);
    atomic_fetch_add_explicit(&e->counts.flushes, 1, memory_order_relaxed);
    if (out.rc == 0)
        return SEAM_OK;
    lmdb_fail(err, out.rc, out.doing);
    err->code = SEAM_E_UNKNOWN;
    return SEAM_E_UNKNOWN;
}

int lmdb_sync(struct seam_engine *base, enum seam_ack level, struct seam_err *err)
{
    struct lmdb_engine *e = self(base);
    return level <= SEAM_ACK_PROCESS ? SEAM_OK : seam_group_exclusive(e->group, sync_run, e, err);
}
