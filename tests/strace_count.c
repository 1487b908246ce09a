/* strace_count.c - reads the output of strace -f -y -s 0.
 *
 * Relies on "-y" showing each descriptor's path. Which descriptors flush with every write is
 * followed through open, dup and fcntl, as the path does not tell. */
#include "strace_count.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_FDS = 4096, MOST_MAPS = 1024, MOST_TASKS = 256, MOST_ARGS = 12, LINE = 8192 };

struct reading {
    const char *store, *without;
    struct seam_flushcount *counts;
    bool uring;
    bool flushing[MOST_FDS];
    struct { uintptr_t begin, end; } maps[MOST_MAPS];
    size_t n_maps;
    struct { long task; char text[LINE]; } half[MOST_TASKS]; /* calls that others interrupted */
    size_t n_half;
};

struct call {
    char *name, *args[MOST_ARGS];
    size_t n;
    long long result;
    char *result_text;
};

static const struct {
    const char *name;
    int cls;
    size_t fd; /* which argument */
} kinds[] = {
    {"write", SEAM_FLUSHCOUNT_write, 0},
    {"writev", SEAM_FLUSHCOUNT_write, 0},
    {"pwrite64", SEAM_FLUSHCOUNT_write, 0},
    {"pwritev", SEAM_FLUSHCOUNT_write, 0},
    {"pwritev2", SEAM_FLUSHCOUNT_write, 0},
    {"copy_file_range", SEAM_FLUSHCOUNT_write, 2},
    {"sendfile", SEAM_FLUSHCOUNT_write, 0},
    {"fsync", SEAM_FLUSHCOUNT_fsync, 0},
    {"fdatasync", SEAM_FLUSHCOUNT_fdatasync, 0},
    {"syncfs", SEAM_FLUSHCOUNT_syncfs, 0},
    {"sync_file_range", SEAM_FLUSHCOUNT_sync_file_range, 0},
};

/* "3</a/b>" lies in the store? */
static bool in_store(const struct reading *r, const char *fd)
{
    const char *path = strchr(fd, '<');
    size_t len = strlen(r->store);

    return path != NULL && strncmp(path + 1, r->store, len) == 0 &&
           (path[1 + len] == '/' || path[1 + len] == '>');
}

static bool left_out(const struct reading *r, const char *fd)
{
    const char *name = r->without != NULL ? strstr(fd, r->without) : NULL;

    return name != NULL && name[strlen(r->without)] == '>';
}

static bool is_flushing(const struct reading *r, const char *fd)
{
    long n = strtol(fd, NULL, 10);

    return n >= 0 && n < MOST_FDS && r->flushing[n];
}

static void set_flushing(struct reading *r, long long fd, bool flushing)
{
    if (fd >= 0 && fd < MOST_FDS)
        r->flushing[fd] = flushing;
}

/* name(arg, arg) = result rest: cut in place at the commas outside of brackets and quotes. */
static bool parse(char *line, struct call *ret)
{
    char *at = strchr(line, '('), *result = NULL, *next;
    int depth = 0;
    bool quoted = false;

    if (at == NULL)
        return false;
    for (next = strstr(at, " = "); next != NULL; next = strstr(next + 1, " = "))
        result = next;
    if (result == NULL)
        return false;
    *result = '\0';
    ret->result_text = result + 3;
    ret->result = strtoll(ret->result_text, NULL, 0);
    ret->name = line;
    *at++ = '\0';
    ret->n = 0;
    ret->args[ret->n++] = at;
    for (; *at != '\0'; at++) {
        if (*at == '"' && at[-1] != '\\')
            quoted = !quoted;
        else if (!quoted && strchr("[{(<", *at) != NULL)
            depth++;
        else if (!quoted && strchr("]})>", *at) != NULL && --depth < 0)
            break;
        else if (!quoted && depth == 0 && *at == ',' && ret->n < MOST_ARGS) {
            *at = '\0';
            ret->args[ret->n++] = at + 1 + (at[1] == ' ');
        }
    }
    *at = '\0';
    return true;
}

static bool has_arg(const struct call *call, const char *word)
{
    for (size_t i = 0; i < call->n; i++)
        if (strstr(call->args[i], word) != NULL)
            return true;
    return false;
}

