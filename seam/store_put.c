/* store_put.c - a unit of work: looked at, appended, applied.
 *
 * Relies on seam_projection_classify for what a projection would do. Keeps true: between the look and
 * the append no other unit gets into the stream, so the event looked at is the event appended; nothing
 * is appended that a projection of the stream would refuse. */
#include "projection_int.h"
#include "store_int.h"

#include <string.h>

/* ---- locks ------------------------------------------------------------------------------- */

int seam_s_locks_open(struct seam_store *s, struct seam_err *err)
{
    s->locks = s->os->alloc(s->os->ctx, s->n * sizeof(*s->locks));
    if (s->locks == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "no memory for a store");
    for (size_t i = 1; i < s->n; i++) {
        struct seam_s_part *part = &s->parts[i];
        for (size_t k = 1; k < i && part->putting == NULL; k++)
            if (s->parts[k].stream == part->stream)
                part->putting = s->parts[k].putting;
        if (part->putting != NULL)
            continue;
        if (pthread_mutex_init(&s->locks[s->locks_n], NULL) != 0)
            return seam_fail(err, SEAM_E_NOMEM, "no memory for a store's locks");
        part->putting = &s->locks[s->locks_n++];
    }
    return SEAM_OK;
}

void seam_s_locks_close(struct seam_store *s)
{
    for (size_t i = 0; i < s->locks_n; i++)
        pthread_mutex_destroy(&s->locks[i]);
    s->locks_n = 0;
    s->os->free(s->os->ctx, s->locks);
}

/* ---- looking ----------------------------------------------------------------------------- */

/* One put on its way. */
struct put {
    struct seam_store *s;
    uint32_t stream;
    uint64_t lag;
    size_t *commits;
    struct seam_event event;
};

static bool elsewhere(const struct seam_s_part *part)
{
    return part->info.place != SEAM_S_SHARED;
}

static uint64_t position(const struct seam_s_part *part)
{
    struct seam_position at;
    seam_projection_position(part->projection, &at);
    return at.sequence;
}

/* Everything before the event, so that what a range covers is what it will cover. */
static int catch_up_before(const struct put *u, struct seam_s_part *part, struct seam_err *err)
{
    int rc = seam_projection_catch_up(part->projection, 0, NULL, err);
    if (rc == SEAM_OK && position(part) + 1 < u->event.sequence) {
        rc = seam_journal_sync(u->s->journal, SEAM_ACK_POWER, err);
        if (rc == SEAM_OK)
            rc = seam_projection_catch_up(part->projection, 0, NULL, err);
    }
    if (rc == SEAM_OK && position(part) + 1 < u->event.sequence)
        rc = seam_fail(err, SEAM_E_BUSY, "what its range deletes cover cannot be told while it is behind");
    return rc;
}

static int look_at_ranges(const struct put *u, struct seam_s_part *part, struct seam_err *err)
{
    bool any = false;
    uint64_t keys = 0, most = part->projection->limits.range_keys;
    int rc = seam_p_ranges(part->projection, &u->event, &any, NULL, err);
    if (rc != SEAM_OK || !any || most == UINT64_MAX)
        return rc;
    rc = catch_up_before(u, part, err);
    if (rc == SEAM_OK)
        rc = seam_p_ranges(part->projection, &u->event, &any, &keys, err);
    if (rc == SEAM_OK && keys > most)
        rc = seam_fail_limit(err, SEAM_E_TOO_LARGE, "range_keys", most, keys, SEAM_NO_OP);
    return rc;
}

static int refuse(const struct seam_fit *fit, struct seam_err *err)
{
    unsigned long long got = fit->got, max = fit->max;
    if (fit->verdict == SEAM_NEVER)
        (void)seam_fail(err, SEAM_E_TOO_LARGE, "op %zu of the unit needs %s %llu, at most %llu go",
                        fit->op, fit->limit, got, max);
    else
        (void)seam_fail(err, SEAM_E_TOO_LARGE,
                        "the unit needs %s %llu, one commit takes %llu: it would take %zu commits, "
                        "which split_units allows", fit->limit, got, max, fit->commits);
    if (err != NULL) {
        err->limit = fit->limit;
        err->max = max;
        err->got = got;
    }
    return SEAM_E_TOO_LARGE;
}

