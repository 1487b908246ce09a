# Installed into a prefix of its own, the library builds the README's example and a plug-in from
# outside the tree. A sanitized library would need the sanitizer in them too.
if(NOT SEAM_SANITIZE)
  set(durable "")
  foreach(engine rocksdb lmdb)
    if(SEAM_HAVE_${engine})
      set(durable ${engine})
    endif()
  endforeach()
  add_test(NAME install COMMAND ${PROJECT_SOURCE_DIR}/tests/install.sh
    ${CMAKE_COMMAND} ${CMAKE_BINARY_DIR} ${CMAKE_C_COMPILER} ${example} ${durable})
  set_tests_properties(install PROPERTIES LABELS short TIMEOUT 300)
endif()
