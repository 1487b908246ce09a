# cmake --install: the command, both libraries, the public headers, seam.pc, the flush counter, the
# conformance program, the manual page and the documentation.
include(GNUInstallDirs)

install(TARGETS seam_static seam_shared
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(room engine seam corpus)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${room}/include/seam
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
endforeach()
install(TARGETS seam RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# The command looks for it in ../lib/seam, so that is where it goes, whatever LIBDIR is.
install(TARGETS seam_flushcount LIBRARY DESTINATION lib/seam)
if(SEAM_BUILD_TESTS)
  install(PROGRAMS $<TARGET_FILE:test_conformance> DESTINATION lib/seam RENAME conformance OPTIONAL)
endif()

install(FILES ${PROJECT_SOURCE_DIR}/docs/seam.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/LICENSE
  DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}
  FILES_MATCHING PATTERN "*.md")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples/plugin ${PROJECT_SOURCE_DIR}/examples/accounts
  DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)

# A program that links libseam.a needs what libseam.so has linked itself.
file(RELATIVE_PATH SEAM_PC_UP ${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig
  ${CMAKE_INSTALL_PREFIX})
set(private ${SEAM_INIH_LDFLAGS})
if(SEAM_WITH_LMDB)
  list(APPEND private ${SEAM_LMDB_LDFLAGS})
endif()
if(SEAM_WITH_ROCKSDB)
  list(APPEND private ${SEAM_ROCKSDB_LDFLAGS})
endif()
list(APPEND private -pthread)
foreach(library IN LISTS CMAKE_DL_LIBS)
  list(APPEND private -l${library})
endforeach()
list(JOIN private " " SEAM_PC_PRIVATE)
configure_file(${PROJECT_SOURCE_DIR}/cmake/seam.pc.in ${CMAKE_BINARY_DIR}/seam.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/seam.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
