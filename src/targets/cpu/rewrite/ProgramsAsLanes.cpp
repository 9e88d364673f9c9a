// See ProgramsAsLanes.h.
#include "targets/cpu/rewrite/ProgramsAsLanes.h"
#include "ir/Builder.h"
#include "ir/Clone.h"
#include "targets/cpu/plan/ProgramGrowth.h"
#include "targets/cpu/plan/ProgramOrder.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;
using ir::Shape;
using ir::Type;
using ir::Value;

namespace {

/// Programs of a group where vectors are short. Elsewhere they are as many as a vector has lanes of 32 bits: the next
/// group finds the other half of its lines in a cache.
constexpr int64_t fewestPrograms = 8;
/// Dimensions of a program's tiles. More, and those of all programs together would be walked through as one.
constexpr unsigned mostDims = 3;
/// Elements of a tile of all programs: some of them are in memory between two nests.
constexpr int64_t mostElements = int64_t(1) << 17;

/// Only scalars that are made of arguments and the grid, without effects: they may stand at the kernel's beginning.
class Prologue {
public:
  explicit Prologue(const ir::Block &b) {
    for (const Op *op : b.ops)
      if (op->has(ir::traits::Pure) && op->regions.empty() &&
          llvm::all_of(op->results, [](const Value *v) { return v->type.isScalar(); }) &&
          llvm::all_of(op->operands, [&](const Value *v) {
            return v->type.isScalar() && (v->def ? ops_.contains(v->def) : v->block == &b);
          }))
        ops_.insert(op);
  }
  bool contains(const Op *op) const { return ops_.contains(op); }

private:
  llvm::SmallPtrSet<const Op *, 16> ops_;
};

/// Can `op` run for many programs at once, if its loop bounds or condition are the same in all of them?
bool isAllowed(const Op &op) {
  if (llvm::any_of(op.results, [](const Value *v) { return v->type.shape.rank() > mostDims; }) ||
      llvm::any_of(op.operands, [](const Value *v) { return v->type.shape.rank() > mostDims; }))
    return false;
  switch (op.kind) {
  case OpKind::Load: case OpKind::Store:
    return !op.isVolatile() && baseArgument(op.operands[0]) >= 0; // else null pointers are reported, with the program
  case OpKind::For: case OpKind::If:
    return llvm::all_of(op.regions, [](const ir::Region *r) {
      return llvm::all_of(r->block->ops, [](const Op *inner) { return isAllowed(*inner); });
    });
  case OpKind::Reduce: case OpKind::Scan:
    return llvm::all_of(op.region(0)->ops, [](const Op *inner) {
      return inner->regions.empty() && (inner->has(ir::traits::Pure) || inner->kind == OpKind::Yield);
    });
  case OpKind::Return: case OpKind::Yield: case OpKind::Assume:
    return true;
  case OpKind::Asm: case OpKind::Dot: case OpKind::Gather: case OpKind::Histogram: case OpKind::SmId:
    return false;
  default:
    return op.has(ir::traits::Pure) && op.regions.empty();
  }
}

/// Whether accesses of a kernel go on in memory from program to program, by elements, those in loops more than others.
class Worth {
public:
  Worth(const ir::Function &f, unsigned axis) : function_(f), prologue_(*f.block()), growth_(axis) {
    for (const Op *op : f.block()->ops)
      growth_.note(*op);
  }

  bool is() {
    constexpr int64_t most = 8; // elements beside each other for one of another kind
    return look(*function_.block(), 0) && access && beside_ / most >= apart_ && beside_ * most / 2 >= same_;
  }

  const Op *access = nullptr; // the one of most elements that are beside each other
  int64_t elements = 1;       // of the largest tile

private:
  bool look(const ir::Block &b, unsigned depth);
  bool lookAt(const Op &access, unsigned depth);

