# Everything we link. Debian packages by their own CMake or pkg-config files; HiGHS and oneDNN from the
# Python environment that `make deps` fills (their wheels carry headers and shared libraries).
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(CLI11 REQUIRED)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(liburing REQUIRED IMPORTED_TARGET liburing)

# oneDNN's package names its targets DNNL::dnnl; an IMPORTED target of our own keeps one spelling.
find_path(DNNL_INCLUDE_DIR dnnl.hpp PATHS "${LAZYTRAIN_VENV}/include" NO_DEFAULT_PATH)
find_library(DNNL_LIBRARY NAMES libdnnl.so.3 dnnl PATHS "${LAZYTRAIN_VENV}/lib" NO_DEFAULT_PATH)
# highsbox ships a CMake file that names a folder it does not have, so the library is looked up by hand.
file(GLOB HIGHS_ROOTS "${LAZYTRAIN_VENV}/lib/python3*/site-packages/highsbox/highs_dist")
find_path(HIGHS_INCLUDE_DIR interfaces/highs_c_api.h PATHS ${HIGHS_ROOTS} PATH_SUFFIXES include/highs NO_DEFAULT_PATH)
find_library(HIGHS_LIBRARY highs PATHS ${HIGHS_ROOTS} PATH_SUFFIXES lib NO_DEFAULT_PATH)
if(NOT DNNL_LIBRARY OR NOT DNNL_INCLUDE_DIR OR NOT HIGHS_LIBRARY OR NOT HIGHS_INCLUDE_DIR)
  message(FATAL_ERROR "oneDNN or HiGHS is missing under ${LAZYTRAIN_VENV}; run `make deps` first")
endif()

add_library(dnnl::dnnl SHARED IMPORTED)
set_target_properties(dnnl::dnnl PROPERTIES
  IMPORTED_LOCATION "${DNNL_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${DNNL_INCLUDE_DIR}")
find_library(GOMP_LIBRARY NAMES gomp libgomp.so.1 PATH_SUFFIXES gcc/x86_64-linux-gnu/12)
set_property(TARGET dnnl::dnnl PROPERTY INTERFACE_LINK_LIBRARIES "${GOMP_LIBRARY}")

add_library(highs::highs SHARED IMPORTED)
cmake_path(GET HIGHS_INCLUDE_DIR PARENT_PATH HIGHS_INCLUDE_ROOT)
set_target_properties(highs::highs PROPERTIES
  IMPORTED_LOCATION "${HIGHS_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${HIGHS_INCLUDE_DIR};${HIGHS_INCLUDE_ROOT}")
