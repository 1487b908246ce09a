/* space.c - segment files: made ahead, promised to tickets, recycled.
 *
 * Relies on the platform table. Keeps true: what stands under a segment's name is whole and
 * flushed; the spares that are ready hold all that tickets were promised, however the frames come;
 * a number is never given twice while its file exists.
 *
 * PROMISES. Let P be the sum of what tickets were promised, m the largest of those, and count a
 * segment with the bytes b still free in it as c(b) = max(0, min(b, usual) - m), usual being what one
 * of the usual size holds. At any time
 *
 *     P <= c(room left in the log's last segment) + the sum of c(payload) of the spares.
 *
 *   - A ticket is given only when the spares alone make it true, with it and its m.
 *   - A frame f <= m that goes into the last segment takes f off P and at most f off the right side.
 *   - One that does not fit there found less room than m, so that segment counted as nothing; P >= f,
 *     so some spare counts, and holds it. It counts as much in the log as it did among the spares.
 *   - Taking a ticket back takes it off P; m never grows by that.
 *   - A frame so large that m would waste too much is no part of P: it has a segment of its own, with
 *     a usual segment's bytes behind the frame. If the log goes on there, that makes up for all that
 *     the one before could count as; if the frame goes into the last one, which may be counted on, then
 *     its own becomes a spare, unless the spares alone suffice.
 * P falls in the ledger after the frame was written, and the ledger's m falls only when P is 0, so
 * what a ticket is asked is more than the above. */
#include "log.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define SEGMENT_LEAST (UINT64_C(64) << 10)
#define ZERO_LEN (64u << 10)
#define ZERO_PARTS 16
#define SLACK (2u * VLOG_BLOCK + 2u * VLOG_FRAME) /* padding before and after a frame, at most */

static const unsigned char zeros[ZERO_LEN];

void vlog_segment_name(uint32_t number, char *buf)
{
    (void)snprintf(buf, VLOG_NAME_LEN, "%08x.seg", number);
}

void vlog_segment_close_direct(struct vlog *v, struct vlog_segment *s)
{
    if (s->direct_fd >= 0)
        (void)v->os->close(v->os->ctx, s->direct_fd);
    if (s->stream_fd >= 0)
        (void)v->os->close(v->os->ctx, s->stream_fd);
    s->direct_fd = s->stream_fd = -1;
}

void vlog_segment_free(struct vlog *v, struct vlog_segment *s)
{
    if (!s)
        return;
    vlog_segment_close_direct(v, s);
    if (s->fd >= 0)
        (void)v->os->close(v->os->ctx, s->fd);
    v->os->free(v->os->ctx, s);
}

void vlog_segment_remove(struct vlog *v, struct vlog_segment *s)
{
    char name[VLOG_NAME_LEN];
    vlog_segment_name(s->number, name);
    (void)v->os->unlink(v->os->ctx, v->dir, name); /* what stays is removed at the next open */
    (void)pthread_mutex_lock(&v->space_lock);
    v->space.disk -= s->size;
    v->space.files--;
    (void)pthread_mutex_unlock(&v->space_lock);
    vlog_segment_free(v, s);
}

/* ---- making ---------------------------------------------------------------------------------- */

/* Sent to the device piece by piece: one flush of all of it would stand before the log's own. */
static int write_zeros(struct vlog *v, int fd, uint64_t from, uint64_t to)
{
    int rc = 0;
    while (rc >= 0 && from < to) {
        struct iovec parts[ZERO_PARTS];
        int n = 0;
        uint64_t at = from;
        for (; n < ZERO_PARTS && at < to; n++) {
            uint64_t len = to - at < ZERO_LEN ? to - at : ZERO_LEN;
            parts[n].iov_base = (void *)(uintptr_t)zeros; /* only read from */
            parts[n].iov_len = (size_t)len;
            at += len;
        }
        rc = seam_write_all(v->os, fd, parts, n, from);
        if (rc >= 0)
            (void)v->os->writeback(v->os->ctx, fd, from, at - from); /* a hint */
        from = at;
    }
    return rc;
}

