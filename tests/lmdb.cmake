# What only the LMDB engine has; what all engines share is in the conformance program.
if(SEAM_HAVE_lmdb)
  foreach(name lmdb lmdb_space)
    seam_test(${name} ARGS run=lmdb SOURCES test_${name}.c test_lmdb_support.c
      INCLUDE ${PROJECT_SOURCE_DIR}/backends/lmdb LINK test_support PkgConfig::SEAM_LMDB
      LABELS lmdb)
  endforeach()
endif()
