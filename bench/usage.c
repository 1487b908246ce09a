/* usage.c - what a turn cost its process, and what its files take on disk.
 *
 * Relies on getrusage and /proc/self. Keeps true: unknown is -1. */
#include "environment.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEEPEST = 64 };

void seam_usage_read(struct seam_usage *ret)
{
    struct rusage usage;
    char line[256];
    long long kib;
    FILE *file;

    memset(ret, 0xff, sizeof *ret); /* all -1 */
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        ret->cpu_us = (int64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
                      usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
        ret->rss_peak_bytes = (int64_t)usage.ru_maxrss * 1024;
        ret->context_switches = usage.ru_nvcsw + usage.ru_nivcsw;
        ret->major_faults = usage.ru_majflt;
    }
    file = fopen("/proc/self/status", "re");
    if (file == NULL)
        return;
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "VmHWM: %lld kB", &kib) == 1)
            ret->rss_peak_bytes = kib * 1024; /* unlike ru_maxrss it can be reset */
        else if (sscanf(line, "VmRSS: %lld kB", &kib) == 1)
            ret->rss_bytes = kib * 1024;
    }
    fclose(file);
}

bool seam_usage_reset_peak(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    bool done;

    if (fd < 0)
        return false;
    done = write(fd, "5", 1) == 1;
    close(fd);
    return done;
}

/* Adds what the names in stream take; puts its directories on the stack. */
static bool add_names(DIR *stream, DIR **stack, size_t *depth, int64_t *sum)
{
    struct dirent *entry;

    while ((entry = readdir(stream)) != NULL) {
        struct stat st;
        int fd;

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (fstatat(dirfd(stream), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue; /* removed meanwhile */
        *sum += (int64_t)st.st_blocks * 512;
        if (!S_ISDIR(st.st_mode))
            continue;
        if (*depth == DEEPEST)
            return false;
        fd = openat(dirfd(stream), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        stack[*depth] = fd >= 0 ? fdopendir(fd) : NULL;
        if (stack[*depth] != NULL)
            (*depth)++;
        else if (fd >= 0)
            close(fd);
    }
    return true;
}

int64_t seam_directory_bytes(const char *dir)
{
    DIR *stack[DEEPEST];
    size_t depth = 0;
    int64_t sum = 0;
    bool whole = true;
    struct stat st;

    stack[0] = opendir(dir);
    if (stack[0] == NULL)
        return -1;
    depth = 1;
    if (fstat(dirfd(stack[0]), &st) == 0)
        sum = (int64_t)st.st_blocks * 512;
    while (depth > 0) {
        DIR *stream = stack[--depth];

        whole = whole && add_names(stream, stack, &depth, &sum);
        closedir(stream);
    }
    return whole ? sum : -1;
}
