/* test_fanout.c - test_fanout ENGINE: one unit of 95,000 entries is classified before a byte is
 * written as it is committed after, and refused whole where it does not fit.
 *
 * Relies on the corpus' fanout profile. */
#include <seam/corpus.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { ENTRIES = 95000 };

struct fixture {
    const char *engine;
    char dir[64], store[96];
    struct seam_corpus *corpus;
    struct seam_maker *maker;
    struct seam_unit unit;
    struct seam_db *db;
};

static struct fixture *open_spec(void **state, const char *wrapper, uint32_t headroom)
{
    struct fixture *f = *state;
    struct seam_options options = {.mode = SEAM_OPEN_CREATE, .headroom_percent = headroom};
    char spec[128];
    struct seam_err err;
    snprintf(spec, sizeof(spec), "%s%s", wrapper, f->engine);
    options.memory = 256u << 20;
    int rc = seam_open(spec, f->store, &options, &f->db, &err);
    if (rc != SEAM_OK)
        fail_msg("%s: %s", spec, err.text);
    return f;
}

static enum seam_verdict verdict_of(struct fixture *f, struct seam_fit *fit)
{
    struct seam_limits limits;
    seam_db_limits(f->db, &limits);
    seam_classify(&limits, f->unit.ops, f->unit.n, NULL, fit);
    return fit->verdict;
}

static uint64_t count_keys(struct fixture *f)
{
    const struct seam_slice none = {NULL, 0};
    struct seam_cursor *c;
    uint64_t n = 0;
    assert_int_equal(seam_cursor_open(f->db, NULL, none, none, &c, NULL), SEAM_OK);
    while (seam_cursor_move(c, SEAM_NEXT, none, NULL, NULL) == SEAM_OK)
        n++;
    seam_cursor_close(c);
    return n;
}

static void fits_and_commits(void **state)
{
    struct fixture *f = open_spec(state, "", 0);
    struct seam_fit before, after;
    struct seam_limits limits;
    struct seam_err err;
    seam_db_limits(f->db, &limits);
    assert_int_equal(verdict_of(f, &before), SEAM_FITS);
    int rc = seam_write(f->db, f->unit.ops, f->unit.n, (uint32_t)limits.best, NULL, &err);
    if (rc != SEAM_OK)
        fail_msg("%s", err.text);
    assert_int_equal(verdict_of(f, &after), SEAM_FITS);
    assert_int_equal(before.commits, after.commits);
    assert_int_equal(count_keys(f), ENTRIES);
    for (size_t i = 0; i < f->unit.n; i += 97) {
        const struct seam_op *op = &f->unit.ops[i];
        struct seam_pin pin;
        assert_int_equal(seam_get(f->db, NULL, op->key, &pin, NULL), SEAM_OK);
        assert_int_equal(pin.value.len, op->head.len + op->body.len);
        assert_memory_equal(pin.value.ptr, op->head.ptr, op->head.len);
        seam_unpin(&pin);
    }
}

/* 104,000 ops with a headroom of 90 % are 93,600. */
static void over_a_ceiling_is_refused(void **state)
{
    struct fixture *f = open_spec(state, "limit:ops=104K+", 0);
    struct seam_fit fit;
    struct seam_ticket *ticket = NULL;
    struct seam_err err;
    size_t *ends = calloc(ENTRIES, sizeof(*ends));
    struct seam_limits limits;
    assert_int_equal(verdict_of(f, &fit), SEAM_SPLITS);
    assert_int_equal(fit.commits, 2);
    assert_string_equal(fit.limit, "ops");
    assert_int_equal(seam_prepare(f->db, f->unit.ops, f->unit.n, SEAM_ACK_NONE, &ticket, &err),
                     SEAM_E_TOO_LARGE);
    assert_null(ticket);
    assert_string_equal(err.limit, "ops");
    assert_int_equal(err.max, 93600);
    assert_int_equal(err.got, ENTRIES);
    assert_int_equal(count_keys(f), 0);
    /* The parts that it splits into do fit. */
    seam_db_limits(f->db, &limits);
    seam_classify(&limits, f->unit.ops, f->unit.n, ends, &fit);
    assert_int_equal(ends[0], 93600);
    assert_int_equal(ends[1], ENTRIES);
    assert_int_equal(seam_write(f->db, f->unit.ops, ends[0], SEAM_ACK_NONE, NULL, &err), SEAM_OK);
    assert_int_equal(seam_write(f->db, f->unit.ops + ends[0], ends[1] - ends[0], SEAM_ACK_NONE,
                                NULL, &err),
                     SEAM_OK);
    assert_int_equal(count_keys(f), ENTRIES);
    free(ends);
}

