// See Occupancy.h.
#include "targets/nvidia/Occupancy.h"
#include "passes/Users.h"
#include <algorithm>
#include <unordered_map>

namespace tegula::nvidia {
namespace {

using ir::Block;
using ir::Op;
using ir::OpKind;
using ir::Type;
using ir::Value;

/// Positions of operations in program order, and the tiles alive at each of them.
class Pressure {
public:
  explicit Pressure(const ir::Module &m) : m_(m) {}
  bool hasDot = false, exchanges = false;

  unsigned peak(const Block &b) {
    users_.add(b);
    number(b);
    live_.assign(next_ + 1, 0);
    visit(b);
    int64_t now = 0, most = 0;
    for (int64_t change : live_)
      most = std::max(most, now += change);
    return static_cast<unsigned>(most);
  }

private:
  struct Span {
    size_t begin = 0, end = 0; // an operation and its regions
  };

  void number(const Block &b) {
    for (const Op *op : b.ops) {
      hasDot |= op->kind == OpKind::Dot;
      exchanges |= !isInPlace(*op) && op->regions.empty();
      spans_[op].begin = next_++;
      for (const ir::Region *r : op->regions)
        number(*r->block);
      spans_[op].end = next_;
    }
  }

  /// 32-bit registers of a tile in one thread.
  unsigned words(const Type &t) const {
    if (t.isScalar() || !t.layout || t.isShared || (!t.isPtr && t.elem == ir::Elem::I1))
      return 0;
    unsigned registers = 1u << m_.layoutOf(t).inBits(layout::Dim::Register);
    return (registers * (t.isPtr ? 64 : ir::bitWidth(t.elem)) + 31) / 32;
  }

  /// Made of ranges and scalars alone.
  bool isMadeOfScalars(const Value *v) {
    if (v->type.isScalar())
      return true;
    if (!v->def)
      return false;
    auto [it, isNew] = ofScalars_.try_emplace(v, false);
    if (!isNew)
      return it->second;
    const Op &op = *v->def;
    bool is = op.kind == OpKind::Range || op.kind == OpKind::Const || op.kind == OpKind::Splat ||
              ((op.has(ir::traits::Elementwise) || op.has(ir::traits::Shape)) &&
               std::all_of(op.operands.begin(), op.operands.end(), [&](const Value *x) { return isMadeOfScalars(x); }));
    return ofScalars_[v] = is;
  }

  /// Element after element, so that a result takes the place of an operand. What exchanges elements between threads needs both; a
  /// reduction exchanges what is left of them.
  static bool isInPlace(const Op &op) {
    return op.operands.empty() || op.results.empty() || op.results[0]->type.isScalar() || op.has(ir::traits::Elementwise) ||
           (op.has(ir::traits::Shape) && op.kind != OpKind::Convert) || op.kind == OpKind::Load || op.kind == OpKind::Reduce;
  }

  /// Has no registers of its own: one of the operand stands for all its copies, as the maximum of a row for its columns.
  static bool isCopies(const Op &op) { return op.kind == OpKind::Broadcast || op.kind == OpKind::ExpandDims; }

  /// The user a value is computed for, register by register, just before: its only one, in the same block.
  const Op *onlyUser(const Value *v) const {
    const Op *user = users_.only(v);
    while (user && isCopies(*user))
      user = users_.only(user->results[0]);
    if (!user || !v->def || !(v->def->kind == OpKind::Load || v->def->has(ir::traits::Elementwise)))
      return nullptr;
    bool isPlain = user->regions.empty() || user->kind == OpKind::Reduce;
    return isPlain && user->parent == v->def->parent && isInPlace(*user) ? user : nullptr;
  }

  /// Where `user` reads a value of block `home`: at the end of a loop or branch that contains it; where it delays its own result to,
  /// if it does; where copies that it makes are read.
  size_t positionOf(const Op *user, const Block *home) const {
    if (isCopies(*user))
      return lastUse(user->results[0], 0, home);
    if (user->parent == home) {
      const Op *next = user->results.size() == 1 && user->regions.empty() ? onlyUser(user->results[0]) : nullptr;
      return next ? positionOf(next, home) : isInPlace(*user) ? spans_.at(user).begin : spans_.at(user).end;
    }
    while (user->parent != home)
      user = user->parent->parent->op;
    return spans_.at(user).end;
  }

  size_t lastUse(const Value *v, size_t from, const Block *home) const {
    for (const Op *user : users_.of(v))
      from = std::max(from, positionOf(user, home));
    return from;
  }

  void alive(const Value *v, size_t from, size_t to, const Block *home) {
    unsigned n = words(v->type);
    if (!n || isMadeOfScalars(v) || onlyUser(v) || (v->def && isCopies(*v->def)))
      return;
    to = lastUse(v, to, home);
    // Where the last user starts, its result may take the place.
    live_[from] += n;
    live_[to] -= n;
  }

  void visit(const Block &b) {
    for (const Op *op : b.ops) {
      const Span &s = spans_[op];
      for (const Value *v : op->results)
        alive(v, s.begin, s.begin, &b);
      for (const ir::Region *r : op->regions) {
        for (const Value *v : r->block->args)
          alive(v, s.begin, s.end, r->block);
        visit(*r->block);
      }
    }
  }

  const ir::Module &m_;
  size_t next_ = 0;
  std::unordered_map<const Op *, Span> spans_;
  Users users_;
  std::unordered_map<const Value *, bool> ofScalars_;
  std::vector<int64_t> live_;
};

} // namespace

unsigned dataRegisters(const ir::Function &kernel, const ir::Module &gpu) { return Pressure(gpu).peak(*kernel.block()); }

unsigned wishedBlocks(const ir::Function &kernel, const ir::Module &gpu, const Options &options, uint64_t sharedBytes) {
  constexpr unsigned registers = 65536, threadsOfSm = 2048, sharedOfSm = 233472, sharedReserved = 1024;
  Pressure pressure(gpu);
  unsigned data = pressure.peak(*kernel.block()), threads = 32 * options.numWarps;
  if (pressure.hasDot || options.maxRegisters || options.numCtas > 1)
    return 0;
  unsigned overhead = pressure.exchanges ? 40 : 24; // addresses, chains in flight; measured on rows of softmax and layer_norm
  unsigned need = std::max(32u, (data + overhead + 7) / 8 * 8); // registers are given out by eights; 32 fill the SM
  // Each quarter of an SM has a quarter of the registers, and whole warps.
  unsigned warps = registers / (need * 32) / 4 * 4;
  unsigned blocks = std::min({warps / options.numWarps, threadsOfSm / threads, 32u});
  blocks = static_cast<unsigned>(std::min<uint64_t>(blocks, sharedOfSm / (sharedBytes + sharedReserved)));
  return blocks > 1 ? blocks : 0;
}

} // namespace tegula::nvidia
