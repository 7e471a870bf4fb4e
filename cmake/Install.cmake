# What "cmake --install" puts where, in five components:
#
#   programs   the programs, and the examples' job folders to submit with them: what the container image has
#   python     the Python package, with its libraries: what the container image has beside the programs
#   simulator  adaptdl-sim, which needs a solver beside what the programs need
#   training   the training library as the CMake package "adaptdl", for programs that are built elsewhere
#   client     the client library, likewise as "adaptdl_client"

include(CMakePackageConfigHelpers)

# The training library opens libadaptdl_control.so in "../lib" of a program's folder, so lib stays
# plain "lib".
set(package lib/cmake/adaptdl)

foreach(program adaptdl adaptdl-supervisor adaptdl-allocator adaptdl-autoscaler adaptdl-worker adaptdl-shim adaptdl-environment adaptdl-netperf
                adaptdl-mnist adaptdl-mnist-plain adaptdl-cifar adaptdl-cifar-plain adaptdl-ncf adaptdl-ncf-plain
                adaptdl-transformer adaptdl-transformer-plain)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION bin COMPONENT programs)
  endif()
endforeach()

# The package opens the library of the control plane beside itself.
install(TARGETS adaptdl_python_engine adaptdl_control LIBRARY DESTINATION python/adaptdl COMPONENT python)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/python/adaptdl/" DESTINATION python/adaptdl COMPONENT python
        FILES_MATCHING PATTERN "*.py" PATTERN "py.typed" PATTERN "__pycache__" EXCLUDE)

install(TARGETS adaptdl-sim RUNTIME DESTINATION bin COMPONENT simulator)

# Both components run with them.
foreach(component programs training)
  install(TARGETS adaptdl_control LIBRARY DESTINATION lib COMPONENT ${component})
  if(TARGET adaptdl_cuda)
    install(TARGETS adaptdl_cuda LIBRARY DESTINATION lib COMPONENT ${component})
  endif()
endforeach()

install(DIRECTORY "${PROJECT_SOURCE_DIR}/examples/" DESTINATION share/adaptdl/examples COMPONENT programs
        FILES_MATCHING PATTERN "*.yaml" PATTERN "python-mnist/*.py" PATTERN "requirements.txt")

# Programs name adaptdl::elastic alone; the others are its parts.
set_target_properties(adaptdl_elastic PROPERTIES EXPORT_NAME elastic)
target_compile_features(adaptdl_elastic PUBLIC cxx_std_20)
# Where such a program, wherever it lies, finds the libraries that it opens at run time.
target_link_options(adaptdl_elastic INTERFACE "$<INSTALL_INTERFACE:LINKER:-rpath,$<INSTALL_PREFIX>/lib>")
install(TARGETS adaptdl_elastic adaptdl_step adaptdl_elastic_core adaptdl_gradients adaptdl_goodput adaptdl_comm
        adaptdl_device adaptdl_base
        EXPORT adaptdl ARCHIVE DESTINATION lib COMPONENT training INCLUDES DESTINATION include)
install(EXPORT adaptdl NAMESPACE adaptdl:: FILE adaptdl-targets.cmake DESTINATION ${package} COMPONENT training)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/libs/elastic/include/" DESTINATION include COMPONENT training)

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/adaptdl-config.cmake.in"
  "${PROJECT_BINARY_DIR}/adaptdl-config.cmake" INSTALL_DESTINATION ${package})
write_basic_package_version_file("${PROJECT_BINARY_DIR}/adaptdl-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/adaptdl-config.cmake" "${PROJECT_BINARY_DIR}/adaptdl-config-version.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/Torch.cmake"
        DESTINATION ${package} COMPONENT training)

set(client_package lib/cmake/adaptdl_client)
install(TARGETS adaptdl_client EXPORT adaptdl_client LIBRARY DESTINATION lib COMPONENT client INCLUDES DESTINATION include)
install(EXPORT adaptdl_client NAMESPACE adaptdl:: FILE adaptdl_client-targets.cmake DESTINATION ${client_package} COMPONENT client)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/libs/client/include/" DESTINATION include COMPONENT client FILES_MATCHING PATTERN "*.h")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/adaptdl_client-config.cmake.in"
  "${PROJECT_BINARY_DIR}/adaptdl_client-config.cmake" INSTALL_DESTINATION ${client_package})
write_basic_package_version_file("${PROJECT_BINARY_DIR}/adaptdl_client-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/adaptdl_client-config.cmake" "${PROJECT_BINARY_DIR}/adaptdl_client-config-version.cmake"
        DESTINATION ${client_package} COMPONENT client)
