/* device.c - the file system and the block device behind a directory, and the device's counters.
 *
 * Relies on /proc/self/mountinfo and on /sys/dev/block. Keeps true: a partition's figures are those
 * of its whole disk where they concern the medium, and its own device number is what is shown. */
#include "environment_private.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static const struct {
    uint32_t magic;
    const char *name;
} file_systems[] = {
    {0xef53, "ext4"},         {0x58465342, "xfs"},      {0x9123683e, "btrfs"},
    {0x01021994, "tmpfs"},    {0x858458f6, "ramfs"},    {0x794c7630, "overlay"},
    {0x6969, "nfs"},          {0x65735546, "fuse"},     {0xff534d42, "cifs"},
    {0xfe534d42, "smb2"},     {0x01021997, "9p"},       {0x2fc12fc1, "zfs"},
    {0xf2f52010, "f2fs"},     {0xca451a4e, "bcachefs"}, {0x00c36400, "ceph"},
    {0x4d44, "vfat"},         {0x2011bab0, "exfat"},    {0x5346544e, "ntfs"},
    {0x3153464a, "jfs"},      {0x52654973, "reiserfs"}, {0x3434, "nilfs"},
    {0x6a656a63, "virtiofs"}, {0x7461636f, "ocfs2"},    {0x01161970, "gfs2"},
};

static void read_file_system(const char *dir, struct seam_environment *env)
{
    struct statfs fs;
    uint32_t magic;

    if (statfs(dir, &fs) != 0)
        return;
    magic = (uint32_t)fs.f_type;
    snprintf(env->filesystem, sizeof env->filesystem, "0x%08x", (unsigned)magic);
    for (size_t i = 0; i < sizeof file_systems / sizeof file_systems[0]; i++)
        if (file_systems[i].magic == magic)
            seam_environment_copy(env->filesystem, sizeof env->filesystem, file_systems[i].name);
    env->space_free = (int64_t)fs.f_bavail * (int64_t)fs.f_bsize;
    env->space_total = (int64_t)fs.f_blocks * (int64_t)fs.f_bsize;
}

/* Cuts the next field, ended by a space, off *rest. */
static char *cut(char **rest)
{
    char *field = *rest;

    *rest += strcspn(*rest, " \n");
    if (**rest != '\0')
        *(*rest)++ = '\0';
    return field;
}

/* \040 and the like back to what they stand for, in place. */
static void unescape(char *text)
{
    char *to = text;

    while (*text != '\0') {
        if (text[0] == '\\' && text[1] >= '0' && text[1] <= '3' && text[2] >= '0' &&
            text[2] <= '7' && text[3] >= '0' && text[3] <= '7') {
            *to++ = (char)((text[1] - '0') * 64 + (text[2] - '0') * 8 + (text[3] - '0'));
            text += 4;
        } else {
            *to++ = *text++;
        }
    }
    *to = '\0';
}

