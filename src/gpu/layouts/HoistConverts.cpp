// See HoistConverts.h.
#include "gpu/layouts/HoistConverts.h"
#include "gpu/AxisParts.h"
#include "gpu/BlockEdit.h"
#include "gpu/Fragments.h"
#include "gpu/Layouts.h"
#include "ir/Builder.h"
#include "layout/Constructors.h"
#include <algorithm>
#include <bit>
#include <map>
#include <set>

namespace tegula::gpu {

using namespace ir;

namespace {

// a barrier of a block of a few warps, with the latency of shared memory before it and after it
constexpr double barrierClocks = 60;
constexpr unsigned mostPartBits = 5; // a thread may read that many (log2) parts of reductions at once
constexpr unsigned fewBits = 4;      // a thread may get that many registers (log2) of a value of which it had fewer

/// Instructions of an operation on bytes: for a word of four, where the bytes come from memory in words, and for a
/// single byte.
struct ByteWork {
  OpKind kind;
  double word, single;
};
constexpr ByteWork byteWork[] = {
    {OpKind::And, 1, 1}, {OpKind::Or, 1, 1},  {OpKind::Xor, 1, 1},  {OpKind::Shl, 2, 1},    {OpKind::LShr, 2, 1},
    {OpKind::AShr, 5, 2}, {OpKind::Add, 5, 1}, {OpKind::Sub, 5, 1}, {OpKind::SIToFp, 6, 3}, {OpKind::UIToFp, 6, 2},
};

/// Hoists conversions to one layout: finds the operations that compute their operands, and computes those in the other
/// layout.
class Hoist {
public:
  Hoist(Module &m, const TargetInfo &target, BlockEditor &edit, std::vector<Op *> converts)
      : m_(m), target_(target), edit_(edit), converts_(std::move(converts)), full_(convert_.result()->type.numel()) {}

  /// Returns false if the conversions stay where they are.
  bool run() {
    const Type &t = convert_.result()->type;
    if (!t.isTensor() || !std::ranges::all_of(converts_, [&](const Op *c) { return plan(c->operands[0], t.layout); }) ||
        !hasRead_ || !areOurs())
      return false;
    addWork();
    double moves = 0;
    for (const Op *c : converts_)
      moves += clocksOf(c->operands[0]->type, t.layout);
    if (after_ >= before_ + moves)
      return false;
    for (Op *c : converts_)
      edit_.replaceUses(c->result(), make(c->operands[0], t.layout, *c));
    std::ranges::for_each(meetBehind_, [&](Op *wait) { meetBehind(*wait); });
    return true;
  }

private:
  using Place = std::pair<const Value *, uint16_t>;

  LinearLayout layout(uint16_t id) const { return LinearLayout(m_.layouts[id - 1u]); }
  unsigned registerBits(uint16_t id) const { return m_.layouts[id - 1u].inBits(layout::Dim::Register); }

