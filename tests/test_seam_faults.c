/* test_seam_faults.c - journal and projection over an engine that refuses and fails.
 *
 * argv[1] names the engine under the wrapper `faulty`, which is made here: it refuses at prepare,
 * or loses the outcome of a commit, and can call itself an engine that gives POWER. What it does
 * next is in one struct that the tests set while nobody writes. */
#include "seam_support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static const char *engine;

static struct {
    atomic_long until_unknown; /* commits until one is UNKNOWN; negative: never */
    atomic_bool passes_down;   /* whether that one reaches the engine */
    atomic_ulong most_ops;     /* prepares over that are refused for want of room; 0: none */
    atomic_long until_refused; /* prepares until one is refused; negative: never */
    atomic_bool claims_power;
} fault;

static void no_faults(void)
{
    atomic_store(&fault.until_unknown, -1);
    atomic_store(&fault.passes_down, false);
    atomic_store(&fault.most_ops, 0);
    atomic_store(&fault.until_refused, -1);
    atomic_store(&fault.claims_power, false);
}

/* ---- the wrapper ------------------------------------------------------------------------- */

static int faulty_open(const struct seam_open_args *args, struct seam_engine **ret,
                       struct seam_err *err)
{
    (void)args;
    struct seam_engine *e = calloc(1, sizeof(*e));
    if (e == NULL)
        return seam_fail(err, SEAM_E_NOMEM, "no memory");
    *ret = e;
    return SEAM_OK;
}

static int faulty_close(struct seam_engine *e, struct seam_err *err)
{
    int rc = seam_layer_close(e->below, err);
    free(e);
    return rc;
}

static void faulty_limits(const struct seam_engine *e, struct seam_limits *ret)
{
    seam_layer_limits(e->below, ret);
    if (atomic_load(&fault.claims_power))
        ret->best = SEAM_ACK_POWER;
}

static int faulty_prepare(struct seam_engine *e, struct seam_commit *c, uint64_t deadline_ns,
                          struct seam_err *err)
{
    unsigned long most = atomic_load(&fault.most_ops);
    if (most > 0 && c->n > most)
        return seam_fail(err, SEAM_E_NO_SPACE, "no room for %zu ops", c->n);
    if (atomic_load(&fault.until_refused) >= 0 && atomic_fetch_sub(&fault.until_refused, 1) == 0)
        return seam_fail(err, SEAM_E_BUSY, "busy once");
    return seam_layer_prepare(e->below, c, deadline_ns, err);
}

static int faulty_commit(struct seam_engine *e, struct seam_commit *c, struct seam_acked *ret,
                         struct seam_err *err)
{
    enum seam_ack asked = c->ack;
    struct seam_limits below;
    if (atomic_load(&fault.until_unknown) >= 0 && atomic_fetch_sub(&fault.until_unknown, 1) == 0) {
        if (atomic_load(&fault.passes_down))
            (void)seam_layer_commit(e->below, c, ret, NULL);
        else
            seam_layer_abort(e->below, c);
        return seam_fail(err, SEAM_E_UNKNOWN, "the device went away");
    }
    seam_layer_limits(e->below, &below);
    if (c->ack > below.best)
        c->ack = below.best;
    int rc = seam_layer_commit(e->below, c, ret, err);
    if (rc == SEAM_OK && ret->given < asked)
        ret->given = asked;
    return rc;
}

static int faulty_sync(struct seam_engine *e, enum seam_ack level, struct seam_err *err)
{
    struct seam_limits below;
    seam_layer_limits(e->below, &below);
    return level > below.best ? SEAM_OK : seam_layer_sync(e->below, level, err);
}

static const char *faulty_version(void)
{
    return "1";
}

static const struct seam_backend faulty = {
    .abi = SEAM_BACKEND_ABI,
    .flags = SEAM_BACKEND_WRAPPER,
    .name = "faulty",
    .summary = "fails when told to",
    .version = faulty_version,
    .open = faulty_open,
    .close = faulty_close,
    .limits = faulty_limits,
    .prepare = faulty_prepare,
    .commit = faulty_commit,
    .sync = faulty_sync,
};

