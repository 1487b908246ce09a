/* test_store_damage.c - bad calls, lost and swapped members, what is no store, what was interrupted.
 *
 * Arguments: the journal's engine, and that of the projections; both keep what they are given. */
#include "store_support.h"

#include <sys/stat.h>
#include <unistd.h>

static void bad_calls(void **state)
{
    (void)state;
    /* The last is one byte longer than a name may be. */
    static const char too_long[] = "0123456789012345678901234567890123"
                                   "4567890123456789012345678901234";
    static const char *const names[] = {"", "a/b", "..", "A", "a b", too_long};
    struct site s;
    struct seam_err err;
    struct seam_store *store = NULL;
    site_new(&s);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        s.projections[1].name = names[i];
        site_refused(&s, SEAM_OPEN_CREATE, SEAM_E_INVALID, "a projection's name");
    }
    s.projections[1].name = "near";
    site_refused(&s, SEAM_OPEN_CREATE, SEAM_E_INVALID, "named twice");
    s.projections[1].name = "far";
    s.options.journal_dir = s.far;
    site_refused(&s, SEAM_OPEN_CREATE, SEAM_E_INVALID, "one directory");
    s.options.journal_dir = NULL;
    s.projections[1].dir = s.dir;
    site_refused(&s, SEAM_OPEN_CREATE, SEAM_E_INVALID, "outside the store's");
    s.projections[1].dir = s.far;
    s.projections[1].engine = "nonesuch";
    site_refused(&s, SEAM_OPEN_CREATE, SEAM_E_NO_ENGINE, "projection-far");
    s.projections[1].engine = s.far_engine;
    s.projections[1].projector = NULL;
    site_refused(&s, SEAM_OPEN_CREATE, SEAM_E_INVALID, "projector");
    assert_int_equal(seam_store_open(s.dir, NULL, &store, &err), SEAM_E_INVALID);
    assert_false(site_has(&s, "")); /* nothing was touched */
    assert_int_equal(rmdir(s.top), 0);
}

static void make(struct site *s)
{
    site_new(s);
    struct seam_store *store = site_open(s, SEAM_OPEN_CREATE);
    site_append(store, "k", "1");
    site_close(store);
}

static void lost_members(void **state)
{
    (void)state;
    static const char *const members[] = {"journal", "projection-near"};
    char path[128], away[128];
    struct site s;
    make(&s);
    for (size_t i = 0; i < 2; i++) {
        site_path(&s, members[i], path);
        (void)snprintf(away, sizeof(away), "%s/away", s.top);
        assert_int_equal(rename(path, away), 0);
        site_refused(&s, SEAM_OPEN_EXISTING, SEAM_E_CORRUPT, members[i]);
        site_refused(&s, SEAM_OPEN_CREATE, SEAM_E_CORRUPT, members[i]);
        site_refused(&s, SEAM_OPEN_READ_ONLY, SEAM_E_CORRUPT, members[i]);
        assert_false(site_has(&s, members[i]));
        assert_int_equal(symlink("../away", path), 0);
        site_refused(&s, SEAM_OPEN_CREATE, SEAM_E_CORRUPT, members[i]);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(rename(away, path), 0);
    }
    (void)snprintf(away, sizeof(away), "%s/away", s.top);
    assert_int_equal(rename(s.far, away), 0);
    site_refused(&s, SEAM_OPEN_CREATE, SEAM_E_NO_STORE, "projection-far");
    s.projections[1].dir = away; /* it may have moved */
    site_close(site_open(&s, SEAM_OPEN_EXISTING));
    site_remove(&s);
}

static void swapped_members(void **state)
{
    (void)state;
    struct site a, b;
    make(&a);
    make(&b);
    const char *own = a.projections[1].dir;
    a.projections[1].dir = b.far;
    site_refused(&a, SEAM_OPEN_EXISTING, SEAM_E_MISMATCH, "projection-far");
    site_refused(&a, SEAM_OPEN_CREATE, SEAM_E_MISMATCH, "projection-far");
    a.projections[1].dir = own;
    site_close(site_open(&a, SEAM_OPEN_EXISTING));
    a.projections[1].dir = NULL;
    site_refused(&a, SEAM_OPEN_EXISTING, SEAM_E_MISMATCH, "projection-far is kept outside");
    site_remove(&a);
    site_remove(&b);
}

static void put_file(const struct site *s, const char *name, const char *bytes)
{
    char path[128];
    FILE *f = fopen(site_path(s, name, path), "w");
    assert_non_null(f);
    assert_true(fputs(bytes, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void no_store_and_lost_store(void **state)
{
    (void)state;
    char path[128], away[128];
    struct site s;
    site_new(&s);
    assert_int_equal(mkdir(s.dir, 0700), 0);
    put_file(&s, "notes", "mine");
    site_refused(&s, SEAM_OPEN_CREATE, SEAM_E_NO_STORE, "notes");
    assert_false(site_has(&s, "LOCK"));
    assert_int_equal(unlink(site_path(&s, "notes", path)), 0);
    site_refused(&s, SEAM_OPEN_EXISTING, SEAM_E_NO_STORE, "holds no store");
    struct seam_store *store = site_open(&s, SEAM_OPEN_CREATE);
    site_close(store);
    (void)snprintf(away, sizeof(away), "%s/away", s.top);
    assert_int_equal(rename(site_path(&s, "STORE", path), away), 0);
    for (int mode = SEAM_OPEN_EXISTING; mode <= SEAM_OPEN_READ_ONLY; mode++)
        site_refused(&s, (enum seam_open_mode)mode, SEAM_E_CORRUPT, "STORE is missing");
    put_file(&s, "STORE", "seam-store 1\n");
    site_refused(&s, SEAM_OPEN_CREATE, SEAM_E_CORRUPT, "STORE");
    assert_int_equal(rename(away, path), 0);
    site_close(site_open(&s, SEAM_OPEN_EXISTING));
    site_remove(&s);
}

/* A db that is somebody's is not taken for a member, nor touched by the failed creation. */
static void taken_directory(void **state)
{
    (void)state;
    struct site a, b;
    make(&a);
    site_new(&b);
    b.projections[1].dir = a.far;
    site_refused(&b, SEAM_OPEN_CREATE, SEAM_E_EXISTS, "projection-far");
    assert_false(site_has(&b, "")); /* undone */
    site_close(site_open(&a, SEAM_OPEN_EXISTING));
    site_remove(&a);
    site_remove(&b);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_calls),
        cmocka_unit_test(lost_members),
        cmocka_unit_test(swapped_members),
        cmocka_unit_test(no_store_and_lost_store),
        cmocka_unit_test(taken_directory),
    };
    if (argc != 3)
        return 2;
    site_journal = argv[1];
    site_near = argv[2];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
