/* registry.c - the one list of built-in engines and wrappers.
 *
 * Relies on each backend exporting one const table, seam_backend_NAME or seam_wrapper_NAME.
 * Keeps true: an engine left out of the build stays known by name, so that asking for it says so. */
#include <seam/backend.h>

extern const struct seam_backend seam_wrapper_strict, seam_wrapper_metrics, seam_wrapper_limit;
#ifdef SEAM_HAVE_VLOG
extern const struct seam_backend seam_backend_vlog;
#endif
#ifdef SEAM_HAVE_MEM
extern const struct seam_backend seam_backend_mem;
#endif
#ifdef SEAM_HAVE_LMDB
extern const struct seam_backend seam_backend_lmdb;
#endif
#ifdef SEAM_HAVE_ROCKSDB
extern const struct seam_backend seam_backend_rocksdb;
#endif

const struct seam_backend *const seam_registry[] = {
#ifdef SEAM_HAVE_VLOG
    &seam_backend_vlog,
#endif
#ifdef SEAM_HAVE_ROCKSDB
    &seam_backend_rocksdb,
#endif
#ifdef SEAM_HAVE_LMDB
    &seam_backend_lmdb,
#endif
#ifdef SEAM_HAVE_MEM
    &seam_backend_mem,
#endif
    &seam_wrapper_strict, &seam_wrapper_metrics, &seam_wrapper_limit, NULL,
};

#define ABSENT(engine, text) {engine, text, NULL, false, false, false}

const struct seam_engine_info seam_registry_absent[] = {
#ifndef SEAM_HAVE_ROCKSDB
    ABSENT("rocksdb", "LSM tree, RocksDB through its C API: not built in, it needs librocksdb-dev"),
#endif
#ifndef SEAM_HAVE_LMDB
    ABSENT("lmdb", "copy-on-write B+tree, LMDB: not built in, it needs liblmdb-dev"),
#endif
    ABSENT(NULL, NULL),
};
