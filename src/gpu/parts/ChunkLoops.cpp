// See ChunkLoops.h.
#include "gpu/parts/ChunkLoops.h"
#include "gpu/BlockEdit.h"
#include "ir/Builder.h"
#include "ir/Clone.h"
#include "passes/SplitLoops.h"
#include <bit>

namespace tegula::gpu {

using namespace ir;

namespace {

class Chunker {
public:
  Chunker(Module &m, unsigned parts) : m_(m), b_(m), parts_(parts) {}

  void run(Block &kernel) {
    for (size_t i = 0; i < kernel.ops.size(); ++i) {
      Op *op = kernel.ops[i];
      if (op->kind != OpKind::For || !op->splitParts())
        continue;
      Block front, behind;
      front.parent = behind.parent = kernel.parent;
      chunk(*op, front, behind, kernel, i);
      const size_t before = front.ops.size(), after = behind.ops.size();
      splice(behind, kernel, i + 1);
      splice(front, kernel, i);
      i += before + after;
    }
  }

private:
  void chunk(Op &loop, Block &front, Block &behind, Block &kernel, size_t at) {
    b_.setLoc(loop.loc);
    b_.setInlinedAt(loop.inlinedAt);
    b_.setBlock(&front);
    const std::vector<CarriedRole> roles = carriedRoles(loop);
    Value *from = loop.operands[0], *to = loop.operands[1], *step = loop.operands[2];
    const Type t = from->type;
    auto number = [&](int64_t n) { return b_.constInt(t, n); };
    // As unsigned numbers: the distance of any two bounds is one.
    Value *distance = loop.reverse() ? b_.binary(OpKind::Sub, from, to) : b_.binary(OpKind::Sub, to, from);
    Value *runs = b_.cmp(loop.reverse() ? CmpPred::Sgt : CmpPred::Slt, from, to);
    Value *trips = b_.select(runs, b_.binary(OpKind::Add, b_.binary(OpKind::UDiv, b_.binary(OpKind::Sub, distance, number(1)), step), number(1)), number(0));
    // A chunk more than trips / parts where that leaves a rest: the last ones have less, or nothing.
    Value *share = b_.binary(OpKind::LShr, trips, number(std::countr_zero(parts_)));
    Value *rest = b_.cast(OpKind::ZExt, b_.cmp(CmpPred::Ne, b_.binary(OpKind::And, trips, number(parts_ - 1)), number(0)), t.elem);
    share = b_.binary(OpKind::Add, share, rest);
    Value *rank = b_.create1(OpKind::ClusterRank, {}, Type::scalar(Elem::I32));
    Value *isFirst = b_.cmp(CmpPred::Eq, rank, b_.constI32(0));
    Value *wide = t.elem == Elem::I32 ? rank : b_.cast(t.elem == Elem::I64 ? OpKind::ZExt : OpKind::Trunc, rank, t.elem);
    Value *first = b_.binary(OpKind::UMin, b_.binary(OpKind::Mul, wide, share), trips), *left = b_.binary(OpKind::Sub, trips, first);
    Value *mine = b_.binary(OpKind::UMin, share, left);
    const OpKind move = loop.reverse() ? OpKind::Sub : OpKind::Add;
    loop.operands[0] = b_.binary(move, from, b_.binary(OpKind::Mul, first, step));
    // The last chunk ends where the loop does.
    Value *end = b_.binary(move, loop.operands[0], b_.binary(OpKind::Mul, mine, step));
    loop.operands[1] = b_.select(b_.cmp(CmpPred::Ult, mine, left), end, b_.select(b_.cmp(CmpPred::Eq, mine, number(0)), loop.operands[0], to));
    for (size_t i = 0; i < roles.size(); ++i) {
      Value *&init = loop.operands[3 + i];
      Value *start = init;
      if (roles[i].kind == CarriedRole::Kind::Steps) {
        b_.setBlock(&front);
        init = moved(loop, roles[i], start, first);
        b_.setBlock(&behind);
        Value *all = moved(loop, roles[i], start, trips);
        replaceUses(kernel, loop.results[i], all, at + 1);
      } else if (roles[i].startsOnce) {
        b_.setBlock(&front);
        init = startOfSum(start, isFirst);
      }
    }
  }

  Value *startOfSum(Value *start, Value *isFirst) {
    const Type &t = start->type;
    Value *zero = t.isFloatLike() ? b_.constFloat(t, 0) : b_.constInt(t, 0);
    const Op *c = start->def;
    if (c && c->kind == OpKind::Const && (t.isFloatLike() ? c->floatValue(1) == 0 : c->intValue(1) == 0))
      return start;
    return b_.select(b_.splat(isFirst, t.shape), start, zero);
  }

  /// `start` after so many iterations. Offsets of pointers in 64 bits, as they would have been added one after the other.
  Value *moved(const Op &loop, const CarriedRole &role, Value *start, Value *times) {
    for (const Op *step : role.steps) {
      Value *by = step->operands[addedOperand(*step, loop)];
      if (by->def && by->def->parent == loop.region(0)) { // a constant
        Cloner cloner(m_);
        by = cloner.copy(*by->def, *b_.block())->result();
      }
      const Elem e = step->kind == OpKind::AddPtr ? Elem::I64 : by->type.elem;
      if (by->type.elem != e)
        by = b_.cast(OpKind::SExt, by, e);
      const unsigned bits = 8 * byteWidth(e), have = 8 * byteWidth(times->type.elem);
      Value *n = bits == have ? times : b_.cast(bits > have ? OpKind::ZExt : OpKind::Trunc, times, e);
      start = b_.create1(step->kind, {start, b_.binary(OpKind::Mul, by, b_.splat(n, by->type.shape))}, start->type);
    }
    return start;
  }

  Module &m_;
  Builder b_;
  const unsigned parts_;
};

} // namespace

void chunkLoops(Module &m, unsigned parts) { Chunker(m, parts).run(*m.kernel()->block()); }

} // namespace tegula::gpu
