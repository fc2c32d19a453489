# Warnings, optimisation and sanitizers, for our own targets only.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE}")
endif()

add_library(lazytrain_options INTERFACE)
# Contraction off: a fused multiply-add appears only where the source says std::fma, so that every
# instruction set gives the same bits.
target_compile_options(lazytrain_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Werror -ffp-contract=off
  $<$<CONFIG:Release>:-O3>
  # g++ 12 reports overlapping copies inside std::string's operator+ that cannot happen (GCC bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
target_compile_definitions(lazytrain_options INTERFACE $<$<CONFIG:Debug>:LAZYTRAIN_DEBUG=1>)

if(LAZYTRAIN_SANITIZER STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(LAZYTRAIN_SANITIZER STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(LAZYTRAIN_SANITIZER)
  message(FATAL_ERROR "LAZYTRAIN_SANITIZER is '${LAZYTRAIN_SANITIZER}'; use address or thread")
endif()

# Coverage for libFuzzer, in all of our code; its main() comes with the targets (tests/fuzz).
if(LAZYTRAIN_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "libFuzzer comes with clang: use the preset fuzz")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
