// Placement of buffers in scratch memory, and copies removed by sharing a buffer. Both run after all steps are planned.
#pragma once
#include "targets/cpu/plan/Plan.h"

namespace tegula::cpu {

/// Removes copies between buffers where one buffer can serve both (accumulators updated in place).
void coalesceBuffers(Plan &p);
/// Gives each buffer its offset: buffers whose live ranges do not overlap share memory.
void placeBuffers(Plan &p);

} // namespace tegula::cpu
