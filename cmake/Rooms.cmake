# lazytrain_room(NAME ROOMS a b LIBRARIES x PRIVATE y z)
#
# One static library from every .cpp directly under src/NAME (and src/NAME/*/ but for folders that have a
# CMake module of their own). Headers are included as "NAME/file.h". The include path of a room is a
# folder in the build tree that holds nothing but a link to src/NAME, so a file can only include headers
# of rooms that its own room names: any other include does not build.
function(lazytrain_room name)
  cmake_parse_arguments(ROOM "" "" "ROOMS;LIBRARIES;PRIVATE" ${ARGN})
  set(door "${PROJECT_BINARY_DIR}/rooms/${name}")
  file(MAKE_DIRECTORY "${door}")
  file(CREATE_LINK "${PROJECT_SOURCE_DIR}/src/${name}" "${door}/${name}" SYMBOLIC)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${name}/*.cpp")
  if(name STREQUAL "device")
    file(GLOB cpu_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/device/cpu/*.cpp")
    list(APPEND sources ${cpu_sources})
  endif()
  if(NOT sources)
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE "${door}")
    target_link_libraries(${name} INTERFACE ${ROOM_ROOMS} ${ROOM_LIBRARIES})
    return()
  endif()
  add_library(${name} STATIC ${sources})
  target_include_directories(${name} PUBLIC "${door}")
  target_link_libraries(${name} PUBLIC ${ROOM_ROOMS} ${ROOM_LIBRARIES} PRIVATE lazytrain_options ${ROOM_PRIVATE})
endfunction()
