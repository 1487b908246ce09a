/* search.h - runs a workload on a simulated disk and holds every crash of it to an oracle.
 *
 * The workload opens the code under test on the table it is given, works, and tells, in memory of
 * its own, what was acked. At each call that changes anything the search takes the crash states
 * (sim.h), and gives each that it has not given before, with the same acks, to the check: a disk as
 * after the power came back. The check opens it, looks, and says what is wrong. One check in so many
 * is run twice: first with its own calls hooked, so that the power fails again in recovery.
 *
 * A case that fails is named, and replayed alone from its name: SEAM_SIM_CASE=call,class,number for
 * a crash, SEAM_SIM_FAULT=call,errno for an error (in all its variants), with the same seed. */
#ifndef SEAM_VERIFY_SIM_SEARCH_H
#define SEAM_VERIFY_SIM_SEARCH_H

#include "sim.h"

struct sim_search {
    uint64_t seed;
    uint32_t every;  /* one call in so many is looked at; 0 or 1: all. Which: by the seed */
    uint32_t random; /* states of large classes */
    uint32_t nested; /* one state in so many has its recovery crashed too; 0: none */
    bool stop;       /* at the first violation: the code under test is known to be wrong */

    /* Works on os, on the root "/". An error of its own (not of a fault that was injected) goes into
     * text and ends the search. */
    void (*work)(void *arg, const struct seam_platform *os, char text[static 256]);
    /* Whether crashes are looked at now, in the midst of the work's call. NULL: always. */
    bool (*wanted)(void *arg);
    /* What was promised so far, as a number: states are the same only if it is. */
    uint64_t (*promised)(void *arg);
    /* Holds a disk to what is promised. seen: NULL; or where to note what recovery showed, so that
     * the same state cannot show something else later (0 before the first look). */
    void (*check)(void *arg, const struct seam_platform *os, bool power, uint64_t *seen,
                  char text[static 256]);
    void *arg;

    /* What it found. */
    uint64_t calls, states, distinct, nested_states;
    uint64_t taken[SIM_CLASS_COUNT], by_class[SIM_CLASS_COUNT]; /* by_class: distinct ones */
    uint64_t violations;
    bool broke;      /* one of them is an error of the work itself */
    char first[512]; /* the first violation */
};

/* Crashes. */
void sim_search_crashes(struct sim_search *s);
/* Each call, reads and opens too, fails with each of errors[0..n) (0: half of what was asked), once
 * and for ever, with each of what a failed flush may lose (EIO; other errors: in turn); then the disk
 * as it is, and as after a power cut, is checked. `step`: one case in so many. After work
 * everything must have been given back: memory, descriptors. */
void sim_search_errors(struct sim_search *s, const int *errors, size_t n, uint32_t step);
/* The same for each allocation, once and for ever. */
void sim_search_allocations(struct sim_search *s, uint32_t step);

#endif
