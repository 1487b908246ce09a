/* support.c - see support.h.
 *
 * Relies on the public headers and on POSIX. Keeps true: whatever a test leaves in a directory from
 * support_dir is gone when the process that called support_begin exits, however it exits. */
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef SEAM_TEST_TMP
#define SEAM_TEST_TMP "."
#endif

static struct {
    const char *spec;
    char engine[512];
    bool is_volatile;
    uint64_t seed;
    char root[256];
    pid_t owner;
    unsigned dirs;
} support;

/* ---- begin --------------------------------------------------------------------------------- */

uint64_t support_number(const char *variable, uint64_t fallback)
{
    const char *text = getenv(variable);
    uint64_t n;

    if (!text || !*text)
        return fallback;
    if (seam_parse_count(text, &n, NULL) != SEAM_OK) {
        fprintf(stderr, "%s=%s is not a number\n", variable, text);
        exit(2);
    }
    return n;
}

uint32_t support_every(uint32_t plain)
{
#if defined(__SANITIZE_THREAD__)
    plain *= 20;
#elif defined(__SANITIZE_ADDRESS__)
    plain *= 5;
#endif
    return (uint32_t)support_number("SEAM_EVERY", plain);
}

static void remove_root(void)
{
    if (support.root[0] && getpid() == support.owner)
        support_remove(support.root);
}

static int make_root(void)
{
    const char *tmp = getenv("TMPDIR");

    if (!tmp || !*tmp) /* an installed program is away from where it was built */
        tmp = access(SEAM_TEST_TMP, W_OK) == 0 ? SEAM_TEST_TMP : "/tmp";
    snprintf(support.root, sizeof(support.root), "%s/seam-test-XXXXXX", tmp);
    if (!mkdtemp(support.root)) {
        fprintf(stderr, "cannot make %s: set TMPDIR to a directory\n", support.root);
        return 2;
    }
    support.owner = getpid();
    atexit(remove_root);
    return 0;
}

static bool find_engine(const char *name, struct seam_engine_info *ret)
{
    struct seam_engine_info all[64];
    size_t n = seam_engines(all, 64);

    for (size_t i = 0; i < n && i < 64; i++)
        if (strcmp(all[i].name, name) == 0) {
            *ret = all[i];
            return true;
        }
    return false;
}

/* A plug-in is in no list; what it is shows when it is opened without a directory. */
static int find_plugin(const char *spec, struct seam_engine_info *ret)
{
    struct seam_db *db = NULL;
    struct seam_err err = {0};
    int rc = seam_open(spec, NULL, NULL, &db, &err);

    if (rc != SEAM_OK && rc != SEAM_E_NO_STORE) {
        fprintf(stderr, "%s\n", err.text);
        return 2;
    }
    ret->is_volatile = rc == SEAM_OK;
    (void)seam_close(db, NULL);
    return 0;
}

int support_begin(int argc, char **argv)
{
    struct seam_engine_info info;
    struct timespec now;
    const char *last;

    if (argc > 2) {
        fprintf(stderr, "usage: %s [ENGINE-SPEC]\n", argv[0]);
        return 2;
    }
    support.spec = argc == 2 ? argv[1] : "mem";
    last = strrchr(support.spec, '+');
    last = last ? last + 1 : support.spec;
    snprintf(support.engine, sizeof(support.engine), "%.*s", (int)strcspn(last, ":"), last);
    if (strchr(support.engine, '/')) {
        int rc = find_plugin(support.spec, &info);
        if (rc != 0)
            return rc;
    } else if (!find_engine(support.engine, &info) || !info.built_in) {
        fprintf(stderr, "engine '%s' is not built in\n", support.engine);
        return 77;
    }
    support.is_volatile = info.is_volatile;
    clock_gettime(CLOCK_REALTIME, &now);
    support.seed = support_number(
        "SEAM_SEED", ((uint64_t)now.tv_nsec ^ (uint64_t)getpid() << 20) % 1000000000u);
    printf("engine %s, SEAM_SEED=%llu\n", support.spec, (unsigned long long)support.seed);
    fflush(stdout);
    return make_root();
}

const char *support_spec(void)
{
    return support.spec;
}

const char *support_engine(void)
{
    return support.engine;
}

bool support_volatile(void)
{
    return support.is_volatile;
}

uint64_t support_seed(void)
{
    return support.seed;
}

bool support_has(const char *layer)
{
    struct seam_engine_info info;

    return find_engine(layer, &info) && info.built_in;
}

bool support_tunes(const char *layer, const char *option)
{
    for (const struct seam_tuning *t = seam_engine_tunings(layer); t && t->name; t++)
        if (strcmp(t->name, option) == 0)
            return true;
    return false;
}

const char *support_text(const char *format, ...)
{
    static char buffers[8][512];
    static unsigned turn;
    char *buf = buffers[turn++ % 8];
    va_list args;

    va_start(args, format);
    vsnprintf(buf, sizeof(buffers[0]), format, args);
    va_end(args);
    return buf;
}

/* ---- directories --------------------------------------------------------------------------- */

const char *support_dir(void)
{
    return support_text("%s/%u", support.root, support.dirs++);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path) != 0 && errno != ENOENT;
}

static int open_up(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)at;
    if (type == FTW_DNR || (type == FTW_D && (st->st_mode & 0700) != 0700))
        (void)chmod(path, 0700);
    return 0;
}

void support_remove(const char *path)
{
    nftw(path, open_up, 16, FTW_PHYS);
    nftw(path, remove_one, 16, FTW_PHYS | FTW_DEPTH);
}

static uint64_t mix(uint64_t sum, const void *bytes, size_t len)
{
    const unsigned char *p = bytes;

    for (size_t i = 0; i < len; i++)
        sum = (sum ^ p[i]) * UINT64_C(0x100000001b3);
    return sum;
}

