/* test_verify.c - test_verify ENGINE: what verify finds in a journal, whole or damaged.
 *
 * Every byte of every record is flipped, zeroed, and cut off in turn; every record is taken away. */
#include "seam_support.h"

#include <stdlib.h>

static const char *engine;

static void append_text(struct seam_journal *j, uint32_t stream, const char *what)
{
    struct seam_err err;
    struct seam_slice event = text(what);
    uint32_t ack = best_ack(seam_journal_db(j));
    ok(seam_journal_append(j, stream, &event, 1, ack, NULL, &err), err);
}

/* Two streams, a third that is empty; groups of one and of three events; one stream is trimmed. */
static void make(struct store *s, struct seam_journal **ret)
{
    struct seam_err err;
    struct seam_slice three[3] = {text("one"), text(""), text("three")};
    store_open(s, "", engine, NULL);
    journal_open(s, ret);
    uint32_t a = journal_stream(*ret, "a"), b = journal_stream(*ret, "b");
    (void)journal_stream(*ret, "empty");
    append_text(*ret, a, "first");
    append_text(*ret, b, "b1");
    ok(seam_journal_append(*ret, a, three, 3, best_ack(s->db), NULL, &err), err);
    append_text(*ret, b, "b2");
    append_text(*ret, a, "last of a");
    ok(seam_journal_trim(*ret, a, 3, false, NULL, &err), err);
}

static void whole(void **state)
{
    (void)state;
    struct store s;
    struct seam_journal *j;
    struct seam_err err;
    struct seam_verified v = {0};
    make(&s, &j);
    for (int round = 0; round < 3; round++) { /* as it was made; closed; opened again */
        ok(seam_journal_verify(s.db, text(""), &v, &err), err);
        assert_int_equal(v.streams, 3);
        assert_int_equal(v.events, 5);
        assert_int_equal(v.bytes, strlen("three") + strlen("last of a") + 4);
        assert_int_equal(v.groups, 4); /* event b 1 is of the second */
        assert_int_equal(v.faults, 0);
        if (round == 0) {
            journal_close(j);
            store_reopen(&s);
        } else if (round == 1) {
            journal_open(&s, &j);
        }
    }
    journal_close(j);
    store_close(&s);
}

static void none_there(void **state)
{
    (void)state;
    struct store s;
    struct seam_journal *j;
    struct seam_err err;
    struct seam_verified v = {.faults = 77};
    store_open(&s, "", engine, NULL);
    assert_int_equal(seam_journal_verify(s.db, text(""), &v, &err), SEAM_E_NO_STORE);
    char prefix[SEAM_JOURNAL_PREFIX_MAX + 1] = {0};
    assert_int_equal(seam_journal_verify(s.db, seam_bytes(prefix, sizeof prefix), &v, &err),
                     SEAM_E_INVALID);
    assert_int_equal(v.faults, 77);
    journal_open(&s, &j);
    ok(seam_journal_verify(s.db, text(""), &v, &err), err);
    assert_int_equal(v.streams + v.events + v.groups + v.faults, 0);
    journal_close(j);
    store_close(&s);
}

/* ---- damage ------------------------------------------------------------------------------ */

enum { KEYS_MOST = 64, VALUE_MOST = 256 };

struct record {
    struct raw_key key;
    uint8_t value[VALUE_MOST];
    size_t len;
};

static size_t read_all(struct seam_db *db, struct record *out)
{
    struct seam_err err;
    struct seam_cursor *c;
    struct seam_slice key, value, none = {NULL, 0};
    size_t n = 0;
    ok(seam_cursor_open(db, NULL, none, none, &c, &err), err);
    while (seam_cursor_move(c, SEAM_NEXT, none, &key, &err) == SEAM_OK) {
        assert_true(n < KEYS_MOST && key.len <= sizeof out->key.bytes);
        ok(seam_cursor_value(c, &value, &err), err);
        assert_true(value.len <= VALUE_MOST);
        memcpy(out[n].key.bytes, key.ptr, key.len);
        out[n].key.len = key.len;
        memcpy(out[n].value, value.ptr, value.len);
        out[n++].len = value.len;
    }
    seam_cursor_close(c);
    return n;
}

static void expect_fault(struct seam_db *db, const struct record *r, const char *what, size_t at)
{
    struct seam_err err = {.op = SEAM_NO_OP};
    struct seam_verified v = {0};
    int rc = seam_journal_verify(db, text(""), &v, &err);
    if (rc != SEAM_E_CORRUPT && rc != SEAM_E_MISMATCH)
        print_message("key %c..., %s byte %zu: %s\n", r->key.bytes[0], what, at, seam_code_name(rc));
    assert_int_equal(rc, SEAM_E_CORRUPT);
    assert_true(v.faults >= 1);
    assert_true(err.text[0] != 0);
}

static void every_byte(void **state)
{
    (void)state;
    static struct record records[KEYS_MOST];
    struct store s;
    struct seam_journal *j;
    struct seam_err err;
    struct seam_verified v;
    make(&s, &j);
    journal_close(j);
    size_t n = read_all(s.db, records);
    assert_int_equal(n, 1 + 3 + 5 + 4);
    for (size_t i = 0; i < n; i++) {
        const struct record *r = &records[i];
        for (size_t at = 0; at < r->len; at++) {
            uint8_t buf[VALUE_MOST];
            memcpy(buf, r->value, r->len);
            buf[at] ^= (uint8_t)(1u << at % 8);
            raw_put(s.db, r->key, buf, r->len);
            expect_fault(s.db, r, "flipped", at);
            if (r->value[at] != 0) {
                buf[at] = 0;
                raw_put(s.db, r->key, buf, r->len);
                expect_fault(s.db, r, "zeroed", at);
            }
            raw_put(s.db, r->key, r->value, at);
            expect_fault(s.db, r, "cut at", at);
        }
        raw_delete(s.db, r->key);
        if (r->key.len > 2 && r->key.bytes[0] == 'C') /* a stream without events was never there */
            ok(seam_journal_verify(s.db, text(""), &v, &err), err);
        else
            expect_fault(s.db, r, "gone", 0);
        raw_put(s.db, r->key, r->value, r->len);
    }
    ok(seam_journal_verify(s.db, text(""), &v, &err), err);
    store_close(&s);
}

/* Each fault is told once, the first by its place, and what follows it is still read. */
static void goes_on(void **state)
{
    (void)state;
    struct store s;
    struct seam_journal *j;
    struct seam_err err;
    struct seam_verified v = {0};
    make(&s, &j);
    journal_close(j);
    raw_delete(s.db, raw_event(1, 4));
    raw_put(s.db, raw_event(2, 1), "x", 1);
    assert_int_equal(seam_journal_verify(s.db, text(""), &v, &err), SEAM_E_CORRUPT);
    assert_int_equal(v.faults, 2);
    assert_int_equal(v.stream, 1);
    assert_int_equal(v.sequence, 4);
    assert_non_null(strstr(err.text, "stream 1, sequence 4"));
    assert_int_equal(v.events, 3);
    store_close(&s);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s ENGINE\n", argv[0]);
        return 2;
    }
    engine = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole),
        cmocka_unit_test(none_there),
        cmocka_unit_test(every_byte),
        cmocka_unit_test(goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