static const struct seam_backend *const extra[] = {&faulty, NULL};

/* ---- helpers ----------------------------------------------------------------------------- */

static uint32_t open_all(struct store *s, struct seam_journal **j)
{
    struct seam_err err;
    uint32_t id;
    ok(seam_journal_open(s->db, NULL, j, &err), err);
    ok(seam_journal_stream(*j, text("a"), true, &id, &err), err);
    return id;
}

static int append(struct seam_journal *j, uint32_t id, uint64_t number, size_t n,
                  struct seam_append *ret, struct seam_err *err)
{
    struct seam_slice events[8];
    for (size_t i = 0; i < n; i++)
        events[i] = seam_bytes(&number, sizeof(number));
    return seam_journal_append(j, id, events, n, SEAM_ACK_NONE, ret, err);
}

/* ---- tests ------------------------------------------------------------------------------- */

static void unknown_poisons(void **state)
{
    (void)state;
    for (int passes = 0; passes < 2; passes++) {
        struct store s;
        struct seam_journal *j;
        struct seam_err err;
        struct seam_append ret;
        struct seam_stream_info info;
        uint32_t other;
        no_faults();
        store_open(&s, "faulty+", engine, extra);
        uint32_t id = open_all(&s, &j);
        ok(append(j, id, 1, 2, &ret, &err), err);
        atomic_store(&fault.passes_down, passes == 1);
        atomic_store(&fault.until_unknown, 0);
        assert_int_equal(append(j, id, 2, 3, &ret, &err), SEAM_E_UNKNOWN);
        assert_true(seam_journal_poisoned(j));
        assert_int_equal(append(j, id, 3, 1, &ret, &err), SEAM_E_POISONED);
        assert_int_equal(seam_journal_wait(j, id, 2, 1000000, NULL, &err), SEAM_E_POISONED);
        assert_int_equal(seam_journal_stream(j, text("b"), true, &other, &err), SEAM_E_POISONED);
        ok(seam_journal_info(j, id, &info, &err), err);
        assert_int_equal(info.last, 2);
        ok(seam_journal_close(j, &err), err);
        if (!s.is_volatile) {
            store_reopen(&s);
            id = open_all(&s, &j);
            ok(seam_journal_info(j, id, &info, &err), err);
            assert_int_equal(info.last, passes == 1 ? 5 : 2);
            ok(append(j, id, 4, 1, &ret, &err), err);
            assert_int_equal(ret.first, passes == 1 ? 6 : 3);
            ok(seam_journal_close(j, &err), err);
        }
        store_close(&s);
    }
}

enum { THREADS = 8 };

struct crowd {
    struct seam_journal *j;
    uint32_t id;
    atomic_uint number;
    unsigned rounds;
    bool stops;                   /* at the first failure; else tries again */
    uint64_t acked[THREADS][400]; /* first sequence of each append that was DONE */
    uint64_t n[THREADS];          /* appends that were DONE */
    unsigned unknown[THREADS];
};

static void *append_many(void *arg)
{
    struct crowd *c = arg;
    unsigned me = atomic_fetch_add(&c->number, 1);
    for (unsigned i = 0; i < c->rounds; i++) {
        struct seam_append ret;
        struct seam_err err;
        int rc = append(c->j, c->id, (uint64_t)me << 32 | i, 1 + me % 4, &ret, &err);
        while (!c->stops && rc != SEAM_OK) {
            assert_true(rc == SEAM_E_NO_SPACE || rc == SEAM_E_BUSY);
            rc = append(c->j, c->id, (uint64_t)me << 32 | i, 1 + me % 4, &ret, &err);
        }
        if (rc != SEAM_OK) {
            assert_true(rc == SEAM_E_UNKNOWN || rc == SEAM_E_POISONED);
            c->unknown[me] += rc == SEAM_E_UNKNOWN;
            break;
        }
        c->acked[me][c->n[me]++] = ret.first;
    }
    return NULL;
}

static void run_threads(struct crowd *c)
{
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, append_many, c), 0);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

