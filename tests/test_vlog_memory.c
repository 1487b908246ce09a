/* test_vlog_memory.c - what the native engine does as options.memory runs short: it keeps values in the
 * log alone, and refuses a commit only when the references do not fit either. */
#include "support.h"

enum { VALUE = 1000, MEMORY = 2 << 20 };

static void value_of(uint64_t i, unsigned char value[VALUE])
{
    support_fill(value, VALUE, (unsigned)i);
    memcpy(value, &i, sizeof i);
}

static struct seam_slice key_of(uint64_t i, char buf[24])
{
    int n = snprintf(buf, 24, "%012llu", (unsigned long long)i);
    return seam_bytes(buf, (size_t)n);
}

static void expect_all(struct seam_db *db, uint64_t from, uint64_t to)
{
    const struct seam_slice none = {NULL, 0};
    struct seam_cursor *c;
    struct seam_err err;
    struct seam_slice key, value;
    unsigned char want[VALUE];
    char buf[24];
    expect_ok(seam_cursor_open(db, NULL, none, none, &c, &err), &err);
    for (uint64_t i = from; i < to; i++) {
        struct seam_pin pin;
        value_of(i, want);
        expect_ok(seam_get(db, NULL, key_of(i, buf), &pin, &err), &err);
        assert_int_equal(pin.value.len, VALUE);
        assert_memory_equal(pin.value.ptr, want, VALUE);
        seam_unpin(&pin);
        expect_ok(seam_cursor_move(c, SEAM_NEXT, none, &key, &err), &err);
        expect_ok(seam_cursor_value(c, &value, &err), &err);
        assert_memory_equal(key.ptr, buf, key.len);
        assert_memory_equal(value.ptr, want, VALUE);
    }
    assert_int_equal(seam_cursor_move(c, SEAM_NEXT, none, &key, &err), SEAM_NOTFOUND);
    seam_cursor_close(c);
}

static int put(struct seam_db *db, uint64_t i, struct seam_err *err)
{
    unsigned char value[VALUE];
    char buf[24];
    struct seam_op op = op_put(key_of(i, buf), seam_bytes(value, VALUE));
    value_of(i, value);
    return seam_write(db, &op, 1, SEAM_ACK_PROCESS, NULL, err);
}

static void test_short_of_memory(void **state)
{
    struct seam_options o = {.mode = SEAM_OPEN_CREATE, .memory = MEMORY};
    const char *dir = support_dir();
    struct seam_db *db = support_open_with("vlog:segment=1M", dir, &o);
    struct seam_err err = {0};
    uint64_t n = 0;
    int rc = SEAM_OK;
    (void)state;
    while (n < 1000000 && (rc = put(db, n, &err)) == SEAM_OK)
        n++;
    assert_int_equal(rc, SEAM_E_NO_SPACE);
    assert_string_equal(err.limit, "memory");
    print_message("%llu values of %d in %d of memory\n", (unsigned long long)n, VALUE, MEMORY);
    assert_true(n * VALUE > UINT64_C(3) * MEMORY);
    expect_all(db, 0, n);
    support_close(db);
    o.mode = SEAM_OPEN_EXISTING;
    db = support_open_with("vlog:segment=1M", dir, &o);
    expect_all(db, 0, n);
    /* What is deleted makes room again, and a store with room keeps its values. */
    char buf[24];
    struct seam_op gone = op_range(key_of(0, buf), seam_bytes(buf, 0));
    gone.head = (struct seam_slice){NULL, 0};
    expect_ok(seam_write(db, &gone, 1, SEAM_ACK_PROCESS, NULL, &err), &err);
    for (uint64_t i = 0; i < n; i++)
        expect_ok(put(db, i, &err), &err);
    expect_all(db, 0, n);
    support_close(db);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_short_of_memory)};
    int rc = support_begin(argc, argv);
    return rc ? rc : cmocka_run_group_tests_name("vlog_memory", tests, NULL, NULL);
}
