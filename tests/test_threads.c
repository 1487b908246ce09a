/* test_threads.c - test_threads ENGINE-SPEC: 8 writers and 4 readers on one db.
 *
 * Writer w's commit number i sets all of its keys to (w, i) at once. What a reader must find in any
 * snapshot, and what is counted as a fault otherwise:
 *   - a writer's keys all carry the same number: commits are atomic;
 *   - the number is at least that of the writer's last commit that had returned before the snapshot
 *     was opened, and a later snapshot never shows a lower one;
 *   - the vectors of numbers of any two snapshots are ordered: each is a prefix of one order; where
 *     the engine tells commit numbers, that order is theirs;
 *   - what a pin or a snapshot showed stays so.
 * SEAM_OPS: commits per writer. */
#include "support.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { WRITERS = 8, READERS = 4, KEYS = 5, SAMPLES_MAX = 20000, LOOKS_LEAST = 300 };

struct sample {
    uint32_t seen[WRITERS];
};

struct shared {
    struct seam_db *db;
    struct seam_limits limits;
    uint64_t rounds;
    atomic_uint returned[WRITERS]; /* the last commit that returned */
    uint64_t *numbers[WRITERS];    /* commit_no of each commit, [i]; 0 unknown */
    atomic_uint writers_left;
    atomic_uint looks; /* snapshots read so far */
    atomic_uint faults;
    pthread_mutex_t lock; /* guards what is below */
    char first_fault[300];
    struct sample samples[SAMPLES_MAX];
    size_t n_samples;
};

struct thread {
    struct shared *shared;
    unsigned id;
    struct support_rng rng;
    pthread_t handle;
};

static void fault(struct shared *s, const char *format, ...) SEAM_PRINTF(2, 3);
static void fault(struct shared *s, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    pthread_mutex_lock(&s->lock);
    if (atomic_fetch_add(&s->faults, 1) == 0)
        vsnprintf(s->first_fault, sizeof(s->first_fault), format, args);
    pthread_mutex_unlock(&s->lock);
    va_end(args);
}

/* ---- writers ------------------------------------------------------------------------------- */

struct value {
    uint32_t writer, i;
    unsigned char padding[120];
};

struct batch {
    unsigned char keys[KEYS][3], from[2], to[2];
    struct value value;
    struct seam_op ops[KEYS + 2];
    size_t n;
};

static void key_of(unsigned char key[3], unsigned writer, unsigned k)
{
    key[0] = 'w';
    key[1] = (unsigned char)writer;
    key[2] = (unsigned char)k;
}

/* In some commits the keys go first, by range or one by one, and come back in the same commit. */
static void make_batch(struct batch *b, unsigned writer, uint32_t i, struct support_rng *rng)
{
    uint64_t kind = support_below(rng, 8);

    b->n = 0;
    memset(&b->value, (int)(i & 0xff), sizeof(b->value));
    b->value.writer = writer;
    b->value.i = i;
    b->from[0] = b->to[0] = 'w';
    b->from[1] = (unsigned char)writer;
    b->to[1] = (unsigned char)(writer + 1);
    if (kind == 0)
        b->ops[b->n++] = op_range(seam_bytes(b->from, 2), seam_bytes(b->to, 2));
    for (unsigned k = 0; k < KEYS; k++) {
        key_of(b->keys[k], writer, k);
        if (kind == 1 && k == 2)
            b->ops[b->n++] = op_delete(seam_bytes(b->keys[k], 3));
        b->ops[b->n++] = op_put2(seam_bytes(b->keys[k], 3), seam_bytes(&b->value, 8),
                                 seam_bytes(b->value.padding, support_below(rng, 120)));
    }
}

static uint32_t draw_ack(struct thread *t)
{
    uint32_t best = t->shared->limits.best;

    switch (support_below(&t->rng, 40)) {
    case 0:
        return best;
    case 1:
    case 2:
        return best | SEAM_ACK_WINDOW(5);
    default:
        return SEAM_ACK_NONE;
    }
}

/* Prepared and given back: must never be seen, so it carries a number that no commit has. */
static void abort_one(struct thread *t)
{
    struct seam_ticket *ticket;
    struct batch b;
    int rc;

    make_batch(&b, t->id, UINT32_MAX, &t->rng);
    rc = seam_prepare(t->shared->db, b.ops, b.n, SEAM_ACK_NONE, &ticket, NULL);
    if (rc == SEAM_OK)
        seam_abort(ticket);
    else
        fault(t->shared, "writer %u: prepare: %s", t->id, seam_code_name(rc));
}

