/* rails.h - what the engines are measured against: rawlog, a bare recycled log with group commit
 * and no index, which is the limit of a durable append on this disk.
 *
 * The log is a ring in one file, already written before the first append, so that a flush moves no
 * file-system metadata. Appends of concurrent threads are grouped: one leader writes and flushes
 * for all. Old messages are overwritten when the ring wraps. */
#ifndef SEAM_BENCH_RAILS_H
#define SEAM_BENCH_RAILS_H

#include <seam/seam.h>

struct seam_platform;
struct seam_rawlog;

enum seam_rawlog_io {
    SEAM_RAWLOG_AUTO,    /* direct for small groups where the probe at open finds it works */
    SEAM_RAWLOG_DIRECT,  /* O_DIRECT | O_DSYNC, groups padded; E_UNSUPPORTED where there is none */
    SEAM_RAWLOG_BUFFERED /* pwritev, then fdatasync */
};

struct seam_rawlog_options {
    enum seam_rawlog_io io;
    uint64_t region;       /* bytes of the ring; 0: 64 MiB; at least 1 MiB */
    uint64_t direct_max;   /* AUTO: groups of more bytes go buffered; 0: 256 KiB */
    uint32_t fill_wait_us; /* longest wait for as many as the last group had; 0: 80. Only when three
                              or more writers were seen */
    bool no_fill_wait;
    const struct seam_platform *platform; /* NULL: the system's */
};

struct seam_rawlog_stats {
    uint64_t messages, message_bytes;
    uint64_t appends;       /* acked */
    uint64_t groups;        /* = device flushes asked for */
    uint64_t direct_groups; /* of them written O_DIRECT | O_DSYNC */
    uint64_t written_bytes; /* frames and padding; without the first filling of the ring */
    uint64_t wraps;
    uint32_t block;         /* alignment of direct writes; 0: buffered only */
};

/* options may be NULL. dir must exist; the log is the file DIR/rawlog, made anew or, if it is there
 * with the same region, continued behind the last whole group. The file stays after close. */
int seam_rawlog_open(const char *dir, const struct seam_rawlog_options *options,
                     struct seam_rawlog **ret, struct seam_err *err);

/* Appends n messages as one unit and returns when they are durable. Any number of threads. n >= 1,
 * all the bytes together at most a quarter of the region. SEAM_OK, E_INVALID, E_TOO_LARGE,
 * E_UNKNOWN (a write or flush failed), then E_POISONED. ret_seq: NULL, or gets the number of the
 * first message (from 1, without holes). ret_group: NULL, or gets how many appends shared the
 * flush. */
int seam_rawlog_append(struct seam_rawlog *log, const struct seam_slice *messages, size_t n,
                       uint64_t *ret_seq, uint32_t *ret_group, struct seam_err *err);

void seam_rawlog_stats(struct seam_rawlog *log, struct seam_rawlog_stats *ret);

/* No append may be running. NULL is allowed. */
void seam_rawlog_close(struct seam_rawlog *log);

/* Calls fn with every message that the file DIR/rawlog still holds, in order, oldest first; ends
 * early when fn returns other than 0 and returns that. SEAM_OK, fn's value, E_NO_STORE, E_IO,
 * E_CORRUPT (its header), E_NOMEM. Nothing is written. */
typedef int (*seam_rawlog_fn)(void *arg, uint64_t seq, struct seam_slice message);
int seam_rawlog_scan(const char *dir, seam_rawlog_fn fn, void *arg, struct seam_err *err);

#endif
