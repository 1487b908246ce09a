/* projection_support.h - what the tests of projections share: a journal and a table's db, in one
 * store or in two. */
#ifndef SEAM_TEST_PROJECTION_SUPPORT_H
#define SEAM_TEST_PROJECTION_SUPPORT_H

#include "seam_support.h"

/* Journal and projection, wherever they are. */
struct pair {
    const char *journal_engine, *table_engine; /* "same": one db */
    struct store of_journal, of_table;
    bool same;
    struct seam_db *db; /* the projection's */
    struct seam_journal *j;
    uint32_t stream;
};

enum { NUMBERS = 300, LARGE = 9000 };

void pair_journal(struct pair *p);
void pair_open(struct pair *p, const char *journal_engine, const char *table_engine,
               const char *wrap);
void pair_reopen(struct pair *p);
void pair_close(struct pair *p);
/* Appended so that it may be applied at once. */
void pair_append(struct pair *p, struct seam_slice event);
struct seam_projection_options pair_options(struct pair *p, seam_projector projector, void *ctx);
struct seam_projection *table_open(struct pair *p, const char *name,
                                   const struct seam_projection_options *o);
void table_close(struct seam_projection *table);
uint64_t table_catch_up(struct seam_projection *table, uint64_t most);
/* "+key=value" puts, "-key" deletes, "*key" deletes from key on, others do nothing. */
int project(void *ctx, const struct seam_event *event, struct seam_emit *out, struct seam_err *err);
void table_expect(struct seam_projection *table, struct seam_view *view, const char *key,
                  const char *value);
void table_expect_near(struct seam_projection *table, struct seam_view *view, bool floor,
                       const char *prefix, const char *key, const char *found);
size_t table_count(struct seam_projection *table);
/* Puts a key made of the sequence, with the event's data, and overwrites one of ten others. ctx
 * may point to a sequence that it refuses. */
int project_numbers(void *ctx, const struct seam_event *event, struct seam_emit *out,
                    struct seam_err *err);
void check_numbers(struct seam_projection *t, unsigned upto);
void append_numbers(struct pair *p);

#endif
