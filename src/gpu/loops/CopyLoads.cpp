// See CopyLoads.h.
#include "gpu/loops/CopyLoads.h"
#include "gpu/BlockEdit.h"
#include "gpu/Layouts.h"
#include "gpu/loops/LoopObstacles.h"
#include "gpu/shared/Tiles.h"
#include "ir/Builder.h"
#include <algorithm>
#include <map>
#include <utility>

namespace tegula::gpu {

using namespace ir;

namespace {

/// Replaces `op` by the operations that are built during this object's life.
class InPlaceOf {
public:
  InPlaceOf(Builder &b, BlockEditor &edit, const Op &op) : edit_(edit), op_(op) {
    b.setBlock(&here_);
    b.setLoc(op.loc);
    b.setInlinedAt(op.inlinedAt);
  }
  ~InPlaceOf() { edit_.replace(&op_, here_); }

private:
  Block here_;
  BlockEditor &edit_;
  const Op &op_;
};

bool isLoop(const Op &op) { return op.kind == OpKind::For || op.kind == OpKind::While; }
bool holdsLoop(const Op &op) {
  return isLoop(op) || std::any_of(op.regions.begin(), op.regions.end(), [](const Region *r) {
           return std::any_of(r->block->ops.begin(), r->block->ops.end(), [](const Op *o) { return holdsLoop(*o); });
         });
}

/// View operations that tiles in shared memory support.
bool isTileView(const Op &op) { return op.kind == OpKind::Permute || op.kind == OpKind::Reshape; }

/// The layout of the one tile that all users of a loaded tensor in the load's block can read instead of registers; 0 if
/// there is no such tile.
uint16_t wantedTile(Module &m, const BlockEditor &edit, const Value *v) {
  uint16_t all = 0;
  for (const Op *op : edit.users(v)) {
    uint16_t l = 0;
    if (op->kind == OpKind::ToShared)
      l = op->result()->type.layout;
    else if (isTileView(*op))
      if (uint16_t of = wantedTile(m, edit, op->result()))
        l = m.internLayout(operandLayout(*op, LinearLayout(m.layouts[of - 1u])));
    if (!l || (all && l != all))
      return 0;
    all = l;
  }
  return all;
}

/// Facts about the operations of a block from a position on.
struct Ahead {
  size_t write;   // the first operation that may write to global memory, or the terminator
  size_t loop;    // the first operation that is or contains a loop; the end if there is none
  int64_t commits; // groups of copies that are committed
};

void useTile(Module &m, BlockEditor &edit, const Value *tensor, Value *tile) {
  Builder b(m);
  b.setFolding(false);
  for (Op *user : edit.users(tensor)) {
    if (user->kind == OpKind::ToShared && user->result()->type.layout == tile->type.layout) {
      edit.replaceUses(user->result(), tile);
      edit.erase(user);
    } else if (user->kind == OpKind::Convert) {
      Value *loaded;
      {
        InPlaceOf place(b, edit, *user);
        loaded = b.create1(OpKind::SharedLoad, {tile}, user->result()->type);
      }
      edit.replaceUses(user->result(), loaded);
    } else if (isTileView(*user)) {
      const Type &t = user->result()->type;
      uint16_t l = m.internLayout(resultLayout(*user, LinearLayout(m.layoutOf(tile->type))));
      Block here;
      b.setBlock(&here);
      b.setLoc(user->loc);
      Value *view = b.create1(user->kind, {tile}, Type::shared(t.shape, t.elem, l), user->attrs);
      edit.insertBefore(user, here);
      useTile(m, edit, user->result(), view);
      if (edit.users(user->result()).empty())
        edit.erase(user);
    }
  }
}

/// Total bytes of the tiles that the block and its regions make, as if all were live together; and bytes of the largest
/// conversion.
struct Bytes {
  uint64_t tiles = 0, conversion = 0;
  void add(const Block &b) {
    for (const Op *op : b.ops) {
      if (op->kind == OpKind::SharedAlloc)
        tiles += slotBytes(op->result()->type) * static_cast<uint64_t>(op->slots());
      else if (op->kind == OpKind::ToShared)
        tiles += slotBytes(op->result()->type);
      else if (op->kind == OpKind::Convert && !op->result()->type.isPtr)
        conversion = std::max(conversion,
                              static_cast<uint64_t>(op->result()->type.numel()) * byteWidth(op->result()->type.elem));
      for (const Region *r : op->regions)
        add(*r->block);
    }
  }
};

/// Bytes of shared memory that tiles of fragments may take. Their memory must not reduce the number of blocks on a
/// multiprocessor by more than an eighth: as operands in registers the same bytes take all registers that a thread can
/// have. The kernel's other uses of shared memory come first.
uint64_t bytesForFragments(const Module &m, const TargetInfo &target, const Options &options) {
  constexpr uint64_t registers = 300, other = 16 * 1024;
  constexpr unsigned mostThreads = 1024;
  const uint64_t threads = uint64_t{options.numWarps} * target.lanes(), limit = target.sharedLimit();
  Bytes bytes;
  bytes.add(*m.kernel()->block());
  const uint64_t taken = bytes.tiles + bytes.conversion + other;
  return taken >= limit ? 0
                        : std::min(limit - taken, limit * threads * registers /
                                                      (uint64_t{target.registerLimit(mostThreads)} * mostThreads));
}

class LoadCopier {
public:
  LoadCopier(Module &m, const TargetInfo &target, const Options &options)
      : m_(m), target_(target), b_(m), bytesOfFragments_(bytesForFragments(m, target, options)) {
    b_.setFolding(false);
  }

