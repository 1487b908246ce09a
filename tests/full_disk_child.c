/* full_disk_child.c - the processes that meet a full disk; the parent judges what they tell.
 *
 * Keeps true: each outcome of each unit is told before anything else is tried. */
#include "full_disk.h"

#include "disk_support.h"

enum { REFUSALS = 16, TICKETS = CRASH_PARENT };

static struct seam_db *open_told(const char *spec, const char *dir, enum seam_open_mode mode,
                                 const char *memory)
{
    struct seam_options o = {
        .mode = mode, .memory = strtoull(memory, NULL, 10), .stall_ms = UINT32_MAX};
    struct crash_record r = {.kind = CRASH_STEP, .writer = FULL_OPEN};
    struct seam_limits limits;
    struct seam_err err = {0};
    struct seam_db *db = NULL;
    int rc = seam_open(spec, dir, &o, &db, &err);

    if (rc != SEAM_OK) {
        if (!err.text[0])
            crash_broken("seam_open: %s without a text", seam_code_name(rc));
        fprintf(stderr, "  open: %s: %s\n", seam_code_name(rc), err.text);
        r.code = rc;
        crash_send(&r);
        return NULL;
    }
    seam_db_limits(db, &limits);
    r = (struct crash_record){
        .kind = CRASH_OPENED, .number = seam_db_epoch(db), .extra = limits.caps};
    crash_send(&r);
    return db;
}

static void close_told(struct seam_db *db)
{
    struct crash_record r = {.kind = CRASH_STEP, .writer = FULL_CLOSE};
    struct seam_err err = {0};

    r.code = seam_close(db, &err);
    if (r.code != SEAM_OK)
        fprintf(stderr, "  close: %s: %s\n", seam_code_name(r.code), err.text);
    crash_send(&r);
}

static void tell(const struct crash_unit *u, enum crash_kind kind, int code,
                 const struct crash_shape *shape, const struct seam_acked *acked)
{
    struct crash_record r = {.kind = kind, .writer = u->writer, .code = code, .number = u->number};

    if (shape) {
        r.commit_no = shape->seed;
        r.extra = shape->value | (uint64_t)shape->ops << 32;
    }
    if (acked)
        r.given = (uint32_t)acked->given;
    crash_send(&r);
}

/* After UNKNOWN nothing more may be taken, and the handle says that it is poisoned. */
static void check_poisoned(struct seam_db *db)
{
    struct seam_op op = op_put(LIT("zz"), LIT("never"));
    int rc = seam_write(db, &op, 1, SEAM_ACK_PROCESS, NULL, NULL);

    if (rc != SEAM_E_POISONED || !seam_db_poisoned(db))
        crash_broken("after UNKNOWN a write answers %s", seam_code_name(rc));
}

static void check_refusal(int rc, const struct seam_err *err)
{
    if (rc == SEAM_E_NO_SPACE && (!err->limit || !err->text[0]))
        crash_broken("E_NO_SPACE names no limit: %s", err->text);
    if (rc != SEAM_E_NO_SPACE && rc != SEAM_E_BUSY && rc != SEAM_E_POISONED)
        crash_broken("refused with %s: %s", seam_code_name(rc), err->text);
}

/* Prepares and tells; NULL if it was refused. */
static struct seam_ticket *prepare_told(struct seam_db *db, const struct crash_unit *u,
                                        const struct crash_shape *shape, uint32_t ack, int *ret_rc)
{
    struct seam_ticket *t = NULL;
    struct seam_err err = {0};

    tell(u, CRASH_INVOKED, 0, shape, NULL);
    *ret_rc = seam_prepare(db, u->ops, u->n, ack, &t, &err);
    if (*ret_rc == SEAM_OK)
        return t;
    check_refusal(*ret_rc, &err);
    tell(u, CRASH_REFUSED, *ret_rc, NULL, NULL);
    return NULL;
}

static int commit_told(struct seam_db *db, struct seam_ticket *t, const struct crash_unit *u,
                       uint32_t ack)
{
    struct seam_acked acked = {0};
    struct seam_err err = {0};
    int rc = seam_commit(t, &acked, &err);

    if (rc == SEAM_OK) {
        crash_check_ack(ack, &acked);
        tell(u, CRASH_ACKED, 0, NULL, &acked);
    } else if (rc == SEAM_E_UNKNOWN) {
        fprintf(stderr, "  commit: %s\n", err.text);
        tell(u, CRASH_UNKNOWN, rc, NULL, NULL);
        check_poisoned(db);
    } else if (rc == SEAM_E_POISONED && seam_db_poisoned(db)) {
        tell(u, CRASH_REFUSED, rc, NULL, NULL);
    } else {
        crash_broken("seam_commit answers %s: %s", seam_code_name(rc), err.text);
    }
    return rc;
}

