// Relocation arithmetic of one field, independent of sections and symbols: pure functions, tested with numbers.
#pragma once
#include <cstdint>

namespace tegula::runtime {

/// What a relocation refers to besides the symbol itself.
enum class RelocNeeds : uint8_t { Symbol, GotEntry, Call };

struct RelocInfo {
  uint8_t bytes; // width of the field
  RelocNeeds needs;
};

/// False if the type is not one of those LLVM emits for position-independent kernels.
bool relocInfo(uint16_t machine, uint32_t type, RelocInfo &info);

/// Writes the field at `where`, which will run at address `place`. `value` is symbol (or table entry) plus addend.
/// False if the value does not fit the field.
bool applyReloc(uint16_t machine, uint32_t type, char *where, uint64_t place, uint64_t value);

} // namespace tegula::runtime
