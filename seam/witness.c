/* witness.c - the WITNESS file: how far the journal was known to reach, kept apart from the engine.
 *
 * An engine that lost its newest records, by rot or by another's hand, may open as if they had never
 * been. So the last group that is sure to survive a power cut is also written down here, with the
 * chain that speaks for all before it; at open the journal must reach that far, by the same chain. (The
 * idea of an identifier kept apart from what it identifies: Alagappan, Ganesan, Lee, Albarghouthi,
 * Chidambaram, Arpaci-Dusseau, Arpaci-Dusseau, "Protocol-Aware Recovery for Consensus-Based Storage",
 * FAST 2018.)
 *
 * Relies on the db's directory and platform. Keeps true: a slot is written only for a group that is
 * durable; slots are written in turn, each in a block of its own, so that a torn write leaves the other;
 * once the journal's record says that there is a witness, there is one. */
#include "journal_int.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

/* ---- the file ---------------------------------------------------------------------------- */

static void set_name(struct seam_journal *j)
{
    struct seam_jwitness *w = &j->witness;
    size_t at = (size_t)snprintf(w->name, sizeof w->name, "WITNESS%s", j->prefix.len > 0 ? "-" : "");
    for (size_t i = 0; i < j->prefix.len; i++, at += 2)
        (void)snprintf(w->name + at, sizeof w->name - at, "%02x", j->prefix_bytes[i]);
}

static int fail_file(const struct seam_jwitness *w, int rc, const char *what, struct seam_err *err)
{
    return seam_fail_os(err, -rc, "cannot %s %s", what, w->name);
}

static void close_file(struct seam_jwitness *w)
{
    if (w->fd >= 0)
        (void)w->os->close(w->os->ctx, w->fd);
    w->fd = -1;
}

/* Under lock: writes a slot and flushes it. 0 or -errno. */
static int write_slot(struct seam_jwitness *w, const struct seam_fmt_witness *what)
{
    uint8_t bytes[SEAM_FMT_WITNESS];
    struct iovec part = {bytes, sizeof bytes};
    seam_fmt_witness_write(bytes, what);
    int rc = seam_write_all(w->os, w->fd, &part, 1, (uint64_t)w->slot * SEAM_WITNESS_BLOCK);
    if (rc >= 0)
        rc = w->os->sync(w->os->ctx, w->fd);
    w->slot ^= 1u;
    return rc < 0 ? rc : 0;
}

/* A file of two blocks of zeros, then a first slot; durable, name and all. */
static int make_file(struct seam_jwitness *w, const struct seam_fmt_witness *first)
{
    static const uint8_t zeros[2 * SEAM_WITNESS_BLOCK];
    struct iovec part = {(void *)(uintptr_t)zeros, sizeof zeros}; /* only read from */
    int fd = w->os->open(w->os->ctx, w->dir, w->name, SEAM_FILE_WRITE | SEAM_FILE_CREATE);
    if (fd < 0)
        return fd;
    w->fd = fd;
    w->slot = 0;
    int rc = seam_write_all(w->os, fd, &part, 1, 0);
    if (rc >= 0)
        rc = write_slot(w, first);
    return rc < 0 ? rc : w->os->sync_dir(w->os->ctx, w->dir);
}

int seam_w_make(struct seam_journal *j, struct seam_err *err)
{
    struct seam_jwitness *w = &j->witness;
    struct seam_fmt_witness first = {.epoch = seam_db_epoch(j->db)};
    if (w->dir < 0 || w->mode == SEAM_WITNESS_NONE || seam_db_read_only(j->db) ||
        j->limits.best < SEAM_ACK_POWER)
        return SEAM_OK;
    memcpy(first.uuid, j->uuid, sizeof first.uuid);
    int rc = make_file(w, &first);
    if (rc < 0)
        return fail_file(w, rc, "make", err);
    j->has_witness = true;
    return SEAM_OK;
}

/* ---- holding the journal to it ----------------------------------------------------------- */

/* The newer slot that is whole. E_CORRUPT: neither is. */
static int read_slots(struct seam_jwitness *w, struct seam_fmt_witness *ret, struct seam_err *err)
{
    int rc = SEAM_E_CORRUPT;
    struct seam_file_info info;
    int got = w->os->stat(w->os->ctx, w->fd, "", &info);
    if (got < 0)
        return fail_file(w, got, "look at", err);
    for (uint32_t i = 0; i < 2; i++) {
        uint8_t bytes[SEAM_FMT_WITNESS];
        struct seam_fmt_witness one;
        struct seam_err ignored;
        uint64_t at = (uint64_t)i * SEAM_WITNESS_BLOCK;
        if (info.size < at + sizeof bytes)
            continue; /* cut: that is damage, and a read that fails is not */
        got = seam_read_all(w->os, w->fd, bytes, sizeof bytes, at);
        if (got < 0)
            return fail_file(w, got, "read", err);
        if (seam_fmt_witness_read(bytes, &one, &ignored) != SEAM_OK)
            continue;
        if (rc == SEAM_OK && (one.group < ret->group ||
                              (one.group == ret->group && one.epoch <= ret->epoch)))
            continue;
        rc = SEAM_OK;
        *ret = one;
        w->slot = i ^ 1u;
    }
    return rc == SEAM_OK ? rc : seam_fail(err, rc, "%s is damaged in both its slots", w->name);
}