int full_child_fill(char **args)
{
    struct support_rng rng = {strtoull(args[3], NULL, 10)};
    struct crash_unit *u = malloc(sizeof(*u));
    struct crash_shape shape;
    unsigned refused = 0;
    struct seam_db *db = open_told(args[0], args[1],
                                   (enum seam_open_mode)strtoul(args[2], NULL, 10), args[4]);

    for (uint64_t number = 1; db && u && refused < REFUSALS && number < 1500;) {
        uint32_t ack = crash_pick_ack(&rng);
        int rc;
        /* What was refused is tried again with less and less, down to very little. */
        shape = (struct crash_shape){support_next(&rng), CRASH_OPS >> (refused < 7 ? refused : 7),
                                     65536u >> refused};
        crash_unit_make(u, &shape, 0, number);
        struct seam_ticket *t = prepare_told(db, u, &shape, ack, &rc);
        if (t)
            rc = commit_told(db, t, u, ack);
        if (rc == SEAM_E_UNKNOWN || rc == SEAM_E_POISONED)
            break;
        if (rc == SEAM_OK)
            number++;
        else
            refused++;
    }
    free(u);
    if (db)
        close_told(db);
    return 0;
}

struct held {
    struct crash_unit *unit;
    struct seam_ticket *ticket;
    uint32_t ack;
};

/* One unit of each writer; number is the same for all. Returns how many tickets there are. */
static unsigned hold(struct seam_db *db, struct support_rng *rng, struct held *held)
{
    unsigned n = 0;

    for (unsigned w = 0; w < TICKETS; w++) {
        struct crash_shape shape = {support_next(rng), CRASH_OPS, 65536};
        int rc;
        held[n].ack = crash_pick_ack(rng);
        crash_unit_make(held[n].unit, &shape, w, w == 0 ? 9 : 1);
        held[n].ticket = prepare_told(db, held[n].unit, &shape, held[n].ack, &rc);
        n += held[n].ticket != NULL;
    }
    return n;
}

/* In any order; now and then one is given up. */
static void let_go(struct seam_db *db, struct support_rng *rng, struct held *held, unsigned n)
{
    while (n > 0) {
        unsigned i = (unsigned)support_below(rng, n);
        struct held h = held[i];
        held[i] = held[--n];
        held[n] = h;
        if (support_below(rng, 6) == 0) {
            seam_abort(h.ticket);
            tell(h.unit, CRASH_REFUSED, SEAM_OK, NULL, NULL);
        } else {
            (void)commit_told(db, h.ticket, h.unit, h.ack);
        }
    }
}

/* Units before the disk is taken away. False: there was too little room for anything. */
static bool write_some(struct seam_db *db, struct support_rng *rng, struct crash_unit *u)
{
    struct crash_shape small = {support_next(rng), 20, 2000};

    for (uint64_t number = 1; number <= 8; number++) {
        int rc;
        crash_unit_make(u, &small, 0, number);
        struct seam_ticket *t = prepare_told(db, u, &small, SEAM_ACK_POWER, &rc);
        if (!t)
            return false;
        (void)commit_told(db, t, u, SEAM_ACK_POWER);
    }
    return true;
}

int full_child_held(char **args)
{
    struct support_rng rng = {strtoull(args[2], NULL, 10)};
    struct crash_unit *units = malloc((TICKETS + 1) * sizeof(*units));
    struct held held[TICKETS + 1];
    struct seam_db *db = open_told(args[0], args[1], SEAM_OPEN_CREATE, args[3]);

    if (!units)
        crash_broken("no memory");
    for (unsigned i = 0; i <= TICKETS; i++)
        held[i].unit = &units[i];
    if (db && write_some(db, &rng, units)) {
        unsigned n = hold(db, &rng, held);
        if (!disk_eat(args[4], "eaten", 0))
            crash_broken("the disk cannot be filled");
        let_go(db, &rng, held, n);
    }
    if (db)
        close_told(db);
    free(units);
    return 0;
}
