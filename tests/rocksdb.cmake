# What is particular to the RocksDB engine; what it shares with the others is in the conformance suite.
if(SEAM_HAVE_rocksdb)
  seam_test(rocksdb SOURCES test_rocksdb.c test_rocksdb_faults.c test_rocksdb_support.c
    INCLUDE ${PROJECT_SOURCE_DIR}/backends/rocksdb LABELS engine)
endif()
