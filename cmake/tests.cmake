# One ctest per test file; names are ROOM_file or ROOM_SUB_file, so a failing
# name says where to look.
enable_testing()
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)

set(MUSTER_TEST_ENV
    "OPENBLAS_NUM_THREADS=1"
    "MUSTER_BIN=${CMAKE_BINARY_DIR}/muster"
    "MUSTER_SOURCE=${CMAKE_SOURCE_DIR}"
    "MUSTER_BUILD=${CMAKE_BINARY_DIR}"
    "ASAN_OPTIONS=detect_leaks=1:abort_on_error=0"
    "TSAN_OPTIONS=halt_on_error=1:suppressions=${CMAKE_SOURCE_DIR}/tests/tsan.supp"
    "UBSAN_OPTIONS=print_stacktrace=1")
# The limit of an end-to-end run is there to end one that hangs. Sanitizers make
# runs many times slower.
if(MUSTER_SANITIZE)
    list(APPEND MUSTER_TEST_ENV "E2E_LIMIT=300")
endif()

function(muster_finish_test name)
    set_tests_properties(${name} PROPERTIES
        ENVIRONMENT "${MUSTER_TEST_ENV}" TIMEOUT 900 SKIP_RETURN_CODE 77)
endfunction()

# src/ps/store/latch_test.c is ps_store_latch, tests/e2e/join_test.sh e2e_join.
function(muster_test_name source name_out)
    file(RELATIVE_PATH name ${CMAKE_SOURCE_DIR} ${source})
    string(REGEX REPLACE "^(src|tests)/" "" name ${name})
    string(REGEX REPLACE "_test\\.(c|sh)$" "" name ${name})
    string(REPLACE "/" "_" name ${name})
    set(${name_out} ${name} PARENT_SCOPE)
endfunction()

function(muster_add_c_test source)
    muster_test_name(${source} name)
    add_executable(test_${name} ${source})
    target_link_libraries(test_${name} PRIVATE
        muster_inside PkgConfig::CMOCKA muster_flags)
    add_test(NAME ${name} COMMAND test_${name}
        WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    muster_finish_test(${name})
endfunction()

file(GLOB OTHER_TESTS CONFIGURE_DEPENDS tests/*/*_test.c)
foreach(source ${MUSTER_TEST_SOURCES} ${OTHER_TESTS})
    muster_add_c_test(${source})
endforeach()

file(GLOB SHELL_TESTS CONFIGURE_DEPENDS tests/*/*_test.sh)
foreach(source ${SHELL_TESTS})
    muster_test_name(${source} name)
    add_test(NAME ${name} COMMAND bash ${source}
        WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    muster_finish_test(${name})
    set_tests_properties(${name} PROPERTIES RUN_SERIAL TRUE)
endforeach()

# A model whose workers can be made to lie.
add_library(liar_model MODULE tests/hostile/liar_model.c)
set_target_properties(liar_model PROPERTIES
    PREFIX "" C_VISIBILITY_PRESET default)
target_include_directories(liar_model PRIVATE ${CMAKE_SOURCE_DIR}/include)
target_link_libraries(liar_model PRIVATE muster_flags m)

# An OpenBLAS that does not know the processor.
add_library(old_core MODULE tests/cli/old_core.c)
set_target_properties(old_core PROPERTIES
    PREFIX "" C_VISIBILITY_PRESET default)
target_link_libraries(old_core PRIVATE muster_flags)

# Attacks that need a program of their own.
foreach(attack freeze_thread mutate slow_wire)
    add_executable(${attack} tests/hostile/${attack}.c)
    target_link_libraries(${attack} PRIVATE muster_flags)
endforeach()

add_executable(crowd tests/hostile/crowd.c bench/star_crowd.c)
target_include_directories(crowd PRIVATE bench)
target_link_libraries(crowd PRIVATE muster_flags)

# The fuzz targets' corpora are replayed as plain tests.
file(GLOB FUZZERS CONFIGURE_DEPENDS tests/fuzz/fuzz_*.c)
foreach(source ${FUZZERS})
    get_filename_component(name ${source} NAME_WE)
    string(REGEX REPLACE "^fuzz_" "" short ${name})
    add_executable(replay_${short} ${source} tests/fuzz/replay.c)
    target_link_libraries(replay_${short} PRIVATE muster_inside muster_flags)
    add_test(NAME ${name} COMMAND replay_${short}
        ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${short})
    muster_finish_test(${name})
endforeach()
