/* test_reserve.c - test_reserve ENGINE-SPEC: what prepare admitted, commit does.
 *
 * Many threads prepare, commit and abort in random order with every limit near: ops, bytes, range
 * keys and tickets lowered by the wrapper `limit`, memory and disk by small options. Then:
 *   - prepare answers OK, E_NO_SPACE, E_BUSY or E_TOO_LARGE, and nothing else;
 *   - a commit after a successful prepare answers OK, and the handle is not poisoned;
 *   - what was refused or aborted is not there, what was committed is, whole: at the end the db
 *     holds exactly what the threads noted, and again after a reopen;
 *   - nothing stays promised: with all tickets gone a commit that ever fitted fits.
 * Each thread has keys of its own, and notes what it committed; besides, tickets go from thread to
 * thread, each with one key that nobody else uses. SEAM_OPS: steps per thread. */
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 8, HELD = 4, OPS_MAX = 40, KEYS = 64, SLOTS = 6, PASSED_MAX = 4000 };
enum { VALUE_MAX = 24000 };

/* A ticket on its way to another thread; the memory of its op goes with it. */
struct passed {
    struct seam_op op;
    unsigned char key[6];
    struct seam_ticket *ticket;
};

struct shared {
    struct seam_db *db;
    uint64_t steps;
    uint32_t value_max;
    const unsigned char *filler; /* VALUE_MAX bytes that all values begin with */
    _Atomic(struct passed *) slots[SLOTS];
    atomic_uint next_passed;
    atomic_uchar committed[PASSED_MAX];
    atomic_uint refused[4], commits, faults; /* refused: space, busy, too large, ok */
    pthread_mutex_t lock;                    /* guards first_fault */
    char first_fault[400];
};

/* What a key of a thread holds: 0 nothing, else the stamp and the length of its value. */
struct note {
    uint32_t stamp, len;
};

struct batch {
    bool open;
    size_t n;
    struct seam_op ops[OPS_MAX];
    unsigned char keys[OPS_MAX][3], ends[OPS_MAX][3];
    uint32_t stamps[OPS_MAX], stamp;
    struct seam_ticket *ticket;
};

struct thread {
    struct shared *shared;
    unsigned id;
    struct support_rng rng;
    pthread_t handle;
    uint32_t stamp;
    struct note notes[KEYS];
    struct batch held[HELD];
};

static void fault(struct shared *s, const char *what, int rc, const struct seam_err *err)
{
    pthread_mutex_lock(&s->lock);
    if (atomic_fetch_add(&s->faults, 1) == 0)
        snprintf(s->first_fault, sizeof(s->first_fault), "%.80s: %s %s", what, seam_code_name(rc),
                 err ? err->text : "");
    pthread_mutex_unlock(&s->lock);
}

/* ---- batches of a thread's own keys -------------------------------------------------------- */

static void key_of(unsigned char key[3], unsigned id, unsigned k)
{
    key[0] = 'k';
    key[1] = (unsigned char)id;
    key[2] = (unsigned char)k;
}

static uint32_t draw_len(struct thread *t)
{
    uint32_t most = t->shared->value_max;

    return (uint32_t)support_below(&t->rng, support_below(&t->rng, 3) ? most / 8 : most);
}

static void draw_batch(struct thread *t, struct batch *b)
{
    b->n = 1 + support_below(&t->rng, support_below(&t->rng, 3) ? 6 : OPS_MAX);
    b->stamp = ++t->stamp;
    for (size_t i = 0; i < b->n; i++) {
        unsigned k = (unsigned)support_below(&t->rng, KEYS);
        unsigned to = k + 1 + (unsigned)support_below(&t->rng, KEYS - k);
        uint64_t kind = support_below(&t->rng, 20);
        struct seam_slice key = seam_bytes(b->keys[i], 3);
        key_of(b->keys[i], t->id, k);
        key_of(b->ends[i], t->id, to);
        b->stamps[i] = b->stamp;
        if (kind < 13)
            b->ops[i] = op_put2(key, seam_bytes(&b->stamps[i], 4),
                                seam_bytes(t->shared->filler, draw_len(t)));
        else if (kind < 18)
            b->ops[i] = op_delete(key);
        else
            b->ops[i] = op_range(key, seam_bytes(b->ends[i], 3));
    }
}

