/* kill_units.c - children that write units until they are killed, and what must be left.
 *
 * Relies on crash_units.c: the state that a writer's first k units leave is known for every k. Keeps
 * true: the parent opens a store only while no child runs, and starts no thread of its own. */
#include "kill.h"

#include <pthread.h>
#include <unistd.h>

#define LONGEST 65536u

/* ---- the child ------------------------------------------------------------------------------ */

struct job {
    struct seam_db *db;
    struct crash_shape shape;
    unsigned writer;
    uint64_t done;
};

/* A ticket that is given up: nothing of it may ever be seen. */
static void decoy(struct job *j)
{
    struct seam_op ops[2] = {op_put(LIT("zz"), LIT("never")), op_range(LIT("a"), LIT("g"))};
    struct seam_ticket *t = NULL;
    struct seam_err err = {0};
    int rc = seam_prepare(j->db, ops, 1 + (j->done & 1), SEAM_ACK_POWER, &t, &err);

    if (rc != SEAM_OK)
        crash_broken("seam_prepare: %s: %s", seam_code_name(rc), err.text);
    seam_abort(t);
}

static void write_one(struct job *j, const struct crash_unit *u, uint32_t ack)
{
    struct crash_record r = {
        .kind = CRASH_INVOKED, .writer = j->writer, .number = u->number, .extra = ack};
    struct seam_acked acked = {0};
    struct seam_err err = {0};
    int rc;

    crash_send(&r);
    rc = seam_write(j->db, u->ops, u->n, ack, &acked, &err);
    if (rc != SEAM_OK)
        crash_broken("seam_write: %s: %s", seam_code_name(rc), err.text);
    crash_check_ack(ack, &acked);
    r.kind = CRASH_ACKED;
    r.given = (uint32_t)acked.given;
    r.commit_no = acked.commit_no;
    crash_send(&r);
}

static void *write_units(void *arg)
{
    struct job *j = arg;
    struct support_rng rng = {j->shape.seed + j->writer};
    struct crash_unit *u = malloc(sizeof(*u));
    struct seam_err err = {0};

    if (!u)
        crash_broken("no memory");
    for (;;) {
        crash_unit_make(u, &j->shape, j->writer, j->done + 1);
        if (support_below(&rng, 8) == 0)
            decoy(j);
        write_one(j, u, crash_pick_ack(&rng));
        if (support_below(&rng, 16) == 0 && seam_sync(j->db, SEAM_ACK_POWER, &err) != SEAM_OK)
            crash_broken("seam_sync: %s", err.text);
        j->done++;
    }
}

/* SPEC DIR SEED MEMORY WRITERS DONE... */
int kill_child_units(char **args)
{
    unsigned writers = (unsigned)strtoul(args[4], NULL, 10);
    static struct job jobs[CRASH_WRITERS];
    pthread_t thread;

    struct seam_db *db =
        crash_open(args[0], args[1], SEAM_OPEN_CREATE, strtoull(args[3], NULL, 10));
    for (unsigned w = 0; w < writers; w++) {
        jobs[w].db = db;
        jobs[w].shape = (struct crash_shape){strtoull(args[2], NULL, 10), CRASH_OPS, LONGEST};
        jobs[w].writer = w;
        jobs[w].done = strtoull(args[5 + w], NULL, 10);
        if (w > 0 && pthread_create(&thread, NULL, write_units, &jobs[w]) != 0)
            crash_broken("no thread");
    }
    (void)write_units(&jobs[0]);
    return 0;
}

/* SPEC DIR: the first who reads after a kill. Tells the marks and waits for its own. */
int kill_child_look(char **args)
{
    struct seam_db *db = crash_open(args[0], args[1], SEAM_OPEN_EXISTING, 0);

    for (unsigned w = 0; w < CRASH_WRITERS; w++) {
        char key[2] = {(char)('a' + w), '!'};
        struct crash_record r = {.kind = CRASH_STEP, .writer = w};
        struct seam_err err = {0};
        struct seam_pin pin = {0};
        int rc = seam_get(db, NULL, seam_bytes(key, 2), &pin, &err);
        if (rc != SEAM_OK && rc != SEAM_NOTFOUND)
            crash_broken("seam_get: %s: %s", seam_code_name(rc), err.text);
        if (rc == SEAM_OK)
            memcpy(&r.number, pin.value.ptr, 8);
        seam_unpin(&pin);
        crash_send(&r);
    }
    for (;;)
        (void)pause();
}

/* ---- the parent ----------------------------------------------------------------------------- */

struct run {
    char dir[512];
    struct support_rng rng;
    struct crash_model model;
    struct crash_shape shape; /* of this round */
    uint64_t epoch;
    unsigned writers;
    uint64_t acked[CRASH_WRITERS], invoked[CRASH_WRITERS];
    uint64_t commit_no[CRASH_WRITERS]; /* of acked */
    uint64_t seen[CRASH_WRITERS];      /* by the first who read */
    uint64_t units, beyond, lost;      /* acked, there though not acked, begun and not there */
};

static void epoch_grew(struct run *run, uint64_t epoch)
{
    assert_true(epoch > run->epoch);
    run->epoch = epoch;
}

