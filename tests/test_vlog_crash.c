/* test_vlog_crash.c - the power fails at every call that the native engine makes to its files.
 *
 * A platform table stands before the system's and remembers, of each file, the 512-byte sectors that
 * were written since its last flush, as they were before. Before each write, flush, rename and
 * removal it makes pictures of the store as a power cut could leave it: all sectors written, none,
 * and random subsets; then opens each and holds it to what was acked. Names are taken to change at
 * once and in order: what the store directory makes of names is tested elsewhere. A sample of the
 * pictures is opened under such a table too, so that the power fails again while the open works.
 * Relies on spare=0: no thread makes calls of its own. SEAM_EVERY: of so many calls one is taken, by
 * the seed; 1: each. */
#include "support.h"

#include <seam/platform.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECTOR = 512, FILES = 64, KEYS = 16, PATH = 600, COMMITS = 220 };

struct sector {
    uint64_t index;
    unsigned char old[SECTOR];
};

struct file {
    char path[PATH];
    struct sector *dirty;
    size_t n, cap;
};

struct power {
    struct seam_platform table;
    const struct seam_platform *real;
    char dir[PATH];
    const char *spec;
    struct file files[FILES];
    bool sync_fd[1024];  /* opened with DSYNC */
    bool armed, nested;  /* nested: this is an open of a picture */
    uint64_t calls, states, every;
    uint64_t acked, begun; /* commits */
    uint64_t exact;        /* not 0: what every picture must hold, since it was read */
    struct support_rng rng;
    bool lose_sync; /* a mutant: flushes do nothing, to see that this test would notice */
    uint64_t lost;
};

/* ---- the work --------------------------------------------------------------------------------- */

static unsigned char filler[6000];

/* Commit i: its number, and one thing that follows from it. */
static size_t commit_of(uint64_t i, uint64_t *stamp, unsigned char *key, struct seam_op *ops)
{
    static const size_t lens[] = {10, 700, 0, 3000, 40, 5000, 90};
    *stamp = i;
    ops[0] = op_put(LIT("n"), seam_bytes(stamp, 8));
    *key = (unsigned char)('A' + i % KEYS);
    if (i % 11 == 5)
        ops[1] = op_delete(seam_bytes(key, 1));
    else if (i % 31 == 30)
        ops[1] = op_range(LIT("A"), LIT("E"));
    else
        ops[1] = op_put2(seam_bytes(key, 1), seam_bytes(stamp, 8), seam_bytes(filler, lens[i % 7]));
    return 2;
}

/* Which commit wrote the key's value after n commits; 0: there is none. */
static uint64_t writer_of(unsigned k, uint64_t n)
{
    for (uint64_t i = n; i > 0; i--) {
        if (i % 11 == 5) {
            if (i % KEYS == k)
                return 0;
        } else if (i % 31 == 30) {
            if (k < 4)
                return 0;
        } else if (i % KEYS == k) {
            return i;
        }
    }
    return 0;
}

/* The number of commits that db holds; fails unless they are exactly the first so many. */
static uint64_t state_of(struct seam_db *db)
{
    struct seam_pin pin = {0};
    uint64_t n = 0, stamp;
    int rc = seam_get(db, NULL, LIT("n"), &pin, NULL);
    if (rc == SEAM_OK) {
        memcpy(&n, pin.value.ptr, 8);
        seam_unpin(&pin);
    }
    for (unsigned k = 0; k < KEYS; k++) {
        unsigned char key = (unsigned char)('A' + k);
        uint64_t want = writer_of(k, n);
        rc = seam_get(db, NULL, seam_bytes(&key, 1), &pin, NULL);
        assert_int_equal(rc, want ? SEAM_OK : SEAM_NOTFOUND);
        if (!want)
            continue;
        memcpy(&stamp, pin.value.ptr, 8);
        assert_int_equal(stamp, want);
        assert_memory_equal((const unsigned char *)pin.value.ptr + 8, filler, pin.value.len - 8);
        seam_unpin(&pin);
    }
    return n;
}

/* ---- pictures --------------------------------------------------------------------------------- */