  double clocksOf(const Type &from, uint16_t to) const {
    layout::ConversionPlan p =
        layout::planConversion(layout(from.layout), layout(to), bits(from), target_.conversions());
    return p.cost.clocks + barrierClocks * p.cost.barriers;
  }
  static unsigned bits(const Type &t) { return t.isPtr ? 64 : std::max(8u, bitWidth(t.elem)); }
  struct Read {
    double clocks;
    bool isOfWords; // a thread reads at least four bytes at once
  };
  Read readOf(const Op &load, uint16_t to) const {
    const unsigned width = bits(load.result()->type);
    layout::SharedSide s = layout::planSharedAccess(layout(to), m_.layoutOf(load.operands[0]->type), width,
                                                    /*store=*/false, target_.conversions());
    return {static_cast<double>(s.accesses.size()) * (1 + s.wavefronts),
            s.move != layout::SharedMove::Plain || s.elements * width >= 32};
  }
  /// The wait before a read of data that the same warp has copied, without a barrier (PipelinedLoop.cpp,
  /// dropFirstBarrier). Null where threads synchronize.
  Op *waitOfOwn(const Op &load) const {
    const std::vector<Op *> &ops = edit_.block().ops;
    for (auto at = std::find(ops.begin(), ops.end(), &load); at != ops.begin();) {
      Op *op = *--at;
      if (op->kind == OpKind::SharedBarrier)
        return nullptr;
      if (op->kind == OpKind::AsyncWait)
        return op->syncsWarp() ? op : nullptr;
    }
    return nullptr;
  }
  /// Adds a barrier after the wait, so that the copies of each thread are visible to all threads.
  void meetBehind(Op &wait) {
    Block here;
    here.parent = edit_.block().parent;
    Builder b(m_);
    b.setBlock(&here);
    b.setLoc(wait.loc);
    b.setInlinedAt(wait.inlinedAt);
    b.create(OpKind::SharedBarrier, {}, {}, {{attr::fence, false}});
    const std::vector<Op *> &ops = edit_.block().ops;
    edit_.insertBefore(*std::next(std::find(ops.begin(), ops.end(), &wait)), here);
    wait.set(attr::syncsWarp, false);
  }
  /// Adds the cost of work on bytes, which is higher where they are read one by one.
  void addWork() {
    for (const Place &p : seen_) {
      const Op *op = p.first->def;
      if (!op || !isHere(p.first) || isRow(p.first) || op->operands.empty() ||
          bitWidth(op->operands[0]->type.elem) != 8)
        continue;
      const auto row = std::ranges::find(byteWork, op->kind, &ByteWork::kind);
      if (row == std::end(byteWork))
        continue;
      auto clocks = [&](uint16_t id, bool inWords) {
        return (1u << layout(id).inBits(layout::Dim::Register)) * (inWords ? row->word / 4 : row->single);
      };
      before_ += clocks(p.first->type.layout, wordsBefore_);
      after_ += clocks(p.second, wordsAfter_);
    }
  }

  /// A reduction across warps in two steps: within each warp, and over the parts of all warps, which every thread that
  /// needs the result reads.
  struct Halves {
    AxisParts parts;
    Type part, read; // what the warps have, and what threads read of it: all parts of a result in one thread
  };
  /// Nullopt if no warps exchange parts, or if the result cannot have layout `to`.
  std::optional<Halves> halvesOf(const Op &op, uint16_t to) {
    if (op.kind != OpKind::Reduce || op.operands.size() != 1 || !op.result()->type.isTensor())
      return std::nullopt;
    const Type &t = op.operands[0]->type;
    const auto axis = static_cast<unsigned>(op.axis());
    const LinearLayout l = m_.layoutOf(t);
    std::optional<AxisParts> parts = partsOf(l, t.shape, axis, {layout::Dim::Register, layout::Dim::Lane});
    if (!parts)
      return std::nullopt;
    Shape shape = t.shape;
    shape.set(axis, parts->joined[parts->own == axis ? axis + 1 : axis]);
    Halves out{std::move(*parts), t.withShape(shape), t.withShape(shape)};
    out.part.layout = out.parts.isOwn ? m_.internLayout(layout::slice(splitAxis(l, out.parts), out.parts.own))
                                      : op.operands[0]->type.layout;
    std::vector<int64_t> order; // the axis of the parts, which gather() puts first, to its place
    for (unsigned i = 1; i < shape.rank(); ++i)
      order.push_back(i);
    order.insert(order.begin() + axis, 0);
    const LinearLayout read = layout::permute(layout::gather(layout(to), shape[axis]), order);
    if (layout::slice(read, axis) != layout(to))
      return std::nullopt;
    out.read.layout = m_.internLayout(read);
    return out;
  }
  /// The cost of the exchange between warps in the reduction itself: stores of the parts, a barrier, and loads of all
  /// parts by every thread that holds a result.
  double exchangeClocks(const Op &reduce, const Halves &h) const {
    const LinearLayout result = layout(reduce.result()->type.layout);
    const double results = 1u << result.inBits(layout::Dim::Register),
                 bytes = double(h.part.shape[static_cast<unsigned>(reduce.axis())]) * bits(h.part) / 8;
    const double lanes = 1u << (result.inBits(layout::Dim::Lane) -
                                static_cast<unsigned>(std::popcount(result.freeMask(layout::Dim::Lane))));
    return results * (2 + std::max(1.0, bytes / 16) + std::max(1.0, lanes * bytes / 128)) + barrierClocks;
  }

