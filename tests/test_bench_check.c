/* test_bench_check.c - the benchmark's own checks of what was acked: they find what is missing, what is
 * something else, and nothing where all is there. */
#include "run.h"

#include <seam/journal.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
    struct run r;
    struct bench_turn turn;
    struct bench_figures figures;
    struct run_append a;
};

static struct fixture *begin(enum bench_workload workload)
{
    struct fixture *f = calloc(1, sizeof(*f));
    f->turn.workload = workload;
    f->turn.value = 64;
    f->turn.threads = 1;
    f->r.turn = &f->turn;
    f->r.ret = &f->figures;
    assert_int_equal(seam_corpus_open("representative", 42, &f->r.corpus, NULL), SEAM_OK);
    seam_corpus_describe(f->r.corpus, &f->r.info);
    assert_int_equal(seam_maker_open(f->r.corpus, &f->r.maker, NULL), SEAM_OK);
    assert_int_equal(seam_open("mem", NULL, NULL, &f->r.db, NULL), SEAM_OK);
    assert_true(run_ring_make(&f->r, &f->a.ring));
    return f;
}

static void end(struct fixture *f)
{
    assert_int_equal(seam_journal_close(f->a.journal, NULL), SEAM_OK);
    assert_int_equal(seam_close(f->r.db, NULL), SEAM_OK);
    seam_maker_close(f->r.maker);
    seam_corpus_close(f->r.corpus);
    free(f->a.ring);
    free(f);
}

static uint64_t wrong(struct fixture *f, uint64_t acked)
{
    f->figures.wrong = 0;
    atomic_store(&f->a.acked, acked);
    assert_true(run_check_append(&f->r, &f->a));
    return f->figures.wrong;
}

static void put(struct fixture *f, uint64_t number, uint64_t message)
{
    uint8_t key[RUN_KEY];
    run_key(number, key);
    struct seam_op op = {.kind = SEAM_PUT, .key = seam_bytes(key, RUN_KEY)};
    op.head = seam_bytes(run_message(&f->r, f->a.ring, message), f->turn.value);
    assert_int_equal(seam_write(f->r.db, &op, 1, SEAM_ACK_NONE, NULL, NULL), SEAM_OK);
}

static void messages(void **state)
{
    (void)state;
    struct fixture *f = begin(BENCH_APPEND);
    for (uint64_t i = 0; i < 10; i++)
        put(f, i, i);
    assert_int_equal(wrong(f, 10), 0);
    assert_int_equal(wrong(f, 11), 1); /* lost */
    put(f, 4, 5);
    assert_int_equal(wrong(f, 10), 1); /* another's */
    f->figures.failures = 1;           /* then nothing is known */
    assert_int_equal(wrong(f, 11), 0);
    end(f);
}

static void events(void **state)
{
    (void)state;
    struct fixture *f = begin(BENCH_JOURNAL);
    assert_int_equal(seam_journal_open(f->r.db, NULL, &f->a.journal, NULL), SEAM_OK);
    assert_int_equal(seam_journal_stream(f->a.journal, seam_bytes("bench", 5), true, &f->a.stream, NULL),
                     SEAM_OK);
    assert_int_equal(wrong(f, 0), 0);
    for (uint64_t i = 0; i < 10; i++) {
        struct seam_slice event = seam_bytes(run_message(&f->r, f->a.ring, i), f->turn.value);
        assert_int_equal(seam_journal_append(f->a.journal, f->a.stream, &event, 1, SEAM_ACK_NONE, NULL, NULL),
                         SEAM_OK);
    }
    assert_int_equal(wrong(f, 10), 0);
    assert_true(wrong(f, 11) > 0); /* the last acked is not there */
    assert_true(wrong(f, 9) > 0);  /* one that nobody acked is */
    struct seam_slice bad = seam_bytes(f->a.ring + 1, f->turn.value);
    assert_int_equal(seam_journal_append(f->a.journal, f->a.stream, &bad, 1, SEAM_ACK_NONE, NULL, NULL),
                     SEAM_OK);
    assert_int_equal(wrong(f, 11), 1);
    end(f);
}

