// See SplitTiles.h.
#include "gpu/parts/SplitTiles.h"
#include "gpu/Work.h"
#include "gpu/loops/DelayReductions.h"
#include "gpu/parts/TileParts.h"
#include "ir/Builder.h"
#include "ir/Clone.h"
#include "passes/Neutral.h"
#include "passes/RemoveDead.h"
#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>

namespace tegula::gpu {

using namespace ir;

namespace {

constexpr int whole = TileParts::whole;

/// Writes the loops of one TileParts.
class PartLoops {
public:
  PartLoops(Module &m, const FunctionUses &uses, const TileParts &parts, int64_t threads, bool isBackwards)
      : m_(m), b_(m), uses_(uses), parts_(parts), threads_(threads), isBackwards_(isBackwards) { b_.setFolding(false); }

  /// Appends loop `k` over operations of `from` to `to`; `late` gets the results of its reductions.
  void write(const Block &from, unsigned k, Block &to, std::unordered_map<const Value *, Value *> &late);

private:
  using Wanted = std::pair<const Value *, int>;

  Type partOf(const Type &t, int axis) const {
    if (axis == whole || t.isScalar())
      return t;
    Shape s = t.shape;
    s.set(static_cast<unsigned>(axis), s[static_cast<unsigned>(axis)] / parts_.parts());
    return t.withShape(s);
  }
  /// The part of an operand that is needed; whole operands were computed before the loop.
  Value *operand(const Value *v, int axis) const {
    auto it = made_.find({v, axis});
    return it == made_.end() ? const_cast<Value *>(v) : it->second;
  }
  std::vector<const Op *> withFree(const Block &from, const TileParts::Loop &loop);
  void addFree(const Value *v, int axis, std::vector<Wanted> &open);
  Op *writeOp(const Op &op, int axis, std::span<const Type> results);
  void writeRegion(const Op &loop, const Block &from, Block &to, int axis,
                   std::unordered_map<const Value *, Value *> &inside);
  void writePart(const Op &op, int axis);
  Value *range(const Op &op);
  int64_t foldOf(const Op &op) const;
  Type carriedType(const Op &op, const Value *operand) const;
  Op *reduction(const Op &op, std::span<Value *const> from, std::span<const Type> results);
  std::vector<Value *> narrowed(const Op &op);
  std::vector<Value *> accumulate(const Op &op, std::span<Value *const> parts, std::span<Value *const> before,
                                  bool startsNeutral);
  void shiftHints(Op &op, int axis) const;

