/* test_sim_mutant.c - the native engine with a fault written into its source (mutants.cmake): the
 * search must find it. The engine as it is passes the same search in test_sim_vlog.c. */
#include "search.h"
#include "sim_vlog_work.h"
#include "support.h"

static void test_found(void **state)
{
    static const char *const specs[] = {
        "vlog:segment=64K,spare=0,threshold=600,io=buffered",
        "vlog:segment=64K,spare=0,threshold=600",
    };
    uint64_t found = 0;
    (void)state;
    for (int i = 0; i < 2 && found == 0; i++) {
        struct vlog_job job = {.spec = specs[i], .commits = 220, .reopen = 73};
        struct sim_search s = {.seed = support_seed(), .random = 8, .nested = 20, .stop = true,
                               .work = vlog_job_work, .promised = vlog_job_promised,
                               .check = vlog_job_check, .arg = &job};
        sim_search_crashes(&s);
        found = s.violations;
        assert_false(s.broke);
        print_message("%s: %s\n", specs[i], found ? s.first : "not found");
    }
    assert_true(found > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_found)};
    int rc = support_begin(argc == 3 ? 2 : argc, argv);
    vlog_job_init();
    return rc ? rc : cmocka_run_group_tests_name("sim_mutant", tests, NULL, NULL);
}
