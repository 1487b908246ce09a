# The platform, group commit, the ledger, the store directory and the wrappers.
set(SEAM_FILES_INCLUDE ${PROJECT_SOURCE_DIR}/engine)
seam_test(platform SOURCES files_support.c test_platform.c INCLUDE ${SEAM_FILES_INCLUDE} LABELS engine)
seam_test(crc32c SOURCES test_crc32c.c INCLUDE ${SEAM_FILES_INCLUDE} LABELS engine)
# Both include the file they test, to see its queue; the second with the park that is not Linux's.
seam_test(group SOURCES test_group.c INCLUDE ${SEAM_FILES_INCLUDE} LABELS engine)
seam_test(group_portable SOURCES test_group.c INCLUDE ${SEAM_FILES_INCLUDE} LABELS engine)
target_compile_definitions(test_group_portable PRIVATE SEAM_PARK_PORTABLE=1)
seam_test(ledger SOURCES test_ledger.c INCLUDE ${SEAM_FILES_INCLUDE} LABELS engine)
seam_test(storedir SOURCES files_support.c storedir_support.c test_storedir.c
  INCLUDE ${SEAM_FILES_INCLUDE} LABELS engine)
seam_test(storedir_damage SOURCES files_support.c storedir_support.c test_storedir_damage.c
  INCLUDE ${SEAM_FILES_INCLUDE} LABELS engine)
seam_test(wrappers SOURCES test_wrappers.c LABELS engine)
