/* seam_support.c - see seam_support.h. */
#include "seam_support.h"

#include <ftw.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void remove_tree(const char *dir)
{
    (void)nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void open_db(struct store *s)
{
    struct seam_err err;
    ok(seam_open(s->engine, s->is_volatile ? NULL : s->dir, &s->options, &s->db, &err), err);
}

void store_open(struct store *s, const char *wrap, const char *engine,
                const struct seam_backend *const *extra)
{
    memset(s, 0, sizeof(*s));
    (void)snprintf(s->engine, sizeof(s->engine), "%s%s", wrap, engine);
    s->is_volatile = strncmp(engine, "mem", 3) == 0 || strstr(engine, "+mem") != NULL;
    s->options.mode = SEAM_OPEN_CREATE;
    s->options.engines = extra;
    (void)snprintf(s->dir, sizeof(s->dir), "seam-test-XXXXXX");
    assert_non_null(mkdtemp(s->dir));
    open_db(s);
}

void store_attach(struct store *s, const char *engine, const char *dir)
{
    memset(s, 0, sizeof(*s));
    (void)snprintf(s->engine, sizeof(s->engine), "%s", engine);
    (void)snprintf(s->dir, sizeof(s->dir), "%s", dir);
    open_db(s);
}

int spawn_child(const char *const *args, int *ret_out)
{
    int ends[2];
    char *argv[8] = {(char *)(uintptr_t) "child"};
    for (int i = 0; i < 7 && args[i] != NULL; i++)
        argv[i + 1] = (char *)(uintptr_t)args[i];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)close(ends[0]);
        (void)close(ends[1]);
        (void)execv("/proc/self/exe", argv);
        _exit(5);
    }
    (void)close(ends[1]);
    *ret_out = ends[0];
    return (int)child;
}

void store_reopen(struct store *s)
{
    struct seam_err err;
    if (s->is_volatile)
        return;
    ok(seam_close(s->db, &err), err);
    open_db(s);
}

void store_close(struct store *s)
{
    struct seam_err err;
    ok(seam_close(s->db, &err), err);
    remove_tree(s->dir);
}

struct seam_slice text(const char *s)
{
    return seam_bytes(s, strlen(s));
}

uint32_t best_ack(const struct seam_db *db)
{
    struct seam_limits limits;
    seam_db_limits(db, &limits);
    return (uint32_t)limits.best;
}

uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

uint64_t test_seed(void)
{
    const char *given = getenv("SEAM_SEED");
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t seed = given != NULL ? strtoull(given, NULL, 10)
                                  : (uint64_t)now.tv_sec * 1000003u + (uint64_t)now.tv_nsec;
    print_message("SEAM_SEED=%llu\n", (unsigned long long)seed);
    return seed != 0 ? seed : 1;
}

static struct raw_key raw(uint8_t tag, size_t id_len, uint32_t id, uint64_t number)
{
    struct raw_key key = {.len = 1 + id_len + 8};
    key.bytes[0] = tag;
    for (size_t i = 0; i < id_len; i++)
        key.bytes[1 + i] = (uint8_t)(id >> (24 - 8 * i));
    for (size_t i = 0; i < 8; i++)
        key.bytes[1 + id_len + i] = (uint8_t)(number >> (56 - 8 * i));
    return key;
}

struct raw_key raw_event(uint32_t stream, uint64_t sequence)
{
    return raw('E', 4, stream, sequence);
}

struct raw_key raw_group(uint64_t number)
{
    return raw('G', 0, 0, number);
}

size_t raw_get(struct seam_db *db, struct raw_key key, uint8_t *buf, size_t cap)
{
    struct seam_pin pin = {0};
    struct seam_err err;
    ok(seam_get(db, NULL, seam_bytes(key.bytes, key.len), &pin, &err), err);
    assert_true(pin.value.len <= cap);
    size_t len = pin.value.len;
    memcpy(buf, pin.value.ptr, len);
    seam_unpin(&pin);
    return len;
}

void raw_put(struct seam_db *db, struct raw_key key, const void *bytes, size_t len)
{
    struct seam_err err;
    struct seam_op op = {SEAM_PUT, seam_bytes(key.bytes, key.len), {bytes, len}, {NULL, 0}};
    ok(seam_write(db, &op, 1, SEAM_ACK_NONE, NULL, &err), err);
}

void raw_delete(struct seam_db *db, struct raw_key key)
{
    struct seam_err err;
    struct seam_op op = {SEAM_DELETE, seam_bytes(key.bytes, key.len), {NULL, 0}, {NULL, 0}};
    ok(seam_write(db, &op, 1, SEAM_ACK_NONE, NULL, &err), err);
}

void journal_open(struct store *s, struct seam_journal **ret)
{
    struct seam_err err;
    ok(seam_journal_open(s->db, NULL, ret, &err), err);
}

void journal_close(struct seam_journal *j)
{
    struct seam_err err;
    ok(seam_journal_close(j, &err), err);
}

uint32_t journal_stream(struct seam_journal *j, const char *name)
{
    struct seam_err err;
    uint32_t id = 0;
    ok(seam_journal_stream(j, text(name), true, &id, &err), err);
    return id;
}

struct seam_append journal_append(struct seam_journal *j, uint32_t stream, const char *data)
{
    struct seam_err err;
    struct seam_append ret;
    struct seam_slice event = text(data);
    ok(seam_journal_append(j, stream, &event, 1, SEAM_ACK_NONE, &ret, &err), err);
    return ret;
}

uint64_t journal_last(struct seam_journal *j, uint32_t stream)
{
    struct seam_err err;
    struct seam_stream_info info;
    ok(seam_journal_info(j, stream, &info, &err), err);
    return info.last;
}

/* Reads all from `from`; returns how many, or the code if negative. */
long journal_read_all(struct seam_journal *j, uint32_t stream, uint64_t from, struct seam_err *err)
{
    struct seam_journal_reader *r;
    struct seam_event event;
    long n = 0;
    int rc = seam_journal_reader_open(j, stream, from, NULL, &r, err);
    if (rc != SEAM_OK)
        return rc;
    uint64_t time_ns = 0;
    while ((rc = seam_journal_reader_next(r, &event, err)) == SEAM_OK) {
        assert_int_equal(event.sequence, from + (uint64_t)n);
        assert_true(event.time_ns >= time_ns);
        time_ns = event.time_ns;
        n++;
    }
    seam_journal_reader_close(r);
    return rc == SEAM_NOTFOUND ? n : rc;
}
