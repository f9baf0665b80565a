# tests/fuzz/fuzz_x.c with libFuzzer's main; corpora in tests/fuzz/corpus/x.
file(GLOB FUZZERS CONFIGURE_DEPENDS tests/fuzz/fuzz_*.c)
foreach(source ${FUZZERS})
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE muster_inside muster_flags)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endforeach()
