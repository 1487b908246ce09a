/* store.c - opening and closing a store, and what it hands out.
 *
 * Relies on store_plan.c for what is asked, on store_make.c for the dbs. Keeps true: after an open
 * that failed nothing is open, and what this open made is removed unless STORE names it. */
#include "projection_int.h"
#include "store_int.h"

#include <string.h>

/* ---- close ------------------------------------------------------------------------------- */

static void first(int *rc, int other)
{
    if (*rc == SEAM_OK)
        *rc = other;
}

static int close_projections(struct seam_store *s, struct seam_err *err)
{
    for (size_t i = 1; i < s->n; i++) {
        struct seam_s_part *part = &s->parts[i];
        int rc = seam_projection_close(part->projection, err);
        if (rc != SEAM_OK)
            return seam_s_named(part, rc, err);
        part->projection = NULL;
    }
    return SEAM_OK;
}

/* E_BUSY: that db and those not looked at yet are still open. */
static int close_dbs(struct seam_store *s, struct seam_err *err)
{
    int rc = SEAM_OK;
    for (size_t i = s->n; i-- > 0;) {
        struct seam_s_part *part = &s->parts[i];
        int closed = seam_close(part->db, rc == SEAM_OK ? err : NULL);
        if (closed == SEAM_E_BUSY)
            return seam_s_named(part, closed, err);
        part->db = NULL;
        if (closed != SEAM_OK && rc == SEAM_OK)
            (void)seam_s_named(part, closed, err);
        first(&rc, closed);
    }
    return rc;
}

static void free_store(struct seam_store *s)
{
    const struct seam_platform *os = s->os;
    seam_s_dir_close(s->dir, false);
    seam_s_locks_close(s);
    for (size_t i = 0; i < s->n; i++)
        os->free(os->ctx, s->parts[i].path);
    os->free(os->ctx, s->parts);
    os->free(os->ctx, s->listed);
    os->free(os->ctx, s);
}

/* In a forked child: lets go of the locks that it inherited; what else there is stays. */
static int let_go(struct seam_store *s, struct seam_err *err)
{
    int rc = SEAM_E_FORKED;
    for (size_t i = 0; i < s->n; i++)
        if (s->parts[i].db != NULL)
            rc = seam_close(s->parts[i].db, err);
    seam_s_dir_close(s->dir, true);
    s->dir = NULL;
    return rc;
}

static bool forked(const struct seam_store *s)
{
    struct seam_stats stats;
    for (size_t i = 0; i < s->n; i++)
        if (s->parts[i].db != NULL)
            return seam_db_stats(s->parts[i].db, &stats, NULL) == SEAM_E_FORKED;
    return false;
}

int seam_store_close(struct seam_store *store, struct seam_err *err)
{
    if (store == NULL)
        return SEAM_OK;
    if (forked(store))
        return let_go(store, err);
    for (size_t i = 1; i < store->n; i++) {
        uint32_t open = seam_p_handles(store->parts[i].projection);
        if (open > 0)
            return seam_fail(err, SEAM_E_BUSY, "%s has %u open views and cursors: close them first",
                             store->parts[i].info.name, open);
    }
    int rc = close_projections(store, err);
    if (rc == SEAM_OK)
        rc = seam_journal_close(store->journal, err);
    if (rc == SEAM_E_BUSY)
        return rc;
    store->journal = NULL;
    int closed = close_dbs(store, rc == SEAM_OK ? err : NULL);
    if (closed == SEAM_E_BUSY)
        return closed;
    free_store(store);
    return rc == SEAM_OK ? closed : rc;
}

/* ---- open -------------------------------------------------------------------------------- */

static int open_journal(struct seam_store *s, const struct seam_journal_options *asked,
                        struct seam_err *err)
{
    struct seam_journal_options o = {0};
    if (asked != NULL)
        o = *asked;
    o.platform = s->os;
    return seam_s_named(&s->parts[0], seam_journal_open(s->parts[0].db, &o, &s->journal, err), err);
}

