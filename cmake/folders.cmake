# How the folders of src/ are compiled. Each folder is a library with a name, or belongs to one
# binary. Its CMakeLists.txt lists the folders that it may include, which tests/folder_order.py
# checks.

find_path(PROTOZERO_INCLUDE_DIR protozero/pbf_reader.hpp)
if(NOT PROTOZERO_INCLUDE_DIR)
  message(FATAL_ERROR "protozero is missing. On Debian and Ubuntu: apt-get install libprotozero-dev")
endif()

# Compiles the sources of a library eight at a time. Names in anonymous namespaces must therefore
# differ within a library, which costs little and reads better. Tests may repeat names.
function(opgraft_compile_together)
  foreach(target ${ARGN})
    set_target_properties(${target} PROPERTIES UNITY_BUILD ${OPGRAFT_UNITY})
  endforeach()
endfunction()

function(opgraft_compile_tests target)
  # Compiling the tests takes longer than running them, hence -O1, with which GCC 12 wrongly warns
  # about the memory of strings.
  target_compile_options(${target} PRIVATE -O1 -Wno-array-bounds -Wno-stringop-overflow)
  if(OPGRAFT_UNITY)
    target_precompile_headers(${target} PRIVATE <gtest/gtest.h> <algorithm> <cstring> <filesystem>
      <functional> <map> <memory> <optional> <set> <span> <sstream> <string> <thread> <vector>)
  endif()
endfunction()

# Include paths and warnings. Paths in messages (__FILE__) are relative to the repository.
# The linker drops the parts of a library that a binary does not use.
add_library(opgraft_headers INTERFACE)
target_include_directories(opgraft_headers INTERFACE
  ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_include_directories(opgraft_headers SYSTEM INTERFACE ${PROTOZERO_INCLUDE_DIR})
target_compile_options(opgraft_headers INTERFACE -Wall -Wextra $<$<BOOL:${OPGRAFT_TESTS}>:-Werror>
  -ffile-prefix-map=${PROJECT_SOURCE_DIR}/= -ffunction-sections -fdata-sections)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns about overlaps inside std::string that cannot happen (GCC bug 105651).
  target_compile_options(opgraft_headers INTERFACE -Wno-restrict)
endif()

# Lists the sources in the folder of the calling CMakeLists.txt, without tests.
function(opgraft_sources result)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz)\\.cc$")
  set(${result} ${sources} PARENT_SCOPE)
endfunction()

# Adds the library opgraft_<name> for the calling folder. `kind` is STATIC or OBJECT, as in CMake.
#   SHOWN     libopgraft exports its symbols to opgraft._pyop and opgraft-run
#   DEPENDS   the folders that it may include
function(opgraft_add_folder name kind)
  cmake_parse_arguments(PARSE_ARGV 2 folder "SHOWN" "" "DEPENDS")
  opgraft_sources(sources)
  add_library(opgraft_${name} ${kind} ${sources})
  list(TRANSFORM folder_DEPENDS PREPEND opgraft_)
  target_link_libraries(opgraft_${name} PUBLIC opgraft_headers ${folder_DEPENDS})
  opgraft_compile_together(opgraft_${name})
  if(folder_SHOWN)
    set_target_properties(opgraft_${name} PROPERTIES CXX_VISIBILITY_PRESET default)
    target_compile_options(opgraft_${name} PRIVATE -fno-semantic-interposition)
  endif()
endfunction()
