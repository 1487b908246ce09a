/* rawlog_scan.c - reads what a raw log holds: for its open, and to prove its acks.
 *
 * Relies on rawlog_format.h. Believes no length before the checksum that covers it, and no checksum
 * before the length that it spans was held against what is left. */
#include "rawlog_format.h"

#include <errno.h>
#include <sys/mman.h>

struct view {
    const struct rawlog_head *head;
    const unsigned char *ring;
};

/* A run of frames that follow each other. */
struct chain {
    uint64_t begin, end;     /* of the first frame; behind the last */
    uint64_t first, next;    /* sequence of the first message; behind the last */
    uint32_t lap, session, first_session;
};

static bool frame_at(const struct view *view, uint64_t pos, struct rawlog_frame *ret)
{
    uint64_t region = view->head->region, left;
    struct rawlog_frame frame;
    uint64_t sum = 0;

    if (pos > region || region - pos < RAWLOG_FRAME)
        return false;
    memcpy(&frame, view->ring + pos, RAWLOG_FRAME);
    left = region - pos - RAWLOG_FRAME;
    if (frame.n == 0 || frame.body > left || frame.n > frame.body / 4 || frame.seq == 0)
        return false;
    if (frame.crc != rawlog_frame_crc(&frame, view->head->salt, pos) ||
        frame.body_crc != seam_crc32c(0, view->ring + pos + RAWLOG_FRAME, frame.body))
        return false;
    for (uint32_t i = 0; i < frame.n; i++) {
        uint32_t len;

        memcpy(&len, view->ring + pos + RAWLOG_FRAME + 4 * (uint64_t)i, 4);
        sum += len;
    }
    if (sum != frame.body - 4 * (uint64_t)frame.n)
        return false;
    *ret = frame;
    return true;
}

static uint64_t frame_end(uint64_t pos, const struct rawlog_frame *frame)
{
    return rawlog_round(pos + RAWLOG_FRAME + frame->body, 8);
}

/* The frame that continues chain: behind its last one, or where the next group may begin. */
static bool frame_after(const struct view *view, const struct chain *chain, uint64_t *ret_pos,
                        struct rawlog_frame *ret)
{
    const uint64_t places[] = {chain->end, rawlog_round(chain->end, view->head->block),
                               rawlog_round(chain->end, RAWLOG_LARGE)};

    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (frame_at(view, places[i], ret) && ret->lap == chain->lap &&
            ret->seq == chain->next && ret->session >= chain->session) {
            *ret_pos = places[i];
            return true;
        }
    }
    return false;
}

static void chain_add(struct chain *chain, uint64_t pos, const struct rawlog_frame *frame)
{
    chain->end = frame_end(pos, frame);
    chain->next = frame->seq + frame->n;
    chain->session = frame->session;
}

/* The chain that begins with the frame at pos. */
static bool chain_from(const struct view *view, uint64_t pos, struct chain *ret)
{
    struct rawlog_frame frame;

    if (!frame_at(view, pos, &frame))
        return false;
    ret->begin = pos;
    ret->first = frame.seq;
    ret->lap = frame.lap;
    ret->first_session = frame.session;
    chain_add(ret, pos, &frame);
    while (frame_after(view, ret, &pos, &frame))
        chain_add(ret, pos, &frame);
    return true;
}

/* The older lap's chain behind `from`: the one that leads up to the new lap's first message, or,
 * with no new lap, the last there is. */
static bool chain_older(const struct view *view, uint64_t from, const struct chain *newer,
                        struct chain *ret)
{
    struct chain chain;
    bool found = false;
    uint64_t block = view->head->block;

    for (uint64_t pos = rawlog_round(from, block); pos < view->head->region;) {
        if (!chain_from(view, pos, &chain)) {
            pos += block;
            continue;
        }
        if (newer == NULL || (chain.lap == newer->lap - 1 && chain.next == newer->first)) {
            *ret = chain;
            found = true;
        }
        pos = rawlog_round(chain.end, block);
    }
    return found;
}

static int tell_frame(const struct view *view, uint64_t pos, const struct rawlog_frame *frame,
                      seam_rawlog_fn fn, void *arg)
{
    const unsigned char *lengths = view->ring + pos + RAWLOG_FRAME;
    const unsigned char *bytes = lengths + 4 * (uint64_t)frame->n;
    int rc = 0;

    for (uint32_t i = 0; i < frame->n && rc == 0; i++) {
        uint32_t len;

        memcpy(&len, lengths + 4 * (uint64_t)i, 4);
        rc = fn(arg, frame->seq + i, seam_bytes(bytes, len));
        bytes += len;
    }
    return rc;
}

