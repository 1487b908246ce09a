/* slab.c - see slab.h.
 *
 * Keeps true: a span holds blocks of one class and lies at a multiple of its length, so that a
 * block's address names it; a span is in its class's list while it has a free block, and goes back
 * to its region when all of them are free; a region goes back when all its spans have and another
 * one has a free span. Free blocks are poisoned for the address sanitizer. */
#include "slab.h"

#include <assert.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define SLAB_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SLAB_ASAN 1
#endif
#endif
#ifdef SLAB_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(ptr, len) ((void)(ptr), (void)(len))
#define ASAN_UNPOISON_MEMORY_REGION(ptr, len) ((void)(ptr), (void)(len))
#endif

#define SPAN ((size_t)64 << 10)
#define STEP 16u                    /* classes up to EXACT are multiples of it */
#define EXACT 1024u                 /* above it, eight classes a doubling */
#define SMALL_REGION (UINT64_C(256) << 10)
#define HUGE_PAGE (UINT64_C(2) << 20)
#define WARM_SPANS ((uint32_t)(HUGE_PAGE / SPAN)) /* populated at once */
#define BUFFER_LEAST ((size_t)16 << 10) /* below it the platform's are likely warm */

struct block {
    struct block *next;
};

/* At the start of its 64 KiB. */
struct vlog_span {
    struct vlog_span *next, *prev;
    struct vlog_region *region;
    struct block *free;
    uint32_t class_no, used, fresh; /* fresh: blocks never used, at the end */
    uint32_t pad;
};

struct vlog_region {
    struct vlog_region *next, *prev;
    struct vlog_span *free; /* spans given back */
    unsigned char *start;
    uint64_t bytes;
    uint32_t spans, used, fresh; /* fresh: spans never used, at the end */
    uint32_t warm;               /* spans from the start on that were populated */
    bool warming;                /* somebody is at it: it must not go away */
};

_Static_assert(sizeof(struct vlog_span) <= 64, "blocks begin at 64");
#define FIRST_BLOCK 64u

static uint32_t class_of(size_t len)
{
    if (len <= EXACT)
        return (uint32_t)(len > 0 ? (len + STEP - 1) / STEP : 1) - 1;
    uint32_t c = EXACT / STEP;
    for (size_t base = EXACT; base < VLOG_SLAB_MOST; base *= 2, c += 8)
        if (len <= base * 2)
            return c + (uint32_t)((len - base + base / 8 - 1) / (base / 8)) - 1;
    return c; /* not reached: len is at most VLOG_SLAB_MOST */
}

static size_t class_len(uint32_t c)
{
    if (c < EXACT / STEP)
        return (size_t)(c + 1) * STEP;
    c -= EXACT / STEP;
    size_t base = (size_t)EXACT << (c / 8);
    return base + (c % 8 + 1) * (base / 8);
}

int vlog_slab_init(struct vlog_slab *s, const struct seam_platform *os, uint64_t memory)
{
    memset(s, 0, sizeof *s);
    assert(class_of(VLOG_SLAB_MOST) + 1 == VLOG_SLAB_CLASSES);
    s->os = os;
    s->region_most = memory / 16 < (UINT64_C(32) << 20) ? memory / 16 : UINT64_C(32) << 20;
    s->kept_most = memory / 64 < (UINT64_C(4) << 20) ? memory / 64 : UINT64_C(4) << 20;
    return pthread_mutex_init(&s->lock, NULL);
}

/* ---- regions --------------------------------------------------------------------------------- */

static void region_link(struct vlog_slab *s, struct vlog_region *r, bool first)
{
    struct vlog_region *after = NULL;
    for (struct vlog_region *at = first ? NULL : s->regions; at; at = at->next)
        after = at;
    r->prev = after;
    r->next = after ? after->next : s->regions;
    if (r->next)
        r->next->prev = r;
    if (after)
        after->next = r;
    else
        s->regions = r;
}

static void region_unlink(struct vlog_slab *s, struct vlog_region *r)
{
    if (r->prev)
        r->prev->next = r->next;
    else
        s->regions = r->next;
    if (r->next)
        r->next->prev = r->prev;
}

/* A quarter of what there is, so that a small store stays small. */
static struct vlog_region *region_new(struct vlog_slab *s)
{
    uint64_t want = s->bytes / 4 < s->region_most ? s->bytes / 4 : s->region_most;
    uint64_t align = want < HUGE_PAGE ? SPAN : HUGE_PAGE;
    want = want < HUGE_PAGE ? SMALL_REGION : want / HUGE_PAGE * HUGE_PAGE;
    unsigned char *raw = s->os->alloc(s->os->ctx, (size_t)(sizeof(struct vlog_region) + want + align));
    if (!raw)
        return NULL;
    struct vlog_region *r = (struct vlog_region *)(void *)raw;
    memset(r, 0, sizeof *r);
    uintptr_t begin = (uintptr_t)(raw + sizeof *r);
    r->start = raw + sizeof *r + ((align - begin % align) % align);
    r->bytes = want;
    r->spans = r->fresh = (uint32_t)(want / SPAN);
    if (align == HUGE_PAGE && s->os->huge)
        s->os->huge(s->os->ctx, r->start, (size_t)want);
    s->bytes += want;
    ASAN_POISON_MEMORY_REGION(r->start, (size_t)want);
    region_link(s, r, true);
    return r;
}

