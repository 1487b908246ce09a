/* test_corpus_profiles.c - what a profile may say, and that anything else is one clear error.
 *
 * Relies on a temporary directory for the files that it writes, which it removes. */
#include "corpus_support.h"

#include "random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/seam-corpus-XXXXXX";
static char path[64]; /* dir/p.ini */

static int make_dir(void **state)
{
    (void)state;
    if (mkdtemp(dir) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/p.ini", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir);
}

static void put_file(const void *text, size_t len)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

/* Opens, expects `code`, and gives the error's text, which is one line. */
static const char *refused(const char *spec, int code)
{
    static struct seam_err err;
    struct seam_corpus *c = (struct seam_corpus *)&err; /* anything but NULL */
    memset(&err, 0, sizeof err);
    int rc = seam_corpus_open(spec, 1, &c, &err);
    if (rc != code)
        fail_msg("%.100s: %s instead of %s: %s", spec, seam_code_name(rc), seam_code_name(code),
                 err.text);
    assert_ptr_equal(c, &err);
    assert_int_equal(err.code, code);
    assert_true(strlen(err.text) > 10);
    assert_null(strchr(err.text, '\n'));
    return err.text;
}

static void expect_text(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("'%s' does not say '%s'", text, part);
}

/* ---- what is built in -------------------------------------------------------------------- */

static void test_built_in(void **state)
{
    static const char *const names[] = {"representative", "stress", "broker", "fanout"};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        const struct seam_corpus_profile *p = seam_corpus_profile_at(i);
        struct seam_corpus_info info;
        struct seam_corpus *c;
        assert_non_null(p);
        assert_string_equal(p->name, names[i]);
        c = corpus_must_open(p->name, 5);
        seam_corpus_describe(c, &info);
        assert_string_equal(info.name, names[i]);
        assert_string_equal(info.description, p->summary);
        assert_true(strlen(info.description) > 20);
        assert_int_equal(info.seed, 5);
        assert_true(info.key_max <= 511 && info.key_average <= info.key_max);
        assert_true(info.value_average <= info.value_max);
        assert_true(info.unit_ops_average <= info.unit_ops_max);
        for (size_t k = 0; k < info.n_knobs; k++) {
            char line[64]; /* the file shows every knob */
            snprintf(line, sizeof line, "\n%s = ", info.knobs[k].name);
            assert_non_null(strstr(p->text, line));
            assert_in_range(info.knobs[k].value, info.knobs[k].least, info.knobs[k].most);
            assert_true(strlen(info.knobs[k].help) > 10);
        }
        seam_corpus_close(c);
    }
    assert_null(seam_corpus_profile_at(4));
    assert_null(seam_corpus_profile_at(SIZE_MAX));
}

/* The text of a built-in profile is the file that is shipped, and as a file gives the same bytes.
 */
static void test_same_from_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        const struct seam_corpus_profile *p = seam_corpus_profile_at(i);
        char shipped[512], one[33], two[33], text[8192];
        struct seam_corpus *a, *b;
        snprintf(shipped, sizeof shipped, "%s/corpus/profiles/%s.ini", CORPUS_SOURCE, p->name);
        FILE *f = fopen(shipped, "r");
        assert_non_null(f);
        size_t len = fread(text, 1, sizeof text - 1, f);
        text[len] = '\0';
        fclose(f);
        assert_string_equal(text, p->text);
        put_file(text, len);
        a = corpus_must_open(p->name, 9);
        b = corpus_must_open(path, 9);
        assert_int_equal(seam_corpus_digest(a, 1, 1, one, NULL), SEAM_OK);
        assert_int_equal(seam_corpus_digest(b, 1, 1, two, NULL), SEAM_OK);
        assert_string_equal(one, two);
        seam_corpus_close(a);
        seam_corpus_close(b);
    }
}

/* docs/profiles.md has a row for every knob, with its section, range and default. */
static void test_documented(void **state)
{
    static char docs[65536];
    char file[512], row[200];
    struct seam_corpus_info info, defaults;
    struct seam_corpus *c = corpus_must_open("representative", 1), *plain;
    (void)state;
    snprintf(file, sizeof file, "%s/docs/profiles.md", CORPUS_SOURCE);
    FILE *f = fopen(file, "r");
    assert_non_null(f);
    docs[fread(docs, 1, sizeof docs - 1, f)] = '\0';
    fclose(f);
    put_file("\n", 1);
    plain = corpus_must_open(path, 1);
    seam_corpus_describe(c, &info);
    seam_corpus_describe(plain, &defaults);
    for (size_t k = 0; k < info.n_knobs; k++) {
        const struct seam_corpus_knob *knob = &info.knobs[k];
        if (knob->word != NULL)
            snprintf(row, sizeof row, "| `%s` | %s | %s |", knob->name, knob->section,
                     defaults.knobs[k].word);
        else
            snprintf(row, sizeof row, "| `%s` | %s | %llu | %llu..%llu |", knob->name,
                     knob->section, (unsigned long long)defaults.knobs[k].value,
                     (unsigned long long)knob->least, (unsigned long long)knob->most);
        if (strstr(docs, row) == NULL)
            fail_msg("docs/profiles.md lacks the row: %s", row);
    }
    seam_corpus_close(plain);
    seam_corpus_close(c);
}