/* The chain of a group that is still there. */
static int chain_of(struct seam_journal *j, uint64_t number, uint32_t *ret, struct seam_err *err)
{
    struct seam_fmt_key key;
    struct seam_fmt_group group;
    struct seam_pin pin = {0};
    seam_j_group_key(j, number, &key);
    int rc = seam_get(j->db, NULL, seam_fmt_slice(&key), &pin, err);
    if (rc == SEAM_NOTFOUND)
        return seam_fail(err, SEAM_E_CORRUPT, "group record %llu is missing",
                         (unsigned long long)number);
    if (rc == SEAM_OK)
        rc = seam_fmt_group_read(number, pin.value, &group, err);
    seam_unpin(&pin);
    if (rc == SEAM_OK)
        *ret = group.chain;
    return rc;
}

static int compare(struct seam_journal *j, const struct seam_fmt_witness *seen, struct seam_err *err)
{
    uint32_t chain = j->chain;
    if (memcmp(seen->uuid, j->uuid, sizeof seen->uuid) != 0)
        return seam_fail(err, SEAM_E_MISMATCH, "%s is of another journal", j->witness.name);
    if (seen->group > j->group_no)
        return seam_fail(err, SEAM_E_LOST,
                         "acknowledged events are missing: the journal had group %llu, which was "
                         "durable, and ends at group %llu",
                         (unsigned long long)seen->group, (unsigned long long)j->group_no);
    if (seen->epoch > seam_db_epoch(j->db))
        return seam_fail(err, SEAM_E_LOST,
                         "the store is older than its journal's %s: epoch %llu, not %llu",
                         j->witness.name, (unsigned long long)seam_db_epoch(j->db),
                         (unsigned long long)seen->epoch);
    if (seen->group == 0 || seen->group < j->first_group)
        return SEAM_OK;
    int rc = seen->group == j->group_no ? SEAM_OK : chain_of(j, seen->group, &chain, err);
    if (rc == SEAM_OK && chain != seen->chain)
        rc = seam_fail(err, SEAM_E_LOST,
                       "the journal's history is not the one that was acknowledged: group %llu has "
                       "another chain",
                       (unsigned long long)seen->group);
    return rc;
}

int seam_w_remains(struct seam_journal *j, struct seam_err *err)
{
    struct seam_jwitness *w = &j->witness;
    struct seam_fmt_witness seen = {.group = 0};
    if (w->dir < 0 || w->mode == SEAM_WITNESS_NONE || j->accept_loss)
        return SEAM_OK;
    int fd = w->os->open(w->os->ctx, w->dir, w->name, SEAM_FILE_READ);
    if (fd == -ENOENT)
        return SEAM_OK;
    if (fd < 0)
        return fail_file(w, fd, "open", err);
    w->fd = fd;
    int rc = read_slots(w, &seen, err);
    close_file(w);
    if (rc == SEAM_E_CORRUPT) /* the creation that was to write it was interrupted */
        return SEAM_OK;
    if (rc == SEAM_OK && seen.group > 0)
        return seam_fail(err, SEAM_E_LOST,
                         "the journal is missing: it had group %llu, which was durable",
                         (unsigned long long)seen.group);
    return rc;
}

int seam_w_read(struct seam_journal *j, struct seam_fmt_witness *ret, struct seam_err *err)
{
    struct seam_jwitness *w = &j->witness;
    w->os = seam_db_platform(j->db);
    w->dir = seam_db_dir(j->db);
    set_name(j);
    if (w->dir < 0)
        return SEAM_NOTFOUND;
    int fd = w->os->open(w->os->ctx, w->dir, w->name, SEAM_FILE_READ);
    if (fd == -ENOENT)
        return SEAM_NOTFOUND;
    if (fd < 0)
        return fail_file(w, fd, "open", err);
    w->fd = fd;
    int rc = read_slots(w, ret, err);
    close_file(w);
    return rc;
}

static int check_file(struct seam_journal *j, struct seam_err *err)
{
    struct seam_jwitness *w = &j->witness;
    struct seam_fmt_witness seen;
    int flags = seam_db_read_only(j->db) ? SEAM_FILE_READ : SEAM_FILE_WRITE;
    int fd = w->os->open(w->os->ctx, w->dir, w->name, flags);
    if (fd == -ENOENT)
        return seam_fail(err, SEAM_E_LOST, "%s is missing: it was made with the journal", w->name);
    if (fd < 0)
        return fail_file(w, fd, "open", err);
    w->fd = fd;
    int rc = read_slots(w, &seen, err);
    if (rc == SEAM_OK)
        rc = compare(j, &seen, err);
    if (rc == SEAM_OK)
        w->seen = seen;
    return rc;
}