  const ir::Function &function_;
  const Prologue prologue_;
  ProgramGrowth growth_;
  // elements: beside those of the next program, somewhere else, and those that programs have in common
  int64_t beside_ = 0, apart_ = 0, same_ = 0, largest_ = 0;
};

bool Worth::look(const ir::Block &b, unsigned depth) {
  for (const Op *op : b.ops) {
    for (const Value *r : op->results)
      elements = std::max(elements, r->type.numel());
    const bool decides = op->kind == OpKind::For || op->kind == OpKind::If;
    if (decides && llvm::any_of(llvm::ArrayRef(op->operands).take_front(op->kind == OpKind::For ? 3 : 1),
                                [&](const Value *v) { return growth_.varies(v); }))
      return false;
    if (growth_.isDividedNumber(*op) && !prologue_.contains(op)) // how many programs run is asked once
      return false;
    if ((op->kind == OpKind::Load || op->kind == OpKind::Store) && !lookAt(*op, depth))
      return false;
    if (decides)
      for (const ir::Region *r : op->regions)
        if (!look(*r->block, depth + (op->kind == OpKind::For)))
          return false;
  }
  return true;
}

bool Worth::lookAt(const Op &op, unsigned depth) {
  constexpr unsigned roundBits = 4, mostDepth = 4; // of a loop with an unknown trip count
  const Value *p = op.operands[0];
  const Type &t = op.kind == OpKind::Store ? op.operands[1]->type : op.result()->type;
  const int64_t bytes = t.isPtr ? 8 : std::max(1u, ir::byteWidth(t.elem)),
                n = t.numel() << (roundBits * std::min(depth, mostDepth));
  if (!growth_.varies(p)) {
    same_ += n;
    // else the last program wins
    return op.kind == OpKind::Load || llvm::none_of(op.operands, [&](const Value *v) { return growth_.varies(v); });
  }
  const Growth g = growth_.of(p);
  bool inRow = false;
  for (size_t d = 0; d < g.dims.size(); ++d)
    inRow |= g.dims[d] && std::abs(*g.dims[d]) == bytes && t.shape[static_cast<unsigned>(d)] > 1;
  if (g.program != bytes || inRow) {
    apart_ += n;
    return true;
  }
  beside_ += n;
  if (n > largest_)
    largest_ = n, access = &op;
  return true;
}

/// Writes the kernel of one program as that of `group.size` of them.
class LaneWriter {
public:
  LaneWriter(ir::Module &m, const ProgramGroup &group, const Prologue &prologue, const ProgramGrowth &growth)
      : m_(m), b_(m), size_(group.size), count_(group.count), prologue_(prologue), growth_(growth), copy_(m) {}

  /// `ops` of the kernel to the end of a block, after the prologue.
  void write(llvm::ArrayRef<Op *> ops, ir::Block &to);

private:
  bool varies(const Value *v) const { return growth_.varies(v); }
  bool anyVaries(llvm::ArrayRef<Value *> values) const {
    return llvm::any_of(values, [&](const Value *v) { return varies(v); });
  }
  Shape withPrograms(const Shape &s) const {
    Shape out = s;
    out.push(size_);
    return out;
  }
  /// A value that has the programs already, in a block where it may not.
  Value *lanes(Value *v);
  Value *along(Value *programs, const Shape &s);
  void write(const Op &op, ir::Block &to);
  void writeLoop(const Op &op, ir::Block &to);
  void writeIf(const Op &op, ir::Block &to);
  void writeBlock(const ir::Block &from, ir::Block &to, llvm::ArrayRef<bool> varying);
  llvm::SmallVector<Value *, 4> written(const Op &op);
  llvm::SmallVector<Value *, 4> moved(const Op &op);
  llvm::SmallVector<Value *, 4> same(const Op &op, llvm::ArrayRef<Value *> operands, llvm::ArrayRef<Type> types);
  Value *there(const Shape &s) {
    return along(b_.cmp(ir::CmpPred::Slt, b_.range(0, size_), b_.splat(const_cast<Value *>(count_), {size_})), s);
  }
  void map(const Value *from, Value *to) { inLanes_[from] = to; }

