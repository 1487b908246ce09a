/* test_sim_rebuild.c - a rebuild on the simulated disk: crashes and errors at every call.
 *
 * Journal and projection in two stores. The events are appended and applied with version 1 in every
 * value, some as units of several commits; then the table is rebuilt with version 2, in bounded calls and
 * over reopens, and swept. After each crash the table is of one version, whole, as its position says; a
 * rebuild then ends, with version 2 and nothing left of the old one.
 * SEAM_EVERY: of so many calls one is looked at; 1: each. */
#include "search.h"
#include "sim_support.h"
#include "support.h"

#include <seam/backend.h>
#include <seam/journal.h>
#include <seam/projection.h>

#include <errno.h>

#define JOURNAL "vlog:segment=64K,spare=0"
#define TABLE "limit:ops=12+vlog:segment=64K,spare=0"

enum { EVENTS = 26, SLOTS = 5, UNIT = 20, KEYS = SLOTS + UNIT };

struct job {
    uint64_t appended, applied; /* acked, and closed */
    bool ended;                 /* a rebuild, and closed */
    bool faults;
    unsigned phase;   /* the version that the work is at */
    unsigned version; /* of the projector now: a check may be within another */
};

struct both {
    struct seam_db *of_journal, *of_table;
    struct seam_journal *j;
    struct seam_projection *t;
    uint32_t stream;
};

/* ---- what an event does ---------------------------------------------------------------------- */

static bool is_unit(uint64_t sequence)
{
    return sequence % 9 == 4;
}

static void key_name(unsigned k, char key[16])
{
    (void)snprintf(key, 16, k < SLOTS ? "k%u" : "u%02u", k < SLOTS ? k : k - SLOTS);
}

/* The event that the key's value is of, after the first `at`; 0: it is not there. */
static uint64_t owner(unsigned k, uint64_t at)
{
    for (uint64_t i = at; i > 0; i--) {
        if (k >= SLOTS ? is_unit(i) : !is_unit(i) && i % SLOTS == k)
            return i;
        if (k < SLOTS && !is_unit(i) && i % 7 == 3 && (i + 2) % SLOTS == k)
            return 0;
    }
    return 0;
}

static int emit(struct seam_emit *out, enum seam_kind kind, unsigned k, const uint64_t value[2],
                struct seam_err *err)
{
    char key[16];
    key_name(k, key);
    struct seam_op op = {.kind = kind, .key = seam_bytes(key, strlen(key))};
    if (kind == SEAM_PUT)
        op.head = seam_bytes(value, 16);
    return seam_emit_op(out, &op, err);
}

