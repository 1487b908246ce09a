/* store_dir.c - the directory of a store: found or made, locked, checked, cleared, undone.
 *
 * Relies on the platform table: every access is by name relative to the one descriptor of DIR.
 *
 * THE ORDER OF A CREATION, each step flushed before the next:
 *     DIR/  LOCK
 *     MAKING with the store's uuid and the members that are about to be made
 *     the members; MAKING again with the uuid of each that was made outside
 *     STORE (by way of STORE.new), then DIR and its parent
 *     MAKING goes
 * Members are added to a store in the same way. Keeps true: a member in DIR that STORE does not name
 * is nobody's while MAKING is there, and may be removed; without MAKING and STORE it is STORE that was
 * lost, and nothing is touched. */
#include "store_int.h"

#include <errno.h>
#include <string.h>

enum { LOCK_TRIES = 16, CLEAR_ROUNDS = 4096, NAME_ROOM = 256, ALIEN_ROOM = 80 };

struct seam_s_dir {
    const struct seam_platform *os;
    enum seam_open_mode mode;
    int dir, parent, lock;    /* -1: not open */
    char *path, *parent_path; /* in one block, path first */
    const char *base;         /* last component of path */
    char *text;               /* SEAM_S_TEXT_MAX bytes to read and write files with */
    bool made_dir, made_lock, made_store, made_making, parent_flushed;
    bool has_store, has_making, has_lock, has_members;
    char alien[ALIEN_ROOM]; /* a name in DIR that is none of a half-made store's */
    struct seam_s_text store, making;
    struct seam_s_member *members; /* room for those of both */
};

static bool read_only(const struct seam_s_dir *sd)
{
    return sd->mode == SEAM_OPEN_READ_ONLY;
}

static bool creates(const struct seam_s_dir *sd)
{
    return sd->mode == SEAM_OPEN_CREATE || sd->mode == SEAM_OPEN_NEW;
}

static void close_fd(const struct seam_s_dir *sd, int *fd)
{
    if (*fd >= 0)
        (void)sd->os->close(sd->os->ctx, *fd);
    *fd = -1;
}

static bool not_plain(int rc)
{
    return rc == -EMLINK || rc == -ELOOP || rc == -EISDIR || rc == -ENXIO || rc == -ENOTDIR;
}

/* ---- the directory ----------------------------------------------------------------------- */

/* "a/b///" is path "a/b", base "b", parent_path "a/." (followed even if "a" is a link). */
static int set_paths(struct seam_s_dir *sd, const char *dir, struct seam_err *err)
{
    size_t len = strlen(dir);
    while (len > 1 && dir[len - 1] == '/')
        len--;
    size_t stem = len;
    while (stem > 0 && dir[stem - 1] != '/')
        stem--;
    char *at = sd->os->alloc(sd->os->ctx, len + 1 + stem + 2);
    if (at == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "no memory to open %.160s", dir);
    memcpy(at, dir, len);
    at[len] = 0;
    sd->path = at;
    sd->base = at + stem;
    sd->parent_path = at + len + 1;
    memcpy(sd->parent_path, dir, stem);
    memcpy(sd->parent_path + stem, ".", 2);
    return SEAM_OK;
}

static int make_dir(struct seam_s_dir *sd, struct seam_err *err)
{
    const struct seam_platform *os = sd->os;
    int fd = os->open_root(os->ctx, sd->parent_path);
    if (fd == -ENOENT || fd == -ENOTDIR)
        return seam_fail(err, SEAM_E_NO_STORE,
                         "%.160s cannot be made: the directory it is to lie in is missing", sd->path);
    if (fd < 0)
        return seam_fail_os(err, -fd, "cannot open the parent of %.160s", sd->path);
    sd->parent = fd;
    int rc = os->mkdir(os->ctx, fd, sd->base);
    if (rc < 0 && rc != -EEXIST)
        return seam_fail_os(err, -rc, "cannot make the directory %.160s", sd->path);
    sd->made_dir = rc >= 0;
    fd = os->open(os->ctx, sd->parent, sd->base, SEAM_FILE_DIR);
    if (fd < 0)
        return seam_fail_os(err, -fd, "cannot open the directory %.160s", sd->path);
    sd->dir = fd;
    return SEAM_OK;
}

