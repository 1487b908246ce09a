/* seam_support.h - what the tests of journal and projection share: a store that can be reopened.
 *
 * Relies on the engine being named on the command line. A volatile engine keeps its db over
 * store_reopen, since it would forget everything. */
#ifndef SEAM_TEST_SUPPORT_H
#define SEAM_TEST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <seam/backend.h>
#include <seam/journal.h>
#include <seam/projection.h>

#include <stdio.h>
#include <string.h>

struct store {
    char engine[96];
    char dir[64];
    bool is_volatile;
    struct seam_options options;
    struct seam_db *db;
};

/* Prints the error of a failed call before it fails the test. */
#define ok(call, err)                                                                              \
    do {                                                                                           \
        int ok_rc = (call);                                                                        \
        if (ok_rc != SEAM_OK)                                                                      \
            print_message("%s: %s\n", seam_code_name(ok_rc), (err).text);                          \
        assert_int_equal(ok_rc, SEAM_OK);                                                          \
    } while (0)

/* "" or "limit:ops=40+" before the engine's name. */
void store_open(struct store *s, const char *wrap, const char *engine,
                const struct seam_backend *const *extra);
/* Closes and opens the db, where it keeps anything. */
void store_reopen(struct store *s);
void store_close(struct store *s);
void remove_tree(const char *dir);
/* Opens a store that another process made, as store_open did there. */
void store_attach(struct store *s, const char *engine, const char *dir);
/* Runs this program anew with args ("child", ...) and its standard output at a pipe, of which
 * *ret_out is the other end: a process without this one's threads. */
int spawn_child(const char *const *args, int *ret_out);

struct seam_slice text(const char *s);
/* The strongest ack the db gives. */
uint32_t best_ack(const struct seam_db *db);
/* xorshift, never 0. */
uint64_t next_random(uint64_t *state);
/* From SEAM_SEED, else from the clock; printed. */
uint64_t test_seed(void);

/* Raw keys of a journal without a prefix. */
struct raw_key {
    uint8_t bytes[16];
    size_t len;
};

struct raw_key raw_event(uint32_t stream, uint64_t sequence);
struct raw_key raw_group(uint64_t number);
/* Reads, changes, deletes behind the journal's back. */
size_t raw_get(struct seam_db *db, struct raw_key key, uint8_t *buf, size_t cap);
void raw_put(struct seam_db *db, struct raw_key key, const void *bytes, size_t len);
void raw_delete(struct seam_db *db, struct raw_key key);

/* Journals of these tests; each call must succeed. */
void journal_open(struct store *s, struct seam_journal **ret);
void journal_close(struct seam_journal *j);
uint32_t journal_stream(struct seam_journal *j, const char *name);
struct seam_append journal_append(struct seam_journal *j, uint32_t stream, const char *data);
uint64_t journal_last(struct seam_journal *j, uint32_t stream);
/* Reads all from `from`; returns how many, or the code if negative. */
long journal_read_all(struct seam_journal *j, uint32_t stream, uint64_t from, struct seam_err *err);

#endif
