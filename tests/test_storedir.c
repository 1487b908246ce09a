/* test_storedir.c - the rules of a store's directory: what is made, what is refused and leaves the
 * tree as it was, who is locked out. */
#include "storedir_support.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- the good way ------------------------------------------------------------------------ */

static void make_and_open(void **state)
{
    (void)state;
    struct seam_storedir *sd = NULL;
    struct seam_err err;
    mode_t old = umask(0);
    assert_int_equal(sd_open_as(sd_os, SEAM_OPEN_NEW, "toy", 3, &sd, &err), SEAM_OK);
    assert_true(seam_storedir_fresh(sd));
    assert_non_null(strstr(seam_storedir_path(sd), "store/engine.new"));
    const char *fresh_path = seam_storedir_path(sd);
    int fd = seam_storedir_dir(sd);
    assert_int_equal(seam_storedir_made(sd, &err), SEAM_OK);
    umask(old);
    assert_false(seam_storedir_fresh(sd));
    assert_int_equal(seam_storedir_dir(sd), fd);
    assert_non_null(strstr(seam_storedir_path(sd), "store/engine"));
    assert_null(strstr(seam_storedir_path(sd), "engine.new"));
    assert_non_null(strstr(fresh_path, "engine.new")); /* still valid */
    assert_int_equal(seam_storedir_epoch(sd), 1);
    assert_int_equal(seam_storedir_barrier(sd, &err), SEAM_OK);
    uint8_t uuid[16];
    memcpy(uuid, seam_storedir_uuid(sd), 16);
    seam_storedir_close(sd);
    seam_storedir_close(NULL);
    assert_int_equal(sd_mode_of("."), 0700);
    assert_int_equal(sd_mode_of("engine"), 0700);
    assert_int_equal(sd_mode_of("STORE"), 0600);
    assert_int_equal(sd_mode_of("EPOCH"), 0600);
    assert_int_equal(sd_mode_of("LOCK"), 0600);
    for (uint64_t epoch = 2; epoch < 6; epoch++) {
        assert_int_equal(sd_open_whole(sd_os, SEAM_OPEN_EXISTING, &sd, &err), SEAM_OK);
        assert_false(seam_storedir_fresh(sd));
        assert_int_equal(seam_storedir_epoch(sd), epoch);
        assert_memory_equal(seam_storedir_uuid(sd), uuid, 16);
        seam_storedir_close(sd);
    }
    char *before = files_picture(sd_base);
    assert_int_equal(sd_open_whole(sd_os, SEAM_OPEN_READ_ONLY, &sd, &err), SEAM_OK);
    assert_int_equal(seam_storedir_epoch(sd), 5);
    seam_storedir_close(sd);
    char *after = files_picture(sd_base);
    assert_string_equal(before, after);
    free(before);
    free(after);
    assert_int_equal(sd_open_whole(sd_os, SEAM_OPEN_CREATE, &sd, &err), SEAM_OK);
    assert_int_equal(seam_storedir_epoch(sd), 6);
    seam_storedir_close(sd);
    sd_refused(SEAM_OPEN_NEW, SEAM_E_EXISTS, sd_dir);
}

/* Slashes at the end, dots, relative paths; none. */
static void odd_paths(void **state)
{
    (void)state;
    char *plain = sd_dir;
    char slashes[4096], dotted[4096];
    (void)snprintf(slashes, sizeof slashes, "%s///", plain);
    (void)snprintf(dotted, sizeof dotted, "%s/.", plain);
    sd_dir = slashes;
    sd_make_store();
    sd_dir = dotted;
    sd_make_store();
    int here = open(".", O_RDONLY | O_DIRECTORY);
    assert_int_equal(chdir(sd_base), 0);
    sd_dir = (char[]){"relative"};
    sd_make_store();
    assert_int_equal(chdir("relative"), 0);
    sd_dir = (char[]){"."};
    sd_make_store();
    assert_int_equal(fchdir(here), 0);
    (void)close(here);
    sd_dir = plain;
    sd_refused_as(SEAM_OPEN_NEW, "toy", 3, SEAM_E_EXISTS, "store");
    sd_dir = (char[]){""};
    sd_refused(SEAM_OPEN_CREATE, SEAM_E_NO_STORE, "name one");
    sd_dir = NULL;
    sd_refused(SEAM_OPEN_CREATE, SEAM_E_NO_STORE, "name one");
    sd_dir = plain;
}

