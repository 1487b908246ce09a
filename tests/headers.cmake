# Each public header compiles alone, as C11 and as C++17; the README's example compiles and runs as
# printed, and the example application does what it says.
file(GLOB headers RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/*/include/seam/*.h)
add_test(NAME headers
  COMMAND ${PROJECT_SOURCE_DIR}/tests/headers.sh ${CMAKE_C_COMPILER} ${PROJECT_SOURCE_DIR} ${headers})
set_tests_properties(headers PROPERTIES LABELS short)

set(example ${CMAKE_CURRENT_BINARY_DIR}/readme_example.c)
file(READ ${PROJECT_SOURCE_DIR}/README.md readme)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/README.md)
string(FIND "${readme}" "```c\n" begin)
math(EXPR begin "${begin} + 5")
string(SUBSTRING "${readme}" ${begin} -1 rest)
string(FIND "${rest}" "```\n" length)
string(SUBSTRING "${rest}" 0 ${length} code)
file(CONFIGURE OUTPUT ${example} CONTENT "@code@" @ONLY)
add_executable(readme_example ${example})
target_link_libraries(readme_example PRIVATE seam_static)
foreach(engine vlog lmdb rocksdb)
  if(SEAM_HAVE_${engine})
    add_test(NAME readme.${engine} COMMAND ${PROJECT_SOURCE_DIR}/tests/readme.sh
      $<TARGET_FILE:readme_example> ${engine})
    set_tests_properties(readme.${engine} PROPERTIES LABELS short)
  endif()
endforeach()

# The example application, its journal and its table on two engines.
foreach(pair "vlog;lmdb" "lmdb;vlog" "rocksdb;rocksdb")
  list(GET pair 0 of_journal)
  list(GET pair 1 of_table)
  if(SEAM_HAVE_${of_journal} AND SEAM_HAVE_${of_table})
    add_test(NAME accounts.${of_journal}-${of_table} COMMAND ${PROJECT_SOURCE_DIR}/tests/accounts.sh
      $<TARGET_FILE:example_accounts> ${of_journal} ${of_table})
    set_tests_properties(accounts.${of_journal}-${of_table} PROPERTIES LABELS short)
  endif()
endforeach()

add_test(NAME tidy COMMAND ${PROJECT_SOURCE_DIR}/scripts/tidy.sh $<TARGET_FILE:seam_shared>)
set_tests_properties(tidy PROPERTIES LABELS short)
