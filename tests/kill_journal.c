/* kill_journal.c - kills while a journal is appended to.
 *
 * Relies on every payload saying which append it belongs to, so that a whole append can be told from
 * a part of one. Keeps true: acked appends are there at the numbers given, numbers have no gap, the
 * chain holds, and the next append goes on where the last one that is there ended. */
#include "kill.h"

#include <pthread.h>
#include <seam/journal.h>

enum { STREAMS = 2, WRITERS = 3, EVENTS = 12, PAYLOAD = 2000 };

struct payload {
    uint64_t seed, number; /* of the round; of the append, by its writer */
    uint32_t writer, stream, index, count;
    uint64_t length; /* of the whole payload; the rest is filled from the above */
};

static uint64_t fill_seed(const struct payload *p)
{
    return p->seed ^ p->number << 20 ^ (uint64_t)p->writer << 50 ^ (uint64_t)p->index << 8;
}

/* The whole payload in buf. */
static void payload_make(const struct payload *p, unsigned char *buf)
{
    memcpy(buf, p, sizeof(*p));
    support_fill(buf + sizeof(*p), (size_t)p->length - sizeof(*p), fill_seed(p));
}

static void stream_name(char *buf, size_t cap, unsigned i)
{
    (void)snprintf(buf, cap, "stream-%u", i);
}

/* ---- the child ------------------------------------------------------------------------------ */

struct job {
    struct seam_journal *journal;
    uint32_t streams[STREAMS];
    uint64_t seed;
    unsigned writer;
};

static void append_one(struct job *j, uint64_t number, struct support_rng *rng, unsigned char *buf)
{
    unsigned at = (unsigned)support_below(rng, STREAMS);
    uint32_t n = 1 + (uint32_t)support_below(rng, EVENTS), ack = crash_pick_ack(rng);
    struct seam_slice events[EVENTS];
    struct seam_append done;
    struct seam_err err = {0};
    struct crash_record r = {.kind = CRASH_INVOKED, .writer = j->writer, .number = number};

    for (uint32_t i = 0; i < n; i++) {
        struct payload p = {j->seed, number, j->writer, at, i, n, 0};
        p.length = sizeof(p) + support_below(rng, PAYLOAD);
        events[i] = seam_bytes(buf + i * (PAYLOAD + sizeof(p)), (size_t)p.length);
        payload_make(&p, buf + i * (PAYLOAD + sizeof(p)));
    }
    crash_send(&r);
    int rc = seam_journal_append(j->journal, j->streams[at], events, n, ack, &done, &err);
    if (rc != SEAM_OK)
        crash_broken("seam_journal_append: %s: %s", seam_code_name(rc), err.text);
    crash_check_ack(ack, &done.acked);
    if (done.last - done.first + 1 != n)
        crash_broken("an append of %u events got %llu..%llu", n, (unsigned long long)done.first,
                     (unsigned long long)done.last);
    r.kind = CRASH_ACKED;
    r.given = (uint32_t)done.acked.given;
    r.commit_no = done.first;
    r.extra = at;
    crash_send(&r);
}

static void *append_all(void *arg)
{
    struct job *j = arg;
    struct support_rng rng = {j->seed + j->writer};
    unsigned char *buf = malloc(EVENTS * (PAYLOAD + sizeof(struct payload)));

    if (!buf)
        crash_broken("no memory");
    for (uint64_t number = 1;; number++)
        append_one(j, number, &rng, buf);
}

