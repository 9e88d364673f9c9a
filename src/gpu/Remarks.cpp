// The reasons in terms of the language: addresses, masks, divisibility.
#include "gpu/Remarks.h"
#include "gpu/Diagnostics.h"

namespace tegula::gpu {

Loc userLocation(const ir::Module &m, const ir::Op &op) {
  auto inLibrary = [](Loc l) { return l.file && l.file->name().starts_with("tegula/lib/"); };
  Loc l = op.loc;
  for (int32_t site = op.inlinedAt; inLibrary(l) && site >= 0; site = m.inlineSites[static_cast<size_t>(site)].parent)
    l = m.inlineSites[static_cast<size_t>(site)].call;
  return l;
}

/// The first of contiguity, mask and alignment that allows no more than `vec` elements.
static std::string reason(const AxisFact &pointer, const AxisFact *mask, int64_t vec, int64_t bytes) {
  if (pointer.contiguity <= vec)
    return pointer.contiguity == 1 ? std::string("its addresses are not known to be consecutive")
                                   : "its addresses are known to be consecutive in groups of " +
                                         std::to_string(pointer.contiguity) + " only";
  if (mask && mask->constancy <= vec)
    return (mask->constancy == 1
                ? std::string("its mask may differ from element to element")
                : "its mask is known to be equal in groups of " + std::to_string(mask->constancy) + " only") +
           "; a bound that is divisible by 16 (or tl.multiple_of) helps";
  return "its addresses are known to be multiples of " + std::to_string(std::max(pointer.divisibility, bytes)) +
         " bytes only; strides and offsets divisible by 16 (or tl.multiple_of) help";
}

void remarkAccess(const ir::Op &op, const AxisFacts &facts, unsigned axis, int64_t vec, int64_t wanted,
                  DiagEngine &diag) {
  if (vec >= wanted)
    return;
  const ir::Value *pointer = op.operands[0];
  bool isLoad = op.kind == ir::OpKind::Load;
  size_t maskAt = isLoad ? 1 : 2;
  const ir::Value *mask = op.operands.size() > maskAt ? op.operands[maskAt] : nullptr;
  int64_t bytes = byteWidth(pointer->type.elem);
  diag.report(diag::notVectorized, op.loc,
              isLoad                         ? "load"
              : op.kind == ir::OpKind::Store ? "store"
                                             : "atomic",
              vec, wanted, bytes, reason(facts.of(pointer, axis), mask ? &facts.of(mask, axis) : nullptr, vec, bytes));
}

} // namespace tegula::gpu
