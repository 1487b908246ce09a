/* probe.c - the raw flush probe: one thread, one write and its flush at a time, nothing around it.
 *
 * Relies on Linux's open flags where they exist. Keeps true: only the write and its flush are
 * timed; files that are made are removed again; a way of flushing that the file system refuses is
 * reported as not measured, never as fast. */
#include "probe.h"

#include <seam/backend.h>
#include <seam/platform.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE_PAGE = 2 << 20, LARGEST = 1 << 20, WRITTEN_BYTES = 8 << 20, GROWING_MOST = 64 << 20,
       BUDGET_MS = 5000, SHORT_SIZE = 4096 };

struct lane { /* one cell while it is measured */
    struct seam_probe_cell cell;
    int fd;
    bool direct;
    uint64_t at;
    uint64_t *times; /* ns */
    size_t n, cap;
};

struct seam_probe {
    char *path;
    unsigned char *buf;
    struct lane lane;
};

static const char *const how_names[] = {"fsync", "fdatasync", "o_dsync", "o_direct|o_dsync"};
static const char *const file_names[] = {"written", "growing"};

const char *seam_probe_how_name(enum seam_probe_how how)
{
    return (unsigned)how < SEAM_PROBE_HOWS ? how_names[how] : "?";
}

const char *seam_probe_file_name(enum seam_probe_file file)
{
    return (unsigned)file < SEAM_PROBE_FILES ? file_names[file] : "?";
}

static uint64_t now_ns(void)
{
    const struct seam_platform *os = seam_platform_system();

    return os->now_ns(os->ctx, SEAM_CLOCK_MONOTONIC);
}

static int how_flags(enum seam_probe_how how)
{
    switch (how) {
    case SEAM_PROBE_DSYNC:
        return O_DSYNC;
    case SEAM_PROBE_DIRECT_DSYNC:
#ifdef O_DIRECT
        return O_DSYNC | O_DIRECT;
#else
        return O_DSYNC;
#endif
    default:
        return 0;
    }
}

/* ---- one call ----------------------------------------------------------------------------- */

/* Writes and flushes once; *ret_ns is what that took. 0 or -errno. */
static int lane_call(struct lane *lane, const unsigned char *buf, uint64_t *ret_ns)
{
    uint32_t size = lane->cell.size;
    uint64_t limit = lane->cell.file == SEAM_PROBE_WRITTEN ? WRITTEN_BYTES : GROWING_MOST, start;
    ssize_t put;
    int rc = 0;

    if (lane->at + size > limit) {
        lane->at = 0;
        if (lane->cell.file == SEAM_PROBE_GROWING &&
            (ftruncate(lane->fd, 0) != 0 || fsync(lane->fd) != 0))
            return -errno;
    }
    start = now_ns();
    put = pwrite(lane->fd, buf, size, (off_t)lane->at);
    if (put == (ssize_t)size && lane->cell.how == SEAM_PROBE_FSYNC)
        rc = fsync(lane->fd);
    else if (put == (ssize_t)size && lane->cell.how == SEAM_PROBE_FDATASYNC)
        rc = fdatasync(lane->fd);
    *ret_ns = now_ns() - start;
    if (put < 0 || rc != 0)
        return -errno;
    lane->at += size;
    return put == (ssize_t)size ? 0 : -ENOSPC;
}

static bool lane_keep(struct lane *lane, uint64_t ns)
{
    if (lane->n == lane->cap) {
        size_t cap = lane->cap != 0 ? 2 * lane->cap : 256;
        uint64_t *times = realloc(lane->times, cap * sizeof *times);

        if (times == NULL)
            return false;
        lane->times = times;
        lane->cap = cap;
    }
    lane->times[lane->n++] = ns;
    return true;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Nearest rank, thousandths; -1 without ten samples beyond it, but for the median. */
static double percentile(const struct lane *lane, unsigned thousandths)
{
    size_t rank = (lane->n * thousandths + 999) / 1000;

    if (lane->n == 0 || (thousandths > 500 && lane->n - rank < 10))
        return -1;
    return (double)lane->times[rank > 0 ? rank - 1 : 0] / 1000;
}

static void lane_result(struct lane *lane, struct seam_probe_cell *ret)
{
    double sum = 0;

    *ret = lane->cell;
    ret->n = lane->n;
    ret->mean_us = ret->p50_us = ret->p90_us = ret->p99_us = ret->max_us = -1;
    if (lane->n == 0)
        return;
    qsort(lane->times, lane->n, sizeof lane->times[0], by_value);
    for (size_t i = 0; i < lane->n; i++)
        sum += (double)lane->times[i];
    ret->mean_us = sum / (double)lane->n / 1000;
    ret->p50_us = percentile(lane, 500);
    ret->p90_us = percentile(lane, 900);
    ret->p99_us = percentile(lane, 990);
    ret->max_us = (double)lane->times[lane->n - 1] / 1000;
}

/* ---- files -------------------------------------------------------------------------------- */

/* A new file, gone from the directory unless ret_path asks for its name. fd or -errno. */
static int make_file(const char *dir, char **ret_path)
{
    static const char tail[] = "/seam-probe-XXXXXX";
    size_t len = strlen(dir);
    char *path = malloc(len + sizeof tail);
    int fd;

    if (path == NULL)
        return -ENOMEM;
    memcpy(path, dir, len);
    memcpy(path + len, tail, sizeof tail);
    fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0) {
        fd = -errno;
        free(path);
        return fd;
    }
    *ret_path = path;
    return fd;
}