int vlog_write_header(struct vlog *v, struct vlog_segment *s, const struct vlog_header *h)
{
    unsigned char block[VLOG_BLOCK];
    struct iovec part = {block, sizeof block};
    vlog_header_encode(h, block);
    atomic_fetch_add_explicit(&v->count.written, sizeof block, memory_order_relaxed);
    return seam_write_all(v->os, s->fd, &part, 1, 0);
}

static int mark_spare(struct vlog *v, struct vlog_segment *s)
{
    struct vlog_header h = {.size = s->size, .number = s->number};
    memcpy(h.uuid, v->uuid, 16);
    return vlog_write_header(v, s, &h);
}

/* *fd stays -1 if it cannot be opened: what wanted it goes through the page cache. */
static int open_direct(struct vlog *v, const struct vlog_segment *s, int flags, int *fd)
{
    char name[VLOG_NAME_LEN];
    if (v->block == 0 || *fd >= 0)
        return 0;
    vlog_segment_name(s->number, name);
    int rc = v->os->open(v->os->ctx, v->dir, name, SEAM_FILE_WRITE | SEAM_FILE_DIRECT | flags);
    if (rc >= 0)
        *fd = rc;
    return rc;
}

int vlog_segment_open_direct(struct vlog *v, struct vlog_segment *s)
{
    return open_direct(v, s, SEAM_FILE_DSYNC, &s->direct_fd);
}

int vlog_segment_open_stream(struct vlog *v, struct vlog_segment *s)
{
    return open_direct(v, s, 0, &s->stream_fd);
}

static int fill_file(struct vlog *v, struct vlog_segment *s, bool sparse)
{
    const struct seam_platform *os = v->os;
    int rc = -EOPNOTSUPP;
    if (sparse) {
        rc = os->allocate(os->ctx, s->fd, 0, s->size);
        if (rc >= 0)
            rc = os->truncate(os->ctx, s->fd, s->size);
        else if (rc != -ENOSPC && rc != -EDQUOT && rc != -EIO)
            sparse = false;
    }
    if (!sparse) {
        rc = write_zeros(v, s->fd, VLOG_BLOCK, s->size);
        atomic_fetch_add_explicit(&v->count.written, s->size, memory_order_relaxed);
    }
    if (rc >= 0)
        rc = mark_spare(v, s);
    return rc < 0 ? rc : os->sync(os->ctx, s->fd);
}

/* An open is above the caps: it must go on somewhere, or a full store could not be read. */
static int claim(struct vlog *v, uint64_t size, uint32_t *ret_number, struct seam_err *err)
{
    int rc = SEAM_OK;
    (void)pthread_mutex_lock(&v->space_lock);
    uint64_t cap = v->group ? v->space.disk_cap : UINT64_MAX, disk = v->space.disk;
    bool full = v->group && v->space.files >= v->space.files_cap;
    if (full || (cap != UINT64_MAX && (disk > cap || size > cap - disk))) {
        rc = SEAM_E_NO_SPACE;
    } else {
        *ret_number = v->space.next_number++;
        v->space.disk += size;
        v->space.files++;
    }
    (void)pthread_mutex_unlock(&v->space_lock);
    if (full)
        return seam_fail_limit(err, rc, "segments", v->space.files_cap, v->space.files_cap + 1,
                               SEAM_NO_OP);
    if (rc != SEAM_OK)
        return seam_fail_limit(err, rc, "disk", cap > disk ? cap - disk : 0, size, SEAM_NO_OP);
    return rc;
}

static void unclaim(struct vlog *v, uint64_t size)
{
    (void)pthread_mutex_lock(&v->space_lock);
    v->space.disk -= size;
    v->space.files--;
    (void)pthread_mutex_unlock(&v->space_lock);
}

