/* test_storedir.c - the rules of a store's directory, each with the tree pictured before and after;
 * the death of a creation at every step; every single failure undone. */
#include "files_support.h"
#include "storedir.h"
#include "storefile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct seam_platform *os;
static char *base; /* a temporary directory */
static char *dir;  /* base/store; made by who needs it */

static int setup(void **state)
{
    (void)state;
    os = seam_platform_system();
    base = files_temp();
    dir = files_join(base, "store");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(dir);
    files_remove(base);
    return 0;
}

static int open_as(const struct seam_platform *with, enum seam_open_mode mode, const char *engine,
                   uint32_t format, struct seam_storedir **ret, struct seam_err *err)
{
    return seam_storedir_open(with, dir, mode, engine, format, ret, err);
}

/* Opens to the end, as db.c does: the engine makes one file. */
static int open_whole(const struct seam_platform *with, enum seam_open_mode mode,
                      struct seam_storedir **ret, struct seam_err *err)
{
    struct seam_storedir *sd = NULL;
    int rc = open_as(with, mode, "toy", 3, &sd, err);
    if (rc != SEAM_OK)
        return rc;
    if (seam_storedir_fresh(sd)) {
        int fd = with->open(with->ctx, seam_storedir_dir(sd), "data",
                            SEAM_FILE_WRITE | SEAM_FILE_CREATE | SEAM_FILE_NEW);
        if (fd < 0)
            rc = seam_fail_os(err, -fd, "toy");
        else
            (void)with->close(with->ctx, fd);
        if (rc == SEAM_OK)
            rc = seam_storedir_made(sd, err);
    }
    if (rc == SEAM_OK)
        rc = seam_storedir_barrier(sd, err);
    if (rc == SEAM_OK)
        *ret = sd;
    else
        seam_storedir_close(sd);
    return rc;
}

static void make_store(void)
{
    struct seam_storedir *sd = NULL;
    struct seam_err err;
    int rc = open_whole(os, SEAM_OPEN_CREATE, &sd, &err);
    if (rc != SEAM_OK)
        print_message("%s\n", err.text);
    assert_int_equal(rc, SEAM_OK);
    seam_storedir_close(sd);
}

/* Opening fails with this code and a text that holds `part`, and the tree stays as it is. */
static void refused_as(enum seam_open_mode mode, const char *engine, uint32_t format, int code,
                       const char *part)
{
    struct seam_storedir *sd = NULL;
    struct seam_err err;
    memset(&err, 0, sizeof err);
    char *before = files_picture(base);
    int rc = open_as(os, mode, engine, format, &sd, &err);
    char *after = files_picture(base);
    if (rc != code || !strstr(err.text, part))
        print_message("%s: %s\n", seam_code_name(rc), err.text);
    assert_int_equal(rc, code);
    assert_int_equal(err.code, code);
    assert_null(sd);
    assert_non_null(strstr(err.text, part));
    assert_string_equal(before, after);
    free(before);
    free(after);
}

static void refused(enum seam_open_mode mode, int code, const char *part)
{
    refused_as(mode, "toy", 3, code, part);
}

static void refused_by_all(int code, const char *part)
{
    for (int mode = SEAM_OPEN_EXISTING; mode <= SEAM_OPEN_READ_ONLY; mode++)
        refused((enum seam_open_mode)mode, code, part);
}

static unsigned mode_of(const char *name)
{
    struct stat st;
    char *path = files_join(dir, name);
    assert_int_equal(stat(path, &st), 0);
    free(path);
    return st.st_mode & 07777u;
}

static void remove_in(const char *name)
{
    char *path = files_join(dir, name);
    assert_int_equal(remove(path), 0);
    free(path);
}

/* ---- the good way ------------------------------------------------------------------------ */

