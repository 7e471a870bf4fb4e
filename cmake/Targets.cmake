# One target per module, declared the same way everywhere.

# For code that nobody waits for, such as what runs once: a quarter less to compile.
function(adaptdl_optimize_lightly name)
  target_compile_options(${name} PRIVATE "$<$<NOT:$<CONFIG:Debug>>:-O1>")
endfunction()

# adaptdl_library(NAME SOURCES a.cc ... DEPS x y ...)
# A static library, included as "libs/<module>/<header>.h" from the project's root.
function(adaptdl_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  # Headers, which cost most, are read once for several sources.
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${ADAPTDL_UNITY} UNITY_BUILD_BATCH_SIZE 12)
  target_include_directories(${name} PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>")
  target_link_libraries(${name} PUBLIC ${ARG_DEPS} PRIVATE "$<BUILD_INTERFACE:adaptdl_warnings>")
  if(ADAPTDL_SHARED_HEADERS AND "${ARG_DEPS}" MATCHES "gRPC::grpc|adaptdl_(proto|rpc|service)" AND NOT "${ARG_DEPS}" MATCHES "[Tt]orch")
    target_precompile_headers(${name} REUSE_FROM library_headers)
  endif()
endfunction()

# adaptdl_executable(NAME SOURCES main.cc ... DEPS x y ...)
function(adaptdl_executable name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} adaptdl_warnings)
endfunction()

add_custom_target(all_tests)  # the test programs that are run, and what they start

# adaptdl_test(NAME [LIBTORCH] SOURCES a_test.cc ... DEPS x ... [LABELS unit] [TIMEOUT seconds] [PROPERTIES k v ...])
# A GoogleTest program; each of its cases becomes a ctest case "NAME/Suite.Case". LIBTORCH: one whose sources read LibTorch's
# headers. It is one ctest case, as to start such a program takes a second.
function(adaptdl_test name)
  cmake_parse_arguments(ARG "LIBTORCH" "TIMEOUT" "SOURCES;DEPS;LABELS;PROPERTIES" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(ADAPTDL_SANITIZE)
    math(EXPR ARG_TIMEOUT "5 * ${ARG_TIMEOUT}")  # programs run that much slower
  endif()
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests" UNITY_BUILD ${ADAPTDL_UNITY} UNITY_BUILD_BATCH_SIZE 6)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_definitions(${name} PRIVATE
    ADAPTDL_SOURCE_DIR="${PROJECT_SOURCE_DIR}" ADAPTDL_BINARY_DIR="${PROJECT_BINARY_DIR}")
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main adaptdl_warnings)
  adaptdl_optimize_lightly(${name})  # nothing is timed in them; the libraries under test keep the build's own level
  if(ADAPTDL_SHARED_HEADERS AND NOT ARG_LIBTORCH)
    target_precompile_headers(${name} REUSE_FROM test_headers)
  endif()
  if(ADAPTDL_SANITIZE STREQUAL "thread" AND name IN_LIST ADAPTDL_NOT_UNDER_TSAN)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  add_dependencies(all_tests ${name})
  if(ARG_LIBTORCH)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}" ${ARG_PROPERTIES})
    return()
  endif()
  gtest_discover_tests(${name} TEST_PREFIX "${name}/" DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}" ${ARG_PROPERTIES})
endfunction()

# adaptdl_script_test(NAME COMMAND... [LABEL unit] [TIMEOUT seconds]): exit code 77 means "skipped".
function(adaptdl_script_test name)
  cmake_parse_arguments(ARG "" "LABEL;TIMEOUT" "COMMAND" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  add_test(NAME ${name} COMMAND ${ARG_COMMAND})
  set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT} SKIP_RETURN_CODE 77)
endfunction()

# adaptdl_python_test(NAME MODULE [LABEL unit] [TIMEOUT seconds])
# Tests of Python's package, by unittest: a module of python/tests, run by Debian's Python, whose PyTorch is Debian's.
function(adaptdl_python_test name module)
  adaptdl_script_test(${name} ${ARGN}
    COMMAND /usr/bin/python3 "${PROJECT_SOURCE_DIR}/python/tests/run.py" "${PROJECT_BINARY_DIR}/python" ${module})
endfunction()

# adaptdl_benchmark(NAME SOURCES a_bench.cc ... DEPS x ...)
# A program that measures. Tests don't need it: it is built when named, or with all others by the target "benchmarks".
function(adaptdl_benchmark name)
  adaptdl_executable(${name} ${ARGN})
  set_target_properties(${name} PROPERTIES
    EXCLUDE_FROM_ALL ON RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
  if(NOT TARGET benchmarks)
    add_custom_target(benchmarks)
  endif()
  add_dependencies(benchmarks ${name})
endfunction()
