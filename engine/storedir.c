/* storedir.c - the directory of one store: found or made, locked, checked, and undone on failure.
 *
 * Relies on the platform table: every access is by name relative to the one descriptor of DIR.
 * Keeps true what storedir.h promises.
 *
 * THE ORDER OF A CREATION, each step flushed before the next:
 *     DIR/  LOCK  engine.new/ with what the engine puts there
 *     EPOCH (epoch 0, by way of EPOCH.new)
 *     engine.new -> engine
 *     STORE (by way of STORE.new), then DIR and its parent
 * So without STORE, a creation was interrupted: what is there holds nothing of anybody's and may be
 * removed. Unless EPOCH says that the store was in use, or is gone while engine/ is there: then it
 * is STORE that was lost, and nothing is touched. */
#include "storedir.h"
#include "storefile.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define LOCK_TRIES 16
#define NAME_ROOM 256u

struct seam_storedir {
    const struct seam_platform *os;
    enum seam_open_mode mode;
    int dir, parent, lock, epoch_fd, engine_dir;       /* -1: not open */
    char *path, *parent_path, *new_path, *engine_path; /* in one block, path first */
    const char *base;                                  /* last component of path */
    bool made_dir, made_lock;
    bool begun;                                  /* this open makes things in DIR */
    bool made;                                   /* and the engine, STORE and EPOCH are in place */
    bool epoch_named, engine_named, store_named; /* which of them a creation has renamed */
    bool whole;                                  /* opened as it was, or made to the end: nothing to undo */
    bool used;                                   /* EPOCH may say that the store was in use */
    bool has_store;
    char alien[NAME_ROOM];        /* a name in DIR that is none of a half-made store's */
    bool has_leftovers, has_lock; /* without a store: a half-made one's names; its LOCK */
    struct seam_storefile store;
    struct seam_epochfile epochs;
    uint64_t epoch;
};

static bool read_only(const struct seam_storedir *sd)
{
    return sd->mode == SEAM_OPEN_READ_ONLY;
}

static bool creates(const struct seam_storedir *sd)
{
    return sd->mode == SEAM_OPEN_CREATE || sd->mode == SEAM_OPEN_NEW;
}

static void close_fd(const struct seam_storedir *sd, int *fd)
{
    if (*fd >= 0)
        (void)sd->os->close(sd->os->ctx, *fd);
    *fd = -1;
}

/* ---- paths ------------------------------------------------------------------------------- */

/* "a/b///" is path "a/b", base "b", parent_path "a/." (followed even if "a" is a link). */
static int set_paths(struct seam_storedir *sd, const char *dir, struct seam_err *err)
{
    static const char fresh_name[] = "/engine.new", name[] = "/engine";
    size_t len = strlen(dir);
    while (len > 1 && dir[len - 1] == '/')
        len--;
    size_t stem = len; /* up to and with the last slash */
    while (stem > 0 && dir[stem - 1] != '/')
        stem--;
    size_t room = (len + 1) + (stem + 2) + (len + sizeof fresh_name) + (len + sizeof name);
    char *at = sd->os->alloc(sd->os->ctx, room);
    if (!at)
        return seam_fail(err, SEAM_E_NOMEM, "out of memory to open %s", dir);
    sd->path = at;
    memcpy(at, dir, len);
    at[len] = 0;
    sd->base = at + stem;
    at += len + 1;
    sd->parent_path = at;
    memcpy(at, dir, stem);
    memcpy(at + stem, ".", 2);
    at += stem + 2;
    sd->new_path = at;
    memcpy(at, dir, len);
    memcpy(at + len, fresh_name, sizeof fresh_name);
    at += len + sizeof fresh_name;
    sd->engine_path = at;
    memcpy(at, dir, len);
    memcpy(at + len, name, sizeof name);
    return SEAM_OK;
}

/* ---- the directory ----------------------------------------------------------------------- */

