/* test_sim_vlog.c - the native engine on the simulated disk: crashes, errors, no memory, anywhere.
 *
 * The work: commits of all sizes at POWER and at PROCESS, through rolls, recycled segments and
 * reopens. Commit i writes its number and one thing that follows from it, so what a store holds must
 * be the state after exactly j commits, for a j that no ack contradicts.
 * SEAM_OPS: commits; SEAM_EVERY: of so many calls one is looked at; 1: each. */
#include "search.h"
#include "support.h"

#include <errno.h>

enum { KEYS = 16, FILL = 6000 };

static unsigned char filler[FILL];

struct job {
    const char *spec;
    uint64_t commits, reopen; /* every so many commits */
    uint64_t begun, power, process; /* commits: handed over, acked */
    bool faults; /* an error may end the work */
};

/* ---- what commit i does ---------------------------------------------------------------------- */

enum what { PUTS, DROPS, SWEEPS };

static enum what what_of(uint64_t i)
{
    return i % 29 == 17 ? SWEEPS : i % 11 == 5 ? DROPS : PUTS;
}

static size_t len_of(uint64_t i)
{
    static const size_t lens[] = {10, 700, 0, 3000, 40, 5000, 90};
    return lens[i % 7];
}

static unsigned key_of(uint64_t i)
{
    return (unsigned)(i * 7 % KEYS);
}

static int commit(struct seam_db *db, uint64_t i, uint32_t ack, struct seam_err *err)
{
    char key[2] = {'k', (char)('A' + key_of(i))}, end[2] = {'k', (char)('A' + key_of(i) + 3)};
    struct seam_op ops[2] = {op_put(LIT("n"), seam_bytes(&i, sizeof i))};
    if (what_of(i) == SWEEPS)
        ops[1] = op_range(seam_bytes(key, 2), seam_bytes(end, 2));
    else if (what_of(i) == DROPS)
        ops[1] = op_delete(seam_bytes(key, 2));
    else
        ops[1] = op_put2(seam_bytes(key, 2), seam_bytes(&i, sizeof i), seam_bytes(filler, len_of(i)));
    return seam_write(db, ops, 2, ack, NULL, err);
}

/* The commit whose value key k has after the first j; 0: none. */
static uint64_t writer_of(unsigned k, uint64_t j)
{
    for (uint64_t i = j; i > 0; i--) {
        if (what_of(i) == SWEEPS && key_of(i) <= k && k < key_of(i) + 3)
            return 0;
        if (what_of(i) != SWEEPS && key_of(i) == k)
            return what_of(i) == DROPS ? 0 : i;
    }
    return 0;
}

/* ---- work ------------------------------------------------------------------------------------ */

static bool refused(int rc)
{
    return rc == SEAM_E_NOMEM || rc == SEAM_E_NO_SPACE || rc == SEAM_E_BUSY || rc == SEAM_E_IO ||
           rc == SEAM_E_READ_ONLY;
}

static void work_on(struct job *job, struct seam_db *db, uint64_t last, char text[static 256])
{
    struct seam_err err;
    while (job->begun < last && text[0] == '\0') {
        uint64_t i = job->begun + 1;
        uint32_t ack = i % 3 == 0 ? SEAM_ACK_PROCESS : SEAM_ACK_POWER;
        job->begun = i;
        int rc = commit(db, i, ack, &err);
        if (rc == SEAM_OK) {
            job->process = i;
            job->power = ack == SEAM_ACK_POWER ? i : job->power;
            continue;
        }
        if (!job->faults || (rc != SEAM_E_UNKNOWN && !refused(rc)))
            (void)snprintf(text, 256, "commit %llu: %.200s", (unsigned long long)i, err.text);
        job->begun = refused(rc) ? i - 1 : i;
        if (rc == SEAM_E_UNKNOWN) /* whatever a kill would have kept may be gone with it */
            job->process = job->power;
        return;
    }
}

static void work(void *arg, const struct seam_platform *os, char text[static 256])
{
    struct job *job = arg;
    struct seam_options o = {.mode = SEAM_OPEN_CREATE, .platform = os, .stall_ms = UINT32_MAX};
    job->begun = job->power = job->process = 0;
    while (job->begun < job->commits && text[0] == '\0') {
        struct seam_db *db = NULL;
        struct seam_err err;
        uint64_t last = job->begun + job->reopen;
        int rc = seam_open(job->spec, "/db", &o, &db, &err);
        if (rc != SEAM_OK) {
            if (!job->faults)
                (void)snprintf(text, 256, "open: %.200s", err.text);
            return;
        }
        work_on(job, db, last < job->commits ? last : job->commits, text);
        bool all = job->begun == job->process && job->begun > last - job->reopen;
        rc = seam_close(db, &err);
        if (rc == SEAM_OK && all)
            job->power = job->process;
        if (rc != SEAM_OK) /* its last flush failed, and may have taken what a kill would keep */
            job->process = job->power;
        if (rc != SEAM_OK && !job->faults)
            (void)snprintf(text, 256, "close: %.200s", err.text);
        if (rc != SEAM_OK || !all)
            return;
    }
}

static uint64_t promised(void *arg)
{
    const struct job *job = arg;
    return job->begun * 1000003 + job->power * 1009 + job->process;
}

/* ---- check ----------------------------------------------------------------------------------- */

