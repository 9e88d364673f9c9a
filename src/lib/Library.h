// The text of the library files (src/lib/*.py): functions of the language that are written in the language.
#pragma once
#include <span>
#include <string_view>

namespace tegula {

struct LibraryFile {
  std::string_view name; // "reduce.py"
  std::string_view text;
};
std::span<const LibraryFile> libraryFiles();

} // namespace tegula
