# The Debian packages, which scripts/package.sh makes. Each holds one component of the installation:
#
#   cli        adaptdl-cli: the command, its manual pages and completions for bash, zsh and fish
#   services   adaptdl-services: the services with units, settings and manual pages
#   training   libadaptdl-dev: the training library (Install.cmake says what that is)
#   client     libadaptdl-client-dev: the client library for C++, likewise
#
# The first two fit /usr and /etc alone, and only packages get them: "cmake --install" without a component leaves them out.

set(ADAPTDL_PACKAGE_MAINTAINER "AdaptDL packagers <packages@adaptdl.invalid>" CACHE STRING
    "Who answers for the packages, as NAME <ADDRESS>")

set(cli_programs adaptdl)
set(service_programs adaptdl-supervisor adaptdl-allocator adaptdl-autoscaler adaptdl-worker)

# adaptdl_package(COMPONENT NAME TARGETS t ... [MANUALS program ...])
# The target package_COMPONENT builds what the package holds: TARGETS, and the manual pages of these programs.
function(adaptdl_package component name)
  cmake_parse_arguments(ARG "" "" "TARGETS;MANUALS" ${ARGN})
  add_custom_target(package_${component} DEPENDS ${ARG_TARGETS})
  install(FILES "${PROJECT_SOURCE_DIR}/deploy/debian/copyright" "${PROJECT_SOURCE_DIR}/CHANGELOG.md"
          DESTINATION share/doc/${name} COMPONENT ${component} EXCLUDE_FROM_ALL)
  if(ARG_MANUALS)
    set(pages "${PROJECT_BINARY_DIR}/man/${component}")
    add_custom_command(OUTPUT "${pages}/made"
      COMMAND "${PROJECT_SOURCE_DIR}/deploy/debian/man-pages.sh" "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}" "${pages}" ${ARG_MANUALS}
      COMMAND "${CMAKE_COMMAND}" -E touch "${pages}/made"
      DEPENDS ${ARG_MANUALS} "${PROJECT_SOURCE_DIR}/deploy/debian/man-pages.sh"
      COMMENT "Making the manual pages of ${name}" VERBATIM)
    add_custom_target(manuals_${component} DEPENDS "${pages}/made")
    add_dependencies(package_${component} manuals_${component})
    install(DIRECTORY "${pages}/" DESTINATION share/man/man1 COMPONENT ${component} EXCLUDE_FROM_ALL
            FILES_MATCHING PATTERN "*.gz")
  endif()
endfunction()

adaptdl_package(cli adaptdl-cli TARGETS ${cli_programs} MANUALS ${cli_programs})
install(TARGETS ${cli_programs} RUNTIME DESTINATION bin COMPONENT cli EXCLUDE_FROM_ALL)
# The command writes its completions itself, by the names at which each shell looks for them.
set(completions "${PROJECT_BINARY_DIR}/completions")
foreach(completion bash:adaptdl zsh:_adaptdl fish:adaptdl.fish)
  string(REPLACE ":" ";" completion "${completion}")
  list(GET completion 0 shell)
  list(GET completion 1 file)
  add_custom_command(OUTPUT "${completions}/${shell}/${file}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${completions}/${shell}"
    COMMAND adaptdl completion ${shell} > "${completions}/${shell}/${file}"
    DEPENDS adaptdl COMMENT "Making the completion of ${shell}" VERBATIM)
  list(APPEND completion_files "${completions}/${shell}/${file}")
endforeach()
add_custom_target(completions DEPENDS ${completion_files})
add_dependencies(package_cli completions)
install(FILES "${completions}/bash/adaptdl" DESTINATION share/bash-completion/completions COMPONENT cli EXCLUDE_FROM_ALL)
install(FILES "${completions}/zsh/_adaptdl" DESTINATION share/zsh/vendor-completions COMPONENT cli EXCLUDE_FROM_ALL)
install(FILES "${completions}/fish/adaptdl.fish" DESTINATION share/fish/vendor_completions.d COMPONENT cli EXCLUDE_FROM_ALL)

