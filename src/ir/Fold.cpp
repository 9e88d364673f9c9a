// Folding: constants through Scalar.h, and identities that return an operand.
//
// Floats: an operation on constants is folded only if every target must give the same bits, so NaN results (whose sign
// and payload differ between machines), elementary functions and `approx` and `fast` operations stay. No identity on a
// float that is not a constant is used except sign operations: even x * 1.0 changes a signalling NaN.
#include "ir/Builder.h"
#include "ir/Scalar.h"
#include <cmath>

namespace tegula::ir {

namespace {

const Op *constantOp(const Value *v) { return v->def && v->def->kind == OpKind::Const ? v->def : nullptr; }

bool isElementary(OpKind k) {
  switch (k) {
  case OpKind::Exp: case OpKind::Exp2: case OpKind::Log: case OpKind::Log2: case OpKind::Sin: case OpKind::Cos:
  case OpKind::Rsqrt: case OpKind::Erf: case OpKind::Tanh: return true;
  default: return false;
  }
}

bool hasAttr(std::span<const Attr> attrs, AttrKey key) {
  for (const Attr &a : attrs)
    if (a.key == key)
      return true;
  return false;
}

Value *constantOf(Builder &b, const Type &t, uint64_t bits) {
  if (t.isFloatLike())
    return b.constFloat(t, decodeFloat(t.elem, bits));
  return b.constInt(t, toConstInt(t.elem, bits));
}

/// Constants are rounded to their type: NaN loses its bits, and infinity, which a bitcast can make, is the largest
/// value of an 8-bit format.
bool isFloatConstant(Elem e, uint64_t bits) {
  double v = decodeFloat(e, bits);
  return !std::isnan(v) && encodeFloat(e, v) == bits;
}

Value *foldConstants(Builder &b, OpKind k, std::span<Value *const> operands, const Type &result,
                     std::span<const Attr> attrs) {
  if (result.isPtr || operands.size() > 3 || isElementary(k) || hasAttr(attrs, attr::approx) ||
      hasAttr(attrs, attr::fast))
    return nullptr;
  uint64_t args[3] = {};
  for (size_t i = 0; i < operands.size(); ++i) {
    const Op *c = constantOp(operands[i]);
    if (!c)
      return nullptr;
    Elem e = operands[i]->type.elem;
    args[i] = constantBits(e, *c->value());
    if (isFloat(e) && std::isnan(decodeFloat(e, args[i])))
      return nullptr;
  }
  std::optional<uint64_t> bits = evalScalar(scalarOp(k, operands, result, attrs), {args, operands.size()});
  if (!bits || (result.isFloatLike() && !isFloatConstant(result.elem, *bits)))
    return nullptr;
  return constantOf(b, result, *bits);
}

bool isAllOnes(const Value *v, int64_t c) { return v->type.elem == Elem::I1 ? c == 1 : c == -1; }

/// Identities of integer operations with a constant on the right.
Value *foldRightConstant(Builder &b, OpKind k, Value *x, Value *right, int64_t c) {
  bool isI1 = x->type.elem == Elem::I1;
  switch (k) {
  case OpKind::Add: case OpKind::Sub: case OpKind::Xor: case OpKind::Shl: case OpKind::LShr: case OpKind::AShr:
    return c == 0 ? x : nullptr;
  case OpKind::AddPtr: return c == 0 ? x : nullptr;
  case OpKind::Mul: return c == 1 ? x : c == 0 ? right : nullptr;
  case OpKind::And: return isAllOnes(x, c) ? x : c == 0 ? right : nullptr;
  case OpKind::Or: return c == 0 ? x : isAllOnes(x, c) ? right : nullptr;
  case OpKind::SDiv: case OpKind::UDiv: return c == 1 && !isI1 ? x : nullptr;
  case OpKind::SRem: case OpKind::URem: return c == 1 && !isI1 ? b.constInt(x->type, 0) : nullptr;
  case OpKind::UMin: return c == 0 ? right : nullptr;
  case OpKind::UMax: return c == 0 ? x : nullptr;
  default: return nullptr;
  }
}

/// Shifts of a constant that are the same for every distance: all ones (`-1 >> k`) and zero.
Value *foldLeftConstant(OpKind k, Value *left, int64_t c) {
  bool isShift = k == OpKind::Shl || k == OpKind::LShr || k == OpKind::AShr;
  return isShift && (c == 0 || (k == OpKind::AShr && isAllOnes(left, c))) ? left : nullptr;
}

Value *foldSameOperands(Builder &b, OpKind k, Value *x, const Type &result, std::span<const Attr> attrs) {
  switch (k) {
  case OpKind::And:
  case OpKind::Or:
  case OpKind::SMin:
  case OpKind::SMax:
  case OpKind::UMin:
  case OpKind::UMax: return x;
  case OpKind::Sub: case OpKind::Xor: return b.constInt(x->type, 0);
  case OpKind::CmpI: {
    CmpPred p = scalarOp(k, std::array<Value *, 2>{x, x}, result, attrs).pred;
    bool holds = p == CmpPred::Eq || p == CmpPred::Sle || p == CmpPred::Sge || p == CmpPred::Ule || p == CmpPred::Uge;
    return b.constInt(result, holds);
  }
  default: return nullptr;
  }
}

/// A cast that inverts another cast.
Value *foldCast(OpKind k, Value *x, const Type &result) {
  if (!x->def || x->def->operands.size() != 1)
    return nullptr;
  Value *source = x->def->operands[0];
  OpKind inner = x->def->kind;
  bool undone = (k == OpKind::Trunc && (inner == OpKind::ZExt || inner == OpKind::SExt)) ||
                (k == OpKind::Bitcast && inner == OpKind::Bitcast) ||
                (k == OpKind::PtrToInt && inner == OpKind::IntToPtr) ||
                (k == OpKind::IntToPtr && inner == OpKind::PtrToInt) || (k == OpKind::FNeg && inner == OpKind::FNeg) ||
                // floats of 8 bits saturate: an infinity does not come back
                (k == OpKind::FpTrunc && inner == OpKind::FpExt && !isFp8(result.elem));
  return undone && source->type == result ? source : nullptr;
}

/// Every permutation of equal elements is the same constant.
Value *foldShape(Builder &b, OpKind k, Value *x, const Type &result) {
  if (const Op *c = constantOp(x))
    return constantOf(b, result, constantBits(x->type.elem, *c->value()));
  bool mayMove = k == OpKind::Permute || k == OpKind::Split || k == OpKind::Reshape;
  if (x->type == result && !mayMove)
    return x;
  if (k == OpKind::Unsplat && x->def && x->def->kind == OpKind::Splat)
    return x->def->operands[0];
  return nullptr;
}

bool isIdentity(std::span<const Attr> attrs) {
  for (const Attr &a : attrs)
    if (a.key == attr::perm) {
      const auto &perm = std::get<std::vector<int64_t>>(a.value);
      for (size_t i = 0; i < perm.size(); ++i)
        if (perm[i] != static_cast<int64_t>(i))
          return false;
    }
  return true;
}

Value *foldSelect(std::span<Value *const> operands) {
  if (operands[1] == operands[2])
    return operands[1];
  if (std::optional<int64_t> c = constantInt(operands[0]))
    return *c ? operands[1] : operands[2];
  bool isBool = operands[1]->type == operands[0]->type;
  if (isBool && constantInt(operands[1]) == 1 && constantInt(operands[2]) == 0)
    return operands[0];
  return nullptr;
}

Value *foldElementwise(Builder &b, OpKind k, std::span<Value *const> operands, const Type &result,
                       std::span<const Attr> attrs) {
  if (Value *v = foldConstants(b, k, operands, result, attrs))
    return v;
  if (k == OpKind::Select)
    return foldSelect(operands);
  if (operands.size() == 1) {
    if (k == OpKind::Bitcast && operands[0]->type == result)
      return operands[0];
    return foldCast(k, operands[0], result);
  }
  if (operands.size() != 2)
    return nullptr;
  bool isInt = operands[1]->type.isIntLike();
  if (isInt && k != OpKind::CmpI) {
    if (std::optional<int64_t> c = constantInt(operands[1]))
      if (Value *v = foldRightConstant(b, k, operands[0], operands[1], *c))
        return v;
    if (std::optional<int64_t> c = constantInt(operands[0])) {
      bool commutes = info(k).traits & traits::Commutative;
      if (Value *v =
              commutes ? foldRightConstant(b, k, operands[1], operands[0], *c) : foldLeftConstant(k, operands[0], *c))
        return v;
    }
  }
  if (operands[0] == operands[1])
    return foldSameOperands(b, k, operands[0], result, attrs);
  return nullptr;
}

} // namespace

Value *fold(Builder &b, OpKind k, std::span<Value *const> operands, const Type &result, std::span<const Attr> attrs) {
  uint16_t t = info(k).traits;
  if (k == OpKind::Asm)
    return nullptr;
  if (t & traits::Elementwise)
    return foldElementwise(b, k, operands, result, attrs);
  if (!(t & traits::Shape) || operands.size() != 1 || k == OpKind::Split)
    return nullptr;
  if (operands[0]->type == result && (k == OpKind::Reshape || (k == OpKind::Permute && isIdentity(attrs))))
    return operands[0];
  return foldShape(b, k, operands[0], result);
}

std::optional<int64_t> constantInt(const Value *v) {
  const Op *c = constantOp(v);
  if (!c || !v->type.isIntLike())
    return std::nullopt;
  return c->intValue();
}

std::optional<double> constantFloat(const Value *v) {
  const Op *c = constantOp(v);
  if (!c || !v->type.isFloatLike())
    return std::nullopt;
  return c->floatValue();
}

} // namespace tegula::ir
