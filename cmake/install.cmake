# `cmake --install`: program, library, headers, pkg-config file, CMake package.
include(CMakePackageConfigHelpers)
install(TARGETS muster EXPORT muster_targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET muster_cli)
    install(TARGETS muster_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY include/muster DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT muster_targets NAMESPACE muster::
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/muster FILE muster-targets.cmake)
file(WRITE ${CMAKE_BINARY_DIR}/muster-config.cmake
    "include(\"\${CMAKE_CURRENT_LIST_DIR}/muster-targets.cmake\")\n")
write_basic_package_version_file(${CMAKE_BINARY_DIR}/muster-config-version.cmake
    COMPATIBILITY SameMinorVersion)
# Relative to the file itself, so that --prefix may be given at install time.
file(RELATIVE_PATH PREFIX_FROM_PKGCONFIG
    /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/muster.pc.in ${CMAKE_BINARY_DIR}/muster.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/muster-config.cmake
    ${CMAKE_BINARY_DIR}/muster-config-version.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/muster)
install(FILES ${CMAKE_BINARY_DIR}/muster.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
