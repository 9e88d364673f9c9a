// See Descriptors.h.
#include "targets/nvidia/Descriptors.h"
#include "ir/Builder.h"
#include "passes/AxisFacts.h"
#include "targets/nvidia/BlockEdit.h"
#include "targets/nvidia/Layouts.h"
#include <algorithm>

namespace tegula::nvidia {

using namespace ir;

namespace {

/// A number the launch knows: a constant, an argument, the number of programs, or a product of the last two.
std::optional<TensorMap::Term> termOf(const Value *v, const Block &entry) {
  TensorMap::Term t;
  if (!v->def) {
    if (v->block != &entry)
      return std::nullopt;
    t.arg = static_cast<int32_t>(v->index);
    return t;
  }
  const Op &op = *v->def;
  switch (op.kind) {
  case OpKind::Const:
    t.value = std::get<int64_t>(*op.find("value"));
    return t;
  case OpKind::SExt:
    return termOf(op.operands[0], entry);
  case OpKind::NumPrograms:
    t.value = 1;
    t.gridAxis = static_cast<int32_t>(op.intAttr("axis"));
    return t;
  case OpKind::Mul: {
    std::optional<TensorMap::Term> a = termOf(op.operands[0], entry), b = termOf(op.operands[1], entry);
    if (!a || !b)
      return std::nullopt;
    if (a->arg >= 0 || a->gridAxis < 0)
      std::swap(a, b);
    // Number of programs times an argument or a constant.
    if (a->arg >= 0 || a->gridAxis < 0 || a->value != 1 || b->gridAxis >= 0)
      return std::nullopt;
    b->gridAxis = a->gridAxis;
    return b;
  }
  default:
    return std::nullopt;
  }
}

const Block &entryOf(const Op &op) {
  const Block *b = op.parent;
  while (b->parent->op)
    b = b->parent->op->parent;
  return *b;
}

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

void copyLoads(Module &m, Block &b) {
  Builder build(m);
  build.setFolding(false);
  std::vector<Op *> loads;
  for (Op *op : b.ops) {
    for (Region *r : op->regions)
      copyLoads(m, *r->block);
    if (op->kind == OpKind::DescLoad)
      loads.push_back(op);
  }
  for (Op *load : loads) {
    const Type &t = load->result()->type;
    Value *tile, *barrier;
    Type tileType = Type::shared(t.shape, t.elem, m.internLayout(tmaTile(t)));
    Op *wait;
    {
      InPlaceOf place(build, b, *load);
      tile = build.create1(OpKind::SharedAlloc, {}, tileType, {{"slots", int64_t{1}}});
      barrier = build.create1(OpKind::BarrierAlloc, {}, Type::shared({1}, Elem::I64, 0), {{"slots", int64_t{1}}, {"arrivals", int64_t{1}}});
      Value *one[] = {barrier};
      build.create(OpKind::BarrierExpect, one, {}, {{"bytes", t.numel() * byteWidth(t.elem)}});
      std::vector<Value *> operands{tile, barrier};
      operands.insert(operands.end(), load->operands.begin(), load->operands.end());
      build.create(OpKind::TmaCopy, operands, {}, {{"nan", load->intAttr("nan")}});
    }
    // The wait stands in front of the first use, or of what may write to the memory that is read.
    auto copied = b.ops.begin() + static_cast<long>(positionOf(b, barrier->def)) + 3;
    auto first = std::find_if(copied, b.ops.end(), [&](const Op *op) {
      return uses(*op, load->result()) || writesGlobal(*op) || op->has(traits::Terminator);
    });
    Block here;
    build.setBlock(&here);
    build.setLoc(load->loc);
    Value *phase[] = {barrier, build.constI32(0)};
    build.create(OpKind::BarrierWait, phase, {});
    wait = here.ops.back();
    for (Op *op : here.ops)
      op->parent = &b;
    b.ops.insert(first, here.ops.begin(), here.ops.end());
    here.ops.clear();
    useTile(m, b, load->result(), tile);
    if (!isUsed(b, load->result()))
      continue;
    Value *loaded = build.create1(OpKind::SharedLoad, {tile}, t);
    here.ops.clear();
    loaded->def->parent = &b;
    b.ops.insert(b.ops.begin() + static_cast<long>(positionOf(b, wait)) + 1, loaded->def);
    replaceUses(b, load->result(), loaded);
  }
}

} // namespace

bool keepDescriptor(const Op &op, const AxisFacts &facts, const void *target) {
  const auto &t = *static_cast<const NvTarget *>(target);
  if (op.kind != OpKind::DescLoad || t.sm != 90 || !t.archFeatures)
    return false;
  DescAccess a = descAccess(op);
  const Type &type = op.result()->type;
  const Block &entry = entryOf(op);
  int64_t bytes = byteWidth(type.elem);
  if (a.rank() != 2 || type.elem == Elem::I1 || a.block[1] * bytes < 16 || a.block[0] < 8 || (op.intAttr("nan") && bytes == 1))
    return false;
  if (a.base->def || a.base->block != &entry)
    return false;
  for (std::span<Value *const> list : {a.extents, a.strides})
    for (const Value *v : list)
      if (!termOf(v, entry))
        return false;
  return facts.of(a.offsets[1]).axes[0].divisibility * bytes % 16 == 0;
}

layout::LinearLayout tmaTile(const Type &t) {
  unsigned bytes = byteWidth(t.elem);
  return layout::sharedSwizzled(t.shape, layout::Extents{1, 0}, 8 * bytes, *layout::widestSwizzle(t.shape[1] * bytes));
}

TmaBoxes::TmaBoxes(const Type &tile) {
  unsigned bytes = byteWidth(tile.elem);
  auto span = static_cast<unsigned>(*layout::widestSwizzle(tile.shape[1] * bytes));
  rows = static_cast<unsigned>(std::min<int64_t>(256, tile.shape[0]));
  columns = span / bytes;
  swizzle = span == 16 ? uint8_t{0} : static_cast<uint8_t>(span);
}

TensorMap tensorMapOf(const Op &copy) {
  const Type &tile = copy.operands[0]->type;
  unsigned rank = tile.shape.rank();
  std::span<Value *const> all(copy.operands);
  const Block &entry = entryOf(copy);
  TensorMap m;
  TmaBoxes boxes(tile);
  m.elem = tile.elem;
  m.nanFill = copy.intAttr("nan") != 0;
  m.swizzle = boxes.swizzle;
  m.base = *termOf(all[2], entry);
  for (unsigned d = 0; d < rank; ++d) {
    m.extents.push_back(*termOf(all[3 + d], entry));
    m.strides.push_back(*termOf(all[3 + rank + d], entry));
  }
  m.box = {boxes.rows, boxes.columns};
  return m;
}

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
    } else if (user->kind == OpKind::Permute) {
      const Type &t = user->result()->type;
      uint16_t l = m.internLayout(resultLayout(*user, LinearLayout(m.layoutOf(tile->type))));
      Block here;
      b.setBlock(&here);
      b.setLoc(user->loc);
      Value *view = b.create1(OpKind::Permute, {tile}, Type::shared(t.shape, t.elem, l), user->attrs);
      view->def->parent = &block;
      block.ops.insert(block.ops.begin() + static_cast<long>(positionOf(block, user)), view->def);
      useTile(m, block, user->result(), view);
      if (!isUsed(block, user->result()))
        std::erase(block.ops, user);
    }
  }
}

void copyDescriptorLoads(Module &m) { copyLoads(m, *m.kernel()->block()); }

} // namespace tegula::nvidia