  /// Rewrites the loads of a block. `inGroups`: a loop around it has copies by the threads (async_copy) in flight,
  /// which a wait of this pass would wait for as well.
  void block(Block &b, bool inGroups) {
    std::vector<Op *> tma, threads;
    for (Op *op : b.ops) {
      for (Region *r : op->regions)
        block(*r->block, isLoop(*op) ? hasCommits(*r->block) : inGroups);
      if (op->kind == OpKind::DescLoad)
        tma.push_back(op);
      else if (op->kind == OpKind::Load && op->result()->type.isTensor() && !inGroups)
        threads.push_back(op);
    }
    if (tma.empty() && threads.empty())
      return;
    look(b);
    BlockEditor edit(b);
    for (Op *load : tma)
      byTma(edit, load);
    byThreads(edit, threads);
  }

private:
  static bool hasCommits(const Block &b) {
    return std::any_of(b.ops.begin(), b.ops.end(), [](const Op *op) { return op->kind == OpKind::AsyncCommit; });
  }
  Value *makeTile(const Type &t, uint16_t layout) {
    return b_.create1(OpKind::SharedAlloc, {}, Type::shared(t.shape, t.elem, layout), {{attr::slots, 1}});
  }

  void look(const Block &b) {
    ahead_.resize(b.ops.size() + 1);
    ahead_.back() = {b.ops.size(), b.ops.size(), 0};
    for (size_t i = b.ops.size(); i-- > 0;) {
      const Op &op = *b.ops[i];
      Ahead &here = ahead_[i] = ahead_[i + 1];
      if (op.has(traits::Terminator) || writesGlobal(op))
        here.write = i;
      if (holdsLoop(op))
        here.loop = i;
      here.commits += op.kind == OpKind::AsyncCommit;
    }
  }

  /// The first operation that uses the tensor. With `throughViews`, to_shared and view operations do not count, but the
  /// uses of their results do.
  size_t firstUse(const BlockEditor &edit, const Value *v, bool throughViews) const {
    size_t first = ahead_.size();
    for (const Op *op : edit.users(v)) {
      bool passes = throughViews && (op->kind == OpKind::ToShared || isTileView(*op));
      first = std::min(first, passes ? firstUse(edit, op->result(), true) : edit.positionOf(op));
    }
    return first;
  }

