// The memory behind a pointer argument, for asking whether two arguments share some.
#pragma once
#include "tegula/tegula.h"
#include <cstdint>

namespace tegula::runtime {

/// [begin, end); what is empty meets nothing.
struct AddressRange {
  uint64_t begin, end;
  bool meets(const AddressRange &o) const { return (begin < o.end) & (o.begin < end); }
  bool contains(uint64_t address) const { return begin <= address && address < end; }
};

/// Of a pointer; empty: null. Memory of unknown extent is taken for a byte.
inline AddressRange addressesOf(uint64_t begin, int64_t extent) {
  const uint64_t end = begin + (begin == 0 ? 0 : extent > 0 ? static_cast<uint64_t>(extent) : 1);
  return {begin, end < begin ? UINT64_MAX : end}; // more than there is
}
inline AddressRange addressesOf(const TegulaArg &a) { return addressesOf(a.u.u, a.u2.extent); }

} // namespace tegula::runtime
