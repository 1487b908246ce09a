/* run_steady.c - before a durable turn: bytes enough for logs to have rolled and files to be recycled.
 *
 * Keeps true: every engine is given the same bytes, in commits that ask for no ack, over keys that come
 * again and again, so that stores stay small; one flush at the engine's best level ends it. Units are
 * the profile's own, of numbers that no turn uses. The rails need none: rawlog's ring is written. */
#include "run.h"

#include <string.h>

enum { COMMIT = 100, KEYS = 40000 };

static bool messages(struct run *r, const uint8_t *ring)
{
    struct seam_op ops[COMMIT];
    uint8_t keys[COMMIT][RUN_KEY];
    memset(ops, 0, sizeof(ops));
    for (uint64_t n = 0, bytes = 0; bytes < r->turn->steady; n += COMMIT) {
        for (size_t i = 0; i < COMMIT; i++) {
            run_key((n + i) % KEYS, keys[i]);
            memcpy(keys[i], "steadily", 8);
            ops[i].kind = SEAM_PUT;
            ops[i].key = seam_bytes(keys[i], RUN_KEY);
            ops[i].head = seam_bytes(run_message(r, ring, n + i), r->turn->value);
            bytes += RUN_KEY + (uint64_t)r->turn->value;
        }
        int rc = seam_write(r->db, ops, COMMIT, SEAM_ACK_NONE, NULL, &r->err);
        if (rc != SEAM_OK)
            return run_fail(r, "steady", rc);
    }
    return true;
}

static bool units(struct run *r)
{
    uint64_t number = run_first_unit(r) + (UINT64_C(1) << 19), bytes = 0;
    for (; bytes < r->turn->steady; number++) {
        struct seam_unit unit;
        int rc = seam_maker_unit(r->maker, number, &unit, &r->err);
        if (rc == SEAM_OK)
            rc = seam_write(r->db, unit.ops, unit.n, SEAM_ACK_NONE, NULL, &r->err);
        if (rc != SEAM_OK)
            return run_fail(r, "steady", rc);
        bytes += unit.bytes;
    }
    return true;
}

bool run_steady(struct run *r, const uint8_t *ring)
{
    if (!r->turn->steady || !r->db)
        return true;
    if (r->turn->workload == BENCH_UNITS ? !units(r) : !messages(r, ring))
        return false;
    int rc = seam_sync(r->db, r->limits.best, &r->err);
    return rc == SEAM_OK || run_fail(r, "steady", rc);
}
