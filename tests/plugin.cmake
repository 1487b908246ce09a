# The example of a plug-in, and plug-ins that cannot be used. Their programs export the library's
# functions to them.
foreach(fault abi entry op null name tuning)
  string(TOUPPER ${fault} upper)
  add_library(bad_${fault} MODULE plugin_bad.c)
  target_compile_definitions(bad_${fault} PRIVATE BAD_${upper}=1)
  target_include_directories(bad_${fault} PRIVATE ${PROJECT_SOURCE_DIR}/engine/include)
  target_link_libraries(bad_${fault} PRIVATE seam_options)
  list(APPEND faulty bad_${fault})
endforeach()

if(SEAM_HAVE_mem)
  seam_test(plugin SOURCES test_plugin.c LABELS short)
  target_compile_definitions(test_plugin PRIVATE PLUGINS="${CMAKE_BINARY_DIR}")
  set_target_properties(test_plugin PROPERTIES ENABLE_EXPORTS ON)
  add_dependencies(test_plugin seam_example ${faulty})
  set_tests_properties(plugin PROPERTIES WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
endif()

# What every engine has to keep, asked of the plug-in; and with it of what the library does for an
# engine that has no near, no prepare, no stats.
set_target_properties(test_conformance PROPERTIES ENABLE_EXPORTS ON)
add_dependencies(test_conformance seam_example)
add_test(NAME conformance.plugin COMMAND test_conformance ./libseam_example.so)
add_test(NAME conformance.strict-plugin COMMAND test_conformance strict+./libseam_example.so)
set_tests_properties(conformance.plugin conformance.strict-plugin PROPERTIES TIMEOUT 600 LABELS short
  WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
