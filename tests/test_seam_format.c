/* test_seam_format.c - golden bytes of docs/journal-format.md, and that they cannot be misread.
 *
 * The bytes were computed from the tables of that page by another program than this one. The clock
 * and the random bytes are fixed; one reading of the clock goes back. Runs on mem. */
#include "seam_support.h"

#include <stdlib.h>

struct golden {
    const char *key, *value;
};

static const struct golden goldens[] = {
    {"436f6e65", "c50100000100000001000000000000000000000000000000e70ac62c26de57df"},
    {"4374776f", "c50100000200000001000000000000000000000000000000de83e44ea3c803b5"},
    {"45000000010000000000000001",
     "e501000001000000010000000000000000ca9a3b00000000010000000000000005000000e70a"
     "c62c0000000000000000aaeb4c2f68656c6c6f"},
    {"45000000010000000000000002",
     "e501000001000000020000000000000000ca9a3b00000000010000000000000000000000aaeb"
     "4c2f050000000000000051241ced"},
    {"45000000010000000000000003",
     "e501000001000000030000000000000007ca9a3b000000000300000000000000010000005124"
     "1ced050000000000000022fe7ff678"},
    {"45000000020000000000000001",
     "e501000002000000010000000000000000ca9a3b00000000020000000000000005000000de83"
     "e44e0000000000000000627ecb416f74686572"},
    {"470000000000000001",
     "67010000010000000100000000000000000000000000000000ca9a3b00000000020000000000"
     "0000a2c7b1bf9d37bafc086230280100000051241ced02000000000000001b296a31"},
    {"470000000000000002",
     "67010000010000000200000000000000000000000000000000ca9a3b00000000010000000862"
     "30285afc33ff2e7f4cb5fb7669a102000000627ecb4101000000000000003e13222e"},
    {"470000000000000003",
     "67010000010000000300000000000000000000000000000007ca9a3b0000000001000000fb76"
     "69a123f5b427362a6fb5889e42ca0100000022fe7ff60300000000000000dd194a9a"},
    {"4a",
     "5345414d4a524e4c0100000000000000101112131415161718191a1b1c1d1e1f010000000000"
     "000000000000d57c711b"},
    {"50056d6572676554000000006d", "010203040506070876"},
    {"50057461626c654d",
     "5345414d50524f4a0100000000000000101112131415161718191a1b1c1d1e1f000000000000"
     "0000030000000000000022fe7ff6000000000000000000000000000000000000000000000000"
     "030000006f6e652b0d6ed7"},
    {"50057461626c6554000000006b", "78"},
};

enum { GOLDENS = sizeof(goldens) / sizeof(goldens[0]) };

static uint64_t fixed_now(void *ctx, enum seam_clock clock)
{
    static const uint64_t times[] = {1000000000, 999999000, 1000000007};
    unsigned *n = ctx;
    if (clock != SEAM_CLOCK_REAL)
        return 1;
    return times[*n < 3 ? (*n)++ : 2];
}

static int fixed_random(void *ctx, void *buf, size_t len)
{
    (void)ctx;
    for (size_t i = 0; i < len; i++)
        ((uint8_t *)buf)[i] = (uint8_t)(0x10 + i);
    return 0;
}

static void *plain_alloc(void *ctx, size_t len)
{
    (void)ctx;
    return malloc(len);
}

static void plain_free(void *ctx, void *ptr)
{
    (void)ctx;
    free(ptr);
}

static int project(void *ctx, const struct seam_event *event, struct seam_emit *out,
                   struct seam_err *err)
{
    (void)ctx;
    struct seam_op op = {.kind = SEAM_PUT, .key = text("k"), .head = event->data};
    return event->sequence == 3 ? seam_emit_op(out, &op, err) : SEAM_OK;
}

/* Only the journal uses these two; they have no state of the system's behind them. */
static struct seam_platform fixed_platform(unsigned *readings)
{
    struct seam_platform os = *seam_platform_system();
    os.ctx = readings;
    os.now_ns = fixed_now;
    os.random = fixed_random;
    os.alloc = plain_alloc;
    os.free = plain_free;
    return os;
}