/* Each append of each thread at the place that its ack named, whole; those beyond what was acked
 * were of an unknown outcome. Returns the events read. */
static uint64_t check_acked(const struct crowd *c)
{
    struct seam_err err;
    struct seam_journal_reader *r;
    struct seam_event event;
    uint64_t seen[THREADS] = {0}, total = 0;
    int rc;
    ok(seam_journal_reader_open(c->j, c->id, 0, NULL, &r, &err), err);
    while ((rc = seam_journal_reader_next(r, &event, &err)) == SEAM_OK) {
        uint64_t number;
        memcpy(&number, event.data.ptr, sizeof(number));
        unsigned who = (unsigned)(number >> 32), width = 1 + who % 4;
        uint64_t which = seen[who]++ / width, at = (seen[who] - 1) % width;
        assert_int_equal(which, number & UINT32_MAX);
        if (which < c->n[who])
            assert_int_equal(event.sequence, c->acked[who][which] + at);
        else
            assert_int_equal(which, c->n[who]);
        total++;
    }
    assert_int_equal(rc, SEAM_NOTFOUND);
    seam_journal_reader_close(r);
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(seen[i] % (1 + i % 4), 0);
        assert_true(seen[i] >= c->n[i] * (1 + i % 4));
    }
    return total;
}

static void unknown_under_load(void **state)
{
    (void)state;
    for (int passes = 0; passes < 2; passes++) {
        struct store s;
        struct seam_err err;
        struct crowd *c = calloc(1, sizeof(*c));
        assert_non_null(c);
        no_faults();
        store_open(&s, "faulty+", engine, extra);
        c->id = open_all(&s, &c->j);
        c->rounds = 400;
        c->stops = true;
        atomic_store(&fault.passes_down, passes == 1);
        atomic_store(&fault.until_unknown, 40);
        run_threads(c);
        unsigned unknown = 0;
        for (unsigned i = 0; i < THREADS; i++)
            unknown += c->unknown[i];
        assert_true(unknown >= 1);
        ok(seam_journal_close(c->j, &err), err);
        if (!s.is_volatile) {
            store_reopen(&s);
            c->id = open_all(&s, &c->j);
            check_acked(c);
            ok(seam_journal_close(c->j, &err), err);
        }
        store_close(&s);
        free(c);
    }
}

/* Groups are too much for the engine, single appends are not: all of them are taken in the end. */
static void refused_under_load(void **state)
{
    (void)state;
    struct store s;
    struct seam_err err;
    struct crowd *c = calloc(1, sizeof(*c));
    assert_non_null(c);
    no_faults();
    store_open(&s, "faulty+", engine, extra);
    c->id = open_all(&s, &c->j);
    c->rounds = 100;
    atomic_store(&fault.most_ops, 5);
    atomic_store(&fault.until_refused, 20);
    run_threads(c);
    uint64_t expected = 0;
    for (unsigned i = 0; i < THREADS; i++)
        expected += (1 + i % 4) * c->rounds;
    assert_int_equal(check_acked(c), expected);
    /* Over that alone, it is refused for itself and leaves no gap. */
    struct seam_append ret;
    assert_int_equal(append(c->j, c->id, 0, 5, &ret, &err), SEAM_E_NO_SPACE);
    atomic_store(&fault.most_ops, 0);
    ok(append(c->j, c->id, 0, 5, &ret, &err), err);
    assert_int_equal(ret.first, expected + 1);
    ok(seam_journal_close(c->j, &err), err);
    store_close(&s);
    free(c);
}

struct asker {
    struct seam_journal *j;
    uint32_t id, ack;
};

static void *ask(void *arg)
{
    struct asker *a = arg;
    struct seam_slice event = text("e");
    enum seam_ack level = SEAM_ACK_LEVEL(a->ack);
    uint32_t window = SEAM_ACK_WINDOW_MS(a->ack);
    for (int i = 0; i < 200; i++) {
        struct seam_append ret;
        struct seam_err err;
        ok(seam_journal_append(a->j, a->id, &event, 1, a->ack, &ret, &err), err);
        assert_true(ret.acked.given >= (window > 0 ? SEAM_ACK_PROCESS : level));
        if (ret.acked.given < level)
            assert_true(ret.acked.window_ms >= 1 && ret.acked.window_ms <= window);
    }
    return NULL;
}

