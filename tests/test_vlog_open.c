/* test_vlog_open.c - an open of the native engine reads each byte of the log a few times at most, however
 * many values a commit has and however long it is. Counted in bytes read, not in time. */
#include "support.h"

#include <seam/platform.h>

#include <stdatomic.h>

struct shape {
    size_t ops, value;
    unsigned commits;
};

static _Atomic uint64_t bytes_read;

static ssize_t counted_pread(void *ctx, int fd, void *buf, size_t len, uint64_t offset)
{
    ssize_t n = seam_platform_system()->pread(ctx, fd, buf, len, offset);
    if (n > 0)
        atomic_fetch_add(&bytes_read, (uint64_t)n);
    return n;
}

static void fill(const char *dir, const struct shape *s)
{
    struct seam_db *db = support_open_with("vlog:threshold=64", dir, NULL);
    struct seam_op *ops = calloc(s->ops, sizeof *ops);
    char(*keys)[40] = calloc(s->ops, sizeof *keys);
    unsigned char *value = malloc(s->value);
    struct seam_err err;
    assert_true(ops && keys && value);
    support_fill(value, s->value, 1);
    for (unsigned c = 0; c < s->commits; c++) {
        for (size_t i = 0; i < s->ops; i++) {
            (void)snprintf(keys[i], sizeof keys[i], "%u-%zu", c, i);
            ops[i] = op_put(seam_bytes(keys[i], strlen(keys[i])), seam_bytes(value, s->value));
        }
        expect_ok(seam_write(db, ops, s->ops, SEAM_ACK_PROCESS, NULL, &err), &err);
    }
    support_close(db);
    free(ops);
    free(keys);
    free(value);
}

static void test_reads_once(void **state)
{
    /* Within the window that recovery reads through, about as long, and many times longer. */
    static const struct shape shapes[] = {{1, 300, 2000}, {100, 300, 40}, {3000, 300, 4},
                                          {20000, 100, 2}, {3, 3000000, 2}, {40, 100000, 2}};
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const struct shape *s = &shapes[i];
        const char *dir = support_dir();
        struct seam_platform os = *seam_platform_system();
        struct seam_options options = {.platform = &os, .mode = SEAM_OPEN_READ_ONLY};
        uint64_t written = (uint64_t)s->ops * s->commits * (s->value + 30);
        os.pread = counted_pread;
        fill(dir, s);
        bytes_read = 0;
        support_close(support_open_with("vlog", dir, &options));
        print_message("%u commits of %zu values of %zu: %llu bytes, %llu read\n", s->commits, s->ops,
                      s->value, (unsigned long long)written, (unsigned long long)bytes_read);
        assert_true(bytes_read > 0 && bytes_read < 4 * written + (8u << 20));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reads_once)};
    int rc = support_begin(argc, argv);
    return rc ? rc : cmocka_run_group_tests_name("vlog_open", tests, NULL, NULL);
}