static void write_all(struct store *s, unsigned *readings)
{
    struct seam_err err;
    struct seam_journal *j;
    struct seam_projection *t;
    uint32_t one, two;
    struct seam_platform os = fixed_platform(readings);
    struct seam_journal_options o = {.platform = &os};
    ok(seam_journal_open(s->db, &o, &j, &err), err);
    ok(seam_journal_stream(j, text("one"), true, &one, &err), err);
    ok(seam_journal_stream(j, text("two"), true, &two, &err), err);
    struct seam_slice events[2] = {text("hello"), {NULL, 0}}, other = text("other"), x = text("x");
    ok(seam_journal_append(j, one, events, 2, SEAM_ACK_NONE, NULL, &err), err);
    ok(seam_journal_append(j, two, &other, 1, SEAM_ACK_NONE, NULL, &err), err);
    ok(seam_journal_append(j, one, &x, 1, SEAM_ACK_NONE, NULL, &err), err);
    struct seam_projection_options po = {.journal = j, .stream = text("one"), .projector = project};
    ok(seam_projection_open(s->db, text("table"), &po, &t, &err), err);
    ok(seam_projection_catch_up(t, 0, NULL, &err), err);
    ok(seam_projection_close(t, &err), err);
    ok(seam_projection_open(s->db, text("merge"), NULL, &t, &err), err);
    struct seam_entry entry = {text("m"), 0x0102030405060708, text("v")};
    ok(seam_projection_merge(t, &entry, 1, SEAM_ACK_NONE, NULL, &err), err);
    ok(seam_projection_close(t, &err), err);
    ok(seam_journal_close(j, &err), err);
}

