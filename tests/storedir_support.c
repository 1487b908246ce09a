/* storedir_support.c - see storedir_support.h. */
#include "storedir_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

const struct seam_platform *sd_os;
char *sd_base, *sd_dir;

int sd_setup(void **state)
{
    (void)state;
    sd_os = seam_platform_system();
    sd_base = files_temp();
    sd_dir = files_join(sd_base, "store");
    return 0;
}

int sd_teardown(void **state)
{
    (void)state;
    free(sd_dir);
    files_remove(sd_base);
    return 0;
}

int sd_open_as(const struct seam_platform *with, enum seam_open_mode mode, const char *engine,
               uint32_t format, struct seam_storedir **ret, struct seam_err *err)
{
    return seam_storedir_open(with, sd_dir, mode, engine, format, ret, err);
}

/* Opens to the end, as db.c does: the engine makes one file. */
int sd_open_whole(const struct seam_platform *with, enum seam_open_mode mode,
                  struct seam_storedir **ret, struct seam_err *err)
{
    struct seam_storedir *sd = NULL;
    int rc = sd_open_as(with, mode, "toy", 3, &sd, err);
    if (rc != SEAM_OK)
        return rc;
    if (seam_storedir_fresh(sd)) {
        int fd = with->open(with->ctx, seam_storedir_dir(sd), "data",
                            SEAM_FILE_WRITE | SEAM_FILE_CREATE | SEAM_FILE_NEW);
        if (fd < 0)
            rc = seam_fail_os(err, -fd, "toy");
        else
            (void)with->close(with->ctx, fd);
        if (rc == SEAM_OK)
            rc = seam_storedir_made(sd, err);
    }
    if (rc == SEAM_OK)
        rc = seam_storedir_barrier(sd, err);
    if (rc == SEAM_OK)
        *ret = sd;
    else
        seam_storedir_close(sd);
    return rc;
}

void sd_make_store(void)
{
    struct seam_storedir *sd = NULL;
    struct seam_err err;
    int rc = sd_open_whole(sd_os, SEAM_OPEN_CREATE, &sd, &err);
    if (rc != SEAM_OK)
        print_message("%s\n", err.text);
    assert_int_equal(rc, SEAM_OK);
    seam_storedir_close(sd);
}

/* Opening fails with this code and a text that holds `part`, and the tree stays as it is. */
void sd_refused_as(enum seam_open_mode mode, const char *engine, uint32_t format, int code,
                   const char *part)
{
    struct seam_storedir *sd = NULL;
    struct seam_err err;
    memset(&err, 0, sizeof err);
    char *before = files_picture(sd_base);
    int rc = sd_open_as(sd_os, mode, engine, format, &sd, &err);
    char *after = files_picture(sd_base);
    if (rc != code || !strstr(err.text, part))
        print_message("%s: %s\n", seam_code_name(rc), err.text);
    assert_int_equal(rc, code);
    assert_int_equal(err.code, code);
    assert_null(sd);
    assert_non_null(strstr(err.text, part));
    assert_string_equal(before, after);
    free(before);
    free(after);
}

void sd_refused(enum seam_open_mode mode, int code, const char *part)
{
    sd_refused_as(mode, "toy", 3, code, part);
}

void sd_refused_by_all(int code, const char *part)
{
    for (int mode = SEAM_OPEN_EXISTING; mode <= SEAM_OPEN_READ_ONLY; mode++)
        sd_refused((enum seam_open_mode)mode, code, part);
}

unsigned sd_mode_of(const char *name)
{
    struct stat st;
    char *path = files_join(sd_dir, name);
    assert_int_equal(stat(path, &st), 0);
    free(path);
    return st.st_mode & 07777u;
}

void sd_remove_in(const char *name)
{
    char *path = files_join(sd_dir, name);
    assert_int_equal(remove(path), 0);
    free(path);
}
