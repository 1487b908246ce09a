/* crash_support.h - what the tests of kills and full disks share: units of work that follow from a
 * seed, a model of what they leave, and children that tell what they do through a pipe.
 *
 * Relies on support.h. Each writer works on keys of its own, so that what is left of it must be
 * exactly its first so many units, whatever the others did; one key is written by all, so that the
 * order among writers shows too. */
#ifndef SEAM_CRASH_SUPPORT_H
#define SEAM_CRASH_SUPPORT_H

#include "support.h"

enum {
    CRASH_WRITERS = 6, /* the last one is the parent */
    CRASH_PARENT = CRASH_WRITERS - 1,
    CRASH_KEYS = 240,  /* of each writer, but for its mark */
    CRASH_OPS = 200,   /* of a unit, but for its mark and the key that all write */
    CRASH_UNIT = 1 << 20 /* bytes of values of a unit, at most */
};

/* ---- units (crash_units.c) ----------------------------------------------------------------- */

struct crash_unit {
    unsigned writer;
    uint64_t number; /* 1, 2, ... of this writer */
    size_t n;
    struct seam_op ops[CRASH_OPS + 2];
    uint64_t fills[CRASH_OPS + 2]; /* what each value was filled from */
    unsigned first[CRASH_OPS + 2], last[CRASH_OPS + 2]; /* keys touched: first <= key < last */
    char keys[2 * CRASH_OPS][16];
    uint64_t mark[2], shared[2];
    char mark_key[2];
    size_t used;
    unsigned char values[CRASH_UNIT];
};

/* What a unit is made of. */
struct crash_shape {
    uint64_t seed;
    unsigned ops;   /* at most, 1..CRASH_OPS */
    unsigned value; /* longest value */
};

void crash_unit_make(struct crash_unit *u, const struct crash_shape *shape, unsigned writer,
                     uint64_t number);

struct crash_cell {
    bool there;
    uint32_t len;
    uint64_t fill;
};

/* What the store holds after the first done[w] units of each writer w. */
struct crash_model {
    uint64_t done[CRASH_WRITERS];
    uint64_t mark[CRASH_WRITERS]; /* second word of the mark: the shape's seed */
    struct crash_cell cells[CRASH_WRITERS][CRASH_KEYS];
};

void crash_model_apply(struct crash_model *m, const struct crash_unit *u);
/* Takes the units of writer that the store has beyond the model into it; returns how many units of
 * the writer there are now. Fails the test if they are fewer than `least` or more than `most`. */
uint64_t crash_model_learn(struct crash_model *m, struct seam_db *db,
                           const struct crash_shape *shape, unsigned writer, uint64_t least,
                           uint64_t most);
/* The whole db holds what the model says, byte by byte, and nothing else. */
void crash_model_check(const struct crash_model *m, struct seam_db *db);

/* ---- children (crash_child.c) --------------------------------------------------------------- */

enum crash_kind {
    CRASH_OPENED = 1, /* number: epoch; extra: caps */
    CRASH_INVOKED,
    CRASH_ACKED,      /* code SEAM_OK */
    CRASH_REFUSED,    /* code of a commit that is NOT DONE */
    CRASH_UNKNOWN,
    CRASH_STEP,       /* of no meaning but that it was reached */
    CRASH_BROKEN      /* the child found a promise broken; it has said so on stderr */
};

struct crash_record {
    uint32_t kind, writer;
    int32_t code;
    uint32_t given; /* enum seam_ack */
    uint64_t number, commit_no, extra;
};

struct crash_child {
    int pid, out;
    bool killed;
};

/* Runs this program anew, with the arguments "child", args[0], ... up to a NULL. */
void crash_spawn(struct crash_child *c, const char *const *args);
/* The child's next record; false at the end of them. A child that tells nothing for three minutes
 * hangs: the test fails. CRASH_BROKEN fails it too. */
bool crash_next(struct crash_child *c, struct crash_record *ret);
void crash_kill(struct crash_child *c);
/* After crash_next gave false, or for a child that tells nothing: its wait status. */
int crash_wait(struct crash_child *c);

/* In the child. Many threads may send. */
void crash_send(const struct crash_record *r);
/* Says on stderr what is broken and ends the process. */
void crash_broken(const char *format, ...) SEAM_PRINTF(1, 2) __attribute__((noreturn));
void crash_pause_us(uint64_t us);
/* The spec in dir; ends the process if it fails, after it has reported CRASH_OPENED if not. */
struct seam_db *crash_open(const char *spec, const char *dir, enum seam_open_mode mode,
                           uint64_t memory);
/* Any level, windows among them. */
uint32_t crash_pick_ack(struct support_rng *rng);
/* What a good answer may say: at least what was asked, or a window. */
void crash_check_ack(uint32_t asked, const struct seam_acked *got);

#endif
