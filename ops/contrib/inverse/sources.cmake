# The arithmetic is compiled for each instruction set; one is chosen at run time. The compiler must
# not fuse products into sums: a singular matrix is detected by a difference that is exactly zero.
set(inverse ${CMAKE_CURRENT_LIST_DIR})
set_source_files_properties(${inverse}/inverse_cpu.cc ${inverse}/inverse_baseline.cc PROPERTIES
  COMPILE_OPTIONS "-ffp-contract=off")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_source_files_properties(${inverse}/inverse_avx2.cc PROPERTIES
    COMPILE_OPTIONS "-ffp-contract=off;-mavx2;-mfma;-mf16c")
  set_source_files_properties(${inverse}/inverse_avx512.cc PROPERTIES
    COMPILE_OPTIONS
    "-ffp-contract=off;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx2;-mfma;-mf16c")
else()
  list(REMOVE_ITEM sources ${inverse}/inverse_avx2.cc ${inverse}/inverse_avx512.cc)
endif()