static void count_kind(struct reading *r, const struct call *call, int cls, size_t fd)
{
    if (call->n <= fd || !in_store(r, call->args[fd]) ||
        (cls == SEAM_FLUSHCOUNT_write && left_out(r, call->args[fd])))
        return;
    if (call->result < 0) {
        r->counts->failed++;
        return;
    }
    if (cls == SEAM_FLUSHCOUNT_write &&
        (is_flushing(r, call->args[fd]) || has_arg(call, "RWF_DSYNC") || has_arg(call, "RWF_SYNC")))
        cls = SEAM_FLUSHCOUNT_sync_write;
    r->counts->calls[cls]++;
    if (cls == SEAM_FLUSHCOUNT_write || cls == SEAM_FLUSHCOUNT_sync_write)
        r->counts->bytes[cls] += (uint64_t)call->result;
    else if (cls == SEAM_FLUSHCOUNT_sync_file_range && call->n > 2)
        r->counts->bytes[cls] += strtoull(call->args[2], NULL, 0);
}

static void drop_maps(struct reading *r, uintptr_t begin, uintptr_t end)
{
    for (size_t i = 0; i < r->n_maps; i++) {
        uintptr_t a = r->maps[i].begin, b = r->maps[i].end;

        if (begin >= b || end <= a)
            continue;
        r->maps[i].end = a < begin ? begin : a; /* the left part stays here */
        if (end < b && r->n_maps < MOST_MAPS) {
            r->maps[r->n_maps].begin = end;
            r->maps[r->n_maps++].end = b;
        }
    }
}

static void count_mapping(struct reading *r, const struct call *call)
{
    uintptr_t at, len;

    if (call->n < 2)
        return;
    at = (uintptr_t)strtoull(call->args[0], NULL, 0);
    len = (uintptr_t)strtoull(call->args[1], NULL, 0);
    if (strcmp(call->name, "mmap") == 0 && call->n > 4) {
        at = (uintptr_t)strtoull(call->result_text, NULL, 0);
        if (strstr(call->result_text, "E") != NULL)
            return;
        drop_maps(r, at, at + len);
        if (strstr(call->args[3], "MAP_SHARED") != NULL && in_store(r, call->args[4]) &&
            r->n_maps < MOST_MAPS) {
            r->maps[r->n_maps].begin = at;
            r->maps[r->n_maps++].end = at + len;
        }
    } else if (strcmp(call->name, "munmap") == 0 && call->result == 0) {
        drop_maps(r, at, at + len);
    } else if (strcmp(call->name, "msync") == 0 && call->result == 0) {
        int cls = has_arg(call, "MS_SYNC") ? SEAM_FLUSHCOUNT_msync : SEAM_FLUSHCOUNT_msync_async;

        for (size_t i = 0; i < r->n_maps; i++)
            if (at < r->maps[i].end && at + len > r->maps[i].begin) {
                r->counts->calls[cls]++;
                r->counts->bytes[cls] += len;
                break;
            }
    }
}

static void count_call(struct reading *r, const struct call *call)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(call->name, kinds[i].name) == 0)
            count_kind(r, call, kinds[i].cls, kinds[i].fd);
    if (strcmp(call->name, "open") == 0 || strcmp(call->name, "openat") == 0 ||
        strcmp(call->name, "creat") == 0)
        set_flushing(r, call->result, has_arg(call, "O_DSYNC") || has_arg(call, "O_SYNC"));
    else if (strncmp(call->name, "dup", 3) == 0 || has_arg(call, "F_DUPFD"))
        set_flushing(r, call->result, is_flushing(r, call->args[0]));
    else if (strcmp(call->name, "sync") == 0)
        r->counts->calls[SEAM_FLUSHCOUNT_sync]++;
    else if (strcmp(call->name, "io_uring_setup") == 0 && call->result >= 0)
        r->uring = true;
    count_mapping(r, call);
}

