/* disk_support.c - see disk_support.h. */
#include "disk_support.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define INSIDE "SEAM_TEST_NAMESPACE"

/* Runs a command without its output; whether it succeeded. */
static bool run(const char *const *argv)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        int null = open("/dev/null", O_RDWR);
        if (null >= 0) {
            (void)dup2(null, STDOUT_FILENO);
            (void)dup2(null, STDERR_FILENO);
        }
        (void)execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    if (child < 0)
        return false;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool disk_enter(char **argv)
{
    static const char *const ways[] = {"-m", "-Urm"};
    char self[4096];
    char *args[20] = {(char *)(uintptr_t) "unshare"};
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    size_t n = 0;

    if (getenv(INSIDE))
        return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 || errno == EINVAL;
    while (argv[n] && n < 16)
        n++;
    if (len <= 0 || argv[n])
        return false;
    self[len] = '\0';
    args[2] = self;
    memcpy(args + 3, argv + 1, n * sizeof(*args)); /* the NULL too */
    for (size_t i = 0; i < 2; i++) {
        const char *const probe[] = {"unshare", ways[i], "true", NULL};
        if (!run(probe))
            continue;
        args[1] = (char *)(uintptr_t)ways[i];
        if (setenv(INSIDE, "1", 1) == 0)
            (void)execvp("unshare", args);
    }
    fprintf(stderr, "no rights for a mount namespace, with or without one of users: no disk to fill\n");
    return false;
}

static bool make_ext4(struct disk *d, uint64_t bytes, const char **ret_why)
{
    const char *const format[] = {"mkfs.ext4", "-q", "-F", "-m", "0", d->image, NULL};
    const char *const attach[] = {"mount", "-o", "loop", d->image, d->path, NULL};
    int fd = open(d->image, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    bool made = fd >= 0 && ftruncate(fd, (off_t)bytes) == 0;

    if (fd >= 0)
        (void)close(fd);
    *ret_why = "mkfs.ext4 does not work here";
    if (!made || !run(format))
        return false;
    *ret_why = "no loop device can be mounted here";
    return run(attach);
}

bool disk_make(struct disk *d, enum disk_kind kind, const char *path, uint64_t bytes,
               const char **ret_why)
{
    char options[64];
    bool made;

    (void)snprintf(d->path, sizeof(d->path), "%s", path);
    d->image[0] = '\0';
    *ret_why = "a directory cannot be made";
    if (mkdir(path, 0700) != 0)
        return false;
    if (kind == DISK_TMPFS) {
        (void)snprintf(options, sizeof(options), "size=%llu,mode=700", (unsigned long long)bytes);
        *ret_why = "tmpfs cannot be mounted here";
        made = mount("tmpfs", path, "tmpfs", 0, options) == 0;
    } else {
        (void)snprintf(d->image, sizeof(d->image), "%.500s.image", path);
        made = make_ext4(d, bytes, ret_why);
    }
    if (made)
        return true;
    if (d->image[0])
        (void)unlink(d->image);
    (void)rmdir(path);
    return false;
}

void disk_drop(struct disk *d)
{
    if (umount2(d->path, 0) != 0)
        (void)umount2(d->path, MNT_DETACH);
    if (d->image[0])
        (void)unlink(d->image);
    (void)rmdir(d->path);
}

/* All that fallocate gives, in steps that become smaller; returns how much. */
static uint64_t take_all(int fd)
{
    uint64_t have = 0;

    for (uint64_t step = 1 << 26; step >= 4096; step /= 2)
        while (fallocate(fd, 0, (off_t)have, (off_t)step) == 0)
            have += step;
    return have;
}

bool disk_eat(const char *path, const char *name, uint64_t leave)
{
    char file[600];
    uint64_t have;
    bool eaten;
    int fd;

    (void)snprintf(file, sizeof(file), "%s/%s", path, name);
    fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno == ENOSPC; /* not even a name fits */
    have = take_all(fd);
    eaten = ftruncate(fd, (off_t)(have > leave ? have - leave : 0)) == 0 &&
            (fsync(fd) == 0 || errno == ENOSPC);
    (void)close(fd);
    return eaten;
}

void disk_give_back(const char *path, const char *name)
{
    char file[600];

    (void)snprintf(file, sizeof(file), "%s/%s", path, name);
    (void)unlink(file);
}
