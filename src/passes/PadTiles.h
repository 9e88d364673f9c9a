// Pads tiles whose extents are not powers of two to the next powers of two; targets see no others.
//
//   %r = range {start = 0} : tensor<12xi32>              %r = range {start = 0} : tensor<16xi32>
//   %x = load %p                                    =>   %in = range < 12
//                                                        %x = load %p, %in
//   %s = reduce %x {axis = 0}  (a sum)                   %y = select %in, %x, -0.0
//                                                        %s = reduce %y {axis = 0}
//
// An element keeps its coordinates, so element-wise operations, expand_dims, broadcast, permute, join and split stay as
// they are: each real element is computed from real elements only, and no operation reads the padding. Operations that
// would read or store padding change:
//   * memory: accesses and assertions get a mask that excludes the padding;
//   * reduce: the padding becomes the neutral element if the combination is one operation that has one; else each
//     element carries a flag, and (a, fa), (b, fb) combine to (combination if both are set, else the one that is; fa
//     | fb). The same for a scan from the end; a scan from the start reaches the padding last;
//   * dot: the padding becomes 0 along K;
//   * histogram: the padding is masked;
//   * reshape and cat become a gather, unless all elements keep their places in memory order;
//   * gather: indices are first reduced modulo the real extent, as the operation does.
// Return values are padded as well, in all functions of a module. A module with such a tile in an operation that is not
// listed here (print, descriptors) is left as it is; lang rejects those. The pass runs before every pass that looks at
// extents.
#pragma once
#include "ir/Ir.h"

namespace tegula {

/// The padded extents of tiles of shape `s`.
ir::Shape paddedShape(const ir::Shape &s);
void padTiles(ir::Module &m);

} // namespace tegula
