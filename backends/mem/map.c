/* map.c - see map.h: skip list of keys, chains of versions, views that keep the dead readable.
 *
 * Relies on the caller's lock, and on nodes brought from outside, so that no change can fail.
 * Keeps true: a key in the list has a chain of at least one version; in a chain, born and died
 * fall from newest to oldest, and only the newest may be alive; a version leaves its chain when
 * neither a view sees it nor a pin holds it, and a key leaves the list with its last version. */
#include "map.h"

#include <assert.h>
#include <string.h>

/* What malloc adds to a small block, about; counted so that the cap means real memory. */
#define ALLOC_OVERHEAD 16u

static unsigned char *key_ptr(const struct mem_key *key)
{
    return (unsigned char *)(uintptr_t)&key->next[key->height];
}

struct seam_slice mem_key_bytes(const struct mem_key *key)
{
    return seam_bytes(key_ptr(key), key->len);
}

struct seam_slice mem_version_bytes(const struct mem_version *version)
{
    return seam_bytes(version->bytes, version->len);
}

uint64_t mem_key_size(size_t len, uint32_t height)
{
    return sizeof(struct mem_key) + height * sizeof(struct mem_key *) + len + ALLOC_OVERHEAD;
}

uint64_t mem_version_size(size_t len)
{
    return sizeof(struct mem_version) + len + ALLOC_OVERHEAD;
}

static void copy(unsigned char *to, struct seam_slice from)
{
    if (from.len > 0)
        memcpy(to, from.ptr, from.len);
}

struct mem_key *mem_key_new(const struct seam_platform *os, struct seam_slice key, uint32_t height)
{
    struct mem_key *k = os->alloc(os->ctx, mem_key_size(key.len, height) - ALLOC_OVERHEAD);

    if (!k)
        return NULL;
    memset(k, 0, sizeof(*k) + height * sizeof(k->next[0]));
    k->len = (uint32_t)key.len;
    k->height = height;
    copy(key_ptr(k), key);
    return k;
}

struct mem_version *mem_version_new(const struct seam_platform *os, struct seam_slice head,
                                    struct seam_slice body)
{
    struct mem_version *v =
        os->alloc(os->ctx, mem_version_size(head.len + body.len) - ALLOC_OVERHEAD);

    if (!v)
        return NULL;
    memset(v, 0, sizeof(*v));
    v->died = MEM_ALIVE;
    atomic_init(&v->holds, 1);
    v->len = head.len + body.len;
    copy(v->bytes, head);
    copy(v->bytes + head.len, body);
    return v;
}

int mem_map_init(struct mem_map *map, const struct seam_platform *os)
{
    memset(map, 0, sizeof(*map));
    map->os = os;
    map->head = mem_key_new(os, seam_bytes(NULL, 0), MEM_MAX_HEIGHT);
    return map->head ? SEAM_OK : SEAM_E_NOMEM;
}

void mem_map_clear(struct mem_map *map)
{
    struct mem_key *next;

    assert(!map->youngest);
    for (struct mem_key *k = map->head; k; k = next) {
        struct mem_version *older;
        next = k->next[0];
        for (struct mem_version *v = k->newest; v; v = older) {
            older = v->older;
            map->os->free(map->os->ctx, v);
        }
        map->os->free(map->os->ctx, k);
    }
    memset(map, 0, sizeof(*map));
}

/* ---- the skip list ------------------------------------------------------------------------- */

/* The last node before `key` (or at it, when or_equal); map->head if there is none. path, if not
 * NULL, gets the predecessor on each level. */
static struct mem_key *seek_before(const struct mem_map *map, struct seam_slice key, bool or_equal,
                                   struct mem_key **path)
{
    struct mem_key *at = map->head;

    for (int level = MEM_MAX_HEIGHT - 1; level >= 0; level--) {
        for (struct mem_key *k = at->next[level]; k; k = at->next[level]) {
            int order = seam_compare(mem_key_bytes(k), key);
            if (order > 0 || (order == 0 && !or_equal))
                break;
            at = k;
        }
        if (path)
            path[level] = at;
    }
    return at;
}

