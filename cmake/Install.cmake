# The installed package: find_package(tegula) gives
#   tegula::tegula   compiler and runtime, one shared library
#   tegula::runtime  runtime alone, static, no LLVM: for programs that link kernels compiled ahead of time, or load bundles
#   tegula::runtime-shared  the same as a shared library
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tegula)
# In a folder where find_package() does not look: it tries the folders above those of PATH, and so the build where build/bin is on it.
set(config_dir ${PROJECT_BINARY_DIR}/package)
install(TARGETS libtegula EXPORT tegula-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS tegula-torch-launcher LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS libtegula-runtime EXPORT tegula-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
set_target_properties(tegula_runtime PROPERTIES EXPORT_NAME runtime)
set_target_properties(tegula_support PROPERTIES EXPORT_NAME support)
install(TARGETS tegula_runtime tegula_sim tegula_support EXPORT tegula-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT tegula-targets NAMESPACE tegula:: DESTINATION ${package_dir})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tegula DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  PATTERN CpuAbi.h EXCLUDE)
install(FILES ${PROJECT_SOURCE_DIR}/src/abi/CpuAbi.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tegula)

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tegula-config.cmake.in ${config_dir}/tegula-config.cmake
  INSTALL_DESTINATION ${package_dir})
# docs/compatibility.md: while the major version is 0, programs ask for a minor version.
write_basic_package_version_file(${config_dir}/tegula-config-version.cmake COMPATIBILITY SameMinorVersion)
# For builds that are not CMake's. Places follow the file, wherever the tree is moved to.
file(RELATIVE_PATH pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
foreach(package tegula tegula-runtime)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/${package}.pc.in ${PROJECT_BINARY_DIR}/${package}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
install(FILES ${config_dir}/tegula-config.cmake ${config_dir}/tegula-config-version.cmake
  DESTINATION ${package_dir})
# What `cmake --install` copies, for those who have built a part (`make demo`).
add_custom_target(installable)
add_dependencies(installable libtegula libtegula-runtime tegula-torch-launcher tegula_runtime tegula_sim tegula_support tegula)
