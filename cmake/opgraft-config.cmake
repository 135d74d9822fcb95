# find_package(opgraft): libopgraft.so with its headers, packs of operators, and their tests.
#
#   opgraft::opgraft                                     for programs: opgraft/host.h
#   opgraft_add_pack(name source...)                     a pack, libname.so; a project with .cu
#                                                        sources needs the languages CXX and CUDA
#   opgraft_add_test(name source... PACKS pack...)       a program of OpTester cases, run by CTest
get_filename_component(OPGRAFT_PACKAGE "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
if(NOT OPGRAFT_PACK_MAP)  # Opgraft's own build sets it to another place
  set(OPGRAFT_PACK_MAP "${CMAKE_CURRENT_LIST_DIR}/../adapter/pack/exports.map")
endif()

if(NOT TARGET opgraft::opgraft)
  add_library(opgraft::opgraft SHARED IMPORTED)
  set_target_properties(opgraft::opgraft PROPERTIES
    IMPORTED_LOCATION "${OPGRAFT_PACKAGE}/lib/libopgraft.so"
    INTERFACE_INCLUDE_DIRECTORIES "${OPGRAFT_PACKAGE}/include"
    INTERFACE_COMPILE_FEATURES cxx_std_20)
endif()

# Reads the options of pack-recipe.json under `key`; `opgraft build` reads the same list.
file(READ "${CMAKE_CURRENT_LIST_DIR}/pack-recipe.json" OPGRAFT_PACK_RECIPE)
function(_opgraft_read_recipe result key)
  string(JSON last LENGTH "${OPGRAFT_PACK_RECIPE}" ${key})
  math(EXPR last "${last} - 1")
  set(options "")
  foreach(place RANGE ${last})
    string(JSON option GET "${OPGRAFT_PACK_RECIPE}" ${key} ${place})
    list(APPEND options "${option}")
  endforeach()
  set(${result} "${options}" PARENT_SCOPE)
endfunction()

# CMake before 3.25.2 does not know that nvcc supports C++20.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()

# Adds a library of the package's own sources in `folder`, compiled once for all targets of a
# project that use them. `kind` is OBJECT or STATIC. Opgraft's own build defines these libraries itself.
function(_opgraft_add_parts name kind folder)
  if(TARGET ${name})
    return()
  endif()
  file(GLOB_RECURSE sources "${OPGRAFT_PACKAGE}/${folder}/*.cc")
  if(NOT sources)
    message(FATAL_ERROR "there are no sources in ${OPGRAFT_PACKAGE}/${folder}: the installation of Opgraft is incomplete")
  endif()
  add_library(${name} ${kind} EXCLUDE_FROM_ALL ${sources})
  _opgraft_set_options(${name})
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${name} PRIVATE "${OPGRAFT_PACKAGE}/adapter" "${OPGRAFT_PACKAGE}")
  # The project did not write these sources, so it gets no warnings about them.
  target_compile_options(${name} PRIVATE -w)
endfunction()

