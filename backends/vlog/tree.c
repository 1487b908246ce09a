/* tree.c - see tree.h.
 *
 * Keeps true: the prefix in slot i > 0 of an inner node is that of the first key below it, so that
 * where prefixes tie the whole key can be read from the leftmost leaf; slot 0 is never compared.
 * No node but the root is empty; of two neighbours under one parent of which one is less than a
 * quarter full, the sum is more than three quarters. */
#include "tree.h"

#include <assert.h>
#include <string.h>

#define LEAST (VLOG_FAN / 4)
#define MOST_MERGED (VLOG_FAN * 3 / 4)

struct prefix {
    uint64_t hi, lo;
};

struct path {
    struct vlog_node *node[VLOG_LEVELS];
    uint32_t i[VLOG_LEVELS];
};

static uint64_t big_endian(const unsigned char *p, size_t len)
{
    uint64_t x = 0;
    if (len >= 8) {
        memcpy(&x, p, 8);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        x = __builtin_bswap64(x);
#endif
        return x;
    }
    for (size_t i = 0; i < len; i++)
        x |= (uint64_t)p[i] << (56 - 8 * i);
    return x;
}

static struct prefix prefix_of(struct seam_slice key)
{
    struct prefix x = {big_endian(key.ptr, key.len), 0};
    if (key.len > 8)
        x.lo = big_endian((const unsigned char *)key.ptr + 8, key.len - 8);
    return x;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static void set_count(struct vlog_tree *t, struct vlog_node *node, uint32_t n)
{
    t->filled[node->level][node->n]--;
    node->n = n;
    t->filled[node->level][n]++;
}

static struct vlog_node *node_new(struct vlog_tree *t, uint32_t level)
{
    struct vlog_node *node = t->free;
    if (node)
        t->free = node->next;
    else
        node = &t->chunks->nodes[--t->fresh];
    assert(t->free_nodes > 0);
    t->free_nodes--;
    node->prev = node->next = NULL;
    node->n = 0;
    node->level = level;
    t->filled[level][0]++;
    return node;
}

static void node_free(struct vlog_tree *t, struct vlog_node *node)
{
    t->filled[node->level][node->n]--;
    node->next = t->free;
    t->free = node;
    t->free_nodes++;
}

int vlog_tree_fill(struct vlog_tree *t, uint64_t nodes)
{
    while (t->free_nodes < nodes) {
        struct vlog_chunk *c = t->os->alloc(t->os->ctx, sizeof *c);
        if (!c)
            return SEAM_E_NOMEM;
        for (; t->fresh > 0; t->fresh--) { /* of the chunk before: rare, and at most 16 */
            struct vlog_node *left = &t->chunks->nodes[t->fresh - 1];
            left->next = t->free;
            t->free = left;
        }
        c->next = t->chunks;
        t->chunks = c;
        t->fresh = sizeof c->nodes / sizeof c->nodes[0];
        t->free_nodes += t->fresh;
        t->chunk_bytes += sizeof *c;
    }
    return SEAM_OK;
}

int vlog_tree_init(struct vlog_tree *t, const struct seam_platform *os)
{
    memset(t, 0, sizeof *t);
    t->os = os;
    int rc = vlog_tree_fill(t, 1);
    if (rc == SEAM_OK)
        t->root = t->first = t->last = node_new(t, 0);
    return rc;
}

void vlog_tree_clear(struct vlog_tree *t)
{
    while (t->chunks) {
        struct vlog_chunk *c = t->chunks;
        t->chunks = c->next;
        t->os->free(t->os->ctx, c);
    }
    t->root = NULL;
}

/* Splits of one level by `in` inserts there: the fullest nodes first, since a node with room for s
 * splits at the insert s + 1; what a split leaves has room for half a node. The split at the right
 * end leaves a full node behind, once in a node's worth of inserts: the 2 is for the first. */
static uint64_t splits(const uint32_t *filled, uint64_t in)
{
    uint64_t n = 0;
    for (uint64_t room = 0; room < VLOG_FAN / 2 && in > room; room++) {
        uint64_t most = in / (room + 1), have = filled[VLOG_FAN - room];
        if (most > have)
            most = have;
        n += most;
        in -= most * (room + 1);
    }
    return n + in / (VLOG_FAN / 2) + 2;
}

uint64_t vlog_tree_need(const struct vlog_tree *t, uint64_t inserts)
{
    uint64_t need = 0, in = inserts;
    if (inserts == 0)
        return 0;
    for (uint32_t level = 0; level <= t->root->level; level++) {
        in = splits(t->filled[level], in);
        need += in;
    }
    return need + in / 8 + 8; /* levels above today's root */
}

/* ---- searching ------------------------------------------------------------------------------ */

static const struct vlog_entry *leftmost(const struct vlog_node *node)
{
    while (node->level > 0)
        node = node->at[0];
    return node->at[0];
}

static int compare_slot(const struct vlog_node *node, uint32_t i, struct prefix x,
                        struct seam_slice key)
{
    if (node->hi[i] != x.hi)
        return node->hi[i] < x.hi ? -1 : 1;
    if (node->lo[i] != x.lo)
        return node->lo[i] < x.lo ? -1 : 1;
    const struct vlog_entry *e = node->level > 0 ? leftmost(node->at[i]) : node->at[i];
    return seam_compare(vlog_entry_key(e), key);
}

/* The number of slots from `from` on, and those before, that are < key, or with or_equal <= key. */
static uint32_t rank(const struct vlog_node *node, uint32_t from, struct prefix x,
                     struct seam_slice key, bool or_equal)
{
    uint32_t low = from, high = node->n;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        int order = compare_slot(node, mid, x, key);
        if (order < 0 || (order == 0 && or_equal))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static struct vlog_node *descend(const struct vlog_tree *t, struct prefix x, struct seam_slice key,
                                 struct path *path)
{
    struct vlog_node *node = t->root;
    while (node->level > 0) {
        uint32_t i = rank(node, 1, x, key, true) - 1;
        if (path) {
            path->node[node->level] = node;
            path->i[node->level] = i;
        }
        node = node->at[i];
    }
    return node;
}

struct vlog_pos vlog_tree_seek(const struct vlog_tree *t, struct seam_slice key, bool after)
{
    struct prefix x = prefix_of(key);
    struct vlog_pos p;
    p.leaf = descend(t, x, key, NULL);
    p.i = rank(p.leaf, 0, x, key, after);
    if (p.i == p.leaf->n) {
        p.leaf = p.leaf->next;
        p.i = 0;
    }
    return p;
}

struct vlog_pos vlog_tree_end(const struct vlog_tree *t, bool last)
{
    struct vlog_pos p = {last ? t->last : t->first, 0};
    if (p.leaf->n == 0)
        p.leaf = NULL;
    else if (last)
        p.i = p.leaf->n - 1;
    return p;
}

struct vlog_pos vlog_tree_step(struct vlog_pos p, bool back)
{
    if (back) {
        if (p.i > 0) {
            p.i--;
        } else {
            p.leaf = p.leaf->prev;
            p.i = p.leaf ? p.leaf->n - 1 : 0;
        }
    } else if (++p.i == p.leaf->n) {
        p.leaf = p.leaf->next;
        p.i = 0;
    }
    return p;
}

struct vlog_pos vlog_tree_before(const struct vlog_tree *t, struct vlog_pos p)
{
    return p.leaf ? vlog_tree_step(p, true) : vlog_tree_end(t, true);
}

/* ---- inserting ------------------------------------------------------------------------------ */

static void slots_move(struct vlog_node *to, uint32_t to_i, const struct vlog_node *from,
                       uint32_t from_i, uint32_t n)
{
    memmove(&to->hi[to_i], &from->hi[from_i], n * sizeof to->hi[0]);
    memmove(&to->lo[to_i], &from->lo[from_i], n * sizeof to->lo[0]);
    memmove(&to->at[to_i], &from->at[from_i], n * sizeof to->at[0]);
}

static void slot_insert(struct vlog_tree *t, struct vlog_node *node, uint32_t i, struct prefix x,
                        void *what)
{
    slots_move(node, i + 1, node, i, node->n - i);
    node->hi[i] = x.hi;
    node->lo[i] = x.lo;
    node->at[i] = what;
    set_count(t, node, node->n + 1);
}

/* Makes room in a full node: the upper half goes to a new right neighbour, or nothing
 * does at the very end of the tree, so that ascending keys fill their leaves. */
static struct vlog_node *split(struct vlog_tree *t, struct vlog_node *node, bool at_end)
{
    struct vlog_node *right = node_new(t, node->level);
    uint32_t keep = at_end ? VLOG_FAN : VLOG_FAN / 2;
    slots_move(right, 0, node, keep, VLOG_FAN - keep);
    set_count(t, right, VLOG_FAN - keep);
    set_count(t, node, keep);
    if (node->level == 0) {
        right->prev = node;
        right->next = node->next;
        if (node->next)
            node->next->prev = right;
        else
            t->last = right;
        node->next = right;
    }
    return right;
}

static void root_grow(struct vlog_tree *t, struct vlog_node *right, struct prefix x)
{
    struct vlog_node *root = node_new(t, t->root->level + 1);
    assert(root->level < VLOG_LEVELS);
    root->hi[0] = root->lo[0] = 0;
    root->at[0] = t->root;
    set_count(t, root, 1);
    slot_insert(t, root, 1, x, right);
    t->root = root;
}

static void insert(struct vlog_tree *t, struct path *path, struct vlog_node *node, uint32_t i,
                   struct prefix x, void *what)
{
    bool at_end = node == t->last && i == VLOG_FAN;
    t->stamp++;
    while (node->n == VLOG_FAN) {
        struct vlog_node *right = split(t, node, at_end);
        if (i >= node->n && (right->n == 0 || i > node->n))
            slot_insert(t, right, i - node->n, x, what);
        else
            slot_insert(t, node, i, x, what);
        struct prefix up = {right->hi[0], right->lo[0]};
        if (node == t->root) {
            root_grow(t, right, up);
            return;
        }
        uint32_t level = node->level + 1;
        node = path->node[level];
        i = path->i[level] + 1;
        x = up;
        what = right;
    }
    slot_insert(t, node, i, x, what);
}

struct vlog_entry *vlog_tree_put(struct vlog_tree *t, struct vlog_entry *e)
{
    struct seam_slice key = vlog_entry_key(e);
    struct prefix x = prefix_of(key);
    struct path path;
    struct vlog_node *leaf = t->last;
    if (leaf->n > 0 && leaf->n < VLOG_FAN && compare_slot(leaf, leaf->n - 1, x, key) < 0) {
        t->stamp++;
        slot_insert(t, leaf, leaf->n, x, e);
        return NULL;
    }
    leaf = descend(t, x, key, &path);
    uint32_t i = rank(leaf, 0, x, key, false);
    if (i < leaf->n && compare_slot(leaf, i, x, key) == 0) {
        struct vlog_entry *before = leaf->at[i];
        leaf->at[i] = e;
        return before;
    }
    insert(t, &path, leaf, i, x, e);
    return NULL;
}

/* ---- removing ------------------------------------------------------------------------------- */

/* The first key below `node` has changed: says so where its prefix is kept. */
static void first_changed(struct vlog_tree *t, const struct path *path, struct vlog_node *node)
{
    for (uint32_t level = node->level + 1; level <= t->root->level; level++) {
        struct vlog_node *up = path->node[level];
        uint32_t i = path->i[level];
        if (i > 0) {
            struct prefix x = prefix_of(vlog_entry_key(leftmost(node)));
            up->hi[i] = x.hi;
            up->lo[i] = x.lo;
            return;
        }
    }
}

static void leaf_unlink(struct vlog_tree *t, struct vlog_node *leaf)
{
    if (leaf->prev)
        leaf->prev->next = leaf->next;
    else
        t->first = leaf->next;
    if (leaf->next)
        leaf->next->prev = leaf->prev;
    else
        t->last = leaf->prev;
}

/* Merges node with a neighbour if both are small: returns the slot in `up` that must go, or
 * UINT32_MAX. */
static uint32_t merge(struct vlog_tree *t, struct vlog_node *up, uint32_t i)
{
    struct vlog_node *node = up->at[i];
    uint32_t ri = UINT32_MAX;
    if (node->n >= LEAST)
        return ri;
    if (i + 1 < up->n && node->n + ((struct vlog_node *)up->at[i + 1])->n <= MOST_MERGED)
        ri = i + 1;
    else if (i > 0 && node->n + ((struct vlog_node *)up->at[i - 1])->n <= MOST_MERGED)
        ri = i;
    if (ri == UINT32_MAX)
        return ri;
    struct vlog_node *left = up->at[ri - 1], *right = up->at[ri];
    right->hi[0] = up->hi[ri];
    right->lo[0] = up->lo[ri];
    slots_move(left, left->n, right, 0, right->n);
    set_count(t, left, left->n + right->n);
    if (right->level == 0)
        leaf_unlink(t, right);
    node_free(t, right);
    return ri;
}

static void root_shrink(struct vlog_tree *t)
{
    while (t->root->level > 0 && t->root->n == 1) {
        struct vlog_node *old = t->root;
        t->root = old->at[0];
        node_free(t, old);
    }
}

static void slot_remove(struct vlog_tree *t, struct vlog_node *node, uint32_t i)
{
    slots_move(node, i, node, i + 1, node->n - i - 1);
    set_count(t, node, node->n - 1);
}

static void remove_at(struct vlog_tree *t, struct path *path, struct vlog_node *node, uint32_t i)
{
    t->stamp++;
    for (;;) {
        slot_remove(t, node, i);
        if (node == t->root)
            break;
        struct vlog_node *up = path->node[node->level + 1];
        uint32_t at = path->i[node->level + 1];
        if (node->n == 0) {
            if (node->level == 0)
                leaf_unlink(t, node);
            node_free(t, node);
            i = at;
        } else {
            if (i == 0)
                first_changed(t, path, node);
            i = merge(t, up, at);
            if (i == UINT32_MAX)
                break;
        }
        node = up;
    }
    root_shrink(t);
}

void vlog_tree_drop(struct vlog_tree *t, const struct vlog_entry *old, struct vlog_entry *by)
{
    struct seam_slice key = vlog_entry_key(old);
    struct prefix x = prefix_of(key);
    struct path path;
    struct vlog_node *leaf = descend(t, x, key, &path);
    uint32_t i = rank(leaf, 0, x, key, false);
    assert(i < leaf->n && leaf->at[i] == old);
    if (by)
        leaf->at[i] = by;
    else
        remove_at(t, &path, leaf, i);
}