/* ---- what is refused --------------------------------------------------------------------- */

static void missing(void **state)
{
    (void)state;
    sd_refused(SEAM_OPEN_EXISTING, SEAM_E_NO_STORE, "mode create");
    sd_refused(SEAM_OPEN_READ_ONLY, SEAM_E_NO_STORE, "mode create");
    char *plain = sd_dir;
    sd_dir = files_join(plain, "below");
    sd_refused(SEAM_OPEN_CREATE, SEAM_E_NO_STORE, plain);
    sd_refused(SEAM_OPEN_NEW, SEAM_E_NO_STORE, plain);
    sd_refused(SEAM_OPEN_EXISTING, SEAM_E_NO_STORE, sd_dir);
    free(sd_dir);
    sd_dir = plain;
}

static void not_a_directory(void **state)
{
    (void)state;
    files_write(sd_base, "store", "x", 1);
    sd_refused_by_all(SEAM_E_NO_STORE, "is not a directory");
    char *plain = sd_dir;
    sd_dir = files_join(plain, "below");
    sd_refused_by_all(SEAM_E_NO_STORE, "is not a directory");
    free(sd_dir);
    sd_dir = plain;
    assert_int_equal(unlink(sd_dir), 0);
    char *real = files_join(sd_base, "real");
    assert_int_equal(mkdir(real, 0700), 0);
    assert_int_equal(symlink(real, sd_dir), 0);
    sd_refused_by_all(SEAM_E_NO_STORE, "symbolic link");
    free(real);
}

static void empty_directory(void **state)
{
    (void)state;
    assert_int_equal(mkdir(sd_dir, 0700), 0);
    sd_refused(SEAM_OPEN_EXISTING, SEAM_E_NO_STORE, "is empty");
    sd_refused(SEAM_OPEN_READ_ONLY, SEAM_E_NO_STORE, "is empty");
    sd_make_store();
}

static void foreign_files(void **state)
{
    (void)state;
    assert_int_equal(mkdir(sd_dir, 0700), 0);
    files_write(sd_dir, "letter.txt", "dear", 4);
    sd_refused_by_all(SEAM_E_NO_STORE, "not a Seam store and not empty");
    files_write(sd_dir, "LOCK", "", 0); /* as LevelDB and its like have */
    files_write(sd_dir, "EPOCH", "", 0);
    sd_refused_by_all(SEAM_E_NO_STORE, "letter.txt");
    sd_remove_in("letter.txt");
    files_write(sd_dir, ".hidden", "", 0);
    sd_refused_by_all(SEAM_E_NO_STORE, ".hidden");
}

static void files_beside_a_store_are_left_alone(void **state)
{
    (void)state;
    struct seam_storedir *sd = NULL;
    sd_make_store();
    files_write(sd_dir, "letter.txt", "dear", 4);
    assert_int_equal(sd_open_whole(sd_os, SEAM_OPEN_CREATE, &sd, NULL), SEAM_OK);
    seam_storedir_close(sd);
    assert_int_equal(sd_mode_of("letter.txt") & 0400, 0400);
}

static void loose_modes(void **state)
{
    (void)state;
    sd_make_store();
    static const mode_t modes[] = {0720, 0702, 0777, 01777};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(chmod(sd_dir, modes[i]), 0);
        sd_refused_by_all(SEAM_E_PERMISSION, "chmod go-w");
    }
    assert_int_equal(chmod(sd_dir, 0755), 0);
    sd_refused(SEAM_OPEN_NEW, SEAM_E_EXISTS, sd_dir);
    sd_make_store();
}

