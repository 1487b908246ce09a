/* test_sim_seam.c - a journal and a projection in two stores on the simulated disk: crashes, errors,
 * no memory, at every call.
 *
 * The journal is kept at PROCESS, with a flush now and then; the projection, in a store of its own, is
 * fed what is durable, some of it units that take several commits, read atomically; the journal is
 * trimmed behind it. After each crash: the journal is a prefix of what was appended, no shorter than
 * was acked; the projection's position is one of its records (else new events would reuse lost
 * numbers, and be taken for applied); nobody sees a part of a unit; and all of it goes on.
 * SEAM_EVERY: of so many calls one is looked at; 1: each. With the word `mutant` the library has a fault
 * (mutants.cmake), and the search must find it. */
#include "search.h"
#include "sim_support.h"
#include "support.h"

#include <seam/backend.h>
#include <seam/journal.h>
#include <seam/projection.h>

#include <errno.h>

#define JOURNAL "vlog:segment=64K,spare=0,threshold=600"
#define TABLE "limit:ops=12+vlog:segment=64K,spare=0"

enum { EVENTS = 90 };

struct job {
    uint64_t begun, power, process; /* events: handed over, acked */
    uint64_t trim_begun, trimmed;   /* first sequences */
    bool faults;
    char marks[EVENTS + 16]; /* of the events that the last check found */
};

struct both {
    struct seam_db *of_journal, *of_table;
    struct seam_journal *j;
    struct seam_projection *t;
    uint32_t stream;
};

/* Of the journal's modes those without a thread. */
static enum seam_witness_mode witness;

/* ---- opening and closing --------------------------------------------------------------------- */

static int open_both(const struct seam_platform *os, struct both *b, struct seam_err *err)
{
    struct seam_options o = {.mode = SEAM_OPEN_CREATE, .platform = os, .stall_ms = UINT32_MAX};
    struct seam_journal_options jo = {.platform = os, .witness = witness};
    struct seam_projection_options po = {.stream = LIT("s"), .projector = sim_project, .platform = os,
                                         .split_units = true, .atomic_reads = true, .batch = 4};
    memset(b, 0, sizeof *b);
    int rc = seam_open(JOURNAL, "/j", &o, &b->of_journal, err);
    if (rc == SEAM_OK)
        rc = seam_open(TABLE, "/t", &o, &b->of_table, err);
    if (rc == SEAM_OK)
        rc = seam_journal_open(b->of_journal, &jo, &b->j, err);
    if (rc == SEAM_OK)
        rc = seam_journal_stream(b->j, LIT("s"), true, &b->stream, err);
    po.journal = b->j;
    if (rc == SEAM_OK)
        rc = seam_projection_open(b->of_table, LIT("t"), &po, &b->t, err);
    return rc;
}

static int close_both(struct both *b, struct seam_err *err)
{
    int rc = seam_projection_close(b->t, err), more = seam_journal_close(b->j, err);
    rc = rc == SEAM_OK ? more : rc;
    more = seam_close(b->of_table, err);
    rc = rc == SEAM_OK ? more : rc;
    more = seam_close(b->of_journal, err);
    return rc == SEAM_OK ? more : rc;
}

/* ---- work ------------------------------------------------------------------------------------ */

static bool refused(int rc)
{
    return rc == SEAM_E_NOMEM || rc == SEAM_E_NO_SPACE || rc == SEAM_E_BUSY || rc == SEAM_E_IO ||
           rc == SEAM_E_READ_ONLY || rc == SEAM_E_INVALID;
}

static int append(struct job *job, struct both *b, struct seam_err *err)
{
    unsigned char buf[SIM_PAYLOAD];
    uint64_t i = job->begun + 1;
    struct seam_slice event = seam_bytes(buf, sim_payload(i, 'a', buf));
    uint32_t ack = i % 11 == 0 ? SEAM_ACK_POWER : SEAM_ACK_PROCESS;
    job->begun = i;
    int rc = seam_journal_append(b->j, b->stream, &event, 1, ack, NULL, err);
    if (rc == SEAM_OK) {
        job->process = i;
        job->power = ack == SEAM_ACK_POWER ? i : job->power;
    } else if (rc != SEAM_E_UNKNOWN) {
        job->begun = i - 1;
    }
    return rc;
}

static int trim(struct job *job, struct both *b, struct seam_err *err)
{
    struct seam_retention keep = {.events = 30};
    uint64_t first = 0;
    int rc = seam_projection_sync(b->t, err);
    if (rc != SEAM_OK)
        return rc;
    job->trim_begun = job->process > 30 ? job->process - 29 : 1;
    rc = seam_journal_retain(b->j, b->stream, &keep, false, &first, err);
    job->trimmed = first > job->trimmed ? first : job->trimmed;
    return rc;
}

static int step(struct job *job, struct both *b, struct seam_err *err)
{
    int rc = append(job, b, err);
    if (rc == SEAM_OK && job->begun % 3 == 0)
        rc = seam_projection_catch_up(b->t, 0, NULL, err);
    if (rc == SEAM_OK && job->begun % 23 == 0)
        rc = trim(job, b, err);
    return rc;
}

