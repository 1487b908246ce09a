/* disk.h - the simulated disk's parts, shared by its files.
 *
 * Keeps true: an inode's cache is its durable bytes with all its pieces applied, and so for names;
 * pieces and changes are in the order of the calls that made them. Memory that runs out ends the
 * test, by assert. */
#ifndef SEAM_VERIFY_SIM_DISK_H
#define SEAM_VERIFY_SIM_DISK_H

#include "sim.h"

#define SIM_FDS 256
#define SIM_NO_INODE UINT32_MAX

struct sim_image { /* of a file */
    unsigned char *bytes;
    uint64_t len, cap;
};

struct sim_name {
    char *name;
    uint32_t inode;
};

struct sim_names { /* of a directory */
    struct sim_name *at;
    size_t n, cap;
};

struct sim_inode {
    bool dir;
    struct sim_image cache, durable;
    struct sim_names names, durable_names;
    uint32_t shared, exclusive; /* locks held */
};

struct sim_piece {
    uint32_t inode;
    bool cut;           /* the length becomes `len`; else a sector */
    uint64_t sector, len;
    unsigned char *bytes; /* len of them, at most a sector */
};

struct sim_change { /* of names: name goes away, name comes, or moves, or takes another's place */
    uint32_t dir, to_dir, inode; /* inode SIM_NO_INODE: goes away */
    char *name, *to;             /* to: NULL but for a rename */
    bool ordered;                /* some file was flushed since */
};

struct sim_fd {
    bool used, write, direct, dsync, shared, exclusive;
    uint32_t inode;
};

struct sim {
    struct seam_platform table;
    uint64_t rng, clock;
    uint64_t calls, all_calls, allocs, live, space;
    struct sim_fault fault;
    sim_hook hook;
    void *hook_arg;
    struct sim_inode *inodes; /* [0] is the root; none goes away while the disk is there */
    size_t inode_count, inode_cap;
    struct sim_piece *pieces;
    size_t piece_count, piece_cap;
    struct sim_change *changes;
    size_t change_count, change_cap;
    struct sim_fd fds[SIM_FDS];
};

void *sim_more(void *array, size_t n, size_t *cap, size_t size);
uint64_t sim_draw(uint64_t *state);
void sim_image_resize(struct sim_image *image, uint64_t len);
void sim_image_copy(struct sim_image *to, const struct sim_image *from);
void sim_names_copy(struct sim_names *to, const struct sim_names *from);
uint32_t sim_names_find(const struct sim_names *names, const char *name);
void sim_piece_apply(struct sim_image *image, const struct sim_piece *p);
/* To durable names, or to the cache's. */
void sim_change_apply(struct sim *sim, const struct sim_change *c, bool durable);
uint32_t sim_inode_new(struct sim *sim, bool dir);
void sim_piece_free(struct sim_piece *p);
void sim_change_free(struct sim_change *c);
/* Pieces of the inode become durable; with `changes`, changes of the directory's names. */
void sim_flush_file(struct sim *sim, uint32_t inode);
void sim_flush_dir(struct sim *sim, uint32_t inode);
void sim_table_init(struct sim *sim);
/* The inode of an absolute path, of the cache's names. */
uint32_t sim_find(const struct sim *sim, const char *path);
uint32_t sim_parent(const struct sim *sim, uint32_t inode); /* the root's is the root */

#endif
