# tegula_pch(<name> [PIE] [DEFINITIONS ...] [SYSTEM dirs...] HEADERS ...) makes a precompiled header of system headers,
# tegula_use_pch(<target> <name>) compiles every C++ source of a target with it.
#
# Why not target_precompile_headers: it names the header by its absolute path, so ccache finds nothing for a clone in another
# folder. Here the path is relative to the build folder, and ccache hashes a `.sum` file beside the header (CCACHE_PCH_EXTSUM)
# instead of its bytes, which hold absolute paths. The header holds system headers only, so the compiler and the list of headers,
# with the flags that ccache hashes anyway, determine it.
#
# -fpch-instantiate-templates: else every file that uses the header instantiates the templates anew that inline functions of the header
# need (1.5 s a file for LLVM's headers).
include_guard()

function(tegula_pch name)
  cmake_parse_arguments(A "PIE" "" "DEFINITIONS;SYSTEM;HEADERS" ${ARGN})
  set(header ${CMAKE_BINARY_DIR}/pch/${name}.h)
  set(text "")
  foreach(h ${A_HEADERS})
    string(APPEND text "#include <${h}>\n")
  endforeach()
  file(CONFIGURE OUTPUT ${header} CONTENT "${text}" @ONLY)
  file(CONFIGURE OUTPUT ${header}.pch.sum CONTENT "${CMAKE_CXX_COMPILER_VERSION} ${LLVM_PACKAGE_VERSION}\n${text}" @ONLY)

  string(TOUPPER "${CMAKE_BUILD_TYPE}" config)
  separate_arguments(flags NATIVE_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${config}}")
  get_directory_property(options COMPILE_OPTIONS)
  list(TRANSFORM A_DEFINITIONS REPLACE "^-D" "")
  list(TRANSFORM A_DEFINITIONS PREPEND "-D")
  list(TRANSFORM A_SYSTEM PREPEND "-isystem")
  add_custom_command(OUTPUT ${header}.pch
    COMMAND ${CMAKE_CXX_COMPILER} ${A_DEFINITIONS} ${A_SYSTEM} ${flags} $<IF:$<BOOL:${A_PIE}>,-fPIE,-fPIC> -fvisibility=hidden
            -fvisibility-inlines-hidden ${options} -std=c++20 -Xclang -fno-pch-timestamp -fpch-instantiate-templates -x c++-header -o pch/${name}.h.pch pch/${name}.h
    DEPENDS ${header} WORKING_DIRECTORY ${CMAKE_BINARY_DIR} COMMENT "Precompiling ${name}.h" VERBATIM)
  add_custom_target(pch-${name} DEPENDS ${header}.pch)
endfunction()

function(tegula_use_pch target name)
  add_dependencies(${target} pch-${name})
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    get_source_file_property(own ${source} COMPILE_OPTIONS)
    if(source MATCHES "\\.cpp$" AND NOT own) # a source with language options of its own cannot use it
      set_property(SOURCE ${source} APPEND PROPERTY OBJECT_DEPENDS ${CMAKE_BINARY_DIR}/pch/${name}.h.pch)
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS -include-pch pch/${name}.h.pch -Xclang -fno-pch-timestamp)
    endif()
  endforeach()
endfunction()
