// Reading and writing arrays in NumPy's .npy format (numpy.lib.format, versions 1.0 to 3.0).
//
// It is here and not in cli/ because it has no dependencies, and is fuzzed in builds without LLVM.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tegula {

struct NpyArray {
  /// Element type in the language's spelling: "i8".."i64", "u8".."u64", "i1", "fp16", "fp32", "fp64". The types of
  /// ml_dtypes: "<V2" is "bf16", "<f1" is "fp8e5", "<V1" is "fp8e4nv" (and sets `ambiguous`: every 1-byte opaque type
  /// has that code).
  std::string dtype;
  bool ambiguous = false;
  unsigned elementBytes = 0;
  std::vector<int64_t> shape; // may be empty (0-d) and hold zeros
  std::vector<char> data;     // row-major, little endian
  int64_t count() const;
};

/// Parses the image of a whole file. On failure returns false and sets `error` (lower case, no stop). Never reads
/// outside `bytes`, and never allocates more than `bytes` holds: sizes are checked against the file first. Fortran
/// order and big endian are converted.
bool parseNpy(std::string_view bytes, NpyArray &out, std::string &error);
/// The file image of an array (version 1.0, C order).
std::string formatNpy(const NpyArray &a);

/// Most bytes of a kernel's source file, and of a module that it imports.
inline constexpr size_t sourceLimit = size_t(64) << 20;

/// Whole-file helpers. A file of more than `limit` bytes is an error; so is a character device that yields more than 64
/// MiB (/dev/zero has no end), of which no more is read or kept. writeFile writes a temporary file in the same folder
/// and renames it, so `path` never holds a partly written file.
bool readFile(const std::string &path, std::string &out, std::string &error, size_t limit = SIZE_MAX);
bool writeFile(const std::string &path, std::string_view bytes, std::string &error);

} // namespace tegula