static void note_batch(struct thread *t, const struct batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        unsigned k = b->keys[i][2], to = b->ends[i][2];
        switch (b->ops[i].kind) {
        case SEAM_PUT:
            t->notes[k].stamp = b->stamp;
            t->notes[k].len = (uint32_t)b->ops[i].body.len;
            break;
        case SEAM_DELETE:
            t->notes[k].stamp = 0;
            break;
        case SEAM_DELETE_RANGE:
            for (; k < to; k++)
                t->notes[k].stamp = 0;
            break;
        }
    }
}

/* True if admitted; a refusal must be one of three. */
static bool admitted(struct shared *s, int rc, const struct seam_err *err)
{
    switch (rc) {
    case SEAM_OK:
        atomic_fetch_add(&s->refused[3], 1);
        return true;
    case SEAM_E_NO_SPACE:
        atomic_fetch_add(&s->refused[0], 1);
        return false;
    case SEAM_E_BUSY:
        atomic_fetch_add(&s->refused[1], 1);
        return false;
    case SEAM_E_TOO_LARGE:
        atomic_fetch_add(&s->refused[2], 1);
        if (!err->limit)
            fault(s, "a limit without a name", rc, err);
        return false;
    default:
        fault(s, "prepare", rc, err);
        return false;
    }
}

static void commit(struct shared *s, struct seam_ticket *ticket, const char *whose)
{
    struct seam_err err = {0};
    int rc = seam_commit(ticket, NULL, &err);

    if (rc != SEAM_OK)
        fault(s, whose, rc, &err);
    atomic_fetch_add(&s->commits, 1);
}

static void own_step(struct thread *t, bool drain)
{
    struct batch *b = &t->held[support_below(&t->rng, HELD)];
    struct seam_err err = {0};

    if (b->open) {
        b->open = false;
        if (support_below(&t->rng, 4) == 0) {
            seam_abort(b->ticket);
        } else {
            commit(t->shared, b->ticket, "commit");
            note_batch(t, b);
        }
    } else if (!drain) {
        draw_batch(t, b);
        b->open = admitted(t->shared,
                           seam_prepare(t->shared->db, b->ops, b->n, SEAM_ACK_NONE, &b->ticket,
                                        &err),
                           &err);
    }
}

/* ---- tickets that go from thread to thread -------------------------------------------------- */

static void finish_passed(struct shared *s, struct passed *p, bool keep)
{
    uint32_t id;

    memcpy(&id, p->key + 1, 4);
    if (keep) {
        commit(s, p->ticket, "commit of a passed ticket");
        atomic_store(&s->committed[id], 1);
    } else {
        seam_abort(p->ticket);
    }
    free(p);
}

static void pass_step(struct thread *t)
{
    struct shared *s = t->shared;
    struct seam_err err = {0};
    struct passed *p, *other;
    uint32_t id = atomic_fetch_add(&s->next_passed, 1);

    if (id >= PASSED_MAX)
        return;
    p = calloc(1, sizeof(*p));
    if (!p)
        abort();
    p->key[0] = 'p';
    memcpy(p->key + 1, &id, 4);
    p->op = op_put(seam_bytes(p->key, 5), seam_bytes(s->filler, draw_len(t) / 4));
    if (!admitted(s, seam_prepare(s->db, &p->op, 1, SEAM_ACK_NONE, &p->ticket, &err), &err)) {
        free(p);
        return;
    }
    other = atomic_exchange(&s->slots[support_below(&t->rng, SLOTS)], p);
    if (other)
        finish_passed(s, other, support_below(&t->rng, 3) != 0);
}

/* Deletes make room, so that the run does not end at a full store. */
static void make_room(struct thread *t)
{
    struct batch *b = &t->held[0];

    if (b->open || support_below(&t->rng, 12) != 0)
        return;
    b->n = 1;
    b->stamp = ++t->stamp;
    key_of(b->keys[0], t->id, 0);
    key_of(b->ends[0], t->id, KEYS);
    b->ops[0] = op_range(seam_bytes(b->keys[0], 3), seam_bytes(b->ends[0], 3));
    if (admitted(t->shared,
                 seam_prepare(t->shared->db, b->ops, 1, SEAM_ACK_NONE, &b->ticket, NULL), &(
                     struct seam_err){.limit = "range_keys"})) {
        commit(t->shared, b->ticket, "commit of a range delete");
        note_batch(t, b);
    }
}

static void *work(void *arg)
{
    struct thread *t = arg;

    for (uint64_t i = 0; i < t->shared->steps && atomic_load(&t->shared->faults) == 0; i++) {
        if (support_below(&t->rng, 8) == 0)
            pass_step(t);
        else
            own_step(t, false);
        make_room(t);
    }
    for (size_t i = 0; i < HELD; i++)
        while (t->held[i].open)
            own_step(t, true);
    return NULL;
}

