/* environment_private.h - shared by environment.c and device.c: small files of the kernel's. */
#ifndef SEAM_BENCH_ENVIRONMENT_PRIVATE_H
#define SEAM_BENCH_ENVIRONMENT_PRIVATE_H

#include "environment.h"

/* The first line of a file, without its end; "" if it cannot be read. */
void seam_environment_line(const char *path, char *ret, size_t cap);
/* A whole number alone in a file; -1 if it is not there. */
int64_t seam_environment_number(const char *path);
/* Copies, cut at cap. */
void seam_environment_copy(char *ret, size_t cap, const char *text);

/* Fills what depends on the directory. */
void seam_environment_device(const char *dir, struct seam_environment *ret);

#endif
