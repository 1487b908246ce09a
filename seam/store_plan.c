/* store_plan.c - what a call of seam_store_open asks for, checked before anything is touched.
 *
 * Relies on seam_engine_check for specs. Keeps true: a plan has the journal first, names that may be
 * names of directories and differ, and no two members in one place. */
#include "store_int.h"

#include <stdio.h>
#include <string.h>

static int check_name(const char *name, struct seam_err *err)
{
    char shown[80];
    size_t n = name != NULL ? strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") : 0;
    if (n > 0 && name[n] == 0 && n <= SEAM_STORE_NAME_MAX)
        return SEAM_OK;
    struct seam_slice whole = seam_bytes(name, name != NULL ? strlen(name) : 0);
    return seam_fail(err, SEAM_E_INVALID,
                     "a projection's name is 1 to %d of a-z, 0-9, '_' and '-', not '%s'",
                     SEAM_STORE_NAME_MAX, seam_key_text(whole, shown, sizeof(shown)));
}

static size_t trimmed(const char *path)
{
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    return len;
}

/* Whether b is the directory a, or lies in it, as far as their texts tell; `in`: that too. */
static bool same_place(const char *a, const char *b, bool in)
{
    size_t la = trimmed(a), lb = trimmed(b);
    return lb >= la && memcmp(a, b, la) == 0 && (lb == la || (in && b[la] == '/'));
}

/* ---- one member -------------------------------------------------------------------------- */

/* Place, path and options of a part whose engine and dir are set. */
static int place(struct seam_store *s, struct seam_s_part *part, const char *dir,
                 const struct seam_options *options, struct seam_err *err)
{
    bool is_volatile = false;
    if (options != NULL)
        part->options = *options;
    part->options.mode = s->mode;
    part->options.platform = s->os;
    int rc = seam_engine_check(part->engine, &part->options, &is_volatile, err);
    if (rc != SEAM_OK)
        return seam_s_named(part, rc, err);
    part->info.place = is_volatile         ? SEAM_S_VOLATILE
                       : part->dir != NULL ? SEAM_S_OUTSIDE
                                           : SEAM_S_INSIDE;
    if (is_volatile)
        return SEAM_OK;
    if (dir == NULL || dir[0] == 0)
        return seam_fail(err, SEAM_E_NO_STORE, "the store needs a directory: name one");
    if (part->dir != NULL && (part->dir[0] == 0 || same_place(dir, part->dir, true)))
        return seam_fail(err, SEAM_E_INVALID,
                         "%s: a directory of its own must be outside the store's, not '%.100s'",
                         part->info.name, part->dir);
    size_t room = (part->dir != NULL ? strlen(part->dir) : trimmed(dir)) + SEAM_S_NAME_ROOM + 2;
    part->path = s->os->alloc(s->os->ctx, room);
    if (part->path == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "no memory to open a store");
    if (part->dir != NULL)
        (void)snprintf(part->path, room, "%s", part->dir);
    else
        (void)snprintf(part->path, room, "%.*s/%s", (int)trimmed(dir), dir, part->info.name);
    return SEAM_OK;
}

static int plan_projection(struct seam_store *s, const char *dir, struct seam_s_part *part,
                           struct seam_err *err)
{
    const struct seam_store_feed *asked = part->asked;
    int rc = check_name(asked->name, err);
    if (rc != SEAM_OK)
        return rc;
    (void)snprintf(part->info.name, sizeof(part->info.name), "projection-%s", asked->name);
    if (asked->projector == NULL || asked->stream.ptr == NULL || asked->stream.len == 0)
        return seam_fail(err, SEAM_E_INVALID, "%s: a stream and a projector are needed",
                         part->info.name);
    part->engine = asked->engine;
    part->dir = asked->dir;
    if (part->engine != NULL)
        return place(s, part, dir, asked->db, err);
    if (part->dir != NULL || asked->db != NULL)
        return seam_fail(err, SEAM_E_INVALID, "%s: kept in the journal's db, it has no db of its own",
                         part->info.name);
    part->info.place = SEAM_S_SHARED;
    return SEAM_OK;
}

/* ---- all of them ------------------------------------------------------------------------- */

static int check_pairs(const struct seam_store *s, struct seam_err *err)
{
    const struct seam_s_part *journal = &s->parts[0];
    for (size_t i = 1; i < s->n; i++) {
        const struct seam_s_part *p = &s->parts[i];
        if (journal->info.place == SEAM_S_VOLATILE && p->path != NULL)
            return seam_fail(err, SEAM_E_INVALID,
                             "%s would be kept, but its journal's engine keeps nothing", p->info.name);
        for (size_t k = 0; k < i; k++) {
            const struct seam_s_part *q = &s->parts[k];
            if (strcmp(p->info.name, q->info.name) == 0)
                return seam_fail(err, SEAM_E_INVALID, "%s is named twice", p->info.name);
            if (p->path != NULL && q->path != NULL && same_place(p->path, q->path, false))
                return seam_fail(err, SEAM_E_INVALID, "%s and %s are to be kept in one directory",
                                 q->info.name, p->info.name);
        }
    }
    return SEAM_OK;
}

static int check_options(const struct seam_store_options *o, struct seam_err *err)
{
    if (o == NULL || (unsigned)o->mode > SEAM_OPEN_READ_ONLY)
        return seam_fail(err, SEAM_E_INVALID, "a store is opened with options, and in a mode");
    if (o->n > SEAM_STORE_PROJECTIONS_MAX || (o->n > 0 && o->projections == NULL))
        return seam_fail(err, SEAM_E_INVALID, "a store has at most %d projections, not %zu",
                         SEAM_STORE_PROJECTIONS_MAX, o->n);
    if (o->journal != NULL && o->journal->prefix.len > 0)
        return seam_fail(err, SEAM_E_INVALID, "the journal of a store has no prefix");
    return SEAM_OK;
}

int seam_s_plan(struct seam_store *s, const char *dir, const struct seam_store_options *o,
                struct seam_err *err)
{
    int rc = check_options(o, err);
    if (rc != SEAM_OK)
        return rc;
    s->mode = o->mode;
    s->n = o->n + 1;
    s->parts = s->os->alloc(s->os->ctx, s->n * sizeof(*s->parts));
    s->listed = s->os->alloc(s->os->ctx, s->n * sizeof(*s->listed));
    if (s->parts == NULL || s->listed == NULL) {
        s->n = 0;
        return seam_fail(err, SEAM_E_NOMEM, "no memory to open a store");
    }
    memset(s->parts, 0, s->n * sizeof(*s->parts));
    (void)snprintf(s->parts[0].info.name, sizeof(s->parts[0].info.name), "journal");
    s->parts[0].engine = o->journal_engine;
    s->parts[0].dir = o->journal_dir;
    rc = place(s, &s->parts[0], dir, o->journal_db, err);
    for (size_t i = 1; i < s->n && rc == SEAM_OK; i++) {
        s->parts[i].asked = &o->projections[i - 1];
        rc = plan_projection(s, dir, &s->parts[i], err);
    }
    return rc == SEAM_OK ? check_pairs(s, err) : rc;
}
