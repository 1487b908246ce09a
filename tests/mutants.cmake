# Faults written into the native engine's sources, one a program: each must be found by the search.
# seam_mutant(NAME FILE OLD NEW [FILE OLD NEW]...): a copy of the file with OLD made NEW everywhere is
# linked before the library, whose own object of that file is then not taken. The sources themselves
# know nothing of it. An OLD that is not there any more stops the configuration.
function(seam_mutant name)
  set(sources "")
  while(ARGN)
    list(POP_FRONT ARGN file old new)
    set(from ${PROJECT_SOURCE_DIR}/backends/vlog/${file})
    set(to ${CMAKE_CURRENT_BINARY_DIR}/mutants/${name}/${file})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${from})
    file(READ ${from} text)
    string(FIND "${text}" "${old}" at)
    if(at EQUAL -1)
      message(FATAL_ERROR "mutant ${name}: ${file} no longer holds: ${old}")
    endif()
    string(REPLACE "${old}" "${new}" text "${text}")
    set(before "")
    if(EXISTS ${to})
      file(READ ${to} before)
    endif()
    if(NOT before STREQUAL text)
      file(WRITE ${to} "${text}")
    endif()
    list(APPEND sources ${to})
  endwhile()
  seam_test(sim_mutant_${name} ARGS run=vlog SOURCES test_sim_mutant.c sim_vlog_work.c ${sources}
    INCLUDE ${PROJECT_SOURCE_DIR}/backends/vlog LINK test_support seam_sim LABELS crash)
endfunction()

# A sanitizer would stop at the fault before the search sees what comes of it.
if(SEAM_HAVE_vlog AND NOT SEAM_SANITIZE)
  seam_mutant(trust_length
    recover.c "seam_crc32c(0, p, f.index) == f.body_crc && index_fits" "index_fits")
  seam_mutant(trust_value recover.c "*ret_good = crc == want" "*ret_good = crc == want || len == 0")
  seam_mutant(no_sync_on_open recover.c "rc = v->os->sync(v->os->ctx, s->fd)" "rc = 0")
endif()
