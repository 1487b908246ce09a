/* storedir_support.h - what the two tests of store directories share. */
#ifndef SEAM_TESTS_STOREDIR_SUPPORT_H
#define SEAM_TESTS_STOREDIR_SUPPORT_H

#include "files_support.h"
#include "storedir.h"

extern const struct seam_platform *sd_os; /* the system's */
extern char *sd_base;                     /* a temporary directory */
extern char *sd_dir;                      /* sd_base/store; made by who needs it */

int sd_setup(void **state);
int sd_teardown(void **state);
int sd_open_as(const struct seam_platform *with, enum seam_open_mode mode, const char *engine,
               uint32_t format, struct seam_storedir **ret, struct seam_err *err);
/* Opens to the end, as db.c does: the engine makes one file. */
int sd_open_whole(const struct seam_platform *with, enum seam_open_mode mode,
                  struct seam_storedir **ret, struct seam_err *err);
/* Creates or opens, and closes. */
void sd_make_store(void);
/* Opening fails with this code and a text that holds `part`, and the tree stays as it is. */
void sd_refused_as(enum seam_open_mode mode, const char *engine, uint32_t format, int code,
                   const char *part);
void sd_refused(enum seam_open_mode mode, int code, const char *part);
void sd_refused_by_all(int code, const char *part);
/* Of a name in the store's directory. */
unsigned sd_mode_of(const char *name);
void sd_remove_in(const char *name);

#endif
