// Helpers of the language layer to make IR from typed tensors; operands are already of the right dtype and shape.
#pragma once
#include "lang/Diagnostics.h"
#include "lang/Ops.h"

namespace tegula::lang {

/// Sets the location of new operations for one scope.
class LocScope {
public:
  LocScope(Context &c, Loc loc) : b_(c.builder()), old_(b_.loc()) {
    if (loc)
      b_.setLoc(loc);
  }
  ~LocScope() { b_.setLoc(old_); }
  LocScope(const LocScope &) = delete;

private:
  ir::Builder &b_;
  Loc old_;
};

/// Numeric conversion without rounding options; the pair must be one that `cast` allows.
Tensor convert(Context &c, const Tensor &x, Dtype to, bool towardZero = false);
/// Same dtype and shape: the tensor as another shape by splat or broadcast. The shapes must be compatible.
Tensor spread(Context &c, const Tensor &x, const ir::Shape &shape);
/// The common shape of two; reports and returns nullopt if there is none.
std::optional<ir::Shape> commonShape(Context &c, const ir::Shape &a, const ir::Shape &b, Loc loc, Loc aLoc = {},
                                     Loc bLoc = {});
/// Marks the result `v` of a new float operation `kind` as rounded: no target fuses the operation with those of its
/// operands or users. Does nothing if it was folded to another value.
void keepRounded(ir::Value *v, ir::OpKind kind);
/// A new dimension of extent 1; a scalar becomes a block of one element.
ir::Value *insertAxis(Context &c, ir::Value *x, unsigned axis);
std::string shapeText(const ir::Shape &s);
Value shapeValue(const ir::Shape &s);

inline Value tensor(Dtype d, ir::Value *v) { return Value::tensor(d, v); }
inline Value tensor(const Tensor &t) { return Value(t); }
/// "this is int32[128]", the text of a label.
inline std::string thisIs(const Value &v) { return "this is " + kindName(v); }

/// Reports and returns Error.
template <typename... Args> Value fail(Context &c, const DiagKind &kind, Loc loc, Args &&...args) {
  c.diag().report(kind, loc, std::forward<Args>(args)...);
  return Value::error();
}

/// Both operands of an arithmetic operation, converted to their common dtype and shape (LANGUAGE 2.3, 2.5).
struct Operands {
  Tensor a, b;
};
std::optional<Operands> meet(Context &c, const char *op, const Value &a, const Value &b, bool isDivOrMod, Loc loc,
                             Loc aLoc, Loc bLoc);
/// The same for functions of two or three operands, by the rules from level 3.9 on: a number takes the tensors' dtype
/// if its kind is not above theirs, regardless of the number of tensors. `locs` has one place for each value.
std::optional<std::vector<Tensor>> meetAll(Context &c, const char *op, std::span<const Value> values, bool isDivOrMod,
                                           Loc loc, std::span<const Loc> locs);
/// Add, Sub, Mul with or without the overflow check of debug builds.
Value arithmetic(Context &c, BinOp op, const Value &a, const Value &b, Loc loc, Loc aLoc, Loc bLoc, bool checkOverflow);

} // namespace tegula::lang
