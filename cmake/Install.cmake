# What "cmake --install" puts where: the programs, and the examples' job folders to submit with them.

# The training library opens libadaptdl_control.so and libadaptdl_gloo.so in "../lib" of a program's folder, so lib stays
# plain "lib".

foreach(program adaptdl adaptdl-supervisor adaptdl-allocator adaptdl-autoscaler adaptdl-worker adaptdl-shim
                adaptdl-sim adaptdl-mnist adaptdl-mnist-plain)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION bin)
  endif()
endforeach()

foreach(library adaptdl_control adaptdl_gloo)
  if(TARGET ${library})
    install(TARGETS ${library} LIBRARY DESTINATION lib)
  endif()
endforeach()

install(DIRECTORY "${PROJECT_SOURCE_DIR}/examples/" DESTINATION share/adaptdl/examples
        FILES_MATCHING PATTERN "*.yaml")