static void make_and_open(void **state)
{
    (void)state;
    struct seam_storedir *sd = NULL;
    struct seam_err err;
    mode_t old = umask(0);
    assert_int_equal(open_as(os, SEAM_OPEN_NEW, "toy", 3, &sd, &err), SEAM_OK);
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
    assert_int_equal(mode_of("."), 0700);
    assert_int_equal(mode_of("engine"), 0700);
    assert_int_equal(mode_of("STORE"), 0600);
    assert_int_equal(mode_of("EPOCH"), 0600);
    assert_int_equal(mode_of("LOCK"), 0600);
    for (uint64_t epoch = 2; epoch < 6; epoch++) {
        assert_int_equal(open_whole(os, SEAM_OPEN_EXISTING, &sd, &err), SEAM_OK);
        assert_false(seam_storedir_fresh(sd));
        assert_int_equal(seam_storedir_epoch(sd), epoch);
        assert_memory_equal(seam_storedir_uuid(sd), uuid, 16);
        seam_storedir_close(sd);
    }
    char *before = files_picture(base);
    assert_int_equal(open_whole(os, SEAM_OPEN_READ_ONLY, &sd, &err), SEAM_OK);
    assert_int_equal(seam_storedir_epoch(sd), 5);
    seam_storedir_close(sd);
    char *after = files_picture(base);
    assert_string_equal(before, after);
    free(before);
    free(after);
    assert_int_equal(open_whole(os, SEAM_OPEN_CREATE, &sd, &err), SEAM_OK);
    assert_int_equal(seam_storedir_epoch(sd), 6);
    seam_storedir_close(sd);
    refused(SEAM_OPEN_NEW, SEAM_E_EXISTS, dir);
}

/* Slashes at the end, dots, relative paths; none. */
static void odd_paths(void **state)
{
    (void)state;
    char *plain = dir;
    char slashes[4096], dotted[4096];
    (void)snprintf(slashes, sizeof slashes, "%s///", plain);
    (void)snprintf(dotted, sizeof dotted, "%s/.", plain);
    dir = slashes;
    make_store();
    dir = dotted;
    make_store();
    int here = open(".", O_RDONLY | O_DIRECTORY);
    assert_int_equal(chdir(base), 0);
    dir = (char[]){"relative"};
    make_store();
    assert_int_equal(chdir("relative"), 0);
    dir = (char[]){"."};
    make_store();
    assert_int_equal(fchdir(here), 0);
    (void)close(here);
    dir = plain;
    refused_as(SEAM_OPEN_NEW, "toy", 3, SEAM_E_EXISTS, "store");
    dir = (char[]){""};
    refused(SEAM_OPEN_CREATE, SEAM_E_NO_STORE, "name one");
    dir = NULL;
    refused(SEAM_OPEN_CREATE, SEAM_E_NO_STORE, "name one");
    dir = plain;
}

/* ---- what is refused --------------------------------------------------------------------- */

static void missing(void **state)
{
    (void)state;
    refused(SEAM_OPEN_EXISTING, SEAM_E_NO_STORE, "mode create");
    refused(SEAM_OPEN_READ_ONLY, SEAM_E_NO_STORE, "mode create");
    char *plain = dir;
    dir = files_join(plain, "below");
    refused(SEAM_OPEN_CREATE, SEAM_E_NO_STORE, plain);
    refused(SEAM_OPEN_NEW, SEAM_E_NO_STORE, plain);
    refused(SEAM_OPEN_EXISTING, SEAM_E_NO_STORE, dir);
    free(dir);
    dir = plain;
}

static void not_a_directory(void **state)
{
    (void)state;
    files_write(base, "store", "x", 1);
    refused_by_all(SEAM_E_NO_STORE, "is not a directory");
    char *plain = dir;
    dir = files_join(plain, "below");
    refused_by_all(SEAM_E_NO_STORE, "is not a directory");
    free(dir);
    dir = plain;
    assert_int_equal(unlink(dir), 0);
    char *real = files_join(base, "real");
    assert_int_equal(mkdir(real, 0700), 0);
    assert_int_equal(symlink(real, dir), 0);
    refused_by_all(SEAM_E_NO_STORE, "symbolic link");
    free(real);
}

static void empty_directory(void **state)
{
    (void)state;
    assert_int_equal(mkdir(dir, 0700), 0);
    refused(SEAM_OPEN_EXISTING, SEAM_E_NO_STORE, "is empty");
    refused(SEAM_OPEN_READ_ONLY, SEAM_E_NO_STORE, "is empty");
    make_store();
}