  ir::Module &m_;
  ir::Builder b_;
  const int64_t size_;
  const Value *count_;
  const Prologue &prologue_;
  const ProgramGrowth &growth_;
  ir::Cloner copy_; // what does not vary
  llvm::DenseMap<const Value *, Value *> inLanes_;
};

// Numbers of programs, as a tile of shape `s` has them.
Value *LaneWriter::along(Value *programs, const Shape &s) {
  for (unsigned i = 0; i < s.rank(); ++i)
    programs = b_.expandDims(programs, 0);
  return b_.broadcast(programs, withPrograms(s));
}

Value *LaneWriter::lanes(Value *v) {
  if (varies(v))
    return inLanes_.lookup(v);
  Value *one = copy_(v);
  const Shape &s = v->type.shape;
  if (v->def && v->def->kind == OpKind::Const) {
    const Type t = v->type.withShape(withPrograms(s));
    return b_.create(OpKind::Const, {}, {&t, 1}, v->def->attrs)->result();
  }
  if (!s.rank())
    return b_.splat(one, {size_});
  return b_.broadcast(b_.expandDims(one, s.rank()), withPrograms(s));
}

/// The operation on other operands, without what is known of each dimension.
llvm::SmallVector<Value *, 4> LaneWriter::same(const Op &op, llvm::ArrayRef<Value *> operands,
                                               llvm::ArrayRef<Type> types) {
  std::vector<ir::Attr> attrs;
  for (const ir::Attr &a : op.attrs)
    if (a.key != ir::attr::divisibility && a.key != ir::attr::contiguity && a.key != ir::attr::constancy)
      attrs.push_back(a);
  Op *made = b_.create(op.kind, operands, types, std::move(attrs));
  for (size_t i = 0; i < op.regions.size(); ++i) // of a reduction or scan: of single elements
    ir::Cloner(m_).copyBlock(*op.regions[i]->block, *made->regions[i]->block);
  return llvm::SmallVector<Value *, 4>(made->results.begin(), made->results.end());
}

llvm::SmallVector<Value *, 4> LaneWriter::moved(const Op &op) {
  const Shape &from = op.operands[0]->type.shape;
  Value *x = lanes(op.operands[0]);
  auto exchanged = [&](Value *v) { // [.., programs, 2] and [.., 2, programs]
    const int64_t rank = v->type.shape.rank();
    std::vector<int64_t> perm;
    for (int64_t i = 0; i + 2 < rank; ++i)
      perm.push_back(i);
    perm.insert(perm.end(), {rank - 1, rank - 2});
    return b_.permute(v, perm);
  };
  llvm::SmallVector<Type, 2> types;
  switch (op.kind) {
  case OpKind::Splat:
    return {along(x, op.result()->type.shape)};
  case OpKind::Unsplat:
    return {b_.reshape(x, {size_})};
  case OpKind::Broadcast:
    return {b_.broadcast(x, withPrograms(op.result()->type.shape))};
  case OpKind::Reshape:
    return {b_.reshape(x, withPrograms(op.result()->type.shape))};
  case OpKind::ExpandDims:
    return {b_.expandDims(x, static_cast<unsigned>(op.axis()))};
  case OpKind::Permute: {
    std::vector<int64_t> perm(op.perm().begin(), op.perm().end());
    perm.push_back(from.rank());
    return {b_.permute(x, perm)};
  }
  case OpKind::Join: {
    Shape s = withPrograms(from);
    s.push(2);
    types.push_back(op.result()->type.withShape(s));
    return {exchanged(same(op, {x, lanes(op.operands[1])}, types)[0])};
  }
  case OpKind::Split: {
    for (const Value *r : op.results)
      types.push_back(r->type.withShape(withPrograms(r->type.shape)));
    return same(op, {exchanged(x)}, types);
  }
  default: // cat
    types.push_back(op.result()->type.withShape(withPrograms(op.result()->type.shape)));
    return same(op, {x, lanes(op.operands[1])}, types);
  }
}

llvm::SmallVector<Value *, 4> LaneWriter::written(const Op &op) {
  if (op.has(ir::traits::Shape))
    return moved(op);
  if (op.results.size() == 1 && growth_.of(op.result()).counted) {
    if (!prologue_.contains(&op)) // in a branch: the first program's is written there, too
      copy_.copy(op, *b_.block());
    Value *first = copy_(op.result()), *number = b_.range(0, size_);
    if (first->type.elem != ir::Elem::I32)
      number = b_.cast(OpKind::SExt, number, first->type.elem);
    return {b_.binary(OpKind::Add, b_.splat(first, {size_}), number)};
  }
  llvm::SmallVector<Value *, 4> operands;
  llvm::SmallVector<Type, 4> types;
  for (Value *v : op.operands)
    operands.push_back(lanes(v));
  for (const Value *r : op.results)
    types.push_back(r->type.withShape(withPrograms(r->type.shape)));
  if (const size_t at = op.maskAt(); op.kind == OpKind::Load || op.kind == OpKind::Store) {
    Value *mask = there(op.operands[0]->type.shape);
    if (op.mask())
      operands[at] = b_.binary(OpKind::And, operands[at], mask);
    else
      operands.push_back(mask);
  }
  return same(op, operands, types);
}

void LaneWriter::writeBlock(const ir::Block &from, ir::Block &to, llvm::ArrayRef<bool> varying) {
  for (const Op *op : from.ops) {
    if (op->kind != OpKind::Yield) {
      write(*op, to);
      continue;
    }
    b_.setBlock(&to);
    llvm::SmallVector<Value *, 4> values;
    for (size_t i = 0; i < op->operands.size(); ++i)
      values.push_back(varying[i] ? lanes(op->operands[i]) : copy_(op->operands[i]));
    b_.yield(values);
  }
}

void LaneWriter::writeLoop(const Op &op, ir::Block &to) {
  const ir::Block &body = *op.region(0);
  llvm::SmallVector<Value *, 4> inits;
  llvm::SmallVector<bool, 4> varying;
  for (size_t i = 0; i < op.results.size(); ++i) {
    varying.push_back(varies(op.results[i]));
    inits.push_back(varying[i] ? lanes(op.operands[i + 3]) : copy_(op.operands[i + 3]));
  }
  Op *made = b_.forOp(copy_(op.operands[0]), copy_(op.operands[1]), copy_(op.operands[2]), inits, op.attrs);
  ir::Block &inside = *made->region(0);
  copy_.map(body.args[0], inside.args[0]);
  for (size_t i = 0; i < varying.size(); ++i) {
    inside.args[i + 1]->name = body.args[i + 1]->name;
    if (varying[i])
      map(body.args[i + 1], inside.args[i + 1]), map(op.results[i], made->results[i]);
    else
      copy_.map(body.args[i + 1], inside.args[i + 1]), copy_.map(op.results[i], made->results[i]);
  }
  writeBlock(body, inside, varying);
  b_.setBlock(&to);
}

void LaneWriter::writeIf(const Op &op, ir::Block &to) {
  llvm::SmallVector<Type, 4> types;
  llvm::SmallVector<bool, 4> varying;
  for (const Value *r : op.results) {
    varying.push_back(varies(r));
    types.push_back(varies(r) ? r->type.withShape(withPrograms(r->type.shape)) : r->type);
  }
  Op *made = b_.ifOp(copy_(op.operands[0]), types);
  for (size_t i = 0; i < op.regions.size(); ++i)
    writeBlock(*op.regions[i]->block, *made->regions[i]->block, varying);
  for (size_t i = 0; i < varying.size(); ++i)
    if (varying[i])
      map(op.results[i], made->results[i]);
    else
      copy_.map(op.results[i], made->results[i]);
  b_.setBlock(&to);
}

void LaneWriter::write(const Op &op, ir::Block &to) {
  b_.setBlock(&to);
  b_.setLoc(op.loc);
  b_.setInlinedAt(op.inlinedAt);
  if (op.kind == OpKind::For)
    return writeLoop(op, to);
  if (op.kind == OpKind::If)
    return writeIf(op, to);
  const bool varying = anyVaries(op.operands) || anyVaries(op.results);
  if (op.kind == OpKind::Assume && varying)
    return;
  if (!varying) {
    copy_.copy(op, to);
    return;
  }
  const llvm::SmallVector<Value *, 4> results = written(op);
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i]->name.empty())
      results[i]->name = op.results[i]->name;
    map(op.results[i], results[i]);
  }
}

