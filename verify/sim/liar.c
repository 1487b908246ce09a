/* liar.c - see liar.h. Relies on the table below it for all real work. */
#include "liar.h"

#include <string.h>

const char *sim_lie_text(enum sim_lie lie)
{
    static const char *const texts[] = {
#define SIM_LIE_TEXT(id, text) text,
        SIM_LIES(SIM_LIE_TEXT)
#undef SIM_LIE_TEXT
    };
    return texts[lie];
}

static bool lies(const struct sim_liar *l, enum sim_lie lie)
{
    return l->lie == lie && (!l->on || *l->on > 0);
}

static bool known(int fd)
{
    return fd >= 0 && fd < SIM_LIAR_FDS;
}

/* ---- what is put off --------------------------------------------------------------------------- */

static void catch_up(struct sim_liar *l)
{
    const struct seam_platform *os = l->os;
    for (int fd = 0; fd < SIM_LIAR_FDS; fd++) {
        if (l->sync_due[fd])
            (void)os->sync(os->ctx, fd);
        if (l->close_due[fd])
            (void)os->close(os->ctx, fd);
        l->sync_due[fd] = l->close_due[fd] = false;
    }
}

static void write_held(struct sim_liar *l)
{
    struct iovec part = {l->held, l->held_len};
    if (l->held_fd >= 0)
        (void)seam_write_all(l->os, l->held_fd, &part, 1, l->held_at);
    l->held_fd = -1;
}

/* Before any call that changes something: what an answer was given for by now. */
static void before(struct sim_liar *l)
{
    if (lies(l, SIM_LATE_SYNC))
        catch_up(l);
    if (lies(l, SIM_EARLY_SYNC))
        write_held(l);
}

/* ---- the table --------------------------------------------------------------------------------- */

static int liar_open(void *ctx, int dir, const char *name, int flags)
{
    struct sim_liar *l = ctx;
    bool strip = lies(l, SIM_NO_FILE_SYNC) || lies(l, SIM_LATE_SYNC);
    before(l);
    int fd = l->os->open(l->os->ctx, dir, name, strip ? flags & ~SEAM_FILE_DSYNC : flags);
    if (known(fd)) {
        l->dsync[fd] = (flags & SEAM_FILE_DSYNC) != 0;
        l->fresh[fd] = (flags & SEAM_FILE_NEW) != 0;
        l->sync_due[fd] = l->close_due[fd] = false;
    }
    return fd;
}

static int liar_close(void *ctx, int fd)
{
    struct sim_liar *l = ctx;
    before(l);
    if (lies(l, SIM_EARLY_RENAME) && known(fd) && l->sync_due[fd]) {
        l->close_due[fd] = true;
        return 0;
    }
    return l->os->close(l->os->ctx, fd);
}

static ssize_t liar_pread(void *ctx, int fd, void *buf, size_t len, uint64_t offset)
{
    struct sim_liar *l = ctx;
    if (lies(l, SIM_EARLY_SYNC))
        write_held(l);
    return l->os->pread(l->os->ctx, fd, buf, len, offset);
}

static ssize_t hold(struct sim_liar *l, int fd, const struct iovec *parts, int n, uint64_t offset)
{
    l->held_len = 0;
    for (int i = 0; i < n; i++) {
        if (parts[i].iov_len > 0)
            memcpy(l->held + l->held_len, parts[i].iov_base, parts[i].iov_len);
        l->held_len += parts[i].iov_len;
    }
    l->held_fd = fd;
    l->held_at = offset;
    return (ssize_t)l->held_len;
}

static ssize_t liar_pwritev(void *ctx, int fd, const struct iovec *parts, int n, uint64_t offset)
{
    struct sim_liar *l = ctx;
    size_t len = 0;
    before(l);
    for (int i = 0; i < n; i++)
        len += parts[i].iov_len;
    if (lies(l, SIM_EARLY_SYNC) && known(fd) && !l->dsync[fd] && len <= SIM_LIAR_HELD)
        return hold(l, fd, parts, n, offset);
    ssize_t done = l->os->pwritev(l->os->ctx, fd, parts, n, offset);
    if (lies(l, SIM_LATE_SYNC) && known(fd) && l->dsync[fd])
        l->sync_due[fd] = true;
    return lies(l, SIM_SHORT_WRITE) && done > 0 ? (ssize_t)len : done;
}

static int liar_sync(void *ctx, int fd)
{
    struct sim_liar *l = ctx;
    if (lies(l, SIM_NO_FILE_SYNC))
        return 0;
    if (lies(l, SIM_LATE_SYNC))
        catch_up(l);
    if (known(fd) && (lies(l, SIM_LATE_SYNC) || (lies(l, SIM_EARLY_RENAME) && l->fresh[fd]))) {
        l->sync_due[fd] = true;
        return 0;
    }
    int rc = l->os->sync(l->os->ctx, fd);
    for (int i = 0; i < 3 && rc < 0 && lies(l, SIM_RETRY_SYNC); i++)
        rc = l->os->sync(l->os->ctx, fd);
    if (lies(l, SIM_EARLY_SYNC))
        write_held(l);
    return rc;
}

