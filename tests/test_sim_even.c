/* test_sim_even.c - the native engine's recycled segments on the simulated disk.
 *
 * Every commit overwrites the same key with as many bytes, so a segment dies when the next but one is
 * begun, its file is taken again two rolls later, and the frames of its earlier life stand exactly where
 * those of its new one end: a crash at any call there has a valid old frame right behind the log's end.
 * What the engine takes for the log must still be the first j commits, for a j that no ack contradicts.
 *
 * With the word `mutant` the library has a fault (mutants.cmake), and the search must find it.
 * SEAM_EVERY: of so many calls one is looked at; 1: each. */
#include "search.h"
#include "support.h"

/* Five commits to a segment. Before FROM no segment is recycled: that is sim_vlog's part. */
enum { VALUE = 20000, COMMITS = 22, FROM = 11 };

static unsigned char filler[VALUE];

struct job {
    const char *spec;
    uint64_t power_each; /* of so many commits one is at POWER, the others at PROCESS; 1: all */
    uint64_t begun, power, process;
};

/* ---- work ------------------------------------------------------------------------------------ */

static int commit(struct seam_db *db, uint64_t i, uint32_t ack, struct seam_err *err)
{
    struct seam_op op = op_put2(LIT("k"), seam_bytes(&i, sizeof i), seam_bytes(filler, VALUE));
    return seam_write(db, &op, 1, ack, NULL, err);
}

static void work(void *arg, const struct seam_platform *os, char text[static 256])
{
    struct job *job = arg;
    struct seam_options o = {.mode = SEAM_OPEN_CREATE, .platform = os, .stall_ms = UINT32_MAX};
    struct seam_db *db = NULL;
    struct seam_err err = {.text = ""};
    job->begun = job->power = job->process = 0;
    int rc = seam_open(job->spec, "/db", &o, &db, &err);
    while (rc == SEAM_OK && job->begun < COMMITS) {
        uint64_t i = ++job->begun;
        uint32_t ack = i % job->power_each == 0 ? SEAM_ACK_POWER : SEAM_ACK_PROCESS;
        rc = commit(db, i, ack, &err);
        if (rc == SEAM_OK)
            job->process = i;
        if (rc == SEAM_OK && ack == SEAM_ACK_POWER)
            job->power = i;
    }
    char figures[1024] = "";
    if (rc == SEAM_OK)
        (void)seam_db_describe(db, figures, sizeof figures);
    if (rc != SEAM_OK)
        (void)snprintf(text, 256, "work: %.200s", err.text);
    else if (strstr(figures, "recycled 0") || strstr(figures, "recycled 1\n"))
        (void)snprintf(text, 256, "fewer segments recycled than the work is made for: %.200s", figures);
    (void)seam_close(db, NULL);
}

static bool wanted(void *arg)
{
    return ((const struct job *)arg)->begun >= FROM;
}

static uint64_t promised(void *arg)
{
    const struct job *job = arg;
    return (job->begun * 1009 + job->power) * 1000003 + job->process;
}

/* ---- check ----------------------------------------------------------------------------------- */

static int look(const struct job *job, struct seam_db *db, bool power, char text[static 256],
                struct seam_err *err)
{
    uint64_t least = power ? job->power : job->process, j = 0;
    struct seam_pin pin = {0};
    int rc = seam_get(db, NULL, LIT("k"), &pin, err);
    if (rc == SEAM_OK && pin.value.len == sizeof j + VALUE &&
        memcmp((const char *)pin.value.ptr + sizeof j, filler, VALUE) == 0)
        memcpy(&j, pin.value.ptr, sizeof j);
    else if (rc == SEAM_OK)
        (void)snprintf(text, 256, "a value that was never put");
    if ((rc == SEAM_OK || rc == SEAM_NOTFOUND) && text[0] == '\0' && (j < least || j > job->begun))
        (void)snprintf(text, 256, "%llu commits, not %llu to %llu", (unsigned long long)j,
                       (unsigned long long)least, (unsigned long long)job->begun);
    seam_unpin(&pin);
    return rc == SEAM_NOTFOUND ? SEAM_OK : rc;
}

static void check(void *arg, const struct seam_platform *os, bool power, uint64_t *seen,
                  char text[static 256])
{
    const struct job *job = arg;
    struct seam_options o = {.mode = SEAM_OPEN_CREATE, .platform = os, .stall_ms = UINT32_MAX};
    struct seam_db *db = NULL;
    struct seam_err err = {.text = ""};
    (void)seen; /* no recovery is crashed here */
    int rc = seam_open(job->spec, "/db", &o, &db, &err);
    if (rc == SEAM_OK)
        rc = look(job, db, power, text, &err);
    if (rc == SEAM_OK)
        rc = commit(db, COMMITS + 1, SEAM_ACK_POWER, &err);
    if (rc != SEAM_OK && text[0] == '\0')
        (void)snprintf(text, 256, "%s: %.200s", seam_code_name(rc), err.text);
    (void)seam_close(db, NULL);
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Violations in all variants, of a sample of the calls; or, to stop at the first, of every call, so that
 * no seed decides whether there is one. */
static uint64_t searched(bool stop)
{
    uint32_t every = stop ? 1 : support_every(3);
    static const char *const specs[] = {"vlog:segment=128K,spare=0,threshold=600,io=buffered",
                                        "vlog:segment=128K,spare=0,threshold=600"};
    uint64_t violations = 0;
    for (int i = 0; i < 4 && (violations == 0 || !stop); i++) {
        struct job job = {.spec = specs[i / 2], .power_each = i % 2 == 0 ? 1 : 16};
        struct sim_search s = {.seed = support_seed(), .every = every, .random = 2, .stop = stop,
                               .work = work, .wanted = wanted, .promised = promised,
                               .check = check, .arg = &job};
        sim_search_crashes(&s);
        violations += s.violations;
        assert_false(stop && s.broke);
        print_message("%s, one in %llu at power: %llu calls, %llu states, %llu distinct; %s\n", job.spec,
                      (unsigned long long)job.power_each, (unsigned long long)s.calls,
                      (unsigned long long)s.states, (unsigned long long)s.distinct,
                      s.violations > 0 ? s.first : "nothing found");
    }
    return violations;
}

static void test_nothing(void **state)
{
    (void)state;
    assert_int_equal(searched(false), 0);
}

static void test_found(void **state)
{
    (void)state;
    assert_true(searched(true) > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest nothing[] = {cmocka_unit_test(test_nothing)};
    const struct CMUnitTest found[] = {cmocka_unit_test(test_found)};
    bool mutant = argc == 3 && strcmp(argv[2], "mutant") == 0;
    int rc = support_begin(mutant ? 2 : argc, argv);
    support_fill(filler, sizeof filler, 5);
    if (rc != 0)
        return rc;
    return mutant ? cmocka_run_group_tests_name("sim_even", found, NULL, NULL)
                  : cmocka_run_group_tests_name("sim_even", nothing, NULL, NULL);
}
