/* interleave.h - runs a program's threads one at a time, in an order that follows from a seed.
 *
 * A test links seam_sched, and with it definitions of the pthread calls, of the futex, of sleeping and
 * of the clock that stand before libc's. While sched_run runs, every thread that was made under it
 * stops at each of those calls, and one that may go on is chosen: so one seed is one interleaving,
 * and a failure replays from its seed. Threads outside of sched_run, and libraries used by them,
 * get libc's own.
 *
 * Two ways of choosing, by the seed's lowest bit: any thread at each point; or the one with the
 * highest of random priorities, which change at a few random points (the PCT scheduler: Burckhardt,
 * Kothari, Musuvathi, Nagarakatte, "A Randomized Scheduler with Probabilistic Guarantees of Finding
 * Bugs", ASPLOS 2010).
 *
 * What is not seen: races between two points (ThreadSanitizer's work), and threads of libraries
 * that enter the kernel by themselves. A wait with a time limit may run out whenever it is waited;
 * a condition may wake its waiter for nothing. Time is virtual.
 *
 * Not for use under ThreadSanitizer, which wants these calls itself. */
#ifndef SEAM_VERIFY_INTERLEAVE_H
#define SEAM_VERIFY_INTERLEAVE_H

#include <stdbool.h>
#include <stdint.h>

struct sched_config {
    uint64_t seed;
    uint64_t max_steps;  /* a run that takes more is ended; 0: a million */
    uint64_t stop_step;  /* 0: none. At that step the thread that runs calls stop, while all */
    void (*stop)(void *arg); /* others stand still for ever, as after a power cut; it gets libc's */
    void *arg;               /* own calls from then on, and has to end the process */
};

enum sched_end {
    SCHED_DONE,     /* main and every thread returned */
    SCHED_DEADLOCK, /* nobody could go on */
    SCHED_TOO_LONG,
    SCHED_MISUSE    /* a lock given back by somebody who did not hold it */
};

struct sched_result {
    enum sched_end end;
    uint64_t steps, switches, threads;
    uint64_t order; /* a hash of the order; equal for equal seeds */
    char text[512]; /* where each thread stood, unless DONE */
};

/* Runs main(arg) and what it starts. One at a time in a process. After an end other than DONE the
 * threads are still there, stopped: end the process. Returns 0, or an errno of pthread_create. */
int sched_run(const struct sched_config *config, void (*main)(void *arg), void *arg,
              struct sched_result *ret);

/* A place where another thread may go on: for a platform table's calls. */
void sched_point(void);

#endif
