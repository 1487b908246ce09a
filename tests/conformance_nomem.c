/* conformance_nomem.c - every allocation through the platform fails once, in turn.
 *
 * A short piece of work is done again and again; in round k the k-th allocation fails. Each call
 * then answers what it would, or E_NOMEM with nothing done; the work goes on and ends the same; and
 * all that was allocated is freed. What a library below allocates by itself is out of reach. */
#include "conformance.h"

#include <seam/platform.h>

#include <stdatomic.h>

/* Engines may have threads of their own, so these are counted atomically. */
static atomic_long until_failure; /* <= 0: no more */
static atomic_long outstanding;

static void *counted_alloc(void *ctx, size_t len)
{
    void *p = NULL;

    if (atomic_fetch_sub(&until_failure, 1) != 1)
        p = seam_platform_system()->alloc(ctx, len);
    if (p)
        atomic_fetch_add(&outstanding, 1);
    return p;
}

static void counted_free(void *ctx, void *p)
{
    if (p)
        atomic_fetch_sub(&outstanding, 1);
    seam_platform_system()->free(ctx, p);
}

/* Does it until it is not E_NOMEM; that must be the second time at the latest, as only one fails. */
#define twice(call)                                                                               \
    do {                                                                                          \
        struct seam_err err_ = {0};                                                               \
        struct seam_err *err = &err_;                                                             \
        int rc_ = (call);                                                                         \
        if (rc_ == SEAM_E_NOMEM) {                                                                \
            assert_int_equal(err_.code, SEAM_E_NOMEM);                                            \
            assert_true(strlen(err_.text) > 0);                                                   \
            rc_ = (call);                                                                         \
        }                                                                                         \
        expect_ok(rc_, err);                                                                      \
    } while (0)

static void read_back(struct seam_db *db, struct seam_snap *snap)
{
    static const char lower[600] = "a";
    struct seam_cursor *c;
    struct seam_slice key, value;
    struct seam_pin pin;

    twice(seam_get(db, snap, LIT("a"), &pin, err));
    expect_bytes(pin.value, LIT("12"));
    seam_unpin(&pin);
    twice(seam_floor(db, NULL, LIT("b"), LIT("c"), &pin, err));
    expect_bytes(pin.key, LIT("b"));
    seam_unpin(&pin);
    twice(seam_ceiling(db, snap, NONE, LIT("aa"), &pin, err));
    expect_bytes(pin.key, LIT("b"));
    seam_unpin(&pin);
    twice(seam_cursor_open(db, NULL, seam_bytes(lower, sizeof(lower)), LIT("c"), &c, err));
    twice(seam_cursor_move(c, SEAM_NEXT, NONE, &key, err));
    expect_bytes(key, LIT("b"));
    twice(seam_cursor_value(c, &value, err));
    expect_bytes(value, LIT("3"));
    seam_cursor_close(c);
}

/* An engine that cannot reserve may run out of memory in the commit: that is UNKNOWN, and ends the
 * round. */
static bool gave_up(struct seam_db *db, int rc)
{
    struct seam_limits limits;

    seam_db_limits(db, &limits);
    if (rc != SEAM_E_UNKNOWN || (limits.caps & SEAM_CAP_RESERVES))
        return false;
    assert_true(seam_db_poisoned(db));
    (void)seam_close(db, NULL);
    return true;
}

static void work(const char *dir, const struct seam_platform *os)
{
    struct seam_options o = {.mode = SEAM_OPEN_CREATE, .platform = os};
    struct seam_op ops[] = {op_range(LIT("x"), LIT("y")), op_put2(LIT("a"), LIT("1"), LIT("2")),
                            op_put(LIT("b"), LIT("3")), op_delete(LIT("d"))};
    struct seam_ticket *ticket;
    struct seam_snap *snap;
    struct seam_db *db;
    int rc;

    twice(seam_open(support_spec(), dir, &o, &db, err));
    rc = seam_write(db, ops, 4, SEAM_ACK_NONE, NULL, NULL);
    if (gave_up(db, rc))
        return;
    assert_true(rc == SEAM_OK || rc == SEAM_E_NOMEM);
    if (rc != SEAM_OK)
        write_ok(db, ops, 4);
    twice(seam_prepare(db, ops, 4, SEAM_ACK_NONE, &ticket, err));
    rc = seam_commit(ticket, NULL, NULL);
    if (gave_up(db, rc))
        return;
    expect_ok(rc, NULL);
    twice(seam_prepare(db, ops, 4, SEAM_ACK_NONE, &ticket, err));
    seam_abort(ticket);
    twice(seam_snap_open(db, &snap, err));
    read_back(db, snap);
    seam_snap_close(snap);
    assert_false(seam_db_poisoned(db));
    support_close(db);
}

static void test_each_allocation_fails(void **state)
{
    struct seam_platform os = *seam_platform_system();
    long k = 0;

    (void)state;
    os.alloc = counted_alloc;
    os.free = counted_free;
    do {
        const char *dir = support_dir();
        k++;
        atomic_store(&outstanding, 0);
        atomic_store(&until_failure, k);
        work(dir, &os);
        assert_int_equal(atomic_load(&outstanding), 0);
        support_remove(dir);
        assert_in_range(k, 1, 2000);
    } while (atomic_load(&until_failure) <= 0);
    printf("%ld allocations failed, one at a time\n", k - 1);
}

int conformance_nomem(void)
{
    const struct CMUnitTest nomem[] = {cmocka_unit_test(test_each_allocation_fails)};

    return cmocka_run_group_tests(nomem, NULL, NULL);
}