static int commit_one(struct thread *t, const struct batch *b, struct seam_acked *acked,
                      struct seam_err *err)
{
    struct seam_ticket *ticket;
    uint32_t ack = draw_ack(t);
    int rc;

    if (support_below(&t->rng, 2))
        return seam_write(t->shared->db, b->ops, b->n, ack, acked, err);
    rc = seam_prepare(t->shared->db, b->ops, b->n, ack, &ticket, err);
    if (rc == SEAM_OK && support_below(&t->rng, 4) == 0)
        abort_one(t);
    return rc == SEAM_OK ? seam_commit(ticket, acked, err) : rc;
}

/* Writers may starve readers, which is no fault; but then little would be tested. */
static void pace(struct shared *s, uint32_t i)
{
    while (atomic_load(&s->looks) < (uint64_t)i * LOOKS_LEAST / s->rounds &&
           atomic_load(&s->faults) == 0)
        sched_yield();
}

static void *writer(void *arg)
{
    struct thread *t = arg;
    struct shared *s = t->shared;

    for (uint32_t i = 1; i <= s->rounds; i++) {
        struct seam_acked acked = {SEAM_ACK_NONE, 0, -1, 0, 0};
        struct seam_err err = {0};
        struct batch b;
        int rc;
        make_batch(&b, t->id, i, &t->rng);
        rc = commit_one(t, &b, &acked, &err);
        if (rc != SEAM_OK) {
            fault(s, "writer %u, commit %u: %s: %.200s", t->id, i, seam_code_name(rc), err.text);
            break;
        }
        s->numbers[t->id][i] = acked.commit_no;
        atomic_store(&s->returned[t->id], i);
        pace(s, i);
    }
    atomic_fetch_sub(&s->writers_left, 1);
    return NULL;
}

/* ---- readers ------------------------------------------------------------------------------- */

static bool parse_value(struct shared *s, struct seam_slice key, struct seam_slice value,
                        unsigned *writer_id, uint32_t *i)
{
    uint32_t words[2];

    if (key.len != 3 || value.len < 8) {
        fault(s, "a key of %zu and a value of %zu bytes", key.len, value.len);
        return false;
    }
    memcpy(words, value.ptr, 8);
    *writer_id = ((const unsigned char *)key.ptr)[1];
    *i = words[1];
    for (size_t n = 8; n < value.len; n++)
        if (((const unsigned char *)value.ptr)[n] != (words[1] & 0xff)) {
            fault(s, "torn value of writer %u, commit %u", words[0], words[1]);
            return false;
        }
    if (*writer_id >= WRITERS || words[0] != *writer_id) {
        fault(s, "a value of writer %u under a key of %u", words[0], *writer_id);
        return false;
    }
    return true;
}

/* Reads all of a snapshot, in one direction or the other. */
static bool read_all(struct shared *s, struct seam_snap *snap, bool up, struct sample *ret)
{
    unsigned count[WRITERS] = {0};
    struct seam_cursor *c;
    struct seam_slice key, value;
    struct seam_err err = {0};
    bool good = true;
    int rc = seam_cursor_open(s->db, snap, NONE, NONE, &c, &err);

    memset(ret, 0, sizeof(*ret));
    if (rc != SEAM_OK) {
        fault(s, "cursor_open: %s", err.text);
        return false;
    }
    while (good && (rc = seam_cursor_move(c, up ? SEAM_NEXT : SEAM_PREV, NONE, &key, &err)) ==
                       SEAM_OK) {
        unsigned w = 0;
        uint32_t i = 0;
        rc = seam_cursor_value(c, &value, &err);
        if (rc != SEAM_OK)
            break;
        good = parse_value(s, key, value, &w, &i);
        if (good && count[w]++ > 0 && ret->seen[w] != i) {
            fault(s, "commits %u and %u of writer %u in one snapshot", ret->seen[w], i, w);
            good = false;
        }
        if (good)
            ret->seen[w] = i;
    }
    seam_cursor_close(c);
    for (unsigned w = 0; good && w < WRITERS; w++)
        if (count[w] != 0 && count[w] != KEYS) {
            fault(s, "%u keys of writer %u in a snapshot", count[w], w);
            good = false;
        }
    if (good && rc != SEAM_NOTFOUND) {
        fault(s, "a scan ended with %s: %.200s", seam_code_name(rc), err.text);
        good = false;
    }
    return good;
}

