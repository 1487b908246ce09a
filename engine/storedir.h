/* storedir.h - the directory of one store: DIR/STORE, DIR/LOCK, DIR/EPOCH, DIR/engine/.
 *
 * Private to engine/. Relies on the platform table only. What it keeps true:
 *   - a store is there when DIR/STORE is there, and DIR/STORE is the last thing a creation makes;
 *   - one writer, or any number of readers, hold DIR/LOCK from open to close;
 *   - an open that fails leaves the directory as it was, but for what an interrupted creation left;
 *   - the epoch grows at every open that writes, and is on the device before the open ends.
 *
 * A writer's open goes: seam_storedir_open; if fresh, the engine makes itself in
 * seam_storedir_dir and flushes it, then seam_storedir_made; the engine opens and rewrites what was
 * not known durable; seam_storedir_barrier. Closing a fresh one before its
 * barrier undoes the creation: an open that fails has made no store. */
#ifndef SEAM_ENGINE_STOREDIR_H
#define SEAM_ENGINE_STOREDIR_H

#include <seam/backend.h>

struct seam_storedir;

/* Finds or begins the store in `dir`, of this engine and format, and locks it. */
int seam_storedir_open(const struct seam_platform *os, const char *dir, enum seam_open_mode mode,
                       const char *engine, uint32_t format, struct seam_storedir **ret,
                       struct seam_err *err);
/* True until seam_storedir_made: the engine has to be created. */
bool seam_storedir_fresh(const struct seam_storedir *sd);
/* The engine's directory, by descriptor and as a path: engine.new while fresh, engine afterwards.
 * The descriptor stays the same; each path stays valid until close. An engine that keeps paths has
 * to be closed before seam_storedir_made and opened again after it. */
int seam_storedir_dir(const struct seam_storedir *sd);
int seam_storedir_top(const struct seam_storedir *sd); /* DIR itself, until close */
const char *seam_storedir_path(const struct seam_storedir *sd);
/* Turns what the engine made into a store: engine.new flushed and renamed, EPOCH and STORE written,
 * flushed and renamed, DIR and its parent flushed. The files in engine.new are the engine's to
 * flush. When not fresh: nothing. After an error only close is allowed; it undoes the creation. */
int seam_storedir_made(struct seam_storedir *sd, struct seam_err *err);
/* Writes and flushes the epoch of this open. Read-only: nothing. */
int seam_storedir_barrier(struct seam_storedir *sd, struct seam_err *err);
/* The epoch of this open: the stored one, and for writers one that is higher than any before. */
uint64_t seam_storedir_epoch(const struct seam_storedir *sd);
const uint8_t *seam_storedir_uuid(const struct seam_storedir *sd); /* 16 bytes, until close */
/* In a forked child: closes the descriptor of the lock that it inherited. The parent keeps the lock. */
void seam_storedir_forget(struct seam_storedir *sd);
/* Unlocks and frees. NULL is allowed. */
void seam_storedir_close(struct seam_storedir *sd);

#endif