static void test_changed_knobs(void **state)
{
    struct seam_corpus_info info;
    struct seam_corpus *c = corpus_must_open("stress:keys=10K,large_max=2M,scale=4,skew=zipf", 1);
    (void)state;
    seam_corpus_describe(c, &info);
    assert_string_equal(info.name, "stress");
    assert_int_equal(info.keys, 2500);
    assert_int_equal(info.units, 500);
    assert_int_equal(info.value_max, 2 << 20);
    seam_corpus_close(c);
    c = corpus_must_open("fanout:scale=1M", 1); /* still enough keys for one unit */
    seam_corpus_describe(c, &info);
    assert_int_equal(info.keys, 95000);
    assert_int_equal(info.units, 1);
    seam_corpus_close(c);
    put_file("[keys]\nkeys = 7\n", 16);
    char spec[128];
    snprintf(spec, sizeof spec, "%s:versions=3", path);
    c = corpus_must_open(spec, 1);
    seam_corpus_describe(c, &info);
    assert_string_equal(info.name, path);
    assert_int_equal(info.keys, 7);
    seam_corpus_close(c);
}

/* Blank lines, blanks, comments, CR LF, colons, UTF-8 in the description, a byte-order mark. */
static void test_tolerated(void **state)
{
    static const char text[] =
        "\xef\xbb\xbf; first\r\n\r\n  [corpus]\r\n"
        "\tdescription = d\xc3\xa9j\xc3\xa0 vu\r\n [keys] \n  keys : 12  ; so\n"
        "   versions=3\n# end\n";
    struct seam_corpus_info info;
    struct seam_corpus *c;
    (void)state;
    put_file(text, sizeof text - 1);
    c = corpus_must_open(path, 1);
    seam_corpus_describe(c, &info);
    assert_int_equal(info.keys, 12);
    assert_string_equal(info.description, "d\xc3\xa9j\xc3\xa0 vu");
    seam_corpus_close(c);
}

/* ---- what is refused --------------------------------------------------------------------- */

static void test_bad_specs(void **state)
{
    (void)state;
    expect_text(refused("nosuch", SEAM_E_OPTION), "representative, stress, broker, fanout");
    refused("", SEAM_E_OPTION);
    refused(":keys=1", SEAM_E_OPTION);
    refused("Stress", SEAM_E_OPTION);
    refused("stress:", SEAM_E_OPTION);
    refused("stress:keys", SEAM_E_OPTION);
    expect_text(refused("stress:keys=", SEAM_E_OPTION), "keys");
    expect_text(refused("stress:keys=1,", SEAM_E_OPTION), "knob=value");
    expect_text(refused("stress:kyes=1", SEAM_E_OPTION), "kyes");
    expect_text(refused("stress:keys=1,keys=2", SEAM_E_OPTION), "twice");
    expect_text(refused("stress:keys=-1", SEAM_E_OPTION), "1..1000000000");
    expect_text(refused("stress:keys=2G", SEAM_E_OPTION), "1..1000000000");
    expect_text(refused("stress:skew=pareto", SEAM_E_OPTION), "uniform, hot, zipf");
    expect_text(refused("stress:description=x", SEAM_E_OPTION), "description");
    expect_text(refused("./nosuch.ini", SEAM_E_IO), "nosuch.ini");
    expect_text(refused("nosuch.ini", SEAM_E_IO), "nosuch.ini");
    expect_text(refused("/nosuch/a", SEAM_E_IO), "/nosuch/a");
    assert_int_equal(seam_corpus_open(NULL, 1, NULL, NULL), SEAM_E_INVALID);
    static const char *const specs[] = {"representative", "representative:keys=7", "stress:scale=1K"};
    for (size_t i = 0; i < 3; i++) { /* a size given counts, whatever the profile says */
        struct seam_corpus *sized = NULL;
        struct seam_corpus_info info;
        assert_int_equal(seam_corpus_open_sized(specs[i], 1, 321, &sized, NULL), SEAM_OK);
        seam_corpus_describe(sized, &info);
        assert_int_equal(info.keys, 321);
        seam_corpus_close(sized);
        assert_int_equal(seam_corpus_open_sized(specs[i], 1, UINT64_C(1000000001), &sized, NULL),
                         SEAM_E_OPTION);
    }
    assert_int_equal(seam_corpus_open("nosuch", 1, (struct seam_corpus **)&path, NULL),
                     SEAM_E_OPTION);
}