/* Whatever they are grouped with, all get at least what they asked for. */
static void mixed_acks(void **state)
{
    (void)state;
    static const uint32_t acks[] = {SEAM_ACK_NONE,
                                    SEAM_ACK_PROCESS,
                                    SEAM_ACK_OS,
                                    SEAM_ACK_POWER,
                                    SEAM_ACK_POWER | SEAM_ACK_WINDOW(5000),
                                    SEAM_ACK_OS | SEAM_ACK_WINDOW(3000),
                                    SEAM_ACK_PROCESS | SEAM_ACK_WINDOW(7),
                                    SEAM_ACK_POWER | SEAM_ACK_WINDOW(9000)};
    enum { N = sizeof(acks) / sizeof(acks[0]) };
    struct store s;
    struct seam_journal *j;
    struct seam_err err;
    struct asker askers[N];
    pthread_t threads[N];
    no_faults();
    atomic_store(&fault.claims_power, true);
    store_open(&s, "faulty+", engine, extra);
    uint32_t id = open_all(&s, &j);
    for (unsigned i = 0; i < N; i++) {
        askers[i] = (struct asker){j, id, acks[i]};
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &askers[i]), 0);
    }
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    ok(seam_journal_close(j, &err), err);
    store_close(&s);
}

static int project(void *ctx, const struct seam_event *event, struct seam_emit *out,
                   struct seam_err *err)
{
    (void)ctx;
    struct seam_op op = {.kind = SEAM_PUT, .key = event->data, .head = event->data};
    return seam_emit_op(out, &op, err);
}

/* A refused commit of a projection is done again from where it stood; an unknown one ends it. */
static void projection_faults(void **state)
{
    (void)state;
    struct store s;
    struct seam_journal *j;
    struct seam_err err;
    struct seam_append ret;
    struct seam_projection *t;
    uint64_t applied;
    no_faults();
    store_open(&s, "faulty+", engine, extra);
    uint32_t id = open_all(&s, &j);
    for (uint64_t i = 0; i < 10; i++)
        ok(append(j, id, i, 1, &ret, &err), err);
    struct seam_projection_options o = {
        .journal = j, .stream = text("a"), .projector = project, .batch = 3};
    ok(seam_projection_open(s.db, text("t"), &o, &t, &err), err);
    atomic_store(&fault.until_refused, 1);
    assert_int_equal(seam_projection_catch_up(t, 0, &applied, &err), SEAM_E_BUSY);
    assert_int_equal(applied, 3);
    ok(seam_projection_catch_up(t, 4, &applied, &err), err);
    assert_int_equal(applied, 4);
    atomic_store(&fault.until_unknown, 0);
    assert_int_equal(seam_projection_catch_up(t, 0, &applied, &err), SEAM_E_UNKNOWN);
    assert_int_equal(applied, 0);
    assert_int_equal(seam_projection_catch_up(t, 0, &applied, &err), SEAM_E_POISONED);
    ok(seam_projection_close(t, &err), err);
    ok(seam_journal_close(j, &err), err);
    if (!s.is_volatile) {
        store_reopen(&s);
        open_all(&s, &j);
        o.journal = j;
        ok(seam_projection_open(s.db, text("t"), &o, &t, &err), err);
        ok(seam_projection_catch_up(t, 0, &applied, &err), err);
        assert_int_equal(applied, 3);
        ok(seam_projection_close(t, &err), err);
        ok(seam_journal_close(j, &err), err);
    }
    store_close(&s);
}

/* ---- no memory --------------------------------------------------------------------------- */

struct memory {
    long until; /* allocations until one fails; negative: never again */
    long live;
};

static void *failing_alloc(void *ctx, size_t len)
{
    struct memory *m = ctx;
    if (m->until >= 0 && m->until-- == 0)
        return NULL;
    m->live++;
    return malloc(len);
}

