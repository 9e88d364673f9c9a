// See ShortOffsets.h.
#include "gpu/loops/ShortOffsets.h"
#include "gpu/BlockEdit.h"
#include "ir/Builder.h"
#include "ir/Walk.h"
#include <optional>

namespace tegula::gpu {

using namespace ir;

namespace {

/// A tile of pointers as `base` plus 32-bit offsets of the tile's shape (null: no offsets).
struct Fixed {
  Value *base = nullptr, *offsets = nullptr;
};

std::optional<Fixed> apart(Builder &b, Value *v) {
  const Op *op = v->def;
  if (!op)
    return std::nullopt;
  if (op->kind == OpKind::Splat)
    return Fixed{op->operands[0], nullptr};
  if (op->kind == OpKind::AddPtr) {
    Value *by = op->operands[1];
    std::optional<Fixed> f = by->type.elem == Elem::I32 ? apart(b, op->operands[0]) : std::nullopt;
    if (f)
      f->offsets = f->offsets ? b.binary(OpKind::Add, f->offsets, by) : by;
    return f;
  }
  if (op->kind != OpKind::Broadcast && op->kind != OpKind::ExpandDims)
    return std::nullopt;
  std::optional<Fixed> f = apart(b, op->operands[0]);
  if (f && f->offsets) {
    const Type t = op->result()->type.withElem(Elem::I32);
    f->offsets = b.create(op->kind, {&f->offsets, 1}, {&t, 1}, op->attrs)->result();
  }
  return f;
}

} // namespace

bool shortenOffset(Module &m, Op &loop, Op &load) {
  Block &body = *loop.region(0);
  const Op *pointers = load.operands[0]->def;
  if (!pointers || pointers->kind != OpKind::AddPtr || pointers->parent != &body ||
      isInside(pointers->operands[0], loop))
    return false;
  const Op *moving = pointers->operands[1]->def;
  if (!moving || moving->kind != OpKind::Splat)
    return false;
  Block front, here;
  Builder b(m);
  b.setFolding(false);
  b.setLoc(load.loc), b.setInlinedAt(load.inlinedAt);
  b.setBlock(&front);
  const std::optional<Fixed> f = apart(b, pointers->operands[0]);
  if (!f || !f->offsets)
    return false;
  splice(front, *loop.parent, positionOf(*loop.parent, &loop));
  b.setBlock(&here);
  Value *tile = b.create1(OpKind::Splat, {b.addPtr(f->base, moving->operands[0])}, pointers->result()->type);
  load.operands[0] = b.addPtr(tile, f->offsets);
  splice(here, body, positionOf(body, &load));
  return true;
}

} // namespace tegula::gpu
