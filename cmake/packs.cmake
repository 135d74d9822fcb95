# Builds our packs as users build theirs: with cmake/opgraft-config.cmake. Here its parts come from
# this build instead of from the installed package.
add_library(opgraft::opgraft ALIAS opgraft)
set(OPGRAFT_PACK_MAP ${PROJECT_SOURCE_DIR}/src/pack/exports.map)
if(OPGRAFT_TESTS AND NOT OPGRAFT_TEST_RUNTIME)
  # The tests of packs run in the ONNX Runtime that is installed for the Python of this build.
  execute_process(COMMAND ${Python_EXECUTABLE} -c
    "import glob, importlib.util as u; s = u.find_spec('onnxruntime'); print(*(glob.glob(s.submodule_search_locations[0] + '/capi/libonnxruntime.so*')[:1] if s else []))"
    OUTPUT_VARIABLE OPGRAFT_TEST_RUNTIME OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
# A pack of ours that includes opgraft/contrib.h is linked with the layer for it; without one, the
# layer is only built for the tests.
file(GLOB_RECURSE sources CONFIGURE_DEPENDS ops/*.cc ops/*.h ops/*.cu)
set(OPGRAFT_WITHOUT_CONTRIB_LAYER ON)
foreach(source IN LISTS sources)
  file(STRINGS ${source} found REGEX "opgraft/contrib" LIMIT_COUNT 1)
  if(found)
    set(OPGRAFT_WITHOUT_CONTRIB_LAYER OFF)
  endif()
endforeach()
set(opgraft_DIR ${PROJECT_SOURCE_DIR}/cmake)
add_subdirectory(ops)