function(_opgraft_set_options name)
  string(JSON standard GET "${OPGRAFT_PACK_RECIPE}" standard)
  _opgraft_read_recipe(options compile)
  _opgraft_read_recipe(optimized optimized)
  target_compile_features(${name} PRIVATE cxx_std_${standard})
  target_include_directories(${name} SYSTEM PRIVATE "${OPGRAFT_PACKAGE}/include")
  # A project without a build type gets the optimisation of `opgraft build`.
  target_compile_options(${name} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:${options}>" "$<$<CONFIG:>:${optimized}>")
endfunction()

function(opgraft_add_pack name)
  if(NOT ARGN)
    message(FATAL_ERROR "opgraft_add_pack(${name}): no sources are given")
  endif()
  # The first library is part of every pack. Of the second, a pack gets only what it uses through
  # opgraft/contrib.h.
  _opgraft_add_parts(opgraft_pack OBJECT adapter)
  _opgraft_add_parts(opgraft_contrib_layer STATIC contrib)
  set(cuda_sources ${ARGN})
  list(FILTER cuda_sources INCLUDE REGEX "\\.cu$")
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(cuda_sources AND NOT "CUDA" IN_LIST languages)
    message(FATAL_ERROR "opgraft_add_pack(${name}): ${cuda_sources} needs the language CUDA: project(... LANGUAGES CXX CUDA), or enable_language(CUDA)")
  endif()
  add_library(${name} SHARED ${ARGN} $<TARGET_OBJECTS:opgraft_pack>)
  _opgraft_set_options(${name})
  set(libraries opgraft_contrib_layer opgraft_adapter opgraft_base)
  if(OPGRAFT_WITHOUT_CONTRIB_LAYER)  # Opgraft's own build sets it if none of its packs uses it
    list(REMOVE_ITEM libraries opgraft_contrib_layer)
  endif()
  foreach(library IN LISTS libraries)
    if(TARGET ${library})  # linked by its file, so that a pack does not inherit its compile options
      add_dependencies(${name} ${library})
      target_link_libraries(${name} PRIVATE $<TARGET_FILE:${library}>)
    endif()
  endforeach()
  if(cuda_sources)
    # CUDA's runtime is linked statically, so that the pack loads without a driver.
    set_target_properties(${name} PROPERTIES
      CUDA_STANDARD 20
      CUDA_STANDARD_REQUIRED ON
      CUDA_VISIBILITY_PRESET hidden
      POSITION_INDEPENDENT_CODE ON
      CUDA_RUNTIME_LIBRARY Static
      LINKER_LANGUAGE CXX)
    _opgraft_read_recipe(definitions definitions_with_cuda)
    target_compile_definitions(${name} PRIVATE ${definitions})
    target_include_directories(${name} SYSTEM PRIVATE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  endif()
  # A sanitizer's functions are defined in the program that loads the pack.
  if(NOT "${CMAKE_CXX_FLAGS} ${CMAKE_SHARED_LINKER_FLAGS}" MATCHES "-fsanitize")
    _opgraft_read_recipe(checks link_unless_sanitized)
    target_link_options(${name} PRIVATE ${checks})
  endif()
  _opgraft_read_recipe(options link)
  target_link_options(${name} PRIVATE ${options}
    "SHELL:-Xlinker \"--version-script=${OPGRAFT_PACK_MAP}\"")
  set_target_properties(${name} PROPERTIES LINK_DEPENDS "${OPGRAFT_PACK_MAP}")
endfunction()

function(opgraft_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 test "" "" "PACKS")
  if(NOT test_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "opgraft_add_test(${name}): no sources are given")
  endif()
  find_package(GTest QUIET)
  if(NOT GTest_FOUND)
    message(FATAL_ERROR "GoogleTest is missing. On Debian and Ubuntu: apt-get install libgtest-dev")
  endif()
  if(NOT TARGET opgraft_testing)
    _opgraft_add_parts(opgraft_testing OBJECT testing)
    target_link_libraries(opgraft_testing PRIVATE GTest::gtest)
  endif()
  add_executable(${name} ${test_UNPARSED_ARGUMENTS} $<TARGET_OBJECTS:opgraft_testing>)
  _opgraft_set_options(${name})
  target_link_libraries(${name} PRIVATE opgraft::opgraft GTest::gtest_main ${CMAKE_DL_LIBS})

  set(paths "")
  foreach(pack IN LISTS test_PACKS)
    if(NOT TARGET ${pack})
      message(FATAL_ERROR "opgraft_add_test(${name}): there is no pack ${pack}")
    endif()
    add_dependencies(${name} ${pack})
    list(APPEND paths "$<TARGET_FILE:${pack}>")
  endforeach()
  list(JOIN paths ":" paths)
  set(environment "OPGRAFT_TEST_PACKS=${paths}")
  # By default, the ONNX Runtime that is installed beside Opgraft.
  file(GLOB runtime "${OPGRAFT_PACKAGE}/../onnxruntime/capi/libonnxruntime.so*")
  if(OPGRAFT_TEST_RUNTIME)
    set(runtime "${OPGRAFT_TEST_RUNTIME}")
  elseif(DEFINED ENV{OPGRAFT_TEST_RUNTIME})
    set(runtime "$ENV{OPGRAFT_TEST_RUNTIME}")
  endif()
  if(runtime)
    list(GET runtime 0 runtime)
    list(APPEND environment "OPGRAFT_TEST_RUNTIME=${runtime}")
  endif()
  set(provider "${OPGRAFT_PACKAGE}/lib/libopgraft_cuda.so")
  if(TARGET opgraft_cuda)
    add_dependencies(${name} opgraft_cuda)
    set(provider "$<TARGET_FILE:opgraft_cuda>")
  endif()
  list(APPEND environment "OPGRAFT_TEST_CUDA=${provider}")
  enable_testing()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${environment}")
endfunction()