static int open_dir(struct seam_s_dir *sd, struct seam_err *err)
{
    const struct seam_platform *os = sd->os;
    struct seam_file_info info;
    int fd = os->open_root(os->ctx, sd->path);
    if (fd == -ENOENT && creates(sd))
        return make_dir(sd, err);
    if (fd == -ENOENT)
        return seam_fail(err, SEAM_E_NO_STORE,
                         "%.160s does not exist: open it with mode create to make a store", sd->path);
    if (fd == -ENOTDIR || fd == -ELOOP)
        return seam_fail(err, SEAM_E_NO_STORE,
                         "%.150s is not a directory (a symbolic link is not followed): name one",
                         sd->path);
    if (fd < 0)
        return seam_fail_os(err, -fd, "cannot open the directory %.160s", sd->path);
    sd->dir = fd;
    int rc = os->stat(os->ctx, fd, "", &info);
    if (rc < 0)
        return seam_fail_os(err, -rc, "cannot look at the directory %.160s", sd->path);
    if (info.foreign)
        return seam_fail(err, SEAM_E_PERMISSION,
                         "%.160s belongs to another user: open it as its owner", sd->path);
    if (info.loose)
        return seam_fail(err, SEAM_E_PERMISSION,
                         "%.160s may be written by its group or by everybody: chmod go-w it",
                         sd->path);
    return SEAM_OK;
}

static bool is_member(const char *name)
{
    return strcmp(name, "journal") == 0 || strncmp(name, "projection-", 11) == 0;
}

static int note_name(void *arg, const char *name)
{
    struct seam_s_dir *sd = arg;
    bool making = strcmp(name, "MAKING") == 0, lock = strcmp(name, "LOCK") == 0;
    sd->has_making = sd->has_making || making;
    sd->has_lock = sd->has_lock || lock;
    sd->has_members = sd->has_members || is_member(name);
    if (making || lock || is_member(name) || strcmp(name, "MAKING.new") == 0 ||
        strcmp(name, "STORE.new") == 0 || strcmp(name, "STORE") == 0)
        return 0;
    (void)seam_key_text(seam_bytes(name, strlen(name)), sd->alien, sizeof(sd->alien));
    return 1;
}

int seam_s_dir_has(const struct seam_s_dir *sd, const char *name, bool *ret, struct seam_err *err)
{
    struct seam_file_info info;
    int rc = sd->os->stat(sd->os->ctx, sd->dir, name, &info);
    if (rc < 0)
        return seam_fail_os(err, -rc, "cannot look at %.150s/%s", sd->path, name);
    *ret = info.kind != SEAM_FILE_ABSENT;
    return SEAM_OK;
}

/* What is there, and whether it is or can become the store that was asked for. Changes nothing.
 * locked: nobody else is making or using it. */
static int judge(struct seam_s_dir *sd, bool locked, struct seam_err *err)
{
    int rc = seam_s_dir_has(sd, "STORE", &sd->has_store, err);
    if (rc != SEAM_OK)
        return rc;
    if (sd->has_store && sd->mode == SEAM_OPEN_NEW)
        return seam_fail(err, SEAM_E_EXISTS, "%.160s holds a store already: open it with mode existing",
                         sd->path);
    if (sd->has_store)
        return seam_s_dir_has(sd, "MAKING", &sd->has_making, err);
    sd->alien[0] = 0;
    sd->has_making = sd->has_lock = sd->has_members = false;
    rc = sd->os->list(sd->os->ctx, sd->dir, note_name, sd);
    if (rc < 0)
        return seam_fail_os(err, -rc, "cannot list the directory %.160s", sd->path);
    if (sd->alien[0] != 0)
        return seam_fail(err, SEAM_E_NO_STORE,
                         "%.100s is not a store and not empty (it holds %s): name another directory",
                         sd->path, sd->alien);
    if (!locked && (sd->has_lock || creates(sd)))
        return SEAM_OK;
    if (sd->has_members && !sd->has_making)
        return seam_fail(err, SEAM_E_CORRUPT,
                         "%.140s/STORE is missing from a store that was in use: restore it from a copy",
                         sd->path);
    if (creates(sd))
        return SEAM_OK;
    return seam_fail(err, SEAM_E_NO_STORE,
                     sd->has_making ? "%.140s holds a store that was never finished: open it with mode create"
                                    : "%.160s holds no store: open it with mode create to make one",
                     sd->path);
}

