/* data.c - the directory that a run works in.
 *
 * Keeps true: only a directory that this program made, or that carries its marker, is written to;
 * only names of its own are removed. */
#include "plan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARKER ".seam-bench"
#define STORE_PREFIX "store-"

static bool is_empty(const char *path)
{
    DIR *d = opendir(path);
    bool empty = d != NULL;
    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
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
    if (strncmp(name, STORE_PREFIX, strlen(STORE_PREFIX)) != 0)
        return false;
    if (lstat(path, &s) != 0)
        return errno == ENOENT;
    return nftw(path, remove_one, 32, FTW_DEPTH | FTW_PHYS) == 0;
}

static void remove_stores(const struct data_dir *d)
{
    DIR *dir = opendir(d->path);
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;)
        if (strncmp(e->d_name, STORE_PREFIX, strlen(STORE_PREFIX)) == 0)
            (void)data_remove_store(d, e->d_name);
    if (dir)
        closedir(dir);
}

static bool make_marker(const char *path)
{
    char marker[2 * BENCH_PATH];
    snprintf(marker, sizeof(marker), "%s/" MARKER, path);
    int fd = open(marker, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

int data_open(const char *path, struct data_dir *ret)
{
    char marker[2 * BENCH_PATH], full[PATH_MAX];
    memset(ret, 0, sizeof(*ret));
    snprintf(marker, sizeof(marker), "%s/" MARKER, path);
    if (mkdir(path, 0700) == 0)
        ret->made = true;
    else if (errno != EEXIST)
        return bench_failed("seam bench", "cannot make the data directory '%s': %s", path,
                            strerror(errno));
    if (access(marker, F_OK) != 0 && !is_empty(path)) {
        return bench_usage("seam bench",
                           "'%s' is not empty and not a directory of this command's: name another with --dir",
                           path);
    }
    if (!make_marker(path)) {
        int why = errno;
        if (ret->made)
            rmdir(path);
        return bench_failed("seam bench", "cannot write in the data directory '%s': %s", path,
                            strerror(why));
    }
    if (!realpath(path, full) || strlen(full) >= sizeof(ret->path) - 64)
        return bench_failed("seam bench", "the path of the data directory '%s' is too long", path);
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
    if (!d->made)
        return;
    snprintf(marker, sizeof(marker), "%s/" MARKER, d->path);
    unlink(marker);
    rmdir(d->path);
}
