/* internal.h - an open corpus, as the files of this room share it.
 *
 * Keeps true: after open nothing in it changes, so any number of threads may read it. */
#ifndef SEAM_CORPUS_INTERNAL_H
#define SEAM_CORPUS_INTERNAL_H

#include "profile.h"
#include "random.h"

/* Values begin anywhere in this many bytes of filler; the filler goes on for the longest value. */
#define CORPUS_SPREAD 1048576u
/* Versions are this far apart, so that there are keys between any two. */
#define CORPUS_VERSION_STEP 1024u
#define CORPUS_KEYS_MOST UINT64_C(1000000000)
#define CORPUS_OCTAVES 30u /* keys < 2^30 */

/* What the seed is split into: one stream of numbers for each use. */
enum corpus_stream {
    STREAM_ENTITY,
    STREAM_PADDING,
    STREAM_VERSION,
    STREAM_ORDER,
    STREAM_HEAT,
    STREAM_HASH,
    STREAM_VALUE,
    STREAM_FILLER,
    STREAM_UNIT,
    STREAM_PICK,
    STREAM_ABSENT,
    STREAM_FLOOR,
    STREAM_INCOMING,
    STREAM_MESSAGE,
    STREAMS
};

struct seam_corpus {
    struct profile profile;
    struct seam_corpus_knob knobs[KNOBS];
    uint64_t seed;
    uint64_t stream[STREAMS];
    uint32_t keys, versions; /* keys: scaled */
    uint64_t units;          /* scaled */
    struct permutation order; /* load index -> place among entities and versions */
    struct permutation heat;  /* how wanted, 0 the most -> load index */
    uint32_t octave_sum[CORPUS_OCTAVES]; /* zipf: running sums of the octaves' weights */
    uint32_t octaves;
    uint32_t hot;     /* skew = hot: how many keys are */
    uint8_t *filler;  /* malloc */
    size_t filler_len;
};

/* A key being put together. */
struct corpus_key {
    uint8_t *bytes;
    uint32_t len;
};

/* A key's hash under this seed: its low half is in the value's proof, all of it makes a value. */
uint64_t corpus_key_hash(const struct seam_corpus *c, const uint8_t *key, size_t len);

/* 128-bit MurmurHash3, x64 flavour, fed in pieces. */
struct corpus_hash {
    uint64_t h[2], len;
    uint8_t tail[16];
};

void corpus_hash_init(struct corpus_hash *h, uint32_t seed);
void corpus_hash_add(struct corpus_hash *h, const void *bytes, size_t len);
void corpus_hash_end(struct corpus_hash *h, uint64_t ret[2]);

#endif
