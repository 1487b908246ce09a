/* model.c - see model.h. Written to be checked by eye, not to be fast. */
#include "model.h"

#include <assert.h>

int model_compare(struct seam_slice a, struct seam_slice b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int order = n > 0 ? memcmp(a.ptr, b.ptr, n) : 0;

    return order ? order : (a.len > b.len) - (a.len < b.len);
}

void model_free(struct model *m)
{
    free(m->entries);
    memset(m, 0, sizeof(*m));
}

struct model model_copy(const struct model *m)
{
    struct model copy = {malloc((m->n + 1) * sizeof(*m->entries)), m->n, m->n + 1};

    if (!copy.entries)
        abort();
    if (m->n > 0)
        memcpy(copy.entries, m->entries, m->n * sizeof(*m->entries));
    return copy;
}

size_t model_seek(const struct model *m, struct seam_slice key)
{
    size_t i = 0;

    while (i < m->n && model_compare(model_slice(&m->entries[i].key), key) < 0)
        i++;
    return i;
}

static void cut(struct model *m, size_t from, size_t to)
{
    if (from >= to)
        return;
    memmove(&m->entries[from], &m->entries[to], (m->n - to) * sizeof(*m->entries));
    m->n -= to - from;
}

static void put(struct model *m, const struct model_op *op)
{
    size_t i = model_seek(m, model_slice(&op->key));

    if (i == m->n || model_compare(model_slice(&m->entries[i].key), model_slice(&op->key)) != 0) {
        if (m->n == m->room) {
            m->room = m->room ? 2 * m->room : 64;
            m->entries = realloc(m->entries, m->room * sizeof(*m->entries));
            if (!m->entries)
                abort();
        }
        memmove(&m->entries[i + 1], &m->entries[i], (m->n - i) * sizeof(*m->entries));
        m->n++;
    }
    m->entries[i].key = op->key;
    m->entries[i].len = op->len;
    m->entries[i].seed = op->seed;
}

void model_apply(struct model *m, const struct model_op *op)
{
    size_t i = model_seek(m, model_slice(&op->key));

    switch (op->kind) {
    case SEAM_PUT:
        put(m, op);
        break;
    case SEAM_DELETE:
        if (i < m->n &&
            model_compare(model_slice(&m->entries[i].key), model_slice(&op->key)) == 0)
            cut(m, i, i + 1);
        break;
    case SEAM_DELETE_RANGE:
        cut(m, i, op->end.len ? model_seek(m, model_slice(&op->end)) : m->n);
        break;
    }
}

/* ---- chance -------------------------------------------------------------------------------- */

struct model_key model_draw_key(struct support_rng *rng)
{
    static const uint8_t symbols[] = {0x00, 'a', 'b', 0xfe, 0xff};
    struct model_key k;
    uint64_t kind = support_below(rng, 10);

    memset(&k, 0, sizeof(k));
    k.len = (uint8_t)(1 + support_below(rng, kind < 8 ? 4 : MODEL_KEY_MAX));
    for (size_t i = 0; i < k.len; i++)
        k.bytes[i] = kind < 9 ? symbols[support_below(rng, 5)] : (uint8_t)support_next(rng);
    return k;
}

static uint32_t draw_len(struct support_rng *rng)
{
    switch (support_below(rng, 200)) {
    case 0:
        return (uint32_t)support_below(rng, MODEL_VALUE_MAX);
    case 1:
    case 2:
    case 3:
    case 4:
        return (uint32_t)support_below(rng, 9000);
    case 5:
    case 6:
    case 7:
    case 8:
    case 9:
    case 10:
        return 0;
    default:
        return (uint32_t)support_below(rng, 120);
    }
}

static void draw_range(struct support_rng *rng, struct model_op *op)
{
    struct model_key other = model_draw_key(rng);

    if (support_below(rng, 40) == 0)
        return; /* no upper end */
    if (support_below(rng, 8) != 0) {
        /* A narrow one: the key itself and what it is a prefix of, up to a byte. */
        other = op->key;
        if (other.len < MODEL_KEY_MAX)
            other.bytes[other.len++] = (uint8_t)support_next(rng);
        else
            other.len--;
    }
    op->end = other;
    if (model_compare(model_slice(&op->key), model_slice(&op->end)) > 0) {
        op->end = op->key;
        op->key = other;
    }
    if (model_compare(model_slice(&op->key), model_slice(&op->end)) == 0)
        op->kind = SEAM_DELETE;
}

void model_draw_op(struct support_rng *rng, struct model_op *ret)
{
    uint64_t kind = support_below(rng, 100);

    memset(ret, 0, sizeof(*ret));
    ret->key = model_draw_key(rng);
    ret->kind = kind < 68 ? SEAM_PUT : kind < 95 ? SEAM_DELETE : SEAM_DELETE_RANGE;
    if (ret->kind == SEAM_DELETE_RANGE)
        draw_range(rng, ret);
    if (ret->kind != SEAM_PUT)
        return;
    ret->len = draw_len(rng);
    ret->seed = support_next(rng);
    ret->head = (uint32_t)support_below(rng, (uint64_t)ret->len + 1);
    if (support_below(rng, 3) == 0)
        ret->head = ret->len;
    ret->bytes = malloc((size_t)ret->len + 1);
    if (!ret->bytes)
        abort();
    support_fill(ret->bytes, ret->len, ret->seed);
}

struct seam_op model_seam_op(const struct model_op *op)
{
    switch (op->kind) {
    case SEAM_PUT:
        return op_put2(model_slice(&op->key), seam_bytes(op->bytes, op->head),
                       seam_bytes(op->bytes + op->head, op->len - op->head));
    case SEAM_DELETE_RANGE:
        return op_range(model_slice(&op->key), op->end.len ? model_slice(&op->end) : NONE);
    case SEAM_DELETE:
        break;
    }
    return op_delete(model_slice(&op->key));
}

void model_op_free(struct model_op *op)
{
    free(op->bytes);
    op->bytes = NULL;
}

bool model_value_is(const struct model_entry *entry, struct seam_slice value)
{
    bool same;
    uint8_t *want;

    if (value.len != entry->len)
        return false;
    want = malloc((size_t)entry->len + 1);
    if (!want)
        abort();
    support_fill(want, entry->len, entry->seed);
    same = entry->len == 0 || memcmp(want, value.ptr, entry->len) == 0;
    free(want);
    return same;
}
