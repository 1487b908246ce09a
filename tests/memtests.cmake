# The suites that run once per engine: plain and, when asked, under the strict wrapper.
set(plain "")
foreach(engine vlog mem lmdb rocksdb)
  if(SEAM_HAVE_${engine})
    list(APPEND plain "${engine}=${engine}" "strict-${engine}=strict+${engine}")
  else()
    message(STATUS "tests left out, the engine is not built in: ${engine}")
  endif()
endforeach()

add_library(test_support STATIC support.c)
target_link_libraries(test_support PUBLIC seam_static PkgConfig::SEAM_CMOCKA)
target_compile_definitions(test_support PRIVATE SEAM_TEST_TMP="${CMAKE_CURRENT_BINARY_DIR}")

set(variants ${plain})
if(SEAM_HAVE_rocksdb)
  list(APPEND variants "rocksdb-blob=rocksdb:blob" "metrics-rocksdb=metrics+rocksdb")
endif()
if(SEAM_HAVE_lmdb)
  list(APPEND variants "metrics-lmdb=strict+metrics+lmdb")
endif()
seam_test(conformance ARGS ${variants} LINK test_support TIMEOUT 600 LABELS short
  SOURCES conformance.c conformance_text.c conformance_open.c conformance_close.c
          conformance_commit.c conformance_ticket.c conformance_limits.c conformance_outcomes.c
          conformance_read.c conformance_floor.c conformance_cursor.c conformance_nomem.c)
seam_test(locks ARGS ${plain} LINK test_support ${CMAKE_DL_LIBS} LABELS short SOURCES test_locks.c)
seam_test(model ARGS ${plain} LINK test_support TIMEOUT 600 SOURCES test_model.c model.c)
seam_test(threads ARGS ${plain} LINK test_support TIMEOUT 600 SOURCES test_threads.c)
seam_test(reserve ARGS ${plain} LINK test_support TIMEOUT 600 SOURCES test_reserve.c)
if(SEAM_HAVE_mem)
  seam_test(mem LINK test_support LABELS short SOURCES test_mem.c)
endif()
