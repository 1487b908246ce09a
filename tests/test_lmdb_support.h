/* test_lmdb_support.h - what the tests of the LMDB engine share: a directory for each test, short
 * forms of the public calls, and the engine opened without the library above it.
 *
 * Relies on support.h; what fails in here fails the test. */
#ifndef SEAM_TEST_LMDB_SUPPORT_H
#define SEAM_TEST_LMDB_SUPPORT_H

#include "lmdb_private.h"
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATH_ROOM 512

struct room {
    char dir[PATH_ROOM];       /* made, empty */
    char store[PATH_ROOM + 8]; /* dir/s, not made */
    char data[PATH_ROOM + 32]; /* dir/s/engine/data.mdb */
    char lock[PATH_ROOM + 32]; /* dir/s/engine/lock.mdb */
    char copy[PATH_ROOM + 8];  /* dir/copy, not made */
};

int room_make(void **state);
int room_remove(void **state);
#define ROOM_TEST(test) cmocka_unit_test_setup_teardown(test, room_make, room_remove)

uint64_t file_size(const char *path);
void copy_file(const char *from, const char *to);

struct seam_slice str(const char *s);
struct seam_op put_op(const char *k, const char *v);
struct seam_db *make(const char *spec, const char *dir);
struct seam_acked must_put(struct seam_db *db, const char *k, const char *v, uint32_t ack);
bool has(struct seam_db *db, const char *k, const char *v);

/* The engine by its table: in the room's directory, with small settings, newly made. */
struct bare {
    struct lmdb_engine *e;
    int dir;
    uint8_t uuid[16];
    uint64_t settings[5];
};
void bare_open(struct bare *b, const struct room *r, const struct seam_platform *os, uint64_t disk);
void bare_close(struct bare *b);
int bare_prepare(struct bare *b, struct seam_commit *c, const struct seam_op *ops, size_t n,
                 enum seam_ack ack);
bool bare_has(struct bare *b, const char *k);

#endif
