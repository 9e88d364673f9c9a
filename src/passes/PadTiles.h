// Tiles whose extents are no powers of two become tiles of the next powers of two; targets see no others.
//
//   %r = range {start = 0} : tensor<12xi32>              %r = range {start = 0} : tensor<16xi32>
//   %x = load %p                                    =>   %in = range < 12
//                                                        %x = load %p, %in
//   %s = reduce %x {axis = 0}  (a sum)                   %y = select %in, %x, -0.0
//                                                        %s = reduce %y {axis = 0}
//
// An element keeps its coordinates, so element-wise operations, expand_dims, broadcast, permute, join and split stay as
// they are: each real element is computed from real elements only, and nobody looks at what is in the others. Where
// that does not hold by itself:
//   * memory: accesses and assertions get a mask (the others touch nothing);
//   * reduce: the others become the neutral element if the combination is one operation that has one; else each element
//     is accompanied by a flag, and (a, fa), (b, fb) combine to (combination if both are set, else the one that is; fa
//     | fb). The same for a scan from the end; a scan from the start meets them last;
//   * dot: the others become 0 along K;
//   * histogram: they are masked;
//   * reshape and cat move elements: a gather, unless all elements stay where they are in memory order;
//   * gather: indices are taken modulo the real extent before, as the operation does.
// What functions return is padded as well, in all functions of a module. One with an odd tile in an operation that is
// not named here (print, descriptors) is left as it is; lang refuses those. The pass stands before everything that
// looks at extents.
#pragma once
#include "ir/Ir.h"

namespace tegula {

/// The extents that tiles of shape `s` get.
ir::Shape paddedShape(const ir::Shape &s);
void padTiles(ir::Module &m);

} // namespace tegula
