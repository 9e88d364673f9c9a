// See ProducerPart.h.
#include "gpu/loops/ProducerPart.h"
#include "gpu/Layouts.h"
#include "ir/Clone.h"
#include "passes/ArgumentAccess.h"
#include <algorithm>

namespace tegula::gpu {

using namespace ir;

bool ProducerPart::need(const Value *v) {
  if (!v->def) {
    if (v->block == m_.kernel()->block())
      return true;
    const Op *loop = v->block->parent->op;
    if (!path_.count(loop))
      return false;
    if (!v->index || !carried_.insert(v).second)
      return true;
    return (tiles_ || v->type.isScalar()) && need(loop->operands[2 + v->index]) &&
           need(loop->region(0)->terminator()->operands[v->index - 1]);
  }
  const Op &op = *v->def;
  if (path_.count(&op) && op.kind == OpKind::If)
    return !carried_.insert(v).second || (v->type.isScalar() && std::ranges::all_of(op.regions, [&](const Region *r) {
                                            return need(r->block->terminator()->operands[v->index]);
                                          }));
  if (path_.count(&op))
    return need(op.region(0)->args[1 + v->index]);
  return ops_.count(&op) || needOp(op);
}

/// Adds control flow without dots, which the producer copies with its regions: scalar arithmetic and loads (the search
/// for the sequence that a program belongs to).
bool ProducerPart::needWhole(const Op &op) {
  if (op.kind != OpKind::If && op.kind != OpKind::For && op.kind != OpKind::While)
    return false;
  const auto isInside = [&](const Value *v) {
    const Block *b = v->def ? v->def->parent : v->block;
    while (b && b->parent->op && b->parent->op != &op)
      b = b->parent->op->parent;
    return b && b->parent->op == &op;
  };
  auto walk = [&](auto &&self, const Op &o) -> bool {
    if (!std::ranges::all_of(o.results, [](const Value *v) { return v->type.isScalar(); }))
      return false;
    const bool isControl = &o == &op || o.kind == OpKind::If || o.kind == OpKind::For || o.kind == OpKind::While;
    if (!isControl && !o.has(traits::Terminator) && !(o.regions.empty() && (o.has(traits::Pure) || takesLoad(o))))
      return false;
    return std::ranges::all_of(o.operands,
                               [&](const Value *v) { return v->type.isScalar() && (isInside(v) || need(v)); }) &&
           std::ranges::all_of(o.regions, [&](const Region *r) {
             return std::ranges::all_of(r->block->ops, [&](const Op *inside) { return self(self, *inside); });
           });
  };
  ops_.insert(&op);
  return walk(walk, op);
}

bool ProducerPart::needOp(const Op &op) {
  if (!op.regions.empty() && needWhole(op))
    return true;
  if (!op.regions.empty() || op.results.size() != 1 || !(op.has(traits::Pure) || takesLoad(op)))
    return false;
  const bool isTile = !op.result()->type.isScalar();
  if (op.kind == OpKind::Convert && tiles_) {
    ops_.insert(&op);
    return needIn(op.operands[0]);
  }
  if (isTile && (!tiles_ || !(op.kind == OpKind::Range || op.kind == OpKind::Const || op.kind == OpKind::Load ||
                              renames(op.kind) || isIndexArithmetic(op.kind))))
    return false;
  ops_.insert(&op);
  return std::all_of(op.operands.begin(), op.operands.end(),
                     [&](const Value *o) { return (tiles_ || o->type.isScalar()) && need(o); });
}

/// Adds `v` for rematerialization in another layout. False if it cannot be computed in any layout.
bool ProducerPart::needIn(const Value *v) {
  if (v->type.isScalar())
    return need(v);
  const Op *op = v->def;
  if (!op || !(op->kind == OpKind::Range || op->kind == OpKind::Const || op->kind == OpKind::Convert ||
               takesLoad(*op) || renames(op->kind) || isIndexArithmetic(op->kind)))
    return false;
  return !remade_.insert(op).second || std::ranges::all_of(op->operands, [&](const Value *o) { return needIn(o); });
}

/// Is it a load of indices for addresses (the first token of a sequence, pages of a cache) that a producer can do?
bool ProducerPart::takesLoad(const Op &op) const {
  constexpr int64_t most = 512;
  return op.kind == OpKind::Load && !op.isVolatile() &&
         (op.result()->type.isScalar() || (tiles_ && op.result()->type.numel() <= most));
}

/// The producer may have fewer warps than the kernel: its warps hold the missing warps' elements in more registers.
void ProducerPart::giveToWarps(Op &op) {
  for (Value *v : op.results) {
    if (!v->type.layout)
      continue;
    const LinearLayout l = m_.layoutOf(v->type);
    std::vector<uint64_t> registers(l.bases(layout::Dim::Register).begin(), l.bases(layout::Dim::Register).end()),
        warps(l.bases(layout::Dim::Warp).begin(), l.bases(layout::Dim::Warp).end());
    for (; uint64_t{1} << warps.size() > warps_; warps.pop_back())
      if (warps.back())
        registers.push_back(warps.back());
    const auto lanes = l.bases(layout::Dim::Lane);
    std::vector<uint64_t> all = registers;
    all.insert(all.end(), lanes.begin(), lanes.end());
    all.insert(all.end(), warps.begin(), warps.end());
    v->type.layout = m_.internLayout(LinearLayout({{layout::Dim::Register, static_cast<uint8_t>(registers.size())},
                                                   {layout::Dim::Lane, static_cast<uint8_t>(lanes.size())},
                                                   {layout::Dim::Warp, static_cast<uint8_t>(warps.size())}},
                                                  l.outs(), all));
  }
}

void ProducerPart::emit(Builder &b, const Op &op, Map &map) {
  if (op.kind == OpKind::Convert) {
    made_.clear();
    map[op.result()] = emitIn(b, op.operands[0], op.result()->type.layout, map);
    return;
  }
  Op *now;
  if (op.regions.empty()) {
    std::vector<Value *> operands;
    for (Value *v : op.operands)
      operands.push_back(map.count(v) ? map[v] : v);
    now = LoopSlice::clone(b, op, operands);
    giveToWarps(*now);
  } else {
    Cloner cloner(m_);
    for (const auto &[from, to] : map)
      cloner.map(from, to);
    now = cloner.copy(op, *b.block());
  }
  for (size_t i = 0; i < now->results.size(); ++i)
    map[op.results[i]] = now->results[i];
}

/// Emits `v` in `layout`, a layout of the kernel's warps, which giveToWarps then adapts.
ir::Value *ProducerPart::emitIn(Builder &b, const Value *v, uint16_t layout, const Map &map) {
  if (v->type.isScalar()) {
    auto it = map.find(v);
    return it == map.end() ? const_cast<Value *>(v) : it->second;
  }
  const Op &op = *v->def;
  if (op.kind == OpKind::Convert)
    return emitIn(b, op.operands[0], layout, map);
  if (auto it = made_.find({v, layout}); it != made_.end())
    return it->second;
  const uint16_t of = renames(op.kind) && op.kind != OpKind::Splat
                          ? m_.internLayout(operandLayout(op, LinearLayout(m_.layouts[layout - 1u])))
                          : layout;
  std::vector<Value *> operands;
  for (const Value *o : op.operands)
    operands.push_back(emitIn(b, o, of, map));
  Op *now = LoopSlice::clone(b, op, operands);
  now->result()->type.layout = layout;
  if (op.kind == OpKind::Load) // these hold for the old layout only
    std::erase_if(now->attrs,
                  [](const Attr &a) { return a.key == AttrKey(attr::vec) || a.key == AttrKey(attr::same); });
  giveToWarps(*now);
  return made_[{v, layout}] = now->result();
}

static void addLoadsOf(const Op &op, std::vector<int> &loaded) {
  if (op.kind == OpKind::Load)
    loaded.push_back(memoryOf(op.operands[0]));
  for (const Region *r : op.regions)
    for (const Op *inside : r->block->ops)
      addLoadsOf(*inside, loaded);
}

void ProducerPart::addLoaded(std::vector<int> &loaded) const {
  for (const auto *ops : {&ops_, &remade_})
    for (const Op *op : *ops)
      addLoadsOf(*op, loaded);
}

} // namespace tegula::gpu
