# find_package(barewire CONFIG REQUIRED [COMPONENTS bwfeed ...])
# target_link_libraries(program PRIVATE barewire::barewire)          messages: C, and C++17 by barewire.hpp
# Also barewire::bwfeed (market data) and barewire::bwverbs (RDMA), and each as a static library: barewire::barewire_static.
# Everything is found from where this file lies, so the folder may be moved as a whole.

get_filename_component(_barewire_lib "${CMAKE_CURRENT_LIST_DIR}/../.." REALPATH)
get_filename_component(_barewire_include "${_barewire_lib}/../include" REALPATH)

foreach(_barewire_name barewire bwfeed bwverbs)
  set(barewire_${_barewire_name}_FOUND FALSE)
  if(EXISTS "${_barewire_lib}/lib${_barewire_name}.so" AND NOT TARGET barewire::${_barewire_name})
    add_library(barewire::${_barewire_name} SHARED IMPORTED)
    # The libraries have no SONAME: they are linked by name, not by path.
    set_target_properties(barewire::${_barewire_name} PROPERTIES
      IMPORTED_LOCATION "${_barewire_lib}/lib${_barewire_name}.so"
      IMPORTED_NO_SONAME TRUE
      INTERFACE_INCLUDE_DIRECTORIES "${_barewire_include}")
  endif()
  if(EXISTS "${_barewire_lib}/lib${_barewire_name}.a" AND NOT TARGET barewire::${_barewire_name}_static)
    add_library(barewire::${_barewire_name}_static STATIC IMPORTED)
    set_target_properties(barewire::${_barewire_name}_static PROPERTIES
      IMPORTED_LOCATION "${_barewire_lib}/lib${_barewire_name}.a"
      INTERFACE_INCLUDE_DIRECTORIES "${_barewire_include}"
      INTERFACE_LINK_LIBRARIES "gcc_s;util;rt;pthread;m;dl;c")
  endif()
  if(TARGET barewire::${_barewire_name} OR TARGET barewire::${_barewire_name}_static)
    set(barewire_${_barewire_name}_FOUND TRUE)
  endif()
endforeach()

set(barewire_FOUND TRUE)
foreach(_barewire_name ${barewire_FIND_COMPONENTS})
  if(barewire_FIND_REQUIRED_${_barewire_name} AND NOT barewire_${_barewire_name}_FOUND)
    set(barewire_FOUND FALSE)
    set(barewire_NOT_FOUND_MESSAGE "there is no library ${_barewire_name} in ${_barewire_lib}; there are barewire, bwfeed, bwverbs")
  endif()
endforeach()
if(NOT barewire_FIND_COMPONENTS AND NOT barewire_barewire_FOUND)
  set(barewire_FOUND FALSE)
  set(barewire_NOT_FOUND_MESSAGE "there is no library barewire in ${_barewire_lib}")
endif()

unset(_barewire_lib)
unset(_barewire_include)
unset(_barewire_name)
