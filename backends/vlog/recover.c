/* recover.c - what an open finds in the log, and what it makes of it.
 *
 * Keeps true: nothing that was flushed is cut, nothing damaged is used, and what an open shows
 * stays. Segments before the last must be whole up to where their successor says. In the last one
 * the frames count up to the first that does not verify; that is a torn tail if nothing from there
 * on was ever flushed, and damage if any frame says that it was: then the open refuses.
 *
 * What is not known to be flushed is written anew, into a new segment, before anybody reads it: the
 * kernel may hold pages that it failed to write and took for clean. The order is: the copies,
 * flushed; the header of the new segment, flushed, which makes it count; a trailer in the old one
 * where the copies begin. A crash in between leaves the old state or the new one. If all commits are
 * known to be flushed, as after a close, the log goes on where it ended. */
#include "log.h"

#include "recover.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- reading --------------------------------------------------------------------------------- */

#define WINDOW (UINT64_C(1) << 20)

int vlog_window_get(struct vlog_window *w, uint64_t at, uint64_t len, const unsigned char **ret,
                    struct seam_err *err)
{
    const struct seam_platform *os = w->v->os;
    if (at >= w->from && at - w->from <= w->len && len <= w->len - (at - w->from)) {
        *ret = w->bytes + (at - w->from);
        return SEAM_OK;
    }
    uint64_t take = len > WINDOW ? len : WINDOW;
    if (take > w->end - at)
        take = w->end - at;
    if (take > w->cap) {
        os->free(os->ctx, w->bytes);
        w->cap = w->len = 0;
        w->bytes = os->alloc(os->ctx, (size_t)take);
        if (!w->bytes)
            return seam_fail(err, SEAM_E_NOMEM, "vlog: no memory to read the log");
        w->cap = take;
    }
    w->len = 0;
    int rc = seam_read_all(os, w->segment->fd, w->bytes, (size_t)take, at);
    if (rc < 0) {
        char name[VLOG_NAME_LEN];
        vlog_segment_name(w->segment->number, name);
        return seam_fail_os(err, -rc, "vlog: reading %s at %llu", name, (unsigned long long)at);
    }
    w->from = at;
    w->len = take;
    *ret = w->bytes;
    return SEAM_OK;
}

void vlog_window_set(struct vlog_window *w, struct vlog_segment *s, uint64_t end)
{
    w->segment = s;
    w->end = end;
    w->from = w->len = 0;
}

int vlog_damaged(const struct vlog_segment *s, uint64_t at, const char *what, struct seam_err *err)
{
    char name[VLOG_NAME_LEN];
    vlog_segment_name(s->number, name);
    return seam_fail(err, SEAM_E_CORRUPT,
                     "vlog: %s is damaged at offset %llu: %s; restore the store from a copy", name,
                     (unsigned long long)at, what);
}

/* Adds up the large values of an index section; false if the ops do not fill it, or the frame. */
static bool index_fits(const unsigned char *index, const struct vlog_frame *f)
{
    uint64_t large = 0;
    size_t at = 0;
    for (uint32_t i = 0; i < f->ops; i++) {
        struct vlog_record r;
        if (!vlog_record_decode(index, f->index, &at, &r))
            return false;
        if (r.large)
            large += r.value.len;
    }
    return at == f->index && vlog_round(VLOG_FRAME + f->index + large, 8) == f->total;
}

static int large_verify(struct vlog_window *w, uint64_t at, uint64_t len, uint32_t want,
                        bool *ret_good, struct seam_err *err)
{
    uint32_t crc = 0;
    while (len > 0) {
        const unsigned char *p = NULL;
        uint64_t some = len < WINDOW ? len : WINDOW;
        int rc = vlog_window_get(w, at, some, &p, err);
        if (rc != SEAM_OK)
            return rc;
        crc = seam_crc32c(crc, p, (size_t)some);
        at += some;
        len -= some;
    }
    *ret_good = crc == want;
    return SEAM_OK;
}

/* The records are read through w, their values through `values`: the same window only if it holds the
 * whole frame and so does not move. */
static int larges_each(struct vlog_window *w, struct vlog_window *values, uint64_t at,
                       const struct vlog_frame *f, bool *ret_good, struct seam_err *err)
{
    const unsigned char *index = NULL;
    uint64_t value_at = at + VLOG_FRAME + f->index;
    size_t in = 0;
    int rc = vlog_window_get(w, at + VLOG_FRAME, f->index, &index, err);
    for (uint32_t i = 0; rc == SEAM_OK && *ret_good && i < f->ops; i++) {
        struct vlog_record r;
        *ret_good = vlog_record_decode(index, f->index, &in, &r);
        if (!*ret_good || !r.large)
            continue;
        rc = large_verify(values, value_at, r.value.len, r.crc, ret_good, err);
        value_at += r.value.len;
    }
    return rc;
}

