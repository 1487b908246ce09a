/* liar.h - a platform that breaks one promise, so that code above it behaves as if it had that fault.
 *
 * Each kind stands for a mistake that an author of a storage engine makes. A search (search.h) over
 * code on such a platform must find violations; one that does not proves nothing. For use over a
 * sim's platform, whose descriptors are small numbers. */
#ifndef SEAM_VERIFY_SIM_LIAR_H
#define SEAM_VERIFY_SIM_LIAR_H

#include <seam/platform.h>

#define SIM_LIES(X)                                                                                \
    X(NO_FILE_SYNC, "drop-file-sync")     /* flushes of files are left out */                      \
    X(NO_DIR_SYNC, "drop-dir-sync")       /* and of directories */                                 \
    X(LATE_SYNC, "ack-before-flush")      /* they are done, but after the answer was given */      \
    X(EARLY_SYNC, "flush-before-write")   /* a write goes out after the flush behind it */         \
    X(EARLY_RENAME, "rename-before-sync") /* a new file is flushed after it was renamed */         \
    X(SHORT_WRITE, "ignore-short-write")  /* a short write passes for whole */                     \
    X(RETRY_SYNC, "retry-failed-sync")    /* a failed flush is tried again until it "succeeds" */

enum sim_lie {
#define SIM_LIE_NAME(id, text) SIM_##id,
    SIM_LIES(SIM_LIE_NAME)
#undef SIM_LIE_NAME
    SIM_LIE_COUNT
};
const char *sim_lie_text(enum sim_lie lie);

#define SIM_LIAR_FDS 256
#define SIM_LIAR_HELD 16384

struct sim_liar {
    struct seam_platform table; /* what the code under test is given */
    const struct seam_platform *os;
    enum sim_lie lie;
    const uint64_t *on; /* it lies while this is not 0; NULL: always */
    bool sync_due[SIM_LIAR_FDS], close_due[SIM_LIAR_FDS]; /* by descriptor */
    bool dsync[SIM_LIAR_FDS], fresh[SIM_LIAR_FDS];
    int held_fd; /* of a write that is held back; -1: there is none */
    uint64_t held_at;
    size_t held_len;
    unsigned char held[SIM_LIAR_HELD];
};

/* Until sim_liar_end, which does what is still due. */
void sim_liar_init(struct sim_liar *liar, const struct seam_platform *os, enum sim_lie lie,
                   const uint64_t *on);
void sim_liar_end(struct sim_liar *liar);

#endif
