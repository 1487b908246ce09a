/* store_int.h - what the store's files share: the text of STORE, the directory, the open store.
 *
 * store_text.c knows the bytes of STORE and MAKING, store_dir.c the directory and its creation,
 * store.c the members. None of it is exported. */
#ifndef SEAM_ROOM_STORE_INT_H
#define SEAM_ROOM_STORE_INT_H

#include <seam/backend.h>
#include <seam/store.h>

#include <pthread.h>

/* ---- store_text.c ------------------------------------------------------------------------ */

enum {
    SEAM_S_TEXT_MAX = 64 * 1024,
    SEAM_S_NAME_ROOM = SEAM_STORE_NAME_MAX + 12, /* "projection-" before it, a zero behind */
    SEAM_S_ENGINE_ROOM = 65,
    SEAM_S_MEMBERS_MAX = SEAM_STORE_PROJECTIONS_MAX + 1
};

enum seam_s_place { SEAM_S_INSIDE, SEAM_S_OUTSIDE, SEAM_S_SHARED, SEAM_S_VOLATILE };

struct seam_s_member {
    char name[SEAM_S_NAME_ROOM]; /* "journal" or "projection-NAME"; of an inside one the directory's */
    enum seam_s_place place;
    uint8_t uuid[16];                /* of its db; zeros if shared or volatile */
    char engine[SEAM_S_ENGINE_ROOM]; /* for who looks for a lost member */
};

struct seam_s_text {
    bool making; /* it is MAKING, not STORE */
    uint8_t uuid[16];
    uint64_t created;              /* seconds since 1970 */
    struct seam_s_member *members; /* [0] is the journal; of MAKING any, none too */
    size_t n;
};

/* Writes into buf[0..SEAM_S_TEXT_MAX); returns the length. */
size_t seam_s_text_write(const struct seam_s_text *in, char *buf);
/* The reverse: what it accepts is to the byte what would be written. members: room for
 * SEAM_S_MEMBERS_MAX. where: "DIR/STORE", for the error. E_CORRUPT; E_MISMATCH for a whole file of
 * another version or kind. */
int seam_s_text_parse(const char *text, size_t len, bool making, const char *where,
                      struct seam_s_member *members, struct seam_s_text *ret, struct seam_err *err);
const struct seam_s_member *seam_s_find(const struct seam_s_text *in, const char *name);

/* ---- store_dir.c ------------------------------------------------------------------------- */

struct seam_s_dir;

/* Finds the store in path, or what an interrupted creation left there, or nothing; locks it. */
int seam_s_dir_open(const struct seam_platform *os, const char *path, enum seam_open_mode mode,
                    struct seam_s_dir **ret, struct seam_err *err);
/* STORE as it was found, or NULL: it has to be made. */
const struct seam_s_text *seam_s_dir_store(const struct seam_s_dir *sd);
/* MAKING as it was found, or NULL. */
const struct seam_s_text *seam_s_dir_making(const struct seam_s_dir *sd);
/* Writes STORE, or MAKING, in place of what it was, and flushes file, DIR and DIR's parent. */
int seam_s_dir_write(struct seam_s_dir *sd, const struct seam_s_text *text, struct seam_err *err);
/* Ends a creation: MAKING goes. */
int seam_s_dir_end(struct seam_s_dir *sd, struct seam_err *err);
/* Whether something of that name is in DIR. */
int seam_s_dir_has(const struct seam_s_dir *sd, const char *name, bool *ret, struct seam_err *err);
/* Removes the directory of a member that is nobody's, if it is there. */
int seam_s_dir_clear(const struct seam_s_dir *sd, const char *name, struct seam_err *err);
/* The same for every member's name in DIR. */
int seam_s_dir_clear_all(const struct seam_s_dir *sd, struct seam_err *err);
/* Whether STORE was written by this open: there is nothing to undo then, whatever failed later. */
bool seam_s_dir_made(const struct seam_s_dir *sd);
/* After a failed creation whose members are gone: MAKING, LOCK and DIR as far as this open made
 * them. */
void seam_s_dir_undo(struct seam_s_dir *sd);
/* Lets go and frees. forked: this is a child, the lock is its parent's. NULL is allowed. */
void seam_s_dir_close(struct seam_s_dir *sd, bool forked);

/* ---- store_clear.c ----------------------------------------------------------------------- */

/* Removes what is in the directory `name` of `dir`, some levels deep, and itself if `whole`. What is
 * not there is no error. 0 or -errno. */
int seam_s_remove(const struct seam_platform *os, int dir, const char *name, bool whole);
/* The same by path. */
int seam_s_remove_path(const struct seam_platform *os, const char *path, bool whole);

/* ---- the open store ---------------------------------------------------------------------- */

/* One member, from the plan to the close. [0] is the journal. */
struct seam_s_part {
    struct seam_s_member info;
    const char *engine, *dir;    /* of the call of open; dir: of an outside one */
    char *path;                  /* of its db; NULL: it has no directory of its own */
    struct seam_options options; /* of its db */
    const struct seam_store_feed *asked; /* of the call of open; NULL: the journal */
    bool fresh;                  /* STORE does not name it */
    bool made, dir_was_there;    /* its db was made by this open */
    bool taken;                  /* or by a creation that was interrupted, perhaps for another journal */
    struct seam_db *db;          /* NULL if shared */
    struct seam_projection *projection;
    uint32_t stream;
    pthread_mutex_t *putting; /* held while a unit for the stream is looked at and appended; one of
                                 `locks`, the same for all projections of a stream */
};

struct seam_store {
    const struct seam_platform *os;
    enum seam_open_mode mode;
    uint8_t uuid[16];
    uint64_t created;
    struct seam_s_dir *dir; /* NULL: every engine is volatile and no directory was given */
    struct seam_s_part *parts;
    struct seam_s_member *listed; /* room to write STORE and MAKING from */
    size_t n, fresh;
    struct seam_journal *journal;
    pthread_mutex_t *locks;
    size_t locks_n; /* that were made */
};

/* store_plan.c: parts from the options, all that can be known checked; nothing is touched. */
int seam_s_plan(struct seam_store *s, const char *dir, const struct seam_store_options *o,
                struct seam_err *err);
/* store_make.c: opens the dbs of all parts, those that STORE does not name are made, and uuids
 * checked. On failure what is open stays for the caller to close. */
int seam_s_open_dbs(struct seam_store *s, struct seam_err *err);
/* Makes what is new durable and writes STORE. */
int seam_s_finish(struct seam_store *s, struct seam_err *err);
/* Removes what this open has made; every db is closed. */
void seam_s_unmake(struct seam_store *s);
/* The db that the part is kept in. */
struct seam_db *seam_s_db(const struct seam_store *s, const struct seam_s_part *part);
/* Puts the member's name before the text of a failure; returns rc, SEAM_OK too. */
int seam_s_named(const struct seam_s_part *part, int rc, struct seam_err *err);
/* store_put.c: a lock per stream, once the projections are open; and their end. */
int seam_s_locks_open(struct seam_store *s, struct seam_err *err);
void seam_s_locks_close(struct seam_store *s);

#endif
