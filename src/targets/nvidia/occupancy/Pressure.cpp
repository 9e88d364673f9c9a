// See Pressure.h.
#include "targets/nvidia/occupancy/Pressure.h"
#include "gpu/Layouts.h"
#include "ir/Builder.h"
#include "passes/MadeOfScalars.h"
#include "passes/Users.h"
#include <unordered_map>
#include <unordered_set>

namespace tegula::nvidia {
namespace {

using ir::Block;
using ir::Op;
using ir::OpKind;
using ir::Type;
using ir::Value;
using tegula::gpu::RowsAgain;

/// Positions of operations in program order, and the tiles alive at each of them.
class PressureCounter {
public:
  explicit PressureCounter(const ir::Module &m) : m_(m) {}
  Pressure count(const Block &b) {
    users_.add(b);
    number(b);
    live_.assign(next_ + 1, 0);
    visit(b);
    int64_t now = 0, most = 0;
    for (int64_t &words : live_) // changes become sums
      most = std::max(most, words = now += words);
    for (Iteration &it : out_.iterations)
      it.live = static_cast<unsigned>(*std::max_element(live_.begin() + it.begin, live_.begin() + it.end));
    out_.data = static_cast<unsigned>(most);
    return std::move(out_);
  }

private:
  struct Span {
    size_t begin = 0, end = 0; // an operation and its regions
  };

  void number(const Block &b) {
    for (const Op *op : b.ops) {
      out_.hasDot |= op->kind == OpKind::Dot;
      out_.hasLoop |= op->kind == OpKind::For || op->kind == OpKind::While;
      const bool exchangesElements = !isInPlace(*op) && op->regions.empty();
      out_.exchanges |= exchangesElements;
      out_.exchangesInLoops |= exchangesElements && isInLoop(b);
      spans_[op].begin = next_++;
      for (const ir::Region *r : op->regions)
        number(*r->block);
      spans_[op].end = next_;
    }
  }

  /// Elements of a tile in one thread.
  unsigned registersOf(const Type &t) const {
    return t.layout ? 1u << m_.layoutOf(t).inBits(layout::Dim::Register) : 0;
  }

  /// 32-bit registers of a tile in one thread.
  unsigned words(const Type &t) const {
    if (t.isScalar() || !t.layout || t.isShared || (!t.isPtr && t.elem == ir::Elem::I1))
      return 0;
    return (registersOf(t) * (t.isPtr ? 64 : ir::bitWidth(t.elem)) + 31) / 32;
  }

  /// Element after element, so that a result takes the place of an operand. What exchanges elements between threads
  /// needs both; a reduction exchanges what is left of them.
  static bool isInPlace(const Op &op) {
    return op.operands.empty() || op.results.empty() || op.results[0]->type.isScalar() ||
           op.has(ir::traits::Elementwise) || (op.has(ir::traits::Shape) && op.kind != OpKind::Convert) ||
           op.kind == OpKind::Load || op.kind == OpKind::Reduce;
  }

  /// Has no registers of its own: those of the operand under other coordinates, where one may stand for many copies, as
  /// the maximum of a row for its columns.
  static bool isCopies(const Op &op) {
    return op.kind == OpKind::Broadcast || op.kind == OpKind::ExpandDims || op.kind == OpKind::Reshape ||
           op.kind == OpKind::Permute;
  }

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

  /// Where `user` reads a value of block `home`: at the end of a loop or branch that contains it; where it delays its
  /// own result to, if it does; where copies that it makes are read.
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

  /// A branch alone is no loop: what stands after `if pid >= n: return` is code like that of a kernel without it.
  static bool isInLoop(const Block &b) {
    const Op *op = b.parent->op;
    while (op && op->kind == OpKind::If)
      op = op->parent->parent->op;
    return op;
  }

  void alive(const Value *v, size_t from, size_t to, const Block *home) {
    unsigned n = words(v->type);
    // widened again where it is used
    if (v->def && v->def->kind == OpKind::FpExt &&
        (isInLoop(*home) || (!out_.hasLoop && ir::bitWidth(v->def->operands[0]->type.elem) == 16)))
      n = std::min(n, words(v->def->operands[0]->type));
    if (!n || isMadeOfScalars_(v) || onlyUser(v) || (v->def && isCopies(*v->def)))
      return;
    to = lastUse(v, to, home);
    // Where the last user starts, its result may take the place.
    live_[from] += n;
    live_[to] -= n;
  }

  /// Where tiles have to be in registers as a whole. Between two cuts element-wise operations run register by register,
  /// whatever their order in the text; but what comes of loads outside of loops, where no other iteration has loads
  /// under way, is wanted at once. No load is moved over a barrier: none of a later iteration is under way there.
  bool isCut(const Op &op) const {
    return op.kind == OpKind::SharedBarrier ? true
           : op.kind == OpKind::Reduce      ? gpu::crossesThreads(m_, op)
                                            : !op.regions.empty() || !isInPlace(op);
  }

