/* disk_support.h - small disks to fill: a tmpfs, or ext4 in a file, in a mount namespace of this
 * process alone, so that nothing is left mounted however it ends.
 *
 * Relies on Linux, on unshare and mount of util-linux, on e2fsprogs for ext4. Where they or the rights are
 * missing, it says so. */
#ifndef SEAM_DISK_SUPPORT_H
#define SEAM_DISK_SUPPORT_H

#include <stdbool.h>
#include <stdint.h>

enum disk_kind { DISK_TMPFS, DISK_EXT4 };

struct disk {
    char path[512];  /* where it is mounted */
    char image[512]; /* ext4: the file it lies in; else empty */
};

/* Runs this program anew in a namespace where it may mount, if it does not run there already. False:
 * it cannot, and has said why. */
bool disk_enter(char **argv);
/* Makes one of about so many bytes and mounts it at path, which is made. False, with *ret_why, where
 * this machine cannot. */
bool disk_make(struct disk *d, enum disk_kind kind, const char *path, uint64_t bytes,
               const char **ret_why);
void disk_drop(struct disk *d);
/* Takes all room of the disk into a file of that name but about `leave` bytes. False: it failed. */
bool disk_eat(const char *path, const char *name, uint64_t leave);
void disk_give_back(const char *path, const char *name);

#endif
