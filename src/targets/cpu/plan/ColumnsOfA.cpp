// See ColumnsOfA.h.
#include "targets/cpu/plan/ColumnsOfA.h"
#include "targets/cpu/plan/BitMap.h"
#include "targets/cpu/plan/Lin.h"
#include "llvm/ADT/STLExtras.h"

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;

namespace {
/// The growth of a value from the position where bit `bit` of the tile is 0 to the one where it is 1.
class Growth {
public:
  explicit Growth(BitSource bit) : bit_(bit) {}

  /// `at`: which bits of the tile the value's position is made of. Null: not a constant, or not known.
  std::optional<int64_t> of(const ir::Value *v, const Bits &at) {
    if (!llvm::is_contained(at, bit_))
      return 0;
    if (budget_ == 0)
      return {};
    --budget_;
    if (!v->def) {
      // what it begins with: rounds do not change how elements lie to each other
      const Op *loop = v->block->parent ? v->block->parent->op : nullptr;
      return loop && loop->kind == OpKind::For && v->index ? of(loop->operands[v->index + 2], at) : std::nullopt;
    }
    const Op &op = *v->def;
    auto operand = [&](unsigned i) { return of(op.operands[i], operandBits(op, i, v->index, at)); };
    switch (op.kind) {
    case OpKind::Const:
      return 0;
    case OpKind::Range: {
      int64_t sum = 0;
      for (size_t i = 0; i < at.size(); ++i)
        sum += at[i] == bit_ ? int64_t(1) << i : 0;
      return sum;
    }
    case OpKind::Add: case OpKind::Sub: case OpKind::AddPtr: {
      std::optional<int64_t> a = operand(0), b = operand(1);
      if (!a || !b)
        return {};
      int64_t unit = op.kind == OpKind::Sub      ? -1
                     : op.kind == OpKind::AddPtr ? static_cast<int64_t>(std::max(1u, ir::byteWidth(v->type.elem)))
                                                 : 1,
              by, sum;
      return __builtin_mul_overflow(*b, unit, &by) || __builtin_add_overflow(*a, by, &sum) ? std::nullopt
                                                                                           : std::optional(sum);
    }
    case OpKind::Mul: {
      std::optional<int64_t> a = operand(0), b = operand(1);
      if (!a || !b || (*a && *b))
        return {};
      std::optional<int64_t> factor = *a ? constantOf(op.operands[1]) : *b ? constantOf(op.operands[0]) : 0;
      int64_t product;
      return !factor || __builtin_mul_overflow(*a + *b, *factor, &product) ? std::nullopt : std::optional(product);
    }
    case OpKind::SRem: case OpKind::URem: case OpKind::Select: {
      const std::optional<Wrapped> inside = wrapped(&op);
      if (!inside)
        break;
      if (op.kind == OpKind::Select) // the comparison has the tile's shape, as the bound of a remainder has
        return of(inside->x, at);
      std::optional<int64_t> by = operand(1);
      return by == 0 ? operand(0) : std::nullopt;
    }
    case OpKind::SExt: case OpKind::ZExt: case OpKind::Trunc:
      return operand(0);
    default:
      break;
    }
    if (op.has(ir::traits::Shape) && op.operands.size() == 1)
      return operand(0);
    if (!op.has(ir::traits::Elementwise))
      return {};
    for (unsigned i = 0; i < op.operands.size(); ++i)
      if (operand(i) != 0)
        return {};
    return 0;
  }

private:
  static std::optional<int64_t> constantOf(const ir::Value *v) {
    while (v->def && v->def->has(ir::traits::Shape) && v->def->operands.size() == 1)
      v = v->def->operands[0];
    return v->def && v->def->kind == OpKind::Const && !v->type.isPtr && v->type.isIntLike()
               ? std::optional(v->def->intValue())
               : std::nullopt;
  }

  BitSource bit_;
  unsigned budget_ = 256; // operands may be shared
};
} // namespace

bool columnsLieTogether(const ir::Value *v) {
  const ir::Shape &shape = v->type.shape;
  if (shape.rank() != 2 || shape[0] < 2 || shape[1] < 2)
    return false;
  const BitSource row = static_cast<BitSource>(dimBits(shape, 1)), column = 0;
  Bits at = identityBits(bitCount(shape));
  for (; v->def; v = v->def->operands[0]) {
    const Op &op = *v->def;
    if (op.kind == OpKind::Load) {
      const int64_t bytes = v->type.isPtr ? 8 : ir::byteWidth(v->type.elem);
      return Growth(row).of(op.operands[0], at) == bytes && Growth(column).of(op.operands[0], at) != bytes;
    }
    const bool oneOperand = op.operands.size() == 1 && op.results.size() == 1;
    if (!oneOperand || !(op.has(ir::traits::Shape) || op.has(ir::traits::Elementwise)))
      return false;
    at = operandBits(op, 0, v->index, at);
  }
  return false;
}

} // namespace tegula::cpu
