# bench/bench_x.c -> muster-bench-x, run by `muster bench x`; further sources
#                    of the same program are bench/x_*.c.
# bench/mpi_x.c   -> muster-bench-x-mpi where MPI is present (the peer).
file(GLOB BENCHES CONFIGURE_DEPENDS bench/bench_*.c)
set(MUSTER_BENCH_TARGETS) # installed by install.cmake
foreach(source ${BENCHES})
    get_filename_component(name ${source} NAME_WE)
    string(REGEX REPLACE "^bench_" "" short ${name})
    file(GLOB parts CONFIGURE_DEPENDS bench/${short}_*.c)
    add_executable(muster-bench-${short} ${source} ${parts})
    target_link_libraries(muster-bench-${short} PRIVATE muster_inside muster_flags)
    list(APPEND MUSTER_BENCH_TARGETS muster-bench-${short})
endforeach()

find_package(MPI COMPONENTS C QUIET)
file(GLOB MPI_BENCHES CONFIGURE_DEPENDS bench/mpi_*.c)
if(MPI_C_FOUND)
    foreach(source ${MPI_BENCHES})
        get_filename_component(name ${source} NAME_WE)
        string(REGEX REPLACE "^mpi_" "" short ${name})
        add_executable(muster-bench-${short}-mpi ${source})
        target_link_libraries(muster-bench-${short}-mpi PRIVATE muster_flags MPI::MPI_C m)
        list(APPEND MUSTER_BENCH_TARGETS muster-bench-${short}-mpi)
    endforeach()
endif()
