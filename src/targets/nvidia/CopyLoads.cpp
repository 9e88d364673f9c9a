// See CopyLoads.h.
#include "targets/nvidia/CopyLoads.h"
#include "ir/Builder.h"
#include "targets/nvidia/BlockEdit.h"
#include "targets/nvidia/Descriptors.h"
#include "targets/nvidia/Layouts.h"
#include "targets/nvidia/LoopObstacles.h"
#include <algorithm>
#include <unordered_set>

namespace tegula::nvidia {

using namespace ir;

namespace {

/// Replaces `op` by what is built in between.
class InPlaceOf {
public:
  InPlaceOf(Builder &b, Block &to, const Op &op) : to_(to), op_(op) {
    b.setBlock(&here_);
    b.setLoc(op.loc);
    b.setInlinedAt(op.inlinedAt);
  }
  ~InPlaceOf() {
    size_t at = positionOf(to_, &op_);
    for (Op *o : here_.ops)
      o->parent = &to_;
    to_.ops.erase(to_.ops.begin() + static_cast<long>(at));
    to_.ops.insert(to_.ops.begin() + static_cast<long>(at), here_.ops.begin(), here_.ops.end());
  }

private:
  Block here_;
  Block &to_;
  const Op &op_;
};

bool isUsed(const Block &b, const Value *v);

bool uses(const Op &op, const Value *v) {
  return std::find(op.operands.begin(), op.operands.end(), v) != op.operands.end() ||
         std::any_of(op.regions.begin(), op.regions.end(), [&](const Region *r) { return isUsed(*r->block, v); });
}

bool isUsed(const Block &b, const Value *v) {
  return std::any_of(b.ops.begin(), b.ops.end(), [&](const Op *op) { return uses(*op, v); });
}

bool isLoop(const Op &op) { return op.kind == OpKind::For || op.kind == OpKind::While; }
bool holdsLoop(const Op &op) {
  return isLoop(op) || std::any_of(op.regions.begin(), op.regions.end(), [](const Region *r) {
    return std::any_of(r->block->ops.begin(), r->block->ops.end(), [](const Op *o) { return holdsLoop(*o); });
  });
}

/// The tile that all users of a loaded tensor want instead of registers, in the block of the load: its layout, 0 if there is no such tile.
uint16_t wantedTile(Module &m, const Block &b, const Value *v) {
  uint16_t all = 0;
  for (const Op *op : b.ops) {
    if (!uses(*op, v))
      continue;
    uint16_t l = 0;
    if (op->kind == OpKind::ToShared) {
      l = op->result()->type.layout;
    } else if (op->kind == OpKind::Permute || op->kind == OpKind::Reshape) {
      if (uint16_t of = wantedTile(m, b, op->result()))
        l = m.internLayout(operandLayout(*op, LinearLayout(m.layouts[of - 1u])));
    }
    if (!l || (all && l != all))
      return 0;
    all = l;
  }
  return all;
}

class LoadCopier {
public:
  explicit LoadCopier(Module &m) : m_(m), b_(m) { b_.setFolding(false); }

  /// `inGroups`: a loop around it has copies by cp.async in flight, for which a wait of ours would wait as well.
  void block(Block &b, bool inGroups) {
    std::vector<Op *> loads;
    for (Op *op : b.ops) {
      for (Region *r : op->regions)
        block(*r->block, isLoop(*op) ? hasCommits(*r->block) : inGroups);
      if (op->kind == OpKind::DescLoad || (op->kind == OpKind::Load && op->result()->type.isTensor() && !inGroups))
        loads.push_back(op);
    }
    for (Op *load : loads)
      load->kind == OpKind::DescLoad ? byTma(b, load) : byThreads(b, load);
  }

private:
  static bool hasCommits(const Block &b) {
    return std::any_of(b.ops.begin(), b.ops.end(), [](const Op *op) { return op->kind == OpKind::AsyncCommit; });
  }
  Value *makeTile(const Type &t, uint16_t layout) { return b_.create1(OpKind::SharedAlloc, {}, Type::shared(t.shape, t.elem, layout), {{"slots", int64_t{1}}}); }

  /// In front of what `uses` the copy first, or may write to the memory that is read, behind `from`.
  template <typename Uses> size_t placeOfWait(const Block &b, const Op *from, Uses uses) const {
    size_t i = positionOf(b, from) + 1;
    while (!uses(*b.ops[i]) && !writesGlobal(*b.ops[i]) && !b.ops[i]->has(traits::Terminator))
      ++i;
    return i;
  }

