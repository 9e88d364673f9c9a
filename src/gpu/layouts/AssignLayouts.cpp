// See AssignLayouts.h. Homes decides (Homes.h), Rewriter rewrites the kernel, assignLayouts runs both.
#include "gpu/layouts/AssignLayouts.h"
#include "gpu/FormWriter.h"
#include "gpu/Layouts.h"
#include "gpu/Remarks.h"
#include "gpu/layouts/EqualAddresses.h"
#include "gpu/layouts/Homes.h"
#include "gpu/layouts/ShareTiles.h"
#include "gpu/layouts/TurnedTiles.h"
#include "ir/Builder.h"
#include "layout/Constructors.h"
#include "passes/HoistInvariants.h"
#include "passes/RemoveDead.h"
#include <optional>

namespace tegula::gpu {

using namespace ir;

namespace {

/// Writes the kernel with layouts. Conversions of operands are made in `want`; `finish` converts results. The forms of
/// a value are numbers of layouts; 0 is that of scalars.
class Rewriter : FormWriter {
public:
  Rewriter(const Homes &homes, Module &out, DiagEngine *remarks)
      : FormWriter(out, 0), homes_(homes), remarks_(remarks) {}

  void run() { writeKernel(homes_.function()); }

private:
  uint16_t id(const LinearLayout &l) { return out_.internLayout(l); }
  /// The type of a value in its home layout.
  Type typeOf(const Value *v) { return v->type.isScalar() ? v->type : v->type.withLayout(id(homes_.layoutFor(v))); }

  int formOf(const Value *v) override { return typeOf(v).layout; }
  Type typeIn(const Value *v, int form) override { return v->type.withLayout(static_cast<uint16_t>(form)); }
  Value *want(const Value *v, int form) override;
  Value *wantTile(const Value *v, const DotChoice &c, bool isA);
  void describeDot(Op &dot);
  Value *wantHome(const Value *v) { return want(v, typeOf(v).layout); }
  void compute(const Op &op) override;
  void finish(const Op &op, const Op &now, std::span<const int> forms) override;
  void finish(const Op &op, const Op &now);
  void isolated(const Op &op);
  void operandsOf(const Op &op, std::vector<Value *> &operands, std::vector<Type> &results, int64_t &vec,
                  int64_t &same);

