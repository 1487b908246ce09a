/* rebuild_support.c - see rebuild_support.h. */
#include "rebuild_support.h"

static int emit(struct seam_emit *out, enum seam_kind kind, const char *key, const char *value,
                struct seam_err *err)
{
    struct seam_op op = {.kind = kind, .key = text(key)};
    if (kind == SEAM_PUT)
        op.head = text(value);
    return seam_emit_op(out, &op, err);
}

int project_version(void *ctx, const struct seam_event *event, struct seam_emit *out,
                    struct seam_err *err)
{
    const unsigned *version = ctx;
    unsigned number = (unsigned)event->sequence, wide = number % WIDE_EVERY == 0 ? WIDE : 0;
    char key[24], value[48];
    (void)snprintf(value, sizeof value, "v%u of %u", *version, number);
    (void)snprintf(key, sizeof key, "n%08u", number);
    int rc = emit(out, SEAM_PUT, key, value, err);
    (void)snprintf(key, sizeof key, "m%u", number % 10);
    if (rc == SEAM_OK)
        rc = emit(out, SEAM_PUT, key, value, err);
    (void)snprintf(key, sizeof key, "n%08u", number - number % 3);
    if (rc == SEAM_OK && number % 5 == 0)
        rc = emit(out, SEAM_DELETE, key, NULL, err);
    for (unsigned i = 0; i < wide && rc == SEAM_OK; i++) {
        (void)snprintf(key, sizeof key, "w%04u", i);
        rc = emit(out, SEAM_PUT, key, value, err);
    }
    (void)snprintf(value, sizeof value, "%u", number);
    return rc == SEAM_OK ? emit(out, SEAM_PUT, "last", value, err) : rc;
}

void append_plain(struct pair *p, unsigned n)
{
    struct seam_slice events[1000];
    struct seam_limits limits;
    struct seam_err err;
    seam_db_limits(p->of_journal.db, &limits);
    size_t most = limits.ops < 2000 ? 10 : 1000;
    for (size_t i = 0; i < most; i++)
        events[i] = text("event");
    for (size_t left = n, some; left > 0; left -= some) {
        some = left < most ? left : most;
        ok(seam_journal_append(p->j, p->stream, events, some, best_ack(p->of_journal.db), NULL, &err),
           err);
    }
}

struct seam_projection *version_table(struct pair *p, const char *name, unsigned *version, bool atomic)
{
    struct seam_projection_options o = pair_options(p, project_version, version);
    o.split_units = true;
    o.atomic_reads = atomic;
    return table_open(p, name, &o);
}

static uint64_t add(uint64_t hash, struct seam_slice s)
{
    const uint8_t *p = s.ptr;
    for (size_t i = 0; i < s.len; i++)
        hash = (hash ^ p[i]) * 1099511628211u;
    return (hash ^ s.len) * 1099511628211u;
}

uint64_t table_digest(struct seam_projection *t, struct seam_view *view)
{
    struct seam_projection_cursor *c;
    struct seam_slice key, value, none = {NULL, 0};
    struct seam_err err;
    uint64_t hash = 14695981039346656037u;
    int rc;
    ok(seam_projection_cursor_open(t, view, none, none, &c, &err), err);
    while ((rc = seam_projection_cursor_move(c, SEAM_NEXT, none, &key, &err)) == SEAM_OK) {
        ok(seam_projection_cursor_value(c, &value, &err), err);
        hash = add(add(hash, key), value);
    }
    assert_int_equal(rc, SEAM_NOTFOUND);
    seam_projection_cursor_close(c);
    return hash;
}

uint64_t digest_at(struct pair *p, unsigned version, uint64_t sequence)
{
    struct seam_projection_options o = pair_options(p, project_version, &version);
    o.split_units = true;
    o.discard = true;
    struct seam_projection *t = table_open(p, "f", &o);
    table_catch_up(t, sequence);
    uint64_t hash = table_digest(t, NULL);
    table_close(t);
    return hash;
}

uint64_t fresh_digest(struct pair *p, unsigned version)
{
    return digest_at(p, version, 0);
}

size_t raw_generations(struct pair *p, char name)
{
    const char lower[4] = {'P', 1, name, 'T'}, upper[4] = {'P', 1, name, 'T' + 1};
    struct seam_slice key, none = {NULL, 0};
    struct seam_cursor *c;
    struct seam_err err;
    uint8_t last[4];
    size_t n = 0;
    ok(seam_cursor_open(p->db, NULL, seam_bytes(lower, 4), seam_bytes(upper, 4), &c, &err), err);
    while (seam_cursor_move(c, SEAM_NEXT, none, &key, &err) == SEAM_OK) {
        assert_true(key.len >= 8);
        const uint8_t *generation = (const uint8_t *)key.ptr + 4;
        if (n == 0 || memcmp(last, generation, 4) != 0)
            n++;
        memcpy(last, generation, 4);
    }
    seam_cursor_close(c);
    return n;
}

bool raw_has(struct pair *p, char name, char tag)
{
    const char key[4] = {'P', 1, name, tag};
    struct seam_pin pin = {0};
    int rc = seam_get(p->db, NULL, seam_bytes(key, 4), &pin, NULL);
    seam_unpin(&pin);
    assert_true(rc == SEAM_OK || rc == SEAM_NOTFOUND);
    return rc == SEAM_OK;
}
