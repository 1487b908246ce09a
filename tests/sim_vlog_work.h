/* sim_vlog_work.h - work for the native engine on the simulated disk, and what it promises.
 *
 * Commits of all sizes at POWER and at PROCESS, through rolls, recycled segments and reopens. Commit i
 * writes its number and one thing that follows from it, so what a store holds must be the state after
 * exactly j commits, for a j that no ack contradicts. */
#ifndef SEAM_TESTS_SIM_VLOG_WORK_H
#define SEAM_TESTS_SIM_VLOG_WORK_H

#include <seam/platform.h>

struct vlog_job {
    const char *spec;
    uint64_t commits, reopen; /* every so many commits */
    uint64_t begun, power, process; /* commits: handed over, acked */
    bool faults; /* an error may end the work */
    bool large;  /* some commits are many times what is written at once */
};

void vlog_job_init(void); /* once, first */
/* For struct sim_search; arg is a struct vlog_job. */
void vlog_job_work(void *arg, const struct seam_platform *os, char text[static 256]);
uint64_t vlog_job_promised(void *arg);
void vlog_job_check(void *arg, const struct seam_platform *os, bool power, uint64_t *seen,
                    char text[static 256]);

#endif
