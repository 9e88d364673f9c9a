// Which values differ from program to program: a backward slice that ends at the program's number.
//
//   pid = tl.program_id(0)
//   for tile in range(pid, tiles, tl.num_programs(0)):    # tile: yes; tiles, an argument: no
//       row = X + tile * n                                 # yes
//       for k in range(0, n, BLOCK):                       # k: no
//
// It decides what programs share (weights stay in the caches by themselves) and which loops go through a program's
// tiles.
#pragma once
#include "ir/Ir.h"
#include <unordered_set>

namespace tegula::gpu {

/// Asks which values of one function depend on tl.program_id or tl.num_programs, as far as data goes: by operands; for
/// what a loop carries by what it begins and goes on with;
/// for its counter by the first value and the step; for what stands after a loop or a branch also by the bounds or the
/// condition. What a program loads depends on it if the address does.
/// Keeps what it found not to depend, so the IR must not change between two questions.
class ProgramDependence {
public:
  bool of(const ir::Value *v);

private:
  bool reaches(const ir::Value *v, std::unordered_set<const ir::Value *> &seen) const;

  std::unordered_set<const ir::Value *> independent_;
};

} // namespace tegula::gpu
