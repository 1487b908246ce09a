/* rawlog.c - the rail: a ring, already written, appended to by group commit, and nothing else.
 *
 * Relies on rawlog_format.h and, for waiting, on Linux futexes. Keeps true: groups go out one at a
 * time and in order, so what is on the disk is always a prefix; an append returns OK only after
 * the write that holds its frame was flushed; after a failed write or flush nothing is written any
 * more.
 *
 * GROUPS. Appends queue up while a group is in flight. The first to enter an empty queue leads it:
 * at once when nothing is in flight, else when the leader before it hands over. The queue it takes
 * is one group: one write, one flush, one wake for all of its followers together.
 * FILL WAIT. Followers that were just answered come back a moment later; a leader that went ahead
 * without them would leave two half groups taking turns. So it yields until as many are there as
 * were seen at once, for a bounded time, and only when they were three or more. */
#include "rawlog_format.h"

#include <errno.h>
#include <linux/futex.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FILL_LEAST = 3, FILL_US = 80, ZERO_CHUNK = 1 << 20, FEW = 64, HUGE_PAGE = 2 << 20 };

struct member {
    struct member *next;
    const struct seam_slice *messages;
    uint32_t *lengths; /* as they go to the disk, in front of the messages */
    size_t n;
    uint64_t size;     /* of the frame, rounded */
    uint32_t body, body_crc;
    struct rawlog_frame frame;
    uint64_t seq;      /* set by the leader, as are the two below */
    uint32_t group;
    int rc, os_errno;
};

struct seam_rawlog {
    const struct seam_platform *os;
    int buffered_fd, direct_fd; /* direct_fd -1: none */
    struct rawlog_head head;
    uint64_t direct_max;
    uint32_t fill_us;
    unsigned char *stage;       /* aligned, direct_max and a block long at least */
    struct iovec *parts;        /* the leader's, grown as needed */
    size_t parts_cap;

    pthread_mutex_t mutex;      /* guards from here to shown */
    struct member *first, **last;
    bool busy;                  /* a group is being filled or is in flight */
    uint32_t batch;             /* number of the group that is open for members */
    uint32_t writers;           /* seen at once when the last group ended */
    struct seam_rawlog_stats shown;

    _Atomic uint32_t waiting;   /* members from first on */
    _Atomic uint32_t lead;      /* the group whose leader must take over */
    _Atomic uint32_t done[2];   /* the newest finished group of even and of odd number */

    struct rawlog_tail tail;    /* these three are the leader's */
    struct seam_rawlog_stats stats;
    bool poisoned;
};

/* ---- waiting ------------------------------------------------------------------------------ */