  void byTma(Block &b, Op *load) {
    const Type &t = load->result()->type;
    Value *tile, *barrier;
    const Op *copy;
    {
      InPlaceOf place(b_, b, *load);
      tile = makeTile(t, m_.internLayout(tmaTile(*load)));
      barrier = b_.create1(OpKind::BarrierAlloc, {}, Type::shared({1}, Elem::I64, 0), {{"slots", int64_t{1}}, {"arrivals", int64_t{1}}});
      b_.create(OpKind::BarrierExpect, {&barrier, 1}, {}, {{"bytes", t.numel() * byteWidth(t.elem)}});
      std::vector<Value *> operands{tile, barrier};
      operands.insert(operands.end(), load->operands.begin(), load->operands.end());
      copy = b_.create(OpKind::TmaCopy, operands, {}, load->attrs);
    }
    size_t at = placeOfWait(b, copy, [&](const Op &op) { return uses(op, load->result()); });
    Block here;
    b_.setBlock(&here);
    b_.setLoc(load->loc);
    Value *phase[] = {barrier, b_.constI32(0)};
    const Op *wait = b_.create(OpKind::BarrierWait, phase, {});
    splice(here, b, at);
    useTile(m_, b, load->result(), tile);
    if (!isUsed(b, load->result()))
      return;
    Value *loaded = b_.create1(OpKind::SharedLoad, {tile}, t);
    splice(here, b, positionOf(b, wait) + 1);
    replaceUses(b, load->result(), loaded);
  }

  /// Operands of wgmma: without a stay in registers.
  void byThreads(Block &b, Op *load) {
    const Type t = load->result()->type;
    uint16_t layout = obstacleOfCopy(*load) ? 0 : wantedTile(m_, b, load->result());
    if (!layout || t.numel() * byteWidth(t.elem) > mostBytes || !keepsVectors(LinearLayout(m_.layouts[layout - 1u]), m_.layoutOf(t), load->intAttr("vec", 1)))
      return;
    std::unordered_set<const Value *> same{load->result()};
    size_t from = positionOf(b, load), at = placeOfWait(b, load, [&](const Op &op) {
      bool isUser = std::any_of(same.begin(), same.end(), [&](const Value *v) { return uses(op, v); });
      if (!isUser || (op.kind != OpKind::ToShared && op.kind != OpKind::Permute && op.kind != OpKind::Reshape))
        return isUser;
      same.insert(op.result());
      return false;
    });
    // Loops in between would have to do without the tile's memory.
    auto begin = b.ops.begin() + static_cast<long>(from), end = b.ops.begin() + static_cast<long>(at);
    if (std::any_of(begin, end, [](const Op *op) { return holdsLoop(*op); }))
      return;
    int64_t pending = std::count_if(begin, end, [](const Op *op) { return op->kind == OpKind::AsyncCommit; });
    Block here;
    b_.setBlock(&here);
    b_.setLoc(load->loc);
    b_.create(OpKind::AsyncWait, {}, {}, {{"pending", pending}});
    b_.create(OpKind::SharedBarrier, {}, {}, {{"fence", int64_t{1}}});
    splice(here, b, at);
    Value *tile;
    {
      InPlaceOf place(b_, b, *load);
      tile = makeTile(t, layout);
      std::vector<Value *> operands(load->operands.begin(), load->operands.begin() + static_cast<long>(std::min<size_t>(2, load->operands.size())));
      operands.insert(operands.begin(), tile);
      b_.create(OpKind::AsyncCopy, operands, {}, load->attrs);
      b_.create(OpKind::AsyncCommit, {}, {});
    }
    useTile(m_, b, load->result(), tile);
  }

  static constexpr int64_t mostBytes = 64 * 1024;
  Module &m_;
  Builder b_;
};

} // namespace

void useTile(Module &m, Block &block, const Value *tensor, Value *tile) {
  Builder b(m);
  b.setFolding(false);
  for (Op *user : usersIn(block, tensor)) {
    if (user->kind == OpKind::ToShared && user->result()->type.layout == tile->type.layout) {
      replaceUses(block, user->result(), tile);
      std::erase(block.ops, user);
    } else if (user->kind == OpKind::Convert) {
      Value *loaded;
      {
        InPlaceOf place(b, block, *user);
        loaded = b.create1(OpKind::SharedLoad, {tile}, user->result()->type);
      }
      replaceUses(block, user->result(), loaded);
    } else if (user->kind == OpKind::Permute || user->kind == OpKind::Reshape) {
      const Type &t = user->result()->type;
      uint16_t l = m.internLayout(resultLayout(*user, LinearLayout(m.layoutOf(tile->type))));
      Block here;
      b.setBlock(&here);
      b.setLoc(user->loc);
      Value *view = b.create1(user->kind, {tile}, Type::shared(t.shape, t.elem, l), user->attrs);
      view->def->parent = &block;
      block.ops.insert(block.ops.begin() + static_cast<long>(positionOf(block, user)), view->def);
      useTile(m, block, user->result(), view);
      if (!isUsed(block, user->result()))
        std::erase(block.ops, user);
    }
  }
}

void copyLoadsToTiles(Module &m) { LoadCopier(m).block(*m.kernel()->block(), false); }

} // namespace tegula::nvidia