static int make_dir(struct seam_storedir *sd, struct seam_err *err)
{
    const struct seam_platform *os = sd->os;
    int fd = os->open_root(os->ctx, sd->parent_path);
    size_t len = strlen(sd->parent_path); /* without the "/." but for "." and "/." themselves */
    int shown = len > 2 && len < 4096 ? (int)len - 2 : 2;
    if (fd == -ENOENT || fd == -ENOTDIR)
        return seam_fail(err, SEAM_E_NO_STORE,
                         "%s cannot be made, there is no directory %.*s: make that first", sd->path,
                         shown, sd->parent_path);
    if (fd < 0)
        return seam_fail_os(err, -fd, "cannot open %.*s, the parent of %s", shown, sd->parent_path,
                            sd->path);
    sd->parent = fd;
    int rc = os->mkdir(os->ctx, fd, sd->base);
    if (rc < 0 && rc != -EEXIST)
        return seam_fail_os(err, -rc, "cannot make the directory %s", sd->path);
    sd->made_dir = rc >= 0;
    fd = os->open(os->ctx, sd->parent, sd->base, SEAM_FILE_DIR);
    if (fd < 0)
        return seam_fail_os(err, -fd, "cannot open the directory %s", sd->path);
    sd->dir = fd;
    return SEAM_OK;
}

static int open_dir(struct seam_storedir *sd, struct seam_err *err)
{
    const struct seam_platform *os = sd->os;
    int fd = os->open_root(os->ctx, sd->path);
    if (fd == -ENOENT && creates(sd))
        return make_dir(sd, err);
    if (fd == -ENOENT)
        return seam_fail(err, SEAM_E_NO_STORE,
                         "%s does not exist: open it with mode create to make a store there",
                         sd->path);
    if (fd == -ENOTDIR || fd == -ELOOP)
        return seam_fail(err, SEAM_E_NO_STORE,
                         "%s is not a directory (a symbolic link is not followed): name one",
                         sd->path);
    if (fd < 0)
        return seam_fail_os(err, -fd, "cannot open the directory %s", sd->path);
    sd->dir = fd;
    struct seam_file_info info;
    int rc = os->stat(os->ctx, fd, "", &info);
    if (rc < 0)
        return seam_fail_os(err, -rc, "cannot look at the directory %s", sd->path);
    /* Whoever else can write here could plant files under the names that engines will open. */
    if (info.foreign)
        return seam_fail(err, SEAM_E_PERMISSION, "%s belongs to another user: open it as its owner",
                         sd->path);
    if (info.loose)
        return seam_fail(err, SEAM_E_PERMISSION,
                         "%s may be written by its group or by everybody: chmod go-w it", sd->path);
    return SEAM_OK;
}

static int present(const struct seam_storedir *sd, const char *name, bool *ret,
                   struct seam_err *err)
{
    struct seam_file_info info;
    int rc = sd->os->stat(sd->os->ctx, sd->dir, name, &info);
    if (rc < 0)
        return seam_fail_os(err, -rc, "cannot look at %s/%s", sd->path, name);
    *ret = info.kind != SEAM_FILE_ABSENT;
    return SEAM_OK;
}

static int note_name(void *arg, const char *name)
{
    static const char *const ours[] = {"LOCK",      "EPOCH",      "STORE",  "STORE.new",
                                       "EPOCH.new", "engine.new", "engine", NULL};
    struct seam_storedir *sd = arg;
    for (size_t i = 0; ours[i]; i++)
        if (strcmp(name, ours[i]) == 0) {
            sd->has_leftovers = true;
            sd->has_lock = sd->has_lock || i == 0;
            return 0;
        }
    size_t len = strlen(name);
    if (len > sizeof sd->alien - 1)
        len = sizeof sd->alien - 1;
    memcpy(sd->alien, name, len);
    sd->alien[len] = 0;
    return 1;
}

