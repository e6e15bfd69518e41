# Installs the build in BUILD into a prefix, moves the prefix, and builds and runs a program of
# another project against it, with the default compiler of this machine.
#   cmake -D BUILD=build/release -D FOLDER=work -P run.cmake
cmake_policy(VERSION 3.25)

function(step)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT status EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "${command}: ${status}\n${text}")
  endif()
  message(STATUS "${text}")
endfunction()

file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})
step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${FOLDER}/first)
file(RENAME ${FOLDER}/first ${FOLDER}/prefix)

get_filename_component(sources ${CMAKE_CURRENT_LIST_DIR}/../.. ABSOLUTE)
file(GLOB_RECURSE texts ${FOLDER}/prefix/*.cmake ${FOLDER}/prefix/*.h)
foreach(text ${texts})
  file(STRINGS ${text} lines)
  string(FIND "${lines}" "${sources}/" place)
  if(NOT place EQUAL -1)
    message(FATAL_ERROR "${text} names the folder of the sources")
  endif()
endforeach()
file(GLOB modules ${FOLDER}/prefix/flambeau)
if(modules)
  message(FATAL_ERROR "the Python module was installed beside the library: ${modules}")
endif()

step(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${FOLDER}/build
  -D CMAKE_PREFIX_PATH=${FOLDER}/prefix)
step(${CMAKE_COMMAND} --build ${FOLDER}/build)
step(${FOLDER}/build/program)
file(REMOVE_RECURSE ${FOLDER})
