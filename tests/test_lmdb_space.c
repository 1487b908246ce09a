/* test_lmdb_space.c - the disk that commits are promised: caps and full disks, and the bound on the
 * pages that a commit can add to the file.
 *
 * Relies on the engine's private header, to see what a ticket holds. The random tests follow from
 * SEAM_SEED alone. */
#include "test_lmdb_support.h"

static const struct seam_options existing = {.mode = SEAM_OPEN_EXISTING};

/* ---- space --------------------------------------------------------------------------------------
 */

static void disk_cap_is_kept(void **state)
{
    struct room *r = *state;
    struct seam_options o = {.mode = SEAM_OPEN_CREATE, .disk = 2 << 20};
    struct seam_db *db = support_open_with("lmdb", r->store, &o);
    static char value[100000];
    struct seam_err err;
    int rc = SEAM_OK, n = 0;
    char key[16];
    for (; n < 1000 && rc == SEAM_OK; n++) {
        snprintf(key, sizeof key, "k%03d", n);
        struct seam_op op = {SEAM_PUT, str(key), {NULL, 0}, {value, sizeof value}};
        rc = seam_write(db, &op, 1, SEAM_ACK_NONE, NULL, &err);
    }
    assert_int_equal(rc, SEAM_E_NO_SPACE);
    assert_string_equal(err.limit, "disk");
    assert_true(n > 5 && n < 25);
    assert_true(file_size(r->data) <= 2 << 20);
    struct seam_pin pin;
    assert_int_equal(seam_get(db, NULL, str(key), &pin, NULL), SEAM_NOTFOUND);
    must_put(db, "small", "still fits", SEAM_ACK_POWER);
    support_close(db);
    db = support_open_with("lmdb", r->store, &existing);
    assert_true(has(db, "small", "still fits"));
    support_close(db);
}

static int put_numbered(struct seam_db *db, int n, size_t value)
{
    static char bytes[4096];
    char key[16];
    snprintf(key, sizeof key, "k%06d", n);
    struct seam_op op = {SEAM_PUT, str(key), {NULL, 0}, {bytes, value}};
    return seam_write(db, &op, 1, SEAM_ACK_NONE, NULL, NULL);
}

static int delete_numbered(struct seam_db *db, int n)
{
    char key[16];
    snprintf(key, sizeof key, "k%06d", n);
    struct seam_op op = {SEAM_DELETE, str(key), {NULL, 0}, {NULL, 0}};
    return seam_write(db, &op, 1, SEAM_ACK_NONE, NULL, NULL);
}

/* A store at its cap can be emptied, and takes as much again: pages inside the file count as room.
 */
static void full_store_is_emptied_and_filled(void **state)
{
    struct room *r = *state;
    struct seam_options o = {.mode = SEAM_OPEN_CREATE, .disk = 2 << 20, .stall_ms = UINT32_MAX};
    struct seam_db *db = support_open_with("lmdb:reserve_chunk=256K", r->store, &o);
    int first = 0, n = 0, rc = SEAM_OK;
    for (int round = 0; round < 4; round++) {
        for (n = 0; (rc = put_numbered(db, n, 1800)) == SEAM_OK; n++)
            assert_true(n < 10000);
        assert_int_equal(rc, SEAM_E_NO_SPACE);
        assert_true(n > 200);
        if (round == 0)
            first = n;
        assert_true(n > first / 2);
        for (int i = 0; i < n; i++)
            assert_int_equal(delete_numbered(db, i), SEAM_OK);
        assert_true(file_size(r->data) <= 2 << 20);
    }
    /* An old reader keeps what it sees; its pages are no room, and come back when it goes. */
    struct seam_snap *snap = NULL;
    for (n = 0; (rc = put_numbered(db, n, 1800)) == SEAM_OK; n++)
        continue;
    assert_int_equal(seam_snap_open(db, &snap, NULL), SEAM_OK);
    for (int i = 0; i < n && rc != SEAM_OK; i++)
        rc = delete_numbered(db, i) == SEAM_OK ? SEAM_E_NO_SPACE : SEAM_OK;
    struct seam_pin pin;
    assert_int_equal(seam_get(db, snap, str("k000000"), &pin, NULL), SEAM_OK);
    seam_unpin(&pin);
    seam_snap_close(snap);
    for (int i = 0; i < n; i++)
        assert_int_equal(delete_numbered(db, i), SEAM_OK);
    must_put(db, "again", "1", SEAM_ACK_POWER);
    support_close(db);
}

/* The system's platform, on a disk that can be filled and emptied. */
static int full_allocate(void *ctx, int fd, uint64_t offset, uint64_t len)
{
    const struct seam_platform *os = seam_platform_system();
    const uint64_t *most = ctx;
    return offset + len > *most ? -ENOSPC : os->allocate(os->ctx, fd, offset, len);
}

