# The flush counter against strace's counts; the rails, the flush probe and the environment.

# Calls of every kind, never sanitized: the counter is loaded before it.
add_executable(flushcount_raw flushcount_raw.c)
target_compile_definitions(flushcount_raw PRIVATE _GNU_SOURCE)
target_compile_options(flushcount_raw PRIVATE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wstrict-prototypes -Wvla
  $<$<BOOL:${SEAM_WERROR}>:-Werror>)
target_link_libraries(flushcount_raw PRIVATE Threads::Threads)

# Durable commits of an engine. A sanitizer's runtime wants to be loaded first: left out there.
add_executable(flushcount_engine flushcount_engine.c)
target_link_libraries(flushcount_engine PRIVATE seam_static seam_flushcount_reader)

set(runs raw=raw)
if(NOT SEAM_SANITIZE)
  if(SEAM_HAVE_lmdb)
    list(APPEND runs lmdb=lmdb)
  endif()
  if(SEAM_HAVE_rocksdb)
    list(APPEND runs rocksdb=rocksdb)
  endif()
endif()
seam_test(flushcount SOURCES test_flushcount.c strace_count.c LINK seam_flushcount_reader
  ARGS ${runs} LABELS verify)
target_compile_definitions(test_flushcount PRIVATE
  FLUSHCOUNT_OBJECT="$<TARGET_FILE:seam_flushcount>"
  FLUSHCOUNT_RAW="$<TARGET_FILE:flushcount_raw>"
  FLUSHCOUNT_ENGINE="$<TARGET_FILE:flushcount_engine>")
add_dependencies(test_flushcount seam_flushcount flushcount_raw flushcount_engine)

seam_test(rawlog SOURCES test_rawlog.c LINK seam_rails LABELS verify)
seam_test(environment SOURCES test_environment.c LINK seam_rails LABELS verify)