int vlog_segment_make(struct vlog *v, uint64_t size, bool sparse, struct vlog_segment **ret,
                      struct seam_err *err)
{
    const struct seam_platform *os = v->os;
    char name[VLOG_NAME_LEN], made_as[VLOG_NAME_LEN];
    struct vlog_segment *s = os->alloc(os->ctx, sizeof *s);
    if (!s)
        return seam_fail(err, SEAM_E_NOMEM, "vlog: no memory for a segment");
    memset(s, 0, sizeof *s);
    s->fd = s->direct_fd = s->stream_fd = -1;
    s->size = size;
    int rc = claim(v, size, &s->number, err);
    if (rc != SEAM_OK) {
        os->free(os->ctx, s);
        return rc;
    }
    (void)snprintf(made_as, sizeof made_as, "new-%08x", s->number);
    vlog_segment_name(s->number, name);
    rc = s->fd = os->open(os->ctx, v->dir, made_as,
                          SEAM_FILE_WRITE | SEAM_FILE_CREATE | SEAM_FILE_NEW);
    bool there = rc >= 0;
    if (rc >= 0)
        rc = fill_file(v, s, sparse);
    if (rc >= 0)
        rc = os->rename(os->ctx, v->dir, made_as, v->dir, name);
    if (rc >= 0) {
        memcpy(made_as, name, sizeof name);
        rc = os->sync_dir(os->ctx, v->dir);
    }
    if (rc < 0) {
        if (there)
            (void)os->unlink(os->ctx, v->dir, made_as);
        vlog_segment_free(v, s);
        unclaim(v, size);
        rc = seam_fail_os(err, -rc, "vlog: making segment file %s of %llu bytes", name,
                          (unsigned long long)size);
        if (err && rc == SEAM_E_NO_SPACE) {
            err->limit = "disk";
            err->got = size;
        }
        return rc;
    }
    (void)vlog_segment_open_direct(v, s);
    atomic_fetch_add_explicit(&v->count.made, 1, memory_order_relaxed);
    *ret = s;
    return SEAM_OK;
}

int vlog_segment_make_least(struct vlog *v, uint64_t size, uint64_t least, bool sparse,
                            struct vlog_segment **ret, struct seam_err *err)
{
    if (least < SEGMENT_LEAST)
        least = SEGMENT_LEAST;
    int rc = vlog_segment_make(v, size, sparse, ret, err);
    while (rc == SEAM_E_NO_SPACE && size / 2 >= least) {
        size = vlog_round(size / 2, VLOG_BLOCK);
        rc = vlog_segment_make(v, size, sparse, ret, err);
    }
    return rc;
}

/* ---- spares ---------------------------------------------------------------------------------- */

/* Under space_lock: what the spares hold for certain, when frames may be as long as `largest`. No
 * more of one is counted than of a usual one, so that a segment of a frame's own can make up for
 * it. */
static uint64_t ready(const struct vlog *v, uint64_t largest)
{
    uint64_t sum = 0, usual = v->segment_size - VLOG_BLOCK - VLOG_TAIL_ROOM;
    for (const struct vlog_segment *s = v->space.spares; s; s = s->next) {
        uint64_t payload = vlog_payload(s) < usual ? vlog_payload(s) : usual;
        if (payload > largest)
            sum += payload - largest;
    }
    return sum;
}

static void push_locked(struct vlog *v, struct vlog_segment *s)
{
    struct vlog_segment **at = &v->space.spares;
    while (*at)
        at = &(*at)->next;
    s->next = NULL;
    *at = s;
    v->space.spare_count++;
}

void vlog_space_push(struct vlog *v, struct vlog_segment *s)
{
    (void)pthread_mutex_lock(&v->space_lock);
    push_locked(v, s);
    (void)pthread_mutex_unlock(&v->space_lock);
}

static void wake_maker(struct vlog *v)
{
    v->space.wake = true;
    if (v->has_maker)
        (void)pthread_cond_signal(&v->wake);
}

