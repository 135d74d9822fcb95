# find_package(opgraft): the target opgraft::opgraft, libopgraft.so with its headers.
get_filename_component(_opgraft_package "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
if(NOT TARGET opgraft::opgraft)
  add_library(opgraft::opgraft SHARED IMPORTED)
  set_target_properties(opgraft::opgraft PROPERTIES
    IMPORTED_LOCATION "${_opgraft_package}/lib/libopgraft.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_opgraft_package}/include"
    INTERFACE_COMPILE_FEATURES cxx_std_20)
endif()
unset(_opgraft_package)
