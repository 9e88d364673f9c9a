// See OrderPrograms.h.
#include "gpu/OrderPrograms.h"
#include "gpu/BlockEdit.h"
#include "ir/Builder.h"
#include "ir/Walk.h"
#include <array>

namespace tegula::gpu {

using namespace ir;

namespace {

/// How a number moves when program_id(0) grows.
enum class Trend : uint8_t { Same, Up, Down, Unknown };

Trend opposite(Trend t) { return t == Trend::Up ? Trend::Down : t == Trend::Down ? Trend::Up : t; }
Trend together(Trend a, Trend b) { return a == b || b == Trend::Same ? a : a == Trend::Same ? b : Trend::Unknown; }

Trend trendOf(const Value *v, unsigned depth = 0) {
  constexpr unsigned deepest = 64;
  const Op *op = v->def;
  if (!op)
    return v->block && v->block->parent && v->block->parent->op ? Trend::Unknown : Trend::Same; // of a region: a loop's; else an argument of the kernel
  if (depth > deepest || !op->regions.empty())
    return Trend::Unknown;
  auto of = [&](unsigned i) { return trendOf(op->operands[i], depth + 1); };
  auto scaled = [&](unsigned number, unsigned by) {
    const std::optional<int64_t> c = constantInt(op->operands[by]);
    return !c ? Trend::Unknown : *c < 0 ? opposite(of(number)) : *c ? of(number) : Trend::Same;
  };
  auto of01 = [&] { return together(of(0), of(1)); };
  Trend known = Trend::Unknown;
  switch (op->kind) {
  case OpKind::ProgramId: return op->axis() == 0 ? Trend::Up : Trend::Same;
  case OpKind::Add: case OpKind::SMin: case OpKind::SMax: case OpKind::UMin: case OpKind::UMax: known = of01(); break;
  case OpKind::Sub: known = together(of(0), opposite(of(1))); break;
  case OpKind::Mul: known = constantInt(op->operands[0]) ? scaled(1, 0) : scaled(0, 1); break;
  case OpKind::SDiv: case OpKind::UDiv: known = scaled(0, 1); break;
  case OpKind::Shl: case OpKind::AShr: case OpKind::LShr: known = constantInt(op->operands[1]) ? of(0) : Trend::Unknown; break;
  case OpKind::SExt: case OpKind::ZExt: case OpKind::Trunc: known = of(0); break;
  case OpKind::Select: known = together(of(1), of(2)); break;
  default: break;
  }
  if (known != Trend::Unknown)
    return known;
  for (unsigned i = 0; i < op->operands.size(); ++i)
    if (of(i) != Trend::Same)
      return Trend::Unknown;
  return Trend::Same;
}

bool hasDot(const Block &b) {
  return anyOp(b, [](const Op &op) { return op.kind == OpKind::Dot; });
}

/// What may wait for what another program does, or tells the user about the order.
bool fixesOrder(const Op &op) {
  switch (op.kind) {
  case OpKind::Load: return op.isVolatile();
  case OpKind::Store: case OpKind::DescLoad: case OpKind::DescStore: case OpKind::Assume: case OpKind::GridWait: case OpKind::GridLaunch: return false;
  case OpKind::While: return std::ranges::any_of(op.regions, [](const Region *r) { return anyOp(*r->block, [](const Op &o) { return o.has(traits::Reads); }); });
  default: return (op.has(traits::Reads) || op.has(traits::Writes)) && !op.has(traits::Shared);
  }
}

class Orderer {
public:
  explicit Orderer(Module &m) : f_(*m.kernel()), b_(m) { b_.setFolding(false); }

