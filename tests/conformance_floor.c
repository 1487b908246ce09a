/* conformance_floor.c - floor and ceiling against a plain array, over every key of a small alphabet
 * that has the bytes where prefix arithmetic goes wrong: 0x00, 0xfe and 0xff. */
#include "conformance.h"

static struct seam_db *db;

static int setup(void **state)
{
    (void)state;
    db = support_open(support_dir());
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    support_close(db);
    db = NULL;
    return 0;
}

enum { SYMBOLS = 4, WORD_MAX = 4, WORDS = 1 + 4 + 16 + 64 };

struct word {
    unsigned char bytes[WORD_MAX];
    size_t len;
    bool stored;
};

static struct seam_slice slice_of(const struct word *w)
{
    return seam_bytes(w->bytes, w->len);
}

static int compare_words(const void *a, const void *b)
{
    const struct word *x = a, *y = b;
    size_t n = x->len < y->len ? x->len : y->len;
    int order = memcmp(x->bytes, y->bytes, n);

    return order ? order : (x->len > y->len) - (x->len < y->len);
}

/* All words of up to three symbols, the empty one first, in key order. */
static void make_words(struct word words[WORDS])
{
    static const unsigned char symbols[SYMBOLS] = {0x00, 'p', 0xfe, 0xff};
    size_t n = 0;

    memset(words, 0, WORDS * sizeof(words[0]));
    n++;
    for (size_t from = 0; n < WORDS; from++)
        for (size_t s = 0; s < SYMBOLS && n < WORDS; s++, n++) {
            words[n] = words[from];
            words[n].bytes[words[n].len++] = symbols[s];
        }
    qsort(words, WORDS, sizeof(words[0]), compare_words);
}

static bool begins(const struct word *w, const struct word *prefix)
{
    return w->len >= prefix->len && memcmp(w->bytes, prefix->bytes, prefix->len) == 0;
}

static const struct word *model_near(const struct word words[WORDS], const struct word *prefix,
                                     const struct word *key, bool floor)
{
    const struct word *found = NULL;

    for (size_t i = 0; i < WORDS; i++) {
        int order = compare_words(&words[i], key);
        if (!words[i].stored || !begins(&words[i], prefix))
            continue;
        if (floor && order <= 0)
            found = &words[i];
        if (!floor && order >= 0)
            return &words[i];
    }
    return found;
}

static void check_near(struct seam_snap *snap, const struct word words[WORDS],
                       const struct word *prefix, const struct word *key, bool floor)
{
    const struct word *want = model_near(words, prefix, key, floor);
    struct seam_err err = {0};
    struct seam_pin pin;
    int rc = floor ? seam_floor(db, snap, slice_of(prefix), slice_of(key), &pin, &err)
                   : seam_ceiling(db, snap, slice_of(prefix), slice_of(key), &pin, &err);

    expect_code(rc, want ? SEAM_OK : SEAM_NOTFOUND, &err);
    if (!want)
        return;
    expect_bytes(pin.key, slice_of(want));
    expect_bytes(pin.value, slice_of(want));
    seam_unpin(&pin);
}

static void store_words(struct word words[WORDS], struct support_rng *rng, uint64_t of_ten)
{
    struct seam_op clear = op_range(LIT("\0"), NONE);
    struct seam_op ops[WORDS];
    size_t n = 0;

    write_ok(db, &clear, 1);
    for (size_t i = 0; i < WORDS; i++) {
        words[i].stored = words[i].len > 0 && support_below(rng, 10) < of_ten;
        if (words[i].stored)
            ops[n++] = op_put(slice_of(&words[i]), slice_of(&words[i]));
    }
    if (n > 0)
        write_ok(db, ops, n);
}

static void check_all(struct seam_snap *snap, const struct word words[WORDS])
{
    for (size_t p = 0; p < WORDS; p++)
        for (size_t k = 0; k < WORDS; k++) {
            check_near(snap, words, &words[p], &words[k], true);
            check_near(snap, words, &words[p], &words[k], false);
        }
}

static void test_exhaustive(void **state)
{
    static const uint64_t densities[] = {10, 5, 1, 0};
    static struct word words[WORDS], before[WORDS];
    struct support_rng rng = {support_seed()};
    struct seam_snap *snap;

    (void)state;
    make_words(words);
    for (size_t i = 0; i < 4; i++) {
        store_words(words, &rng, densities[i]);
        check_all(NULL, words);
    }
    store_words(words, &rng, 5);
    memcpy(before, words, sizeof(words));
    expect_ok(seam_snap_open(db, &snap, NULL), NULL);
    store_words(words, &rng, 5);
    check_all(snap, before);
    seam_snap_close(snap);
}

/* The cases that the design names, spelled out: p, p ff, p ff ff, their empty suffix, and the
 * 1-byte neighbours of p. */