  static bool isPlain(const Op &op) { return op.has(traits::Pure) && op.regions.empty() && op.results.size() == 1; }
  /// The layouts of the operands if the result has layout `to`; 0: no tensor. Nullopt: elements would have to move.
  std::optional<std::vector<uint16_t>> wanted(const Op &op, uint16_t to) {
    std::vector<uint16_t> ids(op.operands.size());
    if (!isPlain(op))
      return std::nullopt;
    if (op.has(traits::Elementwise)) {
      for (size_t i = 0; i < ids.size(); ++i)
        ids[i] = op.operands[i]->type.isTensor() ? to : 0;
      return ids;
    }
    if (op.kind == OpKind::Const || op.kind == OpKind::Range || op.kind == OpKind::Splat)
      return ids;
    if (op.kind == OpKind::Join) {
      if (layout::splittable(layout(to)) != layout(to))
        return std::nullopt;
      std::fill(ids.begin(), ids.end(), m_.internLayout(layout::slice(layout(to), op.operands[0]->type.shape.rank())));
      return ids;
    }
    if (renames(op.kind) && op.operands[0]->type.isTensor()) {
      ids[0] = m_.internLayout(operandLayout(op, layout(to)));
      return ids;
    }
    return std::nullopt;
  }

  bool isHere(const Value *v) const { return v->def && v->def->parent == &edit_.block(); }

  /// Adds the costs of `v` in layout `to` and in its present layout. False if `v` cannot be computed in layout `to`
  /// without moving as many elements.
  bool plan(const Value *v, uint16_t to) {
    if (!v->type.isTensor() || v->type.layout == to || !seen_.insert({v, to}).second)
      return true;
    if (seen_.size() > 64)
      return false;
    if (isHere(v) && v->def->kind == OpKind::SharedLoad &&
        (isRow(v) || converts_.size() > 1 || registerBits(to) <= std::max(registerBits(v->type.layout), fewBits))) {
      const Read now = readOf(*v->def, v->type.layout), then = readOf(*v->def, to);
      before_ += now.clocks;
      after_ += then.clocks;
      if (Op *wait = waitOfOwn(*v->def);
          wait && layout::exchangeScope(layout(v->type.layout), layout(to)) > layout::ExchangeScope::Warp &&
          meetBehind_.insert(wait).second)
        after_ += barrierClocks;
      if (!isRow(v) || isTile(v)) {
        hasRead_ = true;
        wordsBefore_ &= now.isOfWords;
        wordsAfter_ &= then.isOfWords;
      }
      return true;
    }
    if (isNarrowLoad(v)) {
      leaves_.insert({v, to});
      after_ += clocksOf(v->type, to);
      return hasRead_ = true;
    }
    if (isHere(v) && v->def->kind == OpKind::Reduce && !isRow(v))
      if (std::optional<Halves> h = halvesOf(*v->def, to); h && registerBits(h->read.layout) <= mostPartBits) {
        before_ += exchangeClocks(*v->def, *h);
        after_ += clocksOf(h->part, h->read.layout);
        hasRead_ = true;
        return true;
      }
    if (isHere(v) && v->def->kind == OpKind::Convert && isRow(v)) {
      before_ += clocksOf(v->def->operands[0]->type, v->type.layout);
      return plan(v->def->operands[0], to);
    }
    if (v->def)
      if (std::optional<std::vector<uint16_t>> ids = wanted(*v->def, to)) {
        // The same work on more registers, for elements that other threads hold, too.
        if (v->def->has(traits::Elementwise) && registerBits(to) > registerBits(v->type.layout))
          after_ += double(1u << registerBits(to)) - double(1u << registerBits(v->type.layout));
        // Loop invariants are computed in the loop again; LLVM hoists them.
        bool all = true;
        for (size_t i = 0; all && i < ids->size(); ++i)
          all = !(*ids)[i] || plan(v->def->operands[i], (*ids)[i]);
        return all || isMoved(v, to);
      }
    return isMoved(v, to);
  }
  bool isRow(const Value *v) const { return v->type.numel() * 8 <= full_; }
  /// Is `v` a loaded tile whose elements have at most half the bits of the values computed from them? Then the loaded
  /// tile is converted instead.
  bool isNarrowLoad(const Value *v) const {
    return isHere(v) && v->def->kind == OpKind::Load && !isRow(v) &&
           bits(v->type) * 2 <= bits(convert_.operands[0]->type);
  }
  /// Words of which each element is a part of one, too (NarrowLoads.h).
  static bool isTile(const Value *v) {
    return std::ranges::count_if(v->type.shape, [](int64_t n) { return n > 1; }) > 1;
  }
  /// Rows and columns may be converted separately.
  bool isMoved(const Value *v, uint16_t to) {
    if (!isRow(v))
      return false;
    leaves_.insert({v, to});
    after_ += clocksOf(v->type, to);
    hasRead_ = true; // a row that is broadcast to a tile is broadcast in the required layout
    return true;
  }

