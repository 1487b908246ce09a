/* environment.c - the machine that a result was measured on.
 *
 * Relies on /proc and /sys as Linux shows them; believes no line of theirs to be there. Keeps true:
 * what could not be learnt is "" or -1. */
#include "environment_private.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { LINE = 1024 };

void seam_environment_copy(char *ret, size_t cap, const char *text)
{
    size_t len = strnlen(text, cap - 1);

    memcpy(ret, text, len);
    ret[len] = '\0';
}

void seam_environment_line(const char *path, char *ret, size_t cap)
{
    char line[LINE];
    FILE *file = fopen(path, "re");

    ret[0] = '\0';
    if (file == NULL)
        return;
    if (fgets(line, sizeof line, file) != NULL) {
        size_t len = strcspn(line, "\n");

        while (len > 0 && (line[len - 1] == ' ' || line[len - 1] == '\t'))
            len--;
        line[len] = '\0';
        seam_environment_copy(ret, cap, line);
    }
    fclose(file);
}

int64_t seam_environment_number(const char *path)
{
    char line[LINE], *end;
    long long value;

    seam_environment_line(path, line, sizeof line);
    value = strtoll(line, &end, 10);
    return end == line || *end != '\0' || value < 0 ? -1 : value;
}

/* The text behind "name<spaces>:" in a file of such lines. */
static bool field_of(const char *path, const char *name, char *ret, size_t cap)
{
    char line[8 * LINE]; /* the flags of a processor make a long line */
    size_t len = strlen(name);
    bool found = false;
    FILE *file = fopen(path, "re");

    if (file == NULL)
        return false;
    while (!found && fgets(line, sizeof line, file) != NULL) {
        const char *at = line + len;

        if (strncmp(line, name, len) != 0)
            continue;
        at += strspn(at, " \t");
        if (*at++ != ':')
            continue;
        at += strspn(at, " \t");
        line[strcspn(line, "\n")] = '\0';
        seam_environment_copy(ret, cap, at);
        found = true;
    }
    fclose(file);
    return found;
}

static bool has_word(const char *text, const char *word)
{
    size_t len = strlen(word);

    for (const char *at = text; (at = strstr(at, word)) != NULL; at += len)
        if ((at == text || at[-1] == ' ') && (at[len] == '\0' || at[len] == ' '))
            return true;
    return false;
}

static void read_processor(struct seam_environment *env)
{
    char flags[8 * LINE];
    cpu_set_t set;
    long online = sysconf(_SC_NPROCESSORS_ONLN), pages = sysconf(_SC_PHYS_PAGES);
    long page = sysconf(_SC_PAGESIZE);

    if (!field_of("/proc/cpuinfo", "model name", env->cpu_model, sizeof env->cpu_model))
        field_of("/proc/cpuinfo", "Hardware", env->cpu_model, sizeof env->cpu_model);
    env->cpus_online = online > 0 ? online : -1;
    env->cpus = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : env->cpus_online;
    env->memory_bytes = pages > 0 && page > 0 ? (int64_t)pages * page : -1;
    seam_environment_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", env->governor,
                          sizeof env->governor);
    env->virtual_machine = -1;
    if (field_of("/proc/cpuinfo", "flags", flags, sizeof flags))
        env->virtual_machine = has_word(flags, "hypervisor");
    if (env->virtual_machine == 1) {
        seam_environment_line("/sys/class/dmi/id/sys_vendor", env->hypervisor,
                              sizeof env->hypervisor);
        if (env->hypervisor[0] == '\0')
            seam_environment_copy(env->hypervisor, sizeof env->hypervisor, "yes");
    }
}

static void read_system(struct seam_environment *env)
{
    struct utsname uts;

    if (uname(&uts) == 0) {
        snprintf(env->kernel, sizeof env->kernel, "%.40s %.60s %.20s", uts.sysname, uts.release,
                 uts.machine);
        seam_environment_copy(env->hostname, sizeof env->hostname, uts.nodename);
    }
}

static void read_battery(struct seam_environment *env)
{
    static const char *const names[] = {"BAT0", "BAT1", "BATT", "battery"};
    char path[128], status[32];

    env->on_battery = -1;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "/sys/class/power_supply/%s/status", names[i]);
        seam_environment_line(path, status, sizeof status);
        if (status[0] != '\0' && env->on_battery != 1)
            env->on_battery = strcmp(status, "Discharging") == 0;
    }
}