/* STORE is gone. Was it ever there? See the top. */
static int check_never_used(const struct seam_storedir *sd, struct seam_err *err)
{
    const struct seam_platform *os = sd->os;
    bool engine = false;
    struct seam_epochfile epochs = {0, 0, 0};
    int rc = present(sd, "engine", &engine, err);
    if (rc != SEAM_OK)
        return rc;
    int fd = os->open(os->ctx, sd->dir, "EPOCH", SEAM_FILE_READ);
    if (fd == -ENOENT && !engine)
        return SEAM_OK;
    if (fd < 0 && fd != -ENOENT && fd != -EMLINK && fd != -ELOOP && fd != -EISDIR && fd != -ENXIO)
        return seam_fail_os(err, -fd, "cannot open %s/EPOCH", sd->path);
    if (fd >= 0) {
        rc = seam_epochfile_read(os, fd, sd->path, NULL, &epochs, err);
        (void)os->close(os->ctx, fd);
        if (rc != SEAM_OK && rc != SEAM_E_CORRUPT)
            return rc;
        if (rc == SEAM_OK && epochs.epoch == 0)
            return SEAM_OK;
    }
    return seam_fail(err, SEAM_E_CORRUPT,
                     "%s/STORE is missing from a store that was in use: restore it from a copy",
                     sd->path);
}

/* What is there, and whether that can become or be the store that was asked for. Changes nothing.
 * locked: the lock is held, so a half-made store is nobody's work in progress. */
static int judge(struct seam_storedir *sd, bool locked, struct seam_err *err)
{
    int rc = present(sd, "STORE", &sd->has_store, err);
    if (rc != SEAM_OK)
        return rc;
    if (sd->has_store) {
        if (sd->mode == SEAM_OPEN_NEW)
            return seam_fail(err, SEAM_E_EXISTS,
                             "%s holds a store already: open it with mode existing", sd->path);
        return SEAM_OK;
    }
    sd->alien[0] = 0;
    sd->has_leftovers = sd->has_lock = false;
    rc = sd->os->list(sd->os->ctx, sd->dir, note_name, sd);
    if (rc < 0)
        return seam_fail_os(err, -rc, "cannot list the directory %s", sd->path);
    if (sd->alien[0]) {
        char text[80];
        struct seam_slice alien = seam_bytes(sd->alien, strlen(sd->alien));
        return seam_fail(err, SEAM_E_NO_STORE,
                         "%s is not a Seam store and not empty (it holds %s): name another directory",
                         sd->path, seam_key_text(alien, text, sizeof text));
    }
    if (creates(sd) || (sd->has_lock && !locked))
        return SEAM_OK;
    rc = check_never_used(sd, err);
    if (rc != SEAM_OK)
        return rc;
    if (sd->has_leftovers)
        return seam_fail(err, SEAM_E_NO_STORE,
                         "%s holds no store, its creation was interrupted: open it with mode create to "
                         "make it anew", sd->path);
    return seam_fail(err, SEAM_E_NO_STORE,
                     "%s is empty, not a store: open it with mode create to make one there",
                     sd->path);
}

/* ---- the lock ---------------------------------------------------------------------------- */

static int open_lock(struct seam_storedir *sd, bool *ret_made)
{
    const struct seam_platform *os = sd->os;
    *ret_made = false;
    if (read_only(sd))
        return os->open(os->ctx, sd->dir, "LOCK", SEAM_FILE_READ);
    int fd = os->open(os->ctx, sd->dir, "LOCK", SEAM_FILE_WRITE);
    if (fd != -ENOENT)
        return fd;
    /* Without a store the lock is part of a creation; beside one it was lost and is made again. */
    fd = os->open(os->ctx, sd->dir, "LOCK", SEAM_FILE_WRITE | SEAM_FILE_CREATE | SEAM_FILE_NEW);
    *ret_made = fd >= 0;
    return fd;
}

/* flock conflicts between open file descriptions, not processes, so a second open in this process
 * is refused as another process would be. Who fails removes the LOCK he made while he holds it;
 * who got hold of one that has no name any more takes the next. */