struct bad_file {
    const char *text, *line, *say; /* say: another part of the error */
};

static const struct bad_file bad_files[] = {
    {"[keys]\nkeys = 12x\n", ":2:", "12x"},
    {"[keys]\nkeys = twelve\n", ":2:", "twelve"},
    {"[keys]\nkeys = 1 2\n", ":2:", "keys"},
    {"[keys]\nkeys = 0x10\n", ":2:", "keys"},
    {"[keys]\nkeys = 1.5\n", ":2:", "keys"},
    {"[keys]\nkeys = 1e6\n", ":2:", "keys"},
    {"[keys]\nkeys = +1\n", ":2:", "keys"},
    {"[keys]\nkeys = 10KB\n", ":2:", "keys"},
    {"[keys]\nkeys = 10k\n", ":2:", "keys"},
    {"[keys]\nkeys = K\n", ":2:", "keys"},
    {"[keys]\nkeys =\n", ":2:", "keys"},
    {"[keys]\nkeys = 18446744073709551616\n", ":2:", "keys"},
    {"[keys]\nkeys = 99999999999999999999999999999999999999\n", ":2:", "keys"},
    {"[keys]\nkeys = 18446744073709551615K\n", ":2:", "keys"},
    {"[keys]\nkeys = 0\n", ":2:", "1..1000000000"},
    {"[keys]\nkeys = 1000000001\n", ":2:", "1..1000000000"},
    {"\n\n[keys]\n# x\nkey_max = 512\n", ":5:", "16..511"},
    {"[keys]\nkey_min = 15\n", ":2:", "16..511"},
    {"[values]\nvalue_min = 15\n", ":2:", "16..67108864"},
    {"[values]\nlarge_percent = 101\n", ":2:", "0..100"},
    {"[values]\nlarge_max = 65M\n", ":2:", "16..67108864"},
    {"[keys]\nkees = 1\n", ":2:", "keys, versions, key_min, key_max"},
    {"[keys]\nmessage = 100\n", ":2:", "message"},
    {"[keyz]\nkeys = 1\n", ":2:", "[keyz]"},
    {"keys = 1\n", ":1:", "no section"},
    {"[keys]\nkeys = 1\nkeys = 2\n", ":3:", "twice"},
    {"[corpus]\ndescription = a\ndescription = b\n", ":3:", "twice"},
    {"[reads]\nskew = hottish\n", ":2:", "uniform, hot, zipf"},
    {"[units]\nchoose = SKEW\n", ":2:", "skew, sweep"},
    {"[keys]\nhello world\n", ":2:", "no [section]"},
    {"[keys\nkeys = 1\n", ":1:", "no [section]"},
    {"[keys]\nkeys = 1\n[val", ":3:", "cut off"},
    {"[keys]\nkeys = 10", ":2:", "cut off"},
    {"", "", "the file is empty"},
    {"[keys]\nhello\nkeys = x\n", ":2:", "no [section]"},
    {"[keys]\nkeys = x\nhello\n", ":2:", "'x'"},
    {"[keys]\nkey_min = 40\n", "", "key_min is over key_max"},
    {"[values]\nvalue_min = 500\n", "", "value_min"},
    {"[values]\nlarge_min = 2M\n", "", "large_min"},
    {"[units]\nunit_min = 9\n", "", "unit_min"},
    {"[units]\ninsert_percent = 60\ndelete_percent = 41\n", "", "over 100"},
    {"[incoming]\nstale_percent = 60\nnew_percent = 41\n", "", "over 100"},
    {"[keys]\nkeys = 7\n[units]\nchoose = sweep\n", "", "sweep"},
};

static void test_bad_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_files / sizeof *bad_files; i++) {
        const char *text;
        put_file(bad_files[i].text, strlen(bad_files[i].text));
        text = refused(path, SEAM_E_OPTION);
        expect_text(text, "p.ini");
        expect_text(text, bad_files[i].line);
        expect_text(text, bad_files[i].say);
    }
}

