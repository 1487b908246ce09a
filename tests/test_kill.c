/* test_kill.c - kill -9 at any moment: while units are written, while a store is opened, while it is
 * made, while a journal is appended to.
 *
 * argv[1] names the engine. SEAM_SEED replays what was chosen by chance (not where in the machine a
 * kill falls), SEAM_KILLS=N makes N kills where 12 are usual. */
#include "kill.h"

unsigned kill_count(unsigned usual)
{
    uint64_t n = support_number("SEAM_KILLS", 12) * usual / 12;

    return n > 0 ? (unsigned)n : 1;
}

const char *kill_number(uint64_t n)
{
    return support_text("%llu", (unsigned long long)n);
}

void kill_soon(struct crash_child *c, struct support_rng *rng, uint64_t most)
{
    crash_pause_us(support_below(rng, most + 1));
    crash_kill(c);
}

static int run_child(char **args)
{
    static const struct {
        const char *name;
        int (*run)(char **args);
    } roles[] = {{"units", kill_child_units},
                 {"look", kill_child_look},
                 {"open", kill_child_open},
                 {"journal", kill_child_journal}};

    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
        if (strcmp(args[0], roles[i].name) == 0)
            return roles[i].run(args + 1);
    return 2;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kill_units),
        cmocka_unit_test(kill_opens),
        cmocka_unit_test(kill_creates),
        cmocka_unit_test(kill_journal),
    };
    int status;

    if (argc > 3 && strcmp(argv[1], "child") == 0)
        return run_child(argv + 2);
    status = support_begin(argc, argv);
    if (status != 0)
        return status;
    if (support_volatile()) {
        fprintf(stderr, "'%s' keeps nothing that a kill could take\n", support_engine());
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