  Module &m_;
  Builder b_;
  const FunctionUses &uses_;
  const TileParts &parts_;
  const int64_t threads_; // of a program
  const bool isBackwards_;
  Value *index_ = nullptr, *isFirst_ = nullptr;
  std::map<Wanted, Value *> made_;
  std::map<const Op *, std::set<int>> free_; // operations that are computed for parts along those axes
};

void PartLoops::addFree(const Value *v, int axis, std::vector<Wanted> &open) {
  if (axis != whole && v->type.isTensor() && uses_.free.contains(v) && free_[v->def].insert(axis).second)
    open.push_back({v, axis});
}

/// The operations of a loop and the free values (made of scalars) that they need, in the order of the text.
std::vector<const Op *> PartLoops::withFree(const Block &from, const TileParts::Loop &loop) {
  std::vector<const Op *> ops;
  std::vector<Wanted> open;
  auto operandsOf = [&](const Op &op, int axis) {
    for (const Value *v : uses_.inputs(op))
      addFree(v, parts_.operandAxis(op, v, axis).value_or(whole), open);
  };
  for (size_t i : loop) {
    ops.push_back(from.ops[i]);
    operandsOf(*from.ops[i], parts_.of(*from.ops[i]));
  }
  while (!open.empty()) {
    auto [v, axis] = open.back();
    open.pop_back();
    operandsOf(*v->def, axis);
  }
  for (const auto &[op, axes] : free_)
    ops.push_back(op);
  std::sort(ops.begin(), ops.end(), [&](const Op *x, const Op *y) { return uses_.order.at(x) < uses_.order.at(y); });
  return ops;
}

/// Limits the user's hints about groups along an axis to the groups within a part.
void PartLoops::shiftHints(Op &op, int axis) const {
  for (Attr &a : op.attrs) {
    auto *list = std::get_if<std::vector<int64_t>>(&a.value);
    if (isHint(a.key) && list && static_cast<size_t>(axis) < list->size()) {
      int64_t &n = (*list)[static_cast<size_t>(axis)];
      n = std::gcd(n, op.result()->type.shape[static_cast<unsigned>(axis)]);
    }
  }
}

Value *PartLoops::range(const Op &op) {
  Type t = partOf(op.result()->type, 0);
  Value *first = b_.binary(OpKind::Mul, index_, b_.constI32(static_cast<int32_t>(t.shape[0])));
  return b_.binary(OpKind::Add, writeOp(op, whole, {&t, 1})->result(), b_.splat(first, t.shape));
}

Op *PartLoops::writeOp(const Op &op, int axis, std::span<const Type> results) {
  std::vector<Value *> operands;
  for (const Value *v : op.operands)
    operands.push_back(operand(v, parts_.operandAxis(op, v, axis).value_or(whole)));
  b_.setLoc(op.loc);
  b_.setInlinedAt(op.inlinedAt);
  Op *now = b_.create(op.kind, operands, results, op.attrs);
  std::unordered_map<const Value *, Value *> inside;
  for (unsigned i = 0; i < op.regions.size(); ++i) {
    if (uses_.isLoop(op))
      writeRegion(op, *op.region(i), *now->region(i), axis, inside);
    else
      Cloner(m_).copyBlock(*op.region(i), *now->region(i));
  }
  return now;
}

/// Writes a block of a lane-wise loop for a part of its tiles. All tiles have one shape, or are flattened to one axis
/// (for the test of the loop).
void PartLoops::writeRegion(const Op &loop, const Block &from, Block &to, int axis,
                            std::unordered_map<const Value *, Value *> &inside) {
  const Shape &shape = loop.operands[0]->type.shape;
  auto typeOf = [&](const Value *v) {
    return v->type.isScalar()       ? v->type
           : v->type.shape == shape ? partOf(v->type, axis)
                                    : v->type.withShape({v->type.shape[0] / parts_.parts()});
  };
  for (const Value *a : from.args)
    (inside[a] = m_.addArg(&to, typeOf(a)))->name = a->name;
  Builder b(m_);
  b.setFolding(false);
  b.setBlock(&to);
  for (const Op *op : from.ops) {
    std::vector<Value *> operands;
    for (Value *v : op->operands)
      operands.push_back(inside.contains(v) ? inside.at(v) : v->type.isTensor() ? operand(v, axis) : v);
    std::vector<Type> results;
    for (const Value *r : op->results)
      results.push_back(typeOf(r));
    b.setLoc(op->loc);
    b.setInlinedAt(op->inlinedAt);
    Op *now = b.create(op->kind, operands, results, op->attrs);
    for (size_t i = 0; i < results.size(); ++i)
      (inside[op->results[i]] = now->results[i])->name = op->results[i]->name;
    if (results.size() == 1 && results[0].isTensor())
      shiftHints(*now, axis);
    for (unsigned i = 0; i < op->regions.size(); ++i) {
      if (op->kind == OpKind::While)
        writeRegion(loop, *op->region(i), *now->region(i), axis, inside);
      else
        Cloner(m_).copyBlock(*op->region(i), *now->region(i));
    }
  }
}

void PartLoops::writePart(const Op &op, int axis) {
  auto define = [&](const Value *v, int at, Value *now) {
    now->name = v->name;
    made_[{v, at}] = now;
  };
  if (op.kind == OpKind::Range)
    return define(op.result(), axis, range(op));
  int given = axis;
  if (op.kind == OpKind::Dot)
    given = whole;
  if (op.kind == OpKind::Reduce)
    given = axis - (axis > op.axis()); // for reductions along the axis see narrowed()
  std::vector<Type> results;
  for (const Value *r : op.results)
    results.push_back(partOf(r->type, given));
  Op *now = writeOp(op, axis, results);
  if (op.results.size() == 1 && given != whole)
    shiftHints(*now, given);
  for (size_t i = 0; i < op.results.size(); ++i)
    define(op.results[i], given, now->results[i]);
}

/// How many elements along the axis each part of a reduction combines to one: enough that a thread carries few
/// registers from part to part, but no more than one thread holds, beside those of an access.
int64_t PartLoops::foldOf(const Op &op) const {
  constexpr int64_t ofAccess = 8, most = 16; // elements
  int64_t fold = 1, n = op.operands[0]->type.numel() / parts_.parts() / threads_,
          extent = op.operands[0]->type.shape[static_cast<unsigned>(op.axis())] / parts_.parts();
  while (n / fold > (op.operands.size() > 1 ? ofAccess : most) && fold < extent)
    fold *= 2;
  return fold;
}

/// The type that the loop carries for an operand: that of the result, if delay-reductions will find the part of it that
/// a thread carries; else a tile of the part's shape, reduced along the axis by foldOf().
Type PartLoops::carriedType(const Op &op, const Value *operand) const {
  if (canDelay(op))
    return op.result()->type;
  auto axis = static_cast<unsigned>(op.axis());
  Shape s = operand->type.shape;
  s.set(axis, s[axis] / parts_.parts() / foldOf(op));
  return operand->type.withShape(s);
}

/// Writes a reduction of the tiles `from` to the types `results`, along the operation's axis.
Op *PartLoops::reduction(const Op &op, std::span<Value *const> from, std::span<const Type> results) {
  b_.setLoc(op.loc);
  b_.setInlinedAt(op.inlinedAt);
  Op *now = b_.create(OpKind::Reduce, from, results, op.attrs);
  Cloner(m_).copyBlock(*op.region(0), *now->region(0));
  return now;
}

/// A part of a reduction's operands, in the carried types. For tiles, only elements of one thread are combined.
std::vector<Value *> PartLoops::narrowed(const Op &op) {
  auto axis = static_cast<unsigned>(op.axis());
  if (canDelay(op)) {
    Value *part = operand(op.operands[0], static_cast<int>(axis));
    return reduction(op, {&part, 1}, {&op.result()->type, 1})->results;
  }
  const int64_t fold = foldOf(op);
  std::vector<Value *> parts;
  std::vector<Type> types;
  for (const Value *v : op.operands) {
    Value *part = operand(v, static_cast<int>(axis));
    types.push_back(carriedType(op, v));
    if (fold > 1) {
      Shape s;
      for (unsigned d = 0; d < part->type.shape.rank(); ++d) {
        if (d == axis)
          s.push(fold);
        s.push(types.back().shape[d]);
      }
      part = b_.reshape(part, s);
    }
    parts.push_back(part);
  }
  return fold > 1 ? reduction(op, parts, types)->results : parts;
}

/// Combines the accumulated values of all parts before with this part, element by element. The first part is taken
/// unchanged, unless `before` starts with the neutral element.
std::vector<Value *> PartLoops::accumulate(const Op &op, std::span<Value *const> parts, std::span<Value *const> before,
                                           bool startsNeutral) {
  const Block &region = *op.region(0);
  const Shape &shape = parts[0]->type.shape;
  std::unordered_map<const Value *, Value *> values;
  for (size_t i = 0; i < before.size(); ++i) {
    values[region.args[i]] = before[i];
    values[region.args[before.size() + i]] = parts[i];
  }
  std::vector<Value *> out;
  for (const Op *o : region.ops) {
    std::vector<Value *> operands;
    for (const Value *v : o->operands)
      operands.push_back(values.at(v));
    if (o->has(traits::Terminator)) {
      for (size_t i = 0; i < operands.size(); ++i)
        out.push_back(startsNeutral ? operands[i] : b_.select(b_.splat(isFirst_, shape), parts[i], operands[i]));
      break;
    }
    Type t = o->result()->type.withShape(shape);
    b_.setLoc(o->loc);
    b_.setInlinedAt(o->inlinedAt);
    values[o->result()] = b_.create(o->kind, operands, {&t, 1}, o->attrs)->result();
  }
  return out;
}

void PartLoops::write(const Block &from, unsigned k, Block &to, std::unordered_map<const Value *, Value *> &late) {
  struct Sum {
    const Op *op;
    size_t first; // index of its first carried value
    bool startsNeutral = false;
  };
  const TileParts::Loop &loop = parts_.loops()[k];
  b_.setBlock(&to);
  b_.setLoc(from.ops[loop.back()]->loc);
  b_.setInlinedAt(from.ops[loop.back()]->inlinedAt);
  std::vector<Sum> sums;
  std::vector<Value *> inits, next;
  for (size_t i : loop) {
    const Op &op = *from.ops[i];
    if (!parts_.isAccumulated(op))
      continue;
    sums.push_back({&op, inits.size()});
    if (op.kind == OpKind::Dot) {
      inits.push_back(op.operands[2]);
      continue;
    }
    for (const Value *v : op.operands) {
      Type t = carriedType(op, v);
      Value *neutral = op.operands.size() == 1 ? neutralElement(b_, op, t) : nullptr;
      sums.back().startsNeutral = neutral;
      inits.push_back(neutral ? neutral : b_.constInt(t, 0)); // never used
    }
  }
  Op *forOp = b_.forOp(b_.constI32(0), b_.constI32(static_cast<int32_t>(parts_.parts())), b_.constI32(1), inits,
                       {{attr::rolled, true}});
  Block &body = *forOp->region(0);
  b_.setBlock(&body);
  index_ = body.args[0];
  if (std::any_of(sums.begin(), sums.end(),
                  [](const Sum &s) { return s.op->kind == OpKind::Reduce && !s.startsNeutral; }))
    isFirst_ = b_.cmp(CmpPred::Eq, index_, b_.constI32(0));
  if (isBackwards_)
    index_ = b_.binary(OpKind::Sub, b_.constI32(static_cast<int32_t>(parts_.parts() - 1)), index_);
  std::unordered_map<const Op *, std::vector<Value *>> parts;
  for (const Op *op : withFree(from, loop)) {
    if (auto axes = free_.find(op); axes != free_.end())
      for (int axis : axes->second)
        writePart(*op, axis);
    else if (op->kind == OpKind::Reduce && parts_.isAccumulated(*op))
      parts[op] = narrowed(*op);
    else
      writePart(*op, parts_.of(*op));
  }
  for (const Sum &s : sums) {
    if (s.op->kind == OpKind::Dot) {
      Value *sum = made_.at({s.op->result(), whole});
      sum->def->operands[2] = body.args[1 + s.first];
      next.push_back(sum);
      continue;
    }
    std::span<Value *const> before(body.args.begin() + 1 + static_cast<long>(s.first), s.op->operands.size());
    for (Value *v : accumulate(*s.op, parts.at(s.op), before, s.startsNeutral))
      next.push_back(v);
  }
  b_.yield(next);
  b_.setBlock(&to);
  for (const Sum &s : sums) {
    if (s.op->kind == OpKind::Dot || canDelay(*s.op)) {
      late[s.op->result()] = forOp->results[s.first];
      continue;
    }
    std::vector<Value *> sum(forOp->results.begin() + static_cast<long>(s.first),
                             forOp->results.begin() + static_cast<long>(s.first + s.op->operands.size()));
    std::vector<Type> types;
    for (const Value *r : s.op->results)
      types.push_back(r->type);
    Op *now = reduction(*s.op, sum, types);
    for (size_t i = 0; i < types.size(); ++i)
      late[s.op->results[i]] = now->results[i];
  }
}

/// The operations between two that separate loops.
struct Segment {
  size_t begin, end;    // of a block's operations
  int64_t work = 0;     // instructions of a thread
  int64_t elements = 0; // of the largest tile in a thread
  int64_t words = 0;    // that a thread loads
  bool combines = false; // has reductions or scans, which combine elements of one tile
  bool hasLargeDot = false;

