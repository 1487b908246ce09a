/* unit.c - an event that is too large for one commit: what it takes, and applying it in parts.
 *
 * Relies on a projector giving the same ops for the same event each time. Keeps true: a part's commit
 * says how many ops of the event are applied with it, so the next one begins there, whatever has
 * happened in between; the position moves to the event with the last part and not before.
 *
 * Whoever reads atomically has been given an instant before the first part, which stays until the
 * last. The instant is put in place while no read of "now" is under way, so that no read shows a
 * part and a later one does not. */
#include "projection_int.h"

void seam_p_fit(const struct seam_projection *p, const struct seam_op *ops, size_t n,
                struct seam_fit *ret)
{
    struct seam_limits limits = p->limits;
    uint64_t own = p->meta_key.len + SEAM_FMT_META_HEAD + 4 + p->meta.stream.len;
    limits.ops -= limits.ops > 0 && limits.ops != UINT64_MAX;
    if (limits.bytes != UINT64_MAX)
        limits.bytes -= limits.bytes < own ? limits.bytes : own;
    seam_classify(&limits, ops, n, NULL, ret);
    if (ret->verdict != SEAM_ASK || ret->commits <= 1)
        return;
    limits.caps |= SEAM_CAP_LAZY_RANGE; /* whatever its ranges hold, it has to be cut */
    seam_classify(&limits, ops, n, NULL, ret);
}

static int begin(struct seam_projection *p, struct seam_err *err)
{
    struct seam_p_instant *instant = NULL;
    if (!p->atomic || p->meta.position.parts > 0)
        return SEAM_OK;
    pthread_rwlock_wrlock(&p->now);
    int rc = seam_p_instant_open(p, &instant, err);
    pthread_mutex_lock(&p->lock);
    if (rc == SEAM_OK)
        p->instant = instant;
    pthread_mutex_unlock(&p->lock);
    pthread_rwlock_unlock(&p->now);
    return rc;
}

void seam_p_unit_end(struct seam_projection *p)
{
    pthread_mutex_lock(&p->lock);
    struct seam_p_instant *instant = p->instant;
    p->instant = NULL;
    pthread_mutex_unlock(&p->lock);
    if (instant != NULL)
        seam_p_instant_drop(p, instant);
}

/* Commits as many of ops[0..left) as fit, before which there is room for the record. */
static int commit_part(struct seam_projection *p, const struct seam_event *event, struct seam_op *ops,
                       size_t left, size_t *ret_n, struct seam_err *err)
{
    struct seam_fmt_meta meta = p->meta;
    struct seam_fit fit = {.verdict = SEAM_FITS, .commits = 1};
    if (left > 0)
        seam_p_fit(p, ops, left, &fit);
    if (fit.verdict == SEAM_NEVER)
        return seam_fail_limit(err, SEAM_E_TOO_LARGE, fit.limit, fit.max, fit.got, SEAM_NO_OP);
    size_t n = fit.verdict == SEAM_SPLITS ? fit.op : left;
    bool last = n == left;
    meta.unit_ops += n;
    meta.unit_crc = event->crc;
    meta.position.part++;
    meta.position.parts = meta.position.part + (uint32_t)(last ? 0 : fit.commits - 1);
    if (last) {
        meta.position = (struct seam_position){seam_db_epoch(seam_journal_db(p->journal)),
                                               event->sequence, event->crc, 0, 0};
        meta.unit_ops = meta.unit_crc = 0;
    }
    *ret_n = n;
    return seam_p_commit(p, ops - 1, n + 1, &meta, err);
}

int seam_p_unit(struct seam_projection *p, const struct seam_event *event, struct seam_err *err)
{
    struct seam_emit *out = &p->emit;
    size_t total = out->n - 1, done = 0;
    if (p->meta.position.parts > 0) {
        if (p->meta.unit_crc != event->crc || p->meta.unit_ops > total)
            return seam_fail(err, SEAM_E_MISMATCH,
                             "stream %u, sequence %llu: not the event, or not the ops of it, that was "
                             "begun: rebuild the projection (discard)",
                             event->stream, (unsigned long long)event->sequence);
        done = (size_t)p->meta.unit_ops;
    }
    int rc = begin(p, err);
    bool more = true;
    while (rc == SEAM_OK && more) {
        size_t n = 0;
        rc = commit_part(p, event, out->ops + 1 + done, total - done, &n, err);
        done += n;
        more = rc == SEAM_OK && p->meta.position.parts > 0;
    }
    if (p->meta.position.parts == 0)
        seam_p_unit_end(p);
    return rc;
}

int seam_projection_classify(struct seam_projection *projection, const struct seam_event *event,
                             struct seam_fit *ret, struct seam_err *err)
{
    struct seam_emit *out = &projection->emit;
    struct seam_fit fit = {.verdict = SEAM_FITS, .commits = 1, .op = SEAM_NO_OP};
    if (projection->journal == NULL)
        return seam_fail(err, SEAM_E_INVALID, "the projection was opened without a journal");
    seam_p_turn_take(&projection->writing);
    seam_p_emit_reset(out);
    int rc = projection->projector(projection->projector_ctx, event, out, err);
    if (rc == SEAM_OK && out->n > 1)
        seam_p_fit(projection, out->ops + 1, out->n - 1, &fit);
    seam_p_emit_reset(out);
    seam_p_turn_give(&projection->writing);
    if (rc == SEAM_OK)
        *ret = fit;
    return rc;
}
