/* test_rocksdb_support.h - the engine's table called directly, without the library around it, over
 * a directory of its own and a platform table that can lie about space and memory. */
#ifndef SEAM_TEST_ROCKSDB_SUPPORT_H
#define SEAM_TEST_ROCKSDB_SUPPORT_H

#include <seam/backend.h>

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

extern const struct seam_backend seam_backend_rocksdb;

#define S(text) seam_bytes((text), sizeof(text) - 1)
#define NONE seam_bytes(NULL, 0)

struct fixture {
    struct seam_platform os; /* the system's, with space and alloc replaced */
    uint64_t space;          /* what space tells; UINT64_MAX: the truth */
    size_t alloc_most;       /* larger allocations fail */
    char path[64];
    int dir;
    uint64_t memory, disk;
    struct seam_engine *e;
    struct seam_err err;
};

struct fixture *fixture_new(const char *path); /* over an existing directory, not open */
int fixture_setup(void **state);    /* a new store, open */
int fixture_teardown(void **state);
/* Options as "name=number" pairs ended by NULL, in the option's own numbers. */
int fixture_open(struct fixture *f, bool create, bool read_only, const char *const *options);
int fixture_close(struct fixture *f);
int fixture_reopen(struct fixture *f, const char *const *options);

int commit(struct fixture *f, const struct seam_op *ops, size_t n, enum seam_ack ack,
           struct seam_acked *ret);
struct seam_op put(struct seam_slice key, struct seam_slice value);
struct seam_op del(struct seam_slice key);
struct seam_op del_range(struct seam_slice from, struct seam_slice to);
/* Copies the value to buf as a string: its length, or the (negative, or NOTFOUND + 1000) code. */
int get(struct fixture *f, struct seam_slice key, char *buf, size_t cap);
bool has(struct fixture *f, struct seam_slice key);
/* Files in the directory whose names end so; a sum over the names, sizes and times of all. */
size_t count_files(struct fixture *f, const char *ending);
uint64_t fingerprint(struct fixture *f);

int faults_tests(void);

#endif