static int fill_file(int fd, const unsigned char *buf)
{
    for (uint64_t at = 0; at < WRITTEN_BYTES; at += LARGEST) {
        ssize_t put = pwrite(fd, buf, LARGEST, (off_t)at);

        if (put != LARGEST)
            return put < 0 ? -errno : -ENOSPC;
    }
    return fsync(fd) != 0 ? -errno : 0;
}

static unsigned char *make_buffer(void)
{
    uint64_t x = 0x9e3779b97f4a7c15;
    void *buf;

    /* One huge page, if it may be had: a direct write then goes to the device in one piece. */
    if (posix_memalign(&buf, HUGE_PAGE, HUGE_PAGE) != 0)
        return NULL;
    (void)madvise(buf, HUGE_PAGE, MADV_HUGEPAGE);
    for (size_t i = 0; i < LARGEST; i += sizeof x) { /* not compressible */
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        memcpy((char *)buf + i, &x, sizeof x);
    }
    return buf;
}

/* Opens the lane's file. A direct lane that the file system refuses keeps fd -1. */
static int lane_open(struct lane *lane, const char *dir, const unsigned char *buf)
{
    char *path;
    int fd = make_file(dir, &path), rc = 0;

    lane->fd = -1;
    if (fd < 0)
        return fd;
    if (lane->cell.file == SEAM_PROBE_WRITTEN)
        rc = fill_file(fd, buf);
    if (rc == 0) {
        lane->fd = open(path, O_WRONLY | O_CLOEXEC | how_flags(lane->cell.how));
        if (lane->fd < 0 && lane->cell.how != SEAM_PROBE_DIRECT_DSYNC)
            rc = -errno;
    }
    close(fd);
    unlink(path);
    free(path);
    return rc;
}

static void lane_close(struct lane *lane)
{
    if (lane->fd >= 0)
        close(lane->fd);
    free(lane->times);
}

/* ---- the long form ------------------------------------------------------------------------ */

/* Rounds until the time is over: in each, every lane once, beginning one further each time. The
 * first round only warms up, unless the time is over with it. */
static int run_lanes(struct lane *lanes, size_t n, uint64_t end, uint32_t max_calls,
                     const unsigned char *buf)
{
    for (uint64_t round = 0;; round++) {
        bool open_lane = false;

        for (size_t i = 0; i < n; i++) {
            struct lane *lane = &lanes[(i + round) % n];
            uint64_t ns = 0;
            int rc;

            if (lane->fd < 0 || (max_calls != 0 && lane->n >= max_calls) ||
                (round > 1 && now_ns() >= end))
                continue;
            rc = lane_call(lane, buf, &ns);
            if (rc == -EINVAL && lane->cell.how == SEAM_PROBE_DIRECT_DSYNC) {
                close(lane->fd);
                lane->fd = -1;
                continue;
            }
            if (rc == 0 && round > 0 && !lane_keep(lane, ns))
                rc = -ENOMEM;
            if (rc < 0)
                return rc;
            open_lane = true;
        }
        if (!open_lane)
            return 0;
    }
}

static int probe_lanes(const char *dir, struct lane *lanes, size_t n,
                       const struct seam_probe_options *options, const unsigned char *buf)
{
    uint32_t budget = options->budget_ms != 0 ? options->budget_ms : BUDGET_MS;
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++)
        rc = lane_open(&lanes[i], dir, buf);
    if (rc < 0)
        return rc;
    return run_lanes(lanes, n, now_ns() + (uint64_t)budget * 1000000, options->max_calls, buf);
}

