/* storesweep.c - removing a half-made directory of a store.
 *
 * Relies on the platform table only. Keeps true: goes one level down and no further, a bounded number
 * of names at a time, so that what is no store's is not taken apart. */
#include "storefile.h"

#include <errno.h>
#include <string.h>

#define SWEEP_NAMES 32 /* names removed per listing of a half-made engine directory */
#define SWEEP_ROUNDS 4096
#define NAME_ROOM 256u

struct sweep {
    size_t n;
    char names[SWEEP_NAMES][NAME_ROOM];
};

static int collect(void *arg, const char *name)
{
    struct sweep *s = arg;
    size_t len = strlen(name);
    if (len >= NAME_ROOM)
        return -ENAMETOOLONG;
    memcpy(s->names[s->n++], name, len + 1);
    return s->n == SWEEP_NAMES;
}

/* 0 or -errno; -ENOTEMPTY if it holds a directory that holds something. */
static int sweep_files(const struct seam_platform *os, int fd)
{
    for (int round = 0; round < SWEEP_ROUNDS; round++) {
        struct sweep s;
        s.n = 0;
        int rc = os->list(os->ctx, fd, collect, &s);
        if (rc < 0 || s.n == 0)
            return rc;
        for (size_t i = 0; i < s.n; i++) {
            struct seam_file_info info;
            rc = os->stat(os->ctx, fd, s.names[i], &info);
            if (rc >= 0)
                rc = info.kind == SEAM_FILE_DIRECTORY ? os->rmdir(os->ctx, fd, s.names[i])
                                                      : os->unlink(os->ctx, fd, s.names[i]);
            if (rc < 0)
                return rc;
        }
    }
    return -EFBIG;
}

/* One level of files and empty directories, then the directory. */
int seam_storesweep_dir(const struct seam_platform *os, int dir, const char *name)
{
    int fd = os->open(os->ctx, dir, name, SEAM_FILE_DIR);
    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    int rc = sweep_files(os, fd);
    (void)os->close(os->ctx, fd);
    return rc < 0 ? rc : os->rmdir(os->ctx, dir, name);
}