static void foreign_files(void **state)
{
    (void)state;
    assert_int_equal(mkdir(dir, 0700), 0);
    files_write(dir, "letter.txt", "dear", 4);
    refused_by_all(SEAM_E_NO_STORE, "not a Seam store and not empty");
    files_write(dir, "LOCK", "", 0); /* as LevelDB and its like have */
    files_write(dir, "EPOCH", "", 0);
    refused_by_all(SEAM_E_NO_STORE, "letter.txt");
    remove_in("letter.txt");
    files_write(dir, ".hidden", "", 0);
    refused_by_all(SEAM_E_NO_STORE, ".hidden");
}

static void files_beside_a_store_are_left_alone(void **state)
{
    (void)state;
    struct seam_storedir *sd = NULL;
    make_store();
    files_write(dir, "letter.txt", "dear", 4);
    assert_int_equal(open_whole(os, SEAM_OPEN_CREATE, &sd, NULL), SEAM_OK);
    seam_storedir_close(sd);
    assert_int_equal(mode_of("letter.txt") & 0400, 0400);
}

static void loose_modes(void **state)
{
    (void)state;
    make_store();
    static const mode_t modes[] = {0720, 0702, 0777, 01777};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(chmod(dir, modes[i]), 0);
        refused_by_all(SEAM_E_PERMISSION, "chmod go-w");
    }
    assert_int_equal(chmod(dir, 0755), 0);
    refused(SEAM_OPEN_NEW, SEAM_E_EXISTS, dir);
    make_store();
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
        if (open_as(os, (enum seam_open_mode)mode, "toy", 3, &sd, &err) != SEAM_E_PERMISSION)
            return 1;
    return 0;
}

static void other_users(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("not root: other users were not tried\n");
        skip();
    }
    assert_int_equal(chmod(base, 0755), 0);
    make_store();
    char *before = files_picture(base);
    assert_int_equal(as_nobody(nobody_opens), 0); /* 0700 of root */
    assert_int_equal(chown(dir, 12345, 12345), 0);
    assert_int_equal(chmod(dir, 0755), 0);
    assert_int_equal(as_nobody(nobody_opens), 0); /* foreign */
    assert_int_equal(chmod(dir, 0700), 0);
    make_store(); /* root may: it is as strong as the owner */
    assert_int_equal(chown(dir, 0, 0), 0);
    char *after = files_picture(base);
    assert_non_null(before);
    free(before);
    free(after);
    /* an empty directory that may not be written, and one whose parent may not */
    remove_in("STORE");
    char *plain = dir;
    dir = files_join(base, "below");
    before = files_picture(base);
    assert_int_equal(as_nobody(nobody_opens), 1); /* existing: there is none */
    after = files_picture(base);
    assert_string_equal(before, after);
    free(before);
    free(after);
    free(dir);
    dir = plain;
}

static void read_only_file_system(void **state)
{
    (void)state;
    struct files_fault fault;
    struct seam_storedir *sd = NULL;
    struct seam_err err;
    files_fault_init(&fault);
    fault.read_only = true;
    char *before = files_picture(base);
    assert_int_equal(open_as(&fault.table, SEAM_OPEN_CREATE, "toy", 3, &sd, &err), SEAM_E_READ_ONLY);
    char *after = files_picture(base);
    assert_string_equal(before, after);
    free(before);
    free(after);
    make_store();
    before = files_picture(base);
    assert_int_equal(open_as(&fault.table, SEAM_OPEN_CREATE, "toy", 3, &sd, &err), SEAM_E_READ_ONLY);
    assert_int_equal(open_as(&fault.table, SEAM_OPEN_EXISTING, "toy", 3, &sd, &err),
                     SEAM_E_READ_ONLY);
    assert_int_equal(open_whole(&fault.table, SEAM_OPEN_READ_ONLY, &sd, &err), SEAM_OK);
    seam_storedir_close(sd);
    after = files_picture(base);
    assert_string_equal(before, after);
    free(before);
    free(after);
}

