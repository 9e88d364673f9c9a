// The memory range of a pointer argument, for testing whether two arguments overlap.
#pragma once
#include "tegula/tegula.h"
#include <cstdint>

namespace tegula::runtime {

/// [begin, end); an empty range overlaps with nothing.
struct AddressRange {
  uint64_t begin, end;
  bool meets(const AddressRange &o) const { return (begin < o.end) & (o.begin < end); }
  bool contains(uint64_t address) const { return begin <= address && address < end; }
};

/// The range of a pointer; empty for null. Memory of unknown extent counts as one byte.
inline AddressRange addressesOf(uint64_t begin, int64_t extent) {
  const uint64_t end = begin + (begin == 0 ? 0 : extent > 0 ? static_cast<uint64_t>(extent) : 1);
  return {begin, end < begin ? UINT64_MAX : end}; // the sum overflowed
}
inline AddressRange addressesOf(const TegulaArg &a) { return addressesOf(a.u.u, a.u2.extent); }

} // namespace tegula::runtime
