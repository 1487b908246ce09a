/* test_sim_liar.c - faults of an engine that the searches must find: one broken promise of the
 * platform each (liar.h), under the native engine. A search that stays green here proves nothing
 * where it is green elsewhere. The same work without a lie finds nothing, to begin with. */
#include "liar.h"
#include "search.h"
#include "sim_vlog_work.h"
#include "support.h"

#include <errno.h>

struct lying {
    struct vlog_job job;
    enum sim_lie lie;
    bool later; /* the store is made without lies */
};

static void work(void *arg, const struct seam_platform *os, char text[static 256])
{
    struct lying *l = arg;
    struct sim_liar *liar = malloc(sizeof *liar);
    assert_non_null(liar);
    sim_liar_init(liar, os, l->lie, l->later ? &l->job.begun : NULL);
    vlog_job_work(&l->job, l->lie == SIM_LIE_COUNT ? os : &liar->table, text);
    sim_liar_end(liar);
    free(liar);
}

static uint64_t promised(void *arg)
{
    return vlog_job_promised(&((struct lying *)arg)->job);
}

static void check(void *arg, const struct seam_platform *os, bool power, uint64_t *seen,
                  char text[static 256])
{
    vlog_job_check(&((struct lying *)arg)->job, os, power, seen, text);
}

static struct sim_search look_for(enum sim_lie lie, bool later, const char *spec)
{
    static const int broken[] = {EIO}, half[] = {0};
    struct lying l = {.job = {.spec = spec, .commits = 60, .reopen = 23}, .lie = lie,
                      .later = later};
    struct sim_search s = {.seed = support_seed(), .random = 4, .stop = true, .work = work,
                           .promised = promised, .check = check, .arg = &l};
    s.every = lie == SIM_LIE_COUNT ? 5 : 1;
    if (lie != SIM_SHORT_WRITE && lie != SIM_RETRY_SYNC)
        sim_search_crashes(&s);
    l.job.faults = true;
    if (lie == SIM_RETRY_SYNC || lie == SIM_LIE_COUNT)
        sim_search_errors(&s, broken, 1, s.every);
    if (lie == SIM_SHORT_WRITE || lie == SIM_LIE_COUNT)
        sim_search_errors(&s, half, 1, s.every);
    s.arg = NULL;
    return s;
}

static const char buffered[] = "vlog:segment=64K,spare=0,threshold=600,io=buffered";
static const char direct[] = "vlog:segment=64K,spare=0,threshold=600";

static void test_no_lie(void **state)
{
    (void)state;
    struct sim_search s = look_for(SIM_LIE_COUNT, false, buffered);
    if (s.violations > 0)
        print_message("%s\n", s.first);
    assert_int_equal(s.violations, 0);
    assert_true(s.states > 100);
}

static void found(enum sim_lie lie, bool later, const char *spec)
{
    struct sim_search s = look_for(lie, later, spec);
    print_message("%s, %s: %s\n", sim_lie_text(lie), later ? "later" : "from the start",
                  s.violations ? s.first : "not found");
    assert_true(s.violations > 0);
}

static void test_lie(void **state)
{
    enum sim_lie lie = *(const enum sim_lie *)*state;
    found(lie, false, buffered);
    /* A segment's file is no part of the log before a later flush, so its early name harms nothing. */
    if (lie != SIM_EARLY_RENAME)
        found(lie, true, buffered);
    if (lie == SIM_NO_FILE_SYNC || lie == SIM_LATE_SYNC) /* of writes that flush by themselves, too */
        found(lie, true, direct);
}

int main(int argc, char **argv)
{
    static enum sim_lie lies[SIM_LIE_COUNT];
    struct CMUnitTest tests[SIM_LIE_COUNT + 1] = {cmocka_unit_test(test_no_lie)};
    for (int i = 0; i < SIM_LIE_COUNT; i++) {
        lies[i] = (enum sim_lie)i;
        tests[i + 1] = (struct CMUnitTest){sim_lie_text(lies[i]), test_lie, NULL, NULL, &lies[i]};
    }
    int rc = support_begin(argc, argv);
    vlog_job_init();
    return rc ? rc : cmocka_run_group_tests_name("sim_liar", tests, NULL, NULL);
}
