// Where buffers lie: which can be one, and at which place in scratch memory. Both run when all steps are there.
#pragma once
#include "targets/cpu/plan/Plan.h"

namespace tegula::cpu {

/// Removes copies between buffers where one buffer can serve both (accumulators updated in place).
void coalesceBuffers(Plan &p);
/// Gives each buffer its place: buffers whose lifetimes do not meet share memory.
void placeBuffers(Plan &p);

} // namespace tegula::cpu
