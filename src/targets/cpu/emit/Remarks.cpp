// Remarks that say what is not vectorized, and why. Those on accesses to memory one element at a time are in
// EmitMemory.cpp, where the reason is known.
#include "gpu/Remarks.h"
#include "targets/Diagnostics.h"
#include "targets/cpu/emit/ModuleState.h"
#include "targets/cpu/plan/Plan.h"

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;

static std::string_view nameOf(OpKind kind) {
  switch (kind) {
  case OpKind::AtomicRmw: case OpKind::AtomicCas: return "atomic operation";
  case OpKind::Asm: case OpKind::AsmEffect: return "inline assembly";
  case OpKind::SDiv: case OpKind::UDiv: return "division";
  case OpKind::SRem: case OpKind::URem: case OpKind::FRem: return "remainder";
  default: return ir::info(kind).name;
  }
}

void ModuleState::notVectorized(const Op &op, std::string_view why) {
  if (remarks && remarked.insert(&op).second)
    remarks->report(diag::elementByElement, gpu::userLocation(source, op), nameOf(op.kind), why);
}

void ModuleState::notVectorized(const Nest &n) {
  if (bitCount(n.space) == 0)
    return;
  const Root &root = n.roots[0];
  switch (root.kind) {
  case RootKind::Histogram:
    return notVectorized(*root.op, "elements of one vector may count in one place");
  case RootKind::Scan:
    return notVectorized(*root.op, "its function has a loop, a branch or a call");
  case RootKind::Atomic:
    if (root.op->kind == OpKind::AsmEffect)
      return notVectorized(*root.op, "its registers hold one element");
    return notVectorized(*root.op, "each element is an instruction of its own, as others may update the same memory");
  case RootKind::Update:
    return notVectorized(*root.op, "two elements of a vector may be of one address");
  default:
    return;
  }
}

} // namespace tegula::cpu
