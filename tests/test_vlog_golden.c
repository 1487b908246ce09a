/* test_vlog_golden.c - a whole store of format 1, byte for byte: golden/vlog-1.txt.
 *
 * Relies on the engine's table alone, with a uuid and an epoch that do not change. Keeps true: this
 * version writes those bytes, and reads them. A line "NAME SIZE" begins a file; each line after it is
 * an offset and 32 bytes in hexadecimal; what is not told is zero. With VLOG_GOLDEN_OUT=FILE the
 * bytes that this version writes are put there instead: a change is a change of the format. */
#include "support.h"

#include "log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

extern const struct seam_backend seam_backend_vlog;

enum { LINE = 32, LARGER = 20000, BIG = 270000, TEXT_MAX = 64 << 10 };

static unsigned char big[BIG];

static struct seam_engine *open_bare(const char *path, bool create, bool read_only, int *ret_dir)
{
    static const uint64_t settings[] = {64 << 10, 100, 0, VLOG_IO_BUFFERED, 0, 512};
    static const uint8_t uuid[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    struct seam_engine *e = NULL;
    struct seam_err err;
    *ret_dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(*ret_dir >= 0);
    struct seam_open_args args = {.os = seam_platform_system(),
                                  .dir = *ret_dir,
                                  .path = path,
                                  .create = create,
                                  .read_only = read_only,
                                  .memory = 64 << 20,
                                  .disk = UINT64_MAX,
                                  .epoch = 3,
                                  .uuid = uuid,
                                  .settings = settings};
    expect_ok(seam_backend_vlog.open(&args, &e, &err), &err);
    e->be = &seam_backend_vlog;
    e->os = args.os;
    return e;
}

static void close_bare(struct seam_engine *e, int dir)
{
    expect_ok(seam_backend_vlog.close(e, NULL), NULL);
    (void)close(dir);
}

static void commit(struct seam_engine *e, const struct seam_op *ops, size_t n, uint32_t ack)
{
    struct seam_commit c = {.ops = ops, .n = n, .ack = ack};
    struct seam_acked acked;
    struct seam_err err;
    for (size_t i = 0; i < n; i++)
        c.bytes += ops[i].key.len + ops[i].head.len + ops[i].body.len;
    expect_ok(seam_backend_vlog.prepare(e, &c, 0, &err), &err);
    expect_ok(seam_backend_vlog.commit(e, &c, &acked, &err), &err);
}

/* Every kind of op and of frame, a value in two parts, a range without an end, a roll. */
static void write_store(const char *path)
{
    int dir;
    assert_int_equal(mkdir(path, 0700), 0);
    struct seam_engine *e = open_bare(path, true, false, &dir);
    const struct seam_op first[] = {op_put(LIT("apple"), LIT("red")),
                                    op_put2(LIT("pear"), LIT("gre"), LIT("en")),
                                    op_put(LIT("empty"), LIT(""))};
    commit(e, first, 3, SEAM_ACK_POWER);
    const struct seam_op second[] = {op_delete(LIT("apple")), op_range(LIT("x"), LIT("y")),
                                     op_put(LIT("large"), seam_bytes(big, 130))};
    commit(e, second, 3, SEAM_ACK_NONE);
    const struct seam_op third[] = {op_put(LIT("larger"), seam_bytes(big, LARGER)),
                                    op_put(LIT("last"), LIT("1"))};
    commit(e, third, 2, SEAM_ACK_NONE);
    const struct seam_op fourth[] = {op_put(LIT("rolled"), seam_bytes(big, BIG))};
    commit(e, fourth, 1, SEAM_ACK_POWER);
    const struct seam_op fifth[] = {op_put(LIT("last"), LIT("2")),
                                    op_range(LIT("z"), seam_bytes(NULL, 0))};
    commit(e, fifth, 2, SEAM_ACK_POWER);
    close_bare(e, dir);
}

static void expect_pair(struct seam_engine *e, struct seam_slice key, const void *value, size_t len)
{
    struct seam_pin pin = {0};
    struct seam_err err;
    expect_ok(seam_backend_vlog.get(e, NULL, key, &pin, &err), &err);
    assert_int_equal(pin.value.len, len);
    if (len > 0)
        assert_memory_equal(pin.value.ptr, value, len);
    seam_backend_vlog.unpin(e, &pin);
}

static void expect_store(struct seam_engine *e)
{
    struct seam_stats stats = {0};
    struct seam_pin pin = {0};
    expect_pair(e, LIT("pear"), "green", 5);
    expect_pair(e, LIT("empty"), "", 0);
    expect_pair(e, LIT("large"), big, 130);
    expect_pair(e, LIT("larger"), big, LARGER);
    expect_pair(e, LIT("rolled"), big, BIG);
    expect_pair(e, LIT("last"), "2", 1);
    assert_int_equal(seam_backend_vlog.get(e, NULL, LIT("apple"), &pin, NULL), SEAM_NOTFOUND);
    expect_ok(seam_backend_vlog.stats(e, &stats, NULL), NULL);
    assert_int_equal(stats.keys, 6);
}

/* ---- text and files --------------------------------------------------------------------------- */

static size_t dump_file(const char *path, uint32_t number, char *text, size_t at)
{
    char name[512];
    unsigned char line[LINE];
    static const unsigned char none[LINE];
    struct stat st;
    (void)snprintf(name, sizeof name, "%s/%08x.seg", path, number);
    int fd = open(name, O_RDONLY);
    if (fd < 0)
        return at;
    assert_int_equal(fstat(fd, &st), 0);
    at += (size_t)snprintf(text + at, TEXT_MAX - at, "%08x.seg %lld\n", number,
                           (long long)st.st_size);
    for (off_t from = 0; from < st.st_size; from += LINE) {
        assert_int_equal(pread(fd, line, LINE, from), LINE);
        if (memcmp(line, none, LINE) == 0)
            continue;
        assert_true(at + 16 + 2 * LINE < TEXT_MAX);
        at += (size_t)snprintf(text + at, TEXT_MAX - at, "%08llx ", (long long)from);
        for (int i = 0; i < LINE; i++)
            at += (size_t)snprintf(text + at, TEXT_MAX - at, "%02x", line[i]);
        text[at++] = '\n';
        text[at] = 0;
    }
    close(fd);
    return at;
}

static void read_golden(char *text)
{
    int fd = open(VLOG_GOLDEN, O_RDONLY);
    assert_true(fd >= 0);
    ssize_t len = read(fd, text, TEXT_MAX - 1);
    assert_true(len > 0 && len < TEXT_MAX - 1);
    text[len] = 0;
    close(fd);
}

static void undump_line(int fd, const char *line)
{
    unsigned char bytes[LINE];
    unsigned long at = strtoul(line, NULL, 16);
    assert_int_equal(strlen(line), 9 + 2 * LINE);
    for (int i = 0; i < LINE; i++) {
        char two[3] = {line[9 + 2 * i], line[10 + 2 * i], 0};
        bytes[i] = (unsigned char)strtoul(two, NULL, 16);
    }
    assert_int_equal(pwrite(fd, bytes, LINE, (off_t)at), LINE);
}

static void undump(const char *path, char *text)
{
    int fd = -1;
    assert_int_equal(mkdir(path, 0700), 0);
    for (char *next, *line = text; *line; line = next) {
        char *end = strchr(line, '\n');
        assert_non_null(end);
        *end = 0;
        next = end + 1;
        if (strlen(line) > 8 && line[8] == '.') {
            char name[512];
            (void)snprintf(name, sizeof name, "%s/%.12s", path, line);
            if (fd >= 0)
                close(fd);
            fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
            assert_true(fd >= 0);
            assert_int_equal(ftruncate(fd, strtol(line + 13, NULL, 10)), 0);
        } else {
            undump_line(fd, line);
        }
    }
    close(fd);
}

/* ---- tests ------------------------------------------------------------------------------------ */

static void these_bytes_are_written(void **state)
{
    static char text[TEXT_MAX], golden[TEXT_MAX];
    const char *path = support_dir(), *out = getenv("VLOG_GOLDEN_OUT");
    size_t len = 0;
    (void)state;
    write_store(path);
    for (uint32_t number = 1; number < 16; number++)
        len = dump_file(path, number, text, len);
    if (out) {
        int fd = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        assert_int_equal(write(fd, text, len), (ssize_t)len);
        close(fd);
        return;
    }
    read_golden(golden);
    assert_string_equal(text, golden);
}

static void these_bytes_are_read(void **state)
{
    static char golden[TEXT_MAX];
    const char *path = support_dir();
    const struct seam_op more[] = {op_put(LIT("more"), LIT("m"))};
    int dir;
    (void)state;
    read_golden(golden);
    undump(path, golden);
    struct seam_engine *e = open_bare(path, false, true, &dir);
    expect_store(e);
    close_bare(e, dir);
    e = open_bare(path, false, false, &dir);
    expect_store(e);
    commit(e, more, 1, SEAM_ACK_POWER);
    close_bare(e, dir);
    e = open_bare(path, false, true, &dir);
    expect_pair(e, LIT("more"), "m", 1);
    expect_pair(e, LIT("larger"), big, LARGER);
    close_bare(e, dir);
}

int main(int argc, char **argv)
{
    int rc = support_begin(argc, argv);
    if (rc != 0)
        return rc;
    for (int i = 0; i < 64; i++) /* zeros between, which the text leaves out */
        big[i] = big[BIG - 1 - i] = (unsigned char)(i + 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(these_bytes_are_written),
        cmocka_unit_test(these_bytes_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
