/* test_sim_vlog.c - the native engine on the simulated disk: crashes, errors, no memory, anywhere.
 * The work is sim_vlog_work.h's.
 * SEAM_OPS: commits; SEAM_EVERY: of so many calls one is looked at; 1: each. */
#include "search.h"
#include "sim_vlog_work.h"
#include "support.h"

#include <errno.h>

/* ---- tests ----------------------------------------------------------------------------------- */

static struct sim_search search_of(struct vlog_job *job)
{
    struct sim_search s = {.seed = support_seed(), .work = vlog_job_work,
                           .promised = vlog_job_promised, .check = vlog_job_check, .arg = job};
    s.every = support_every(12);
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
        print_message("  %-12s %llu of %llu\n", sim_class_text((enum sim_class)i),
                      (unsigned long long)s->by_class[i], (unsigned long long)s->taken[i]);
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
        struct vlog_job job = {.spec = specs[i], .commits = support_number("SEAM_OPS", 220), .reopen = 73};
        struct sim_search s = search_of(&job);
        sim_search_crashes(&s);
        report(&s, specs[i]);
    }
}

/* Commits that go to the disk in several writes, past the page cache. */
static void test_large(void **state)
{
    (void)state;
    struct vlog_job job = {.spec = specs[0], .commits = 14, .reopen = 5, .large = true};
    struct sim_search s = search_of(&job);
    s.every = support_every(8);
    s.random = 3;
    sim_search_crashes(&s);
    report(&s, "large");
    job.faults = true;
    s = search_of(&job);
    s.every = support_every(60);
    static const int errors[] = {EIO, 0};
    sim_search_errors(&s, errors, sizeof errors / sizeof errors[0], s.every);
    report(&s, "large");
}

static void test_errors(void **state)
{
    static const int errors[] = {EIO, ENOSPC, EDQUOT, EINTR, EMFILE, EROFS, 0};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct vlog_job job = {.spec = specs[i], .commits = 60, .reopen = 23, .faults = true};
        struct sim_search s = search_of(&job);
        sim_search_errors(&s, errors, sizeof errors / sizeof errors[0], s.every);
        report(&s, specs[i]);
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    struct vlog_job job = {.spec = specs[0], .commits = 60, .reopen = 23, .faults = true};
    struct sim_search s = search_of(&job);
    sim_search_allocations(&s, s.every);
    report(&s, specs[0]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_crashes), cmocka_unit_test(test_large),
                                       cmocka_unit_test(test_errors),
                                       cmocka_unit_test(test_no_memory)};
    int rc = support_begin(argc, argv);
    vlog_job_init();
    return rc ? rc : cmocka_run_group_tests(tests, NULL, NULL);
}
