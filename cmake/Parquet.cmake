# Parquet datasets. With LAZYTRAIN_PARQUET through the Arrow C++ libraries, which the wheel of pyarrow carries with their
# headers; else formats has the stream that says so. The sources lie in a folder of their own, so that no other file of
# the room sees Arrow.
set(folder "${PROJECT_SOURCE_DIR}/src/formats/parquet")
if(NOT LAZYTRAIN_PARQUET)
  target_sources(formats PRIVATE "${folder}/without_arrow.cpp")
  return()
endif()

file(GLOB ARROW_ROOTS "${LAZYTRAIN_PARQUET_VENV}/lib/python3*/site-packages/pyarrow")
find_path(ARROW_INCLUDE_DIR parquet/arrow/reader.h PATHS ${ARROW_ROOTS} PATH_SUFFIXES include NO_DEFAULT_PATH)
# The wheel has no names without a version.
foreach(root IN LISTS ARROW_ROOTS)
  file(GLOB ARROW_LIBRARY "${root}/libarrow.so.*")
  file(GLOB PARQUET_LIBRARY "${root}/libparquet.so.*")
endforeach()
list(LENGTH ARROW_LIBRARY arrow_count)
list(LENGTH PARQUET_LIBRARY parquet_count)
if(NOT ARROW_INCLUDE_DIR OR NOT arrow_count EQUAL 1 OR NOT parquet_count EQUAL 1)
  message(FATAL_ERROR "pyarrow is missing under ${LAZYTRAIN_PARQUET_VENV}; run `make parquet`, or turn LAZYTRAIN_PARQUET off")
endif()

add_library(arrow::arrow SHARED IMPORTED)
set_target_properties(arrow::arrow PROPERTIES
  IMPORTED_LOCATION "${ARROW_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${ARROW_INCLUDE_DIR}")
add_library(arrow::parquet SHARED IMPORTED)
set_target_properties(arrow::parquet PROPERTIES
  IMPORTED_LOCATION "${PARQUET_LIBRARY}" INTERFACE_LINK_LIBRARIES arrow::arrow)

target_sources(formats PRIVATE "${folder}/arrow_values.cpp" "${folder}/parquet_stream.cpp")
target_link_libraries(formats PRIVATE arrow::parquet)