static void check_gets(struct thread *t, struct seam_snap *snap, const struct sample *sample)
{
    struct shared *s = t->shared;
    unsigned w = (unsigned)support_below(&t->rng, WRITERS);
    unsigned char key[3];
    struct seam_pin pin;
    unsigned id;
    uint32_t i;
    int rc;

    key_of(key, w, (unsigned)support_below(&t->rng, KEYS));
    rc = support_below(&t->rng, 2)
             ? seam_get(s->db, snap, seam_bytes(key, 3), &pin, NULL)
             : seam_floor(s->db, snap, seam_bytes(key, 3), seam_bytes(key, 3), &pin, NULL);
    if (rc == SEAM_NOTFOUND && sample->seen[w] == 0)
        return;
    if (rc != SEAM_OK) {
        fault(s, "get: %s", seam_code_name(rc));
        return;
    }
    if (parse_value(s, seam_bytes(key, 3), pin.value, &id, &i) && i != sample->seen[w])
        fault(s, "get saw %u of writer %u where a scan saw %u", i, w, sample->seen[w]);
    seam_unpin(&pin);
}

static void check_sample(struct thread *t, const struct sample *before, const struct sample *now,
                         const struct sample *last)
{
    for (unsigned w = 0; w < WRITERS; w++) {
        if (now->seen[w] < before->seen[w])
            fault(t->shared, "snapshot has commit %u of writer %u, but %u had returned",
                  now->seen[w], w, before->seen[w]);
        if (now->seen[w] < last->seen[w])
            fault(t->shared, "writer %u went back from %u to %u", w, last->seen[w], now->seen[w]);
        if (now->seen[w] > t->shared->rounds)
            fault(t->shared, "an aborted batch of writer %u is visible", w);
    }
}

static void keep_sample(struct shared *s, const struct sample *sample)
{
    pthread_mutex_lock(&s->lock);
    if (s->n_samples < SAMPLES_MAX)
        s->samples[s->n_samples++] = *sample;
    pthread_mutex_unlock(&s->lock);
}

/* A pin of now, held over commits. */
static void hold_pin(struct thread *t, struct seam_pin *pin, unsigned char copy[256])
{
    struct shared *s = t->shared;
    unsigned char key[3];

    if (pin->db) {
        if (memcmp(copy, pin->value.ptr, pin->value.len) != 0)
            fault(s, "a pin's bytes changed");
        seam_unpin(pin);
    }
    key_of(key, (unsigned)support_below(&t->rng, WRITERS), 1);
    if (seam_get(s->db, NULL, seam_bytes(key, 3), pin, NULL) == SEAM_OK)
        memcpy(copy, pin->value.ptr, pin->value.len);
}

static void *reader(void *arg)
{
    struct thread *t = arg;
    struct shared *s = t->shared;
    struct sample before, now, again, last = {{0}};
    struct seam_pin pin = {0};
    unsigned char copy[256];
    bool more = true;

    while (more) {
        struct seam_snap *snap;
        int rc;
        more = atomic_load(&s->writers_left) > 0;
        for (unsigned w = 0; w < WRITERS; w++)
            before.seen[w] = atomic_load(&s->returned[w]);
        rc = seam_snap_open(s->db, &snap, NULL);
        if (rc != SEAM_OK) {
            fault(s, "snap_open: %s", seam_code_name(rc));
            break;
        }
        if (read_all(s, snap, support_below(&t->rng, 2), &now)) {
            check_sample(t, &before, &now, &last);
            keep_sample(s, &now);
            for (int i = 0; i < 4; i++)
                check_gets(t, snap, &now);
            if (read_all(s, snap, support_below(&t->rng, 2), &again) &&
                memcmp(&now, &again, sizeof(now)) != 0)
                fault(s, "a snapshot changed");
            last = now;
        }
        seam_snap_close(snap);
        atomic_fetch_add(&s->looks, 1);
        hold_pin(t, &pin, copy);
    }
    seam_unpin(&pin);
    return NULL;
}

