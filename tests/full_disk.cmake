# Full disks, where the machine lets one be mounted; else skipped. A later engine that keeps what it is
# given joins by its name.
set(runs "")
foreach(engine vlog lmdb rocksdb)
  if(SEAM_HAVE_${engine})
    list(APPEND runs "${engine}=${engine}")
  endif()
endforeach()
if(SEAM_HAVE_rocksdb)
  list(APPEND runs "rocksdb-blob=rocksdb:blob")
endif()
if(runs)
  seam_test(full_disk ARGS ${runs} LINK test_support TIMEOUT 900 COST 10 SKIP 77 LABELS crash
    SOURCES test_full_disk.c full_disk_child.c disk_support.c crash_units.c crash_child.c)
endif()
