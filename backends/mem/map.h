/* map.h - the ordered multi-version map inside the mem engine.
 *
 * A skip list of keys; each key has a chain of versions, newest first. A version is born at one
 * commit number and died at a later one (or at the same, when a commit overwrites itself); a reader
 * at instant s sees the version with born <= s < died, of which there is at most one.
 *
 * Nothing here locks or allocates for a commit: the caller brings the nodes a PUT may need, and
 * holds the engine's lock, shared for the mem_find family and exclusive for everything that
 * changes. What a reader got stays valid without the lock for as long as a view that sees it, or a
 * reference taken with mem_version_hold, exists. */
#ifndef MEM_MAP_H
#define MEM_MAP_H

#include <seam/backend.h>

#include <stdatomic.h>

#define MEM_MAX_HEIGHT 16
#define MEM_ALIVE UINT64_MAX /* `died` of a version that has not */

struct mem_key {
    struct mem_version *newest;
    struct mem_key *prev; /* NULL for the first */
    uint32_t len, height;
    struct mem_key *next[]; /* height links, then the key's bytes */
};

struct mem_version {
    struct mem_key *key;
    struct mem_version *older, *newer;
    struct mem_version *next_dead; /* in the list of the view that keeps it */
    uint64_t born, died;
    atomic_uint holds; /* one is the map's own, the others are pins */
    size_t len;
    unsigned char bytes[];
};

/* An instant that somebody may still read at. Every dead version that is still visible to some
 * view is listed at the youngest such view, so closing a view looks at exactly the versions whose
 * fate it decides. */
struct mem_view {
    struct mem_view *older, *younger;
    struct mem_version *dead;
    uint64_t at;
    size_t users;
};

struct mem_map {
    const struct seam_platform *os;
    struct mem_key *head; /* of full height, holds no key */
    struct mem_view *youngest;
    uint64_t now; /* number of the last commit */
    uint64_t used, keys, live_bytes;
};

int mem_map_init(struct mem_map *map, const struct seam_platform *os);
void mem_map_clear(struct mem_map *map);

/* Nodes for one PUT, made before the commit. A key node is wasted if the key turns out to exist. */
uint64_t mem_key_size(size_t len, uint32_t height);
uint64_t mem_version_size(size_t len);
struct mem_key *mem_key_new(const struct seam_platform *os, struct seam_slice key, uint32_t height);
struct mem_version *mem_version_new(const struct seam_platform *os, struct seam_slice head,
                                    struct seam_slice body);

/* Ops of commit number `at`, which is map->now + 1 until the caller sets map->now. put returns
 * whether it took the key node; it always takes the version. */
bool mem_map_put(struct mem_map *map, uint64_t at, struct mem_key *key, struct mem_version *version);
void mem_map_delete(struct mem_map *map, uint64_t at, struct seam_slice key);
void mem_map_delete_range(struct mem_map *map, uint64_t at, struct seam_slice begin,
                          struct seam_slice end);

/* Opens a view of map->now; `fresh` is used and *fresh cleared if there is none of this instant. */
struct mem_view *mem_view_open(struct mem_map *map, struct mem_view **fresh);
void mem_view_close(struct mem_map *map, struct mem_view *view);

/* The version of `key` seen at `at`, or NULL. */
struct mem_version *mem_find(const struct mem_map *map, uint64_t at, struct seam_slice key);
/* The first (FIRST, GE) or last (LAST, LE) one seen at `at` in [lower, upper), or NULL. */
struct mem_version *mem_find_near(const struct mem_map *map, uint64_t at, struct seam_slice lower,
                                  struct seam_slice upper, enum seam_move how,
                                  struct seam_slice where);
/* The one after or before `from`, or NULL. */
struct mem_version *mem_find_next(uint64_t at, const struct mem_version *from,
                                  struct seam_slice upper);
struct mem_version *mem_find_prev(uint64_t at, const struct mem_version *from,
                                  struct seam_slice lower);

struct seam_slice mem_key_bytes(const struct mem_key *key);
struct seam_slice mem_version_bytes(const struct mem_version *version);

void mem_version_hold(struct mem_version *version);
/* True if this was the last hold: the caller then removes it, under the exclusive lock. */
bool mem_version_release(struct mem_version *version);
void mem_version_remove(struct mem_map *map, struct mem_version *version);

#endif
