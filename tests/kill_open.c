/* kill_open.c - kills while a store is opened, and while it is made.
 *
 * Relies on a first child that is not killed to tell how long the work takes, so that kills fall all
 * over it on a slow machine too. Keeps true: whatever a kill left, the next open succeeds. */
#include "kill.h"

#include <time.h>

/* SPEC DIR TIMES: opens, made if need be, and closes so often; 0: for ever. */
int kill_child_open(char **args)
{
    unsigned times = (unsigned)strtoul(args[2], NULL, 10);
    struct crash_record r = {.kind = CRASH_STEP};
    struct seam_err err = {0};

    for (unsigned i = 0; times == 0 || i < times; i++) {
        crash_send(&r);
        struct seam_db *db = crash_open(args[0], args[1], SEAM_OPEN_CREATE, 0);
        if (seam_close(db, &err) != SEAM_OK)
            crash_broken("seam_close: %s", err.text);
    }
    return 0;
}

static uint64_t now_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

/* Starts a child that opens dir, and kills it up to `span` microseconds after its open began number
 * `opens`; span 0: lets it end. Returns how long it took; *epoch is what the newest open told. */
static uint64_t open_and_kill(const char *dir, const char *times, unsigned opens, uint64_t span,
                              struct support_rng *rng, uint64_t *epoch)
{
    const char *const args[] = {"open", support_spec(), dir, times, NULL};
    struct crash_record r;
    struct crash_child c;
    uint64_t begin = now_us();
    unsigned begun = 0;

    crash_spawn(&c, args);
    while (crash_next(&c, &r)) {
        if (r.kind == CRASH_OPENED) {
            assert_true(r.number > *epoch);
            *epoch = r.number;
            continue;
        }
        assert_int_equal(r.kind, CRASH_STEP);
        if (begun++ == 0)
            begin = now_us();
        if (span > 0 && begun > opens && !c.killed)
            kill_soon(&c, rng, span);
    }
    if (span > 0)
        (void)crash_wait(&c); /* it may have ended before */
    else
        assert_int_equal(crash_wait(&c), 0);
    return now_us() - begin;
}

static void write_and_check(struct crash_model *model, struct seam_db *db, uint64_t seed)
{
    struct crash_shape shape = {seed, 40, 4096};
    struct crash_unit *u = malloc(sizeof(*u));
    struct seam_err err = {0};

    assert_non_null(u);
    crash_model_check(model, db);
    crash_unit_make(u, &shape, 0, model->done[0] + 1);
    expect_ok(seam_write(db, u->ops, u->n, SEAM_ACK_PROCESS, NULL, &err), &err);
    crash_model_apply(model, u);
    crash_model_check(model, db);
    free(u);
}

void kill_opens(void **state)
{
    struct support_rng rng = {support_seed() + 1};
    struct crash_model *model = calloc(1, sizeof(*model));
    unsigned kills = kill_count(8);
    uint64_t epoch = 0, span;
    char dir[512];

    (void)state;
    assert_non_null(model);
    (void)snprintf(dir, sizeof(dir), "%s", support_dir());
    span = open_and_kill(dir, "4", 0, 0, &rng, &epoch) / 2 + 1;
    for (unsigned i = 0; i < kills; i++) {
        struct seam_options o = {.mode = SEAM_OPEN_EXISTING};
        struct seam_db *db = support_open_with(support_spec(), dir, &o);
        assert_true(seam_db_epoch(db) > epoch);
        epoch = seam_db_epoch(db);
        write_and_check(model, db, support_next(&rng));
        support_close(db);
        (void)open_and_kill(dir, "0", (unsigned)support_below(&rng, 3), span, &rng, &epoch);
    }
    free(model);
}

void kill_creates(void **state)
{
    struct support_rng rng = {support_seed() + 2};
    struct crash_model *model = calloc(1, sizeof(*model));
    unsigned kills = kill_count(20);
    uint64_t epoch = 0, span;

    (void)state;
    assert_non_null(model);
    span = open_and_kill(support_dir(), "1", 0, 0, &rng, &epoch) + 1;
    for (unsigned i = 0; i < kills; i++) {
        char dir[512];
        uint64_t times = 1 + support_below(&rng, 2);
        (void)snprintf(dir, sizeof(dir), "%s", support_dir());
        epoch = 0;
        while (times-- > 0)
            (void)open_and_kill(dir, "1", 0, span, &rng, &epoch);
        struct seam_db *db = support_open(dir);
        assert_true(seam_db_epoch(db) > epoch);
        memset(model, 0, sizeof(*model));
        write_and_check(model, db, support_next(&rng));
        support_close(db);
        support_remove(dir);
    }
    free(model);
}
