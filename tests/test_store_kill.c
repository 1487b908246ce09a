/* test_store_kill.c - a creation, and the adding of a projection, killed before every platform call.
 *
 * Arguments: the journal's engine, and that of the projections. A child opens on a table that ends it at
 * call i; the parent then opens with mode create, which must make, or find, the whole store. Calls
 * that an engine makes past the table are not counted. */
#include "store_support.h"

#include <seam/platform.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KILLED = 9, MOST = 2000 };

struct fuse {
    uint64_t left;
};

static void burn(void *ctx)
{
    struct fuse *f = ctx;
    if (--f->left == 0)
        _exit(KILLED);
}

static const struct seam_platform *under(void)
{
    return seam_platform_system();
}

static int k_open(void *ctx, int dir, const char *name, int flags)
{
    burn(ctx);
    return under()->open(under()->ctx, dir, name, flags);
}

static int k_sync(void *ctx, int fd)
{
    burn(ctx);
    return under()->sync(under()->ctx, fd);
}

static int k_sync_dir(void *ctx, int fd)
{
    burn(ctx);
    return under()->sync_dir(under()->ctx, fd);
}

static int k_rename(void *ctx, int from_dir, const char *from, int to_dir, const char *to)
{
    burn(ctx);
    return under()->rename(under()->ctx, from_dir, from, to_dir, to);
}

static int k_unlink(void *ctx, int dir, const char *name)
{
    burn(ctx);
    return under()->unlink(under()->ctx, dir, name);
}

static int k_mkdir(void *ctx, int dir, const char *name)
{
    burn(ctx);
    return under()->mkdir(under()->ctx, dir, name);
}

static ssize_t k_pwritev(void *ctx, int fd, const struct iovec *parts, int n, uint64_t offset)
{
    burn(ctx);
    return under()->pwritev(under()->ctx, fd, parts, n, offset);
}

/* Runs the open in a child that dies before call i; false: it got to the end. */
static bool die_at(struct site *s, uint64_t i)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct fuse fuse = {i};
        struct seam_platform os = *under();
        struct seam_store *store;
        os.ctx = &fuse;
        os.open = k_open;
        os.sync = k_sync;
        os.sync_dir = k_sync_dir;
        os.rename = k_rename;
        os.unlink = k_unlink;
        os.mkdir = k_mkdir;
        os.pwritev = k_pwritev;
        s->options.platform = &os;
        s->options.mode = SEAM_OPEN_CREATE;
        _exit(seam_store_open(s->dir, &s->options, &store, NULL) == SEAM_OK ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_not_equal(WEXITSTATUS(status), 1);
    return WEXITSTATUS(status) == KILLED;
}

static void killed_at_every_call(size_t first)
{
    bool died = true;
    for (uint64_t i = 1; died; i++) {
        struct site s;
        struct seam_err err;
        assert_true(i < MOST);
        site_new(&s);
        if (first > 0) {
            s.options.n = first;
            site_close(site_open(&s, SEAM_OPEN_CREATE));
            s.options.n = 2;
        }
        died = die_at(&s, i);
        struct seam_store *store = site_open(&s, SEAM_OPEN_CREATE);
        assert_false(site_has(&s, "MAKING"));
        site_append(store, "k", "1");
        ok(seam_store_catch_up(store, NULL, &err), err);
        table_expect(seam_store_projection(store, "far"), NULL, "k", "1");
        site_close(store);
        site_close(site_open(&s, SEAM_OPEN_EXISTING));
        site_remove(&s);
        if (!died)
            print_message("%llu calls\n", (unsigned long long)i - 1);
    }
}

static void creation(void **state)
{
    (void)state;
    killed_at_every_call(0);
}

static void addition(void **state)
{
    (void)state;
    killed_at_every_call(1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(creation),
        cmocka_unit_test(addition),
    };
    if (argc != 3)
        return 2;
    site_journal = argv[1];
    site_near = argv[2];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
