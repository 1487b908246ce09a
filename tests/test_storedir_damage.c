/* test_storedir_damage.c - a store's directory under damage: lost and flipped bytes, lost files,
 * planted links, the death of a creation at every step, every single failure undone. */
#include "storedir_support.h"
#include "storefile.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- damage ------------------------------------------------------------------------------ */

static void missing_parts(void **state)
{
    (void)state;
    sd_make_store();
    sd_remove_in("engine/data");
    sd_remove_in("engine");
    sd_refused(SEAM_OPEN_EXISTING, SEAM_E_CORRUPT, "store/engine is missing");
    sd_refused(SEAM_OPEN_CREATE, SEAM_E_CORRUPT, "store/engine is missing");
    sd_refused(SEAM_OPEN_READ_ONLY, SEAM_E_CORRUPT, "store/engine is missing");
    files_write(sd_dir, "engine", "", 0);
    sd_refused(SEAM_OPEN_CREATE, SEAM_E_CORRUPT, "is not a directory");
    sd_remove_in("engine");
    char *path = files_join(sd_dir, "engine");
    assert_int_equal(mkdir(path, 0700), 0);
    free(path);
    sd_remove_in("EPOCH");
    sd_refused(SEAM_OPEN_CREATE, SEAM_E_CORRUPT, "EPOCH is missing");
    sd_refused(SEAM_OPEN_READ_ONLY, SEAM_E_CORRUPT, "EPOCH is missing");
}

/* STORE lost from a store that was used: nothing of it may be taken for a half-made one. */
static void lost_store_file(void **state)
{
    (void)state;
    sd_make_store();
    sd_remove_in("STORE");
    sd_refused_by_all(SEAM_E_CORRUPT, "STORE is missing");
    sd_remove_in("EPOCH");
    sd_refused_by_all(SEAM_E_CORRUPT, "STORE is missing");
    files_write(sd_dir, "EPOCH", "short", 5);
    sd_refused_by_all(SEAM_E_CORRUPT, "STORE is missing");
    sd_remove_in("LOCK");
    sd_refused_by_all(SEAM_E_CORRUPT, "STORE is missing");
}

static void lost_lock_file(void **state)
{
    (void)state;
    sd_make_store();
    sd_remove_in("LOCK");
    sd_refused(SEAM_OPEN_READ_ONLY, SEAM_E_CORRUPT, "LOCK is missing");
    sd_refused_as(SEAM_OPEN_EXISTING, "other", 3, SEAM_E_MISMATCH, "toy");
    sd_make_store();
    assert_int_equal(sd_mode_of("LOCK"), 0600);
}

