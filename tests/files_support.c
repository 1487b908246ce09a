/* files_support.c - see files_support.h. */
#include "files_support.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    abort();
}

char *files_temp(void)
{
    const char *base = getenv("TMPDIR");
    char *path = files_join(base && base[0] ? base : "/tmp", "seam-test-XXXXXX");
    must(mkdtemp(path) != NULL, "mkdtemp");
    return path;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

void files_remove(char *path)
{
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(path);
}

char *files_join(const char *path, const char *name)
{
    size_t len = strlen(path) + strlen(name) + 2;
    char *joined = malloc(len);
    must(joined != NULL, "malloc");
    (void)snprintf(joined, len, "%s/%s", path, name);
    return joined;
}

void files_write(const char *dir, const char *name, const void *bytes, size_t len)
{
    char *path = files_join(dir, name);
    FILE *f = fopen(path, "wb");
    must(f != NULL, path);
    must(fwrite(bytes, 1, len, f) == len, path);
    must(fclose(f) == 0, path);
    free(path);
}

static uint64_t hash_file(const char *path)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    FILE *f = fopen(path, "rb");
    int c;
    if (!f)
        return 0;
    while ((c = fgetc(f)) != EOF)
        hash = (hash ^ (unsigned)c) * UINT64_C(0x100000001b3);
    (void)fclose(f);
    return hash;
}

static void picture(FILE *out, const char *path)
{
    struct stat st;
    must(lstat(path, &st) == 0, path);
    fprintf(out, "%s %o", path, (unsigned)st.st_mode);
    if (S_ISREG(st.st_mode))
        fprintf(out, " %lld %016llx", (long long)st.st_size, (unsigned long long)hash_file(path));
    fputc('\n', out);
    if (!S_ISDIR(st.st_mode))
        return;
    struct dirent **names = NULL;
    int n = scandir(path, &names, NULL, alphasort);
    must(n >= 0, path);
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i]->d_name, ".") != 0 && strcmp(names[i]->d_name, "..") != 0) {
            char *below = files_join(path, names[i]->d_name);
            picture(out, below);
            free(below);
        }
        free(names[i]);
    }
    free(names);
}

char *files_picture(const char *path)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    must(out != NULL, "open_memstream");
    if (access(path, F_OK) == 0)
        picture(out, path);
    must(fclose(out) == 0, "open_memstream");
    return text;
}

/* ---- faults ------------------------------------------------------------------------------ */

static int gate(void *ctx, bool writes)
{
    struct files_fault *f = ctx;
    uint64_t call = f->calls++;
    if (f->read_only && writes)
        return -EROFS;
    return call >= f->from && call - f->from < f->n ? -f->code : 0;
}

#define REAL(ctx) (((struct files_fault *)(ctx))->real)
#define GATE(ctx, writes)                                                                          \
    do {                                                                                           \
        int failed = gate(ctx, writes);                                                            \
        if (failed)                                                                                \
            return failed;                                                                         \
    } while (0)

static int f_open(void *ctx, int dir, const char *name, int flags)
{
    GATE(ctx, (flags & (SEAM_FILE_WRITE | SEAM_FILE_CREATE | SEAM_FILE_NEW)) != 0);
    return REAL(ctx)->open(NULL, dir, name, flags);
}

static int f_open_root(void *ctx, const char *path)
{
    GATE(ctx, false);
    return REAL(ctx)->open_root(NULL, path);
}

static int f_close(void *ctx, int fd)
{
    int failed = gate(ctx, false);
    int rc = REAL(ctx)->close(NULL, fd);
    return failed ? failed : rc;
}

static ssize_t f_pread(void *ctx, int fd, void *buf, size_t len, uint64_t offset)
{
    GATE(ctx, false);
    return REAL(ctx)->pread(NULL, fd, buf, len, offset);
}

static ssize_t f_pwritev(void *ctx, int fd, const struct iovec *parts, int n, uint64_t offset)
{
    GATE(ctx, true);
    return REAL(ctx)->pwritev(NULL, fd, parts, n, offset);
}

static int f_sync(void *ctx, int fd)
{
    GATE(ctx, false);
    return REAL(ctx)->sync(NULL, fd);
}

static int f_sync_dir(void *ctx, int fd)
{
    GATE(ctx, false);
    return REAL(ctx)->sync_dir(NULL, fd);
}

static int f_rename(void *ctx, int from_dir, const char *from, int to_dir, const char *to)
{
    GATE(ctx, true);
    return REAL(ctx)->rename(NULL, from_dir, from, to_dir, to);
}

static int f_unlink(void *ctx, int dir, const char *name)
{
    GATE(ctx, true);
    return REAL(ctx)->unlink(NULL, dir, name);
}

static int f_rmdir(void *ctx, int dir, const char *name)
{
    GATE(ctx, true);
    return REAL(ctx)->rmdir(NULL, dir, name);
}

static int f_mkdir(void *ctx, int dir, const char *name)
{
    GATE(ctx, true);
    return REAL(ctx)->mkdir(NULL, dir, name);
}

static int f_stat(void *ctx, int dir, const char *name, struct seam_file_info *ret)
{
    GATE(ctx, false);
    return REAL(ctx)->stat(NULL, dir, name, ret);
}

static int f_list(void *ctx, int dir, seam_list_fn fn, void *arg)
{
    GATE(ctx, false);
    return REAL(ctx)->list(NULL, dir, fn, arg);
}

static int f_lock(void *ctx, int fd, bool exclusive)
{
    GATE(ctx, false);
    return REAL(ctx)->lock(NULL, fd, exclusive);
}

static int f_random(void *ctx, void *buf, size_t len)
{
    GATE(ctx, false);
    return REAL(ctx)->random(NULL, buf, len);
}

void files_fault_init(struct files_fault *fault)
{
    memset(fault, 0, sizeof *fault);
    fault->real = seam_platform_system();
    assert(fault->real->ctx == NULL);
    fault->table = *fault->real;
    fault->table.ctx = fault;
    fault->code = EIO;
    fault->from = UINT64_MAX;
    struct seam_platform *t = &fault->table;
    t->open = f_open;
    t->open_root = f_open_root;
    t->close = f_close;
    t->pread = f_pread;
    t->pwritev = f_pwritev;
    t->sync = f_sync;
    t->sync_dir = f_sync_dir;
    t->rename = f_rename;
    t->unlink = f_unlink;
    t->rmdir = f_rmdir;
    t->mkdir = f_mkdir;
    t->stat = f_stat;
    t->list = f_list;
    t->lock = f_lock;
    t->random = f_random;
}
