/* store_support.h - what the tests of the store share: one store with a journal and two projections.
 *
 * "near" is on the engine that the second argument names ("same": in the journal's db), "far" is in a
 * directory outside. */
#ifndef SEAM_TEST_STORE_SUPPORT_H
#define SEAM_TEST_STORE_SUPPORT_H

#include "projection_support.h"

#include <seam/store.h>

struct site {
    char top[32]; /* holds all of it */
    char dir[64], far[64];
    const char *journal_engine, *near_engine, *far_engine;
    struct seam_store_feed projections[4];
    struct seam_store_options options;
};

/* The engines that this run is about. */
extern const char *site_journal, *site_near;

/* Makes the directory that all lies in; opens nothing. */
void site_new(struct site *s);
void site_remove(struct site *s);
struct seam_store *site_open(struct site *s, enum seam_open_mode mode);
void site_close(struct seam_store *store);
/* Opens in that mode, which must fail with this code and a text that holds `says`. */
void site_refused(struct site *s, enum seam_open_mode mode, int code, const char *says);
/* One event that puts key=value, acked at the best level. */
void site_append(struct seam_store *store, const char *key, const char *value);
/* "TOP/dir/name", in buf of 128 bytes; returns buf. */
char *site_path(const struct site *s, const char *name, char *buf);
/* Whether anything of that name is in the store's directory. */
bool site_has(const struct site *s, const char *name);
/* Whether the engine keeps nothing. */
bool is_mem(const char *engine);

#endif