static struct mem_key *seek_end(const struct mem_map *map)
{
    struct mem_key *at = map->head;

    for (int level = MEM_MAX_HEIGHT - 1; level >= 0; level--)
        while (at->next[level])
            at = at->next[level];
    return at;
}

static void list_insert(struct mem_map *map, struct mem_key *key, struct mem_key **path)
{
    for (uint32_t level = 0; level < key->height; level++) {
        key->next[level] = path[level]->next[level];
        path[level]->next[level] = key;
    }
    key->prev = path[0] == map->head ? NULL : path[0];
    if (key->next[0])
        key->next[0]->prev = key;
    map->used += mem_key_size(key->len, key->height);
}

static void list_remove(struct mem_map *map, struct mem_key *key)
{
    struct mem_key *path[MEM_MAX_HEIGHT];

    seek_before(map, mem_key_bytes(key), false, path);
    for (uint32_t level = 0; level < key->height; level++) {
        assert(path[level]->next[level] == key);
        path[level]->next[level] = key->next[level];
    }
    if (key->next[0])
        key->next[0]->prev = key->prev;
    map->used -= mem_key_size(key->len, key->height);
    map->os->free(map->os->ctx, key);
}

/* ---- life and death of versions ------------------------------------------------------------ */

void mem_version_hold(struct mem_version *version)
{
    atomic_fetch_add_explicit(&version->holds, 1, memory_order_relaxed);
}

bool mem_version_release(struct mem_version *version)
{
    return atomic_fetch_sub_explicit(&version->holds, 1, memory_order_acq_rel) == 1;
}

void mem_version_remove(struct mem_map *map, struct mem_version *version)
{
    struct mem_key *key = version->key;

    if (version->newer)
        version->newer->older = version->older;
    else
        key->newest = version->older;
    if (version->older)
        version->older->newer = version->newer;
    map->used -= mem_version_size(version->len);
    map->os->free(map->os->ctx, version);
    if (!key->newest)
        list_remove(map, key);
}

/* Gives a dead version to the youngest view at or below `view` that sees it; if there is none, the
 * map lets go of it. */
static void bury(struct mem_map *map, struct mem_view *view, struct mem_version *version)
{
    while (view && view->at >= version->died)
        view = view->older;
    if (view && view->at >= version->born) {
        version->next_dead = view->dead;
        view->dead = version;
    } else if (mem_version_release(version)) {
        mem_version_remove(map, version);
    }
}

static bool alive(const struct mem_key *key)
{
    return key->newest && key->newest->died == MEM_ALIVE;
}

/* May free the key node too, when nothing else is left of it. */
static void kill_newest(struct mem_map *map, uint64_t at, struct mem_key *key)
{
    struct mem_version *version = key->newest;

    assert(alive(key));
    version->died = at;
    map->keys--;
    map->live_bytes -= key->len + version->len;
    bury(map, map->youngest, version);
}

bool mem_map_put(struct mem_map *map, uint64_t at, struct mem_key *key, struct mem_version *version)
{
    struct mem_key *path[MEM_MAX_HEIGHT];
    struct mem_key *found = seek_before(map, mem_key_bytes(key), false, path)->next[0];
    struct mem_version *before;

    if (found && seam_compare(mem_key_bytes(found), mem_key_bytes(key)) != 0)
        found = NULL;
    if (!found)
        list_insert(map, key, path);
    /* The new version is linked before the old one dies, so that the key node stays. */
    version->key = found ? found : key;
    before = version->key->newest;
    version->born = at;
    version->older = before;
    if (before)
        before->newer = version;
    version->key->newest = version;
    map->used += mem_version_size(version->len);
    map->live_bytes += key->len + version->len;
    map->keys++;
    if (before && before->died == MEM_ALIVE) {
        before->died = at;
        map->keys--;
        map->live_bytes -= key->len + before->len;
        bury(map, map->youngest, before);
    }
    return !found;
}

void mem_map_delete(struct mem_map *map, uint64_t at, struct seam_slice key)
{
    struct mem_key *found = seek_before(map, key, false, NULL)->next[0];

    if (found && seam_compare(mem_key_bytes(found), key) == 0 && alive(found))
        kill_newest(map, at, found);
}