  const Homes &homes_;
  DiagEngine *remarks_;
};

Value *Rewriter::want(const Value *v, int form) {
  const auto layout = static_cast<uint16_t>(v->type.isScalar() ? 0 : form);
  if (Value *done = find(v, layout))
    return done;
  const Op *op = v->def;
  Value *made;
  if (op && (renames(op->kind) || homes_.isCheap(v) || (typeOf(v).layout != layout && homes_.isMovedInParts(v)))) {
    std::vector<Value *> operands;
    for (const Value *o : op->operands)
      operands.push_back(renames(op->kind) && o->type.isTensor()
                             ? want(o, id(operandLayout(*op, LinearLayout(out_.layouts[layout - 1u]))))
                             : want(o, layout));
    Type t = v->type.withLayout(layout);
    made = clone(*op, operands, {&t, 1})->result();
  } else {
    uint16_t home = typeOf(v).layout;
    Value *have = find(v, home);
    assert(have && home != layout && "value is used before it is written");
    if (op) {
      b_.setLoc(op->loc);
      b_.setInlinedAt(op->inlinedAt);
    }
    made = b_.create1(OpKind::Convert, {have}, v->type.withLayout(layout));
  }
  define(v, layout, made);
  return made;
}

/// The tile in shared memory that a dot reads. It is contiguous along the same axis as the registers where the dot can
/// read that, so that nothing is transposed.
Value *Rewriter::wantTile(const Value *v, const DotChoice &c, bool isA) {
  const Type home = typeOf(v);
  const LinearLayout registers = out_.layoutOf(home), lies = homes_.target().operandTile(c, home, isA, registers);
  const uint16_t memory = id(lies);
  if (Value *done = find(v, memory))
    return done;
  std::optional<LinearLayout> turned;
  if (homes_.of(v).rank == Rank::Memory)
    turned = turnedByMatrices(home, registers, lies, homes_.target(), homes_.warps());
  Value *from = want(v, turned ? id(*turned) : home.layout);
  Value *tile = b_.create1(OpKind::ToShared, {from}, Type::shared(v->type.shape, v->type.elem, memory));
  define(v, memory, tile);
  return tile;
}

/// Sets the choice, and for an asynchronous dot of two tiles `rounds`, the number of groups of products. Without
/// `rounds` it is one.
void Rewriter::describeDot(Op &dot) {
  DotChoice c = homes_.choiceOf(dot);
  setDotChoice(dot, c);
  if (c.kind != DotKind::AsyncMma || !dot.operands[0]->type.isShared)
    return;
  if (unsigned rounds = homes_.target().dotRounds(c, out_, dot); rounds > 1)
    dot.set(attr::rounds, rounds);
}

/// Gets the operands and the result types in the layouts in which this operation works.
void Rewriter::operandsOf(const Op &op, std::vector<Value *> &operands, std::vector<Type> &results, int64_t &vec,
                          int64_t &same) {
  std::vector<uint16_t> wanted(op.operands.size());
  uint16_t all = 0;
  switch (op.kind) {
  case OpKind::Store:
  case OpKind::Load:
  case OpKind::AtomicRmw:
  case OpKind::AtomicCas:
    if (op.operands[0]->type.isTensor()) {
      Access a = homes_.access(op);
      all = op.kind == OpKind::Load && (hasEqualNeighbours(op, homes_.facts()) || homes_.isScattered(op) ||
                                        homes_.isSpread(op) || homes_.besideAccumulator(op).first.layout)
                ? typeOf(op.result()).layout
                : id(a.layout);
      vec = a.vec;
      if (op.kind == OpKind::Load)
        same = sameAddresses(op, LinearLayout(out_.layouts[all - 1u]), homes_.facts());
      if (remarks_)
        remarkAccess(op, homes_.facts(), a.axis, a.vec, a.wanted, *remarks_);
    }
    break;
  case OpKind::Dot: {
    DotChoice c = homes_.choiceOf(op);
    if (c.kind == DotKind::Mma)
      c.run = homes_.runOf(op);
    bool aInRegisters = !c.readsTiles() || (c.kind == DotKind::AsyncMma && homes_.takesRegisters(op, c));
    auto registers = [&](unsigned i) {
      return want(op.operands[i], id(homes_.target().operandLayout(c, op, i, homes_.warps())));
    };
    wanted[2] = id(homes_.target().accumulatorLayout(c, op, homes_.warps()));
    operands.push_back(aInRegisters ? registers(0) : wantTile(op.operands[0], c, true));
    operands.push_back(c.readsTiles() ? wantTile(op.operands[1], c, false) : registers(1));
    break;
  }
  case OpKind::Split:
    all = id(layoutOfPairs(op.operands[0], homes_.layoutFor(op.operands[0])));
    break;
  case OpKind::Join:
    all = id(layout::slice(out_.layoutOf(typeOf(op.result())), op.operands[0]->type.shape.rank()));
    break;
  case OpKind::Cat:
    all = id(layout::cut(out_.layoutOf(typeOf(op.result())), op.operands[0]->type.shape));
    break;
  case OpKind::Gather:
    wanted = {typeOf(op.operands[0]).layout, typeOf(op.result()).layout};
    break;
  case OpKind::Exchange:
    all = typeOf(op.result()).layout;
    break;
  case OpKind::DescStore:
  case OpKind::DescReduce: {
    const Type &t = op.operands.back()->type;
    wanted.back() = id(
        homes_.target().blockStoreLayout(LinearLayout(out_.layoutOf(typeOf(op.operands.back()))), t, homes_.warps()));
    break;
  }
  case OpKind::Histogram:
  case OpKind::Assert:
    // Value and mask element by element.
    if (op.operands[0]->type.isTensor())
      all = typeOf(op.operands[0]).layout;
    break;
  default:
    if (op.has(traits::Elementwise) || op.kind == OpKind::AsmEffect)
      all = typeOf(op.result()).layout;
    else
      for (size_t i = 0; i < wanted.size(); ++i)
        wanted[i] = typeOf(op.operands[i]).layout;
  }
  for (size_t i = operands.size(); i < wanted.size(); ++i)
    operands.push_back(want(op.operands[i], all ? all : wanted[i]));
  for (const Value *r : op.results)
    results.push_back(op.kind == OpKind::AsmEffect ? typeOf(r).withLayout(all) : typeOf(r));
  if (op.kind == OpKind::Split)
    for (Type &t : results)
      if (t.isTensor())
        t.layout = id(layout::slice(out_.layouts[all - 1u], op.operands[0]->type.shape.rank() - 1));
}

/// Converts a result whose home layout differs from the layout that the operation gives.
void Rewriter::finish(const Op &op, const Op &now, std::span<const int> forms) {
  for (size_t i = 0; i < op.results.size(); ++i) {
    define(op.results[i], forms[i], now.results[i]);
    if (Type home = typeOf(op.results[i]); home.layout != forms[i])
      define(op.results[i], home.layout, b_.create1(OpKind::Convert, {now.results[i]}, home));
  }
}

void Rewriter::finish(const Op &op, const Op &now) {
  std::vector<int> forms;
  for (const Value *r : now.results)
    forms.push_back(r->type.layout);
  finish(op, now, forms);
}

void Rewriter::compute(const Op &op) {
  if (op.kind == OpKind::Reduce || op.kind == OpKind::Scan)
    return isolated(op);
  if (op.results.size() == 1 && op.result()->type.isTensor() && (renames(op.kind) || homes_.isCheap(op.result())))
    return; // made where it is needed
  std::vector<Value *> operands;
  std::vector<Type> results;
  int64_t vec = 1, same = 0;
  operandsOf(op, operands, results, vec, same);
  Op *now = clone(op, operands, results);
  if (vec > 1)
    now->set(attr::vec, vec);
  if (same)
    now->set(attr::same, same);
  if (isDescOp(op.kind))
    homes_.target().describeBlock(*now, op, homes_.facts());
  if (op.kind == OpKind::Dot)
    describeDot(*now);
  finish(op, *now);
}

/// Reductions and scans: their regions work on scalars and are copied as they are.
void Rewriter::isolated(const Op &op) {
  const Value *first = op.operands[0];
  LinearLayout l = homes_.layoutOf(homes_.worksIn(op));
  if (!axesAreSeparate(l))
    l = layout::dealtByRows(first->type.shape, homes_.threads());
  std::vector<Value *> operands;
  for (const Value *v : op.operands)
    operands.push_back(wantNarrow(v, id(l)));
  const uint16_t resultId = op.kind != OpKind::Reduce       ? id(l)
                            : first->type.shape.rank() == 1 ? 0
                                                            : id(layout::slice(l, static_cast<unsigned>(op.axis())));
  std::vector<Type> results;
  for (const Value *r : op.results)
    results.push_back(r->type.withLayout(resultId));
  Op *now = clone(op, operands, results);
  scalarRegion(op, *now);
  finish(op, *now);
}

} // namespace

std::unique_ptr<Module> assignLayouts(const Module &module, const TargetInfo &target, const Options &options,
                                      DiagEngine *remarks) {
  auto out = std::make_unique<Module>();
  out->sources = module.sources;
  out->inlineSites = module.inlineSites;
  Homes homes(*module.kernel(), *out, target, options.numWarps);
  Rewriter(homes, *out, remarks).run();
  hoistInvariants(*out);
  shareTiles(*out);
  removeDead(*out);
  return out;
}

} // namespace tegula::gpu
