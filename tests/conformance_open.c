/* conformance_open.c - stores on disk: made whole, opened in each mode, by one process at a time,
 * and left alone when they cannot be opened. */
#include "conformance.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int open_in(const char *dir, enum seam_open_mode mode, struct seam_db **ret)
{
    struct seam_options o = {.mode = mode};
    struct seam_err err = {0};
    int rc = seam_open(support_spec(), dir, &o, ret, &err);

    assert_int_equal(rc, rc == SEAM_OK ? SEAM_OK : err.code);
    if (rc != SEAM_OK)
        assert_true(strlen(err.text) > 0);
    return rc;
}

/* Refused, and nothing on disk is another. */
static void expect_no_open(const char *dir, enum seam_open_mode mode, int code)
{
    uint64_t before = support_fingerprint(dir);
    struct seam_db *db = (struct seam_db *)(void *)&before;

    expect_code(open_in(dir, mode, &db), code, NULL);
    assert_ptr_equal(db, (void *)&before);
    assert_true(support_fingerprint(dir) == before);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* A store with the key "k", closed; NULL for a volatile engine. */
static const char *make_store(void)
{
    const char *dir = support_dir();
    struct seam_db *db;

    expect_ok(open_in(dir, SEAM_OPEN_CREATE, &db), NULL);
    put_ok(db, LIT("k"), LIT("v"));
    support_close(db);
    return dir;
}

static void only_on_disk(void)
{
    if (support_volatile())
        skip();
}

static void test_volatile(void **state)
{
    static const enum seam_open_mode modes[] = {SEAM_OPEN_EXISTING, SEAM_OPEN_CREATE,
                                                SEAM_OPEN_NEW};
    struct seam_db *db, *other;

    (void)state;
    if (!support_volatile())
        skip();
    for (size_t i = 0; i < 3; i++) {
        expect_ok(open_in(NULL, modes[i], &db), NULL);
        expect_ok(open_in(NULL, modes[i], &other), NULL);
        put_ok(db, LIT("k"), LIT("v"));
        expect_absent(other, NULL, LIT("k"));
        support_close(db);
        support_close(other);
    }
    expect_ok(seam_open(support_spec(), NULL, NULL, &db, NULL), NULL);
    expect_absent(db, NULL, LIT("k"));
    support_close(db);
}

static void test_modes(void **state)
{
    const char *dir = support_dir();
    struct seam_db *db;

    (void)state;
    only_on_disk();
    expect_no_open(dir, SEAM_OPEN_EXISTING, SEAM_E_NO_STORE);
    expect_no_open(dir, SEAM_OPEN_READ_ONLY, SEAM_E_NO_STORE);
    expect_no_open(support_text("%s/deeper", dir), SEAM_OPEN_EXISTING, SEAM_E_NO_STORE);
    expect_no_open(NULL, SEAM_OPEN_CREATE, SEAM_E_NO_STORE);
    expect_ok(open_in(dir, SEAM_OPEN_NEW, &db), NULL);
    put_ok(db, LIT("k"), LIT("v"));
    support_close(db);
    expect_no_open(dir, SEAM_OPEN_NEW, SEAM_E_EXISTS);
    expect_ok(open_in(dir, SEAM_OPEN_EXISTING, &db), NULL);
    expect_holds(db, NULL, LIT("k"), LIT("v"));
    support_close(db);
    expect_ok(open_in(dir, SEAM_OPEN_CREATE, &db), NULL);
    expect_holds(db, NULL, LIT("k"), LIT("v"));
    support_close(db);
    dir = support_dir();
    assert_int_equal(mkdir(dir, 0755), 0);
    expect_no_open(dir, SEAM_OPEN_EXISTING, SEAM_E_NO_STORE);
    expect_ok(open_in(dir, SEAM_OPEN_CREATE, &db), NULL);
    expect_keys(db, NULL, "");
    support_close(db);
}

static void test_reopen(void **state)
{
    const char *dir = support_dir();
    uint64_t epoch = 0;
    uint8_t uuid[16];
    struct seam_db *db;

    (void)state;
    only_on_disk();
    for (int i = 0; i < 5; i++) {
        int last = i - 1;
        expect_ok(open_in(dir, SEAM_OPEN_CREATE, &db), NULL);
        assert_true(seam_db_epoch(db) > epoch);
        epoch = seam_db_epoch(db);
        if (i > 0) {
            assert_memory_equal(uuid, seam_db_uuid(db), 16);
            expect_holds(db, NULL, LIT("last"), seam_bytes(&last, sizeof(last)));
        }
        memcpy(uuid, seam_db_uuid(db), 16);
        put_ok(db, LIT("last"), seam_bytes(&i, sizeof(i)));
        put_ok(db, seam_bytes(&i, sizeof(i)), LIT("v"));
        write_ok(db, (struct seam_op[]){op_delete(seam_bytes(&last, sizeof(last)))}, 1);
        support_close(db);
    }
    expect_ok(open_in(dir, SEAM_OPEN_READ_ONLY, &db), NULL);
    assert_int_equal(seam_db_epoch(db), epoch);
    expect_absent(db, NULL, seam_bytes((int[]){3}, sizeof(int)));
    expect_holds(db, NULL, seam_bytes((int[]){4}, sizeof(int)), LIT("v"));
    support_close(db);
}

static void test_not_a_store(void **state)
{
    const char *dir = support_dir(), *file = support_dir();
    struct seam_db *db = NULL;
    uint64_t before;

    (void)state;
    only_on_disk();
    assert_int_equal(mkdir(dir, 0700), 0);
    write_file(support_text("%s/letter.txt", dir), "not a store");
    expect_no_open(dir, SEAM_OPEN_EXISTING, SEAM_E_NO_STORE);
    expect_no_open(dir, SEAM_OPEN_READ_ONLY, SEAM_E_NO_STORE);
    before = support_fingerprint(dir);
    assert_true(open_in(dir, SEAM_OPEN_CREATE, &db) < 0);
    assert_true(open_in(dir, SEAM_OPEN_NEW, &db) < 0);
    assert_true(support_fingerprint(dir) == before);
    write_file(file, "a file");
    expect_no_open(file, SEAM_OPEN_EXISTING, SEAM_E_NO_STORE);
    before = support_fingerprint(file);
    assert_true(open_in(file, SEAM_OPEN_CREATE, &db) < 0);
    assert_true(support_fingerprint(file) == before);
}

static void test_corrupt_store_file(void **state)
{
    const char *dir;
    char path[400], kept[8192];
    struct seam_db *db;
    size_t len;
    FILE *f;

    (void)state;
    only_on_disk();
    dir = make_store();
    snprintf(path, sizeof(path), "%s/STORE", dir);
    f = fopen(path, "r+");
    assert_non_null(f);
    len = fread(kept, 1, sizeof(kept), f);
    assert_in_range(len, 1, sizeof(kept) - 1);
    for (size_t i = 0; i < len; i++) {
        uint64_t before;
        int rc;
        fseek(f, (long)i, SEEK_SET);
        fputc(kept[i] ^ 0x20, f);
        fflush(f);
        before = support_fingerprint(dir);
        rc = open_in(dir, SEAM_OPEN_EXISTING, &db);
        if (rc != SEAM_E_CORRUPT && rc != SEAM_E_MISMATCH)
            fail_msg("byte %zu of STORE changed: %s", i, seam_code_name(rc));
        assert_true(support_fingerprint(dir) == before);
        fseek(f, (long)i, SEEK_SET);
        fputc(kept[i], f);
        fflush(f);
    }
    for (size_t n = 0; n < len; n += 1 + len / 7) {
        assert_int_equal(truncate(path, (off_t)n), 0);
        expect_no_open(dir, SEAM_OPEN_EXISTING, SEAM_E_CORRUPT);
    }
    fclose(f);
    f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(kept, 1, len, f), len);
    fclose(f);
    expect_ok(open_in(dir, SEAM_OPEN_EXISTING, &db), NULL);
    expect_holds(db, NULL, LIT("k"), LIT("v"));
    support_close(db);
}

