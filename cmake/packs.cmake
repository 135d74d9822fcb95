# Builds our packs as users build theirs: with cmake/opgraft-config.cmake. Here its parts come from
# this build instead of from the installed package.
add_library(opgraft::opgraft ALIAS opgraft)
set(OPGRAFT_PACK_MAP ${PROJECT_SOURCE_DIR}/src/pack/exports.map)
if(OPGRAFT_TESTS)
  # The tests of packs run in the ONNX Runtime that is installed for the Python of this build.
  execute_process(COMMAND ${Python_EXECUTABLE} -c
    "import glob, importlib.util as u; s = u.find_spec('onnxruntime'); print(*(glob.glob(s.submodule_search_locations[0] + '/capi/libonnxruntime.so*')[:1] if s else []))"
    OUTPUT_VARIABLE OPGRAFT_TEST_RUNTIME OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
set(opgraft_DIR ${PROJECT_SOURCE_DIR}/cmake)
add_subdirectory(ops)