/* ---- the lock ---------------------------------------------------------------------------- */

static int open_lock(struct seam_s_dir *sd)
{
    const struct seam_platform *os = sd->os;
    sd->made_lock = false;
    if (read_only(sd))
        return os->open(os->ctx, sd->dir, "LOCK", SEAM_FILE_READ);
    int fd = os->open(os->ctx, sd->dir, "LOCK", SEAM_FILE_WRITE);
    if (fd != -ENOENT)
        return fd;
    fd = os->open(os->ctx, sd->dir, "LOCK", SEAM_FILE_WRITE | SEAM_FILE_CREATE | SEAM_FILE_NEW);
    sd->made_lock = fd >= 0;
    return fd;
}

/* Who fails removes the LOCK he made while he holds it, so one that has no name any more is not the
 * lock: take the next. */
static int take_lock(struct seam_s_dir *sd, struct seam_err *err)
{
    const struct seam_platform *os = sd->os;
    for (int i = 0; i < LOCK_TRIES; i++) {
        struct seam_file_info info;
        int fd = open_lock(sd);
        if (fd == -EEXIST)
            continue; /* made by somebody between the two opens */
        if (fd == -ENOENT && read_only(sd))
            return seam_fail(err, SEAM_E_CORRUPT,
                             "%.150s/LOCK is missing: open the store once for writing", sd->path);
        if (not_plain(fd))
            return seam_fail(err, SEAM_E_CORRUPT, "%.150s/LOCK is no plain file of one name: remove it",
                             sd->path);
        if (fd < 0)
            return seam_fail_os(err, -fd, "cannot open %.150s/LOCK", sd->path);
        sd->lock = fd;
        int rc = os->lock(os->ctx, fd, !read_only(sd));
        if (rc == -EWOULDBLOCK) {
            sd->made_lock = false;
            return seam_fail(err, SEAM_E_BUSY,
                             "%.140s is open already, here or in another process: close it there first",
                             sd->path);
        }
        if (rc >= 0)
            rc = os->stat(os->ctx, fd, "", &info);
        if (rc < 0)
            return seam_fail_os(err, -rc, "cannot lock %.150s/LOCK", sd->path);
        if (info.links > 0)
            return SEAM_OK;
        close_fd(sd, &sd->lock);
    }
    sd->made_lock = false;
    return seam_fail(err, SEAM_E_BUSY, "%.160s is being opened by others: try again", sd->path);
}

/* ---- members that are nobody's ----------------------------------------------------------- */

int seam_s_dir_clear(const struct seam_s_dir *sd, const char *name, struct seam_err *err)
{
    int rc = seam_s_remove(sd->os, sd->dir, name, true);
    return rc < 0 ? seam_fail_os(err, -rc, "cannot remove the half-made %.130s/%s", sd->path, name)
                  : SEAM_OK;
}

static int take_member(void *arg, const char *name)
{
    char *ret = arg;
    if (!is_member(name))
        return 0;
    size_t len = strlen(name);
    if (len >= NAME_ROOM)
        return -ENAMETOOLONG;
    memcpy(ret, name, len + 1);
    return 1;
}

int seam_s_dir_clear_all(const struct seam_s_dir *sd, struct seam_err *err)
{
    char name[NAME_ROOM];
    for (int i = 0; i < CLEAR_ROUNDS; i++) {
        int rc = sd->os->list(sd->os->ctx, sd->dir, take_member, name);
        if (rc < 0)
            return seam_fail_os(err, -rc, "cannot list the directory %.160s", sd->path);
        if (rc == 0)
            return SEAM_OK;
        rc = seam_s_dir_clear(sd, name, err);
        if (rc != SEAM_OK)
            return rc;
    }
    return seam_fail(err, SEAM_E_IO, "%.160s cannot be cleared", sd->path);
}

