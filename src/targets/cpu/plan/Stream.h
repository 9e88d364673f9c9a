// Non-temporal stores (Stream.cpp says when they pay).
#pragma once
#include "targets/cpu/plan/Plan.h"
#include "targets/cpu/plan/Uses.h"

namespace tegula::cpu {

/// Marks the stores that may be non-temporal if the launch as a whole writes more than the caches hold.
void markStreaming(Plan &p, const Uses &uses, const CpuTarget &target);

} // namespace tegula::cpu
