// See UnrollLoops.h.
#include "targets/nvidia/passes/UnrollLoops.h"
#include "gpu/BlockEdit.h"
#include "gpu/Dots.h"
#include "llvm/Analysis/AssumptionCache.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/OptimizationRemarkEmitter.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Local.h"
#include "llvm/Transforms/Utils/LoopUtils.h"
#include "llvm/Transforms/Utils/UnrollLoop.h"
#include <algorithm>

namespace tegula::nvidia {

using ir::Op;
using ir::OpKind;

static constexpr const char *count = "llvm.loop.unroll.count", *wholeCopies = "tegula.whole";

static bool hasAsyncDot(const ir::Block &b) {
  return std::any_of(b.ops.begin(), b.ops.end(), [](const Op *op) {
    return (op->kind == OpKind::Dot && gpu::isAsyncMma(*op)) ||
           std::any_of(op->regions.begin(), op->regions.end(),
                       [](const ir::Region *r) { return hasAsyncDot(*r->block); });
  });
}

unsigned copiesOfBody(const Op &loop) {
  constexpr unsigned most = 8;
  const ir::Block &body = *loop.region(0);
  const std::vector<ir::Value *> &next = body.terminator()->operands;
  auto carriedAt = [&](const ir::Value *v) {
    return static_cast<size_t>(std::find(body.args.begin() + 1, body.args.end(), v) - body.args.begin()) - 1;
  };
  unsigned longest = 0;
  for (size_t i = 0; i < next.size(); ++i) {
    size_t at = i;
    unsigned length = 1; // iterations from the load to the use of the argument
    while (at < next.size() && length < most && carriedAt(next[at]) < next.size()) {
      at = carriedAt(next[at]);
      ++length;
    }
    const Op *made = next[at]->def;
    if (!made || made->kind != OpKind::Load || made->parent != &body || !made->result()->type.isTensor())
      continue;
    // Loaded after the last use of what was loaded before, it takes the same register.
    auto isUsed = [&](const Op *op) { return op != body.terminator() && gpu::uses(*op, body.args[1 + i]); };
    if (length > 1 ||
        std::any_of(body.ops.begin() + static_cast<long>(gpu::positionOf(body, made)), body.ops.end(), isUsed))
      longest = std::max(longest, length);
  }
  return longest && !loop.rolled() && longest < most && !hasAsyncDot(body) ? longest + 1 : 1;
}

void wantCopies(llvm::BranchInst *branch, unsigned copies, bool areWhole) {
  llvm::LLVMContext &c = branch->getContext();
  llvm::SmallVector<llvm::Metadata *, 4> nodes{nullptr};
  if (const llvm::MDNode *old = branch->getMetadata(llvm::LLVMContext::MD_loop))
    nodes.append(old->op_begin() + 1, old->op_end());
  nodes.push_back(
      llvm::MDNode::get(c, {llvm::MDString::get(c, count),
                            llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(llvm::Type::getInt32Ty(c), copies))}));
  if (areWhole)
    nodes.push_back(llvm::MDNode::get(c, {llvm::MDString::get(c, wholeCopies)}));
  llvm::MDNode *id = llvm::MDNode::getDistinct(c, nodes);
  id->replaceOperandWith(0, id);
  branch->setMetadata(llvm::LLVMContext::MD_loop, id);
}

bool hasWantedCopies(const llvm::Module &m) {
  return llvm::any_of(m, [](const llvm::Function &f) {
    return llvm::any_of(f, [](const llvm::BasicBlock &b) {
      const llvm::MDNode *id = b.getTerminator() ? b.getTerminator()->getMetadata(llvm::LLVMContext::MD_loop) : nullptr;
      return id && llvm::any_of(id->operands(), [](const llvm::MDOperand &o) {
               const auto *node = llvm::dyn_cast_or_null<llvm::MDNode>(o.get());
               const auto *name =
                   node && node->getNumOperands() ? llvm::dyn_cast<llvm::MDString>(node->getOperand(0)) : nullptr;
               return name && name->getString() == count;
             });
    });
  });
}

/// `first` and `second` of `icmp slt first, second`, with which the loop begins and which alone ends it; null: it is
/// another loop.
static const llvm::ICmpInst *testOf(const llvm::Loop &loop) {
  const llvm::BasicBlock *header = loop.getHeader();
  const auto *branch = llvm::dyn_cast<llvm::BranchInst>(header->getTerminator());
  if (loop.getExitingBlock() != header || !branch || !branch->isConditional() ||
      !loop.contains(branch->getSuccessor(0)))
    return nullptr;
  const auto *test = llvm::dyn_cast<llvm::ICmpInst>(branch->getCondition());
  return test && test->getPredicate() == llvm::CmpInst::ICMP_SLT ? test : nullptr;
}

