/* test_store_text.c - the bytes of STORE: as docs/store-format.md shows them; damaged at every byte;
 * whole and wrong.
 *
 * Argument: the documentation's file. */
#include "store_int.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *doc;
static struct seam_s_member room[SEAM_S_MEMBERS_MAX];
static char buf[SEAM_S_TEXT_MAX];

static struct seam_s_member three[] = {
    {"journal", SEAM_S_INSIDE, {0}, "lmdb"},
    {"projection-by-name", SEAM_S_OUTSIDE, {0}, "rocksdb"},
    {"projection-by_time", SEAM_S_SHARED, {0}, "lmdb"},
};

static struct seam_s_text example(void)
{
    struct seam_s_text t = {.created = 1700000000, .members = three, .n = 3};
    for (size_t i = 0; i < 16; i++) {
        t.uuid[i] = (uint8_t)i;
        three[0].uuid[i] = (uint8_t)(0xf0 + i);
        three[1].uuid[i] = (uint8_t)(0x10 + i);
    }
    return t;
}

static int parse(const char *text, size_t len, bool making, struct seam_err *err)
{
    struct seam_s_text got;
    return seam_s_text_parse(text, len, making, "DIR/STORE", room, &got, err);
}

static void the_documentation_shows_it(void **state)
{
    (void)state;
    static char page[16384];
    FILE *f = fopen(doc, "r");
    assert_non_null(f);
    size_t len = fread(page, 1, sizeof(page) - 1, f);
    (void)fclose(f);
    page[len] = 0;
    struct seam_s_text t = example();
    size_t n = seam_s_text_write(&t, buf);
    buf[n] = 0;
    if (strstr(page, buf) == NULL)
        print_message("docs/store-format.md does not show this:\n%s", buf);
    assert_non_null(strstr(page, buf));
}

static void back_again(void **state)
{
    (void)state;
    struct seam_err err;
    struct seam_s_text t = example(), got;
    for (int making = 0; making < 2; making++) {
        t.making = making == 1;
        size_t n = seam_s_text_write(&t, buf);
        assert_int_equal(seam_s_text_parse(buf, n, t.making, "w", room, &got, &err), SEAM_OK);
        assert_int_equal(got.n, 3);
        assert_int_equal(got.created, t.created);
        assert_memory_equal(got.uuid, t.uuid, 16);
        for (size_t i = 0; i < 3; i++) {
            const struct seam_s_member *m = seam_s_find(&got, three[i].name);
            assert_non_null(m);
            assert_int_equal(m->place, three[i].place);
            assert_memory_equal(m->uuid, three[i].uuid, 16);
            assert_string_equal(m->engine, three[i].engine);
        }
        assert_null(seam_s_find(&got, "projection-"));
        assert_int_equal(parse(buf, n, making == 0, &err), SEAM_E_MISMATCH);
    }
}

static void the_largest_fits(void **state)
{
    (void)state;
    static struct seam_s_member all[SEAM_S_MEMBERS_MAX];
    struct seam_err err;
    struct seam_s_text t = {.created = UINT64_MAX, .members = all, .n = SEAM_S_MEMBERS_MAX};
    for (size_t i = 0; i < t.n; i++) {
        (void)snprintf(all[i].name, sizeof(all[i].name), "projection-%064zu", i);
        memset(all[i].engine, 'e', SEAM_S_ENGINE_ROOM - 1);
        all[i].place = SEAM_S_OUTSIDE;
    }
    (void)snprintf(all[0].name, sizeof(all[0].name), "journal");
    size_t n = seam_s_text_write(&t, buf);
    assert_int_equal(parse(buf, n, false, &err), SEAM_OK);
}