static int open_projections(struct seam_store *s, struct seam_err *err)
{
    int rc = SEAM_OK;
    for (size_t i = 1; i < s->n && rc == SEAM_OK; i++) {
        struct seam_s_part *part = &s->parts[i];
        const struct seam_store_feed *asked = part->asked;
        struct seam_projection_options o = {.journal = s->journal, .platform = s->os};
        o.stream = asked->stream;
        o.projector = asked->projector;
        o.projector_ctx = asked->projector_ctx;
        o.batch = asked->batch;
        o.ack = asked->ack;
        o.discard = asked->discard || part->taken;
        o.split_units = asked->split_units;
        o.atomic_reads = asked->atomic_reads;
        rc = seam_projection_open(seam_s_db(s, part), seam_bytes(asked->name, strlen(asked->name)),
                                  &o, &part->projection, err);
        if (rc == SEAM_OK)
            rc = seam_journal_stream(s->journal, asked->stream, false, &part->stream, err);
        rc = seam_s_named(part, rc, err);
        part->asked = NULL;
    }
    return rc == SEAM_OK ? seam_s_locks_open(s, err) : rc;
}

static bool needs_dir(const struct seam_store *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->parts[i].path != NULL)
            return true;
    return false;
}

static int open_all(struct seam_store *s, const char *dir, const struct seam_store_options *o,
                    struct seam_err *err)
{
    int rc = seam_s_plan(s, dir, o, err);
    if (rc == SEAM_OK && (needs_dir(s) || (dir != NULL && dir[0] != 0)))
        rc = seam_s_dir_open(s->os, dir, s->mode, &s->dir, err);
    if (rc == SEAM_OK)
        rc = seam_s_open_dbs(s, err);
    if (rc == SEAM_OK)
        rc = open_journal(s, o->journal, err);
    if (rc == SEAM_OK)
        rc = open_projections(s, err);
    return rc == SEAM_OK ? seam_s_finish(s, err) : rc;
}

int seam_store_open(const char *dir, const struct seam_store_options *options,
                    struct seam_store **ret, struct seam_err *err)
{
    const struct seam_platform *os =
        options != NULL && options->platform != NULL ? options->platform : seam_platform_system();
    struct seam_store *s = os->alloc(os->ctx, sizeof(*s));
    if (s == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "no memory for a store");
    memset(s, 0, sizeof(*s));
    s->os = os;
    int rc = open_all(s, dir, options, err);
    if (rc == SEAM_OK) {
        *ret = s;
        return rc;
    }
    /* Nobody has handles on these yet, so they close. */
    (void)close_projections(s, NULL);
    (void)seam_journal_close(s->journal, NULL);
    (void)close_dbs(s, NULL);
    seam_s_unmake(s);
    free_store(s);
    return rc;
}

/* ---- members ----------------------------------------------------------------------------- */

static struct seam_s_part *find(struct seam_store *s, const char *name)
{
    for (size_t i = 1; name != NULL && i < s->n; i++)
        if (strcmp(s->parts[i].info.name + strlen("projection-"), name) == 0)
            return &s->parts[i];
    return NULL;
}

struct seam_journal *seam_store_journal(struct seam_store *store)
{
    return store->journal;
}

struct seam_projection *seam_store_projection(struct seam_store *store, const char *name)
{
    struct seam_s_part *part = find(store, name);
    return part != NULL ? part->projection : NULL;
}

struct seam_db *seam_store_db(struct seam_store *store, const char *name)
{
    struct seam_s_part *part = name == NULL ? &store->parts[0] : find(store, name);
    return part != NULL ? seam_s_db(store, part) : NULL;
}

const uint8_t *seam_store_uuid(const struct seam_store *store)
{
    return store->uuid;
}

int seam_store_catch_up(struct seam_store *store, uint64_t *ret_applied, struct seam_err *err)
{
    uint64_t all = 0;
    int rc = SEAM_OK;
    for (size_t i = 1; i < store->n; i++) {
        struct seam_s_part *part = &store->parts[i];
        uint64_t applied = 0;
        int own = seam_projection_catch_up(part->projection, 0, &applied, rc == SEAM_OK ? err : NULL);
        all += applied;
        if (own != SEAM_OK && rc == SEAM_OK)
            rc = seam_s_named(part, own, err);
    }
    if (ret_applied != NULL)
        *ret_applied = all;
    return rc;
}