static void copy_tree(const char *from, const char *to)
{
    char a[PATH], b[PATH], bytes[4096];
    DIR *d = opendir(from);
    assert_non_null(d);
    assert_int_equal(mkdir(to, 0700), 0);
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        struct stat st;
        (void)snprintf(a, sizeof a, "%.250s/%.40s", from, e->d_name);
        (void)snprintf(b, sizeof b, "%.250s/%.40s", to, e->d_name);
        assert_int_equal(lstat(a, &st), 0);
        if (!S_ISREG(st.st_mode))
            continue;
        int in = open(a, O_RDONLY), out = open(b, O_WRONLY | O_CREAT | O_EXCL, 0600);
        assert_true(in >= 0 && out >= 0);
        for (ssize_t n = read(in, bytes, sizeof bytes); n > 0; n = read(in, bytes, sizeof bytes))
            assert_int_equal(write(out, bytes, (size_t)n), n);
        close(in);
        close(out);
    }
    closedir(d);
}

/* keep: 0 none of the unflushed sectors, 1 all, else a random half. */
static void picture(struct power *p, const char *to, int keep)
{
    char a[PATH], b[PATH];
    copy_tree(p->dir, to);
    (void)snprintf(a, sizeof a, "%.300s/engine", p->dir);
    (void)snprintf(b, sizeof b, "%.300s/engine", to);
    copy_tree(a, b);
    for (int i = 0; i < FILES; i++) {
        struct file *f = &p->files[i];
        size_t root = strlen(p->dir);
        if (f->n == 0 || strncmp(f->path, p->dir, root) != 0)
            continue;
        (void)snprintf(a, sizeof a, "%.300s%.200s", to, f->path + root);
        int fd = open(a, O_WRONLY);
        assert_true(fd >= 0);
        for (size_t s = 0; s < f->n; s++)
            if (keep == 0 || (keep > 1 && support_below(&p->rng, 2)))
                assert_int_equal(pwrite(fd, f->dirty[s].old, SECTOR,
                                        (off_t)(f->dirty[s].index * SECTOR)),
                                 SECTOR);
        close(fd);
    }
}

static void power_init(struct power *p, const char *dir, const char *spec);
static void power_end(struct power *p);

static void hold_to(struct power *p, const char *dir, const struct seam_options *o)
{
    struct seam_db *db;
    struct seam_err err = {0};
    int rc = seam_open(p->spec, dir, o, &db, &err);
    if (rc != SEAM_OK && p->lose_sync) {
        p->lost++;
        return;
    }
    if (rc != SEAM_OK)
        fail_msg("call %llu: the store does not open: %s", (unsigned long long)p->calls, err.text);
    struct seam_pin pin = {0};
    uint64_t n = 0;
    if (p->lose_sync) {
        if (seam_get(db, NULL, LIT("n"), &pin, NULL) == SEAM_OK)
            memcpy(&n, pin.value.ptr, 8);
        seam_unpin(&pin);
        p->lost += n < p->acked;
    } else {
        n = state_of(db);
        if (n < p->acked || n > p->begun || (p->exact && n != p->exact))
            fail_msg("call %llu: %llu commits, of %llu acked and %llu begun, %llu read before",
                     (unsigned long long)p->calls, (unsigned long long)n,
                     (unsigned long long)p->acked, (unsigned long long)p->begun,
                     (unsigned long long)p->exact);
    }
    assert_int_equal(seam_close(db, NULL), SEAM_OK);
}

/* Opens a picture with the power failing again on the way, and after its first read. */
static void hold_nested(struct power *p, const char *dir)
{
    struct power inner;
    struct seam_db *db;
    power_init(&inner, dir, p->spec);
    struct seam_options o = {.mode = SEAM_OPEN_EXISTING, .platform = &inner.table};
    inner.nested = inner.armed = true;
    inner.acked = p->acked;
    inner.begun = p->begun;
    inner.rng = p->rng;
    struct seam_err err = {0};
    if (seam_open(p->spec, dir, &o, &db, &err) != SEAM_OK)
        fail_msg("call %llu, nested: %s", (unsigned long long)p->calls, err.text);
    inner.exact = state_of(db);
    uint64_t stamp;
    unsigned char key;
    struct seam_op ops[2];
    if (inner.exact > 0) { /* the same again: so the state is the same, and it is written */
        size_t n = commit_of(inner.exact, &stamp, &key, ops);
        assert_int_equal(seam_write(db, ops, n, SEAM_ACK_POWER, NULL, &err), SEAM_OK);
    }
    assert_int_equal(seam_close(db, NULL), SEAM_OK);
    p->states += inner.states;
    power_end(&inner);
}