/* The large values of the frame at `at`, each byte read once. */
static int larges_verify(struct vlog_window *w, uint64_t at, const struct vlog_frame *f,
                         bool *ret_good, struct seam_err *err)
{
    if (f->total <= WINDOW) {
        const unsigned char *whole = NULL;
        int rc = vlog_window_get(w, at, f->total, &whole, err);
        return rc == SEAM_OK ? larges_each(w, w, at, f, ret_good, err) : rc;
    }
    struct vlog_window values = {.v = w->v};
    vlog_window_set(&values, w->segment, w->end);
    int rc = larges_each(w, &values, at, f, ret_good, err);
    w->v->os->free(w->v->os->ctx, values.bytes);
    return rc;
}

int vlog_frame_read(struct vlog_window *w, uint64_t at, bool values, struct vlog_frame *ret,
                    bool *ret_good, struct seam_err *err)
{
    const unsigned char *p = NULL;
    struct vlog_frame f;
    *ret_good = false;
    if (at > w->end || w->end - at < VLOG_FRAME)
        return SEAM_OK;
    int rc = vlog_window_get(w, at, VLOG_FRAME, &p, err);
    if (rc != SEAM_OK)
        return rc;
    if (!vlog_frame_decode(p, w->segment->seed, at, w->end, &f))
        return SEAM_OK;
    bool good = true;
    if (f.kind == VLOG_COMMIT) {
        rc = vlog_window_get(w, at + VLOG_FRAME, f.index, &p, err);
        if (rc != SEAM_OK)
            return rc;
        good = seam_crc32c(0, p, f.index) == f.body_crc && index_fits(p, &f);
        if (good && values)
            rc = larges_verify(w, at, &f, &good, err);
    } else {
        good = f.index == 0 && f.ops == 0;
    }
    if (rc != SEAM_OK)
        return rc;
    *ret = f;
    *ret_good = good;
    return SEAM_OK;
}

/* ---- applying -------------------------------------------------------------------------------- */

int vlog_frame_apply(struct vlog *v, struct vlog_window *w, struct vlog_segment *s, uint64_t at,
                     const struct vlog_frame *f, uint64_t lives_at, struct seam_err *err)
{
    const unsigned char *index = NULL;
    uint64_t value_at = lives_at + VLOG_FRAME + f->index;
    size_t in = 0;
    int rc = vlog_window_get(w, at + VLOG_FRAME, f->index, &index, err);
    if (rc == SEAM_OK && vlog_tree_fill(&v->map.tree, vlog_tree_need(&v->map.tree, f->ops)) != 0)
        rc = seam_fail(err, SEAM_E_NOMEM, "vlog: no memory for the index of the store");
    for (uint32_t i = 0; rc == SEAM_OK && i < f->ops; i++) {
        struct vlog_record r;
        struct vlog_entry *e = NULL;
        if (!vlog_record_decode(index, f->index, &in, &r))
            return vlog_damaged(w->segment, at, "an op does not read", err);
        if (r.kind == SEAM_PUT) {
            struct seam_slice none = {NULL, 0};
            e = vlog_entry_new(v, r.key, r.value, none, r.large, r.crc);
            if (!e)
                return seam_fail(err, SEAM_E_NOMEM, "vlog: no memory for the keys of the store");
            e->segment = s;
            e->offset = (uint32_t)value_at;
            if (r.large)
                value_at += r.value.len;
        }
        vlog_apply(v, f->seq, r.kind, r.key, r.value, e);
    }
    if (rc == SEAM_OK) {
        v->map.now = f->seq;
        atomic_fetch_add_explicit(&v->count.recovered, 1, memory_order_relaxed);
    }
    return rc;
}

/* ---- the new segment ------------------------------------------------------------------------- */

