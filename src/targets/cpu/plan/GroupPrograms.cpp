// Decides which kernels run by groups of programs, and rewrites them. See GroupPrograms.h.
#include "targets/cpu/plan/GroupPrograms.h"
#include "ir/Builder.h"
#include "ir/Clone.h"
#include "targets/cpu/plan/ProgramGrowth.h"
#include "targets/cpu/plan/ProgramOrder.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;
using ir::Shape;
using ir::Type;
using ir::Value;

namespace {

/// Bytes of a row that a group reads: a page. A program's own piece is at most half of it.
constexpr int64_t rowOfGroup = 4096;
/// Bits of the widest vector of any CPU. All its lanes, which have 16 to 32 bits (NestLayOut::laneBits), are
/// of one program.
constexpr int64_t widestVector = 512;

/// Does `op` treat elements one by one, whatever the shape of their tiles?
bool isAllowed(const Op &op) {
  switch (op.kind) {
  case OpKind::Load: case OpKind::Store:
    return !op.isVolatile() && baseArgument(op.operands[0]) >= 0; // else null pointers are reported, with the program
  case OpKind::Return: case OpKind::Assume:
    return true;
  case OpKind::Asm:
  case OpKind::Dot:
  case OpKind::Gather:
  case OpKind::Histogram:
  case OpKind::Clock:
  case OpKind::Unsplat: return false;
  default:
    return op.has(ir::traits::Pure) && op.regions.empty();
  }
}

/// A candidate: it stores rows of a tile.
bool isCandidate(const ir::Function &f) {
  bool numbered = false, rows = false;
  for (const Op *op : f.block()->ops) {
    if (!op->regions.empty() || op->kind == OpKind::Dot)
      return false;
    numbered |= op->kind == OpKind::ProgramId;
    rows |= op->kind == OpKind::Store && op->operands[0]->type.shape.rank() > 1;
  }
  return numbered && rows && llvm::all_of(f.block()->ops, [](const Op *op) { return isAllowed(*op); });
}

int64_t widthOf(const Type &t) { return std::max(1u, ir::byteWidth(t.elem)); }

/// The values of a kernel that differ between programs, and whether groups of programs pay.
class Differences {
public:
  Differences(const ir::Function &f, ProgramGroup &group) : function_(f), group_(group), growth_(group.axis) {}

  /// Fills `group`. False if groups do not pay.
  bool look() {
    for (const Op *op : function_.block()->ops)
      if (!look(*op))
        return false;
    if (!group_.rowBytes || group_.rowBytes > rowOfGroup / 2)
      return false;
    group_.size = rowOfGroup / group_.rowBytes;
    return true;
  }

  const ProgramGrowth &growth() const { return growth_; }

private:
  bool look(const Op &op);
  bool lookAtAccess(const Op &op);

  const ir::Function &function_;
  ProgramGroup &group_;
  ProgramGrowth growth_;
};

class Grouper {
public:
  /// A kernel for which Differences say that it is worth it.
  Grouper(ir::Module &m, ProgramGroup &group)
      : b_(m), group_(group), function_(*m.functions.back()), differences_(function_, group) {}

  void run() {
    differences_.look();
    std::vector<Op *> ops;
    ops.swap(function_.block()->ops);
    b_.setBlock(function_.block());
    for (Op *op : ops)
      rewrite(*op);
  }

private:
  bool varies(const Value *v) const { return differences_.growth().varies(v); }

  // The kernel for a group. A tile of [.., n] that varies has [.., size * n] elements; where shapes change it is looked
  // at as one of [size, .., n].
  Shape grouped(const Shape &s) const {
    Shape out = s;
    if (!out.rank())
      return {group_.size};
    out.set(out.rank() - 1, out[out.rank() - 1] * group_.size);
    return out;
  }
  static Shape inFront(int64_t n, const Shape &s) {
    Shape out = s;
    out.insert(0, n);
    return out;
  }
  Shape split(const Shape &s, int64_t programs) const {
    Shape out = s;
    out.insert(s.rank() - 1, programs);
    return out;
  }
  Value *inGroup(Value *v);
  Value *programsFirst(Value *v);
  Value *programsInside(Value *v);
  void rewrite(Op &op);
  void reshape(const Op &op);