static bool is_below(const char *path, const char *mount)
{
    size_t len = strlen(mount);

    if (len == 1)
        return true;
    return strncmp(path, mount, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* A line of mountinfo: id parent major:minor root mount options [tags] - type source super-options.
 * Takes it if it is the mount of path, or hides the one taken before. */
static void take_mount(char *line, const char *path, struct seam_environment *env)
{
    char *number, *mount, *options, *type, *source;

    cut(&line);
    cut(&line);
    number = cut(&line);
    cut(&line);
    mount = cut(&line);
    options = cut(&line);
    while (*line != '\0' && strcmp(cut(&line), "-") != 0)
        ;
    type = cut(&line);
    source = cut(&line);
    line[strcspn(line, " \n")] = '\0';
    unescape(mount);
    if (*type == '\0' || !is_below(path, mount) || strlen(mount) < strlen(env->mount_point))
        return;
    seam_environment_copy(env->mount_point, sizeof env->mount_point, mount);
    unescape(source);
    seam_environment_copy(env->mount_source, sizeof env->mount_source, source);
    snprintf(env->mount_options, sizeof env->mount_options, "%.250s,%.250s", options, line);
    seam_environment_copy(env->device_number, sizeof env->device_number, number);
    /* The magic number does not tell ext2 and ext3 from ext4, nor one FUSE server from another. */
    if (strcmp(env->filesystem, "ext4") == 0 || strcmp(env->filesystem, "fuse") == 0 ||
        strncmp(env->filesystem, "0x", 2) == 0)
        seam_environment_copy(env->filesystem, sizeof env->filesystem, type);
}

static void read_mount(const char *dir, struct seam_environment *env)
{
    char path[PATH_MAX], *line = NULL;
    size_t cap = 0;
    FILE *file = fopen("/proc/self/mountinfo", "re");

    if (file == NULL)
        return;
    if (realpath(dir, path) != NULL)
        while (getline(&line, &cap, file) > 0)
            take_mount(line, path, env);
    free(line);
    fclose(file);
}

/* /sys/dev/block/MAJOR:MINOR leads to .../block/DISK or .../block/DISK/PARTITION. btrfs and others
 * show a number of their own there: then the source's is taken. */
static bool find_disk(struct seam_environment *env)
{
    char path[PATH_MAX], real[PATH_MAX], probe[PATH_MAX + 16], *name;
    struct stat st;

    snprintf(path, sizeof path, "/sys/dev/block/%s", env->device_number);
    if (realpath(path, real) == NULL) {
        if (stat(env->mount_source, &st) != 0 || !S_ISBLK(st.st_mode))
            return false;
        snprintf(env->device_number, sizeof env->device_number, "%u:%u", major(st.st_rdev),
                 minor(st.st_rdev));
        snprintf(path, sizeof path, "/sys/dev/block/%s", env->device_number);
        if (realpath(path, real) == NULL)
            return false;
    }
    snprintf(probe, sizeof probe, "%s/partition", real);
    name = strrchr(real, '/');
    if (name != NULL && access(probe, F_OK) == 0) {
        *name = '\0';
        name = strrchr(real, '/');
    }
    if (name == NULL)
        return false;
    seam_environment_copy(env->device, sizeof env->device, name + 1);
    return true;
}

static void disk_path(const struct seam_environment *env, const char *leaf, char *ret, size_t cap)
{
    snprintf(ret, cap, "/sys/class/block/%s/%s", env->device, leaf);
}

static void read_disk(struct seam_environment *env)
{
    char path[512], text[SEAM_ENV_TEXT], *from, *to;

    disk_path(env, "queue/write_cache", path, sizeof path);
    seam_environment_line(path, env->write_cache, sizeof env->write_cache);
    disk_path(env, "device/model", path, sizeof path);
    seam_environment_line(path, env->device_model, sizeof env->device_model);
    disk_path(env, "queue/scheduler", path, sizeof path);
    seam_environment_line(path, text, sizeof text);
    from = strchr(text, '[');
    to = from != NULL ? strchr(from, ']') : NULL;
    if (to != NULL)
        *to = '\0';
    seam_environment_copy(env->scheduler, sizeof env->scheduler, to != NULL ? from + 1 : text);
    disk_path(env, "queue/fua", path, sizeof path);
    env->fua = (int)seam_environment_number(path);
    disk_path(env, "queue/rotational", path, sizeof path);
    env->rotational = (int)seam_environment_number(path);
    disk_path(env, "queue/logical_block_size", path, sizeof path);
    env->logical_block = seam_environment_number(path);
    disk_path(env, "queue/physical_block_size", path, sizeof path);
    env->physical_block = seam_environment_number(path);
}

void seam_environment_device(const char *dir, struct seam_environment *ret)
{
    read_file_system(dir, ret);
    read_mount(dir, ret);
    if (ret->device_number[0] != '\0' && find_disk(ret))
        read_disk(ret);
}

void seam_environment_device_io(const struct seam_environment *env, struct seam_device_io *ret)
{
    /* reads, merged, sectors, ms; writes, merged, sectors, ms; in flight, ms, ms; discards, merged,
     * sectors, ms; flushes, ms. A sector is 512 bytes, whatever the device's block. */
    enum { READ_SECTORS = 2, WRITE_SECTORS = 6, FLUSHES = 15, FIELDS = 16 };
    long long fields[FIELDS];
    char path[512], line[512], *at = line;
    int n;

    ret->read_bytes = ret->write_bytes = ret->flushes = -1;
    if (env->device[0] == '\0')
        return;
    disk_path(env, "stat", path, sizeof path);
    seam_environment_line(path, line, sizeof line);
    for (n = 0; n < FIELDS; n++) {
        char *end;

        fields[n] = strtoll(at, &end, 10);
        if (end == at)
            break;
        at = end;
    }
    if (n > READ_SECTORS)
        ret->read_bytes = fields[READ_SECTORS] * 512;
    if (n > WRITE_SECTORS)
        ret->write_bytes = fields[WRITE_SECTORS] * 512;
    if (n > FLUSHES)
        ret->flushes = fields[FLUSHES];
}
