/* test_bench_parts.c - the parts of the command that can be tested without a run: histogram,
 * statistics, lists, figures as text, tables, the wire. */
#include "plan.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void a_histogram_is_close(void **state)
{
    (void)state;
    struct bench_hist *h = calloc(1, sizeof(*h));
    for (uint64_t ns = 1; ns < (UINT64_C(1) << 40); ns = ns * 5 / 4 + 1) {
        uint64_t told = bench_hist_value(bench_hist_index(ns));
        double off = fabs((double)told - (double)ns) / (double)ns;
        if (off > 0.017)
            fail_msg("%llu is told as %llu", (unsigned long long)ns, (unsigned long long)told);
    }
    bench_hist_add(h, UINT64_MAX); /* kept in the last bucket */
    assert_int_equal(h->max, UINT64_MAX);
    free(h);
}

static void a_percentile_needs_ten_samples_beyond(void **state)
{
    (void)state;
    struct bench_hist *h = calloc(1, sizeof(*h));
    for (uint64_t i = 1; i <= 999; i++)
        bench_hist_add(h, i * 1000);
    assert_true(isnan(bench_hist_percentile(h, 0.99)));
    bench_hist_add(h, 1000 * 1000);
    double p99 = bench_hist_percentile(h, 0.99), p50 = bench_hist_percentile(h, 0.5);
    assert_true(p99 > 970e3 && p99 < 1010e3);
    assert_true(p50 > 490e3 && p50 < 510e3);
    assert_true(isnan(bench_hist_percentile(h, 0.999)));
    free(h);
}

static void ratios_are_paired(void **state)
{
    (void)state;
    const double a[] = {10, 40, 30, NAN}, b[] = {5, 10, NAN, 1};
    struct bench_spread s;
    bench_paired(a, b, 4, &s);
    assert_int_equal(s.n, 2);
    assert_true(s.low == 2 && s.high == 4 && s.median == 3);
    assert_false(bench_straddles(&s));
    const double c[] = {1, 2, 1}, d[] = {2, 1, 1};
    bench_paired(c, d, 3, &s);
    assert_true(bench_straddles(&s));
    bench_spread(a, 0, &s);
    assert_true(isnan(s.median));
}

