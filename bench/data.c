/* data.c - the directory that a run works in.
 *
 * Keeps true: only a directory that this program made, or that carries its marker, is written to;
 * only names of its own are removed, to the letter; the marker goes when nothing else is left. */
#include "plan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARKER ".seam-bench"
#define STORE_PREFIX "store-"
#define PROBE_PREFIX "seam-probe-" /* probe.c's files, removed by it unless it was killed */

/* "store-limits", "store-KIND-NUMBER" or "seam-probe-" and six more: nothing else is this program's. */
static bool is_ours(const char *name)
{
    static const char *const kinds[] = {"reads-", "reopen-", "deleted-", "merge-", "turn-"};
    size_t probe = strlen(PROBE_PREFIX);
    if (strncmp(name, PROBE_PREFIX, probe) == 0)
        return strlen(name) == probe + 6;
    if (strncmp(name, STORE_PREFIX, strlen(STORE_PREFIX)) != 0)
        return false;
    name += strlen(STORE_PREFIX);
    if (strcmp(name, "limits") == 0)
        return true;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        size_t len = strlen(kinds[i]);
        if (strncmp(name, kinds[i], len) == 0)
            return name[len] && name[len + strspn(name + len, "0123456789")] == 0;
    }
    return false;
}

static bool is_empty(const char *path, bool but_marker)
{
    DIR *d = opendir(path);
    bool empty = d != NULL;
    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            (!but_marker || strcmp(e->d_name, MARKER) != 0))
            empty = false;
    if (d)
        closedir(d);
    return empty;
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at)
{
    (void)s;
    (void)kind;
    (void)at;
    return remove(path);
}

bool data_remove_store(const struct data_dir *d, const char *name)
{
    char path[2 * BENCH_PATH];
    struct stat s;
    snprintf(path, sizeof(path), "%s/%s", d->path, name);
    if (!is_ours(name))
        return false;
    if (lstat(path, &s) != 0)
        return errno == ENOENT;
    return nftw(path, remove_one, 32, FTW_DEPTH | FTW_PHYS) == 0;
}

static void remove_stores(const struct data_dir *d)
{
    DIR *dir = opendir(d->path);
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;)
        if (is_ours(e->d_name))
            (void)data_remove_store(d, e->d_name);
    if (dir)
        closedir(dir);
}

static int look_parent(const char *path, const char *option)
{
    char parent[BENCH_PATH + 1];
    struct stat s;
    if (lstat(path, &s) == 0)
        return bench_usage("seam", "'%s' is a link to what is not there: name another with %s",
                           path, option);
    snprintf(parent, sizeof(parent), "%s", path);
    size_t len = strlen(parent);
    while (len > 1 && parent[len - 1] == '/')
        parent[--len] = 0;
    char *slash = strrchr(parent, '/');
    if (!slash)
        snprintf(parent, sizeof(parent), ".");
    else
        slash[slash == parent] = 0;
    if (stat(parent, &s) == 0 && access(parent, W_OK | X_OK) == 0)
        return BENCH_OK;
    return bench_failed("seam",
                        "cannot make the data directory '%s' in '%s': %s; name another with %s",
                        path, parent, strerror(errno), option);
}

/* What looking tells, without writing. */
static int look(const char *path, const char *option, bool *ret_there)
{
    char marker[2 * BENCH_PATH];
    struct stat s;
    *ret_there = stat(path, &s) == 0;
    if (!*ret_there)
        return look_parent(path, option);
    if (!S_ISDIR(s.st_mode))
        return bench_usage("seam", "'%s' is a file, not a directory: name another with %s", path,
                           option);
    if (access(path, R_OK | W_OK | X_OK) != 0)
        return bench_failed("seam",
                            "cannot write in the data directory '%s': %s; name another with %s",
                            path, strerror(errno), option);
    snprintf(marker, sizeof(marker), "%s/" MARKER, path);
    if ((lstat(marker, &s) == 0 && S_ISREG(s.st_mode) && s.st_size == 0) || is_empty(path, false))
        return BENCH_OK;
    return bench_usage(
        "seam", "'%s' is not empty and not a directory of this command's: name another with %s",
        path, option);
}

int data_check(const char *path, const char *option)
{
    bool there;
    return look(path, option, &there);
}

/* The marker is also the lock, so that two runs do not remove each other's stores. */
static int open_marker(const char *path)
{
    char marker[2 * BENCH_PATH];
    snprintf(marker, sizeof(marker), "%s/" MARKER, path);
    return open(marker, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
}

static int give_up(struct data_dir *d, const char *path)
{
    if (d->lock_fd >= 0)
        close(d->lock_fd);
    if (d->made)
        rmdir(path);
    d->path[0] = 0;
    return BENCH_FAILED;
}

int data_open(const char *path, const char *option, struct data_dir *ret)
{
    char marker[2 * BENCH_PATH], full[PATH_MAX];
    bool there;
    memset(ret, 0, sizeof(*ret));
    ret->lock_fd = -1;
    snprintf(marker, sizeof(marker), "%s/" MARKER, path);
    int rc = look(path, option, &there);
    if (rc != BENCH_OK)
        return rc;
    if (!there && mkdir(path, 0700) == 0)
        ret->made = true;
    else if (!there && errno != EEXIST)
        return bench_failed("seam", "cannot make the data directory '%s': %s; name another with %s",
                            path, strerror(errno), option);
    ret->lock_fd = open_marker(path);
    if (ret->lock_fd < 0) {
        (void)bench_failed("seam",
                           "cannot write in the data directory '%s': %s; name another with %s",
                           path, strerror(errno), option);
        return give_up(ret, path);
    }
    if (flock(ret->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        (void)bench_failed("seam", "'%s' is in use by another run: wait, or name another with %s",
                           path, option);
        ret->made = false;
        return give_up(ret, path);
    }
    if (!realpath(path, full) || strlen(full) >= sizeof(ret->path) - 64) {
        (void)bench_failed("seam", "the path of the data directory '%s' is too long", path);
        unlink(marker);
        return give_up(ret, path);
    }
    memcpy(ret->path, full, strlen(full) + 1);
    remove_stores(ret); /* of a run that was killed */
    return BENCH_OK;
}

void data_close(struct data_dir *d)
{
    char marker[2 * BENCH_PATH];
    if (!d->path[0])
        return;
    remove_stores(d);
    snprintf(marker, sizeof(marker), "%s/" MARKER, d->path);
    if (is_empty(d->path, true))
        unlink(marker);
    if (d->made)
        rmdir(d->path); /* stays if somebody put something into it */
    close(d->lock_fd);
}
