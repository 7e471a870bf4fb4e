# Headers of libraries that nearly every source reads, parsed once for all of them: a quarter less to compile from the start.
#
# Only for builds that compile everything anyway (ADAPTDL_UNITY), and by GCC. The other presets read each source's own
# includes, so that one which is missing is noticed. What is listed here is never ours: a change of it compiles everything.

if(ADAPTDL_UNITY AND NOT ADAPTDL_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(ADAPTDL_SHARED_HEADERS ON)
  # A precompiled header is good only for sources that are compiled with the same options.
  add_compile_options(-pthread)
  # ccache can tell what a precompiled header stands for when GCC says in its output that it was used.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>")
  # GCC forgets which precompiled code is a library's, and doubts what it has inlined of that. The other presets do ask.
  target_compile_options(adaptdl_warnings INTERFACE
    -Wno-array-bounds -Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread)
endif()

set(adaptdl_common_headers
  <algorithm> <cstdint> <filesystem> <functional> <map> <memory> <optional> <set> <string> <thread> <utility> <vector>
  <absl/status/status.h> <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_format.h> <absl/strings/str_split.h>
  <absl/time/time.h> <grpcpp/grpcpp.h>)

# adaptdl_precompile(NAME HEADERS...): makes them of a target, from which others take them by "REUSE_FROM".
function(adaptdl_precompile name)
  target_precompile_headers(${name} PRIVATE ${ARGN})
  # GCC writes its folder's name into them, among other things. Told what is in them, ccache takes those of all clones for the
  # same. A package that changes makes CMake run again.
  set(text ${ARGN})
  list(TRANSFORM text REPLACE "(.+)" "#include \\1")
  list(JOIN text "\n" text)
  set(folder "${PROJECT_BINARY_DIR}/CMakeFiles/${name}.dir")
  file(WRITE "${PROJECT_BINARY_DIR}/shared_headers/${name}.h" "${text}\n")
  execute_process(
    COMMAND "${CMAKE_CXX_COMPILER}" -std=c++20 -pthread -O1 -fPIC -E -P "${PROJECT_BINARY_DIR}/shared_headers/${name}.h"
    OUTPUT_VARIABLE parsed COMMAND_ERROR_IS_FATAL ANY)
  string(SHA256 sum "${CMAKE_CXX_COMPILER_VERSION} ${parsed}")
  file(WRITE "${folder}/cmake_pch.hxx.gch.sum" "${sum}\n")
  target_link_libraries(${name} PRIVATE gRPC::grpc++ absl::status absl::statusor absl::strings absl::str_format absl::time)
endfunction()

if(ADAPTDL_SHARED_HEADERS)
  file(WRITE "${PROJECT_BINARY_DIR}/shared_headers/library.cc" "")
  file(WRITE "${PROJECT_BINARY_DIR}/shared_headers/program.cc" "int main() { return 0; }\n")
  add_library(library_headers STATIC "${PROJECT_BINARY_DIR}/shared_headers/library.cc")
  adaptdl_precompile(library_headers ${adaptdl_common_headers})
  if(ADAPTDL_BUILD_TESTS)
    add_executable(test_headers EXCLUDE_FROM_ALL "${PROJECT_BINARY_DIR}/shared_headers/program.cc")
    target_link_libraries(test_headers PRIVATE GTest::gmock GTest::gtest_main)
    adaptdl_precompile(test_headers <gtest/gtest.h> <gmock/gmock.h> ${adaptdl_common_headers})
    adaptdl_optimize_lightly(test_headers)
  endif()
endif()