static void units(void **state)
{
    (void)state;
    struct fixture *f = begin(BENCH_UNITS);
    struct seam_unit unit;
    for (uint64_t i = 0; i < 9; i++) {
        assert_int_equal(seam_maker_unit(f->r.maker, run_first_unit(&f->r) + i, &unit, NULL), SEAM_OK);
        assert_int_equal(seam_write(f->r.db, unit.ops, unit.n, SEAM_ACK_NONE, NULL, NULL), SEAM_OK);
    }
    assert_int_equal(wrong(f, 9), 0);
    assert_true(wrong(f, 10) > 0); /* the last was lost */
    uint8_t key[512];
    size_t len = unit.ops[unit.n - 1].key.len;
    memcpy(key, unit.ops[unit.n - 1].key.ptr, len);
    struct seam_op op = {.kind = SEAM_PUT, .key = seam_bytes(key, len)};
    op.head = seam_bytes("not a proof, but long", 21);
    assert_int_equal(seam_write(f->r.db, &op, 1, SEAM_ACK_NONE, NULL, NULL), SEAM_OK);
    assert_true(wrong(f, 9) > 0);
    f->turn.threads = 2; /* not exact, yet no value of the corpus */
    assert_true(wrong(f, 9) > 0);
    end(f);
}

/* RocksDB's table of levels, as it prints it. */
static void levels_are_read(void **state)
{
    (void)state;
    static const char text[] =
        "** Compaction Stats [default] **\n"
        "Level    Files   Size     Score Read(GB)  Rn(GB) Rnp1(GB) Write(GB) Wnew(GB) Moved(GB) W-Amp "
        "Rd(MB/s) Wr(MB/s) Comp(sec) CompMergeCPU(sec) Comp(cnt) Avg(sec) KeyIn KeyDrop\n"
        "----------\n"
        "  L0      2/0   60.12 MB   0.5      0.0     0.0      0.0       0.1      0.1       0.0   1.0      0.0"
        "    301.2      0.40              0.39         6    0.067       0      0\n"
        "  L6      1/0   30.00 MB   0.0      0.1     0.1      0.0       0.1      0.1       0.0   0.5    250.0"
        "    120.0      0.50              0.45         1    0.500    900K      0\n"
        " Sum      3/0   90.12 MB   0.0      0.1     0.1      0.0       0.2      0.2       0.0   1.5    138.8"
        "    200.5      0.90              0.84         7    0.129    900K      0\n";
    double flushes, compactions;
    run_ingest_levels(text, &flushes, &compactions);
    assert_true(flushes == 6 && compactions == 1);
    run_ingest_levels("vlog: rolls 3\n", &flushes, &compactions);
    assert_true(isnan(flushes) && isnan(compactions));
}

/* What is written beforehand is as much as was asked, and in nobody's way. */
static void steady_is_as_asked(void **state)
{
    (void)state;
    struct fixture *f = begin(BENCH_APPEND);
    struct seam_stats stats;
    f->turn.steady = 100001;
    f->r.limits.best = SEAM_ACK_NONE;
    assert_true(run_steady(&f->r, f->a.ring));
    assert_int_equal(seam_db_stats(f->r.db, &stats, NULL), SEAM_OK);
    assert_true(stats.user_bytes >= 100001 && stats.user_bytes < 110000);
    assert_int_equal(wrong(f, 0), 0);
    assert_int_equal(wrong(f, 1), 1); /* message 0 is not there by it */
    f->turn.workload = BENCH_UNITS;
    assert_true(run_steady(&f->r, f->a.ring));
    end(f);
}

/* ---- threads ----------------------------------------------------------------------------- */

static _Atomic unsigned made, early;

static void slow_to_make(struct run_worker *w)
{
    if (w->number == 1)
        w->r->os->sleep_us(w->r->os->ctx, 20000);
    early += atomic_load(w->phase) != RUN_MAKE;
    made++;
    run_ready(w);
    early += made != w->r->turn->threads || atomic_load(w->phase) == RUN_MAKE;
}

static void cannot_begin(struct run_worker *w)
{
    (void)run_note_failure(w, SEAM_E_NOMEM, NULL);
}

/* No thread is measured while another still makes what it needs. */
static void all_begin_together(void **state)
{
    (void)state;
    struct fixture *f = begin(BENCH_APPEND);
    f->r.os = seam_platform_system();
    f->turn.threads = 3;
    f->turn.warm_seconds = f->turn.seconds = 0.001;
    made = early = 0;
    assert_true(run_threads(&f->r, slow_to_make, NULL));
    assert_int_equal(early, 0);
    assert_int_equal(f->figures.failures, 0);
    assert_true(run_threads(&f->r, cannot_begin, NULL));
    assert_int_equal(f->figures.failures, 3);
    assert_int_equal(f->figures.error_code, SEAM_E_NOMEM);
    end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages),
        cmocka_unit_test(events),
        cmocka_unit_test(units),
        cmocka_unit_test(levels_are_read),
        cmocka_unit_test(steady_is_as_asked),
        cmocka_unit_test(all_begin_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
