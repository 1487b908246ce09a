/* test_sim_states.c - the searches' crash states: each class gives some that no other has given.
 *
 * The work leaves all that a class is about: two files with pending bytes in more pieces than have all
 * their subsets taken, a flushed file under a new name, more names. One thread and one seed, so that
 * what is met does not change from run to run. */
#include "search.h"
#include "support.h"

enum { PIECES = 9 };

static int put(const struct seam_platform *os, int fd, unsigned char fill, uint64_t piece)
{
    static unsigned char bytes[SIM_SECTOR];
    struct iovec part = {bytes, sizeof bytes};
    memset(bytes, fill, sizeof bytes);
    return seam_write_all(os, fd, &part, 1, piece * SIM_SECTOR);
}

static int create(const struct seam_platform *os, int dir, const char *name)
{
    return os->open(os->ctx, dir, name, SEAM_FILE_WRITE | SEAM_FILE_CREATE | SEAM_FILE_NEW);
}

static void work(void *arg, const struct seam_platform *os, char text[static 256])
{
    int root = os->open_root(os->ctx, "/"), a = create(os, root, "a"), b = create(os, root, "b");
    int rc = a < 0 || b < 0 ? -1 : 0;
    uint64_t *stage = arg;
    *stage = 0;
    for (uint64_t i = 0; i < PIECES && rc >= 0; i++)
        rc = put(os, a, 'a', i) < 0 || put(os, b, 'b', i) < 0 ? -1 : 0;
    if (rc >= 0 && (os->sync(os->ctx, a) < 0 || os->sync_dir(os->ctx, root) < 0))
        rc = -1;
    for (uint64_t i = 0; i < PIECES && rc >= 0; i++)
        rc = put(os, a, 'A', i * 2) < 0 || put(os, b, 'B', i * 2) < 0 ? -1 : 0;
    if (rc >= 0 && (os->rename(os->ctx, root, "a", root, "c") < 0 || os->mkdir(os->ctx, root, "d") < 0 ||
                    os->rename(os->ctx, root, "b", root, "e") < 0 || os->sync(os->ctx, b) < 0))
        rc = -1;
    *stage = 1;
    for (uint64_t i = 0; i < PIECES && rc >= 0; i++)
        rc = put(os, a, 'x', 20 + i) < 0 || put(os, b, 'y', 20 + i) < 0 ? -1 : 0;
    if (rc < 0)
        (void)snprintf(text, 256, "a call fails");
    (void)os->close(os->ctx, a);
    (void)os->close(os->ctx, b);
    (void)os->close(os->ctx, root);
}

/* What the last stage shows counts as new, whatever an earlier crash has shown. */
static uint64_t promised(void *arg)
{
    return *(uint64_t *)arg;
}

/* Any state will do: what is looked at is how many there are. */
static void check(void *arg, const struct seam_platform *os, bool power, uint64_t *seen,
                  char text[static 256])
{
    (void)arg, (void)os, (void)power, (void)seen, (void)text;
}

static void test_each_class(void **state)
{
    uint64_t stage = 0;
    struct sim_search s = {.seed = 1, .every = 1, .random = 8, .work = work, .promised = promised,
                           .check = check, .arg = &stage};
    (void)state;
    sim_search_crashes(&s);
    s.arg = NULL;
    print_message("%llu calls, %llu states, %llu distinct\n", (unsigned long long)s.calls,
                  (unsigned long long)s.states, (unsigned long long)s.distinct);
    assert_int_equal(s.violations, 0);
    for (int i = 0; i < SIM_CLASS_COUNT; i++) {
        print_message("  %-12s %llu of %llu\n", sim_class_text((enum sim_class)i),
                      (unsigned long long)s.by_class[i], (unsigned long long)s.taken[i]);
        assert_true(s.by_class[i] > 0);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_class)};
    int rc = support_begin(argc, argv);
    return rc ? rc : cmocka_run_group_tests_name("sim_states", tests, NULL, NULL);
}
