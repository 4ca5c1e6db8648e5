# Installs the library and its headers into a fresh prefix, builds a project outside of the tree against it, and runs it.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGN}: ${status}\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK}/prefix ${WORK}/outside)
run(${CMAKE_COMMAND} --install ${BUILD}/compiler/api --prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/outside -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${WORK}/prefix -DCMAKE_CXX_COMPILER=${CXX})
run(${CMAKE_COMMAND} --build ${WORK}/outside)
run(${WORK}/outside/outside)
