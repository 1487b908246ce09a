/* test_vlog_group.c - a group of the native engine's, when a write or flush fails in the middle of it.
 *
 * Relies on the engine's table, called without the library above it, and on a platform whose writes
 * and flushes fail from one on. Values are so large that a segment holds few commits, so that one
 * group is several pieces of work. */
#include "support.h"

#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

extern const struct seam_backend seam_backend_vlog;

enum { MEMBERS = 4, VALUE = 40 << 10 };

static struct seam_platform os;
static int calls, fail_at; /* writes and flushes; fail_at 0: never */
static int late;           /* calls after the one that failed */

static bool fails(void)
{
    calls++;
    late += fail_at > 0 && calls > fail_at;
    return fail_at > 0 && calls == fail_at;
}

static ssize_t failing_pwritev(void *ctx, int fd, const struct iovec *parts, int n, uint64_t offset)
{
    return fails() ? -EIO : seam_platform_system()->pwritev(ctx, fd, parts, n, offset);
}

static int failing_sync(void *ctx, int fd)
{
    return fails() ? -EIO : seam_platform_system()->sync(ctx, fd);
}

static struct vlog *open_bare(int *ret_dir)
{
    static const uint64_t settings[] = {64 << 10, 4 << 10, 0, VLOG_IO_BUFFERED, 0, 512};
    static const uint8_t uuid[16] = {1};
    struct seam_engine *e = NULL;
    struct seam_err err;
    const char *path = support_dir();
    assert_int_equal(mkdir(path, 0700), 0);
    *ret_dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(*ret_dir >= 0);
    os = *seam_platform_system();
    os.pwritev = failing_pwritev;
    os.sync = failing_sync;
    struct seam_open_args args = {.os = &os,
                                  .dir = *ret_dir,
                                  .path = path,
                                  .create = true,
                                  .memory = 64 << 20,
                                  .disk = UINT64_MAX,
                                  .epoch = 1,
                                  .uuid = uuid,
                                  .settings = settings};
    expect_ok(seam_backend_vlog.open(&args, &e, &err), &err);
    e->be = &seam_backend_vlog;
    e->os = &os;
    return (struct vlog *)(void *)e;
}

/* One group; the call number `at` of its writes and flushes fails. Returns how many were made. */
static int one_group(int at)
{
    static char value[VALUE];
    static char keys[MEMBERS][16];
    struct seam_op ops[MEMBERS];
    struct seam_commit commits[MEMBERS];
    struct seam_member m[MEMBERS];
    int dir, unknown = 0, i = 0;
    fail_at = 0;
    struct vlog *v = open_bare(&dir);
    memset(m, 0, sizeof m);
    memset(commits, 0, sizeof commits);
    for (int k = 0; k < MEMBERS; k++) {
        snprintf(keys[k], sizeof keys[k], "k%d", k);
        ops[k] = op_put(seam_bytes(keys[k], 2), seam_bytes(value, VALUE));
        commits[k] = (struct seam_commit){.ops = &ops[k], .n = 1, .bytes = VALUE + 2,
                                          .ack = SEAM_ACK_POWER};
        expect_ok(seam_backend_vlog.prepare(&v->base, &commits[k], 0, NULL), NULL);
        m[k].commit = &commits[k];
        m[k].next = k + 1 < MEMBERS ? &m[k + 1] : NULL;
    }
    calls = late = 0;
    fail_at = at;
    vlog_group_run(v, m, MEMBERS);
    int made = calls;
    for (; i < MEMBERS && m[i].rc == SEAM_OK; i++)
        ;
    for (; i < MEMBERS && m[i].rc == SEAM_E_UNKNOWN; i++, unknown++)
        assert_int_equal(m[i].err.code, SEAM_E_UNKNOWN);
    for (; i < MEMBERS && m[i].rc == SEAM_E_POISONED; i++)
        assert_int_equal(m[i].err.code, SEAM_E_POISONED);
    assert_int_equal(i, MEMBERS); /* done, then in doubt, then not begun */
    assert_true(at == 0 ? unknown == 0 : unknown > 0);
    assert_true(at != 1 || unknown < MEMBERS); /* the first piece of work is not all */
    assert_int_equal(late, 0);
    for (int k = 0; k < MEMBERS; k++)
        seam_backend_vlog.abort(&v->base, &commits[k]); /* gives back, as its commit would */
    fail_at = 0;
    expect_ok(seam_backend_vlog.close(&v->base, NULL), NULL);
    (void)close(dir);
    return made;
}

static void what_was_not_begun_is_not_done(void **state)
{
    (void)state;
    int all = one_group(0);
    assert_true(all >= 4); /* at least two pieces, each with a write and a flush */
    for (int at = 1; at <= all; at++)
        assert_int_equal(one_group(at), at);
}

int main(int argc, char **argv)
{
    int rc = support_begin(argc, argv);
    if (rc != 0)
        return rc;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_not_begun_is_not_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
