/* chain.c - which files make up the log, in what order, and where it ends.
 *
 * Relies on recover.c for frames. Keeps true: each segment that counts is there, once, of this
 * store, and whole; what is missing or damaged is named. Files that belong to nothing are removed
 * by an open that may write. */
#include "recover.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct found {
    struct vlog_segment *segment;
    struct vlog_header header;
    bool valid; /* the header verifies */
};

static const char cut_short[] = "the file is cut short";

struct chain {
    struct vlog *v;
    struct found *files;
    size_t n, cap;
    struct vlog_window w;
    struct vlog_frame trailer; /* of the newest segment by header, if it has one */
    bool has_trailer;
    int rc;
    struct seam_err *err;
};

/* ---- files ----------------------------------------------------------------------------------- */

static bool parse_name(const char *name, uint32_t *ret)
{
    uint32_t x = 0;
    char again[VLOG_NAME_LEN];
    for (int i = 0; i < 8; i++) {
        char c = name[i];
        if (c >= '0' && c <= '9')
            x = x << 4 | (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            x = x << 4 | (uint32_t)(c - 'a' + 10);
        else
            return false;
    }
    vlog_segment_name(x, again);
    *ret = x;
    return strcmp(again, name) == 0;
}

static bool grow(struct chain *c)
{
    if (c->n < c->cap)
        return true;
    size_t cap = c->cap ? c->cap * 2 : 16;
    struct found *more = c->v->os->alloc(c->v->os->ctx, cap * sizeof *more);
    if (!more)
        return false;
    if (c->n > 0)
        memcpy(more, c->files, c->n * sizeof *more);
    c->v->os->free(c->v->os->ctx, c->files);
    c->files = more;
    c->cap = cap;
    return true;
}

static int read_header(struct chain *c, struct found *f, struct seam_err *err)
{
    unsigned char block[VLOG_BLOCK];
    struct vlog_segment *s = f->segment;
    char name[VLOG_NAME_LEN];
    vlog_segment_name(s->number, name);
    if (s->size < VLOG_BLOCK)
        return SEAM_OK;
    int rc = seam_read_all(c->v->os, s->fd, block, sizeof block, 0);
    if (rc < 0)
        return seam_fail_os(err, -rc, "vlog: reading %s", name);
    f->valid = vlog_header_decode(block, &f->header);
    if (!f->valid)
        return SEAM_OK;
    if (memcmp(f->header.uuid, c->v->uuid, 16) != 0)
        return seam_fail(err, SEAM_E_CORRUPT, "vlog: %s belongs to another store", name);
    if (f->header.number != s->number)
        return seam_fail(err, SEAM_E_CORRUPT, "vlog: %s is a copy of %08x.seg: remove it", name,
                         f->header.number);
    s->id = f->header.id;
    s->seed = vlog_seed(c->v->uuid, s->id);
    return SEAM_OK;
}

static int take_file(struct chain *c, const char *name, uint32_t number)
{
    struct vlog *v = c->v;
    const struct seam_platform *os = v->os;
    struct seam_file_info info;
    struct vlog_segment *s = os->alloc(os->ctx, sizeof *s);
    if (!s || !grow(c)) {
        os->free(os->ctx, s);
        return seam_fail(c->err, SEAM_E_NOMEM, "vlog: no memory for the list of segments");
    }
    memset(s, 0, sizeof *s);
    s->number = number;
    s->direct_fd = s->stream_fd = -1;
    s->fd = os->open(os->ctx, v->dir, name, v->read_only ? SEAM_FILE_READ : SEAM_FILE_WRITE);
    int rc = s->fd;
    if (rc >= 0)
        rc = os->stat(os->ctx, v->dir, name, &info);
    if (rc < 0) {
        vlog_segment_free(v, s);
        return seam_fail_os(c->err, -rc, "vlog: opening %s", name);
    }
    s->size = info.size;
    struct found f = {.segment = s};
    c->files[c->n++] = f;
    v->space.disk += s->size;
    v->space.files++;
    if (number >= v->space.next_number)
        v->space.next_number = number + 1;
    return read_header(c, &c->files[c->n - 1], c->err);
}

static int on_name(void *arg, const char *name)
{
    struct chain *c = arg;
    uint32_t number = 0;
    if (strlen(name) == 12 && parse_name(name, &number))
        c->rc = take_file(c, name, number);
    return c->rc != SEAM_OK;
}

/* Files that were being made: one per turn, since a listing may not bear changes. */
static int on_unfinished(void *arg, const char *name)
{
    char *buf = arg;
    if (strncmp(name, "new-", 4) != 0 || strlen(name) >= 32)
        return 0;
    memcpy(buf, name, strlen(name) + 1);
    return 1;
}

static void remove_unfinished(struct vlog *v)
{
    char name[32];
    while (v->os->list(v->os->ctx, v->dir, on_unfinished, name) == 1)
        if (v->os->unlink(v->os->ctx, v->dir, name) < 0)
            return;
}

static struct found *by_id(struct chain *c, uint64_t id)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->files[i].segment && c->files[i].segment->id == id)
            return &c->files[i];
    return NULL;
}

