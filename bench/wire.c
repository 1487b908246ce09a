/* wire.c - one turn in a fresh process: the request as JSON on its stdin, the figures on its stdout.
 *
 * Relies on /proc/self/exe. Keeps true: a child that hangs is killed, one that dies is an error of
 * that turn, and nothing of either outlives it. */
#include "plan.h"

#include <jansson.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The fields, once, for both directions. */
#define TURN_TEXTS(X) X(engine) X(profile) X(dir)
#define TURN_NUMBERS(X)                                                                            \
    X(seed) X(round) X(threads) X(batch) X(ack) X(value) X(volume) X(steady) X(ingest) X(keys)
#define FIGURE_REALS(X)                                                                            \
    X(rate) X(seconds) X(flushes) X(acks) X(records) X(user_bytes) X(device_bytes) X(cpu_us)       \
    X(rss_peak_bytes) X(disk_bytes) X(ingest_bytes) X(ingest_flushes) X(ingest_compactions)        \
    X(beside_reads)
#define FIGURE_NUMBERS(X) X(error_code) X(operations) X(ack_given) X(failures) X(wrong)

static json_t *real_or_null(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static double real_of(const json_t *object, const char *name)
{
    const json_t *v = json_object_get(object, name);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static bool text_of(const json_t *object, const char *name, char *ret, size_t cap)
{
    const json_t *v = json_object_get(object, name);
    if (!json_is_string(v) || json_string_length(v) >= cap)
        return false;
    memcpy(ret, json_string_value(v), json_string_length(v) + 1);
    return true;
}

static char *dump(json_t *object)
{
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(object);
    return text;
}

char *wire_encode_turn(const struct bench_turn *t)
{
    json_t *o = json_object();
    json_object_set_new(o, "workload", json_integer((json_int_t)t->workload));
#define SET_TEXT(f) json_object_set_new(o, #f, json_string(t->f));
#define SET_NUMBER(f) json_object_set_new(o, #f, json_integer((json_int_t)t->f));
    TURN_TEXTS(SET_TEXT)
    TURN_NUMBERS(SET_NUMBER)
    json_object_set_new(o, "seconds", json_real(t->seconds));
    json_object_set_new(o, "warm_seconds", json_real(t->warm_seconds));
    return dump(o);
}

bool wire_decode_turn(const char *text, struct bench_turn *ret)
{
    json_t *o = json_loads(text, 0, NULL);
    memset(ret, 0, sizeof(*ret));
    bool ok = json_is_object(o);
    json_int_t w = json_integer_value(json_object_get(o, "workload"));
    ok = ok && w >= 0 && w < BENCH_WORKLOADS;
    ret->workload = (enum bench_workload)w;
#define GET_TEXT(f) ok = ok && text_of(o, #f, ret->f, sizeof(ret->f));
#define GET_NUMBER(f)                                                                              \
    ok = ok && json_is_integer(json_object_get(o, #f));                                            \
    ret->f = (__typeof__(ret->f))json_integer_value(json_object_get(o, #f));
    TURN_TEXTS(GET_TEXT)
    TURN_NUMBERS(GET_NUMBER)
    ret->seconds = real_of(o, "seconds");
    ret->warm_seconds = real_of(o, "warm_seconds");
    json_decref(o);
    return ok && isfinite(ret->seconds) && isfinite(ret->warm_seconds);
}

/* Only the buckets that hold something: [index, count, index, count, ...]. */
static json_t *hist_encode(const struct bench_hist *h)
{
    json_t *list = json_array();
    for (size_t i = 0; i < BENCH_HIST_BUCKETS; i++) {
        if (h->bucket[i] == 0)
            continue;
        json_array_append_new(list, json_integer((json_int_t)i));
        json_array_append_new(list, json_integer((json_int_t)h->bucket[i]));
    }
    return list;
}

static bool hist_decode(const json_t *list, struct bench_hist *ret)
{
    for (size_t i = 0; i + 1 < json_array_size(list); i += 2) {
        json_int_t at = json_integer_value(json_array_get(list, i));
        json_int_t n = json_integer_value(json_array_get(list, i + 1));
        if (at < 0 || at >= BENCH_HIST_BUCKETS || n < 0)
            return false;
        ret->bucket[at] = (uint32_t)n;
        ret->count += (uint64_t)n;
    }
    return true;
}

char *wire_encode_figures(const struct bench_figures *f)
{
    json_t *o = json_object(), *codes = json_array();
#define SET_REAL(name) json_object_set_new(o, #name, real_or_null(f->name));
#define SET_COUNT(name) json_object_set_new(o, #name, json_integer((json_int_t)f->name));
    FIGURE_REALS(SET_REAL)
    FIGURE_NUMBERS(SET_COUNT)
    json_object_set_new(o, "done", json_boolean(f->done));
    json_object_set_new(o, "error", json_string(f->error));
    json_object_set_new(o, "answers", json_string(f->answers));
    for (size_t i = 0; i < 32; i++)
        json_array_append_new(codes, json_integer((json_int_t)f->failures_by_code[i]));
    json_object_set_new(o, "failures_by_code", codes);
    json_object_set_new(o, "latency", hist_encode(&f->latency));
    json_object_set_new(o, "latency_max", json_integer((json_int_t)f->latency.max));
    return dump(o);
}

bool wire_decode_figures(const char *text, struct bench_figures *ret)
{
    json_t *o = json_loads(text, 0, NULL);
    memset(ret, 0, sizeof(*ret));
    bool ok = json_is_object(o);
#define GET_REAL(name) ret->name = real_of(o, #name);
#define GET_COUNT(name)                                                                            \
    ok = ok && json_is_integer(json_object_get(o, #name));                                         \
    ret->name = (__typeof__(ret->name))json_integer_value(json_object_get(o, #name));
    FIGURE_REALS(GET_REAL)
    FIGURE_NUMBERS(GET_COUNT)
    ret->done = json_is_true(json_object_get(o, "done"));
    ok = ok && text_of(o, "error", ret->error, sizeof(ret->error));
    ok = ok && text_of(o, "answers", ret->answers, sizeof(ret->answers));
    const json_t *codes = json_object_get(o, "failures_by_code");
    for (size_t i = 0; i < 32; i++)
        ret->failures_by_code[i] = (uint64_t)json_integer_value(json_array_get(codes, i));
    ok = ok && hist_decode(json_object_get(o, "latency"), &ret->latency);
    ret->latency.max = (uint64_t)json_integer_value(json_object_get(o, "latency_max"));
    json_decref(o);
    return ok;
}

/* ---- the child --------------------------------------------------------------------------- */

static char *read_all(int fd, uint64_t deadline_ms, bool *ret_late);

int wire_child(void)
{
    struct bench_turn turn;
    struct bench_figures *f = calloc(1, sizeof(*f));
    bool late = false;
    char *text = read_all(0, UINT64_MAX, &late);
    if (!f || !text || !wire_decode_turn(text, &turn)) {
        fprintf(stderr, "seam turn: is for seam bench's own use\n");
        return BENCH_USAGE;
    }
    bench_turn_run(&turn, f);
    char *answer = wire_encode_figures(f);
    int rc = answer && puts(answer) >= 0 && fflush(stdout) == 0 ? BENCH_OK : BENCH_FAILED;
    free(answer);
    free(text);
    free(f);
    return rc;
}

/* ---- the parent -------------------------------------------------------------------------- */

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Until the end of file; NULL: no memory, an error, interrupted, or (late) the time is over. */
static char *read_all(int fd, uint64_t deadline_ms, bool *ret_late)
{
    size_t cap = 65536, len = 0;
    char *buf = malloc(cap);
    while (buf) {
        struct pollfd p = {fd, POLLIN, 0};
        if (deadline_ms != UINT64_MAX) {
            uint64_t now = now_ms();
            *ret_late = now >= deadline_ms;
            if (*ret_late || round_interrupted)
                break;
            if (poll(&p, 1, 100) <= 0)
                continue;
        }
        if (cap - len < 2) {
            char *more = realloc(buf, cap *= 2);
            if (!more)
                break;
            buf = more;
        }
        ssize_t n = read(fd, buf + len, cap - len - 1);
        if (n == 0) {
            buf[len] = 0;
            return buf;
        }
        if (n < 0 && errno != EINTR)
            break;
        len += n > 0 ? (size_t)n : 0;
    }
    free(buf);
    return NULL;
}

/* The counter lies beside the command, or where it was installed. A sanitizer's runtime has to be
 * loaded first, so there is none in such a build. */
static bool counter_path(char *ret, size_t cap)
{
#ifdef SEAM_SANITIZED
    (void)ret;
    (void)cap;
    return false;
#else
    static const char *const places[] = {"libseam_flushcount.so", "../lib/seam/libseam_flushcount.so"};
    char exe[BENCH_PATH];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    if (n <= 0)
        return false;
    exe[n] = 0;
    char *slash = strrchr(exe, '/');
    if (!slash)
        return false;
    *slash = 0;
    for (size_t i = 0; i < 2; i++) {
        if (snprintf(ret, cap, "%s/%s", exe, places[i]) < (int)cap && access(ret, R_OK) == 0)
            return true;
    }
    return false;
#endif
}

static void child_exec(int in, int out, const char *count_dir)
{
    char counter[4 * BENCH_PATH];
    if (dup2(in, 0) < 0 || dup2(out, 1) < 0)
        _exit(127);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    setpgid(0, 0);
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a run that is killed leaves no turn behind */
#endif
    if (counter_path(counter, sizeof(counter) / 2)) {
        const char *more = getenv("LD_PRELOAD");
        size_t len = strlen(counter);
        if (more && more[0])
            snprintf(counter + len, sizeof(counter) - len, ":%s", more);
        setenv("LD_PRELOAD", counter, 1);
        setenv("SEAM_FLUSHCOUNT_DIR", count_dir, 1);
    }
    execl("/proc/self/exe", "seam", "turn", (char *)NULL);
    _exit(127);
}

static bool send_request(int fd, const char *text)
{
    size_t len = strlen(text);
    while (len > 0) {
        ssize_t n = write(fd, text, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        text += n;
        len -= (size_t)n;
    }
    return true;
}

static void turn_failed(struct bench_figures *ret, const char *why)
{
    memset(ret, 0, sizeof(*ret));
#define UNKNOWN(name) ret->name = NAN;
    FIGURE_REALS(UNKNOWN)
    ret->ack_given = -1;
    ret->error_code = SEAM_E_IO;
    snprintf(ret->error, sizeof(ret->error), "%s", why);
}

/* Waits for the child's answer; kills it first when there is none to come. */
static void reap(pid_t pid, const char *text, bool late, struct bench_figures *ret)
{
    char why[128];
    int status = 0;
    if (!text)
        kill(-pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (text && WIFEXITED(status) && WEXITSTATUS(status) == 0 && wire_decode_figures(text, ret))
        return;
    if (late)
        turn_failed(ret, "the turn took too long and was killed");
    else if (round_interrupted)
        turn_failed(ret, "interrupted");
    else if (WIFSIGNALED(status))
        snprintf(why, sizeof(why), "the turn's process was ended by signal %d", WTERMSIG(status)),
            turn_failed(ret, why);
    else
        turn_failed(ret, "the turn's process ended without an answer");
}

bool wire_turn(const struct bench_turn *turn, const char *count_dir, struct bench_figures *ret)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1};
    char *request = wire_encode_turn(turn);
    bool late = false;
    turn_failed(ret, "cannot start a process");
    if (!request || pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) {
        free(request);
        return false;
    }
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        child_exec(in[0], out[1], count_dir);
    close(in[0]);
    close(out[1]);
    if (pid > 0) {
        bool sent = send_request(in[1], request);
        close(in[1]);
        in[1] = -1;
        uint64_t allowed = 300000 + (uint64_t)(turn->seconds + turn->warm_seconds) * 20000 +
                           turn->keys / 10; /* a store may be filled first */
        char *text = sent ? read_all(out[0], now_ms() + allowed, &late) : NULL;
        reap(pid, text, late, ret);
        free(text);
    }
    if (in[1] >= 0)
        close(in[1]);
    close(out[0]);
    free(request);
    return ret->done;
}
