/* map.c - see map.h.
 *
 * Relies on tree.c for order. Keeps true: a key is in the tree while it has a version that anybody
 * can see or holds; a segment's count of live entries falls only when an entry's memory goes. */
#include "map.h"

#include "log.h"

#include <assert.h>
#include <string.h>

int vlog_map_init(struct vlog_map *map, const struct seam_platform *os, struct vlog_slab *slab)
{
    memset(map, 0, sizeof *map);
    map->os = os;
    map->slab = slab;
    return vlog_tree_init(&map->tree, os);
}

/* The slab lets go of all its blocks at once: only entries that are not in it are looked for. */
static void free_foreign(struct vlog_map *map)
{
    struct vlog_pos p = vlog_tree_end(&map->tree, false);
    while (p.leaf) {
        struct vlog_entry *e = vlog_pos_entry(p);
        p = vlog_tree_step(p, false);
        while (e) {
            struct vlog_entry *older = e->older;
            vlog_entry_free(map->slab, e);
            e = older;
        }
    }
}

void vlog_map_clear(struct vlog_map *map)
{
    if (!map->tree.root)
        return;
    if (map->slab->foreign > 0)
        free_foreign(map);
    vlog_tree_clear(&map->tree);
}

/* ---- life and death of versions ------------------------------------------------------------- */

static uint64_t size_of(const struct vlog_entry *e)
{
    return vlog_entry_size(e->key_len, e->large ? 0 : e->value_len);
}

void vlog_entry_free(struct vlog_slab *slab, struct vlog_entry *e)
{
    vlog_slab_free(slab, e, offsetof(struct vlog_entry, bytes) + e->key_len +
                                (e->large ? 0 : (size_t)e->value_len));
}

void vlog_entry_remove(struct vlog_map *map, struct vlog_entry *e)
{
    if (e->newer)
        e->newer->older = e->older;
    else
        vlog_tree_drop(&map->tree, e, e->older);
    if (e->older)
        e->older->newer = e->newer;
    map->entry_bytes -= size_of(e);
    vlog_segment_unlive(e->segment);
    vlog_entry_free(map->slab, e);
}

/* Gives a dead version to the youngest view at or below `view` that sees it; if there is none, the
 * map lets go of it. */
static void bury(struct vlog_map *map, struct vlog_view *view, struct vlog_entry *e)
{
    while (view && view->at >= e->died)
        view = view->older;
    if (view && view->at >= e->born) {
        e->next = view->dead;
        view->dead = e;
    } else if (vlog_entry_release(e)) {
        vlog_entry_remove(map, e);
    }
}

static void kill_entry(struct vlog_map *map, uint64_t at, struct vlog_entry *e)
{
    e->died = at;
    map->keys--;
    map->live_bytes -= (uint64_t)e->key_len + e->value_len;
    bury(map, map->youngest, e);
}

void vlog_map_put(struct vlog_map *map, uint64_t at, struct vlog_entry *e)
{
    e->born = at;
    e->died = VLOG_ALIVE;
    struct vlog_entry *before = vlog_tree_put(&map->tree, e);
    e->older = before;
    e->newer = NULL;
    if (before)
        before->newer = e;
    map->entry_bytes += size_of(e);
    map->live_bytes += (uint64_t)e->key_len + e->value_len;
    map->keys++;
    vlog_segment_live(e->segment);
    if (before && before->died == VLOG_ALIVE)
        kill_entry(map, at, before);
}

void vlog_map_delete(struct vlog_map *map, uint64_t at, struct seam_slice key)
{
    struct vlog_entry *e = vlog_pos_entry(vlog_tree_seek(&map->tree, key, false));
    if (e && e->died == VLOG_ALIVE && seam_compare(vlog_entry_key(e), key) == 0)
        kill_entry(map, at, e);
}

