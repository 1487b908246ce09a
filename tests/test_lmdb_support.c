/* test_lmdb_support.c - see test_lmdb_support.h.
 *
 * Relies on support.c for directories that go away at exit, and for opening and closing. */
#include "test_lmdb_support.h"

int room_make(void **state)
{
    struct room *r = calloc(1, sizeof *r);
    if (r == NULL)
        return -1;
    snprintf(r->dir, sizeof r->dir, "%s", support_dir());
    if (mkdir(r->dir, 0700) != 0) {
        free(r);
        return -1;
    }
    snprintf(r->store, sizeof r->store, "%s/s", r->dir);
    snprintf(r->data, sizeof r->data, "%s/engine/data.mdb", r->store);
    snprintf(r->lock, sizeof r->lock, "%s/engine/lock.mdb", r->store);
    snprintf(r->copy, sizeof r->copy, "%s/copy", r->dir);
    *state = r;
    return 0;
}

int room_remove(void **state)
{
    struct room *r = *state;
    support_remove(r->dir);
    free(r);
    return 0;
}

uint64_t file_size(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return (uint64_t)st.st_size;
}

void copy_file(const char *from, const char *to)
{
    static char bytes[65536];
    ssize_t n;
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(in >= 0 && out >= 0);
    while ((n = read(in, bytes, sizeof bytes)) > 0)
        assert_int_equal(write(out, bytes, (size_t)n), n);
    assert_int_equal(n, 0);
    close(in);
    close(out);
}

struct seam_slice str(const char *s)
{
    return seam_bytes(s, strlen(s));
}

struct seam_op put_op(const char *k, const char *v)
{
    struct seam_op op = {SEAM_PUT, str(k), {NULL, 0}, str(v)};
    return op;
}

struct seam_db *make(const char *spec, const char *dir)
{
    struct seam_options o = {.mode = SEAM_OPEN_CREATE};
    return support_open_with(spec, dir, &o);
}

struct seam_acked must_put(struct seam_db *db, const char *k, const char *v, uint32_t ack)
{
    struct seam_op op = put_op(k, v);
    struct seam_acked acked = {0};
    struct seam_err err;
    int rc = seam_write(db, &op, 1, ack, &acked, &err);
    if (rc != SEAM_OK)
        fail_msg("write: %s %s", seam_code_name(rc), err.text);
    return acked;
}

bool has(struct seam_db *db, const char *k, const char *v)
{
    struct seam_pin pin;
    int rc = seam_get(db, NULL, str(k), &pin, NULL);
    if (rc != SEAM_OK)
        return false;
    bool same = seam_compare(pin.value, str(v)) == 0;
    seam_unpin(&pin);
    return same;
}

void bare_open(struct bare *b, const struct room *r, const struct seam_platform *os, uint64_t disk)
{
    struct seam_engine *e = NULL;
    struct seam_err err;
    memset(b, 0, sizeof *b);
    b->settings[LMDB_SET_MAP] = 1ull << 30;
    b->settings[LMDB_SET_MAXREADERS] = 16;
    b->settings[LMDB_SET_RESERVE_CHUNK] = 64 << 10;
    b->settings[LMDB_SET_READAHEAD] = 1;
    b->dir = open(r->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(b->dir >= 0);
    struct seam_open_args args = {.os = os,
                                  .dir = b->dir,
                                  .path = r->dir,
                                  .create = true,
                                  .memory = 64 << 20,
                                  .disk = disk,
                                  .epoch = 1,
                                  .uuid = b->uuid,
                                  .settings = b->settings};
    int rc = seam_backend_lmdb.open(&args, &e, &err);
    if (rc != SEAM_OK)
        fail_msg("open: %s %s", seam_code_name(rc), err.text);
    e->be = &seam_backend_lmdb;
    b->e = (struct lmdb_engine *)(void *)e;
}

void bare_close(struct bare *b)
{
    assert_int_equal(seam_backend_lmdb.close(&b->e->base, NULL), SEAM_OK);
    close(b->dir);
}

int bare_prepare(struct bare *b, struct seam_commit *c, const struct seam_op *ops, size_t n,
                 enum seam_ack ack)
{
    memset(c, 0, sizeof *c);
    c->ops = ops;
    c->n = n;
    c->ack = ack;
    return lmdb_prepare(&b->e->base, c, 0, NULL);
}

bool bare_has(struct bare *b, const char *k)
{
    struct seam_pin pin;
    memset(&pin, 0, sizeof pin);
    int rc = lmdb_get(&b->e->base, NULL, str(k), &pin, NULL);
    if (rc == SEAM_OK)
        lmdb_unpin(&b->e->base, &pin);
    return rc == SEAM_OK;
}
