// See JoinConverts.h.
#include "gpu/layouts/JoinConverts.h"
#include "gpu/BlockEdit.h"
#include "gpu/Layouts.h"
#include "ir/Builder.h"
#include "layout/Conversion.h"
#include <algorithm>
#include <optional>

namespace tegula::gpu {

using namespace ir;

namespace {

constexpr int64_t mostBytes = 16 << 10; // of both tiles: as many blocks share an SM as before

bool hasTiles(const Block &b) {
  return std::ranges::any_of(b.ops, [](const Op *op) {
    return op->kind == OpKind::SharedAlloc || std::ranges::any_of(op->regions, [](const Region *r) { return hasTiles(*r->block); });
  });
}

int64_t bytesOf(const Value *v) { return v->type.numel() * byteWidth(v->type.elem); }

class Joiner {
public:
  Joiner(Module &m, const TargetInfo &target) : m_(m), target_(target) {}

  void block(Block &b) {
    for (Op *op : b.ops)
      for (Region *r : op->regions)
        if (op->kind != OpKind::Reduce && op->kind != OpKind::Scan)
          block(*r->block);
    if (std::ranges::none_of(b.ops, [](const Op *op) { return op->kind == OpKind::Dot; }))
      return;
    BlockEditor edit(b);
    for (Op *op : b.ops)
      if (op->kind == OpKind::Dot)
        join(edit, *op);
  }

private:
  /// The tile that the conversion of a dot's operand goes through, offset -> coordinates. Nullopt: it needs no barrier, others want its result, or it is done in parts.
  std::optional<LinearLayout> tileOf(const BlockEditor &edit, const Op &dot, const Value *operand) const {
    const Op *convert = operand->def;
    if (!convert || convert->kind != OpKind::Convert || convert->parent != dot.parent || edit.users(operand).size() != 1)
      return std::nullopt;
    const Type &from = convert->operands[0]->type;
    layout::ConversionPlan p = layout::planConversion(LinearLayout(m_.layoutOf(from)), LinearLayout(m_.layoutOf(operand->type)), bitWidth(from.elem), target_.conversions());
    if (p.kind != layout::ConversionKind::Shared || p.scope != layout::ExchangeScope::Cta || p.shared.repetitions != 1)
      return std::nullopt;
    return p.shared.memory;
  }

  void join(BlockEditor &edit, Op &dot) {
    Value *operands[] = {dot.operands[0], dot.operands[1]};
    if (operands[0] == operands[1] || bytesOf(operands[0]) + bytesOf(operands[1]) > mostBytes)
      return;
    std::optional<LinearLayout> tiles[] = {tileOf(edit, dot, operands[0]), tileOf(edit, dot, operands[1])};
    if (!tiles[0] || !tiles[1])
      return;
    Builder b(m_);
    b.setFolding(false);
    Block loads;
    b.setLoc(dot.loc);
    b.setInlinedAt(dot.inlinedAt);
    b.setBlock(&loads);
    b.create(OpKind::SharedBarrier, {}, {}, {{attr::fence, false}});
    for (size_t i : {0, 1}) {
      Op &convert = *operands[i]->def;
      b.setLoc(convert.loc);
      b.setInlinedAt(convert.inlinedAt);
      const Type &t = operands[i]->type;
      Block store;
      b.setBlock(&store);
      Value *tile = b.create1(OpKind::SharedAlloc, {}, Type::shared(t.shape, t.elem, m_.internLayout(*tiles[i])), {{attr::slots, 1}});
      Value *stored[] = {tile, convert.operands[0]};
      b.create(OpKind::SharedStore, stored, {});
      edit.replace(&convert, store);
      b.setBlock(&loads);
      edit.replaceUses(operands[i], b.create1(OpKind::SharedLoad, {tile}, t));
    }
    edit.insertBefore(&dot, loads);
  }

  Module &m_;
  const TargetInfo &target_;
};

} // namespace

void joinConverts(Module &m, const TargetInfo &target) {
  if (!hasTiles(*m.kernel()->block()))
    Joiner(m, target).block(*m.kernel()->block());
}

} // namespace tegula::gpu
