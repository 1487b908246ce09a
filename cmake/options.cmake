# Compile options that every target of the project shares, as the interface target seam_options,
# and seam_room(), which makes one room of the library.
find_package(Threads REQUIRED)

add_library(seam_options INTERFACE)
target_compile_definitions(seam_options INTERFACE _GNU_SOURCE SEAM_VERSION="${PROJECT_VERSION}")
target_compile_options(seam_options INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wstrict-prototypes -Wvla
  -fno-omit-frame-pointer $<$<CONFIG:Release>:-O2>)
target_link_libraries(seam_options INTERFACE Threads::Threads)
if(SEAM_WERROR)
  target_compile_options(seam_options INTERFACE -Werror)
endif()
if(SEAM_SANITIZE)
  target_compile_options(seam_options INTERFACE -fsanitize=${SEAM_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(seam_options INTERFACE -fsanitize=${SEAM_SANITIZE})
  target_compile_definitions(seam_options INTERFACE SEAM_SANITIZED=1)
endif()

# seam_room(NAME SOURCES... [INCLUDE DIR...]): an object library whose objects go into libseam.
# Rooms see the public headers of the rooms below them only through what they link.
function(seam_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;INCLUDE;LINK" ${ARGN})
  add_library(seam_room_${name} OBJECT ${ROOM_SOURCES})
  target_include_directories(seam_room_${name} PUBLIC ${ROOM_INCLUDE} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(seam_room_${name} PUBLIC seam_options ${ROOM_LINK})
  set(SEAM_LIBRARY_OBJECTS "${SEAM_LIBRARY_OBJECTS};seam_room_${name}" CACHE INTERNAL "")
endfunction()
