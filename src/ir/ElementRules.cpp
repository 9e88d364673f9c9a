// See ElementRules.h.
#include "ir/ElementRules.h"

namespace tegula::ir {

namespace {

/// The element types of an elementwise operation's operands and result.
enum class Rule : uint8_t {
  None, Ints, Floats, WideFloats, CmpInt, CmpFloat, Narrow, Widen, FpNarrow, FpWiden, FpInt, IntFp, Bits, ToPtr,
  FromPtr, Offset, Choose
};

Rule ruleOf(OpKind k) {
  if (k >= OpKind::Add && k <= OpKind::PopCount)
    return Rule::Ints;
  if (k >= OpKind::FAdd && k <= OpKind::Maximum)
    return Rule::Floats;
  if (k >= OpKind::Exp && k <= OpKind::Ceil)
    return Rule::WideFloats;
  switch (k) {
  case OpKind::CmpI: return Rule::CmpInt;
  case OpKind::CmpF: return Rule::CmpFloat;
  case OpKind::Trunc: return Rule::Narrow;
  case OpKind::ZExt: case OpKind::SExt: return Rule::Widen;
  case OpKind::FpTrunc: return Rule::FpNarrow;
  case OpKind::FpExt: return Rule::FpWiden;
  case OpKind::FpToSI: case OpKind::FpToUI: return Rule::FpInt;
  case OpKind::SIToFp: case OpKind::UIToFp: return Rule::IntFp;
  case OpKind::Bitcast: return Rule::Bits;
  case OpKind::IntToPtr: return Rule::ToPtr;
  case OpKind::PtrToInt: return Rule::FromPtr;
  case OpKind::AddPtr: return Rule::Offset;
  case OpKind::Select: return Rule::Choose;
  default: return Rule::None;
  }
}

} // namespace

bool fitsElements(const Op &op) {
  const Type &a = op.operands[0]->type, &r = op.result()->type;
  bool alike = true;
  for (const Value *v : op.operands)
    alike &= v->type == a;
  bool isBool = !r.isPtr && r.elem == Elem::I1;
  auto predIn = [&](CmpPred lo, CmpPred hi) { return op.pred() >= lo && op.pred() <= hi; };
  switch (ruleOf(op.kind)) {
  case Rule::Ints: return alike && a.isIntLike() && r == a;
  case Rule::Floats: return alike && a.isFloatLike() && r == a;
  case Rule::WideFloats: return alike && !a.isPtr && (a.elem == Elem::F32 || a.elem == Elem::F64) && r == a;
  case Rule::CmpInt: return alike && (a.isIntLike() || a.isPtr) && isBool && predIn(CmpPred::Eq, CmpPred::Uge);
  case Rule::CmpFloat: return alike && a.isFloatLike() && isBool && predIn(CmpPred::Oeq, CmpPred::Uno);
  case Rule::Narrow: return a.isIntLike() && r.isIntLike() && widthOf(r) < widthOf(a);
  case Rule::Widen: return a.isIntLike() && r.isIntLike() && widthOf(r) > widthOf(a);
  case Rule::FpNarrow: return a.isFloatLike() && r.isFloatLike() && a.elem != r.elem && widthOf(r) <= widthOf(a);
  case Rule::FpWiden: return a.isFloatLike() && r.isFloatLike() && widthOf(r) > widthOf(a);
  case Rule::FpInt: return a.isFloatLike() && r.isIntLike();
  case Rule::IntFp: return a.isIntLike() && r.isFloatLike();
  case Rule::Bits: return a.isPtr == r.isPtr && widthOf(a) == widthOf(r);
  case Rule::ToPtr: return a.isIntLike() && a.elem == Elem::I64 && r.isPtr;
  case Rule::FromPtr: return a.isPtr && r.isIntLike() && r.elem == Elem::I64;
  case Rule::Offset: {
    const Type &o = op.operands[1]->type;
    return a.isPtr && r == a && o.isIntLike() && (o.elem == Elem::I32 || o.elem == Elem::I64);
  }
  case Rule::Choose:
    return a.isIntLike() && a.elem == Elem::I1 && op.operands[1]->type == r && op.operands[2]->type == r;
  case Rule::None: return false;
  }
  return false;
}

} // namespace tegula::ir