static void word_wait(_Atomic uint32_t *word, uint32_t seen)
{
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void word_wake(_Atomic uint32_t *word, int n)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

/* Returns when *word has reached number; numbers wrap. */
static void word_reach(_Atomic uint32_t *word, uint32_t number)
{
    uint32_t seen = *word;

    while ((int32_t)(seen - number) < 0) {
        word_wait(word, seen);
        seen = *word;
    }
}

/* ---- writing a group ---------------------------------------------------------------------- */

static void seal(struct seam_rawlog *log, struct member *m, uint64_t pos)
{
    struct rawlog_frame *frame = &m->frame;

    frame->body_crc = m->body_crc;
    frame->lap = log->tail.lap;
    frame->session = log->tail.session;
    frame->n = (uint32_t)m->n;
    frame->body = m->body;
    frame->seq = log->tail.seq;
    frame->crc = rawlog_frame_crc(frame, log->head.salt, pos);
    m->seq = frame->seq;
    log->tail.seq += m->n;
}

/* Where a group of `size` bytes, in units of `block`, begins; the next lap if it must. */
static uint64_t place(struct seam_rawlog *log, uint64_t size, uint32_t block)
{
    uint64_t pos = rawlog_round(log->tail.pos, block);

    if (pos > log->head.region || log->head.region - pos < size) {
        log->tail.lap++;
        log->stats.wraps++;
        pos = 0;
    }
    return pos;
}

static int write_direct(struct seam_rawlog *log, struct member *first, uint64_t bytes)
{
    uint64_t size = rawlog_round(bytes, log->head.block);
    uint64_t pos = place(log, size, log->head.block), at = 0;
    struct iovec part;

    for (struct member *m = first; m != NULL; m = m->next) {
        unsigned char *to = log->stage + at;

        seal(log, m, pos + at);
        memcpy(to, &m->frame, RAWLOG_FRAME);
        memcpy(to + RAWLOG_FRAME, m->lengths, 4 * m->n);
        to += RAWLOG_FRAME + 4 * m->n;
        for (size_t i = 0; i < m->n; i++) {
            if (m->messages[i].len > 0)
                memcpy(to, m->messages[i].ptr, m->messages[i].len);
            to += m->messages[i].len;
        }
        at += m->size;
        memset(to, 0, (size_t)(log->stage + at - to));
    }
    memset(log->stage + at, 0, (size_t)(size - at));
    part.iov_base = log->stage;
    part.iov_len = (size_t)size;
    log->tail.pos = pos + size;
    log->stats.written_bytes += size;
    log->stats.direct_groups++;
    return seam_write_all(log->os, log->direct_fd, &part, 1, RAWLOG_HEAD + pos);
}

static void part_add(struct seam_rawlog *log, size_t *n, const void *ptr, uint64_t len)
{
    if (len > 0) {
        log->parts[*n].iov_base = (void *)(uintptr_t)ptr; /* only read from */
        log->parts[(*n)++].iov_len = (size_t)len;
    }
}

/* The frames go from the callers' memory, without a copy. */
static int write_buffered(struct seam_rawlog *log, struct member *first, uint64_t bytes)
{
    static const unsigned char zeros[RAWLOG_LARGE];
    uint32_t block = bytes < RAWLOG_LARGE ? log->head.block : RAWLOG_LARGE;
    uint64_t size = rawlog_round(bytes, block), pos = place(log, size, block), at = pos;
    size_t n = 0, from = 0;

    for (struct member *m = first; m != NULL; m = m->next) {
        seal(log, m, at);
        part_add(log, &n, &m->frame, RAWLOG_FRAME);
        part_add(log, &n, m->lengths, 4 * m->n);
        for (size_t i = 0; i < m->n; i++)
            part_add(log, &n, m->messages[i].ptr, m->messages[i].len);
        part_add(log, &n, zeros, m->size - RAWLOG_FRAME - m->body);
        at += m->size;
    }
    part_add(log, &n, zeros, size - bytes);
    log->tail.pos = pos + size;
    log->stats.written_bytes += size;
    while (from < n) {
        int some = n - from < IOV_MAX ? (int)(n - from) : IOV_MAX, rc;
        uint64_t len = 0;

        for (int i = 0; i < some; i++)
            len += log->parts[from + (size_t)i].iov_len;
        rc = seam_write_all(log->os, log->buffered_fd, log->parts + from, some,
                            RAWLOG_HEAD + pos);
        if (rc < 0)
            return rc;
        pos += len;
        from += (size_t)some;
    }
    return log->os->sync(log->os->ctx, log->buffered_fd);
}

static bool reserve_parts(struct seam_rawlog *log, size_t n)
{
    struct iovec *parts;

    if (n <= log->parts_cap)
        return true;
    parts = realloc(log->parts, n * sizeof *parts);
    if (parts == NULL)
        return false;
    log->parts = parts;
    log->parts_cap = n;
    return true;
}

/* Writes and flushes the members from first on that one write can hold; returns the rest. */
static struct member *write_some(struct seam_rawlog *log, struct member *first)
{
    struct member *m = first, *rest;
    uint64_t bytes = 0, messages = 0, message_bytes = 0;
    size_t parts = 1;
    uint32_t n = 0;
    int rc;

    for (struct member *last = NULL;; last = m, m = m->next) {
        if (m == NULL || (last != NULL && m->size > log->head.region / 4 - bytes)) {
            rest = m;
            last->next = NULL;
            break;
        }
        bytes += m->size;
        parts += m->n + 3;
        messages += m->n;
        message_bytes += m->body - 4 * m->n;
        n++;
    }
    if (log->poisoned)
        rc = -ECANCELED;
    else if (log->direct_fd >= 0 && bytes <= log->direct_max)
        rc = write_direct(log, first, bytes);
    else if (reserve_parts(log, parts))
        rc = write_buffered(log, first, bytes);
    else
        rc = -ENOMEM;
    for (m = first; m != NULL; m = m->next) {
        m->rc = rc >= 0 ? SEAM_OK : rc == -ECANCELED ? SEAM_E_POISONED : SEAM_E_UNKNOWN;
        m->os_errno = rc < 0 ? -rc : 0;
        m->group = n;
    }
    log->stats.groups += rc >= 0;
    log->stats.appends += rc >= 0 ? n : 0;
    log->stats.messages += rc >= 0 ? messages : 0;
    log->stats.message_bytes += rc >= 0 ? message_bytes : 0;
    log->poisoned = rc < 0;
    return rest;
}

/* ---- groups ------------------------------------------------------------------------------- */

static void fill(struct seam_rawlog *log, uint32_t target)
{
    uint64_t now, end = 0;

    if (log->fill_us == 0 || target < FILL_LEAST)
        return;
    while (atomic_load_explicit(&log->waiting, memory_order_relaxed) < target) {
        now = log->os->now_ns(log->os->ctx, SEAM_CLOCK_MONOTONIC);
        if (end == 0)
            end = now + (uint64_t)log->fill_us * 1000;
        else if (now >= end)
            return;
        sched_yield();
    }
}

/* The caller leads the open group; called and returns without the mutex. */
static void lead(struct seam_rawlog *log)
{
    struct member *first;
    uint32_t batch, n;
    bool more;

    fill(log, log->writers);
    pthread_mutex_lock(&log->mutex);
    first = log->first;
    log->first = NULL;
    log->last = &log->first;
    n = log->waiting;
    log->waiting = 0;
    batch = log->batch++;
    pthread_mutex_unlock(&log->mutex);

    while (first != NULL)
        first = write_some(log, first);

    pthread_mutex_lock(&log->mutex);
    more = log->first != NULL;
    log->busy = more;
    log->writers = n + log->waiting;
    log->shown = log->stats;
    if (more)
        log->lead = batch + 1;
    log->done[batch & 1] = batch;
    pthread_mutex_unlock(&log->mutex);
    if (n > 1)
        word_wake(&log->done[batch & 1], INT_MAX);
    if (more)
        word_wake(&log->lead, 1);
}

static void enter(struct seam_rawlog *log, struct member *m)
{
    uint32_t batch;
    bool leads, now;

    pthread_mutex_lock(&log->mutex);
    leads = log->first == NULL;
    now = leads && !log->busy;
    batch = log->batch;
    *log->last = m;
    log->last = &m->next;
    log->waiting++;
    if (now)
        log->busy = true;
    pthread_mutex_unlock(&log->mutex);
    if (leads) {
        if (!now)
            word_reach(&log->lead, batch);
        lead(log);
    } else {
        word_reach(&log->done[batch & 1], batch);
    }
}

static int check(const struct seam_rawlog *log, const struct seam_slice *messages, size_t n,
                 uint64_t *ret_body, struct seam_err *err)
{
    uint64_t max = log->head.region / 4 - RAWLOG_FRAME - 8, body;

    if (n == 0)
        return seam_fail(err, SEAM_E_INVALID, "rawlog: an append of no message");
    if (n > max / 4)
        return seam_fail_limit(err, SEAM_E_TOO_LARGE, "messages", max / 4, n, SEAM_NO_OP);
    body = 4 * (uint64_t)n;
    for (size_t i = 0; i < n; i++) {
        if (messages[i].len > max - body)
            return seam_fail_limit(err, SEAM_E_TOO_LARGE, "bytes", max, messages[i].len, i);
        body += messages[i].len;
    }
    *ret_body = body;
    return SEAM_OK;
}

int seam_rawlog_append(struct seam_rawlog *log, const struct seam_slice *messages, size_t n,
                       uint64_t *ret_seq, uint32_t *ret_group, struct seam_err *err)
{
    uint32_t few[FEW];
    struct member m = {.messages = messages, .lengths = few, .n = n};
    uint64_t body = 0;
    int rc = check(log, messages, n, &body, err);

    if (rc != SEAM_OK)
        return rc;
    if (n > FEW && (m.lengths = malloc(4 * n)) == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "rawlog: no memory for %zu messages", n);
    for (size_t i = 0; i < n; i++)
        m.lengths[i] = (uint32_t)messages[i].len;
    m.body = (uint32_t)body;
    m.size = rawlog_round(RAWLOG_FRAME + body, 8);
    m.body_crc = seam_crc32c(0, m.lengths, 4 * n);
    for (size_t i = 0; i < n; i++)
        m.body_crc = seam_crc32c(m.body_crc, messages[i].ptr, messages[i].len);
    enter(log, &m);
    if (m.lengths != few)
        free(m.lengths);
    if (m.rc == SEAM_E_POISONED)
        return seam_fail(err, m.rc, "rawlog: a write failed before: open it again");
    if (m.rc != SEAM_OK) {
        seam_fail_os(err, m.os_errno, "rawlog: a write or flush failed");
        if (err != NULL)
            err->code = m.rc;
        return m.rc;
    }
    if (ret_seq != NULL)
        *ret_seq = m.seq;
    if (ret_group != NULL)
        *ret_group = m.group;
    return SEAM_OK;
}

/* ---- open and close ----------------------------------------------------------------------- */

/* Writes the ring once and then the head, so that a file with a head is whole. */
static int make_file(struct seam_rawlog *log, int root, uint64_t region)
{
    const struct seam_platform *os = log->os;
    struct iovec part;
    uint64_t at, len;
    int rc = os->truncate(os->ctx, log->buffered_fd, 0);

    memset(log->stage, 0, ZERO_CHUNK);
    for (at = 0; rc >= 0 && at < RAWLOG_HEAD + region; at += len) {
        len = RAWLOG_HEAD + region - at;
        if (len > ZERO_CHUNK)
            len = ZERO_CHUNK;
        part.iov_base = log->stage;
        part.iov_len = (size_t)len;
        rc = seam_write_all(os, log->buffered_fd, &part, 1, at);
        if (rc >= 0 && (at / ZERO_CHUNK) % 16 == 15)
            rc = os->sync(os->ctx, log->buffered_fd);
    }
    if (rc >= 0)
        rc = os->random(os->ctx, &log->head.salt, sizeof log->head.salt);
    if (rc >= 0)
        rc = os->sync(os->ctx, log->buffered_fd);
    log->head.magic = RAWLOG_MAGIC;
    log->head.region = region;
    log->head.block = 512;
    log->tail = (struct rawlog_tail){0, 1, 1, 0};
    return rc < 0 ? rc : os->sync_dir(os->ctx, root);
}

static int write_head(struct seam_rawlog *log)
{
    struct iovec part = {log->stage, RAWLOG_HEAD};
    int rc;

    log->head.crc = rawlog_head_crc(&log->head);
    memset(log->stage, 0, RAWLOG_HEAD);
    memcpy(log->stage, &log->head, sizeof log->head);
    rc = seam_write_all(log->os, log->buffered_fd, &part, 1, 0);
    return rc < 0 ? rc : log->os->sync(log->os->ctx, log->buffered_fd);
}

/* Finds the least block that direct writes take, by rewriting the head, which has spare zeros. */
static void probe_direct(struct seam_rawlog *log, int root)
{
    const struct seam_platform *os = log->os;
    struct iovec part = {log->stage + RAWLOG_HEAD - 512, 512};
    int fd = os->open(os->ctx, root, RAWLOG_NAME,
                      SEAM_FILE_WRITE | SEAM_FILE_DIRECT | SEAM_FILE_DSYNC);

    log->direct_fd = -1;
    if (fd < 0)
        return;
    log->head.block = 512;
    if (seam_write_all(os, fd, &part, 1, RAWLOG_HEAD - 512) < 0) {
        log->head.block = RAWLOG_HEAD;
        part = (struct iovec){log->stage, RAWLOG_HEAD};
        if (seam_write_all(os, fd, &part, 1, 0) < 0) {
            os->close(os->ctx, fd);
            log->head.block = 512;
            return;
        }
    }
    log->direct_fd = fd;
}

/* Takes what is there, if it is a log of this region. */
static bool continue_file(struct seam_rawlog *log, uint64_t size, uint64_t region)
{
    void *map;

    if (size != RAWLOG_HEAD + region ||
        seam_rawlog_head_read(log->os, log->buffered_fd, size, &log->head, NULL) != SEAM_OK)
        return false;
    map = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, log->buffered_fd, 0);
    if (map == MAP_FAILED)
        return false;
    seam_rawlog_walk(&log->head, (const unsigned char *)map + RAWLOG_HEAD, NULL, NULL,
                     &log->tail);
    munmap(map, (size_t)size);
    return true;
}