static int take_lock(struct seam_storedir *sd, struct seam_err *err)
{
    const struct seam_platform *os = sd->os;
    for (int i = 0; i < LOCK_TRIES; i++) {
        bool made;
        struct seam_file_info info;
        int fd = open_lock(sd, &made);
        if (fd == -EEXIST)
            continue; /* made by somebody between the two opens */
        if (fd == -ENOENT && read_only(sd))
            return seam_fail(err, SEAM_E_CORRUPT,
                             "%s/LOCK is missing: open the store once for writing, to make it again",
                             sd->path);
        if (fd == -EMLINK || fd == -ELOOP || fd == -EISDIR || fd == -ENXIO)
            return seam_fail(err, SEAM_E_CORRUPT, "%s/LOCK is no plain file of one name: remove it",
                             sd->path);
        if (fd < 0)
            return seam_fail_os(err, -fd, "cannot open %s/LOCK", sd->path);
        sd->lock = fd;
        int rc = os->lock(os->ctx, fd, !read_only(sd));
        if (rc == -EWOULDBLOCK)
            return seam_fail(err, SEAM_E_BUSY,
                             "%s is open already, here or in another process: close it there first",
                             sd->path);
        if (rc >= 0)
            rc = os->stat(os->ctx, fd, "", &info);
        sd->made_lock = made && (rc < 0 || info.links > 0);
        if (rc < 0)
            return seam_fail_os(err, -rc, "cannot lock %s/LOCK", sd->path);
        if (info.links > 0)
            return SEAM_OK;
        close_fd(sd, &sd->lock);
    }
    return seam_fail(err, SEAM_E_BUSY, "%s is being opened by others: try again", sd->path);
}

/* ---- removing what is half made ---------------------------------------------------------- */

static int unlink_half_made(const struct seam_storedir *sd, const char *name)
{
    int rc = sd->os->unlink(sd->os->ctx, sd->dir, name);
    return rc == -ENOENT ? 0 : rc;
}

/* EPOCH goes last, and only when engine/ is gone for good: without it, engine/ would look used. */
static int clean_half_made(const struct seam_storedir *sd, struct seam_err *err)
{
    static const char *const names[] = {"engine.new", "engine"};
    for (size_t i = 0; i < 2; i++) {
        int rc = seam_storesweep_dir(sd->os, sd->dir, names[i]);
        if (rc == -ENOTEMPTY || rc == -EEXIST || rc == -ENOTDIR || rc == -ELOOP)
            return seam_fail(err, SEAM_E_NO_STORE,
                             "%s/%s is nothing that an interrupted creation leaves: "
                             "remove it, or name another directory",
                             sd->path, names[i]);
        if (rc < 0)
            return seam_fail_os(err, -rc, "cannot remove the half-made %s/%s", sd->path, names[i]);
    }
    static const char *const files[] = {"STORE.new", "EPOCH.new", "EPOCH"};
    int rc = sd->os->sync_dir(sd->os->ctx, sd->dir);
    for (size_t i = 0; i < 3 && rc >= 0; i++)
        rc = unlink_half_made(sd, files[i]);
    return rc < 0 ? seam_fail_os(err, -rc, "cannot remove half-made files in %s", sd->path)
                  : SEAM_OK;
}

/* A barrier that failed may be on the disk, and without STORE it would be the mark of a store that
 * lost it. If it cannot be taken back, the store stays: it is whole, and empty. */
static int take_back_barrier(struct seam_storedir *sd)
{
    const struct seam_platform *os = sd->os;
    if (!sd->used)
        return 0;
    int rc = seam_epochfile_write(os, sd->epoch_fd, sd->epochs.slot ^ 1u, 0, sd->store.uuid);
    return rc < 0 ? rc : os->sync(os->ctx, sd->epoch_fd);
}

