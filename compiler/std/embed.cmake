# Writes OUTPUT, a C++ file that holds the text of every file of the list FILES: cmake -D OUTPUT=... -D FILES=... -P embed.cmake
set(rows "")
foreach(file ${FILES})
  file(READ ${file} text)
  get_filename_component(name ${file} NAME)
  string(FIND "${text}" ")loom\"" closing)
  if(NOT closing EQUAL -1)
    message(FATAL_ERROR "${file} contains the end of a raw string")
  endif()
  string(APPEND rows "    {\"std/${name}\", R\"loom(${text})loom\"},\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"compiler/std/standard_library.h\"

namespace corrloom {
namespace {

constexpr EmbeddedFile kFiles[] = {
${rows}};

}  // namespace

std::span<const EmbeddedFile> standard_library() {
  return kFiles;
}

}  // namespace corrloom
")
