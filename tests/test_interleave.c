/* test_interleave.c - test_interleave ENGINE-SPEC [RUNS [FIRST-SEED]]: writers, readers and the
 * engine's own threads in many seeded orders, around group commit, rolls, and kills.
 *
 * Each run is a child with a db of its own, small segments, and an order of its threads that follows
 * from the run's seed; every second run is killed at a step of that order. What must hold is what
 * test_threads.c asks of any order: units whole, acks kept, snapshots exact. A run that fails says
 * its seed: "test_interleave SPEC 1 SEED" is that run again. */
#include "interleave.h"
#include "support.h"

#include <pthread.h>
#include <seam/platform.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WRITERS = 4, COMMITS = 20, HELD = 8, PAD = 24000, LOOKS = 12 };

/* A unit of work, borrowed by its ticket. */
struct unit {
    uint64_t number, seed; /* these two begin each value */
    unsigned char pad[PAD];
    char keys[3][2];
    struct seam_op ops[4];
    struct seam_ticket *ticket;
};

/* All of a run. Threads take turns, so nothing here is guarded. */
struct run {
    uint64_t seed;
    char spec[200], dir[400], copy[440];
    struct seam_platform os;
    struct seam_options options;
    struct seam_db *db;
    uint64_t tried[WRITERS], acked[WRITERS]; /* numbers of units */
    struct unit units[WRITERS][HELD];
    char fault[200];
};

struct worker {
    struct run *run;
    unsigned id;
    pthread_t handle;
};

static void fault(struct run *r, const char *what, unsigned id, uint64_t number, int code)
{
    if (r->fault[0] == '\0')
        (void)snprintf(r->fault, sizeof r->fault, "%.100s (writer %u, unit %llu, code %d)", what, id,
                       (unsigned long long)number, code);
}

/* ---- a platform whose calls are points ------------------------------------------------------- */

static const struct seam_platform *below(void)
{
    return seam_platform_system();
}

static ssize_t point_pread(void *ctx, int fd, void *buf, size_t len, uint64_t at)
{
    sched_point();
    return below()->pread(ctx, fd, buf, len, at);
}

static ssize_t point_pwritev(void *ctx, int fd, const struct iovec *parts, int n, uint64_t at)
{
    sched_point();
    return below()->pwritev(ctx, fd, parts, n, at);
}

static int point_sync(void *ctx, int fd)
{
    sched_point();
    return below()->sync(ctx, fd);
}

static int point_rename(void *ctx, int from, const char *a, int to, const char *b)
{
    sched_point();
    return below()->rename(ctx, from, a, to, b);
}

/* ---- units ----------------------------------------------------------------------------------- */

static void name(char *key, unsigned writer, unsigned which)
{
    key[0] = (char)('A' + writer);
    key[1] = (char)('0' + which);
}

/* Some units are small, some are large enough for a segment to end in them, some get one alone. */
static size_t pad_len(uint64_t seed, uint64_t number)
{
    static const uint64_t most[] = {100, 5000, PAD};
    struct support_rng rng = {seed * 1000 + number};
    return (size_t)support_below(&rng, most[support_below(&rng, 3)]);
}

static uint32_t ack_of(const struct run *r, struct support_rng *rng)
{
    struct seam_limits limits;
    seam_db_limits(r->db, &limits);
    uint32_t level = (uint32_t)support_below(rng, 4);
    return level < (uint32_t)limits.best ? level : (uint32_t)limits.best;
}

static void prepare_one(struct run *r, unsigned id, uint64_t number, struct support_rng *rng)
{
    struct unit *u = &r->units[id][number % HELD];
    struct seam_err err;
    u->number = number;
    u->seed = r->seed * 64 + id;
    size_t pad = pad_len(u->seed, number);
    support_fill(u->pad, pad, u->seed + number);
    for (unsigned i = 0; i < 3; i++) {
        name(u->keys[i], id, i);
        u->ops[i] = op_put2(seam_bytes(u->keys[i], 2), seam_bytes(u, 16),
                            seam_bytes(u->pad, i == 1 ? pad : 0));
    }
    u->ops[3] = op_delete(seam_bytes(u->keys[2], 2));
    u->ticket = NULL;
    int rc = seam_prepare(r->db, u->ops, number % 2 == 0 ? 4 : 3, ack_of(r, rng), &u->ticket, &err);
    if (rc != SEAM_OK && rc != SEAM_E_BUSY && rc != SEAM_E_NO_SPACE)
        fault(r, err.text, id, number, rc);
    if (rc == SEAM_OK && support_below(rng, 8) == 0) {
        seam_abort(u->ticket);
        u->ticket = NULL;
    }
}

static void commit_one(struct run *r, unsigned id, uint64_t number)
{
    struct unit *u = &r->units[id][number % HELD];
    struct seam_err err;
    if (!u->ticket)
        return;
    r->tried[id] = number;
    int rc = seam_commit(u->ticket, NULL, &err);
    u->ticket = NULL;
    if (rc != SEAM_OK)
        fault(r, err.text, id, number, rc);
    else
        r->acked[id] = number;
}