static void every_byte(void **state)
{
    (void)state;
    static char bad[SEAM_S_TEXT_MAX];
    struct seam_err err;
    struct seam_s_text t = example();
    size_t n = seam_s_text_write(&t, buf);
    for (size_t i = 0; i < n; i++)
        for (unsigned bit = 0; bit < 8; bit++) {
            memcpy(bad, buf, n);
            bad[i] = (char)(bad[i] ^ (char)(1u << bit));
            assert_int_equal(parse(bad, n, false, &err), SEAM_E_CORRUPT);
        }
    for (size_t cut = 0; cut < n; cut++)
        assert_int_equal(parse(buf, cut, false, &err), SEAM_E_CORRUPT);
    memcpy(bad, buf, n);
    bad[n] = '\n';
    assert_int_equal(parse(bad, n + 1, false, &err), SEAM_E_CORRUPT);
    assert_int_equal(parse(bad, SEAM_S_TEXT_MAX, false, &err), SEAM_E_CORRUPT);
}

#define HEAD "seam-store 1\nkind=store\nuuid=000102030405060708090a0b0c0d0e0f\n"
#define ID "000102030405060708090a0b0c0d0e0f"
#define J "member=journal inside " ID " lmdb\n"

/* With a right checksum. */
static int summed(const char *lines, struct seam_err *err)
{
    int n = snprintf(buf, sizeof(buf), "%scrc=%08x\n", lines, seam_crc32c(0, lines, strlen(lines)));
    return parse(buf, (size_t)n, false, err);
}

static void whole_and_wrong(void **state)
{
    (void)state;
    static const char *const corrupt[] = {
        HEAD "created=1\nmembers=0\n",
        HEAD "created=01\nmembers=1\n" J,
        HEAD "created=18446744073709551616\nmembers=1\n" J,
        HEAD "created=\nmembers=1\n" J,
        HEAD "created=1\nmembers=257\n" J,
        HEAD "created=1\nmembers=2\n" J,
        HEAD "created=1\nmembers=1\n" J J,
        HEAD "created=1\nmembers=2\n" J J,
        HEAD "created=1\nmembers=1\nmember=journal shared " ID " lmdb\n",
        HEAD "created=1\nmembers=1\nmember=journal beside " ID " lmdb\n",
        HEAD "created=1\nmembers=1\nmember=journal inside " ID "  lmdb\n",
        HEAD "created=1\nmembers=1\nmember=journal inside " ID "0 lmdb\n",
        HEAD "created=1\nmembers=1\nmember=journal inside " ID " \n",
        HEAD "created=1\nmembers=1\nmember=projection-a inside " ID " lmdb\n",
        HEAD "created=1\nmembers=2\n" J "member=projection-../x inside " ID " lmdb\n",
        HEAD "created=1\nmembers=2\n" J "member=projection- inside " ID " lmdb\n",
        HEAD "created=1\nmembers=2\n" J "member=other inside " ID " lmdb\n",
        "seam-store 1\nkind=store\nuuid=000102030405060708090A0B0C0D0E0F\ncreated=1\nmembers=1\n" J,
        "seam-stone 1\nkind=store\n",
        "seam-store 1\nkin=store\n",
    };
    struct seam_err err;
    assert_int_equal(summed(HEAD "created=1\nmembers=1\n" J, &err), SEAM_OK);
    for (size_t i = 0; i < sizeof(corrupt) / sizeof(corrupt[0]); i++) {
        int rc = summed(corrupt[i], &err);
        if (rc != SEAM_E_CORRUPT)
            print_message("taken, or not for corrupt:\n%s", corrupt[i]);
        assert_int_equal(rc, SEAM_E_CORRUPT);
        assert_non_null(strstr(err.text, "DIR/STORE"));
    }
    assert_int_equal(summed("seam-store 2\nwhatever\n", &err), SEAM_E_MISMATCH);
    assert_non_null(strstr(err.text, "version 2"));
    assert_int_equal(summed("seam-store 1\nkind=db\nengine=lmdb\n", &err), SEAM_E_MISMATCH);
    assert_non_null(strstr(err.text, "kind db"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_documentation_shows_it),
        cmocka_unit_test(back_again),
        cmocka_unit_test(the_largest_fits),
        cmocka_unit_test(every_byte),
        cmocka_unit_test(whole_and_wrong),
    };
    if (argc != 2)
        return 2;
    doc = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