  Segment(const Block &b, size_t first, int64_t threads, int64_t sharedBytes) : begin(first), end(first) {
    for (; end < b.ops.size() && !TileParts::separates(*b.ops[end]); ++end) {
      const Op &op = *b.ops[end];
      work += instructionsOf(op, threads);
      hasLargeDot |= TileParts::isLargeDot(op, sharedBytes);
      if (!op.operands.empty())
        elements = std::max(elements, op.operands[0]->type.numel() / threads);
      combines |= op.kind == OpKind::Reduce || op.kind == OpKind::Scan;
      if (op.kind == OpKind::Load && op.result()->type.isTensor())
        words += op.result()->type.numel() * byteWidth(op.result()->type.elem) / 4 / threads;
    }
  }
  bool isLong(const StraightLimits &limits) const {
    return (work > limits.most || hasLargeDot || isHeavy(limits)) && elements >= 2 * limits.fewest;
  }
  /// Is there no room for a second block? That is a reason for one loop, but not for several.
  bool isHeavy(const StraightLimits &limits) const {
    return words >= limits.words && elements >= limits.many && !combines;
  }
};

bool hasLongSegment(const Block &b, int64_t threads, int64_t sharedBytes, const StraightLimits &limits) {
  for (size_t i = 0; i < b.ops.size(); ++i) {
    Segment s(b, i, threads, sharedBytes);
    if (s.isLong(limits))
      return true;
    for (size_t j = s.begin; j < s.end; ++j)
      for (size_t k = 0; b.ops[j]->kind == OpKind::While && k < b.ops[j]->regions.size(); ++k)
        if (hasLongSegment(*b.ops[j]->regions[k]->block, threads, sharedBytes, limits))
          return true;
    i = s.end;
    for (size_t k = 0; i < b.ops.size() && k < b.ops[i]->regions.size(); ++k)
      if (hasLongSegment(*b.ops[i]->regions[k]->block, threads, sharedBytes, limits))
        return true;
  }
  return false;
}

/// Splits tiles in the blocks of a function.
class Splitter {
public:
  Splitter(Module &m, unsigned threads, int64_t sharedBytes, const StraightLimits &limits)
      : m_(m), uses_(*m.kernel()), threads_(threads), sharedBytes_(sharedBytes), limits_(limits) {}

