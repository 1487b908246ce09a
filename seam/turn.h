/* turn.h - a lock that serves in the order of asking.
 *
 * A rebuild lets its lock go after each commit and asks for it again at once; with a plain mutex
 * nobody else might ever get it. */
#ifndef SEAM_ROOM_TURN_H
#define SEAM_ROOM_TURN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct seam_p_turn {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    uint64_t asked, serving; /* under lock */
};

static inline bool seam_p_turn_init(struct seam_p_turn *turn)
{
    turn->asked = turn->serving = 0;
    if (pthread_mutex_init(&turn->lock, NULL) != 0)
        return false;
    if (pthread_cond_init(&turn->moved, NULL) == 0)
        return true;
    pthread_mutex_destroy(&turn->lock);
    return false;
}

static inline void seam_p_turn_destroy(struct seam_p_turn *turn)
{
    pthread_cond_destroy(&turn->moved);
    pthread_mutex_destroy(&turn->lock);
}

static inline void seam_p_turn_take(struct seam_p_turn *turn)
{
    pthread_mutex_lock(&turn->lock);
    uint64_t mine = turn->asked++;
    while (turn->serving != mine)
        pthread_cond_wait(&turn->moved, &turn->lock);
    pthread_mutex_unlock(&turn->lock);
}

static inline void seam_p_turn_give(struct seam_p_turn *turn)
{
    pthread_mutex_lock(&turn->lock);
    turn->serving++;
    pthread_cond_broadcast(&turn->moved);
    pthread_mutex_unlock(&turn->lock);
}

#endif
