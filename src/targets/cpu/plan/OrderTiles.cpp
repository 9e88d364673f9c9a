// See OrderTiles.h.
#include "targets/cpu/plan/OrderTiles.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;

namespace {
/// Each tile of columns is packed once per group, which took 4 (AVX-512) to 7 % (AVX2) of a product by groups of 512
/// rows. A group's rows of A are read once per tile of columns: with 2048 k they are 8 MiB of floats, and as many pages
/// as the second-level TLB holds.
constexpr int64_t rowsOfGroup = 1024;
/// If A is packed, a group's rows of it should fit the kept tiles (KeepTiles.h): packing them again for each tile of
/// columns costs ten times as much as reading the same rows in place. But smaller groups than this pack B too often.
constexpr int64_t fewestRowsOfGroup = 256;

/// The parts of the program's numbers that a value depends on.
struct Terms {
  bool axis[3] = {};                  // as a whole
  bool row = false;                   // x // divisor, x % divisor % unit
  const ir::Value *divisor = nullptr; // x % divisor, divided by `unit`
  int64_t unit = 1;
  bool known = true;                  // false: quotients of several divisors
};

/// The loop or branch that an argument of a block belongs to; null: the kernel.
const Op *opAround(const ir::Value *v) { return v->block->parent ? v->block->parent->op : nullptr; }

bool isOfLaunch(const ir::Value *v) {
  if (!v->def)
    return !opAround(v); // an argument
  const Op &op = *v->def;
  switch (op.kind) {
  case OpKind::Const: case OpKind::NumPrograms:
    return true;
  case OpKind::SDiv: case OpKind::UDiv: // a number that is not zero
    return op.operands[1]->def && op.operands[1]->def->kind == OpKind::Const && op.operands[1]->def->intValue() > 0 &&
           isOfLaunch(op.operands[0]);
  case OpKind::Add: case OpKind::Sub: case OpKind::Mul: case OpKind::SMin: case OpKind::SMax:
    return llvm::all_of(op.operands, isOfLaunch);
  default:
    return false;
  }
}

bool isProgramId(const ir::Value *v, unsigned axis) {
  return v->def && v->def->kind == OpKind::ProgramId && v->def->axis() == axis;
}

/// `x % d` where d is a number of the launch; else null.
const ir::Value *divisorOf(const ir::Value *v) {
  const bool is = v->def && (v->def->kind == OpKind::SRem || v->def->kind == OpKind::URem) &&
                  isProgramId(v->def->operands[0], 0) && !v->type.isTensor() && isOfLaunch(v->def->operands[1]);
  return is ? v->def->operands[1] : nullptr;
}

/// Rows of a group as in `(pid % (n * G)) // min(rows - first, G)`; 0: not known.
int64_t unitOf(const ir::Value *v) {
  if (v->def && v->def->kind == OpKind::SMin)
    v = v->def->operands[0]->def && v->def->operands[0]->def->kind == OpKind::Const ? v->def->operands[0]
                                                                                    : v->def->operands[1];
  return v->def && v->def->kind == OpKind::Const ? v->def->intValue() : 0;
}

class Finder {
public:
  Terms of(const ir::Value *v) {
    visit(v);
    return terms_;
  }

private:
  void remainder(const ir::Value *by, int64_t unit) {
    terms_.known &= unit > 0 && (!terms_.divisor || (terms_.divisor == by && terms_.unit == unit));
    terms_.divisor = by;
    terms_.unit = unit;
  }

  void visit(const ir::Value *v) {
    if (!seen_.insert(v).second)
      return;
    if (!v->def) {
      if (const Op *loop = opAround(v); loop && loop->kind == OpKind::For) { // of its number only where it starts
        visit(loop->operands[v->index ? v->index + 2 : 0]);
        if (v->index)
          visit(v->block->terminator()->operands[v->index - 1]);
      } else if (loop) {
        operandsOf(*loop);
      }
      return;
    }
    const Op &op = *v->def;
    if (op.kind == OpKind::For) {
      visit(op.operands[3 + v->index]);
      visit(op.regions[0]->block->terminator()->operands[v->index]);
    } else if (op.kind == OpKind::ProgramId)
      terms_.axis[op.axis()] = true;
    else if (const ir::Value *by = divisorOf(v))
      remainder(by, 1);
    else if (const ir::Value *of =
                 op.kind == OpKind::SDiv || op.kind == OpKind::SRem ? divisorOf(op.operands[0]) : nullptr;
             of && op.kind == OpKind::SDiv)
      remainder(of, unitOf(op.operands[1]));
    else if (of || (op.kind == OpKind::SDiv && isProgramId(op.operands[0], 0)))
      terms_.row = true;
    else
      operandsOf(op);
  }

  void operandsOf(const Op &op) {
    for (const ir::Value *o : op.operands)
      visit(o);
    for (const ir::Region *r : op.regions)
      if (!r->block->ops.empty())
        for (const ir::Value *o : r->block->terminator()->operands)
          visit(o);
  }

  Terms terms_;
  llvm::DenseSet<const ir::Value *> seen_;
};

/// The first dot that keeps its tiles; false in `all` if there is one whose terms differ.
void look(const Steps &steps, const Step *&first, Terms &terms, bool &all) {
  for (const Step &s : steps) {
    all &= s.kind != StepKind::Print;
    for (const Steps &body : s.bodies)
      look(body, first, terms, all);
    if (s.kind != StepKind::Dot || !s.kept.count)
      continue;
    const Terms t = Finder().of(s.op->operands[1]);
    if (!first) {
      first = &s;
      terms = t;
    }
    all &= t.known && t.row == terms.row && t.divisor == terms.divisor && t.unit == terms.unit &&
           llvm::equal(t.axis, terms.axis);
  }
}

/// The loop each round of which packs a tile of the left operand, if it does in any case, and how many rounds there are
/// is known at launch; else null.
const Op *loopThatPacks(const Step &dot) {
  const bool packs = dot.keptLeft.slots && (!dot.leftInMemory || dot.dot->aDepthStride != 1);
  const ir::Region *region = dot.op->parent->parent;
  const Op *loop = packs && region ? region->op : nullptr;
  return loop && loop->kind == OpKind::For && llvm::all_of(llvm::ArrayRef(loop->operands).take_front(3), isOfLaunch)
             ? loop
             : nullptr;
}
} // namespace

void orderTiles(Plan &p) {
  const Step *dot = nullptr;
  Terms right;
  bool all = true;
  look(p.steps, dot, right, all);
  const bool isRemainder = right.divisor != nullptr, isAxis = right.axis[0] && !right.axis[1];
  if (!dot || !all || right.row || isRemainder == isAxis || (isRemainder && right.axis[0]))
    return;
  const Terms left = Finder().of(dot->op->operands[0]);
  const bool ofColumn = isRemainder ? left.divisor != nullptr : left.axis[0];
  const int64_t m = dot->dot->m, units = ofColumn ? 0 : rowsOfGroup / (m * right.unit);
  const Op *loop = ofColumn ? nullptr : loopThatPacks(*dot);
  if (ofColumn || units > 1 || loop)
    p.order = {isRemainder ? TileOrder::Remainder : TileOrder::AlongX,
               right.divisor,
               right.unit,
               std::max<int64_t>(ofColumn ? 0 : 1, units) * right.unit,
               loop,
               dot->keptLeft.slots,
               std::max<int64_t>(1, fewestRowsOfGroup / m)};
}

} // namespace tegula::cpu
