/* full_disk.h - what the files of the full-disk test share. */
#ifndef SEAM_TESTS_FULL_DISK_H
#define SEAM_TESTS_FULL_DISK_H

#include "crash_support.h"

/* Children. What they tell, beside crash_support.h's: CRASH_INVOKED carries the unit's shape, its
 * seed in commit_no and value and ops in extra (value | ops << 32); CRASH_STEP a code and what of. */
enum full_step { FULL_OPEN = 1, FULL_CLOSE };

/* SPEC DIR MODE SEED MEMORY: opens and writes units until it is refused time and again. */
int full_child_fill(char **args);
/* SPEC DIR SEED MEMORY DISK: prepares units, takes all room of DISK away, commits them. */
int full_child_held(char **args);

#endif
