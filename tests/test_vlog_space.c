/* test_vlog_space.c - the native engine's ledger of room against the segments that there are.
 *
 * Relies on the engine's table, called without the library above it and by one thread, so that the
 * state may be looked at between any two calls. The invariant is the one in space.c's head comment,
 * computed here from the tickets themselves. SEAM_SEED and SEAM_OPS (rounds) replay. */
#include "support.h"

#include "log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

extern const struct seam_backend seam_backend_vlog;

enum { TICKETS = 24, ROUNDS = 2000, SEEDS = 5, VALUE_MAX = 90000 };

struct held {
    struct seam_commit commit;
    struct seam_op op;
    char key[8];
    bool taken;
};

static struct seam_platform os;

/* Room is the same whether it is flushed or not, and thousands of segments are made. */
static int no_sync(void *ctx, int fd)
{
    (void)ctx, (void)fd;
    return 0;
}

static void os_reset(void)
{
    os = *seam_platform_system();
    os.sync = no_sync;
    os.sync_dir = no_sync;
}

static unsigned char filler[VALUE_MAX];
static unsigned refused; /* since run began */

static struct vlog *open_bare(uint64_t segment, uint64_t disk, uint64_t files, int *ret_dir)
{
    const uint64_t settings[] = {segment, 4 << 10, 0, VLOG_IO_BUFFERED, 0, files};
    static const uint8_t uuid[16] = {1};
    struct seam_engine *e = NULL;
    struct seam_err err;
    const char *path = support_dir();
    assert_int_equal(mkdir(path, 0700), 0);
    *ret_dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(*ret_dir >= 0);
    struct seam_open_args args = {.os = &os,
                                  .dir = *ret_dir,
                                  .path = path,
                                  .create = true,
                                  .memory = 64 << 20,
                                  .disk = disk,
                                  .epoch = 1,
                                  .uuid = uuid,
                                  .settings = settings};
    expect_ok(seam_backend_vlog.open(&args, &e, &err), &err);
    e->be = &seam_backend_vlog;
    e->os = &os;
    return (struct vlog *)(void *)e;
}

static void close_bare(struct vlog *v, int dir)
{
    expect_ok(seam_backend_vlog.close(&v->base, NULL), NULL);
    (void)close(dir);
}

/* ---- the invariant ---------------------------------------------------------------------------- */

static uint64_t counted(const struct vlog *v, uint64_t bytes, uint64_t largest)
{
    uint64_t usual = v->segment_size - VLOG_BLOCK - VLOG_TAIL_ROOM;
    bytes = bytes < usual ? bytes : usual;
    return bytes > largest ? bytes - largest : 0;
}

static uint64_t sizes(const struct vlog_segment *s, uint64_t *files)
{
    uint64_t sum = 0;
    for (; s; s = s->next, ++*files)
        sum += s->size;
    return sum;
}

static void check(const struct vlog *v, const struct held *held)
{
    uint64_t promised = 0, largest = 0, room = 0, own = 0, files = 0;
    for (int i = 0; i < TICKETS; i++) {
        const struct vlog_unit *u = held[i].taken ? held[i].commit.need.priv : NULL;
        if (!u)
            continue;
        promised += u->promised;
        largest = u->promised > largest ? u->promised : largest;
        own += u->own ? u->own->size : 0;
        files += u->own ? 1 : 0;
    }
    uint64_t end = v->end.last->size - VLOG_TAIL_ROOM;
    if (end > v->end.pos)
        room = counted(v, end - v->end.pos, largest);
    for (const struct vlog_segment *s = v->space.spares; s; s = s->next)
        room += counted(v, vlog_payload(s), largest);
    assert_true(promised <= room);
    assert_true(promised == v->space.promised);
    assert_true(largest <= v->space.largest);
    uint64_t disk = own + sizes(v->end.first, &files) + sizes(v->end.dead, &files) +
                    sizes(v->space.spares, &files) + sizes(v->space.dead, &files);
    assert_true(v->space.disk == disk);
    assert_true(v->space.files == files && files <= v->space.files_cap);
}

/* ---- steps ------------------------------------------------------------------------------------ */