/* Not a profile at all. */
static void test_other_files(void **state)
{
    static const char nul[] = "[keys]\nkeys = 1\0\n";
    size_t big = 10u << 20;
    char *text = malloc(big), line[400], longer[700];
    (void)state;
    assert_non_null(text);
    put_file(nul, sizeof nul - 1);
    expect_text(refused(path, SEAM_E_OPTION), "0x00");
    put_file("\x7f"
             "ELF\x02\x01\x01",
             7);
    expect_text(refused(path, SEAM_E_OPTION), "text file");
    memset(text, '#', big);
    put_file(text, big);
    expect_text(refused(path, SEAM_E_OPTION), "65536");
    memset(text, '\n', big);
    put_file(text, big);
    expect_text(refused(path, SEAM_E_OPTION), "65536");
    put_file(text, 65537);
    expect_text(refused(path, SEAM_E_OPTION), "65536");
    put_file(text, 65536);
    seam_corpus_close(corpus_must_open(path, 1));
    free(text);
    memset(line, '#', sizeof line);
    line[sizeof line - 1] = '\n';
    put_file(line, sizeof line);
    expect_text(refused(path, SEAM_E_OPTION), "190");
    memset(longer, 'x', sizeof longer);
    memcpy(longer, "./", 2);
    longer[sizeof longer - 1] = '\0';
    refused(longer, SEAM_E_IO);
    expect_text(refused(dir, SEAM_E_OPTION), "not a file");
    expect_text(refused("/dev/null", SEAM_E_OPTION), "not a file");
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_text(refused(path, SEAM_E_OPTION), "not a file");
    unlink(path);
    assert_int_equal(symlink(path, path), 0);
    refused(path, SEAM_E_IO);
    unlink(path);
}

/* Hundreds of changes to good profiles: each opens or is refused in one line; none crashes. */
static void mutate(struct random *r, char *text, size_t *len, size_t cap)
{
    static const char alphabet[] = "0123456789KMG=:;#[] \n\r\t\"'%\xff\x01-_aehksuvy";
    for (uint32_t n = 1 + random_below(r, 4); n > 0; n--) {
        size_t at = random_below(r, (uint32_t)*len), end;
        switch (random_below(r, 5)) {
        case 0: /* another byte */
            text[at] = alphabet[random_below(r, sizeof alphabet - 1)];
            break;
        case 1: /* one more */
            if (*len < cap) {
                memmove(text + at + 1, text + at, *len - at);
                text[at] = alphabet[random_below(r, sizeof alphabet - 1)];
                ++*len;
            }
            break;
        case 2: /* some fewer */
            end = at + random_below(r, 30);
            end = end < *len ? end : *len - 1;
            memmove(text + at, text + end, *len - end);
            *len -= end - at;
            break;
        case 3: /* any byte */
            text[at] = (char)random_below(r, 256);
            break;
        default: /* cut off, seldom */
            if (random_below(r, 8) == 0)
                *len = at + 1;
        }
    }
}

static void test_mutated(void **state)
{
    uint64_t seed = test_seed();
    unsigned good = 0, bad = 0;
    (void)state;
    for (uint64_t i = 0; i < 1500; i++) {
        struct random r = random_stream(seed, i);
        const char *base = seam_corpus_profile_at(i % 4)->text;
        char text[8192];
        size_t len = strlen(base);
        struct seam_corpus *c = NULL;
        struct seam_err err = {.code = 0};
        assert_true(len < sizeof text - 100);
        memcpy(text, base, len);
        mutate(&r, text, &len, sizeof text);
        put_file(text, len);
        int rc = seam_corpus_open(path, seed, &c, &err);
        if (rc == SEAM_OK) {
            struct seam_maker *m = corpus_must_make(c);
            struct seam_slice key;
            seam_maker_pick(m, i, &key, NULL);
            assert_in_range(key.len, 16, 511);
            seam_maker_close(m);
            good++;
        } else {
            if (rc != SEAM_E_OPTION || strchr(err.text, '\n') != NULL || strlen(err.text) < 10)
                fail_msg("SEAM_SEED=%llu, round %llu: %d '%s'", (unsigned long long)seed,
                         (unsigned long long)i, rc, err.text);
            assert_null(c);
            bad++;
        }
        seam_corpus_close(c);
    }
    assert_true(good > 50 && bad > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_built_in),   cmocka_unit_test(test_same_from_file),
        cmocka_unit_test(test_documented), cmocka_unit_test(test_changed_knobs),
        cmocka_unit_test(test_tolerated),  cmocka_unit_test(test_bad_specs),
        cmocka_unit_test(test_bad_files),  cmocka_unit_test(test_other_files),
        cmocka_unit_test(test_mutated),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
