/* test_full_disk.c - full disks: each outcome is one of those promised, and after space returns every
 * unit is there whole or not at all, what was acked is there, and work goes on.
 *
 * argv[1] names the engine. Relies on disk_support.c for disks and on full_disk_child.c for the
 * processes that fill them. Exits with 77 where no disk can be mounted. Each disk holds a ballast
 * file besides the room that is left to the store; deleting it is how space returns. */
#include "full_disk.h"

#include "disk_support.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define BALLAST (80u << 20)

struct run {
    struct support_rng rng;
    struct disk disk;
    char store[600];
    struct crash_model model;
    struct crash_shape shape[CRASH_WRITERS]; /* of the newest unit begun */
    uint64_t invoked[CRASH_WRITERS];
    uint32_t caps;     /* as the child's open reported, else those of any disk */
    bool opened;
    int open_code, close_code;
    unsigned acked, refused, unknown, aborted;
};

/* What an engine says of itself on a disk with room. */
static uint32_t probe_caps(void)
{
    const char *dir = support_dir();
    struct seam_db *db = support_open(dir);
    struct seam_limits limits;

    seam_db_limits(db, &limits);
    support_close(db);
    return limits.caps;
}

static void begin(struct run *run, enum disk_kind kind, uint64_t seed, uint64_t room)
{
    const char *why = NULL;

    memset(run, 0, sizeof(*run));
    run->rng.state = seed;
    run->caps = probe_caps();
    if (!disk_make(&run->disk, kind, support_dir(), BALLAST + room, &why)) {
        print_message("left out: %s\n", why);
        skip();
    }
    (void)snprintf(run->store, sizeof(run->store), "%s/store", run->disk.path);
    assert_true(disk_eat(run->disk.path, "ballast", room));
}

static void end(struct run *run)
{
    disk_drop(&run->disk);
}

/* ---- what a child tells --------------------------------------------------------------------- */

static void take_ack(struct run *run, const struct crash_record *r)
{
    struct crash_unit *u = malloc(sizeof(*u));

    assert_non_null(u);
    crash_unit_make(u, &run->shape[r->writer], r->writer, r->number);
    if (r->given >= SEAM_ACK_PROCESS)
        crash_model_apply(&run->model, u);
    free(u);
    run->acked++;
}

static void take(struct run *run, const struct crash_record *r)
{
    switch (r->kind) {
    case CRASH_OPENED:
        run->caps = (uint32_t)r->extra;
        run->opened = true;
        break;
    case CRASH_INVOKED:
        run->shape[r->writer] = (struct crash_shape){r->commit_no, (unsigned)(r->extra >> 32),
                                                     (unsigned)(r->extra & 0xffffffffu)};
        run->invoked[r->writer] = r->number;
        break;
    case CRASH_ACKED: take_ack(run, r); break;
    case CRASH_REFUSED:
        run->invoked[r->writer] = run->model.done[r->writer];
        run->refused += r->code != SEAM_OK;
        break;
    case CRASH_UNKNOWN: run->unknown++; break;
    case CRASH_STEP: *(r->writer == FULL_OPEN ? &run->open_code : &run->close_code) = r->code; break;
    default: fail_msg("a record of kind %u", r->kind);
    }
}

/* Runs it to its end and judges how it ended. */
static void watch(struct run *run, const char *const *args)
{
    struct crash_record r;
    struct crash_child c;
    int status;

    run->opened = false;
    run->open_code = run->close_code = SEAM_OK;
    run->acked = run->refused = run->unknown = run->aborted = 0;
    crash_spawn(&c, args);
    while (crash_next(&c, &r))
        take(run, &r);
    status = crash_wait(&c);
    if (WIFSIGNALED(status)) {
        if (WTERMSIG(status) != SIGABRT || !(run->caps & SEAM_CAP_MAY_ABORT))
            fail_msg("the process died of signal %d", WTERMSIG(status));
        run->aborted = 1;
    } else {
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    /* Where room is reserved, a full disk fails neither a commit nor the last flush. */
    if (run->caps & SEAM_CAP_RESERVES) {
        assert_int_equal(run->aborted, 0);
        assert_int_equal(run->unknown, 0);
        assert_int_equal(run->close_code, SEAM_OK);
    }
    if (run->open_code != SEAM_OK)
        assert_int_equal(run->open_code, SEAM_E_NO_SPACE);
}

static void report(const struct run *run, const char *what)
{
    print_message("  %s: open %s%s, %u acked, %u refused, %u unknown, close %s\n", what,
                  seam_code_name(run->open_code), run->aborted ? ", ABORTED" : "", run->acked,
                  run->refused, run->unknown, seam_code_name(run->close_code));
}

/* ---- after space returned ------------------------------------------------------------------- */

static void write_more(struct run *run, struct seam_db *db, unsigned n)
{
    struct crash_shape shape = {support_next(&run->rng), CRASH_OPS, 65536};
    struct crash_unit *u = malloc(sizeof(*u));
    struct seam_err err = {0};

    assert_non_null(u);
    for (unsigned i = 0; i < n; i++) {
        crash_unit_make(u, &shape, CRASH_PARENT, run->model.done[CRASH_PARENT] + 1);
        expect_ok(seam_write(db, u->ops, u->n, SEAM_ACK_POWER, NULL, &err), &err);
        crash_model_apply(&run->model, u);
    }
    free(u);
}

static void recover(struct run *run)
{
    struct seam_db *db;

    disk_give_back(run->disk.path, "eaten");
    disk_give_back(run->disk.path, "ballast");
    db = support_open(run->store);
    for (unsigned w = 0; w < CRASH_PARENT; w++)
        (void)crash_model_learn(&run->model, db, &run->shape[w], w, run->model.done[w],
                                run->invoked[w] > run->model.done[w] ? run->invoked[w]
                                                                     : run->model.done[w]);
    crash_model_check(&run->model, db);
    write_more(run, db, 12);
    crash_model_check(&run->model, db);
    support_close(db);
    db = support_open(run->store);
    crash_model_check(&run->model, db);
    support_close(db);
}

/* ---- tests ---------------------------------------------------------------------------------- */

static const char *number(uint64_t n)
{
    return support_text("%llu", (unsigned long long)n);
}

static void fill(struct run *run, enum seam_open_mode mode)
{
    const char *const args[] = {"fill", support_spec(), run->store, number(mode),
                                number(support_next(&run->rng)),
                                support_below(&run->rng, 2) ? "1048576" : "0", NULL};

    watch(run, args);
}

/* From too small for any store to a few MiB. */
static void fills_up(enum disk_kind kind)
{
    static const uint64_t rooms[] = {0,         8192,      65536,     262144,
                                     1u << 20, 3u << 20, 6u << 20, 20u << 20};
    struct run *run = malloc(sizeof(*run));

    assert_non_null(run);
    for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
        struct support_rng rng = {support_seed() + i};
        uint64_t room = rooms[i] + support_below(&rng, rooms[i] / 2 + 1);
        begin(run, kind, support_next(&rng), room);
        fill(run, SEAM_OPEN_CREATE);
        report(run, number(room));
        recover(run);
        end(run);
    }
    free(run);
}