static void full_disk_at_prepare(void **state)
{
    struct bare b;
    uint64_t most = 1 << 20;
    struct seam_platform os = *seam_platform_system();
    assert_null(os.ctx);
    os.ctx = &most;
    os.allocate = full_allocate;
    bare_open(&b, *state, &os, UINT64_MAX);
    if (!b.e->space.real) {
        bare_close(&b);
        skip();
    }
    static char value[1 << 20];
    struct seam_op large = {SEAM_PUT, {"large", 5}, {NULL, 0}, {value, sizeof value}};
    struct seam_op small = put_op("small", "1");
    struct seam_commit c;
    struct seam_err err = {0};
    memset(&c, 0, sizeof c);
    c.ops = &large;
    c.n = 1;
    assert_int_equal(lmdb_prepare(&b.e->base, &c, 0, &err), SEAM_E_NO_SPACE);
    assert_string_equal(err.limit, "disk");
    assert_int_equal(seam_ledger_promised(b.e->space.ledger), 0);
    assert_int_equal(bare_prepare(&b, &c, &small, 1, SEAM_ACK_POWER), SEAM_OK);
    assert_int_equal(lmdb_commit(&b.e->base, &c, NULL, NULL), SEAM_OK);
    most = UINT64_MAX;
    assert_int_equal(bare_prepare(&b, &c, &large, 1, SEAM_ACK_POWER), SEAM_OK);
    most = 0; /* what was promised is there */
    assert_int_equal(lmdb_commit(&b.e->base, &c, NULL, NULL), SEAM_OK);
    assert_true(bare_has(&b, "large"));
    bare_close(&b);
}

struct shape {
    size_t ops, key, value;
    uint32_t ids;
};

static void random_ops(struct support_rng *s, const struct shape *shape, struct seam_op *ops,
                       char (*keys)[512], size_t n, const char *bytes)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t id = support_next(s) % shape->ids;
        uint32_t mixed = (uint32_t)id * 2654435761u;
        size_t len = 8 + mixed % (shape->key - 7);
        memset(keys[i], 'x', 512);
        snprintf(keys[i], 512, "%08x", mixed);
        keys[i][8] = 'x';
        uint64_t kind = support_next(s) % 20;
        uint64_t value =
            support_next(s) % (support_next(s) % 8 == 0 ? 4 * shape->value : shape->value);
        ops[i] = (struct seam_op){SEAM_PUT, {keys[i], len}, {NULL, 0}, {bytes, value}};
        if (kind >= 12) {
            ops[i].kind = SEAM_DELETE;
            ops[i].body = seam_bytes(NULL, 0);
        }
        if (kind == 19 && support_next(s) % (2 * n) == 0) {
            ops[i].kind = SEAM_DELETE_RANGE;
            ops[i].key.len = 2; /* up to the end of the keys that begin with the next byte */
        }
    }
}

/* With readers that keep everything no page is used again, so that all copies are at the file's
 * end: the bound has to hold for trees of every shape. */
static void no_commit_exceeds_its_bound(void **state)
{
    static const struct shape shapes[] = {
        {1, 20, 100, 1000},    {5, 20, 100, 20000},    {300, 40, 200, 50000},
        {80, 511, 1500, 3000}, {500, 511, 2000, 9000}, {100, 511, 9000, 2000},
        {900, 30, 60, 5000},
    };
    static char bytes[40000];
    struct room *r = *state;
    struct support_rng s = {support_seed()};
    char(*keys)[512] = calloc(1000, sizeof *keys);
    struct seam_op *ops = calloc(1000, sizeof *ops);
    assert_non_null(keys);
    assert_non_null(ops);
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        struct bare b;
        bare_open(&b, r, seam_platform_system(), UINT64_MAX);
        void *snap = NULL;
        for (int round = 0; round < 60; round++) {
            struct seam_commit c;
            size_t n = 1 + support_next(&s) % shapes[k].ops;
            random_ops(&s, &shapes[k], ops, keys, n, bytes);
            if (snap == NULL)
                assert_int_equal(lmdb_snap_open(&b.e->base, &snap, NULL), SEAM_OK);
            assert_int_equal(bare_prepare(&b, &c, ops, n, SEAM_ACK_NONE), SEAM_OK);
            uint64_t bound = ((struct lmdb_hold *)c.need.priv)->bound.pages;
            uint64_t before = lmdb_pages_used(b.e);
            assert_int_equal(lmdb_commit(&b.e->base, &c, NULL, NULL), SEAM_OK);
            assert_true(lmdb_pages_used(b.e) - before <= bound);
            if (support_next(&s) % 3 == 0) {
                lmdb_snap_close(&b.e->base, snap);
                snap = NULL;
            }
        }
        if (snap != NULL)
            lmdb_snap_close(&b.e->base, snap);
        bare_close(&b);
        support_remove(r->dir);
        assert_int_equal(mkdir(r->dir, 0700), 0);
    }
    free(keys);
    free(ops);
}

