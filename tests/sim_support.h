/* sim_support.h - what the searches on the simulated disk over seam/ share: events that tell their own
 * number, the table that a projection makes of them, and what both must be after a crash.
 *
 * An event is put at one of a few keys; one in nine is a unit, which is put at many. */
#ifndef SEAM_TEST_SIM_SUPPORT_H
#define SEAM_TEST_SIM_SUPPORT_H

#include "search.h"
#include "support.h"

#include <seam/journal.h>
#include <seam/projection.h>

enum { SIM_SLOTS = 5, SIM_UNIT = 30, SIM_PAYLOAD = 1000 };

bool sim_is_unit(uint64_t sequence);
/* mark tells who appended it. Returns its length. */
size_t sim_payload(uint64_t sequence, char mark, unsigned char buf[static SIM_PAYLOAD]);
int sim_project(void *ctx, const struct seam_event *event, struct seam_emit *out, struct seam_err *err);

/* The events first..last are those that were appended, marked 'a', or, if `again`, 'b': an earlier check
 * may have appended those. marks[sequence] is set for each. What is wrong goes into text. */
void sim_check_events(struct seam_journal *j, uint32_t stream, uint64_t first, uint64_t last, bool again,
                      char *marks, char text[static 256]);
/* The table is what the events up to its position make of it, and shows no part of a unit. */
void sim_check_table(struct seam_projection *t, const char *marks, char text[static 256]);

/* Tells what a search found; fails if that is a violation. */
void sim_report(const struct sim_search *s);

#endif