static size_t plan_lanes(const struct seam_probe_options *options, struct lane *ret)
{
    size_t n = 0;

    for (size_t s = 0; s < options->n_sizes; s++)
        for (unsigned file = 0; file < SEAM_PROBE_FILES; file++)
            for (unsigned how = 0; how < SEAM_PROBE_HOWS; how++) {
                ret[n].cell.how = (enum seam_probe_how)how;
                ret[n].cell.file = (enum seam_probe_file)file;
                ret[n].cell.size = options->sizes[s];
                ret[n++].fd = -1;
            }
    return n;
}

int seam_probe_all(const char *dir, const struct seam_probe_options *options,
                   struct seam_probe_cell *ret, size_t *ret_n, struct seam_err *err)
{
    static const uint32_t sizes[] = {512, 4096, 65536, LARGEST};
    struct seam_probe_options o = {0};
    struct lane *lanes;
    unsigned char *buf;
    size_t n;
    int rc = -ENOMEM;

    if (options != NULL)
        o = *options;
    if (o.sizes == NULL) {
        o.sizes = sizes;
        o.n_sizes = sizeof sizes / sizeof sizes[0];
    }
    if (o.n_sizes == 0 || o.n_sizes > SEAM_PROBE_MAX_SIZES)
        return seam_fail(err, SEAM_E_INVALID, "probe: %zu sizes, 1 to %d are taken", o.n_sizes,
                         (int)SEAM_PROBE_MAX_SIZES);
    for (size_t i = 0; i < o.n_sizes; i++)
        if (o.sizes[i] < 512 || o.sizes[i] > LARGEST || o.sizes[i] % 512 != 0)
            return seam_fail(err, SEAM_E_INVALID, "probe: size %u: a multiple of 512 up to 1 MiB "
                             "is taken", (unsigned)o.sizes[i]);
    lanes = calloc(o.n_sizes * SEAM_PROBE_HOWS * SEAM_PROBE_FILES, sizeof *lanes);
    buf = make_buffer();
    if (lanes != NULL && buf != NULL) {
        n = plan_lanes(&o, lanes);
        rc = probe_lanes(dir, lanes, n, &o, buf);
        for (size_t i = 0; i < n; i++) {
            if (rc == 0)
                lane_result(&lanes[i], &ret[i]);
            lane_close(&lanes[i]);
        }
        if (rc == 0)
            *ret_n = n;
    }
    free(buf);
    free(lanes);
    return rc < 0 ? seam_fail_os(err, -rc, "probe: flushing a file in %s", dir) : SEAM_OK;
}

/* ---- the short form ----------------------------------------------------------------------- */

int seam_probe_open(const char *dir, struct seam_probe **ret, struct seam_err *err)
{
    struct seam_probe *probe = calloc(1, sizeof *probe);
    int rc = -ENOMEM;

    if (probe == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "probe: no memory");
    probe->lane.cell = (struct seam_probe_cell){
        .how = SEAM_PROBE_FDATASYNC, .file = SEAM_PROBE_WRITTEN, .size = SHORT_SIZE};
    probe->lane.fd = -1;
    probe->buf = make_buffer();
    if (probe->buf != NULL) {
        rc = probe->lane.fd = make_file(dir, &probe->path);
        if (rc >= 0)
            rc = fill_file(probe->lane.fd, probe->buf);
    }
    if (rc < 0) {
        seam_probe_close(probe);
        return seam_fail_os(err, -rc, "probe: making a file in %s", dir);
    }
    *ret = probe;
    return SEAM_OK;
}

int seam_probe_run(struct seam_probe *probe, uint32_t budget_ms, struct seam_probe_cell *ret,
                   struct seam_err *err)
{
    uint64_t end = now_ns() + (uint64_t)budget_ms * 1000000, ns = 0;
    int rc;

    probe->lane.n = 0;
    do {
        rc = lane_call(&probe->lane, probe->buf, &ns);
        if (rc == 0 && !lane_keep(&probe->lane, ns))
            rc = -ENOMEM;
    } while (rc == 0 && now_ns() < end);
    if (rc < 0)
        return seam_fail_os(err, -rc, "probe: flushing %s", probe->path);
    lane_result(&probe->lane, ret);
    return SEAM_OK;
}

void seam_probe_close(struct seam_probe *probe)
{
    if (probe == NULL)
        return;
    if (probe->path != NULL)
        unlink(probe->path);
    lane_close(&probe->lane);
    free(probe->path);
    free(probe->buf);
    free(probe);
}
