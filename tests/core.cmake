# The pure parts of the core, and what happens when a device fails below it.
seam_test(core SOURCES test_core.c LABELS short)
seam_test(poison SOURCES test_poison.c LABELS short)
seam_test(stop SOURCES test_stop.c LABELS short)

# Both kinds of strerror_r.
foreach(kind GNU POSIX)
  string(TOLOWER ${kind} lower)
  seam_test(errtext_${lower} SOURCES test_errtext.c INCLUDE ${PROJECT_SOURCE_DIR}/engine LABELS short)
  target_compile_definitions(test_errtext_${lower} PRIVATE SEAM_TEST_${kind}=1)
endforeach()
