// The order in which a thread runs the programs of a grid, and the rows of tiles that loops accumulate.
//
// Kernels over rows and columns often number blocks of rows along x. The tiles of neighbouring programs along x are
// then rows apart, each on its own pages, and the next program profits neither from hardware prefetches nor from partly
// read lines. If neighbours along y are closer in memory in all accesses, y runs fastest.
#include "targets/cpu/plan/ProgramOrder.h"
#include "targets/cpu/plan/ColumnsOfA.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;

namespace {
/// The absolute stride of a value between neighbouring programs along x and along y, or (as along x) between values of
/// a loop's induction variable.
struct Steps2 {
  static constexpr int64_t far = int64_t(1) << 40; // known at launch, or depends on data
  int64_t along[2] = {0, 0};
  bool known = true;
  bool none() const { return known && !along[0] && !along[1]; }
};

/// Longer pieces of rows are read efficiently anyway.
constexpr int64_t longestPiece = 4096;
/// The sum of a shorter piece waits for its last steps, the sums of vectors, unless other rows are beside it.
constexpr int64_t shortestSum = 512;

std::optional<int64_t> constantOf(const ir::Value *v) {
  while (v->def && v->def->has(ir::traits::Shape) && v->def->operands.size() == 1)
    v = v->def->operands[0];
  return v->def && v->def->kind == OpKind::Const && !v->type.isPtr && !ir::isFloat(v->type.elem)
             ? std::optional(v->def->intValue())
             : std::nullopt;
}

class StepFinder {
public:
  explicit StepFinder(const ir::Function &f, const ir::Value *iv = nullptr) : function_(f), iv_(iv) {}

  Steps2 of(const ir::Value *v) {
    auto it = seen_.find(v);
    if (it != seen_.end())
      return it->second;
    seen_[v] = {}; // a value that a loop carries
    Steps2 s = compute(v);
    seen_[v] = s;
    return s;
  }

private:
  static Steps2 unknown() { return {{0, 0}, false}; }
  static Steps2 sum(Steps2 a, const Steps2 &b) {
    for (unsigned i = 0; i < 2; ++i)
      a.along[i] = std::min(a.along[i] + b.along[i], Steps2::far);
    a.known &= b.known;
    return a;
  }
  static Steps2 times(Steps2 a, std::optional<int64_t> by) {
    for (int64_t &s : a.along)
      if (int64_t product; s)
        s = by && !__builtin_mul_overflow(s, *by < 0 ? -*by : *by, &product) ? std::min(product, Steps2::far)
                                                                             : Steps2::far;
    return a;
  }

  Steps2 compute(const ir::Value *v) {
    if (v == iv_)
      return {{1, 0}, true};
    if (!v->def) {
      const Op *loop = v->block == function_.block() ? nullptr : v->block->parent->op;
      if (!loop)
        return {};
      if (iv_ && iv_->block == v->block)
        return ofCarried(*v, *loop);
      return loop->kind == OpKind::For ? of(loop->operands[v->index ? v->index + 2 : 0]) : unknown();
    }
    const Op &op = *v->def;
    switch (op.kind) {
    case OpKind::ProgramId: {
      Steps2 s;
      if (!iv_ && op.axis() < 2)
        s.along[op.axis()] = 1;
      return s;
    }
    case OpKind::Add: case OpKind::Sub:
      return sum(of(op.operands[0]), of(op.operands[1]));
    case OpKind::AddPtr:
      return sum(of(op.operands[0]), times(of(op.operands[1]), std::max(1u, ir::byteWidth(v->type.elem))));
    case OpKind::Mul: {
      Steps2 a = of(op.operands[0]), b = of(op.operands[1]);
      return a.none()   ? times(b, constantOf(op.operands[0]))
             : b.none() ? times(a, constantOf(op.operands[1]))
                        : times(sum(a, b), std::nullopt);
    }
    case OpKind::Load:
      return times(of(op.operands[0]), std::nullopt);
    case OpKind::SExt: case OpKind::ZExt: case OpKind::Trunc:
      return of(op.operands[0]);
    default:
      break;
    }
    if (op.has(ir::traits::Shape) && op.operands.size() == 1)
      return of(op.operands[0]);
    for (const ir::Value *o : op.operands)
      if (!of(o).none())
        return unknown();
    return op.regions.empty() ? Steps2{} : unknown();
  }

  /// What the loop with the number carries on: what each round adds, if that is a constant, for each number that it
  /// counts on.
  Steps2 ofCarried(const ir::Value &v, const Op &loop) {
    const ir::Value *next = v.block->terminator()->operands[v.index - 1];
    if (next == &v)
      return {};
    const bool adds = next->def && next->def->kind == OpKind::Add;
    const unsigned at = adds && next->def->operands[0] == &v ? 0 : 1;
    const std::optional<int64_t> by = constantOf(loop.operands[2]), step = adds && next->def->operands[at] == &v
                                                                               ? constantOf(next->def->operands[1 - at])
                                                                               : std::nullopt;
    return by && *by > 0 && step && *step % *by == 0 ? times({{1, 0}, true}, *step / *by)
                                                     : Steps2{{Steps2::far, 0}, true};
  }