  /// Is every value of the size of the result computed only for these conversions?
  bool areOurs() const {
    return std::all_of(seen_.begin(), seen_.end(), [&](const Place &p) {
      if (p.first->type.numel() * 2 < full_ || !isHere(p.first) || p.first->def->kind == OpKind::Const ||
          leaves_.count(p))
        return true;
      std::vector<Op *> users = edit_.users(p.first);
      return std::all_of(users.begin(), users.end(), [&](const Op *u) {
        return std::ranges::find(converts_, u) != converts_.end() ||
               (u->results.size() == 1 &&
                std::any_of(seen_.begin(), seen_.end(), [&](const Place &q) { return q.first == u->result(); }));
      });
    });
  }

  /// Makes `v` in layout `to`, before `user` or next to the operation that computes it now.
  Value *make(Value *v, uint16_t to, const Op &user) {
    if (!v->type.isTensor() || v->type.layout == to)
      return v;
    if (auto it = made_.find({v, to}); it != made_.end())
      return it->second;
    Type t = v->type;
    t.layout = to;
    Block here;
    here.parent = edit_.block().parent;
    Builder b(m_);
    b.setFolding(false);
    b.setBlock(&here);
    Value *now = nullptr;
    if (leaves_.count({v, to}) && isNarrowLoad(v)) {
      b.setLoc(convert_.loc);
      now = b.create1(OpKind::Convert, {v}, t);
      edit_.insertBefore(&firstUser(v), here);
      return made_[{v, to}] = now;
    }
    if (leaves_.count({v, to})) {
      b.setLoc(user.loc);
      now = b.create1(OpKind::Convert, {v}, t);
      edit_.insertBefore(&user, here);
      return now; // another user may come before this one
    }
    Op &op = *v->def;
    if (op.kind == OpKind::Convert)
      return make(op.operands[0], to, user);
    if (op.kind == OpKind::Reduce) {
      b.setLoc(op.loc);
      b.setInlinedAt(op.inlinedAt);
      now = reduceInHalves(b, op, *halvesOf(op, to));
      now->name = v->name;
      edit_.insertBefore(&op, here);
      return made_[{v, to}] = now;
    }
    bool isRead = op.kind == OpKind::SharedLoad;
    std::vector<uint16_t> ids = isRead ? std::vector<uint16_t>(1) : *wanted(op, to);
    std::vector<Value *> operands;
    for (size_t i = 0; i < ids.size(); ++i)
      operands.push_back(ids[i] ? make(op.operands[i], ids[i], isHere(v) ? op : user) : op.operands[i]);
    b.setLoc(op.loc);
    b.setInlinedAt(op.inlinedAt);
    now = b.create(op.kind, operands, {&t, 1}, op.attrs)->result();
    now->name = v->name;
    edit_.insertBefore(isHere(v) && !isMadeLate(op) ? &op : isHere(v) ? &convert_ : &user, here);
    if (isHere(v))
      made_[{v, to}] = now;
    return now;
  }

  /// The registers of the converted fragment may still be in use by an asynchronous dot. So the last operation before
  /// the conversion takes the conversion's place, after the wait. Reads of tiles only for that operation do so, too,
  /// which keeps register use lowest while the dot runs. Words are read before the wait: a fragment takes twice as many
  /// reads of them, for which the tensor cores would have to wait.
  bool isMadeLate(const Op &op) const {
    const Value *last = convert_.operands[0];
    if (converts_.size() > 1 || !last->def || !isFragment(edit_.block(), convert_.result()))
      return false;
    if (op.kind != OpKind::SharedLoad)
      return op.result() == last;
    if (byteWidth(op.result()->type.elem) == 4)
      return false;
    const std::vector<Op *> &ops = edit_.block().ops, users = edit_.users(op.result());
    const auto from = std::find(ops.begin(), ops.end(), &op);
    return (op.result() == last || (users.size() == 1 && users[0] == last->def)) &&
           std::none_of(from, std::find(from, ops.end(), &convert_),
                        [](const Op *o) { return o->kind == OpKind::SharedBarrier; });
  }

