/* rawlog_check.c - measures the rail against its bar: DIR [ROUNDS [MILLISECONDS]].
 *
 * One thread, call by call in turn with a raw write and flush of as many bytes, both of bytes that
 * were just made, into as large a file: the ratio of the medians, at most 1.15. 32 threads: records
 * a flush, at least 24. A tool, not a test: it depends on the machine. Exit 0 when the median round
 * meets the bar, 5 when not. */
#include "rails.h"

#include <seam/platform.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_ROUNDS = 64, MOST_CALLS = 200000, RAW_BYTES = 64 << 20, THREADS = 32 };

struct raw {
    int fd;
    bool direct;
    uint32_t size; /* what the log writes for one append */
    uint64_t at;
    unsigned char *buf;
};

static uint64_t now_ns(void)
{
    const struct seam_platform *os = seam_platform_system();

    return os->now_ns(os->ctx, SEAM_CLOCK_MONOTONIC);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof values[0], by_value);
    return n > 0 ? values[n / 2] : 0;
}

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void raw_open(struct raw *raw, const char *dir, uint32_t message, bool direct)
{
    char path[4096];
    void *buf;
    int flags = direct ? O_DIRECT | O_DSYNC : 0;

    raw->direct = direct;
    raw->size = (message + 36 + 511) / 512 * 512;
    if (!direct)
        raw->size = (raw->size + 4095) / 4096 * 4096;
    raw->at = 0;
    if (posix_memalign(&buf, 4096, RAW_BYTES) != 0)
        die("memory");
    raw->buf = buf;
    memset(buf, 7, RAW_BYTES);
    snprintf(path, sizeof path, "%s/raw", dir);
    raw->fd = open(path, O_RDWR | O_CREAT, 0600);
    if (raw->fd < 0 || pwrite(raw->fd, buf, RAW_BYTES, 0) != RAW_BYTES || fsync(raw->fd) != 0)
        die(path);
    if (flags != 0) {
        close(raw->fd);
        raw->fd = open(path, O_RDWR | flags);
        if (raw->fd < 0)
            die(path);
    }
    unlink(path);
}

static double raw_call(struct raw *raw)
{
    uint64_t start;

    if (raw->at + raw->size > RAW_BYTES)
        raw->at = 0;
    memset(raw->buf, (int)(raw->at >> 9) & 0xff, raw->size);
    start = now_ns();
    if (pwrite(raw->fd, raw->buf, raw->size, (off_t)raw->at) != (ssize_t)raw->size ||
        (!raw->direct && fdatasync(raw->fd) != 0))
        die("raw write");
    raw->at += raw->size;
    return (double)(now_ns() - start);
}

