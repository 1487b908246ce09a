/* test_vlog_promise.c - a ticket of the native engine can be committed, whatever was promised to
 * others, in whatever order they come, and however little room there is.
 *
 * Tickets of all sizes are held, then all of them committed or aborted in a random order with no
 * prepare between, so that nothing is made meanwhile: each commit must find its room in what was
 * made ready when it was promised. Nothing but room for the log is short. SEAM_OPS: rounds. */
#include "support.h"

enum { TICKETS = 24, ROUNDS = 60, VALUE_MAX = 200000 };

struct held {
    struct seam_ticket *ticket;
    struct seam_op op;
    char key[16];
};

struct shape {
    const char *spec;
    uint64_t disk; /* 0: no cap */
    size_t value;  /* longest */
    unsigned big;  /* one value in so many may be that long, the others a tenth of it */
};

static unsigned char *filler;

static void hold(struct seam_db *db, const struct shape *s, struct support_rng *rng, struct held *h)
{
    struct seam_err err;
    uint32_t ack = support_below(rng, 3) == 0 ? SEAM_ACK_POWER : SEAM_ACK_NONE;
    size_t most = support_below(rng, s->big) == 0 ? s->value : s->value / 10;
    (void)snprintf(h->key, sizeof h->key, "key%u", (unsigned)support_below(rng, 12));
    h->op = op_put(seam_bytes(h->key, strlen(h->key)), seam_bytes(filler, support_below(rng, most)));
    h->ticket = NULL;
    int rc = seam_prepare(db, &h->op, 1, ack, &h->ticket, &err);
    if (rc != SEAM_OK && rc != SEAM_E_NO_SPACE && rc != SEAM_E_BUSY)
        expect_ok(rc, &err);
    if (rc != SEAM_OK)
        h->ticket = NULL;
}

/* Consumes all that are held in a random order; returns how many were committed. */
static unsigned settle(struct held *held, unsigned n, struct support_rng *rng)
{
    unsigned order[TICKETS], done = 0;
    for (unsigned i = 0; i < n; i++) {
        unsigned k = (unsigned)support_below(rng, i + 1);
        order[i] = order[k];
        order[k] = i;
    }
    for (unsigned i = 0; i < n; i++) {
        struct held *h = &held[order[i]];
        struct seam_err err;
        if (h->ticket && support_below(rng, 6) == 0) {
            seam_abort(h->ticket);
        } else if (h->ticket) {
            expect_ok(seam_commit(h->ticket, NULL, &err), &err);
            done++;
        }
    }
    return done;
}

static void run(const struct shape *s, uint64_t seed)
{
    struct seam_options o = {.mode = SEAM_OPEN_NEW, .stall_ms = UINT32_MAX, .disk = s->disk};
    struct seam_db *db = support_open_with(s->spec, support_dir(), &o);
    struct support_rng rng = {seed};
    uint64_t rounds = support_number("SEAM_OPS", ROUNDS), committed = 0;
    for (uint64_t i = 0; i < rounds; i++) {
        struct held held[TICKETS];
        unsigned n = 1 + (unsigned)support_below(&rng, TICKETS);
        for (unsigned k = 0; k < n; k++)
            hold(db, s, &rng, &held[k]);
        committed += settle(held, n, &rng);
    }
    assert_true(committed > 0);
    support_close(db);
}

static void test_any_order(void **state)
{
    static const struct shape shapes[] = {
        {"vlog:segment=64K,spare=0", 0, 60000, 4},
        {"vlog:segment=64K,spare=2", 0, 60000, 4},
        {"vlog:segment=256K,spare=0", 0, VALUE_MAX, 3},
        {"vlog:segment=256K,spare=1", 3 << 20, VALUE_MAX, 3},
        {"vlog:segment=64K,spare=0", 1 << 20, 60000, 2},
    };
    (void)state;
    for (uint64_t k = 0; k < 8; k++)
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
            run(&shapes[i], support_seed() + k);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_any_order)};
    int rc = support_begin(argc, argv);
    if (rc != 0)
        return rc;
    filler = malloc(VALUE_MAX);
    if (!filler)
        return 2;
    support_fill(filler, VALUE_MAX, 1);
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    free(filler);
    return rc;
}
