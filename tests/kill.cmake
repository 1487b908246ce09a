# kill -9 while units are written, stores opened and made, a journal appended to. A later engine that
# keeps what it is given joins by its name.
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
  seam_test(kill ARGS ${runs} LINK test_support TIMEOUT 900 LABELS crash
    SOURCES test_kill.c kill_units.c kill_open.c kill_journal.c crash_units.c crash_child.c)
endif()
