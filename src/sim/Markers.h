// Marker values in accumulator registers of wgmma (Markers.cpp).
#pragma once
#include "sim/AsyncState.h"

namespace tegula::sim {

// Few serial numbers: converted to f16, larger ones would look like pairs of small negative bytes.
inline constexpr uint32_t markerTop = 0xff9, serialMask = 0x3f;
inline uint32_t markerCheck(uint32_t serial, uint32_t index) { return (serial * 7 + index * 3 + 11) & 31; }
inline uint32_t makeMarker(uint32_t serial, uint32_t index) {
  serial &= serialMask;
  return markerTop << 20 | serial << 12 | index << 5 | markerCheck(serial, index);
}
/// The accumulator whose marker this is, and which of its registers; null for other values.
Accumulator *markedBy(AsyncState &a, uint32_t value, uint32_t &index);

} // namespace tegula::sim
