/* crash_child.c - see crash_support.h.
 *
 * Relies on a write of one record to a pipe being one piece, and on what was written before a kill
 * staying in the pipe. Children are new runs of the program, never bare forks: they begin with one
 * thread under every sanitizer. */
#include "crash_support.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SILENCE_MS (180 * 1000)

void crash_spawn(struct crash_child *c, const char *const *args)
{
    char *argv[16] = {(char *)(uintptr_t) "test", (char *)(uintptr_t) "child"};
    int ends[2];

    for (size_t i = 0; args[i]; i++) {
        assert_true(i + 3 < 16);
        argv[i + 2] = (char *)(uintptr_t)args[i];
    }
    assert_int_equal(pipe(ends), 0);
    fflush(stdout);
    c->killed = false;
    c->pid = fork();
    assert_true(c->pid >= 0);
    if (c->pid == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)close(ends[0]);
        (void)close(ends[1]);
        (void)execv("/proc/self/exe", argv);
        _exit(5);
    }
    (void)close(ends[1]);
    c->out = ends[0];
}

void crash_kill(struct crash_child *c)
{
    c->killed = true;
    (void)kill(c->pid, SIGKILL);
}

bool crash_next(struct crash_child *c, struct crash_record *ret)
{
    struct pollfd fd = {c->out, POLLIN, 0};
    unsigned char *at = (unsigned char *)ret;
    size_t have = 0;

    while (have < sizeof(*ret)) {
        ssize_t n;
        if (poll(&fd, 1, SILENCE_MS) == 0) {
            crash_kill(c);
            fail_msg("the child hangs: no word for %d s", SILENCE_MS / 1000);
        }
        n = read(c->out, at + have, sizeof(*ret) - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        have += (size_t)n;
    }
    if (ret->kind == CRASH_BROKEN) {
        (void)crash_wait(c);
        fail_msg("the child found a promise broken: see above");
    }
    return true;
}

int crash_wait(struct crash_child *c)
{
    int status = 0;

    (void)close(c->out);
    while (waitpid(c->pid, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    return status;
}

void crash_send(const struct crash_record *r)
{
    ssize_t n;

    do
        n = write(STDOUT_FILENO, r, sizeof(*r));
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof(*r))
        _exit(6); /* nobody listens any more */
}

void crash_broken(const char *format, ...)
{
    struct crash_record r = {.kind = CRASH_BROKEN};
    va_list args;

    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    crash_send(&r);
    _exit(7);
}

void crash_pause_us(uint64_t us)
{
    struct timespec t = {(time_t)(us / 1000000u), (long)(us % 1000000u) * 1000};

    (void)nanosleep(&t, NULL);
}

struct seam_db *crash_open(const char *spec, const char *dir, enum seam_open_mode mode,
                           uint64_t memory)
{
    struct seam_options o = {.mode = mode, .memory = memory};
    struct crash_record r = {.kind = CRASH_OPENED};
    struct seam_limits limits;
    struct seam_err err = {0};
    struct seam_db *db = NULL;
    int rc = seam_open(spec, dir, &o, &db, &err);

    if (rc != SEAM_OK)
        crash_broken("seam_open of %s: %s: %s", dir, seam_code_name(rc), err.text);
    seam_db_limits(db, &limits);
    r.number = seam_db_epoch(db);
    r.extra = limits.caps;
    crash_send(&r);
    return db;
}

uint32_t crash_pick_ack(struct support_rng *rng)
{
    static const uint32_t acks[] = {
        SEAM_ACK_PROCESS, SEAM_ACK_PROCESS, SEAM_ACK_PROCESS, SEAM_ACK_OS, SEAM_ACK_POWER,
        SEAM_ACK_POWER, SEAM_ACK_NONE, SEAM_ACK_POWER | SEAM_ACK_WINDOW(20),
        SEAM_ACK_OS | SEAM_ACK_WINDOW(1), SEAM_ACK_POWER | SEAM_ACK_WINDOW(60000)};

    return acks[support_below(rng, sizeof(acks) / sizeof(acks[0]))];
}

void crash_check_ack(uint32_t asked, const struct seam_acked *got)
{
    enum seam_ack level = SEAM_ACK_LEVEL(asked);
    uint32_t window = SEAM_ACK_WINDOW_MS(asked);

    if (got->given >= level)
        return;
    if (window == 0 || got->window_ms == 0 || got->window_ms > window)
        crash_broken("asked %s within %u ms, given %s within %u ms", seam_ack_name(level), window,
                     seam_ack_name(got->given), got->window_ms);
    if (got->given < SEAM_ACK_PROCESS)
        crash_broken("a window of %u ms was acked at once with %s only", window,
                     seam_ack_name(got->given));
}
