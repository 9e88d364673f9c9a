// Marker values in accumulator registers of wgmma (Markers.cpp).
#pragma once
#include "sim/AsyncState.h"

namespace tegula::sim {

uint32_t makeMarker(uint32_t serial, uint32_t index);
/// The accumulator whose marker this is, and which of its registers; null for other values.
Accumulator *markedBy(AsyncState &a, uint32_t value, uint32_t &index);

} // namespace tegula::sim
