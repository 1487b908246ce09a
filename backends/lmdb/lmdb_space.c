/* lmdb_space.c - how many pages a commit can take, and the blocks for them.
 *
 * LMDB never writes over a page that a reader or the last durable tree may need: a commit copies
 * every page it changes. With readers that hold everything, all copies go to the end of the file.
 * So a commit can be promised only if the file has room for the most pages it can copy, split off
 * and fill with large values; that bound is computed here from its ops and the sizes of the tree.
 *
 * Room is what the file may still grow by, and the pages inside it that LMDB can use again. Those
 * are counted (lmdb_free.c) when the blocks at hand do not do; afterwards each commit is taken to
 * have used all it was promised, until they are counted again. Pages that must lie side by side (a
 * large value, a long list of freed pages) are promised from the end of the file only.
 *
 * The tree may grow between prepare and commit, by the commits of others. A bound that rests on the
 * size of the tree (no commit copies more leaves than there are) would then be too low. So who may
 * make the trees of older tickets larger pays for it: it takes from the ledger also what they may
 * need more, and hands it to them when it commits.
 *
 * Relies on the file system keeping blocks that fallocate gave: ext4, XFS and tmpfs do. On others
 * (copy-on-write ones need new blocks to write into old ones) only free space can be looked at.
 * Keeps true, where reservations are real: used - reusable + promised, and used + the promised
 * runs, are at most min(cap, blocks of the file); commits that put something leave a little of it
 * to those that only delete, so that a full store can be emptied; the file is never shorter than
 * its last page, which is what lmdb_check.c tests at the next open. */
#include "lmdb_private.h"

#include <assert.h>
#include <errno.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define TREE_DEPTH_LEAST 8u /* depth that small commits are reckoned with: more than trees reach   \
                             */
#define CAPPED_FROM 64u     /* pages touched, from which on the tree's size is taken into account */
#define FREE_IDS 500u       /* page numbers that one page of the free list holds */
#define FIXED_PAGES 12u     /* the main database's root, Seam's records, ends of the free list */
#define COUNT_LASTS 256u    /* groups after which a count of the free list's runs is no more used */
#define SHRINK_EVERY 256u   /* groups between two looks at what is taken ahead and not needed */
#define SHRINK_CHUNKS 4u    /* so many steps too much are kept */
#define SPARE_PAGES 128u    /* kept for deletions, and over a close for an open on a full disk */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t round_up(uint64_t n, uint64_t step)
{
    return (n + step - 1) / step * step;
}

/* Leaves: an insertion copies one leaf and may split it; a deletion may merge it with a neighbour,
 * which is copied too. Splits of leaves beyond the first of each existing one need bytes: a
 * half-full page has to be filled again, and LMDB's split leaves at least a quarter free on one
 * side. Inner pages: as many per level, but no more than there are. Each that is full may split
 * once; after that a half takes three more of the longest keys, so on each level splits are at most
 * a third of those below (a half, over all levels), where a deletion that puts a longer key into a
 * page counts as an insertion. */
void lmdb_space_bound(const struct lmdb_space *s, const struct lmdb_tree *tree,
                      const struct lmdb_load *load, const struct lmdb_growth *others,
                      struct lmdb_bound *ret)
{
    uint64_t depth = tree->depth + 2 > TREE_DEPTH_LEAST ? tree->depth + 2 : TREE_DEPTH_LEAST;
    uint64_t deletes = load->deletes + load->covered + (load->ranges > 0 ? load->puts : 0);
    uint64_t touched = load->puts + 2 * deletes;
    uint64_t inner = touched * (depth - 1);
    uint64_t splits = load->puts;
    uint64_t inner_splits = (splits + deletes) * (depth - 1) + 1;
    uint64_t most = touched + inner + splits + inner_splits;
    if (touched >= CAPPED_FROM) {
        uint64_t leaf = tree->leaf + others->tree, branch = tree->branch + others->tree;
        splits = least(splits, leaf + 4 * load->node_bytes / s->page + 2);
        inner = least(inner, branch); /* pages that are new in this commit are not copied again */
        inner_splits =
            least(inner_splits, (splits + least(deletes, leaf)) / 2 + 2 * branch + depth);
        touched = least(touched, leaf);
    }
    uint64_t copied = touched + inner + splits + inner_splits;
    /* Its own record in the free list names every page it let go, large values included. */
    uint64_t largest = tree->largest > load->largest ? tree->largest : load->largest;
    uint64_t large = least(tree->overflow, (load->puts + deletes) * largest) + others->large;
    uint64_t freed = touched + inner + large + tree->free_pages + FIXED_PAGES;
    ret->list = 2 * (freed / FREE_IDS + 2);
    ret->pages = copied + load->overflow + FIXED_PAGES + tree->free_pages + ret->list;
    ret->runs = load->overflow + least(tree->free_large, s->free_runs);
    ret->runs += freed > FREE_IDS / 2 ? ret->list : 0;
    ret->growth.tree = splits + inner_splits;
    ret->growth.large = load->overflow;
    ret->room = most - copied;
}