void vlog_map_delete_range(struct vlog_map *map, uint64_t at, struct seam_slice begin,
                           struct seam_slice end)
{
    struct vlog_pos p = vlog_tree_seek(&map->tree, begin, false);
    while (p.leaf) {
        struct vlog_entry *e = vlog_pos_entry(p);
        if (end.ptr && seam_compare(vlog_entry_key(e), end) >= 0)
            break;
        if (e->died != VLOG_ALIVE) {
            p = vlog_tree_step(p, false);
            continue;
        }
        struct vlog_pos next = vlog_tree_step(p, false);
        const struct vlog_entry *follows = vlog_pos_entry(next);
        uint64_t stamp = map->tree.stamp;
        kill_entry(map, at, e);
        if (map->tree.stamp == stamp || !follows)
            p = next;
        else
            p = vlog_tree_seek(&map->tree, vlog_entry_key(follows), false);
    }
}

/* ---- views ---------------------------------------------------------------------------------- */

struct vlog_view *vlog_view_open(struct vlog_map *map, struct vlog_view **fresh)
{
    struct vlog_view *view = map->youngest;
    if (!view || view->at != map->now) {
        view = *fresh;
        *fresh = NULL;
        memset(view, 0, sizeof *view);
        view->at = map->now;
        view->older = map->youngest;
        if (view->older)
            view->older->younger = view;
        map->youngest = view;
    }
    view->users++;
    return view;
}

void vlog_view_close(struct vlog_map *map, struct vlog_view *view)
{
    assert(view->users > 0);
    if (--view->users > 0)
        return;
    if (view->younger)
        view->younger->older = view->older;
    else
        map->youngest = view->older;
    if (view->older)
        view->older->younger = view->younger;
    for (struct vlog_entry *e = view->dead, *next; e; e = next) {
        next = e->next;
        bury(map, view->older, e);
    }
    map->os->free(map->os->ctx, view);
}

/* ---- finding -------------------------------------------------------------------------------- */

struct vlog_entry *vlog_seen(struct vlog_pos p, uint64_t at)
{
    struct vlog_entry *e = vlog_pos_entry(p);
    while (e && e->born > at)
        e = e->older;
    return e && at < e->died ? e : NULL;
}

struct vlog_entry *vlog_map_find(const struct vlog_map *map, uint64_t at, struct seam_slice key)
{
    struct vlog_pos p = vlog_tree_seek(&map->tree, key, false);
    struct vlog_entry *e = vlog_pos_entry(p);
    return e && seam_compare(vlog_entry_key(e), key) == 0 ? vlog_seen(p, at) : NULL;
}

struct vlog_entry *vlog_map_forward(uint64_t at, struct seam_slice upper, struct vlog_pos *p)
{
    for (; p->leaf; *p = vlog_tree_step(*p, false)) {
        struct vlog_entry *e = vlog_pos_entry(*p);
        if (upper.ptr && seam_compare(vlog_entry_key(e), upper) >= 0)
            return NULL;
        e = vlog_seen(*p, at);
        if (e)
            return e;
    }
    return NULL;
}

struct vlog_entry *vlog_map_backward(uint64_t at, struct seam_slice lower, struct vlog_pos *p)
{
    for (; p->leaf; *p = vlog_tree_step(*p, true)) {
        struct vlog_entry *e = vlog_pos_entry(*p);
        if (seam_compare(vlog_entry_key(e), lower) < 0)
            return NULL;
        e = vlog_seen(*p, at);
        if (e)
            return e;
    }
    return NULL;
}

struct vlog_entry *vlog_map_near(const struct vlog_map *map, uint64_t at, struct seam_slice lower,
                                 struct seam_slice upper, enum seam_move how,
                                 struct seam_slice where, struct vlog_pos *ret)
{
    const struct vlog_tree *t = &map->tree;
    switch (how) {
    case SEAM_FIRST:
        *ret = vlog_tree_seek(t, lower, false);
        return vlog_map_forward(at, upper, ret);
    case SEAM_GE:
        *ret = vlog_tree_seek(t, where, false);
        return vlog_map_forward(at, upper, ret);
    case SEAM_LAST:
        *ret = upper.ptr ? vlog_tree_before(t, vlog_tree_seek(t, upper, false))
                         : vlog_tree_end(t, true);
        return vlog_map_backward(at, lower, ret);
    case SEAM_LE:
        *ret = vlog_tree_before(t, vlog_tree_seek(t, where, true));
        return vlog_map_backward(at, lower, ret);
    case SEAM_NEXT:
    case SEAM_PREV:
    default: /* cursors step by themselves */
        return NULL;
    }
}