static void seconds_and_lists(void **state)
{
    (void)state;
    double v = 0;
    uint64_t list[3];
    char why[128] = "";
    assert_true(bench_parse_seconds("250ms", &v) && fabs(v - 0.25) < 1e-9);
    assert_true(bench_parse_seconds("2m", &v) && v == 120);
    static const char *const bad[] = {"", "x", "0", "-1", "1h", "nan", "1e400", ".", "0x10", "1e3", "1..2"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(bench_parse_seconds(bad[i], &v));
    assert_int_equal(bench_list_counts("1,8,1K", 1, 2000, list, 3, why, sizeof(why)), 3);
    assert_int_equal(list[2], 1000);
    assert_int_equal(bench_list_counts("1,2,3,4", 1, 9, list, 3, why, sizeof(why)), 0);
    assert_int_equal(bench_list_counts("0", 1, 9, list, 3, why, sizeof(why)), 0);
    assert_int_equal(bench_list_counts("1,", 1, 9, list, 3, why, sizeof(why)), 0);
}

static void figures_are_short(void **state)
{
    (void)state;
    char buf[BENCH_TEXT];
    assert_string_equal(bench_text_count(6400, buf), "6.4k");
    assert_string_equal(bench_text_count(12, buf), "12");
    assert_string_equal(bench_text_count(NAN, buf), "-");
    assert_string_equal(bench_text_count(999.6, buf), "1.0k");
    assert_string_equal(bench_text_bytes(171.0 * 1048576, buf), "171M");
    assert_string_equal(bench_text_ms(149, buf), "0.15");
    assert_string_equal(bench_text_ratio(33.33, buf), "33.3");
}

static void a_turn_goes_over_the_wire(void **state)
{
    (void)state;
    struct bench_turn turn, back;
    memset(&turn, 0, sizeof(turn));
    turn.workload = BENCH_FLOOR;
    snprintf(turn.engine, sizeof(turn.engine), "rocksdb:blob,write_buffer=8M");
    snprintf(turn.profile, sizeof(turn.profile), "./a \"quoted\".ini");
    snprintf(turn.dir, sizeof(turn.dir), "/somewhere/with space");
    turn.seed = UINT64_MAX / 2;
    turn.ack = SEAM_ACK_POWER | SEAM_ACK_WINDOW(1000);
    turn.seconds = 0.25;
    turn.warm_seconds = 0.0825;
    turn.keys = 12345;
    turn.ingest = 77;
    turn.steady = 78;
    turn.volume = UINT64_C(5) << 30;
    char *text = wire_encode_turn(&turn);
    assert_true(wire_decode_turn(text, &back));
    assert_memory_equal(&turn, &back, sizeof(turn));
    for (size_t cut = 0; cut < strlen(text); cut++) {
        char *part = strdup(text);
        part[cut] = 0;
        assert_false(wire_decode_turn(part, &back));
        free(part);
    }
    free(text);
}

static void figures_go_over_the_wire(void **state)
{
    (void)state;
    struct bench_figures *f = calloc(1, sizeof(*f)), *back = calloc(1, sizeof(*back));
    f->done = true;
    f->rate = 1234.5;
    f->flushes = NAN;
    f->ack_given = -1;
    f->failures_by_code[7] = 3;
    snprintf(f->answers, sizeof(f->answers), "0123456789abcdef0123456789abcdef");
    for (uint64_t i = 0; i < 1000; i++)
        bench_hist_add(&f->latency, i * i * 977);
    char *text = wire_encode_figures(f);
    assert_true(wire_decode_figures(text, back));
    assert_memory_equal(&f->latency, &back->latency, sizeof(f->latency));
    assert_true(isnan(back->flushes) && back->rate == 1234.5 && back->done);
    assert_int_equal(back->ack_given, -1);
    assert_int_equal(back->failures_by_code[7], 3);
    assert_string_equal(back->answers, f->answers);
    assert_false(wire_decode_figures("{\"latency\":[99999999,1]}", back));
    free(text);
    free(f);
    free(back);
}

/* An ack is called counted only when the flushes can carry it. */
static void too_few_flushes_contradict_power(void **state)
{
    (void)state;
    struct plan_row *row = calloc(1, sizeof(*row));
    row->turn.workload = BENCH_APPEND;
    row->turn.threads = 1;
    row->rounds = 1;
    row->sum.done = true;
    row->sum.ack_given = SEAM_ACK_POWER;
    row->sum.acks = 1000;
    row->sum.flushes = 1000;
    assert_string_equal(row_ack_how(row), "counted");
    row->sum.flushes = 500;
    assert_string_equal(row_ack_how(row), "contradicted");
    row->turn.threads = 2;
    assert_string_equal(row_ack_how(row), "counted");
    row->sum.flushes = 0;
    assert_string_equal(row_ack_how(row), "contradicted");
    row->sum.flushes = NAN;
    assert_string_equal(row_ack_how(row), "declared");
    row->sum.ack_given = SEAM_ACK_PROCESS;
    row->sum.flushes = 0;
    assert_string_equal(row_ack_how(row), "declared");
    free(row);
}

/* What an engine's acks do not cover stands beside each of them. */
static void an_ack_is_told_with_its_but(void **state)
{
    (void)state;
    struct plan_row *row = calloc(1, sizeof(*row));
    struct seam_limits l = {.caps = SEAM_CAP_LAZY_RANGE | SEAM_CAP_MAY_ABORT};
    char text[BENCH_ACK_TEXT];
    row->turn.workload = BENCH_APPEND;
    row->turn.threads = 8;
    row->rounds = 1;
    row->sum.done = true;
    row->sum.ack_given = -1;
    assert_string_equal(report_ack_text(row, &l, text), "-");
    row->sum.ack_given = SEAM_ACK_POWER;
    row->sum.acks = row->sum.flushes = 1000;
    assert_string_equal(report_ack_but(&l), "");
    assert_string_equal(report_ack_text(row, &l, text), "power, counted  not grouping");
    l.caps |= SEAM_CAP_MAY_SKIP;
    assert_string_equal(report_ack_but(&l), "may skip damaged records");
    assert_string_equal(report_ack_text(row, &l, text),
                        "power, may skip damaged records, counted  not grouping");
    row->sum.ack_given = SEAM_ACK_PROCESS;
    row->sum.flushes = 0;
    assert_string_equal(report_ack_text(row, &l, text),
                        "process, may skip damaged records, declared");
    row->sum.ack_given = SEAM_ACK_POWER;
    assert_string_equal(report_ack_text(row, &l, text), "NOT power: too few flushes");
    free(row);
}

/* A row takes its rounds' weakest ack; what one round does not know the row does not know. */
static void rounds_add_up(void **state)
{
    (void)state;
    struct plan_row *row = calloc(1, sizeof(*row));
    struct bench_figures *f = calloc(1, sizeof(*f));
    f->done = true;
    f->operations = 10;
    f->acks = 10;
    f->flushes = 10;
    f->ack_given = SEAM_ACK_POWER;
    f->rss_peak_bytes = 5;
    round_add(row, f, 100);
    assert_int_equal(row->sum.ack_given, SEAM_ACK_POWER);
    f->operations = 0; /* too short for one ack */
    f->acks = 0;
    f->flushes = 1;
    f->ack_given = -1;
    f->rss_peak_bytes = 7;
    round_add(row, f, 100);
    assert_int_equal(row->sum.ack_given, SEAM_ACK_POWER);
    assert_true(row->sum.flushes == 11 && row->sum.acks == 10 && row->sum.rss_peak_bytes == 7);
    assert_false(row->failed);
    f->ack_given = SEAM_ACK_PROCESS;
    f->flushes = NAN;
    round_add(row, f, 100);
    assert_int_equal(row->sum.ack_given, SEAM_ACK_PROCESS);
    assert_true(isnan(row_flushes_per_ack(row)));
    f->done = false; /* it failed: its figures do not count */
    f->error_code = SEAM_E_IO;
    f->operations = 1000;
    round_add(row, f, 100);
    assert_true(row->failed && isnan(row->rate[3]));
    assert_int_equal(row->sum.operations, 10);
    assert_int_equal(row->sum.error_code, SEAM_E_IO);
    assert_int_equal(row->rounds, 4);
    free(row);
    free(f);
}

/* A median and the flush it is held against are of the same round. */
static void flush_multiples_are_paired(void **state)
{
    (void)state;
    struct plan_row *row = calloc(1, sizeof(*row));
    struct bench_figures *f = calloc(1, sizeof(*f));
    f->done = true;
    for (uint64_t round = 0; round < 3; round++) { /* the disk is a hundred times faster in one round */
        uint64_t flush_us = round == 1 ? 40 : 4000;
        memset(&f->latency, 0, sizeof(f->latency));
        for (uint64_t i = 0; i < 400000 / flush_us; i++)
            bench_hist_add(&f->latency, 2 * flush_us * 1000);
        round_add(row, f, (double)flush_us);
    }
    assert_true(fabs(row_times_flush(row) - 2) < 0.1);
    assert_true(row_flush_moved(row));
    free(row);
    free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_histogram_is_close),
        cmocka_unit_test(a_percentile_needs_ten_samples_beyond),
        cmocka_unit_test(ratios_are_paired),
        cmocka_unit_test(seconds_and_lists),
        cmocka_unit_test(figures_are_short),
        cmocka_unit_test(a_turn_goes_over_the_wire),
        cmocka_unit_test(figures_go_over_the_wire),
        cmocka_unit_test(too_few_flushes_contradict_power),
        cmocka_unit_test(an_ack_is_told_with_its_but),
        cmocka_unit_test(rounds_add_up),
        cmocka_unit_test(flush_multiples_are_paired),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
