/* json_file.c - where the result goes: found writable before the first turn, and an old result stays whole
 * until the new one is.
 *
 * A regular file is written beside its place and then renamed; anything else (a device, a pipe) as it is. */
#include "plan.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_regular(const char *path)
{
    struct stat s;
    return stat(path, &s) != 0 ? errno == ENOENT : S_ISREG(s.st_mode) != 0;
}

/* Its name while it is written; false: too long. */
static bool beside(const char *path, char ret[BENCH_PATH + 1])
{
    int n = snprintf(ret, BENCH_PATH + 1, "%s.new", path);
    return n > 0 && n <= BENCH_PATH;
}

static int cannot(const char *path, int why)
{
    return bench_failed("seam bench", "cannot write the result to '%s': %s; name another with --json", path,
                        strerror(why));
}

int json_file_check(const char *path)
{
    char fresh[BENCH_PATH + 1];
    if (strcmp(path, "-") == 0)
        return BENCH_OK;
    if (!is_regular(path))
        return access(path, W_OK) == 0 ? BENCH_OK : cannot(path, errno);
    if (!beside(path, fresh))
        return cannot(path, ENAMETOOLONG);
    if (access(path, F_OK) == 0 && access(path, W_OK) != 0)
        return cannot(path, errno);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return cannot(path, errno);
    close(fd);
    unlink(fresh);
    return BENCH_OK;
}

FILE *json_file_open(const char *path)
{
    char fresh[BENCH_PATH + 1];
    if (strcmp(path, "-") == 0)
        return stdout;
    if (!is_regular(path))
        return fopen(path, "w");
    return beside(path, fresh) ? fopen(fresh, "w") : NULL;
}

int json_file_close(const char *path, FILE *file, int failed)
{
    char fresh[BENCH_PATH + 1];
    int why = errno;
    if (file == stdout)
        return failed ? BENCH_FAILED : BENCH_OK; /* told of at the end, by bench_flush */
    if (file && fclose(file) != 0 && !failed) {
        failed = 1;
        why = errno;
    }
    if (file && is_regular(path) && beside(path, fresh)) {
        if (!failed && rename(fresh, path) != 0) {
            failed = 1;
            why = errno;
        }
        if (failed)
            unlink(fresh);
    }
    return failed || !file ? cannot(path, why) : BENCH_OK;
}
