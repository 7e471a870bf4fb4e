# What "cmake --install" puts where: the programs, and the examples' job folders to submit with them.

# The training library opens libadaptdl_control.so in "../lib" of a program's folder, so lib stays plain "lib".

foreach(program adaptdl adaptdl-supervisor adaptdl-allocator adaptdl-autoscaler adaptdl-worker adaptdl-shim
                adaptdl-sim adaptdl-mnist adaptdl-mnist-plain)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION bin)
  endif()
endforeach()

if(TARGET adaptdl_control)
  install(TARGETS adaptdl_control LIBRARY DESTINATION lib)
endif()

install(DIRECTORY "${PROJECT_SOURCE_DIR}/examples/" DESTINATION share/adaptdl/examples
        FILES_MATCHING PATTERN "*.yaml")
