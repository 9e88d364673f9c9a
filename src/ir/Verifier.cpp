// The rules of modules, functions, blocks and what all operations have in common: counts and traits of Ops.def. Rules
// of families of operations: VerifyFamilies.cpp.
#include "ir/Verifier.h"
#include "ir/LayoutRules.h"
#include "ir/VerifierRules.h"
#include "support/SameAs.h"
#include <algorithm>

namespace tegula::ir {

namespace {

/// The type that the key requires, for a message, if `v` has another one; null if it is right.
const char *wantedType(AttrType t, const AttrValue &v) {
  const int64_t *i = std::get_if<int64_t>(&v);
  switch (t) {
  case AttrType::Int: return i ? nullptr : "an integer";
  case AttrType::Bool: return i && (*i == 0 || *i == 1) ? nullptr : "0 or 1";
  case AttrType::Pred: return i ? nullptr : "a predicate";
  case AttrType::Number: return i || std::holds_alternative<double>(v) ? nullptr : "a number";
  case AttrType::String: return std::holds_alternative<std::string>(v) ? nullptr : "a string";
  case AttrType::Ints: return std::holds_alternative<std::vector<int64_t>>(v) ? nullptr : "a list of integers";
  }
  return nullptr;
}

} // namespace

bool Verifier::bad(const Op *op, std::string text) {
  if (why_.empty()) {
    why_ = (function_ ? "@" + function_->name + ": " : "") + text;
    where_ = op && op->loc ? op->loc : function_ ? function_->loc : Loc();
    if (op) {
      std::string line = print(*op);
      why_ += ": `" + line.substr(0, line.find('\n')) + "`";
    }
  }
  return false;
}

bool Verifier::run(std::string *why, Loc *where) {
  bool ok = layouts();
  unsigned kernels = 0;
  for (const Function *f : module_.functions) {
    function_ = f;
    kernels += f->isKernel;
    if (ok && functions_.count(f->name))
      ok = bad(nullptr, "there is another function of this name");
    if (ok && kernels > 1)
      ok = bad(nullptr, "more than one kernel");
    ok = ok && function(*f);
    functions_.insert(f->name);
  }
  if (!ok && why)
    *why = why_;
  if (!ok && where)
    *where = where_;
  return ok;
}

bool Verifier::layouts() {
  if (level_ == Level::Tile && !module_.layouts.empty())
    return bad(nullptr, "there are layouts, which only the GPU level has");
  for (const layout::LinearLayout &l : module_.layouts) {
    layoutShapes_.push_back(layout::shapeOf(l));
    if (const char *problem = layoutProblem(l))
      return bad(nullptr, problem + l.print());
  }
  return true;
}

bool Verifier::layoutFits(const Type &t) const {
  return !t.layout || (t.layout <= layoutShapes_.size() && layoutShapes_[t.layout - 1u] == layout::Extents(t.shape) &&
                       isOfTile(module_.layouts[t.layout - 1u]) == t.isShared);
}

bool Verifier::vectors(const Op &op, const Type &t) {
  return op.vec() == 1 || (t.layout && holdsVectors(module_.layouts[t.layout - 1u], op.vec())) ||
         bad(&op, "needs a `vec` of neighbours along one axis in the first registers");
}

bool Verifier::function(const Function &f) {
  visible_.clear();
  if (f.argInfo.size() != f.block()->args.size())
    return bad(nullptr, "argInfo must have one entry for each argument");
  if (f.isKernel && !f.resultTypes.empty())
    return bad(nullptr, "a kernel cannot have results");
  if (f.isOrdered && (level_ == Level::Tile || !f.isKernel))
    return bad(nullptr, "a function is `ordered`, as only kernels of the GPU level are");
  for (const Value *v : f.block()->args)
    if (v->type.isVoid() || (f.isKernel && v->type.isTensor()))
      return bad(nullptr, "an argument cannot be of type " + str(v->type));
  const std::vector<Value *> &args = f.block()->args;
  const size_t wrong = firstWrongSameAs(
      args.size(), [&](size_t i) { return f.argInfo[i].sameAs; },
      [&](size_t i, size_t of) { return args[i]->type.isPtr && args[of]->type == args[i]->type; });
  if (wrong < args.size())
    return bad(nullptr, "argument " + std::to_string(wrong) + " is said to be the same as argument " +
                            std::to_string(f.argInfo[wrong].sameAs) + ", which is no earlier pointer of its type");
  for (size_t i = 0; i < args.size(); ++i)
    if (f.argInfo[i].overlap < 0 || (f.argInfo[i].overlap && !args[i]->type.isPtr))
      return bad(nullptr, "argument " + std::to_string(i) + " is said to overlap in group " +
                              std::to_string(f.argInfo[i].overlap) + "; groups are of pointers and are counted from 1");
  for (const ArgInfo &info : f.argInfo)
    if (info.access < -1 || info.access > 3)
      return bad(
          nullptr,
          "what happens through an argument is 1 (reads), 2 (writes), 3 (both), 0 (nothing) or not said (-1), not " +
              std::to_string(info.access));
  if (!block(*f.block(), nullptr))
    return false;
  return terminator(*f.block()->terminator(), OpKind::Return, *f.block(), f.resultTypes);
}

bool Verifier::block(const Block &b, const Op *owner) {
  std::vector<const Value *> mine;
  auto enter = [&](const Value *v) {
    visible_.insert(v);
    mine.push_back(v);
  };
  for (size_t i = 0; i < b.args.size(); ++i) {
    if (b.args[i]->block != &b || b.args[i]->def || b.args[i]->index != i)
      return bad(owner, "a block argument has the wrong owner or number");
    if (!layoutFits(b.args[i]->type))
      return bad(owner, "an argument's layout does not fit its type");
    if (isBeyondLevel(b.args[i]->type))
      return bad(owner, "an argument is a shared tile, which only the GPU level has");
    enter(b.args[i]);
  }
  if (!b.terminator() || !b.terminator()->has(traits::Terminator))
    return bad(owner, "a block has no terminator");
  for (const Op *o : b.ops) {
    if (o->has(traits::Terminator) && o != b.ops.back())
      return bad(o, "a terminator does not end its block");
    if (!op(*o, b))
      return false;
    for (const Value *v : o->results) {
      if (!layoutFits(v->type))
        return bad(o, "a result's layout does not fit its type");
      if (isBeyondLevel(v->type))
        return bad(o, "a result is a shared tile, which only the GPU level has");
      enter(v);
    }
  }
  for (const Value *v : mine)
    visible_.erase(v);
  return true;
}

bool Verifier::counts(const Op &op) {
  const OpInfo &in = info(op.kind);
  if (level_ == Level::Tile && in.ofGpu)
    return bad(&op, "only the GPU level has such an operation");
  if (in.operands >= 0 && op.operands.size() != static_cast<size_t>(in.operands))
    return bad(&op, "needs " + std::to_string(in.operands) + " operands");
  if (in.results >= 0 && op.results.size() != static_cast<size_t>(in.results))
    return bad(&op, "needs " + std::to_string(in.results) + " results");
  if (in.regions >= 0 && op.regions.size() != static_cast<size_t>(in.regions))
    return bad(&op, "needs " + std::to_string(in.regions) + " regions");
  for (size_t i = 0; i < op.results.size(); ++i)
    if (op.results[i]->def != &op || op.results[i]->index != i || op.results[i]->type.isVoid())
      return bad(&op, "a result has the wrong owner, number or type");
  return true;
}

bool Verifier::attributes(const Op &op) {
  constexpr int64_t most = int64_t{1} << 30;
  const OpInfo &in = info(op.kind);
  AttrSet given;
  for (const Attr &a : op.attrs) {
    auto wrong = [&](const std::string &what) {
      return bad(&op, "attribute `" + std::string(a.key.name()) + "` " + what);
    };
    if (!in.attrs.has(a.key) || (level_ == Level::Tile && a.key.isOfGpu()))
      return wrong("is none of this operation's");
    if (given.has(a.key))
      return wrong("is given twice");
    if (const char *wanted = wantedType(a.key.type(), a.value))
      return wrong(std::string("must be ") + wanted);
    // Counts, sizes and positions, which passes add and multiply.
    if (const int64_t *n = std::get_if<int64_t>(&a.value); n && a.key.isOfGpu() && (*n < -1 || *n > most))
      return wrong("must be -1 to 2^30");
    given.add(a.key);
  }
  std::span<const int64_t> bytes = op.shared();
  bool hasNone = !op.find(attr::shared) && !op.meet() && !op.own() && !op.buffers();
  if (!hasNone && (bytes.size() != 2 || bytes[0] < 0 || bytes[0] % 16 || bytes[1] <= bytes[0] || bytes[1] > most))
    return bad(&op, "needs begin and end of its bytes of shared memory, `shared`");
  std::optional<AttrKey> missing = in.needed.firstBeside(given);
  return !missing || bad(&op, "needs attribute `" + std::string(missing->name()) + "`");
}

/// Whether operands or results may be tiles in shared memory. Rules of each family check their number and order.
static bool takesTiles(const Op &op) {
  switch (op.kind) {
  case OpKind::Poison:
  case OpKind::ToShared:
  case OpKind::SharedSlot:
  case OpKind::Permute:
  case OpKind::Reshape:
  case OpKind::Gather:
  case OpKind::Dot:
  case OpKind::For:
  case OpKind::While:
  case OpKind::If: return true;
  default: return op.has(traits::Shared) || op.has(traits::Terminator);
  }
}

bool Verifier::places(const Op &op) {
  auto isTile = [](const Value *v) { return v->type.isShared; };
  return takesTiles(op) ||
         (std::none_of(op.operands.begin(), op.operands.end(), isTile) &&
          std::none_of(op.results.begin(), op.results.end(), isTile)) ||
         bad(&op, "works on tensors in registers, and a tile is in shared memory");
}

bool Verifier::op(const Op &op, const Block &b) {
  if (op.parent != &b)
    return bad(&op, "its parent is another block");
  if (!counts(op) || !attributes(op) || !places(op))
    return false;
  for (const Value *v : op.operands)
    if (!visible_.count(v))
      return bad(&op, "uses a value that is not visible here");
  if (!family(op))
    return false;
  // Regions of reduce and scan are functions of their arguments alone.
  bool isolated = op.kind == OpKind::Reduce || op.kind == OpKind::Scan;
  std::unordered_set<const Value *> outer;
  if (isolated)
    outer.swap(visible_);
  for (const Region *r : op.regions) {
    if (r->op != &op || r->block->parent != r)
      return bad(&op, "a region has the wrong owner");
    if (!block(*r->block, &op))
      return false;
  }
  if (isolated)
    outer.swap(visible_);
  return true;
}

bool Verifier::family(const Op &op) {
  if (op.has(traits::Elementwise))
    return elementwise(op);
  switch (op.kind) {
  case OpKind::Const: return constant(op);
  case OpKind::ProgramId: case OpKind::NumPrograms:
    return (op.axis() >= 0 && op.axis() <= 2 && op.result()->type == Type::scalar(Elem::I32)) ||
           bad(&op, "needs axis 0, 1 or 2 and gives i32");
  case OpKind::SmId: case OpKind::Clock: case OpKind::ClusterRank:
    return op.result()->type == Type::scalar(op.kind == OpKind::Clock ? Elem::I64 : Elem::I32) ||
           bad(&op, "the result has the wrong type");
  case OpKind::ClusterGather: {
    Shape parts = op.result()->type.shape;
    int64_t ctas = parts.rank() ? parts[0] : 1;
    if (parts.rank())
      parts.erase(0);
    if (int64_t axis = op.part(); axis >= 0 && axis < static_cast<int64_t>(parts.rank()))
      parts.set(static_cast<unsigned>(axis), parts[static_cast<unsigned>(axis)] * ctas);
    return (op.result()->type.isTensor() && parts == op.operands[0]->type.shape &&
            op.result()->type.scalarType() == op.operands[0]->type.scalarType()) ||
           bad(&op, "the result must have the operand's type with one more axis in front");
  }
  case OpKind::Range: {
    const Type &t = op.result()->type;
    if (t.shape.rank() != 1 || t.withShape({}) != Type::scalar(Elem::I32))
      return bad(&op, "gives a one-dimensional tensor of i32");
    return (op.start() >= INT32_MIN && op.start() <= INT32_MAX - (t.shape[0] - 1)) ||
           bad(&op, "has numbers beyond i32");
  }
  case OpKind::Join: case OpKind::Split: case OpKind::Cat: return joins(op);
  case OpKind::Gather: return gather(op);
  case OpKind::Exchange: {
    const Type &t = op.result()->type;
    int64_t distance = op.distance();
    return axis(op, t.shape.rank()) &&
           ((t == op.operands[0]->type && distance >= 0 && distance < t.shape[static_cast<unsigned>(op.axis())]) ||
            bad(&op, "needs a distance inside the axis, and gives the operand's type"));
  }
  case OpKind::Histogram: return histogram(op);
  case OpKind::Load: case OpKind::Store: return memory(op);
  case OpKind::AtomicRmw: case OpKind::AtomicCas: return atomics(op);
  case OpKind::SharedAlloc:
  case OpKind::SharedSlot:
  case OpKind::SharedLoad:
  case OpKind::SharedStore:
  case OpKind::AsyncCopy:
  case OpKind::DotWait: case OpKind::BarrierAlloc: case OpKind::BarrierWait: case OpKind::BarrierArrive:
  case OpKind::BarrierExpect: case OpKind::BarrierFree: case OpKind::TmaCopy:
    return tiles(op);
  case OpKind::DescLoad: case OpKind::DescStore: case OpKind::DescReduce: return descriptor(op);
  case OpKind::Dot: return dot(op);
  case OpKind::Reduce: case OpKind::Scan: return combine(op);
  case OpKind::For: case OpKind::While: return loop(op);
  case OpKind::Partitions: return partitions(op);
  case OpKind::If: return condition(op);
  case OpKind::Call: return call(op);
  case OpKind::Assert: case OpKind::Assume: return debugging(op);
  case OpKind::AsmEffect: return assembly(op);
  default: return op.has(traits::Shape) ? shape(op) : true;
  }
}

bool verify(const Module &m, std::string *why, Loc *where, Level level) { return Verifier(m, level).run(why, where); }

} // namespace tegula::ir
