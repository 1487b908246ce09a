/* flushcount_engine.c - durable commits of one engine, from two threads: ENGINE STORE.
 * Prints "acks n flushes m", the latter as its own page of the flush counter says; exits 1 with a
 * line when a call fails. */
#include "flushcount.h"

#include <seam/seam.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 2, TURNS = 40 };

struct job {
    struct seam_db *db;
    int number;
};

static void check(int rc, const struct seam_err *err)
{
    if (rc == SEAM_OK)
        return;
    printf("%s: %s\n", seam_code_name(rc), err->text);
    exit(1);
}

static void *commits(void *arg)
{
    const struct job *job = arg;
    static const char value[300];
    struct seam_err err;

    for (int i = 0; i < TURNS; i++) {
        char key[32];
        struct seam_op op = {.kind = SEAM_PUT, .body = {value, sizeof value}};
        struct seam_ticket *ticket;
        struct seam_acked acked;

        snprintf(key, sizeof key, "%d-%04d", job->number, i);
        op.key = seam_bytes(key, strlen(key));
        check(seam_prepare(job->db, &op, 1, SEAM_ACK_POWER, &ticket, &err), &err);
        check(seam_commit(ticket, &acked, &err), &err);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct seam_flushcount counts;
    struct seam_options options;
    struct job jobs[THREADS];
    pthread_t threads[THREADS];
    struct seam_db *db;
    struct seam_err err;

    if (argc != 3)
        return 2;
    memset(&options, 0, sizeof options);
    options.mode = SEAM_OPEN_CREATE;
    check(seam_open(argv[1], argv[2], &options, &db, &err), &err);
    for (int i = 0; i < THREADS; i++) {
        jobs[i].db = db;
        jobs[i].number = i;
        if (pthread_create(&threads[i], NULL, commits, &jobs[i]) != 0)
            return 1;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    check(seam_close(db, &err), &err);
    memset(&counts, 0, sizeof counts);
    if (seam_flushcount_self() != NULL)
        seam_flushcount_read(seam_flushcount_self(), &counts);
    printf("acks %d flushes %llu\n", THREADS * TURNS,
           (unsigned long long)seam_flushcount_flushes(&counts));
    return 0;
}
