/* rebuild_support.h - what the tests of rebuilds share: a projector with a version, so that an old
 * table and a new one differ everywhere, and a number for all that a table holds. */
#ifndef SEAM_TEST_REBUILD_SUPPORT_H
#define SEAM_TEST_REBUILD_SUPPORT_H

#include "projection_support.h"

/* Puts, overwrites and deletes; every WIDE_EVERY-th event has WIDE ops more. The last op puts the
 * sequence at "last". ctx: const unsigned *, the version, which is in every value. */
enum { WIDE_EVERY = 20, WIDE = 60 };

int project_version(void *ctx, const struct seam_event *event, struct seam_emit *out,
                    struct seam_err *err);
void append_plain(struct pair *p, unsigned n);
/* Opens "t" with units split; version is the projector's ctx. */
struct seam_projection *version_table(struct pair *p, const char *name, unsigned *version, bool atomic);
/* Of keys and values, in order. view NULL: now. */
uint64_t table_digest(struct seam_projection *t, struct seam_view *view);
/* What the stream's events up to that one, and all, make of an empty table, in one go. */
uint64_t digest_at(struct pair *p, unsigned version, uint64_t sequence);
uint64_t fresh_digest(struct pair *p, unsigned version);
/* Keys of tables in the db whose names have one byte, by generation: how many of name; and whether it
 * has a record of that tag. */
size_t raw_generations(struct pair *p, char name);
bool raw_has(struct pair *p, char name, char tag);

#endif
