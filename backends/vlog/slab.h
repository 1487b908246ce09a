/* slab.h - memory for the index's entries, and for commits on their way.
 *
 * A fresh page costs more than the copy into it, so memory is taken in large regions, in huge pages
 * where the system has them, and used again. Small blocks come from spans of equal blocks, as in
 * Bonwick's slab allocator; the caller tells a block's length again when it frees it, so that a
 * block has no header. Has its own lock; may be called by any thread. */
#ifndef VLOG_SLAB_H
#define VLOG_SLAB_H

#include <seam/platform.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VLOG_SLAB_MOST 8192u /* longer blocks are the platform's */
#define VLOG_SLAB_CLASSES 88u
#define VLOG_SLAB_KEPT 8u

struct vlog_region;
struct vlog_span;

struct vlog_slab {
    const struct seam_platform *os;
    pthread_mutex_t lock;
    struct vlog_span *open[VLOG_SLAB_CLASSES]; /* spans with a free block */
    struct vlog_region *regions;               /* those with a free span first */
    uint64_t bytes;                            /* of all regions */
    uint64_t foreign;                          /* blocks that are the platform's, not yet freed */
    uint64_t region_most, kept_most, kept_bytes;
    _Atomic bool cold; /* vlog_slab_warm has something to do */
    struct {
        void *ptr;
        size_t len;
    } kept[VLOG_SLAB_KEPT]; /* buffers, to be used again */
};

/* memory: what the store may use, in bytes; regions and kept buffers are small beside it.
 * Returns 0 or an errno. */
int vlog_slab_init(struct vlog_slab *s, const struct seam_platform *os, uint64_t memory);
/* Frees all blocks but those longer than VLOG_SLAB_MOST, which the caller has freed. */
void vlog_slab_destroy(struct vlog_slab *s);

/* What a block of len bytes takes. */
uint64_t vlog_slab_size(uint64_t len);
/* Aligned as malloc; NULL: no memory. */
void *vlog_slab_alloc(struct vlog_slab *s, size_t len);
/* The same for whoever holds lock, which is worth it for many. */
void *vlog_slab_alloc_locked(struct vlog_slab *s, size_t len);
void vlog_slab_free(struct vlog_slab *s, void *ptr, size_t len); /* len as it was asked for */

/* Populates the pages that will be used next, so that no writer waits for them. For one thread at a
 * time, in the background, when `cold` is set. */
void vlog_slab_warm(struct vlog_slab *s);

/* A buffer for a short time, likely one that was used before. NULL: no memory. */
void *vlog_buffer_take(struct vlog_slab *s, size_t len, size_t *ret_len);
void vlog_buffer_give(struct vlog_slab *s, void *ptr, size_t len); /* len: *ret_len of take */

#endif