/* Pages of the list of freed pages that older may need more, for newer's large values. */
static uint64_t list_growth(const struct lmdb_hold *newer)
{
    return round_up(newer->bound.growth.large, FREE_IDS / 4) / (FREE_IDS / 4);
}

static uint64_t hold_growth(const struct lmdb_hold *older, const struct lmdb_hold *newer)
{
    uint64_t more = least(newer->bound.growth.tree, older->bound.room) + list_growth(newer);
    if (older->load.ranges > 0) /* what newer puts into older's range, older has to delete */
        more += newer->load.puts * 4 * TREE_DEPTH_LEAST;
    return more;
}

static uint64_t taken(const struct lmdb_space *s)
{
    return (s->tree.used - least(s->reusable, s->tree.used)) * s->page;
}

static uint64_t spare(const struct lmdb_space *s, const struct lmdb_load *load)
{
    return load->puts > 0 ? least(SPARE_PAGES, s->cap / s->page / 8) * s->page : 0;
}

/* Where the file system is known to keep blocks for a range that was allocated. */
static bool keeps_blocks(int fd)
{
    struct statfs fs;
    if (fstatfs(fd, &fs) != 0)
        return false;
    unsigned long type = (unsigned long)fs.f_type;
    return type == EXT4_SUPER_MAGIC || type == XFS_SUPER_MAGIC || type == TMPFS_MAGIC;
}

static int locks_init(struct lmdb_space *s)
{
    int rc = pthread_mutex_init(&s->lock, NULL);
    if (rc != 0)
        return rc;
    rc = pthread_mutex_init(&s->file_lock, NULL);
    if (rc != 0)
        pthread_mutex_destroy(&s->lock);
    return rc;
}

static void locks_destroy(struct lmdb_space *s)
{
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->file_lock);
}

int lmdb_space_open(struct lmdb_space *s, const struct seam_platform *os, uint64_t cap,
                    struct seam_err *err)
{
    s->os = os;
    s->cap = cap;
    s->free_runs = UINT64_MAX;
    int failed = locks_init(s);
    if (failed != 0)
        return seam_fail_os(err, failed, "lmdb: cannot make a lock");
    int rc = seam_ledger_open(os, cap, &s->ledger, err);
    if (rc != SEAM_OK) {
        locks_destroy(s);
        return rc;
    }
    struct stat st;
    if (fstat(s->fd, &st) != 0)
        st.st_size = 0;
    s->ready = (uint64_t)st.st_size / s->page * s->page;
    /* Also fills the holes that a sparse copy may have, so that pages below the end are real. */
    s->real = keeps_blocks(s->fd) && s->ready > 0 && os->allocate(os->ctx, s->fd, 0, s->ready) == 0;
    return SEAM_OK;
}

void lmdb_space_trim(struct lmdb_space *s)
{
    uint64_t keep = (s->tree.used + SPARE_PAGES) * s->page;
    if (s->tree.used > 0 && keep < s->ready)
        (void)s->os->truncate(s->os->ctx, s->fd, keep);
}

void lmdb_space_close(struct lmdb_space *s)
{
    if (s->ledger == NULL)
        return;
    seam_ledger_close(s->ledger);
    s->ledger = NULL;
    locks_destroy(s);
}

void lmdb_space_load(const struct lmdb_space *s, const struct seam_op *ops, size_t n,
                     struct lmdb_load *ret)
{
    memset(ret, 0, sizeof *ret);
    for (size_t i = 0; i < n; i++) {
        if (ops[i].kind == SEAM_PUT) {
            uint64_t value = ops[i].head.len + ops[i].body.len;
            uint64_t node = 8 + ops[i].key.len + value;
            ret->puts++;
            if (node > s->node_max) {
                uint64_t pages = (15 + value) / s->page + 1;
                ret->overflow += pages;
                ret->largest = pages > ret->largest ? pages : ret->largest;
                node = 16 + ops[i].key.len;
            }
            ret->node_bytes += node + 3;
        } else if (ops[i].kind == SEAM_DELETE) {
            ret->deletes++;
        } else {
            ret->ranges++;
        }
    }
}