static int project(void *ctx, const struct seam_event *event, struct seam_emit *out,
                   struct seam_err *err)
{
    const unsigned *version = ctx;
    uint64_t i = event->sequence, value[2] = {i, *version};
    int rc = SEAM_OK;
    for (unsigned k = SLOTS; is_unit(i) && k < KEYS && rc == SEAM_OK; k++)
        rc = emit(out, SEAM_PUT, k, value, err);
    if (is_unit(i) || rc != SEAM_OK)
        return rc;
    if (i % 7 == 3)
        rc = emit(out, SEAM_DELETE, (unsigned)((i + 2) % SLOTS), NULL, err);
    return rc == SEAM_OK ? emit(out, SEAM_PUT, (unsigned)(i % SLOTS), value, err) : rc;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static int open_both(struct job *job, const struct seam_platform *os, struct both *b,
                     struct seam_err *err)
{
    struct seam_options o = {.mode = SEAM_OPEN_CREATE, .platform = os, .stall_ms = UINT32_MAX};
    struct seam_journal_options jo = {.platform = os, .witness = SEAM_WITNESS_AT_CLOSE};
    struct seam_projection_options po = {.stream = LIT("s"), .projector = project, .platform = os,
                                         .projector_ctx = &job->version, .split_units = true,
                                         .atomic_reads = true};
    memset(b, 0, sizeof *b);
    int rc = seam_open(JOURNAL, "/j", &o, &b->of_journal, err);
    if (rc == SEAM_OK)
        rc = seam_open(TABLE, "/t", &o, &b->of_table, err);
    if (rc == SEAM_OK)
        rc = seam_journal_open(b->of_journal, &jo, &b->j, err);
    if (rc == SEAM_OK)
        rc = seam_journal_stream(b->j, LIT("s"), true, &b->stream, err);
    po.journal = b->j;
    if (rc == SEAM_OK)
        rc = seam_projection_open(b->of_table, LIT("t"), &po, &b->t, err);
    return rc;
}

static int close_both(struct both *b, struct seam_err *err)
{
    int rc = seam_projection_close(b->t, err), more = seam_journal_close(b->j, err);
    rc = rc == SEAM_OK ? more : rc;
    more = seam_close(b->of_table, err);
    rc = rc == SEAM_OK ? more : rc;
    more = seam_close(b->of_journal, err);
    return rc == SEAM_OK ? more : rc;
}

/* ---- work ------------------------------------------------------------------------------------ */

static int feed(struct job *job, struct both *b, struct seam_err *err)
{
    uint64_t applied = 0;
    int rc = SEAM_OK;
    while (rc == SEAM_OK && job->appended < EVENTS) {
        struct seam_slice event = LIT("event");
        rc = seam_journal_append(b->j, b->stream, &event, 1, SEAM_ACK_POWER, NULL, err);
        job->appended += rc == SEAM_OK ? 1 : 0;
    }
    return rc == SEAM_OK ? seam_projection_catch_up(b->t, 0, &applied, err) : rc;
}

/* Fed in the first opening, rebuilt in the next ones, swept in the last. */
static void work(void *arg, const struct seam_platform *os, char text[static 256])
{
    struct job *job = arg;
    *job = (struct job){.faults = job->faults};
    bool ended = false;
    for (int round = 0; round < 4 && text[0] == '\0'; round++) {
        struct both b;
        struct seam_err err = {.text = ""};
        struct seam_rebuild_options o = {.max_events = round < 3 ? 9 : 0};
        struct seam_rebuild_progress at = {0};
        job->phase = job->version = round == 0 ? 1 : 2;
        int rc = open_both(job, os, &b, &err);
        if (rc == SEAM_OK && round == 0)
            rc = feed(job, &b, &err);
        else if (rc == SEAM_OK)
            rc = seam_projection_rebuild(b.t, &o, &at, &err);
        ended = ended || at.ended;
        if (rc != SEAM_OK && !job->faults)
            (void)snprintf(text, 256, "work: %s: %.200s", seam_code_name(rc), err.text);
        int closed = close_both(&b, &err);
        if (closed != SEAM_OK && !job->faults)
            (void)snprintf(text, 256, "close: %.200s", err.text);
        if (rc != SEAM_OK || closed != SEAM_OK)
            return;
        job->applied = EVENTS;
        job->ended = ended;
    }
}

static uint64_t promised(void *arg)
{
    const struct job *job = arg;
    return (job->appended * 1009 + job->applied) * 4 + job->phase * 2 + job->ended;
}

/* ---- check ----------------------------------------------------------------------------------- */

/* All values are of one version, which is given back (0: there are none), and as the position says. */
static unsigned check_table(struct both *b, uint64_t *ret_at, char text[static 256])
{
    struct seam_view *view = NULL;
    struct seam_position at;
    struct seam_err err;
    uint64_t version = 0;
    if (seam_view_open(b->t, &view, &err) != SEAM_OK) {
        (void)snprintf(text, 256, "view: %.200s", err.text);
        return 0;
    }
    seam_view_position(view, &at);
    *ret_at = at.sequence;
    if (at.parts > 0)
        (void)snprintf(text, 256, "a view shows part %u of %u", at.part, at.parts);
    for (unsigned k = 0; k < KEYS && text[0] == '\0'; k++) {
        char key[16];
        struct seam_pin pin = {0};
        uint64_t got[2] = {0, 0}, want = owner(k, at.sequence);
        key_name(k, key);
        int rc = seam_projection_get(b->t, view, seam_bytes(key, strlen(key)), &pin, &err);
        if (rc == SEAM_OK && pin.value.len == 16)
            memcpy(got, pin.value.ptr, 16);
        seam_unpin(&pin);
        if (rc != SEAM_OK && rc != SEAM_NOTFOUND)
            (void)snprintf(text, 256, "key %s: %.200s", key, err.text);
        else if (got[0] != want || (want > 0 && version != 0 && got[1] != version))
            (void)snprintf(text, 256, "key %s at %llu: of event %llu, not %llu, version %llu", key,
                           (unsigned long long)at.sequence, (unsigned long long)got[0],
                           (unsigned long long)want, (unsigned long long)got[1]);
        version = want > 0 ? got[1] : version;
    }
    seam_view_close(view);
    return (unsigned)version;
}

/* One table, and no record of a build or a sweep. */
static void check_swept(struct both *b, char text[static 256])
{
    struct seam_cursor *c;
    struct seam_slice key, none = {NULL, 0};
    struct seam_err err;
    unsigned char first[4] = {0};
    if (seam_cursor_open(b->of_table, NULL, none, none, &c, &err) != SEAM_OK) {
        (void)snprintf(text, 256, "cursor: %.200s", err.text);
        return;
    }
    bool any = false;
    while (seam_cursor_move(c, SEAM_NEXT, none, &key, &err) == SEAM_OK) {
        const unsigned char *p = key.ptr;
        if (key.len == 4 && p[3] != 'M')
            (void)snprintf(text, 256, "a record %c is left", p[3]);
        if (key.len > 8 && any && memcmp(first, p + 4, 4) != 0)
            (void)snprintf(text, 256, "keys of an old table are left");
        if (key.len > 8)
            memcpy(first, p + 4, 4);
        any = any || key.len > 8;
    }
    seam_cursor_close(c);
}

static void check(void *arg, const struct seam_platform *os, bool power, uint64_t *seen,
                  char text[static 256])
{
    struct job *job = arg;
    struct both b;
    struct seam_err err = {.text = ""};
    unsigned kept = job->version;
    uint64_t at = 0;
    job->version = job->phase < 2 ? 1 : 2; /* an open inside a unit goes on with it */
    (void)power;
    int rc = open_both(job, os, &b, &err);
    if (rc != SEAM_OK)
        (void)snprintf(text, 256, "open: %s: %.200s", seam_code_name(rc), err.text);
    unsigned version = text[0] == '\0' ? check_table(&b, &at, text) : 0;
    if (text[0] == '\0' && *seen == 0 && (at < job->applied || (job->ended && version != 2)))
        (void)snprintf(text, 256, "at %llu, version %u", (unsigned long long)at, version);
    if (text[0] == '\0') {
        struct seam_rebuild_progress done;
        rc = seam_projection_catch_up(b.t, 0, NULL, &err); /* a unit goes on as it was begun */
        job->version = 2;
        if (rc == SEAM_OK)
            rc = seam_projection_rebuild(b.t, NULL, &done, &err);
        if (rc == SEAM_OK)
            rc = seam_projection_catch_up(b.t, 0, NULL, &err);
        if (rc != SEAM_OK)
            (void)snprintf(text, 256, "going on: %s: %.200s", seam_code_name(rc), err.text);
    }
    version = text[0] == '\0' ? check_table(&b, &at, text) : 0;
    if (text[0] == '\0' && (at < job->appended || (at > 0 && version != 2)))
        (void)snprintf(text, 256, "rebuilt, at %llu, version %u", (unsigned long long)at, version);
    if (text[0] == '\0')
        check_swept(&b, text);
    *seen = 1;
    job->version = kept;
    rc = close_both(&b, &err);
    if (rc != SEAM_OK && text[0] == '\0')
        (void)snprintf(text, 256, "close: %.200s", err.text);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static struct sim_search search_of(struct job *job)
{
    struct sim_search s = {.seed = support_seed(), .work = work, .promised = promised,
                           .check = check, .arg = job};
    s.every = support_every(8);
    s.random = 3;
    s.nested = 80;
    return s;
}

static void test_crashes(void **state)
{
    (void)state;
    struct job job = {.faults = false};
    struct sim_search s = search_of(&job);
    sim_search_crashes(&s);
    sim_report(&s);
}

static void test_errors(void **state)
{
    static const int errors[] = {EIO, ENOSPC, 0};
    (void)state;
    struct job job = {.faults = true};
    struct sim_search s = search_of(&job);
    sim_search_errors(&s, errors, sizeof errors / sizeof errors[0], s.every);
    sim_report(&s);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct job job = {.faults = true};
    struct sim_search s = search_of(&job);
    sim_search_allocations(&s, s.every * 2);
    sim_report(&s);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_crashes), cmocka_unit_test(test_errors),
                                       cmocka_unit_test(test_no_memory)};
    int rc = support_begin(argc, argv);
    return rc ? rc : cmocka_run_group_tests(tests, NULL, NULL);
}