static int liar_sync_dir(void *ctx, int fd)
{
    struct sim_liar *l = ctx;
    before(l);
    return lies(l, SIM_NO_DIR_SYNC) ? 0 : l->os->sync_dir(l->os->ctx, fd);
}

static int liar_truncate(void *ctx, int fd, uint64_t size)
{
    struct sim_liar *l = ctx;
    before(l);
    return l->os->truncate(l->os->ctx, fd, size);
}

static int liar_rename(void *ctx, int from_dir, const char *from, int to_dir, const char *to)
{
    struct sim_liar *l = ctx;
    before(l);
    int rc = l->os->rename(l->os->ctx, from_dir, from, to_dir, to);
    if (lies(l, SIM_EARLY_RENAME)) {
        memset(l->fresh, 0, sizeof l->fresh);
        catch_up(l);
    }
    return rc;
}

static int liar_stat(void *ctx, int dir, const char *name, struct seam_file_info *ret)
{
    struct sim_liar *l = ctx;
    if (lies(l, SIM_EARLY_SYNC))
        write_held(l);
    return l->os->stat(l->os->ctx, dir, name, ret);
}

/* ---- what is passed on as it is ---------------------------------------------------------------- */

static const struct seam_platform *os_of(void *ctx)
{
    return ((struct sim_liar *)ctx)->os;
}

static int liar_open_root(void *ctx, const char *path)
{
    return os_of(ctx)->open_root(os_of(ctx)->ctx, path);
}

static int liar_allocate(void *ctx, int fd, uint64_t offset, uint64_t len)
{
    return os_of(ctx)->allocate(os_of(ctx)->ctx, fd, offset, len);
}

static int liar_writeback(void *ctx, int fd, uint64_t offset, uint64_t len)
{
    return os_of(ctx)->writeback(os_of(ctx)->ctx, fd, offset, len);
}

static int liar_unlink(void *ctx, int dir, const char *name)
{
    before(ctx);
    return os_of(ctx)->unlink(os_of(ctx)->ctx, dir, name);
}

static int liar_rmdir(void *ctx, int dir, const char *name)
{
    return os_of(ctx)->rmdir(os_of(ctx)->ctx, dir, name);
}

static int liar_mkdir(void *ctx, int dir, const char *name)
{
    return os_of(ctx)->mkdir(os_of(ctx)->ctx, dir, name);
}

static int liar_list(void *ctx, int dir, seam_list_fn fn, void *arg)
{
    return os_of(ctx)->list(os_of(ctx)->ctx, dir, fn, arg);
}

static int liar_lock(void *ctx, int fd, bool exclusive)
{
    return os_of(ctx)->lock(os_of(ctx)->ctx, fd, exclusive);
}

static int liar_unlock(void *ctx, int fd)
{
    return os_of(ctx)->unlock(os_of(ctx)->ctx, fd);
}

static int liar_space(void *ctx, int fd, uint64_t *ret)
{
    return os_of(ctx)->space(os_of(ctx)->ctx, fd, ret);
}

static int liar_random(void *ctx, void *buf, size_t len)
{
    return os_of(ctx)->random(os_of(ctx)->ctx, buf, len);
}

static uint64_t liar_now_ns(void *ctx, enum seam_clock clock)
{
    return os_of(ctx)->now_ns(os_of(ctx)->ctx, clock);
}

static void liar_sleep_us(void *ctx, uint64_t us)
{
    os_of(ctx)->sleep_us(os_of(ctx)->ctx, us);
}

static void *liar_alloc(void *ctx, size_t len)
{
    return os_of(ctx)->alloc(os_of(ctx)->ctx, len);
}

static void liar_free(void *ctx, void *ptr)
{
    os_of(ctx)->free(os_of(ctx)->ctx, ptr);
}

void sim_liar_init(struct sim_liar *liar, const struct seam_platform *os, enum sim_lie lie,
                   const uint64_t *on)
{
    memset(liar, 0, sizeof *liar);
    liar->os = os;
    liar->lie = lie;
    liar->on = on;
    liar->held_fd = -1;
    liar->table = (struct seam_platform){
        .ctx = liar,               .open = liar_open,     .open_root = liar_open_root,
        .close = liar_close,       .pread = liar_pread,   .pwritev = liar_pwritev,
        .sync = liar_sync,         .sync_dir = liar_sync_dir, .truncate = liar_truncate,
        .allocate = liar_allocate, .writeback = liar_writeback, .rename = liar_rename,
        .unlink = liar_unlink,     .rmdir = liar_rmdir,   .mkdir = liar_mkdir,
        .stat = liar_stat,         .list = liar_list,     .lock = liar_lock,
        .unlock = liar_unlock,     .space = liar_space,   .random = liar_random,
        .now_ns = liar_now_ns,     .sleep_us = liar_sleep_us, .alloc = liar_alloc,
        .free = liar_free};
}

void sim_liar_end(struct sim_liar *liar)
{
    write_held(liar);
    catch_up(liar);
}
