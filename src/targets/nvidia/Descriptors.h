// Accesses through tensor descriptors that become TMA copies: which do, what map the launch has to encode for them, and those that no
// pipelined loop has taken.
#pragma once
#include "targets/nvidia/DotChoice.h"

namespace tegula::nvidia {

/// A tile as TMA writes it, row by row in atoms of the widest swizzle.
layout::LinearLayout tmaTile(const ir::Type &block);
/// The tile is copied box by box: one column of atoms, at most 256 rows.
struct TmaBoxes {
  unsigned rows = 0, columns = 0; // of a box
  uint8_t swizzle = 0;            // span in bytes, 0 for tiles 16 bytes wide
  explicit TmaBoxes(const ir::Type &tile);
};
/// The map for a tma_copy. `argument` numbers a kernel argument among those of the kernel.
TensorMap tensorMapOf(const ir::Op &tmaCopy);

/// Users of `tensor` among `users` that can take `tile`, which holds it, do so: dots by way of to_shared, conversions as loads from the
/// tile, permutations as other views of it. The others stay.
void useTile(ir::Module &m, ir::Block &block, const ir::Value *tensor, ir::Value *tile);

/// The rest: each load waits for its own copy.
void copyDescriptorLoads(ir::Module &m);

} // namespace tegula::nvidia