int seam_w_check(struct seam_journal *j, bool accept_loss, struct seam_err *err)
{
    struct seam_jwitness *w = &j->witness;
    if (w->dir < 0 || !j->has_witness || w->mode == SEAM_WITNESS_NONE || w->fd >= 0)
        return SEAM_OK; /* just made: there is nothing to hold the journal to */
    int rc = check_file(j, err);
    if (rc != SEAM_E_LOST && rc != SEAM_E_CORRUPT && rc != SEAM_E_MISMATCH)
        return rc;
    if (!accept_loss || seam_db_read_only(j->db))
        return rc;
    close_file(w);
    return seam_w_make(j, err);
}

/* ---- writing ----------------------------------------------------------------------------- */

static void *lazily(void *arg)
{
    struct seam_jwitness *w = arg;
    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        struct timespec until;
        if (!w->due) {
            pthread_cond_wait(&w->wake, &w->lock);
            continue;
        }
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += w->ms / 1000;
        until.tv_nsec += (long)(w->ms % 1000) * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        while (!w->stop && pthread_cond_timedwait(&w->wake, &w->lock, &until) == 0) {
        }
        if (w->stop)
            break;
        w->due = false;
        int rc = write_slot(w, &w->want);
        w->failed = rc < 0 ? -rc : w->failed;
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

int seam_w_start(struct seam_journal *j, struct seam_err *err)
{
    struct seam_jwitness *w = &j->witness;
    if (w->fd < 0 || w->mode != SEAM_WITNESS_LAZY || seam_db_read_only(j->db))
        return SEAM_OK;
    int rc = pthread_create(&w->thread, NULL, lazily, w);
    if (rc != 0)
        return seam_fail_os(err, rc, "cannot start the thread that keeps the witness");
    w->has_thread = true;
    return SEAM_OK;
}

int seam_w_durable(struct seam_journal *j, uint64_t group, uint32_t chain, struct seam_err *err)
{
    struct seam_jwitness *w = &j->witness;
    int rc = 0;
    if (w->fd < 0 || seam_db_read_only(j->db))
        return SEAM_OK;
    pthread_mutex_lock(&w->lock);
    if (group > w->want.group || w->want.epoch != seam_db_epoch(j->db)) {
        w->want = (struct seam_fmt_witness){.epoch = seam_db_epoch(j->db), .group = group,
                                            .chain = chain};
        memcpy(w->want.uuid, j->uuid, sizeof w->want.uuid);
        if (w->mode == SEAM_WITNESS_EVERY_ACK) {
            rc = write_slot(w, &w->want);
        } else if (!w->due) {
            w->due = true;
            if (w->has_thread)
                pthread_cond_signal(&w->wake);
        }
    }
    pthread_mutex_unlock(&w->lock);
    return rc < 0 ? fail_file(w, rc, "write", err) : SEAM_OK;
}

int seam_w_write(struct seam_journal *j, struct seam_err *err)
{
    struct seam_jwitness *w = &j->witness;
    pthread_mutex_lock(&w->lock);
    int rc = w->failed != 0 ? -w->failed : 0;
    if (rc == 0 && w->due && w->fd >= 0)
        rc = write_slot(w, &w->want);
    w->due = false;
    pthread_mutex_unlock(&w->lock);
    return rc < 0 ? fail_file(w, rc, "write", err) : SEAM_OK;
}

/* ---- begin and end ----------------------------------------------------------------------- */

int seam_w_init(struct seam_journal *j, const struct seam_journal_options *o)
{
    struct seam_jwitness *w = &j->witness;
    pthread_condattr_t attr;
    w->os = seam_db_platform(j->db);
    w->dir = seam_db_dir(j->db);
    w->fd = -1;
    w->mode = o->witness;
    w->ms = o->witness_ms != 0 ? o->witness_ms : 100;
    set_name(j);
    int rc = pthread_condattr_init(&attr);
    if (rc != 0)
        return rc;
    rc = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    if (rc == 0)
        rc = pthread_cond_init(&w->wake, &attr);
    (void)pthread_condattr_destroy(&attr);
    if (rc == 0 && (rc = pthread_mutex_init(&w->lock, NULL)) != 0)
        (void)pthread_cond_destroy(&w->wake);
    return rc;
}

void seam_w_end(struct seam_journal *j)
{
    struct seam_jwitness *w = &j->witness;
    if (w->has_thread) {
        pthread_mutex_lock(&w->lock);
        w->stop = true;
        pthread_cond_signal(&w->wake);
        pthread_mutex_unlock(&w->lock);
        (void)pthread_join(w->thread, NULL);
    }
    close_file(w);
    (void)pthread_mutex_destroy(&w->lock);
    (void)pthread_cond_destroy(&w->wake);
}
