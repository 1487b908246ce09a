/* disk.c - the simulated disk: images, names, pieces, flushes. disk.h tells what holds. */
#include "disk.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *sim_more(void *array, size_t n, size_t *cap, size_t size)
{
    if (n < *cap)
        return array;
    *cap = *cap ? *cap * 2 : 16;
    array = realloc(array, *cap * size);
    assert(array);
    return array;
}

uint64_t sim_draw(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static char *copy_text(const char *text)
{
    size_t len = strlen(text) + 1;
    char *copy = malloc(len);
    assert(copy);
    memcpy(copy, text, len);
    return copy;
}

/* ---- images ---------------------------------------------------------------------------------- */

void sim_image_resize(struct sim_image *image, uint64_t len)
{
    if (len > image->cap) {
        uint64_t cap = image->cap ? image->cap : 4096;
        while (cap < len)
            cap *= 2;
        image->bytes = realloc(image->bytes, cap);
        assert(image->bytes);
        image->cap = cap;
    }
    if (len > image->len)
        memset(image->bytes + image->len, 0, len - image->len);
    image->len = len;
}

void sim_image_copy(struct sim_image *to, const struct sim_image *from)
{
    memset(to, 0, sizeof *to);
    if (from->len == 0)
        return;
    to->bytes = malloc(from->len);
    assert(to->bytes);
    memcpy(to->bytes, from->bytes, from->len);
    to->len = to->cap = from->len;
}

void sim_piece_apply(struct sim_image *image, const struct sim_piece *p)
{
    if (p->cut) {
        sim_image_resize(image, p->len);
        return;
    }
    uint64_t at = p->sector * SIM_SECTOR;
    if (image->len < at + p->len)
        sim_image_resize(image, at + p->len);
    memcpy(image->bytes + at, p->bytes, p->len);
}

/* ---- names ----------------------------------------------------------------------------------- */

static size_t index_of(const struct sim_names *names, const char *name)
{
    size_t i = 0;
    while (i < names->n && strcmp(names->at[i].name, name) != 0)
        i++;
    return i;
}

uint32_t sim_names_find(const struct sim_names *names, const char *name)
{
    size_t i = index_of(names, name);
    return i < names->n ? names->at[i].inode : SIM_NO_INODE;
}

static void names_set(struct sim_names *names, const char *name, uint32_t inode)
{
    size_t i = index_of(names, name);
    if (i < names->n) {
        names->at[i].inode = inode;
        return;
    }
    names->at = sim_more(names->at, names->n, &names->cap, sizeof *names->at);
    names->at[names->n].name = copy_text(name);
    names->at[names->n++].inode = inode;
}

static void names_drop(struct sim_names *names, const char *name)
{
    size_t i = index_of(names, name);
    if (i == names->n)
        return;
    free(names->at[i].name);
    names->n--;
    memmove(&names->at[i], &names->at[i + 1], (names->n - i) * sizeof *names->at);
}

static void names_free(struct sim_names *names)
{
    for (size_t i = 0; i < names->n; i++)
        free(names->at[i].name);
    free(names->at);
}

void sim_names_copy(struct sim_names *to, const struct sim_names *from)
{
    memset(to, 0, sizeof *to);
    for (size_t i = 0; i < from->n; i++)
        names_set(to, from->at[i].name, from->at[i].inode);
}

static struct sim_names *names_of(struct sim *sim, uint32_t dir, bool durable)
{
    return durable ? &sim->inodes[dir].durable_names : &sim->inodes[dir].names;
}

void sim_change_apply(struct sim *sim, const struct sim_change *c, bool durable)
{
    if (c->to) {
        /* Without the name that it moves (a change that was lost) there is nothing to move. */
        if (sim_names_find(names_of(sim, c->dir, durable), c->name) != c->inode)
            return;
        names_drop(names_of(sim, c->dir, durable), c->name);
        names_set(names_of(sim, c->to_dir, durable), c->to, c->inode);
    } else if (c->inode == SIM_NO_INODE) {
        names_drop(names_of(sim, c->dir, durable), c->name);
    } else {
        names_set(names_of(sim, c->dir, durable), c->name, c->inode);
    }
}

uint32_t sim_find(const struct sim *sim, const char *path)
{
    uint32_t inode = 0;
    char part[256];
    while (*path) {
        while (*path == '/')
            path++;
        size_t len = strcspn(path, "/");
        if (len == 0)
            break;
        if (len >= sizeof part || !sim->inodes[inode].dir)
            return SIM_NO_INODE;
        memcpy(part, path, len);
        part[len] = '\0';
        path += len;
        if (strcmp(part, ".") == 0)
            continue;
        inode = sim_names_find(&sim->inodes[inode].names, part);
        if (inode == SIM_NO_INODE)
            return inode;
    }
    return inode;
}

/* ---- flushes --------------------------------------------------------------------------------- */

void sim_piece_free(struct sim_piece *p)
{
    free(p->bytes);
}

void sim_change_free(struct sim_change *c)
{
    free(c->name);
    free(c->to);
}

void sim_flush_file(struct sim *sim, uint32_t inode)
{
    size_t kept = 0;
    for (size_t i = 0; i < sim->piece_count; i++) {
        struct sim_piece *p = &sim->pieces[i];
        if (p->inode == inode) {
            sim_piece_apply(&sim->inodes[inode].durable, p);
            sim_piece_free(p);
        } else {
            sim->pieces[kept++] = *p;
        }
    }
    sim->piece_count = kept;
    for (size_t i = 0; i < sim->change_count; i++)
        sim->changes[i].ordered = true;
}

void sim_flush_dir(struct sim *sim, uint32_t inode)
{
    size_t kept = 0;
    for (size_t i = 0; i < sim->change_count; i++) {
        struct sim_change *c = &sim->changes[i];
        if (c->dir == inode || c->to_dir == inode) {
            sim_change_apply(sim, c, true);
            sim_change_free(c);
        } else {
            sim->changes[kept++] = *c;
        }
    }
    sim->change_count = kept;
}

/* ---- the disk -------------------------------------------------------------------------------- */

uint32_t sim_inode_new(struct sim *sim, bool dir)
{
    sim->inodes = sim_more(sim->inodes, sim->inode_count, &sim->inode_cap, sizeof *sim->inodes);
    memset(&sim->inodes[sim->inode_count], 0, sizeof *sim->inodes);
    sim->inodes[sim->inode_count].dir = dir;
    return (uint32_t)sim->inode_count++;
}

struct sim *sim_new(uint64_t seed)
{
    struct sim *sim = calloc(1, sizeof *sim);
    assert(sim);
    sim->rng = seed;
    sim->clock = UINT64_C(1700000000000000000);
    sim->space = UINT64_MAX;
    sim_table_init(sim);
    (void)sim_inode_new(sim, true);
    return sim;
}

void sim_free(struct sim *sim)
{
    if (!sim)
        return;
    for (size_t i = 0; i < sim->inode_count; i++) {
        free(sim->inodes[i].cache.bytes);
        free(sim->inodes[i].durable.bytes);
        names_free(&sim->inodes[i].names);
        names_free(&sim->inodes[i].durable_names);
    }
    for (size_t i = 0; i < sim->piece_count; i++)
        sim_piece_free(&sim->pieces[i]);
    for (size_t i = 0; i < sim->change_count; i++)
        sim_change_free(&sim->changes[i]);
    free(sim->inodes);
    free(sim->pieces);
    free(sim->changes);
    free(sim);
}

unsigned char *sim_bytes(struct sim *sim, const char *path, uint64_t *ret_len)
{
    uint32_t inode = sim_find(sim, path);
    if (inode == SIM_NO_INODE || sim->inodes[inode].dir)
        return NULL;
    assert(sim->piece_count == 0);
    *ret_len = sim->inodes[inode].cache.len;
    return sim->inodes[inode].cache.bytes;
}

void sim_cut(struct sim *sim, const char *path, uint64_t len)
{
    uint32_t inode = sim_find(sim, path);
    assert(inode != SIM_NO_INODE);
    sim_image_resize(&sim->inodes[inode].cache, len);
    sim_image_resize(&sim->inodes[inode].durable, len);
}

/* The directory that has the inode, and under which name; the root has none above it. */
static const char *name_of(const struct sim *sim, uint32_t inode, uint32_t *ret_dir)
{
    for (uint32_t d = 0; d < sim->inode_count; d++)
        for (size_t i = 0; i < sim->inodes[d].names.n; i++)
            if (sim->inodes[d].names.at[i].inode == inode) {
                *ret_dir = d;
                return sim->inodes[d].names.at[i].name;
            }
    return NULL;
}

uint32_t sim_parent(const struct sim *sim, uint32_t inode)
{
    uint32_t dir = 0;
    (void)name_of(sim, inode, &dir);
    return dir;
}

static void path_of(const struct sim *sim, uint32_t inode, char *buf, size_t cap)
{
    const char *name;
    buf[0] = '\0';
    while ((name = name_of(sim, inode, &inode)) != NULL) {
        char below[512];
        (void)snprintf(below, sizeof below, "%.500s", buf);
        (void)snprintf(buf, cap, "/%.200s%.300s", name, below);
    }
}

bool sim_path(const struct sim *sim, size_t i, char *buf, size_t cap)
{
    for (uint32_t inode = 0; inode < sim->inode_count; inode++) {
        uint32_t dir;
        if (sim->inodes[inode].dir || !name_of(sim, inode, &dir) || i-- > 0)
            continue;
        path_of(sim, inode, buf, cap);
        return true;
    }
    return false;
}
