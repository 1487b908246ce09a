/* table.c - the simulated disk as a platform table.
 *
 * Keeps true: a call that changes something counts, may be made to fail, takes its effect in the
 * cache and in the pending lists, then calls the hook, and only then flushes what it has to. */
#include "disk.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct sim *of(void *ctx)
{
    return ctx;
}

/* ---- faults ---------------------------------------------------------------------------------- */

static int fault_at(const struct sim *sim, uint64_t at)
{
    const struct sim_fault *f = &sim->fault;
    if (f->call == 0 || at < f->call || (at > f->call && !f->for_ever))
        return 0;
    return f->error > 0 ? f->error : -1;
}

/* Counts a call; 0, or the error that it is to end with, -1 for half a write. */
static int count(struct sim *sim)
{
    sim->calls++;
    sim->all_calls++;
    return fault_at(sim, sim->fault.reads ? sim->all_calls : sim->calls);
}

/* The same for a call that changes nothing. */
static int count_read(struct sim *sim)
{
    sim->all_calls++;
    return sim->fault.reads ? fault_at(sim, sim->all_calls) : 0;
}

static void hook(struct sim *sim)
{
    if (sim->hook)
        sim->hook(sim->hook_arg, sim);
}

void sim_set_hook(struct sim *sim, sim_hook fn, void *arg)
{
    sim->hook = fn;
    sim->hook_arg = arg;
}

void sim_set_fault(struct sim *sim, const struct sim_fault *fault)
{
    sim->fault = *fault;
}

void sim_set_space(struct sim *sim, uint64_t bytes)
{
    sim->space = bytes;
}

uint64_t sim_calls(const struct sim *sim)
{
    return sim->calls;
}

uint64_t sim_all_calls(const struct sim *sim)
{
    return sim->all_calls;
}

uint64_t sim_allocs(const struct sim *sim)
{
    return sim->allocs;
}

uint64_t sim_live(const struct sim *sim)
{
    return sim->live;
}