/* Prepares up to HELD units ahead of the one it commits. */
static void *write_all(void *arg)
{
    struct worker *w = arg;
    struct run *r = w->run;
    struct support_rng rng = {r->seed * 16 + w->id};
    uint64_t next = 1;
    for (uint64_t number = 1; number <= COMMITS; number++) {
        uint64_t ahead = number + support_below(&rng, HELD);
        for (; next <= COMMITS && next <= ahead && r->fault[0] == '\0'; next++)
            prepare_one(r, w->id, next, &rng);
        if (number < next)
            commit_one(r, w->id, number);
    }
    return NULL;
}

/* ---- what a db holds ------------------------------------------------------------------------- */

/* The number of the key's value, 0 if it is not there. */
static uint64_t number_of(struct run *r, struct seam_db *db, struct seam_snap *snap, unsigned id,
                          unsigned which)
{
    static unsigned char want[PAD];
    char key[2];
    struct seam_pin pin = {0};
    struct seam_err err;
    uint64_t words[2];
    name(key, id, which);
    int rc = seam_get(db, snap, seam_bytes(key, 2), &pin, &err);
    if (rc == SEAM_NOTFOUND)
        return 0;
    if (rc != SEAM_OK || pin.value.len < 16) {
        fault(r, rc != SEAM_OK ? err.text : "a short value", id, which, rc);
        return 0;
    }
    memcpy(words, pin.value.ptr, 16);
    size_t pad = which == 1 ? pad_len(words[1], words[0]) : 0;
    support_fill(want, pad, words[1] + words[0]);
    if (pin.value.len != 16 + pad || words[1] != r->seed * 64 + id ||
        (pad > 0 && memcmp((const char *)pin.value.ptr + 16, want, pad) != 0))
        fault(r, "wrong bytes", id, words[0], 0);
    seam_unpin(&pin);
    return words[0];
}

/* A unit is there whole; *ret: which. */
static void check_writer(struct run *r, struct seam_db *db, struct seam_snap *snap, unsigned id,
                         uint64_t *ret)
{
    uint64_t a = number_of(r, db, snap, id, 0), b = number_of(r, db, snap, id, 1);
    uint64_t c = number_of(r, db, snap, id, 2);
    if (a != b || c != (a % 2 == 0 ? 0 : a))
        fault(r, "half a unit", id, a, 0);
    *ret = a;
}

static void *read_all(void *arg)
{
    struct worker *w = arg;
    struct run *r = w->run;
    uint64_t seen[WRITERS] = {0}, again;
    for (unsigned i = 0; i < LOOKS && r->fault[0] == '\0'; i++) {
        struct seam_snap *snap = NULL;
        struct seam_err err;
        uint64_t least[WRITERS], got;
        memcpy(least, r->acked, sizeof least);
        int rc = seam_snap_open(r->db, &snap, &err);
        if (rc != SEAM_OK)
            fault(r, err.text, 0, i, rc);
        for (unsigned id = 0; rc == SEAM_OK && id < WRITERS; id++) {
            check_writer(r, r->db, snap, id, &got);
            if (got < least[id] || got < seen[id])
                fault(r, "an ack that a later snapshot does not show", id, got, 0);
            seen[id] = got;
            sched_point();
            check_writer(r, r->db, snap, id, &again);
            if (again != got)
                fault(r, "a snapshot that changed", id, got, 0);
        }
        seam_snap_close(snap);
    }
    return NULL;
}

/* After a crash or a clean close: as much as was acked, no more than was tried. */
static void check_after(struct run *r, const char *dir)
{
    struct seam_db *db = NULL;
    struct seam_err err;
    uint64_t got;
    struct seam_options options = r->options;
    int rc = seam_open(r->spec, dir, &options, &db, &err);
    if (rc != SEAM_OK) {
        fault(r, err.text, 0, 0, rc);
        return;
    }
    for (unsigned id = 0; id < WRITERS; id++) {
        check_writer(r, db, NULL, id, &got);
        if (got < r->acked[id] || got > r->tried[id])
            fault(r, "not what was acked or tried", id, got, 0);
    }
    rc = seam_close(db, &err);
    if (rc != SEAM_OK)
        fault(r, err.text, 0, 0, rc);
}

/* ---- runs ------------------------------------------------------------------------------------ */

static void body(void *arg)
{
    struct run *r = arg;
    struct worker workers[WRITERS + 1];
    struct seam_err err;
    unsigned made = 0;
    int rc = seam_open(r->spec, r->dir, &r->options, &r->db, &err);
    if (rc != SEAM_OK) {
        fault(r, err.text, 0, 0, rc);
        return;
    }
    for (; made <= WRITERS; made++) {
        workers[made].run = r;
        workers[made].id = made;
        if (pthread_create(&workers[made].handle, NULL, made < WRITERS ? write_all : read_all,
                           &workers[made]) != 0)
            break;
    }
    for (unsigned i = 0; i < made; i++)
        (void)pthread_join(workers[i].handle, NULL);
    rc = seam_close(r->db, &err);
    if (rc != SEAM_OK)
        fault(r, err.text, 0, 0, rc);
    if (made <= WRITERS)
        fault(r, "no thread", made, 0, 0);
    if (support_volatile())
        return;
    r->options.mode = SEAM_OPEN_EXISTING;
    check_after(r, r->dir);
}

