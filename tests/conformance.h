/* conformance.h - the groups of the conformance program; each returns how many tests failed. */
#ifndef SEAM_TEST_CONFORMANCE_H
#define SEAM_TEST_CONFORMANCE_H

#include "support.h"

int conformance_text(void);
int conformance_open(void);
int conformance_close(void);
int conformance_commit(void);
int conformance_ticket(void);
int conformance_limits(void);
int conformance_outcomes(void);
int conformance_read(void);
int conformance_floor(void);
int conformance_cursor(void);
int conformance_nomem(void);

/* The child process of "two processes on one store": opens dir in this mode, reads a key, closes;
 * the answer is the exit status, 0 or a code's absolute value. */
int conformance_child(const char *spec, const char *dir, const char *mode);

#endif
