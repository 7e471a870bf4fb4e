# LibTorch, as Debian packages it (1.13, CPU, Gloo) or as upstream builds it (2.x, CUDA, NCCL; found through
# CMAKE_PREFIX_PATH). Gives the target adaptdl_torch. Part of the installed package too.

if(NOT DEFINED TORCH_CUDA_ARCH_LIST)
  # No device code of ours depends on LibTorch, so any architecture does; without one, LibTorch's configuration compiles and runs a
  # program to ask the GPU, which need not be in the machine that builds.
  set(TORCH_CUDA_ARCH_LIST "9.0")
endif()
find_package(Torch REQUIRED)

# Imported: whoever links the installed library makes it for the LibTorch of that machine.
if(NOT TARGET adaptdl_torch)
  add_library(adaptdl_torch INTERFACE IMPORTED)
  target_include_directories(adaptdl_torch INTERFACE ${TORCH_INCLUDE_DIRS})
  target_link_libraries(adaptdl_torch INTERFACE ${TORCH_LIBRARIES})
  separate_arguments(ADAPTDL_TORCH_FLAGS UNIX_COMMAND "${TORCH_CXX_FLAGS}")
  target_compile_options(adaptdl_torch INTERFACE ${ADAPTDL_TORCH_FLAGS})
  # Upstream's LibTorch shows a std::filesystem of its own, of another libstdc++, and programs that get that one crash. They get
  # that of the library which they name first.
  target_link_options(adaptdl_torch INTERFACE "LINKER:--push-state,--no-as-needed" -lstdc++ "LINKER:--pop-state")
  # A LibTorch that knows CUDA's streams.
  if(TARGET c10_cuda)
    target_compile_definitions(adaptdl_torch INTERFACE ADAPTDL_TORCH_CUDA)
  endif()
endif()
