/* tree.h - the ordered index in memory: a B+tree of keys, each with its newest version.
 *
 * A slot holds the first 16 bytes of its key as two big-endian numbers, so that most comparisons
 * touch no entry. Nodes come from a pool that prepare fills, so that an insert cannot fail: see
 * vlog_tree_need. Nothing here locks. */
#ifndef VLOG_TREE_H
#define VLOG_TREE_H

#include <seam/backend.h>

#include <stdatomic.h>

#define VLOG_FAN 64u   /* slots of a node */
#define VLOG_LEVELS 16u

struct vlog_segment;

/* One version of one key, and the memory of all that belongs to it. */
struct vlog_entry {
    struct vlog_entry *older, *newer; /* versions of the same key */
    struct vlog_entry *next;          /* in a ticket, then in the list of the view that keeps it */
    struct vlog_segment *segment;     /* whose frame holds it */
    uint64_t born, died;              /* commit numbers; seen at s when born <= s < died */
    atomic_uint holds;                /* one is the tree's, the others are pins */
    uint32_t key_len, value_len;
    uint32_t offset, crc;             /* of a value that stays in the log */
    bool large;                       /* it does */
    unsigned char bytes[];            /* key, and value unless large */
};

struct vlog_node {
    struct vlog_node *prev, *next; /* leaves; next also links free nodes */
    uint32_t n, level;             /* level 0: leaf */
    uint64_t hi[VLOG_FAN], lo[VLOG_FAN];
    void *at[VLOG_FAN]; /* entries, or nodes one level down */
};

struct vlog_chunk {
    struct vlog_chunk *next;
    struct vlog_node nodes[16];
};

struct vlog_tree {
    const struct seam_platform *os;
    struct vlog_node *root, *first, *last;
    struct vlog_node *free;
    struct vlog_chunk *chunks;
    uint32_t fresh; /* nodes of the newest chunk never used */
    uint64_t free_nodes;
    uint64_t chunk_bytes;
    uint64_t stamp; /* changes when any slot moves */
    uint32_t filled[VLOG_LEVELS][VLOG_FAN + 1]; /* nodes by level and number of slots */
};

struct vlog_pos {
    struct vlog_node *leaf; /* NULL: beyond an end */
    uint32_t i;
};

int vlog_tree_init(struct vlog_tree *t, const struct seam_platform *os);
void vlog_tree_clear(struct vlog_tree *t); /* the nodes, not the entries */

/* The most nodes that `inserts` inserts can take, whatever their keys and order. Removals in
 * between take none and never raise what is needed by more than they give back. */
uint64_t vlog_tree_need(const struct vlog_tree *t, uint64_t inserts);
/* Adds chunks until `nodes` are free. */
int vlog_tree_fill(struct vlog_tree *t, uint64_t nodes);

/* Makes e the newest of its key; returns the one before, or NULL. */
struct vlog_entry *vlog_tree_put(struct vlog_tree *t, struct vlog_entry *e);
/* Replaces the newest version of old's key by `by`, or removes the key if by is NULL. */
void vlog_tree_drop(struct vlog_tree *t, const struct vlog_entry *old, struct vlog_entry *by);

/* The first key >= `key`, or with `after` > key. */
struct vlog_pos vlog_tree_seek(const struct vlog_tree *t, struct seam_slice key, bool after);
struct vlog_pos vlog_tree_end(const struct vlog_tree *t, bool last);
struct vlog_pos vlog_tree_step(struct vlog_pos p, bool back);
/* The one before p; p beyond the end (leaf NULL): the last. */
struct vlog_pos vlog_tree_before(const struct vlog_tree *t, struct vlog_pos p);

static inline struct vlog_entry *vlog_pos_entry(struct vlog_pos p)
{
    return p.leaf ? p.leaf->at[p.i] : NULL;
}

static inline struct seam_slice vlog_entry_key(const struct vlog_entry *e)
{
    return seam_bytes(e->bytes, e->key_len);
}

#endif
