// What of a launch decides how many blocks should share a multiprocessor: forms of code for classes of grids and trips
// (support/LaunchForms.h).
#pragma once
#include "targets/nvidia/occupancy/LoopBlocks.h"
#include <functional>

namespace tegula::nvidia {

/// The form of code (FormCode) for what is known.
using BlockRule = std::function<uint8_t(const Holders &, const Known &)>;

/// The axes of what a launch of the kernel may decide, and the rule asked for each combination of classes. `ahead`:
/// what loops that load ahead asked (gpu/loops/PrefetchLoads.h), which becomes part of it.
LaunchForms askForms(const ir::Function &kernel, const Pressure &pressure, const Holders &holders,
                     const Options &options, const LaunchForms &ahead, const BlockRule &rule);

/// gpu::Options::crowd of the launches that code is made for.
uint32_t crowdOf(const LaunchFacts &facts);
/// The forms of a kernel whose loops ask for that number (gpu::Options::askedCrowd): it has products, for which
/// wishedBlocks asks nothing. None, if they do not ask.
LaunchForms formsByCrowd(const Options &options);

} // namespace tegula::nvidia
