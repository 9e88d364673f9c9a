// Makes an operand in shared memory that several loops read only once.
//
//   for { dot (to_shared q), .. }  for { dot (to_shared q), .. }   =>   t = to_shared q;  for { dot t, .. }  for { dot t, .. }
//
// Layout assignment works block by block, so each loop gets a tile of its own, and invariants are hoisted out of loops
// after that. The queries that are scaled before the two loops of causal attention had two tiles of 32 KB, which left
// no memory for the stages of a producer.
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

/// Merges equal to_shared of one block, and the equal view operations that they use: users of the later operation use
/// the earlier one's result. GPU IR, before any operation writes to tiles.
void shareTiles(ir::Module &m);

} // namespace tegula::gpu
