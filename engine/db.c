/* db.c - open and close of a db: the stack of layers over one store directory.
 *
 * Relies on spec.c for the stack and on storedir.c for the directory. Keeps true: a store exists
 * whole or not at all; the engine has rewritten what was not known durable, and the new epoch is on
 * the device, before a handle is returned; whatever failed, nothing of the open is left. */
#include "core.h"

#include <stdlib.h>
#include <string.h>

enum { MEMORY_DEFAULT = 64 << 20, STALL_DEFAULT_MS = 10000, TICKETS_DEFAULT = 1024 };

static int check_options(const struct seam_options *o, struct seam_err *err)
{
    if ((unsigned)o->mode > SEAM_OPEN_READ_ONLY)
        return seam_fail(err, SEAM_E_OPTION, "options.mode %d is no open mode", (int)o->mode);
    if (o->headroom_percent > 100)
        return seam_fail(err, SEAM_E_OPTION, "options.headroom_percent is 1 to 100, not %u",
                         o->headroom_percent);
    if (o->memory && o->memory < (1 << 20))
        return seam_fail(err, SEAM_E_OPTION, "options.memory is at least 1 MiB, not %llu bytes",
                         (unsigned long long)o->memory);
    return SEAM_OK;
}

static const struct seam_backend *bottom(const struct seam_db *db)
{
    return db->spec.layers[db->spec.n - 1].be;
}

static void args_of(const struct seam_db *db, const struct seam_options *o,
                    struct seam_open_args *ret)
{
    static const uint8_t no_uuid[16];
    memset(ret, 0, sizeof(*ret));
    ret->os = db->os;
    ret->dir = db->sd ? seam_storedir_dir(db->sd) : -1;
    ret->path = db->sd ? seam_storedir_path(db->sd) : NULL;
    ret->create = db->sd && seam_storedir_fresh(db->sd);
    ret->read_only = db->read_only;
    ret->memory = o->memory ? o->memory : MEMORY_DEFAULT;
    ret->disk = o->disk ? o->disk : UINT64_MAX;
    ret->epoch = db->sd ? seam_storedir_epoch(db->sd) : 0;
    ret->uuid = db->sd ? seam_storedir_uuid(db->sd) : no_uuid;
}

/* Only prepare can count the keys that a range covers, so who sets that limit must have one. */
static int check_counting(const struct seam_engine *e, struct seam_err *err)
{
    struct seam_limits own, below;
    if (!e->be->limits || e->be->prepare)
        return SEAM_OK;
    below.range_keys = UINT64_MAX;
    if (e->below)
        seam_layer_limits(e->below, &below);
    e->be->limits(e, &own);
    if (own.caps & SEAM_CAP_LAZY_RANGE || own.range_keys >= below.range_keys)
        return SEAM_OK;
    return seam_fail(err, SEAM_E_NO_ENGINE,
                     "'%s' has a limit range_keys of %llu, but no prepare that would keep it",
                     e->be->name, (unsigned long long)own.range_keys);
}

/* Opens layer i over db->top and makes it the top. */
static int open_layer(struct seam_db *db, size_t i, struct seam_open_args *args,
                      struct seam_err *err)
{
    const struct seam_spec_layer *layer = &db->spec.layers[i];
    struct seam_engine *e = NULL;
    args->settings = layer->settings;
    args->below = db->top;
    int rc = layer->be->open(args, &e, err);
    if (rc != SEAM_OK)
        return rc;
    if (!e)
        return seam_fail(err, SEAM_E_IO, "'%s' said done, but opened nothing: a defect of it",
                         layer->be->name);
    e->be = layer->be;
    e->below = db->top;
    e->os = db->os;
    db->top = e;
    return check_counting(e, err);
}

/* A wrapper closes what is below it. */
static int close_layers(struct seam_db *db, struct seam_err *err)
{
    struct seam_engine *e = db->top;
    db->top = NULL;
    return e ? e->be->close(e, err) : SEAM_OK;
}

/* A new engine is made in engine.new and closed before that becomes engine: some keep paths. */
static int create_engine(struct seam_db *db, const struct seam_options *o, struct seam_err *err)
{
    struct seam_open_args args;
    args_of(db, o, &args);
    int rc = open_layer(db, db->spec.n - 1, &args, err);
    if (rc == SEAM_OK)
        rc = close_layers(db, err);
    return rc == SEAM_OK ? seam_storedir_made(db->sd, err) : rc;
}

static int open_layers(struct seam_db *db, const struct seam_options *o, struct seam_err *err)
{
    struct seam_open_args args;
    int rc = SEAM_OK;
    if (db->sd && seam_storedir_fresh(db->sd))
        rc = create_engine(db, o, err);
    args_of(db, o, &args);
    for (size_t i = db->spec.n; rc == SEAM_OK && i-- > 0;)
        rc = open_layer(db, i, &args, err);
    return rc;
}