static uint64_t fingerprint_sum;

/* Summed over entries, so that the order of a directory does not matter. */
static int fingerprint_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    static char buf[65536];
    uint64_t sum = mix(UINT64_C(0xcbf29ce484222325), path, strlen(path));
    ssize_t n;
    int fd;

    (void)at;
    sum = mix(sum, &st->st_mode, sizeof(st->st_mode));
    if (type == FTW_F) {
        sum = mix(sum, &st->st_size, sizeof(st->st_size));
        fd = open(path, O_RDONLY);
        while (fd >= 0 && (n = read(fd, buf, sizeof(buf))) > 0)
            sum = mix(sum, buf, (size_t)n);
        if (fd >= 0)
            close(fd);
    }
    fingerprint_sum += sum;
    return 0;
}

uint64_t support_fingerprint(const char *path)
{
    fingerprint_sum = 0;
    if (!path)
        return 0;
    nftw(path, fingerprint_one, 16, FTW_PHYS);
    return fingerprint_sum;
}

struct seam_db *support_open_with(const char *spec, const char *dir,
                                  const struct seam_options *options)
{
    struct seam_options o = {0};
    struct seam_db *db = NULL;
    struct seam_err err = {0};

    if (options)
        o = *options;
    else
        o.mode = SEAM_OPEN_CREATE;
    expect_ok(seam_open(spec, dir, &o, &db, &err), &err);
    return db;
}

struct seam_db *support_open(const char *dir)
{
    return support_open_with(support.spec, dir, NULL);
}

void support_close(struct seam_db *db)
{
    struct seam_err err = {0};

    expect_ok(seam_close(db, &err), &err);
}

/* ---- chance -------------------------------------------------------------------------------- */

uint64_t support_next(struct support_rng *rng)
{
    uint64_t x = rng->state += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t support_below(struct support_rng *rng, uint64_t n)
{
    return support_next(rng) % n;
}

void support_fill(void *buf, size_t len, uint64_t seed)
{
    struct support_rng rng = {seed};
    unsigned char *p = buf;

    for (size_t i = 0; i < len; i += 8) {
        uint64_t word = support_next(&rng);
        memcpy(p + i, &word, len - i < 8 ? len - i : 8);
    }
}

/* ---- asserts ------------------------------------------------------------------------------- */

static void fail_at(const char *file, int line, const char *format, ...) SEAM_PRINTF(3, 4);
static void fail_at(const char *file, int line, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    print_error("%s\n", text);
    _fail(file, line);
}

void support_expect_code(int got, int want, const struct seam_err *err, const char *what,
                         const char *file, int line)
{
    if (got == want)
        return;
    fail_at(file, line, "%.200s\n  is %s, expected %s: %s", what, seam_code_name(got),
            seam_code_name(want), err && got < 0 ? err->text : "");
}

bool support_same(struct seam_slice a, struct seam_slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static const char *shown(struct seam_slice s)
{
    char text[200];
    size_t at = 0;

    for (size_t i = 0; i < s.len && i < 32; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%02x ",
                               ((const unsigned char *)s.ptr)[i]);
    return support_text("%zu bytes %.*s", s.len, (int)at, text);
}

void support_expect_bytes(struct seam_slice got, struct seam_slice want, const char *file,
                          int line)
{
    if (!support_same(got, want))
        fail_at(file, line, "got %s, expected %s", shown(got), shown(want));
}

void support_expect_holds(struct seam_db *db, struct seam_snap *snap, struct seam_slice key,
                          struct seam_slice value, const char *file, int line)
{
    struct seam_err err = {0};
    struct seam_pin pin;

    support_expect_code(seam_get(db, snap, key, &pin, &err), SEAM_OK, &err, shown(key), file, line);
    support_expect_bytes(pin.value, value, file, line);
    seam_unpin(&pin);
}

void support_expect_absent(struct seam_db *db, struct seam_snap *snap, struct seam_slice key,
                           const char *file, int line)
{
    struct seam_err err = {0};
    struct seam_pin pin;
    int rc = seam_get(db, snap, key, &pin, &err);

    support_expect_code(rc, SEAM_NOTFOUND, &err, shown(key), file, line);
}

void support_write_ok(struct seam_db *db, const struct seam_op *ops, size_t n, const char *file,
                      int line)
{
    struct seam_err err = {0};
    int rc = seam_write(db, ops, n, SEAM_ACK_NONE, NULL, &err);

    support_expect_code(rc, SEAM_OK, &err, "seam_write", file, line);
}

void support_put_ok(struct seam_db *db, struct seam_slice key, struct seam_slice value,
                    const char *file, int line)
{
    struct seam_op op = op_put(key, value);

    support_write_ok(db, &op, 1, file, line);
}

void support_expect_keys(struct seam_db *db, struct seam_snap *snap, const char *list,
                         const char *file, int line)
{
    struct seam_err err = {0};
    struct seam_cursor *c = NULL;
    struct seam_slice key;
    int rc = seam_cursor_open(db, snap, NONE, NONE, &c, &err);

    support_expect_code(rc, SEAM_OK, &err, "seam_cursor_open", file, line);
    while (*list) {
        size_t len = strcspn(list, " ");
        rc = seam_cursor_move(c, SEAM_NEXT, NONE, &key, &err);
        support_expect_code(rc, SEAM_OK, &err, list, file, line);
        support_expect_bytes(key, seam_bytes(list, len), file, line);
        list += len + (list[len] == ' ');
    }
    rc = seam_cursor_move(c, SEAM_NEXT, NONE, &key, &err);
    support_expect_code(rc, SEAM_NOTFOUND, &err, "the end of the keys", file, line);
    seam_cursor_close(c);
}
