/* accounts.c - accounts DIR JOURNAL-ENGINE TABLE-ENGINE: a small application over a store.
 *
 * What happened is kept in a journal, what is asked is kept in a projection, each on an engine of its
 * own; "accounts /tmp/shop vlog lmdb" keeps events in Seam's log and balances in LMDB. Each run pays 5 to
 * ada and 2 to bob, and prints both balances: a second run goes on where the first ended, and so does one
 * after a kill or a power cut. */
#include <seam/store.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The store, for the projector, which reads the balance that it changes. */
struct app {
    struct seam_store *store;
};

static int balance_of(struct seam_projection *table, struct seam_slice name, long *ret, struct seam_err *err)
{
    char text[32] = "0";
    struct seam_pin pin;
    int rc = seam_projection_get(table, NULL, name, &pin, err);
    if (rc == SEAM_OK) { /* the pin's bytes end with no zero, and are lent until it is given back */
        (void)snprintf(text, sizeof text, "%.*s", (int)pin.value.len, (const char *)pin.value.ptr);
        seam_unpin(&pin);
    }
    *ret = strtol(text, NULL, 10);
    return rc == SEAM_NOTFOUND ? SEAM_OK : rc;
}

/* Makes of an event "NAME AMOUNT" the new balance. It is called more than once for an event: when the
 * store asks beforehand whether the unit fits, and when a table is built anew. So it changes nothing
 * itself, and its value is of the same length whatever the balance is. */
static int project(void *ctx, const struct seam_event *event, struct seam_emit *out, struct seam_err *err)
{
    const struct app *app = ctx;
    char text[64], value[32];
    long balance = 0;
    if (event->data.len >= sizeof text)
        return SEAM_E_INVALID;
    memcpy(text, event->data.ptr, event->data.len);
    text[event->data.len] = 0;
    char *space = strchr(text, ' ');
    if (space == NULL)
        return SEAM_E_INVALID;
    struct seam_slice name = seam_bytes(text, (size_t)(space - text));
    int rc = balance_of(seam_store_projection(app->store, "balances"), name, &balance, err);
    if (rc != SEAM_OK)
        return rc;
    int len = snprintf(value, sizeof value, "%20ld", balance + strtol(space, NULL, 10));
    struct seam_op op = {SEAM_PUT, name, seam_bytes(value, (size_t)len), {NULL, 0}};
    return seam_emit_op(out, &op, err);
}

/* One unit: in the journal at ack POWER, and in the table, before this returns. */
static int pay(struct app *app, uint32_t stream, const char *text, struct seam_err *err)
{
    struct seam_put done;
    int rc = seam_store_put_unit(app->store, stream, seam_bytes(text, strlen(text)), SEAM_ACK_POWER, NULL,
                                 &done, err);
    return rc == SEAM_OK ? done.applying : rc;
}

static int run(struct app *app, const char *dir, const char *of_journal, const char *of_table,
               struct seam_err *err)
{
    const struct seam_store_feed feed = {.name = "balances", .engine = of_table, .batch = 1,
                                         .stream = seam_bytes("payments", 8), .projector = project,
                                         .projector_ctx = app};
    const struct seam_store_options options = {.mode = SEAM_OPEN_CREATE, .journal_engine = of_journal,
                                               .projections = &feed, .n = 1};
    static const char *const names[] = {"ada", "bob"};
    uint32_t stream;
    int rc = seam_store_open(dir, &options, &app->store, err);
    if (rc != SEAM_OK)
        return rc;
    rc = seam_journal_stream(seam_store_journal(app->store), feed.stream, true, &stream, err);
    if (rc == SEAM_OK)
        rc = pay(app, stream, "ada 5", err);
    if (rc == SEAM_OK)
        rc = pay(app, stream, "bob 2", err);
    for (int i = 0; i < 2 && rc == SEAM_OK; i++) {
        long balance = 0;
        rc = balance_of(seam_store_projection(app->store, "balances"),
                        seam_bytes(names[i], strlen(names[i])), &balance, err);
        if (rc == SEAM_OK)
            printf("%s %ld\n", names[i], balance);
    }
    int closed = seam_store_close(app->store, rc == SEAM_OK ? err : NULL);
    return rc == SEAM_OK ? closed : rc;
}

int main(int argc, char **argv)
{
    struct app app = {NULL};
    struct seam_err err = {.text = ""};
    if (argc != 4) {
        fprintf(stderr, "usage: accounts DIR JOURNAL-ENGINE TABLE-ENGINE\n");
        return 2;
    }
    int rc = run(&app, argv[1], argv[2], argv[3], &err);
    if (rc != SEAM_OK)
        fprintf(stderr, "accounts: %s: %s\n", seam_code_name(rc), err.text);
    return rc == SEAM_OK ? 0 : 1;
}
