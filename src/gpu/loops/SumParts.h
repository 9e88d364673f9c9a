// Products that are added to a running sum outside of the instruction: a part of them at a time.
//
//   %d = dot %a, %b, zeros {async = 1}                 %d = dot %a, %b, zeros {async = 1}                  starts the first part
//   ... copies of later iterations ...                 ... copies of later iterations ...
//   %w = dot_wait %d                           =>      %s = convert %scales                                (pure: it goes in front)
//   %p = fmul %w, %r                                   %w = dot_wait %d                                    waits for a part, does with it what the next operations
//   %s = convert %scales                               %p = fmul %w, %r                                    say, starts the next part in the same registers
//   %q = fmul %p, %s                                   %q = fmul %p, %s
//   %acc.1 = fadd %acc, %q                             %acc.1 = fadd %acc, %q
// So are sums of fp8 kept in float32 (the tensor cores keep 14 bits: docs/hopper.md 1.6), and products of blocks with
// scales of their own. A thread that computes 128 sums has no registers for as many products beside them; of a part it
// needs 64, and the tensor cores wait for as many additions as are done between two parts.
#pragma once
#include "gpu/TargetInfo.h"
#include "passes/Users.h"

namespace tegula::gpu {

/// Brings the waits of such dots and what is done with them up to the sum together, in place. After all that move
/// operations; before bytes of shared memory are given.
void sumParts(ir::Module &m, const TargetInfo &target, const Options &options);

/// How a dot is added part by part: that many, each of as many registers of a thread in their order; the wait; and,
/// right after it, what is done with the products up to the sum, element by element.
struct PartsOfSum {
  unsigned parts = 1;
  const ir::Op *wait = nullptr;
  std::vector<ir::Op *> steps; // each the only user of the one before; the last adds to what a loop carries
};
/// Is a dot of GPU IR whose result has `registers` registers in a thread such a one, and is it ordered as sumParts
/// leaves it? One part if not.
PartsOfSum partsOfSum(const ir::Op &dot, const Users &users, int64_t registers);

} // namespace tegula::gpu
