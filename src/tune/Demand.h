// From the work of a kernel's program (support/Work.h) to the demand of one launch on a device: plain numbers for a
// grid, arguments and the programs in flight at once. Everything symbolic is evaluated here; Model.h turns the numbers
// into a time.
//
// Programs in flight at the same time share what they load. The tiles that some hundred consecutive programs access are
// compared by address, so the model sees the order in which a kernel visits its tiles, whatever arithmetic computes it.
#pragma once
#include "runtime/Kernel.h"
#include <string>
#include <string_view>

namespace tegula::tune {

struct Demand {
#define DEMAND(field, text) double field = 0;
#include "tune/Demand.def"
};
/// The fields in order: names and descriptions.
struct DemandField {
  const char *name, *text;
  double Demand::*value;
};
std::span<const DemandField> demandFields();

/// The parts of a launch that the model reads.
struct Launch {
  int64_t grid[3] = {1, 1, 1};
  /// By index into KernelInfo::args: of an integer its value, else 0.
  std::span<const int64_t> arguments;
  /// For a pointer, the bytes behind it; -1 (or no entry): unknown.
  std::span<const int64_t> extents;
};

/// The hardware that runs the programs.
struct Machine {
  double inFlight = 1;                 // programs at once
  double sector = 32;                  // bytes of one memory access
  double l1Bytes = 0, l2Bytes = 0, l3Bytes = 0; // CPU: caches of a core and of all; 0 elsewhere
};

/// Reads work, args, gpu and scratchBytes of `info`; `use`: registers and other resources, as far as known.
Demand demandOf(const runtime::KernelInfo &info, const runtime::GpuUse &use, const Launch &launch,
                const Machine &machine);

} // namespace tegula::tune
