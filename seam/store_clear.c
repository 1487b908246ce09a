/* store_clear.c - removes the directory of a db that is nobody's.
 *
 * Relies on the caller to know that it is: made by a creation that was interrupted, or that failed.
 * Keeps true: no link is followed, and nothing is removed below a depth that no db has. */
#include "store_int.h"

#include <errno.h>
#include <string.h>

enum {
    DEPTH = 4,          /* a db's directory, engine/, and what an engine may put below that */
    ROUNDS = 1 << 20,   /* of names in all */
    CLEAR_NAME = 256
};

/* The directories from the first one down to where the work is, and the names they were opened by. */
struct walk {
    int fds[DEPTH];
    char names[DEPTH][CLEAR_NAME];
    int depth;
};

static int take_first(void *arg, const char *name)
{
    size_t len = strlen(name);
    if (len >= CLEAR_NAME)
        return -ENAMETOOLONG;
    memcpy(arg, name, len + 1);
    return 1;
}

/* Removes a file, or goes down into a directory. */
static int step_down(const struct seam_platform *os, struct walk *w, const char *name)
{
    struct seam_file_info info;
    int at = w->fds[w->depth];
    int rc = os->stat(os->ctx, at, name, &info);
    if (rc < 0)
        return rc;
    if (info.kind != SEAM_FILE_DIRECTORY)
        return os->unlink(os->ctx, at, name);
    if (w->depth + 1 == DEPTH)
        return -ENOTEMPTY;
    int fd = os->open(os->ctx, at, name, SEAM_FILE_DIR);
    if (fd < 0)
        return fd;
    w->depth++;
    w->fds[w->depth] = fd;
    memcpy(w->names[w->depth], name, strlen(name) + 1);
    return 0;
}

/* Empties the directory fd, which stays open. */
static int empty(const struct seam_platform *os, int fd)
{
    struct walk w;
    int rc = 0;
    w.depth = 0;
    w.fds[0] = fd;
    for (int i = 0; i < ROUNDS && rc >= 0; i++) {
        char name[CLEAR_NAME];
        rc = os->list(os->ctx, w.fds[w.depth], take_first, name);
        if (rc > 0) {
            rc = step_down(os, &w, name);
        } else if (rc == 0 && w.depth == 0) {
            return 0;
        } else if (rc == 0) {
            (void)os->close(os->ctx, w.fds[w.depth]);
            w.depth--;
            rc = os->rmdir(os->ctx, w.fds[w.depth], w.names[w.depth + 1]);
        }
    }
    for (; w.depth > 0; w.depth--)
        (void)os->close(os->ctx, w.fds[w.depth]);
    return rc < 0 ? rc : -EFBIG;
}

int seam_s_remove(const struct seam_platform *os, int dir, const char *name, bool whole)
{
    struct seam_file_info info;
    int rc = os->stat(os->ctx, dir, name, &info);
    if (rc < 0 || info.kind == SEAM_FILE_ABSENT)
        return rc;
    if (info.kind != SEAM_FILE_DIRECTORY)
        return -ENOTDIR;
    int fd = os->open(os->ctx, dir, name, SEAM_FILE_DIR);
    if (fd < 0)
        return fd;
    rc = empty(os, fd);
    (void)os->close(os->ctx, fd);
    return rc >= 0 && whole ? os->rmdir(os->ctx, dir, name) : rc;
}

int seam_s_remove_path(const struct seam_platform *os, const char *path, bool whole)
{
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    size_t stem = len;
    while (stem > 0 && path[stem - 1] != '/')
        stem--;
    char *parts = os->alloc(os->ctx, stem + 2 + len - stem + 1);
    if (parts == NULL)
        return -ENOMEM;
    memcpy(parts, path, stem);
    memcpy(parts + stem, ".", 2);
    char *base = parts + stem + 2;
    memcpy(base, path + stem, len - stem);
    base[len - stem] = 0;
    int fd = os->open_root(os->ctx, parts);
    int rc = fd < 0 ? fd : seam_s_remove(os, fd, base, whole);
    if (fd >= 0)
        (void)os->close(os->ctx, fd);
    os->free(os->ctx, parts);
    return rc;
}