struct vlog_segment *vlog_space_pop(struct vlog *v, uint64_t total, bool coarse)
{
    struct vlog_segment *s;
    (void)pthread_mutex_lock(&v->space_lock);
    v->space.coarse = coarse;
    struct vlog_segment **at = &v->space.spares;
    while (*at && vlog_payload(*at) < total)
        at = &(*at)->next;
    s = *at;
    if (s) {
        *at = s->next;
        s->next = NULL;
        v->space.spare_count--;
    }
    wake_maker(v);
    (void)pthread_mutex_unlock(&v->space_lock);
    return s;
}

void vlog_space_bury(struct vlog *v, struct vlog_segment *dead)
{
    if (!dead)
        return;
    (void)pthread_mutex_lock(&v->space_lock);
    struct vlog_segment *last = dead;
    while (last->next)
        last = last->next;
    last->next = v->space.dead;
    v->space.dead = dead;
    wake_maker(v);
    (void)pthread_mutex_unlock(&v->space_lock);
}

/* The next one's size: segments double up to the usual size, so that a small store stays small. */
static uint64_t draw_size(struct vlog *v)
{
    uint64_t size = v->space.next_size;
    while (size < v->segment_size && size < 4 * v->space.largest + VLOG_BLOCK + VLOG_TAIL_ROOM)
        size *= 2;
    v->space.next_size = size * 2 < v->segment_size ? size * 2 : v->segment_size;
    return size < v->segment_size ? size : v->segment_size;
}

/* A dead segment made a spare again, or NULL. What was in it can be read no more. */
static struct vlog_segment *recycle(struct vlog *v, struct vlog_segment *s, bool wanted)
{
    if (wanted && s->size == v->segment_size && mark_spare(v, s) >= 0 &&
        v->os->sync(v->os->ctx, s->fd) >= 0) {
        s->id = s->end = s->live = 0;
        atomic_fetch_add_explicit(&v->count.recycled, 1, memory_order_relaxed);
        return s;
    }
    vlog_segment_remove(v, s);
    return NULL;
}

/* One step of making, under `making`: recycles or removes all that is dead, else makes one. Where
 * groups are large, segments are not written beforehand: that costs every byte twice, and a flush of
 * many new blocks takes little longer than one of as many old ones. */
static int make_one(struct vlog *v, struct seam_err *err)
{
    struct vlog_segment *s = NULL;
    bool got = false;
    for (;;) {
        (void)pthread_mutex_lock(&v->space_lock);
        struct vlog_segment *dead = v->space.dead;
        if (dead)
            v->space.dead = dead->next;
        bool wanted = v->space.spare_count < v->spare_target + 2;
        (void)pthread_mutex_unlock(&v->space_lock);
        if (!dead)
            break;
        s = recycle(v, dead, wanted);
        if (s) {
            vlog_space_push(v, s);
            got = true;
        }
    }
    if (got)
        return SEAM_OK;
    (void)pthread_mutex_lock(&v->space_lock);
    uint64_t size = draw_size(v), least = 4 * v->space.largest + VLOG_BLOCK + VLOG_TAIL_ROOM;
    bool sparse = v->space.coarse;
    (void)pthread_mutex_unlock(&v->space_lock);
    int rc = vlog_segment_make_least(v, size, least, sparse, &s, err);
    if (rc == SEAM_OK)
        vlog_space_push(v, s);
    return rc;
}

static bool enough(struct vlog *v)
{
    (void)pthread_mutex_lock(&v->space_lock);
    bool yes = ready(v, v->space.largest) >= v->space.promised;
    (void)pthread_mutex_unlock(&v->space_lock);
    return yes;
}

static int make_until_enough(struct vlog *v, struct seam_err *err)
{
    int rc = SEAM_OK;
    while (rc == SEAM_OK && !enough(v)) {
        (void)pthread_mutex_lock(&v->making);
        if (!enough(v))
            rc = make_one(v, err);
        (void)pthread_mutex_unlock(&v->making);
    }
    return rc;
}