static struct found *by_number(struct chain *c, uint64_t number)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->files[i].segment && c->files[i].segment->number == number)
            return &c->files[i];
    return NULL;
}

/* ---- the end of the log ----------------------------------------------------------------------- */

struct extent {
    uint64_t end, durable, oldest; /* end: of the frames that verify */
    bool sealed;
    struct vlog_frame trailer;
};

/* Walks the frames of a segment that may be the last. */
static int walk(struct chain *c, struct vlog_segment *s, uint64_t durable, struct extent *ret,
                struct seam_err *err)
{
    struct extent x = {.end = VLOG_BLOCK, .durable = durable};
    uint32_t prev = 0;
    vlog_window_set(&c->w, s, s->size);
    for (;;) {
        struct vlog_frame f;
        bool good = false;
        int rc = vlog_frame_read(&c->w, x.end, true, &f, &good, err);
        if (rc != SEAM_OK)
            return rc;
        if (!good || f.prev != prev)
            break;
        prev = f.crc;
        if (f.durable > x.durable)
            x.durable = f.durable;
        if (f.oldest > x.oldest)
            x.oldest = f.oldest;
        if (f.kind == VLOG_TRAILER) {
            x.sealed = true;
            x.trailer = f;
            break;
        }
        x.end += f.total;
    }
    *ret = x;
    return SEAM_OK;
}

/* Frames beyond the end may say that bytes at or beyond it were flushed: then they are damaged. */
static int look_beyond(struct chain *c, struct vlog_segment *s, const struct extent *x,
                       struct seam_err *err)
{
    if (x->durable > x->end)
        return vlog_damaged(s, x->end, "what was flushed there does not verify", err);
    if (x->sealed)
        return SEAM_OK;
    for (uint64_t at = x->end + 8; at + VLOG_FRAME <= s->size; at += 8) {
        const unsigned char *p = NULL;
        struct vlog_frame f;
        int rc = vlog_window_get(&c->w, at, VLOG_FRAME, &p, err);
        if (rc != SEAM_OK)
            return rc;
        if (vlog_frame_decode(p, s->seed, at, s->size, &f) && f.durable > x->end)
            return vlog_damaged(s, x->end, "what was flushed there does not verify", err);
    }
    return SEAM_OK;
}

static int missing(const char *what, uint64_t x, struct seam_err *err)
{
    return seam_fail(err, SEAM_E_CORRUPT,
                     "vlog: segment file %s%0*llx is missing: restore the store from a copy", what,
                     *what ? 1 : 8, (unsigned long long)x);
}

/* ---- replay ----------------------------------------------------------------------------------- */

/* Applies the frames of s up to `to`, which must be the end of one. Sets the log's end there. */
static int replay(struct chain *c, struct vlog_segment *s, uint64_t to, bool first,
                  struct seam_err *err)
{
    struct vlog *v = c->v;
    uint64_t at = VLOG_BLOCK;
    uint32_t prev = 0;
    if (to > s->size)
        return vlog_damaged(s, s->size, cut_short, err);
    vlog_window_set(&c->w, s, to);
    while (at < to) {
        struct vlog_frame f;
        bool good = false;
        int rc = vlog_frame_read(&c->w, at, false, &f, &good, err);
        if (rc != SEAM_OK)
            return rc;
        if (!good || f.prev != prev)
            return vlog_damaged(s, at, "a frame that was flushed does not verify", err);
        if (f.kind == VLOG_COMMIT) {
            if (!first && f.seq != v->end.seq + 1)
                return vlog_damaged(s, at, "commits are missing before it", err);
            first = false;
            rc = vlog_frame_apply(v, &c->w, s, at, &f, at, err);
            if (rc != SEAM_OK)
                return rc;
            v->end.seq = f.seq;
        }
        prev = f.crc;
        at += f.total;
    }
    v->end.prev = prev;
    s->end = to;
    return SEAM_OK;
}

