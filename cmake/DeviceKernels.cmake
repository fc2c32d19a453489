# The generic kernel sources of src/device/cpu/isa are compiled once per instruction set, each into a namespace
# of its own; the choice falls at run time (device/cpu/kernels_dispatch.h). Always optimised, in debug builds too;
# less so under sanitizers, whose checks make the optimiser slow.
file(GLOB LAZYTRAIN_ISA_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/device/cpu/isa/*.cpp")

set(LAZYTRAIN_ISA_OPTIMISATION $<IF:$<BOOL:${LAZYTRAIN_SANITIZER}>,-O1,-O3>)

function(lazytrain_kernels isa)
  set(name device_kernels_${isa})
  list(JOIN ARGN " " flags)
  add_library(${name} OBJECT ${LAZYTRAIN_ISA_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_BINARY_DIR}/rooms/device" "${PROJECT_BINARY_DIR}/rooms/core")
  target_compile_definitions(${name} PRIVATE LAZYTRAIN_ISA=isa_${isa})
  target_link_libraries(${name} PRIVATE lazytrain_options)
  # -fno-math-errno, -fno-trapping-math: change no result, only allow vectors.
  target_compile_options(${name} PRIVATE ${LAZYTRAIN_ISA_OPTIMISATION} -fno-math-errno -fno-trapping-math)
  set_property(TARGET ${name} APPEND_STRING PROPERTY COMPILE_FLAGS " ${flags}")  # after all other options
  target_sources(device PRIVATE $<TARGET_OBJECTS:${name}>)
endfunction()

lazytrain_kernels(baseline)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  lazytrain_kernels(avx2 -mavx2 -mfma)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # g++ 12 takes the undefined operand of its own AVX-512 intrinsics for an uninitialised variable.
    set(no_false_alarm -Wno-uninitialized -Wno-maybe-uninitialized)
  endif()
  lazytrain_kernels(avx512 -mavx2 -mfma -mavx512f -mavx512bw -mavx512dq -mavx512vl ${no_false_alarm})
  target_compile_definitions(device PRIVATE LAZYTRAIN_X86=1)
endif()
