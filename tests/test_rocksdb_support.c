/* test_rocksdb_support.c - see the header. */
#include "test_rocksdb_support.h"

#include "rdb.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint8_t uuid[16];

static int told_space(void *ctx, int fd, uint64_t *ret_free)
{
    struct fixture *f = ctx;
    const struct seam_platform *os = seam_platform_system();
    if (f->space == UINT64_MAX)
        return os->space(os->ctx, fd, ret_free);
    *ret_free = f->space;
    return 0;
}

static void *told_alloc(void *ctx, size_t len)
{
    struct fixture *f = ctx;
    const struct seam_platform *os = seam_platform_system();
    return len > f->alloc_most ? NULL : os->alloc(os->ctx, len);
}

int fixture_open(struct fixture *f, bool create, bool read_only, const char *const *options)
{
    uint64_t settings[SEAM_ROCKSDB_SETTINGS] = {0};
    settings[SEAM_ROCKSDB_SET_BUFFERS] = 3;
    settings[SEAM_ROCKSDB_SET_BLOB_MIN] = 4096;
    settings[SEAM_ROCKSDB_SET_BLOB_COMPRESSION] = 1;
    settings[SEAM_ROCKSDB_SET_BLOOM_BITS] = 10;
    settings[SEAM_ROCKSDB_SET_JOBS] = 2;
    for (; options && *options; options++) {
        size_t i = 0;
        const char *eq = strchr(*options, '=');
        assert_non_null(eq);
        while (seam_backend_rocksdb.tunings[i].name &&
               (strncmp(seam_backend_rocksdb.tunings[i].name, *options, (size_t)(eq - *options)) ||
                seam_backend_rocksdb.tunings[i].name[eq - *options]))
            i++;
        assert_non_null(seam_backend_rocksdb.tunings[i].name);
        settings[i] = strtoull(eq + 1, NULL, 10);
    }
    struct seam_open_args args = {.os = &f->os,
                                  .dir = f->dir,
                                  .path = f->path,
                                  .create = create,
                                  .read_only = read_only,
                                  .memory = f->memory,
                                  .disk = f->disk,
                                  .epoch = 1,
                                  .uuid = uuid,
                                  .settings = settings};
    int rc = seam_backend_rocksdb.open(&args, &f->e, &f->err);
    if (rc == SEAM_OK)
        f->e->be = &seam_backend_rocksdb;
    return rc;
}

int fixture_close(struct fixture *f)
{
    struct seam_engine *e = f->e;
    f->e = NULL;
    return e ? seam_backend_rocksdb.close(e, &f->err) : SEAM_OK;
}

int fixture_reopen(struct fixture *f, const char *const *options)
{
    int rc = fixture_close(f);
    return rc == SEAM_OK ? fixture_open(f, false, false, options) : rc;
}

struct fixture *fixture_new(const char *path)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->os = *seam_platform_system();
    f->os.space = told_space;
    f->os.alloc = told_alloc;
    f->os.ctx = f;
    f->space = UINT64_MAX;
    f->alloc_most = SIZE_MAX;
    f->memory = 16 << 20;
    f->disk = UINT64_MAX;
    (void)snprintf(f->path, sizeof f->path, "%s", path);
    f->dir = open(f->path, O_RDONLY | O_DIRECTORY);
    assert_true(f->dir >= 0);
    return f;
}

int fixture_setup(void **state)
{
    char path[] = "/tmp/seam-rocksdb-XXXXXX";
    assert_non_null(mkdtemp(path));
    struct fixture *f = fixture_new(path);
    *state = f;
    if (fixture_open(f, true, false, NULL) != SEAM_OK)
        fail_msg("%s", f->err.text);
    return 0;
}

