/* test_trim_memory.c - test_trim_memory ENGINE [TOTAL KEPT MOST]: a journal that is trimmed as it grows
 * does not grow in memory.
 *
 * Appends TOTAL MiB of events of 256 bytes, keeps the newest KEPT MiB of them, and holds the process's
 * peak memory (VmHWM) to MOST MiB, of which the db may take seven eighths. Without sizes a small run;
 * the one to be shown is `test_trim_memory vlog 2048 256 300`. When the memory gets short, events stay in
 * the log only. */
#include "seam_support.h"

#include <stdlib.h>

enum { EVENT = 256, BATCH = 512 };

static const char *engine;
static unsigned long total_mib = 160, kept_mib = 48, most_mib = 80;

/* Peak of the process so far in KiB; 0: this system does not tell. */
static unsigned long peak_kib(void)
{
    unsigned long kib = 0;
    char line[128];
    FILE *f = fopen("/proc/self/status", "r");
    while (f != NULL && kib == 0 && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "VmHWM: %lu kB", &kib) != 1)
            kib = 0;
    if (f != NULL)
        (void)fclose(f);
    return kib;
}

static void fill_event(uint8_t *p, uint64_t sequence)
{
    uint64_t x = sequence * UINT64_C(0x9e3779b97f4a7c15) | 1;
    for (size_t i = 0; i < EVENT; i += 8) {
        uint64_t word = next_random(&x);
        memcpy(p + i, &word, 8);
    }
}

/* One commit of BATCH events, numbered from `from` on. */
static void append_batch(struct seam_journal *j, uint32_t stream, uint64_t from, uint32_t ack)
{
    static uint8_t bytes[BATCH][EVENT];
    struct seam_slice events[BATCH];
    struct seam_append at;
    struct seam_err err;
    for (size_t i = 0; i < BATCH; i++) {
        fill_event(bytes[i], from + i);
        events[i] = seam_bytes(bytes[i], EVENT);
    }
    ok(seam_journal_append(j, stream, events, BATCH, ack, &at, &err), err);
    assert_int_equal(at.first, from);
}

static void check_kept(struct seam_journal *j, uint32_t stream, uint64_t last, uint64_t keep)
{
    struct seam_stream_info info;
    struct seam_journal_reader *r;
    struct seam_event event;
    struct seam_err err;
    uint8_t want[EVENT];
    ok(seam_journal_info(j, stream, &info, &err), err);
    assert_int_equal(info.last, last);
    assert_int_equal(last - info.first + 1, keep);
    ok(seam_journal_reader_open(j, stream, 0, NULL, &r, &err), err);
    for (uint64_t i = info.first; i <= last; i++) {
        ok(seam_journal_reader_next(r, &event, &err), err);
        fill_event(want, i);
        assert_int_equal(event.sequence, i);
        assert_memory_equal(event.data.ptr, want, EVENT);
    }
    seam_journal_reader_close(r);
}

static void stays_small(void **state)
{
    (void)state;
    struct store s;
    struct seam_journal *j;
    struct seam_err err;
    uint64_t total = (uint64_t)total_mib << 20, at = 0, done = 0;
    uint64_t kept = ((uint64_t)kept_mib << 20) / EVENT;
    struct seam_retention keep = {.bytes = (uint64_t)kept_mib << 20};
    unsigned long before = peak_kib();
    store_open(&s, "", engine, NULL);
    s.options.memory = ((uint64_t)most_mib << 20) / 8 * 7; /* buffers of writes and readers are beside it */
    store_reopen(&s);
    journal_open(&s, &j);
    uint32_t stream = journal_stream(j, "s");
    for (uint64_t n = 1; done < total; n++, at += BATCH, done += BATCH * EVENT) {
        bool trim = n % 16 == 0 || done + BATCH * EVENT >= total;
        append_batch(j, stream, at + 1, trim ? best_ack(s.db) : SEAM_ACK_NONE);
        if (trim)
            ok(seam_journal_retain(j, stream, &keep, false, NULL, &err), err);
    }
    check_kept(j, stream, at, kept);
    unsigned long peak = peak_kib();
    print_message("%s: %llu events, %lu MiB, kept %lu MiB: peak %lu KiB, of it before %lu KiB\n", engine,
                  (unsigned long long)at, total_mib, kept_mib, peak, before);
    assert_true(peak < most_mib * 1024);
    journal_close(j);
    store_reopen(&s);
    journal_open(&s, &j);
    check_kept(j, stream, at, kept);
    journal_close(j);
    print_message("%s: peak after opening again %lu KiB\n", engine, peak_kib());
    assert_true(peak_kib() < most_mib * 1024);
    store_close(&s);
}

int main(int argc, char **argv)
{
    if (argc != 2 && argc != 5) {
        fprintf(stderr, "usage: %s ENGINE [TOTAL_MIB KEPT_MIB MOST_MIB]\n", argv[0]);
        return 2;
    }
    engine = argv[1];
    if (argc == 5) {
        total_mib = strtoul(argv[2], NULL, 10);
        kept_mib = strtoul(argv[3], NULL, 10);
        most_mib = strtoul(argv[4], NULL, 10);
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(stays_small)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