static int open_file(struct seam_rawlog *log, int root, const struct seam_rawlog_options *options,
                     struct seam_err *err)
{
    const struct seam_platform *os = log->os;
    struct seam_file_info info = {.kind = SEAM_FILE_ABSENT};
    uint32_t block;
    int rc;

    log->buffered_fd = os->open(os->ctx, root, RAWLOG_NAME, SEAM_FILE_WRITE | SEAM_FILE_CREATE);
    if (log->buffered_fd < 0)
        return seam_fail_os(err, -log->buffered_fd, "rawlog: opening it");
    rc = os->stat(os->ctx, root, RAWLOG_NAME, &info);
    if (rc < 0)
        return seam_fail_os(err, -rc, "rawlog: its size");
    if (!continue_file(log, info.size, options->region)) {
        rc = make_file(log, root, options->region);
        if (rc < 0)
            return seam_fail_os(err, -rc, "rawlog: filling the ring");
    }
    log->tail.session++;
    block = log->head.block;
    rc = write_head(log);
    if (rc >= 0 && options->io != SEAM_RAWLOG_BUFFERED) {
        probe_direct(log, root);
        if (log->head.block < block)
            log->head.block = block; /* older groups were placed by it */
        rc = write_head(log);
    }
    if (rc < 0)
        return seam_fail_os(err, -rc, "rawlog: writing its head");
    if (options->io == SEAM_RAWLOG_DIRECT && log->direct_fd < 0)
        return seam_fail(err, SEAM_E_UNSUPPORTED, "rawlog: no direct writes on this file system");
    if (options->io == SEAM_RAWLOG_DIRECT)
        log->direct_max = log->head.region / 4;
    log->stats.block = log->direct_fd >= 0 ? log->head.block : 0;
    log->shown = log->stats;
    return SEAM_OK;
}

