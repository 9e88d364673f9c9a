// Non-temporal ("streaming") stores.
//
// An ordinary store first reads the line it writes (the rest of the line might matter) and leaves it in the cache. If a
// launch writes more than the caches hold, both are wasted: the lines are read for nothing, and evicted before they are
// used again. A non-temporal store writes whole lines directly to memory: `c = a + b` moves 3 bytes instead of 4. If
// the output fits the caches, ordinary stores are better, as the next kernel finds the data there. So the plan marks
// stores that can be non-temporal, and the code tests at run time how much the whole launch writes (EmitStream.cpp).
//
// A kernel that walks its row several times (softmax, layer_norm) reads memory in its first nest, writes it in its
// last, and leaves it idle in between, when the row comes from caches. So one later nest that walks the row also
// prefetches the first reads of the next program (or of the next iteration of a loop over rows): a nest that computes
// elementary functions, which takes long enough (a pass of squares ends as soon as its row has come from L2, and would
// wait for the prefetches), or the last nest if it streams: ordinary stores keep memory busy.
#include "targets/cpu/plan/Stream.h"
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
  bool hasFunctions = false; // elementary functions are computed in the nest

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
    using enum ir::OpKind;
    hasFunctions |= llvm::is_contained({Exp, Exp2, Log, Log2, Sin, Cos, Erf, Tanh}, op.kind);
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

uint64_t bytesOf(const ir::Type &t) {
  return static_cast<uint64_t>(t.numel()) * (t.isPtr ? 8 : std::max(1u, ir::byteWidth(t.elem)));
}

/// Chooses what nests fetch ahead, nest by nest in program order.
class Ahead {
public:
  // this program's row and others are there, too
  Ahead(const Plan &p, uint64_t l2Bytes) : plan_(p), most_(l2Bytes / 4) {}

  void visit(Steps &steps, const ir::Op *loop = nullptr, unsigned depth = 0) {
    for (Step &s : steps) {
      if (s.nest && s.bufferA < 0)
        add(*s.nest, loop, depth);
      else if (s.kind == StepKind::For && !s.op->reverse())
        visit(s.bodies[0], s.op, depth + 1);
    }
  }

private:
  struct Read {
    const ir::Op *load, *loop; // the innermost loop around the nest, null: none
    unsigned depth;            // number of loops around it
    bool again;                // a later nest fetches it
  };

  static bool readsAlike(const ir::Op &a, const ir::Op &b) {
    return a.results[0]->type == b.results[0]->type && memoryOf(a.operands[0]) == memoryOf(b.operands[0]);
  }

  void add(Nest &n, const ir::Op *loop, unsigned depth) {
    LoadsOfNests own(plan_);
    own.add(n);
    const bool stores =
        std::any_of(n.roots.begin(), n.roots.end(), [](const Root &r) { return r.kind == RootKind::Store; });
    uint64_t bytes = 0;
    for (Read &r : reads_) {
      const ir::Type &t = r.load->results[0]->type;
      if (r.again || t.isPtr || !(t.shape == n.space) || n.sequential || n.panelDepthBits ||
          (stores ? !n.streams() : !own.hasFunctions))
        continue;
      // Consecutive loops over the pieces of a row each compute its addresses again.
      const ir::Op *load = r.load;
      if (r.loop != loop) {
        if (!r.loop || r.depth > 1 || depth > 1)
          continue;
        auto same =
            std::find_if(own.seen.begin(), own.seen.end(), [&](const ir::Op *o) { return readsAlike(*o, *r.load); });
        if (same == own.seen.end())
          continue;
        load = *same;
      }
      bytes += bytesOf(t);
      if (n.ahead.size() == 4 || bytes > most_)
        break;
      r.again = true;
      n.ahead.push_back({load, r.loop == loop ? loop : nullptr, loop && r.loop != loop});
    }
    for (const ir::Op *l : own.seen)
      if (std::none_of(reads_.begin(), reads_.end(),
                       [&](const Read &r) { return r.load == l || (r.loop != loop && readsAlike(*l, *r.load)); }))
        reads_.push_back({l, loop, depth, false});
  }

  const Plan &plan_;
  const uint64_t most_;
  std::vector<Read> reads_;
};

} // namespace

bool Nest::streams() const { return std::any_of(roots.begin(), roots.end(), [](const Root &r) { return r.streams; }); }

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
  for (Root *r : marked)
    r->streams = true;
  std::function<uint64_t(Steps &)> count = [&](Steps &steps) { // what a loop writes in one round
    uint64_t bytes = 0;
    for (Step &s : steps) {
      if (s.nest)
        for (const Root &r : s.nest->roots)
          if (r.streams) {
            const uint64_t one = bytesOf(r.op->operands[1]->type);
            bytes += one, p.streamBytes += one;
          }
      for (Steps &body : s.bodies) {
        const uint64_t inside = count(body);
        (s.kind == StepKind::For ? s.streamBytes : bytes) += inside;
      }
    }
    return bytes;
  };
  count(p.steps);
  Ahead(p, target.l2Bytes).visit(p.steps);
}

} // namespace tegula::cpu
