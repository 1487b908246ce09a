# embed.cmake - cmake -DOUT=file.c -DINIS=a.ini|b.ini -P embed.cmake
# Writes the profiles as byte arrays, so that the library needs no data directory. Bytes and not a
# string, because C11 promises no more than 4095 bytes of string.
string(REPLACE "|" ";" inis "${INIS}")
set(arrays "")
set(rows "")
foreach(ini IN LISTS inis)
  get_filename_component(name "${ini}" NAME_WE)
  file(READ "${ini}" text)
  if(NOT text MATCHES "\ndescription = ([^\n]*)\n")
    message(FATAL_ERROR "${ini}: no line 'description = ...'")
  endif()
  string(REPLACE "\\" "\\\\" summary "${CMAKE_MATCH_1}")
  string(REPLACE "\"" "\\\"" summary "${summary}")
  file(READ "${ini}" hex HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND arrays "static const char text_${name}[] = {\n${bytes}0};\n\n")
  string(APPEND rows "    {\"${name}\", \"${summary}\", text_${name}},\n")
endforeach()
file(WRITE "${OUT}.new" "/* Made by corpus/embed.cmake from corpus/profiles. */
#include \"profile.h\"

${arrays}const struct seam_corpus_profile corpus_profiles[] = {
${rows}    {NULL, NULL, NULL},
};
")
file(RENAME "${OUT}.new" "${OUT}")
