// Stores tables that several gathers read to shared memory once.
//
//   t = load ..;  for { a = gather t, i;  b = gather t, j }   =>   tile = to_shared t;  for { a = gather tile, i;  b = gather tile, j }
//
// A gather from registers stores its table to scratch and synchronizes, each time that it runs: curves over 21 bits
// that look up two bits at a time stored 2048 states eleven times. A table with one gather that runs once stays in
// registers, with scratch that is taken only while the gather runs.
#pragma once
#include "gpu/TargetInfo.h"

namespace tegula::gpu {

/// Runs right before allocate-shared, when the order of operations is final and all other tiles exist. If the kernel
/// would take more shared memory with the tables in it than before, and more than a small limit, they stay as they are.
void shareTables(ir::Module &m, const TargetInfo &target, const Options &options);

} // namespace tegula::gpu
