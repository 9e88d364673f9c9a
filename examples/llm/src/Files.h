// Files: read whole, or mapped into memory so that a model's weights take no copy and come from the page cache.
#pragma once
#include "Status.h"
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace llm {

/// Whether there is a file or a folder of that name.
bool exists(const std::string &path);
bool isFolder(const std::string &path);

/// The whole file. TEGULA_NOT_FOUND or TEGULA_IO_ERROR, with the path and the reason.
Result<std::string> readFile(const std::string &path);

/// Replaces the file.
Status writeFile(const std::string &path, std::string_view text);

/// A file in memory, read only; unmapped with the last copy.
class MappedFile {
public:
  static Result<MappedFile> open(const std::string &path);
  std::string_view bytes() const { return bytes_; }

private:
  std::shared_ptr<const void> owner_;
  std::string_view bytes_;
};

} // namespace llm
