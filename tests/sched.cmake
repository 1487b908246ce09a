# Threads run one at a time in an order that follows from a seed. ThreadSanitizer wants the same
# calls for itself.
if(NOT SEAM_SANITIZE MATCHES thread)
  add_library(seam_sched STATIC ${PROJECT_SOURCE_DIR}/verify/sched/core.c
    ${PROJECT_SOURCE_DIR}/verify/sched/hooks.c)
  target_compile_definitions(seam_sched PRIVATE _GNU_SOURCE)
  target_include_directories(seam_sched PUBLIC ${PROJECT_SOURCE_DIR}/verify/sched)
  target_link_libraries(seam_sched PUBLIC seam_options PRIVATE ${CMAKE_DL_LIBS})
  seam_test(sched SOURCES test_sched.c LINK test_support seam_sched LABELS short)
  set(runs mem=mem)
  if(SEAM_HAVE_vlog)
    list(APPEND runs vlog=vlog strict-vlog=strict+vlog)
  endif()
  seam_test(interleave SOURCES test_interleave.c LINK test_support seam_sched ARGS ${runs})
endif()
