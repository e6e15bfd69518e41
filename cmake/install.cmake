# What `cmake --install` puts into a prefix: the library, the public headers, and what find_package
# needs. The Python module is a component of its own, which a wheel asks for by name.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS flambeau EXPORT flambeau
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(CODE "
  set(FLAMBEAU_SOURCES \"${CMAKE_SOURCE_DIR}\")
  set(FLAMBEAU_INCLUDE_FOLDER \"${CMAKE_INSTALL_INCLUDEDIR}\")" COMPONENT development)
install(SCRIPT ${CMAKE_SOURCE_DIR}/cmake/install_headers.cmake COMPONENT development)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/flambeau)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/flambeauConfig.cmake.in
  ${CMAKE_BINARY_DIR}/flambeauConfig.cmake INSTALL_DESTINATION ${package_folder}
  NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/flambeauConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/flambeauConfig.cmake ${CMAKE_BINARY_DIR}/flambeauConfigVersion.cmake
  DESTINATION ${package_folder} COMPONENT development)
install(EXPORT flambeau NAMESPACE flambeau:: FILE flambeauTargets.cmake
  DESTINATION ${package_folder} COMPONENT development)

if(TARGET flambeau_python)
  install(TARGETS flambeau flambeau_python
    LIBRARY DESTINATION flambeau COMPONENT python EXCLUDE_FROM_ALL)
endif()