/* Puts together what strace printed in two parts; false: the second is not there yet. */
static bool whole(struct reading *r, long task, char *text, size_t cap)
{
    char *cut = strstr(text, " <unfinished ...>"), *rest;
    size_t i = 0;

    while (i < r->n_half && r->half[i].task != task)
        i++;
    if (cut != NULL) {
        *cut = '\0';
        if (i == r->n_half && r->n_half < MOST_TASKS)
            r->n_half++;
        if (i < r->n_half) {
            r->half[i].task = task;
            snprintf(r->half[i].text, LINE, "%s", text);
        }
        return false;
    }
    if (strncmp(text, "<... ", 5) == 0) {
        char joined[2 * LINE];

        rest = strstr(text, " resumed>");
        if (rest == NULL || i == r->n_half)
            return false;
        snprintf(joined, sizeof joined, "%s%s", r->half[i].text, rest + 9);
        snprintf(text, cap, "%.*s", (int)cap - 1, joined);
    }
    return true;
}

bool strace_count(const char *trace, const char *store, const char *without,
                  struct seam_flushcount *ret, bool *ret_uring)
{
    struct reading *r = calloc(1, sizeof *r);
    FILE *file = fopen(trace, "re");
    char line[LINE], *text;

    if (r == NULL || file == NULL) {
        free(r);
        if (file != NULL)
            fclose(file);
        return false;
    }
    memset(ret, 0, sizeof *ret);
    r->store = store;
    r->without = without;
    r->counts = ret;
    while (fgets(line, sizeof line, file) != NULL) {
        struct call call;
        long task = strtol(line, &text, 10);

        line[strcspn(line, "\n")] = '\0';
        text += strspn(text, " ");
        if (whole(r, task, text, sizeof line - (size_t)(text - line)) && parse(text, &call))
            count_call(r, &call);
    }
    *ret_uring = r->uring;
    fclose(file);
    free(r);
    return true;
}

/* ---- running ------------------------------------------------------------------------------ */

static int run(char *const *argv, char *ret_text, size_t cap)
{
    int pipes[2], status;
    size_t len = 0;
    ssize_t got;
    pid_t pid;

    if (pipe(pipes) != 0)
        return -1;
    pid = fork();
    if (pid == 0) {
        dup2(pipes[1], 1);
        dup2(pipes[1], 2);
        close(pipes[0]);
        close(pipes[1]);
        execvp(argv[0], argv);
        _exit(127);
    }
    close(pipes[1]);
    while (len + 1 < cap && (got = read(pipes[0], ret_text + len, cap - 1 - len)) > 0)
        len += (size_t)got;
    ret_text[len] = '\0';
    close(pipes[0]);
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}

const char *strace_missing(void)
{
    char *const argv[] = {"strace", "-f", "-o", "/dev/null", "true", NULL};
    char text[512];
    int rc = run(argv, text, sizeof text);

    return rc == 0 ? NULL : rc == 127 ? "strace is not installed" : "ptrace is not permitted here";
}

int strace_run(const char *const *argv, const char *object, const char *dir, const char *page,
               const char *trace, char *ret_text, size_t cap)
{
    static const char *const calls =
        "trace=open,openat,creat,dup,dup2,dup3,fcntl,write,writev,pwrite64,pwritev,pwritev2,"
        "copy_file_range,sendfile,fsync,fdatasync,syncfs,sync,sync_file_range,mmap,munmap,msync,"
        "io_uring_setup";
    char preload[4096], store[4096], file[4096];
    const char *words[32];
    size_t n = 0;

    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", object);
    snprintf(store, sizeof store, SEAM_FLUSHCOUNT_ENV_DIR "=%s", dir);
    snprintf(file, sizeof file, SEAM_FLUSHCOUNT_ENV_FILE "=%s", page);
    if (trace != NULL) {
        const char *const strace[] = {"strace", "-f", "-y", "-s", "0", "-o", trace, "-e", calls,
                                      "-E", preload, "-E", store, "-E", file};

        for (size_t i = 0; i < sizeof strace / sizeof strace[0]; i++)
            words[n++] = strace[i];
    } else {
        words[n++] = "env";
        words[n++] = preload;
        words[n++] = store;
        words[n++] = file;
    }
    while (*argv != NULL && n < 31)
        words[n++] = *argv++;
    words[n] = NULL;
    return run((char *const *)(uintptr_t)words, ret_text, cap);
}