static void hold(struct vlog *v, struct support_rng *rng, struct held *h, size_t len)
{
    struct seam_err err;
    (void)snprintf(h->key, sizeof h->key, "k%u", (unsigned)support_below(rng, 5));
    h->op = op_put(seam_bytes(h->key, strlen(h->key)), seam_bytes(filler, len));
    h->commit = (struct seam_commit){.ops = &h->op,
                                     .n = 1,
                                     .bytes = len + strlen(h->key),
                                     .ack = support_below(rng, 2) ? SEAM_ACK_POWER : SEAM_ACK_NONE};
    int rc = seam_backend_vlog.prepare(&v->base, &h->commit, 0, &err);
    if (rc != SEAM_E_NO_SPACE)
        expect_ok(rc, &err);
    else if (v->space.disk_cap == UINT64_MAX)
        assert_string_equal(err.limit, "segments");
    h->taken = rc == SEAM_OK;
    refused += rc != SEAM_OK;
}

/* Commits some of those held as one group, in a random order; returns how many. */
static unsigned commit_some(struct vlog *v, struct support_rng *rng, struct held *held)
{
    struct seam_member m[TICKETS];
    struct held *of[TICKETS];
    unsigned n = 0, most = 1 + (unsigned)support_below(rng, 4);
    for (unsigned i = 0, at = (unsigned)support_below(rng, TICKETS); i < TICKETS; i++, at += 5)
        if (n < most && held[at % TICKETS].taken)
            of[n++] = &held[at % TICKETS];
    memset(m, 0, sizeof m);
    for (unsigned i = 0; i < n; i++) {
        m[i].commit = &of[i]->commit;
        m[i].next = i + 1 < n ? &m[i + 1] : NULL;
    }
    if (n > 0)
        vlog_group_run(v, m, n);
    for (unsigned i = 0; i < n; i++) {
        expect_ok(m[i].rc, &m[i].err);
        seam_backend_vlog.abort(&v->base, &of[i]->commit); /* gives back, as its commit would */
        of[i]->taken = false;
    }
    return n;
}

static void release_all(struct vlog *v, struct held *held)
{
    for (int i = 0; i < TICKETS; i++)
        if (held[i].taken)
            seam_backend_vlog.abort(&v->base, &held[i].commit);
}

static size_t some_length(struct support_rng *rng)
{
    uint64_t most = support_below(rng, 3) == 0 ? VALUE_MAX : VALUE_MAX / 10;
    return (size_t)support_below(rng, most);
}

/* Until the bound is met, which not every random run does: nothing is ever given back to the log. */
static void fill(struct vlog *v, struct support_rng *rng, struct held *held)
{
    while (refused == 0) {
        for (int i = 0; i < TICKETS && refused == 0; i++) {
            if (!held[i].taken)
                hold(v, rng, &held[i], VALUE_MAX - 1);
            check(v, held);
        }
        (void)commit_some(v, rng, held);
    }
}

static void run(uint64_t segment, uint64_t disk, uint64_t files, uint64_t seed)
{
    struct support_rng rng = {seed};
    struct held held[TICKETS] = {0};
    int dir;
    unsigned committed = 0;
    bool draining = false; /* nothing is taken, so nothing is made: what is ready has to do */
    uint64_t rounds = support_number("SEAM_OPS", ROUNDS);
    struct vlog *v = open_bare(segment, disk, files, &dir);
    refused = 0;
    for (uint64_t i = 0; i < rounds; i++) {
        struct held *h = &held[support_below(&rng, TICKETS)];
        uint64_t what = support_below(&rng, 8);
        draining = support_below(&rng, TICKETS) == 0 ? !draining : draining;
        if (draining ? what > 1 : what == 0) {
            committed += commit_some(v, &rng, held);
        } else if (what == 1 && h->taken) {
            seam_backend_vlog.abort(&v->base, &h->commit);
            h->taken = false;
        } else if (!draining && !h->taken) {
            hold(v, &rng, h, some_length(&rng));
        }
        check(v, held);
    }
    bool bounded = files < 512 || disk < UINT64_MAX;
    assert_true(bounded || refused == 0);
    if (bounded)
        fill(v, &rng, held);
    release_all(v, held);
    memset(held, 0, sizeof held);
    check(v, held);
    assert_true(committed > 0);
    close_bare(v, dir);
}

