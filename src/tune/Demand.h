// From what a kernel's program does (support/Work.h) to what one launch of it demands of a device: plain numbers, for a
// grid, arguments and the programs that run side by side. All that is symbolic ends here; Model.h makes a time of the
// numbers.
//
// Programs that run at the same time share what they load: of some hundred programs that start one after the other, the
// tiles that they access are compared by address, so that the order in which a kernel walks over its tiles, whatever
// arithmetic makes it, counts as what it is.
#pragma once
#include "runtime/Kernel.h"
#include <string>
#include <string_view>

namespace tegula::tune {

struct Demand {
#define DEMAND(field, text) double field = 0;
#include "tune/Demand.def"
};
/// Fields in order: their names and what they are.
struct DemandField {
  const char *name, *text;
  double Demand::*value;
};
std::span<const DemandField> demandFields();

/// A launch as far as the model looks at it.
struct Launch {
  int64_t grid[3] = {1, 1, 1};
  /// By index into KernelInfo::args: of an integer its value, else 0.
  std::span<const int64_t> arguments;
  /// Of a pointer the bytes behind it; -1 (or no entry): unknown.
  std::span<const int64_t> extents;
};

/// What runs the programs.
struct Machine {
  double inFlight = 1;                 // programs at once
  double sector = 32;                  // bytes that memory is accessed by
  double l1Bytes = 0, l2Bytes = 0, l3Bytes = 0; // CPU: caches of a core and of all; 0 elsewhere
};

/// Of `info` work, args, gpu and scratchBytes count; `use`: registers and the like, as far as known.
Demand demandOf(const runtime::KernelInfo &info, const runtime::GpuUse &use, const Launch &launch,
                const Machine &machine);

} // namespace tegula::tune