/* The directory of this process's control group in version 2, and each one above it, may hold
 * limits; the least holds. */
static void read_cgroup(struct seam_environment *env)
{
    char group[512] = "", path[640], text[64], *slash;
    FILE *file = fopen("/proc/self/cgroup", "re");

    env->cgroup_memory_max = -1;
    env->cgroup_cpus_max = -1;
    if (file == NULL)
        return;
    while (fgets(path, sizeof path, file) != NULL)
        if (strncmp(path, "0::", 3) == 0) {
            path[strcspn(path, "\n")] = '\0';
            seam_environment_copy(group, sizeof group, path + 3);
        }
    fclose(file);
    do {
        double quota, period;
        int64_t max;

        snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", group);
        max = seam_environment_number(path);
        if (max >= 0 && (env->cgroup_memory_max < 0 || max < env->cgroup_memory_max))
            env->cgroup_memory_max = max;
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);
        seam_environment_line(path, text, sizeof text);
        if (sscanf(text, "%lf %lf", &quota, &period) == 2 && period > 0 &&
            (env->cgroup_cpus_max < 0 || quota / period < env->cgroup_cpus_max))
            env->cgroup_cpus_max = quota / period;
        slash = strrchr(group, '/');
        if (slash != NULL)
            *slash = '\0';
    } while (slash != NULL);
}

static void add_reason(const char **list, const char *text)
{
    size_t n = 0;

    while (n < SEAM_ENV_REASONS && list[n] != NULL)
        n++;
    if (n < SEAM_ENV_REASONS)
        list[n] = text;
}

static bool is_one_of(const char *name, const char *const *list)
{
    for (; *list != NULL; list++)
        if (strcmp(name, *list) == 0)
            return true;
    return false;
}

static void read_reasons(struct seam_environment *env)
{
    static const char *const volatile_fs[] = {"tmpfs", "ramfs", NULL};
    static const char *const network_fs[] = {"nfs", "nfs4", "cifs", "smb2", "9p", "ceph",
                                             "virtiofs", "afs", "lustre", "gfs2", "ocfs2",
                                             "gpfs", NULL};

    if (is_one_of(env->filesystem, volatile_fs))
        add_reason(env->not_durable, "the file system lives in memory: a flush does nothing");
    if (strcmp(env->filesystem, "overlay") == 0)
        add_reason(env->not_durable, "an overlay file system: what a flush reaches is not known");
    if (is_one_of(env->filesystem, network_fs))
        add_reason(env->not_durable, "a network or shared file system: its server flushes, or not");
    if (strncmp(env->filesystem, "fuse", 4) == 0)
        add_reason(env->not_durable, "a FUSE file system: what a flush does is up to its server");
    if (strncmp(env->device, "zram", 4) == 0 || strncmp(env->device, "ram", 3) == 0)
        add_reason(env->not_durable, "the block device lives in memory");
    if (strstr(env->mount_options, "nobarrier") != NULL ||
        strstr(env->mount_options, "barrier=0") != NULL)
        add_reason(env->not_durable, "mounted without barriers: flushes do not reach the device");
    if (env->virtual_machine == 1)
        add_reason(env->careful, "a virtual machine: its host may cache flushes, which cannot be "
                                 "proved from inside");
    if (strcmp(env->governor, "powersave") == 0)
        add_reason(env->careful, "the frequency governor is powersave");
    if (env->on_battery == 1)
        add_reason(env->careful, "on battery");
    if (strncmp(env->device, "loop", 4) == 0)
        add_reason(env->careful, "a loop device: the figures include the file system below it");
    if (env->cgroup_cpus_max >= 0 && env->cgroup_cpus_max < (double)env->cpus)
        add_reason(env->careful, "a control group limits the processors");
}

void seam_environment_read(const char *dir, struct seam_environment *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->space_free = ret->space_total = ret->logical_block = ret->physical_block = -1;
    ret->fua = ret->rotational = -1;
    read_processor(ret);
    read_system(ret);
    read_battery(ret);
    read_cgroup(ret);
    if (dir != NULL)
        seam_environment_device(dir, ret);
    read_reasons(ret);
}
