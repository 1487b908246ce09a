/* environment.h - what a reader must know of the machine to judge a result, and what a turn cost
 * its process and the disk.
 *
 * Nothing here fails: what cannot be learnt is "" or -1, never 0. Linux only; elsewhere all of it
 * is unknown. */
#ifndef SEAM_BENCH_ENVIRONMENT_H
#define SEAM_BENCH_ENVIRONMENT_H

#include <seam/seam.h>

enum { SEAM_ENV_TEXT = 128, SEAM_ENV_LONG = 512, SEAM_ENV_REASONS = 8 };

struct seam_environment {
    char cpu_model[SEAM_ENV_TEXT];
    int64_t cpus;               /* this process may run on */
    int64_t cpus_online;
    int64_t memory_bytes;       /* of the machine */
    char kernel[SEAM_ENV_TEXT]; /* "Linux 6.1.0 x86_64" */
    char hostname[SEAM_ENV_TEXT];
    char governor[SEAM_ENV_TEXT];   /* of cpu0; "" where there is none */
    char hypervisor[SEAM_ENV_TEXT]; /* vendor as far as DMI tells, else "yes"; "" bare or unknown */
    int virtual_machine;            /* 1, 0, -1 unknown */
    int on_battery;                 /* 1, 0, -1 no battery or unknown */
    int64_t cgroup_memory_max;      /* -1: no limit, or unknown */
    double cgroup_cpus_max;         /* -1: no limit, or unknown */

    char filesystem[SEAM_ENV_TEXT];     /* "ext4", "tmpfs", ... or "0x1234abcd" */
    char mount_point[SEAM_ENV_LONG];
    char mount_source[SEAM_ENV_LONG];
    char mount_options[SEAM_ENV_LONG];  /* of the mount and of the file system, joined by ',' */
    int64_t space_free, space_total;

    /* The block device behind the directory: the whole disk when it is on a partition. "" and -1
     * where there is none that this process can see (tmpfs, overlay, network). */
    char device[SEAM_ENV_TEXT];         /* "vda" */
    char device_number[SEAM_ENV_TEXT];  /* "254:0", of the file system itself */
    char device_model[SEAM_ENV_TEXT];
    char write_cache[SEAM_ENV_TEXT];    /* "write back", "write through", "" */
    char scheduler[SEAM_ENV_TEXT];      /* the active one */
    int fua;                            /* 1, 0, -1 */
    int rotational;                     /* 1, 0, -1 */
    int64_t logical_block, physical_block;

    /* Why a run here is not a durability result; NULL-terminated, none: it may be one. Static. */
    const char *not_durable[SEAM_ENV_REASONS + 1];
    /* What weakens it (volatile host cache, powersave, battery, ...). Static. */
    const char *careful[SEAM_ENV_REASONS + 1];
};

/* dir must exist; NULL: no directory, its part stays unknown. */
void seam_environment_read(const char *dir, struct seam_environment *ret);

/* Bytes and flushes that the device behind a directory has been given so far, whoever asked for
 * them. write_bytes and read_bytes are -1 where there is no such device, flushes also where the
 * kernel does not count them. */
struct seam_device_io {
    int64_t read_bytes, write_bytes, flushes;
};
void seam_environment_device_io(const struct seam_environment *env, struct seam_device_io *ret);

struct seam_usage {
    int64_t cpu_us;         /* user and system time of this process and its threads */
    int64_t rss_bytes;      /* now */
    int64_t rss_peak_bytes; /* since the process began or the last reset */
    int64_t context_switches;
    int64_t major_faults;
};
void seam_usage_read(struct seam_usage *ret);
/* Lets rss_peak_bytes begin anew. False: not possible here, the peak stays that of the process. */
bool seam_usage_reset_peak(void);

/* Space that a directory tree takes on disk (st_blocks; a hard-linked file counts once for each
 * name). Symbolic links are not followed. -1 if it cannot be read. */
int64_t seam_directory_bytes(const char *dir);

#endif
