/* store_make.c - the members' dbs: found by their uuids, or made, and the store's file written.
 *
 * Relies on store_dir.c for the order of a creation. Keeps true: STORE names a member only when its
 * db and the records in it are durable; a db that somebody else may use is neither taken nor
 * removed. */
#include "store_int.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct seam_db *seam_s_db(const struct seam_store *s, const struct seam_s_part *part)
{
    return part->info.place == SEAM_S_SHARED ? s->parts[0].db : part->db;
}

int seam_s_named(const struct seam_s_part *part, int rc, struct seam_err *err)
{
    char text[sizeof(err->text)];
    if (rc == SEAM_OK || err == NULL || strncmp(err->text, part->info.name, strlen(part->info.name)) == 0)
        return rc;
    memcpy(text, err->text, sizeof(text));
    int len = (int)(sizeof(text) - strlen(part->info.name) - 3);
    (void)snprintf(err->text, sizeof(err->text), "%s: %.*s", part->info.name, len, text);
    err->code = rc;
    return rc;
}

/* ---- what is to be made ------------------------------------------------------------------ */

static const char *place_text(enum seam_s_place place)
{
    static const char *const texts[] = {"inside", "outside, in a directory that is told at open",
                                        "in the journal's db", "on a volatile engine"};
    return texts[place];
}

/* Holds the plan against STORE. */
static int match(struct seam_store *s, const struct seam_s_text *store, struct seam_err *err)
{
    for (size_t i = 0; i < s->n; i++) {
        struct seam_s_part *part = &s->parts[i];
        const struct seam_s_member *there = seam_s_find(store, part->info.name);
        part->fresh = there == NULL;
        s->fresh += part->fresh;
        if (part->fresh && store != NULL && s->mode != SEAM_OPEN_CREATE)
            return seam_fail(err, SEAM_E_MISMATCH,
                             "%s is not in this store: open it with mode create to add it",
                             part->info.name);
        if (there != NULL && there->place != part->info.place)
            return seam_fail(err, SEAM_E_MISMATCH, "%s is kept %s", part->info.name,
                             place_text(there->place));
        if (there != NULL)
            part->info = *there;
    }
    for (size_t k = 0; store != NULL && k < store->n; k++) {
        size_t i = 0;
        while (i < s->n && strcmp(s->parts[i].info.name, store->members[k].name) != 0)
            i++;
        if (i == s->n)
            return seam_fail(err, SEAM_E_MISMATCH,
                             "the store has a %s, which was not named: name all of its projections",
                             store->members[k].name);
    }
    return SEAM_OK;
}

static int write_listed(struct seam_store *s, bool making, struct seam_err *err)
{
    struct seam_s_text text = {.making = making, .created = s->created, .members = s->listed};
    memcpy(text.uuid, s->uuid, 16);
    for (size_t i = 0; i < s->n; i++)
        if (!making || s->parts[i].fresh)
            s->listed[text.n++] = s->parts[i].info;
    return seam_s_dir_write(s->dir, &text, err);
}

/* Members in DIR that an interrupted creation has left, and nobody has used. */
static int clear_left(struct seam_store *s, const struct seam_s_text *store,
                      const struct seam_s_text *making, struct seam_err *err)
{
    int rc = SEAM_OK;
    if (making == NULL)
        return rc;
    if (store == NULL)
        return seam_s_dir_clear_all(s->dir, err);
    for (size_t i = 0; i < making->n && rc == SEAM_OK; i++)
        if (making->members[i].place == SEAM_S_INSIDE &&
            seam_s_find(store, making->members[i].name) == NULL)
            rc = seam_s_dir_clear(s->dir, making->members[i].name, err);
    return rc;
}

static int begin(struct seam_store *s, const struct seam_s_text *store,
                 const struct seam_s_text *making, struct seam_err *err)
{
    int rc = SEAM_OK;
    const struct seam_s_text *from = store != NULL ? store : making;
    if (from != NULL) {
        memcpy(s->uuid, from->uuid, 16);
        s->created = from->created;
        return rc;
    }
    rc = s->os->random(s->os->ctx, s->uuid, sizeof(s->uuid));
    if (rc < 0)
        return seam_fail_os(err, -rc, "cannot get random bytes for a store's id");
    s->uuid[6] = (uint8_t)(0x40 | (s->uuid[6] & 0x0f)); /* RFC 4122, version 4 */
    s->uuid[8] = (uint8_t)(0x80 | (s->uuid[8] & 0x3f));
    s->created = s->os->now_ns(s->os->ctx, SEAM_CLOCK_REAL) / 1000000000u;
    return SEAM_OK;
}

