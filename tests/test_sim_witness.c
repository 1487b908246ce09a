/* test_sim_witness.c - what a journal says is durable, a power cut leaves: by its acks, by its durable
 * mark, by its witness. Small work, searched at every call, so that a mark that runs ahead of its data
 * is found whatever the seed.
 *
 * One db has three journal handles in turn: one with a witness, one without, which leaves events that
 * nothing has flushed, and one with a witness again, which must not speak for them before they are.
 * With the word `mutant` the library has a fault (mutants.cmake), and the search must find it. */
#include "search.h"
#include "support.h"

#include <seam/journal.h>

#define SPEC "vlog:segment=64K,spare=0,io=buffered"

enum { ROUNDS = 2 };

struct job {
    enum seam_witness_mode witness;
    uint64_t begun, power, process; /* events: handed over, acked; power: or said to be durable */
};

/* ---- work ------------------------------------------------------------------------------------ */

static int open_journal(struct seam_db *db, enum seam_witness_mode witness, struct seam_journal **ret,
                        uint32_t *ret_stream, struct seam_err *err)
{
    struct seam_journal_options o = {.witness = witness};
    *ret = NULL;
    int rc = seam_journal_open(db, &o, ret, err);
    return rc == SEAM_OK ? seam_journal_stream(*ret, LIT("s"), true, ret_stream, err) : rc;
}

static int believe(struct job *job, struct seam_journal *j, uint32_t stream, struct seam_err *err)
{
    struct seam_stream_info info;
    int rc = seam_journal_info(j, stream, &info, err);
    if (rc == SEAM_OK && info.durable > job->power)
        job->power = info.durable;
    return rc;
}

static int append(struct job *job, struct seam_journal *j, uint32_t stream, uint32_t ack,
                  struct seam_err *err)
{
    uint64_t i = ++job->begun;
    struct seam_slice event = seam_bytes(&i, sizeof i);
    int rc = seam_journal_append(j, stream, &event, 1, ack, NULL, err);
    if (rc != SEAM_OK)
        return rc;
    job->process = i;
    job->power = ack == SEAM_ACK_POWER ? i : job->power;
    return believe(job, j, stream, err);
}

static int handle(struct job *job, struct seam_db *db, enum seam_witness_mode witness,
                  struct seam_err *err)
{
    static const uint32_t acks[] = {SEAM_ACK_PROCESS, SEAM_ACK_POWER, SEAM_ACK_PROCESS,
                                    SEAM_ACK_PROCESS};
    bool none = witness == SEAM_WITNESS_NONE;
    struct seam_journal *j;
    uint32_t stream = 0;
    int rc = open_journal(db, witness, &j, &stream, err);
    if (rc == SEAM_OK)
        rc = believe(job, j, stream, err);
    for (int i = none ? 2 : 0; i < 4 && rc == SEAM_OK; i++)
        rc = append(job, j, stream, acks[i], err);
    if (rc == SEAM_OK && !none)
        rc = seam_journal_sync(j, SEAM_ACK_POWER, err);
    if (rc == SEAM_OK && !none) {
        job->power = job->process;
        rc = append(job, j, stream, SEAM_ACK_PROCESS, err);
    }
    if (rc == SEAM_OK)
        rc = seam_journal_close(j, err);
    else
        (void)seam_journal_close(j, NULL);
    return rc;
}

static void work(void *arg, const struct seam_platform *os, char text[static 256])
{
    struct job *job = arg;
    struct seam_options o = {.mode = SEAM_OPEN_CREATE, .platform = os, .stall_ms = UINT32_MAX};
    job->begun = job->power = job->process = 0;
    for (int round = 0; round < ROUNDS && text[0] == '\0'; round++) {
        struct seam_db *db = NULL;
        struct seam_err err = {.text = ""};
        int rc = seam_open(SPEC, "/db", &o, &db, &err);
        if (rc == SEAM_OK)
            rc = handle(job, db, job->witness, &err);
        if (rc == SEAM_OK)
            rc = handle(job, db, SEAM_WITNESS_NONE, &err);
        if (rc == SEAM_OK)
            rc = handle(job, db, job->witness, &err);
        if (rc == SEAM_OK)
            rc = seam_close(db, &err);
        else
            (void)seam_close(db, NULL);
        if (rc != SEAM_OK)
            (void)snprintf(text, 256, "work: %s: %.200s", seam_code_name(rc), err.text);
        job->power = job->process;
    }
}