static void crash(struct power *p)
{
    static const struct seam_options existing = {.mode = SEAM_OPEN_EXISTING},
                                     read_only = {.mode = SEAM_OPEN_READ_ONLY};
    p->calls++;
    if (!p->armed || (p->every > 1 && support_below(&p->rng, p->every) != 0))
        return;
    p->armed = false;
    for (int keep = 0; keep < (p->nested ? 3 : 5); keep++) {
        char *dir = strdup(support_dir());
        picture(p, dir, keep);
        hold_to(p, dir, &read_only);
        if (!p->lose_sync && !p->nested && support_below(&p->rng, 40) == 0)
            hold_nested(p, dir);
        else
            hold_to(p, dir, &existing);
        support_remove(dir);
        free(dir);
        p->states++;
    }
    p->armed = true;
}

/* ---- the table -------------------------------------------------------------------------------- */

static struct file *file_of(struct power *p, const char *path, bool make)
{
    struct file *free_one = NULL;
    for (int i = 0; i < FILES; i++) {
        if (strcmp(p->files[i].path, path) == 0)
            return &p->files[i];
        if (!p->files[i].path[0] && !free_one)
            free_one = &p->files[i];
    }
    if (!make)
        return NULL;
    assert_non_null(free_one);
    (void)snprintf(free_one->path, PATH, "%.500s", path);
    free_one->n = 0;
    return free_one;
}

static void path_of_fd(int fd, char *buf)
{
    char link[64];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, buf, PATH - 1);
    assert_true(n > 0);
    buf[n] = 0;
}

static void path_in(int dir, const char *name, char *buf)
{
    char at[PATH];
    path_of_fd(dir, at);
    (void)snprintf(buf, PATH, "%.400s/%.100s", at, name);
}

static void remember(struct file *f, int fd, uint64_t index)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->dirty[i].index == index)
            return;
    if (f->n == f->cap) {
        f->cap = f->cap ? f->cap * 2 : 64;
        f->dirty = realloc(f->dirty, f->cap * sizeof *f->dirty);
        assert_non_null(f->dirty);
    }
    struct sector *s = &f->dirty[f->n++];
    s->index = index;
    memset(s->old, 0, SECTOR);
    char path[PATH];
    path_of_fd(fd, path);
    int plain = open(path, O_RDONLY); /* fd may be a direct one */
    assert_true(plain >= 0);
    (void)!pread(plain, s->old, SECTOR, (off_t)(index * SECTOR));
    close(plain);
}

static int power_open(void *ctx, int dir, const char *name, int flags)
{
    struct power *p = ctx;
    int fd = p->real->open(p->real->ctx, dir, name, flags);
    assert_true(fd < 1024); /* descriptors are given back */
    if (fd >= 0)
        p->sync_fd[fd] = (flags & SEAM_FILE_DSYNC) != 0;
    return fd;
}

static ssize_t power_pwritev(void *ctx, int fd, const struct iovec *parts, int n, uint64_t offset)
{
    struct power *p = ctx;
    char path[PATH];
    uint64_t len = 0;
    crash(p);
    for (int i = 0; i < n; i++)
        len += parts[i].iov_len;
    path_of_fd(fd, path);
    struct file *f = file_of(p, path, true);
    size_t before = f->n;
    for (uint64_t s = offset / SECTOR; len > 0 && s <= (offset + len - 1) / SECTOR; s++)
        remember(f, fd, s);
    ssize_t put = p->real->pwritev(p->real->ctx, fd, parts, n, offset);
    if (p->sync_fd[fd]) {
        crash(p); /* written, not flushed yet */
        if (!p->lose_sync)
            f->n = before;
    }
    return put;
}

static int power_sync(void *ctx, int fd)
{
    struct power *p = ctx;
    char path[PATH];
    crash(p);
    int rc = p->real->sync(p->real->ctx, fd);
    path_of_fd(fd, path);
    struct file *f = file_of(p, path, false);
    if (f && rc >= 0 && !p->lose_sync)
        f->n = 0;
    return rc;
}

static int power_rename(void *ctx, int from_dir, const char *from, int to_dir, const char *to)
{
    struct power *p = ctx;
    char a[PATH], b[PATH];
    crash(p);
    path_in(from_dir, from, a);
    path_in(to_dir, to, b);
    struct file *f = file_of(p, b, false);
    int rc = p->real->rename(p->real->ctx, from_dir, from, to_dir, to);
    if (rc < 0)
        return rc;
    if (f)
        f->path[0] = 0;
    f = file_of(p, a, false);
    if (f)
        (void)snprintf(f->path, PATH, "%.500s", b);
    return rc;
}