  /// The first user of `v` among the operations that move: loads in between start before threads synchronize.
  const Op &firstUser(const Value *v) const {
    const std::vector<Op *> &ops = edit_.block().ops;
    return **std::find_if(ops.begin(), ops.end(), [&](const Op *op) {
      bool moves = op == &convert_ || std::ranges::any_of(seen_, [&](const Place &p) { return p.first->def == op; });
      return moves && std::ranges::find(op->operands, v) != op->operands.end();
    });
  }

  Value *reduceInHalves(Builder &b, const Op &op, const Halves &h) {
    Value *x = op.operands[0];
    if (h.parts.isOwn)
      x = reduceAlong(b, m_, op, splitAxis(b, m_, x, h.parts), h.parts.own);
    return reduceAlong(b, m_, op, b.create1(OpKind::Convert, {x}, h.read), static_cast<unsigned>(op.axis()));
  }

  Module &m_;
  const TargetInfo &target_;
  BlockEditor &edit_;
  std::vector<Op *> converts_; // several: they convert parts of the same tile, whose registers they take anyway
  Op &convert_ = *converts_.front();
  int64_t full_; // elements of a result
  bool hasRead_ = false, wordsBefore_ = true, wordsAfter_ = true;
  double before_ = 0, after_ = 0; // clocks of a warp
  std::set<Place> seen_, leaves_;
  std::set<Op *> meetBehind_; // waits after which threads must synchronize
  std::map<Place, Value *> made_;
};

/// The tiles read in its block that a conversion's operand is computed from element by element.
std::set<const Op *> tilesOf(const Op &convert) {
  std::set<const Op *> tiles, seen;
  auto walk = [&](auto &&self, const Value *v) -> void {
    const Op *op = v->def;
    if (!op || op->parent != convert.parent || v->type.numel() != convert.result()->type.numel() ||
        !seen.insert(op).second)
      return;
    if (op->kind == OpKind::SharedLoad || op->kind == OpKind::Broadcast)
      tiles.insert(op);
    else if (op->has(traits::Elementwise) || renames(op->kind))
      std::ranges::for_each(op->operands, [&](const Value *o) { self(self, o); });
  };
  walk(walk, convert.operands[0]);
  return tiles;
}

/// The conversion and those after it that give the same tiles' elements to the same threads, as all parts of a float32
/// that products are computed from do.
std::vector<Op *> withOtherParts(Op &convert, const std::vector<Op *> &converts) {
  std::vector<Op *> out{&convert};
  const std::set<const Op *> tiles = tilesOf(convert);
  for (auto at = std::next(std::ranges::find(converts, &convert)); at != converts.end(); ++at)
    if ((*at)->result()->type.layout == convert.result()->type.layout &&
        (*at)->result()->type.shape == convert.result()->type.shape && !tiles.empty() && tilesOf(**at) == tiles)
      out.push_back(*at);
  return out;
}

void block(Module &m, const TargetInfo &target, Block &b) {
  for (Op *op : b.ops)
    for (Region *r : op->regions)
      if (op->kind != OpKind::Reduce && op->kind != OpKind::Scan)
        block(m, target, *r->block);
  std::vector<Op *> converts;
  std::copy_if(b.ops.begin(), b.ops.end(), std::back_inserter(converts),
               [](const Op *op) { return op->kind == OpKind::Convert; });
  if (converts.empty())
    return;
  BlockEditor edit(b);
  std::set<const Op *> done;
  for (Op *op : converts) {
    if (done.count(op) || Hoist(m, target, edit, {op}).run())
      continue;
    if (std::vector<Op *> parts = withOtherParts(*op, converts);
        parts.size() > 1 && Hoist(m, target, edit, parts).run())
      done.insert(parts.begin(), parts.end());
  }
}

} // namespace

void hoistConverts(Module &m, const TargetInfo &target) { block(m, target, *m.kernel()->block()); }

} // namespace tegula::gpu