/* Blocks that no commit of the last while could have needed go back to the disk. */
static void shrink(struct lmdb_space *s)
{
    pthread_mutex_lock(&s->file_lock);
    pthread_mutex_lock(&s->lock);
    uint64_t used = s->tree.used * s->page;
    uint64_t want = used + seam_ledger_promised(s->ledger) + s->runs * s->page;
    pthread_mutex_unlock(&s->lock);
    uint64_t keep = round_up(s->peak > want ? s->peak : want, s->chunk);
    s->peak = want;
    if (s->ready > keep + SHRINK_CHUNKS * s->chunk + used / 8 &&
        s->os->truncate(s->os->ctx, s->fd, keep) >= 0)
        s->ready = keep;
    pthread_mutex_unlock(&s->file_lock);
}

static uint64_t file_size(const struct lmdb_space *s)
{
    struct stat st;
    return fstat(s->fd, &st) == 0 ? (uint64_t)st.st_size : UINT64_MAX;
}

/* ext4 keeps the blocks that it gave before it ran out. The file may be longer than `ready`, by the
 * commits of an open that found no room ahead: so it keeps its length, and what lies behind goes. */
static void drop_partial(const struct lmdb_space *s)
{
    uint64_t size = file_size(s);
    if (size != UINT64_MAX)
        (void)s->os->truncate(s->os->ctx, s->fd, size);
}

/* Gives [ready, want) blocks, in steps. The size moves up with them, so that no commit pays for a
 * new size in its flush and a page that LMDB leaves unwritten at the end is inside the file. */
static int grow(struct lmdb_space *s, uint64_t want, uint64_t promised)
{
    const struct seam_platform *os = s->os;
    uint64_t to = least(round_up(want, s->chunk), round_up(s->cap, s->page));
    if (!s->real) {
        uint64_t left = 0;
        int rc = os->space(os->ctx, s->fd, &left);
        if (rc < 0)
            return rc;
        if (left < promised)
            return -ENOSPC;
        to = to < want ? want : to;
        if (os->truncate(os->ctx, s->fd, to) < 0)
            return -ENOSPC;
        s->ready = to;
        return 0;
    }
    int rc = to < want ? -ENOSPC : os->allocate(os->ctx, s->fd, s->ready, to - s->ready);
    if (rc == -ENOSPC || rc == -EDQUOT || rc == -EFBIG) {
        drop_partial(s);
        to = round_up(want, s->page);
        rc = os->allocate(os->ctx, s->fd, s->ready, to - s->ready);
    }
    if (rc >= 0)
        rc = os->truncate(os->ctx, s->fd, to);
    if (rc < 0) {
        drop_partial(s);
        return rc;
    }
    s->ready = to;
    return 0;
}

static int ensure(struct lmdb_space *s, const struct lmdb_load *load, struct seam_err *err)
{
    pthread_mutex_lock(&s->file_lock);
    pthread_mutex_lock(&s->lock);
    uint64_t promised = seam_ledger_promised(s->ledger);
    uint64_t want = taken(s) + promised + spare(s, load);
    uint64_t runs = (s->tree.used + s->runs) * s->page;
    want = want > runs ? want : runs;
    pthread_mutex_unlock(&s->lock);
    int rc = 0;
    if (want > s->peak)
        s->peak = want;
    if (want > s->cap)
        rc = -ENOSPC;
    else if (want > s->ready || !s->real)
        rc = grow(s, want > s->ready ? want : s->ready, promised);
    pthread_mutex_unlock(&s->file_lock);
    if (rc >= 0)
        return SEAM_OK;
    int code = seam_fail_os(err, rc == -EFBIG ? ENOSPC : -rc, /* a limit on file sizes is one too */
                            "%s: no room for the %llu bytes that open commits may need: free some",
                            LMDB_DATA_FILE, (unsigned long long)promised);
    if (err != NULL && code == SEAM_E_NO_SPACE) {
        err->limit = "disk";
        err->max = s->cap;
        err->got = want;
    }
    return code;
}

static void hold_unlink(struct lmdb_space *s, struct lmdb_hold *h)
{
    *(h->prev != NULL ? &h->prev->next : &s->first) = h->next;
    *(h->next != NULL ? &h->next->prev : &s->last) = h->prev;
    h->prev = h->next = NULL;
    s->runs -= h->bound.runs;
    s->held--;
}

/* Counts the pages that can be used again, if the blocks at hand do not do for the load, and
 * reckons its bound anew. */
static void recount(struct lmdb_space *s, const struct lmdb_growth *others, struct lmdb_hold *hold)
{
    uint64_t room = least(s->cap, s->ready), want = hold->bound.pages * s->page;
    want += taken(s) + seam_ledger_promised(s->ledger) + spare(s, &hold->load);
    uint64_t runs = (s->tree.used + s->runs + hold->bound.runs) * s->page;
    if (s->engine == NULL || (want <= room && runs <= room))
        return;
    struct lmdb_free found;
    lmdb_free_count(s->engine, &s->tree, &found);
    s->reusable = found.usable;
    s->free_runs = found.runs;
    s->counted = s->groups;
    seam_ledger_give(s->ledger, 0, taken(s));
    lmdb_space_bound(s, &s->tree, &hold->load, others, &hold->bound);
}