# The worker starts the shim and adaptdl-environment, which have no use of their own, and finds them beside itself; jobs of
# "adaptdl doctor" run adaptdl-netperf.
adaptdl_package(services adaptdl-services TARGETS ${service_programs} adaptdl-shim adaptdl-environment adaptdl-netperf MANUALS ${service_programs})
install(TARGETS ${service_programs} adaptdl-shim adaptdl-environment adaptdl-netperf RUNTIME DESTINATION bin COMPONENT services EXCLUDE_FROM_ALL)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/deploy/systemd/" DESTINATION lib/systemd/system COMPONENT services EXCLUDE_FROM_ALL
        FILES_MATCHING PATTERN "*.service")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/deploy/systemd/" DESTINATION /etc/adaptdl COMPONENT services EXCLUDE_FROM_ALL
        FILES_MATCHING PATTERN "*.env")

adaptdl_package(training libadaptdl-dev TARGETS adaptdl_elastic adaptdl_control)
adaptdl_package(client libadaptdl-client-dev TARGETS adaptdl_client)

set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL cli services training client)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_SET_DESTDIR ON)  # settings lie outside of the prefix
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)

set(CPACK_PACKAGE_NAME adaptdl)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${ADAPTDL_PACKAGE_MAINTAINER}")
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)

set(CPACK_DEBIAN_CLI_PACKAGE_NAME adaptdl-cli)
set(CPACK_DEBIAN_CLI_PACKAGE_SECTION science)
set(CPACK_DEBIAN_CLI_PACKAGE_SUGGESTS adaptdl-services)
set(CPACK_DEBIAN_CLI_DESCRIPTION
    "Elastic training of deep-learning models: command line\nSubmits and follows training jobs. With adaptdl-services it also runs a cluster on this machine.")

set(CPACK_DEBIAN_SERVICES_PACKAGE_NAME adaptdl-services)
set(CPACK_DEBIAN_SERVICES_PACKAGE_SECTION science)
set(CPACK_DEBIAN_SERVICES_PACKAGE_DEPENDS adduser)
set(CPACK_DEBIAN_SERVICES_PACKAGE_RECOMMENDS adaptdl-cli)
set(CPACK_DEBIAN_SERVICES_PACKAGE_SUGGESTS python3-venv)
set(CPACK_DEBIAN_SERVICES_PACKAGE_CONTROL_EXTRA
    "${PROJECT_SOURCE_DIR}/deploy/debian/services/conffiles"
    "${PROJECT_SOURCE_DIR}/deploy/debian/services/postinst"
    "${PROJECT_SOURCE_DIR}/deploy/debian/services/prerm"
    "${PROJECT_SOURCE_DIR}/deploy/debian/services/postrm")
set(CPACK_DEBIAN_SERVICES_DESCRIPTION
    "Elastic training of deep-learning models: services of a cluster\nSupervisor, allocator, autoscaler and worker, with systemd units that are not started by themselves.")

set(CPACK_DEBIAN_TRAINING_PACKAGE_NAME libadaptdl-dev)
set(CPACK_DEBIAN_TRAINING_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_TRAINING_PACKAGE_DEPENDS "libtorch-dev, libabsl-dev, libnlopt-dev, nlohmann-json3-dev, zlib1g-dev")
set(CPACK_DEBIAN_TRAINING_PACKAGE_RECOMMENDS libopenblas0-pthread)
set(CPACK_DEBIAN_TRAINING_DESCRIPTION
    "Elastic training of deep-learning models: training library\nMakes LibTorch programs elastic; a CMake package, for Debian's LibTorch.")

set(CPACK_DEBIAN_CLIENT_PACKAGE_NAME libadaptdl-client-dev)
set(CPACK_DEBIAN_CLIENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_CLIENT_PACKAGE_DEPENDS libabsl-dev)
set(CPACK_DEBIAN_CLIENT_DESCRIPTION
    "Elastic training of deep-learning models: client library for C++\nSubmits and follows training jobs from programs; a CMake package.")

include(CPack)
