/* test_errtext.c - the texts of failed system calls, with both kinds of strerror_r: GNU's and, with
 * SEAM_TEST_POSIX, that of POSIX. Includes err.c, to compile it for each. */
#ifdef SEAM_TEST_POSIX
#undef _GNU_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "err.c"

#include <setjmp.h>

#include <cmocka.h>

/* The kind at hand is the one that is meant. */
#define KIND(call) _Generic((call), char *: "gnu", int: "posix")

static void the_systems_words_are_told(void **state)
{
    (void)state;
    static const int some[] = {ENOENT, EIO, ENOSPC, EACCES, EROFS};
    struct seam_err err;
    char want[200], buf[8];
#if defined(SEAM_TEST_POSIX) || !defined(__GLIBC__)
    assert_string_equal(KIND(strerror_r(0, buf, sizeof buf)), "posix");
#else
    assert_string_equal(KIND(strerror_r(0, buf, sizeof buf)), "gnu");
#endif
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        (void)snprintf(want, sizeof want, "a file: %s", strerror(some[i]));
        (void)seam_fail_os(&err, some[i], "a %s", "file");
        assert_string_equal(err.text, want);
        assert_int_equal(err.os_errno, some[i]);
    }
}

static void a_number_without_a_text_is_survived(void **state)
{
    (void)state;
    static const int odd[] = {123456, -1, 0};
    struct seam_err err;
    for (size_t i = 0; i < 3; i++) {
        memset(&err, 0x55, sizeof err);
        assert_int_equal(seam_fail_os(&err, odd[i], "x"), SEAM_E_IO);
        assert_int_equal(err.os_errno, i == 0 ? 123456 : 0);
        if (i > 0) /* no number of the system's */
            assert_string_equal(err.text, "x");
        else
            assert_in_range(strlen(err.text), 8, 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_systems_words_are_told),
        cmocka_unit_test(a_number_without_a_text_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
