// See HoldRows.h.
#include "gpu/loops/HoldRows.h"
#include "gpu/BlockEdit.h"
#include "gpu/LoopSlice.h"
#include "gpu/loops/LoopObstacles.h"
#include "gpu/loops/RowsAgain.h"
#include "gpu/shared/ApartIterations.h"
#include "gpu/shared/Tiles.h"
#include "ir/Clone.h"
#include "ir/Walk.h"
#include "passes/ArgumentAccess.h"
#include "passes/RemoveDead.h"
#include <algorithm>
#include <ranges>
#include <unordered_map>

namespace tegula::gpu {

using namespace ir;

namespace {

/// Does the operation only load, compute or store? Then two loads of the same element give the same value unless the
/// kernel stores to it in between.
bool isPlain(const Op &op) {
  switch (op.kind) {
  case OpKind::Load:
    return !op.isVolatile() && op.cache() != ".cv";
  case OpKind::Store:
  case OpKind::For:
  case OpKind::If:
  case OpKind::Reduce:
  case OpKind::Scan:
  case OpKind::Yield:
  case OpKind::Return:
  case OpKind::Assume:
  case OpKind::Barrier: return true;
  default:
    return op.has(traits::Pure) && op.kind != OpKind::Dot;
  }
}

/// May the operation store to `memory` by another store than `own`?
bool mayStore(const Op &op, int memory, const Op *own) {
  if (op.kind == OpKind::Store && &op != own)
    if (const int to = memoryOf(op.operands[0]); to < 0 || to == memory)
      return true;
  return std::ranges::any_of(op.regions, [&](const Region *r) {
    return std::ranges::any_of(r->block->ops, [&](const Op *o) { return mayStore(*o, memory, own); });
  });
}

/// The store of a loop to the elements that `again` has loaded in the same iteration, if no other iteration accesses
/// them: rows that are changed in place. Null: there is none.
const Op *storeInPlace(const Op &again) {
  const Block &body = *again.parent;
  for (size_t i = positionOf(body, &again); i < body.ops.size(); ++i)
    if (const Op &op = *body.ops[i]; op.kind == OpKind::Store && op.operands[0] == again.operands[0])
      return iterationsMeet(*body.parent->op, 1) ? nullptr : &op;
  return nullptr;
}

/// A loop whose rows later loops of its block read again.
class RowHolder {
public:
  RowHolder(Module &m, Op &loop) : m_(m), b_(m), block_(*loop.parent), first_(loop) {}

  /// Finds the loads whose rows can be held. Returns the bytes that an iteration copies; 0: no row can be held.
  uint64_t find() {
    if (isReverse(first_) || std::ranges::any_of(first_.region(0)->ops, [](const Op *op) {
          return !op->results.empty() && writesGlobal(*op);
        }))
      return 0; // a branch that stores and has results
    uint64_t bytes = 0;
    for (LoadAgain &l : loadsReadAgain(first_)) {
      if (const Type &t = l.load->result()->type;
          obstacleOfCopyBeside(*l.load) || !t.layout || l.load->vec() * byteWidth(t.elem) < leastBytes)
        continue;
      const int memory = memoryOf(l.load->operands[0]);
      const auto first = block_.ops.begin() + static_cast<ptrdiff_t>(positionOf(block_, &first_)),
                 last = block_.ops.begin() +
                        static_cast<ptrdiff_t>(positionOf(block_, l.again.back()->parent->parent->op));
      const Op *const own = storeInPlace(*l.again.back());
      if (memory < 0 || std::any_of(first, last + 1, [&](const Op *op) { return mayStore(*op, memory, own); }))
        continue;
      bytes += slotBytes(tileOf(*l.load));
      loads_.push_back(std::move(l));
    }
    for (const LoadAgain &l : loads_)
      for (Op *again : l.again)
        if (Op *loop = again->parent->parent->op; std::ranges::find(loops_, loop) == loops_.end())
          loops_.push_back(loop);
    std::ranges::sort(loops_, {}, [&](Op *loop) { return positionOf(block_, loop); });
    return bytes;
  }

  void run(int64_t slots) {
    b_.setFolding(true);
    Block before;
    before.parent = block_.parent;
    b_.setBlock(&before);
    at(first_);
    Value *const begin = first_.operands[0], *const end = first_.operands[1], *const step = first_.operands[2];
    const std::optional<int64_t> from = constantInt(begin), to = constantInt(end), by = constantInt(step);
    const bool isAll = from && to && by && *from < *to && (*to - *from + *by - 1) / *by <= slots;
    if (isAll)
      slots = (*to - *from + *by - 1) / *by;
    for (LoadAgain &l : loads_) {
      Value *ring = b_.create1(OpKind::SharedAlloc, {}, tileOf(*l.load), {{attr::slots, slots}});
      rings_[l.load] = ring;
      for (Op *again : l.again)
        rings_[again] = ring;
    }
    Value *middle = end;
    if (!isAll) {
      Value *held = b_.binary(OpKind::Mul, step, b_.constInt(step->type, slots));
      middle = b_.select(b_.cmp(CmpPred::Sgt, b_.binary(OpKind::Sub, end, begin), held),
                         b_.binary(OpKind::Add, begin, held), end);
    }
    write(first_, middle, before, false);
    b_.create(OpKind::AsyncCommit, {}, {});
    b_.create(OpKind::AsyncWait, {}, {}, {{attr::pending, 0}, {attr::syncsWarp, true}});
    splice(before, block_, positionOf(block_, &first_));
    takeFirst(first_, middle, isAll);
    for (Op *loop : loops_) {
      if (writesGlobal(*loop) && !loop->find(attr::numStages))
        loop->set(attr::numStages, stagesOfStores);
      takeFirst(*loop, middle, isAll);
    }
  }

private:
  // of loops that load weights and store: no load moves over a store, and few blocks hide the latency (PrefetchLoads.h)
  static constexpr int64_t stagesOfStores = 3;
  static constexpr int64_t leastBytes = 8; // of a copy: shorter ones take more instructions than they save

