/* fork.c - tells a child process that a handle is its parent's.
 *
 * Relies on MADV_WIPEONFORK (Linux 4.14), so that a check is one load and no system call; elsewhere
 * the process id is compared. */
#include "core.h"

#include <sys/mman.h>
#include <unistd.h>

enum { MARK_BYTES = 4096 };

int seam_fork_mark_open(struct seam_fork_mark *ret)
{
    ret->page = NULL;
    ret->pid = getpid();
#ifdef MADV_WIPEONFORK
    uint32_t *page =
        mmap(NULL, MARK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return SEAM_E_NOMEM;
    if (madvise(page, MARK_BYTES, MADV_WIPEONFORK) == 0) {
        *page = 1;
        ret->page = page;
    } else {
        munmap(page, MARK_BYTES);
    }
#endif
    return SEAM_OK;
}

bool seam_fork_mark_holds(const struct seam_fork_mark *mark)
{
    return mark->page ? *mark->page == 1 : mark->pid == getpid();
}

void seam_fork_mark_close(struct seam_fork_mark *mark)
{
    if (mark->page)
        munmap((void *)(uintptr_t)mark->page, MARK_BYTES);
    mark->page = NULL;
}