static void the_ledger_matches_the_segments(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < SEEDS; k++) {
        run(64 << 10, UINT64_MAX, 512, support_seed() + k);
        run(256 << 10, UINT64_MAX, 512, support_seed() + k);
        run(256 << 10, 3 << 20, 512, support_seed() + k);
        run(64 << 10, 1 << 20, 512, support_seed() + k);
        run(64 << 10, UINT64_MAX, 16, support_seed() + k);
    }
}

/* ---- making ----------------------------------------------------------------------------------- */

static uint64_t written, sent; /* up to where, since the last flush */

static ssize_t counting_pwritev(void *ctx, int fd, const struct iovec *parts, int n, uint64_t at)
{
    ssize_t put = seam_platform_system()->pwritev(ctx, fd, parts, n, at);
    if (put > 0 && at > 0)
        written = at + (uint64_t)put;
    return put;
}

static int counting_writeback(void *ctx, int fd, uint64_t at, uint64_t len)
{
    assert_true(written - at <= 1 << 20); /* so much stands before a flush of the log, no more */
    assert_true(at + len == written);
    sent = written;
    return seam_platform_system()->writeback(ctx, fd, at, len);
}

static void a_new_segment_goes_to_the_device_in_pieces(void **state)
{
    struct vlog_segment *s = NULL;
    int dir;
    (void)state;
    struct vlog *v = open_bare(64 << 10, UINT64_MAX, 512, &dir);
    os.pwritev = counting_pwritev;
    os.writeback = counting_writeback;
    written = sent = 0;
    expect_ok(vlog_segment_make(v, 5 << 20, false, &s, NULL), NULL);
    os_reset();
    assert_true(sent == 5 << 20);
    vlog_segment_remove(v, s);
    close_bare(v, dir);
}

static unsigned allocated;

static int counting_allocate(void *ctx, int fd, uint64_t at, uint64_t len)
{
    allocated++;
    return seam_platform_system()->allocate(ctx, fd, at, len);
}

static void commit_one(struct vlog *v, const char *key, size_t len)
{
    struct seam_err err;
    struct seam_op op = op_put(seam_bytes(key, strlen(key)), seam_bytes(filler, len));
    struct seam_commit c = {.ops = &op, .n = 1, .bytes = len + strlen(key), .ack = SEAM_ACK_POWER};
    struct seam_member m = {.commit = &c};
    expect_ok(seam_backend_vlog.prepare(&v->base, &c, 0, &err), &err);
    vlog_group_run(v, &m, 1);
    expect_ok(m.rc, &m.err);
    seam_backend_vlog.abort(&v->base, &c);
}

/* Commits values of `len`, each in a group of its own, into that many segments. */
static void roll(struct vlog *v, size_t len, int segments)
{
    while (segments > 0) {
        struct vlog_segment *last = v->end.last;
        commit_one(v, "k", len);
        segments -= v->end.last != last;
    }
}

/* With no spares, a segment is made when it is wanted: what the last one held decides how. */
static void only_small_groups_want_written_segments(void **state)
{
    int dir;
    (void)state;
    struct vlog *v = open_bare(1 << 20, UINT64_MAX, 512, &dir);
    os.allocate = counting_allocate;
    allocated = 0;
    commit_one(v, "stays", 10000); /* so that none is recycled */
    roll(v, 1000, 3);
    assert_true(!v->space.coarse && allocated == 0);
    roll(v, VALUE_MAX - 1, 4);
    assert_true(v->space.coarse && allocated > 0);
    roll(v, 1000, 2); /* the one that was made for large groups, and the first after it */
    unsigned before = allocated;
    roll(v, 1000, 2);
    assert_true(!v->space.coarse && allocated == before);
    close_bare(v, dir);
    os_reset();
}

int main(int argc, char **argv)
{
    int rc = support_begin(argc, argv);
    if (rc != 0)
        return rc;
    os_reset();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ledger_matches_the_segments),
        cmocka_unit_test(a_new_segment_goes_to_the_device_in_pieces),
        cmocka_unit_test(only_small_groups_want_written_segments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