  void visit(const Block &b) {
    std::vector<size_t> cuts;
    for (const Op *op : b.ops)
      if (isCut(*op))
        cuts.push_back(spans_.at(op).begin);
    for (const Op *op : b.ops) {
      const Span &s = spans_.at(op);
      bool isOfLoad = !isInLoop(b) &&
                      (op->kind == OpKind::Load || std::any_of(op->operands.begin(), op->operands.end(),
                                                               [&](const Value *v) { return ofLoads_.contains(v); }));
      for (const Value *v : op->results) {
        if (isOfLoad)
          ofLoads_.insert(v);
        if (const Op *user = op->kind == OpKind::Load && !out_.hasLoop ? onlyUser(v) : nullptr;
            user && !(user->kind == OpKind::FpExt && !onlyUser(user->results[0])))
          out_.passing += words(v->type);
        if (!words(v->type) || onlyUser(v))
          continue;
        auto next = std::upper_bound(cuts.begin(), cuts.end(), s.begin);
        if (!isOfLoad && op->has(ir::traits::Elementwise) && (next == cuts.end() || *next >= lastUse(v, s.begin, &b)))
          continue;
        size_t from = op->regions.empty() ? s.begin : s.end; // what a loop leaves takes the place of what it carries
        alive(v, from, from, &b);
      }
      for (const ir::Region *r : op->regions) {
        for (const Value *v : r->block->args)
          alive(v, s.begin, s.end, r->block);
        visit(*r->block);
      }
      if (op->kind == OpKind::For)
        countIteration(*op->regions[0]->block, s);
    }
  }

  void countIteration(const Block &body, const Span &s) {
    Iteration it;
    it.begin = static_cast<std::ptrdiff_t>(s.begin);
    it.end = static_cast<std::ptrdiff_t>(s.end);
    const Op &loop = *(it.loop = body.parent->op);
    std::optional<int64_t> first = ir::constantInt(loop.operands[0]), last = ir::constantInt(loop.operands[1]),
                           step = ir::constantInt(loop.operands[2]);
    constexpr int64_t few = 16;
    it.isShort = first && last && step && *step > 0 && std::abs(*last - *first) <= few * *step;
    if (const RowsAgain again = tegula::gpu::rowsReadAgain(loop); again.bytes)
      out_.rows.push_back(
          {&loop, again,
           first && last && step && *step > 0 && *first < *last ? (*last - *first + *step - 1) / *step : 0});
    it.isUnrolled = !loop.rolled() && !it.isShort;
    it.divides = dividesCarried(body);
    if (!count(body, it))
      return;
    if (it.loadWords)
      out_.iterations.push_back(it);
  }

  /// False: it has cuts. Of an `if` the side that loads more.
  bool count(const Block &b, Iteration &it) const {
    for (const Op *op : b.ops) {
      if (op->kind == OpKind::If) {
        Iteration sides[2];
        if (!count(*op->regions[0]->block, sides[0]) || !count(*op->regions[1]->block, sides[1]))
          return false;
        const Iteration &more = sides[sides[1].loadWords > sides[0].loadWords];
        it.loadWords += more.loadWords;
        it.bytes += more.bytes;
        it.accesses += more.accesses;
        it.stores |= sides[0].stores || sides[1].stores;
        it.largestLoad = std::max(it.largestLoad, more.largestLoad);
        it.specials += more.specials;
        continue;
      }
      if (isCut(*op))
        return false;
      if (op->kind == OpKind::Load)
        it.load(words(op->result()->type),
                static_cast<uint64_t>(op->result()->type.isScalar()
                                          ? 0
                                          : op->result()->type.numel() * ir::byteWidth(op->result()->type.elem)));
      else if (op->kind == OpKind::Store)
        it.stores = true, ++it.accesses;
      else if (isSpecial(op->kind))
        it.specials += registersOf(op->result()->type);
    }
    return true;
  }

  /// Does an iteration divide by, or into, what it carries, and hand the quotient on? Welford's means do.
  static bool dividesCarried(const Block &body) {
    std::unordered_set<const Value *> carried(body.args.begin() + 1, body.args.end()), quotients;
    for (const Op *op : body.ops) {
      const auto isIn = [&](const auto &those) {
        return std::ranges::any_of(op->operands, [&](const Value *v) { return those.contains(v); });
      };
      if (op->kind == OpKind::Yield)
        return isIn(quotients);
      const bool divides = isIn(quotients) || (op->kind == OpKind::FDiv && isIn(carried)), isOfCarried = isIn(carried);
      for (const Value *v : op->results) {
        if (divides)
          quotients.insert(v);
        if (isOfCarried)
          carried.insert(v);
      }
    }
    return false;
  }

  static bool isSpecial(OpKind k) {
    constexpr OpKind those[] = {OpKind::Exp, OpKind::Exp2, OpKind::Log, OpKind::Log2, OpKind::FDiv,
                                OpKind::Sqrt, OpKind::Rsqrt, OpKind::Sin, OpKind::Cos, OpKind::Tanh};
    return std::find(std::begin(those), std::end(those), k) != std::end(those);
  }

  const ir::Module &m_;
  Pressure out_;
  size_t next_ = 0;
  std::unordered_map<const Op *, Span> spans_;
  Users users_;
  MadeOfScalars isMadeOfScalars_; // computed again where it is used
  std::unordered_set<const Value *> ofLoads_; // outside of loops
  std::vector<int64_t> live_;
};

} // namespace

Pressure pressureOf(const ir::Function &kernel, const ir::Module &gpu) {
  return PressureCounter(gpu).count(*kernel.block());
}

} // namespace tegula::nvidia