  void run() {
    Block &entry = *f_.block();
    if (anyOp(entry, [](const Op &op) { return fixesOrder(op); }))
      return;
    const Trend trend = lengths(entry, Trend::Same);
    if (trend != Trend::Up && trend != Trend::Down)
      return;
    collect(entry);
    if (ids_[0].empty() || (ids_[1].empty() && ids_[2].empty() && trend == Trend::Down))
      return;
    Block before;
    before.parent = entry.parent;
    b_.setBlock(&before);
    b_.setLoc(f_.loc);
    deal(trend == Trend::Up);
    for (unsigned axis = 0; axis < 3; ++axis)
      for (const auto &[block, op] : ids_[axis]) {
        replaceUses(entry, op->result(), now_[axis]);
        std::erase(block->ops, op);
      }
    splice(before, entry, 0);
  }

private:
  /// How often loops with dots run.
  Trend lengths(const Block &b, Trend sofar) {
    for (const Op *op : b.ops) {
      if (op->kind == OpKind::For && hasDot(*op->region(0))) {
        Trend t = together(trendOf(op->operands[1]), opposite(trendOf(op->operands[0])));
        if (t != Trend::Unknown) { // a tile beside the diagonal: from the program's first row to its last one
          sofar = together(sofar, t);
          if (sofar == Trend::Unknown)
            return sofar;
        }
      }
      for (const Region *r : op->regions)
        if (sofar = lengths(*r->block, sofar); sofar == Trend::Unknown)
          return sofar;
    }
    return sofar;
  }

  void collect(Block &b) {
    for (Op *op : b.ops) {
      if (op->kind == OpKind::ProgramId)
        ids_[static_cast<size_t>(op->axis())].emplace_back(&b, op);
      for (Region *r : op->regions)
        collect(*r->block);
    }
  }

  Value *own(OpKind kind, int64_t axis) { return b_.create1(kind, {}, Type::scalar(Elem::I32), {{attr::axis, axis}}); }

  /// The other axes' programs in groups of a power of two, the last with what remains; in a group, of every program the first x, then the second ones. No number is larger than the
  /// grid, and all are unsigned.
  void deal(bool reversed) {
    constexpr int32_t programsOfGroup = 9, bits = 32; // at most 512, by the logarithm
    auto op = [&](OpKind kind, Value *a, Value *b) { return b_.binary(kind, a, b); };
    Value *one = b_.constI32(1), *x = own(OpKind::ProgramId, 0), *nx = own(OpKind::NumPrograms, 0);
    const bool hasZ = !ids_[2].empty();
    if (hasZ || !ids_[1].empty()) {
      Value *ny = own(OpKind::NumPrograms, 1), *others = ny, *other = own(OpKind::ProgramId, 1);
      if (hasZ) {
        other = op(OpKind::Add, op(OpKind::Mul, own(OpKind::ProgramId, 2), ny), other);
        others = op(OpKind::Mul, ny, own(OpKind::NumPrograms, 2));
      }
      Value *zeros = b_.unary(OpKind::Clz, op(OpKind::Sub, nx, one));
      Value *shift = op(OpKind::SMax, op(OpKind::Sub, zeros, b_.constI32(bits - programsOfGroup)), b_.constI32(0));
      Value *last = op(OpKind::Sub, op(OpKind::UMax, op(OpKind::LShr, others, shift), one), one);
      Value *group = op(OpKind::UMin, op(OpKind::LShr, other, shift), last), *first = op(OpKind::Shl, group, shift);
      Value *size = b_.select(b_.cmp(CmpPred::Eq, group, last), op(OpKind::Sub, others, first), op(OpKind::Shl, one, shift));
      Value *at = op(OpKind::Add, op(OpKind::Mul, op(OpKind::Sub, other, first), nx), x);
      x = op(OpKind::UDiv, at, size);
      now_[1] = op(OpKind::Add, first, op(OpKind::Sub, at, op(OpKind::Mul, x, size)));
      if (hasZ) {
        now_[2] = op(OpKind::UDiv, now_[1], ny);
        now_[1] = op(OpKind::Sub, now_[1], op(OpKind::Mul, now_[2], ny));
      }
    }
    now_[0] = reversed ? op(OpKind::Sub, op(OpKind::Sub, nx, one), x) : x;
  }

  Function &f_;
  Builder b_;
  std::array<std::vector<std::pair<Block *, Op *>>, 3> ids_; // of each axis
  std::array<Value *, 3> now_{};
};

} // namespace

void orderPrograms(Module &m) { Orderer(m).run(); }

} // namespace tegula::gpu
