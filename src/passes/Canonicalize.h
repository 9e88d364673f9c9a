// Rewrites of single operations into simpler ones: the rules that Simplify applies while it walks.
//
// The aim is that scalar work stays scalar, and that targets see few forms:
//   - an elementwise operation on splats is a splat of the scalar operation; on broadcasts from one shape (and splats)
//     a broadcast of the operation at the small shape; a load through a splat pointer is a splat of a scalar load;
//   - chains of shape operations are one operation: reshape of reshape, permute of permute, broadcast of broadcast, any
//     of them on a splat is a splat;
//   - a tile that was extended to 64 bits is compared with one number, or with a broadcast, in its own bits (labels of
//     64 bits);
//   - program ids and positions that were extended to 64 bits are divided in their own bits (`pid.to(int64) // n`);
//   - constants stand on the right of commutative integer operations; (x + 1) + 2 is x + 3; x - 1 is x + -1.
// No rule changes a float result by a bit, and no rule touches an operation that carries hints on its result.
#pragma once
#include "ir/Builder.h"

namespace tegula {

/// An operation that has not been created yet.
struct Node {
  ir::OpKind kind;
  std::vector<ir::Value *> operands;
  ir::Type type;
  std::vector<ir::Attr> attrs;
};

/// Makes values for rules: folded, canonical, and merged with equal visible ones.
class NodeMaker {
public:
  virtual ~NodeMaker() = default;
  virtual ir::Value *make(Node n) = 0;
  ir::Value *constInt(const ir::Type &t, int64_t v);
};

/// An equal, simpler value for `n`, or null if no rule applies. `n` is a region-free operation with one result; its
/// operands may be reordered in place.
ir::Value *canonicalize(NodeMaker &mk, Node &n);

} // namespace tegula
