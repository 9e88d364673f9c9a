// Builds operations at an insertion point, folding constants and trivial identities as it goes.
//
// All layers create IR through this class. Value-returning functions never return null. Shapes and element types of
// operands must already agree (lang/ and passes ensure this; debug builds assert). A folded operation returns an
// existing value or a constant, so callers must not assume that `result->def` is the kind they asked for.
#pragma once
#include "ir/Ir.h"

namespace tegula::ir {

class Builder {
public:
  explicit Builder(Module &m) : module_(m) {}

  Module &module() const { return module_; }
  void setBlock(Block *b) { block_ = b; }
  Block *block() const { return block_; }
  /// Location (and inlining chain) given to the ops created next.
  void setLoc(Loc l) { loc_ = l; }
  Loc loc() const { return loc_; }
  void setInlinedAt(int32_t site) { inlinedAt_ = site; }
  int32_t inlinedAt() const { return inlinedAt_; }
  /// Off: every op is created as asked (tests, parsers).
  void setFolding(bool on) { folding_ = on; }

  /// The general form. One result type gives a possibly folded value through create1.
  Op *create(OpKind k, std::span<Value *const> operands, std::span<const Type> results, std::vector<Attr> attrs = {});
  Value *create1(OpKind k, std::initializer_list<Value *> operands, const Type &result, std::vector<Attr> attrs = {});

  Value *constInt(const Type &t, int64_t v);   // scalar or splat; v is truncated to the width
  Value *constFloat(const Type &t, double v);  // rounded to the type
  Value *constI32(int32_t v) { return constInt(Type::scalar(Elem::I32), v); }
  Value *constI64(int64_t v) { return constInt(Type::scalar(Elem::I64), v); }
  Value *poison(const Type &t) { return create1(OpKind::Poison, {}, t); }

  Value *unary(OpKind k, Value *x) { return create1(k, {x}, x->type); }
  Value *binary(OpKind k, Value *a, Value *b) { return create1(k, {a, b}, a->type); }
  Value *cast(OpKind k, Value *x, Elem to, std::vector<Attr> attrs = {}) {
    return create1(k, {x}, x->type.withElem(to), std::move(attrs));
  }
  Value *cmp(CmpPred p, Value *a, Value *b) {
    return create1(p < CmpPred::Oeq ? OpKind::CmpI : OpKind::CmpF, {a, b}, a->type.withElem(Elem::I1),
                   {{attr::pred, p}});
  }
  Value *select(Value *c, Value *a, Value *b) { return create1(OpKind::Select, {c, a, b}, a->type); }
  Value *addPtr(Value *p, Value *offset) { return create1(OpKind::AddPtr, {p, offset}, p->type); }

  Value *range(int64_t start, int64_t end);
  /// Returns x itself if the shape is rank 0 or already right.
  Value *splat(Value *scalar, const Shape &s);
  Value *expandDims(Value *x, unsigned axis);
  Value *broadcast(Value *x, const Shape &s);
  Value *reshape(Value *x, const Shape &s, bool reorder = false);
  Value *permute(Value *x, std::span<const int64_t> perm);

  /// f32 rounded to tf32, to nearest even: the 13 low bits become 0. Every NaN becomes 0x7fffe000. TMA copies round the
  /// same way.
  Value *roundToTf32(Value *x);

  /// Ops with regions: create the op, then fill region i with a Builder on its block (args exist already).
  Op *forOp(Value *lb, Value *ub, Value *step, std::span<Value *const> inits, std::vector<Attr> attrs = {});
  Op *ifOp(Value *cond, std::span<const Type> results);
  Op *whileOp(std::span<Value *const> inits);
  Op *reduceOp(OpKind reduceOrScan, std::span<Value *const> inputs, unsigned axis, bool reverse = false);
  void yield(std::span<Value *const> values) { create(OpKind::Yield, values, {}); }

private:
  Module &module_;
  Block *block_ = nullptr;
  Loc loc_;
  int32_t inlinedAt_ = -1;
  bool folding_ = true;
};

/// The constant that an op computes from constant operands, or an operand that equals its result; null if neither.
/// Never changes a float result by a bit. Used by Builder and by passes/Simplify.
Value *fold(Builder &b, OpKind k, std::span<Value *const> operands, const Type &result, std::span<const Attr> attrs);

/// The value if `v` is a Const (scalar or splat) of an integer type.
std::optional<int64_t> constantInt(const Value *v);
std::optional<double> constantFloat(const Value *v);

} // namespace tegula::ir
