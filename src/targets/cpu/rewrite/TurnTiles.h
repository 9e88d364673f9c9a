// Kernels whose tiles lie in memory along their rows' other axis are written anew with rows and columns exchanged.
//
//   x = load(in + columns[:, None] + n * rows[None, :])     [64, 16], neighbours in memory are neighbours along axis 0
//   s = sum(x, 1)                                            becomes     [16, 64], sum(x, 0)
//
// Lanes of a nest are the lowest bits of its last dimension. Where memory goes on along the other one, each vector is a
// gather. PyTorch's Inductor writes all its reductions of leading dimensions so (sums of gradients of weights and
// biases, statistics of batches): what is reduced is the last dimension of its tiles, wherever it lies in memory. An
// order of dimensions is nothing but names: all tiles of two dimensions of the kernel are exchanged at once, in their
// types, and so is each axis that an operation names.
//
// Done where loads and stores of two dimensions say so with one voice (AxisFacts.h): one that is contiguous along axis
// 1 speaks against it, and so does nothing else, as a nest that both loads and stores whole tiles turns them by itself
// (EmitTranspose.cpp). Left alone are kernels with what has an order of elements of its own (reshapes of two
// dimensions, dots, prints, atomics of tiles), or tiles of three dimensions and more, and calls.
#pragma once
#include "ir/Ir.h"

namespace tegula::cpu {

/// Is there anything to do for turnTiles()?
bool hasTurnedTiles(const ir::Module &m);
/// Exchanges the dimensions of all tiles that have two; hasTurnedTiles() must hold.
void turnTiles(ir::Module &m);

} // namespace tegula::cpu
