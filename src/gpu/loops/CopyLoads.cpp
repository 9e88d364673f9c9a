// See CopyLoads.h.
#include "gpu/loops/CopyLoads.h"
#include "gpu/BlockEdit.h"
#include "gpu/Layouts.h"
#include "gpu/loops/LoopObstacles.h"
#include "ir/Builder.h"
#include <algorithm>
#include <map>
#include <utility>

namespace tegula::gpu {

using namespace ir;

namespace {

/// Replaces `op` by what is built in between.
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

bool isView(const Op &op) { return op.kind == OpKind::Permute || op.kind == OpKind::Reshape; }

/// The tile that all users of a loaded tensor want instead of registers, in the block of the load: its layout, 0 if there is no such tile.
uint16_t wantedTile(Module &m, const BlockEditor &edit, const Value *v) {
  uint16_t all = 0;
  for (const Op *op : edit.users(v)) {
    uint16_t l = 0;
    if (op->kind == OpKind::ToShared)
      l = op->result()->type.layout;
    else if (isView(*op))
      if (uint16_t of = wantedTile(m, edit, op->result()))
        l = m.internLayout(operandLayout(*op, LinearLayout(m.layouts[of - 1u])));
    if (!l || (all && l != all))
      return 0;
    all = l;
  }
  return all;
}

/// Of a block and a position in it, at its beginning: what comes from there on.
struct Ahead {
  size_t write;   // the first operation that may write to global memory, or the terminator
  size_t loop;    // the first that holds a loop; the end if there is none
  int64_t commits; // groups of copies
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
    } else if (isView(*user)) {
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

class LoadCopier {
public:
  LoadCopier(Module &m, const TargetInfo &target) : m_(m), target_(target), b_(m) { b_.setFolding(false); }

  /// `inGroups`: a loop around it has copies by the threads (async_copy) in flight, for which a wait of ours would wait as well.
  void block(Block &b, bool inGroups) {
    std::vector<Op *> loads;
    for (Op *op : b.ops) {
      for (Region *r : op->regions)
        block(*r->block, isLoop(*op) ? hasCommits(*r->block) : inGroups);
      if (op->kind == OpKind::DescLoad || (op->kind == OpKind::Load && op->result()->type.isTensor() && !inGroups))
        loads.push_back(op);
    }
    if (loads.empty())
      return;
    look(b);
    BlockEditor edit(b);
    for (Op *load : loads)
      load->kind == OpKind::DescLoad ? byTma(edit, load) : byThreads(edit, load);
  }

private:
  static bool hasCommits(const Block &b) {
    return std::any_of(b.ops.begin(), b.ops.end(), [](const Op *op) { return op->kind == OpKind::AsyncCommit; });
  }
  Value *makeTile(const Type &t, uint16_t layout) { return b_.create1(OpKind::SharedAlloc, {}, Type::shared(t.shape, t.elem, layout), {{attr::slots, 1}}); }

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

  /// The first operation that uses the tensor, other than (if `throughViews`) to bring it to a tile.
  size_t firstUse(const BlockEditor &edit, const Value *v, bool throughViews) const {
    size_t first = ahead_.size();
    for (const Op *op : edit.users(v)) {
      bool passes = throughViews && (op->kind == OpKind::ToShared || isView(*op));
      first = std::min(first, passes ? firstUse(edit, op->result(), true) : edit.positionOf(op));
    }
    return first;
  }

  void byTma(BlockEditor &edit, Op *load) {
    const Type &t = load->result()->type;
    const uint16_t layout = m_.internLayout(target_.blockTile(*load));
    const bool isOperand = wantedTile(m_, edit, load->result()) == layout; // nobody reads it before the dots do
    Value *tile, *barrier;
    {
      InPlaceOf place(b_, edit, *load);
      tile = makeTile(t, layout);
      barrier = b_.create1(OpKind::BarrierAlloc, {}, Type::shared({1}, Elem::I64, 0), {{attr::slots, 1}, {attr::arrivals, 1}});
      b_.create(OpKind::BarrierExpect, {&barrier, 1}, {}, {{attr::bytes, t.numel() * byteWidth(t.elem)}});
      std::vector<Value *> operands{tile, barrier};
      operands.insert(operands.end(), load->operands.begin(), load->operands.end());
      b_.create(OpKind::TmaCopy, operands, {}, load->attrsFor(OpKind::TmaCopy));
    }
    // In front of the first use, and of what may write to the memory that is read.
    const Op *at = edit.block().ops[std::min(firstUse(edit, load->result(), isOperand), ahead_[edit.positionOf(load) + 1].write)];
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

  /// Operands of asynchronous dots: without a stay in registers.
  void byThreads(BlockEditor &edit, Op *load) {
    const Type t = load->result()->type;
    uint16_t layout = obstacleOfCopy(*load) ? 0 : wantedTile(m_, edit, load->result());
    if (!layout || t.numel() * byteWidth(t.elem) > mostBytes || !keepsVectors(LinearLayout(m_.layouts[layout - 1u]), m_.layoutOf(t), load->vec()))
      return;
    const Ahead &behind = ahead_[edit.positionOf(load) + 1];
    size_t at = std::min(firstUse(edit, load->result(), true), behind.write);
    // Loops in between would have to do without the tile's memory.
    if (behind.loop < at)
      return;
    wait(edit, edit.block().ops[at], behind.commits - ahead_[at].commits, needsProxyFence(*load));
    Value *tile;
    {
      InPlaceOf place(b_, edit, *load);
      tile = makeTile(t, layout);
      std::vector<Value *> operands(load->operands.begin(), load->operands.begin() + static_cast<long>(std::min<size_t>(2, load->operands.size())));
      operands.insert(operands.begin(), tile);
      b_.create(OpKind::AsyncCopy, operands, {}, load->attrsFor(OpKind::AsyncCopy));
      b_.create(OpKind::AsyncCommit, {}, {});
    }
    useTile(m_, edit, load->result(), tile);
  }

  /// In front of `at` all threads meet when their copies are there but for `pending` groups. Once for all copies that are first used there.
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

  static constexpr int64_t mostBytes = 64 * 1024;
  Module &m_;
  const TargetInfo &target_;
  Builder b_;
  std::vector<Ahead> ahead_; // of the block at hand
  std::map<const Op *, std::pair<Op *, Op *>> waits_; // by the operation behind them
};

} // namespace

void useTile(Module &m, Block &block, const Value *tensor, Value *tile) {
  BlockEditor edit(block);
  useTile(m, edit, tensor, tile);
}

void copyLoadsToTiles(Module &m, const TargetInfo &target) { LoadCopier(m, target).block(*m.kernel()->block(), false); }

} // namespace tegula::gpu