static uint64_t share(uint64_t limit, uint32_t percent)
{
    if (limit == UINT64_MAX || percent == 100)
        return limit;
    uint64_t part = limit / 100 * percent + limit % 100 * percent / 100;
    return part ? part : limit > 0; /* a limit of one op is not a limit of none */
}

static void set_limits(struct seam_db *db, const struct seam_options *o)
{
    uint32_t percent = o->headroom_percent ? o->headroom_percent : 90;
    uint64_t tickets = o->tickets ? o->tickets : TICKETS_DEFAULT;
    struct seam_limits *l = &db->limits;
    seam_layer_limits(db->top, l);
    l->ops = share(l->ops, percent);
    l->bytes = share(l->bytes, percent);
    l->range_keys = share(l->range_keys, percent);
    if (tickets < l->tickets)
        l->tickets = tickets;
    if (l->pins > SEAM_HANDLES_MOST)
        l->pins = SEAM_HANDLES_MOST;
}

static int open_dir(struct seam_db *db, const char *dir, const struct seam_options *o,
                    struct seam_err *err)
{
    const struct seam_backend *be = bottom(db);
    if (be->flags & SEAM_BACKEND_VOLATILE)
        return SEAM_OK;
    if (!dir || !*dir)
        return seam_fail(err, SEAM_E_NO_STORE, "engine '%s' needs a directory", be->name);
    return seam_storedir_open(db->os, dir, o->mode, be->name, be->format, &db->sd, err);
}

/* Frees what a failed or finished open holds; the layers are closed by then. */
static void db_free(struct seam_db *db)
{
    seam_ledger_close(db->tickets);
    seam_storedir_close(db->sd);
    seam_spec_close(&db->spec);
    seam_fork_mark_close(&db->mark);
    if (db->has_gate)
        (void)pthread_mutex_destroy(&db->gate);
    db->os->free(db->os->ctx, db->name);
    db->os->free(db->os->ctx, db);
}

static int db_new(const struct seam_options *o, struct seam_db **ret, struct seam_err *err)
{
    const struct seam_platform *os = o->platform ? o->platform : seam_platform_system();
    struct seam_db *db = os->alloc(os->ctx, sizeof(*db));
    if (!db)
        return seam_fail(err, SEAM_E_NOMEM, "no memory for a db handle");
    memset(db, 0, sizeof(*db));
    db->os = os;
    db->read_only = o->mode == SEAM_OPEN_READ_ONLY;
    uint32_t stall = o->stall_ms ? o->stall_ms : STALL_DEFAULT_MS;
    db->stall_ns = stall == UINT32_MAX ? 0 : (uint64_t)stall * 1000000u;
    *ret = db;
    return SEAM_OK;
}

static int set_name(struct seam_db *db, struct seam_err *err)
{
    size_t size = seam_spec_text(&db->spec, NULL, 0) + 1;
    db->name = db->os->alloc(db->os->ctx, size);
    if (!db->name)
        return seam_fail(err, SEAM_E_NOMEM, "no memory for a db handle");
    (void)seam_spec_text(&db->spec, db->name, size);
    return SEAM_OK;
}

/* Whether a layer that commits does not say that many threads may do so at once. */
static int gate_open(struct seam_db *db, struct seam_err *err)
{
    for (size_t i = 0; i < db->spec.n; i++) {
        const struct seam_backend *be = db->spec.layers[i].be;
        if ((be->commit || be->sync) && !(be->flags & SEAM_BACKEND_CONCURRENT))
            db->one_by_one = true;
    }
    int failed = db->one_by_one ? pthread_mutex_init(&db->gate, NULL) : 0;
    if (failed)
        return seam_fail_os(err, failed, "cannot make a lock for a db handle");
    db->has_gate = db->one_by_one;
    return SEAM_OK;
}

static int open_rest(struct seam_db *db, const char *engine, const char *dir,
                     const struct seam_options *o, struct seam_err *err)
{
    int rc = seam_spec_parse(db->os, engine, o->engines, &db->spec, err);
    if (rc == SEAM_OK)
        rc = set_name(db, err);
    if (rc == SEAM_OK && seam_fork_mark_open(&db->mark) != SEAM_OK)
        rc = seam_fail(err, SEAM_E_NOMEM, "no memory for a db handle");
    if (rc == SEAM_OK)
        rc = gate_open(db, err);
    if (rc == SEAM_OK)
        rc = open_dir(db, dir, o, err);
    if (rc == SEAM_OK)
        rc = open_layers(db, o, err);
    if (rc == SEAM_OK && db->sd && !db->read_only)
        rc = seam_storedir_barrier(db->sd, err);
    if (rc != SEAM_OK)
        return rc;
    set_limits(db, o);
    rc = seam_ledger_open(db->os, db->limits.tickets, &db->tickets, err);
    return rc == SEAM_OK ? seam_window_open(&db->window, err) : rc;
}