/* SPEC DIR SEED WRITERS */
int kill_child_journal(char **args)
{
    unsigned writers = (unsigned)strtoul(args[3], NULL, 10);
    static struct job jobs[WRITERS];
    struct seam_journal *journal = NULL;
    struct seam_err err = {0};
    pthread_t thread;
    struct seam_db *db = crash_open(args[0], args[1], SEAM_OPEN_CREATE, 0);

    if (seam_journal_open(db, NULL, &journal, &err) != SEAM_OK)
        crash_broken("seam_journal_open: %s", err.text);
    for (unsigned i = 0; i < STREAMS; i++) {
        char name[32];
        stream_name(name, sizeof(name), i);
        if (seam_journal_stream(journal, seam_bytes(name, strlen(name)), true, &jobs[0].streams[i],
                                &err) != SEAM_OK)
            crash_broken("seam_journal_stream: %s", err.text);
    }
    for (unsigned w = 0; w < writers; w++) {
        memcpy(jobs[w].streams, jobs[0].streams, sizeof(jobs[0].streams));
        jobs[w].journal = journal;
        jobs[w].seed = strtoull(args[2], NULL, 10);
        jobs[w].writer = w;
        if (w > 0 && pthread_create(&thread, NULL, append_all, &jobs[w]) != 0)
            crash_broken("no thread");
    }
    (void)append_all(&jobs[0]);
    return 0;
}

/* ---- the parent ----------------------------------------------------------------------------- */

enum { ACKS = 4096 };

struct ack {
    uint64_t number, first;
    unsigned writer, stream;
    bool safe;
};

struct run {
    char dir[512];
    struct support_rng rng;
    uint64_t seed;
    struct ack acks[ACKS]; /* of this round */
    size_t n;
    uint64_t last[STREAMS]; /* seen at the end of the round before */
    uint32_t crc[STREAMS];
};

static void append_until_killed(struct run *run)
{
    unsigned writers = 1 + (unsigned)support_below(&run->rng, WRITERS);
    uint64_t target = support_below(&run->rng, 40) * writers;
    const char *const args[] = {"journal", support_spec(), run->dir, kill_number(run->seed),
                                kill_number(writers), NULL};
    struct crash_record r;
    struct crash_child c;

    run->n = 0;
    crash_spawn(&c, args);
    while (crash_next(&c, &r)) {
        if (r.kind == CRASH_ACKED && run->n < ACKS)
            run->acks[run->n++] =
                (struct ack){r.number, r.commit_no, r.writer, (unsigned)r.extra,
                             r.given >= SEAM_ACK_PROCESS};
        if (!c.killed && run->n >= target)
            kill_soon(&c, &run->rng, 4000);
    }
    assert_true(c.killed);
    (void)crash_wait(&c);
}

/* Whether an append of this round that begins at `first` of stream was acked as another one. */
static void check_ack(const struct run *run, unsigned stream, uint64_t first,
                      const struct payload *p, bool *seen)
{
    for (size_t i = 0; i < run->n; i++) {
        const struct ack *a = &run->acks[i];
        bool same = a->number == p->number && a->writer == p->writer;
        if (same) {
            assert_int_equal(a->stream, stream);
            assert_int_equal(a->first, first);
            seen[i] = true;
        } else if (a->stream == stream) {
            assert_true(a->first != first || !a->safe);
        }
    }
}

/* One event: its bytes are those of its append, which is there as a whole and in order. */
static void check_event(struct run *run, const struct seam_event *e, unsigned stream,
                        struct payload *before, bool *seen)
{
    unsigned char want[PAYLOAD + sizeof(struct payload)];
    struct payload p;

    assert_true(e->data.len >= sizeof(p) && e->data.len <= sizeof(want));
    memcpy(&p, e->data.ptr, sizeof(p));
    assert_int_equal(p.length, e->data.len);
    assert_int_equal(p.stream, stream);
    payload_make(&p, want);
    expect_bytes(e->data, seam_bytes(want, (size_t)p.length));
    if (p.index > 0) {
        assert_int_equal(before->index, p.index - 1);
        assert_int_equal(before->number, p.number);
        assert_int_equal(before->writer, p.writer);
        assert_int_equal(before->seed, p.seed);
    } else {
        assert_int_equal(before->index, before->count - 1);
        if (p.seed == run->seed)
            check_ack(run, stream, e->sequence, &p, seen);
    }
    *before = p;
}

