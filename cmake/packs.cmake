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

# The arithmetic of com.microsoft Inverse, compiled for each instruction set we choose from. Products
# are not fused into sums unasked: a singular matrix is known by a difference that is exactly zero.
set(inverse ops/contrib/inverse)
add_library(opgraft_inverse STATIC ${inverse}/inverse_cpu.cc ${inverse}/inverse_baseline.cc)
target_include_directories(opgraft_inverse PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_options(opgraft_inverse PRIVATE -Wall -Wextra -ffp-contract=off
  $<$<BOOL:${OPGRAFT_TESTS}>:-Werror>)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_sources(opgraft_inverse PRIVATE ${inverse}/inverse_avx2.cc ${inverse}/inverse_avx512.cc)
  set_source_files_properties(${inverse}/inverse_avx2.cc PROPERTIES
    COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
  set_source_files_properties(${inverse}/inverse_avx512.cc PROPERTIES
    COMPILE_OPTIONS "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx2;-mfma;-mf16c")
endif()

# CUDA's compiler, where there is one that works. Sanitizers are not for its sources.
if(OPGRAFT_CUDA AND NOT OPGRAFT_SANITIZE AND NOT OPGRAFT_FUZZ)
  find_program(OPGRAFT_NVCC NAMES "$ENV{CUDACXX}" nvcc PATHS /usr/local/cuda/bin)
  if(OPGRAFT_NVCC)
    set(ENV{CUDACXX} "${OPGRAFT_NVCC}")
    set(CMAKE_CUDA_HOST_COMPILER "${CMAKE_CXX_COMPILER}")
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      # Those of servers; newer GPUs translate the last one's when they load it.
      set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
    endif()
    set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
    include(CheckLanguage)
    check_language(CUDA)
  endif()
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      # CMake before 3.25.2 does not know that nvcc has it.
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    endif()
    set(OPGRAFT_WITH_CUDA ON)
  else()
    message(STATUS "No CUDA kernels: there is no nvcc that works")
  endif()
endif()

# The packs that we ship: each operator's folder holds all there is about it.
file(GLOB_RECURSE contrib_sources CONFIGURE_DEPENDS ops/contrib/*.cc)
list(FILTER contrib_sources EXCLUDE REGEX "_test.cc$|/inverse_[a-z0-9]*.cc$")
add_library(opgraft_contrib MODULE
  ${contrib_sources}
  ${OPGRAFT_PACK_SOURCES}
  src/core/element_type.cc src/core/packed_texts.cc src/core/text.cc)
target_include_directories(opgraft_contrib PRIVATE ${PROJECT_SOURCE_DIR} include src)
target_compile_options(opgraft_contrib PRIVATE $<$<COMPILE_LANGUAGE:CXX>:
  -Wall -Wextra -Wno-restrict
  -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>)  # messages name files, not our folders
target_link_libraries(opgraft_contrib PRIVATE opgraft_inverse opgraft_adapter)
if(OPGRAFT_WITH_CUDA)
  file(GLOB_RECURSE contrib_cuda_sources CONFIGURE_DEPENDS ops/contrib/*.cu)
  list(FILTER contrib_cuda_sources EXCLUDE REGEX "_test.cu$")
  target_sources(opgraft_contrib PRIVATE ${contrib_cuda_sources})
  target_compile_definitions(opgraft_contrib PRIVATE OPGRAFT_CUDA)
  set(cuda_options -Xcompiler=-Wall,-Wextra)
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    list(APPEND cuda_options --compress-mode=size)  # a quarter of it
  endif()
  target_compile_options(opgraft_contrib PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${cuda_options}>")
  # CUDA's runtime becomes part of the pack, which loads without a driver.
  set_target_properties(opgraft_contrib PROPERTIES CUDA_RUNTIME_LIBRARY Static LINKER_LANGUAGE CXX)
endif()
target_link_options(opgraft_contrib PRIVATE -Wl,--no-undefined
  -Wl,--version-script=${PROJECT_SOURCE_DIR}/src/pack/exports.map)

install(TARGETS opgraft_cuda LIBRARY DESTINATION opgraft/lib)
install(TARGETS opgraft_contrib LIBRARY DESTINATION opgraft/packs)
