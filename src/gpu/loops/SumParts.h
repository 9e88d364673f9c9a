// Splits dots whose products are added to a running sum outside of the instruction: one part of the products at a time.
//
//   %d = dot %a, %b, zeros {async = 1}                 %d = dot %a, %b, zeros {async = 1}                  starts the first part
//   ... copies of later iterations ...                 ... copies of later iterations ...
//   %w = dot_wait %d                           =>      %s = convert %scales                                (pure: moves up)
//   %p = fmul %w, %r                                   %w = dot_wait %d                                    waits for a part, applies the next operations to it,
//   %s = convert %scales                               %p = fmul %w, %r                                    starts the next part in the same registers
//   %q = fmul %p, %s                                   %q = fmul %p, %s
//   %acc.1 = fadd %acc, %q                             %acc.1 = fadd %acc, %q
// Such sums are those of fp8 kept in float32 (the tensor cores keep 14 bits: docs/hopper.md 1.6), and products of
// blocks that have their own scales. A thread that computes 128 sums has no registers for 128 products beside them. A
// part needs 64 registers, and the tensor cores idle only during the additions between two parts.
#pragma once
#include "gpu/TargetInfo.h"
#include "passes/Users.h"

namespace tegula::gpu {

/// Moves the wait of each such dot and the elementwise operations from the wait to the sum together (GPU IR, in place).
/// Runs after all passes that move operations, and before shared memory is allocated.
void sumParts(ir::Module &m, const TargetInfo &target, const Options &options);

/// How a dot is added part by part: `parts` parts with the same number of a thread's registers, in order; the wait;
/// and, right after the wait, the elementwise operations on the products up to the sum.
struct PartsOfSum {
  unsigned parts = 1;
  const ir::Op *wait = nullptr;
  std::vector<ir::Op *> steps; // each is the only user of the one before; the last adds to a loop-carried value
};
/// The parts of a dot (GPU IR) whose result has `registers` registers in a thread, if sumParts has ordered its wait and
/// steps. One part if the dot is not of this kind, or not in that order.
PartsOfSum partsOfSum(const ir::Op &dot, const Users &users, int64_t registers);

} // namespace tegula::gpu