/* Copies the frames of [from, to) of w's segment behind the end; they must verify. */
static int copy_tail(struct vlog *v, struct vlog_window *w, uint64_t from, uint64_t to,
                     struct seam_err *err)
{
    struct vlog_segment *s = v->end.last;
    struct vlog_frame f;
    for (uint64_t at = from; at < to; at += f.total) {
        unsigned char head[VLOG_FRAME];
        bool good = false;
        int rc = vlog_frame_read(w, at, true, &f, &good, err);
        if (rc != SEAM_OK)
            return rc;
        if (!good)
            return vlog_damaged(w->segment, at, "it changed while it was read", err);
        if (f.kind != VLOG_COMMIT)
            continue;
        struct vlog_frame copy = f;
        copy.durable = VLOG_BLOCK;
        copy.prev = v->end.prev;
        copy.oldest = v->end.oldest;
        vlog_frame_encode(&copy, s->seed, v->end.pos, head);
        uint64_t done = 0;
        while (done < f.total) {
            const unsigned char *p = NULL;
            uint64_t some = f.total - done < WINDOW ? f.total - done : WINDOW;
            rc = vlog_window_get(w, at + done, some, &p, err);
            if (rc != SEAM_OK)
                return rc;
            uint64_t skip = done == 0 ? VLOG_FRAME : 0;
            struct iovec parts[2] = {{head, (size_t)skip},
                                     {(void *)(uintptr_t)(p + skip), (size_t)(some - skip)}};
            int n = some > skip ? 2 : 1;
            rc = seam_write_all(v->os, s->fd, skip > 0 ? parts : parts + 1, skip > 0 ? n : 1,
                                v->end.pos + done);
            if (rc < 0)
                return seam_fail_os(err, -rc, "vlog: writing the log's tail anew");
            done += some;
        }
        rc = vlog_frame_apply(v, w, s, at, &f, v->end.pos, err);
        if (rc != SEAM_OK)
            return rc;
        v->end.prev = copy.crc;
        v->end.seq = f.seq;
        v->end.pos += f.total;
    }
    return SEAM_OK;
}

int vlog_go_on(struct vlog *v, struct vlog_window *w, struct vlog_segment *old, uint64_t from,
               uint64_t to, struct seam_err *err)
{
    struct vlog_segment *s = NULL;
    uint64_t size = v->space.next_size;
    uint64_t least = to - from + 2 * VLOG_BLOCK + VLOG_TAIL_ROOM;
    if (size < least)
        size = vlog_round(least, UINT64_C(1) << 20);
    int rc = SEAM_OK;
    s = vlog_space_pop(v, size - VLOG_BLOCK - VLOG_TAIL_ROOM, false);
    if (!s)
        rc = vlog_segment_make_least(v, size, least, false, &s, err);
    if (rc != SEAM_OK)
        return rc;
    struct vlog_header h = {.id = old ? old->id + 1 : 1,
                            .size = s->size,
                            .prev_end = from,
                            .oldest = old ? v->end.oldest : 1,
                            .epoch = v->epoch,
                            .seq = v->end.seq,
                            .number = s->number};
    memcpy(h.uuid, v->uuid, 16);
    s->id = h.id;
    s->seed = vlog_seed(v->uuid, s->id);
    uint32_t old_prev = v->end.prev;
    uint64_t old_seq = v->end.seq;
    if (old)
        old->next = s;
    else
        v->end.first = s;
    v->end.last = s;
    v->end.oldest = h.oldest;
    v->end.pos = VLOG_BLOCK;
    v->end.prev = 0;
    atomic_fetch_add_explicit(&v->count.segments, 1, memory_order_relaxed);
    if (old)
        rc = copy_tail(v, w, from, to, err);
    if (rc != SEAM_OK)
        return rc;
    if (v->end.pos > VLOG_BLOCK)
        rc = v->os->sync(v->os->ctx, s->fd);
    h.durable = v->end.durable = v->end.marked = v->end.pos;
    if (rc >= 0)
        rc = vlog_write_header(v, s, &h);
    if (rc >= 0)
        rc = v->os->sync(v->os->ctx, s->fd);
    if (rc >= 0 && old) {
        unsigned char frame[VLOG_FRAME];
        struct iovec part = {frame, sizeof frame};
        struct vlog_frame f = {.total = VLOG_FRAME,
                               .kind = VLOG_TRAILER,
                               .seq = old_seq,
                               .durable = (uint32_t)from,
                               .prev = old_prev,
                               .oldest = h.oldest,
                               .extra = vlog_file_mark(s)};
        vlog_frame_encode(&f, old->seed, from, frame);
        old->end = from;
        rc = seam_write_all(v->os, old->fd, &part, 1, from);
        if (rc >= 0)
            rc = v->os->sync(v->os->ctx, old->fd);
    }
    return rc < 0 ? seam_fail_os(err, -rc, "vlog: recording where the log goes on") : SEAM_OK;
}

/* ---- the same segment ------------------------------------------------------------------------ */