static void test_missing_engine_files(void **state)
{
    const char *dir;

    (void)state;
    only_on_disk();
    dir = make_store();
    support_remove(support_text("%s/engine", dir));
    for (int mode = SEAM_OPEN_EXISTING; mode <= SEAM_OPEN_READ_ONLY; mode++) {
        uint64_t before = support_fingerprint(dir);
        struct seam_db *db = NULL;
        assert_true(open_in(dir, (enum seam_open_mode)mode, &db) < 0);
        assert_true(support_fingerprint(dir) == before);
    }
}

static void test_other_engine(void **state)
{
    static const char *const engines[] = {"lmdb", "rocksdb"};
    struct seam_options o = {.mode = SEAM_OPEN_EXISTING};
    const char *dir;

    (void)state;
    only_on_disk();
    dir = make_store();
    for (size_t i = 0; i < 2; i++) {
        uint64_t before = support_fingerprint(dir);
        struct seam_db *db;
        struct seam_err err = {0};
        if (strcmp(engines[i], support_engine()) == 0 || !support_has(engines[i]))
            continue;
        expect_code(seam_open(engines[i], dir, &o, &db, &err), SEAM_E_MISMATCH, &err);
        assert_non_null(strstr(err.text, support_engine()));
        assert_true(support_fingerprint(dir) == before);
    }
}

