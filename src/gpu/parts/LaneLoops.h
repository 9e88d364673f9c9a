// Recognizes `while` loops in which the elements of a tile iterate independently (lang/Lanes.h writes them for
// map_elementwise). Then each part of the tile can have its own loop, which ends when the elements of the part have
// finished:
//
//   while any(m(x)) { x = f(x) }   ->   for each part i: while any(m(xi)) { xi = f(xi) }
//
// In the loop over all elements, finished elements go through further iterations because of the others. These
// iterations must not change them: where m is false, the values that the test passes on must be the same in the next
// iteration.
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

/// Is `op` such a loop? It must consist of element-wise operations on tiles of one shape (and of nested loops of this
/// kind), with no other reduction than that of m by `or`. It must not access memory, and its inputs must be scalars or
/// tiles of that shape.
bool isLaneWise(const ir::Op &op);

/// The tiles that the loop uses and that are defined outside it, operands first, each once.
std::vector<ir::Value *> tilesInto(const ir::Op &op);

} // namespace tegula::gpu