/* Whether the frames of [from, to) are marks, and few. */
static int only_marks(struct vlog_window *w, uint64_t from, uint64_t to, bool *ret, uint32_t *ret_prev,
                      struct seam_err *err)
{
    struct vlog_frame f = {.kind = VLOG_BEACON};
    *ret = to - from <= VLOG_BLOCK;
    for (uint64_t at = from; *ret && at < to; at += f.total) {
        bool good = false;
        int rc = vlog_frame_read(w, at, false, &f, &good, err);
        if (rc != SEAM_OK)
            return rc;
        *ret = good && f.kind == VLOG_BEACON;
        *ret_prev = f.crc;
    }
    return SEAM_OK;
}

/* The marks are written again, since the device may not have them; and one of this epoch is put
 * behind them, so that no frame which a crash left there, torn off, can ever seem to follow. */
int vlog_stay(struct vlog *v, struct vlog_window *w, uint64_t from, uint64_t to, bool *ret,
              struct seam_err *err)
{
    struct vlog_segment *s = v->end.last;
    const unsigned char *p = NULL;
    unsigned char frame[VLOG_FRAME];
    uint32_t prev = v->end.prev;
    int rc = only_marks(w, from, to, ret, &prev, err);
    if (rc == SEAM_OK && *ret)
        *ret = to + VLOG_FRAME + VLOG_TAIL_ROOM <= s->size;
    if (rc == SEAM_OK && *ret)
        rc = vlog_window_get(w, from, to - from, &p, err);
    if (rc != SEAM_OK || !*ret)
        return rc;
    struct iovec part = {(void *)(uintptr_t)p, (size_t)(to - from)};
    int os_rc = 0;
    if (to > from)
        os_rc = seam_write_all(v->os, s->fd, &part, 1, from);
    if (os_rc >= 0)
        os_rc = v->os->sync(v->os->ctx, s->fd);
    struct vlog_frame f = {.total = VLOG_FRAME,
                           .kind = VLOG_BEACON,
                           .seq = v->end.seq,
                           .durable = (uint32_t)to,
                           .prev = prev,
                           .oldest = v->end.oldest,
                           .extra = v->epoch};
    vlog_frame_encode(&f, s->seed, to, frame);
    part = (struct iovec){frame, sizeof frame};
    if (os_rc >= 0)
        os_rc = seam_write_all(v->os, s->fd, &part, 1, to);
    if (os_rc >= 0)
        os_rc = v->os->sync(v->os->ctx, s->fd);
    if (os_rc < 0)
        return seam_fail_os(err, -os_rc, "vlog: writing the mark of an open");
    v->end.prev = f.crc;
    v->end.pos = v->end.durable = v->end.marked = to + VLOG_FRAME;
    return SEAM_OK;
}

/* Finds whether, and in which blocks, direct writes work: on a file made for it, so that no byte of
 * the log is touched. */
static void probe(struct vlog *v)
{
    static const char name[] = "new-probe";
    const struct seam_platform *os = v->os;
    v->block = 0;
    if (v->io == VLOG_IO_BUFFERED)
        return;
    int made = os->open(os->ctx, v->dir, name, SEAM_FILE_WRITE | SEAM_FILE_CREATE);
    if (made < 0)
        return;
    int fd = os->open(os->ctx, v->dir, name, SEAM_FILE_WRITE | SEAM_FILE_DIRECT | SEAM_FILE_DSYNC);
    if (fd >= 0) {
        for (uint32_t block = 512; v->block == 0 && block <= VLOG_BLOCK; block *= 8) {
            struct iovec part = {v->stage, block};
            if (os->pwritev(os->ctx, fd, &part, 1, block) == (ssize_t)block)
                v->block = block;
        }
        (void)os->close(os->ctx, fd);
    }
    (void)os->close(os->ctx, made);
    (void)os->unlink(os->ctx, v->dir, name);
}

int vlog_probe(struct vlog *v, struct seam_err *err)
{
    memset(v->stage, 0, VLOG_BLOCK);
    probe(v);
    if (v->io == VLOG_IO_DIRECT && v->block == 0)
        return seam_fail(err, SEAM_E_UNSUPPORTED, "vlog: io=direct, but direct writes do not work "
                                                  "on this file system: use io=auto");
    return SEAM_OK;
}

int vlog_create(struct vlog *v, struct seam_err *err)
{
    int rc = vlog_probe(v, err);
    return rc == SEAM_OK ? vlog_go_on(v, NULL, NULL, 0, 0, err) : rc;
}
