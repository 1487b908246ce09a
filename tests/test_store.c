/* test_store.c - a store's life: made, opened again, added to, closed; who must stay out.
 *
 * Arguments: the journal's engine, and that of the projections or "same". */
#include "store_support.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void expect(struct seam_store *store, const char *name, const char *key, const char *value)
{
    table_expect(seam_store_projection(store, name), NULL, key, value);
}

static void made_and_opened_again(void **state)
{
    (void)state;
    struct site s;
    struct seam_err err;
    uint64_t applied = 0;
    site_new(&s);
    struct seam_store *store = site_open(&s, SEAM_OPEN_NEW);
    uint8_t uuid[16];
    memcpy(uuid, seam_store_uuid(store), 16);
    site_append(store, "k", "1");
    ok(seam_store_catch_up(store, &applied, &err), err);
    assert_int_equal(applied, 2);
    expect(store, "near", "k", "1");
    expect(store, "far", "k", "1");
    assert_null(seam_store_projection(store, "other"));
    assert_null(seam_store_db(store, "other"));
    assert_ptr_equal(seam_store_db(store, NULL), seam_journal_db(seam_store_journal(store)));
    assert_true((seam_store_db(store, "near") == seam_store_db(store, NULL)) ==
                (s.near_engine == NULL));
    site_close(store);
    assert_true(site_has(&s, "STORE"));
    assert_false(site_has(&s, "MAKING"));
    assert_int_equal(site_has(&s, "journal"), !is_mem(site_journal));
    site_refused(&s, SEAM_OPEN_NEW, SEAM_E_EXISTS, "holds a store already");
    for (int mode = SEAM_OPEN_EXISTING; mode <= SEAM_OPEN_CREATE; mode++) {
        store = site_open(&s, (enum seam_open_mode)mode);
        assert_memory_equal(uuid, seam_store_uuid(store), 16);
        if (!is_mem(site_journal)) {
            ok(seam_store_catch_up(store, NULL, &err), err);
            expect(store, "near", "k", "1");
            expect(store, "far", "k", "1");
        }
        site_close(store);
    }
    site_remove(&s);
}

static void read_only(void **state)
{
    (void)state;
    struct site s;
    struct seam_err err;
    site_new(&s);
    if (is_mem(site_journal) || (s.near_engine != NULL && is_mem(s.near_engine))) {
        site_remove(&s);
        return; /* nothing to read */
    }
    site_refused(&s, SEAM_OPEN_READ_ONLY, SEAM_E_NO_STORE, "does not exist");
    struct seam_store *store = site_open(&s, SEAM_OPEN_CREATE);
    site_append(store, "k", "1");
    ok(seam_store_catch_up(store, NULL, &err), err);
    site_close(store);
    store = site_open(&s, SEAM_OPEN_READ_ONLY);
    struct seam_store *second = site_open(&s, SEAM_OPEN_READ_ONLY);
    expect(store, "near", "k", "1");
    expect(second, "far", "k", "1");
    site_refused(&s, SEAM_OPEN_EXISTING, SEAM_E_BUSY, "open already");
    site_close(second);
    site_close(store);
    site_remove(&s);
}

/* A projection that the store has not is added by the mode create only. */
static void added(void **state)
{
    (void)state;
    struct site s;
    struct seam_err err;
    site_new(&s);
    s.options.n = 1;
    struct seam_store *store = site_open(&s, SEAM_OPEN_CREATE);
    site_append(store, "k", "1");
    site_close(store);
    s.options.n = 2;
    site_refused(&s, SEAM_OPEN_EXISTING, SEAM_E_MISMATCH, "projection-far is not in this store");
    site_refused(&s, SEAM_OPEN_READ_ONLY, SEAM_E_MISMATCH, "projection-far");
    store = site_open(&s, SEAM_OPEN_CREATE);
    ok(seam_store_catch_up(store, NULL, &err), err);
    if (!is_mem(site_journal))
        expect(store, "far", "k", "1");
    site_close(store);
    s.options.n = 1;
    site_refused(&s, SEAM_OPEN_EXISTING, SEAM_E_MISMATCH, "has a projection-far");
    site_refused(&s, SEAM_OPEN_CREATE, SEAM_E_MISMATCH, "has a projection-far");
    s.options.n = 2;
    struct seam_store_feed first = s.projections[0];
    s.projections[0] = s.projections[1]; /* in any order */
    s.projections[1] = first;
    site_close(site_open(&s, SEAM_OPEN_EXISTING));
    assert_false(site_has(&s, "MAKING"));
    site_remove(&s);
}

static void closes_when_nothing_is_open(void **state)
{
    (void)state;
    struct site s;
    struct seam_err err;
    struct seam_view *view;
    struct seam_journal_reader *reader;
    site_new(&s);
    struct seam_store *store = site_open(&s, SEAM_OPEN_CREATE);
    ok(seam_view_open(seam_store_projection(store, "far"), &view, &err), err);
    assert_int_equal(seam_store_close(store, &err), SEAM_E_BUSY);
    assert_non_null(strstr(err.text, "projection-far"));
    site_append(store, "k", "1"); /* all of it is still open */
    ok(seam_store_catch_up(store, NULL, &err), err);
    expect(store, "near", "k", "1");
    seam_view_close(view);
    ok(seam_journal_reader_open(seam_store_journal(store), 1, 1, NULL, &reader, &err), err);
    assert_int_equal(seam_store_close(store, &err), SEAM_E_BUSY);
    seam_journal_reader_close(reader);
    site_close(store);
    ok(seam_store_close(NULL, &err), err);
    site_remove(&s);
}

/* A child that lets go leaves the lock with its parent; a parent's close unlocks for both. */
static void forked(void **state)
{
    (void)state;
    struct site s;
    struct seam_err err;
    site_new(&s);
    struct seam_store *store = site_open(&s, SEAM_OPEN_CREATE);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(seam_store_close(store, &err) == SEAM_E_FORKED ? 0 : 1);
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    site_refused(&s, SEAM_OPEN_EXISTING, SEAM_E_BUSY, "open already");
    site_append(store, "k", "1");
    site_close(store);
    site_close(site_open(&s, SEAM_OPEN_EXISTING));
    site_remove(&s);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(made_and_opened_again),
        cmocka_unit_test(read_only),
        cmocka_unit_test(added),
        cmocka_unit_test(closes_when_nothing_is_open),
        cmocka_unit_test(forked),
    };
    if (argc != 3)
        return 2;
    site_journal = argv[1];
    site_near = argv[2];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
