# Writes OUT, a C++ file that holds the text of FILES as raw strings (see Library.h). One literal has at most 64 KiB.
set(rows "")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  file(READ ${file} text)
  string(APPEND rows "    {\"${name}\", R\"__tegula(${text})__tegula\"},\n")
endforeach()
file(WRITE ${OUT} "// Generated from src/lib/*.py.
#include \"lib/Library.h\"

namespace tegula {

namespace {
constexpr LibraryFile files[] = {
${rows}};
} // namespace

std::span<const LibraryFile> libraryFiles() { return files; }

} // namespace tegula
")