static int look(const struct put *u, size_t i, struct seam_err *err)
{
    struct seam_s_part *part = &u->s->parts[i];
    struct seam_fit fit;
    int rc = seam_projection_classify(part->projection, &u->event, &fit, err);
    if (rc != SEAM_OK)
        return seam_s_named(part, rc, err);
    if (u->commits != NULL)
        u->commits[i - 1] = fit.commits;
    if (fit.verdict == SEAM_NEVER || (fit.verdict == SEAM_SPLITS && !part->projection->split))
        rc = refuse(&fit, err);
    else if (fit.verdict != SEAM_FITS)
        rc = look_at_ranges(u, part, err);
    return seam_s_named(part, rc, err);
}

/* ---- applying ---------------------------------------------------------------------------- */

static bool behind(const struct put *u, const struct seam_s_part *part)
{
    return position(part) + u->lag < u->event.sequence && u->lag < u->event.sequence;
}

static int feed(const struct put *u, struct seam_s_part *part, struct seam_err *err)
{
    int rc = seam_projection_catch_up(part->projection, 0, NULL, err);
    if (rc == SEAM_OK && behind(u, part)) {
        rc = seam_journal_sync(u->s->journal, SEAM_ACK_POWER, err);
        if (rc == SEAM_OK)
            rc = seam_projection_catch_up(part->projection, 0, NULL, err);
    }
    return seam_s_named(part, rc, err);
}

static void apply(const struct put *u, struct seam_put *ret, struct seam_err *err)
{
    for (size_t i = 1; i < u->s->n; i++) {
        struct seam_s_part *part = &u->s->parts[i];
        if (part->stream != u->stream || !behind(u, part))
            continue;
        int rc = feed(u, part, ret->applying == SEAM_OK ? err : NULL);
        if (rc != SEAM_OK && ret->applying == SEAM_OK)
            ret->applying = rc;
        ret->behind += behind(u, part);
    }
}

/* ---- putting ----------------------------------------------------------------------------- */

/* What the event has to be acked with, so that who must follow at once may. */
static uint32_t raised(const struct put *u, uint32_t ack)
{
    struct seam_limits limits;
    seam_db_limits(u->s->parts[0].db, &limits);
    for (size_t i = 1; i < u->s->n; i++)
        if (u->s->parts[i].stream == u->stream && elsewhere(&u->s->parts[i]) && u->lag == 0 &&
            limits.best == SEAM_ACK_POWER)
            return SEAM_ACK_POWER;
    return ack;
}

static int look_and_append(struct put *u, struct seam_slice payload, uint32_t ack,
                           struct seam_append *ret, struct seam_err *err)
{
    struct seam_stream_info info;
    int rc = seam_journal_info(u->s->journal, u->stream, &info, err);
    if (rc != SEAM_OK)
        return rc;
    u->event.stream = u->stream;
    u->event.sequence = info.last + 1;
    u->event.time_ns = u->s->os->now_ns(u->s->os->ctx, SEAM_CLOCK_REAL);
    u->event.data = payload;
    for (size_t i = 1; i < u->s->n && rc == SEAM_OK; i++)
        if (u->s->parts[i].stream == u->stream)
            rc = look(u, i, err);
    if (rc == SEAM_OK)
        rc = seam_journal_append(u->s->journal, u->stream, &payload, 1, raised(u, ack), ret, err);
    if (rc == SEAM_OK)
        u->event.sequence = ret->last;
    return rc;
}

int seam_store_put_unit(struct seam_store *store, uint32_t stream, struct seam_slice payload,
                        uint32_t ack, const struct seam_put_options *options, struct seam_put *ret,
                        struct seam_err *err)
{
    struct put u = {.s = store, .stream = stream};
    struct seam_put done = {0};
    struct seam_append appended;
    pthread_mutex_t *putting = NULL;
    if (options != NULL) {
        u.lag = options->lag;
        u.commits = options->commits;
    }
    if (payload.ptr == NULL && payload.len > 0)
        return seam_fail(err, SEAM_E_INVALID, "the unit has a length and no bytes");
    if (SEAM_ACK_LEVEL(ack) > SEAM_ACK_POWER)
        return seam_fail(err, SEAM_E_INVALID, "%u is no ack level", ack & 0xffu);
    if (u.commits != NULL)
        memset(u.commits, 0, (store->n - 1) * sizeof(*u.commits));
    for (size_t i = 1; i < store->n && putting == NULL; i++)
        if (store->parts[i].stream == stream)
            putting = store->parts[i].putting;
    if (putting != NULL)
        pthread_mutex_lock(putting);
    int rc = look_and_append(&u, payload, ack, &appended, err);
    if (putting != NULL)
        pthread_mutex_unlock(putting);
    if (rc != SEAM_OK)
        return rc;
    done.sequence = appended.last;
    done.acked = appended.acked;
    apply(&u, &done, err);
    if (ret != NULL)
        *ret = done;
    return SEAM_OK;
}
