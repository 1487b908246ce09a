/* ask.c - how many keys an event's range deletes would take away: what classification cannot know.
 *
 * Relies on a projector giving the same ops for the same event each time. Keeps true: nothing is
 * written; a count stops right behind the limit, however much lies in the range. */
#include "projection_int.h"

/* Adds the keys in [op->key, op->head) to *keys, until they are over the limit. */
static int count(struct seam_projection *p, const struct seam_op *op, uint64_t *keys,
                 struct seam_err *err)
{
    struct seam_slice none = {NULL, 0};
    struct seam_cursor *cursor;
    int rc = seam_cursor_open(p->db, NULL, op->key, op->head, &cursor, err);
    if (rc != SEAM_OK)
        return rc;
    while (*keys <= p->limits.range_keys &&
           (rc = seam_cursor_move(cursor, SEAM_NEXT, none, NULL, err)) == SEAM_OK)
        ++*keys;
    seam_cursor_close(cursor);
    return rc == SEAM_NOTFOUND ? SEAM_OK : rc;
}

int seam_p_ranges(struct seam_projection *p, const struct seam_event *event, bool *ret_any,
                  uint64_t *ret_keys, struct seam_err *err)
{
    struct seam_emit *out = &p->emit;
    uint64_t keys = 0;
    seam_p_turn_take(&p->writing);
    seam_p_emit_reset(out);
    int rc = p->projector(p->projector_ctx, event, out, err);
    bool any = out->ranges;
    for (size_t i = 1; i < out->n && rc == SEAM_OK && ret_keys != NULL; i++)
        if (out->ops[i].kind == SEAM_DELETE_RANGE)
            rc = count(p, &out->ops[i], &keys, err);
    seam_p_emit_reset(out);
    seam_p_turn_give(&p->writing);
    if (rc != SEAM_OK)
        return rc;
    *ret_any = any;
    if (ret_keys != NULL)
        *ret_keys = keys;
    return SEAM_OK;
}
