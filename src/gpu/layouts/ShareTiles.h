// Operands in shared memory that several loops read are made once.
//
//   for { dot (to_shared q), .. }  for { dot (to_shared q), .. }   =>   t = to_shared q;  for { dot t, .. }  for { dot t, .. }
//
// Layouts are assigned block by block, so each loop has a tile of its own, and invariants leave loops after that.
// Queries that are scaled before causal attention's two loops had two tiles of 32 KB: no memory for the stages of a
// producer.
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

/// Merges equal to_shared of one block, and equal views, which those are made of: users of the later one take the
/// earlier one's. GPU IR, as long as nothing writes to tiles.
void shareTiles(ir::Module &m);

} // namespace tegula::gpu
