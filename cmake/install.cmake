# `cmake --install`: program, library, headers, pkg-config file, CMake package,
# and the bench programs where they are built (component `bench`).
include(CMakePackageConfigHelpers)
install(TARGETS muster EXPORT muster_targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET muster_ucx)
    install(TARGETS muster_ucx
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/muster)
endif()
if(TARGET muster_cli)
    install(TARGETS muster_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
# `muster bench` looks for its programs here, seen from the folder of `muster`.
set(MUSTER_LIBEXEC ${CMAKE_INSTALL_LIBEXECDIR}/muster)
file(RELATIVE_PATH LIBEXEC_FROM_BIN
    /${CMAKE_INSTALL_BINDIR} /${MUSTER_LIBEXEC})
file(RELATIVE_PATH BIN_FROM_LIBEXEC
    /${MUSTER_LIBEXEC} /${CMAKE_INSTALL_BINDIR})
file(RELATIVE_PATH MODULES_FROM_LIBEXEC
    /${MUSTER_LIBEXEC} /${CMAKE_INSTALL_LIBDIR}/muster)
set_property(SOURCE src/net/fabric.c APPEND PROPERTY COMPILE_DEFINITIONS
    MUSTER_MODULES_FROM_LIBEXEC="${MODULES_FROM_LIBEXEC}")
if(TARGET muster_cli)
    target_compile_definitions(muster_cli PRIVATE
        MUSTER_LIBEXEC_FROM_BIN="${LIBEXEC_FROM_BIN}")
endif()
if(MUSTER_BENCH_TARGETS)
    install(TARGETS ${MUSTER_BENCH_TARGETS}
        RUNTIME DESTINATION ${MUSTER_LIBEXEC} COMPONENT bench)
    install(PROGRAMS bench/ddp_train.py
        DESTINATION ${MUSTER_LIBEXEC} COMPONENT bench)
    target_compile_definitions(muster-bench-train PRIVATE
        MUSTER_BIN_FROM_LIBEXEC="${BIN_FROM_LIBEXEC}")
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
