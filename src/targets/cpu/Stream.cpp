// Stores that go past the caches.
//
// An ordinary store first reads the line it writes (the rest of the line might matter) and leaves it in the cache. If a launch
// writes more than the caches hold, both are waste: the lines are read for nothing, and they are gone before anybody comes back
// for them. A non-temporal store writes whole lines straight to memory: `c = a + b` moves 3 bytes instead of 4. If the output
// fits the caches, ordinary stores are better, as the next kernel finds it there. So the plan marks stores for which it is
// possible, and the code asks at run time how much the whole launch writes (EmitStream.cpp).
#include "targets/cpu/Plan.h"
#include "targets/cpu/Uses.h"
#include <functional>

namespace tegula::cpu {

void markStreaming(Plan &p, const Uses &uses, const CpuTarget &target) {
  // Non-temporal stores are ordered by a fence at the kernel's end only, so nothing inside may rely on order.
  if (!p.function->isKernel || target.triple.compare(0, 6, "x86_64") != 0 || uses.ordersMemory())
    return;
  llvm::SmallVector<Root *, 4> marked;
  bool hasDot = false;
  std::function<void(Steps &)> visit = [&](Steps &steps) {
    for (Step &s : steps) {
      hasDot |= s.kind == StepKind::Dot;
      if (s.nest && !s.nest->sequential && s.nest->axis < 0)
        for (Root &r : s.nest->roots)
          if (r.kind == RootKind::Store && !r.op->intAttr("volatile") && !uses.mayRead(baseArgument(r.op->operands[0])))
            marked.push_back(&r);
      for (Steps &b : s.bodies)
        visit(b);
    }
  };
  visit(p.steps);
  if (hasDot) // limited by arithmetic: not worth a second copy of the loop
    return;
  for (Root *r : marked) {
    r->streams = true;
    const ir::Type &t = r->op->operands[1]->type;
    p.streamBytes += static_cast<uint64_t>(t.numel()) * (t.isPtr ? 8 : std::max(1u, ir::byteWidth(t.elem)));
  }
}

} // namespace tegula::cpu
