/* test_sim_store.c - a store on the simulated disk: crashes, errors, no memory, at every call.
 *
 * The store is made, opened a few times, and units are put: a journal, a projection beside it whose commits
 * take 12 ops (so that one unit in nine splits, read atomically), one in a directory outside, and one in
 * the journal's own db. After each crash the store is there whole, or, before its creation was told, can
 * still be made; the journal is a prefix of what was put, no shorter than was acked; each projection is what
 * the journal's events make of it up to its position, which is no further than the journal, and shows no
 * part of a unit; and all goes on. SEAM_EVERY: of so many calls one is looked at; 1: each. With the word
 * `mutant` the library has a fault (mutants.cmake), and the search must find it. */
#include "search.h"
#include "sim_support.h"
#include "support.h"

#include <seam/backend.h>
#include <seam/store.h>

#include <errno.h>

#define PLAIN "vlog:segment=64K,spare=0,threshold=600"

enum { UNITS = 33, PER_OPEN = 13, FEEDS = 3, MORE = 4 };

static const char *const names[FEEDS] = {"near", "far", "here"};

struct job {
    uint64_t opens;                 /* that ended */
    uint64_t begun, power, process; /* units: handed over, acked */
    bool faults;
    char marks[UNITS + 2 * MORE + 2]; /* of the events that the last check found */
};

/* ---- opening --------------------------------------------------------------------------------- */

static int open_store(const struct seam_platform *os, enum seam_open_mode mode, struct seam_store **ret,
                      struct seam_err *err)
{
    static const struct seam_options db = {.stall_ms = UINT32_MAX};
    static const struct seam_journal_options journal = {.witness = SEAM_WITNESS_EVERY_ACK};
    const struct seam_store_feed feeds[FEEDS] = {
        {.name = names[0], .engine = "limit:ops=12+" PLAIN, .db = &db, .stream = LIT("s"),
         .projector = sim_project, .split_units = true, .atomic_reads = true},
        {.name = names[1], .engine = PLAIN, .dir = "/far", .db = &db, .stream = LIT("s"),
         .projector = sim_project, .batch = 4},
        {.name = names[2], .stream = LIT("s"), .projector = sim_project},
    };
    struct seam_store_options o = {.mode = mode, .journal_engine = PLAIN, .journal_db = &db,
                                   .journal = &journal, .projections = feeds, .n = FEEDS,
                                   .platform = os};
    return seam_store_open("/s", &o, ret, err);
}

/* ---- work ------------------------------------------------------------------------------------ */

static bool refused(int rc)
{
    return rc == SEAM_E_NOMEM || rc == SEAM_E_NO_SPACE || rc == SEAM_E_BUSY || rc == SEAM_E_IO ||
           rc == SEAM_E_READ_ONLY || rc == SEAM_E_INVALID || rc == SEAM_E_PERMISSION;
}

static int put_next(struct job *job, struct seam_store *store, uint32_t stream, struct seam_err *err)
{
    unsigned char buf[SIM_PAYLOAD];
    uint64_t i = job->begun + 1;
    struct seam_put_options o = {.lag = i % 5 < 3 ? 6 : 0};
    struct seam_put done = {0};
    uint32_t ack = i % 7 == 0 ? SEAM_ACK_POWER : SEAM_ACK_PROCESS;
    job->begun = i;
    int rc = seam_store_put_unit(store, stream, seam_bytes(buf, sim_payload(i, 'a', buf)), ack, &o, &done,
                                 err);
    if (rc == SEAM_OK) {
        job->process = i;
        job->power = done.acked.given >= SEAM_ACK_POWER ? i : job->power;
        rc = done.applying;
    } else if (rc != SEAM_E_UNKNOWN) {
        job->begun = i - 1;
    }
    return rc;
}