/* Runs fn as a user who is nobody here; true if it could be run and ended well. */
static int as_nobody(int (*fn)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(setgid(65534) != 0 || setuid(65534) != 0 ? 99 : fn());
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

static int nobody_opens(void)
{
    struct seam_storedir *sd = NULL;
    struct seam_err err;
    for (int mode = SEAM_OPEN_EXISTING; mode <= SEAM_OPEN_READ_ONLY; mode++)
        if (sd_open_as(sd_os, (enum seam_open_mode)mode, "toy", 3, &sd, &err) != SEAM_E_PERMISSION)
            return 1;
    return 0;
}

static int nobody_creates(void)
{
    struct seam_storedir *sd = NULL;
    return sd_open_as(sd_os, SEAM_OPEN_CREATE, "toy", 3, &sd, NULL) == SEAM_E_PERMISSION ? 0 : 1;
}

static void other_users(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("not root: other users were not tried\n");
        skip();
    }
    assert_int_equal(chmod(sd_base, 0755), 0);
    sd_make_store();
    assert_int_equal(as_nobody(nobody_opens), 0); /* 0700 of root */
    assert_int_equal(chown(sd_dir, 12345, 12345), 0);
    assert_int_equal(chmod(sd_dir, 0755), 0);
    assert_int_equal(as_nobody(nobody_opens), 0); /* foreign */
    sd_make_store();                              /* root may: it is as strong as the owner */
    /* where nobody may not make a directory */
    char *plain = sd_dir;
    sd_dir = files_join(sd_base, "below");
    char *before = files_picture(sd_base);
    assert_int_equal(as_nobody(nobody_creates), 0);
    char *after = files_picture(sd_base);
    assert_string_equal(before, after);
    free(before);
    free(after);
    free(sd_dir);
    sd_dir = plain;
}

static void read_only_file_system(void **state)
{
    (void)state;
    struct files_fault fault;
    struct seam_storedir *sd = NULL;
    struct seam_err err;
    files_fault_init(&fault);
    fault.read_only = true;
    char *before = files_picture(sd_base);
    assert_int_equal(sd_open_as(&fault.table, SEAM_OPEN_CREATE, "toy", 3, &sd, &err),
                     SEAM_E_READ_ONLY);
    char *after = files_picture(sd_base);
    assert_string_equal(before, after);
    free(before);
    free(after);
    sd_make_store();
    before = files_picture(sd_base);
    assert_int_equal(sd_open_as(&fault.table, SEAM_OPEN_CREATE, "toy", 3, &sd, &err),
                     SEAM_E_READ_ONLY);
    assert_int_equal(sd_open_as(&fault.table, SEAM_OPEN_EXISTING, "toy", 3, &sd, &err),
                     SEAM_E_READ_ONLY);
    assert_int_equal(sd_open_whole(&fault.table, SEAM_OPEN_READ_ONLY, &sd, &err), SEAM_OK);
    seam_storedir_close(sd);
    after = files_picture(sd_base);
    assert_string_equal(before, after);
    free(before);
    free(after);
}

static void mismatch(void **state)
{
    (void)state;
    sd_make_store();
    sd_refused_as(SEAM_OPEN_CREATE, "other", 3, SEAM_E_MISMATCH, "engine toy, not of other");
    sd_refused_as(SEAM_OPEN_READ_ONLY, "other", 3, SEAM_E_MISMATCH, "engine toy, not of other");
    sd_refused_as(SEAM_OPEN_EXISTING, "toy", 4, SEAM_E_MISMATCH, "format 3 of the engine toy");
}