  bool run() {
    block(*m_.kernel()->block());
    if (hasSplit_) {
      replaceLate(*m_.kernel()->block());
      removeDead(m_);
    }
    return hasSplit_;
  }

private:
  void block(Block &b);
  bool split(const Block &b, const Segment &s, Block &to);
  void write(const Block &b, const Segment &s, const TileParts &parts, Block &to);
  void replaceLate(Block &b);

  Module &m_;
  FunctionUses uses_;
  int64_t threads_, sharedBytes_;
  StraightLimits limits_;
  bool hasSplit_ = false;
  std::unordered_map<const Value *, Value *> late_; // results of reductions, and of the loops that replace them
};

void Splitter::block(Block &b) {
  Block now; // the new operations; those of loops are in their own blocks
  now.parent = b.parent;
  for (size_t i = 0; i < b.ops.size();) {
    if (TileParts::separates(*b.ops[i])) {
      for (Region *r : b.ops[i]->regions)
        block(*r->block);
      now.ops.push_back(b.ops[i++]);
      continue;
    }
    Segment found(b, i, threads_, sharedBytes_);
    bool isSplit = split(b, found, now);
    for (; i < found.end && !isSplit; ++i) {
      now.ops.push_back(b.ops[i]);
      for (Region *r : b.ops[i]->regions)
        if (b.ops[i]->kind == OpKind::While) // lane-wise, as it does not separate
          block(*r->block);
    }
    i = found.end;
  }
  b.ops = std::move(now.ops);
  for (Op *op : b.ops)
    op->parent = &b;
}

bool Splitter::split(const Block &b, const Segment &s, Block &to) {
  if (!s.isLong(limits_))
    return false;
  auto wanted = std::bit_ceil(static_cast<uint64_t>(std::max(
      {s.work / limits_.part, s.elements / limits_.elements, s.isHeavy(limits_) ? s.words / limits_.wordsOfPart : 0})));
  auto most = std::bit_floor(static_cast<uint64_t>(s.elements / limits_.fewest));
  std::optional<TileParts> several; // the largest possible number of parts, in several loops
  for (uint64_t n = std::min(wanted, most); n > 1; n /= 2) {
    auto count = static_cast<int64_t>(n);
    const bool canHold = s.elements / count <= limits_.held && s.work / count <= limits_.times * limits_.most;
    if (several && !canHold)
      break;
    TileParts parts(uses_, b, s.begin, s.end, count, threads_, sharedBytes_);
    if (!parts.any())
      continue;
    auto loops =
        std::count_if(parts.loops().begin(), parts.loops().end(), [](const TileParts::Loop &l) { return !l.empty(); });
    if (loops == 1) {
      write(b, s, parts, to);
      return hasSplit_ = true;
    }
    if (!several && !s.hasLargeDot && s.elements <= limits_.held && s.work <= limits_.times * limits_.most)
      return false;
    if (!several)
      several.emplace(std::move(parts));
    if (s.hasLargeDot)
      break;
  }
  if (!several)
    return false;
  write(b, s, *several, to);
  return hasSplit_ = true;
}

void Splitter::write(const Block &b, const Segment &s, const TileParts &parts, Block &to) {
  unsigned written = 0;
  for (unsigned k = 0; k <= parts.loops().size(); ++k) {
    for (size_t i = s.begin; i < s.end; ++i)
      if (parts.of(*b.ops[i]) == whole && std::min<size_t>(parts.level(i), parts.loops().size()) == k)
        to.ops.push_back(b.ops[i]);
    // Each loop begins with the parts that the loop before has read last, which are in a cache.
    if (k < parts.loops().size() && !parts.loops()[k].empty())
      PartLoops(m_, uses_, parts, threads_, written++ % 2 == 1).write(b, k, to, late_);
  }
}

void Splitter::replaceLate(Block &b) {
  for (Op *op : b.ops) {
    for (Value *&v : op->operands)
      if (auto it = late_.find(v); it != late_.end())
        v = it->second;
    for (Region *r : op->regions)
      replaceLate(*r->block);
  }
}

} // namespace

std::unique_ptr<Module> splitTiles(const Module &module, unsigned threads, int64_t sharedBytes,
                                   const StraightLimits &limits) {
  if (!hasLongSegment(*module.kernel()->block(), threads, sharedBytes, limits))
    return nullptr;
  std::unique_ptr<Module> copy = clone(module);
  return Splitter(*copy, threads, sharedBytes, limits).run() ? std::move(copy) : nullptr;
}

} // namespace tegula::gpu
