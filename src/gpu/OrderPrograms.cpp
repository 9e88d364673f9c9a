// See OrderPrograms.h.
#include "gpu/OrderPrograms.h"
#include "gpu/BlockEdit.h"
#include "ir/Builder.h"
#include "ir/Walk.h"
#include <algorithm>
#include <array>
#include <functional>
#include <unordered_map>

namespace tegula::gpu {

using namespace ir;

namespace {

/// How a number changes when program_id of an axis grows.
enum class Trend : uint8_t { Same, Up, Down, Unknown };

Trend opposite(Trend t) { return t == Trend::Up ? Trend::Down : t == Trend::Down ? Trend::Up : t; }
Trend together(Trend a, Trend b) { return a == b || b == Trend::Same ? a : a == Trend::Same ? b : Trend::Unknown; }

Trend trendOf(const Value *v, int64_t axis, unsigned depth = 0) {
  constexpr unsigned deepest = 64;
  const Op *op = v->def;
  if (!op)
    // an argument of a region (unknown), or of the kernel (the same)
    return v->block && v->block->parent && v->block->parent->op ? Trend::Unknown : Trend::Same;
  if (depth > deepest || !op->regions.empty())
    return Trend::Unknown;
  auto of = [&](unsigned i) { return trendOf(op->operands[i], axis, depth + 1); };
  auto scaled = [&](unsigned number, unsigned by) {
    const std::optional<int64_t> c = constantInt(op->operands[by]);
    return !c ? Trend::Unknown : *c < 0 ? opposite(of(number)) : *c ? of(number) : Trend::Same;
  };
  auto of01 = [&] { return together(of(0), of(1)); };
  Trend known = Trend::Unknown;
  switch (op->kind) {
  case OpKind::ProgramId: return op->axis() == axis ? Trend::Up : Trend::Same;
  case OpKind::Add: case OpKind::SMin: case OpKind::SMax: case OpKind::UMin: case OpKind::UMax: known = of01(); break;
  case OpKind::Sub: known = together(of(0), opposite(of(1))); break;
  case OpKind::Mul: known = constantInt(op->operands[0]) ? scaled(1, 0) : scaled(0, 1); break;
  case OpKind::SDiv: case OpKind::UDiv: known = scaled(0, 1); break;
  case OpKind::Shl:
  case OpKind::AShr:
  case OpKind::LShr: known = constantInt(op->operands[1]) ? of(0) : Trend::Unknown; break;
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

/// May the operation wait for another program, or show the order of programs to the user?
bool fixesOrder(const Op &op) {
  switch (op.kind) {
  case OpKind::Load: return op.isVolatile();
  case OpKind::Store:
  case OpKind::DescLoad:
  case OpKind::DescStore:
  case OpKind::Assume:
  case OpKind::GridWait:
  case OpKind::GridLaunch: return false;
  case OpKind::While:
    return std::ranges::any_of(
        op.regions, [](const Region *r) { return anyOp(*r->block, [](const Op &o) { return o.has(traits::Reads); }); });
  default: return (op.has(traits::Reads) || op.has(traits::Writes)) && !op.has(traits::Shared);
  }
}

/// Finds which programs load the same tiles, from the axes on whose program_id addresses depend. Bounds of loops do not
/// count: at worst, programs read the same tiles at different times.
class Addresses {
public:
  /// A bit for each axis.
  unsigned axesOf(const Value *v) {
    constexpr unsigned deepest = 512, all = 7;
    if (depth_ > deepest)
      return all;
    auto [it, isNew] = axes_.try_emplace(v, 0);
    if (!isNew)
      return it->second; // or its own search still runs: a cycle through a loop
    ++depth_;
    unsigned axes = 0;
    const Op *op = v->def;
    if (!op)
      axes = ofArgument(v);
    else if (op->kind == OpKind::ProgramId)
      axes = 1u << op->axis();
    else if (op->kind == OpKind::For)
      axes = axesOf(op->operands[3 + v->index]) | axesOf(op->region(0)->terminator()->operands[v->index]);
    else if (op->kind == OpKind::If)
      for (const Region *r : op->regions)
        axes |= axesOf(r->block->terminator()->operands[v->index]);
    else
      axes = ofOperands(*op);
    --depth_;
    return axes_[v] = axes;
  }
  unsigned ofOperands(const Op &op) {
    unsigned axes = 0;
    for (const Value *o : op.operands)
      axes |= o == op.mask() ? 0 : axesOf(o);
    return axes;
  }

private:
  unsigned ofArgument(const Value *v) {
    const Op *loop = v->block && v->block->parent ? v->block->parent->op : nullptr;
    if (!loop || (loop->kind == OpKind::For && v->index == 0))
      return 0;
    if (loop->kind == OpKind::For)
      return axesOf(loop->operands[2 + v->index]) | axesOf(v->block->terminator()->operands[v->index - 1]);
    return ofOperands(*loop);
  }

  std::unordered_map<const Value *, unsigned> axes_;
  unsigned depth_ = 0;
};

class Orderer {
public:
  explicit Orderer(Module &m) : f_(*m.kernel()), b_(m) { b_.setFolding(false); }

  void run() {
    Block &entry = *f_.block();
    if (anyOp(entry, [](const Op &op) { return fixesOrder(op); }))
      return;
    collect(entry);
    fast_ = sharedAxis(entry);
    const Trend trend = lengths(entry, Trend::Same);
    const bool isDealt = trend == Trend::Up || trend == Trend::Down;
    if (!fast_ && (!isDealt || ids_[0].empty() || (ids_[1].empty() && ids_[2].empty() && trend == Trend::Down)))
      return;
    Block before;
    before.parent = entry.parent;
    b_.setBlock(&before);
    b_.setLoc(f_.loc);
    deal(isDealt, trend == Trend::Up);
    for (unsigned axis = 0; axis < 3; ++axis)
      for (const auto &[block, op] : ids_[axis]) {
        replaceUses(entry, op->result(), now_[axis]);
        std::erase(block->ops, op);
      }
    splice(before, entry, 0);
  }

private:
  /// How the trip counts of loops with dots change with the program number.
  Trend lengths(const Block &b, Trend sofar) {
    for (const Op *op : b.ops) {
      if (op->kind == OpKind::For && hasDot(*op->region(0))) {
        Trend t = together(trendOf(op->operands[1], fast_), opposite(trendOf(op->operands[0], fast_)));
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

  /// The axis whose programs should be neighbours in time. That is axis 0 if its programs load common tiles in their
  /// loops. Else it is an axis whose programs do (heads first, as in servers' attention): otherwise the keys and values
  /// of all heads are read at the same time, and again for each further tile of queries. Considers loops with several
  /// dots.
  unsigned sharedAxis(const Block &entry) {
    std::array<bool, 3> shares{};
    Addresses addresses;
    bool any = false;
    anyOp(entry, [&](const Op &loop) {
      const auto isDot = [](const Op *op) { return op->kind == OpKind::Dot; };
      if (loop.kind == OpKind::For && std::ranges::count_if(loop.region(0)->ops, isDot) > 1)
        anyOp(*loop.region(0), [&](const Op &op) {
          const bool isTile =
              op.kind == OpKind::DescLoad || (op.kind == OpKind::Load && op.result()->type.shape.rank() > 1);
          for (unsigned axis = 0; axis < 3 && isTile; ++axis)
            shares[axis] |= !(addresses.ofOperands(op) >> axis & 1);
          any |= isTile;
          return false;
        });
      return false;
    });
    for (unsigned axis = 1; axis < 3; ++axis)
      if (any && !shares[0] && shares[axis] && !ids_[0].empty() && !ids_[axis].empty())
        return axis;
    return 0;
  }

  /// Orders the programs of the fast axis consecutively, for each program of the other axes; of those, programs of the
  /// last axis are neighbours. If programs differ in length (`isDealt`), the other axes' programs form groups of a
  /// power of two, the last group with the remainder. A group starts the first x of each of its programs, then the
  /// second x. No number is larger than the grid, and all are unsigned.
  void deal(bool isDealt, bool reversed) {
    constexpr int32_t programsOfGroup = 9, bits = 32; // at most 512, by the logarithm
    auto op = [&](OpKind kind, Value *a, Value *b) { return b_.binary(kind, a, b); };
    auto remainder = [&](Value *a, Value *quotient, Value *by) {
      return op(OpKind::Sub, a, op(OpKind::Mul, quotient, by));
    };
    std::vector<unsigned> rest; // the other axes
    for (unsigned axis : {1u, 2u, 0u})
      if (axis != fast_ && !ids_[axis].empty())
        rest.push_back(axis);
    if (fast_)
      std::ranges::sort(rest, std::greater());
    Value *one = b_.constI32(1), *x = own(OpKind::ProgramId, fast_), *nx = own(OpKind::NumPrograms, fast_),
          *other = nullptr, *others = nullptr, *inner = nullptr;
    if (!rest.empty()) {
      inner = others = own(OpKind::NumPrograms, rest[0]);
      other = own(OpKind::ProgramId, rest[0]);
      if (rest.size() > 1) {
        other = op(OpKind::Add, op(OpKind::Mul, own(OpKind::ProgramId, rest[1]), others), other);
        others = op(OpKind::Mul, others, own(OpKind::NumPrograms, rest[1]));
      }
    }
    if (fast_) { // the order in which the blocks of the grid start
      Value *number = nullptr;
      for (unsigned axis : {2u, 1u, 0u})
        if (!ids_[axis].empty()) {
          Value *slower = number ? op(OpKind::Mul, number, own(OpKind::NumPrograms, axis)) : nullptr;
          number = own(OpKind::ProgramId, axis);
          if (slower)
            number = op(OpKind::Add, slower, number);
        }
      other = op(OpKind::UDiv, number, nx);
      x = remainder(number, other, nx);
    }
    if (isDealt && other) {
      Value *zeros = b_.unary(OpKind::Clz, op(OpKind::Sub, nx, one));
      Value *shift = op(OpKind::SMax, op(OpKind::Sub, zeros, b_.constI32(bits - programsOfGroup)), b_.constI32(0));
      Value *last = op(OpKind::Sub, op(OpKind::UMax, op(OpKind::LShr, others, shift), one), one);
      Value *group = op(OpKind::UMin, op(OpKind::LShr, other, shift), last), *first = op(OpKind::Shl, group, shift);
      Value *size =
          b_.select(b_.cmp(CmpPred::Eq, group, last), op(OpKind::Sub, others, first), op(OpKind::Shl, one, shift));
      Value *at = op(OpKind::Add, op(OpKind::Mul, op(OpKind::Sub, other, first), nx), x);
      x = op(OpKind::UDiv, at, size);
      other = op(OpKind::Add, first, remainder(at, x, size));
    }
    if (other) {
      now_[rest[0]] = other;
      if (rest.size() > 1) {
        now_[rest[1]] = op(OpKind::UDiv, other, inner);
        now_[rest[0]] = remainder(other, now_[rest[1]], inner);
      }
    }
    now_[fast_] = reversed ? op(OpKind::Sub, op(OpKind::Sub, nx, one), x) : x;
  }

  Function &f_;
  Builder b_;
  std::array<std::vector<std::pair<Block *, Op *>>, 3> ids_; // of each axis
  std::array<Value *, 3> now_{};
  unsigned fast_ = 0; // the axis whose programs are consecutive
};

} // namespace

void orderPrograms(Module &m) { Orderer(m).run(); }

} // namespace tegula::gpu