/* ---- the two files ----------------------------------------------------------------------- */

static int read_file(struct seam_s_dir *sd, bool making, struct seam_err *err)
{
    const struct seam_platform *os = sd->os;
    const char *name = making ? "MAKING" : "STORE";
    struct seam_s_text *into = making ? &sd->making : &sd->store;
    char where[NAME_ROOM];
    struct seam_file_info info;
    size_t len = strlen(sd->path) < 200 ? strlen(sd->path) : 200;
    memcpy(where, sd->path, len);
    where[len] = '/';
    memcpy(where + len + 1, name, strlen(name) + 1);
    int fd = os->open(os->ctx, sd->dir, name, SEAM_FILE_READ);
    if (not_plain(fd))
        return seam_fail(err, SEAM_E_CORRUPT, "%.180s is no plain file of one name", where);
    if (fd < 0)
        return seam_fail_os(err, -fd, "cannot open %.180s", where);
    int rc = os->stat(os->ctx, fd, "", &info);
    size_t size = rc >= 0 && info.size < SEAM_S_TEXT_MAX ? (size_t)info.size : SEAM_S_TEXT_MAX;
    if (rc >= 0 && size < SEAM_S_TEXT_MAX)
        rc = seam_read_all(os, fd, sd->text, size, 0);
    (void)os->close(os->ctx, fd);
    if (rc < 0)
        return seam_fail_os(err, -rc, "cannot read %.180s", where);
    return seam_s_text_parse(sd->text, size, making, where,
                             sd->members + (making ? SEAM_S_MEMBERS_MAX : 0), into, err);
}

static int put_file(struct seam_s_dir *sd, const char *fresh, const char *name, size_t len,
                    bool *ret_named)
{
    const struct seam_platform *os = sd->os;
    struct iovec part = {sd->text, len};
    int rc = os->unlink(os->ctx, sd->dir, fresh);
    if (rc < 0 && rc != -ENOENT)
        return rc;
    int fd = os->open(os->ctx, sd->dir, fresh, SEAM_FILE_WRITE | SEAM_FILE_CREATE | SEAM_FILE_NEW);
    if (fd < 0)
        return fd;
    rc = seam_write_all(os, fd, &part, 1, 0);
    if (rc >= 0)
        rc = os->sync(os->ctx, fd);
    int closed = os->close(os->ctx, fd);
    if (rc >= 0)
        rc = closed;
    if (rc >= 0)
        rc = os->rename(os->ctx, sd->dir, fresh, sd->dir, name);
    if (rc < 0) {
        (void)os->unlink(os->ctx, sd->dir, fresh);
        return rc;
    }
    *ret_named = true;
    return os->sync_dir(os->ctx, sd->dir);
}

static int flush_parent(struct seam_s_dir *sd)
{
    const struct seam_platform *os = sd->os;
    if (sd->parent_flushed)
        return 0;
    if (sd->parent < 0)
        sd->parent = os->open(os->ctx, sd->dir, "..", SEAM_FILE_DIR);
    if (sd->parent == -EACCES) {
        sd->parent = -1; /* DIR was there before and is not ours to make durable */
        return 0;
    }
    int rc = sd->parent < 0 ? sd->parent : os->sync_dir(os->ctx, sd->parent);
    sd->parent_flushed = rc >= 0;
    return rc;
}

int seam_s_dir_write(struct seam_s_dir *sd, const struct seam_s_text *text, struct seam_err *err)
{
    size_t len = seam_s_text_write(text, sd->text);
    int rc = flush_parent(sd);
    if (rc >= 0)
        rc = text->making ? put_file(sd, "MAKING.new", "MAKING", len, &sd->made_making)
                          : put_file(sd, "STORE.new", "STORE", len, &sd->made_store);
    return rc < 0 ? seam_fail_os(err, -rc, "cannot write %.150s/%s", sd->path,
                                 text->making ? "MAKING" : "STORE")
                  : SEAM_OK;
}