static uint64_t count_of(struct seam_db *db, char text[static 256])
{
    struct seam_pin pin = {0};
    struct seam_err err;
    uint64_t j = 0;
    int rc = seam_get(db, NULL, LIT("n"), &pin, &err);
    if (rc == SEAM_OK && pin.value.len == sizeof j)
        memcpy(&j, pin.value.ptr, sizeof j);
    else if (rc != SEAM_NOTFOUND)
        (void)snprintf(text, 256, "the count: %.200s", rc == SEAM_OK ? "wrong length" : err.text);
    seam_unpin(&pin);
    return j;
}

static void check_key(struct seam_db *db, unsigned k, uint64_t j, char text[static 256])
{
    char key[2] = {'k', (char)('A' + k)};
    uint64_t want = writer_of(k, j), got = 0;
    struct seam_pin pin = {0};
    struct seam_err err;
    int rc = seam_get(db, NULL, seam_bytes(key, 2), &pin, &err);
    size_t len = want ? len_of(want) : 0;
    if (rc == SEAM_OK && pin.value.len >= sizeof got)
        memcpy(&got, pin.value.ptr, sizeof got);
    if (rc != SEAM_OK && rc != SEAM_NOTFOUND)
        (void)snprintf(text, 256, "key %u: %.200s", k, err.text);
    else if (got != want || (want && (pin.value.len != sizeof got + len ||
                                      memcmp((const char *)pin.value.ptr + sizeof got, filler, len) != 0)))
        (void)snprintf(text, 256, "key %u after %llu commits: of commit %llu, not %llu", k,
                       (unsigned long long)j, (unsigned long long)got, (unsigned long long)want);
    seam_unpin(&pin);
}

static void check_db(const struct job *job, struct seam_db *db, bool power, uint64_t *seen,
                     char text[static 256])
{
    uint64_t j = count_of(db, text), least = power ? job->power : job->process;
    struct seam_err err;
    if (text[0])
        return;
    if (j < least || j > job->begun)
        (void)snprintf(text, 256, "%llu commits, not %llu to %llu", (unsigned long long)j,
                       (unsigned long long)least, (unsigned long long)job->begun);
    if (*seen != 0 && *seen != j + 1)
        (void)snprintf(text, 256, "%llu commits after %llu had been seen", (unsigned long long)j,
                       (unsigned long long)(*seen - 1));
    for (unsigned k = 0; k < KEYS && text[0] == '\0'; k++)
        check_key(db, k, j, text);
    *seen = j + 1;
    struct seam_op op = op_put(LIT("after"), LIT("the crash"));
    if (text[0] == '\0' && seam_write(db, &op, 1, SEAM_ACK_POWER, NULL, &err) != SEAM_OK)
        (void)snprintf(text, 256, "a commit after recovery: %.200s", err.text);
}

static void check(void *arg, const struct seam_platform *os, bool power, uint64_t *seen,
                  char text[static 256])
{
    const struct job *job = arg;
    struct seam_options o = {.mode = SEAM_OPEN_CREATE, .platform = os, .stall_ms = UINT32_MAX};
    struct seam_db *db = NULL;
    struct seam_err err;
    /* With nothing promised the creation may not have come far enough to be a store. */
    if (job->power > 0 || (!power && job->process > 0))
        o.mode = SEAM_OPEN_EXISTING;
    int rc = seam_open(job->spec, "/db", &o, &db, &err);
    if (rc != SEAM_OK) {
        (void)snprintf(text, 256, "open: %.200s", err.text);
        return;
    }
    check_db(job, db, power, seen, text);
    rc = seam_close(db, &err);
    if (rc != SEAM_OK && text[0] == '\0')
        (void)snprintf(text, 256, "close: %.200s", err.text);
}

/* ---- tests ----------------------------------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define EVERY 60
#else
#define EVERY 12
#endif

static struct sim_search search_of(struct job *job, uint32_t every)
{
    struct sim_search s = {.seed = support_seed(), .work = work, .promised = promised,
                           .check = check, .arg = job};
    s.every = (uint32_t)support_number("SEAM_EVERY", every);
    s.random = 8;
    s.nested = 40;
    return s;
}

static void report(const struct sim_search *s, const char *spec)
{
    print_message("%s: %llu calls, %llu states, %llu distinct, %llu in recovery\n", spec,
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

static const char *const specs[] = {
    "vlog:segment=64K,spare=0,threshold=600",
    "vlog:segment=64K,spare=0,threshold=600,io=buffered",
};

static void test_crashes(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct job job = {.spec = specs[i], .commits = support_number("SEAM_OPS", 220), .reopen = 73};
        struct sim_search s = search_of(&job, EVERY);
        sim_search_crashes(&s);
        report(&s, specs[i]);
        for (int class = 0; class < SIM_CLASS_COUNT; class++)
            assert_true(s.by_class[class] > 0 || s.every > 1);
    }
}

static void test_errors(void **state)
{
    static const int errors[] = {EIO, ENOSPC, EDQUOT, EINTR, EMFILE, EROFS, 0};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct job job = {.spec = specs[i], .commits = 60, .reopen = 23, .faults = true};
        struct sim_search s = search_of(&job, EVERY);
        sim_search_errors(&s, errors, sizeof errors / sizeof errors[0], s.every);
        report(&s, specs[i]);
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    struct job job = {.spec = specs[0], .commits = 60, .reopen = 23, .faults = true};
    struct sim_search s = search_of(&job, EVERY);
    sim_search_allocations(&s, s.every);
    report(&s, specs[0]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_crashes), cmocka_unit_test(test_errors),
                                       cmocka_unit_test(test_no_memory)};
    int rc = support_begin(argc, argv);
    support_fill(filler, sizeof filler, 5);
    return rc ? rc : cmocka_run_group_tests(tests, NULL, NULL);
}
