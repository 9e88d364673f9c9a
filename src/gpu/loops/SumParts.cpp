// See SumParts.h.
#include "gpu/loops/SumParts.h"
#include "gpu/BlockEdit.h"
#include "gpu/Dots.h"
#include "ir/Walk.h"
#include <algorithm>

namespace tegula::gpu {

using namespace ir;

namespace {

/// Registers of a part's products: those of an instruction of 128 columns. Narrower instructions read more bytes of
/// operands from shared memory per product.
constexpr int64_t partRegisters = 64;

bool isSum(const Op &op) { return op.kind == OpKind::FAdd || op.kind == OpKind::Add; }

/// Is the operation lowered register by register, with results of 32 bits?
bool isStep(const Op &op) {
  return isSum(op) || op.kind == OpKind::FMul || op.kind == OpKind::FSub || op.kind == OpKind::Mul ||
         op.kind == OpKind::SIToFp;
}

bool isDotOrWait(const Op &op) { return op.kind == OpKind::Dot || op.kind == OpKind::DotWait; }

/// The operand of a binary step other than `v`; null for unary steps.
const Value *besides(const Op &step, const Value *v) {
  return step.operands.size() == 2 ? step.operands[step.operands[0] == v] : nullptr;
}

/// The operations on the result of a wait up to its addition to a loop-carried value. Empty if there is no such
/// addition.
std::vector<Op *> stepsBehind(const Op &wait, const Users &users) {
  std::vector<Op *> steps;
  for (const Value *v = wait.result();;) {
    Op *op = users.only(v);
    if (!op || op->parent != wait.parent || !isStep(*op) || op->result()->type.layout != v->type.layout ||
        bitWidth(op->result()->type.elem) != 32 || std::ranges::count(op->operands, v) != 1)
      return {};
    steps.push_back(op);
    if (const Value *other = besides(*op, v); isSum(*op) && !other->def)
      return steps;
    v = op->result();
  }
}

/// The parts of a dot of two tiles with a zero accumulator that has too many products for a thread that also holds that
/// many sums. The wait and the steps may be anywhere in the block.
PartsOfSum candidate(const Op &dot, const Users &users, int64_t registers) {
  PartsOfSum none, found;
  const Type &t = dot.result()->type;
  if (registers < 2 * partRegisters || !isAsyncMma(dot) || !dot.isAsync() || !dot.operands[0]->type.isShared ||
      bitWidth(t.elem) != 32)
    return none;
  const Op *from = dot.operands[2]->def;
  if (!from || from->kind != OpKind::Const || (isFloat(t.elem) ? from->floatValue(1) != 0 : from->intValue(1) != 0))
    return none;
  found.wait = users.only(dot.result());
  if (!found.wait || found.wait->kind != OpKind::DotWait || found.wait->parent != dot.parent ||
      found.wait->pending() != 0 || found.wait->operands.size() != 1)
    return none;
  found.steps = stepsBehind(*found.wait, users);
  if (found.steps.empty())
    return none;
  found.parts = static_cast<unsigned>(registers / partRegisters);
  // A wait or a dot in between would change the count of groups in flight.
  const Block &b = *dot.parent;
  const size_t end = positionOf(b, found.wait);
  for (size_t i = positionOf(b, &dot) + 1; i < end; ++i)
    if (isDotOrWait(*b.ops[i]) ||
        std::ranges::any_of(b.ops[i]->regions, [](const Region *r) { return anyOp(*r->block, isDotOrWait); }))
      return none;
  return found;
}

/// Sinks the wait and the steps after the other operations between them, if all of those may move before the wait.
void bringTogether(Block &b, const PartsOfSum &p) {
  const size_t from = positionOf(b, p.wait), to = positionOf(b, p.steps.back());
  std::vector<Op *> order;
  for (size_t i = from + 1; i < to; ++i) {
    Op *op = b.ops[i];
    if (std::ranges::find(p.steps, op) != p.steps.end())
      continue;
    if ((!op->has(traits::Pure) && op->kind != OpKind::Load) || !op->regions.empty())
      return; // may depend on the end of the dot
    order.push_back(op);
  }
  order.push_back(b.ops[from]);
  order.insert(order.end(), p.steps.begin(), p.steps.end());
  std::ranges::copy(order, b.ops.begin() + static_cast<std::ptrdiff_t>(from));
}

} // namespace

PartsOfSum partsOfSum(const Op &dot, const Users &users, int64_t registers) {
  PartsOfSum found = candidate(dot, users, registers);
  if (found.steps.empty())
    return found;
  const Block &b = *dot.parent;
  const auto behind = b.ops.begin() + static_cast<std::ptrdiff_t>(positionOf(b, found.wait)) + 1;
  return b.ops.end() - behind >= static_cast<std::ptrdiff_t>(found.steps.size()) &&
                 std::equal(found.steps.begin(), found.steps.end(), behind)
             ? found
             : PartsOfSum();
}

void sumParts(Module &m, const TargetInfo &target, const Options &options) {
  const Users users(*m.kernel()->block());
  const int64_t threads = int64_t{target.lanes()} * options.numWarps;
  auto visit = [&](auto &&self, Block &b) -> void {
    for (Op *op : std::vector<Op *>(b.ops)) {
      for (Region *r : op->regions)
        self(self, *r->block);
      if (op->kind != OpKind::Dot)
        continue;
      if (const PartsOfSum p = candidate(*op, users, op->result()->type.numel() / threads); !p.steps.empty())
        bringTogether(b, p);
    }
  };
  visit(visit, *m.kernel()->block());
}

} // namespace tegula::gpu