/* ---- afterwards ---------------------------------------------------------------------------- */

static int by_sum(const void *a, const void *b)
{
    uint64_t x = 0, y = 0;

    for (unsigned w = 0; w < WRITERS; w++) {
        x += ((const struct sample *)a)->seen[w];
        y += ((const struct sample *)b)->seen[w];
    }
    return (x > y) - (x < y);
}

/* Prefixes of one order, sorted by size, grow in every place. */
static void check_order(struct shared *s)
{
    qsort(s->samples, s->n_samples, sizeof(s->samples[0]), by_sum);
    for (size_t i = 1; i < s->n_samples; i++)
        for (unsigned w = 0; w < WRITERS; w++)
            if (s->samples[i].seen[w] < s->samples[i - 1].seen[w])
                fault(s, "two snapshots are not prefixes of one order");
}

/* In each snapshot every commit that is in has a lower number than every one that is out. */
static void check_numbers(struct shared *s)
{
    for (size_t n = 0; n < s->n_samples; n++) {
        uint64_t highest_in = 0, lowest_out = UINT64_MAX;
        for (unsigned w = 0; w < WRITERS; w++) {
            uint32_t i = s->samples[n].seen[w];
            if (i > s->rounds || (i > 0 && s->numbers[w][i] == 0))
                return;
            if (i > 0 && s->numbers[w][i] > highest_in)
                highest_in = s->numbers[w][i];
            if (i < s->rounds && s->numbers[w][i + 1] != 0 && s->numbers[w][i + 1] < lowest_out)
                lowest_out = s->numbers[w][i + 1];
        }
        if (highest_in >= lowest_out)
            fault(s, "a snapshot holds commit %llu but not %llu", (unsigned long long)highest_in,
                  (unsigned long long)lowest_out);
    }
}

static void check_final(struct shared *s)
{
    struct sample now;

    if (!read_all(s, NULL, true, &now))
        return;
    for (unsigned w = 0; w < WRITERS; w++)
        if (now.seen[w] != s->rounds)
            fault(s, "at the end writer %u is at %u", w, now.seen[w]);
}

static void run(struct shared *s)
{
    struct thread threads[WRITERS + READERS];

    for (unsigned i = 0; i < WRITERS + READERS; i++) {
        threads[i].shared = s;
        threads[i].id = i;
        threads[i].rng.state = support_seed() + i;
        assert_int_equal(pthread_create(&threads[i].handle, NULL, i < WRITERS ? writer : reader,
                                        &threads[i]),
                         0);
    }
    for (unsigned i = 0; i < WRITERS + READERS; i++)
        assert_int_equal(pthread_join(threads[i].handle, NULL), 0);
}

static void test_writers_and_readers(void **state)
{
    static struct shared s;
    const char *dir = support_dir();
    struct seam_stats stats;

    (void)state;
    s.rounds = support_number("SEAM_OPS", 1000);
    s.db = support_open(dir);
    seam_db_limits(s.db, &s.limits);
    assert_int_equal(pthread_mutex_init(&s.lock, NULL), 0);
    atomic_store(&s.writers_left, WRITERS);
    for (unsigned w = 0; w < WRITERS; w++) {
        s.numbers[w] = calloc(s.rounds + 2, sizeof(uint64_t));
        assert_non_null(s.numbers[w]);
    }
    run(&s);
    printf("%zu snapshots compared\n", s.n_samples);
    check_order(&s);
    check_numbers(&s);
    check_final(&s);
    expect_ok(seam_db_stats(s.db, &stats, NULL), NULL);
    assert_int_equal(stats.commits, WRITERS * s.rounds);
    assert_int_equal(stats.tickets + stats.pins + stats.cursors + stats.snapshots, 0);
    support_close(s.db);
    if (!support_volatile() && atomic_load(&s.faults) == 0) {
        s.db = support_open(dir);
        check_final(&s);
        support_close(s.db);
    }
    for (unsigned w = 0; w < WRITERS; w++)
        free(s.numbers[w]);
    if (atomic_load(&s.faults) > 0)
        fail_msg("%u faults, the first: %s", atomic_load(&s.faults), s.first_fault);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest threads[] = {cmocka_unit_test(test_writers_and_readers)};
    int rc = support_begin(argc, argv);

    return rc ? rc : cmocka_run_group_tests(threads, NULL, NULL);
}
