# The module of `--engine ucx`, beside the library. It is loaded when it is asked
# for, and shares nothing with the library but the table of fabric.h.
# Sanitizers do not see into UCX, which has locks and hooks of malloc of its own:
# with them the module is built only when it is asked for (-DMUSTER_UCX=ON; run it
# with UCX_MEM_EVENTS=n under TSan).
if(MUSTER_SANITIZE OR MUSTER_FUZZ)
    option(MUSTER_UCX "build the module of --engine ucx" OFF)
else()
    option(MUSTER_UCX "build the module of --engine ucx" ON)
endif()
if(NOT MUSTER_UCX)
    return()
endif()
pkg_check_modules(UCX IMPORTED_TARGET ucx)
if(NOT UCX_FOUND)
    message(STATUS
        "UCX not found (libucx-dev): building without `--engine ucx`")
    return()
endif()
add_library(muster_ucx MODULE src/net/ucx.c
    src/base/assert.c src/base/clock.c src/base/mem.c src/base/status.c)
set_target_properties(muster_ucx PROPERTIES PREFIX "" OUTPUT_NAME muster-ucx)
target_include_directories(muster_ucx PRIVATE
    ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
target_compile_definitions(muster_ucx PRIVATE MUSTER_BUILDING=1)
target_link_libraries(muster_ucx PRIVATE PkgConfig::UCX muster_flags)
file(WRITE ${CMAKE_BINARY_DIR}/ucx.map
    "{ global: muster_fabric_ucx; local: *; };\n")
target_link_options(muster_ucx PRIVATE
    -Wl,--version-script=${CMAKE_BINARY_DIR}/ucx.map)
if(NOT MUSTER_SANITIZE AND NOT MUSTER_FUZZ)
    target_link_options(muster_ucx PRIVATE -Wl,-z,defs)
endif()