/* ---- what is there afterwards -------------------------------------------------------------- */

static void expect_notes(struct shared *s, const struct thread *t)
{
    for (unsigned k = 0; k < KEYS; k++) {
        unsigned char key[3];
        struct seam_pin pin;
        struct seam_err err = {0};
        key_of(key, t->id, k);
        expect_code(seam_get(s->db, NULL, seam_bytes(key, 3), &pin, &err),
                    t->notes[k].stamp ? SEAM_OK : SEAM_NOTFOUND, &err);
        if (!t->notes[k].stamp)
            continue;
        assert_int_equal(pin.value.len, t->notes[k].len + 4);
        assert_memory_equal(pin.value.ptr, &t->notes[k].stamp, 4);
        assert_memory_equal((const char *)pin.value.ptr + 4, s->filler, t->notes[k].len);
        seam_unpin(&pin);
    }
}

static void expect_all(struct shared *s, const struct thread *threads)
{
    size_t want = 0, got = 0;
    struct seam_cursor *c;

    for (unsigned i = 0; i < THREADS; i++) {
        expect_notes(s, &threads[i]);
        for (unsigned k = 0; k < KEYS; k++)
            want += threads[i].notes[k].stamp != 0;
    }
    for (uint32_t id = 0; id < PASSED_MAX; id++) {
        unsigned char key[5] = {'p'};
        if (!atomic_load(&s->committed[id]))
            continue;
        want++;
        memcpy(key + 1, &id, 4);
        struct seam_pin pin;
        expect_ok(seam_get(s->db, NULL, seam_bytes(key, 5), &pin, NULL), NULL);
        assert_memory_equal(pin.value.ptr, s->filler, pin.value.len);
        seam_unpin(&pin);
    }
    expect_ok(seam_cursor_open(s->db, NULL, NONE, NONE, &c, NULL), NULL);
    while (seam_cursor_move(c, SEAM_NEXT, NONE, NULL, NULL) == SEAM_OK)
        got++;
    seam_cursor_close(c);
    assert_int_equal(got, want);
}

