// The rules of each family of operations. Element rules of elementwise operations come from ElementRules.h.
#include "ir/Asm.h"
#include "ir/ElementRules.h"
#include "ir/LayoutRules.h"
#include "ir/VerifierRules.h"
#include <algorithm>

namespace tegula::ir {

/// Without layout: where layouts may differ.
static Type bare(const Type &t) { return t.withLayout(0); }

static bool isRing(int64_t slots) { return slots >= 1 && slots <= 65536; }

bool Verifier::elementwise(const Op &op) {
  for (const Value *v : op.operands)
    if (v->type.shape != op.result()->type.shape)
      return bad(&op, "operands and result differ in shape");
  for (const Value *v : op.operands)
    if (v->type.layout != op.result()->type.layout)
      return bad(&op, "operands and result differ in layout");
  if (op.kind == OpKind::Asm)
    return assembly(op);
  return fitsElements(op) || bad(&op, "operand and result types do not fit this operation");
}

bool Verifier::constant(const Op &op) {
  const AttrValue *v = op.find(attr::value);
  const Type &t = op.result()->type;
  if (t.isPtr || (t.isFloatLike() ? !std::holds_alternative<double>(*v) : !std::holds_alternative<int64_t>(*v)))
    return bad(&op, "needs a value of the result's type");
  if (t.isFloatLike() || t.elem == Elem::I64)
    return true;
  int64_t i = std::get<int64_t>(*v), limit = int64_t(1) << (widthOf(t) - 1);
  return (t.elem == Elem::I1 ? i == 0 || i == 1 : i >= -limit && i < limit) ||
         bad(&op, "the value is out of range for its type");
}

bool Verifier::axis(const Op &op, unsigned rank) {
  return (op.axis() >= 0 && op.axis() < rank) || bad(&op, "needs an axis inside the shape");
}

bool Verifier::permute(const Op &op) {
  const Shape &a = op.operands[0]->type.shape, &r = op.result()->type.shape;
  std::span<const int64_t> perm = op.perm();
  bool ok = perm.size() == a.rank() && r.rank() == a.rank();
  uint32_t seen = 0;
  for (unsigned i = 0; ok && i < perm.size(); ++i) {
    ok = perm[i] >= 0 && perm[i] < a.rank() && !(seen >> perm[i] & 1) && r[i] == a[static_cast<unsigned>(perm[i])];
    seen |= 1u << (perm[i] & 31);
  }
  return ok || bad(&op, "needs a permutation that gives the result's shape");
}

bool Verifier::shape(const Op &op) {
  const Type &a = op.operands[0]->type, &r = op.result()->type;
  if (a.scalarType() != r.scalarType())
    return bad(&op, "operand and result differ in element type");
  switch (op.kind) {
  case OpKind::Splat: return (a.isScalar() && r.isTensor()) || bad(&op, "needs a scalar and gives a tensor");
  case OpKind::Unsplat:
    return (a.isTensor() && a.numel() == 1 && r.isScalar()) ||
           bad(&op, "needs a tensor of one element and gives a scalar");
  case OpKind::Convert:
    return (a.isTensor() && a.shape == r.shape && a.layout && r.layout) ||
           bad(&op, "operand and result may differ in nothing but their layouts");
  case OpKind::ToShared:
    return (!a.isShared && r.isShared && a.shape == r.shape) ||
           bad(&op, "needs a tensor and gives a shared tile of its shape");
  case OpKind::Reshape:
    return (a.isTensor() && r.isTensor() && a.numel() == r.numel()) ||
           bad(&op, "operand and result differ in their number of elements");
  case OpKind::Permute: return permute(op);
  case OpKind::ExpandDims: {
    if (!axis(op, r.shape.rank()))
      return false;
    Shape s = r.shape;
    unsigned at = static_cast<unsigned>(op.axis());
    bool ok = s[at] == 1;
    s.erase(at);
    return (ok && s == a.shape && a.isTensor()) ||
           bad(&op, "the result must be the operand's shape with an extent of 1 inserted at the axis");
  }
  default: break;
  }
  bool ok = a.shape.rank() == r.shape.rank() && a.isTensor();
  for (unsigned i = 0; ok && i < r.shape.rank(); ++i)
    ok = a.shape[i] == r.shape[i] || a.shape[i] == 1;
  return ok || bad(&op, "only extents of 1 may grow");
}

bool Verifier::joins(const Op &op) {
  if (op.kind == OpKind::Split) {
    Shape s = op.result()->type.shape;
    if (s.rank() < Shape::maxRank)
      s.push(2);
    return (bare(op.operands[0]->type) == op.result()->type.withShape(s) && op.result(1)->type == op.result()->type) ||
           bad(&op, "needs a last extent of 2, which neither result has");
  }
  const Type &a = op.operands[0]->type, &b = op.operands[1]->type, &r = op.result()->type;
  if (op.kind == OpKind::Join) {
    Shape s = a.shape;
    if (s.rank() < Shape::maxRank)
      s.push(2);
    return (a == b && bare(r) == a.withShape(s)) ||
           bad(&op, "operands must be of one type, and the result has a new last extent of 2");
  }
  if (!axis(op, r.shape.rank()))
    return false;
  Shape s = a.shape;
  unsigned at = static_cast<unsigned>(op.axis());
  bool ok = a.scalarType() == b.scalarType() && s == b.shape && s.rank() == r.shape.rank();
  if (ok)
    s.set(at, 2 * s[at]);
  return (ok && bare(r) == a.withShape(s)) ||
         bad(&op, "the operands must be of one shape, and the result has them one after the other along the axis");
}

bool Verifier::gather(const Op &op) {
  const Type &a = op.operands[0]->type, &i = op.operands[1]->type, &r = op.result()->type;
  if (!axis(op, a.shape.rank()))
    return false;
  Type given = a.withShape(i.shape);
  given.isShared = false; // a table may be a tile
  bool ok = bare(r) == given && !i.isShared && i.shape.rank() == a.shape.rank() && i.isIntLike() &&
            (i.elem == Elem::I32 || i.elem == Elem::I64);
  for (unsigned d = 0; ok && d < a.shape.rank(); ++d)
    ok = d == op.axis() || i.shape[d] == a.shape[d];
  return ok || bad(&op, "needs an index of i32 or i64 that differs in shape at the axis only");
}

bool Verifier::histogram(const Op &op) {
  bool ok = !op.operands.empty() && op.operands.size() <= 2;
  ok = ok && op.operands[0]->type.isIntLike() && op.operands[0]->type.shape.rank() == 1;
  if (ok && op.operands.size() == 2)
    ok = op.operands[1]->type == op.operands[0]->type.withElem(Elem::I1);
  return (ok && op.result()->type.shape.rank() == 1 && op.result()->type.scalarType() == Type::scalar(Elem::I32)) ||
         bad(&op, "needs integers [, mask] and gives a tensor of i32");
}

/// Tiles in shared memory, and asynchronous operations on them.
bool Verifier::tiles(const Op &op) {
  auto bytesOf = [](const Type &t) { return t.numel() * byteWidth(t.elem); };
  auto holds = [](const Type &tile, const Type &t) {
    return tile.isShared && !t.isShared && tile.shape == t.shape && tile.elem == t.elem && !t.isPtr;
  };
  switch (op.kind) {
  case OpKind::SharedAlloc:
    return (op.result()->type.isShared && isRing(op.slots())) ||
           bad(&op, "needs 1 to 65536 slots and gives a shared tile");
  case OpKind::SharedSlot:
    return (op.operands[0]->type.isShared && op.result()->type.isShared &&
            bytesOf(op.result()->type) == bytesOf(op.operands[0]->type) &&
            op.operands[1]->type == Type::scalar(Elem::I32)) ||
           bad(&op, "needs a ring of tiles and an i32, and gives a tile of as many bytes");
  case OpKind::SharedLoad:
    return holds(op.operands[0]->type, op.result()->type) ||
           bad(&op, "needs a tile and gives a tensor of its shape and elements");
  case OpKind::SharedStore:
    return holds(op.operands[0]->type, op.operands[1]->type) ||
           bad(&op, "needs a tile and a tensor of its shape and elements");
  case OpKind::AsyncCopy: {
    size_t n = op.operands.size();
    if (n > 2 && op.operands[n - 1]->type == Type::scalar(Elem::I1))
      --n;
    if (n < 2 || n > 3 || !op.operands[1]->type.isPtr)
      return bad(&op, "needs tile, pointers [, mask] [, whether it is done]");
    const Type &p = op.operands[1]->type;
    if (!holds(op.operands[0]->type, Type{p.elem, false, p.shape, p.layout}))
      return bad(&op, "pointers and tile do not fit");
    if (!vectors(op, p))
      return false;
    return n == 2 || op.operands[2]->type == Type{Elem::I1, false, p.shape, p.layout} ||
           bad(&op, "the mask is not i1 of the pointers' shape");
  }
  case OpKind::BarrierAlloc:
    return (op.result()->type.isShared && op.result()->type.elem == Elem::I64 && isRing(op.slots()) &&
            op.arrivals() > 0) ||
           bad(&op, "needs slots and arrivals and gives mbarriers, a shared tile of i64");
  case OpKind::BarrierWait: case OpKind::BarrierArrive:
    return (op.operands[0]->type.isShared &&
            op.operands[1]->type == Type::scalar(op.kind == OpKind::BarrierWait ? Elem::I32 : Elem::I1)) ||
           bad(&op, "needs an mbarrier and a parity or predicate");
  case OpKind::BarrierFree:
    return (op.operands[0]->type.isShared && op.operands[0]->type.elem == Elem::I64) || bad(&op, "needs mbarriers");
  case OpKind::BarrierExpect:
    return (op.operands[0]->type.isShared && op.bytes() > 0) ||
           bad(&op, "needs an mbarrier and a positive number of bytes");
  case OpKind::TmaCopy: {
    unsigned rank = op.operands.empty() ? 0 : op.operands[0]->type.shape.rank();
    return (op.operands.size() == 3 + 3 * size_t{rank} && op.operands[0]->type.isShared &&
            op.operands[1]->type.isShared) ||
           bad(&op, "needs tile, mbarrier, base, extents, strides, offsets");
  }
  default: break;
  }
  bool ok = op.operands.size() == op.results.size();
  for (size_t i = 0; ok && i < op.results.size(); ++i)
    ok = op.operands[i]->type == op.results[i]->type;
  return ok || bad(&op, "gives its operands");
}

bool Verifier::memory(const Op &op) {
  bool isLoad = op.kind == OpKind::Load;
  size_t n = op.operands.size();
  if (n < (isLoad ? 1u : 2u) || n > 3)
    return bad(&op, isLoad ? "needs ptr [, mask [, other]]" : "needs ptr, value [, mask]");
  const Type &p = op.operands[0]->type;
  Type value{p.elem, false, p.shape, p.layout};
  const Type &given = isLoad ? op.result()->type : op.operands[1]->type;
  if (!p.isPtr || given != value)
    return bad(&op, "pointer and value do not fit");
  size_t mask = isLoad ? 1 : 2;
  if (n > mask && op.operands[mask]->type != value.withElem(Elem::I1))
    return bad(&op, "the mask is not i1 of the pointer's shape");
  if (!vectors(op, p))
    return false;
  return !isLoad || n < 3 || op.operands[2]->type == value || bad(&op, "`other` has another type than the result");
}

/// Read-modify-write kinds. Besides these atomic_rmw has, for integers of any width, "load", whose value operand does
/// not count, and "store", which gives no old value.
static bool isKnownRmw(std::string_view rmw) {
  static constexpr std::string_view kinds[] = {"add", "fadd", "fmin", "fmax", "smax", "smin",
                                               "umax", "umin", "and", "or", "xor", "xchg"};
  return std::find(std::begin(kinds), std::end(kinds), rmw) != std::end(kinds);
}

bool Verifier::descriptor(const Op &op) {
  size_t fixed = op.kind == OpKind::DescLoad ? 1 : 2, n = op.operands.size();
  if (n < fixed + 3 || (n - fixed) % 3 != 0)
    return bad(&op, "needs a base, and extents, strides and offsets of equal number");
  const DescAccess a = descAccess(op);
  const Type &block = a.value ? a.value->type : op.result()->type;
  if (a.rank() != block.shape.rank() || a.rank() > 5)
    return bad(&op, "the rank of the block is not that of the descriptor, or is beyond 5");
  if (block.isPtr || a.base->type != Type::ptr(block.elem))
    return bad(&op, "the base is not a pointer to the block's elements");
  auto isRows = [&](const Type &t) {
    return op.kind != OpKind::DescReduce && a.rank() == 2 && t.elem == Elem::I32 && !t.isPtr && !t.isShared &&
           t.shape.rank() == 1 && t.shape[0] == block.shape[0];
  };
  for (unsigned d = 0; d < a.rank(); ++d)
    if (a.extents[d]->type != Type::scalar(Elem::I32) || a.strides[d]->type != Type::scalar(Elem::I64) ||
        (a.offsets[d]->type != Type::scalar(Elem::I32) && (d || !isRows(a.offsets[d]->type))))
      return bad(&op, "extents and offsets are i32 (the first of two may be one for each row), strides i64");
  if (op.nan() && !block.isFloatLike())
    return bad(&op, "`nan` needs floats");
  if (op.tf32() && (op.kind != OpKind::DescLoad || block.elem != Elem::F32))
    return bad(&op, "`tf32` needs a load of f32");
  if (op.kind != OpKind::DescReduce)
    return true;
  std::string_view rmw = op.rmw();
  return (isKnownRmw(rmw) && rmw != "xchg" && rmw.starts_with('f') == block.isFloatLike()) ||
         bad(&op, "needs an `rmw` that fits the elements");
}

bool Verifier::atomics(const Op &op) {
  size_t n = op.operands.size();
  bool isCas = op.kind == OpKind::AtomicCas;
  if (n < op.maskAt() || n > op.maskAt() + 1)
    return bad(&op, isCas ? "needs ptr, cmp, value [, mask]" : "needs ptr, value [, mask]");
  const Type &p = op.operands[0]->type;
  Type value{p.elem, false, p.shape, p.layout};
  if (!p.isPtr || op.operands[1]->type != value || op.result()->type != value ||
      (isCas && op.operands[2]->type != value))
    return bad(&op, "pointer and value do not fit");
  if (op.mask() && op.mask()->type != value.withElem(Elem::I1))
    return bad(&op, "the mask is not i1 of the pointer's shape");
  if (!vectors(op, p))
    return false;
  if (isCas)
    return true;
  std::string_view rmw = op.rmw(), sem = op.sem();
  bool isLoad = rmw == "load";
  if (isLoad || rmw == "store")
    return (value.isIntLike() && (sem.empty() || sem == "relaxed" || sem == (isLoad ? "acquire" : "release"))) ||
           bad(&op, "a load is relaxed or acquires, a store is relaxed or releases, both of integers");
  if (isKnownRmw(rmw))
    return rmw == "xchg" || rmw.starts_with('f') == value.isFloatLike() ||
           bad(&op, "`rmw` does not fit the element type");
  return bad(&op, "needs a known `rmw`");
}

bool Verifier::dot(const Op &op) {
  const Type &a = op.operands[0]->type, &b = op.operands[1]->type, &c = op.operands[2]->type;
  unsigned r = a.shape.rank();
  bool ok = (r == 2 || r == 3) && b.shape.rank() == r && c.shape.rank() == r && c == op.result()->type && !a.isPtr &&
            !b.isPtr && !c.isPtr;
  ok = ok && a.isIntLike() == b.isIntLike() && (a.isFloatLike() ? c.isFloatLike() : c.isIntLike());
  ok = ok && a.shape[r - 1] == b.shape[r - 2] && a.shape[r - 2] == c.shape[r - 2] && b.shape[r - 1] == c.shape[r - 1];
  if (ok && r == 3)
    ok = a.shape[0] == b.shape[0] && a.shape[0] == c.shape[0];
  if (!ok)
    return bad(&op, "needs a[(B,)M,K], b[(B,)K,N], acc[(B,)M,N] and gives the type of acc");
  // What computes it is decided with the layouts.
  std::string_view instr = op.instr();
  bool isMatrix = instr == "mma" || instr == "async_mma";
  if (c.layout ? !isMatrix && instr != "fma" && instr != "fma_tiles" : op.find(attr::instr) != nullptr)
    return bad(&op, "needs a known `instr` where there are layouts, and none elsewhere");
  std::span<const int64_t> grid = op.grid();
  if (isMatrix ? grid.size() != 3 || std::any_of(grid.begin(), grid.end(), [](int64_t n) { return n < 1; })
               : op.find(attr::grid) != nullptr)
    return bad(&op, "needs a `grid` of three numbers with a matrix instruction, and none elsewhere");
  bool readsTiles = instr == "fma_tiles" || instr == "async_mma";
  return (b.isShared == readsTiles && (a.isShared == readsTiles || (instr == "async_mma" && !a.isShared))) ||
         bad(&op, "its operands are not where its `instr` reads them");
}

bool Verifier::combine(const Op &op) {
  size_t n = op.operands.size();
  if (n == 0 || op.results.size() != n)
    return bad(&op, "needs as many results as inputs");
  const Shape &s = op.operands[0]->type.shape;
  if (!axis(op, s.rank()))
    return false;
  Shape out = s;
  if (op.kind == OpKind::Reduce)
    out.erase(static_cast<unsigned>(op.axis()));
  const Block &b = *op.region(0);
  if (b.args.size() != 2 * n)
    return bad(&op, "its region needs two arguments for each input");
  std::vector<Type> scalars;
  for (size_t i = 0; i < n; ++i) {
    const Type &t = op.operands[i]->type;
    scalars.push_back(t.scalarType());
    if (t.shape != s || bare(op.results[i]->type) != t.withShape(out))
      return bad(&op, "inputs and results do not fit in shape or type");
    if (b.args[i]->type != scalars[i] || b.args[n + i]->type != scalars[i])
      return bad(&op, "arguments of its region have other types than the elements");
  }
  return b.terminator() && terminator(*b.terminator(), OpKind::Yield, b, scalars);
}

bool Verifier::terminator(const Op &op, OpKind kind, const Block &b, std::span<const Type> types, size_t skip) {
  if (op.kind != kind)
    return bad(&op, std::string("must be `") + info(kind).name + "` here");
  bool ok = op.operands.size() == types.size() + skip;
  for (size_t i = 0; ok && i < types.size(); ++i)
    ok = op.operands[i + skip]->type == types[i];
  return ok || bad(&op, "its values do not have the number and types that are expected here");
}

bool Verifier::loop(const Op &op) {
  bool isFor = op.kind == OpKind::For;
  size_t first = isFor ? 3 : 0;
  if (op.operands.size() < first || op.results.size() != op.operands.size() - first)
    return bad(&op, "needs as many results as initial values");
  std::vector<Type> carried;
  for (size_t i = first; i < op.operands.size(); ++i) {
    carried.push_back(op.operands[i]->type);
    if (op.results[i - first]->type != carried.back())
      return bad(&op, "results and initial values differ in type");
  }
  if (isFor) {
    const Type &t = op.operands[0]->type;
    if (!t.isScalar() || !t.isIntLike() || op.operands[1]->type != t || op.operands[2]->type != t)
      return bad(&op, "bounds and step must be scalar integers of one type");
  }
  for (const Region *r : op.regions) {
    const Block &b = *r->block;
    size_t lead = isFor ? 1 : 0;
    bool ok = b.args.size() == carried.size() + lead && (!isFor || b.args[0]->type == op.operands[0]->type);
    for (size_t i = 0; ok && i < carried.size(); ++i)
      ok = b.args[lead + i]->type == carried[i];
    if (!ok || !b.terminator())
      return bad(&op, "arguments of its region do not fit");
  }
  if (isFor)
    return terminator(*op.region(0)->terminator(), OpKind::Yield, *op.region(0), carried);
  const Op &c = *op.region(0)->terminator();
  if (!terminator(c, OpKind::Condition, *op.region(0), carried, 1))
    return false;
  if (c.operands[0]->type != Type::scalar(Elem::I1))
    return bad(&c, "the condition must be a scalar i1");
  return terminator(*op.region(1)->terminator(), OpKind::Yield, *op.region(1), carried);
}

bool Verifier::condition(const Op &op) {
  if (op.operands[0]->type != Type::scalar(Elem::I1))
    return bad(&op, "the condition must be a scalar i1");
  std::vector<Type> types;
  for (const Value *v : op.results)
    types.push_back(v->type);
  for (const Region *r : op.regions)
    if (!r->block->args.empty() || !r->block->terminator() ||
        !terminator(*r->block->terminator(), OpKind::Yield, *r->block, types))
      return bad(&op, "an arm has arguments or no terminator");
  return true;
}

bool Verifier::partitions(const Op &op) {
  const size_t n = op.regions.size();
  const std::vector<Op *> &around = function_->block()->ops;
  if (op.parent != function_->block() || around.size() < 2 || around[around.size() - 2] != &op)
    return bad(&op, "nothing but `return` may follow, in the kernel's own block");
  auto hasOne = [n](std::span<const int64_t> list) { return list.empty() || list.size() == n; };
  if (n < 2 || op.warps().size() != n || op.barriers().size() != n || !hasOne(op.registers()) || !hasOne(op.elected()))
    return bad(&op, "needs two regions or more, and an entry of each list for each of them");
  uint32_t used = 0;
  for (size_t i = 0; i < n; ++i) {
    const int64_t barrier = op.barriers()[i];
    const bool isElected = !op.elected().empty() && op.elected()[i];
    if (op.warps()[i] < 1 || barrier < 0 || barrier > 15 || (barrier ? isElected || (used >> barrier & 1) : !isElected))
      return bad(
          &op,
          "each region needs warps and a named barrier of its own, 1 to 15; one that an elected thread runs has none");
    used |= uint32_t{1} << barrier;
    const Block &b = *op.region(static_cast<unsigned>(i));
    if (!b.args.empty() || !b.terminator() || !terminator(*b.terminator(), OpKind::Yield, b, {}))
      return bad(&op, "its regions must have neither arguments nor results");
  }
  return true;
}

bool Verifier::call(const Op &op) {
  std::string_view name = op.callee();
  if (!functions_.count(name))
    return bad(&op, "the callee is not defined before its caller");
  const Function &f = *module_.find(name);
  bool ok = f.block()->args.size() == op.operands.size() && f.resultTypes.size() == op.results.size() && !f.isKernel;
  for (size_t i = 0; ok && i < op.operands.size(); ++i)
    ok = f.block()->args[i]->type == op.operands[i]->type;
  for (size_t i = 0; ok && i < op.results.size(); ++i)
    ok = f.resultTypes[i] == op.results[i]->type;
  return ok || bad(&op, "arguments or results do not fit the callee");
}

bool Verifier::debugging(const Op &op) {
  bool ok = !op.operands.empty() && op.operands.size() <= (op.kind == OpKind::Assert ? 2u : 1u);
  for (const Value *v : op.operands)
    ok = ok && v->type == op.operands[0]->type && v->type.isIntLike() && v->type.elem == Elem::I1;
  if (op.kind == OpKind::Assume)
    ok = ok && op.operands[0]->type.isScalar();
  return ok || bad(&op, "needs i1 operands");
}

bool Verifier::assembly(const Op &op) {
  const AsmConstraints c = asmConstraints(op.constraints());
  size_t outputs = op.kind == OpKind::Asm ? c.outputs.size() : op.results.size();
  if (c.inputs.size() != op.operands.size() || c.outputs.size() != outputs || outputs == 0)
    return bad(&op, "the constraints do not fit the operands and results");
  if (op.kind == OpKind::Asm && (op.output() < 0 || static_cast<size_t>(op.output()) >= outputs))
    return bad(&op, "needs the number of its output");
  if (std::string_view dollar = badAsmOperand(op.text(), c.outputs.size() + c.inputs.size()); !dollar.empty())
    return bad(&op, "`" + std::string(dollar) + "` in the text names no operand");
  std::vector<std::string> types;
  for (std::string_view rest = op.outputs(); types.empty() || !rest.empty();) {
    size_t end = std::min(rest.find(','), rest.size());
    types.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (types.size() != outputs)
    return bad(&op, "the types of the outputs do not fit the constraints");
  for (size_t i = 0; i < op.results.size(); ++i)
    if (types[op.kind == OpKind::Asm ? static_cast<size_t>(op.output()) : i] != name(op.results[i]->type.elem))
      return bad(&op, "an output has another type than the result");
  for (const std::string &t : types)
    if (t != "i8" && t != "i16" && t != "i32" && t != "i64" && t != "f32" && t != "f64")
      return bad(&op, "`" + t + "` is no type of an output");
  auto fits = [&](const Value *v) {
    const Type &t = v->type, &r = op.results[0]->type;
    return !t.isPtr && !t.isShared && t.shape == r.shape && t.layout == r.layout && bitWidth(t.elem) >= 8 &&
           (t.isIntLike() || t.elem == Elem::F32 || t.elem == Elem::F64);
  };
  return (std::all_of(op.operands.begin(), op.operands.end(), fits) &&
          std::all_of(op.results.begin(), op.results.end(), fits)) ||
         bad(&op, "operands and results are i8, i16, i32, i64, f32 or f64, and of one shape");
}

} // namespace tegula::ir
