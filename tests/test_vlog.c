/* test_vlog.c - what only the native engine has: its bytes, its tail, its rolls, its failures. */
#include "support.h"

#include "format.h"
#include "tree.h"

#include <seam/platform.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define SMALL "vlog:segment=64K,spare=0,threshold=100"

static const struct seam_options read_only = {.mode = SEAM_OPEN_READ_ONLY};

static void path_of(char *buf, size_t cap, const char *dir, const char *sub, const char *name)
{
    int n = snprintf(buf, cap, "%s%s/%s", dir, sub, name);
    assert_true(n > 0 && (size_t)n < cap);
}

static unsigned char *slurp(const char *path, size_t *ret_len)
{
    struct stat st;
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    unsigned char *bytes = malloc((size_t)st.st_size + 1);
    assert_non_null(bytes);
    assert_int_equal(read(fd, bytes, (size_t)st.st_size), st.st_size);
    close(fd);
    *ret_len = (size_t)st.st_size;
    return bytes;
}

static void spill(const char *path, const void *bytes, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), (ssize_t)len);
    close(fd);
}

static void poke(const char *path, size_t at, const void *bytes, size_t len)
{
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, len, (off_t)at), (ssize_t)len);
    close(fd);
}

/* The files of a store as they are now, as after a kill. */
static void copy_store(const char *from, const char *to)
{
    static const char *const subs[] = {"", "/engine"};
    char a[512], b[512];
    for (int i = 0; i < 2; i++) {
        path_of(b, sizeof b, to, subs[i], "");
        assert_int_equal(mkdir(b, 0700), 0);
        path_of(a, sizeof a, from, subs[i], "");
        DIR *d = opendir(a);
        assert_non_null(d);
        for (struct dirent *e = readdir(d); e; e = readdir(d)) {
            struct stat st;
            size_t len;
            path_of(a, sizeof a, from, subs[i], e->d_name);
            path_of(b, sizeof b, to, subs[i], e->d_name);
            if (stat(a, &st) != 0 || !S_ISREG(st.st_mode))
                continue;
            unsigned char *bytes = slurp(a, &len);
            spill(b, bytes, len);
            free(bytes);
        }
        closedir(d);
    }
}

/* The path of the segment whose place in the log is the last. */
static void last_segment(char *buf, size_t cap, const char *dir)
{
    uint64_t best = 0;
    char path[512];
    path_of(path, sizeof path, dir, "/engine", "");
    DIR *d = opendir(path);
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        struct vlog_header h;
        size_t len;
        if (strlen(e->d_name) != 12)
            continue;
        path_of(path, sizeof path, dir, "/engine", e->d_name);
        unsigned char *bytes = slurp(path, &len);
        if (vlog_header_decode(bytes, &h) && h.id > best) {
            best = h.id;
            assert_true(strlen(path) < cap);
            memcpy(buf, path, strlen(path) + 1);
        }
        free(bytes);
    }
    closedir(d);
    assert_true(best > 0);
}

static void write_one(struct seam_db *db, const char *key, const void *value, size_t len,
                      uint32_t ack)
{
    struct seam_err err = {0};
    struct seam_op op = op_put(seam_bytes(key, strlen(key)), seam_bytes(value, len));
    assert_int_equal(seam_write(db, &op, 1, ack, NULL, &err), SEAM_OK);
}

/* ---- the bytes ------------------------------------------------------------------------------- */