/* Notes what is about to be made, with the uuids of outside members that were made already. */
static int prepare(struct seam_store *s, struct seam_err *err)
{
    const struct seam_s_text *store = seam_s_dir_store(s->dir), *making = seam_s_dir_making(s->dir);
    int rc = match(s, store, err);
    if (rc == SEAM_OK)
        rc = begin(s, store, making, err);
    if (rc != SEAM_OK || s->mode == SEAM_OPEN_READ_ONLY)
        return rc;
    rc = clear_left(s, store, making, err);
    if (rc == SEAM_OK && s->fresh == 0 && making != NULL)
        return seam_s_dir_end(s->dir, err);
    if (rc != SEAM_OK || s->fresh == 0)
        return rc;
    for (size_t i = 0; i < s->n; i++) {
        struct seam_s_part *part = &s->parts[i];
        const struct seam_s_member *had = seam_s_find(making, part->info.name);
        if (part->fresh && had != NULL && had->place == SEAM_S_OUTSIDE &&
            part->info.place == SEAM_S_OUTSIDE)
            memcpy(part->info.uuid, had->uuid, 16);
    }
    return write_listed(s, true, err);
}

/* ---- the dbs ----------------------------------------------------------------------------- */

/* Without any key: SEAM_OK; SEAM_E_EXISTS if there is one. */
static int without_keys(struct seam_db *db, struct seam_err *err)
{
    struct seam_slice none = {NULL, 0};
    struct seam_pin pin = {0};
    int rc = seam_ceiling(db, NULL, none, none, &pin, err);
    seam_unpin(&pin);
    return rc == SEAM_NOTFOUND ? SEAM_OK : rc == SEAM_OK ? SEAM_E_EXISTS : rc;
}

/* The db of a member that STORE names. */
static int open_known(struct seam_store *s, struct seam_s_part *part, struct seam_err *err)
{
    bool there = true;
    int rc = SEAM_OK;
    if (part->info.place == SEAM_S_INSIDE)
        rc = seam_s_dir_has(s->dir, part->info.name, &there, err);
    if (rc != SEAM_OK)
        return rc;
    if (!there)
        return seam_fail(err, SEAM_E_CORRUPT,
                         "%s is missing from the store (engine %s): restore it from a copy",
                         part->info.name, part->info.engine);
    struct seam_options o = part->options;
    if (o.mode != SEAM_OPEN_READ_ONLY) /* it is never made anew */
        o.mode = SEAM_OPEN_EXISTING;
    rc = seam_open(part->engine, part->path, &o, &part->db, err);
    if (rc == SEAM_E_NO_STORE && part->info.place == SEAM_S_INSIDE)
        rc = SEAM_E_CORRUPT;
    if (rc != SEAM_OK)
        return seam_s_named(part, rc, err);
    if (memcmp(seam_db_uuid(part->db), part->info.uuid, 16) != 0)
        return seam_fail(err, SEAM_E_MISMATCH,
                         "%s: %.120s holds another db than the one that belongs to this store",
                         part->info.name, part->path);
    if (part->asked != NULL && part->asked->discard)
        return SEAM_OK;
    rc = without_keys(part->db, err);
    if (rc == SEAM_OK)
        return seam_fail(err, SEAM_E_CORRUPT,
                         "%s: its db is empty, what it held is lost: restore it from a copy",
                         part->info.name);
    return rc == SEAM_E_EXISTS ? SEAM_OK : seam_s_named(part, rc, err);
}

/* Looks, without writing, whether the db that is there may become this member. */
static int may_take(struct seam_s_part *part, struct seam_err *err)
{
    struct seam_options look = part->options;
    struct seam_db *db = NULL;
    look.mode = SEAM_OPEN_READ_ONLY;
    int rc = seam_open(part->engine, part->path, &look, &db, err);
    if (rc != SEAM_OK)
        return seam_s_named(part, rc, err);
    if (memcmp(seam_db_uuid(db), part->info.uuid, 16) != 0)
        rc = without_keys(db, err);
    (void)seam_close(db, NULL);
    if (rc == SEAM_E_EXISTS)
        return seam_fail(err, rc, "%s: %.130s holds a db that is in use: name another directory",
                         part->info.name, part->path);
    return rc == SEAM_OK ? rc : seam_s_named(part, rc, err);
}

static bool dir_there(const struct seam_store *s, const char *path)
{
    int fd = s->os->open_root(s->os->ctx, path);
    if (fd >= 0)
        (void)s->os->close(s->os->ctx, fd);
    return fd != -ENOENT;
}