/* ---- who may open -------------------------------------------------------------------------- */

int conformance_child(const char *spec, const char *dir, const char *mode)
{
    struct seam_options o = {.mode = strcmp(mode, "read_only") == 0 ? SEAM_OPEN_READ_ONLY
                                                                     : SEAM_OPEN_EXISTING};
    struct seam_db *db;
    struct seam_pin pin;
    int rc = seam_open(spec, dir, &o, &db, NULL);

    if (rc != SEAM_OK)
        return -rc;
    rc = seam_get(db, NULL, LIT("k"), &pin, NULL);
    if (rc == SEAM_OK)
        seam_unpin(&pin);
    else
        return 100;
    return -seam_close(db, NULL);
}

/* A fresh process, so that nothing is inherited: the code it got. */
static int open_elsewhere(const char *dir, const char *mode)
{
    int status = -1;
    pid_t child;

    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl("/proc/self/exe", "test_conformance", "--child", support_spec(), dir, mode,
              (char *)NULL);
        _exit(101);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return -WEXITSTATUS(status);
}

static void test_one_writer(void **state)
{
    const char *dir;
    struct seam_db *db, *second;

    (void)state;
    only_on_disk();
    dir = make_store();
    expect_ok(open_in(dir, SEAM_OPEN_EXISTING, &db), NULL);
    expect_code(open_in(dir, SEAM_OPEN_EXISTING, &second), SEAM_E_BUSY, NULL);
    expect_code(open_in(dir, SEAM_OPEN_CREATE, &second), SEAM_E_BUSY, NULL);
    expect_code(open_in(dir, SEAM_OPEN_READ_ONLY, &second), SEAM_E_BUSY, NULL);
    expect_code(open_in(support_text("%s/../%s", dir, strrchr(dir, '/') + 1), SEAM_OPEN_EXISTING,
                        &second),
                SEAM_E_BUSY, NULL);
    expect_code(open_elsewhere(dir, "existing"), SEAM_E_BUSY, NULL);
    expect_code(open_elsewhere(dir, "read_only"), SEAM_E_BUSY, NULL);
    put_ok(db, LIT("l"), LIT("w"));
    expect_holds(db, NULL, LIT("k"), LIT("v"));
    support_close(db);
    expect_ok(open_elsewhere(dir, "existing"), NULL);
    expect_ok(open_in(dir, SEAM_OPEN_EXISTING, &db), NULL);
    expect_keys(db, NULL, "k l");
    support_close(db);
}

