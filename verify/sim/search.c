/* search.c - the drivers: a crash at every call, an error at every call, no memory at every one. */
#include "search.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Hashes of states that were checked: open addressing, 0 is empty. */
struct seen {
    uint64_t *at;
    size_t n, cap;
};

struct crash {
    struct sim_search *s;
    struct seen seen;
    uint64_t rng, only_call, only_i;
    int only_class; /* -1: no case was asked for */
};

static bool seen_add(struct seen *t, uint64_t hash)
{
    hash += hash == 0 ? 1 : 0;
    if (2 * t->n >= t->cap) {
        struct seen more = {calloc(t->cap ? 2 * t->cap : 4096, 8), 0, t->cap ? 2 * t->cap : 4096};
        assert(more.at);
        for (size_t i = 0; i < t->cap; i++)
            if (t->at[i])
                (void)seen_add(&more, t->at[i]);
        free(t->at);
        *t = more;
    }
    size_t i = (size_t)hash & (t->cap - 1);
    while (t->at[i] && t->at[i] != hash)
        i = (i + 1) & (t->cap - 1);
    bool added = t->at[i] == 0;
    t->at[i] = hash;
    t->n += added ? 1 : 0;
    return added;
}

static uint64_t draw(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static void violation(struct sim_search *s, uint64_t call, const char *class, uint64_t i,
                      const char *text)
{
    if (s->violations++ == 0)
        (void)snprintf(s->first, sizeof s->first, "seed %llu, call %llu, %s %llu: %.300s",
                       (unsigned long long)s->seed, (unsigned long long)call, class,
                       (unsigned long long)i, text);
}

/* An error of the work itself, in a run of it. */
static void broke(struct sim_search *s, uint64_t call, const char *what, const char *text)
{
    s->broke = true;
    violation(s, call, what, 0, text);
}

static bool power_of(enum sim_class class)
{
    return class != SIM_KILL;
}

/* ---- crashes --------------------------------------------------------------------------------- */

struct inner {
    struct crash *c;
    const uint64_t *seen; /* what the recovery that is crashed has shown so far */
    uint64_t rng, call, i;
};

/* The power fails again while the state is recovered: one state of each class is looked at. */
static void crash_inner(void *arg, struct sim *sim)
{
    struct inner *in = arg;
    struct sim_search *s = in->c->s;
    for (int class = 0; class < SIM_CLASS_COUNT; class++) {
        uint64_t n = sim_state_count(sim, (enum sim_class)class, 4);
        if (n == 0 || draw(&in->rng) % 3 != 0)
            continue;
        struct sim *state = sim_state(sim, (enum sim_class)class, draw(&in->rng) % n);
        char text[256] = "";
        uint64_t seen = *in->seen;
        s->check(s->arg, sim_platform(state), true, &seen, text);
        s->nested_states++;
        if (text[0])
            violation(s, in->call, "in recovery, after", in->i, text);
        sim_free(state);
    }
}

static void check_state(struct crash *c, struct sim *state, uint64_t call, enum sim_class class,
                        uint64_t i)
{
    struct sim_search *s = c->s;
    char text[256] = "";
    uint64_t seen = 0;
    if (s->nested > 0 && draw(&c->rng) % s->nested == 0) {
        struct inner in = {c, &seen, c->rng, call, i};
        struct sim *twin = sim_copy(state);
        sim_set_hook(twin, crash_inner, &in);
        s->check(s->arg, sim_platform(twin), power_of(class), &seen, text);
        sim_set_hook(twin, NULL, NULL);
        sim_free(twin);
    }
    seen = 0;
    if (text[0] == '\0')
        s->check(s->arg, sim_platform(state), power_of(class), &seen, text);
    if (text[0] == '\0' && sim_live(state) > 0)
        (void)snprintf(text, sizeof text, "%llu allocations were not freed",
                       (unsigned long long)sim_live(state));
    if (text[0] == '\0' && sim_open_files(state) > 0)
        (void)snprintf(text, sizeof text, "%llu files were not closed",
                       (unsigned long long)sim_open_files(state));
    if (text[0])
        violation(s, call, sim_class_text(class), i, text);
}

static void crash_class(struct crash *c, struct sim *sim, enum sim_class class)
{
    struct sim_search *s = c->s;
    uint64_t n = sim_state_count(sim, class, s->random), call = sim_calls(sim);
    for (uint64_t i = 0; i < n; i++) {
        if (c->only_class >= 0 && i != c->only_i)
            continue;
        struct sim *state = sim_state(sim, class, i);
        uint64_t hash = sim_hash(state) ^ (s->promised(s->arg) * 2 + power_of(class)) *
                                              UINT64_C(0x9e3779b97f4a7c15);
        s->states++;
        s->taken[class]++;
        if (seen_add(&c->seen, hash)) {
            s->distinct++;
            s->by_class[class]++;
            check_state(c, state, call, class, i);
        }
        sim_free(state);
    }
}

static void crash_all(void *arg, struct sim *sim)
{
    struct crash *c = arg;
    uint64_t call = sim_calls(sim);
    if (c->s->stop && c->s->violations > 0)
        return;
    if ((c->only_class >= 0 && call != c->only_call) || (c->s->wanted && !c->s->wanted(c->s->arg)))
        return;
    if (c->only_class < 0 && c->s->every > 1 && draw(&c->rng) % c->s->every != 0)
        return;
    for (int class = 0; class < SIM_CLASS_COUNT; class++)
        if (c->only_class < 0 || c->only_class == class)
            crash_class(c, sim, (enum sim_class)class);
}

/* SEAM_SIM_CASE=call,class,number: that one only. */
static void read_case(struct crash *c)
{
    const char *text = getenv("SEAM_SIM_CASE");
    char *end;
    c->only_class = -1;
    if (!text)
        return;
    c->only_call = strtoull(text, &end, 10);
    for (int class = 0; class < SIM_CLASS_COUNT && *end == ','; class++) {
        const char *name = sim_class_text((enum sim_class)class);
        if (strncmp(end + 1, name, strlen(name)) == 0 && end[1 + strlen(name)] == ',') {
            c->only_class = class;
            c->only_i = strtoull(end + 2 + strlen(name), NULL, 10);
        }
    }
    assert(c->only_class >= 0);
}

void sim_search_crashes(struct sim_search *s)
{
    struct crash c = {.s = s, .rng = s->seed};
    struct sim *sim = sim_new(s->seed);
    char text[256] = "";
    read_case(&c);
    sim_set_hook(sim, crash_all, &c);
    s->work(s->arg, sim_platform(sim), text);
    s->calls = sim_calls(sim);
    if (text[0])
        broke(s, s->calls, "work", text);
    sim_free(sim);
    free(c.seen.at);
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* After a run with a fault: nothing is held, and the disk as it is and as it may be keep what was
 * promised. */
static void check_after(struct sim_search *s, struct sim *sim, uint64_t call, const char *what)
{
    static const enum sim_class classes[] = {SIM_KILL, SIM_DROP_STRICT, SIM_META_FIRST};
    char text[256] = "";
    if (sim_live(sim) > 0)
        (void)snprintf(text, sizeof text, "%llu allocations were not freed",
                       (unsigned long long)sim_live(sim));
    if (sim_open_files(sim) > 0)
        (void)snprintf(text, sizeof text, "%llu files were not closed",
                       (unsigned long long)sim_open_files(sim));
    for (size_t i = 0; i < sizeof classes / sizeof classes[0] && text[0] == '\0'; i++) {
        struct sim *state = sim_state(sim, classes[i], 0);
        uint64_t seen = 0;
        s->states++;
        s->check(s->arg, sim_platform(state), power_of(classes[i]), &seen, text);
        sim_free(state);
    }
    if (text[0])
        violation(s, call, what, 0, text);
}

static void run_with(struct sim_search *s, const struct sim_fault *fault, uint64_t at,
                     const char *what)
{
    struct sim *sim = sim_new(s->seed);
    char text[256] = "";
    sim_set_fault(sim, fault);
    s->work(s->arg, sim_platform(sim), text);
    if (text[0])
        broke(s, at, what, text);
    check_after(s, sim, at, what);
    sim_free(sim);
}

/* A run without faults, to know how long it is. */
static void measure(struct sim_search *s, uint64_t *ret_calls, uint64_t *ret_allocs)
{
    struct sim *sim = sim_new(s->seed);
    char text[256] = "";
    s->work(s->arg, sim_platform(sim), text);
    if (text[0])
        broke(s, 0, "work", text);
    *ret_calls = s->calls = sim_all_calls(sim);
    *ret_allocs = sim_allocs(sim);
    sim_free(sim);
}

/* SEAM_SIM_FAULT=call,error: that one only. */
static bool fault_wanted(uint64_t call, int error, bool otherwise)
{
    const char *text = getenv("SEAM_SIM_FAULT");
    char *end;
    if (!text)
        return otherwise;
    bool same = strtoull(text, &end, 10) == call;
    return same && *end == ',' && strtol(end + 1, NULL, 10) == error;
}

/* The variants of one error at one call: once or for ever, and what a failed flush loses. */
static void fail_call(struct sim_search *s, uint64_t call, int error, uint32_t step, uint64_t *rng)
{
    static const char *const lost[] = {"keeps", "drops", "reverts"};
    for (int v = 0; v < 6; v++) {
        struct sim_fault fault = {.call = call, .error = error, .reads = true};
        bool other = error != EIO && (int)(call % 3) != v / 2; /* only flushes tell them apart */
        fault.for_ever = v % 2 == 1;
        fault.lost = (enum sim_lost)(v / 2);
        if (fault.for_ever && (error == EINTR || error == 0)) /* nobody is interrupted for ever */
            continue;
        bool taken = !other && (step <= 1 || draw(rng) % step == 0);
        if (!fault_wanted(call, error, taken) || (s->stop && s->violations > 0))
            continue;
        char what[64];
        (void)snprintf(what, sizeof what, "error %d%s, a failed flush %s", error,
                       fault.for_ever ? " for ever" : "", lost[v / 2]);
        run_with(s, &fault, call, what);
    }
}

void sim_search_errors(struct sim_search *s, const int *errors, size_t n, uint32_t step)
{
    uint64_t calls, allocs, rng = s->seed;
    measure(s, &calls, &allocs);
    for (uint64_t call = 1; call <= calls; call++)
        for (size_t e = 0; e < n; e++)
            fail_call(s, call, errors[e], step, &rng);
}

void sim_search_allocations(struct sim_search *s, uint32_t step)
{
    uint64_t calls, allocs, rng = s->seed;
    measure(s, &calls, &allocs);
    for (uint64_t at = 1; at <= allocs; at++) {
        if (step > 1 && draw(&rng) % step != 0)
            continue;
        struct sim_fault fault = {.alloc = at, .alloc_for_ever = at % 2 == 0};
        run_with(s, &fault, at, "allocation");
    }
}