void mem_map_delete_range(struct mem_map *map, uint64_t at, struct seam_slice begin,
                          struct seam_slice end)
{
    struct mem_key *next;

    for (struct mem_key *k = seek_before(map, begin, false, NULL)->next[0]; k; k = next) {
        if (end.ptr && seam_compare(mem_key_bytes(k), end) >= 0)
            break;
        next = k->next[0];
        if (alive(k))
            kill_newest(map, at, k);
    }
}

/* ---- views --------------------------------------------------------------------------------- */

struct mem_view *mem_view_open(struct mem_map *map, struct mem_view **fresh)
{
    struct mem_view *view = map->youngest;

    if (!view || view->at != map->now) {
        view = *fresh;
        *fresh = NULL;
        memset(view, 0, sizeof(*view));
        view->at = map->now;
        view->older = map->youngest;
        if (view->older)
            view->older->younger = view;
        map->youngest = view;
    }
    view->users++;
    return view;
}

void mem_view_close(struct mem_map *map, struct mem_view *view)
{
    struct mem_version *next;

    assert(view->users > 0);
    if (--view->users > 0)
        return;
    if (view->younger)
        view->younger->older = view->older;
    else
        map->youngest = view->older;
    if (view->older)
        view->older->younger = view->younger;
    for (struct mem_version *v = view->dead; v; v = next) {
        next = v->next_dead;
        bury(map, view->older, v);
    }
    map->os->free(map->os->ctx, view);
}

/* ---- finding ------------------------------------------------------------------------------- */

static struct mem_version *seen(const struct mem_key *key, uint64_t at)
{
    struct mem_version *v = key->newest;

    while (v && v->born > at)
        v = v->older;
    return v && at < v->died ? v : NULL;
}

struct mem_version *mem_find(const struct mem_map *map, uint64_t at, struct seam_slice key)
{
    const struct mem_key *found = seek_before(map, key, false, NULL)->next[0];

    return found && seam_compare(mem_key_bytes(found), key) == 0 ? seen(found, at) : NULL;
}

static struct mem_version *forward(const struct mem_key *key, uint64_t at, struct seam_slice upper)
{
    for (; key; key = key->next[0]) {
        struct mem_version *v;
        if (upper.ptr && seam_compare(mem_key_bytes(key), upper) >= 0)
            return NULL;
        v = seen(key, at);
        if (v)
            return v;
    }
    return NULL;
}

static struct mem_version *backward(const struct mem_key *key, uint64_t at, struct seam_slice lower)
{
    for (; key; key = key->prev) {
        struct mem_version *v;
        if (seam_compare(mem_key_bytes(key), lower) < 0)
            return NULL;
        v = seen(key, at);
        if (v)
            return v;
    }
    return NULL;
}

struct mem_version *mem_find_near(const struct mem_map *map, uint64_t at, struct seam_slice lower,
                                  struct seam_slice upper, enum seam_move how,
                                  struct seam_slice where)
{
    const struct mem_key *key;

    switch (how) {
    case SEAM_FIRST:
        return forward(seek_before(map, lower, false, NULL)->next[0], at, upper);
    case SEAM_GE:
        return forward(seek_before(map, where, false, NULL)->next[0], at, upper);
    case SEAM_LAST:
        key = upper.ptr ? seek_before(map, upper, false, NULL) : seek_end(map);
        break;
    case SEAM_LE:
        key = seek_before(map, where, true, NULL);
        break;
    case SEAM_NEXT:
    case SEAM_PREV:
    default: /* these two come to mem_find_next and mem_find_prev */
        return NULL;
    }
    return key == map->head ? NULL : backward(key, at, lower);
}

struct mem_version *mem_find_next(uint64_t at, const struct mem_version *from,
                                  struct seam_slice upper)
{
    return forward(from->key->next[0], at, upper);
}

struct mem_version *mem_find_prev(uint64_t at, const struct mem_version *from,
                                  struct seam_slice lower)
{
    return backward(from->key->prev, at, lower);
}