static void check_stream(struct run *run, struct seam_journal *journal, unsigned stream,
                         uint32_t id, bool *seen)
{
    struct payload before = {.index = 0, .count = 1};
    struct seam_journal_reader *reader = NULL;
    struct seam_stream_info info;
    struct seam_event e = {0};
    struct seam_err err = {0};
    uint64_t sequence = 0, time_ns = 0;
    int rc;

    expect_ok(seam_journal_info(journal, id, &info, &err), &err);
    expect_ok(seam_journal_reader_open(journal, id, 0, NULL, &reader, &err), &err);
    while ((rc = seam_journal_reader_next(reader, &e, &err)) == SEAM_OK) {
        assert_int_equal(e.sequence, ++sequence);
        assert_true(e.time_ns >= time_ns);
        time_ns = e.time_ns;
        check_event(run, &e, stream, &before, seen);
        if (sequence == run->last[stream]) /* what was seen once stays */
            assert_int_equal(e.crc, run->crc[stream]);
    }
    expect_code(rc, SEAM_NOTFOUND, &err);
    seam_journal_reader_close(reader);
    assert_int_equal(before.index, before.count - 1);
    assert_int_equal(sequence, info.last);
    assert_true(sequence >= run->last[stream]);
    run->last[stream] = sequence;
    run->crc[stream] = info.last_crc;
}

/* The number after the last one is given next. */
static void append_own(struct run *run, struct seam_journal *journal, unsigned stream, uint32_t id)
{
    struct payload p = {run->seed + 1, 1, WRITERS, stream, 0, 1, sizeof(p)};
    struct seam_slice event = seam_bytes(&p, sizeof(p));
    struct seam_append done;
    struct seam_err err = {0};

    expect_ok(seam_journal_append(journal, id, &event, 1, SEAM_ACK_PROCESS, &done, &err), &err);
    assert_int_equal(done.first, run->last[stream] + 1);
}

static void verify(struct run *run, bool append)
{
    struct seam_db *db = support_open(run->dir);
    struct seam_journal *journal = NULL;
    bool *seen = calloc(ACKS, sizeof(*seen));
    struct seam_err err = {0};

    assert_non_null(seen);
    expect_ok(seam_journal_open(db, NULL, &journal, &err), &err);
    for (unsigned i = 0; i < STREAMS; i++) {
        char name[32];
        uint32_t id;
        stream_name(name, sizeof(name), i);
        expect_ok(seam_journal_stream(journal, seam_bytes(name, strlen(name)), true, &id, &err),
                  &err);
        check_stream(run, journal, i, id, seen);
        if (append)
            append_own(run, journal, i, id);
    }
    for (size_t i = 0; i < run->n; i++)
        assert_true(seen[i] || !run->acks[i].safe);
    expect_ok(seam_journal_close(journal, &err), &err);
    support_close(db);
    free(seen);
}

/* Opened and killed once more, between two looks at the same journal. */
static void look_and_die(struct run *run)
{
    const char *const args[] = {"look", support_spec(), run->dir, NULL};
    struct crash_record r;
    struct crash_child c;

    crash_spawn(&c, args);
    while (crash_next(&c, &r))
        if (!c.killed)
            kill_soon(&c, &run->rng, 1000);
    (void)crash_wait(&c);
}

void kill_journal(void **state)
{
    struct run *run = calloc(1, sizeof(*run));
    unsigned kills = kill_count(8);

    (void)state;
    assert_non_null(run);
    run->rng.state = support_seed() + 3;
    (void)snprintf(run->dir, sizeof(run->dir), "%s", support_dir());
    for (unsigned i = 0; i < kills; i++) {
        uint64_t before[STREAMS];
        run->seed = support_next(&run->rng);
        append_until_killed(run);
        verify(run, false);
        memcpy(before, run->last, sizeof(before));
        look_and_die(run);
        verify(run, true);
        assert_memory_equal(before, run->last, sizeof(before));
    }
    free(run);
}
