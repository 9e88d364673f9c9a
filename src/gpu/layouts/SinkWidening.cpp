// See SinkWidening.h.
#include "gpu/layouts/SinkWidening.h"
#include <unordered_set>

namespace tegula::gpu {

using namespace ir;

namespace {

bool widens(const Op &op) {
  return op.has(traits::Pure) && op.has(traits::Elementwise) && op.operands.size() == 1 && op.results.size() == 1 &&
         op.result()->type.isTensor() && bitWidth(op.operands[0]->type.elem) < bitWidth(op.result()->type.elem);
}

class Sinker {
public:
  void run(Block &b) {
    std::vector<Op *> ops;
    ops.swap(b.ops);
    for (Op *op : ops) {
      if (widens(*op)) {
        waiting_.insert(op);
        continue;
      }
      bring(*op, b);
      b.ops.push_back(op);
      for (Region *r : op->regions)
        Sinker().run(*r->block);
    }
    // Operations without a user in this block or in a nested one are dead.
  }

private:
  /// Inserts before `op` the waiting operations that `op` or its regions use.
  void bring(const Op &op, Block &b) {
    for (const Value *v : op.operands)
      if (v->def && waiting_.erase(v->def)) {
        bring(*v->def, b);
        b.ops.push_back(v->def);
      }
    for (const Region *r : op.regions)
      for (const Op *inner : r->block->ops)
        bring(*inner, b);
  }

  std::unordered_set<const Op *> waiting_;
};

} // namespace

void sinkWidening(Module &m) { Sinker().run(*m.kernel()->block()); }

} // namespace tegula::gpu