static void mismatch(void **state)
{
    (void)state;
    make_store();
    refused_as(SEAM_OPEN_CREATE, "other", 3, SEAM_E_MISMATCH, "engine toy, not of other");
    refused_as(SEAM_OPEN_READ_ONLY, "other", 3, SEAM_E_MISMATCH, "engine toy, not of other");
    refused_as(SEAM_OPEN_EXISTING, "toy", 4, SEAM_E_MISMATCH, "format 3 of the engine toy");
}

static void busy(void **state)
{
    (void)state;
    struct seam_storedir *a = NULL, *b = NULL;
    make_store();
    assert_int_equal(open_whole(os, SEAM_OPEN_EXISTING, &a, NULL), SEAM_OK);
    refused(SEAM_OPEN_EXISTING, SEAM_E_BUSY, "open already");
    refused(SEAM_OPEN_CREATE, SEAM_E_BUSY, "open already");
    refused(SEAM_OPEN_READ_ONLY, SEAM_E_BUSY, "open already");
    seam_storedir_close(a);
    assert_int_equal(open_whole(os, SEAM_OPEN_READ_ONLY, &a, NULL), SEAM_OK);
    assert_int_equal(open_whole(os, SEAM_OPEN_READ_ONLY, &b, NULL), SEAM_OK);
    refused(SEAM_OPEN_EXISTING, SEAM_E_BUSY, "open already");
    seam_storedir_close(a);
    refused(SEAM_OPEN_EXISTING, SEAM_E_BUSY, "open already");
    seam_storedir_close(b);
    make_store();
}

/* While one creates, another is told so, and takes nothing away. */
static void busy_while_creating(void **state)
{
    (void)state;
    struct seam_storedir *a = NULL;
    assert_int_equal(open_as(os, SEAM_OPEN_CREATE, "toy", 3, &a, NULL), SEAM_OK);
    refused_by_all(SEAM_E_BUSY, "open already");
    seam_storedir_close(a); /* never made: undone */
    assert_int_not_equal(access(dir, F_OK), 0);
}

static int busy_in_child(void)
{
    struct seam_storedir *sd = NULL;
    return open_as(os, SEAM_OPEN_EXISTING, "toy", 3, &sd, NULL) == SEAM_E_BUSY ? 0 : 1;
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
    assert_int_equal(open_whole(os, SEAM_OPEN_CREATE, &a, NULL), SEAM_OK);
    assert_int_equal(write(go[1], "g", 1), 1);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    seam_storedir_close(a);
    (void)close(go[0]);
    (void)close(go[1]);
}

/* ---- damage ------------------------------------------------------------------------------ */

static void missing_parts(void **state)
{
    (void)state;
    make_store();
    remove_in("engine/data");
    remove_in("engine");
    refused(SEAM_OPEN_EXISTING, SEAM_E_CORRUPT, "store/engine is missing");
    refused(SEAM_OPEN_CREATE, SEAM_E_CORRUPT, "store/engine is missing");
    refused(SEAM_OPEN_READ_ONLY, SEAM_E_CORRUPT, "store/engine is missing");
    files_write(dir, "engine", "", 0);
    refused(SEAM_OPEN_CREATE, SEAM_E_CORRUPT, "is not a directory");
    remove_in("engine");
    char *path = files_join(dir, "engine");
    assert_int_equal(mkdir(path, 0700), 0);
    free(path);
    remove_in("EPOCH");
    refused(SEAM_OPEN_CREATE, SEAM_E_CORRUPT, "EPOCH is missing");
    refused(SEAM_OPEN_READ_ONLY, SEAM_E_CORRUPT, "EPOCH is missing");
}