static int set_options(struct seam_rawlog *log, struct seam_rawlog_options *o,
                       struct seam_err *err)
{
    uint64_t len;
    void *stage;

    if (o->region == 0)
        o->region = UINT64_C(64) << 20;
    o->region = rawlog_round(o->region, RAWLOG_LARGE);
    if (o->region < 1 << 20 || o->region > UINT64_C(8) << 30)
        return seam_fail_limit(err, SEAM_E_INVALID, "region", UINT64_C(8) << 30, o->region,
                               SEAM_NO_OP);
    log->direct_max = o->direct_max != 0 ? o->direct_max : 256 << 10;
    if (o->io == SEAM_RAWLOG_DIRECT || log->direct_max > o->region / 4)
        log->direct_max = o->region / 4;
    log->fill_us = o->no_fill_wait ? 0 : o->fill_wait_us != 0 ? o->fill_wait_us : FILL_US;
    /* A huge page, if it may be had: a direct write of single pages goes to the device in as many
     * pieces, which costs 15 us at 64 KiB in a virtual machine. */
    len = rawlog_round(log->direct_max + RAWLOG_LARGE, HUGE_PAGE);
    if (posix_memalign(&stage, HUGE_PAGE, (size_t)len) != 0)
        return seam_fail(err, SEAM_E_NOMEM, "rawlog: no memory for its buffer");
    (void)madvise(stage, (size_t)len, MADV_HUGEPAGE);
    memset(stage, 0, (size_t)len);
    log->stage = stage;
    return SEAM_OK;
}