static void test_named_cases(void **state)
{
    struct seam_op ops[] = {
        op_put(LIT("o"), LIT("o")),           op_put(LIT("p"), LIT("p")),
        op_put(LIT("p\0"), LIT("p0")),        op_put(LIT("p\xff"), LIT("pf")),
        op_put(LIT("p\xff\xff"), LIT("pff")), op_put(LIT("q"), LIT("q")),
        op_put(LIT("\xff\xff"), LIT("ff")),
    };
    struct {
        struct seam_slice prefix, key, floor, ceiling;
    } t[] = {
        {LIT("p"), LIT("p"), LIT("p"), LIT("p")},
        {LIT("p"), LIT("o"), NONE, LIT("p")},
        {LIT("p"), LIT("q"), LIT("pff"), NONE},
        {LIT("p"), LIT("\xff"), LIT("pff"), NONE},
        {LIT("p"), NONE, NONE, LIT("p")},
        {LIT("p"), LIT("p\xff\xff\xff"), LIT("pff"), NONE},
        {LIT("p\xff"), LIT("p"), NONE, LIT("pf")},
        {LIT("p\xff"), LIT("p\xff\x01"), LIT("pf"), LIT("pff")},
        {LIT("p\xff"), LIT("z"), LIT("pff"), NONE},
        {LIT("p\xff\xff"), LIT("p\xff\xff"), LIT("pff"), LIT("pff")},
        {LIT("p\xff\xff"), LIT("z"), LIT("pff"), NONE},
        {LIT("p\xff\xff\xff"), LIT("z"), NONE, NONE},
        {LIT("\xff"), LIT("\xff\xff\xff"), LIT("ff"), NONE},
        {LIT("\xff\xff"), LIT("a"), NONE, LIT("ff")},
        {NONE, LIT("p\x01"), LIT("p0"), LIT("pf")},
        {LIT(""), LIT("z"), LIT("q"), LIT("ff")},
        {LIT("r"), LIT("r"), NONE, NONE},
    };

    (void)state;
    write_ok(db, ops, sizeof(ops) / sizeof(ops[0]));
    for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
        struct seam_pin pin;
        int rc = seam_floor(db, NULL, t[i].prefix, t[i].key, &pin, NULL);
        expect_code(rc, t[i].floor.ptr ? SEAM_OK : SEAM_NOTFOUND, NULL);
        if (rc == SEAM_OK) {
            expect_bytes(pin.value, t[i].floor);
            seam_unpin(&pin);
        }
        rc = seam_ceiling(db, NULL, t[i].prefix, t[i].key, &pin, NULL);
        expect_code(rc, t[i].ceiling.ptr ? SEAM_OK : SEAM_NOTFOUND, NULL);
        if (rc == SEAM_OK) {
            expect_bytes(pin.value, t[i].ceiling);
            seam_unpin(&pin);
        }
    }
}

/* Keys to seek and prefixes may be longer than any key that can be stored. */
static void test_over_long(void **state)
{
    struct seam_limits limits;
    struct seam_pin pin;
    size_t len;
    char *text;

    (void)state;
    seam_db_limits(db, &limits);
    if (limits.key > 1u << 20)
        skip();
    len = limits.key + 10;
    text = malloc(len);
    assert_non_null(text);
    memset(text, 'p', len);
    put_ok(db, LIT("p"), LIT("1"));
    put_ok(db, LIT("q"), LIT("2"));
    put_ok(db, seam_bytes(text, limits.key), LIT("longest"));
    expect_ok(seam_floor(db, NULL, LIT("p"), seam_bytes(text, len), &pin, NULL), NULL);
    expect_bytes(pin.value, LIT("longest"));
    seam_unpin(&pin);
    expect_ok(seam_ceiling(db, NULL, NONE, seam_bytes(text, len), &pin, NULL), NULL);
    expect_bytes(pin.value, LIT("2"));
    seam_unpin(&pin);
    expect_code(seam_floor(db, NULL, seam_bytes(text, len), LIT("z"), &pin, NULL), SEAM_NOTFOUND,
                NULL);
    expect_ok(seam_floor(db, NULL, seam_bytes(text, limits.key), LIT("z"), &pin, NULL), NULL);
    expect_bytes(pin.value, LIT("longest"));
    seam_unpin(&pin);
    memset(text, 0xff, len);
    expect_ok(seam_floor(db, NULL, NONE, seam_bytes(text, len), &pin, NULL), NULL);
    expect_bytes(pin.value, LIT("2"));
    seam_unpin(&pin);
    free(text);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int conformance_floor(void)
{
    const struct CMUnitTest floor_and_ceiling[] = {
        TEST(test_exhaustive),
        TEST(test_named_cases),
        TEST(test_over_long),
    };
    return cmocka_run_group_tests(floor_and_ceiling, NULL, NULL);
}