static int power_unlink(void *ctx, int dir, const char *name)
{
    struct power *p = ctx;
    char path[PATH];
    crash(p);
    path_in(dir, name, path);
    struct file *f = file_of(p, path, false);
    if (f)
        f->path[0] = 0;
    return p->real->unlink(p->real->ctx, dir, name);
}

static void power_init(struct power *p, const char *dir, const char *spec)
{
    char real[PATH * 8];
    memset(p, 0, sizeof *p);
    p->real = seam_platform_system();
    p->table = *p->real;
    p->table.ctx = p;
    p->table.open = power_open;
    p->table.pwritev = power_pwritev;
    p->table.sync = power_sync;
    p->table.rename = power_rename;
    p->table.unlink = power_unlink;
    p->spec = spec;
    p->rng.state = support_seed();
    (void)snprintf(p->dir, PATH, "%.500s", realpath(dir, real) ? real : dir);
}

static void power_end(struct power *p)
{
    for (int i = 0; i < FILES; i++)
        free(p->files[i].dirty);
}

static void run(const char *spec, uint64_t commits, struct power *p)
{
    char *dir = strdup(support_dir());
    support_close(support_open_with(spec, dir, NULL));
    power_init(p, dir, spec);
    p->every = support_number("SEAM_EVERY", 8);
    struct seam_options o = {.mode = SEAM_OPEN_EXISTING, .platform = &p->table};
    struct seam_db *db = NULL;
    struct seam_err err = {0};
    for (uint64_t i = 1; i <= commits; i++) {
        uint64_t stamp;
        unsigned char key;
        struct seam_op ops[2];
        if (!db)
            assert_int_equal(seam_open(spec, dir, &o, &db, &err), SEAM_OK);
        size_t n = commit_of(i, &stamp, &key, ops);
        bool power = i % 3 != 0;
        p->begun = i;
        p->armed = true;
        assert_int_equal(seam_write(db, ops, n, power ? SEAM_ACK_POWER : SEAM_ACK_PROCESS, NULL,
                                    &err),
                         SEAM_OK);
        if (power)
            p->acked = i;
        if (i % 73 == 0) {
            assert_int_equal(seam_close(db, NULL), SEAM_OK);
            p->acked = i;
            db = NULL;
        }
        p->armed = false;
    }
    assert_int_equal(seam_close(db, NULL), SEAM_OK);
    print_message("%s: %llu commits, %llu calls, %llu states\n", spec,
                  (unsigned long long)commits, (unsigned long long)p->calls,
                  (unsigned long long)p->states);
    power_end(p);
    support_remove(dir);
    free(dir);
}

static void test_buffered(void **state)
{
    struct power p;
    (void)state;
    run("vlog:segment=64K,spare=0,threshold=600,io=buffered", COMMITS, &p);
    assert_true(p.states > 100);
}

static void test_direct(void **state)
{
    struct power p;
    (void)state;
    run("vlog:segment=64K,spare=0,threshold=600", COMMITS, &p);
}

/* A store whose flushes do nothing is found out. */
static void test_mutant(void **state)
{
    struct power p;
    char *dir = strdup(support_dir());
    const char *spec = "vlog:segment=64K,spare=0,io=buffered";
    (void)state;
    support_close(support_open_with(spec, dir, NULL));
    power_init(&p, dir, spec);
    p.lose_sync = true;
    struct seam_options o = {.mode = SEAM_OPEN_EXISTING, .platform = &p.table};
    struct seam_db *db = support_open_with(spec, dir, &o);
    for (uint64_t i = 1; i <= 10; i++) {
        uint64_t stamp;
        unsigned char key;
        struct seam_op ops[2];
        size_t n = commit_of(i, &stamp, &key, ops);
        p.begun = i;
        p.armed = true;
        assert_int_equal(seam_write(db, ops, n, SEAM_ACK_POWER, NULL, NULL), SEAM_OK);
        p.acked = i;
        p.armed = false;
    }
    assert_int_equal(seam_close(db, NULL), SEAM_OK);
    assert_true(p.lost > 0);
    power_end(&p);
    free(dir);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buffered),
        cmocka_unit_test(test_direct),
        cmocka_unit_test(test_mutant),
    };
    int rc = support_begin(argc, argv);
    support_fill(filler, sizeof filler, 5);
    return rc ? rc : cmocka_run_group_tests_name("vlog_crash", tests, NULL, NULL);
}
