/* test_sim_storedir.c - the store's directory on the simulated disk: crashes and errors at every call.
 *
 * The work: a store is created and opened a few times; the engine is a file of one number, flushed.
 * What is promised: once an open has ended, the store is there with its uuid and the engine's file,
 * and every later open has a higher epoch than any that was told. Before, there is a store or none,
 * and a creation makes one. SEAM_EVERY: of so many calls one is looked at; 1 (the default): each. */
#include "search.h"
#include "storedir.h"
#include "support.h"

#include <errno.h>

enum { OPENS = 4, FORMAT = 3 };

struct job {
    uint64_t opens;  /* that ended */
    uint64_t epoch;  /* the highest that was told */
    uint8_t uuid[16];
    bool faults;
};

/* ---- an engine of one file -------------------------------------------------------------------- */

static const char content[] = "the engine's";

static int engine_make(const struct seam_platform *os, int dir, struct seam_err *err)
{
    struct iovec part = {(void *)(uintptr_t)content, sizeof content};
    int fd = os->open(os->ctx, dir, "data", SEAM_FILE_WRITE | SEAM_FILE_CREATE | SEAM_FILE_NEW);
    if (fd < 0)
        return seam_fail_os(err, -fd, "data");
    int rc = seam_write_all(os, fd, &part, 1, 0);
    if (rc >= 0)
        rc = os->sync(os->ctx, fd);
    (void)os->close(os->ctx, fd);
    return rc < 0 ? seam_fail_os(err, -rc, "data") : SEAM_OK;
}

static int engine_look(const struct seam_platform *os, int dir, struct seam_err *err)
{
    char got[sizeof content];
    int fd = os->open(os->ctx, dir, "data", SEAM_FILE_READ);
    if (fd < 0)
        return seam_fail_os(err, -fd, "the engine's file");
    int rc = seam_read_all(os, fd, got, sizeof got, 0);
    (void)os->close(os->ctx, fd);
    if (rc < 0)
        return seam_fail_os(err, -rc, "the engine's file");
    if (memcmp(got, content, sizeof got) != 0)
        return seam_fail(err, SEAM_E_CORRUPT, "the engine's file holds something else");
    return SEAM_OK;
}

/* As db.c does. */
static int open_whole(const struct seam_platform *os, enum seam_open_mode mode,
                      struct seam_storedir **ret, struct seam_err *err)
{
    struct seam_storedir *sd = NULL;
    int rc = seam_storedir_open(os, "/store", mode, "toy", FORMAT, &sd, err);
    if (rc != SEAM_OK)
        return rc;
    if (seam_storedir_fresh(sd)) {
        rc = engine_make(os, seam_storedir_dir(sd), err);
        if (rc == SEAM_OK)
            rc = seam_storedir_made(sd, err);
    }
    if (rc == SEAM_OK)
        rc = engine_look(os, seam_storedir_dir(sd), err);
    if (rc == SEAM_OK)
        rc = seam_storedir_barrier(sd, err);
    if (rc == SEAM_OK)
        *ret = sd;
    else
        seam_storedir_close(sd);
    return rc;
}

/* ---- work and check --------------------------------------------------------------------------- */

static void work(void *arg, const struct seam_platform *os, char text[static 256])
{
    struct job *job = arg;
    job->opens = job->epoch = 0;
    for (int i = 0; i < OPENS && text[0] == '\0'; i++) {
        struct seam_storedir *sd = NULL;
        struct seam_err err;
        int rc = open_whole(os, job->opens ? SEAM_OPEN_EXISTING : SEAM_OPEN_CREATE, &sd, &err);
        if (rc != SEAM_OK) {
            if (!job->faults)
                (void)snprintf(text, 256, "open: %.200s", err.text);
            continue; /* a fault that has passed leaves a store, or room for one */
        }
        if (job->opens > 0 && memcmp(job->uuid, seam_storedir_uuid(sd), 16) != 0)
            (void)snprintf(text, 256, "another store");
        if (seam_storedir_epoch(sd) <= job->epoch)
            (void)snprintf(text, 256, "epoch %llu again", (unsigned long long)job->epoch);
        job->epoch = seam_storedir_epoch(sd);
        memcpy(job->uuid, seam_storedir_uuid(sd), 16);
        job->opens++;
        seam_storedir_close(sd);
    }
}

