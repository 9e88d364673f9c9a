// Data as an object file, made without a compiler: the output of `tegula aot --object`.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace tegula::cli {

/// e_machine of ELF (gABI, chapter 4), or 0: not one of x86-64 and aarch64.
uint16_t elfMachine(std::string_view name);

/// The machine of this program.
std::string_view thisMachine();

/// A relocatable ELF file (64 bits, little-endian) with `bytes` in read-only data, 16-byte aligned, as `const unsigned
/// char SYMBOL[]`, and their number as `const size_t SYMBOL_size`. It has no relocations.
std::string objectFile(std::string_view bytes, const std::string &symbol, uint16_t machine);

} // namespace tegula::cli