static void counting_free(void *ctx, void *ptr)
{
    struct memory *m = ctx;
    m->live -= ptr != NULL;
    free(ptr);
}

static uint64_t steady_now(void *ctx, enum seam_clock clock)
{
    (void)ctx;
    (void)clock;
    return 1;
}

static int some_random(void *ctx, void *buf, size_t len)
{
    (void)ctx;
    memset(buf, 7, len);
    return 0;
}

/* A call that may lack memory once, and then must work when it is repeated. */
#define again(call)                                                                                \
    do {                                                                                           \
        int again_rc = (call);                                                                     \
        if (again_rc == SEAM_E_NOMEM)                                                              \
            again_rc = (call);                                                                     \
        assert_int_equal(again_rc, SEAM_OK);                                                       \
    } while (0)

static void use_all(struct store *s, const struct seam_platform *os)
{
    struct seam_err err;
    struct seam_journal *j;
    struct seam_journal_reader *r;
    struct seam_projection *t;
    struct seam_view *view;
    struct seam_projection_cursor *c;
    struct seam_append ret;
    struct seam_event event;
    struct seam_slice none = {NULL, 0}, key, events[300];
    uint32_t id;
    struct seam_journal_options jo = {.platform = os};
    again(seam_journal_open(s->db, &jo, &j, &err));
    for (char name = 'a'; name <= 'z'; name++)
        again(seam_journal_stream(j, seam_bytes(&name, 1), true, &id, &err));
    for (size_t i = 0; i < 300; i++)
        events[i] = text("event");
    again(seam_journal_append(j, id, events, 300, SEAM_ACK_NONE, &ret, &err));
    assert_int_equal(ret.first, 1);
    again(seam_journal_reader_open(j, id, 0, NULL, &r, &err));
    again(seam_journal_reader_next(r, &event, &err));
    again(seam_journal_sync(j, SEAM_ACK_NONE, &err));
    struct seam_projection_options po = {
        .platform = os, .journal = j, .stream = text("z"), .projector = project};
    again(seam_projection_open(s->db, text("t"), &po, &t, &err));
    again(seam_projection_catch_up(t, 0, NULL, &err));
    char longest[450];
    memset(longest, 'k', sizeof(longest));
    struct seam_entry entry = {seam_bytes(longest, sizeof(longest)), 1, text("v")};
    again(seam_projection_merge(t, &entry, 1, SEAM_ACK_NONE, NULL, &err));
    again(seam_view_open(t, &view, &err));
    again(seam_projection_cursor_open(t, view, entry.key, none, &c, &err));
    char longer[600] = {0};
    again(seam_projection_cursor_move(c, SEAM_GE, seam_bytes(longer, 600), &key, &err));
    assert_int_equal(key.len, sizeof(longest));
    seam_projection_cursor_close(c);
    seam_view_close(view);
    ok(seam_projection_close(t, &err), err);
    seam_journal_reader_close(r);
    ok(seam_journal_close(j, &err), err);
}

/* Each allocation in turn fails: the call says so, changes nothing, and works when repeated. */
static void no_memory(void **state)
{
    (void)state;
    struct memory memory = {-1, 0};
    struct seam_platform os = *seam_platform_system();
    os.ctx = &memory;
    os.alloc = failing_alloc;
    os.free = counting_free;
    os.now_ns = steady_now;
    os.random = some_random;
    no_faults();
    for (long n = 0;; n++) {
        struct store s;
        store_open(&s, "faulty+", engine, extra);
        memory.until = n;
        use_all(&s, &os);
        store_close(&s);
        assert_int_equal(memory.live, 0);
        if (memory.until >= 0) /* it was not reached: all have failed once */
            break;
    }
}

int main(int argc, char **argv)
{
    engine = argc > 1 ? argv[1] : "mem";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_poisons),    cmocka_unit_test(unknown_under_load),
        cmocka_unit_test(refused_under_load), cmocka_unit_test(mixed_acks),
        cmocka_unit_test(projection_faults),  cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests_name("seam_faults", tests, NULL, NULL);
}