  ir::Builder b_;
  ProgramGroup &group_;
  ir::Function &function_;
  Differences differences_;
  llvm::DenseMap<const Value *, Value *> inGroup_;
};

// Every tile of rows has to go on in memory from program to program.
bool Differences::lookAtAccess(const Op &op) {
  const Value *p = op.operands[0];
  const Shape &s = p->type.shape;
  const Growth g = growth_.of(p);
  const Type &t = op.kind == OpKind::Store ? op.operands[1]->type : op.result()->type;
  const int64_t lane = t.isPtr ? 16 : std::clamp<int64_t>(ir::bitWidth(t.elem), 16, 32);
  if (op.kind == OpKind::Store && (!g.varies || s.rank() < 1 || s.rank() > 4 || s[s.rank() - 1] * lane < widestVector))
    return false;
  if (s.rank() < 1 || !g.varies)
    return true;
  const int64_t columns = s[s.rank() - 1], width = t.isPtr ? 8 : widthOf(t);
  if (g.last() != width || g.program != columns * width)
    return false;
  if (s.numel() > columns && columns * width > group_.rowBytes) {
    group_.rowBytes = columns * width;
    group_.access = &op;
  }
  return true;
}

bool Differences::look(const Op &op) {
  if ((op.kind == OpKind::Load || op.kind == OpKind::Store) && !lookAtAccess(op))
    return false;
  growth_.note(op);
  return true;
}

// A value as all programs of the group have it.
Value *Grouper::inGroup(Value *v) {
  Value *&out = inGroup_[v];
  if (out)
    return out;
  const Shape &s = v->type.shape, to = grouped(s);
  Value *made;
  if (v->def && v->def->kind == OpKind::Const) {
    const Type t = v->type.withShape(to);
    made = b_.create(OpKind::Const, {}, {&t, 1}, v->def->attrs)->result();
  } else if (!s.rank()) {
    made = b_.splat(v, to);
  } else {
    made = b_.reshape(b_.broadcast(b_.reshape(v, split(s, 1)), split(s, group_.size)), to);
  }
  return inGroup_[v] = made;
}

Value *Grouper::programsFirst(Value *v) {
  const Shape &s = v->type.shape;
  if (!varies(v))
    return s.rank() ? b_.broadcast(b_.expandDims(v, 0), inFront(group_.size, s)) : b_.splat(v, {group_.size});
  Value *x = inGroup(v);
  if (!s.rank())
    return x;
  std::vector<int64_t> perm{s.rank() - 1};
  for (unsigned i = 0; i + 1 < s.rank(); ++i)
    perm.push_back(i);
  perm.push_back(s.rank());
  return b_.permute(b_.reshape(x, split(s, group_.size)), perm);
}

Value *Grouper::programsInside(Value *v) {
  const Shape &s = v->type.shape; // [size, .., n]
  std::vector<int64_t> perm;
  Shape to;
  for (unsigned i = 1; i < s.rank(); ++i) {
    if (i + 1 == s.rank())
      perm.push_back(0);
    perm.push_back(i);
    to.push(s[i]);
  }
  return b_.reshape(b_.permute(v, perm), grouped(to));
}

// An operation that moves elements, for each program.
void Grouper::reshape(const Op &op) {
  std::vector<Value *> operands, results;
  for (Value *v : op.operands)
    operands.push_back(programsFirst(v));
  const int64_t n = group_.size;
  switch (op.kind) {
  case OpKind::Splat: {
    Value *x = operands[0];
    for (unsigned i = 0; i < op.result()->type.shape.rank(); ++i)
      x = b_.expandDims(x, 1);
    results = {b_.broadcast(x, inFront(n, op.result()->type.shape))};
    break;
  }
  case OpKind::Broadcast:
    results = {b_.broadcast(operands[0], inFront(n, op.result()->type.shape))};
    break;
  case OpKind::Reshape:
    results = {b_.reshape(operands[0], inFront(n, op.result()->type.shape))};
    break;
  default: {
    std::vector<Type> types;
    for (const Value *r : op.results)
      types.push_back(r->type.withShape(inFront(n, r->type.shape)));
    std::vector<ir::Attr> attrs = op.attrs;
    Op *made = b_.create(op.kind, operands, types, std::move(attrs));
    if (op.kind == OpKind::ExpandDims || op.kind == OpKind::Cat)
      made->set(ir::attr::axis, op.axis() + 1);
    if (op.kind == OpKind::Permute) {
      std::vector<int64_t> perm{0};
      for (int64_t d : op.perm())
        perm.push_back(d + 1);
      made->set(ir::attr::perm, perm);
    }
    results = made->results;
  }
  }
  for (size_t i = 0; i < results.size(); ++i)
    inGroup_[op.results[i]] = programsInside(results[i]);
}

void Grouper::rewrite(Op &op) {
  b_.setLoc(op.loc);
  b_.setInlinedAt(op.inlinedAt);
  const bool isVarying = llvm::any_of(op.operands, [&](const Value *v) { return varies(v); });
  const bool ofFirst = llvm::any_of(op.results, [&](const Value *v) { return differences_.growth().of(v).counted; });
  const bool divides = differences_.growth().isDividedNumber(op);
  if (!isVarying || ofFirst || divides) {
    function_.block()->ops.push_back(&op);
    Value *r = op.results.empty() ? nullptr : op.result();
    if (isVarying && divides) { // the quotient is one number as long as the remainder stays below the divisor
      Value *n = op.operands[1],
            *rest = op.kind == OpKind::SRem || op.kind == OpKind::URem ? r : b_.binary(OpKind::SRem, op.operands[0], n);
      group_.limits.push_back(b_.binary(OpKind::Sub, n, rest));
    }
    if (ofFirst) {
      Value *number = b_.range(0, group_.size);
      if (r->type.elem != ir::Elem::I32)
        number = b_.cast(OpKind::SExt, number, r->type.elem);
      inGroup_[r] = b_.binary(OpKind::Add, b_.splat(r, {group_.size}), number);
    }
    return;
  }
  if (op.kind == OpKind::Assume)
    return;
  if (op.has(ir::traits::Shape))
    return reshape(op);
  std::vector<Value *> operands;
  std::vector<Type> types;
  for (Value *v : op.operands)
    operands.push_back(inGroup(v));
  for (const Value *r : op.results)
    types.push_back(r->type.withShape(grouped(r->type.shape)));
  Op *made = b_.create(op.kind, operands, types, op.attrs);
  for (size_t i = 0; i < types.size(); ++i) {
    made->results[i]->name = op.results[i]->name;
    inGroup_[op.results[i]] = made->results[i];
  }
}

} // namespace

std::optional<GroupedPrograms> groupPrograms(const ir::Module &m) {
  const ir::Function *kernel = m.kernel();
  if (m.functions.size() != 1 || !isCandidate(*kernel))
    return {};
  GroupedPrograms out;
  out.group.axis = runsAlongY(*kernel, Uses(*kernel)) ? 1 : 0;
  if (ProgramGroup wanted = out.group; !Differences(*kernel, wanted).look()) // before anything is copied
    return {};
  out.module = ir::clone(m);
  Grouper(*out.module, out.group).run();
  return out;
}

} // namespace tegula::cpu