/* STORE lost from a store that was used: nothing of it may be taken for a half-made one. */
static void lost_store_file(void **state)
{
    (void)state;
    make_store();
    remove_in("STORE");
    refused(SEAM_OPEN_CREATE, SEAM_E_CORRUPT, "STORE is missing");
    refused(SEAM_OPEN_NEW, SEAM_E_CORRUPT, "STORE is missing");
    refused(SEAM_OPEN_EXISTING, SEAM_E_NO_STORE, "interrupted");
    remove_in("EPOCH");
    refused(SEAM_OPEN_CREATE, SEAM_E_CORRUPT, "STORE is missing");
    files_write(dir, "EPOCH", "short", 5);
    refused(SEAM_OPEN_CREATE, SEAM_E_CORRUPT, "STORE is missing");
}

static void lost_lock_file(void **state)
{
    (void)state;
    make_store();
    remove_in("LOCK");
    refused(SEAM_OPEN_READ_ONLY, SEAM_E_CORRUPT, "LOCK is missing");
    refused_as(SEAM_OPEN_EXISTING, "other", 3, SEAM_E_MISMATCH, "toy");
    make_store();
    assert_int_equal(mode_of("LOCK"), 0600);
}

static size_t read_file(const char *name, uint8_t *buf, size_t cap)
{
    char *path = files_join(dir, name);
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
    int rc = open_as(os, SEAM_OPEN_READ_ONLY, "toy", 3, &sd, err);
    seam_storedir_close(sd);
    return rc;
}

static void every_byte_of_store(void **state)
{
    (void)state;
    uint8_t text[8192], bad[8192];
    struct seam_err err;
    make_store();
    size_t len = read_file("STORE", text, sizeof text);
    assert_true(len > 60 && len < 400);
    assert_memory_equal(text, "seam-store 1\nkind=db\nengine=toy\nformat=3\nuuid=", 46);
    for (size_t i = 0; i < len; i++)
        for (unsigned bit = 0; bit < 8; bit++) {
            memcpy(bad, text, len);
            bad[i] = (uint8_t)(bad[i] ^ 1u << bit);
            files_write(dir, "STORE", bad, len);
            assert_int_equal(try_open(&err), SEAM_E_CORRUPT);
            assert_non_null(strstr(err.text, "STORE"));
        }
    for (size_t cut = 0; cut < len; cut++) {
        files_write(dir, "STORE", text, cut);
        assert_int_equal(try_open(&err), SEAM_E_CORRUPT);
    }
    memset(bad, 'x', sizeof bad);
    memcpy(bad, text, len);
    files_write(dir, "STORE", bad, len + 1);
    assert_int_equal(try_open(&err), SEAM_E_CORRUPT);
    files_write(dir, "STORE", bad, 4097);
    assert_int_equal(try_open(&err), SEAM_E_CORRUPT);
    refused(SEAM_OPEN_EXISTING, SEAM_E_CORRUPT, "STORE");
    refused(SEAM_OPEN_CREATE, SEAM_E_CORRUPT, "STORE"); /* and no new one in its place */
    refused(SEAM_OPEN_NEW, SEAM_E_EXISTS, dir);
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
        int n = snprintf(text, sizeof text, "%s%s%s", cases[i].head, bare ? "" : uuid,
                         cases[i].tail);
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
    make_store();
    make_store(); /* epochs 1 and 2 */
    assert_int_equal(read_file("EPOCH", good, sizeof good), 8192);
    for (size_t i = 0; i < 8192; i += i % 4096 < 40 || i % 4096 > 4080 ? 1 : 97) {
        memcpy(bad, good, sizeof bad);
        bad[i] ^= 0x10;
        files_write(dir, "EPOCH", bad, sizeof bad);
        assert_int_equal(open_as(os, SEAM_OPEN_READ_ONLY, "toy", 3, &sd, &err), SEAM_OK);
        uint64_t left = seam_storedir_epoch(sd);
        seam_storedir_close(sd);
        assert_true(left == 1 || left == 2);
        /* whichever it was, the next one is above both */
        assert_int_equal(open_whole(os, SEAM_OPEN_EXISTING, &sd, &err), SEAM_OK);
        assert_int_equal(seam_storedir_epoch(sd), left + 2);
        seam_storedir_close(sd);
        assert_int_equal(open_whole(os, SEAM_OPEN_EXISTING, &sd, &err), SEAM_OK);
        assert_int_equal(seam_storedir_epoch(sd), left + 3);
        seam_storedir_close(sd);
    }
    memcpy(bad, good, sizeof bad);
    bad[30] ^= 1;
    bad[4096 + 30] ^= 1;
    files_write(dir, "EPOCH", bad, sizeof bad);
    refused(SEAM_OPEN_EXISTING, SEAM_E_CORRUPT, "EPOCH is damaged");
    files_write(dir, "EPOCH", good, 8191);
    refused(SEAM_OPEN_EXISTING, SEAM_E_CORRUPT, "EPOCH is damaged");
    files_write(dir, "EPOCH", "", 0);
    refused(SEAM_OPEN_READ_ONLY, SEAM_E_CORRUPT, "EPOCH is damaged");
    memset(bad, 0, sizeof bad);
    files_write(dir, "EPOCH", bad, sizeof bad);
    refused(SEAM_OPEN_EXISTING, SEAM_E_CORRUPT, "EPOCH is damaged");
}