  /// The last operation that reads the tile: a conversion.
  size_t lastUse(const BlockEditor &edit, const Value *v) const {
    size_t last = 0;
    for (const Op *op : edit.users(v))
      last = std::max(last, isTileView(*op) ? lastUse(edit, op->result()) : edit.positionOf(op));
    return last;
  }

  void byTma(BlockEditor &edit, Op *load) {
    const Type &t = load->result()->type;
    const uint16_t layout = m_.internLayout(target_.blockTile(*load));
    const bool isOperand = wantedTile(m_, edit, load->result()) == layout; // only dots read it
    Value *tile, *barrier;
    {
      InPlaceOf place(b_, edit, *load);
      tile = makeTile(t, layout);
      barrier = b_.create1(OpKind::BarrierAlloc, {}, Type::shared({1}, Elem::I64, 0),
                           {{attr::slots, 1}, {attr::arrivals, 1}});
      b_.create(OpKind::BarrierExpect, {&barrier, 1}, {}, {{attr::bytes, t.numel() * byteWidth(t.elem)}});
      std::vector<Value *> operands{tile, barrier};
      operands.insert(operands.end(), load->operands.begin(), load->operands.end());
      b_.create(OpKind::TmaCopy, operands, {}, load->attrsFor(OpKind::TmaCopy));
    }
    // Before the first use, and before any operation that may write to the memory that is read.
    const Op *at =
        edit.block().ops[std::min(firstUse(edit, load->result(), isOperand), ahead_[edit.positionOf(load) + 1].write)];
    Block here;
    b_.setBlock(&here);
    b_.setLoc(load->loc);
    Value *phase[] = {barrier, b_.constI32(0)};
    b_.create(OpKind::BarrierWait, phase, {});
    edit.insertBefore(at, here);
    useTile(m_, edit, load->result(), tile);
    if (edit.users(load->result()).empty())
      return;
    b_.setBlock(&here);
    b_.setLoc(load->loc);
    Value *loaded = b_.create1(OpKind::SharedLoad, {tile}, t);
    edit.insertBefore(at, here);
    edit.replaceUses(load->result(), loaded);
  }

  /// A load that the threads copy to a tile of this layout, bypassing registers.
  struct Copy {
    Op *load;
    uint16_t layout;
    size_t from, at; // positions: of the load; of its first use, or of an earlier write to memory
  };

  /// The layout of the tile; 0 if the load stays. It is the layout that asynchronous dots read. Or it follows the
  /// load's vectors, where all users are fragments of other dots that need elements loaded by other warps: those
  /// elements would cross shared memory anyway, and hold registers until then.
  uint16_t tileOfCopy(const BlockEditor &edit, const Op &load) {
    const Type &t = load.result()->type;
    const auto bytes = static_cast<uint64_t>(t.numel()) * byteWidth(t.elem);
    if (bytes > mostBytes || obstacleOfCopy(load))
      return 0;
    if (uint16_t layout = wantedTile(m_, edit, load.result()))
      return keepsVectors(LinearLayout(m_.layouts[layout - 1u]), m_.layoutOf(t), load.vec()) ? layout : 0;
    constexpr int64_t leastVector = 8;
    if (t.shape.rank() != 2 || load.vec() * byteWidth(t.elem) < leastVector || bytes > bytesOfFragments_ ||
        !feedsFragments(edit, load.result()) || lastUse(edit, load.result()) > ahead_[edit.positionOf(&load) + 1].loop)
      return 0;
    bytesOfFragments_ -= bytes;
    return m_.internLayout(plainTile(t, LinearLayout(m_.layoutOf(t)), load.vec()));
  }

