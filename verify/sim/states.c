/* states.c - what the disk may hold after a crash: choices among what is pending.
 *
 * Keeps true: every state is the durable disk with a choice of pieces and of changes applied in the
 * order of the calls that made them; but for dir-strict, a change of names that is lost takes the
 * later ones with it. */
#include "disk.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define ALL_SUBSETS 10u /* so many pieces have all their subsets taken */
#define SOME 48u        /* of prefixes, of all but one, of one alone */
#define NAME_SUBSETS 5u /* so many changes of names have all their subsets taken, twice */

enum garbage { NO_GARBAGE, ZEROS, NOISE, OLD_BYTES, GARBAGE_COUNT };

/* What is kept. */
struct choice {
    unsigned char *pieces, *changes;
    enum garbage garbage;
    bool lengths; /* of now, whatever is kept */
};

const char *sim_class_text(enum sim_class class)
{
    static const char *const texts[] = {
#define SIM_CLASS_TEXT(id, text) text,
        SIM_CLASSES(SIM_CLASS_TEXT)
#undef SIM_CLASS_TEXT
    };
    return texts[class];
}

/* ---- making one ------------------------------------------------------------------------------ */

static void copy_durable(struct sim *to, const struct sim *from)
{
    while (to->inode_count < from->inode_count)
        (void)sim_inode_new(to, from->inodes[to->inode_count].dir);
    for (size_t i = 0; i < from->inode_count; i++) {
        sim_image_copy(&to->inodes[i].durable, &from->inodes[i].durable);
        sim_names_copy(&to->inodes[i].durable_names, &from->inodes[i].durable_names);
    }
}

/* A lost piece behind the flushed end of its file: the file is as long, but holds something else. */
static void spoil(struct sim *to, const struct sim *from, const struct sim_piece *p, enum garbage how)
{
    struct sim_image *image = &to->inodes[p->inode].durable;
    const struct sim_image *old = &from->inodes[(p->inode + 1) % from->inode_count].durable;
    uint64_t at = p->sector * SIM_SECTOR;
    if (p->cut || at < from->inodes[p->inode].durable.len)
        return;
    if (image->len < at + p->len)
        sim_image_resize(image, at + p->len);
    for (uint64_t i = 0; i < p->len; i++)
        image->bytes[at + i] = how == ZEROS                    ? 0
                               : how == NOISE || old->len == 0 ? (unsigned char)sim_draw(&to->rng)
                                                               : old->bytes[(at + i) % old->len];
}

/* What nobody can reach takes room only. */
static void drop_unreached(struct sim *sim)
{
    unsigned char *reached = calloc(sim->inode_count, 1);
    assert(reached);
    reached[0] = 1;
    for (bool more = true; more;) {
        more = false;
        for (size_t d = 0; d < sim->inode_count; d++)
            for (size_t k = 0; reached[d] && k < sim->inodes[d].durable_names.n; k++) {
                uint32_t inode = sim->inodes[d].durable_names.at[k].inode;
                more = more || !reached[inode];
                reached[inode] = 1;
            }
    }
    for (size_t i = 0; i < sim->inode_count; i++)
        if (!reached[i])
            sim_image_resize(&sim->inodes[i].durable, 0);
    free(reached);
}

static void mount(struct sim *sim)
{
    drop_unreached(sim);
    for (size_t i = 0; i < sim->inode_count; i++) {
        sim_image_copy(&sim->inodes[i].cache, &sim->inodes[i].durable);
        sim_names_copy(&sim->inodes[i].names, &sim->inodes[i].durable_names);
    }
}

static struct sim *build(const struct sim *from, const struct choice *c)
{
    struct sim *to = sim_new(from->rng);
    to->clock = from->clock;
    to->space = from->space;
    copy_durable(to, from);
    for (size_t i = 0; i < from->piece_count; i++) {
        const struct sim_piece *p = &from->pieces[i];
        if (c->pieces[i])
            sim_piece_apply(&to->inodes[p->inode].durable, p);
        else if (c->garbage != NO_GARBAGE)
            spoil(to, from, p, c->garbage);
    }
    for (size_t i = 0; i < from->change_count; i++)
        if (c->changes[i])
            sim_change_apply(to, &from->changes[i], true);
    for (size_t i = 0; c->lengths && i < from->inode_count; i++)
        if (!from->inodes[i].dir)
            sim_image_resize(&to->inodes[i].durable, from->inodes[i].cache.len);
    mount(to);
    return to;
}

