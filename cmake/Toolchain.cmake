# Language level, warnings, compiler cache and linker.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

# All programs land in one folder: services, shim, CLI and examples find each other beside themselves.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib")

find_program(ADAPTDL_CCACHE ccache)
if(ADAPTDL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # What a source includes is learnt from the compiler, not by preprocessing it once more: a tenth of the time. Precompiled headers
  # are known by their sums (SharedHeaders.cmake), and do not ask what time it is.
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND};-E;env;CCACHE_DEPEND=1;CCACHE_PCH_EXTSUM=1;CCACHE_SLOPPINESS=pch_defines,time_macros;${ADAPTDL_CCACHE}")
  set(CMAKE_C_COMPILER_LAUNCHER "${ADAPTDL_CCACHE}")
endif()

find_program(ADAPTDL_MOLD mold)
if(ADAPTDL_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# Our own code is held to these; third-party headers are system headers and exempt.
add_library(adaptdl_warnings INTERFACE)
target_compile_options(adaptdl_warnings INTERFACE -Wall -Wextra -Werror)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(adaptdl_warnings INTERFACE -Wthread-safety)
endif()