/* Another store's EPOCH does not pass. */
static void swapped_epoch(void **state)
{
    (void)state;
    uint8_t other[8192];
    make_store();
    assert_int_equal(read_file("EPOCH", other, sizeof other), 8192);
    char *plain = dir;
    dir = files_join(base, "second");
    make_store();
    files_write(dir, "EPOCH", other, sizeof other);
    refused(SEAM_OPEN_EXISTING, SEAM_E_CORRUPT, "another store's");
    free(dir);
    dir = plain;
}

static void planted_links(void **state)
{
    (void)state;
    static const char *const names[] = {"STORE", "EPOCH", "LOCK"};
    make_store();
    files_write(base, "victim", "v", 1);
    for (size_t i = 0; i < 3; i++) {
        char *path = files_join(dir, names[i]), *aside = files_join(base, "aside");
        assert_int_equal(rename(path, aside), 0);
        char *victim = files_join(base, "victim");
        assert_int_equal(symlink(victim, path), 0);
        refused(SEAM_OPEN_EXISTING, SEAM_E_CORRUPT, names[i]);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(link(aside, path), 0);
        refused(SEAM_OPEN_EXISTING, SEAM_E_CORRUPT, names[i]);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(rename(aside, path), 0);
        free(path);
        free(aside);
        free(victim);
    }
    make_store();
}

/* ---- half-made stores -------------------------------------------------------------------- */

