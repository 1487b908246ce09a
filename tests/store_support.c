/* store_support.c - see store_support.h. */
#include "store_support.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

const char *site_journal, *site_near;

bool is_mem(const char *engine)
{
    return strcmp(engine, "mem") == 0;
}

void site_new(struct site *s)
{
    memset(s, 0, sizeof(*s));
    (void)snprintf(s->top, sizeof(s->top), "seam-test-XXXXXX");
    assert_non_null(mkdtemp(s->top));
    (void)snprintf(s->dir, sizeof(s->dir), "%s/store", s->top);
    (void)snprintf(s->far, sizeof(s->far), "%s/far", s->top);
    s->journal_engine = site_journal;
    s->near_engine = strcmp(site_near, "same") == 0 ? NULL : site_near;
    s->far_engine = s->near_engine != NULL ? s->near_engine : s->journal_engine;
    s->projections[0] = (struct seam_store_feed){
        .name = "near", .engine = s->near_engine, .stream = text("s"), .projector = project};
    s->projections[1] = (struct seam_store_feed){.name = "far",
                                                       .engine = s->far_engine,
                                                       .dir = s->far,
                                                       .stream = text("s"),
                                                       .projector = project};
    s->options.journal_engine = s->journal_engine;
    s->options.projections = s->projections;
    s->options.n = 2;
}

void site_remove(struct site *s)
{
    remove_tree(s->top);
}

struct seam_store *site_open(struct site *s, enum seam_open_mode mode)
{
    struct seam_err err;
    struct seam_store *store = NULL;
    s->options.mode = mode;
    ok(seam_store_open(s->dir, &s->options, &store, &err), err);
    return store;
}

void site_close(struct seam_store *store)
{
    struct seam_err err;
    ok(seam_store_close(store, &err), err);
}

void site_refused(struct site *s, enum seam_open_mode mode, int code, const char *says)
{
    struct seam_err err = {.text = ""};
    struct seam_store *store = NULL;
    s->options.mode = mode;
    int rc = seam_store_open(s->dir, &s->options, &store, &err);
    if (rc != code || strstr(err.text, says) == NULL)
        print_message("%s, \"%s\", not %s with \"%s\"\n", seam_code_name(rc), err.text,
                      seam_code_name(code), says);
    assert_int_equal(rc, code);
    assert_int_equal(err.code, code);
    assert_non_null(strstr(err.text, says));
    assert_null(store);
}

void site_append(struct seam_store *store, const char *key, const char *value)
{
    char event[256];
    struct seam_err err;
    struct seam_journal *j = seam_store_journal(store);
    uint32_t stream = 0;
    (void)snprintf(event, sizeof(event), "+%s=%s", key, value);
    struct seam_slice payload = text(event);
    ok(seam_journal_stream(j, text("s"), false, &stream, &err), err);
    ok(seam_journal_append(j, stream, &payload, 1, best_ack(seam_journal_db(j)), NULL, &err), err);
}

char *site_path(const struct site *s, const char *name, char *buf)
{
    (void)snprintf(buf, 128, "%s/%s", s->dir, name);
    return buf;
}

bool site_has(const struct site *s, const char *name)
{
    char path[128];
    struct stat st;
    return lstat(site_path(s, name, path), &st) == 0;
}