static void without_headroom_it_fits(void **state)
{
    struct fixture *f = open_spec(state, "limit:ops=104K+", 100);
    struct seam_fit fit;
    assert_int_equal(verdict_of(f, &fit), SEAM_FITS);
    assert_int_equal(seam_write(f->db, f->unit.ops, f->unit.n, SEAM_ACK_NONE, NULL, NULL), SEAM_OK);
    assert_int_equal(count_keys(f), ENTRIES);
}

static void a_ceiling_on_bytes_too(void **state)
{
    struct fixture *f = open_spec(state, "limit:bytes=2M+", 100);
    struct seam_fit fit;
    struct seam_err err;
    assert_int_equal(verdict_of(f, &fit), SEAM_SPLITS);
    assert_string_equal(fit.limit, "bytes");
    assert_int_equal(seam_write(f->db, f->unit.ops, f->unit.n, SEAM_ACK_NONE, NULL, &err),
                     SEAM_E_TOO_LARGE);
    assert_string_equal(err.limit, "bytes");
    assert_int_equal(err.max, 2u << 20);
    assert_int_equal(err.got, f->unit.bytes);
    assert_int_equal(count_keys(f), 0);
}

static void the_meet_is_the_smallest(void **state)
{
    struct fixture *f = open_spec(state, "", 0);
    struct seam_limits meet, low;
    struct seam_fit fit;
    seam_db_limits(f->db, &meet);
    low = meet;
    low.ops = 1000;
    low.best = SEAM_ACK_NONE;
    low.caps = SEAM_CAP_MAY_ABORT;
    seam_limits_meet(&meet, &low);
    assert_int_equal(meet.ops, 1000);
    assert_int_equal(meet.best, SEAM_ACK_NONE);
    assert_int_equal(meet.caps, SEAM_CAP_MAY_ABORT);
    seam_classify(&meet, f->unit.ops, f->unit.n, NULL, &fit);
    assert_int_equal(fit.verdict, SEAM_SPLITS);
    assert_int_equal(fit.commits, ENTRIES / 1000);
}

static int setup(void **state)
{
    static struct fixture f; /* test program: one at a time */
    const char *engine = *state ? ((struct fixture *)*state)->engine : f.engine;
    memset(&f, 0, sizeof(f));
    f.engine = engine;
    snprintf(f.dir, sizeof(f.dir), "seam-fanout.XXXXXX");
    if (!mkdtemp(f.dir))
        return -1;
    snprintf(f.store, sizeof(f.store), "%s/store", f.dir);
    if (seam_corpus_open("fanout", 42, &f.corpus, NULL) != SEAM_OK ||
        seam_maker_open(f.corpus, &f.maker, NULL) != SEAM_OK ||
        seam_maker_unit(f.maker, 0, &f.unit, NULL) != SEAM_OK || f.unit.n != ENTRIES)
        return -1;
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    char command[160];
    int rc = seam_close(f->db, NULL);
    seam_maker_close(f->maker);
    seam_corpus_close(f->corpus);
    snprintf(command, sizeof(command), "rm -rf '%s'", f->dir);
    FILE *rm = popen(command, "r");
    return rm && pclose(rm) == 0 && rc == SEAM_OK ? 0 : -1;
}

int main(int argc, char **argv)
{
    struct fixture given = {.engine = argc > 1 ? argv[1] : "mem"};
#define TEST(name) cmocka_unit_test_prestate_setup_teardown(name, setup, teardown, &given)
    const struct CMUnitTest tests[] = {
        TEST(fits_and_commits),         TEST(over_a_ceiling_is_refused),
        TEST(without_headroom_it_fits), TEST(a_ceiling_on_bytes_too),
        TEST(the_meet_is_the_smallest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
