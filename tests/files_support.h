/* files_support.h - what the tests of files share: a temporary directory, the picture of a tree to
 * compare before and after, and a platform table that fails where it is told to. */
#ifndef SEAM_TESTS_FILES_SUPPORT_H
#define SEAM_TESTS_FILES_SUPPORT_H

#include <seam/platform.h>

/* A new directory of mode 0700, as an absolute path; free with files_remove. */
char *files_temp(void);
/* Removes the tree and frees the path. */
void files_remove(char *path);
/* path/name, malloced. */
char *files_join(const char *path, const char *name);
void files_write(const char *dir, const char *name, const void *bytes, size_t len);
/* Everything below path: names, kinds, modes, contents, sorted, one line each; malloced. */
char *files_picture(const char *path);

/* Counts the calls that touch files or chance; those from call number `from` on, at most `n` of
 * them, fail with -code. Closing always closes. */
struct files_fault {
    struct seam_platform table; /* hand this in; ctx is the struct itself */
    const struct seam_platform *real;
    uint64_t calls, from, n;
    int code;
    bool read_only; /* each call that would write fails with -EROFS */
};

void files_fault_init(struct files_fault *fault);

#endif