void LaneWriter::write(llvm::ArrayRef<Op *> ops, ir::Block &to) {
  for (const Op *op : ops)
    if (op->kind != OpKind::Return && (!prologue_.contains(op) || anyVaries(op->results)))
      write(*op, to);
}

} // namespace

std::optional<ProgramGroup> programLanes(const ir::Module &m, const CpuTarget &target) {
  const ir::Function *kernel = m.kernel();
  if (m.functions.size() != 1 || !llvm::all_of(kernel->block()->ops, [](const Op *op) { return isAllowed(*op); }))
    return {};
  const bool isY = runsAlongY(*kernel, Uses(*kernel));
  for (const unsigned axis : {isY ? 1u : 0u, isY ? 0u : 1u}) {
    Worth worth(*kernel, axis);
    if (!worth.is())
      continue;
    ProgramGroup group;
    group.axis = axis;
    group.size = std::max<int64_t>(fewestPrograms, target.vectorBits / 32);
    if (group.size * worth.elements > mostElements)
      return {};
    // what is computed for lanes without a program costs as much, and where there are few programs, their elements
    // share lines
    group.least = group.size * 3 / 4;
    group.access = worth.access;
    return group;
  }
  return {};
}

void programsAsLanes(ir::Module &m, ProgramGroup &group) {
  ir::Function &kernel = *m.kernel();
  ir::Block &block = *kernel.block();
  const Prologue prologue(block);
  std::vector<Op *> ops;
  ops.swap(block.ops);
  ir::Builder b(m);
  b.setBlock(&block);
  b.setLoc(kernel.loc);
  ProgramGrowth growth(group.axis);
  for (Op *op : ops) {
    growth.note(*op);
    if (!prologue.contains(op))
      continue;
    block.ops.push_back(op);
    if (growth.isDividedNumber(*op)) { // the quotient is one number as long as the remainder stays below the divisor
      Value *x = op->operands[0], *n = op->operands[1];
      group.limits.push_back(b.binary(OpKind::Sub, n, b.binary(OpKind::SRem, x, n)));
    }
  }
  const Type i32 = Type::scalar(ir::Elem::I32);
  Op *count = b.create(OpKind::NumPrograms, {}, {&i32, 1}, {{ir::attr::axis, group.axis}});
  group.count = count->result();
  Op *choice = b.ifOp(b.cmp(ir::CmpPred::Sgt, count->result(), b.constI32(1)), {});
  LaneWriter(m, group, prologue, growth).write(ops, *choice->region(0));
  ir::Cloner single(m);
  for (const Op *op : ops)
    if (!prologue.contains(op) && op->kind != OpKind::Return)
      single.copy(*op, *choice->region(1));
  for (const ir::Region *r : choice->regions) {
    b.setBlock(r->block);
    b.yield({});
  }
  block.ops.push_back(ops.back());
}

} // namespace tegula::cpu
