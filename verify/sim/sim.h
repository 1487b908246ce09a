/* sim.h - a disk in memory that knows what was flushed, and what it may hold after a crash.
 *
 * A sim is a platform table (<seam/platform.h>) over files that live in memory. Of each file it
 * keeps what the program sees (the cache) and what a power cut cannot take (the durable bytes); the
 * difference is a list of pending pieces: images of whole 512-byte sectors as they were after a
 * write, and changes of a file's length. Of each directory it keeps the same, the difference being
 * a list of pending changes of names. A flush of a file or directory takes its pieces off the list.
 *
 * WHAT IS ASSUMED of a disk, and what each class of crash state means, is docs/crash-model.md.
 *
 * HOW TO USE IT. Make a sim, open the code under test on sim_platform(), with the path "/" or one
 * below it, and give sim_search a workload and a check (search.h): it takes every crash state of
 * every call that changes anything, and gives each distinct one to the check as a sim of its own.
 * Single-threaded: code that starts threads of its own must be told not to. */
#ifndef SEAM_VERIFY_SIM_H
#define SEAM_VERIFY_SIM_H

#include <seam/platform.h>

#define SIM_SECTOR 512u

struct sim;

/* An empty disk; all chance and time in it follows from the seed. NULL: no memory, as elsewhere in
 * this room, where running out of it ends the test. */
struct sim *sim_new(uint64_t seed);
void sim_free(struct sim *sim); /* whatever is open; NULL is allowed */
const struct seam_platform *sim_platform(struct sim *sim);

/* ---- calls ----------------------------------------------------------------------------------- */

/* Called in the midst of each call that changes a file or a name: its effect is in the cache and
 * pending, nothing of it is flushed. */
typedef void (*sim_hook)(void *arg, struct sim *sim);
void sim_set_hook(struct sim *sim, sim_hook hook, void *arg); /* NULL: none */
uint64_t sim_calls(const struct sim *sim);  /* that changed something or could have */
uint64_t sim_all_calls(const struct sim *sim); /* those, and opens, reads, lists, looks */
uint64_t sim_allocs(const struct sim *sim); /* so far, failed ones too */
uint64_t sim_live(const struct sim *sim);   /* allocations not freed */
uint64_t sim_open_files(const struct sim *sim);
void sim_set_space(struct sim *sim, uint64_t bytes); /* all files' lengths together; no limit: -1 */

/* ---- faults ---------------------------------------------------------------------------------- */

enum sim_lost { /* what a failed flush does to the pages that it was to write */
    SIM_KEEP,   /* they stay dirty */
    SIM_DROP,   /* they are clean in the cache and not on the disk: a second flush "succeeds" */
    SIM_REVERT  /* the cache shows what is on the disk */
};

struct sim_fault {
    uint64_t call;     /* 1, 2, ...: the call (sim_calls counts) that fails; 0: none */
    bool for_ever;     /* and all after it */
    int error;         /* positive errno; 0: a write that does half of what it was asked */
    enum sim_lost lost;
    bool reads;        /* `call` counts what only reads or opens, too (sim_all_calls) */
    uint64_t alloc;    /* the allocation that fails; 0: none */
    bool alloc_for_ever;
};
void sim_set_fault(struct sim *sim, const struct sim_fault *fault);

/* ---- crash states ---------------------------------------------------------------------------- */

#define SIM_CLASSES(X)                                                                            \
    X(KILL, "kill")                 /* all that is in the cache */                                 \
    X(DROP_STRICT, "drop-strict")   /* what was flushed, and no more */                            \
    X(DROP_ORDERED, "drop-ordered") /* a file's flush took earlier changes of names with it */     \
    X(META_FIRST, "meta-first")     /* names and lengths of now, bytes as flushed */               \
    X(TORN, "torn")                 /* a file's pending pieces up to some point */                 \
    X(REORDER, "reorder-512")       /* any of the pending pieces */                                \
    X(GARBAGE, "garbage")           /* as torn; what is lost behind the flushed end is anything */ \
    X(DIR_SUBSET, "dir-subset")     /* changes of names up to some point */                        \
    X(DIR_STRICT, "dir-strict")     /* any of the pending changes of names */                      \
    X(CROSS_FILE, "cross-file")     /* one file is ahead of all others, or behind */

enum sim_class {
#define SIM_CLASS_NAME(id, text) SIM_##id,
    SIM_CLASSES(SIM_CLASS_NAME)
#undef SIM_CLASS_NAME
    SIM_CLASS_COUNT
};
const char *sim_class_text(enum sim_class class);

/* How many states of that class there are now; `random` of them in a class too large to take whole. */
uint64_t sim_state_count(const struct sim *sim, enum sim_class class, uint32_t random);
/* State number i of the class as a disk of its own, all of it flushed, nothing open. */
struct sim *sim_state(const struct sim *sim, enum sim_class class, uint64_t i);
/* Of names, lengths and bytes: equal disks have equal hashes. */
uint64_t sim_hash(const struct sim *sim);

/* A file's durable bytes, to be damaged by a test: what is on the disk after all was closed. NULL:
 * there is no such file. Names as "/dir/file". */
unsigned char *sim_bytes(struct sim *sim, const char *path, uint64_t *ret_len);
void sim_cut(struct sim *sim, const char *path, uint64_t len);
/* Path of the i-th file of the disk; false: there are fewer. */
bool sim_path(const struct sim *sim, size_t i, char *buf, size_t cap);
struct sim *sim_copy(const struct sim *sim); /* as after a clean unmount: the cache, flushed */

#endif