  const ir::Function &function_;
  const ir::Value *iv_;
  llvm::DenseMap<const ir::Value *, Steps2> seen_;
};

/// False: x has to run fastest. `nearer`: an access moves less along y.
bool look(const ir::Block &b, StepFinder &steps, bool &nearer) {
  for (const Op *op : b.ops) {
    switch (op->kind) {
    case OpKind::Load: case OpKind::Store: {
      const Steps2 s = steps.of(op->operands[0]);
      if (op->isVolatile() || !s.known || (s.along[0] && s.along[1] && s.along[1] >= s.along[0]))
        return false;
      nearer |= s.along[0] && s.along[1];
      break;
    }
    // what a tile of a product needs is the same for neighbours both ways; order is seen, or waited for
    case OpKind::Dot: case OpKind::Print: case OpKind::While:
      return false;
    default:
      break;
    }
    for (const ir::Region *r : op->regions)
      if (!look(*r->block, steps, nearer))
        return false;
  }
  return true;
}
} // namespace

bool runsAlongY(const ir::Function &f, const Uses &uses) {
  StepFinder steps(f);
  bool nearer = false;
  return f.isKernel && !uses.ordersMemory() && look(*f.block(), steps, nearer) && nearer;
}

// A loop that adds tiles along rows (or the reductions of their rows) to a tile of sums reads a piece of each row per
// iteration: rows are far apart, and pieces short. With the loops interchanged, all iterations for one row run before
// the next row, and each row is read from end to end.
const Nest *accumulatesRows(const Step &s, const Plan &p) {
  const Op &loop = *s.op;
  const ir::Block &body = *loop.regions[0]->block;
  const std::optional<int64_t> by = constantOf(loop.operands[2]);
  if (loop.reverse() || !by || s.bodies.empty() ||
      llvm::count_if(loop.results, [](const ir::Value *v) { return v->type.isTensor(); }) != 1)
    return nullptr;
  // beside it numbers, which are the same for each row
  const size_t tile = static_cast<size_t>(
      llvm::find_if(loop.results, [](const ir::Value *v) { return v->type.isTensor(); }) - loop.results.begin());
  const Nest *nest = nullptr;
  for (const Step &inner : s.bodies[0]) {
    if (inner.kind == StepKind::Define && !(inner.op->kind == OpKind::Store || inner.op->kind == OpKind::Assert))
      continue;
    if (inner.kind != StepKind::Nest || nest || !inner.nest || inner.bufferA >= 0)
      return nullptr;
    nest = inner.nest.get();
  }
  const ir::Value *acc = body.args[1 + tile];
  const int buffer = p.bufferFor(acc);
  if (!nest || nest->sequential || nest->space.rank() != 2 || nest->roots.size() != 1 || buffer < 0 ||
      p.bufferFor(loop.results[tile]) != buffer)
    return nullptr;
  const Root &r = nest->roots[0];
  const bool reduces = r.kind == RootKind::Reduce && nest->axis == 1;
  if (!(reduces || r.kind == RootKind::Materialize) || r.buffer != buffer ||
      r.value != body.terminator()->operands[tile] || !(reduces || acc->type.shape == nest->space))
    return nullptr;
  StepFinder steps(*p.function, body.args[0]);
  bool along = false;
  for (const Op *op : body.ops) {
    if (op->has(ir::traits::Writes) || (op->has(ir::traits::Reads) && op->kind != OpKind::Load) ||
        (!op->regions.empty() && op != r.op))
      return nullptr;
    if (op->kind != OpKind::Load)
      continue;
    const ir::Type &t = op->results[0]->type;
    const Steps2 moves = steps.of(op->operands[0]);
    if (op->isVolatile() || !moves.known || t.isPtr)
      return nullptr;
    if (!moves.along[0])
      continue;
    const bool isTurned = columnsLieTogether(op->results[0]); // and so is its tile in the nest
    const int64_t row = t.isTensor() ? (int64_t(1) << dimBits(t.shape, isTurned ? 0 : t.shape.rank() - 1)) *
                                           std::max(1u, ir::byteWidth(t.elem))
                                     : 0;
    if (!row || moves.along[0] * *by != row || row > longestPiece || (reduces && row < shortestSum))
      return nullptr;
    along |= isTurned ? t.shape[0] == nest->space[1] && t.shape[1] == nest->space[0] : t.shape == nest->space;
  }
  return along ? nest : nullptr;
}

} // namespace tegula::cpu