static double log_call(struct seam_rawlog *log, unsigned char *bytes, uint32_t size)
{
    const struct seam_slice message = seam_bytes(bytes, size);
    struct seam_err err;
    uint64_t start;

    memset(bytes, bytes[0] + 1, size);
    start = now_ns();

    if (seam_rawlog_append(log, &message, 1, NULL, NULL, &err) != SEAM_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    return (double)(now_ns() - start);
}

/* The median ratio of the rounds. */
static double one_thread(struct seam_rawlog *log, const char *dir, uint32_t size, bool direct,
                         unsigned rounds, uint32_t ms)
{
    double ratios[MOST_ROUNDS], *a = malloc(MOST_CALLS * sizeof *a),
           *b = malloc(MOST_CALLS * sizeof *b), middle;
    struct raw raw;

    if (a == NULL || b == NULL)
        die("memory");
    raw_open(&raw, dir, size, direct);
    printf("1 thread  %7u B  raw %-16s", size, direct ? "o_direct|o_dsync" : "fdatasync");
    for (unsigned r = 0; r < rounds; r++) {
        uint64_t end = now_ns() + (uint64_t)ms * 1000000;
        size_t n = 0;

        for (unsigned i = 0; i < 20; i++) {
            raw_call(&raw);
            log_call(log, raw.buf, size);
        }
        while (n < MOST_CALLS && now_ns() < end) {
            if (n % 2 == 0) {
                a[n] = raw_call(&raw);
                b[n] = log_call(log, raw.buf, size);
            } else {
                b[n] = log_call(log, raw.buf, size);
                a[n] = raw_call(&raw);
            }
            n++;
        }
        double raw_p50 = median(a, n), log_p50 = median(b, n);
        ratios[r] = log_p50 / raw_p50;
        printf("  %.0f/%.0f=%.2f", log_p50 / 1000, raw_p50 / 1000, ratios[r]);
        fflush(stdout);
    }
    middle = median(ratios, rounds);
    printf("  median %.3f [%.2f..%.2f]\n", middle, ratios[0], ratios[rounds - 1]);
    close(raw.fd);
    free(raw.buf);
    free(a);
    free(b);
    return middle;
}

struct crowd {
    struct seam_rawlog *log;
    uint64_t end;
    _Atomic uint64_t acks, waited_ns;
};

static void *one_of(void *arg)
{
    struct crowd *crowd = arg;
    unsigned char bytes[256];

    memset(bytes, 5, sizeof bytes);
    while (now_ns() < crowd->end) {
        crowd->waited_ns += (uint64_t)log_call(crowd->log, bytes, sizeof bytes);
        crowd->acks++;
    }
    return NULL;
}

static double many_threads(struct seam_rawlog *log, unsigned threads, unsigned rounds, uint32_t ms)
{
    double per_flush[MOST_ROUNDS], rate[MOST_ROUNDS], middle;
    pthread_t ids[64];

    printf("%2u threads   256 B  records a flush", threads);
    for (unsigned r = 0; r < rounds; r++) {
        struct seam_rawlog_stats before, after;
        struct crowd crowd = {.log = log, .end = now_ns() + (uint64_t)ms * 1000000};

        seam_rawlog_stats(log, &before);
        for (unsigned i = 0; i < threads; i++)
            if (pthread_create(&ids[i], NULL, one_of, &crowd) != 0)
                die("thread");
        for (unsigned i = 0; i < threads; i++)
            pthread_join(ids[i], NULL);
        seam_rawlog_stats(log, &after);
        per_flush[r] = (double)(after.appends - before.appends) /
                       (double)(after.groups - before.groups);
        rate[r] = (double)crowd.acks * 1000 / ms;
        printf("  %.1f", per_flush[r]);
        fflush(stdout);
    }
    middle = median(per_flush, rounds);
    printf("  median %.1f [%.1f..%.1f]  %.0f acks/s\n", middle, per_flush[0],
           per_flush[rounds - 1], median(rate, rounds));
    return middle;
}

int main(int argc, char **argv)
{
    static const uint32_t sizes[] = {256, 4000, 65000, 1000000};
    unsigned rounds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 5;
    uint32_t ms = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 500;
    struct seam_rawlog_stats stats;
    struct seam_rawlog *log;
    struct seam_err err;
    bool met = true;

    if (argc < 2 || rounds < 1 || rounds > MOST_ROUNDS || ms < 1) {
        fprintf(stderr, "usage: %s DIR [ROUNDS [MILLISECONDS]]\n", argv[0]);
        return 2;
    }
    if (seam_rawlog_open(argv[1], NULL, &log, &err) != SEAM_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    seam_rawlog_stats(log, &stats);
    printf("block of direct writes %u (0: none); log/raw p50 us of each round\n", stats.block);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        met &= one_thread(log, argv[1], sizes[i], stats.block != 0 && sizes[i] < 256 << 10,
                          rounds, ms) <= 1.15;
    many_threads(log, 8, rounds, ms);
    met &= many_threads(log, THREADS, rounds, ms) >= 24;
    printf("bar (p50 at most 1.15 of raw, 24 records a flush at 32 threads): %s\n",
           met ? "met" : "missed");
    seam_rawlog_close(log);
    return met ? 0 : 5;
}