static void test_many_readers(void **state)
{
    const char *dir;
    struct seam_db *a, *b, *writer;

    (void)state;
    only_on_disk();
    dir = make_store();
    expect_ok(open_in(dir, SEAM_OPEN_READ_ONLY, &a), NULL);
    expect_ok(open_in(dir, SEAM_OPEN_READ_ONLY, &b), NULL);
    expect_ok(open_elsewhere(dir, "read_only"), NULL);
    expect_code(open_in(dir, SEAM_OPEN_EXISTING, &writer), SEAM_E_BUSY, NULL);
    expect_code(open_elsewhere(dir, "existing"), SEAM_E_BUSY, NULL);
    expect_holds(a, NULL, LIT("k"), LIT("v"));
    support_close(a);
    expect_holds(b, NULL, LIT("k"), LIT("v"));
    support_close(b);
    expect_ok(open_elsewhere(dir, "existing"), NULL);
}

static void test_read_only_writes_nothing(void **state)
{
    struct seam_op op = op_put(LIT("k"), LIT("w"));
    struct seam_ticket *ticket;
    struct seam_snap *snap;
    struct seam_db *db;
    const char *dir;
    uint64_t before;

    (void)state;
    only_on_disk();
    dir = make_store();
    before = support_fingerprint(dir);
    for (int i = 0; i < 2; i++) {
        expect_ok(open_in(dir, SEAM_OPEN_READ_ONLY, &db), NULL);
        expect_code(seam_write(db, &op, 1, SEAM_ACK_NONE, NULL, NULL), SEAM_E_READ_ONLY, NULL);
        expect_code(seam_prepare(db, &op, 1, SEAM_ACK_NONE, &ticket, NULL), SEAM_E_READ_ONLY, NULL);
        expect_ok(seam_snap_open(db, &snap, NULL), NULL);
        expect_holds(db, snap, LIT("k"), LIT("v"));
        expect_keys(db, NULL, "k");
        seam_snap_close(snap);
        support_close(db);
        assert_true(support_fingerprint(dir) == before);
    }
}

/* ---- modes of files ------------------------------------------------------------------------ */

static char too_open[600];

static int check_mode(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)at;
    if ((st->st_mode & 0077) != 0 || (type == FTW_D && (st->st_mode & 0700) != 0700))
        snprintf(too_open, sizeof(too_open), "%.500s has mode %04o", path, st->st_mode & 07777u);
    return 0;
}

static void test_private_files(void **state)
{
    static const mode_t masks[] = {0, 0277};

    (void)state;
    only_on_disk();
    for (size_t i = 0; i < 2; i++) {
        mode_t old = umask(masks[i]);
        const char *dir = make_store();
        struct seam_db *db;
        int rc = open_in(dir, SEAM_OPEN_EXISTING, &db);
        umask(old);
        expect_ok(rc, NULL);
        put_ok(db, LIT("l"), LIT("v"));
        too_open[0] = 0;
        nftw(dir, check_mode, 16, FTW_PHYS);
        support_close(db);
        nftw(dir, check_mode, 16, FTW_PHYS);
        if (too_open[0])
            fail_msg("umask %04o: %s", (unsigned)masks[i], too_open);
    }
}

static void test_permissions(void **state)
{
    const char *dir;

    (void)state;
    only_on_disk();
    if (geteuid() == 0)
        skip(); /* root may do all */
    dir = make_store();
    assert_int_equal(chmod(dir, 0000), 0);
    {
        struct seam_db *db = NULL;
        int rc = open_in(dir, SEAM_OPEN_EXISTING, &db);
        (void)chmod(dir, 0700);
        expect_code(rc, SEAM_E_PERMISSION, NULL);
    }
}

int conformance_open(void)
{
    const struct CMUnitTest open_[] = {
        cmocka_unit_test(test_volatile),
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_reopen),
        cmocka_unit_test(test_not_a_store),
        cmocka_unit_test(test_corrupt_store_file),
        cmocka_unit_test(test_missing_engine_files),
        cmocka_unit_test(test_other_engine),
        cmocka_unit_test(test_one_writer),
        cmocka_unit_test(test_many_readers),
        cmocka_unit_test(test_read_only_writes_nothing),
        cmocka_unit_test(test_private_files),
        cmocka_unit_test(test_permissions),
    };
    return cmocka_run_group_tests(open_, NULL, NULL);
}