/* Best effort: what it cannot remove, the next open with mode create removes. */
static void undo(struct seam_storedir *sd)
{
    const struct seam_platform *os = sd->os;
    int rc = take_back_barrier(sd);
    if (rc < 0)
        return;
    if (sd->begun) {
        if (sd->store_named)
            rc = os->unlink(os->ctx, sd->dir, "STORE");
        if (rc >= 0 && sd->store_named) /* no STORE may come back to what is gone */
            rc = os->sync_dir(os->ctx, sd->dir);
        if (rc >= 0)
            rc = unlink_half_made(sd, "STORE.new");
        if (rc >= 0)
            rc = seam_storesweep_dir(os, sd->dir, "engine.new");
        if (rc >= 0 && sd->engine_named)
            rc = seam_storesweep_dir(os, sd->dir, "engine");
        if (rc >= 0 && sd->engine_named)
            rc = os->sync_dir(os->ctx, sd->dir);
        if (rc >= 0)
            rc = unlink_half_made(sd, "EPOCH.new");
        if (rc >= 0 && sd->epoch_named)
            rc = os->unlink(os->ctx, sd->dir, "EPOCH");
    }
    if (rc >= 0 && sd->lock >= 0 && (sd->made_lock || sd->begun))
        rc = unlink_half_made(sd, "LOCK");
    if (rc >= 0 && sd->made_dir && sd->parent >= 0)
        (void)os->rmdir(os->ctx, sd->parent, sd->base);
}

/* ---- open -------------------------------------------------------------------------------- */

static int begin(struct seam_storedir *sd, const char *engine, uint32_t format,
                 struct seam_err *err)
{
    const struct seam_platform *os = sd->os;
    int rc = check_never_used(sd, err);
    if (rc == SEAM_OK && sd->has_leftovers)
        rc = clean_half_made(sd, err);
    if (rc != SEAM_OK)
        return rc;
    memcpy(sd->store.engine, engine, strlen(engine) + 1);
    sd->store.format = format;
    sd->store.created = os->now_ns(os->ctx, SEAM_CLOCK_REAL) / 1000000000u;
    rc = os->random(os->ctx, sd->store.uuid, sizeof sd->store.uuid);
    if (rc < 0)
        return seam_fail_os(err, -rc, "cannot get random bytes for the id of %s", sd->path);
    sd->store.uuid[6] = (uint8_t)(0x40 | (sd->store.uuid[6] & 0x0f)); /* RFC 4122, version 4 */
    sd->store.uuid[8] = (uint8_t)(0x80 | (sd->store.uuid[8] & 0x3f));
    sd->epoch = 1;
    sd->begun = true;
    rc = os->mkdir(os->ctx, sd->dir, "engine.new");
    if (rc >= 0)
        rc = sd->engine_dir = os->open(os->ctx, sd->dir, "engine.new", SEAM_FILE_DIR);
    return rc < 0 ? seam_fail_os(err, -rc, "cannot make %s", sd->new_path) : SEAM_OK;
}

static int open_epoch(struct seam_storedir *sd, struct seam_err *err)
{
    const struct seam_platform *os = sd->os;
    int fd = os->open(os->ctx, sd->dir, "EPOCH", read_only(sd) ? SEAM_FILE_READ : SEAM_FILE_WRITE);
    if (fd == -ENOENT || fd == -EMLINK || fd == -ELOOP || fd == -EISDIR || fd == -ENXIO)
        return seam_fail(err, SEAM_E_CORRUPT, "%s/EPOCH %s: restore it from a copy", sd->path,
                         fd == -ENOENT ? "is missing" : "is no plain file of one name");
    if (fd < 0)
        return seam_fail_os(err, -fd, "cannot open %s/EPOCH", sd->path);
    sd->epoch_fd = fd;
    return seam_epochfile_read(os, fd, sd->path, sd->store.uuid, &sd->epochs, err);
}

