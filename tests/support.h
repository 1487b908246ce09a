/* support.h - what the test programs share: the engine under test, directories, chance, and the
 * asserts that say what an engine answered.
 *
 * A program calls support_begin first. The asserts are cmocka's and so belong to the main thread;
 * other threads count what they find wrong. */
#ifndef SEAM_TEST_SUPPORT_H
#define SEAM_TEST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <seam/seam.h>

/* A slice of a literal, NUL bytes and all. */
#define LIT(s) seam_bytes(s, sizeof(s) - 1)
#define NONE seam_bytes(NULL, 0)

/* Parses "PROGRAM [ENGINE-SPEC]" (default: mem), takes the seed from SEAM_SEED or from the system
 * and prints both. Returns 0, or an exit status after it has said why: 77 for an engine that is not
 * built in. */
int support_begin(int argc, char **argv);

const char *support_spec(void);   /* as given on the command line */
const char *support_engine(void); /* its last layer, without options */
bool support_volatile(void);
uint64_t support_seed(void);
uint64_t support_number(const char *variable, uint64_t fallback); /* from the environment */
/* Of so many calls a search looks at one: SEAM_EVERY if it is set, else plain, and fewer in a build whose
 * sanitizer makes each look dear. */
uint32_t support_every(uint32_t plain);
bool support_has(const char *layer);                  /* an engine or wrapper that is built in */
bool support_tunes(const char *layer, const char *option);
/* printf into one of 8 buffers used in turn, for specs and texts in tests of one thread. */
const char *support_text(const char *format, ...) SEAM_PRINTF(1, 2);

/* A path that does not exist yet, in a directory that is removed at exit. */
const char *support_dir(void);
void support_remove(const char *path); /* with all that is in it */
/* A number that changes when any name, size, mode or byte below path does; 0 if there is none. */
uint64_t support_fingerprint(const char *path);

/* The spec under test, or another, in dir, made if need be. options may be NULL. */
struct seam_db *support_open(const char *dir);
struct seam_db *support_open_with(const char *spec, const char *dir,
                                  const struct seam_options *options);
void support_close(struct seam_db *db);

/* splitmix64: the same numbers everywhere for one seed. */
struct support_rng {
    uint64_t state;
};
uint64_t support_next(struct support_rng *rng);
uint64_t support_below(struct support_rng *rng, uint64_t n);
/* len bytes that follow from seed alone. */
void support_fill(void *buf, size_t len, uint64_t seed);

static inline struct seam_op op_put(struct seam_slice key, struct seam_slice value)
{
    struct seam_op op = {SEAM_PUT, key, value, {NULL, 0}};
    return op;
}

static inline struct seam_op op_put2(struct seam_slice key, struct seam_slice head,
                                     struct seam_slice body)
{
    struct seam_op op = {SEAM_PUT, key, head, body};
    return op;
}

static inline struct seam_op op_delete(struct seam_slice key)
{
    struct seam_op op = {SEAM_DELETE, key, {NULL, 0}, {NULL, 0}};
    return op;
}

static inline struct seam_op op_range(struct seam_slice begin, struct seam_slice end)
{
    struct seam_op op = {SEAM_DELETE_RANGE, begin, end, {NULL, 0}};
    return op;
}

/* Fails the test unless the code is `want`; shows the error's text. */
#define expect_code(got, want, err) support_expect_code(got, want, err, #got, __FILE__, __LINE__)
#define expect_ok(got, err) expect_code(got, SEAM_OK, err)
#define expect_bytes(got, want) support_expect_bytes(got, want, __FILE__, __LINE__)
/* key holds value at snap (NULL: now); or is not there. */
#define expect_holds(db, snap, key, value)                                                       \
    support_expect_holds(db, snap, key, value, __FILE__, __LINE__)
#define expect_absent(db, snap, key) support_expect_absent(db, snap, key, __FILE__, __LINE__)
/* One commit, at ack NONE. */
#define write_ok(db, ops, n) support_write_ok(db, ops, n, __FILE__, __LINE__)
#define put_ok(db, key, value) support_put_ok(db, key, value, __FILE__, __LINE__)
/* The keys of [NULL, NULL) at snap are exactly those of the space-separated list. */
#define expect_keys(db, snap, list) support_expect_keys(db, snap, list, __FILE__, __LINE__)

void support_expect_code(int got, int want, const struct seam_err *err, const char *what,
                         const char *file, int line);
void support_expect_bytes(struct seam_slice got, struct seam_slice want, const char *file,
                          int line);
void support_expect_holds(struct seam_db *db, struct seam_snap *snap, struct seam_slice key,
                          struct seam_slice value, const char *file, int line);
void support_expect_absent(struct seam_db *db, struct seam_snap *snap, struct seam_slice key,
                           const char *file, int line);
void support_write_ok(struct seam_db *db, const struct seam_op *ops, size_t n, const char *file,
                      int line);
void support_put_ok(struct seam_db *db, struct seam_slice key, struct seam_slice value,
                    const char *file, int line);
void support_expect_keys(struct seam_db *db, struct seam_snap *snap, const char *list,
                         const char *file, int line);
bool support_same(struct seam_slice a, struct seam_slice b);

#endif
