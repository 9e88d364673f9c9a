// See RowsAgain.h.
#include "gpu/loops/RowsAgain.h"
#include "gpu/ProgramDependence.h"
#include "gpu/SameIterations.h"
#include <algorithm>

namespace tegula::gpu {
namespace {

using ir::Block;
using ir::Op;
using ir::OpKind;
using ir::Value;

void addLoads(const Block &b, std::vector<const Op *> &out) {
  for (const Op *op : b.ops)
    if (op->kind == OpKind::If)
      for (const ir::Region *r : op->regions)
        addLoads(*r->block, out);
    else if (op->kind == OpKind::Load && !op->result()->type.isScalar())
      out.push_back(op);
}

std::vector<const Op *> loadsOf(const Op &loop) {
  std::vector<const Op *> out;
  addLoads(*loop.region(0), out);
  return out;
}

/// For a load whose result the loop carries to a later iteration: the load for the first iteration, before the loop.
/// Null for other loads.
const Op *firstOf(const Op &loop, const Op *load) {
  const Block &body = *loop.region(0);
  const std::vector<Value *> &next = body.terminator()->operands;
  const Value *v = load->result();
  auto place = std::ranges::find(next, v);
  if (place == next.end())
    return nullptr;
  for (; place != next.end(); place = std::ranges::find(next, v))
    v = body.args[static_cast<size_t>(place - next.begin()) + 1];
  const Op *first = loop.operands[2 + v->index]->def;
  return first && first->kind == OpKind::Load ? first : nullptr;
}

} // namespace

RowsAgain rowsReadAgain(const Op &loop) {
  std::vector<const Op *> loads = loadsOf(loop);
  ProgramDependence depends;
  std::erase_if(loads, [&](const Op *load) { return !depends.of(load->operands[0]); });
  RowsAgain found;
  const std::vector<Op *> &ops = loop.parent->ops;
  for (auto next = std::ranges::find(ops, &loop) + 1; next < ops.end() && !loads.empty(); ++next)
    if ((*next)->kind == OpKind::For && SameIterations(loop, **next).haveSameBounds())
      for (const Op *again : loadsOf(**next))
        std::erase_if(loads, [&](const Op *load) {
          const Op *first = firstOf(loop, load);
          if (load->result()->type.shape != again->result()->type.shape ||
              !SameIterations(loop, **next, first ? SameIterations::Case::InFront : SameIterations::Case::Alike)
                   .same((first ? first : load)->operands[0], again->operands[0], 0))
            return false;
          const unsigned width = ir::byteWidth(load->result()->type.elem);
          found.bytes += static_cast<uint64_t>(load->result()->type.numel()) * width;
          found.isNarrow |= width < 4;
          return true;
        });
  return found;
}

/// Does `again` in an iteration of `next` read only elements that `load` reads in the same iteration of `loop`?
static bool readsNoMore(const Op &loop, const Op &load, const Op &next, const Op &again) {
  SameIterations iterations(loop, next);
  const auto isSame = [&](size_t i) { return iterations.same(load.operands[i], again.operands[i], 0); };
  return isSame(0) && (load.operands.size() == 1 || (again.operands.size() > 1 && isSame(1)));
}

std::vector<LoadAgain> loadsReadAgain(const Op &loop) {
  std::vector<LoadAgain> found;
  ProgramDependence depends;
  for (Op *op : loop.region(0)->ops)
    if (op->kind == OpKind::Load && op->result()->type.isTensor() && depends.of(op->operands[0]))
      found.push_back({op, {}});
  const std::vector<Op *> &ops = loop.parent->ops;
  for (auto next = std::ranges::find(ops, &loop) + 1; next < ops.end() && !found.empty(); ++next)
    if ((*next)->kind == OpKind::For && SameIterations(loop, **next).haveSameBounds())
      for (Op *op : (*next)->region(0)->ops)
        if (op->kind == OpKind::Load && op->result()->type.isTensor())
          for (LoadAgain &l : found)
            if (l.load->result()->type == op->result()->type && readsNoMore(loop, *l.load, **next, *op)) {
              l.again.push_back(op);
              break;
            }
  std::erase_if(found, [](const LoadAgain &l) { return l.again.empty(); });
  return found;
}

} // namespace tegula::gpu