int seam_s_dir_end(struct seam_s_dir *sd, struct seam_err *err)
{
    int rc = sd->os->unlink(sd->os->ctx, sd->dir, "MAKING");
    if (rc >= 0 || rc == -ENOENT)
        rc = sd->os->sync_dir(sd->os->ctx, sd->dir);
    return rc < 0 ? seam_fail_os(err, -rc, "cannot remove %.150s/MAKING", sd->path) : SEAM_OK;
}

const struct seam_s_text *seam_s_dir_store(const struct seam_s_dir *sd)
{
    return sd->has_store ? &sd->store : NULL;
}

const struct seam_s_text *seam_s_dir_making(const struct seam_s_dir *sd)
{
    return sd->has_making ? &sd->making : NULL;
}

/* ---- open and close ---------------------------------------------------------------------- */

static int new_dir(const struct seam_platform *os, const char *path, enum seam_open_mode mode,
                   struct seam_s_dir **ret, struct seam_err *err)
{
    size_t room = 2 * SEAM_S_MEMBERS_MAX * sizeof(struct seam_s_member);
    struct seam_s_dir *sd = os->alloc(os->ctx, sizeof(*sd));
    if (sd == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "no memory to open a store");
    memset(sd, 0, sizeof(*sd));
    sd->os = os;
    sd->mode = mode;
    sd->dir = sd->parent = sd->lock = -1;
    sd->text = os->alloc(os->ctx, SEAM_S_TEXT_MAX);
    sd->members = os->alloc(os->ctx, room);
    *ret = sd;
    if (sd->text == NULL || sd->members == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "no memory to open a store");
    return set_paths(sd, path, err);
}

int seam_s_dir_open(const struct seam_platform *os, const char *path, enum seam_open_mode mode,
                    struct seam_s_dir **ret, struct seam_err *err)
{
    struct seam_s_dir *sd = NULL;
    int rc = new_dir(os, path, mode, &sd, err);
    if (rc == SEAM_OK)
        rc = open_dir(sd, err);
    if (rc == SEAM_OK) /* first, so that not even a LOCK is put where it is not ours */
        rc = judge(sd, false, err);
    if (rc == SEAM_OK)
        rc = take_lock(sd, err);
    if (rc == SEAM_OK)
        rc = judge(sd, true, err);
    if (rc == SEAM_OK && sd->has_store)
        rc = read_file(sd, false, err);
    if (rc == SEAM_OK && sd->has_making)
        rc = read_file(sd, true, err);
    if (rc == SEAM_OK) {
        *ret = sd;
        return rc;
    }
    if (sd != NULL && sd->dir >= 0)
        seam_s_dir_undo(sd);
    seam_s_dir_close(sd, false);
    return rc;
}

bool seam_s_dir_made(const struct seam_s_dir *sd)
{
    return sd->made_store;
}

/* Best effort: what it cannot remove, the next open with mode create removes. */
void seam_s_dir_undo(struct seam_s_dir *sd)
{
    const struct seam_platform *os = sd->os;
    int rc = 0;
    if (sd->made_store)
        return;
    if (sd->made_making && !sd->has_making)
        rc = os->unlink(os->ctx, sd->dir, "MAKING");
    if (rc >= 0 && sd->lock >= 0 && sd->made_lock)
        rc = os->unlink(os->ctx, sd->dir, "LOCK");
    if (rc >= 0 && sd->made_dir && sd->parent >= 0)
        (void)os->rmdir(os->ctx, sd->parent, sd->base);
}

void seam_s_dir_close(struct seam_s_dir *sd, bool forked)
{
    if (sd == NULL)
        return;
    const struct seam_platform *os = sd->os;
    if (sd->lock >= 0 && !forked)
        (void)os->unlock(os->ctx, sd->lock);
    close_fd(sd, &sd->lock);
    close_fd(sd, &sd->dir);
    close_fd(sd, &sd->parent);
    os->free(os->ctx, sd->text);
    os->free(os->ctx, sd->members);
    os->free(os->ctx, sd->path);
    os->free(os->ctx, sd);
}