static uint64_t promised(void *arg)
{
    const struct job *job = arg;
    return job->opens * 1009 + job->epoch;
}

/* Opens, and leaves what the open tells in *ret_epoch. */
static void look(const struct job *job, const struct seam_platform *os, enum seam_open_mode mode,
                 uint64_t above, uint64_t *ret_epoch, char text[static 256])
{
    struct seam_storedir *sd = NULL;
    struct seam_err err;
    int rc = open_whole(os, mode, &sd, &err);
    if (rc != SEAM_OK) {
        (void)snprintf(text, 256, "open, mode %d: %.200s", (int)mode, err.text);
        return;
    }
    *ret_epoch = seam_storedir_epoch(sd);
    bool least = mode == SEAM_OPEN_READ_ONLY;
    if (least ? *ret_epoch < above : *ret_epoch <= above)
        (void)snprintf(text, 256, "mode %d: epoch %llu after %llu", (int)mode,
                       (unsigned long long)*ret_epoch, (unsigned long long)above);
    if (job->opens > 0 && memcmp(job->uuid, seam_storedir_uuid(sd), 16) != 0)
        (void)snprintf(text, 256, "another store, mode %d", (int)mode);
    seam_storedir_close(sd);
}

static void check(void *arg, const struct seam_platform *os, bool power, uint64_t *seen,
                  char text[static 256])
{
    const struct job *job = arg;
    uint64_t epoch = 0, above = *seen > job->epoch ? *seen : job->epoch;
    (void)power;
    if (job->opens > 0)
        look(job, os, SEAM_OPEN_READ_ONLY, above, &epoch, text);
    if (text[0] == '\0')
        look(job, os, job->opens ? SEAM_OPEN_EXISTING : SEAM_OPEN_CREATE, above, &epoch, text);
    if (text[0] == '\0') {
        *seen = epoch;
        look(job, os, SEAM_OPEN_EXISTING, epoch, &epoch, text);
    }
    *seen = epoch > *seen ? epoch : *seen;
}

/* ---- tests ------------------------------------------------------------------------------------ */

static struct sim_search search_of(struct job *job)
{
    struct sim_search s = {.seed = support_seed(), .work = work, .promised = promised,
                           .check = check, .arg = job};
    s.every = (uint32_t)support_number("SEAM_EVERY", 1);
    s.random = 16;
    s.nested = 4;
    return s;
}

static void report(const struct sim_search *s)
{
    print_message("%llu calls, %llu states, %llu distinct, %llu in recovery\n",
                  (unsigned long long)s->calls, (unsigned long long)s->states,
                  (unsigned long long)s->distinct, (unsigned long long)s->nested_states);
    for (int i = 0; i < SIM_CLASS_COUNT && s->distinct > 0; i++)
        print_message("  %-12s %llu\n", sim_class_text((enum sim_class)i),
                      (unsigned long long)s->by_class[i]);
    if (s->violations > 0)
        print_message("  %llu violations; the first: %s\n", (unsigned long long)s->violations,
                      s->first);
    assert_int_equal(s->violations, 0);
}

static void test_crashes(void **state)
{
    struct job job = {0};
    struct sim_search s = search_of(&job);
    (void)state;
    sim_search_crashes(&s);
    report(&s);
    assert_true(s.distinct > 100);
}

static void test_errors(void **state)
{
    static const int errors[] = {EIO, ENOSPC, EDQUOT, EINTR, EMFILE, EROFS, ENOMEM, 0};
    struct job job = {.faults = true};
    struct sim_search s = search_of(&job);
    (void)state;
    sim_search_errors(&s, errors, sizeof errors / sizeof errors[0], s.every);
    report(&s);
}

static void test_no_memory(void **state)
{
    struct job job = {.faults = true};
    struct sim_search s = search_of(&job);
    (void)state;
    sim_search_allocations(&s, 1);
    report(&s);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_crashes), cmocka_unit_test(test_errors),
                                       cmocka_unit_test(test_no_memory)};
    int rc = support_begin(argc, argv);
    return rc ? rc : cmocka_run_group_tests_name("sim_storedir", tests, NULL, NULL);
}