/* 0, or what a child that found a fault ends with. */
static int verdict(const struct run *r)
{
    if (r->fault[0] == '\0')
        return 0;
    print_message("seed %llu: %s\n", (unsigned long long)r->seed, r->fault);
    return 1;
}

/* The process was killed: its files are what they are now. */
static void killed(void *arg)
{
    struct run *r = arg;
    if (support_volatile())
        _exit(0);
    pid_t child = fork();
    if (child == 0) {
        (void)execlp("cp", "cp", "-r", r->dir, r->copy, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        fault(r, "cp failed", 0, 0, status);
    /* Creation may not have come far enough for a store. */
    bool any = false;
    for (unsigned id = 0; id < WRITERS; id++)
        any = any || r->tried[id] > 0;
    r->options.mode = any ? SEAM_OPEN_EXISTING : SEAM_OPEN_CREATE;
    check_after(r, r->copy);
    _exit(verdict(r));
}

static void shape(struct run *r, uint64_t seed)
{
    struct support_rng rng = {seed};
    memset(r, 0, sizeof *r);
    r->seed = seed;
    (void)snprintf(r->dir, sizeof r->dir, "%s", support_dir());
    (void)snprintf(r->copy, sizeof r->copy, "%s", support_dir());
    bool vlog = strcmp(support_engine(), "vlog") == 0;
    (void)snprintf(r->spec, sizeof r->spec, "%s%s", support_spec(),
                   !vlog ? "" : support_text(":segment=%uK,spare=%u", 64u << support_below(&rng, 2),
                                             (unsigned)support_below(&rng, 3)));
    r->os = *below();
    r->os.pread = point_pread;
    r->os.pwritev = point_pwritev;
    r->os.sync = point_sync;
    r->os.rename = point_rename;
    r->options.mode = SEAM_OPEN_NEW;
    r->options.platform = &r->os;
    r->options.stall_ms = 50;
    if (vlog && support_below(&rng, 3) == 0)
        r->options.disk = (uint64_t)(512 + support_below(&rng, 1024)) << 10;
}

static int child_run(struct run *r, uint64_t stop_step, uint64_t *ret_steps)
{
    struct sched_result result;
    struct sched_config config = {
        .seed = r->seed, .stop_step = stop_step, .stop = killed, .arg = r};
    if (sched_run(&config, body, r, &result) != 0)
        return 2;
    *ret_steps = result.steps;
    if (result.end != SCHED_DONE)
        fault(r, result.text, 0, (uint64_t)result.end, 0);
    return verdict(r);
}

/* A run in a child; the steps that it took, 0 if it was killed. */
static uint64_t run(uint64_t seed, uint64_t stop_step)
{
    uint64_t steps = 0;
    int ends[2], status = 0;
    struct run *r = malloc(sizeof *r);
    assert_non_null(r);
    shape(r, seed);
    assert_int_equal(pipe(ends), 0);
    (void)fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int rc = child_run(r, stop_step, &steps);
        (void)fflush(NULL);
        if (write(ends[1], &steps, sizeof steps) != (ssize_t)sizeof steps)
            rc = 2;
        _exit(rc);
    }
    (void)close(ends[1]);
    if (read(ends[0], &steps, sizeof steps) != (ssize_t)sizeof steps)
        steps = 0;
    (void)close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0)
        print_message("seed %llu, stopped at step %llu: status %d\n", (unsigned long long)seed,
                      (unsigned long long)stop_step, status);
    assert_int_equal(status, 0);
    support_remove(r->dir);
    support_remove(r->copy);
    free(r);
    return steps;
}

static uint64_t runs = 40, first_seed;

static void test_orders(void **state)
{
    (void)state;
    uint64_t total = 0;
    for (uint64_t seed = first_seed; seed < first_seed + runs; seed++) {
        uint64_t steps = run(seed, 0);
        assert_true(steps > 0);
        total += steps;
        struct support_rng rng = {seed};
        for (unsigned k = 0; k < 2; k++)
            (void)run(seed, 1 + support_below(&rng, steps));
    }
    print_message("%llu orders of %llu steps on average, each killed twice\n",
                  (unsigned long long)runs, (unsigned long long)(total / runs));
}

int main(int argc, char **argv)
{
    int rc = support_begin(argc > 2 ? 2 : argc, argv);
    if (rc != 0)
        return rc;
    first_seed = support_seed();
    if (argc > 2)
        runs = strtoull(argv[2], NULL, 10);
    if (argc > 3)
        first_seed = strtoull(argv[3], NULL, 10);
    if (runs == 0)
        return 2;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_orders)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