static int find(struct seam_storedir *sd, const char *engine, uint32_t format, struct seam_err *err)
{
    const struct seam_platform *os = sd->os;
    int rc = seam_storefile_read(os, sd->dir, sd->path, &sd->store, err);
    if (rc != SEAM_OK)
        return rc;
    if (strcmp(sd->store.engine, engine) != 0)
        return seam_fail(err, SEAM_E_MISMATCH, "%s is a store of the engine %s, not of %s",
                         sd->path, sd->store.engine, engine);
    if (sd->store.format != format)
        return seam_fail(err, SEAM_E_MISMATCH,
                         "%s has format %" PRIu32 " of the engine %s, this library has %" PRIu32,
                         sd->path, sd->store.format, engine, format);
    int fd = os->open(os->ctx, sd->dir, "engine", SEAM_FILE_DIR);
    if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
        return seam_fail(err, SEAM_E_CORRUPT, "%s %s: restore it from a copy", sd->engine_path,
                         fd == -ENOENT ? "is missing" : "is not a directory");
    if (fd < 0)
        return seam_fail_os(err, -fd, "cannot open %s", sd->engine_path);
    sd->engine_dir = fd;
    rc = open_epoch(sd, err);
    if (rc != SEAM_OK)
        return rc;
    sd->epoch = read_only(sd) ? sd->epochs.epoch : sd->epochs.next;
    sd->whole = true;
    return SEAM_OK;
}

int seam_storedir_open(const struct seam_platform *os, const char *dir, enum seam_open_mode mode,
                       const char *engine, uint32_t format, struct seam_storedir **ret,
                       struct seam_err *err)
{
    assert(strlen(engine) <= SEAM_STOREFILE_NAME_MAX);
    if (!dir || dir[0] == 0)
        return seam_fail(err, SEAM_E_NO_STORE, "the engine %s needs a directory: name one", engine);
    struct seam_storedir *sd = os->alloc(os->ctx, sizeof *sd);
    if (!sd)
        return seam_fail(err, SEAM_E_NOMEM, "out of memory to open %s", dir);
    memset(sd, 0, sizeof *sd);
    sd->os = os;
    sd->mode = mode;
    sd->dir = sd->parent = sd->lock = sd->epoch_fd = sd->engine_dir = -1;
    int rc = set_paths(sd, dir, err);
    if (rc == SEAM_OK)
        rc = open_dir(sd, err);
    if (rc == SEAM_OK) /* first, so that not even a LOCK is put where it is not ours */
        rc = judge(sd, false, err);
    if (rc == SEAM_OK)
        rc = take_lock(sd, err);
    if (rc == SEAM_OK)
        rc = judge(sd, true, err);
    if (rc == SEAM_OK)
        rc = sd->has_store ? find(sd, engine, format, err) : begin(sd, engine, format, err);
    if (rc == SEAM_OK)
        *ret = sd;
    else
        seam_storedir_close(sd);
    return rc;
}

/* ---- made, barrier, the rest ------------------------------------------------------------- */

/* Writes a file under a temporary name and flushes it. For EPOCH both slots, for STORE its text. */
static int write_flushed(const struct seam_storedir *sd, const char *name, bool epoch)
{
    const struct seam_platform *os = sd->os;
    char text[SEAM_STOREFILE_MAX];
    int fd = os->open(os->ctx, sd->dir, name, SEAM_FILE_WRITE | SEAM_FILE_CREATE | SEAM_FILE_NEW);
    if (fd < 0)
        return fd;
    int rc;
    if (epoch) {
        rc = seam_epochfile_write(os, fd, 0, 0, sd->store.uuid);
        if (rc >= 0)
            rc = seam_epochfile_write(os, fd, 1, 0, sd->store.uuid);
    } else {
        struct iovec part = {text, seam_storefile_text(&sd->store, text)};
        rc = seam_write_all(os, fd, &part, 1, 0);
    }
    if (rc >= 0)
        rc = os->sync(os->ctx, fd);
    int closed = os->close(os->ctx, fd);
    return rc < 0 ? rc : closed;
}

