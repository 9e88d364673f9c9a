// GNU build ids: what the linker hashed a program or library to, which tells two builds apart by content. Source: the
// System V ABI's notes, "GNU", NT_GNU_BUILD_ID.
#pragma once
#include <span>
#include <string>

namespace tegula {

/// The id's bytes (20 as a rule) among notes as they lie in a file or in memory, from the beginning of a PT_NOTE
/// segment; "" if there is none.
std::string buildIdIn(std::span<const char> notes);

/// That of a 64-bit ELF file of this machine's byte order, whose first pages are read and nothing else; "" if it cannot
/// be read, is none, or has no id there.
std::string buildIdOf(const std::string &path);

} // namespace tegula