int vlog_space_take(struct vlog *v, struct vlog_unit *u, struct seam_err *err)
{
    uint64_t bytes = u->total + SLACK;
    if (bytes > (v->segment_size - VLOG_BLOCK - VLOG_TAIL_ROOM) / 4) {
        uint64_t size = vlog_round(bytes + v->segment_size, UINT64_C(64) << 10);
        return vlog_segment_make(v, size, true, &u->own, err);
    }
    (void)pthread_mutex_lock(&v->space_lock);
    v->space.promised += bytes;
    if (bytes > v->space.largest)
        v->space.largest = bytes;
    u->promised = bytes;
    bool yes = ready(v, v->space.largest) >= v->space.promised;
    (void)pthread_mutex_unlock(&v->space_lock);
    int rc = yes ? SEAM_OK : make_until_enough(v, err);
    if (rc != SEAM_OK)
        vlog_space_give(v, u);
    return rc;
}

void vlog_space_used(struct vlog *v, struct vlog_unit *u)
{
    if (!u->own)
        return;
    (void)pthread_mutex_lock(&v->space_lock);
    if (ready(v, v->space.largest) < v->space.promised) {
        push_locked(v, u->own);
        u->own = NULL;
    }
    (void)pthread_mutex_unlock(&v->space_lock);
}

void vlog_space_give(struct vlog *v, struct vlog_unit *u)
{
    if (u->own)
        vlog_segment_remove(v, u->own);
    u->own = NULL;
    if (u->promised == 0)
        return;
    (void)pthread_mutex_lock(&v->space_lock);
    v->space.promised -= u->promised;
    if (v->space.promised == 0)
        v->space.largest = 0;
    (void)pthread_mutex_unlock(&v->space_lock);
    u->promised = 0;
}

/* ---- the maker ------------------------------------------------------------------------------- */

static void *maker_main(void *arg)
{
    struct vlog *v = arg;
    (void)pthread_mutex_lock(&v->space_lock);
    while (!v->space.stop) {
        if (atomic_load_explicit(&v->slab.cold, memory_order_relaxed)) {
            (void)pthread_mutex_unlock(&v->space_lock);
            vlog_slab_warm(&v->slab);
            (void)pthread_mutex_lock(&v->space_lock);
            continue;
        }
        bool work = v->space.dead || v->space.spare_count < v->spare_target;
        if (!work || !v->space.wake) {
            (void)pthread_cond_wait(&v->wake, &v->space_lock);
            continue;
        }
        (void)pthread_mutex_unlock(&v->space_lock);
        (void)pthread_mutex_lock(&v->making);
        int rc = make_one(v, NULL); /* an error is for the prepare that meets it too */
        (void)pthread_mutex_unlock(&v->making);
        (void)pthread_mutex_lock(&v->space_lock);
        if (rc != SEAM_OK)
            v->space.wake = false; /* until the next roll */
    }
    (void)pthread_mutex_unlock(&v->space_lock);
    return NULL;
}

int vlog_maker_start(struct vlog *v, struct seam_err *err)
{
    if (v->spare_target == 0)
        return SEAM_OK;
    v->space.wake = true;
    sigset_t all, before; /* the process's signals are for the caller's threads */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&v->maker, NULL, maker_main, v);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0)
        return seam_fail_os(err, rc, "vlog: cannot start the thread that makes segments");
    v->has_maker = true;
    return SEAM_OK;
}

void vlog_maker_wake(struct vlog *v)
{
    (void)pthread_mutex_lock(&v->space_lock);
    if (v->has_maker)
        (void)pthread_cond_signal(&v->wake);
    (void)pthread_mutex_unlock(&v->space_lock);
}

void vlog_maker_stop(struct vlog *v)
{
    if (!v->has_maker)
        return;
    (void)pthread_mutex_lock(&v->space_lock);
    v->space.stop = true;
    (void)pthread_cond_signal(&v->wake);
    (void)pthread_mutex_unlock(&v->space_lock);
    (void)pthread_join(v->maker, NULL);
    v->has_maker = false;
}
