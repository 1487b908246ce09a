/* test_vlog_slab.c - the native engine's memory for entries against a plain list of what was taken.
 *
 * Relies on slab.h alone. The platform below counts what it gave out, and fails when it is told to.
 * SEAM_SEED and SEAM_OPS replay. */
#include "support.h"

#include "slab.h"

#include <string.h>

enum { BLOCKS = 4000, OPS = 60000, LONGEST = 2 * VLOG_SLAB_MOST };

struct counted {
    uint64_t blocks, bytes; /* given out and not freed */
    uint64_t calls, fail_at; /* fail_at: the call that gets nothing; 0: none */
    uint64_t populated;
};

static struct counted count;
static struct seam_platform os;

/* A length in front of each block. */
static void *counted_alloc(void *ctx, size_t len)
{
    (void)ctx;
    if (++count.calls == count.fail_at)
        return NULL;
    unsigned char *p = malloc(len + 16);
    assert_non_null(p);
    memcpy(p, &len, sizeof len);
    count.blocks++;
    count.bytes += len;
    return p + 16;
}

static void counted_free(void *ctx, void *ptr)
{
    (void)ctx;
    if (!ptr)
        return;
    unsigned char *p = (unsigned char *)ptr - 16;
    size_t len;
    memcpy(&len, p, sizeof len);
    count.blocks--;
    count.bytes -= len;
    free(p);
}

/* Also holds what it is given to be memory that may be written: under the sanitizer that is checked
 * by nobody else. */
static void counted_populate(void *ctx, void *ptr, size_t len)
{
    (void)ctx;
    assert_int_equal((uintptr_t)ptr % (64 << 10), 0);
    count.populated += len;
}

static void begin(struct vlog_slab *s, uint64_t memory)
{
    memset(&count, 0, sizeof count);
    os = *seam_platform_system();
    os.alloc = counted_alloc;
    os.free = counted_free;
    os.huge = NULL;
    os.populate = counted_populate;
    assert_int_equal(vlog_slab_init(s, &os, memory), 0);
}

static void end(struct vlog_slab *s)
{
    vlog_slab_destroy(s);
    assert_int_equal(count.blocks, 0);
    assert_int_equal(count.bytes, 0);
}

struct block {
    unsigned char *ptr;
    size_t len;
    unsigned char mark;
};

static void mark(struct block *b, unsigned char with)
{
    b->mark = with;
    memset(b->ptr, with, b->len);
}

static void free_block(struct vlog_slab *s, struct block *b)
{
    for (size_t i = 0; i < b->len; i++)
        if (b->ptr[i] != b->mark)
            fail_msg("a block of %zu bytes was written by another at %zu", b->len, i);
    vlog_slab_free(s, b->ptr, b->len);
    b->ptr = NULL;
}

static size_t some_len(struct support_rng *rng)
{
    uint64_t kind = support_below(rng, 100);
    return (size_t)(kind < 60   ? support_below(rng, 400)
                    : kind < 95 ? support_below(rng, VLOG_SLAB_MOST + 1)
                                : support_below(rng, LONGEST));
}

