/* strace_count.h - runs a program under strace with the flush counter loaded, and counts the calls
 * that strace saw on a store's files by the same classes. */
#ifndef SEAM_TESTS_STRACE_COUNT_H
#define SEAM_TESTS_STRACE_COUNT_H

#include "flushcount.h"

#include <stdbool.h>
#include <stddef.h>

/* NULL, or why strace cannot be used here. Static. */
const char *strace_missing(void);

/* Runs argv (NULL-terminated) with the object preloaded and the two variables set; under strace,
 * which writes to `trace`, if trace is not NULL. What it prints is kept in ret_text. Returns its
 * exit code, -1 if it did not end by itself. */
int strace_run(const char *const *argv, const char *object, const char *dir, const char *page,
               const char *trace, char *ret_text, size_t cap);

/* Counts what `trace` says of files under the resolved directory `store`: calls, bytes, failed. Of
 * failed, only calls that the counter knows. without: names of files whose writes are left out (a
 * stream's), or NULL. ret_uring: whether io_uring was set up. False: the file cannot be read. */
bool strace_count(const char *trace, const char *store, const char *without,
                  struct seam_flushcount *ret, bool *ret_uring);

#endif
