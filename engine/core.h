/* core.h - what the files of engine/ share: the db handle and its internal helpers.
 *
 * Private to engine/. A db is one stack of layers over one store directory. */
#ifndef SEAM_ENGINE_CORE_H
#define SEAM_ENGINE_CORE_H

#include "storedir.h"
#include <seam/backend.h>

#include <pthread.h>
#include <stdatomic.h>

enum { SEAM_LAYERS_MAX = 8, SEAM_SETTINGS_MAX = 32 };

/* own[1] of a pin whose bytes are a copy in own[0], made where an engine has no near (layer.c). */
extern const char seam_pin_copy_tag;
#define SEAM_PIN_COPY ((void *)(uintptr_t)&seam_pin_copy_tag)

/* One parsed layer of an engine spec. */
struct seam_spec_layer {
    const struct seam_backend *be;
    void *plugin; /* a dlopen handle, and the path it was opened by; else NULL */
    char *path;
    uint64_t settings[SEAM_SETTINGS_MAX], defaults[SEAM_SETTINGS_MAX];
};

struct seam_spec {
    const struct seam_platform *os;
    size_t n; /* layers[0] is the outermost, layers[n-1] the engine */
    struct seam_spec_layer layers[SEAM_LAYERS_MAX];
};

/* spec.c. Closing releases plug-ins; it takes a zeroed spec too. */
int seam_spec_parse(const struct seam_platform *os, const char *text,
                    const struct seam_backend *const *extra, struct seam_spec *ret,
                    struct seam_err *err);
void seam_spec_close(struct seam_spec *spec);

/* spec_text.c. The length of s up to the first of `stops` that no backslash takes as it is. */
size_t seam_spec_span(const char *s, const char *stops);
/* Takes the backslashes out, in place; E_OPTION if one stands at the end. */
int seam_spec_unescape(char *s);
/* The spec as text, normalised, into buf[0..cap); like snprintf. */
size_t seam_spec_text(const struct seam_spec *spec, char *buf, size_t cap);

/* fork.c: tells whether this process is the one that opened the mark. */
struct seam_fork_mark {
    const uint32_t *page; /* zeroed by the kernel in a forked child; NULL: not supported here */
    int64_t pid;          /* used then */
};
int seam_fork_mark_open(struct seam_fork_mark *ret);
bool seam_fork_mark_holds(const struct seam_fork_mark *mark);
void seam_fork_mark_close(struct seam_fork_mark *mark);

/* window.c: the flush that a windowed ack owes, done by one thread that starts when first needed. */
struct seam_window {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool started, stop;
    uint64_t due_ns; /* when the next flush must begin; 0: none owed */
    enum seam_ack level;
};
int seam_window_open(struct seam_window *w, struct seam_err *err);
int seam_window_owe(struct seam_db *db, enum seam_ack level, uint32_t ms, struct seam_err *err);
/* Stops the thread; returns the level still owed, SEAM_ACK_NONE if nothing is. */
enum seam_ack seam_window_close(struct seam_window *w);

/* Three counts of open handles in one word, so that their sum is checked in one step. */
enum { SEAM_HANDLE_PIN = 0, SEAM_HANDLE_CURSOR = 21, SEAM_HANDLE_SNAP = 42 };
#define SEAM_HANDLE_MASK ((UINT64_C(1) << 21) - 1)
/* The most that limits.pins tells: below the mask by as many threads as may overshoot at once. */
#define SEAM_HANDLES_MOST (SEAM_HANDLE_MASK - 4096)

struct seam_db {
    const struct seam_platform *os;
    struct seam_engine *top;
    struct seam_storedir *sd; /* NULL: volatile */
    struct seam_spec spec;
    char *name;
    struct seam_limits limits; /* headroom applied */
    struct seam_ledger *tickets;
    struct seam_fork_mark mark;
    struct seam_window window;
    uint64_t stall_ns;
    bool read_only;
    bool one_by_one;      /* commits and syncs, under gate */
    bool has_gate;
    pthread_mutex_t gate;
    _Atomic bool poisoned; /* stored before the gate is opened again */
    _Atomic bool untold;   /* a window's flush is on its way or failed, and no caller was told */
    _Atomic uint64_t handles;
    _Atomic uint64_t weak;     /* commits acked PROCESS or OS */
    _Atomic uint64_t raised;   /* how many of them a flush has raised since: the first ones */
    _Atomic uint64_t commits, ops, user_bytes, stall_us;
};

struct seam_ticket {
    struct seam_db *db;
    struct seam_commit c;
    uint32_t window_ms;
    enum seam_ack level; /* asked, to hold within the window */
    bool on_heap;
};

struct seam_snap {
    struct seam_db *db;
    void *impl;
};

/* check.c: validation against the limits, and the ops' bytes. */
int seam_check_ops(const struct seam_limits *limits, const struct seam_op *ops, size_t n,
                   uint64_t *ret_bytes, struct seam_err *err);

/* commit.c */
int seam_db_usable(const struct seam_db *db, struct seam_err *err); /* E_FORKED */
int seam_db_raise(struct seam_db *db, enum seam_ack level, struct seam_err *err);
/* E_UNKNOWN, once, if a window's flush failed and no caller was told. */
int seam_db_untold(struct seam_db *db, struct seam_err *err);

/* read.c */
int seam_handle_take(struct seam_db *db, int kind, struct seam_err *err);
void seam_handle_give(struct seam_db *db, int kind);
uint64_t seam_handle_count(const struct seam_db *db, int kind);

#endif
