/* corpus.h - deterministic workloads: keys, values, units, messages and queries.
 *
 * A corpus is a pure function of (profile, seed): the same bytes on every platform, compiler and
 * thread count, in whatever order they are asked for. Nothing in it is kept but a block of filler
 * bytes, so it can be as large as a benchmark likes, and any part can be made again to be checked.
 *
 * KEYS. The bulk-load set has info.keys keys. A key is
 *     entity (8 bytes, unique) | padding (0 or more bytes, fixed for the entity) | version (8, BE)
 * so that the keys of one entity share a prefix that no other entity's key has, and sort by
 * version: "the last key <= k under prefix p" is the entity as it was at k. Versions of the
 * bulk-load set and of the units are even; odd ones are never written, so certainly absent.
 *
 * VALUES prove themselves. The first SEAM_CORPUS_PROOF bytes, little-endian:
 *     crc32c (4, over all that follows) | length of the value (4) | generation (4) | key hash (4)
 * Generation 0 is the bulk load; unit number u writes generation u + 1. MESSAGES likewise:
 *     crc32c (4, begun with a number made from the seed) | length (4) | index (8)
 *
 * A struct seam_corpus is constant once open and may be used by any number of threads. A struct
 * seam_maker belongs to one thread at a time. */
#ifndef SEAM_CORPUS_H
#define SEAM_CORPUS_H

#include <seam/seam.h>

