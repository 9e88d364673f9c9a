// Vectorizes scalar code over all elements of a block: operations on scalars become operations on tiles. Where elements
// diverge, both branches execute, each with a mask of the elements that take it; a loop runs until it ends for every
// element.
//
//   if c { yield f(x) } else { yield g(x) }   ->   select(C, f(X), g(X))
//   while go(x) { x = f(x) }                  ->   while any(on & go(X)) { X = select(on & go(X), f(X), X) }
//
// Uniform values (constants, program ids, bounds of loops) stay scalar, and so does control flow on them. Operations
// that may fault or have effects get the mask: loads, stores, atomics, assertions.
#pragma once
#include "ir/Builder.h"
#include <unordered_map>

namespace tegula::lang {

class Lanes {
public:
  /// Operations are created where `b` stands, for blocks of `shape`.
  Lanes(ir::Builder &b, const ir::Shape &shape) : b_(b), shape_(shape) {}

  /// Maps `scalar` of the code to `tile`: a tensor of the shape, or a scalar that is the same for all elements.
  void bind(const ir::Value *scalar, ir::Value *tile) { tiles_[scalar] = tile; }
  /// Vectorizes the block up to its terminator, if it has one. Returns the first operation that cannot be vectorized,
  /// or null.
  const ir::Op *block(const ir::Block &code);
  /// The vectorized value of a scalar of the code, as a tensor of the shape.
  ir::Value *tile(const ir::Value *scalar) { return spread(value(scalar)); }

private:
  const ir::Op *op(const ir::Op &op);
  const ir::Op *plain(const ir::Op &op);
  const ir::Op *access(const ir::Op &op);
  const ir::Op *check(const ir::Op &op);
  const ir::Op *branch(const ir::Op &op);
  const ir::Op *branchTogether(const ir::Op &op, ir::Value *cond);
  const ir::Op *forLoop(const ir::Op &op);
  const ir::Op *forTogether(const ir::Op &op, ir::Value *const bounds[3]);
  const ir::Op *whileLoop(const ir::Op &op);
  /// Vectorizes the code of one region into `to`, only for the elements in `mask`.
  const ir::Op *inside(ir::Block *to, const ir::Block &code, ir::Value *mask);

  ir::Value *value(const ir::Value *scalar) const;
  ir::Value *spread(ir::Value *x) { return b_.splat(x, shape_); }
  bool isSame(const ir::Value *v) const { return v->type.isScalar(); }
  ir::Value *both(ir::Value *a, ir::Value *b) {
    return a && b ? b_.binary(ir::OpKind::And, spread(a), spread(b)) : a ? a : b;
  }
  ir::Value *negated(ir::Value *x) { return b_.binary(ir::OpKind::Xor, x, b_.constInt(x->type, 1)); }
  ir::Value *any(ir::Value *mask);
  ir::Value *allOn() { return b_.constInt(ir::Type::tensor(shape_, ir::Elem::I1), 1); }
  /// Initial values of a loop, and its arguments as the values of the code's.
  std::vector<ir::Value *> spreadAll(std::span<ir::Value *const> scalars);
  void bindAll(std::span<ir::Value *const> scalars, std::span<ir::Value *const> tiles);

  ir::Builder &b_;
  ir::Shape shape_;
  ir::Value *mask_ = nullptr; // active elements; null: all
  std::unordered_map<const ir::Value *, ir::Value *> tiles_;
};

} // namespace tegula::lang
