# The rails, the flush probe and the environment, for the command and for tests.
include_guard()
add_library(seam_rails STATIC
  ${CMAKE_CURRENT_LIST_DIR}/rawlog.c ${CMAKE_CURRENT_LIST_DIR}/rawlog_scan.c
  ${CMAKE_CURRENT_LIST_DIR}/probe.c ${CMAKE_CURRENT_LIST_DIR}/environment.c
  ${CMAKE_CURRENT_LIST_DIR}/device.c ${CMAKE_CURRENT_LIST_DIR}/usage.c)
target_include_directories(seam_rails PUBLIC ${CMAKE_CURRENT_LIST_DIR})
target_link_libraries(seam_rails PUBLIC seam_static)

# Measures rawlog against the raw flush probe; a tool for those who change rawlog, not a test.
add_executable(seam_rawlog_check ${CMAKE_CURRENT_LIST_DIR}/rawlog_check.c)
target_link_libraries(seam_rawlog_check PRIVATE seam_rails)
