/* lmdb_check.c - looks at data.mdb before LMDB maps it.
 *
 * LMDB believes what its meta page says: a file cut short faults with SIGBUS at the first page that
 * is gone, and a missing file becomes a new empty store. Both are found here, before the mapping.
 *
 * Relies on the layout that LMDB 0.9 writes (host byte order): a page header of 16 bytes whose
 * flags are at 10; then magic 4, version 4, address 8, map size 8, two database records of 48 (page
 * size or padding 4, flags 2, depth 2, branch, leaf, overflow pages and entries 8 each, root 8),
 * last page 8, transaction 8. Meta page 0 is at 0, meta page 1 one page on; the greater transaction
 * is the newest. Relies on Seam's writers to keep the file at least as long as its last page. Keeps
 * true: called only while no environment is open on the file. */
#include "lmdb_private.h"

#include <errno.h>
#include <string.h>

#define META_BYTES 152u
#define META_MAGIC 0xBEEFC0DEu
#define META_VERSION 1u
#define PAGE_FLAG_META 0x08u
#define NO_ROOT UINT64_MAX
#define DEPTH_MOST 32u
#define COPY_AGAIN "restore the store from a copy"

struct meta {
    uint64_t page_size, last_page, txn, roots[2];
    uint32_t depths[2];
};

static uint64_t u64_at(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint32_t u32_at(const unsigned char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint32_t u16_at(const unsigned char *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static int meta_parse(const unsigned char *page, int which, struct meta *ret, struct seam_err *err)
{
    const unsigned char *m = page + 16;
    if ((u16_at(page + 10) & PAGE_FLAG_META) == 0 || u32_at(m) != META_MAGIC)
        return seam_fail(err, SEAM_E_CORRUPT, "%s: meta page %d is not LMDB's: " COPY_AGAIN,
                         LMDB_DATA_FILE, which);
    if (u32_at(m + 4) != META_VERSION)
        return seam_fail(err, SEAM_E_MISMATCH,
                         "%s: LMDB format %u, this library reads format %u: use what wrote it",
                         LMDB_DATA_FILE, (unsigned)u32_at(m + 4), (unsigned)META_VERSION);
    ret->page_size = u32_at(m + 24);
    for (int i = 0; i < 2; i++) {
        ret->depths[i] = u16_at(m + 24 + 48 * i + 6);
        ret->roots[i] = u64_at(m + 24 + 48 * i + 40);
    }
    ret->last_page = u64_at(m + 120);
    ret->txn = u64_at(m + 128);
    return SEAM_OK;
}

static bool meta_sane(const struct meta *m)
{
    if (m->last_page < 1 || m->last_page > (UINT64_MAX >> 17))
        return false;
    for (int i = 0; i < 2; i++) {
        if (m->depths[i] > DEPTH_MOST)
            return false;
        if (m->roots[i] != NO_ROOT && (m->roots[i] < 2 || m->roots[i] > m->last_page))
            return false;
    }
    return true;
}

static int metas_check(const struct seam_platform *os, int fd, uint64_t size, struct seam_err *err)
{
    unsigned char page[META_BYTES];
    struct meta metas[2];
    memset(metas, 0, sizeof metas);
    for (int i = 0; i < 2; i++) {
        uint64_t at = i == 0 ? 0 : metas[0].page_size;
        if (size < at + sizeof page)
            return seam_fail(err, SEAM_E_CORRUPT, "%s: cut short to %llu bytes: " COPY_AGAIN,
                             LMDB_DATA_FILE, (unsigned long long)size);
        int rc = seam_read_all(os, fd, page, sizeof page, at);
        if (rc < 0)
            return seam_fail_os(err, -rc, "%s: reading meta page %d", LMDB_DATA_FILE, i);
        rc = meta_parse(page, i, &metas[i], err);
        if (rc != SEAM_OK)
            return rc;
        uint64_t ps = metas[i].page_size;
        if (ps < 256 || ps > 65536 || (ps & (ps - 1)) != 0 || ps != metas[0].page_size)
            return seam_fail(err, SEAM_E_CORRUPT, "%s: impossible page size %llu: " COPY_AGAIN,
                             LMDB_DATA_FILE, (unsigned long long)ps);
    }
    const struct meta *newest = metas[0].txn < metas[1].txn ? &metas[1] : &metas[0];
    if (!meta_sane(newest))
        return seam_fail(err, SEAM_E_CORRUPT, "%s: its newest meta page is damaged: " COPY_AGAIN,
                         LMDB_DATA_FILE);
    uint64_t need = (newest->last_page + 1) * newest->page_size;
    if (size < need)
        return seam_fail(err, SEAM_E_CORRUPT, "%s: cut short to %llu bytes of %llu: " COPY_AGAIN,
                         LMDB_DATA_FILE, (unsigned long long)size, (unsigned long long)need);
    return SEAM_OK;
}

int lmdb_check_file(const struct seam_platform *os, int dir, bool read_only, struct seam_err *err)
{
    struct seam_file_info info;
    memset(&info, 0, sizeof info);
    int rc = os->stat(os->ctx, dir, LMDB_DATA_FILE, &info);
    if (rc == -ENOENT || (rc >= 0 && info.kind == SEAM_FILE_ABSENT))
        return seam_fail(err, SEAM_E_CORRUPT, "%s is missing: " COPY_AGAIN, LMDB_DATA_FILE);
    if (rc < 0)
        return seam_fail_os(err, -rc, "%s", LMDB_DATA_FILE);
    if (info.kind != SEAM_FILE_REGULAR)
        return seam_fail(err, SEAM_E_CORRUPT, "%s is not a regular file: put the file itself there",
                         LMDB_DATA_FILE);
    /* LMDB writes in place: a second name of the file, say in a backup, would change with it. */
    if (!read_only && info.links > 1)
        return seam_fail(err, SEAM_E_CORRUPT, "%s has %llu names: replace it by a copy of its own",
                         LMDB_DATA_FILE, (unsigned long long)info.links);
    int fd = os->open(os->ctx, dir, LMDB_DATA_FILE, SEAM_FILE_READ);
    if (fd < 0)
        return seam_fail_os(err, -fd, "%s", LMDB_DATA_FILE);
    rc = metas_check(os, fd, info.size, err);
    os->close(os->ctx, fd);
    return rc;
}