static uint32_t word(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void test_golden(void **state)
{
    unsigned char block[VLOG_BLOCK], frame[VLOG_FRAME], record[64];
    struct vlog_header h = {.id = 2, .size = 65536, .prev_end = 4160, .oldest = 1, .epoch = 3,
                            .seq = 7, .durable = 4096, .number = 0x1234};
    struct vlog_frame f = {.total = 96, .kind = VLOG_COMMIT, .body_crc = 0x01020304, .seq = 8,
                           .index = 17, .ops = 1, .durable = 4096, .prev = 5, .oldest = 1};
    static const unsigned char put[] = {1, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 'k', 'v', 'a', 'l', '1'};
    struct seam_op op = op_put2(LIT("k"), LIT("va"), LIT("l1"));
    struct vlog_frame back;
    (void)state;
    for (int i = 0; i < 16; i++)
        h.uuid[i] = (uint8_t)i;
    vlog_header_encode(&h, block);
    assert_memory_equal(block, "SeamVlog\1\0\0\0\x34\x12\0\0\0\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17"
                               "\2\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\x40\x10\0\0\0\0\0\0",
                        56);
    assert_int_equal(word(block + 124), seam_crc32c(0, block, 124));
    uint32_t seed = vlog_seed(h.uuid, 2);
    vlog_frame_encode(&f, seed, 4096, frame);
    assert_memory_equal(frame + 4, "\x60\0\0\0\x53\x76\1\0\4\3\2\1\x8\0\0\0\0\0\0\0\x11\0\0\0"
                                   "\1\0\0\0\0\x10\0\0\5\0\0\0\1\0\0\0\0\0\0\0",
                        44);
    /* The same bytes verify at this place of this segment of this store only. */
    assert_true(vlog_frame_decode(frame, seed, 4096, 65536, &back));
    assert_false(vlog_frame_decode(frame, seed, 4104, 65536, &back));
    assert_false(vlog_frame_decode(frame, vlog_seed(h.uuid, 3), 4096, 65536, &back));
    assert_false(vlog_frame_decode(frame, seed, 4096, 4191, &back));
    h.uuid[0] ^= 1;
    assert_false(vlog_frame_decode(frame, vlog_seed(h.uuid, 2), 4096, 65536, &back));
    assert_int_equal(vlog_record_encode(&op, false, 0, record), sizeof put);
    assert_memory_equal(record, put, sizeof put);
    for (size_t len = 0; len < sizeof put; len++) {
        struct vlog_record r;
        size_t at = 0;
        assert_false(vlog_record_decode(put, len, &at, &r));
    }
}

/* ---- every byte ------------------------------------------------------------------------------- */

static unsigned char large[1000];

static void every_byte_store(const char *dir)
{
    support_fill(large, sizeof large, 9);
    for (int round = 0; round < 2; round++) {
        struct seam_db *db = support_open_with(SMALL, dir, NULL);
        write_one(db, "a", round ? "new" : "old", 3, SEAM_ACK_POWER);
        write_one(db, "large", large, sizeof large, SEAM_ACK_POWER);
        write_one(db, "gone", "x", 1, SEAM_ACK_POWER);
        struct seam_op ops[2] = {op_delete(LIT("gone")), op_put(LIT("z"), LIT("end"))};
        assert_int_equal(seam_write(db, ops, 2, SEAM_ACK_PROCESS, NULL, NULL), SEAM_OK);
        support_close(db);
    }
}

/* Opens and compares: damage may be reported, by the open or by a read, and nothing else. */
static void expect_detected_or_harmless(const char *dir, const char *what, size_t at)
{
    static const struct {
        const char *key;
        const char *value;
    } want[] = {{"a", "new"}, {"gone", NULL}, {"large", NULL}, {"z", "end"}};
    struct seam_db *db;
    struct seam_err err = {0};
    int rc = seam_open("vlog", dir, &read_only, &db, &err);
    if (rc != SEAM_OK) {
        if (rc != SEAM_E_CORRUPT)
            print_message("%s at %zu: %s\n", what, at, err.text);
        assert_int_equal(rc, SEAM_E_CORRUPT);
        return;
    }
    for (int i = 0; i < 4; i++) {
        struct seam_pin pin = {0};
        rc = seam_get(db, NULL, seam_bytes(want[i].key, strlen(want[i].key)), &pin, &err);
        if (rc == SEAM_E_CORRUPT)
            continue;
        if (rc != (i == 1 ? SEAM_NOTFOUND : SEAM_OK))
            print_message("%s at %zu: %s answers %d\n", what, at, want[i].key, rc);
        assert_int_equal(rc, i == 1 ? SEAM_NOTFOUND : SEAM_OK);
        if (i == 2)
            assert_true(pin.value.len == sizeof large &&
                        memcmp(pin.value.ptr, large, sizeof large) == 0);
        else if (i != 1 && (pin.value.len != 3 || memcmp(pin.value.ptr, want[i].value, 3) != 0))
            fail_msg("%s at %zu: %s has wrong bytes", what, at, want[i].key);
        else if (i != 1)
            assert_true(pin.value.len == 3 && memcmp(pin.value.ptr, want[i].value, 3) == 0);
        seam_unpin(&pin);
    }
    support_close(db);
}

/* A sanitizer sees the same code at each position: a sample there, another one with each seed. */
#ifdef SEAM_SANITIZED
enum { BYTE_STEP = 23 };
#else
enum { BYTE_STEP = 1 };
#endif

static void every_byte_of(const char *dir, const char *path)
{
    size_t len;
    unsigned char *bytes = slurp(path, &len);
    size_t used = len;
    while (used > 0 && bytes[used - 1] == 0)
        used--;
    for (size_t at = support_seed() % BYTE_STEP; at < len; at += at < used + 64 ? BYTE_STEP : 997) {
        if (at >= VLOG_HEADER_USED + 64 && at < VLOG_BLOCK)
            at = VLOG_BLOCK;
        unsigned char flipped = bytes[at] ^ 0xff, zero = 0, one = bytes[at] ^ 1;
        poke(path, at, &flipped, 1);
        expect_detected_or_harmless(dir, "flip", at);
        poke(path, at, &one, 1);
        expect_detected_or_harmless(dir, "bit", at);
        poke(path, at, &zero, 1);
        expect_detected_or_harmless(dir, "zero", at);
        poke(path, at, &bytes[at], 1);
        assert_int_equal(truncate(path, (off_t)at), 0);
        expect_detected_or_harmless(dir, "cut", at);
        assert_int_equal(truncate(path, (off_t)len), 0);
        poke(path, at, bytes + at, len - at);
    }
    assert_int_equal(unlink(path), 0);
    struct seam_db *db;
    assert_int_equal(seam_open("vlog", dir, &read_only, &db, NULL), SEAM_E_CORRUPT);
    spill(path, bytes, len);
    chmod(path, 0600);
    free(bytes);
}

static void test_every_byte(void **state)
{
    const char *dir = support_dir();
    char path[512];
    (void)state;
    every_byte_store(dir);
    path_of(path, sizeof path, dir, "/engine", "00000001.seg");
    every_byte_of(dir, path);
    last_segment(path, sizeof path, dir);
    every_byte_of(dir, path);
    expect_detected_or_harmless(dir, "as it was", 0);
}

/* ---- the tail --------------------------------------------------------------------------------- */

static size_t used_of(const char *path)
{
    size_t len;
    unsigned char *bytes = slurp(path, &len);
    while (len > 0 && bytes[len - 1] == 0)
        len--;
    free(bytes);
    return len;
}

static int count_keys(const char *dir, const struct seam_options *o, struct seam_err *err)
{
    struct seam_db *db;
    struct seam_stats stats;
    int rc = seam_open(SMALL, dir, o, &db, err);
    if (rc != SEAM_OK)
        return rc;
    assert_int_equal(seam_db_stats(db, &stats, NULL), SEAM_OK);
    support_close(db);
    return (int)stats.keys;
}

/* Commits that were never flushed are cut at any byte, or kept, as a prefix; twice the same. */
static void test_torn_tail(void **state)
{
    char *dir = strdup(support_dir());
    const char *kill = NULL;
    struct seam_db *db = support_open_with("vlog:segment=64K,spare=0,io=buffered", dir, NULL);
    char path[512], key[8] = "k0";
    (void)state;
    write_one(db, "sure", "1", 1, SEAM_ACK_POWER);
    last_segment(path, sizeof path, dir);
    size_t from = used_of(path);
    for (int i = 0; i < 8; i++, key[1]++)
        write_one(db, key, "value", 5, SEAM_ACK_PROCESS);
    size_t to = used_of(path);
    int before = 0;
    for (size_t at = from; at <= to; at += 7) {
        struct seam_options create = {.mode = SEAM_OPEN_EXISTING};
        kill = support_dir();
        copy_store(dir, kill);
        char copy[512];
        path_of(copy, sizeof copy, kill, "/engine", strrchr(path, '/') + 1);
        static const unsigned char zeros[4096];
        poke(copy, at, zeros, to - at < sizeof zeros ? to - at : sizeof zeros);
        int n = count_keys(kill, &create, NULL);
        assert_true(n >= 1 && n <= 9 && n >= before);
        assert_int_equal(count_keys(kill, &create, NULL), n);
        assert_int_equal(count_keys(kill, &read_only, NULL), n);
        before = n;
        support_remove(kill);
    }
    assert_true(before >= 8);
    support_close(db);
    free(dir);
}

/* The same damage in what was flushed is no tear: the open refuses and says where. */
static void test_damage(void **state)
{
    const char *dir = support_dir(), *kill = support_dir();
    struct seam_db *db = support_open_with(SMALL, dir, NULL);
    char path[512], copy[512];
    struct seam_err err = {0};
    (void)state;
    write_one(db, "one", "1", 1, SEAM_ACK_POWER);
    last_segment(path, sizeof path, dir);
    write_one(db, "two", "2", 1, SEAM_ACK_POWER);
    write_one(db, "three", "3", 1, SEAM_ACK_POWER);
    copy_store(dir, kill);
    support_close(db);
    path_of(copy, sizeof copy, kill, "/engine", strrchr(path, '/') + 1);
    poke(copy, VLOG_BLOCK + 20, "\xff", 1);
    assert_int_equal(count_keys(kill, &(struct seam_options){.mode = SEAM_OPEN_EXISTING}, &err),
                     SEAM_E_CORRUPT);
    assert_non_null(strstr(err.text, ".seg"));
    assert_non_null(strstr(err.text, "4096"));
}

/* ---- rolls ------------------------------------------------------------------------------------ */

static void test_rolls(void **state)
{
    const char *dir = support_dir(), *kill = support_dir();
    struct support_rng rng = {support_seed()};
    unsigned char value[3000], want[64][8];
    size_t lens[64] = {0};
    char text[2000];
    (void)state;
    struct seam_db *db = support_open_with(SMALL, dir, NULL);
    memset(want, 0, sizeof want);
    for (uint32_t i = 0; i < 1500; i++) {
        unsigned char keys[5];
        struct seam_op ops[5];
        size_t n = 1 + support_below(&rng, 5), len = 8 + support_below(&rng, 500);
        uint64_t stamp = i + 1;
        support_fill(value, sizeof value, i);
        memcpy(value, &stamp, 8);
        for (size_t k = 0; k < n; k++) {
            keys[k] = (unsigned char)support_below(&rng, 64);
            ops[k] = op_put(seam_bytes(&keys[k], 1), seam_bytes(value, len));
            memcpy(want[keys[k]], &stamp, 8);
            lens[keys[k]] = len;
        }
        assert_int_equal(seam_write(db, ops, n, i % 7 ? SEAM_ACK_NONE : SEAM_ACK_POWER, NULL, NULL),
                         SEAM_OK);
    }
    struct seam_stats stats;
    assert_int_equal(seam_db_stats(db, &stats, NULL), SEAM_OK);
    seam_db_describe(db, text, sizeof text);
    assert_null(strstr(text, "recycled 0\n")); /* what was dead came back */
    assert_true(stats.disk_bytes < 1 << 20);   /* of about 1.2 MB written */
    copy_store(dir, kill);
    support_close(db);
    for (int i = 0; i < 3; i++) {
        db = support_open_with(SMALL, i == 0 ? dir : kill, NULL);
        for (unsigned k = 0; k < 64; k++) {
            unsigned char key = (unsigned char)k;
            struct seam_pin pin;
            assert_int_equal(seam_get(db, NULL, seam_bytes(&key, 1), &pin, NULL), SEAM_OK);
            assert_int_equal(pin.value.len, lens[k]);
            assert_memory_equal(pin.value.ptr, want[k], 8);
            seam_unpin(&pin);
        }
        support_close(db);
    }
}

static int count_segments(const char *dir)
{
    char path[512];
    int n = 0;
    path_of(path, sizeof path, dir, "/engine", "");
    DIR *d = opendir(path);
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        n += strlen(e->d_name) == 12;
    closedir(d);
    return n;
}

/* After a close that returned, an open goes on where the log ended. */
static void test_reopens(void **state)
{
    const char *dir = support_dir();
    struct seam_err err = {0};
    (void)state;
    for (int i = 0; i < 120; i++) {
        struct seam_db *db = support_open_with(SMALL, dir, NULL);
        char key[16];
        snprintf(key, sizeof key, "key%d", i / 2);
        if (i % 2 == 0) /* every other one writes nothing */
            write_one(db, key, key, strlen(key), i % 4 == 0 ? SEAM_ACK_POWER : SEAM_ACK_NONE);
        support_close(db);
        assert_int_equal(count_keys(dir, &read_only, &err), i / 2 + 1);
    }
    /* 60 groups of a block each, and 120 marks: four segments of 64 KiB at most, and one spare. */
    assert_in_range(count_segments(dir), 1, 9);
}

/* A commit larger than a segment is one commit in a segment of its own. */
static void test_oversize(void **state)
{
    const char *dir = support_dir();
    size_t len = 3 << 20;
    unsigned char *value = malloc(len);
    (void)state;
    assert_non_null(value);
    support_fill(value, len, 4);
    struct seam_db *db = support_open_with(SMALL, dir, NULL);
    write_one(db, "before", "1", 1, SEAM_ACK_POWER);
    struct seam_op ops[2] = {op_put(LIT("big"), seam_bytes(value, len)),
                             op_put2(LIT("split"), seam_bytes(value, 10),
                                     seam_bytes(value + 10, len - 10))};
    struct seam_ticket *ticket;
    assert_int_equal(seam_prepare(db, ops, 2, SEAM_ACK_POWER, &ticket, NULL), SEAM_OK);
    seam_abort(ticket);
    assert_int_equal(seam_write(db, ops, 2, SEAM_ACK_POWER, NULL, NULL), SEAM_OK);
    write_one(db, "after", "2", 1, SEAM_ACK_POWER);
    for (int i = 0; i < 2; i++) {
        struct seam_pin pin;
        for (int k = 0; k < 2; k++) {
            assert_int_equal(seam_get(db, NULL, ops[k].key, &pin, NULL), SEAM_OK);
            assert_int_equal(pin.value.len, len);
            assert_memory_equal(pin.value.ptr, value, len);
            seam_unpin(&pin);
        }
        assert_int_equal(seam_get(db, NULL, LIT("after"), &pin, NULL), SEAM_OK);
        seam_unpin(&pin);
        support_close(db);
        db = support_open_with(SMALL, dir, NULL);
    }
    support_close(db);
    free(value);
}

/* ---- failures --------------------------------------------------------------------------------- */

/* Fails the write or flush number `at`, half done if it is a write, counted from when it is armed. */
struct failing {
    struct seam_platform table;
    const struct seam_platform *real;
    long at, calls;
};

static bool fails(struct failing *f)
{
    return f->at > 0 && ++f->calls == f->at;
}

static ssize_t failing_pwritev(void *ctx, int fd, const struct iovec *parts, int n, uint64_t offset)
{
    struct failing *f = ctx;
    if (fails(f)) {
        struct iovec half = {parts[0].iov_base, parts[0].iov_len / 2 / 512 * 512};
        if (half.iov_len > 0)
            (void)f->real->pwritev(f->real->ctx, fd, &half, 1, offset);
        return -EIO;
    }
    return f->real->pwritev(f->real->ctx, fd, parts, n, offset);
}

static int failing_sync(void *ctx, int fd)
{
    struct failing *f = ctx;
    return fails(f) ? -EIO : f->real->sync(f->real->ctx, fd);
}

static void poison_once(const char *spec, long at)
{
    const char *dir = support_dir();
    struct failing f = {.table = *seam_platform_system(), .real = seam_platform_system()};
    struct seam_options o = {.mode = SEAM_OPEN_CREATE, .platform = &f.table};
    f.table.ctx = &f;
    f.table.pwritev = failing_pwritev;
    f.table.sync = failing_sync;
    struct seam_db *db = support_open_with(spec, dir, &o);
    unsigned char value[4000] = {1};
    struct seam_err err = {0};
    int i, rc = SEAM_OK;
    write_one(db, "kept", "1", 1, SEAM_ACK_POWER);
    f.at = at;
    for (i = 0; i < 40 && rc == SEAM_OK; i++) {
        unsigned char key = (unsigned char)i;
        struct seam_op ops[2] = {op_put(seam_bytes(&key, 1), seam_bytes(value, sizeof value)),
                                 op_put(LIT("newest"), seam_bytes(&key, 1))};
        rc = seam_write(db, ops, 2, SEAM_ACK_POWER, NULL, &err);
    }
    /* A segment that could not be made is refused in prepare, before anything was written; one that
     * could not be recycled is removed. */
    if (rc != SEAM_E_UNKNOWN && rc != SEAM_E_IO && rc != SEAM_OK)
        fail_msg("%s, call %ld of %ld: %d %s", spec, at, f.calls, rc, err.text);
    if (rc == SEAM_E_UNKNOWN) {
        struct seam_op op = op_put(LIT("more"), LIT("1"));
        assert_int_equal(seam_write(db, &op, 1, SEAM_ACK_NONE, NULL, &err), SEAM_E_POISONED);
    }
    struct seam_pin pin;
    assert_int_equal(seam_get(db, NULL, LIT("kept"), &pin, NULL), SEAM_OK);
    seam_unpin(&pin);
    (void)seam_close(db, NULL);
    db = support_open_with(spec, dir, NULL);
    assert_int_equal(seam_get(db, NULL, LIT("kept"), &pin, NULL), SEAM_OK);
    seam_unpin(&pin);
    for (int k = 0; k < i; k++) {
        unsigned char key = (unsigned char)k;
        int got = seam_get(db, NULL, seam_bytes(&key, 1), &pin, NULL);
        if (k < i - 1 || rc == SEAM_OK)
            assert_int_equal(got, SEAM_OK);
        if (got != SEAM_OK)
            continue;
        assert_int_equal(pin.value.len, sizeof value);
        seam_unpin(&pin);
    }
    support_close(db);
    support_remove(dir);
}

static void test_poison(void **state)
{
    (void)state;
    for (long at = 1; at < 24; at++) {
        poison_once("vlog:segment=64K,spare=0,io=buffered", at);
        poison_once("vlog:segment=64K,spare=0", at);
    }
}

/* ---- the tree --------------------------------------------------------------------------------- */

#define TREE_KEYS 4000u

static struct vlog_entry *entry_of(uint32_t i)
{
    struct vlog_entry *e = calloc(1, sizeof *e + 24);
    assert_non_null(e);
    memset(e->bytes, 'p', i % 3 ? 4 : 18); /* keys that tie in their first 16 bytes too */
    e->key_len = i % 3 ? 8 : 22;
    for (int b = 0; b < 4; b++)
        e->bytes[e->key_len - 4 + (unsigned)b] = (unsigned char)(i >> (24 - 8 * b));
    return e;
}

static void check_tree(const struct vlog_tree *t, size_t n)
{
    const struct vlog_entry *before = NULL;
    size_t seen = 0;
    for (struct vlog_pos p = vlog_tree_end(t, false); p.leaf; p = vlog_tree_step(p, false)) {
        const struct vlog_entry *e = vlog_pos_entry(p);
        if (before)
            assert_true(seam_compare(vlog_entry_key(before), vlog_entry_key(e)) < 0);
        assert_ptr_equal(vlog_pos_entry(vlog_tree_seek(t, vlog_entry_key(e), false)), e);
        before = e;
        seen++;
    }
    assert_int_equal(seen, n);
}

static void test_tree(void **state)
{
    struct support_rng rng = {support_seed()};
    struct vlog_tree t;
    struct vlog_entry *entries[TREE_KEYS];
    bool in[TREE_KEYS] = {false};
    size_t n = 0;
    (void)state;
    for (uint32_t i = 0; i < TREE_KEYS; i++)
        entries[i] = entry_of(i);
    assert_int_equal(vlog_tree_init(&t, seam_platform_system()), SEAM_OK);
    for (int round = 0; round < 60; round++) {
        uint64_t batch = 1 + support_below(&rng, 700), puts = 0;
        uint32_t at = (uint32_t)support_below(&rng, TREE_KEYS);
        bool ascending = support_below(&rng, 2), removing = support_below(&rng, 3) == 0;
        uint64_t need = vlog_tree_need(&t, batch);
        assert_int_equal(vlog_tree_fill(&t, need), SEAM_OK);
        uint64_t free_nodes = t.free_nodes;
        for (uint64_t k = 0; k < batch; k++) {
            at = ascending ? (at + 1) % TREE_KEYS : (uint32_t)support_below(&rng, TREE_KEYS);
            if (in[at] && removing) {
                vlog_tree_drop(&t, entries[at], NULL);
                in[at] = false;
                n--;
            } else if (!in[at] && !removing) {
                assert_null(vlog_tree_put(&t, entries[at]));
                in[at] = true;
                n++;
                puts++;
            }
        }
        if (!removing)
            assert_true(free_nodes - t.free_nodes <= need);
        check_tree(&t, n);
    }
    vlog_tree_clear(&t);
    for (uint32_t i = 0; i < TREE_KEYS; i++)
        free(entries[i]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),    cmocka_unit_test(test_tree),
        cmocka_unit_test(test_every_byte), cmocka_unit_test(test_torn_tail),
        cmocka_unit_test(test_damage),    cmocka_unit_test(test_rolls),
        cmocka_unit_test(test_oversize), cmocka_unit_test(test_reopens),
         cmocka_unit_test(test_poison),
    };
    int rc = support_begin(argc, argv);
    return rc ? rc : cmocka_run_group_tests_name("vlog", tests, NULL, NULL);
}
