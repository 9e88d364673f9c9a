// Marker values: what the registers of an accumulator hold until a wait covers the wgmma that computes it.
//
// A marker is a signalling NaN with the accumulator's serial number and the register's index. Arithmetic on it gives a
// NaN with the same payload, so that a use before the wait is seen when the result is stored, shuffled or multiplied.
#include "sim/Markers.h"
#include <cstring>

namespace tegula::sim {

static constexpr uint32_t quietBit = 0x00400000;

Accumulator *markedBy(AsyncState &a, uint32_t value, uint32_t &index) {
  if (value >> 20 != markerTop)
    return nullptr;
  uint32_t serial = value >> 12 & 0xff;
  index = value >> 5 & 0x7f;
  if ((value & 31) != markerCheck(serial, index))
    return nullptr;
  for (Accumulator &c : a.accumulators)
    if ((c.serial & serialMask) == serial && index < c.values.size())
      return &c;
  return nullptr;
}

/// A pair of 16-bit floats that were both converted from markers: bf16 keeps the upper half of a NaN, f16 the upper ten
/// bits of its mantissa.
static const Accumulator *convertedFrom(const AsyncState &a, uint32_t value) {
  auto is = [](uint32_t half, uint32_t pattern, uint32_t quiet) { return (half | quiet) == (pattern | quiet); };
  for (const Accumulator &c : a.accumulators) {
    uint32_t bf16 = makeMarker(c.serial, 0) >> 16, f16 = 0xfc80 | (c.serial & serialMask) >> 1;
    auto both = [&](uint32_t pattern, uint32_t quiet) {
      return is(value & 0xffff, pattern, quiet) && is(value >> 16, pattern, quiet);
    };
    if (both(bf16, 0x40) || both(f16, 0x200))
      return &c;
  }
  return nullptr;
}

void checkMarkersSlow(Thread *t, int32_t site, const char *verb, const void *data, size_t bytes) {
  AsyncState &a = *t->async;
  for (size_t at = 0; at + 4 <= bytes; at += 4) {
    uint32_t value, index;
    std::memcpy(&value, static_cast<const char *>(data) + at, 4);
    const Accumulator *c = markedBy(a, value & ~quietBit, index);
    if (!c)
      c = convertedFrom(a, value);
    if (!c)
      continue;
    const char *hint = c->lastGroup >= a.wgmmaGroup ? " (its group was never committed)"
                       : c->final                   ? " (the wait did not name it)"
                                                    : "";
    fail(t, FaultKind::MissingWait, site, c->site,
         "uses in %s at site %d an accumulator of the wgmma at site %d before waiting for it%s", verb, site, c->site,
         hint);
  }
}

} // namespace tegula::sim
