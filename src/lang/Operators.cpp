// The operators: compile-time objects go to CompileTime, everything else follows LANGUAGE 2.3 and 2.4.
#include "lang/CompileTime.h"
#include "lang/Emit.h"
#include "lang/Promotion.h"
#include <limits>

namespace tegula::lang {

using ir::CmpPred;
using ir::OpKind;

void keepRounded(ir::Value *v, OpKind kind) {
  if (v->def && v->def->kind == kind)
    v->def->set(ir::attr::rounded, true);
}

const char *spelling(BinOp op) {
  static constexpr const char *names[] = {"+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "^", "@"};
  return names[static_cast<unsigned>(op)];
}

const char *spelling(Cmp op) {
  static constexpr const char *names[] = {"==", "!=", "<", "<=", ">", ">="};
  return names[static_cast<unsigned>(op)];
}

namespace {

/// One use of a binary operator, for messages.
struct Use {
  Context &c;
  const char *op;
  const Value &a, &b;
  Loc loc, aLoc, bLoc;

  Value invalid() const {
    auto d = c.diag().report(diag::invalidOperands, loc, op, typeText(a), typeText(b));
    label(d);
    auto isFloat = [](const Value &v) { return v.isFloat() || (v.isTensor() && v.asTensor().dtype.isFloat()); };
    auto isAddress = [](const Value &v) { return v.isTensor() && v.asTensor().dtype.isPtr; };
    if ((isAddress(a) && isFloat(b)) || (isFloat(a) && isAddress(b)))
      d.note(loc, "offsets of pointers are integers: convert with .to(tl.int32)");
    return Value::error();
  }
  void label(DiagBuilder &d) const { d.label(aLoc, thisIs(a)).label(bLoc, thisIs(b)); }
  static std::string typeText(const Value &v) { return v.isTensor() ? typeName(v.asTensor()) : kindName(v); }
};

bool isOperand(const Value &v) { return v.isTensor() || v.isNumber(); }
bool isPointer(const Value &v) { return v.isTensor() && v.asTensor().dtype.isPtr; }

std::optional<Dtype> promoted(const Use &u, bool isDivOrMod) {
  auto own = [&](const Value &v) -> std::optional<Dtype> {
    if (v.isTensor())
      return v.asTensor().dtype;
    std::optional<Dtype> d = literalDtype(v);
    if (!d)
      fail(u.c, diag::nonrepresentable, u.loc, repr(v));
    return d;
  };
  std::optional<Dtype> a = own(u.a), b = own(u.b);
  if (!a || !b)
    return std::nullopt;
  bool aNumber = u.a.isNumber(), bNumber = u.b.isNumber();
  Level level = u.c.target().level;
  Promotion p = aNumber == bNumber ? promoteDtypes(*a, *b, isDivOrMod, level)
                : aNumber          ? promoteWithNumber(*b, *a, isDivOrMod, level)
                                   : promoteWithNumber(*a, *b, isDivOrMod, level);
  if (p.failure == NoPromotion::Signedness) {
    auto d = u.c.diag().report(diag::signedness, u.loc, spelling(*a), spelling(*b));
    u.label(d);
    return std::nullopt;
  }
  if (p.failure == NoPromotion::NoCommonType) {
    u.invalid();
    return std::nullopt;
  }
  return p.dtype;
}

/// An operand in the common dtype; numbers are checked against its range (rule 1 of LANGUAGE 2.3).
/// A number takes the shape of the other operand at once.
std::optional<Tensor> operandAs(const Use &u, const Value &v, Dtype d, Loc at, const Value &other) {
  if (v.isTensor())
    return convert(u.c, v.asTensor(), d);
  if (d.isUnsigned() && compareNumbers(v, Value::integer(0)) == -1) {
    auto report = u.c.diag().report(diag::negativeScalar, u.loc, u.op, Use::typeText(u.a), Use::typeText(u.b));
    report.label(at, "this is " + repr(v));
    return std::nullopt;
  }
  Value k = constant(u.c, v, d, at ? at : u.loc, other.isTensor() ? other.asTensor().shape() : ir::Shape());
  if (k.isError())
    return std::nullopt;
  return k.asTensor();
}

std::optional<Operands> meet(const Use &u, bool isDivOrMod) {
  if (!isOperand(u.a) || !isOperand(u.b) || isPointer(u.a) || isPointer(u.b)) {
    u.invalid();
    return std::nullopt;
  }
  std::optional<Dtype> d = promoted(u, isDivOrMod);
  if (!d)
    return std::nullopt;
  std::optional<Tensor> a = operandAs(u, u.a, *d, u.aLoc, u.b), b = operandAs(u, u.b, *d, u.bLoc, u.a);
  if (!a || !b)
    return std::nullopt;
  std::optional<ir::Shape> s = commonShape(u.c, a->shape(), b->shape(), u.loc, u.aLoc, u.bLoc);
  if (!s)
    return std::nullopt;
  return Operands{spread(u.c, *a, *s), spread(u.c, *b, *s)};
}

// Pointers.

/// An offset in elements as signed i32 or i64: narrow signed ones are sign-extended, unsigned ones zero-extended to
/// i64.
Tensor offset(Context &c, const Tensor &x) {
  if (x.dtype.isUnsigned())
    return convert(c, x, dtype(Scalar::Int64));
  return x.dtype.bits() < 32 ? convert(c, x, dtype(Scalar::Int32)) : x;
}

Value pointerArithmetic(const Use &u, BinOp op) {
  Context &c = u.c;
  if (isPointer(u.a) && isPointer(u.b) && op == BinOp::Add) {
    auto d = c.diag().report(diag::addPointers, u.loc);
    u.label(d);
    return Value::error();
  }
  const Value &pointer = isPointer(u.a) ? u.a : u.b, &other = isPointer(u.a) ? u.b : u.a;
  bool allowed = op == BinOp::Add || (op == BinOp::Sub && isPointer(u.a));
  if (!allowed || isPointer(other) || !isOperand(other) || other.isFloat())
    return u.invalid();
  Value n = toTensor(c, other, isPointer(u.a) ? u.bLoc : u.aLoc);
  if (n.isError())
    return n;
  if (!n.asTensor().dtype.isInt())
    return u.invalid();
  Tensor by = offset(c, n.asTensor());
  if (op == BinOp::Sub)
    by.value = c.builder().binary(OpKind::Sub, c.builder().constInt(by.value->type, 0), by.value);
  const Tensor &p = pointer.asTensor();
  std::optional<ir::Shape> s =
      commonShape(c, p.shape(), by.shape(), u.loc, isPointer(u.a) ? u.aLoc : u.bLoc, isPointer(u.a) ? u.bLoc : u.aLoc);
  if (!s)
    return Value::error();
  return tensor(p.dtype, c.builder().addPtr(spread(c, p, *s).value, spread(c, by, *s).value));
}

// Arithmetic.

struct Kinds {
  OpKind onSigned, onUnsigned, onFloat;
};
/// Indexed by BinOp, up to Xor. Float entries of the integer-only operators are never used.
constexpr Kinds kinds[] = {
    {OpKind::Add, OpKind::Add, OpKind::FAdd},   {OpKind::Sub, OpKind::Sub, OpKind::FSub},
    {OpKind::Mul, OpKind::Mul, OpKind::FMul},   {OpKind::FDiv, OpKind::FDiv, OpKind::FDiv},
    {OpKind::SDiv, OpKind::UDiv, OpKind::FDiv}, {OpKind::SRem, OpKind::URem, OpKind::FRem},
    {OpKind::FMul, OpKind::FMul, OpKind::FMul}, {OpKind::Shl, OpKind::Shl, OpKind::Shl},
    {OpKind::AShr, OpKind::LShr, OpKind::LShr}, {OpKind::And, OpKind::And, OpKind::And},
    {OpKind::Or, OpKind::Or, OpKind::Or},       {OpKind::Xor, OpKind::Xor, OpKind::Xor},
};

OpKind opKind(BinOp op, Dtype d) {
  const Kinds &k = kinds[static_cast<unsigned>(op)];
  return d.isFloat() ? k.onFloat : d.isSigned() ? k.onSigned : k.onUnsigned;
}

/// Asserts that the same operation in 64 bits stays within the type. The product of two uint32 may wrap there: then it
/// is negative.
void assertNoOverflow(Context &c, BinOp op, const Operands &x) {
  ir::Builder &b = c.builder();
  Dtype d = x.a.dtype, wide = dtype(Scalar::Int64);
  ir::Value *r = b.binary(opKind(op, wide), convert(c, x.a, wide).value, convert(c, x.b, wide).value);
  int64_t least = d.isSigned() ? -(int64_t{1} << (d.bits() - 1)) : 0;
  int64_t most = (int64_t{1} << (d.isSigned() ? d.bits() - 1 : d.bits())) - 1;
  ir::Value *ok = b.binary(OpKind::And, b.cmp(CmpPred::Sge, r, b.constInt(r->type, least)),
                           b.cmp(CmpPred::Sle, r, b.constInt(r->type, most)));
  const char *name = op == BinOp::Add ? "add" : op == BinOp::Sub ? "sub" : "mul";
  std::string message = "int" + std::to_string(d.bits()) + " overflow detected for operation " + name;
  ir::Value *operands[] = {ok};
  b.create(OpKind::Assert, operands, {}, {{ir::attr::message, message}, {ir::attr::inFunction, c.currentFunction()}});
}

/// Whether the builder is inside the combination of a reduction or scan. Those run once per element pair and stay free
/// of checks.
bool insideCombination(const ir::Builder &b) {
  for (const ir::Region *r = b.block()->parent; r && r->op; r = r->op->parent ? r->op->parent->parent : nullptr)
    if (r->op->kind == OpKind::Reduce || r->op->kind == OpKind::Scan)
      return true;
  return false;
}

/// Debug builds check integers under 64 bits.
bool checksOverflow(Context &c, Dtype d) {
  const TargetInfo &t = c.target();
  bool checkable = d.isInt() && d.bits() < 64 && !c.isExact();
  return t.debug && t.sanitizeOverflow && checkable && !insideCombination(c.builder());
}

Value addSubMul(const Use &u, BinOp op, bool checkOverflow) {
  if (isPointer(u.a) || isPointer(u.b))
    return pointerArithmetic(u, op);
  std::optional<Operands> x = meet(u, false);
  if (!x)
    return Value::error();
  Dtype d = x->a.dtype;
  if (checkOverflow && checksOverflow(u.c, d))
    assertNoOverflow(u.c, op, *x);
  ir::Value *r = u.c.builder().binary(opKind(op, d), x->a.value, x->b.value);
  if (u.c.isExact() && d.isFloat())
    keepRounded(r, opKind(op, d));
  return tensor(d, r);
}

Value divide(const Use &u) {
  std::optional<Operands> x = meet(u, true);
  if (!x)
    return Value::error();
  // Integers of any width divide as float32.
  Dtype d = x->a.dtype.isInt() ? dtype(Scalar::Fp32) : x->a.dtype;
  Tensor a = convert(u.c, x->a, d), b = convert(u.c, x->b, d);
  std::vector<ir::Attr> attrs;
  if (d.scalar == Scalar::Fp32)
    attrs.push_back({ir::attr::approx, true});
  return tensor(d, u.c.builder().create1(OpKind::FDiv, {a.value, b.value}, a.value->type, std::move(attrs)));
}

Value floorDivOrMod(const Use &u, BinOp op) {
  std::optional<Operands> x = meet(u, true);
  if (!x)
    return Value::error();
  Dtype d = x->a.dtype;
  if (op == BinOp::FloorDiv && d.isFloat()) {
    auto report = u.c.diag().report(diag::floatFloorDiv, u.loc, spelling(d), Use::typeText(u.a), Use::typeText(u.b));
    u.label(report);
    return Value::error();
  }
  return tensor(d, u.c.builder().binary(opKind(op, d), x->a.value, x->b.value));
}

/// A compile-time shift by the width or more.
void warnShift(const Use &u, Dtype d) {
  if (!u.b.isNumber() || u.b.isFloat())
    return;
  Int n = u.b.asInt();
  if (n >= static_cast<Int>(d.bits()))
    u.c.diag().report(diag::shiftTooFar, u.bLoc ? u.bLoc : u.loc, intToString(n), d.bits(), spelling(d));
}

Value bitwise(const Use &u, BinOp op) {
  auto isFloating = [](const Value &v) { return v.isFloat() || (v.isTensor() && v.asTensor().dtype.isFloat()); };
  if (isFloating(u.a) || isFloating(u.b))
    return u.invalid();
  std::optional<Operands> x = meet(u, false);
  if (!x)
    return Value::error();
  Dtype d = x->a.dtype;
  bool shifts = op == BinOp::LShift || op == BinOp::RShift;
  if (shifts)
    warnShift(u, d);
  // Arithmetic if the left operand is signed, whatever the common type is.
  Dtype leftType = u.a.isTensor() ? u.a.asTensor().dtype : d;
  Dtype signOf = op == BinOp::RShift && leftType.isSigned() ? dtype(Scalar::Int64)
                 : op == BinOp::RShift                      ? dtype(Scalar::UInt64)
                                                            : d;
  return tensor(d, u.c.builder().binary(opKind(op, signOf), x->a.value, x->b.value));
}

struct Preds {
  CmpPred onSigned, onUnsigned, onFloat;
};
constexpr Preds preds[] = {
    {CmpPred::Eq, CmpPred::Eq, CmpPred::Oeq},   {CmpPred::Ne, CmpPred::Ne, CmpPred::Une},
    {CmpPred::Slt, CmpPred::Ult, CmpPred::Olt}, {CmpPred::Sle, CmpPred::Ule, CmpPred::Ole},
    {CmpPred::Sgt, CmpPred::Ugt, CmpPred::Ogt}, {CmpPred::Sge, CmpPred::Uge, CmpPred::Oge},
};

/// An operand of a comparison. Below level 3.9 a number becomes a tensor first, so that it may widen the comparison as
/// any tensor does.
Value comparand(Context &c, const Value &v, Loc at) {
  return v.isNumber() && c.target().level < Level::v39 ? toTensor(c, v, at) : v;
}

/// `not`, `and`, `or` take int1 only.
std::optional<Tensor> boolOperand(Context &c, const char *op, const Value &v, Loc loc) {
  Value t = toTensor(c, v, loc);
  if (t.isError())
    return std::nullopt;
  if (!t.asTensor().dtype.isBool()) {
    fail(c, diag::needsBool, loc, t.asTensor().dtype.bits(), op, kindName(t));
    return std::nullopt;
  }
  return t.asTensor();
}

} // namespace

std::optional<Operands> meet(Context &c, const char *op, const Value &a, const Value &b, bool isDivOrMod, Loc loc,
                             Loc aLoc, Loc bLoc) {
  return meet(Use{c, op, a, b, loc, aLoc, bLoc}, isDivOrMod);
}

Value arithmetic(Context &c, BinOp op, const Value &a, const Value &b, Loc loc, Loc aLoc, Loc bLoc,
                 bool checkOverflow) {
  if (a.isError() || b.isError())
    return Value::error();
  if (!a.isTensor() && !b.isTensor())
    return foldBinary(c, op, a, b, loc, aLoc, bLoc);
  LocScope scope(c, loc);
  return addSubMul({c, spelling(op), a, b, loc, aLoc, bLoc}, op, checkOverflow);
}

Value binary(Context &c, BinOp op, const Value &a, const Value &b, Loc loc, Loc aLoc, Loc bLoc) {
  if (a.isError() || b.isError())
    return Value::error();
  if (!a.isTensor() && !b.isTensor())
    return foldBinary(c, op, a, b, loc, aLoc, bLoc);
  LocScope scope(c, loc);
  Use u{c, spelling(op), a, b, loc, aLoc, bLoc};
  switch (op) {
  case BinOp::Add:
  case BinOp::Sub:
  case BinOp::Mul:
    return addSubMul(u, op, true);
  case BinOp::Div:
    return divide(u);
  case BinOp::FloorDiv:
  case BinOp::Mod:
    return floorDivOrMod(u, op);
  case BinOp::Pow: {
    auto d = c.diag().report(diag::constexprOnly, loc, "**", kindName(a.isTensor() ? a : b));
    d.note(loc, "use tl.exp2(y * tl.log2(x)), or multiply");
    return Value::error();
  }
  case BinOp::MatMul: {
    auto d = c.diag().report(diag::invalidOperands, loc, "@", Use::typeText(a), Use::typeText(b));
    d.note(loc, "use tl.dot(a, b)");
    return Value::error();
  }
  default:
    return bitwise(u, op);
  }
}

Value compare(Context &c, Cmp op, const Value &a, const Value &b, Loc loc, Loc aLoc, Loc bLoc) {
  if (a.isError() || b.isError())
    return Value::error();
  if (!a.isTensor() && !b.isTensor())
    return foldCompare(c, op, a, b, loc, aLoc, bLoc);
  LocScope scope(c, loc);
  const Value left = comparand(c, a, aLoc), right = comparand(c, b, bLoc);
  if (left.isError() || right.isError())
    return Value::error();
  std::optional<Operands> x = meet(Use{c, spelling(op), left, right, loc, aLoc, bLoc}, false);
  if (!x)
    return Value::error();
  const Preds &p = preds[static_cast<unsigned>(op)];
  Dtype d = x->a.dtype;
  CmpPred pred = d.isFloat() ? p.onFloat : d.isSigned() ? p.onSigned : p.onUnsigned;
  return tensor(dtype(Scalar::Int1), c.builder().cmp(pred, x->a.value, x->b.value));
}

Value negate(Context &c, const Value &a, Loc loc) {
  if (a.isError())
    return a;
  if (!a.isTensor())
    return foldNegate(c, a, loc);
  LocScope scope(c, loc);
  const Tensor &t = a.asTensor();
  ir::Builder &b = c.builder();
  if (t.dtype.isPtr)
    return fail(c, diag::wrongUnary, loc, "minus", kindName(a));
  if (t.dtype.isFloat())
    return tensor(t.dtype, b.unary(OpKind::FNeg, t.value));
  const Tensor zero{t.dtype, b.constInt(t.value->type, 0)};
  if (checksOverflow(c, t.dtype))
    assertNoOverflow(c, BinOp::Sub, {zero, t});
  return tensor(t.dtype, b.binary(OpKind::Sub, zero.value, t.value));
}

Value invert(Context &c, const Value &a, Loc loc) {
  if (a.isError())
    return a;
  if (!a.isTensor())
    return foldInvert(c, a, loc);
  LocScope scope(c, loc);
  const Tensor &t = a.asTensor();
  if (!t.dtype.isInt())
    return fail(c, diag::wrongUnary, loc, "invert", kindName(a));
  ir::Builder &b = c.builder();
  return tensor(t.dtype, b.binary(OpKind::Xor, t.value, b.constInt(t.value->type, -1)));
}

Value plus(Context &c, const Value &a, Loc loc) {
  if (a.isError())
    return a;
  if (a.isTensor())
    return fail(c, diag::constexprOnly, loc, "+x", kindName(a));
  return foldPlus(c, a, loc);
}

Value logicalNot(Context &c, const Value &a, Loc loc) {
  if (a.isError())
    return a;
  if (!a.isTensor())
    return Value::boolean(!constexprTruth(a));
  LocScope scope(c, loc);
  if (!boolOperand(c, "not", a, loc))
    return Value::error();
  return invert(c, a, loc);
}

Value logicalAndOr(Context &c, bool isAnd, const Value &a, const Value &b, Loc loc) {
  if (a.isError() || b.isError())
    return Value::error();
  LocScope scope(c, loc);
  const char *op = isAnd ? "and" : "or";
  std::optional<Tensor> x = boolOperand(c, op, a, loc);
  std::optional<Tensor> y = x ? boolOperand(c, op, b, loc) : std::nullopt;
  if (!y)
    return Value::error();
  std::optional<ir::Shape> s = commonShape(c, x->shape(), y->shape(), loc);
  if (!s)
    return Value::error();
  return tensor(x->dtype,
                c.builder().binary(isAnd ? OpKind::And : OpKind::Or, spread(c, *x, *s).value, spread(c, *y, *s).value));
}

std::optional<std::vector<Tensor>> meetAll(Context &c, const char *op, std::span<const Value> values, bool isDivOrMod,
                                           Loc loc, std::span<const Loc> locs) {
  auto use = [&](size_t i) { return Use{c, op, values[0], values[i], loc, locs[0], locs[i]}; };
  // Tensors among themselves, numbers among themselves, then the two: a number is made a constant of the final type at
  // once.
  std::optional<Dtype> tensors, numbers;
  for (size_t i = 0; i < values.size(); ++i) {
    const Value &v = values[i];
    std::optional<Dtype> own = v.isTensor() ? v.asTensor().dtype : v.isNumber() ? literalDtype(v) : std::nullopt;
    std::optional<Dtype> &side = v.isTensor() ? tensors : numbers;
    Promotion p = !own || isPointer(v) ? Promotion{{}, NoPromotion::NoCommonType}
                  : side               ? promoteDtypes(*side, *own, false)
                                       : Promotion{*own};
    if (p.failure != NoPromotion::None) {
      use(i).invalid();
      return std::nullopt;
    }
    side = p.dtype;
  }
  Level level = c.target().level;
  Promotion p = !numbers   ? promoteDtypes(*tensors, *tensors, isDivOrMod, level)
                : !tensors ? promoteDtypes(*numbers, *numbers, isDivOrMod, level)
                           : promoteWithNumber(*tensors, *numbers, isDivOrMod, level);
  if (p.failure != NoPromotion::None) {
    use(values.size() - 1).invalid();
    return std::nullopt;
  }
  std::vector<Tensor> out;
  ir::Shape shape;
  for (size_t i = 0; i < values.size(); ++i) {
    std::optional<Tensor> t = operandAs(use(i), values[i], p.dtype, locs[i], Value::none());
    std::optional<ir::Shape> common = t ? commonShape(c, shape, t->shape(), loc, locs[0], locs[i]) : std::nullopt;
    if (!common)
      return std::nullopt;
    shape = *common;
    out.push_back(*t);
  }
  for (Tensor &t : out)
    t = spread(c, t, shape);
  return out;
}

std::optional<Dtype> promote(Context &c, const Value &a, const Value &b, bool isDivOrMod, Loc loc) {
  Use u{c, isDivOrMod ? "/" : "+", a, b, loc, loc, loc};
  if (a.isError() || b.isError())
    return std::nullopt;
  if (!isOperand(a) || !isOperand(b) || isPointer(a) || isPointer(b)) {
    u.invalid();
    return std::nullopt;
  }
  return promoted(u, isDivOrMod);
}

Value truth(Context &c, const Value &v, Loc loc) {
  LocScope scope(c, loc);
  Value t = toTensor(c, v, loc);
  if (t.isError())
    return t;
  Tensor x = t.asTensor();
  if (!x.isScalar()) {
    if (x.shape().numel() != 1)
      return fail(c, diag::ambiguousTruth, loc, kindName(t));
    c.diag().report(diag::blockCondition, loc, typeName(x));
    x.value = c.builder().create1(OpKind::Unsplat, {x.value}, x.value->type.scalarType());
  }
  return tensor(convert(c, x, dtype(Scalar::Int1)));
}

} // namespace tegula::lang
