// See RowsAgain.h.
#include "gpu/loops/RowsAgain.h"
#include "gpu/ProgramDependence.h"
#include <algorithm>
#include <unordered_map>

namespace tegula::gpu {
namespace {

using ir::Block;
using ir::Op;
using ir::OpKind;
using ir::Value;

constexpr unsigned deepest = 48; // operations that an address is followed through

/// The loop that the value is an argument of the body of; null for others.
const Op *loopOf(const Value *v) { return !v->def && v->block && v->block->parent->op && v->block->parent->op->kind == OpKind::For ? v->block->parent->op : nullptr; }

/// Values of two loops that are the same in iterations of one number; or values in front of the first loop that are those of the second one's first iteration.
class SameIterations {
public:
  SameIterations(const Op &first, const Op &second, bool inFront = false) : first_(&first), second_(&second), inFront_(inFront) {
    same_[first.region(0)->args[0]] = second.region(0)->args[0];
  }

  bool haveSameBounds() { return std::ranges::all_of(std::initializer_list<size_t>{0, 1, 2}, [&](size_t i) { return same(first_->operands[i], second_->operands[i], 0); }); }

  bool same(const Value *a, const Value *b, unsigned depth) {
    if (const auto known = same_.find(a); known != same_.end())
      return known->second == b;
    if (a == b)
      return true;
    if (depth == deepest)
      return false;
    if (inFront_ && loopOf(b) == second_)
      return same(a, second_->operands[b->index ? 2 + b->index : 0], depth + 1);
    if (a->index != b->index)
      return false;
    if (loopOf(a) == first_ && loopOf(b) == second_) { // carried: begins the same and goes on the same
      same_[a] = b;
      return same(first_->operands[2 + a->index], second_->operands[2 + b->index], depth + 1) &&
             same(first_->region(0)->terminator()->operands[a->index - 1], second_->region(0)->terminator()->operands[b->index - 1], depth + 1);
    }
    if (!a->def || !b->def)
      return false;
    const Op &x = *a->def, &y = *b->def;
    const bool isSame = x.kind == y.kind && x.regions.empty() && x.operands.size() == y.operands.size() && !x.has(ir::traits::Reads) && !x.has(ir::traits::Writes) &&
                        std::ranges::equal(x.attrs, y.attrs, [](const ir::Attr &p, const ir::Attr &q) { return p.key == q.key && p.value == q.value; });
    for (size_t i = 0; isSame && i < x.operands.size(); ++i)
      if (!same(x.operands[i], y.operands[i], depth + 1))
        return false;
    if (isSame)
      same_[a] = b;
    return isSame;
  }

private:
  const Op *first_, *second_;
  const bool inFront_;
  std::unordered_map<const Value *, const Value *> same_; // of the first loop, or the values before it that they are computed from
};

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

/// Of a load of a later iteration, which the loop carries on: the load of the first iteration, in front of the loop. Null for others.
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
          if (load->result()->type.shape != again->result()->type.shape || !SameIterations(loop, **next, first).same((first ? first : load)->operands[0], again->operands[0], 0))
            return false;
          const unsigned width = ir::byteWidth(load->result()->type.elem);
          found.bytes += static_cast<uint64_t>(load->result()->type.numel()) * width;
          found.isNarrow |= width < 4;
          return true;
        });
  return found;
}

/// Is each element that `again` reads in an iteration of `next` one that `load` reads in that of `loop`?
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
