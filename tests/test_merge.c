/* test_merge.c - projections: merging units of stamped entries.
 *
 * argv[1] names the journal's engine, argv[2] the projection's, or "same" for one db. */
#include "projection_support.h"

static const char *journal_engine, *table_engine;

/* ---- merge ------------------------------------------------------------------------------- */

static struct seam_entry entry(const char *key, uint64_t stamp, const char *value)
{
    return (struct seam_entry){text(key), stamp, text(value)};
}

static void expect_stamped(struct seam_projection *t, const char *key, uint64_t stamp,
                           const char *value)
{
    struct seam_pin pin = {0};
    struct seam_err err;
    struct seam_slice rest;
    uint64_t got;
    ok(seam_projection_get(t, NULL, text(key), &pin, &err), err);
    assert_true(seam_stamp(pin.value, &got, &rest));
    assert_int_equal(got, stamp);
    assert_int_equal(rest.len, strlen(value));
    assert_memory_equal(rest.ptr, value, rest.len);
    seam_unpin(&pin);
}

static void merges(void **state)
{
    (void)state;
    struct pair p;
    struct seam_err err;
    struct seam_merged m;
    pair_open(&p, journal_engine, table_engine, "limit:ops=20+");
    struct seam_projection *t = table_open(&p, "t", NULL);
    struct seam_entry unit[] = {entry("b", 5, "b5"), entry("a", 3, "a3"), entry("b", 7, "b7"),
                                entry("b", 7, "b7 again"), entry("b", 6, "b6")};
    ok(seam_projection_merge(t, unit, 5, SEAM_ACK_NONE, &m, &err), err);
    assert_int_equal(m.written, 2);
    assert_int_equal(m.kept, 3);
    expect_stamped(t, "a", 3, "a3");
    expect_stamped(t, "b", 7, "b7 again");
    ok(seam_projection_merge(t, unit, 5, SEAM_ACK_NONE, &m, &err), err);
    assert_int_equal(m.written, 0);
    assert_int_equal(m.kept, 5);
    struct seam_entry second[] = {entry("a", 2, "old"), entry("b", 8, "b8"), entry("c", 0, "")};
    ok(seam_projection_merge(t, second, 3, best_ack(p.db), &m, &err), err);
    assert_int_equal(m.written, 2);
    assert_true((uint32_t)m.acked.given >= best_ack(p.db));
    expect_stamped(t, "a", 3, "a3");
    expect_stamped(t, "b", 8, "b8");
    expect_stamped(t, "c", 0, "");
    /* Too large is told by the unit after folding, and writes nothing. */
    struct seam_entry large[40];
    char keys[40][4];
    for (size_t i = 0; i < 40; i++) {
        (void)snprintf(keys[i], sizeof(keys[i]), "k%zu", i % 19);
        large[i] = entry(keys[i], i, "v");
    }
    assert_int_equal(seam_projection_merge(t, large, 40, 0, &m, &err), SEAM_E_TOO_LARGE);
    assert_string_equal(err.limit, "ops");
    assert_int_equal(err.max, 18);
    assert_int_equal(err.got, 19);
    assert_int_equal(table_count(t), 3);
    ok(seam_projection_merge(t, large, 18, 0, &m, &err), err);
    assert_int_equal(m.written, 18);
    large[3].key = seam_bytes(NULL, 2);
    assert_int_equal(seam_projection_merge(t, large, 18, 0, &m, &err), SEAM_E_INVALID);
    assert_int_equal(err.op, 3);
    assert_int_equal(seam_projection_merge(t, large, 0, 0, &m, &err), SEAM_E_INVALID);
    table_close(t);
    pair_close(&p);
}

/* Random units against the newest stamp of each key. */
static void merges_random(void **state)
{
    (void)state;
    enum { KEYS = 50, UNIT = 30 };
    struct pair p;
    struct seam_err err;
    uint64_t seed = test_seed(), newest[KEYS] = {0};
    bool there[KEYS] = {false};
    pair_open(&p, journal_engine, table_engine, "");
    struct seam_projection *t = table_open(&p, "t", NULL);
    for (int round = 0; round < 100; round++) {
        struct seam_entry unit[UNIT];
        char keys[UNIT][8];
        size_t n = 1 + next_random(&seed) % UNIT;
        bool touched[KEYS] = {false};
        uint64_t before[KEYS];
        memcpy(before, newest, sizeof(before));
        for (size_t i = 0; i < n; i++) {
            unsigned k = (unsigned)(next_random(&seed) % KEYS);
            uint64_t stamp = next_random(&seed) % 1000;
            (void)snprintf(keys[i], sizeof(keys[i]), "%02u", k);
            unit[i] = (struct seam_entry){text(keys[i]), stamp, text(keys[i])};
            if (!there[k] || stamp > newest[k]) {
                newest[k] = stamp;
                touched[k] = true;
                there[k] = true;
            }
        }
        size_t written = 0;
        for (unsigned k = 0; k < KEYS; k++)
            written += touched[k];
        struct seam_merged m;
        ok(seam_projection_merge(t, unit, n, SEAM_ACK_NONE, &m, &err), err);
        assert_int_equal(m.written, written);
        assert_int_equal(m.kept, n - written);
    }
    for (unsigned k = 0; k < KEYS; k++) {
        char key[8];
        (void)snprintf(key, sizeof(key), "%02u", k);
        if (there[k])
            expect_stamped(t, key, newest[k], key);
        else
            table_expect(t, NULL, key, NULL);
    }
    table_close(t);
    pair_close(&p);
}

int main(int argc, char **argv)
{
    journal_engine = argc > 1 ? argv[1] : "mem";
    table_engine = argc > 2 ? argv[2] : "same";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges),
        cmocka_unit_test(merges_random),
    };
    return cmocka_run_group_tests_name("merge", tests, NULL, NULL);
}