/* Takes a file into the log, as its last segment. */
static struct vlog_segment *adopt(struct chain *c, struct found *f)
{
    struct vlog_segment *s = f->segment, **at = &c->v->end.first;
    f->segment = NULL; /* the log's now */
    while (*at)
        at = &(*at)->next;
    *at = s;
    s->next = NULL;
    c->v->end.last = s;
    atomic_fetch_add_explicit(&c->v->count.segments, 1, memory_order_relaxed);
    return s;
}

static int replay_sealed(struct chain *c, uint64_t oldest, uint64_t last,
                         const struct found *last_found, struct seam_err *err)
{
    const struct found *after;
    for (uint64_t id = oldest; id < last; id++) {
        struct found *f = by_id(c, id);
        if (!f)
            return missing("of place ", id, err);
        after = id + 1 == last ? last_found : by_id(c, id + 1);
        if (!after)
            return missing("of place ", id + 1, err);
        uint64_t to = after->valid ? after->header.prev_end : f->segment->end;
        uint64_t seq = f->header.seq;
        if (id == oldest)
            c->v->end.seq = seq;
        int rc = replay(c, adopt(c, f), to, false, err);
        if (rc != SEAM_OK)
            return rc;
    }
    return SEAM_OK;
}

/* ---- what is left over ------------------------------------------------------------------------ */

static bool good_spare(const struct vlog *v, const struct found *f)
{
    return f->valid && f->header.id == 0 && f->header.size == f->segment->size &&
           f->segment->size <= v->segment_size && v->space.spare_count < v->spare_target + 2;
}

static void sort_left_over(struct chain *c)
{
    struct vlog *v = c->v;
    for (size_t i = 0; i < c->n; i++) {
        struct found *f = &c->files[i];
        if (!f->segment)
            continue;
        if (v->read_only) {
            vlog_segment_free(v, f->segment);
        } else if (good_spare(v, f)) {
            (void)vlog_segment_open_direct(v, f->segment);
            vlog_space_push(v, f->segment);
        } else {
            vlog_segment_remove(v, f->segment);
        }
        f->segment = NULL;
    }
}

/* ---- open ------------------------------------------------------------------------------------- */

static int find_last(struct chain *c, struct found **ret, struct extent *ret_x,
                     struct seam_err *err)
{
    struct found *newest = NULL;
    for (size_t i = 0; i < c->n; i++) {
        struct found *f = &c->files[i];
        if (!f->valid || f->segment->id == 0)
            continue;
        if (newest && newest->segment->id == f->segment->id)
            return seam_fail(err, SEAM_E_CORRUPT, "vlog: %08x.seg and %08x.seg have one place",
                             newest->segment->number, f->segment->number);
        if (!newest || f->segment->id > newest->segment->id)
            newest = f;
    }
    if (!newest)
        return seam_fail(err, SEAM_E_CORRUPT,
                         "vlog: no segment file has a header that verifies: restore the store");
    struct extent x;
    int rc = walk(c, newest->segment, newest->header.durable, &x, err);
    if (rc == SEAM_OK)
        rc = look_beyond(c, newest->segment, &x, err);
    if (rc != SEAM_OK)
        return rc;
    if (newest->header.oldest > x.oldest)
        x.oldest = newest->header.oldest;
    *ret = newest;
    if (newest->header.size != newest->segment->size)
        return vlog_damaged(newest->segment, newest->segment->size, cut_short, err);
    if (x.sealed) { /* its successor was never flushed whole, but its file was there before */
        struct found *next = by_number(c, (uint32_t)x.trailer.extra);
        uint64_t oldest = x.oldest;
        if (!next)
            return missing("", (uint32_t)x.trailer.extra, err);
        if (vlog_file_mark(next->segment) != x.trailer.extra)
            return vlog_damaged(next->segment, next->segment->size, cut_short, err);
        newest->segment->end = x.end;
        next->valid = false;
        next->segment->id = newest->segment->id + 1;
        next->segment->seed = vlog_seed(c->v->uuid, next->segment->id);
        rc = walk(c, next->segment, VLOG_BLOCK, &x, err);
        if (rc == SEAM_OK)
            rc = look_beyond(c, next->segment, &x, err);
        if (rc != SEAM_OK)
            return rc;
        if (oldest > x.oldest)
            x.oldest = oldest;
        *ret = next;
    }
    *ret_x = x;
    return SEAM_OK;
}

