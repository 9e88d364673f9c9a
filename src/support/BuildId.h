// GNU build ids: the linker's hash of a program or library, which distinguishes builds by content. Source: the System V
// ABI's notes, "GNU", NT_GNU_BUILD_ID.
#pragma once
#include <span>
#include <string>

namespace tegula {

/// The id's bytes (20 as a rule) in notes as a file or memory has them, from the beginning of a PT_NOTE segment; "" if
/// there is none.
std::string buildIdIn(std::span<const char> notes);

/// The id of a 64-bit ELF file in this machine's byte order; reads only the file's first pages. "": the file cannot be
/// read, is not such a file, or has no id there.
std::string buildIdOf(const std::string &path);

} // namespace tegula