static void to_hex(struct seam_slice s, char *out, size_t cap)
{
    assert_true(2 * s.len < cap);
    out[0] = '\0';
    for (size_t i = 0; i < s.len; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", ((const uint8_t *)s.ptr)[i]);
}

static void golden_bytes(void **state)
{
    (void)state;
    struct store s;
    struct seam_err err;
    struct seam_cursor *c;
    struct seam_slice none = {NULL, 0}, key, value;
    char hex[512];
    unsigned readings = 0;
    size_t n = 0;
    store_open(&s, "", "mem", NULL);
    write_all(&s, &readings);
    ok(seam_cursor_open(s.db, NULL, none, none, &c, &err), err);
    while (seam_cursor_move(c, SEAM_NEXT, none, &key, &err) == SEAM_OK) {
        to_hex(key, hex, sizeof(hex));
        if (strcmp(hex, "50056d657267654d") == 0) /* merge's own record: as table's, unfed */
            continue;
        assert_true(n < GOLDENS);
        assert_string_equal(hex, goldens[n].key);
        ok(seam_cursor_value(c, &value, &err), err);
        to_hex(value, hex, sizeof(hex));
        assert_string_equal(hex, goldens[n].value);
        n++;
    }
    assert_int_equal(n, GOLDENS);
    seam_cursor_close(c);
    store_close(&s);
}

/* Opens and reads all that there is. */
static int open_and_read(struct seam_db *db)
{
    struct seam_err err;
    struct seam_journal *j;
    struct seam_journal_reader *r;
    struct seam_event event;
    int rc = seam_journal_open(db, NULL, &j, &err);
    if (rc != SEAM_OK)
        return rc;
    for (uint32_t id = 1; rc == SEAM_OK && id <= seam_journal_stream_count(j); id++) {
        ok(seam_journal_reader_open(j, id, 0, NULL, &r, &err), err);
        while ((rc = seam_journal_reader_next(r, &event, &err)) == SEAM_OK)
            assert_true(event.sequence >= 1);
        rc = rc == SEAM_NOTFOUND ? SEAM_OK : rc;
        seam_journal_reader_close(r);
    }
    if (rc == SEAM_OK) {
        struct seam_projection *t;
        struct seam_projection_options po = {
            .journal = j, .stream = text("one"), .projector = project};
        rc = seam_projection_open(db, text("table"), &po, &t, &err);
        if (rc == SEAM_OK)
            ok(seam_projection_close(t, &err), err);
    }
    ok(seam_journal_close(j, &err), err);
    return rc;
}

/* One record of each kind that opening or reading must look at: all but the two older group
 * records, which only a search for a fault reads. */
static bool is_read(const char *key_hex)
{
    return strncmp(key_hex, "47", 2) != 0 || key_hex[strlen(key_hex) - 1] == '3';
}

/* Every bit of every record flipped, and every record cut at every length: refused, each time. */
static void no_bit_is_free(void **state)
{
    (void)state;
    struct store s;
    struct seam_err err;
    unsigned readings = 0;
    store_open(&s, "", "mem", NULL);
    write_all(&s, &readings);
    assert_int_equal(open_and_read(s.db), SEAM_OK);
    for (size_t g = 0; g < GOLDENS; g++) {
        uint8_t key[32], value[256], bad[256];
        size_t key_len = strlen(goldens[g].key) / 2, len = strlen(goldens[g].value) / 2;
        unsigned byte;
        if (!is_read(goldens[g].key) || strstr(goldens[g].key, "54000000") != NULL)
            continue;
        for (size_t i = 0; i < key_len; i++) {
            assert_int_equal(sscanf(goldens[g].key + 2 * i, "%2x", &byte), 1);
            key[i] = (uint8_t)byte;
        }
        for (size_t i = 0; i < len; i++) {
            assert_int_equal(sscanf(goldens[g].value + 2 * i, "%2x", &byte), 1);
            value[i] = (uint8_t)byte;
        }
        struct seam_op op = {SEAM_PUT, {key, key_len}, {bad, len}, {NULL, 0}};
        for (size_t bit = 0; bit < 8 * len; bit++) {
            memcpy(bad, value, len);
            bad[bit / 8] ^= (uint8_t)(1u << bit % 8);
            ok(seam_write(s.db, &op, 1, SEAM_ACK_NONE, NULL, &err), err);
            int rc = open_and_read(s.db);
            assert_true(rc == SEAM_E_CORRUPT || rc == SEAM_E_MISMATCH);
        }
        memcpy(bad, value, len);
        for (op.head.len = 0; op.head.len < len; op.head.len++) {
            ok(seam_write(s.db, &op, 1, SEAM_ACK_NONE, NULL, &err), err);
            int rc = open_and_read(s.db);
            assert_true(rc == SEAM_E_CORRUPT || rc == SEAM_E_MISMATCH);
        }
        ok(seam_write(s.db, &op, 1, SEAM_ACK_NONE, NULL, &err), err);
    }
    assert_int_equal(open_and_read(s.db), SEAM_OK);
    store_close(&s);
}

/* ---- what is there only while a table is built or swept -------------------------------------- */

static const char build_golden[] =
    "5345414d50524f4a0100000001000000101112131415161718191a1b1c1d1e1f000000000000"
    "00000100000000000000aaeb4c2f000000000000000000000000000000000000000001000000"
    "030000006f6e6505794662";
static const char sweep_golden[] = "5345414d53574550010000008c88698a";

static void rebuild(struct store *s, uint64_t most)
{
    struct seam_err err;
    struct seam_journal *j;
    struct seam_projection *t;
    struct seam_rebuild_options o = {.max_events = most};
    ok(seam_journal_open(s->db, NULL, &j, &err), err);
    struct seam_projection_options po = {.journal = j, .stream = text("one"), .projector = project};
    ok(seam_projection_open(s->db, text("table"), &po, &t, &err), err);
    ok(seam_projection_rebuild(t, &o, NULL, &err), err);
    ok(seam_projection_close(t, &err), err);
    ok(seam_journal_close(j, &err), err);
}

/* The record is those bytes; and with any of its bits another, or cut, it is refused. */
static void hold_to(struct store *s, char tag, const char *golden)
{
    struct seam_err err;
    char hex[512];
    uint8_t value[256];
    struct raw_key key = {{'P', 5, 't', 'a', 'b', 'l', 'e', (uint8_t)tag}, 8};
    size_t len = raw_get(s->db, key, value, sizeof value);
    to_hex(seam_bytes(value, len), hex, sizeof hex);
    assert_string_equal(hex, golden);
    for (size_t bit = 0; bit < 8 * len; bit++) {
        value[bit / 8] ^= (uint8_t)(1u << bit % 8);
        raw_put(s->db, key, value, len);
        assert_int_equal(open_and_read(s->db), SEAM_E_CORRUPT);
        value[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t cut = 0; cut < len; cut++) {
        struct seam_op op = {SEAM_PUT, {key.bytes, key.len}, {value, cut}, {NULL, 0}};
        ok(seam_write(s->db, &op, 1, SEAM_ACK_NONE, NULL, &err), err);
        assert_int_equal(open_and_read(s->db), SEAM_E_CORRUPT);
    }
    raw_put(s->db, key, value, len);
}

static void rebuild_golden(void **state)
{
    (void)state;
    struct store s;
    unsigned readings = 0;
    store_open(&s, "", "mem", NULL);
    write_all(&s, &readings);
    rebuild(&s, 1);
    hold_to(&s, 'B', build_golden);
    rebuild(&s, 2); /* ended, and not swept */
    hold_to(&s, 'S', sweep_golden);
    assert_int_equal(open_and_read(s.db), SEAM_OK);
    store_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_bytes),
        cmocka_unit_test(no_bit_is_free),
        cmocka_unit_test(rebuild_golden),
    };
    return cmocka_run_group_tests_name("seam_format", tests, NULL, NULL);
}
