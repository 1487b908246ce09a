# Faults written into the library's sources, one a program: each must be found by the search.
# seam_mutant(NAME SOURCES FILE OLD NEW [FILE OLD NEW]...): a copy of the file with OLD made NEW everywhere
# is linked before the library, whose own object of that file is then not taken. The sources themselves
# know nothing of it. An OLD that is not there any more stops the configuration. SOURCES: of the test,
# which is run with the word `mutant`; without it, the same test holds the sources as they are to the
# same work, where that is not another test's part.
function(seam_mutant name test_sources)
  set(files "")
  set(include "")
  while(ARGN)
    list(POP_FRONT ARGN file old new)
    if(NOT file IN_LIST files)
      list(APPEND files ${file})
      file(READ ${PROJECT_SOURCE_DIR}/${file} text_${file})
    endif()
    string(FIND "${text_${file}}" "${old}" at)
    if(at EQUAL -1)
      message(FATAL_ERROR "mutant ${name}: ${file} no longer holds: ${old}")
    endif()
    string(REPLACE "${old}" "${new}" text_${file} "${text_${file}}")
  endwhile()
  set(sources "")
  foreach(file IN LISTS files)
    set(to ${CMAKE_CURRENT_BINARY_DIR}/mutants/${name}/${file})
    set(before "")
    if(EXISTS ${to})
      file(READ ${to} before)
    endif()
    if(NOT before STREQUAL text_${file})
      file(WRITE ${to} "${text_${file}}")
    endif()
    get_filename_component(room ${PROJECT_SOURCE_DIR}/${file} DIRECTORY)
    list(APPEND include ${room})
    list(APPEND sources ${to})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${file})
  endforeach()
  seam_test(sim_mutant_${name} ARGS "run=vlog mutant" SOURCES ${test_sources} ${sources}
    INCLUDE ${include} LINK test_support seam_sim LABELS crash)
endfunction()

# A sanitizer would stop at the fault before the search sees what comes of it.
if(SEAM_HAVE_vlog AND NOT SEAM_SANITIZE)
  set(any "test_sim_mutant.c;sim_vlog_work.c")
  seam_mutant(trust_length "${any}" backends/vlog/recover.c
    "seam_crc32c(0, p, f.index) == f.body_crc && index_fits" "index_fits")
  seam_mutant(trust_value "${any}" backends/vlog/recover.c
    "*ret_good = crc == want" "*ret_good = crc == want || len == 0")
  seam_mutant(no_sync_on_open "${any}" backends/vlog/recover.c
    "rc = v->os->sync(v->os->ctx, s->fd)" "rc = 0")

  # What stands in a recycled segment, and when one may be recycled.
  seam_mutant(recycle_same_seed test_sim_even.c backends/vlog/format.c
    "put64(bytes + 16, id)" "put64(bytes + 16, id & 0)")
  seam_mutant(header_unchecked test_sim_even.c backends/vlog/format.c
    "if (f.crc != frame_crc(from, seed, offset))" "if (f.crc + frame_crc(from, seed, offset) == 1)")
  seam_mutant(header_unseeded test_sim_even.c backends/vlog/format.c
    "seam_crc32c(seam_crc32c(seed, bytes, 8), frame" "seam_crc32c(seam_crc32c(0, bytes, seed & 0), frame")
  seam_mutant(buried_early test_sim_even.c backends/vlog/log.c
    "if (p.flush && v->end.dead)" "if (v->end.dead)")
  # A mark, or a witness, ahead of the data that it speaks for.
  seam_mutant(witness_ahead test_sim_witness.c seam/append.c
    "(acked->given < SEAM_ACK_POWER)" "(acked->given < SEAM_ACK_PROCESS)")
  seam_mutant(witness_at_close test_sim_witness.c seam/journal.c
    "rc = seam_sync(j->db, SEAM_ACK_POWER, err)" "rc = SEAM_OK")
  seam_mutant(witness_at_open test_sim_witness.c seam/load.c
    "power && j->group_no > 0 ? seam_sync" "power && j->group_no > 0 && !err ? seam_sync")
  seam_mutant(mark_ahead test_sim_witness.c seam/append.c
    "!power || acked->given >= SEAM_ACK_POWER" "!power || acked->given >= SEAM_ACK_PROCESS")
  seam_mutant(mark_without_flush test_sim_witness.c seam/journal.c
    "rc = seam_sync(journal->db, level, err)" "rc = SEAM_OK")
  # A store that is named before it is there, a unit of which a part is lost.
  seam_mutant(store_unflushed "test_sim_store.c;sim_support.c" seam/store_dir.c
    "rc = os->sync(os->ctx, fd)" "rc = 0")
  seam_mutant(unit_resumed_as_done "test_sim_store.c;sim_support.c" seam/unit.c
    "done = (size_t)p->meta.unit_ops" "done = total")
  seam_mutant(position_ahead "test_sim_seam.c;sim_support.c" seam/feed.c ": info.durable" ": info.last")
endif()