static size_t read_file(const char *name, uint8_t *buf, size_t cap)
{
    char *path = files_join(sd_dir, name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t len = fread(buf, 1, cap, f);
    (void)fclose(f);
    free(path);
    return len;
}

static int try_open(struct seam_err *err)
{
    struct seam_storedir *sd = NULL;
    memset(err, 0, sizeof *err);
    int rc = sd_open_as(sd_os, SEAM_OPEN_READ_ONLY, "toy", 3, &sd, err);
    seam_storedir_close(sd);
    return rc;
}

static void every_byte_of_store(void **state)
{
    (void)state;
    uint8_t text[8192], bad[8192];
    struct seam_err err;
    sd_make_store();
    size_t len = read_file("STORE", text, sizeof text);
    assert_true(len > 60 && len < 400);
    assert_memory_equal(text, "seam-store 1\nkind=db\nengine=toy\nformat=3\nuuid=", 46);
    for (size_t i = 0; i < len; i++)
        for (unsigned bit = 0; bit < 8; bit++) {
            memcpy(bad, text, len);
            bad[i] = (uint8_t)(bad[i] ^ 1u << bit);
            files_write(sd_dir, "STORE", bad, len);
            assert_int_equal(try_open(&err), SEAM_E_CORRUPT);
            assert_non_null(strstr(err.text, "STORE"));
        }
    for (size_t cut = 0; cut < len; cut++) {
        files_write(sd_dir, "STORE", text, cut);
        assert_int_equal(try_open(&err), SEAM_E_CORRUPT);
    }
    memset(bad, 'x', sizeof bad);
    memcpy(bad, text, len);
    files_write(sd_dir, "STORE", bad, len + 1);
    assert_int_equal(try_open(&err), SEAM_E_CORRUPT);
    files_write(sd_dir, "STORE", bad, 4097);
    assert_int_equal(try_open(&err), SEAM_E_CORRUPT);
    sd_refused(SEAM_OPEN_EXISTING, SEAM_E_CORRUPT, "STORE");
    sd_refused(SEAM_OPEN_CREATE, SEAM_E_CORRUPT, "STORE"); /* and no new one in its place */
    sd_refused(SEAM_OPEN_NEW, SEAM_E_EXISTS, sd_dir);
}

/* Whole files, with a right checksum, that are not what this version writes. */
static void other_store_texts(void **state)
{
    (void)state;
    static const char uuid[] = "uuid=00112233445566778899aabbccddeeff\n";
    static const struct {
        const char *head, *tail;
        int code;
        const char *part;
    } cases[] = {
        {"seam-store 1\nkind=db\nengine=toy\nformat=3\n", "created=5\n", SEAM_OK, ""},
        {"seam-store 2\nwhatever=1\n", "", SEAM_E_MISMATCH, "version 2"},
        {"seam-store 1\nkind=journal\nengine=toy\nformat=3\n", "created=5\n", SEAM_E_MISMATCH,
         "kind journal"},
        {"seam-store 1\nkind=journal\nmembers=2\n", "", SEAM_E_MISMATCH, "kind journal"},
        {"seam-store 01\nkind=db\nengine=toy\nformat=3\n", "created=5\n", SEAM_E_CORRUPT, "STORE"},
        {"seam-store 1\nkind=db\nengine=toy\nformat=03\n", "created=5\n", SEAM_E_CORRUPT, "STORE"},
        {"seam-store 1\nkind=db\nengine=toy\nformat=4294967296\n", "created=5\n", SEAM_E_CORRUPT,
         "STORE"},
        {"seam-store 1\nkind=db\nengine=toy\nformat=3\n", "created=99999999999999999999\n",
         SEAM_E_CORRUPT, "STORE"},
        {"seam-store 1\nkind=db\nengine=To y\nformat=3\n", "created=5\n", SEAM_E_CORRUPT, "STORE"},
        {"seam-store 1\nkind=db\nengine=\nformat=3\n", "created=5\n", SEAM_E_CORRUPT, "STORE"},
        {"seam-store 1\nkind=db\nformat=3\nengine=toy\n", "created=5\n", SEAM_E_CORRUPT, "STORE"},
        {"seam-store 1\nkind=db\nengine=toy\nformat=3\n", "created=5\nmore=1\n", SEAM_E_CORRUPT,
         "STORE"},
        {"seam-store 1\r\nkind=db\nengine=toy\nformat=3\n", "created=5\n", SEAM_E_CORRUPT, "STORE"},
        {"not a store\n", "", SEAM_E_CORRUPT, "STORE"},
        {"", "", SEAM_E_CORRUPT, "STORE"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        struct seam_storefile store;
        struct seam_err err;
        memset(&err, 0, sizeof err);
        bool bare = cases[i].tail[0] == 0;
        int n =
            snprintf(text, sizeof text, "%s%s%s", cases[i].head, bare ? "" : uuid, cases[i].tail);
        n += snprintf(text + n, sizeof text - (size_t)n, "crc=%08x\n",
                      seam_crc32c(0, text, (size_t)n));
        int rc = seam_storefile_parse(text, (size_t)n, "D", &store, &err);
        if (rc != cases[i].code)
            print_message("case %zu: %s\n", i, err.text);
        assert_int_equal(rc, cases[i].code);
        assert_non_null(strstr(err.text, cases[i].part));
    }
}

static void damaged_epochs(void **state)
{
    (void)state;
    uint8_t good[8192], bad[8192];
    struct seam_err err;
    struct seam_storedir *sd = NULL;
    sd_make_store();
    sd_make_store(); /* epochs 1 and 2 */
    assert_int_equal(read_file("EPOCH", good, sizeof good), 8192);
    for (size_t i = 0; i < 8192; i += i % 4096 < 40 || i % 4096 > 4080 ? 1 : 97) {
        memcpy(bad, good, sizeof bad);
        bad[i] ^= 0x10;
        files_write(sd_dir, "EPOCH", bad, sizeof bad);
        assert_int_equal(sd_open_as(sd_os, SEAM_OPEN_READ_ONLY, "toy", 3, &sd, &err), SEAM_OK);
        uint64_t left = seam_storedir_epoch(sd);
        seam_storedir_close(sd);
        assert_true(left == 1 || left == 2);
        /* whichever it was, the next one is above both */
        assert_int_equal(sd_open_whole(sd_os, SEAM_OPEN_EXISTING, &sd, &err), SEAM_OK);
        assert_int_equal(seam_storedir_epoch(sd), left + 2);
        seam_storedir_close(sd);
        assert_int_equal(sd_open_whole(sd_os, SEAM_OPEN_EXISTING, &sd, &err), SEAM_OK);
        assert_int_equal(seam_storedir_epoch(sd), left + 3);
        seam_storedir_close(sd);
    }
    memcpy(bad, good, sizeof bad);
    bad[30] ^= 1;
    bad[4096 + 30] ^= 1;
    files_write(sd_dir, "EPOCH", bad, sizeof bad);
    sd_refused(SEAM_OPEN_EXISTING, SEAM_E_CORRUPT, "EPOCH is damaged");
    files_write(sd_dir, "EPOCH", good, 8191);
    sd_refused(SEAM_OPEN_EXISTING, SEAM_E_CORRUPT, "EPOCH is damaged");
    files_write(sd_dir, "EPOCH", "", 0);
    sd_refused(SEAM_OPEN_READ_ONLY, SEAM_E_CORRUPT, "EPOCH is damaged");
    memset(bad, 0, sizeof bad);
    files_write(sd_dir, "EPOCH", bad, sizeof bad);
    sd_refused(SEAM_OPEN_EXISTING, SEAM_E_CORRUPT, "EPOCH is damaged");
}

/* Another store's EPOCH does not pass. */
static void swapped_epoch(void **state)
{
    (void)state;
    uint8_t other[8192];
    sd_make_store();
    assert_int_equal(read_file("EPOCH", other, sizeof other), 8192);
    char *plain = sd_dir;
    sd_dir = files_join(sd_base, "second");
    sd_make_store();
    files_write(sd_dir, "EPOCH", other, sizeof other);
    sd_refused(SEAM_OPEN_EXISTING, SEAM_E_CORRUPT, "another store's");
    free(sd_dir);
    sd_dir = plain;
}

static void planted_links(void **state)
{
    (void)state;
    static const char *const names[] = {"STORE", "EPOCH", "LOCK"};
    sd_make_store();
    files_write(sd_base, "victim", "v", 1);
    for (size_t i = 0; i < 3; i++) {
        char *path = files_join(sd_dir, names[i]), *aside = files_join(sd_base, "aside");
        assert_int_equal(rename(path, aside), 0);
        char *victim = files_join(sd_base, "victim");
        assert_int_equal(symlink(victim, path), 0);
        sd_refused(SEAM_OPEN_EXISTING, SEAM_E_CORRUPT, names[i]);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(link(aside, path), 0);
        sd_refused(SEAM_OPEN_EXISTING, SEAM_E_CORRUPT, names[i]);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(rename(aside, path), 0);
        free(path);
        free(aside);
        free(victim);
    }
    sd_make_store();
}

/* ---- half-made stores -------------------------------------------------------------------- */

static void leftovers(void **state)
{
    (void)state;
    struct seam_storedir *sd = NULL;
    assert_int_equal(mkdir(sd_dir, 0700), 0);
    files_write(sd_dir, "LOCK", "", 0);
    files_write(sd_dir, "STORE.new", "half", 4);
    files_write(sd_dir, "EPOCH.new", "half", 4);
    char *path = files_join(sd_dir, "engine.new");
    assert_int_equal(mkdir(path, 0700), 0);
    for (int i = 0; i < 100; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "file%d", i);
        files_write(path, name, "x", 1);
    }
    char *sub = files_join(path, "sub");
    assert_int_equal(mkdir(sub, 0700), 0);
    files_write(sub, "deep", "x", 1);
    sd_refused(SEAM_OPEN_EXISTING, SEAM_E_NO_STORE, "interrupted");
    sd_refused(SEAM_OPEN_READ_ONLY, SEAM_E_NO_STORE, "interrupted");
    struct seam_err err;
    assert_int_equal(sd_open_as(sd_os, SEAM_OPEN_CREATE, "toy", 3, &sd, &err), SEAM_E_NO_STORE);
    assert_non_null(strstr(err.text, "engine.new"));
    char *deep = files_join(sub, "deep");
    assert_int_equal(unlink(deep), 0); /* the two levels are nothing Seam makes; now there is one */
    assert_int_equal(sd_open_whole(sd_os, SEAM_OPEN_NEW, &sd, &err), SEAM_OK);
    seam_storedir_close(sd);
    assert_int_not_equal(access(path, F_OK), 0);
    free(deep);
    free(sub);
    free(path);
}

/* A kill at step n: from the nth call on nothing reaches the disk. Whatever was left, the store is
 * whole or not there, and the next create works. `half`: what the creation starts from. */
static void kill_at_every_step(bool made_dir)
{
    for (uint64_t n = 0;; n++) {
        assert_true(n < 500);
        char name[32];
        (void)snprintf(name, sizeof name, "kill%d-%d", made_dir, (int)n);
        free(sd_dir);
        sd_dir = files_join(sd_base, name);
        if (made_dir)
            assert_int_equal(mkdir(sd_dir, 0700), 0);
        struct files_fault fault;
        struct seam_storedir *sd = NULL;
        files_fault_init(&fault);
        fault.from = n;
        fault.n = UINT64_MAX;
        int rc = sd_open_whole(&fault.table, SEAM_OPEN_CREATE, &sd, NULL);
        bool done = rc == SEAM_OK && fault.calls <= n;
        seam_storedir_close(sd);
        struct seam_err err;
        struct seam_storedir *again = NULL;
        int existing = sd_open_whole(sd_os, SEAM_OPEN_EXISTING, &again, &err);
        seam_storedir_close(again);
        if (existing != SEAM_OK && existing != SEAM_E_NO_STORE)
            print_message("killed at %d: %s\n", (int)n, err.text);
        assert_true(existing == SEAM_OK || existing == SEAM_E_NO_STORE);
        assert_true(rc != SEAM_OK || existing == SEAM_OK);
        rc = sd_open_whole(sd_os, SEAM_OPEN_CREATE, &sd, &err);
        if (rc != SEAM_OK)
            print_message("killed at %d: %s\n", (int)n, err.text);
        assert_int_equal(rc, SEAM_OK);
        seam_storedir_close(sd);
        if (done)
            break;
    }
}

static void killed_while_creating(void **state)
{
    (void)state;
    kill_at_every_step(false);
    kill_at_every_step(true);
}

/* A second kill while what the first one left is being cleaned. */
static void killed_while_cleaning(void **state)
{
    (void)state;
    for (uint64_t first = 5; first < 60; first += 3)
        for (uint64_t second = 0; second < 40; second++) {
            struct files_fault fault;
            struct seam_storedir *sd = NULL;
            struct seam_err err;
            for (int i = 0; i < 2; i++) {
                files_fault_init(&fault);
                fault.from = i == 0 ? first : second;
                fault.n = UINT64_MAX;
                sd = NULL;
                (void)sd_open_whole(&fault.table, SEAM_OPEN_CREATE, &sd, NULL);
                seam_storedir_close(sd);
            }
            sd = NULL;
            int rc = sd_open_whole(sd_os, SEAM_OPEN_CREATE, &sd, &err);
            if (rc != SEAM_OK)
                print_message("killed at %d, %d: %s\n", (int)first, (int)second, err.text);
            assert_int_equal(rc, SEAM_OK);
            seam_storedir_close(sd);
            char name[32];
            (void)snprintf(name, sizeof name, "next%d-%d", (int)first, (int)second);
            free(sd_dir);
            sd_dir = files_join(sd_base, name);
        }
}

/* One call fails, all others work: the open fails and everything is as before, or it succeeds. */
static void single_failures_are_undone(void **state)
{
    (void)state;
    static const int codes[] = {EIO, ENOSPC, EACCES};
    for (size_t c = 0; c < 3; c++)
        for (uint64_t n = 0;; n++) {
            assert_true(n < 500);
            struct files_fault fault;
            struct seam_storedir *sd = NULL;
            struct seam_err err;
            char *before = files_picture(sd_base);
            files_fault_init(&fault);
            fault.from = n;
            fault.n = 1;
            fault.code = codes[c];
            int rc = sd_open_whole(&fault.table, SEAM_OPEN_CREATE, &sd, &err);
            seam_storedir_close(sd);
            char *after = files_picture(sd_base);
            bool made = strstr(after, "/STORE ") != NULL;
            if (rc != SEAM_OK && strcmp(before, after) != 0)
                print_message("failure at %d: %s\n%s", (int)n, err.text, after);
            assert_true(rc == SEAM_OK || strcmp(before, after) == 0);
            free(before);
            free(after);
            if (made) {
                sd_make_store();
                static const char *const names[] = {"engine/data", "engine", "STORE",
                                                    "EPOCH",       "LOCK",   "."};
                for (size_t i = 0; i < 5; i++)
                    sd_remove_in(names[i]);
                assert_int_equal(rmdir(sd_dir), 0);
            }
            if (rc == SEAM_OK && fault.calls <= n)
                break;
        }
}

/* The same for a store that is there. */
static void failures_of_an_open(void **state)
{
    (void)state;
    sd_make_store();
    for (uint64_t n = 0;; n++) {
        assert_true(n < 100);
        struct files_fault fault;
        struct seam_storedir *sd = NULL;
        struct seam_err err;
        char *before = files_picture(sd_base);
        files_fault_init(&fault);
        fault.from = n;
        fault.n = UINT64_MAX;
        int rc = sd_open_as(&fault.table, SEAM_OPEN_CREATE, "toy", 3, &sd, &err);
        uint64_t calls = fault.calls;
        seam_storedir_close(sd);
        char *after = files_picture(sd_base);
        assert_string_equal(before, after);
        free(before);
        free(after);
        if (rc == SEAM_OK && calls <= n)
            break;
        sd_make_store();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(missing_parts, sd_setup, sd_teardown),
        cmocka_unit_test_setup_teardown(lost_store_file, sd_setup, sd_teardown),
        cmocka_unit_test_setup_teardown(lost_lock_file, sd_setup, sd_teardown),
        cmocka_unit_test_setup_teardown(every_byte_of_store, sd_setup, sd_teardown),
        cmocka_unit_test_setup_teardown(other_store_texts, sd_setup, sd_teardown),
        cmocka_unit_test_setup_teardown(damaged_epochs, sd_setup, sd_teardown),
        cmocka_unit_test_setup_teardown(swapped_epoch, sd_setup, sd_teardown),
        cmocka_unit_test_setup_teardown(planted_links, sd_setup, sd_teardown),
        cmocka_unit_test_setup_teardown(leftovers, sd_setup, sd_teardown),
        cmocka_unit_test_setup_teardown(killed_while_creating, sd_setup, sd_teardown),
        cmocka_unit_test_setup_teardown(killed_while_cleaning, sd_setup, sd_teardown),
        cmocka_unit_test_setup_teardown(single_failures_are_undone, sd_setup, sd_teardown),
        cmocka_unit_test_setup_teardown(failures_of_an_open, sd_setup, sd_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
