# The simulated disk, and what is searched on it.
add_library(seam_sim STATIC ${PROJECT_SOURCE_DIR}/verify/sim/disk.c
  ${PROJECT_SOURCE_DIR}/verify/sim/table.c ${PROJECT_SOURCE_DIR}/verify/sim/states.c
  ${PROJECT_SOURCE_DIR}/verify/sim/search.c ${PROJECT_SOURCE_DIR}/verify/sim/liar.c)
target_include_directories(seam_sim PUBLIC ${PROJECT_SOURCE_DIR}/verify/sim)
target_link_libraries(seam_sim PUBLIC seam_static)

if(SEAM_HAVE_vlog)
  seam_test(sim_vlog ARGS run=vlog SOURCES test_sim_vlog.c sim_vlog_work.c
    LINK test_support seam_sim LABELS crash)
  seam_test(sim_rebuild ARGS run=vlog SOURCES test_sim_rebuild.c sim_support.c LINK test_support seam_sim LABELS crash)
  seam_test(sim_seam ARGS run=vlog SOURCES test_sim_seam.c sim_support.c LINK test_support seam_sim LABELS crash)
  seam_test(sim_store ARGS run=vlog SOURCES test_sim_store.c sim_support.c LINK test_support seam_sim
    LABELS crash)
  seam_test(sim_even ARGS run=vlog SOURCES test_sim_even.c LINK test_support seam_sim LABELS crash)
  seam_test(sim_witness ARGS run=vlog SOURCES test_sim_witness.c LINK test_support seam_sim LABELS crash)
  seam_test(sim_liar ARGS run=vlog SOURCES test_sim_liar.c sim_vlog_work.c COST 40
    LINK test_support seam_sim LABELS crash)
endif()
seam_test(sim_states SOURCES test_sim_states.c LINK test_support seam_sim LABELS crash short)
seam_test(sim_storedir SOURCES test_sim_storedir.c INCLUDE ${PROJECT_SOURCE_DIR}/engine
  LINK test_support seam_sim LABELS crash short)