/* Leaves filled to the brim by an ascending load, then one insertion into each. */
static void full_leaves_split(void **state)
{
    enum { KEYS = 40000, STEP = 20 };
    static char bytes[180];
    struct bare b;
    char(*keys)[16] = calloc(KEYS, sizeof *keys);
    struct seam_op *ops = calloc(KEYS, sizeof *ops);
    struct seam_commit c;
    void *snap = NULL;
    assert_non_null(keys);
    assert_non_null(ops);
    bare_open(&b, *state, seam_platform_system(), UINT64_MAX);
    for (int pass = 0; pass < 2; pass++) {
        size_t n = 0;
        for (int i = 0; i < KEYS; i += pass == 0 ? 1 : STEP) {
            snprintf(keys[n], sizeof keys[n], "%08d%s", i, pass == 0 ? "" : "x");
            ops[n] = (struct seam_op){SEAM_PUT, str(keys[n]), {NULL, 0}, {bytes, sizeof bytes}};
            n++;
        }
        assert_int_equal(bare_prepare(&b, &c, ops, n, SEAM_ACK_NONE), SEAM_OK);
        uint64_t bound = ((struct lmdb_hold *)c.need.priv)->bound.pages;
        uint64_t before = lmdb_pages_used(b.e);
        assert_int_equal(lmdb_commit(&b.e->base, &c, NULL, NULL), SEAM_OK);
        assert_true(lmdb_pages_used(b.e) - before <= bound);
        if (pass == 0)
            assert_int_equal(lmdb_snap_open(&b.e->base, &snap, NULL), SEAM_OK);
    }
    lmdb_snap_close(&b.e->base, snap);
    free(keys);
    free(ops);
    bare_close(&b);
}

/* Many tickets held over the commits of others, taken and ended in any order: what is promised is
 * always there, and nothing stays promised. */
static void held_tickets_stay_covered(void **state)
{
    enum { HELD = 24, OPS = 120 };
    static const struct shape shape = {OPS, 40, 600, 4000};
    static char bytes[40000];
    static char keys[HELD][OPS][512];
    static struct seam_op ops[HELD][OPS];
    struct seam_commit c[HELD];
    bool held[HELD] = {false};
    struct support_rng s = {support_seed()};
    struct bare b;
    void *snap = NULL;
    bare_open(&b, *state, seam_platform_system(), UINT64_MAX);
    assert_int_equal(lmdb_snap_open(&b.e->base, &snap, NULL), SEAM_OK);
    for (int round = 0; round < 600; round++) {
        size_t i = support_next(&s) % HELD;
        struct lmdb_space *space = &b.e->space;
        if (!held[i]) {
            size_t n = 1 + support_next(&s) % (support_next(&s) % 2 == 0 ? OPS : 3);
            random_ops(&s, &shape, ops[i], keys[i], n, bytes);
            assert_int_equal(bare_prepare(&b, &c[i], ops[i], n, SEAM_ACK_NONE), SEAM_OK);
            held[i] = true;
        } else if (support_next(&s) % 4 == 0) {
            lmdb_abort(&b.e->base, &c[i]);
            held[i] = false;
        } else {
            uint64_t bound = ((struct lmdb_hold *)c[i].need.priv)->bound.pages;
            uint64_t before = lmdb_pages_used(b.e);
            assert_int_equal(lmdb_commit(&b.e->base, &c[i], NULL, NULL), SEAM_OK);
            assert_true(lmdb_pages_used(b.e) - before <= bound);
            held[i] = false;
        }
        uint64_t promised = seam_ledger_promised(space->ledger);
        if (space->real) {
            uint64_t used = lmdb_pages_used(b.e), again = space->reusable;
            assert_true((used - (again < used ? again : used)) * space->page + promised <=
                        space->ready);
            assert_true((used + space->runs) * space->page <= space->ready);
        }
    }
    for (size_t i = 0; i < HELD; i++) {
        if (held[i])
            lmdb_abort(&b.e->base, &c[i]);
    }
    assert_int_equal(seam_ledger_promised(b.e->space.ledger), 0);
    assert_null(b.e->space.first);
    lmdb_snap_close(&b.e->base, snap);
    bare_close(&b);
}

int main(int argc, char **argv)
{
    int rc = support_begin(argc, argv);
    if (rc != 0)
        return rc;
    const struct CMUnitTest tests[] = {
        ROOM_TEST(disk_cap_is_kept),     ROOM_TEST(full_store_is_emptied_and_filled),
        ROOM_TEST(full_disk_at_prepare), ROOM_TEST(no_commit_exceeds_its_bound),
        ROOM_TEST(full_leaves_split),    ROOM_TEST(held_tickets_stay_covered),
    };
    return cmocka_run_group_tests_name("lmdb-space", tests, NULL, NULL);
}
