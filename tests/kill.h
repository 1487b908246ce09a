/* kill.h - what the files of the kill test share. */
#ifndef SEAM_TESTS_KILL_H
#define SEAM_TESTS_KILL_H

#include "crash_support.h"

/* How many kills each test makes: `usual`, or scaled by SEAM_KILLS (12 is the usual size). */
unsigned kill_count(unsigned usual);
/* Decimal, for a child's arguments; one of support_text's buffers. */
const char *kill_number(uint64_t n);
/* A pause of up to `most` microseconds, then the kill. */
void kill_soon(struct crash_child *c, struct support_rng *rng, uint64_t most);

/* Children: what they do until they are killed. args begin after the role's name. */
int kill_child_units(char **args);
int kill_child_look(char **args);
int kill_child_open(char **args);
int kill_child_journal(char **args);

/* Tests. */
void kill_units(void **state);
void kill_opens(void **state);
void kill_creates(void **state);
void kill_journal(void **state);

#endif
