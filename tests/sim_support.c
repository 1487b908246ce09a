/* sim_support.c - see sim_support.h. */
#include "sim_support.h"

bool sim_is_unit(uint64_t sequence)
{
    return sequence % 9 == 4;
}

size_t sim_payload(uint64_t sequence, char mark, unsigned char buf[static SIM_PAYLOAD])
{
    size_t len = (size_t)(sequence * 131 % 900);
    memcpy(buf, &sequence, 8);
    buf[8] = (unsigned char)mark;
    memset(buf + 9, (int)(sequence & 0xff), len);
    return len + 9;
}

static int put(struct seam_emit *out, const char *key, const struct seam_event *event,
               struct seam_err *err)
{
    struct seam_op op = {SEAM_PUT, seam_bytes(key, strlen(key)),
                         seam_bytes(event->data.ptr, 9), {NULL, 0}};
    return seam_emit_op(out, &op, err);
}

int sim_project(void *ctx, const struct seam_event *event, struct seam_emit *out, struct seam_err *err)
{
    char key[16];
    int rc = SEAM_OK;
    (void)ctx;
    if (!sim_is_unit(event->sequence)) {
        (void)snprintf(key, sizeof key, "k%u", (unsigned)(event->sequence % SIM_SLOTS));
        return put(out, key, event, err);
    }
    for (unsigned i = 0; i < SIM_UNIT && rc == SEAM_OK; i++) {
        (void)snprintf(key, sizeof key, "u%02u", i);
        rc = put(out, key, event, err);
    }
    return rc;
}

void sim_check_events(struct seam_journal *j, uint32_t stream, uint64_t first, uint64_t last, bool again,
                      char *marks, char text[static 256])
{
    unsigned char want[SIM_PAYLOAD];
    struct seam_journal_reader *r = NULL;
    struct seam_event event;
    struct seam_err err;
    if (seam_journal_reader_open(j, stream, 0, NULL, &r, &err) != SEAM_OK) {
        (void)snprintf(text, 256, "reader: %.200s", err.text);
        return;
    }
    for (uint64_t i = first; i <= last && text[0] == '\0'; i++) {
        size_t len = sim_payload(i, 'a', want);
        marks[i] = 'a';
        if (seam_journal_reader_next(r, &event, &err) != SEAM_OK)
            (void)snprintf(text, 256, "event %llu: %.200s", (unsigned long long)i, err.text);
        else if (again && event.data.len == len && ((const char *)event.data.ptr)[8] == 'b')
            marks[i] = 'b';
        else if (event.data.len != len || memcmp(event.data.ptr, want, len) != 0)
            (void)snprintf(text, 256, "event %llu is another", (unsigned long long)i);
    }
    seam_journal_reader_close(r);
}

/* The newest event up to `at` that was put at the key; 0: none. */
static uint64_t owner(const char *key, uint64_t at)
{
    for (uint64_t i = at; i > 0; i--)
        if (key[0] == 'u' ? sim_is_unit(i) : !sim_is_unit(i) && i % SIM_SLOTS == (uint64_t)(key[1] - '0'))
            return i;
    return 0;
}

static void check_key(struct seam_projection *t, struct seam_view *view, const char *key, uint64_t at,
                      const char *marks, char text[static 256])
{
    char mark = 0;
    struct seam_pin pin = {0};
    struct seam_err err;
    uint64_t got = 0, want = owner(key, at);
    int rc = seam_projection_get(t, view, seam_bytes(key, strlen(key)), &pin, &err);
    if (rc == SEAM_OK && pin.value.len == 9) {
        memcpy(&got, pin.value.ptr, 8);
        mark = ((const char *)pin.value.ptr)[8];
    }
    if (rc != SEAM_OK && rc != SEAM_NOTFOUND)
        (void)snprintf(text, 256, "key %s: %.200s", key, err.text);
    else if (got != want || (want > 0 && mark != marks[want]))
        (void)snprintf(text, 256, "key %s at %llu: of event %llu, not %llu", key,
                       (unsigned long long)at, (unsigned long long)got, (unsigned long long)want);
    seam_unpin(&pin);
}

void sim_check_table(struct seam_projection *t, const char *marks, char text[static 256])
{
    struct seam_view *view = NULL;
    struct seam_position at;
    struct seam_err err;
    char key[16];
    if (seam_view_open(t, &view, &err) != SEAM_OK) {
        (void)snprintf(text, 256, "view: %.200s", err.text);
        return;
    }
    seam_view_position(view, &at);
    if (at.parts > 0)
        (void)snprintf(text, 256, "a view shows part %u of %u", at.part, at.parts);
    for (unsigned i = 0; i < SIM_SLOTS && text[0] == '\0'; i++) {
        (void)snprintf(key, sizeof key, "k%u", i);
        check_key(t, view, key, at.sequence, marks, text);
    }
    for (unsigned i = 0; i < SIM_UNIT && text[0] == '\0'; i++) {
        (void)snprintf(key, sizeof key, "u%02u", i);
        check_key(t, view, key, at.sequence, marks, text);
    }
    seam_view_close(view);
}

void sim_report(const struct sim_search *s)
{
    print_message("%llu calls, %llu states, %llu distinct, %llu in recovery\n",
                  (unsigned long long)s->calls, (unsigned long long)s->states,
                  (unsigned long long)s->distinct, (unsigned long long)s->nested_states);
    if (s->violations > 0)
        print_message("%llu violations; the first: %s\n", (unsigned long long)s->violations, s->first);
    assert_int_equal(s->violations, 0);
}