#ifdef __cplusplus
extern "C" {
#endif

struct seam_corpus;
struct seam_maker;

#define SEAM_CORPUS_PROOF 16u                    /* smallest value and message */
#define SEAM_CORPUS_MESSAGE_MAX (64u << 20)      /* largest message */

/* ---- profiles ---------------------------------------------------------------------------- */

/* One built-in profile: its name, one line about it, and the text of its INI file. All static. */
struct seam_corpus_profile {
    const char *name, *summary, *text;
};

/* The i-th built-in profile, NULL beyond the last. */
SEAM_API const struct seam_corpus_profile *seam_corpus_profile_at(size_t i);

/* One knob of an open corpus. Numbers and words alike: for a word, `word` is it and the number its
 * place among the words allowed; for a number `word` is NULL. Static but for value and word. */
struct seam_corpus_knob {
    const char *section, *name;
    uint64_t value;
    const char *word;
    uint64_t least, most; /* allowed, both included */
    const char *help;
};

struct seam_corpus_info {
    const char *name;          /* of the profile: "representative", or the file's path */
    const char *description;   /* from the profile */
    uint64_t seed;
    uint64_t keys;             /* in the bulk-load set; `scale` has been applied */
    uint64_t units;            /* `scale` has been applied */
    uint64_t unit_ops_average; /* rounded down */
    uint64_t unit_ops_max;
    uint64_t key_average, key_max;     /* bytes; average rounded down */
    uint64_t value_average, value_max; /* bytes; average rounded down */
    uint64_t message;                  /* bytes of a message when size 0 is asked */
    const struct seam_corpus_knob *knobs; /* every knob; borrowed until close */
    size_t n_knobs;
};

/* Opens the corpus of a profile:
 *     "representative"            a built-in one
 *     "./mine.ini"                a file: anything with a '/' or that ends in ".ini"
 *     "stress:keys=10K,scale=4"   either of them with knobs changed; counts take K, M, G (1000),
 *                                 sizes take K, M, G (1024)
 * Errors: E_OPTION (no such profile, unknown section or knob, bad number, out of range, knobs that
 * contradict each other: names file, line, knob, and what is allowed), E_IO and E_PERMISSION (the
 * file), E_NOMEM. */
SEAM_API int seam_corpus_open(const char *profile, uint64_t seed, struct seam_corpus **ret,
                              struct seam_err *err);
/* The same with `keys` keys in the bulk-load set, whatever the profile, its knobs and `scale` say;
 * 0: as they say. At most 1,000,000,000; E_OPTION too for more, or for fewer than a profile that sweeps
 * has ops in a unit. */
SEAM_API int seam_corpus_open_sized(const char *profile, uint64_t seed, uint64_t keys,
                                    struct seam_corpus **ret, struct seam_err *err);
/* Makers must have been closed before. NULL is allowed. */
SEAM_API void seam_corpus_close(struct seam_corpus *corpus);

SEAM_API void seam_corpus_describe(const struct seam_corpus *corpus, struct seam_corpus_info *ret);

/* ---- what it makes ----------------------------------------------------------------------- */

/* A piece of application work. A value lies in two parts: head is the proof, body the rest. */
struct seam_unit {
    const struct seam_op *ops;
    const uint64_t *stamps; /* seam_maker_incoming: one per op, the value's generation; else NULL */
    size_t n;
    uint64_t bytes;         /* key and value bytes of all ops */
};

/* Buffers for one thread. The bytes that one of the calls below returns are valid until the next of
 * them on the same maker (a load, a pick, whichever) or until the maker is closed. */
SEAM_API int seam_maker_open(const struct seam_corpus *corpus, struct seam_maker **ret,
                             struct seam_err *err);
/* NULL is allowed. */
SEAM_API void seam_maker_close(struct seam_maker *maker);

/* Unit number `index`. Any index has a unit, info.units is how many a full run takes; E_INVALID
 * over 4,294,967,293 (a generation has 32 bits). */
SEAM_API int seam_maker_unit(struct seam_maker *maker, uint64_t index, struct seam_unit *ret,
                             struct seam_err *err);

/* Entry i of the bulk-load set, 0 <= i < info.keys, with its value of generation 0, in one piece.
 * Each key comes once; their order is random. E_INVALID for another i. */
SEAM_API int seam_maker_load(struct seam_maker *maker, uint64_t i, struct seam_slice *ret_key,
                             struct seam_slice *ret_value, struct seam_err *err);

/* Message number `index` of exactly `size` bytes (0: the profile's size), in one piece.
 * E_INVALID under SEAM_CORPUS_PROOF, E_TOO_LARGE over SEAM_CORPUS_MESSAGE_MAX. */
SEAM_API int seam_maker_message(struct seam_maker *maker, uint64_t index, uint64_t size,
                                struct seam_slice *ret, struct seam_err *err);

/* The n-th key to read, by the profile's skew; and which entry of the bulk-load set it is (may be
 * NULL). Neither this nor absent nor floor can fail. */
SEAM_API void seam_maker_pick(struct seam_maker *maker, uint64_t n, struct seam_slice *ret_key,
                              uint64_t *ret_i);

/* The n-th key that is certainly absent, though it lies among the keys that are there. */
SEAM_API void seam_maker_absent(struct seam_maker *maker, uint64_t n, struct seam_slice *ret_key);

/* The n-th floor query: the last key <= *ret_key under *ret_prefix. ret_i (may be NULL): the entry
 * that answers it as long as only the bulk load is there, UINT64_MAX for none. */
SEAM_API void seam_maker_floor(struct seam_maker *maker, uint64_t n, struct seam_slice *ret_prefix,
                               struct seam_slice *ret_key, uint64_t *ret_i);

/* Unit number n of an incoming stream for a merge: PUTs only, each with the stamp of its value,
 * to be written if it is newer (greater) than the stamp (generation) of what is stored. Over the
 * bulk load: the profile's `stale_percent` are not newer, `new_percent` have keys that are new.
 * A key may come twice in a unit. The same limit on n as for seam_maker_unit. */
SEAM_API int seam_maker_incoming(struct seam_maker *maker, uint64_t n, struct seam_unit *ret,
                                 struct seam_err *err);

/* ---- proofs ------------------------------------------------------------------------------ */

/* Whether `value` is whole and belongs to `key` in this corpus; ret_generation (may be NULL) is its
 * generation. E_CORRUPT says what is wrong: too short, length, key hash, or CRC. */
SEAM_API int seam_corpus_check_value(const struct seam_corpus *corpus, struct seam_slice key,
                                     struct seam_slice value, uint64_t *ret_generation,
                                     struct seam_err *err);
/* The same for a message; ret_index may be NULL. */
SEAM_API int seam_corpus_check_message(const struct seam_corpus *corpus, struct seam_slice message,
                                       uint64_t *ret_index, struct seam_err *err);

/* The corpus's fingerprint, 32 hex digits and a zero: a 128-bit MurmurHash3 of all that the makers
 * give for the numbers 0 .. units-1 (units, bulk load, messages, queries, incoming), added up, so
 * that it is the same for any number of threads (1..64). A checksum, not a secret. E_NOMEM, and
 * E_INVALID for units of 0 or more than there can be. */
SEAM_API int seam_corpus_digest(const struct seam_corpus *corpus, uint64_t units, unsigned threads,
                                char ret_hex[33], struct seam_err *err);

#ifdef __cplusplus
}
#endif

#endif