static void take(struct run *run, const struct crash_record *r)
{
    switch (r->kind) {
    case CRASH_OPENED: epoch_grew(run, r->number); break;
    case CRASH_INVOKED:
        assert_int_equal(r->number, run->invoked[r->writer] + 1);
        run->invoked[r->writer] = r->number;
        break;
    case CRASH_ACKED:
        assert_int_equal(r->number, run->invoked[r->writer]);
        if (r->commit_no != 0)
            assert_true(r->commit_no > run->commit_no[r->writer]);
        run->commit_no[r->writer] = r->commit_no;
        if (r->given >= SEAM_ACK_PROCESS)
            run->acked[r->writer] = r->number;
        break;
    default: fail_msg("a record of kind %u", r->kind);
    }
}

static void write_until_killed(struct run *run)
{
    const char *args[6 + CRASH_WRITERS] = {"units", support_spec(), run->dir};
    uint64_t target = support_below(&run->rng, 60) * run->writers, acks = 0;
    bool small = support_below(&run->rng, 2) == 0;
    struct crash_record r;
    struct crash_child c;
    char numbers[CRASH_WRITERS][24];

    args[3] = kill_number(run->shape.seed);
    args[4] = small ? "1048576" : "0";
    args[5] = kill_number(run->writers);
    memset(run->commit_no, 0, sizeof(run->commit_no));
    for (unsigned w = 0; w < run->writers; w++) {
        run->acked[w] = run->invoked[w] = run->model.done[w];
        (void)snprintf(numbers[w], sizeof(numbers[w]), "%llu",
                       (unsigned long long)run->model.done[w]);
        args[6 + w] = numbers[w];
    }
    crash_spawn(&c, args);
    while (crash_next(&c, &r)) {
        take(run, &r);
        acks += r.kind == CRASH_ACKED;
        if (!c.killed && acks >= target)
            kill_soon(&c, &run->rng, 4000);
    }
    assert_true(c.killed);
    (void)crash_wait(&c);
}

/* Reads first and is killed: what it saw is decided. */
static void look_and_die(struct run *run)
{
    const char *const args[] = {"look", support_spec(), run->dir, NULL};
    struct crash_record r;
    struct crash_child c;

    crash_spawn(&c, args);
    while (crash_next(&c, &r)) {
        if (r.kind == CRASH_OPENED) {
            epoch_grew(run, r.number);
            continue;
        }
        assert_int_equal(r.kind, CRASH_STEP);
        run->seen[r.writer] = r.number;
        if (r.writer == CRASH_WRITERS - 1)
            crash_kill(&c);
    }
    assert_true(c.killed);
    (void)crash_wait(&c);
}

/* The unit that wrote the shared key last is the one with the highest number in the order, as far as
 * it and the others were acked. */
static void check_order(struct run *run, struct seam_db *db)
{
    struct seam_pin pin = {0};
    struct seam_err err = {0};
    uint64_t newest[2];

    if (seam_get(db, NULL, LIT("S"), &pin, &err) != SEAM_OK)
        return;
    memcpy(newest, pin.value.ptr, 16);
    seam_unpin(&pin);
    if (newest[0] >= run->writers || newest[1] != run->acked[newest[0]])
        return;
    for (unsigned w = 0; w < run->writers; w++)
        assert_true(run->commit_no[newest[0]] >= run->commit_no[w] ||
                    run->commit_no[newest[0]] == 0);
}

static void write_own(struct run *run, struct seam_db *db)
{
    struct crash_unit *u = malloc(sizeof(*u));
    struct seam_err err = {0};

    assert_non_null(u);
    crash_unit_make(u, &run->shape, CRASH_PARENT, run->model.done[CRASH_PARENT] + 1);
    expect_ok(seam_write(db, u->ops, u->n, SEAM_ACK_PROCESS, NULL, &err), &err);
    crash_model_apply(&run->model, u);
    free(u);
}

static void verify(struct run *run)
{
    struct seam_options o = {.mode = SEAM_OPEN_EXISTING};
    struct seam_db *db = support_open_with(support_spec(), run->dir, &o);

    epoch_grew(run, seam_db_epoch(db));
    for (unsigned w = 0; w < run->writers; w++) {
        run->units += run->acked[w] - run->model.done[w];
        run->beyond += run->seen[w] - run->acked[w];
        run->lost += run->invoked[w] - run->seen[w];
        assert_int_equal(crash_model_learn(&run->model, db, &run->shape, w, run->acked[w],
                                           run->invoked[w]),
                         run->seen[w]);
    }
    check_order(run, db);
    crash_model_check(&run->model, db);
    write_own(run, db);
    crash_model_check(&run->model, db);
    support_close(db);
}

void kill_units(void **state)
{
    struct run *run = calloc(1, sizeof(*run));
    unsigned kills = kill_count(12);

    (void)state;
    assert_non_null(run);
    run->rng.state = support_seed();
    for (unsigned i = 0; i < kills; i++) {
        struct seam_options o = {.mode = SEAM_OPEN_CREATE};
        if (i % 8 == 0) { /* a store grows old over eight kills */
            memset(&run->model, 0, sizeof(run->model));
            run->epoch = 0;
            (void)snprintf(run->dir, sizeof(run->dir), "%s", support_dir());
            support_close(support_open_with(support_spec(), run->dir, &o));
        }
        run->shape = (struct crash_shape){support_next(&run->rng), CRASH_OPS, LONGEST};
        run->writers = i % 2 == 0 ? 1 : 2 + (unsigned)support_below(&run->rng, 3);
        write_until_killed(run);
        look_and_die(run);
        verify(run);
    }
    print_message("%u kills: %llu units acked, %llu there without, %llu begun and not there\n", kills,
                  (unsigned long long)run->units, (unsigned long long)run->beyond,
                  (unsigned long long)run->lost);
    free(run);
}