/// Iterations of a loop that runs so often or not at all; 0: not known.
static unsigned tripsOfGroup(const llvm::Loop &loop, llvm::ScalarEvolution &scev) {
  const llvm::ICmpInst *test = testOf(loop);
  if (!test || !scev.isSCEVable(test->getOperand(0)->getType()))
    return 0;
  const auto *counter = llvm::dyn_cast<llvm::SCEVAddRecExpr>(scev.getSCEV(test->getOperand(0)));
  const auto *limit = llvm::dyn_cast<llvm::SCEVSMinExpr>(scev.getSCEV(test->getOperand(1)));
  if (!counter || counter->getLoop() != &loop || !counter->isAffine() || !limit || limit->getNumOperands() != 2)
    return 0;
  const auto *step = llvm::dyn_cast<llvm::SCEVConstant>(counter->getStepRecurrence(scev));
  for (unsigned i : {0u, 1u}) {
    const llvm::SCEV *other = limit->getOperand(1 - i);
    const auto *length =
        llvm::dyn_cast<llvm::SCEVConstant>(scev.getMinusSCEV(limit->getOperand(i), counter->getStart()));
    if (!step || !length || !step->getAPInt().isStrictlyPositive() || !length->getAPInt().isStrictlyPositive() ||
        length->getAPInt().urem(step->getAPInt()) != 0)
      continue;
    if (scev.getConstantMultiple(counter->getStart()).urem(length->getAPInt()) == 0 &&
        scev.getConstantMultiple(other).urem(length->getAPInt()) == 0)
      return static_cast<unsigned>(length->getAPInt().udiv(step->getAPInt()).getLimitedValue(UINT32_MAX));
  }
  return 0;
}

/// An access to global memory: an instruction, a statement of PTX, or the simulator's call. `what`: "ld" or "st".
static bool isGlobal(const llvm::Instruction &i, llvm::StringRef what) {
  if (const llvm::Value *pointer = llvm::getLoadStorePointerOperand(&i))
    return llvm::isa<llvm::LoadInst>(i) == (what == "ld") && pointer->getType()->getPointerAddressSpace() == 1;
  const auto *call = llvm::dyn_cast<llvm::CallBase>(&i);
  const auto *text = call ? llvm::dyn_cast<llvm::InlineAsm>(call->getCalledOperand()) : nullptr;
  if (text)
    return llvm::StringRef(text->getAsmString()).contains((what + ".global").str());
  return call && call->getCalledFunction() &&
         call->getCalledFunction()->getName() == ("tegula_sim_" + what + "_global").str();
}

namespace {
/// What a loop does with global memory.
struct Accesses {
  bool others = false; // it does something else that threads or memory see
  bool stores = false;
  unsigned words = 0; // registers that an iteration's loads fill
};
} // namespace

static Accesses accessesOf(const llvm::Loop &loop) {
  Accesses a;
  for (const llvm::BasicBlock *b : loop.blocks())
    for (const llvm::Instruction &i : *b) {
      const bool isLoad = isGlobal(i, "ld"), isStore = isGlobal(i, "st");
      if (isLoad)
        a.words += std::max(
            1u, static_cast<unsigned>(
                    i.getType()->isSized() ? i.getModule()->getDataLayout().getTypeAllocSize(i.getType()) + 3 : 4) /
                    4);
      a.stores |= isStore;
      const auto *call = llvm::dyn_cast<llvm::CallBase>(&i);
      const bool isOfSimulator =
          call && call->getCalledFunction() && call->getCalledFunction()->getName() == "tegula_sim_backedge";
      a.others |= !isLoad && !isStore && !isOfSimulator && call && (i.mayWriteToMemory() || call->isConvergent());
    }
  return a;
}

llvm::PreservedAnalyses FindShortLoops::run(llvm::Function &f, llvm::FunctionAnalysisManager &am) {
  constexpr unsigned mostTrips = 8;
  constexpr size_t most = 400; // instructions of all copies
  // what all copies load, where there is no store to wait for: a causal convolution of 4 x 16 words, H200, 86 us as a
  // loop and 93 without
  constexpr unsigned mostWords = 32;
  auto &loops = am.getResult<llvm::LoopAnalysis>(f);
  for (llvm::Loop *loop : loops.getLoopsInPreorder()) {
    size_t length = 0;
    for (const llvm::BasicBlock *b : loop->blocks())
      length += b->size();
    const Accesses accesses = accessesOf(*loop);
    if (!loop->isInnermost() || 2 * length > most || !loop->getLoopLatch() || accesses.others || !accesses.words ||
        llvm::getOptionalIntLoopAttribute(loop, count) || llvm::hasDisableAllTransformsHint(loop) ||
        llvm::getBooleanLoopAttribute(loop, "llvm.loop.unroll.disable"))
      continue;
    auto &scev = am.getResult<llvm::ScalarEvolutionAnalysis>(f);
    // A loop that ends where it begins comes there once more than it runs.
    const unsigned constant = scev.getSmallConstantTripCount(loop),
                   trips = constant          ? constant - (loop->getExitingBlock() == loop->getHeader())
                           : accesses.stores ? tripsOfGroup(*loop, scev)
                                             : 0;
    auto *branch = llvm::dyn_cast<llvm::BranchInst>(loop->getLoopLatch()->getTerminator());
    if (branch && trips > 1 && trips <= mostTrips && trips * length <= most &&
        (accesses.stores || trips * accesses.words <= mostWords))
      wantCopies(branch, constant ? constant : trips, !constant);
  }
  return llvm::PreservedAnalyses::all();
}