static int rename_flushed(const struct seam_storedir *sd, const char *from, const char *to,
                          bool *ret_named)
{
    const struct seam_platform *os = sd->os;
    int rc = os->rename(os->ctx, sd->dir, from, sd->dir, to);
    if (rc < 0)
        return rc;
    *ret_named = true;
    return os->sync_dir(os->ctx, sd->dir);
}

static int sync_parent(struct seam_storedir *sd)
{
    const struct seam_platform *os = sd->os;
    if (sd->parent < 0)
        sd->parent = os->open(os->ctx, sd->dir, "..", SEAM_FILE_DIR);
    if (sd->parent == -EACCES) {
        sd->parent = -1; /* DIR was there before and is not ours to make durable */
        return 0;
    }
    return sd->parent < 0 ? sd->parent : os->sync_dir(os->ctx, sd->parent);
}

int seam_storedir_made(struct seam_storedir *sd, struct seam_err *err)
{
    const struct seam_platform *os = sd->os;
    if (!sd->begun || sd->made)
        return SEAM_OK;
    int rc = os->sync_dir(os->ctx, sd->engine_dir);
    if (rc >= 0)
        rc = write_flushed(sd, "EPOCH.new", true);
    if (rc >= 0)
        rc = rename_flushed(sd, "EPOCH.new", "EPOCH", &sd->epoch_named);
    if (rc >= 0)
        rc = rename_flushed(sd, "engine.new", "engine", &sd->engine_named);
    if (rc >= 0)
        rc = sync_parent(sd);
    if (rc >= 0)
        rc = write_flushed(sd, "STORE.new", false);
    if (rc >= 0)
        rc = rename_flushed(sd, "STORE.new", "STORE", &sd->store_named);
    if (rc < 0)
        return seam_fail_os(err, -rc, "cannot make the store in %s", sd->path);
    rc = open_epoch(sd, err);
    if (rc != SEAM_OK)
        return rc;
    sd->made = true;
    return SEAM_OK;
}

int seam_storedir_barrier(struct seam_storedir *sd, struct seam_err *err)
{
    const struct seam_platform *os = sd->os;
    if (read_only(sd))
        return SEAM_OK;
    assert(sd->whole || sd->made);
    sd->used = true;
    int rc = seam_epochfile_write(os, sd->epoch_fd, sd->epochs.slot ^ 1u, sd->epoch, sd->store.uuid);
    if (rc >= 0)
        rc = os->sync(os->ctx, sd->epoch_fd);
    sd->whole = sd->whole || rc >= 0;
    return rc < 0 ? seam_fail_os(err, -rc, "cannot write %s/EPOCH", sd->path) : SEAM_OK;
}

bool seam_storedir_fresh(const struct seam_storedir *sd)
{
    return sd->begun && !sd->made;
}

int seam_storedir_top(const struct seam_storedir *sd)
{
    return sd->dir;
}

int seam_storedir_dir(const struct seam_storedir *sd)
{
    return sd->engine_dir;
}

const char *seam_storedir_path(const struct seam_storedir *sd)
{
    return seam_storedir_fresh(sd) ? sd->new_path : sd->engine_path;
}

uint64_t seam_storedir_epoch(const struct seam_storedir *sd)
{
    return sd->epoch;
}

const uint8_t *seam_storedir_uuid(const struct seam_storedir *sd)
{
    return sd->store.uuid;
}

void seam_storedir_forget(struct seam_storedir *sd)
{
    close_fd(sd, &sd->lock);
}

void seam_storedir_close(struct seam_storedir *sd)
{
    if (!sd)
        return;
    const struct seam_platform *os = sd->os;
    if (!sd->whole)
        undo(sd);
    close_fd(sd, &sd->engine_dir);
    close_fd(sd, &sd->epoch_fd);
    if (sd->lock >= 0) /* after everything else */
        (void)os->unlock(os->ctx, sd->lock);
    close_fd(sd, &sd->lock);
    close_fd(sd, &sd->dir);
    close_fd(sd, &sd->parent);
    os->free(os->ctx, sd->path);
    os->free(os->ctx, sd);
}
