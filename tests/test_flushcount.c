/* test_flushcount.c - the flush counter's figures are strace's: raw | ENGINE.
 *
 * raw: a program that makes each kind of call a known number of times. ENGINE: durable commits
 * through the contract. Where strace or ptrace is missing, only the raw program's own count is
 * compared, and that is said. */
#include "strace_count.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char *engine; /* NULL: raw */

struct site {
    char root[4096], store[4096 + 32], outside[4096 + 32], page[4096 + 32], trace[4096 + 32];
    char link[4096 + 32], real[4096 + 32];
};

static void remove_tree(const char *path)
{
    pid_t pid = fork();

    if (pid == 0) {
        execlp("rm", "rm", "-rf", "--", path, (char *)NULL);
        _exit(127);
    }
    assert_true(pid > 0 && waitpid(pid, NULL, 0) == pid);
}

/* root/real/store is named to the counter as root/link/store before it is there. */
static void make_site(struct site *site)
{
    char here[2048];

    assert_non_null(getcwd(here, sizeof here));
    snprintf(site->root, sizeof site->root, "%s/flushcount-XXXXXX", here);
    assert_non_null(mkdtemp(site->root));
    snprintf(site->real, sizeof site->real, "%s/real", site->root);
    snprintf(site->link, sizeof site->link, "%s/link", site->root);
    snprintf(site->store, sizeof site->store, "%s/real/store", site->root);
    snprintf(site->outside, sizeof site->outside, "%s/outside", site->root);
    snprintf(site->page, sizeof site->page, "%s/page", site->root);
    snprintf(site->trace, sizeof site->trace, "%s/trace", site->root);
    assert_int_equal(mkdir(site->real, 0700), 0);
    assert_int_equal(mkdir(site->outside, 0700), 0);
    assert_int_equal(symlink("real", site->link), 0);
}

/* Runs the program; *ret gets what the counter's page says. */
static void count_run(const struct site *site, const char *trace, struct seam_flushcount *ret,
                      char *text, size_t cap)
{
    const char *const raw[] = {FLUSHCOUNT_RAW, site->store, site->outside, NULL};
    const char *const commits[] = {FLUSHCOUNT_ENGINE, engine, site->store, NULL};
    struct seam_flushcount_page *page;
    char named[4096 + 64];
    int rc;

    remove_tree(site->store);
    remove_tree(site->outside);
    unlink(site->page);
    assert_int_equal(mkdir(site->outside, 0700), 0);
    if (engine == NULL)
        assert_int_equal(mkdir(site->store, 0700), 0);
    page = seam_flushcount_create(site->page);
    assert_non_null(page);
    snprintf(named, sizeof named, "%s/store/", site->link);
    rc = strace_run(engine != NULL ? commits : raw, FLUSHCOUNT_OBJECT, named, site->page, trace,
                    text, cap);
    if (rc != 0)
        print_message("%s\n", text);
    assert_int_equal(rc, 0);
    seam_flushcount_read(page, ret);
    seam_flushcount_close(page);
    assert_int_equal(ret->unseen, 0);
    assert_true(ret->processes >= 1);
}

static void compare(const struct seam_flushcount *counter, const struct seam_flushcount *other,
                    const char *who)
{
    for (int i = 0; i < SEAM_FLUSHCOUNT_CLASS_COUNT; i++) {
        enum seam_flushcount_class cls = (enum seam_flushcount_class)i;

        print_message("%-16s counter %6llu calls %9llu bytes, %s %6llu %9llu\n",
                      seam_flushcount_class_name(cls), (unsigned long long)counter->calls[i],
                      (unsigned long long)counter->bytes[i], who,
                      (unsigned long long)other->calls[i], (unsigned long long)other->bytes[i]);
    }
    assert_memory_equal(counter->calls, other->calls, sizeof counter->calls);
    assert_memory_equal(counter->bytes, other->bytes, sizeof counter->bytes);
}

/* What flushcount_raw printed. */
static void parse_own(const char *text, struct seam_flushcount *ret)
{
    memset(ret, 0, sizeof *ret);
    for (; *text != '\0'; text += strcspn(text, "\n"), text += *text == '\n') {
        char name[32];
        unsigned long calls = 0, bytes = 0;

        if (sscanf(text, "%31s %lu %lu", name, &calls, &bytes) < 2)
            continue;
        if (strcmp(name, "failed") == 0)
            ret->failed = calls;
        for (int i = 0; i < SEAM_FLUSHCOUNT_CLASS_COUNT; i++)
            if (strcmp(name, seam_flushcount_class_name((enum seam_flushcount_class)i)) == 0) {
                ret->calls[i] = calls;
                ret->bytes[i] = bytes;
            }
    }
}

static void test_own_count(void **state)
{
    const struct site *site = *state;
    struct seam_flushcount counter, own;
    char text[8192];
    unsigned long long flushes;
    int acks;

    count_run(site, NULL, &counter, text, sizeof text);
    if (engine == NULL) {
        parse_own(text, &own);
        compare(&counter, &own, "program");
        assert_int_equal(counter.failed, own.failed);
        return;
    }
    assert_int_equal(sscanf(text, "acks %d flushes %llu", &acks, &flushes), 2);
    assert_int_equal(flushes, seam_flushcount_flushes(&counter)); /* its own page is this page */
    print_message("%d acks, %llu flushes\n", acks,
                  (unsigned long long)seam_flushcount_flushes(&counter));
    assert_true(seam_flushcount_flushes(&counter) > 0);
    assert_true(seam_flushcount_written(&counter) >= (uint64_t)acks * 300);
}

static void test_strace_count(void **state)
{
    const struct site *site = *state;
    const char *missing = strace_missing();
    struct seam_flushcount counter, traced;
    char text[8192];
    bool uring;

    if (missing != NULL) {
        print_message("skipped: %s\n", missing);
        skip();
    }
    count_run(site, site->trace, &counter, text, sizeof text);
    /* What a stream writes is not seen; RocksDB's information log is one. */
    assert_true(strace_count(site->trace, site->store, counter.stdio > 0 ? "/LOG" : NULL, &traced,
                             &uring));
    compare(&counter, &traced, "strace");
    assert_int_equal(counter.failed, traced.failed);
    assert_false(uring);
}

static void test_untouched(void **state)
{
    const struct site *site = *state;
    const char *const argv[] = {FLUSHCOUNT_RAW, site->store, site->outside, NULL};
    char text[8192];

    /* No directory named: nothing is counted, everything works, no page is made. */
    remove_tree(site->store);
    remove_tree(site->outside);
    unlink(site->page);
    assert_int_equal(mkdir(site->store, 0700), 0);
    assert_int_equal(mkdir(site->outside, 0700), 0);
    assert_int_equal(
        strace_run(argv, FLUSHCOUNT_OBJECT, "", site->page, NULL, text, sizeof text), 0);
    assert_int_equal(access(site->page, F_OK), -1);
}

static void test_no_page_of_its_own(void **state)
{
    (void)state;
    assert_null(seam_flushcount_self());
}

int main(int argc, char **argv)
{
    static struct site site;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_own_count, &site),
        cmocka_unit_test_prestate(test_strace_count, &site),
        cmocka_unit_test_prestate(test_untouched, &site),
        cmocka_unit_test(test_no_page_of_its_own),
    };
    int rc;

    engine = argc > 1 && strcmp(argv[1], "raw") != 0 ? argv[1] : NULL;
    make_site(&site);
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    if (rc == 0)
        remove_tree(site.root);
    else
        print_message("left for inspection: %s\n", site.root);
    return rc;
}