/* ---- which there are ------------------------------------------------------------------------- */

/* The k-th inode that has pending pieces, or SIM_NO_INODE. */
static uint32_t pending_file(const struct sim *sim, uint64_t k)
{
    for (size_t i = 0; i < sim->piece_count; i++) {
        bool first = true;
        for (size_t j = 0; j < i && first; j++)
            first = sim->pieces[j].inode != sim->pieces[i].inode;
        if (first && k-- == 0)
            return sim->pieces[i].inode;
    }
    return SIM_NO_INODE;
}

static uint64_t pending_files(const struct sim *sim)
{
    uint64_t n = 0;
    while (pending_file(sim, n) != SIM_NO_INODE)
        n++;
    return n;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t reorder_count(const struct sim *sim, uint32_t random)
{
    uint64_t n = sim->piece_count;
    return n <= ALL_SUBSETS ? UINT64_C(1) << n : 3 * least(n, SOME) + random;
}

static uint64_t names_count(const struct sim *sim, uint32_t random)
{
    uint64_t n = sim->change_count;
    return 2 * (n <= NAME_SUBSETS ? UINT64_C(1) << n : 2 * least(n, SOME) + random);
}

uint64_t sim_state_count(const struct sim *sim, enum sim_class class, uint32_t random)
{
    switch (class) {
    case SIM_TORN:
        return 8 * pending_files(sim);
    case SIM_REORDER:
        return reorder_count(sim, random);
    case SIM_GARBAGE:
        return 8 * pending_files(sim) * (GARBAGE_COUNT - 1);
    case SIM_DIR_SUBSET:
        return 2 * (sim->change_count + 1);
    case SIM_DIR_STRICT:
        return names_count(sim, random);
    case SIM_CROSS_FILE:
        return 2 * pending_files(sim);
    default:
        return 1;
    }
}

/* ---- choosing -------------------------------------------------------------------------------- */

static void keep_file(const struct sim *sim, struct choice *c, uint32_t inode, size_t first_n,
                      bool others)
{
    for (size_t i = 0; i < sim->piece_count; i++) {
        if (sim->pieces[i].inode != inode)
            c->pieces[i] = others;
        else
            c->pieces[i] = first_n > 0;
        if (sim->pieces[i].inode == inode && first_n > 0)
            first_n--;
    }
}

static void choose_torn(const struct sim *sim, struct choice *c, uint64_t i)
{
    uint32_t inode = pending_file(sim, i / 8);
    size_t n = 0;
    for (size_t k = 0; k < sim->piece_count; k++)
        n += sim->pieces[k].inode == inode ? 1 : 0;
    const size_t prefix[] = {1, n / 2, n - 1, n > 2 ? n - 2 : 0};
    keep_file(sim, c, inode, prefix[i % 4], i % 8 < 4);
}

static void choose_reorder(const struct sim *sim, struct choice *c, uint64_t i)
{
    size_t n = sim->piece_count;
    if (n <= ALL_SUBSETS) {
        for (size_t k = 0; k < n; k++)
            c->pieces[k] = (unsigned char)(i >> k & 1);
        return;
    }
    uint64_t some = least(n, SOME), which = i % some * n / some, rng = i + sim->calls * 1000003;
    for (size_t k = 0; k < n; k++)
        c->pieces[k] = (i < some       ? k < which
                        : i < 2 * some ? k != which
                        : i < 3 * some ? k == which
                                       : (sim_draw(&rng) & 1) != 0)
                           ? 1
                           : 0;
}

static void choose_names(const struct sim *sim, struct choice *c, uint64_t i)
{
    for (size_t k = 0; k < sim->change_count; k++)
        c->changes[k] = k < i / 2;
    memset(c->pieces, (int)(i % 2), sim->piece_count);
}

/* Odd: with all pieces. A name may come without what was written behind it, and the reverse. */
static void choose_any_names(const struct sim *sim, struct choice *c, uint64_t i)
{
    size_t n = sim->change_count;
    uint64_t some = least(n, SOME), rng = i + sim->calls * 1000033, k = i / 2;
    memset(c->pieces, (int)(i % 2), sim->piece_count);
    for (size_t at = 0; at < n; at++) {
        bool keep;
        if (n <= NAME_SUBSETS)
            keep = (k >> at & 1) != 0;
        else if (k < 2 * some)
            keep = (at == k % some * n / some) == (k < some);
        else
            keep = (sim_draw(&rng) & 1) != 0;
        c->changes[at] = keep ? 1 : 0;
    }
}

static void choose(const struct sim *sim, enum sim_class class, uint64_t i, struct choice *c)
{
    bool pieces = class == SIM_KILL, names = class != SIM_DROP_STRICT && class != SIM_DROP_ORDERED;
    memset(c->pieces, pieces, sim->piece_count);
    memset(c->changes, names, sim->change_count);
    for (size_t k = 0; class == SIM_DROP_ORDERED && k < sim->change_count; k++)
        c->changes[k] = sim->changes[k].ordered;
    c->lengths = class == SIM_META_FIRST;
    if (class == SIM_GARBAGE) {
        c->garbage = (enum garbage)(ZEROS + i % (GARBAGE_COUNT - 1));
        choose_torn(sim, c, i / (GARBAGE_COUNT - 1));
    } else if (class == SIM_TORN) {
        choose_torn(sim, c, i);
    } else if (class == SIM_REORDER) {
        choose_reorder(sim, c, i);
    } else if (class == SIM_DIR_SUBSET) {
        choose_names(sim, c, i);
    } else if (class == SIM_DIR_STRICT) {
        choose_any_names(sim, c, i);
    } else if (class == SIM_CROSS_FILE) {
        keep_file(sim, c, pending_file(sim, i / 2), i % 2 ? SIZE_MAX : 0, i % 2 == 0);
    }
}

struct sim *sim_state(const struct sim *sim, enum sim_class class, uint64_t i)
{
    struct choice c;
    memset(&c, 0, sizeof c);
    c.pieces = calloc(sim->piece_count + 1, 1);
    c.changes = calloc(sim->change_count + 1, 1);
    assert(c.pieces && c.changes);
    choose(sim, class, i, &c);
    struct sim *state = build(sim, &c);
    free(c.pieces);
    free(c.changes);
    return state;
}

struct sim *sim_copy(const struct sim *sim)
{
    return sim_state(sim, SIM_KILL, 0);
}

/* ---- hashes ---------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t h, const void *bytes, uint64_t len)
{
    const unsigned char *p = bytes;
    for (; len >= 8; len -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        h = (h ^ word) * UINT64_C(0x9fb21c651e98df25);
        h ^= h >> 29;
    }
    for (; len > 0; len--, p++)
        h = (h ^ *p) * UINT64_C(0x100000001b3);
    return h;
}

/* Of one name and what is under it; a sum over names, so that their order does not count. */
uint64_t sim_hash(const struct sim *sim)
{
    uint64_t sum = 0;
    for (size_t d = 0; d < sim->inode_count; d++)
        for (size_t i = 0; i < sim->inodes[d].names.n; i++) {
            const struct sim_name *n = &sim->inodes[d].names.at[i];
            const struct sim_inode *inode = &sim->inodes[n->inode];
            uint64_t h = mix(d + 1, n->name, strlen(n->name));
            h = inode->dir ? mix(h, &n->inode, sizeof n->inode) : mix(h, &inode->cache.len, 8);
            sum += inode->dir ? h : mix(h, inode->cache.bytes, inode->cache.len);
        }
    return sum;
}