static int tell_chain(const struct view *view, const struct chain *chain, seam_rawlog_fn fn,
                      void *arg)
{
    struct chain at = *chain;
    struct rawlog_frame frame;
    uint64_t pos = chain->begin;
    int rc = 0;

    at.end = chain->begin;
    at.next = chain->first;
    at.session = chain->first_session;
    while (rc == 0 && at.next < chain->next && frame_after(view, &at, &pos, &frame)) {
        rc = tell_frame(view, pos, &frame, fn, arg);
        chain_add(&at, pos, &frame);
    }
    return rc;
}

int seam_rawlog_walk(const struct rawlog_head *head, const unsigned char *ring, seam_rawlog_fn fn,
                     void *arg, struct rawlog_tail *ret)
{
    const struct view view = {head, ring};
    struct chain newer, older;
    bool have_newer = chain_from(&view, 0, &newer);
    bool have_older = chain_older(&view, have_newer ? newer.end : 0, have_newer ? &newer : NULL,
                                  &older);
    int rc = 0;

    if (fn != NULL && have_older)
        rc = tell_chain(&view, &older, fn, arg);
    if (fn != NULL && have_newer && rc == 0)
        rc = tell_chain(&view, &newer, fn, arg);
    if (have_newer)
        *ret = (struct rawlog_tail){newer.end, newer.next, newer.lap, newer.session};
    else if (have_older)
        *ret = (struct rawlog_tail){0, older.next, older.lap + 1, older.session};
    else
        *ret = (struct rawlog_tail){0, 1, 1, 0};
    return rc;
}

int seam_rawlog_head_read(const struct seam_platform *os, int fd, uint64_t size,
                          struct rawlog_head *ret, struct seam_err *err)
{
    struct rawlog_head head;
    int rc;

    if (size < RAWLOG_HEAD)
        return seam_fail(err, SEAM_E_CORRUPT, "rawlog: shorter than its head: remove it");
    rc = seam_read_all(os, fd, &head, sizeof head, 0);
    if (rc < 0)
        return seam_fail_os(err, -rc, "rawlog: reading the head");
    if (head.magic != RAWLOG_MAGIC || head.crc != rawlog_head_crc(&head) ||
        (head.block != 512 && head.block != 4096) || head.region % RAWLOG_LARGE != 0 ||
        head.region != size - RAWLOG_HEAD)
        return seam_fail(err, SEAM_E_CORRUPT, "rawlog: not a raw log, or cut: remove it");
    *ret = head;
    return SEAM_OK;
}

static int scan_file(const struct seam_platform *os, int fd, uint64_t size, seam_rawlog_fn fn,
                     void *arg, struct seam_err *err)
{
    struct rawlog_head head;
    struct rawlog_tail tail;
    void *map;
    int rc = seam_rawlog_head_read(os, fd, size, &head, err);

    if (rc != SEAM_OK)
        return rc;
    map = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return seam_fail_os(err, errno, "rawlog: mapping it");
    rc = seam_rawlog_walk(&head, (const unsigned char *)map + RAWLOG_HEAD, fn, arg, &tail);
    munmap(map, (size_t)size);
    return rc;
}

int seam_rawlog_scan(const char *dir, seam_rawlog_fn fn, void *arg, struct seam_err *err)
{
    const struct seam_platform *os = seam_platform_system();
    struct seam_file_info info;
    int root = os->open_root(os->ctx, dir), fd, rc;

    if (root < 0)
        return seam_fail(err, SEAM_E_NO_STORE, "%s: %s", dir, strerror(-root));
    rc = os->stat(os->ctx, root, RAWLOG_NAME, &info);
    fd = rc < 0 ? rc : os->open(os->ctx, root, RAWLOG_NAME, SEAM_FILE_READ);
    os->close(os->ctx, root);
    if (rc < 0 || info.kind == SEAM_FILE_ABSENT || fd < 0)
        return seam_fail(err, SEAM_E_NO_STORE, "%s: no raw log in it", dir);
    rc = scan_file(os, fd, info.size, fn, arg, err);
    os->close(os->ctx, fd);
    return rc;
}
