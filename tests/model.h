/* model.h - the plainest store there is: one sorted array, copied whole for each snapshot.
 *
 * It shares nothing with any engine. Values are kept as (seed, length) and made again to compare. */
#ifndef SEAM_TEST_MODEL_H
#define SEAM_TEST_MODEL_H

#include "support.h"

enum { MODEL_KEY_MAX = 12, MODEL_VALUE_MAX = 200000 };

struct model_key {
    uint8_t len;
    uint8_t bytes[MODEL_KEY_MAX];
};

struct model_entry {
    struct model_key key;
    uint32_t len;
    uint64_t seed;
};

struct model {
    struct model_entry *entries;
    size_t n, room;
};

/* One op, in a form that both the model and an engine can be given. */
struct model_op {
    enum seam_kind kind;
    struct model_key key, end; /* end.len 0: none */
    uint32_t len, head;        /* of the value, and of its first part */
    uint64_t seed;
    uint8_t *bytes; /* the value; freed by model_op_free */
};

void model_free(struct model *m);
struct model model_copy(const struct model *m);
void model_apply(struct model *m, const struct model_op *op);
/* Index of the first entry >= key. */
size_t model_seek(const struct model *m, struct seam_slice key);

/* Keys of a small, nasty alphabet, so that random ones meet. */
struct model_key model_draw_key(struct support_rng *rng);
void model_draw_op(struct support_rng *rng, struct model_op *ret);
struct seam_op model_seam_op(const struct model_op *op);
void model_op_free(struct model_op *op);

static inline struct seam_slice model_slice(const struct model_key *k)
{
    return seam_bytes(k->bytes, k->len);
}

int model_compare(struct seam_slice a, struct seam_slice b);
/* True if value is what the entry's seed makes. */
bool model_value_is(const struct model_entry *entry, struct seam_slice value);

#endif