int lmdb_space_take(struct lmdb_space *s, struct lmdb_hold *hold, uint64_t deadline_ns,
                    struct seam_err *err)
{
    struct lmdb_growth grown = {0, 0};
    uint64_t others = 0;
    pthread_mutex_lock(&s->lock);
    for (const struct lmdb_hold *h = s->first; h != NULL; h = h->next) {
        grown.tree += h->bound.growth.tree;
        grown.large += h->bound.growth.large;
    }
    lmdb_space_bound(s, &s->tree, &hold->load, &grown, &hold->bound);
    recount(s, &grown, hold);
    for (const struct lmdb_hold *h = s->first; h != NULL; h = h->next)
        others += hold_growth(h, hold);
    hold->bound.runs += list_growth(hold) * s->held;
    uint64_t bytes = (hold->bound.pages + others) * s->page, keep = spare(s, &hold->load);
    hold->asked = hold->bytes = bytes;
    hold->next = NULL;
    hold->prev = s->last;
    *(s->last != NULL ? &s->last->next : &s->first) = hold;
    s->last = hold;
    s->runs += hold->bound.runs;
    s->held++;
    pthread_mutex_unlock(&s->lock);

    int rc = seam_ledger_take(s->ledger, bytes + keep, deadline_ns, "disk", err);
    if (rc == SEAM_OK) {
        seam_ledger_give(s->ledger, keep, UINT64_MAX);
        rc = ensure(s, &hold->load, err);
        if (rc != SEAM_OK)
            lmdb_space_give(s, hold);
        return rc;
    }
    pthread_mutex_lock(&s->lock);
    hold_unlink(s, hold);
    uint64_t handed = hold->bytes - hold->asked; /* by commits that ended meanwhile */
    if (handed > 0)
        seam_ledger_give(s->ledger, handed, UINT64_MAX);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

void lmdb_space_give(struct lmdb_space *s, struct lmdb_hold *hold)
{
    pthread_mutex_lock(&s->lock);
    hold_unlink(s, hold);
    seam_ledger_give(s->ledger, hold->bytes, taken(s));
    pthread_mutex_unlock(&s->lock);
}

/* What hold promised for older ones is theirs now. */
static void hand_over(struct lmdb_space *s, struct lmdb_hold *hold)
{
    for (struct lmdb_hold *h = s->first; h != hold; h = h->next) {
        uint64_t more = hold_growth(h, hold);
        assert(more * s->page <= hold->bytes);
        hold->bytes -= more * s->page;
        h->bytes += more * s->page;
        h->bound.pages += more;
        h->bound.room -= least(more, h->bound.room);
        h->bound.runs += list_growth(hold);
        s->runs += list_growth(hold);
    }
}

void lmdb_space_settle(struct lmdb_space *s, const struct lmdb_tree *tree, struct lmdb_hold *done)
{
    uint64_t bytes = 0, pages = 0, lists = 0;
    pthread_mutex_lock(&s->lock);
    for (struct lmdb_hold *h = done; h != NULL; h = h->done) {
        lists += h->bound.list;
        hand_over(s, h);
        hold_unlink(s, h);
        bytes += h->bytes;
        pages += h->bound.pages;
    }
    uint64_t added = tree->used > s->tree.used ? tree->used - s->tree.used : 0;
    if (pages > 0 && added * 100 / pages > s->worst_percent)
        s->worst_percent = added * 100 / pages;
    s->tree = *tree;
    s->reusable -= least(s->reusable, pages);
    bool stale = s->free_runs == UINT64_MAX || s->groups - s->counted > COUNT_LASTS;
    s->free_runs = stale ? UINT64_MAX : s->free_runs + lists;
    seam_ledger_give(s->ledger, bytes, taken(s));
    bool look = ++s->groups % SHRINK_EVERY == 0;
    pthread_mutex_unlock(&s->lock);
    if (look)
        shrink(s);
}

bool lmdb_space_ahead(struct lmdb_space *s, uint64_t pages)
{
    pthread_mutex_lock(&s->file_lock);
    uint64_t want = (s->tree.used + pages) * s->page;
    int rc = want > s->ready ? grow(s, want, pages * s->page) : 0;
    if (rc < 0 && file_size(s) < want) /* what commits do without, and leave unwritten, is inside */
        (void)s->os->truncate(s->os->ctx, s->fd, want);
    pthread_mutex_unlock(&s->file_lock);
    return rc >= 0;
}
