// The rules of Canonicalize.h, one function each.
#include "passes/Canonicalize.h"
#include "ir/Scalar.h"
#include "passes/Effects.h"
#include <bit>

namespace tegula {

using namespace ir;

Value *NodeMaker::constInt(const Type &t, int64_t v) {
  return make({OpKind::Const, {}, t, {{attr::value, toConstInt(t.elem, static_cast<uint64_t>(v))}}});
}

namespace {

Op *defOf(Value *v, OpKind k) { return v->def && v->def->kind == k ? v->def : nullptr; }

/// The scalar that all elements of `v` are equal to, if it is easy to see: splats and constants. Null otherwise.
Value *uniformScalar(NodeMaker &mk, Value *v) {
  if (v->type.isScalar())
    return v;
  if (Op *s = defOf(v, OpKind::Splat))
    return s->operands[0];
  if (Op *c = defOf(v, OpKind::Const))
    return mk.make({OpKind::Const, {}, v->type.scalarType(), c->attrs});
  return nullptr;
}
bool isUniform(const Value *v) {
  return v->type.isTensor() && v->def && (v->def->kind == OpKind::Splat || v->def->kind == OpKind::Const);
}

Value *splat(NodeMaker &mk, Value *scalar, const Type &t) { return mk.make({OpKind::Splat, {scalar}, t, {}}); }

/// op(splat a, splat b) -> splat op(a, b)
Value *ofSplats(NodeMaker &mk, const Node &n) {
  if (n.type.isScalar() || n.operands.empty())
    return nullptr;
  for (const Value *v : n.operands)
    if (!isUniform(v))
      return nullptr;
  std::vector<Value *> scalars;
  for (Value *v : n.operands)
    scalars.push_back(uniformScalar(mk, v));
  return splat(mk, mk.make({n.kind, std::move(scalars), n.type.scalarType(), n.attrs}), n.type);
}

/// op(broadcast a, broadcast b, splat c) -> broadcast op(a, b, splat c) if a and b have one shape
Value *ofBroadcasts(NodeMaker &mk, const Node &n) {
  const Value *source = nullptr;
  for (const Value *v : n.operands) {
    if (isUniform(v))
      continue;
    if (!v->def || v->def->kind != OpKind::Broadcast)
      return nullptr;
    const Value *s = v->def->operands[0];
    if (source && source->type.shape != s->type.shape)
      return nullptr;
    source = s;
  }
  if (!source)
    return nullptr;
  const Shape shape = source->type.shape;
  std::vector<Value *> small;
  for (Value *v : n.operands) {
    if (Op *b = defOf(v, OpKind::Broadcast))
      small.push_back(b->operands[0]);
    else if (Op *c = defOf(v, OpKind::Const))
      small.push_back(mk.make({OpKind::Const, {}, v->type.withShape(shape), c->attrs}));
    else
      small.push_back(splat(mk, v->def->operands[0], v->type.withShape(shape)));
  }
  return mk.make(
      {OpKind::Broadcast, {mk.make({n.kind, std::move(small), n.type.withShape(shape), n.attrs})}, n.type, {}});
}

bool isConstant(const Value *v) { return v->def && v->def->kind == OpKind::Const; }

CmpPred swapped(CmpPred p) {
  static constexpr CmpPred table[] = {CmpPred::Eq, CmpPred::Ne, CmpPred::Sgt, CmpPred::Sge, CmpPred::Slt,
                                      CmpPred::Sle, CmpPred::Ugt, CmpPred::Uge, CmpPred::Ult, CmpPred::Ule};
  return table[static_cast<size_t>(p)];
}

/// Constants to the right.
void orderOperands(Node &n) {
  if (n.operands.size() != 2 || !isConstant(n.operands[0]) || isConstant(n.operands[1]) ||
      !n.operands[0]->type.isIntLike())
    return;
  if (n.kind == OpKind::CmpI) {
    for (Attr &a : n.attrs)
      if (a.key == attr::pred)
        a.value = static_cast<int64_t>(swapped(static_cast<CmpPred>(std::get<int64_t>(a.value))));
  } else if (!(info(n.kind).traits & traits::Commutative)) {
    return;
  }
  std::swap(n.operands[0], n.operands[1]);
}

/// (x op c1) op c2 -> x op (c1 op c2) for operations where that is exact; x - c -> x + -c
Value *ofConstants(NodeMaker &mk, const Node &n) {
  if (n.operands.size() != 2 || !n.type.isIntLike())
    return nullptr;
  std::optional<int64_t> c = constantInt(n.operands[1]);
  if (!c)
    return nullptr;
  if (n.kind == OpKind::Sub && n.type.elem != Elem::I1)
    return mk.make({OpKind::Add,
                    {n.operands[0], mk.constInt(n.type, static_cast<int64_t>(-static_cast<uint64_t>(*c)))},
                    n.type,
                    n.attrs});
  Op *inner = defOf(n.operands[0], n.kind);
  std::optional<int64_t> c1 = inner && inner->operands.size() == 2 ? constantInt(inner->operands[1]) : std::nullopt;
  if (!c1)
    return nullptr;
  switch (n.kind) {
  case OpKind::Add: case OpKind::Mul: case OpKind::And: case OpKind::Or: case OpKind::Xor:
  case OpKind::SMin: case OpKind::SMax: case OpKind::UMin: case OpKind::UMax:
    return mk.make({n.kind,
                    {inner->operands[0], mk.make({n.kind, {inner->operands[1], n.operands[1]}, n.type, {}})},
                    n.type,
                    n.attrs});
  default: return nullptr;
  }
}

/// addptr(addptr(p, 1), 2) -> addptr(p, 3), in 64 bits, where nothing wraps
Value *ofPointerConstants(NodeMaker &mk, const Node &n) {
  if (n.kind != OpKind::AddPtr)
    return nullptr;
  Op *inner = defOf(n.operands[0], OpKind::AddPtr);
  std::optional<int64_t> c = constantInt(n.operands[1]), c1 = inner ? constantInt(inner->operands[1]) : std::nullopt;
  if (!c || !c1)
    return nullptr;
  int64_t sum = static_cast<int64_t>(static_cast<uint64_t>(*c) + static_cast<uint64_t>(*c1));
  return mk.make(
      {OpKind::AddPtr, {inner->operands[0], mk.constInt(n.operands[1]->type.withElem(Elem::I64), sum)}, n.type, {}});
}

/// The narrower integers that `v` extends by `extension`, at the shape of `v`, also where a broadcast or a splat is in
/// between; null if there are none.
Value *narrowOf(NodeMaker &mk, Value *v, OpKind extension) {
  Op *wide = defOf(v, OpKind::Broadcast);
  if (!wide)
    wide = defOf(v, OpKind::Splat);
  Op *extends = defOf(wide ? wide->operands[0] : v, extension);
  if (!extends || extends->operands[0]->type.elem == Elem::I1)
    return nullptr;
  Value *narrow = extends->operands[0];
  return wide ? mk.make({wide->kind, {narrow}, narrow->type.withShape(v->type.shape), {}}) : narrow;
}

/// Counts programs or positions, so it is not the least number of its type, whose quotient by -1 needs more bits.
bool isCount(const Value *v) {
  while (v->def && (v->def->kind == OpKind::Splat || v->def->kind == OpKind::Broadcast ||
                    v->def->kind == OpKind::ExpandDims || v->def->kind == OpKind::Reshape))
    v = v->def->operands[0];
  return v->def &&
         (v->def->kind == OpKind::ProgramId || v->def->kind == OpKind::NumPrograms || v->def->kind == OpKind::Range);
}

/// sext a / sext b -> sext (a / b), and of remainders: `program_id(0).to(int64) // n`. A division in 64 bits takes four
/// times as long on a GPU.
Value *ofExtendedQuotients(NodeMaker &mk, const Node &n) {
  if ((n.kind != OpKind::SDiv && n.kind != OpKind::SRem) || ir::bitWidth(n.type.elem) != 64)
    return nullptr;
  Value *a = narrowOf(mk, n.operands[0], OpKind::SExt);
  if (!a)
    return nullptr;
  std::optional<int64_t> c = constantInt(n.operands[1]);
  bool fits = c && *c > 0 && *c < int64_t{1} << (ir::bitWidth(a->type.elem) - 1);
  Value *b = fits ? mk.constInt(a->type, *c) : narrowOf(mk, n.operands[1], OpKind::SExt);
  if (!b || b->type != a->type || !(fits || isCount(a)))
    return nullptr;
  return mk.make({OpKind::SExt, {mk.make({n.kind, {a, b}, a->type, n.attrs})}, n.type, {}});
}

/// sext a & c -> zext a & c, where c has no bit that the extension makes: entries of a table of narrow integers, of
/// which fields are taken. The sign takes an instruction on a GPU.
Value *ofMaskedExtension(NodeMaker &mk, const Node &n) {
  const Op *extends = n.kind == OpKind::And ? defOf(n.operands[0], OpKind::SExt) : nullptr;
  const std::optional<int64_t> c = extends ? constantInt(n.operands[1]) : std::nullopt;
  if (!c || *c < 0 ||
      static_cast<unsigned>(std::bit_width(static_cast<uint64_t>(*c))) > ir::bitWidth(extends->operands[0]->type.elem))
    return nullptr;
  return mk.make(
      {n.kind, {mk.make({OpKind::ZExt, {extends->operands[0]}, n.type, {}}), n.operands[1]}, n.type, n.attrs});
}

/// Of comparisons in 64 bits, which take two registers and two instructions an element on a GPU and half of a CPU's
/// lanes:
///   ext a == ext b  ->  a == b          and ordered, if the comparison and the extension are both signed or both not
///   ext a == b      ->  ((a ^ trunc b) | rest) == 0, where b is one number or a broadcast, and rest is 1 where trunc changes it
/// The second is how a position is compared with a label, which libraries keep in 64 bits.
Value *ofExtended(NodeMaker &mk, const Node &n) {
  if (n.kind != OpKind::CmpI || !n.type.isTensor() || n.operands[0]->type.isPtr ||
      ir::bitWidth(n.operands[0]->type.elem) != 64)
    return nullptr;
  CmpPred pred = CmpPred::Eq;
  for (const Attr &a : n.attrs)
    if (a.key == attr::pred)
      pred = static_cast<CmpPred>(std::get<int64_t>(a.value));
  if (pred != CmpPred::Eq && pred != CmpPred::Ne) {
    const bool isSigned = pred == CmpPred::Slt || pred == CmpPred::Sle || pred == CmpPred::Sgt || pred == CmpPred::Sge;
    const OpKind extension = isSigned ? OpKind::SExt : OpKind::ZExt;
    Value *a = narrowOf(mk, n.operands[0], extension);
    if (!a)
      return nullptr;
    std::optional<int64_t> c = constantInt(n.operands[1]);
    const bool fits = c && *c >= 0 && *c < int64_t{1} << (ir::bitWidth(a->type.elem) - 1);
    Value *b = fits ? mk.constInt(a->type, *c) : narrowOf(mk, n.operands[1], extension);
    return b && b->type == a->type ? mk.make({n.kind, {a, b}, n.type, n.attrs}) : nullptr;
  }
  for (OpKind extension : {OpKind::SExt, OpKind::ZExt})
    for (size_t i : {0, 1}) {
      Value *a = narrowOf(mk, n.operands[i], extension), *other = n.operands[1 - i];
      if (!a)
        continue;
      if (Value *b = narrowOf(mk, other, extension); b && b->type == a->type)
        return mk.make({n.kind, {a, b}, n.type, n.attrs});
      bool isBroadcast = defOf(other, OpKind::Broadcast);
      if (!isUniform(other) && !isBroadcast)
        continue;
      Value *few = isBroadcast ? other->def->operands[0] : uniformScalar(mk, other);
      auto atShape = [&](Value *v) {
        return mk.make({isBroadcast ? OpKind::Broadcast : OpKind::Splat, {v}, v->type.withShape(n.type.shape), {}});
      };
      Value *cut = mk.make({OpKind::Trunc, {few}, few->type.withElem(a->type.elem), {}});
      Value *isCut = mk.make({n.kind,
                              {mk.make({extension, {cut}, few->type, {}}), few},
                              few->type.withElem(Elem::I1),
                              {{attr::pred, static_cast<int64_t>(CmpPred::Ne)}}});
      Value *rest = mk.make({OpKind::ZExt, {isCut}, cut->type, {}});
      // Not a second condition beside the comparison: with one, assemblers run out of predicates and wait for each load
      // before the next one.
      Value *difference =
          mk.make({OpKind::Or, {mk.make({OpKind::Xor, {a, atShape(cut)}, a->type, {}}), atShape(rest)}, a->type, {}});
      return mk.make({n.kind, {difference, mk.constInt(a->type, 0)}, n.type, n.attrs});
    }
  return nullptr;
}

/// No element is below zero (NaN and -0 are not). Looks at a bounded number of operations.
bool isNonNegative(const Value *v, unsigned depth = 3) {
  const Op *op = v->def;
  if (!op || !depth)
    return false;
  switch (op->kind) {
  case OpKind::FAbs: return true;
  case OpKind::Const: {
    std::optional<double> c = constantFloat(v);
    return c && *c >= 0;
  }
  case OpKind::FAdd:
  case OpKind::FMul: return isNonNegative(op->operands[0], depth - 1) && isNonNegative(op->operands[1], depth - 1);
  case OpKind::Splat: case OpKind::Broadcast: case OpKind::FpExt: return isNonNegative(op->operands[0], depth - 1);
  default: return false;
  }
}

/// Conversions to integers truncate, so what truncates before them is left out (it takes as long as the conversion on a
/// GPU):
///   fptosi (floor x)                  ->  fptosi x,              where x is not negative
///   fptosi (floor x, of y's sign)     ->  fptosi (x, of y's sign)        libdevice.round(y).to(tl.int8)
Value *ofTruncated(NodeMaker &mk, const Node &n) {
  if (n.kind != OpKind::FpToSI && n.kind != OpKind::FpToUI)
    return nullptr;
  auto floored = [](Value *v) -> Value * {
    const Op *op = defOf(v, OpKind::Floor);
    return op && isNonNegative(op->operands[0]) ? op->operands[0] : nullptr;
  };
  if (Value *x = floored(n.operands[0]))
    return mk.make({n.kind, {x}, n.type, n.attrs});
  const Op *cast = defOf(n.operands[0], OpKind::Bitcast), *both = cast ? defOf(cast->operands[0], OpKind::Or) : nullptr;
  if (!both)
    return nullptr;
  const int64_t signBit = int64_t(~uint64_t{0} << (bitWidth(both->result()->type.elem) - 1));
  for (size_t i : {0, 1}) {
    const Op *size = defOf(both->operands[i], OpKind::And), *sign = defOf(both->operands[1 - i], OpKind::And);
    if (!size || !sign || constantInt(size->operands[1]) != ~signBit || constantInt(sign->operands[1]) != signBit)
      continue;
    const Op *bits = defOf(size->operands[0], OpKind::Bitcast);
    Value *x = bits ? floored(bits->operands[0]) : nullptr;
    if (!x)
      continue;
    const Type &word = both->result()->type;
    Value *whole = mk.make({OpKind::And, {mk.make({OpKind::Bitcast, {x}, word, {}}), size->operands[1]}, word, {}});
    Value *joined = mk.make({OpKind::Or, {whole, both->operands[1 - i]}, word, {}});
    return mk.make({n.kind, {mk.make({OpKind::Bitcast, {joined}, n.operands[0]->type, {}})}, n.type, n.attrs});
  }
  return nullptr;
}

bool isSet(const Node &n, BoolKey key) {
  return std::ranges::any_of(n.attrs, [&](const Attr &a) { return a.key == key && std::get<int64_t>(a.value) != 0; });
}

Value *ofPermutes(NodeMaker &mk, const Node &n, const Op &inner) {
  const std::vector<int64_t> *outer = nullptr;
  for (const Attr &a : n.attrs)
    if (a.key == attr::perm)
      outer = &std::get<std::vector<int64_t>>(a.value);
  std::vector<int64_t> perm;
  for (int64_t p : *outer)
    perm.push_back(inner.perm()[static_cast<size_t>(p)]);
  return mk.make({OpKind::Permute, {inner.operands[0]}, n.type, {{attr::perm, std::move(perm)}}});
}

/// Reshape and expand_dims keep the order of elements, so any chain of them is one reshape.
Value *ofReshapes(NodeMaker &mk, const Node &n, const Op &inner) {
  std::vector<Attr> attrs;
  if (isSet(n, attr::reorder) || inner.reorder())
    attrs.push_back({attr::reorder, true});
  return mk.make({OpKind::Reshape, {inner.operands[0]}, n.type, std::move(attrs)});
}

/// Chains of shape operations.
Value *ofShapes(NodeMaker &mk, const Node &n) {
  Value *x = n.operands[0];
  if (!x->def || n.kind == OpKind::Splat)
    return nullptr;
  const Op &inner = *x->def;
  if (n.kind == OpKind::Unsplat) {
    bool keepsElement = inner.kind == OpKind::ExpandDims || inner.kind == OpKind::Reshape ||
                        inner.kind == OpKind::Broadcast || inner.kind == OpKind::Permute;
    return keepsElement ? mk.make({OpKind::Unsplat, {inner.operands[0]}, n.type, {}}) : nullptr;
  }
  if (inner.kind == OpKind::Splat)
    return splat(mk, inner.operands[0], n.type);
  if (n.kind == OpKind::Broadcast && inner.kind == OpKind::Broadcast)
    return mk.make({OpKind::Broadcast, {inner.operands[0]}, n.type, {}});
  if (n.kind == OpKind::Permute && inner.kind == OpKind::Permute)
    return ofPermutes(mk, n, inner);
  if (n.kind == OpKind::Reshape && (inner.kind == OpKind::Reshape || inner.kind == OpKind::ExpandDims))
    return ofReshapes(mk, n, inner);
  return nullptr;
}

Value *ofPairs(NodeMaker &mk, const Node &n) {
  Value *a = n.operands[0], *b = n.operands[1];
  if (n.kind == OpKind::Gather)
    return isUniform(a) ? splat(mk, uniformScalar(mk, a), n.type) : nullptr;
  bool equal = isUniform(a) && isUniform(b) && uniformScalar(mk, a) == uniformScalar(mk, b);
  return equal ? splat(mk, uniformScalar(mk, a), n.type) : nullptr;
}

} // namespace

Value *canonicalize(NodeMaker &mk, Node &n) {
  uint16_t t = info(n.kind).traits;
  if (t & traits::Elementwise) {
    orderOperands(n);
    if (Value *v = isUnhinted(n.attrs) ? ofConstants(mk, n) : nullptr)
      return v;
    if (Value *v = isUnhinted(n.attrs) ? ofExtendedQuotients(mk, n) : nullptr)
      return v;
    if (Value *v = isUnhinted(n.attrs) ? ofMaskedExtension(mk, n) : nullptr)
      return v;
    if (Value *v = ofTruncated(mk, n))
      return v;
    if (n.type.isTensor() && isUnhinted(n.attrs)) {
      if (Value *v = ofSplats(mk, n))
        return v;
      if (Value *v = ofBroadcasts(mk, n))
        return v;
      if (Value *v = ofExtended(mk, n))
        return v;
    }
    return isUnhinted(n.attrs) ? ofPointerConstants(mk, n) : nullptr;
  }
  if (n.kind == OpKind::Join || n.kind == OpKind::Cat || n.kind == OpKind::Gather)
    return ofPairs(mk, n);
  if ((t & traits::Shape) && n.operands.size() == 1 && isUnhinted(n.attrs))
    return ofShapes(mk, n);
  return nullptr;
}

} // namespace tegula
