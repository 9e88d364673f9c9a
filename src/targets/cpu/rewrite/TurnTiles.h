// Exchanges rows and columns in kernels whose two-dimensional tiles are contiguous in memory along axis 0.
//
//   x = load(in + columns[:, None] + n * rows[None, :])     [64, 16], neighbours in memory are neighbours along axis 0
//   s = sum(x, 1)                                            becomes     [16, 64], sum(x, 0)
//
// The lanes of a nest are the lowest bits of its last dimension. If memory is contiguous along the other dimension,
// each vector is a gather. PyTorch's Inductor writes all its reductions of leading dimensions this way (sums of
// gradients of weights and biases, statistics of batches): it reduces the last dimension of its tiles, whatever its
// stride in memory. The order of dimensions is only a matter of names: all two-dimensional tiles of the kernel are
// transposed at once, in their types, as is each axis that an operation names.
//
// Applies where the two-dimensional loads and stores agree (AxisFacts.h): only an access that is contiguous along axis
// 1 prevents it, as a nest that both loads and stores whole tiles transposes them itself (EmitTranspose.cpp). Left
// unchanged are kernels with operations that depend on the order of elements (reshapes of two dimensions, dots, prints,
// atomics of tiles), with tiles of three or more dimensions, or with calls.
#pragma once
#include "ir/Ir.h"

namespace tegula::cpu {

/// Does turnTiles() apply to `m`?
bool hasTurnedTiles(const ir::Module &m);
/// Exchanges the dimensions of all two-dimensional tiles. Requires hasTurnedTiles().
void turnTiles(ir::Module &m);

} // namespace tegula::cpu