/* A header that was never flushed, or may not have been, is written again before a successor
 * relies on it. */
static int settle_header(struct chain *c, const struct found *last, uint64_t prev_end,
                         uint64_t seq, struct seam_err *err)
{
    struct vlog *v = c->v;
    struct vlog_segment *s = v->end.last;
    struct vlog_header h = last->header;
    if (!last->valid) {
        memset(&h, 0, sizeof h);
        memcpy(h.uuid, v->uuid, 16);
        h.id = s->id;
        h.size = s->size;
        h.prev_end = prev_end;
        h.oldest = v->end.oldest;
        h.epoch = v->epoch;
        h.seq = seq;
        h.durable = VLOG_BLOCK;
        h.number = s->number;
    }
    int rc = vlog_write_header(v, s, &h);
    if (rc >= 0)
        rc = v->os->sync(v->os->ctx, s->fd);
    return rc < 0 ? seam_fail_os(err, -rc, "vlog: writing a segment's header") : SEAM_OK;
}

static int recover(struct chain *c, struct seam_err *err)
{
    struct vlog *v = c->v;
    struct found *found = NULL;
    struct extent x = {0};
    int rc = find_last(c, &found, &x, err);
    if (rc != SEAM_OK)
        return rc;
    struct found last = *found;
    v->end.oldest = x.oldest > 0 ? x.oldest : last.segment->id;
    if (last.valid)
        v->end.seq = last.header.seq;
    rc = replay_sealed(c, v->end.oldest, last.segment->id, &last, err);
    if (rc != SEAM_OK)
        return rc;
    uint64_t prev_end = v->end.last ? v->end.last->end : 0, seq = v->end.seq;
    struct vlog_segment *s = adopt(c, found);
    if (x.durable < VLOG_BLOCK)
        x.durable = VLOG_BLOCK;
    uint64_t sure = v->read_only ? x.end : x.durable;
    rc = replay(c, s, sure, !last.valid && v->end.oldest == s->id, err);
    if (rc != SEAM_OK)
        return rc;
    atomic_store(&v->count.cut_bytes, x.end - sure);
    v->map.now = v->end.seq;
    if (v->read_only) {
        sort_left_over(c);
        return SEAM_OK;
    }
    remove_unfinished(v);
    sort_left_over(c);
    rc = settle_header(c, &last, prev_end, seq, err);
    if (rc != SEAM_OK)
        return rc;
    vlog_window_set(&c->w, s, x.end);
    bool stays = false;
    if (last.valid)
        rc = vlog_stay(v, &c->w, sure, x.end, &stays, err);
    if (rc == SEAM_OK && !stays)
        rc = vlog_go_on(v, &c->w, s, sure, x.end, err);
    v->map.now = v->end.seq;
    return rc;
}

int vlog_recover(struct vlog *v, struct seam_err *err)
{
    struct chain c = {.v = v, .err = err};
    c.w.v = v;
    int rc = v->read_only ? SEAM_OK : vlog_probe(v, err);
    if (rc != SEAM_OK)
        return rc;
    int os_rc = v->os->list(v->os->ctx, v->dir, on_name, &c);
    rc = c.rc;
    if (rc == SEAM_OK && os_rc < 0)
        rc = seam_fail_os(err, -os_rc, "vlog: listing the segments");
    if (rc == SEAM_OK)
        rc = recover(&c, err);
    for (size_t i = 0; i < c.n; i++)
        vlog_segment_free(v, c.files[i].segment);
    v->os->free(v->os->ctx, c.files);
    v->os->free(v->os->ctx, c.w.bytes);
    if (rc == SEAM_OK) { /* a ledger that knows what recovery used */
        vlog_memory_give(v, 0);
        if (!v->read_only)
            (void)vlog_segment_open_direct(v, v->end.last);
    }
    return rc;
}