static void busy(void **state)
{
    (void)state;
    struct seam_storedir *a = NULL, *b = NULL;
    sd_make_store();
    assert_int_equal(sd_open_whole(sd_os, SEAM_OPEN_EXISTING, &a, NULL), SEAM_OK);
    sd_refused(SEAM_OPEN_EXISTING, SEAM_E_BUSY, "open already");
    sd_refused(SEAM_OPEN_CREATE, SEAM_E_BUSY, "open already");
    sd_refused(SEAM_OPEN_READ_ONLY, SEAM_E_BUSY, "open already");
    seam_storedir_close(a);
    assert_int_equal(sd_open_whole(sd_os, SEAM_OPEN_READ_ONLY, &a, NULL), SEAM_OK);
    assert_int_equal(sd_open_whole(sd_os, SEAM_OPEN_READ_ONLY, &b, NULL), SEAM_OK);
    sd_refused(SEAM_OPEN_EXISTING, SEAM_E_BUSY, "open already");
    seam_storedir_close(a);
    sd_refused(SEAM_OPEN_EXISTING, SEAM_E_BUSY, "open already");
    seam_storedir_close(b);
    sd_make_store();
}

/* While one creates, another is told so, and takes nothing away. */
static void busy_while_creating(void **state)
{
    (void)state;
    struct seam_storedir *a = NULL;
    assert_int_equal(sd_open_as(sd_os, SEAM_OPEN_CREATE, "toy", 3, &a, NULL), SEAM_OK);
    sd_refused_by_all(SEAM_E_BUSY, "open already");
    seam_storedir_close(a); /* never made: undone */
    assert_int_not_equal(access(sd_dir, F_OK), 0);
}

static int busy_in_child(void)
{
    struct seam_storedir *sd = NULL;
    return sd_open_as(sd_os, SEAM_OPEN_EXISTING, "toy", 3, &sd, NULL) == SEAM_E_BUSY ? 0 : 1;
}

static void busy_in_two_processes(void **state)
{
    (void)state;
    struct seam_storedir *a = NULL;
    int go[2];
    assert_int_equal(pipe(go), 0);
    pid_t pid = fork(); /* before the open: else the child would hold the lock too */
    assert_true(pid >= 0);
    if (pid == 0) {
        char c;
        _exit(read(go[0], &c, 1) == 1 ? busy_in_child() : 2);
    }
    assert_int_equal(sd_open_whole(sd_os, SEAM_OPEN_CREATE, &a, NULL), SEAM_OK);
    assert_int_equal(write(go[1], "g", 1), 1);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    seam_storedir_close(a);
    (void)close(go[0]);
    (void)close(go[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(make_and_open, sd_setup, sd_teardown),
        cmocka_unit_test_setup_teardown(odd_paths, sd_setup, sd_teardown),
        cmocka_unit_test_setup_teardown(missing, sd_setup, sd_teardown),
        cmocka_unit_test_setup_teardown(not_a_directory, sd_setup, sd_teardown),
        cmocka_unit_test_setup_teardown(empty_directory, sd_setup, sd_teardown),
        cmocka_unit_test_setup_teardown(foreign_files, sd_setup, sd_teardown),
        cmocka_unit_test_setup_teardown(files_beside_a_store_are_left_alone, sd_setup, sd_teardown),
        cmocka_unit_test_setup_teardown(loose_modes, sd_setup, sd_teardown),
        cmocka_unit_test_setup_teardown(other_users, sd_setup, sd_teardown),
        cmocka_unit_test_setup_teardown(read_only_file_system, sd_setup, sd_teardown),
        cmocka_unit_test_setup_teardown(mismatch, sd_setup, sd_teardown),
        cmocka_unit_test_setup_teardown(busy, sd_setup, sd_teardown),
        cmocka_unit_test_setup_teardown(busy_while_creating, sd_setup, sd_teardown),
        cmocka_unit_test_setup_teardown(busy_in_two_processes, sd_setup, sd_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
