// `while` loops in which every element of a tile goes its own way (lang/Lanes.h writes them for map_elementwise), so
// that the elements of a part may be done without the others, in a loop that ends when they are over:
//
//   while any(m(x)) { x = f(x) }   ->   for each part i: while any(m(xi)) { xi = f(xi) }
//
// In the loop over all elements those that are over go through more iterations, for the sake of others. So these must
// change nothing: where m is false, what the test passes on must be the same in the iteration after.
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

/// Is it such a loop, made of element-wise operations on tiles of one shape (and loops like it), with the only
/// reduction m's by `or`? Nothing in it accesses memory. Everything that it takes from outside is a scalar or a tile of
/// that shape.
bool isLaneWise(const ir::Op &op);

/// Tiles that the loop uses and that are made outside of it, operands first, each once.
std::vector<ir::Value *> tilesInto(const ir::Op &op);

} // namespace tegula::gpu
