# The store, its journal on one engine and its projections on another, or in the journal's db.
set(pairs "")
foreach(of_journal vlog mem lmdb rocksdb)
  foreach(of_table vlog mem lmdb rocksdb)
    if(SEAM_HAVE_${of_journal} AND SEAM_HAVE_${of_table})
      # A journal that keeps nothing feeds no projection that is kept.
      if(NOT (of_journal STREQUAL mem AND NOT of_table STREQUAL mem))
        list(APPEND pairs "${of_journal}-${of_table}=${of_journal} ${of_table}")
      endif()
    endif()
  endforeach()
  if(SEAM_HAVE_${of_journal})
    list(APPEND pairs "${of_journal}=${of_journal} same")
  endif()
endforeach()
set(store_sources store_support.c projection_support.c seam_support.c)
if(pairs)
  foreach(name store store_put)
    seam_test(${name} SOURCES test_${name}.c ${store_sources} ARGS ${pairs} LABELS seam)
  endforeach()
endif()
# Bytes, held against the documentation. Its functions are not exported: the static library has them.
seam_test(store_text SOURCES test_store_text.c ARGS run=${PROJECT_SOURCE_DIR}/docs/store-format.md
  INCLUDE ${PROJECT_SOURCE_DIR}/seam LABELS seam short)