  void at(const Op &op) {
    b_.setLoc(op.loc);
    b_.setInlinedAt(op.inlinedAt);
  }

  Type tileOf(const Op &load) {
    const Type &t = load.result()->type;
    return Type::shared(t.shape, t.elem,
                        m_.internLayout(plainTile(t, layout::LinearLayout(m_.layoutOf(t)), load.vec())));
  }

  /// Appends the first iterations of the loop, up to `middle`, to a block. `reads`: the held loads read the rings;
  /// else they become copies to the rings, and the loop does nothing else that is used.
  Op *write(const Op &loop, Value *middle, Block &to, bool reads) {
    Cloner cloner(m_);
    Value *const zero = b_.constI32(0);
    std::vector<std::pair<const Op *, Op *>> rows; // loads and their clones, replaced once the slot's number is known
    Op *made = cloner.copy(loop, to, [&](const Block &from, Block &body) {
      cloner.copyArgs(from, body);
      for (const Op *op : from.ops)
        if (rings_.contains(op))
          rows.push_back({op, cloner.copy(*op, body)});
        else if (reads || !writesGlobal(*op))
          cloner.copy(*op, body);
    });
    made->operands[1] = middle;
    Block &body = *made->region(0);
    Value *const slot = carry(m_, *made, zero, "slot");
    for (auto [of, row] : rows) {
      Block now;
      now.parent = body.parent;
      Block *const outer = b_.block();
      b_.setBlock(&now);
      b_.setFolding(false);
      at(*row);
      Value *const ring = rings_.at(of), *tile = b_.create1(OpKind::SharedSlot, {ring, slot}, ring->type);
      if (reads) {
        Value *v = b_.create1(OpKind::SharedLoad, {tile}, row->result()->type);
        if (row->operands.size() > 2 && !isZero(row->operands[2]))
          v = b_.create1(OpKind::Select, {row->operands[1], v, row->operands[2]}, v->type);
        replaceUses(body, row->result(), v);
      } else {
        std::vector<Value *> operands{tile};
        operands.insert(operands.end(), row->operands.begin(),
                        row->operands.begin() + static_cast<ptrdiff_t>(std::min<size_t>(2, row->operands.size())));
        b_.create(OpKind::AsyncCopy, operands, {}, row->attrsFor(OpKind::AsyncCopy));
        b_.create(OpKind::AsyncCommit, {}, {});
        replaceUses(body, row->result(), b_.poison(row->result()->type));
      }
      splice(now, body, positionOf(body, row));
      std::erase(body.ops, row);
      b_.setFolding(true);
      b_.setBlock(outer);
    }
    Block next;
    next.parent = body.parent;
    Block *const outer = b_.block();
    b_.setBlock(&next);
    carryOn(*made, slot, b_.binary(OpKind::Add, slot, b_.constI32(1)));
    splice(next, body, body.ops.size() - 1);
    b_.setBlock(outer);
    return made;
  }

  /// Peels the loop's first iterations, which read the rings. The loop keeps the others, if there are any.
  void takeFirst(Op &loop, Value *middle, bool isAll) {
    Block before;
    before.parent = block_.parent;
    b_.setBlock(&before);
    at(loop);
    const Op *made = write(loop, middle, before, true);
    splice(before, block_, positionOf(block_, &loop));
    if (!isAll) {
      loop.operands[0] = middle;
      std::ranges::copy(made->results | std::views::take(loop.results.size()), loop.operands.begin() + 3);
      return;
    }
    for (size_t i = 0; i < loop.results.size(); ++i)
      replaceUses(block_, loop.results[i], made->results[i], positionOf(block_, &loop));
    std::erase(block_.ops, &loop);
  }

  Module &m_;
  Builder b_;
  Block &block_;
  Op &first_;
  std::vector<LoadAgain> loads_;
  std::vector<Op *> loops_; // later loops with those loads, in order
  std::unordered_map<const Op *, Value *> rings_; // by load
};

/// Calls `fn` for loops, also in branches, until it returns true.
template <typename Fn> bool visit(Block &b, const Fn &fn) {
  for (size_t i = 0; i < b.ops.size(); ++i)
    if (Op *op = b.ops[i];
        op->kind == OpKind::For ? fn(*op) : op->kind == OpKind::If && std::ranges::any_of(op->regions, [&](Region *r) {
                                              return visit(*r->block, fn);
                                            }))
      return true;
  return false;
}

} // namespace

void holdRows(Module &m, const TargetInfo &target, const Options &options, LoopRows &rows) {
  Block &kernel = *m.kernel()->block();
  rows.bytes = 0;
  if (options.numCtas != rows.ctas || anyOp(kernel, [](const Op &op) { return !isPlain(op); }))
    return;
  visit(kernel, [&](Op &loop) {
    RowHolder holder(m, loop);
    const uint64_t bytes = holder.find();
    if (!bytes)
      return false;
    rows.bytes = static_cast<uint32_t>(bytes);
    if (!rows.blocks)
      return true;
    // reserved for each block; scratch of reductions; granularity of a block's memory
    constexpr uint64_t reserved = 1024, scratch = 1024, step = 128;
    const uint64_t room = (target.sharedLimit() + reserved) / rows.blocks / step * step - reserved - scratch;
    if (const auto slots = static_cast<int64_t>(room / bytes); slots) {
      holder.run(slots);
      removeDead(m);
    }
    return true;
  });
}

} // namespace tegula::gpu