int fixture_teardown(void **state)
{
    struct fixture *f = *state;
    (void)fixture_close(f);
    DIR *d = opendir(f->path);
    for (struct dirent *entry; d && (entry = readdir(d)) != NULL;)
        if (entry->d_name[0] != '.')
            unlinkat(f->dir, entry->d_name, 0);
    closedir(d);
    close(f->dir);
    rmdir(f->path);
    free(f);
    return 0;
}

int commit(struct fixture *f, const struct seam_op *ops, size_t n, enum seam_ack ack,
           struct seam_acked *ret)
{
    struct seam_commit c = {.ops = ops, .n = n, .ack = ack};
    struct seam_acked acked = {SEAM_ACK_NONE, 0, -1, 0, 0};
    for (size_t i = 0; i < n; i++)
        c.bytes += ops[i].key.len + ops[i].head.len + ops[i].body.len;
    memset(&f->err, 0, sizeof f->err);
    int rc = seam_backend_rocksdb.prepare(f->e, &c, 0, &f->err);
    if (rc == SEAM_OK)
        rc = seam_backend_rocksdb.commit(f->e, &c, &acked, &f->err);
    if (rc == SEAM_OK && ret)
        *ret = acked;
    return rc;
}

struct seam_op put(struct seam_slice key, struct seam_slice value)
{
    struct seam_op op = {SEAM_PUT, key, value, {NULL, 0}};
    return op;
}

struct seam_op del(struct seam_slice key)
{
    struct seam_op op = {SEAM_DELETE, key, {NULL, 0}, {NULL, 0}};
    return op;
}

struct seam_op del_range(struct seam_slice from, struct seam_slice to)
{
    struct seam_op op = {SEAM_DELETE_RANGE, from, to, {NULL, 0}};
    return op;
}

int get(struct fixture *f, struct seam_slice key, char *buf, size_t cap)
{
    struct seam_pin pin;
    memset(&pin, 0, sizeof pin);
    int rc = seam_backend_rocksdb.get(f->e, NULL, key, &pin, &f->err);
    if (rc != SEAM_OK)
        return rc == SEAM_NOTFOUND ? SEAM_NOTFOUND + 1000 : rc;
    size_t len = pin.value.len;
    if (cap) {
        size_t n = len < cap - 1 ? len : cap - 1;
        memcpy(buf, pin.value.ptr, n);
        buf[n] = '\0';
    }
    seam_backend_rocksdb.unpin(f->e, &pin);
    return (int)len;
}

bool has(struct fixture *f, struct seam_slice key)
{
    int rc = get(f, key, NULL, 0);
    assert_true(rc >= 0);
    return rc != SEAM_NOTFOUND + 1000;
}

size_t count_files(struct fixture *f, const char *ending)
{
    size_t n = 0;
    DIR *d = opendir(f->path);
    assert_non_null(d);
    for (struct dirent *entry; (entry = readdir(d)) != NULL;) {
        size_t len = strlen(entry->d_name), tail = strlen(ending);
        n += len >= tail && strcmp(entry->d_name + len - tail, ending) == 0;
    }
    closedir(d);
    return n;
}

/* Sum over the files, so that their order in the directory does not matter; the directory's own
 * times are in it as well. */
uint64_t fingerprint(struct fixture *f)
{
    uint64_t sum = 0;
    DIR *d = opendir(f->path);
    assert_non_null(d);
    for (struct dirent *entry; (entry = readdir(d)) != NULL;) {
        struct stat st;
        if (strcmp(entry->d_name, "..") == 0)
            continue;
        assert_int_equal(fstatat(f->dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW), 0);
        char text[512];
        int n = snprintf(text, sizeof text, "%s %lld %lld %lld.%ld %lld.%ld", entry->d_name,
                         (long long)st.st_ino, (long long)st.st_size, (long long)st.st_mtim.tv_sec,
                         st.st_mtim.tv_nsec, (long long)st.st_ctim.tv_sec, st.st_ctim.tv_nsec);
        sum += seam_crc32c(0, text, (size_t)n);
    }
    closedir(d);
    return sum;
}