static void start_and_join(struct shared *s, struct thread *threads)
{
    for (unsigned i = 0; i < THREADS; i++) {
        threads[i].shared = s;
        threads[i].id = i;
        threads[i].rng.state = support_seed() + i;
        assert_int_equal(pthread_create(&threads[i].handle, NULL, work, &threads[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i].handle, NULL), 0);
    for (unsigned i = 0; i < SLOTS; i++) {
        struct passed *p = atomic_exchange(&s->slots[i], NULL);
        if (p)
            finish_passed(s, p, i % 2 == 0);
    }
}

static void run(const char *limit, const struct seam_options *options, uint32_t value_max)
{
    const char *spec = *limit ? support_text("limit:%s+%s", limit, support_spec()) : support_spec();
    char dir[300];
    unsigned char *filler = malloc(VALUE_MAX);
    struct shared *s = calloc(1, sizeof(*s));
    struct thread *threads = calloc(THREADS, sizeof(*threads));
    struct seam_stats stats;

    assert_non_null(s);
    assert_non_null(threads);
    assert_non_null(filler);
    snprintf(dir, sizeof(dir), "%s", support_dir());
    support_fill(filler, VALUE_MAX, 1);
    s->filler = filler;
    s->steps = support_number("SEAM_OPS", 1500);
    s->value_max = value_max;
    assert_int_equal(pthread_mutex_init(&s->lock, NULL), 0);
    s->db = support_open_with(spec, dir, options);
    start_and_join(s, threads);
    printf("%s: %u admitted, %u no space, %u busy, %u too large, %u commits\n", spec,
           atomic_load(&s->refused[3]), atomic_load(&s->refused[0]), atomic_load(&s->refused[1]),
           atomic_load(&s->refused[2]), atomic_load(&s->commits));
    if (atomic_load(&s->faults) > 0)
        fail_msg("%u faults, the first: %s", atomic_load(&s->faults), s->first_fault);
    assert_false(seam_db_poisoned(s->db));
    expect_ok(seam_db_stats(s->db, &stats, NULL), NULL);
    assert_int_equal(stats.tickets, 0);
    expect_all(s, threads);
    support_close(s->db);
    if (!support_volatile()) {
        s->db = support_open_with(spec, dir, options);
        expect_all(s, threads);
        support_close(s->db);
    }
    pthread_mutex_destroy(&s->lock);
    free(threads);
    free(s);
    free(filler);
}

/* ---- the limits, one after the other ------------------------------------------------------- */

static void test_counts(void **state)
{
    struct seam_options o = {.mode = SEAM_OPEN_CREATE, .stall_ms = UINT32_MAX};

    (void)state;
    run("ops=24,bytes=12K,range_keys=20,tickets=20", &o, 3000);
}

/* The same with prepares that wait a little for a ticket. */
static void test_counts_waiting(void **state)
{
    struct seam_options o = {
        .mode = SEAM_OPEN_CREATE, .stall_ms = 2, .tickets = 12, .headroom_percent = 100};

    (void)state;
    run("ops=30,bytes=20K,range_keys=30", &o, 3000);
}

static void test_memory(void **state)
{
    struct seam_options o = {.mode = SEAM_OPEN_CREATE, .stall_ms = UINT32_MAX, .memory = 1 << 20};

    (void)state;
    run("", &o, VALUE_MAX);
}

static void test_memory_waiting(void **state)
{
    struct seam_options o = {.mode = SEAM_OPEN_CREATE, .stall_ms = 2, .memory = 1 << 20};

    (void)state;
    run("", &o, VALUE_MAX);
}

/* The smallest cap of 2 MiB and up that the engine opens with. */
static void test_disk(void **state)
{
    struct seam_options o = {.mode = SEAM_OPEN_CREATE, .stall_ms = UINT32_MAX, .disk = 1 << 20};
    int rc = SEAM_E_NO_SPACE;

    (void)state;
    if (support_volatile())
        skip();
    while (rc != SEAM_OK && o.disk < UINT64_C(1) << 30) {
        struct seam_db *db;
        struct seam_err err = {0};
        o.disk *= 2;
        rc = seam_open(support_spec(), support_dir(), &o, &db, &err);
        if (rc == SEAM_OK)
            support_close(db);
        else
            assert_true(rc == SEAM_E_NO_SPACE || rc == SEAM_E_OPTION);
    }
    printf("options.disk is %llu KiB\n", (unsigned long long)o.disk >> 10);
    run("", &o, VALUE_MAX);
}

/* A refusal for want of space names what is short, and room that is given back is room. */
static void test_refusal_gives_all_back(void **state)
{
    struct seam_options o = {.mode = SEAM_OPEN_CREATE, .stall_ms = UINT32_MAX, .memory = 1 << 20,
                             .disk = 16 << 20};
    struct seam_db *db = support_open_with(support_spec(), support_dir(), &o);
    unsigned char *bytes = calloc(1, 64 << 20);
    struct seam_limits limits;
    struct seam_err err = {0};
    size_t most = 64 << 20, fits = 0;

    (void)state;
    assert_non_null(bytes);
    seam_db_limits(db, &limits);
    if (limits.value < most)
        most = limits.value;
    if (limits.bytes - 1 < most)
        most = limits.bytes - 1;
    for (size_t len = 1024; len <= most; len *= 2) {
        struct seam_op op = op_put(LIT("k"), seam_bytes(bytes, len));
        struct seam_ticket *ticket;
        int rc = seam_prepare(db, &op, 1, SEAM_ACK_NONE, &ticket, &err);
        if (rc == SEAM_OK) {
            seam_abort(ticket);
            fits = len;
            continue;
        }
        assert_true(rc == SEAM_E_NO_SPACE || rc == SEAM_E_BUSY);
        assert_true(strlen(err.text) > 0);
        for (int i = 0; i < 100; i++)
            expect_code(seam_prepare(db, &op, 1, SEAM_ACK_NONE, &ticket, NULL), rc, NULL);
        break;
    }
    assert_true(fits > 0);
    for (int i = 0; i < 100; i++) {
        struct seam_op op = op_put(LIT("k"), seam_bytes(bytes, fits));
        struct seam_ticket *ticket;
        expect_ok(seam_prepare(db, &op, 1, SEAM_ACK_NONE, &ticket, &err), &err);
        seam_abort(ticket);
    }
    expect_keys(db, NULL, "");
    put_ok(db, LIT("k"), seam_bytes(bytes, fits));
    support_close(db);
    free(bytes);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest reserve[] = {
        cmocka_unit_test(test_refusal_gives_all_back),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_counts_waiting),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_memory_waiting),
        cmocka_unit_test(test_disk),
    };
    int rc = support_begin(argc, argv);

    return rc ? rc : cmocka_run_group_tests(reserve, NULL, NULL);
}
