# Which tests a build leaves out, and why: what a sanitizer cannot add to another run of the same code.
# Two cores have 20 minutes for plain, ASan+UBSan and TSan together. -DSEAM_ALL_TESTS=ON leaves out none.
#
# seam_left_out(NAME RET): true in RET if this build does not run the test of that name.
option(SEAM_ALL_TESTS "Leave no test out under a sanitizer" OFF)

set(plain_engine "(vlog|mem|lmdb|rocksdb|rocksdb-blob|metrics-rocksdb)")
set(left_out "")
if(SEAM_SANITIZE AND NOT SEAM_ALL_TESTS)
  list(APPEND left_out
    # Faults of the platform which the search must find: they prove the search, and that once.
    "^sim_liar[.]"
    # strict-ENGINE runs the same program over the same engine, one layer more.
    "^(conformance|reserve|model|threads|locks|flush_faults)[.]${plain_engine}$"
    "^(journal|journal_damage|verify|trim|seam_faults)[.]${plain_engine}$"
    # The library's own other way to keep large values; all of ours is in the run without it.
    "^(full_disk|kill)[.]rocksdb-blob$")
endif()
if(SEAM_SANITIZE MATCHES thread AND NOT SEAM_ALL_TESTS)
  list(APPEND left_out
    # One thread of ours, above a library that is not instrumented or above none.
    "^corpus" "^(full_disk|kill|store_kill|rebuild_crash)[.](lmdb|rocksdb)$"
    # What these have of threads, threads.strict-* and reserve.strict-* have too, and more of it.
    "^conformance[.](strict|metrics)-(rocksdb|lmdb)$"
    # Bad input, which is told before a thread begins; the command's threads run in cli.run and cli.more.
    "^cli[.](usage|files)$")
endif()

function(seam_left_out name ret)
  set(${ret} FALSE PARENT_SCOPE)
  foreach(pattern IN LISTS left_out)
    if(name MATCHES "${pattern}")
      set(${ret} TRUE PARENT_SCOPE)
    endif()
  endforeach()
endfunction()
