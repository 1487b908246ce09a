/* map.h - versions and views over the tree.
 *
 * A version is born at one commit and died at a later one, or at the same; a reader at instant s
 * sees the one with born <= s < died, of which there is at most one. Nothing here locks: whoever
 * changes anything holds the engine's lock exclusively, whoever searches holds it shared. What was
 * found stays valid without the lock for as long as a view that sees it, or a hold, exists. */
#ifndef VLOG_MAP_H
#define VLOG_MAP_H

#include "slab.h"
#include "tree.h"

#define VLOG_ALIVE UINT64_MAX

/* An instant that somebody may still read at. A dead version is listed at the youngest view that
 * sees it, so that closing a view looks at exactly the versions whose fate it decides. */
struct vlog_view {
    struct vlog_view *older, *younger;
    struct vlog_entry *dead;
    uint64_t at;
    size_t users;
};

struct vlog_map {
    const struct seam_platform *os;
    struct vlog_slab *slab; /* of the entries */
    struct vlog_tree tree;
    struct vlog_view *youngest;
    uint64_t now; /* the last commit that is visible */
    uint64_t entry_bytes, keys, live_bytes;
};

int vlog_map_init(struct vlog_map *map, const struct seam_platform *os, struct vlog_slab *slab);
void vlog_map_clear(struct vlog_map *map);

static inline uint64_t vlog_entry_size(uint64_t key_len, uint64_t inline_len)
{
    return vlog_slab_size(offsetof(struct vlog_entry, bytes) + key_len + inline_len);
}

/* Ops of commit `at`, which becomes map->now when the caller sets it. put takes e. */
void vlog_map_put(struct vlog_map *map, uint64_t at, struct vlog_entry *e);
void vlog_map_delete(struct vlog_map *map, uint64_t at, struct seam_slice key);
void vlog_map_delete_range(struct vlog_map *map, uint64_t at, struct seam_slice begin,
                           struct seam_slice end);

/* Opens a view of now; `fresh` is used, and *fresh cleared, if there is none of this instant. */
struct vlog_view *vlog_view_open(struct vlog_map *map, struct vlog_view **fresh);
void vlog_view_close(struct vlog_map *map, struct vlog_view *view);

/* The version of its key at p that is seen at `at`, or NULL. */
struct vlog_entry *vlog_seen(struct vlog_pos p, uint64_t at);
struct vlog_entry *vlog_map_find(const struct vlog_map *map, uint64_t at, struct seam_slice key);
/* The first one seen from p on below upper, or back from p down to lower; p moves with it. */
struct vlog_entry *vlog_map_forward(uint64_t at, struct seam_slice upper, struct vlog_pos *p);
struct vlog_entry *vlog_map_backward(uint64_t at, struct seam_slice lower, struct vlog_pos *p);
/* FIRST, LAST, GE, LE. */
struct vlog_entry *vlog_map_near(const struct vlog_map *map, uint64_t at, struct seam_slice lower,
                                 struct seam_slice upper, enum seam_move how,
                                 struct seam_slice where, struct vlog_pos *ret);

static inline void vlog_entry_hold(struct vlog_entry *e)
{
    atomic_fetch_add_explicit(&e->holds, 1, memory_order_relaxed);
}

/* True if this was the last hold: the caller then removes it, under the exclusive lock. */
static inline bool vlog_entry_release(struct vlog_entry *e)
{
    return atomic_fetch_sub_explicit(&e->holds, 1, memory_order_acq_rel) == 1;
}

void vlog_entry_remove(struct vlog_map *map, struct vlog_entry *e);
void vlog_entry_free(struct vlog_slab *slab, struct vlog_entry *e);

#endif
