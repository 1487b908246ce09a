/* recover.h - what recover.c (frames) and chain.c (files) share. */
#ifndef VLOG_RECOVER_H
#define VLOG_RECOVER_H

#include "log.h"

/* A part of one segment in memory; moves as it is asked. */
struct vlog_window {
    struct vlog *v;
    struct vlog_segment *segment;
    unsigned char *bytes;
    uint64_t from, len, cap, end;
};

void vlog_window_set(struct vlog_window *w, struct vlog_segment *s, uint64_t end);
/* at + len is at most w->end. *ret is valid until the next call. */
int vlog_window_get(struct vlog_window *w, uint64_t at, uint64_t len, const unsigned char **ret,
                    struct seam_err *err);
/* The frame at `at`. *ret_good: it verifies, its large values too if `values`. Fails only when
 * reading fails. */
int vlog_frame_read(struct vlog_window *w, uint64_t at, bool values, struct vlog_frame *ret,
                    bool *ret_good, struct seam_err *err);
/* Applies the commit at `at` of w; its bytes stand in s at lives_at. */
int vlog_frame_apply(struct vlog *v, struct vlog_window *w, struct vlog_segment *s, uint64_t at,
                     const struct vlog_frame *f, uint64_t lives_at, struct seam_err *err);
int vlog_damaged(const struct vlog_segment *s, uint64_t at, const char *what, struct seam_err *err);

/* Makes the segment after old (NULL: the first of all), with the frames of [from, to) of old
 * written anew, and seals old at from. */
int vlog_go_on(struct vlog *v, struct vlog_window *w, struct vlog_segment *old, uint64_t from,
               uint64_t to, struct seam_err *err);
/* Goes on behind `to` in the last segment, of which all before `from` is flushed, if nothing but
 * marks stands between: *ret says whether that is so. It costs a frame, not a segment. */
int vlog_stay(struct vlog *v, struct vlog_window *w, uint64_t from, uint64_t to, bool *ret,
              struct seam_err *err);
int vlog_probe(struct vlog *v, struct seam_err *err);

#endif