/// Takes the tests of copies away, which are as the first one's, and the way back to that, which would end the loop:
/// `header` is all that is asked.
static void dropTests(llvm::ArrayRef<llvm::BasicBlock *> blocks, llvm::BasicBlock *header, const llvm::Value *limit) {
  llvm::BasicBlock *exit = header->getTerminator()->getSuccessor(1);
  llvm::SmallVector<llvm::BasicBlock *, 8> bodies;
  // First, as values behind the loop lose their phi where one way is left to them.
  for (llvm::BasicBlock *b : blocks) {
    auto *back = llvm::dyn_cast<llvm::BranchInst>(b->getTerminator());
    if (!back || !back->isUnconditional() || back->getSuccessor(0) != header)
      continue;
    for (llvm::PHINode &p : exit->phis()) {
      llvm::Value *value = p.getIncomingValueForBlock(header);
      const auto *carried = llvm::dyn_cast<llvm::PHINode>(value);
      p.addIncoming(carried && carried->getParent() == header ? carried->getIncomingValueForBlock(b) : value, b);
    }
    header->removePredecessor(b, /*KeepOneInputPHIs=*/true);
    back->setSuccessor(0, exit);
    back->setMetadata(llvm::LLVMContext::MD_loop, nullptr);
  }
  for (llvm::BasicBlock *b : blocks) {
    auto *branch = llvm::dyn_cast<llvm::BranchInst>(b->getTerminator());
    // a branch of the body may ask the same
    const bool leaves = branch && branch->isConditional() && branch->getSuccessor(1) == exit;
    const auto *test = leaves && b != header ? llvm::dyn_cast<llvm::ICmpInst>(branch->getCondition()) : nullptr;
    if (!test || test->getPredicate() != llvm::CmpInst::ICMP_SLT || test->getOperand(1) != limit)
      continue;
    branch->setCondition(llvm::ConstantInt::getTrue(b->getContext()));
    bodies.push_back(branch->getSuccessor(0));
    llvm::ConstantFoldTerminator(b, /*DeleteDeadConditions=*/true);
  }
  for (llvm::BasicBlock *b : bodies)
    llvm::MergeBlockIntoPredecessor(b);
}

llvm::PreservedAnalyses UnrollLoops::run(llvm::Function &f, llvm::FunctionAnalysisManager &am) {
  constexpr size_t most = 1500; // instructions; 2048 of the assembler's are what runs at full speed (an H200)
  auto &loops = am.getResult<llvm::LoopAnalysis>(f);
  llvm::SmallVector<llvm::Loop *, 4> wanted;
  for (llvm::Loop *loop : loops.getLoopsInPreorder())
    if (loop->isInnermost() && llvm::getOptionalIntLoopAttribute(loop, count))
      wanted.push_back(loop);
  struct Whole {
    std::vector<llvm::BasicBlock *> blocks;
    llvm::BasicBlock *header;
    const llvm::Value *limit;
  };
  std::vector<Whole> whole;
  for (llvm::Loop *loop : wanted) {
    const auto copies = static_cast<unsigned>(*llvm::getOptionalIntLoopAttribute(loop, count));
    size_t length = 0;
    for (const llvm::BasicBlock *b : loop->blocks())
      length += b->size();
    if (length * copies > most)
      continue;
    const bool areWhole = llvm::getBooleanLoopAttribute(loop, wholeCopies);
    const llvm::ICmpInst *test = areWhole ? testOf(*loop) : nullptr;
    if (areWhole && !test)
      continue;
    llvm::OptimizationRemarkEmitter &remarks = am.getResult<llvm::OptimizationRemarkEmitterAnalysis>(f);
    llvm::UnrollLoopOptions options{.Count = copies,
                                    .Force = true,
                                    .Runtime = false,
                                    .AllowExpensiveTripCount = false,
                                    .UnrollRemainder = false,
                                    .ForgetAllSCEV = false};
    const llvm::LoopUnrollResult done =
        llvm::UnrollLoop(loop, options, &loops, &am.getResult<llvm::ScalarEvolutionAnalysis>(f),
                         &am.getResult<llvm::DominatorTreeAnalysis>(f), &am.getResult<llvm::AssumptionAnalysis>(f),
                         &am.getResult<llvm::TargetIRAnalysis>(f), &remarks, /*PreserveLCSSA=*/true);
    if (test && done == llvm::LoopUnrollResult::PartiallyUnrolled)
      whole.push_back({{loop->block_begin(), loop->block_end()}, loop->getHeader(), test->getOperand(1)});
  }
  for (const Whole &w : whole)
    dropTests(w.blocks, w.header, w.limit);
  return wanted.empty() ? llvm::PreservedAnalyses::all() : llvm::PreservedAnalyses::none();
}

} // namespace tegula::nvidia
