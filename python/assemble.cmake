# Puts Python's package together by links, so that a changed source needs no build:
#   cmake -DSOURCE=python/adaptdl -DPACKAGE=build/release/python/adaptdl -DLIBRARIES="a.so;b.so" -P assemble.cmake

file(MAKE_DIRECTORY "${PACKAGE}")
# What is gone from the sources.
file(GLOB known LIST_DIRECTORIES true "${PACKAGE}/*")
foreach(path ${known})
  if(IS_SYMLINK "${path}" AND NOT EXISTS "${path}")
    file(REMOVE "${path}")
  endif()
endforeach()
file(GLOB sources LIST_DIRECTORIES true "${SOURCE}/*")
foreach(path ${sources} ${LIBRARIES})
  get_filename_component(name "${path}" NAME)
  if(NOT name STREQUAL "__pycache__")
    file(CREATE_LINK "${path}" "${PACKAGE}/${name}" SYMBOLIC)
  endif()
endforeach()
