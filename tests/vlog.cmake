# What only the native engine has; what all engines share is in the conformance program.
if(SEAM_HAVE_vlog)
  seam_test(vlog ARGS run=vlog SOURCES test_vlog.c TIMEOUT 600 COST 20
    INCLUDE ${PROJECT_SOURCE_DIR}/backends/vlog LINK test_support LABELS vlog)
  seam_test(vlog_group ARGS run=vlog SOURCES test_vlog_group.c
    INCLUDE ${PROJECT_SOURCE_DIR}/backends/vlog LINK test_support LABELS vlog)
  seam_test(vlog_promise ARGS run=vlog SOURCES test_vlog_promise.c LINK test_support LABELS vlog)
  seam_test(vlog_space ARGS run=vlog SOURCES test_vlog_space.c
    INCLUDE ${PROJECT_SOURCE_DIR}/backends/vlog LINK test_support LABELS vlog)
  seam_test(vlog_open ARGS run=vlog SOURCES test_vlog_open.c LINK test_support LABELS vlog)
  seam_test(vlog_memory ARGS run=vlog SOURCES test_vlog_memory.c LINK test_support LABELS vlog)
  seam_test(vlog_slab ARGS run=vlog SOURCES test_vlog_slab.c
    INCLUDE ${PROJECT_SOURCE_DIR}/backends/vlog LINK test_support LABELS vlog)
  seam_test(vlog_golden ARGS run=vlog SOURCES test_vlog_golden.c
    INCLUDE ${PROJECT_SOURCE_DIR}/backends/vlog LINK test_support LABELS vlog)
  target_compile_definitions(test_vlog_golden PRIVATE
    VLOG_GOLDEN="${CMAKE_CURRENT_SOURCE_DIR}/golden/vlog-1.txt")
endif()