uint64_t sim_open_files(const struct sim *sim)
{
    uint64_t n = 0;
    for (int i = 0; i < SIM_FDS; i++)
        n += sim->fds[i].used ? 1 : 0;
    return n;
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static struct sim_fd *fd_of(struct sim *sim, int fd)
{
    return fd >= 0 && fd < SIM_FDS && sim->fds[fd].used ? &sim->fds[fd] : NULL;
}

static struct sim_inode *inode_of(struct sim *sim, int fd, bool dir)
{
    struct sim_fd *f = fd_of(sim, fd);
    return f && sim->inodes[f->inode].dir == dir ? &sim->inodes[f->inode] : NULL;
}

static int fd_new(struct sim *sim, uint32_t inode, int flags)
{
    for (int i = 3; i < SIM_FDS; i++) {
        struct sim_fd *f = &sim->fds[i];
        if (f->used)
            continue;
        memset(f, 0, sizeof *f);
        f->used = true;
        f->inode = inode;
        f->write = (flags & SEAM_FILE_WRITE) != 0;
        f->direct = (flags & SEAM_FILE_DIRECT) != 0;
        f->dsync = (flags & SEAM_FILE_DSYNC) != 0;
        return i;
    }
    return -EMFILE;
}

static void change(struct sim *sim, uint32_t dir, const char *name, uint32_t inode, uint32_t to_dir,
                   const char *to)
{
    struct sim_change *c;
    sim->changes =
        sim_more(sim->changes, sim->change_count, &sim->change_cap, sizeof *sim->changes);
    c = &sim->changes[sim->change_count++];
    memset(c, 0, sizeof *c);
    c->dir = dir;
    c->to_dir = to_dir;
    c->inode = inode;
    c->name = strdup(name);
    c->to = to ? strdup(to) : NULL;
    assert(c->name && (!to || c->to));
    sim_change_apply(sim, c, false);
}

static int open_name(void *ctx, int dir, const char *name, int flags)
{
    struct sim *sim = of(ctx);
    struct sim_fd *d = fd_of(sim, dir);
    if (!d || !sim->inodes[d->inode].dir)
        return -ENOTDIR;
    uint32_t inode = strcmp(name, "..") == 0 ? sim_parent(sim, d->inode)
                                             : sim_names_find(&sim->inodes[d->inode].names, name);
    if (inode == SIM_NO_INODE) {
        if (!(flags & SEAM_FILE_CREATE))
            return -ENOENT;
        int error = count(sim);
        if (error > 0)
            return -error;
        inode = sim_inode_new(sim, false);
        change(sim, d->inode, name, inode, d->inode, NULL);
        hook(sim);
        return fd_new(sim, inode, flags);
    }
    if (flags & SEAM_FILE_NEW)
        return -EEXIST;
    int error = count_read(sim);
    if (error > 0)
        return -error;
    bool is_dir = sim->inodes[inode].dir;
    if (((flags & SEAM_FILE_DIR) != 0) != is_dir)
        return is_dir ? -EISDIR : -ENOTDIR;
    return fd_new(sim, inode, flags);
}

static int open_root(void *ctx, const char *path)
{
    struct sim *sim = of(ctx);
    uint32_t inode = sim_find(sim, path);
    if (inode == SIM_NO_INODE)
        return -ENOENT;
    int error = count_read(sim);
    if (error > 0)
        return -error;
    return sim->inodes[inode].dir ? fd_new(sim, inode, SEAM_FILE_DIR) : -ENOTDIR;
}

static int unlock(void *ctx, int fd)
{
    struct sim *sim = of(ctx);
    struct sim_fd *f = fd_of(sim, fd);
    if (!f)
        return -EBADF;
    sim->inodes[f->inode].shared -= f->shared ? 1 : 0;
    sim->inodes[f->inode].exclusive -= f->exclusive ? 1 : 0;
    f->shared = f->exclusive = false;
    return 0;
}

static int close_fd(void *ctx, int fd)
{
    int rc = unlock(ctx, fd);
    if (rc == 0)
        fd_of(of(ctx), fd)->used = false;
    return rc;
}

static int lock(void *ctx, int fd, bool exclusive)
{
    struct sim *sim = of(ctx);
    struct sim_fd *f = fd_of(sim, fd);
    if (!f)
        return -EBADF;
    struct sim_inode *inode = &sim->inodes[f->inode];
    uint32_t others = inode->exclusive - (f->exclusive ? 1 : 0) +
                      (exclusive ? inode->shared - (f->shared ? 1 : 0) : 0);
    if (others > 0)
        return -EWOULDBLOCK;
    inode->shared += (exclusive ? 0 : 1u) - (f->shared ? 1 : 0);
    inode->exclusive += (exclusive ? 1u : 0) - (f->exclusive ? 1 : 0);
    f->exclusive = exclusive;
    f->shared = !exclusive;
    return 0;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static ssize_t read_at(void *ctx, int fd, void *buf, size_t len, uint64_t at)
{
    struct sim_inode *inode = inode_of(of(ctx), fd, false);
    if (!inode)
        return -EBADF;
    int error = count_read(of(ctx));
    if (error > 0)
        return -error;
    if (error < 0 && len > 1)
        len /= 2;
    if (at >= inode->cache.len)
        return 0;
    if (len > inode->cache.len - at)
        len = (size_t)(inode->cache.len - at);
    memcpy(buf, inode->cache.bytes + at, len);
    return (ssize_t)len;
}

static struct sim_piece *piece(struct sim *sim, uint32_t inode)
{
    sim->pieces = sim_more(sim->pieces, sim->piece_count, &sim->piece_cap, sizeof *sim->pieces);
    struct sim_piece *p = &sim->pieces[sim->piece_count++];
    memset(p, 0, sizeof *p);
    p->inode = inode;
    return p;
}

/* Each sector that [at, at + len) touches, as it is now. */
static void note_sectors(struct sim *sim, uint32_t inode, uint64_t at, uint64_t len)
{
    const struct sim_image *cache = &sim->inodes[inode].cache;
    for (uint64_t s = at / SIM_SECTOR; s * SIM_SECTOR < at + len; s++) {
        struct sim_piece *p = piece(sim, inode);
        p->sector = s;
        p->len = cache->len - s * SIM_SECTOR < SIM_SECTOR ? cache->len - s * SIM_SECTOR : SIM_SECTOR;
        p->bytes = malloc(SIM_SECTOR);
        assert(p->bytes);
        memcpy(p->bytes, cache->bytes + s * SIM_SECTOR, p->len);
    }
}

/* What was written since piece `from` is durable now, and makes older pieces of its sectors void. A
 * change of length that is pending goes to the disk with all of the file: the data could not be
 * read without it. */
static void flush_from(struct sim *sim, uint32_t inode, size_t from)
{
    size_t kept = 0, n = sim->piece_count;
    for (size_t i = 0; i < from; i++)
        if (sim->pieces[i].inode == inode && sim->pieces[i].cut) {
            sim_flush_file(sim, inode);
            return;
        }
    for (size_t i = from; i < n; i++)
        sim_piece_apply(&sim->inodes[inode].durable, &sim->pieces[i]);
    uint64_t first = sim->pieces[from].sector, last = sim->pieces[n - 1].sector;
    for (size_t i = 0; i < n; i++) {
        struct sim_piece *p = &sim->pieces[i];
        if (i >= from || (p->inode == inode && p->sector >= first && p->sector <= last))
            sim_piece_free(p);
        else
            sim->pieces[kept++] = *p;
    }
    sim->piece_count = kept;
}

/* Of what has a name. */
static uint64_t used(const struct sim *sim)
{
    uint64_t sum = 0;
    for (size_t d = 0; d < sim->inode_count; d++)
        for (size_t i = 0; i < sim->inodes[d].names.n; i++)
            sum += sim->inodes[sim->inodes[d].names.at[i].inode].cache.len;
    return sum;
}

/* A direct write is of whole, aligned sectors from aligned memory. */
static bool aligned(const struct iovec *parts, int n, uint64_t at)
{
    bool yes = at % SIM_SECTOR == 0;
    for (int i = 0; i < n; i++)
        yes = yes && parts[i].iov_len % SIM_SECTOR == 0 &&
              (uintptr_t)parts[i].iov_base % SIM_SECTOR == 0;
    return yes;
}

static ssize_t write_at(void *ctx, int fd, const struct iovec *parts, int n, uint64_t at)
{
    struct sim *sim = of(ctx);
    struct sim_fd *f = fd_of(sim, fd);
    struct sim_inode *inode = inode_of(sim, fd, false);
    uint64_t len = 0, done = 0;
    if (!inode || !f->write)
        return -EBADF;
    if (f->direct && !aligned(parts, n, at))
        return -EINVAL;
    for (int i = 0; i < n; i++)
        len += parts[i].iov_len;
    int error = count(sim);
    if (error > 0)
        return -error;
    if (error < 0)
        len = len > 1 ? len / 2 : len;
    if (at + len > inode->cache.len && sim->space != UINT64_MAX &&
        used(sim) + (at + len - inode->cache.len) > sim->space)
        return -ENOSPC;
    if (len == 0)
        return 0;
    if (at + len > inode->cache.len)
        sim_image_resize(&inode->cache, at + len);
    for (int i = 0; i < n && done < len; i++) {
        uint64_t take = parts[i].iov_len < len - done ? parts[i].iov_len : len - done;
        if (take > 0)
            memcpy(inode->cache.bytes + at + done, parts[i].iov_base, take);
        done += take;
    }
    size_t from = sim->piece_count;
    note_sectors(sim, f->inode, at, len);
    hook(sim);
    if (f->dsync)
        flush_from(sim, f->inode, from);
    return (ssize_t)len;
}

static int truncate_file(void *ctx, int fd, uint64_t size)
{
    struct sim *sim = of(ctx);
    struct sim_inode *inode = inode_of(sim, fd, false);
    if (!inode || !fd_of(sim, fd)->write)
        return -EBADF;
    int error = count(sim);
    if (error > 0)
        return -error;
    if (size > inode->cache.len && sim->space != UINT64_MAX &&
        used(sim) + (size - inode->cache.len) > sim->space)
        return -ENOSPC;
    struct sim_piece *p = piece(sim, fd_of(sim, fd)->inode);
    p->cut = true;
    p->len = size;
    sim_piece_apply(&inode->cache, p);
    hook(sim);
    return 0;
}

/* What a failed flush leaves behind. */
static void lose(struct sim *sim, uint32_t inode)
{
    size_t kept = 0;
    if (sim->fault.lost == SIM_KEEP)
        return;
    for (size_t i = 0; i < sim->piece_count; i++)
        if (sim->pieces[i].inode == inode)
            sim_piece_free(&sim->pieces[i]);
        else
            sim->pieces[kept++] = sim->pieces[i];
    sim->piece_count = kept;
    if (sim->fault.lost != SIM_REVERT)
        return;
    free(sim->inodes[inode].cache.bytes);
    sim_image_copy(&sim->inodes[inode].cache, &sim->inodes[inode].durable);
}

static int sync_file(void *ctx, int fd)
{
    struct sim *sim = of(ctx);
    struct sim_fd *f = fd_of(sim, fd);
    if (!inode_of(sim, fd, false))
        return -EBADF;
    int error = count(sim);
    if (error != 0) {
        lose(sim, f->inode);
        return error > 0 ? -error : -EIO;
    }
    hook(sim);
    sim_flush_file(sim, f->inode);
    return 0;
}

static int allocate(void *ctx, int fd, uint64_t at, uint64_t len)
{
    struct sim *sim = of(ctx);
    struct sim_inode *inode = inode_of(sim, fd, false);
    if (!inode)
        return -EBADF;
    int error = count(sim);
    if (error > 0)
        return -error;
    uint64_t more = at + len > inode->cache.len ? at + len - inode->cache.len : 0;
    return sim->space != UINT64_MAX && used(sim) + more > sim->space ? -ENOSPC : 0;
}

static int writeback(void *ctx, int fd, uint64_t at, uint64_t len)
{
    (void)at, (void)len;
    return inode_of(of(ctx), fd, false) ? 0 : -EBADF;
}

/* ---- names ----------------------------------------------------------------------------------- */

static int sync_dir(void *ctx, int fd)
{
    struct sim *sim = of(ctx);
    if (!inode_of(sim, fd, true))
        return -EBADF;
    int error = count(sim);
    if (error != 0)
        return error > 0 ? -error : -EIO;
    hook(sim);
    sim_flush_dir(sim, fd_of(sim, fd)->inode);
    return 0;
}

static int rename_name(void *ctx, int from_dir, const char *from, int to_dir, const char *to)
{
    struct sim *sim = of(ctx);
    struct sim_fd *a = fd_of(sim, from_dir), *b = fd_of(sim, to_dir);
    if (!inode_of(sim, from_dir, true) || !inode_of(sim, to_dir, true))
        return -ENOTDIR;
    uint32_t inode = sim_names_find(&sim->inodes[a->inode].names, from);
    if (inode == SIM_NO_INODE)
        return -ENOENT;
    uint32_t there = sim_names_find(&sim->inodes[b->inode].names, to);
    if (there != SIM_NO_INODE && sim->inodes[there].dir && sim->inodes[there].names.n > 0)
        return -ENOTEMPTY;
    int error = count(sim);
    if (error > 0)
        return -error;
    change(sim, a->inode, from, inode, b->inode, to);
    hook(sim);
    return 0;
}

static int remove_name(struct sim *sim, int dir, const char *name, bool is_dir)
{
    struct sim_fd *d = fd_of(sim, dir);
    if (!inode_of(sim, dir, true))
        return -ENOTDIR;
    uint32_t inode = sim_names_find(&sim->inodes[d->inode].names, name);
    if (inode == SIM_NO_INODE)
        return -ENOENT;
    if (sim->inodes[inode].dir != is_dir)
        return is_dir ? -ENOTDIR : -EISDIR;
    if (is_dir && sim->inodes[inode].names.n > 0)
        return -ENOTEMPTY;
    int error = count(sim);
    if (error > 0)
        return -error;
    change(sim, d->inode, name, SIM_NO_INODE, d->inode, NULL);
    hook(sim);
    return 0;
}

static int unlink_name(void *ctx, int dir, const char *name)
{
    return remove_name(of(ctx), dir, name, false);
}

static int rmdir_name(void *ctx, int dir, const char *name)
{
    return remove_name(of(ctx), dir, name, true);
}

static int mkdir_name(void *ctx, int dir, const char *name)
{
    struct sim *sim = of(ctx);
    if (!inode_of(sim, dir, true))
        return -ENOTDIR;
    uint32_t at = fd_of(sim, dir)->inode;
    if (sim_names_find(&sim->inodes[at].names, name) != SIM_NO_INODE)
        return -EEXIST;
    int error = count(sim);
    if (error > 0)
        return -error;
    change(sim, at, name, sim_inode_new(sim, true), at, NULL);
    hook(sim);
    return 0;
}

static int stat_name(void *ctx, int dir, const char *name, struct seam_file_info *ret)
{
    struct sim *sim = of(ctx);
    struct sim_fd *d = fd_of(sim, dir);
    if (!d)
        return -EBADF;
    int error = count_read(sim);
    if (error > 0)
        return -error;
    uint32_t inode = *name ? sim_names_find(&sim->inodes[d->inode].names, name) : d->inode;
    memset(ret, 0, sizeof *ret);
    if (inode == SIM_NO_INODE)
        return 0;
    ret->kind = sim->inodes[inode].dir ? SEAM_FILE_DIRECTORY : SEAM_FILE_REGULAR;
    ret->size = ret->allocated = sim->inodes[inode].cache.len;
    ret->links = 1;
    return 0;
}

static int list(void *ctx, int dir, seam_list_fn fn, void *arg)
{
    struct sim *sim = of(ctx);
    struct sim_inode *d = inode_of(sim, dir, true);
    struct sim_names names;
    int rc = 0;
    if (!d)
        return -ENOTDIR;
    int error = count_read(sim);
    if (error > 0)
        return -error;
    sim_names_copy(&names, &d->names); /* fn may change them */
    for (size_t i = 0; i < names.n; i++) {
        rc = rc == 0 ? fn(arg, names.at[i].name) : rc;
        free(names.at[i].name);
    }
    free(names.at);
    return rc;
}

/* ---- the rest -------------------------------------------------------------------------------- */

static int space(void *ctx, int fd, uint64_t *ret)
{
    struct sim *sim = of(ctx);
    (void)fd;
    uint64_t in_use = used(sim);
    *ret = sim->space == UINT64_MAX ? UINT64_C(1) << 50 : in_use < sim->space ? sim->space - in_use : 0;
    return 0;
}

static int random_bytes(void *ctx, void *buf, size_t len)
{
    struct sim *sim = of(ctx);
    for (size_t i = 0; i < len; i++)
        ((unsigned char *)buf)[i] = (unsigned char)sim_draw(&sim->rng);
    return 0;
}

static uint64_t now_ns(void *ctx, enum seam_clock clock)
{
    (void)clock;
    return of(ctx)->clock += 1000;
}

static void sleep_us(void *ctx, uint64_t us)
{
    of(ctx)->clock += us * 1000;
}

static void *allocate_memory(void *ctx, size_t len)
{
    struct sim *sim = of(ctx);
    const struct sim_fault *f = &sim->fault;
    sim->allocs++;
    if (f->alloc > 0 && (sim->allocs == f->alloc || (sim->allocs > f->alloc && f->alloc_for_ever)))
        return NULL;
    void *memory = malloc(len);
    sim->live += memory ? 1 : 0;
    return memory;
}

static void free_memory(void *ctx, void *memory)
{
    of(ctx)->live -= memory ? 1 : 0;
    free(memory);
}

void sim_table_init(struct sim *sim)
{
    sim->table = (struct seam_platform){
        .ctx = sim,           .open = open_name,       .open_root = open_root,
        .close = close_fd,    .pread = read_at,        .pwritev = write_at,
        .sync = sync_file,    .sync_dir = sync_dir,    .truncate = truncate_file,
        .allocate = allocate, .writeback = writeback,  .rename = rename_name,
        .unlink = unlink_name, .rmdir = rmdir_name,    .mkdir = mkdir_name,
        .stat = stat_name,    .list = list,            .lock = lock,
        .unlock = unlock,
        .space = space,       .random = random_bytes,  .now_ns = now_ns,
        .sleep_us = sleep_us, .alloc = allocate_memory, .free = free_memory};
}

const struct seam_platform *sim_platform(struct sim *sim)
{
    return &sim->table;
}