static void region_delete(struct vlog_slab *s, struct vlog_region *r)
{
    region_unlink(s, r);
    s->bytes -= r->bytes;
    ASAN_UNPOISON_MEMORY_REGION(r->start, (size_t)r->bytes);
    s->os->free(s->os->ctx, r);
}

void vlog_slab_destroy(struct vlog_slab *s)
{
    assert(s->foreign == 0);
    while (s->regions)
        region_delete(s, s->regions);
    for (uint32_t i = 0; i < VLOG_SLAB_KEPT; i++)
        s->os->free(s->os->ctx, s->kept[i].ptr);
    (void)pthread_mutex_destroy(&s->lock);
}

/* ---- warming --------------------------------------------------------------------------------- */

/* The spans that were used lie at the start: `ahead` more of them are to be warm. */
static bool is_cold(const struct vlog_slab *s, const struct vlog_region *r, uint32_t ahead)
{
    bool may = s->os->populate && r->bytes >= HUGE_PAGE && r->warm < r->spans;
    return may && r->spans - r->fresh + ahead > r->warm;
}

/* The region to be used after r, made if there is none. */
static struct vlog_region *region_after(struct vlog_slab *s, struct vlog_region *r)
{
    if (r->next && r->next->fresh > 0)
        return r->next;
    struct vlog_region *next = region_new(s); /* which comes before r */
    if (!next)
        return NULL;
    region_unlink(s, r);
    region_link(s, r, true);
    return next;
}

void vlog_slab_warm(struct vlog_slab *s)
{
    (void)pthread_mutex_lock(&s->lock);
    atomic_store_explicit(&s->cold, false, memory_order_relaxed);
    struct vlog_region *r = s->regions;
    if (r && r->bytes >= HUGE_PAGE && r->fresh < WARM_SPANS && r->warm == r->spans)
        r = region_after(s, r);
    if (!r || !is_cold(s, r, WARM_SPANS)) {
        (void)pthread_mutex_unlock(&s->lock);
        return;
    }
    unsigned char *at = r->start + (size_t)r->warm * SPAN;
    r->warm += WARM_SPANS; /* regions are whole huge pages */
    r->warming = true;
    (void)pthread_mutex_unlock(&s->lock);
    s->os->populate(s->os->ctx, at, (size_t)HUGE_PAGE);
    (void)pthread_mutex_lock(&s->lock);
    r->warming = false;
    (void)pthread_mutex_unlock(&s->lock);
}

/* ---- spans ----------------------------------------------------------------------------------- */

static bool region_full(const struct vlog_region *r)
{
    return r->used == r->spans;
}

static struct vlog_span *span_new(struct vlog_slab *s, uint32_t class_no)
{
    struct vlog_region *r = s->regions;
    if ((!r || region_full(r)) && !(r = region_new(s)))
        return NULL;
    struct vlog_span *span = r->free;
    if (span)
        r->free = span->next;
    else
        span = (struct vlog_span *)(void *)(r->start + (size_t)(r->spans - r->fresh--) * SPAN);
    if (is_cold(s, r, WARM_SPANS / 2) || (r->warm == r->spans && r->fresh == WARM_SPANS / 2))
        atomic_store_explicit(&s->cold, true, memory_order_relaxed);
    r->used++;
    if (region_full(r)) {
        region_unlink(s, r);
        region_link(s, r, false);
    }
    ASAN_UNPOISON_MEMORY_REGION(span, sizeof *span);
    memset(span, 0, sizeof *span);
    span->region = r;
    span->class_no = class_no;
    span->fresh = (uint32_t)((SPAN - FIRST_BLOCK) / class_len(class_no));
    span->next = s->open[class_no];
    if (span->next)
        span->next->prev = span;
    s->open[class_no] = span;
    return span;
}

static void span_close(struct vlog_slab *s, struct vlog_span *span)
{
    if (span->prev)
        span->prev->next = span->next;
    else
        s->open[span->class_no] = span->next;
    if (span->next)
        span->next->prev = span->prev;
    span->next = span->prev = NULL;
}

