/* test_store_unit.c - test_store_unit ENGINE [STEP]: a unit of 95,000 entries where a commit takes 10,000.
 *
 * Refused by default, with nothing written. With split_units it is put by a child that is killed at a
 * write of its files, at every STEP-th of them from the first to the last: whatever it came to, the next
 * open shows all of the unit or nothing of it, and goes on. What a reader sees meanwhile is test_unit.c's. */
#include "store_support.h"

#include <seam/platform.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ENTRIES = 95000, ENTRY = 16 };

static unsigned char *unit; /* entries: a key of 8 bytes, a value of 8 */

static void set_version(uint64_t version)
{
    for (uint64_t i = 0; i < ENTRIES; i++) {
        for (unsigned b = 0; b < 8; b++) /* scattered, as keys of a fan-out are */
            unit[i * ENTRY + b] = (unsigned char)(i * UINT64_C(0x9e3779b97f4a7c15) >> (56 - 8 * b));
        memcpy(unit + i * ENTRY + 8, &version, 8);
    }
}

static int project_entries(void *ctx, const struct seam_event *event, struct seam_emit *out,
                           struct seam_err *err)
{
    const unsigned char *at = event->data.ptr;
    int rc = SEAM_OK;
    (void)ctx;
    for (size_t i = 0; i + ENTRY <= event->data.len && rc == SEAM_OK; i += ENTRY) {
        struct seam_op op = {SEAM_PUT, seam_bytes(at + i, 8), seam_bytes(at + i + 8, 8), {NULL, 0}};
        rc = seam_emit_op(out, &op, err);
    }
    return rc;
}

/* ---- a platform that ends the process -------------------------------------------------------- */

static _Atomic uint64_t writes_left; /* 0: not armed */

static ssize_t deadly_pwritev(void *ctx, int fd, const struct iovec *parts, int n, uint64_t at)
{
    uint64_t left = atomic_load(&writes_left);
    while (left > 0 && !atomic_compare_exchange_weak(&writes_left, &left, left - 1)) {
    }
    if (left == 1)
        (void)raise(SIGKILL);
    return seam_platform_system()->pwritev(ctx, fd, parts, n, at);
}

/* ---- the store ------------------------------------------------------------------------------- */

static void describe(struct site *s, char *spec, size_t cap, bool split)
{
    static struct seam_platform os;
    os = *seam_platform_system();
    os.pwritev = deadly_pwritev;
    (void)snprintf(spec, cap, "limit:ops=10K+%s", site_near);
    s->options.platform = &os;
    s->options.n = 1;
    s->projections[0].engine = spec;
    s->projections[0].projector = project_entries;
    s->projections[0].split_units = split;
    s->projections[0].atomic_reads = split;
}

static int put(struct seam_store *store, struct seam_put *ret, struct seam_err *err)
{
    uint32_t stream = journal_stream(seam_store_journal(store), "s");
    return seam_store_put_unit(store, stream, seam_bytes(unit, (size_t)ENTRIES * ENTRY), SEAM_ACK_POWER,
                               NULL, ret, err);
}

/* The version of all entries, 0 if there is none; a part of a unit fails the test. */
static uint64_t version_of(struct seam_store *store)
{
    struct seam_projection *t = seam_store_projection(store, "near");
    struct seam_projection_cursor *c;
    struct seam_slice key, value, none = {NULL, 0};
    struct seam_position at;
    struct seam_view *view;
    struct seam_err err;
    uint64_t version = 0, n = 0;
    ok(seam_view_open(t, &view, &err), err);
    seam_view_position(view, &at);
    assert_int_equal(at.parts, 0);
    ok(seam_projection_cursor_open(t, view, none, none, &c, &err), err);
    for (; seam_projection_cursor_move(c, SEAM_NEXT, none, &key, &err) == SEAM_OK; n++) {
        uint64_t one;
        ok(seam_projection_cursor_value(c, &value, &err), err);
        memcpy(&one, value.ptr, 8);
        version = n == 0 ? one : version;
        assert_int_equal(one, version);
    }
    seam_projection_cursor_close(c);
    seam_view_close(view);
    assert_true(n == 0 || n == ENTRIES);
    return version;
}

static void refused_whole(void **state)
{
    struct site s;
    char spec[96];
    struct seam_err err;
    (void)state;
    site_new(&s);
    describe(&s, spec, sizeof spec, false);
    struct seam_store *store = site_open(&s, SEAM_OPEN_CREATE);
    set_version(1);
    assert_int_equal(put(store, NULL, &err), SEAM_E_TOO_LARGE);
    assert_string_equal(err.limit, "ops");
    assert_int_equal(journal_last(seam_store_journal(store), 1), 0);
    assert_int_equal(version_of(store), 0);
    site_close(store);
    site_remove(&s);
}

/* Puts in a child, which ends at its k-th write; false: it came through. */
static bool killed_at(struct site *s, uint64_t k)
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct seam_store *store = NULL;
        struct seam_put done;
        if (seam_store_open(s->dir, &s->options, &store, NULL) != SEAM_OK)
            _exit(2);
        atomic_store(&writes_left, k);
        if (put(store, &done, NULL) != SEAM_OK || done.applying != SEAM_OK)
            _exit(3);
        atomic_store(&writes_left, 0);
        _exit(seam_store_close(store, NULL) == SEAM_OK ? 0 : 4);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
    return WIFSIGNALED(status);
}

static uint64_t step = 1;

static void killed_at_every_part(void **state)
{
    struct site s;
    char spec[96];
    uint64_t before = 0, k = 1, old = 0, new = 0;
    bool more = true;
    (void)state;
    site_new(&s);
    describe(&s, spec, sizeof spec, true);
    site_close(site_open(&s, SEAM_OPEN_CREATE));
    for (; more; k += step) {
        set_version(k);
        more = killed_at(&s, k);
        struct seam_store *store = site_open(&s, SEAM_OPEN_EXISTING);
        uint64_t now = version_of(store);
        assert_true(now == before || now == k);
        assert_true(more || now == k);
        old += now == before ? 1 : 0;
        new += now == k ? 1 : 0;
        before = now;
        site_close(store);
    }
    print_message("%llu writes: %llu times nothing of the unit, %llu times all of it\n",
                  (unsigned long long)k, (unsigned long long)old, (unsigned long long)new);
    assert_true(new > 1);
    site_remove(&s);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s ENGINE [STEP]\n", argv[0]);
        return 2;
    }
    site_journal = site_near = argv[1];
    step = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    unit = malloc((size_t)ENTRIES * ENTRY);
    if (unit == NULL || step == 0)
        return 2;
    const struct CMUnitTest tests[] = {cmocka_unit_test(refused_whole),
                                       cmocka_unit_test(killed_at_every_part)};
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    free(unit);
    return rc;
}