static void leftovers(void **state)
{
    (void)state;
    struct seam_storedir *sd = NULL;
    assert_int_equal(mkdir(dir, 0700), 0);
    files_write(dir, "LOCK", "", 0);
    files_write(dir, "STORE.new", "half", 4);
    files_write(dir, "EPOCH.new", "half", 4);
    char *path = files_join(dir, "engine.new");
    assert_int_equal(mkdir(path, 0700), 0);
    for (int i = 0; i < 100; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "file%d", i);
        files_write(path, name, "x", 1);
    }
    char *sub = files_join(path, "sub");
    assert_int_equal(mkdir(sub, 0700), 0);
    files_write(sub, "deep", "x", 1);
    refused(SEAM_OPEN_EXISTING, SEAM_E_NO_STORE, "interrupted");
    refused(SEAM_OPEN_READ_ONLY, SEAM_E_NO_STORE, "interrupted");
    struct seam_err err;
    assert_int_equal(open_as(os, SEAM_OPEN_CREATE, "toy", 3, &sd, &err), SEAM_E_NO_STORE);
    assert_non_null(strstr(err.text, "engine.new"));
    char *deep = files_join(sub, "deep");
    assert_int_equal(unlink(deep), 0); /* the two levels are nothing Seam makes; now there is one */
    assert_int_equal(open_whole(os, SEAM_OPEN_NEW, &sd, &err), SEAM_OK);
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
        free(dir);
        dir = files_join(base, name);
        if (made_dir)
            assert_int_equal(mkdir(dir, 0700), 0);
        struct files_fault fault;
        struct seam_storedir *sd = NULL;
        files_fault_init(&fault);
        fault.from = n;
        fault.n = UINT64_MAX;
        int rc = open_whole(&fault.table, SEAM_OPEN_CREATE, &sd, NULL);
        bool done = rc == SEAM_OK && fault.calls <= n;
        seam_storedir_close(sd);
        struct seam_err err;
        struct seam_storedir *again = NULL;
        int existing = open_whole(os, SEAM_OPEN_EXISTING, &again, &err);
        seam_storedir_close(again);
        if (existing != SEAM_OK && existing != SEAM_E_NO_STORE)
            print_message("killed at %d: %s\n", (int)n, err.text);
        assert_true(existing == SEAM_OK || existing == SEAM_E_NO_STORE);
        assert_true(rc != SEAM_OK || existing == SEAM_OK);
        rc = open_whole(os, SEAM_OPEN_CREATE, &sd, &err);
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
                (void)open_whole(&fault.table, SEAM_OPEN_CREATE, &sd, NULL);
                seam_storedir_close(sd);
            }
            sd = NULL;
            int rc = open_whole(os, SEAM_OPEN_CREATE, &sd, &err);
            if (rc != SEAM_OK)
                print_message("killed at %d, %d: %s\n", (int)first, (int)second, err.text);
            assert_int_equal(rc, SEAM_OK);
            seam_storedir_close(sd);
            char name[32];
            (void)snprintf(name, sizeof name, "next%d-%d", (int)first, (int)second);
            free(dir);
            dir = files_join(base, name);
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
            char *before = files_picture(base);
            files_fault_init(&fault);
            fault.from = n;
            fault.n = 1;
            fault.code = codes[c];
            int rc = open_whole(&fault.table, SEAM_OPEN_CREATE, &sd, &err);
            seam_storedir_close(sd);
            char *after = files_picture(base);
            /* the barrier comes after the creation: the store stays then */
            bool made = strstr(after, "/STORE ") != NULL;
            if (rc != SEAM_OK && !made && strcmp(before, after) != 0)
                print_message("failure at %d: %s\n%s", (int)n, err.text, after);
            assert_true(rc == SEAM_OK || made || strcmp(before, after) == 0);
            free(before);
            free(after);
            if (made) {
                make_store();
                static const char *const names[] = {"engine/data", "engine", "STORE", "EPOCH",
                                                    "LOCK", "."};
                for (size_t i = 0; i < 5; i++)
                    remove_in(names[i]);
                assert_int_equal(rmdir(dir), 0);
            }
            if (rc == SEAM_OK && fault.calls <= n)
                break;
        }
}

/* The same for a store that is there. */
static void failures_of_an_open(void **state)
{
    (void)state;
    make_store();
    for (uint64_t n = 0;; n++) {
        assert_true(n < 100);
        struct files_fault fault;
        struct seam_storedir *sd = NULL;
        struct seam_err err;
        char *before = files_picture(base);
        files_fault_init(&fault);
        fault.from = n;
        fault.n = UINT64_MAX;
        int rc = open_as(&fault.table, SEAM_OPEN_CREATE, "toy", 3, &sd, &err);
        uint64_t calls = fault.calls;
        seam_storedir_close(sd);
        char *after = files_picture(base);
        assert_string_equal(before, after);
        free(before);
        free(after);
        if (rc == SEAM_OK && calls <= n)
            break;
        make_store();
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(make_and_open),       T(odd_paths),          T(missing),
        T(not_a_directory),     T(empty_directory),    T(foreign_files),
        T(files_beside_a_store_are_left_alone),        T(loose_modes),
        T(other_users),         T(read_only_file_system), T(mismatch),
        T(busy),                T(busy_while_creating), T(busy_in_two_processes),
        T(missing_parts),       T(lost_store_file),    T(lost_lock_file),
        T(every_byte_of_store), T(other_store_texts),  T(damaged_epochs),
        T(swapped_epoch),       T(planted_links),      T(leftovers),
        T(killed_while_creating), T(killed_while_cleaning), T(single_failures_are_undone),
        T(failures_of_an_open),
    };
#undef T
    return cmocka_run_group_tests(tests, NULL, NULL);
}
