// Tables that several gathers read are stored to shared memory once.
//
//   t = load ..;  for { a = gather t, i;  b = gather t, j }   =>   tile = to_shared t;  for { a = gather tile, i;  b = gather tile, j }
//
// A gather of registers stores its table to scratch and meets, each time that it runs: curves over 21 bits that look
// two bits up at a time stored 2048 states eleven times. A table of one gather that runs once stays in registers, with
// scratch in no one else's way.
#pragma once
#include "gpu/TargetInfo.h"

namespace tegula::gpu {

/// Right before allocate-shared: nothing moves any more, and all other tiles are there. Where the kernel would take
/// more shared memory with the tables in it, unless that is little, they stay as they are.
void shareTables(ir::Module &m, const TargetInfo &target, const Options &options);

} // namespace tegula::gpu
