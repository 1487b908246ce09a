/* sim_vlog_work.c - see sim_vlog_work.h. */
#include "sim_vlog_work.h"

#include "support.h"

/* LARGE is longer than the buffer through which a store of little memory writes. */
enum { KEYS = 16, LARGE = 300000, LITTLE = 8 << 20 };

static unsigned char filler[LARGE];

/* ---- what commit i does ---------------------------------------------------------------------- */

enum what { PUTS, DROPS, SWEEPS };

static enum what what_of(uint64_t i)
{
    return i % 29 == 17 ? SWEEPS : i % 11 == 5 ? DROPS : PUTS;
}

static size_t len_of(const struct vlog_job *job, uint64_t i)
{
    static const size_t lens[] = {10, 700, 0, 3000, 40, 5000, 90};
    return job->large && i % 4 == 2 ? LARGE : lens[i % 7];
}

static unsigned key_of(uint64_t i)
{
    return (unsigned)(i * 7 % KEYS);
}

static int commit(const struct vlog_job *job, struct seam_db *db, uint64_t i, uint32_t ack,
                  struct seam_err *err)
{
    char key[2] = {'k', (char)('A' + key_of(i))}, end[2] = {'k', (char)('A' + key_of(i) + 3)};
    struct seam_op ops[2] = {op_put(LIT("n"), seam_bytes(&i, sizeof i))};
    if (what_of(i) == SWEEPS)
        ops[1] = op_range(seam_bytes(key, 2), seam_bytes(end, 2));
    else if (what_of(i) == DROPS)
        ops[1] = op_delete(seam_bytes(key, 2));
    else
        ops[1] = op_put2(seam_bytes(key, 2), seam_bytes(&i, sizeof i), seam_bytes(filler, len_of(job, i)));
    return seam_write(db, ops, 2, ack, NULL, err);
}

/* The commit whose value key k has after the first j; 0: none. */
static uint64_t writer_of(unsigned k, uint64_t j)
{
    for (uint64_t i = j; i > 0; i--) {
        if (what_of(i) == SWEEPS && key_of(i) <= k && k < key_of(i) + 3)
            return 0;
        if (what_of(i) != SWEEPS && key_of(i) == k)
            return what_of(i) == DROPS ? 0 : i;
    }
    return 0;
}

/* ---- work ------------------------------------------------------------------------------------ */

static bool refused(int rc)
{
    return rc == SEAM_E_NOMEM || rc == SEAM_E_NO_SPACE || rc == SEAM_E_BUSY || rc == SEAM_E_IO ||
           rc == SEAM_E_READ_ONLY;
}

static void work_on(struct vlog_job *job, struct seam_db *db, uint64_t last, char text[static 256])
{
    struct seam_err err;
    while (job->begun < last && text[0] == '\0') {
        uint64_t i = job->begun + 1;
        uint32_t ack = i % 3 == 0 ? SEAM_ACK_PROCESS : SEAM_ACK_POWER;
        job->begun = i;
        int rc = commit(job, db, i, ack, &err);
        if (rc == SEAM_OK) {
            job->process = i;
            job->power = ack == SEAM_ACK_POWER ? i : job->power;
            continue;
        }
        if (!job->faults || (rc != SEAM_E_UNKNOWN && !refused(rc)))
            (void)snprintf(text, 256, "commit %llu: %.200s", (unsigned long long)i, err.text);
        job->begun = refused(rc) ? i - 1 : i;
        if (rc == SEAM_E_UNKNOWN) /* whatever a kill would have kept may be gone with it */
            job->process = job->power;
        return;
    }
}

void vlog_job_work(void *arg, const struct seam_platform *os, char text[static 256])
{
    struct vlog_job *job = arg;
    struct seam_options o = {.mode = SEAM_OPEN_CREATE, .platform = os, .stall_ms = UINT32_MAX,
                             .memory = job->large ? LITTLE : 0};
    job->begun = job->power = job->process = 0;
    while (job->begun < job->commits && text[0] == '\0') {
        struct seam_db *db = NULL;
        struct seam_err err;
        uint64_t last = job->begun + job->reopen;
        int rc = seam_open(job->spec, "/db", &o, &db, &err);
        if (rc != SEAM_OK) {
            if (!job->faults)
                (void)snprintf(text, 256, "open: %.200s", err.text);
            return;
        }
        work_on(job, db, last < job->commits ? last : job->commits, text);
        bool all = job->begun == job->process && job->begun > last - job->reopen;
        rc = seam_close(db, &err);
        if (rc == SEAM_OK && all)
            job->power = job->process;
        if (rc != SEAM_OK) /* its last flush failed, and may have taken what a kill would keep */
            job->process = job->power;
        if (rc != SEAM_OK && !job->faults)
            (void)snprintf(text, 256, "close: %.200s", err.text);
        if (rc != SEAM_OK || !all)
            return;
    }
}

