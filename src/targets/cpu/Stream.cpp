// Stores that go past the caches.
//
// An ordinary store first reads the line it writes (the rest of the line might matter) and leaves it in the cache. If a launch
// writes more than the caches hold, both are waste: the lines are read for nothing, and they are gone before anybody comes back
// for them. A non-temporal store writes whole lines straight to memory: `c = a + b` moves 3 bytes instead of 4. If the output
// fits the caches, ordinary stores are better, as the next kernel finds it there. So the plan marks stores for which it is
// possible, and the code asks at run time how much the whole launch writes (EmitStream.cpp).
//
// A kernel that walks its row several times (softmax, layer_norm) reads memory in its first nest and writes it in its last: one of
// the two directions always waits. So the nest that streams out also fetches what the next program will read first.
#include "targets/cpu/Plan.h"
#include "targets/cpu/Uses.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include <algorithm>
#include <functional>

namespace tegula::cpu {

namespace {

/// The loads that nests evaluate, in order.
class LoadsOfNests {
public:
  explicit LoadsOfNests(const Plan &p) : plan_(p) {}
  std::vector<const ir::Op *> seen;

  void add(const Nest &n) {
    for (const Root &r : n.roots) {
      if (r.kind == RootKind::Materialize && r.makes && r.value->def)
        operands(*r.value->def);
      else if (r.op)
        operands(*r.op);
      else
        value(r.value);
    }
  }

private:
  void operands(const ir::Op &op) {
    if (op.kind == ir::OpKind::Load)
      seen.push_back(&op);
    for (const ir::Value *o : op.operands)
      value(o);
  }
  void value(const ir::Value *v) {
    if (v->def && v->type.isTensor() && plan_.bufferFor(v) < 0 && visited_.insert(v).second)
      operands(*v->def);
  }
  const Plan &plan_;
  llvm::SmallPtrSet<const ir::Value *, 16> visited_;
};

/// While a row is written, memory can already bring what the next program reads first: its row of `loads`.
void chooseAhead(Nest &n, const std::vector<const ir::Op *> &loads, uint64_t l2Bytes) {
  uint64_t bytes = 0;
  for (const ir::Op *l : loads) {
    const ir::Type &t = l->results[0]->type;
    if (n.ahead.size() == 4)
      return;
    if (t.isPtr || !(t.shape == n.space))
      continue;
    bytes += static_cast<uint64_t>(t.numel()) * std::max(1u, ir::byteWidth(t.elem));
    if (bytes > l2Bytes / 4) // this program's row and others are there, too
      return;
    n.ahead.push_back(l);
  }
}

} // namespace

void markStreaming(Plan &p, const Uses &uses, const CpuTarget &target) {
  // Non-temporal stores are ordered by a fence at the kernel's end only, so nothing inside may rely on order.
  if (!p.function->isKernel || target.triple.compare(0, 6, "x86_64") != 0 || uses.ordersMemory())
    return;
  llvm::SmallSetVector<Root *, 4> marked;
  bool hasDot = false;
  std::function<void(Steps &)> visit = [&](Steps &steps) {
    for (Step &s : steps) {
      hasDot |= s.kind == StepKind::Dot;
      if (s.nest && !s.nest->sequential && s.nest->axis < 0)
        for (Root &r : s.nest->roots)
          if (r.kind == RootKind::Store && !r.op->isVolatile() && !uses.mayRead(memoryOf(r.op->operands[0])))
            marked.insert(&r);
      for (Steps &b : s.bodies)
        visit(b);
    }
  };
  visit(p.steps);
  if (hasDot) // limited by arithmetic: not worth a second copy of the loop
    return;
  LoadsOfNests loads(p);
  for (Step &s : p.steps) {
    if (!s.nest || s.bufferA >= 0)
      continue;
    if (std::any_of(s.nest->roots.begin(), s.nest->roots.end(),
                    [&](Root &r) { return marked.contains(&r); }))
      chooseAhead(*s.nest, loads.seen, target.l2Bytes);
    loads.add(*s.nest);
  }
  for (Root *r : marked) {
    r->streams = true;
    const ir::Type &t = r->op->operands[1]->type;
    p.streamBytes += static_cast<uint64_t>(t.numel()) * (t.isPtr ? 8 : std::max(1u, ir::byteWidth(t.elem)));
  }
}

} // namespace tegula::cpu
