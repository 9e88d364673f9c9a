// Offsets added to the base of a descriptor become leading dimensions; see LiftBases.h.
#include "passes/LiftBases.h"
#include "ir/Builder.h"
#include <algorithm>
#include <limits>

namespace tegula {

using namespace ir;

/// Whether it is an argument or a constant.
static bool isKnown(const Value *v, const Block &entry) {
  if (v->def && v->def->kind == OpKind::SExt)
    v = v->def->operands[0];
  return v->def ? v->def->kind == OpKind::Const : v->block == &entry;
}

bool LiftedBases::summands(Value *offset, const Block &entry, std::vector<Summand> &out) {
  while (offset->def && offset->def->kind == OpKind::SExt)
    offset = offset->def->operands[0];
  if (!offset->type.isScalar() || !offset->def)
    return false;
  const Op &op = *offset->def;
  if (op.kind == OpKind::Add)
    return summands(op.operands[0], entry, out) && summands(op.operands[1], entry, out);
  if (op.kind != OpKind::Mul)
    return false;
  Value *number = op.operands[0], *stride = op.operands[1];
  if (!isKnown(stride, entry))
    std::swap(number, stride);
  if (number->def && number->def->kind == OpKind::SExt)
    number = number->def->operands[0];
  if (!isKnown(stride, entry) || number->type.elem != Elem::I32)
    return false;
  out.push_back({number, stride});
  return true;
}

/// More than `number` can be, where it is not negative: how many programs there are, what it is a remainder of. Values
/// before the function, so that equal accesses share a map.
Value *LiftedBases::extentOf(Value *number, Function &f) {
  Builder b(m_);
  auto once = [&](int kind, int64_t what, auto make) {
    Value *&v = made_[{kind, what}];
    if (!v) {
      Block front;
      b.setBlock(&front);
      v = make();
      for (Op *op : front.ops)
        prefix_.push_back(op);
    }
    return v;
  };
  for (const Op *op = number->def; op; op = op->operands[0]->def) {
    if (op->kind == OpKind::ProgramId)
      return once(0, op->axis(), [&] {
        return b.create1(OpKind::NumPrograms, {}, Type::scalar(Elem::I32), {{attr::axis, op->axis()}});
      });
    if (op->kind == OpKind::SRem && !op->operands[1]->def && op->operands[1]->block == f.block())
      return op->operands[1];
    if (op->kind != OpKind::SDiv && op->kind != OpKind::SRem)
      break;
  }
  return once(1, 0, [&] { return b.constI32(std::numeric_limits<int32_t>::max()); });
}

/// In 64 bits, before the function.
Value *LiftedBases::strideOf(Value *stride) {
  if (stride->type.elem == Elem::I64 && !stride->def)
    return stride;
  Value *narrow = stride->def && stride->def->kind == OpKind::SExt ? stride->def->operands[0] : stride;
  Value *&wide = wide_[narrow];
  if (wide)
    return wide;
  Builder b(m_);
  Block front;
  b.setBlock(&front);
  wide = constantInt(narrow)              ? b.constI64(*constantInt(narrow))
         : narrow->type.elem == Elem::I64 ? narrow
                                          : b.cast(OpKind::SExt, narrow, Elem::I64);
  for (Op *op : front.ops)
    prefix_.push_back(op);
  return wide;
}

void LiftedBases::liftIn(Block &block, Function &f) {
  constexpr size_t mostDims = 5;
  std::vector<Op *> ops;
  ops.swap(block.ops);
  Builder b(m_);
  b.setBlock(&block);
  for (Op *op : ops) {
    for (Region *r : op->regions)
      liftIn(*r->block, f);
    std::vector<Summand> sum;
    auto hasForm = [&] {
      if (!isDescOp(op->kind))
        return false;
      DescAccess a = descAccess(*op);
      Value *base = a.base;
      while (base->def && base->def->kind == OpKind::AddPtr) {
        if (!summands(base->def->operands[1], *f.block(), sum))
          return false;
        base = base->def->operands[0];
      }
      return !a.hasRows() && !base->def && base->block == f.block() && !sum.empty() &&
             sum.size() + a.rank() <= mostDims;
    };
    if (!hasForm()) {
      block.ops.push_back(op);
      continue;
    }
    DescAccess a = descAccess(*op);
    Value *base = a.base;
    while (base->def)
      base = base->def->operands[0];
    const Type type = a.value ? a.value->type : op->result()->type;
    Shape shape;
    std::vector<Value *> operands{base};
    for (const Summand &s : sum) {
      shape.push(1);
      operands.push_back(extentOf(s.number, f));
    }
    for (unsigned d = 0; d < a.rank(); ++d)
      shape.push(a.block[d]);
    operands.insert(operands.end(), a.extents.begin(), a.extents.end());
    for (const Summand &s : sum)
      operands.push_back(strideOf(s.stride));
    operands.insert(operands.end(), a.strides.begin(), a.strides.end());
    for (const Summand &s : sum)
      operands.push_back(s.number);
    operands.insert(operands.end(), a.offsets.begin(), a.offsets.end());
    b.setLoc(op->loc);
    b.setInlinedAt(op->inlinedAt);
    Lifted l{&block, op, op, *op, static_cast<unsigned>(sum.size())};
    const Type lifted = Type::tensor(shape, type.elem);
    if (a.value) {
      operands.push_back(b.reshape(a.value, shape));
      l.reshape = operands.back()->def;
      op->operands = std::move(operands);
    } else {
      l.access = b.create(OpKind::DescLoad, operands, {&lifted, 1}, op->attrs);
      op->kind = OpKind::Reshape;
      op->operands = {l.access->result()};
      op->attrs = op->attrsFor(OpKind::Reshape);
    }
    block.ops.push_back(op);
    lifted_.push_back(std::move(l));
  }
}

void LiftedBases::lift(Function &f) {
  liftIn(*f.block(), f);
  for (Op *op : prefix_)
    op->parent = f.block();
  f.block()->ops.insert(f.block()->ops.begin(), prefix_.begin(), prefix_.end());
  prefix_.clear();
  made_.clear();
  wide_.clear();
}

void LiftedBases::keepOnly(const std::function<bool(const Op &op, unsigned dims)> &keep) {
  std::erase_if(lifted_, [&](const Lifted &l) {
    if (keep(*l.access, l.dims))
      return false;
    bool isLoad = l.before.kind == OpKind::DescLoad;
    std::erase(l.block->ops, isLoad ? l.access : l.reshape);
    Op &op = isLoad ? *l.reshape : *l.access;
    op.kind = l.before.kind;
    op.operands = l.before.operands;
    op.attrs = l.before.attrs;
    return true;
  });
}

bool LiftedBases::isExact(const Op &op, unsigned dims, const AxisFacts &facts) {
  DescAccess a = descAccess(op);
  auto leading = a.extents.first(dims);
  const int64_t bytes = byteWidth(a.base->type.elem);
  for (unsigned d = 0; d < dims; ++d) {
    const Value *number = a.offsets[d];
    // No map has an extent below 1, so an argument that is an extent divides as a positive number.
    const Op *div = number->def && number->def->kind == OpKind::SDiv ? number->def : nullptr;
    bool isQuotient = div && facts.of(div->operands[0]).isNonNegative() &&
                      std::find(leading.begin(), leading.end(), div->operands[1]) != leading.end();
    if ((!facts.of(number).isNonNegative() && !isQuotient) ||
        facts.of(a.strides[d]).axes[0].divisibility * bytes % 16 != 0)
      return false;
  }
  return true;
}

} // namespace tegula