uint64_t vlog_job_promised(void *arg)
{
    const struct vlog_job *job = arg;
    return job->begun * 1000003 + job->power * 1009 + job->process;
}

/* ---- check ----------------------------------------------------------------------------------- */

static uint64_t count_of(struct seam_db *db, char text[static 256])
{
    struct seam_pin pin = {0};
    struct seam_err err;
    uint64_t j = 0;
    int rc = seam_get(db, NULL, LIT("n"), &pin, &err);
    if (rc == SEAM_OK && pin.value.len == sizeof j)
        memcpy(&j, pin.value.ptr, sizeof j);
    else if (rc != SEAM_NOTFOUND)
        (void)snprintf(text, 256, "the count: %.200s", rc == SEAM_OK ? "wrong length" : err.text);
    seam_unpin(&pin);
    return j;
}

static void check_key(const struct vlog_job *job, struct seam_db *db, unsigned k, uint64_t j,
                      char text[static 256])
{
    char key[2] = {'k', (char)('A' + k)};
    uint64_t want = writer_of(k, j), got = 0;
    struct seam_pin pin = {0};
    struct seam_err err;
    int rc = seam_get(db, NULL, seam_bytes(key, 2), &pin, &err);
    size_t len = want ? len_of(job, want) : 0;
    if (rc == SEAM_OK && pin.value.len >= sizeof got)
        memcpy(&got, pin.value.ptr, sizeof got);
    if (rc != SEAM_OK && rc != SEAM_NOTFOUND)
        (void)snprintf(text, 256, "key %u: %.200s", k, err.text);
    else if (got != want || (want && (pin.value.len != sizeof got + len ||
                                      memcmp((const char *)pin.value.ptr + sizeof got, filler, len) != 0)))
        (void)snprintf(text, 256, "key %u after %llu commits: of commit %llu, not %llu", k,
                       (unsigned long long)j, (unsigned long long)got, (unsigned long long)want);
    seam_unpin(&pin);
}

/* seen NULL: db is read-only. */
static void check_db(const struct vlog_job *job, struct seam_db *db, bool power, uint64_t *seen,
                     char text[static 256])
{
    uint64_t j = count_of(db, text), least = power ? job->power : job->process;
    struct seam_err err;
    if (text[0])
        return;
    if (j < least || j > job->begun)
        (void)snprintf(text, 256, "%llu commits, not %llu to %llu", (unsigned long long)j,
                       (unsigned long long)least, (unsigned long long)job->begun);
    if (seen && *seen != 0 && *seen != j + 1)
        (void)snprintf(text, 256, "%llu commits after %llu had been seen", (unsigned long long)j,
                       (unsigned long long)(*seen - 1));
    for (unsigned k = 0; k < KEYS && text[0] == '\0'; k++)
        check_key(job, db, k, j, text);
    if (!seen)
        return;
    *seen = j + 1;
    struct seam_op op = op_put(LIT("after"), LIT("the crash"));
    if (text[0] == '\0' && seam_write(db, &op, 1, SEAM_ACK_POWER, NULL, &err) != SEAM_OK)
        (void)snprintf(text, 256, "a commit after recovery: %.200s", err.text);
}

/* Opens, looks, closes. A read-only look does not settle what a later one shows. */
static void look(const struct vlog_job *job, const struct seam_platform *os, enum seam_open_mode mode,
                 bool power, uint64_t *seen, char text[static 256])
{
    struct seam_options o = {.mode = mode, .platform = os, .stall_ms = UINT32_MAX,
                             .memory = job->large ? LITTLE : 0};
    struct seam_db *db = NULL;
    struct seam_err err;
    int rc = seam_open(job->spec, "/db", &o, &db, &err);
    if (rc != SEAM_OK) {
        (void)snprintf(text, 256, "open: %.200s", err.text);
        return;
    }
    check_db(job, db, power, seen, text);
    rc = seam_close(db, &err);
    if (rc != SEAM_OK && text[0] == '\0')
        (void)snprintf(text, 256, "close: %.200s", err.text);
}

void vlog_job_check(void *arg, const struct seam_platform *os, bool power, uint64_t *seen,
                    char text[static 256])
{
    const struct vlog_job *job = arg;
    /* With nothing promised the creation may not have come far enough to be a store. */
    bool must = job->power > 0 || (!power && job->process > 0);
    if (must)
        look(job, os, SEAM_OPEN_READ_ONLY, power, NULL, text);
    if (text[0] == '\0')
        look(job, os, must ? SEAM_OPEN_EXISTING : SEAM_OPEN_CREATE, power, seen, text);
}

void vlog_job_init(void)
{
    support_fill(filler, sizeof filler, 5);
}
