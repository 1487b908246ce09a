/* profile.h - the knobs of a profile, and where their values come from.
 *
 * One table, CORPUS_KNOBS, says for each knob its section, name, kind, default, range and meaning;
 * the parser, the errors, seam_corpus_info and docs/profiles.md (checked by a test) follow it. */
#ifndef SEAM_CORPUS_PROFILE_H
#define SEAM_CORPUS_PROFILE_H

#include <seam/corpus.h>

enum knob_kind {
    KIND_COUNT, /* K, M, G are powers of 1000 */
    KIND_SIZE,  /* K, M, G are powers of 1024 */
    KIND_SKEW,  /* one of the words of corpus_skews */
    KIND_CHOOSE /* one of the words of corpus_chooses */
};

enum { SKEW_UNIFORM, SKEW_HOT, SKEW_ZIPF };
enum { CHOOSE_SKEW, CHOOSE_SWEEP };

#define CORPUS_KEY_MIN 16u /* entity and version, 8 bytes each */
#define CORPUS_KEY_MAX 511u /* LMDB's */
#define CORPUS_VALUE_MAX (64u << 20)
#define CORPUS_KEYS_MAX 1000000000u
#define CORPUS_UNIT_MAX 1000000u
#define CORPUS_UNITS_MAX 4294967294u /* a generation has 32 bits; 0 is the load's */

/* X(id, section, name, kind, default, least, most, help) */
#define CORPUS_KNOBS(X)                                                                           \
    X(SCALE, "corpus", "scale", KIND_COUNT, 1, 1, 1000000,                                        \
      "keys and units are divided by this")                                                       \
    X(KEYS, "keys", "keys", KIND_COUNT, 100000, 1, CORPUS_KEYS_MAX, "keys of the bulk-load set")   \
    X(VERSIONS, "keys", "versions", KIND_COUNT, 8, 1, 1000000, "keys that share an entity")       \
    X(KEY_MIN, "keys", "key_min", KIND_SIZE, 24, CORPUS_KEY_MIN, CORPUS_KEY_MAX, "shortest key")   \
    X(KEY_MAX, "keys", "key_max", KIND_SIZE, 32, CORPUS_KEY_MIN, CORPUS_KEY_MAX, "longest key")    \
    X(VALUE_MIN, "values", "value_min", KIND_SIZE, 20, SEAM_CORPUS_PROOF, CORPUS_VALUE_MAX,        \
      "smallest small value")                                                                     \
    X(VALUE_MAX, "values", "value_max", KIND_SIZE, 400, SEAM_CORPUS_PROOF, CORPUS_VALUE_MAX,       \
      "largest small value")                                                                      \
    X(VALUE_SKEW, "values", "value_skew", KIND_COUNT, 0, 0, 8,                                    \
      "0: sizes are even; n: the least of n + 1 draws")                                           \
    X(LARGE_PERCENT, "values", "large_percent", KIND_COUNT, 0, 0, 100,                            \
      "share of values that are large")                                                           \
    X(LARGE_MIN, "values", "large_min", KIND_SIZE, 1048576, SEAM_CORPUS_PROOF, CORPUS_VALUE_MAX,   \
      "smallest large value")                                                                     \
    X(LARGE_MAX, "values", "large_max", KIND_SIZE, 1048576, SEAM_CORPUS_PROOF, CORPUS_VALUE_MAX,   \
      "largest large value")                                                                      \
    X(COMPRESSIBLE, "values", "compressible", KIND_COUNT, 50, 0, 100,                             \
      "share of the filler that repeats")                                                         \
    X(UNITS, "units", "units", KIND_COUNT, 100000, 1, CORPUS_UNITS_MAX, "units of a full run")     \
    X(UNIT_MIN, "units", "unit_min", KIND_COUNT, 1, 1, CORPUS_UNIT_MAX, "fewest ops of a unit")    \
    X(UNIT_MAX, "units", "unit_max", KIND_COUNT, 8, 1, CORPUS_UNIT_MAX, "most ops of a unit")      \
    X(CHOOSE, "units", "choose", KIND_CHOOSE, CHOOSE_SKEW, 0, 1, "how a unit chooses its keys")    \
    X(INSERT_PERCENT, "units", "insert_percent", KIND_COUNT, 10, 0, 100,                          \
      "share of ops that put a key which was never there")                                        \
    X(DELETE_PERCENT, "units", "delete_percent", KIND_COUNT, 0, 0, 100,                           \
      "share of ops that delete")                                                                 \
    X(SKEW, "reads", "skew", KIND_SKEW, SKEW_UNIFORM, 0, 2, "which keys are read and changed")     \
    X(HOT_PERMILLE, "reads", "hot_permille", KIND_COUNT, 10, 1, 1000,                             \
      "skew = hot: thousandths of the keys that are hot")                                         \
    X(HOT_PERCENT, "reads", "hot_percent", KIND_COUNT, 80, 0, 100,                                \
      "skew = hot: share of the choices that fall on them")                                       \
    X(STALE_PERCENT, "incoming", "stale_percent", KIND_COUNT, 30, 0, 100,                         \
      "share of a merge's entries that are not newer")                                            \
    X(NEW_PERCENT, "incoming", "new_percent", KIND_COUNT, 20, 0, 100,                             \
      "share of a merge's entries whose key is not there")                                        \
    X(MESSAGE, "messages", "message", KIND_SIZE, 256, SEAM_CORPUS_PROOF, SEAM_CORPUS_MESSAGE_MAX,  \
      "bytes of a message")

enum knob {
#define CORPUS_KNOB_ENUM(id, section, name, kind, def, least, most, help) KNOB_##id,
    CORPUS_KNOBS(CORPUS_KNOB_ENUM)
#undef CORPUS_KNOB_ENUM
    KNOBS
};

struct profile {
    char *name;            /* as given, without changed knobs; malloc */
    char description[192]; /* one line, may be empty */
    uint64_t knob[KNOBS];
};

/* The built-in profiles, made by embed.cmake from profiles/[name].ini; ended by a NULL name. */
extern const struct seam_corpus_profile corpus_profiles[];

/* Fills *ret from "name-or-path[:knob=value,...]"; scale is not applied. */
int corpus_profile_read(const char *spec, struct profile *ret, struct seam_err *err);
/* NULL is allowed. */
void corpus_profile_free(struct profile *profile);
/* The table's row and the profile's value of knob i. */
void corpus_profile_knob(const struct profile *profile, enum knob i, struct seam_corpus_knob *ret);

#endif