  /// Are all users of the tensor conversions through shared memory to operands of dots, in its block?
  bool feedsFragments(const BlockEditor &edit, const Value *v) const {
    const std::vector<Op *> users = edit.users(v);
    return !users.empty() && std::ranges::all_of(users, [&](const Op *op) {
      return isTileView(*op) ? feedsFragments(edit, op->result())
                             : op->kind == OpKind::Convert && crossesShared(v->type, op->result()->type) &&
                                   feedsDots(edit, op->result());
    });
  }
  bool feedsDots(const BlockEditor &edit, const Value *v) const {
    const std::vector<Op *> users = edit.users(v);
    return !users.empty() && std::ranges::all_of(users, [&](const Op *op) {
      return isTileView(*op) ? feedsDots(edit, op->result()) : op->kind == OpKind::Dot && op->operands[2] != v;
    });
  }
  bool crossesShared(const Type &from, const Type &to) const {
    const LinearLayout &a = m_.layoutOf(from), &b = m_.layoutOf(to);
    const layout::ExchangeScope scope = layout::exchangeScope(a, b);
    return scope > layout::ExchangeScope::Warp ||
           (scope == layout::ExchangeScope::Warp &&
            layout::planConversion(a, b, 8 * byteWidth(from.elem), target_.conversions()).kind ==
                layout::ConversionKind::Shared);
  }

  void byThreads(BlockEditor &edit, std::span<Op *const> loads) {
    std::vector<Copy> copies;
    for (Op *load : loads) {
      const size_t from = edit.positionOf(load);
      const Ahead &behind = ahead_[from + 1];
      const size_t at = std::min(firstUse(edit, load->result(), true), behind.write);
      // A loop in between would lack the tile's memory.
      if (behind.loop < at)
        continue;
      if (uint16_t layout = tileOfCopy(edit, *load))
        copies.push_back({load, layout, from, at});
    }
    for (const Copy &c : copies) {
      // Groups that are committed in between may still be in flight.
      const auto later = std::ranges::count_if(copies, [&](const Copy &o) { return o.from > c.from && o.from < c.at; });
      wait(edit, edit.block().ops[c.at], ahead_[c.from + 1].commits - ahead_[c.at].commits + later,
           needsProxyFence(*c.load));
      Value *tile;
      {
        InPlaceOf place(b_, edit, *c.load);
        tile = makeTile(c.load->result()->type, c.layout);
        std::vector<Value *> operands(c.load->operands.begin(),
                                      c.load->operands.begin() +
                                          static_cast<long>(std::min<size_t>(2, c.load->operands.size())));
        operands.insert(operands.begin(), tile);
        b_.create(OpKind::AsyncCopy, operands, {}, c.load->attrsFor(OpKind::AsyncCopy));
        b_.create(OpKind::AsyncCommit, {}, {});
      }
      useTile(m_, edit, c.load->result(), tile);
    }
  }

  /// Before `at`, waits until at most `pending` groups of copies are in flight, and synchronizes all threads. One wait
  /// serves all copies that are first used there.
  void wait(BlockEditor &edit, Op *at, int64_t pending, bool fence) {
    if (auto found = waits_.find(at); found != waits_.end()) {
      auto [wait, barrier] = found->second;
      wait->set(attr::pending, std::min(pending, wait->pending()));
      barrier->set(attr::fence, fence || barrier->fence());
      return;
    }
    Block here;
    b_.setBlock(&here);
    b_.setLoc(at->loc);
    Op *wait = b_.create(OpKind::AsyncWait, {}, {}, {{attr::pending, pending}});
    Op *barrier = b_.create(OpKind::SharedBarrier, {}, {}, {{attr::fence, fence}});
    waits_[at] = {wait, barrier};
    edit.insertBefore(at, here);
  }

  static constexpr uint64_t mostBytes = 64 * 1024;
  Module &m_;
  const TargetInfo &target_;
  Builder b_;
  uint64_t bytesOfFragments_; // bytes that are left for tiles of fragments
  std::vector<Ahead> ahead_; // by position in the current block
  std::map<const Op *, std::pair<Op *, Op *>> waits_; // by the operation after them
};

} // namespace

void useTile(Module &m, Block &block, const Value *tensor, Value *tile) {
  BlockEditor edit(block);
  useTile(m, edit, tensor, tile);
}

void copyLoadsToTiles(Module &m, const TargetInfo &target, const Options &options) {
  LoadCopier(m, target, options).block(*m.kernel()->block(), false);
}

} // namespace tegula::gpu
