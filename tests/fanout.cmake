# The unit that becomes 95,000 entries, on every engine, and where an engine's ceiling is lower.
set(runs "")
foreach(engine vlog mem lmdb rocksdb)
  if(SEAM_HAVE_${engine})
    list(APPEND runs "${engine}=${engine}")
  endif()
endforeach()
seam_test(fanout SOURCES test_fanout.c ARGS ${runs} LABELS short)