/* One open, some units, one close. */
static int visit(struct job *job, const struct seam_platform *os, struct seam_err *err)
{
    struct seam_store *store = NULL;
    uint32_t stream = 0;
    enum seam_open_mode mode = job->opens == 0 ? SEAM_OPEN_CREATE : SEAM_OPEN_EXISTING;
    int rc = open_store(os, mode, &store, err);
    if (rc != SEAM_OK)
        return rc;
    job->opens++;
    rc = seam_journal_stream(seam_store_journal(store), LIT("s"), true, &stream, err);
    for (uint64_t last = job->begun + PER_OPEN; rc == SEAM_OK && job->begun < last && job->begun < UNITS;)
        rc = put_next(job, store, stream, err);
    struct seam_err closing;
    int closed = seam_store_close(store, rc == SEAM_OK ? err : &closing);
    if (closed != SEAM_OK || rc == SEAM_E_UNKNOWN || rc == SEAM_E_POISONED)
        job->process = job->power; /* a flush failed, and may have taken what a kill would keep */
    return rc == SEAM_OK ? closed : rc;
}

static void work(void *arg, const struct seam_platform *os, char text[static 256])
{
    struct job *job = arg;
    bool faults = job->faults;
    memset(job, 0, sizeof *job);
    job->faults = faults;
    while (job->begun < UNITS && text[0] == '\0') {
        struct seam_err err = {.text = ""};
        int rc = visit(job, os, &err);
        bool gone = rc == SEAM_E_UNKNOWN || rc == SEAM_E_POISONED;
        if (rc != SEAM_OK && (!job->faults || (!gone && !refused(rc))))
            (void)snprintf(text, 256, "work: %s: %.200s", seam_code_name(rc), err.text);
        if (rc != SEAM_OK)
            return;
        job->power = job->process;
    }
}

static uint64_t promised(void *arg)
{
    const struct job *job = arg;
    return (job->begun * 1009 + job->power) * 1000003 + job->process * 31 + job->opens;
}

/* ---- check ----------------------------------------------------------------------------------- */

/* Leaves the journal's last event in *ret. */
static void check_journal(struct job *job, struct seam_store *store, uint32_t stream, bool power,
                          bool again, uint64_t *ret, char text[static 256])
{
    struct seam_stream_info info;
    struct seam_err err;
    struct seam_journal *j = seam_store_journal(store);
    uint64_t least = power ? job->power : job->process;
    if (seam_journal_info(j, stream, &info, &err) != SEAM_OK) {
        (void)snprintf(text, 256, "info: %.200s", err.text);
        return;
    }
    *ret = info.last;
    if (info.first != 1 || info.last < least || info.last > job->begun + (again ? MORE : 0))
        (void)snprintf(text, 256, "events %llu to %llu, not 1 to %llu..%llu",
                       (unsigned long long)info.first, (unsigned long long)info.last,
                       (unsigned long long)least, (unsigned long long)job->begun);
    else
        sim_check_events(j, stream, 1, info.last, again, job->marks, text);
}

/* Each projection at an event that the journal has, at its last one if all must have caught up. */
static void check_tables(struct job *job, struct seam_store *store, uint64_t last, bool caught_up,
                         char text[static 256])
{
    for (int i = 0; i < FEEDS && text[0] == '\0'; i++) {
        struct seam_projection *t = seam_store_projection(store, names[i]);
        struct seam_position at = {0};
        seam_projection_position(t, &at);
        if (at.sequence > last || (caught_up && at.sequence < last))
            (void)snprintf(text, 256, "%s is at %llu of %llu", names[i], (unsigned long long)at.sequence,
                           (unsigned long long)last);
        else
            sim_check_table(t, job->marks, text);
    }
}

/* New units take the next numbers, and all projections follow at once. */
static int go_on(struct job *job, struct seam_store *store, uint32_t stream, uint64_t last,
                 struct seam_err *err)
{
    unsigned char buf[SIM_PAYLOAD];
    int rc = seam_store_catch_up(store, NULL, err);
    for (uint64_t i = last + 1; i <= last + MORE && rc == SEAM_OK; i++) {
        struct seam_put done = {0};
        rc = seam_store_put_unit(store, stream, seam_bytes(buf, sim_payload(i, 'b', buf)), SEAM_ACK_POWER,
                                 NULL, &done, err);
        if (rc == SEAM_OK && done.sequence != i)
            rc = seam_fail(err, SEAM_E_CORRUPT, "a unit was given a number that is not the next");
        if (rc == SEAM_OK)
            rc = done.applying;
        job->marks[i] = 'b';
    }
    return rc;
}

