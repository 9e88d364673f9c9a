// Finds the values that differ from program to program: a backward slice that ends at the program's number.
//
//   pid = tl.program_id(0)
//   for tile in range(pid, tiles, tl.num_programs(0)):    # tile: yes; tiles, an argument: no
//       row = X + tile * n                                 # yes
//       for k in range(0, n, BLOCK):                       # k: no
//
// Passes use it to decide which data programs share (shared weights stay in the caches) and which loops iterate over a
// program's tiles.
#pragma once
#include "ir/Ir.h"
#include <unordered_set>

namespace tegula::gpu {

/// Finds which values of one function depend on tl.program_id or tl.num_programs through data. A value depends on its
/// operands; a loop-carried value on its initial value and its update; a loop counter on the first value and the step;
/// a result of a loop or a branch also on the bounds or the condition. A loaded value depends on its address. The class
/// caches the values that it found independent, so the IR must not change between two queries.
class ProgramDependence {
public:
  bool of(const ir::Value *v);

private:
  bool reaches(const ir::Value *v, std::unordered_set<const ir::Value *> &seen) const;

  std::unordered_set<const ir::Value *> independent_;
};

} // namespace tegula::gpu