int seam_open(const char *engine, const char *dir, const struct seam_options *options,
              struct seam_db **ret, struct seam_err *err)
{
    static const struct seam_options defaults;
    const struct seam_options *o = options ? options : &defaults;
    struct seam_db *db = NULL;
    int rc = check_options(o, err);
    if (rc == SEAM_OK && (!engine || !*engine))
        rc = seam_fail(err, SEAM_E_NO_ENGINE, "no engine is named");
    if (rc == SEAM_OK)
        rc = db_new(o, &db, err);
    if (rc != SEAM_OK)
        return rc;
    rc = open_rest(db, engine, dir, o, err);
    if (rc != SEAM_OK) {
        (void)close_layers(db, NULL);
        db_free(db);
        return rc;
    }
    *ret = db;
    return SEAM_OK;
}

int seam_engine_check(const char *engine, const struct seam_options *options, bool *ret_volatile,
                      struct seam_err *err)
{
    const struct seam_platform *os =
        options && options->platform ? options->platform : seam_platform_system();
    struct seam_spec spec;
    int rc = seam_spec_parse(os, engine, options ? options->engines : NULL, &spec, err);
    if (rc == SEAM_OK && ret_volatile)
        *ret_volatile = spec.layers[spec.n - 1].be->flags & SEAM_BACKEND_VOLATILE;
    seam_spec_close(&spec);
    return rc;
}

static int still_open(struct seam_db *db, struct seam_err *err)
{
    uint64_t tickets = seam_ledger_promised(db->tickets);
    uint64_t snaps = seam_handle_count(db, SEAM_HANDLE_SNAP);
    uint64_t pins = seam_handle_count(db, SEAM_HANDLE_PIN);
    uint64_t cursors = seam_handle_count(db, SEAM_HANDLE_CURSOR);
    if (tickets + snaps + pins + cursors == 0)
        return SEAM_OK;
    return seam_fail(err, SEAM_E_BUSY,
                     "'%s' is in use: %llu tickets, %llu snapshots, %llu pins, %llu cursors are open",
                     db->name, (unsigned long long)tickets, (unsigned long long)snaps,
                     (unsigned long long)pins, (unsigned long long)cursors);
}

int seam_close(struct seam_db *db, struct seam_err *err)
{
    if (!db)
        return SEAM_OK;
    int rc = seam_db_usable(db, err);
    if (rc == SEAM_E_FORKED && db->sd)
        seam_storedir_forget(db->sd);
    if (rc == SEAM_OK)
        rc = still_open(db, err);
    if (rc != SEAM_OK)
        return rc;
    enum seam_ack owed = seam_window_close(&db->window);
    if (owed > SEAM_ACK_NONE && !atomic_load(&db->poisoned))
        rc = seam_db_raise(db, owed, err);
    if (rc == SEAM_OK)
        rc = seam_db_untold(db, err);
    int closed = close_layers(db, rc == SEAM_OK ? err : NULL);
    db_free(db);
    return rc == SEAM_OK ? closed : rc;
}

void seam_db_limits(const struct seam_db *db, struct seam_limits *ret)
{
    *ret = db->limits;
}

int seam_db_dir(const struct seam_db *db)
{
    return db->sd ? seam_storedir_top(db->sd) : -1;
}

const struct seam_platform *seam_db_platform(const struct seam_db *db)
{
    return db->os;
}

bool seam_db_read_only(const struct seam_db *db)
{
    return db->read_only;
}

const char *seam_db_engine(const struct seam_db *db)
{
    return db->name;
}

uint64_t seam_db_epoch(const struct seam_db *db)
{
    return db->sd ? seam_storedir_epoch(db->sd) : 0;
}

const uint8_t *seam_db_uuid(const struct seam_db *db)
{
    static const uint8_t none[16];
    return db->sd ? seam_storedir_uuid(db->sd) : none;
}

int seam_db_stats(struct seam_db *db, struct seam_stats *ret, struct seam_err *err)
{
    struct seam_stats s;
    memset(&s, 0xff, sizeof(s)); /* -1 everywhere */
    int rc = seam_db_usable(db, err);
    if (rc == SEAM_OK)
        rc = seam_layer_stats(db->top, &s, err);
    if (rc != SEAM_OK)
        return rc;
    s.commits = (int64_t)atomic_load(&db->commits);
    s.ops = (int64_t)atomic_load(&db->ops);
    s.user_bytes = (int64_t)atomic_load(&db->user_bytes);
    s.stall_us = (int64_t)atomic_load(&db->stall_us);
    s.tickets = (int64_t)seam_ledger_promised(db->tickets);
    s.snapshots = (int64_t)seam_handle_count(db, SEAM_HANDLE_SNAP);
    s.cursors = (int64_t)seam_handle_count(db, SEAM_HANDLE_CURSOR);
    s.pins = (int64_t)seam_handle_count(db, SEAM_HANDLE_PIN);
    *ret = s;
    return SEAM_OK;
}

size_t seam_db_describe(struct seam_db *db, char *buf, size_t cap)
{
    if (seam_fork_mark_holds(&db->mark))
        return seam_layer_describe(db->top, buf, cap);
    if (cap)
        buf[0] = 0;
    return 0;
}
