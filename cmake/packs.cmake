# The packs that we ship, with their CUDA kernels, and the execution provider for GPUs.

# The execution provider for GPUs. CUDA's driver is found at run time, its toolkit is not needed.
add_library(opgraft_cuda MODULE
  src/core/platform.cc
  src/core/text.cc
  src/cuda/copies.cc
  src/cuda/driver.cc
  src/cuda/factory.cc
  src/cuda/gpu.cc
  src/cuda/provider.cc
  src/cuda/run.cc
  src/ort/tensors.cc)
target_include_directories(opgraft_cuda PRIVATE src include)
target_compile_definitions(opgraft_cuda PRIVATE OPGRAFT_VERSION="${PROJECT_VERSION}")
target_compile_options(opgraft_cuda PRIVATE -Wall -Wextra -Wno-restrict
  $<$<BOOL:${OPGRAFT_TESTS}>:-Werror>)
target_link_libraries(opgraft_cuda PRIVATE ${CMAKE_DL_LIBS})
# The runtime unloads it at its end, when values may still lie in its memory.
target_link_options(opgraft_cuda PRIVATE -Wl,-z,nodelete -Wl,--no-undefined)
opgraft_compile_together(opgraft_cuda)

install(TARGETS opgraft_cuda LIBRARY DESTINATION opgraft/lib)

# Our packs are built as a user's are: by cmake/opgraft-config.cmake, which finds here what it finds
# in the package elsewhere.
add_library(opgraft::opgraft ALIAS opgraft)
set(OPGRAFT_PACK_MAP ${PROJECT_SOURCE_DIR}/src/pack/exports.map)
add_library(opgraft_pack_parts OBJECT ${OPGRAFT_PACK_SOURCES} ${OPGRAFT_ADAPTER_SOURCES}
  src/core/element_type.cc src/core/packed_texts.cc src/core/text.cc)
target_include_directories(opgraft_pack_parts PRIVATE src include)
# Messages name files, not our folders.
target_compile_options(opgraft_pack_parts PRIVATE -Wall -Wextra -Wno-restrict
  -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
opgraft_compile_together(opgraft_pack_parts)
if(OPGRAFT_TESTS)
  add_library(opgraft_testing OBJECT ${OPGRAFT_TESTING_SOURCES})
  target_include_directories(opgraft_testing PRIVATE src include)
  target_compile_options(opgraft_testing PRIVATE -Wall -Wextra -Werror -Wno-restrict)
  target_link_libraries(opgraft_testing PRIVATE GTest::gtest)
  opgraft_compile_tests(opgraft_testing)
endif()
set(opgraft_DIR ${PROJECT_SOURCE_DIR}/cmake)
add_subdirectory(ops)
