// The mbarriers of a CTA.
#pragma once
#include "sim/State.h"

namespace tegula::sim {
struct MbarrierTable {};
} // namespace tegula::sim