static void span_delete(struct vlog_slab *s, struct vlog_span *span)
{
    struct vlog_region *r = span->region;
    bool was_full = region_full(r);
    span_close(s, span);
    span->next = r->free;
    r->free = span;
    r->used--;
    bool other = s->regions != r ? !region_full(s->regions) : r->next && !region_full(r->next);
    if (r->used == 0 && other && !r->warming) {
        region_delete(s, r);
    } else if (was_full) {
        region_unlink(s, r);
        region_link(s, r, true);
    }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

uint64_t vlog_slab_size(uint64_t len)
{
    return len > VLOG_SLAB_MOST ? len + 16 : class_len(class_of((size_t)len)); /* 16: malloc's own */
}

static void *block_take(struct vlog_slab *s, uint32_t class_no)
{
    struct vlog_span *span = s->open[class_no];
    if (!span && !(span = span_new(s, class_no)))
        return NULL;
    size_t len = class_len(class_no);
    struct block *b = span->free;
    if (b) {
        ASAN_UNPOISON_MEMORY_REGION(b, len);
        span->free = b->next;
    } else {
        size_t count = (SPAN - FIRST_BLOCK) / len;
        b = (struct block *)(void *)((unsigned char *)span + FIRST_BLOCK + (count - span->fresh--) * len);
        ASAN_UNPOISON_MEMORY_REGION(b, len);
    }
    span->used++;
    if (!span->free && span->fresh == 0)
        span_close(s, span);
    return b;
}

void *vlog_slab_alloc_locked(struct vlog_slab *s, size_t len)
{
    if (len <= VLOG_SLAB_MOST)
        return block_take(s, class_of(len));
    void *ptr = s->os->alloc(s->os->ctx, len);
    s->foreign += ptr != NULL;
    return ptr;
}

void *vlog_slab_alloc(struct vlog_slab *s, size_t len)
{
    (void)pthread_mutex_lock(&s->lock);
    void *ptr = vlog_slab_alloc_locked(s, len);
    (void)pthread_mutex_unlock(&s->lock);
    return ptr;
}

static void block_give(struct vlog_slab *s, void *ptr)
{
    unsigned char *p = ptr;
    struct vlog_span *span = (struct vlog_span *)(void *)(p - (uintptr_t)p % SPAN);
    struct block *b = ptr;
    bool was_open = span->free || span->fresh > 0;
    b->next = span->free;
    span->free = b;
    ASAN_POISON_MEMORY_REGION(b, class_len(span->class_no));
    assert(span->used > 0);
    span->used--;
    if (!was_open) {
        span->next = s->open[span->class_no];
        span->prev = NULL;
        if (span->next)
            span->next->prev = span;
        s->open[span->class_no] = span;
    }
    if (span->used == 0 && (span->next || span->prev)) /* the last one stays for the next block */
        span_delete(s, span);
}

void vlog_slab_free(struct vlog_slab *s, void *ptr, size_t len)
{
    if (!ptr)
        return;
    bool foreign = len > VLOG_SLAB_MOST;
    if (foreign)
        s->os->free(s->os->ctx, ptr);
    (void)pthread_mutex_lock(&s->lock);
    if (foreign)
        s->foreign--;
    else
        block_give(s, ptr);
    (void)pthread_mutex_unlock(&s->lock);
}

/* ---- buffers --------------------------------------------------------------------------------- */

void *vlog_buffer_take(struct vlog_slab *s, size_t len, size_t *ret_len)
{
    void *ptr = NULL;
    (void)pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < VLOG_SLAB_KEPT && !ptr && len >= BUFFER_LEAST; i++) {
        if (!s->kept[i].ptr || s->kept[i].len < len)
            continue;
        ptr = s->kept[i].ptr;
        *ret_len = s->kept[i].len;
        s->kept_bytes -= s->kept[i].len;
        s->kept[i].ptr = NULL;
        s->kept[i].len = 0;
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (ptr)
        return ptr;
    size_t whole = len < BUFFER_LEAST ? len : (len + BUFFER_LEAST - 1) / BUFFER_LEAST * BUFFER_LEAST;
    ptr = s->os->alloc(s->os->ctx, whole);
    if (ptr)
        *ret_len = whole;
    return ptr;
}

/* Keeps the longest: the shortest kept one goes, if all places are taken. */
void vlog_buffer_give(struct vlog_slab *s, void *ptr, size_t len)
{
    void *out = ptr;
    if (len >= BUFFER_LEAST && len <= s->kept_most / 2) {
        (void)pthread_mutex_lock(&s->lock);
        uint32_t least = 0;
        for (uint32_t i = 1; i < VLOG_SLAB_KEPT; i++)
            if (s->kept[i].len < s->kept[least].len)
                least = i;
        uint64_t others = s->kept_bytes - s->kept[least].len;
        if (s->kept[least].len < len && others + len <= s->kept_most) {
            out = s->kept[least].ptr;
            s->kept[least].ptr = ptr;
            s->kept[least].len = len;
            s->kept_bytes = others + len;
        }
        (void)pthread_mutex_unlock(&s->lock);
    }
    s->os->free(s->os->ctx, out);
}
