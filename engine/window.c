/* window.c - the flush that an ack with a window owes.
 *
 * Relies on park.h for timed waits and on the platform's monotonic clock for when they end. Keeps
 * true: the flush begins at three quarters of the window at the latest, so that the promise holds
 * while a flush takes under a quarter of it; a failed one poisons the db. */
#include "core.h"
#include "park.h"

#include <signal.h>

/* A sleep is cut in slices of this length, so that a platform clock that runs unlike the system's is
 * looked at again. */
#define SLICE_NS 100000000u

int seam_window_open(struct seam_window *w, struct seam_err *err)
{
    int failed = seam_cond_init(&w->changed);
    if (failed)
        return seam_fail_os(err, failed, "cannot make the condition of a db handle");
    failed = pthread_mutex_init(&w->lock, NULL);
    if (failed) {
        (void)pthread_cond_destroy(&w->changed);
        return seam_fail_os(err, failed, "cannot make a lock for a db handle");
    }
    w->started = w->stop = false;
    w->due_ns = 0;
    w->level = SEAM_ACK_NONE;
    return SEAM_OK;
}

static void *window_main(void *arg)
{
    struct seam_db *db = arg;
    struct seam_window *w = &db->window;
    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        uint64_t now = db->os->now_ns(db->os->ctx, SEAM_CLOCK_MONOTONIC);
        if (w->due_ns == 0) {
            pthread_cond_wait(&w->changed, &w->lock);
        } else if (now < w->due_ns) {
            uint64_t left = w->due_ns - now;
            seam_cond_wait_ns(&w->changed, &w->lock, left < SLICE_NS ? left : SLICE_NS);
        } else {
            enum seam_ack level = w->level;
            w->due_ns = 0;
            w->level = SEAM_ACK_NONE;
            pthread_mutex_unlock(&w->lock);
            atomic_store(&db->untold, true); /* before it poisons: then the next write, or close, tells */
            if (seam_db_raise(db, level, NULL) != SEAM_E_UNKNOWN)
                atomic_store(&db->untold, false);
            pthread_mutex_lock(&w->lock);
        }
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static int window_start(struct seam_db *db, struct seam_err *err)
{
    struct seam_window *w = &db->window;
    if (w->started)
        return SEAM_OK;
    sigset_t all, before; /* the process's signals are for the caller's threads */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&w->thread, NULL, window_main, db);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return seam_fail_os(err, failed, "cannot start the thread that flushes for ack windows");
    w->started = true;
    return SEAM_OK;
}

int seam_window_owe(struct seam_db *db, enum seam_ack level, uint32_t ms, struct seam_err *err)
{
    struct seam_window *w = &db->window;
    uint64_t now = db->os->now_ns(db->os->ctx, SEAM_CLOCK_MONOTONIC);
    uint64_t due = now + (uint64_t)ms * 750000u;
    pthread_mutex_lock(&w->lock);
    int rc = window_start(db, err);
    if (rc == SEAM_OK) {
        if (w->due_ns == 0 || due < w->due_ns)
            w->due_ns = due;
        if (level > w->level)
            w->level = level;
        pthread_cond_signal(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return rc;
}

enum seam_ack seam_window_close(struct seam_window *w)
{
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    enum seam_ack owed = w->due_ns ? w->level : SEAM_ACK_NONE;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (w->started)
        pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    return owed;
}
