// Marker values: what the registers of an accumulator hold until a wait covers the wgmma that computes it.
//
// A marker is a signalling NaN with the accumulator's serial number and the register's index. Arithmetic on it gives a NaN
// with the same payload, so that a use before the wait is seen when the result is stored, shuffled or multiplied.
#include "sim/Markers.h"
#include <cstring>

namespace tegula::sim {

static constexpr uint32_t markerTop = 0xff9, quietBit = 0x00400000;

static uint32_t checkBits(uint32_t serial, uint32_t index) { return (serial * 7 + index * 3 + 11) & 31; }

uint32_t makeMarker(uint32_t serial, uint32_t index) {
  serial &= 0xff;
  return markerTop << 20 | serial << 12 | index << 5 | checkBits(serial, index);
}

Accumulator *markedBy(AsyncState &a, uint32_t value, uint32_t &index) {
  if (value >> 20 != markerTop) return nullptr;
  uint32_t serial = value >> 12 & 0xff;
  index = value >> 5 & 0x7f;
  if ((value & 31) != checkBits(serial, index)) return nullptr;
  for (Accumulator &c : a.accumulators)
    if ((c.serial & 0xff) == serial && index < c.values.size()) return &c;
  return nullptr;
}

/// A pair of 16-bit floats that were both converted from markers.
static bool looksConverted(uint32_t value) {
  auto half = [](uint32_t h) { return (h & 0xffb0) == 0xff90 || (h & 0xff80) == 0xfe80; };
  return half(value & 0xffff) && half(value >> 16);
}

void checkMarkersSlow(Thread *t, int32_t site, const char *verb, const void *data, size_t bytes) {
  AsyncState &a = *t->async;
  for (size_t at = 0; at + 4 <= bytes; at += 4) {
    uint32_t value, index;
    std::memcpy(&value, static_cast<const char *>(data) + at, 4);
    const Accumulator *c = markedBy(a, value & ~quietBit, index);
    if (!c && looksConverted(value)) c = &a.accumulators.back();
    if (!c) continue;
    const char *hint = c->lastGroup >= a.wgmmaGroup ? " (its group was never committed)" : c->final ? " (the wait did not name it)" : "";
    fail(t, FaultKind::MissingWait, site, c->site, "uses in %s at site %d an accumulator of the wgmma at site %d before waiting for it%s", verb,
         site, c->site, hint);
  }
}

} // namespace tegula::sim