static uint64_t promised(void *arg)
{
    const struct job *job = arg;
    return (job->begun * 1009 + job->power) * 1000003 + job->process;
}

/* ---- check ----------------------------------------------------------------------------------- */

static int look(const struct job *job, struct seam_journal *j, uint32_t stream, bool power,
                char text[static 256], struct seam_err *err)
{
    uint64_t least = power ? job->power : job->process;
    struct seam_journal_reader *r = NULL;
    struct seam_stream_info info;
    struct seam_event event;
    int rc = seam_journal_info(j, stream, &info, err);
    if (rc == SEAM_OK && (info.last < least || info.last > job->begun))
        (void)snprintf(text, 256, "%llu events, not %llu to %llu", (unsigned long long)info.last,
                       (unsigned long long)least, (unsigned long long)job->begun);
    if (rc == SEAM_OK)
        rc = seam_journal_reader_open(j, stream, 0, NULL, &r, err);
    for (uint64_t i = 1; rc == SEAM_OK && text[0] == '\0' && i <= info.last; i++) {
        rc = seam_journal_reader_next(r, &event, err);
        if (rc == SEAM_OK && (event.data.len != sizeof i || memcmp(event.data.ptr, &i, sizeof i) != 0))
            (void)snprintf(text, 256, "event %llu is another", (unsigned long long)i);
    }
    seam_journal_reader_close(r);
    return rc;
}

static void check(void *arg, const struct seam_platform *os, bool power, uint64_t *seen,
                  char text[static 256])
{
    struct job *job = arg, after = *job;
    struct seam_options o = {.mode = SEAM_OPEN_CREATE, .platform = os, .stall_ms = UINT32_MAX};
    struct seam_db *db = NULL;
    struct seam_journal *j = NULL;
    struct seam_err err = {.text = ""};
    uint32_t stream = 0;
    (void)seen; /* no recovery is crashed here */
    int rc = seam_open(SPEC, "/db", &o, &db, &err);
    if (rc == SEAM_OK)
        rc = open_journal(db, job->witness, &j, &stream, &err);
    if (rc == SEAM_OK)
        rc = look(job, j, stream, power, text, &err);
    if (rc == SEAM_OK && text[0] == '\0')
        rc = append(&after, j, stream, SEAM_ACK_POWER, &err);
    if (rc != SEAM_OK)
        (void)snprintf(text, 256, "%s: %.200s", seam_code_name(rc), err.text);
    (void)seam_journal_close(j, NULL);
    (void)seam_close(db, NULL);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static struct sim_search searched(enum seam_witness_mode witness, bool stop)
{
    struct job job = {.witness = witness};
    struct sim_search s = {.seed = support_seed(), .every = support_every(1), .random = 4, .stop = stop,
                           .work = work, .promised = promised, .check = check, .arg = &job};
    sim_search_crashes(&s);
    s.arg = NULL;
    assert_false(stop && s.broke);
    print_message("%s: %llu calls, %llu states, %llu distinct, %llu violations; %s\n",
                  witness == SEAM_WITNESS_EVERY_ACK ? "every ack" : "at close", (unsigned long long)s.calls,
                  (unsigned long long)s.states, (unsigned long long)s.distinct,
                  (unsigned long long)s.violations, s.violations > 0 ? s.first : "");
    return s;
}

static void test_nothing(void **state)
{
    (void)state;
    assert_int_equal(searched(SEAM_WITNESS_EVERY_ACK, false).violations, 0);
    assert_int_equal(searched(SEAM_WITNESS_AT_CLOSE, false).violations, 0);
}

static void test_found(void **state)
{
    (void)state;
    assert_true(searched(SEAM_WITNESS_EVERY_ACK, true).violations > 0);
    assert_true(searched(SEAM_WITNESS_AT_CLOSE, true).violations > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest nothing[] = {cmocka_unit_test(test_nothing)};
    const struct CMUnitTest found[] = {cmocka_unit_test(test_found)};
    bool mutant = argc == 3 && strcmp(argv[2], "mutant") == 0;
    int rc = support_begin(mutant ? 2 : argc, argv);
    if (rc != 0)
        return rc;
    return mutant ? cmocka_run_group_tests_name("sim_witness", found, NULL, NULL)
                  : cmocka_run_group_tests_name("sim_witness", nothing, NULL, NULL);
}
