# What only the LMDB engine has; what all engines share is in the conformance program.
if(SEAM_HAVE_lmdb)
  seam_test(lmdb SOURCES test_lmdb.c INCLUDE ${PROJECT_SOURCE_DIR}/backends/lmdb
    LINK PkgConfig::SEAM_LMDB LABELS lmdb)
endif()
