// The facts of a launch that decide how many blocks should share a multiprocessor: variants ("forms") of the code for
// classes of grid sizes and trip counts (support/LaunchForms.h).
#pragma once
#include "targets/nvidia/occupancy/LoopBlocks.h"
#include <functional>

namespace tegula::nvidia {

/// The form of the code (FormCode) for the known facts of a launch.
using BlockRule = std::function<uint8_t(const Holders &, const Known &)>;

/// The axes along which launches of the kernel differ, and the result of `rule` for each combination of classes.
/// `ahead`: the forms that loops with prefetched loads request (gpu/loops/PrefetchLoads.h); the result includes them.
LaunchForms askForms(const ir::Function &kernel, const Pressure &pressure, const Holders &holders,
                     const Options &options, const LaunchForms &ahead, const BlockRule &rule);

/// gpu::Options::crowd for the launches that the code is compiled for.
uint32_t crowdOf(const LaunchFacts &facts);
/// The forms of a kernel with dots whose loops query that number (gpu::Options::askedCrowd); wishedBlocks requests
/// nothing for such a kernel. Without a query there are no forms.
LaunchForms formsByCrowd(const Options &options);

} // namespace tegula::nvidia