static int open_fresh(struct seam_store *s, struct seam_s_part *part, struct seam_err *err)
{
    struct seam_options o = part->options;
    bool there = false;
    part->dir_was_there = dir_there(s, part->path);
    int rc = SEAM_OK;
    if (part->info.place == SEAM_S_INSIDE)
        rc = seam_s_dir_has(s->dir, part->info.name, &there, err);
    if (rc != SEAM_OK)
        return rc;
    if (there)
        return seam_fail(err, SEAM_E_EXISTS, "%s is there, but not of this store: remove %.120s",
                         part->info.name, part->path);
    o.mode = SEAM_OPEN_NEW;
    rc = seam_open(part->engine, part->path, &o, &part->db, err);
    part->made = rc == SEAM_OK;
    if (rc == SEAM_E_EXISTS) {
        rc = may_take(part, err);
        if (rc != SEAM_OK)
            return rc;
        o.mode = SEAM_OPEN_EXISTING;
        rc = seam_open(part->engine, part->path, &o, &part->db, err);
        part->taken = true;
    }
    if (rc != SEAM_OK)
        return seam_s_named(part, rc, err);
    memcpy(part->info.uuid, seam_db_uuid(part->db), 16);
    return part->info.place == SEAM_S_OUTSIDE ? write_listed(s, true, err) : SEAM_OK;
}

/* The name of the engine at the bottom of the db's stack; of a plug-in what its file's name allows. */
static void engine_name(const struct seam_db *db, char ret[SEAM_S_ENGINE_ROOM])
{
    const char *spec = seam_db_engine(db), *name = spec;
    size_t n = 0;
    for (const char *c = spec; *c != 0 && *c != ':'; c++) {
        if (*c == '\\' && c[1] != 0)
            c++;
        else if (*c == '+' || *c == '/')
            name = c + 1;
    }
    for (; n + 1 < SEAM_S_ENGINE_ROOM && name[n] != 0 && name[n] != ':'; n++) {
        char c = name[n];
        bool as_is = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
        ret[n] = c;
        if (!as_is)
            ret[n] = '_';
    }
    if (n == 0)
        ret[n++] = '_';
    ret[n] = 0;
}

int seam_s_open_dbs(struct seam_store *s, struct seam_err *err)
{
    /* Names of engines for MAKING, before any is open. */
    for (size_t i = 0; i < s->n; i++)
        memcpy(s->parts[i].info.engine, "_", 2);
    int rc = s->dir != NULL ? prepare(s, err) : SEAM_OK;
    for (size_t i = 0; i < s->n && rc == SEAM_OK; i++) {
        struct seam_s_part *part = &s->parts[i];
        if (part->info.place == SEAM_S_SHARED)
            continue;
        if (part->path == NULL)
            rc = seam_s_named(part, seam_open(part->engine, NULL, &part->options, &part->db, err), err);
        else
            rc = part->fresh ? open_fresh(s, part, err) : open_known(s, part, err);
        if (rc == SEAM_OK)
            engine_name(part->db, part->info.engine);
    }
    return rc;
}

/* ---- the end of a creation, and its undoing ---------------------------------------------- */

int seam_s_finish(struct seam_store *s, struct seam_err *err)
{
    if (s->dir == NULL || s->fresh == 0)
        return SEAM_OK;
    for (size_t i = 0; i < s->n; i++) {
        struct seam_s_part *part = &s->parts[i];
        struct seam_limits limits;
        if (part->db == NULL)
            continue;
        seam_db_limits(part->db, &limits);
        int rc = limits.best > SEAM_ACK_NONE ? seam_sync(part->db, limits.best, err) : SEAM_OK;
        if (rc != SEAM_OK)
            return seam_s_named(part, rc, err);
    }
    for (size_t i = 1; i < s->n; i++)
        if (s->parts[i].info.place == SEAM_S_SHARED)
            memcpy(s->parts[i].info.engine, s->parts[0].info.engine, SEAM_S_ENGINE_ROOM);
    int rc = write_listed(s, false, err);
    return rc == SEAM_OK ? seam_s_dir_end(s->dir, err) : rc;
}

void seam_s_unmake(struct seam_store *s)
{
    bool all = true;
    if (s->dir == NULL || s->mode == SEAM_OPEN_READ_ONLY || seam_s_dir_made(s->dir))
        return;
    for (size_t i = 0; i < s->n; i++) {
        const struct seam_s_part *part = &s->parts[i];
        if (part->made && part->info.place == SEAM_S_INSIDE)
            all = seam_s_dir_clear(s->dir, part->info.name, NULL) == SEAM_OK && all;
        else if (part->made)
            all = seam_s_remove_path(s->os, part->path, !part->dir_was_there) >= 0 && all;
    }
    if (all)
        seam_s_dir_undo(s->dir);
}
