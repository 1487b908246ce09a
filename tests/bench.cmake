# The seam command: its parts, its command line, and a tiny run.
seam_test(bench_parts SOURCES test_bench_parts.c LINK seam_bench_parts LABELS short)
seam_test(bench_check SOURCES test_bench_check.c LINK seam_bench_parts LABELS short)

add_executable(json_check json_check.c)
target_link_libraries(json_check PRIVATE seam_options PkgConfig::SEAM_JANSSON)
foreach(part usage files run more interrupt) # only the first is short
  seam_left_out(cli.${part} out)
  if(NOT out)
    add_test(NAME cli.${part}
      COMMAND ${PROJECT_SOURCE_DIR}/tests/cli.sh ${part} $<TARGET_FILE:seam> $<TARGET_FILE:json_check>)
    set_tests_properties(cli.${part} PROPERTIES TIMEOUT 300 COST 40
      ENVIRONMENT "TSAN_OPTIONS=ignore_noninstrumented_modules=1 halt_on_error=1")
    if(part STREQUAL usage)
      set_tests_properties(cli.usage PROPERTIES LABELS short COST 0)
    endif()
  endif()
endforeach()