static void work(void *arg, const struct seam_platform *os, char text[static 256])
{
    struct job *job = arg;
    bool faults = job->faults;
    memset(job, 0, sizeof *job);
    job->faults = faults;
    job->trimmed = job->trim_begun = 1;
    while (job->begun < EVENTS && text[0] == '\0') {
        struct both b;
        struct seam_err err = {.text = ""};
        int rc = open_both(os, &b, &err);
        for (uint64_t last = job->begun + 37; rc == SEAM_OK && job->begun < last && job->begun < EVENTS;)
            rc = step(job, &b, &err);
        bool gone = rc == SEAM_E_UNKNOWN || rc == SEAM_E_POISONED;
        if (rc != SEAM_OK && (!job->faults || (!gone && !refused(rc))))
            (void)snprintf(text, 256, "work: %s: %.200s", seam_code_name(rc), err.text);
        int closed = close_both(&b, &err);
        if (closed != SEAM_OK && !job->faults)
            (void)snprintf(text, 256, "close: %.200s", err.text);
        if (gone || closed != SEAM_OK) { /* a flush failed, and may have taken what a kill would keep */
            job->process = job->power;
            job->trimmed = 1;
        }
        if (rc != SEAM_OK || closed != SEAM_OK)
            return;
        job->power = job->process;
    }
}

static uint64_t promised(void *arg)
{
    const struct job *job = arg;
    return (job->begun * 1009 + job->power) * 1000003 + job->process * 31 + job->trim_begun;
}

/* ---- check ----------------------------------------------------------------------------------- */

static void check_journal(struct job *job, struct both *b, bool power, uint64_t *seen,
                          char text[static 256])
{
    struct seam_stream_info info;
    struct seam_err err;
    uint64_t least = power ? job->power : job->process;
    if (seam_journal_info(b->j, b->stream, &info, &err) != SEAM_OK) {
        (void)snprintf(text, 256, "info: %.200s", err.text);
        return;
    }
    if (info.last < least || info.last > job->begun + (*seen != 0 ? 6 : 0))
        (void)snprintf(text, 256, "%llu events, not %llu to %llu", (unsigned long long)info.last,
                       (unsigned long long)least, (unsigned long long)job->begun);
    else if (info.first > job->trim_begun || (!power && info.first < job->trimmed))
        (void)snprintf(text, 256, "begins at %llu, not %llu to %llu", (unsigned long long)info.first,
                       (unsigned long long)job->trimmed, (unsigned long long)job->trim_begun);
    else if (*seen != 0 && info.last + 1 < *seen)
        (void)snprintf(text, 256, "%llu events after %llu had been seen", (unsigned long long)info.last,
                       (unsigned long long)(*seen - 1));
    memset(job->marks, 'a', sizeof job->marks);
    if (text[0] == '\0')
        sim_check_events(b->j, b->stream, info.first, info.last, *seen != 0, job->marks, text);
    *seen = info.last + 1;
}

/* New events take the next numbers, and the projection takes them too. */
static int go_on(struct job *job, struct both *b, struct seam_err *err)
{
    unsigned char buf[SIM_PAYLOAD];
    struct seam_stream_info info;
    int rc = seam_journal_info(b->j, b->stream, &info, err);
    for (int i = 0; i < 6 && rc == SEAM_OK; i++) {
        struct seam_append appended;
        struct seam_slice event = seam_bytes(buf, sim_payload(info.last + 1 + (uint64_t)i, 'b', buf));
        rc = seam_journal_append(b->j, b->stream, &event, 1, SEAM_ACK_POWER, &appended, err);
        if (rc == SEAM_OK && appended.last != info.last + 1 + (uint64_t)i)
            rc = seam_fail(err, SEAM_E_CORRUPT, "an event was given a number that is not the next");
        job->marks[info.last + 1 + (uint64_t)i] = 'b';
    }
    return rc == SEAM_OK ? seam_projection_catch_up(b->t, 0, NULL, err) : rc;
}

static void check(void *arg, const struct seam_platform *os, bool power, uint64_t *seen,
                  char text[static 256])
{
    struct job *job = arg;
    struct both b;
    struct seam_err err;
    int rc = open_both(os, &b, &err);
    if (rc != SEAM_OK)
        (void)snprintf(text, 256, "open: %s: %.200s", seam_code_name(rc), err.text);
    if (text[0] == '\0')
        check_journal(job, &b, power, seen, text);
    if (text[0] == '\0')
        sim_check_table(b.t, job->marks, text);
    rc = text[0] == '\0' ? go_on(job, &b, &err) : SEAM_OK;
    if (rc != SEAM_OK)
        (void)snprintf(text, 256, "going on: %s: %.200s", seam_code_name(rc), err.text);
    *seen += text[0] == '\0' ? 6 : 0;
    if (text[0] == '\0')
        sim_check_table(b.t, job->marks, text);
    rc = close_both(&b, &err);
    if (rc != SEAM_OK && text[0] == '\0')
        (void)snprintf(text, 256, "close: %.200s", err.text);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static struct sim_search search_of(struct job *job)
{
    struct sim_search s = {.seed = support_seed(), .work = work, .promised = promised,
                           .check = check, .arg = job};
    s.every = support_every(16);
    s.random = 4;
    s.nested = 60;
    return s;
}

static void test_crashes(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct job job = {.faults = false};
        struct sim_search s = search_of(&job);
        witness = i == 0 ? SEAM_WITNESS_EVERY_ACK : SEAM_WITNESS_AT_CLOSE;
        sim_search_crashes(&s);
        sim_report(&s);
    }
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

static void test_found(void **state)
{
    (void)state;
    struct job job = {.faults = false};
    struct sim_search s = search_of(&job);
    s.every = 1;
    s.nested = 0;
    s.stop = true;
    witness = SEAM_WITNESS_AT_CLOSE;
    sim_search_crashes(&s);
    print_message("%llu calls, %llu states: %s\n", (unsigned long long)s.calls,
                  (unsigned long long)s.states, s.violations > 0 ? s.first : "not found");
    assert_true(s.violations > 0 && !s.broke);
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
    return mutant ? cmocka_run_group_tests_name("sim_seam", found, NULL, NULL)
                  : cmocka_run_group_tests_name("sim_seam", tests, NULL, NULL);
}