int seam_rawlog_open(const char *dir, const struct seam_rawlog_options *options,
                     struct seam_rawlog **ret, struct seam_err *err)
{
    struct seam_rawlog_options o = {.io = SEAM_RAWLOG_AUTO};
    struct seam_rawlog *log = calloc(1, sizeof *log);
    int root, rc;

    if (log == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "rawlog: no memory");
    if (options != NULL)
        o = *options;
    log->os = o.platform != NULL ? o.platform : seam_platform_system();
    log->buffered_fd = log->direct_fd = -1;
    log->last = &log->first;
    log->batch = 1;
    rc = pthread_mutex_init(&log->mutex, NULL);
    if (rc != 0) {
        free(log);
        return seam_fail_os(err, rc, "rawlog: cannot make a lock");
    }
    rc = set_options(log, &o, err);
    if (rc == SEAM_OK) {
        root = log->os->open_root(log->os->ctx, dir);
        if (root < 0) {
            rc = seam_fail_os(err, -root, "%s", dir);
        } else {
            rc = open_file(log, root, &o, err);
            log->os->close(log->os->ctx, root);
        }
    }
    if (rc != SEAM_OK) {
        seam_rawlog_close(log);
        return rc;
    }
    *ret = log;
    return SEAM_OK;
}

void seam_rawlog_stats(struct seam_rawlog *log, struct seam_rawlog_stats *ret)
{
    pthread_mutex_lock(&log->mutex);
    *ret = log->shown;
    pthread_mutex_unlock(&log->mutex);
}

void seam_rawlog_close(struct seam_rawlog *log)
{
    if (log == NULL)
        return;
    if (log->direct_fd >= 0)
        log->os->close(log->os->ctx, log->direct_fd);
    if (log->buffered_fd >= 0)
        log->os->close(log->os->ctx, log->buffered_fd);
    pthread_mutex_destroy(&log->mutex);
    free(log->parts);
    free(log->stage);
    free(log);
}