/* Blocks do not overlap, keep what was written, are aligned, and all of it goes back. */
static void test_random(void **state)
{
    (void)state;
    static struct block at[BLOCKS];
    struct vlog_slab s;
    struct support_rng rng = {support_seed()};
    uint64_t ops = support_number("SEAM_OPS", OPS);
    begin(&s, UINT64_C(1) << 30);
    for (uint64_t i = 0; i < ops; i++) {
        struct block *b = &at[support_below(&rng, BLOCKS)];
        if (b->ptr) {
            free_block(&s, b);
        } else {
            b->len = some_len(&rng);
            b->ptr = vlog_slab_alloc(&s, b->len);
            assert_non_null(b->ptr);
            assert_int_equal((uintptr_t)b->ptr % 16, 0);
            mark(b, (unsigned char)i);
        }
        if (atomic_load(&s.cold))
            vlog_slab_warm(&s);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        if (at[i].ptr)
            free_block(&s, &at[i]);
    assert_int_equal(s.foreign, 0);
    end(&s);
}

/* Every length up to the longest: a block of a class that is long enough, and never much too long. */
static void test_classes(void **state)
{
    (void)state;
    struct vlog_slab s;
    begin(&s, UINT64_C(1) << 30);
    for (size_t len = 0; len <= VLOG_SLAB_MOST; len++) {
        uint64_t size = vlog_slab_size(len);
        assert_true(size >= len && size <= (len < 128 ? len + 16 : len + len / 8));
        struct block b = {.ptr = vlog_slab_alloc(&s, len), .len = len};
        assert_non_null(b.ptr);
        mark(&b, (unsigned char)len);
        free_block(&s, &b);
    }
    assert_true(vlog_slab_size(VLOG_SLAB_MOST + 1) > VLOG_SLAB_MOST);
    end(&s);
}

static void fill_all(struct vlog_slab *s, struct block *at, size_t n, size_t len)
{
    for (size_t i = 0; i < n; i++) {
        at[i].len = len;
        at[i].ptr = vlog_slab_alloc(s, len);
        assert_non_null(at[i].ptr);
        mark(&at[i], (unsigned char)i);
    }
}

/* What one length gave back serves another, and what is not used goes back to the system. */
static void test_reuse(void **state)
{
    (void)state;
    enum { N = 20000, LEN = 1000 };
    static struct block at[N];
    struct vlog_slab s;
    begin(&s, UINT64_C(4) << 30);
    fill_all(&s, at, N, LEN);
    uint64_t full = s.bytes;
    assert_true(full >= (uint64_t)N * LEN && full <= (uint64_t)N * LEN * 3 / 2);
    for (size_t i = 0; i < N; i++)
        free_block(&s, &at[i]);
    assert_true(s.bytes <= full / 2);
    for (int round = 0; round < 3; round++) {
        fill_all(&s, at, N / 2, (size_t)LEN / (size_t)(1 + round));
        for (size_t i = 0; i < N / 2; i++)
            free_block(&s, &at[i]);
        assert_true(s.bytes <= full);
    }
    end(&s);
}

/* A queue, as a journal with retention makes it: what is held stays near what is live. */
static void test_queue(void **state)
{
    (void)state;
    enum { LIVE = 20000, TURNS = 10, LEN = 300 };
    static struct block at[LIVE];
    struct vlog_slab s;
    begin(&s, UINT64_C(1) << 30);
    fill_all(&s, at, LIVE, LEN);
    for (size_t i = 0; i < (size_t)LIVE * TURNS; i++) {
        struct block *b = &at[i % LIVE];
        free_block(&s, b);
        fill_all(&s, b, 1, LEN);
        assert_true(s.bytes <= (uint64_t)LIVE * LEN * 3 / 2);
    }
    for (size_t i = 0; i < LIVE; i++)
        free_block(&s, &at[i]);
    end(&s);
}

/* Each of the platform's calls fails once; whatever was refused, the rest goes on. */
static void test_no_memory(void **state)
{
    (void)state;
    enum { N = 3000 };
    static struct block at[N];
    for (uint64_t fail_at = 1, refused = 1; refused > 0; fail_at++) {
        struct vlog_slab s;
        begin(&s, UINT64_C(1) << 30);
        count.fail_at = fail_at;
        refused = 0;
        for (size_t i = 0; i < N; i++) {
            at[i].len = i % 100 == 0 ? VLOG_SLAB_MOST + i : 500;
            at[i].ptr = vlog_slab_alloc(&s, at[i].len);
            refused += !at[i].ptr;
            if (at[i].ptr)
                mark(&at[i], (unsigned char)i);
        }
        assert_true(refused <= 1);
        for (size_t i = 0; i < N; i++)
            if (at[i].ptr)
                free_block(&s, &at[i]);
        end(&s);
    }
}

/* Pages are populated once each, and only ones that regions have. */
static void test_warm(void **state)
{
    (void)state;
    enum { N = 60000, LEN = 1000 };
    static struct block at[N];
    struct vlog_slab s;
    begin(&s, UINT64_C(4) << 30);
    for (size_t i = 0; i < N; i++) {
        fill_all(&s, &at[i], 1, LEN);
        while (atomic_load(&s.cold))
            vlog_slab_warm(&s);
    }
    assert_true(count.populated > 0 && count.populated <= s.bytes);
    uint64_t before = count.populated;
    for (size_t i = 0; i < N; i++)
        free_block(&s, &at[i]);
    while (atomic_load(&s.cold))
        vlog_slab_warm(&s);
    assert_true(count.populated - before <= UINT64_C(2) << 20);
    end(&s);
}

/* Buffers: a kept one serves what fits into it, and no more are kept than may be. */
static void test_buffers(void **state)
{
    (void)state;
    struct vlog_slab s;
    struct support_rng rng = {support_seed()};
    begin(&s, UINT64_C(64) << 20);
    for (int i = 0; i < 5000; i++) {
        void *at[3];
        size_t len[3], want[3];
        for (int k = 0; k < 3; k++) {
            want[k] = 1 + (size_t)support_below(&rng, UINT64_C(256) << support_below(&rng, 13));
            at[k] = vlog_buffer_take(&s, want[k], &len[k]);
            assert_non_null(at[k]);
            assert_true(len[k] >= want[k]);
            memset(at[k], k, len[k]);
        }
        for (int k = 0; k < 3; k++)
            vlog_buffer_give(&s, at[k], len[k]);
        assert_true(s.kept_bytes <= s.kept_most && count.bytes == s.kept_bytes);
        assert_true(count.blocks <= VLOG_SLAB_KEPT);
    }
    size_t len;
    uint64_t calls = count.calls;
    void *again = vlog_buffer_take(&s, 100000, &len);
    vlog_buffer_give(&s, again, len);
    again = vlog_buffer_take(&s, 100000, &len);
    assert_true(count.calls <= calls + 1);
    vlog_buffer_give(&s, again, len);
    end(&s);
}

int main(int argc, char **argv)
{
    int rc = support_begin(argc, argv);
    if (rc != 0)
        return rc;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),  cmocka_unit_test(test_classes), cmocka_unit_test(test_reuse),
        cmocka_unit_test(test_queue),   cmocka_unit_test(test_no_memory), cmocka_unit_test(test_warm),
        cmocka_unit_test(test_buffers),
    };
    return cmocka_run_group_tests_name("vlog_slab", tests, NULL, NULL);
}