/* Tickets that were given before the disk filled up. */
static void keeps_promises(enum disk_kind kind)
{
    struct run *run = malloc(sizeof(*run));

    assert_non_null(run);
    for (unsigned i = 0; i < 5; i++) {
        struct support_rng rng = {support_seed() + 100 + i};
        begin(run, kind, support_next(&rng), (4u << 20) + support_below(&rng, 40u << 20));
        const char *const args[] = {"held", support_spec(), run->store,
                                    number(support_next(&run->rng)), i % 2 ? "1048576" : "0",
                                    run->disk.path, NULL};
        watch(run, args);
        report(run, "held tickets");
        if (run->opened && strcmp(support_engine(), "lmdb") == 0) /* else the above proves little */
            assert_true(run->caps & SEAM_CAP_RESERVES);
        recover(run);
        end(run);
    }
    free(run);
}

/* What is read-only needs no room. */
static void read_on_full(struct run *run)
{
    struct seam_options o = {.mode = SEAM_OPEN_READ_ONLY};
    uint64_t before = support_fingerprint(run->store);
    struct seam_db *db = support_open_with(support_spec(), run->store, &o);

    crash_model_check(&run->model, db);
    support_close(db);
    assert_true(support_fingerprint(run->store) == before);
}

static void opens_full(enum disk_kind kind)
{
    static const uint64_t leaves[] = {0, 0, 4096, 65536, 1u << 20};
    struct run *run = malloc(sizeof(*run));
    struct seam_db *db;

    assert_non_null(run);
    for (size_t i = 0; i < sizeof(leaves) / sizeof(leaves[0]); i++) {
        begin(run, kind, support_seed() + 200 + i, 24u << 20);
        db = support_open(run->store);
        write_more(run, db, 6);
        support_close(db);
        assert_true(disk_eat(run->disk.path, "eaten", leaves[i]));
        read_on_full(run);
        uint64_t before = support_fingerprint(run->store);
        fill(run, SEAM_OPEN_EXISTING);
        report(run, "opened full");
        if (run->open_code != SEAM_OK && support_fingerprint(run->store) != before)
            fail_msg("an open that failed has changed the store");
        recover(run);
        end(run);
    }
    free(run);
}

/* Stores made where there is hardly room. */
static void creates_full(enum disk_kind kind)
{
    struct run *run = malloc(sizeof(*run));

    assert_non_null(run);
    for (unsigned i = 0; i < 8; i++) {
        struct support_rng rng = {support_seed() + 300 + i};
        uint64_t room = support_below(&rng, i < 5 ? 300 : 900) << 10;
        begin(run, kind, support_next(&rng), room);
        fill(run, SEAM_OPEN_NEW);
        report(run, number(room));
        if (run->open_code != SEAM_OK && !run->aborted)
            assert_int_equal(access(run->store, F_OK), -1); /* created whole or not at all */
        recover(run);
        end(run);
    }
    free(run);
}

#define ON_BOTH(name)                                                                              \
    static void name##_tmpfs(void **state)                                                         \
    {                                                                                              \
        (void)state;                                                                               \
        name(DISK_TMPFS);                                                                          \
    }                                                                                              \
    static void name##_ext4(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        name(DISK_EXT4);                                                                           \
    }

ON_BOTH(fills_up)
ON_BOTH(keeps_promises)
ON_BOTH(opens_full)
ON_BOTH(creates_full)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fills_up_tmpfs),     cmocka_unit_test(keeps_promises_tmpfs),
        cmocka_unit_test(opens_full_tmpfs),   cmocka_unit_test(creates_full_tmpfs),
        cmocka_unit_test(fills_up_ext4),      cmocka_unit_test(keeps_promises_ext4),
        cmocka_unit_test(opens_full_ext4),    cmocka_unit_test(creates_full_ext4),
    };
    int status;

    if (argc > 3 && strcmp(argv[1], "child") == 0)
        return strcmp(argv[2], "fill") == 0 ? full_child_fill(argv + 3) : full_child_held(argv + 3);
    if (!disk_enter(argv))
        return 77;
    status = support_begin(argc, argv);
    if (status != 0)
        return status;
    if (support_volatile())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