static void look(struct job *job, struct seam_store *store, bool power, uint64_t *seen,
                 char text[static 256])
{
    struct seam_err err;
    uint32_t stream = 0;
    uint64_t last = 0;
    int rc = seam_journal_stream(seam_store_journal(store), LIT("s"), true, &stream, &err);
    memset(job->marks, 'a', sizeof job->marks);
    if (rc == SEAM_OK)
        check_journal(job, store, stream, power, *seen != 0, &last, text);
    if (rc == SEAM_OK && text[0] == '\0' && *seen != 0 && last + 1 < *seen)
        (void)snprintf(text, 256, "%llu events after %llu had been seen", (unsigned long long)last,
                       (unsigned long long)(*seen - 1));
    if (rc == SEAM_OK && text[0] == '\0')
        check_tables(job, store, last, false, text);
    *seen = last + 1;
    if (rc == SEAM_OK && text[0] == '\0' && last <= job->begun) {
        rc = go_on(job, store, stream, last, &err);
        if (rc == SEAM_OK)
            check_tables(job, store, last + MORE, true, text);
    }
    if (rc != SEAM_OK && text[0] == '\0')
        (void)snprintf(text, 256, "going on: %s: %.200s", seam_code_name(rc), err.text);
}

static void check(void *arg, const struct seam_platform *os, bool power, uint64_t *seen,
                  char text[static 256])
{
    struct job *job = arg;
    struct seam_store *store = NULL;
    struct seam_err err;
    int rc = open_store(os, job->opens > 0 ? SEAM_OPEN_EXISTING : SEAM_OPEN_CREATE, &store, &err);
    if (rc != SEAM_OK) {
        (void)snprintf(text, 256, "open: %s: %.200s", seam_code_name(rc), err.text);
        return;
    }
    look(job, store, power, seen, text);
    rc = seam_store_close(store, &err);
    if (rc != SEAM_OK && text[0] == '\0')
        (void)snprintf(text, 256, "close: %.200s", err.text);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static struct sim_search search_of(struct job *job)
{
    struct sim_search s = {.seed = support_seed(), .work = work, .promised = promised,
                           .check = check, .arg = job};
    s.every = support_every(24);
    s.random = 3;
    s.nested = 80;
    return s;
}

static void test_crashes(void **state)
{
    (void)state;
    struct job job = {.faults = false};
    struct sim_search s = search_of(&job);
    sim_search_crashes(&s);
    sim_report(&s);
}

static void test_errors(void **state)
{
    static const int errors[] = {EIO, ENOSPC, EINTR, 0};
    (void)state;
    struct job job = {.faults = true};
    struct sim_search s = search_of(&job);
    sim_search_errors(&s, errors, sizeof errors / sizeof errors[0], s.every);
    sim_report(&s);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct job job = {.faults = true};
    struct sim_search s = search_of(&job);
    sim_search_allocations(&s, s.every * 2);
    sim_report(&s);
}

/* The fault is in the library; every call is looked at until it shows. */
static void test_found(void **state)
{
    (void)state;
    struct job job = {.faults = false};
    struct sim_search s = search_of(&job);
    s.every = 1;
    s.stop = true;
    sim_search_crashes(&s);
    s.arg = NULL;
    print_message("%s\n", s.violations ? s.first : "nothing found");
    assert_false(s.broke);
    assert_true(s.violations > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_crashes), cmocka_unit_test(test_errors),
                                       cmocka_unit_test(test_no_memory)};
    const struct CMUnitTest found[] = {cmocka_unit_test(test_found)};
    bool mutant = argc == 3 && strcmp(argv[2], "mutant") == 0;
    int rc = support_begin(mutant ? 2 : argc, argv);
    if (rc != 0)
        return rc;
    return mutant ? cmocka_run_group_tests_name("sim_store", found, NULL, NULL)
                  : cmocka_run_group_tests_name("sim_store", tests, NULL, NULL);
}
