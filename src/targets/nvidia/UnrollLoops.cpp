// See UnrollLoops.h.
#include "targets/nvidia/UnrollLoops.h"
#include "gpu/BlockEdit.h"
#include "gpu/Dots.h"
#include "llvm/Analysis/AssumptionCache.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/OptimizationRemarkEmitter.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Dominators.h"
#include "llvm/Transforms/Utils/LoopUtils.h"
#include "llvm/Transforms/Utils/UnrollLoop.h"
#include <algorithm>

namespace tegula::nvidia {

using ir::Op;
using ir::OpKind;

static constexpr const char *count = "llvm.loop.unroll.count";

static bool hasAsyncDot(const ir::Block &b) {
  return std::any_of(b.ops.begin(), b.ops.end(), [](const Op *op) {
    return (op->kind == OpKind::Dot && gpu::isAsyncMma(*op)) || std::any_of(op->regions.begin(), op->regions.end(), [](const ir::Region *r) { return hasAsyncDot(*r->block); });
  });
}

unsigned copiesOfBody(const Op &loop) {
  constexpr unsigned most = 8;
  const ir::Block &body = *loop.region(0);
  const std::vector<ir::Value *> &next = body.terminator()->operands;
  auto carriedAt = [&](const ir::Value *v) { return static_cast<size_t>(std::find(body.args.begin() + 1, body.args.end(), v) - body.args.begin()) - 1; };
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
    // Loaded behind the last use of what was loaded before, it takes the same register.
    auto isUsed = [&](const Op *op) { return op != body.terminator() && gpu::uses(*op, body.args[1 + i]); };
    if (length > 1 || std::any_of(body.ops.begin() + static_cast<long>(gpu::positionOf(body, made)), body.ops.end(), isUsed))
      longest = std::max(longest, length);
  }
  return longest && !loop.rolled() && longest < most && !hasAsyncDot(body) ? longest + 1 : 1;
}

void wantCopies(llvm::BranchInst *branch, unsigned copies) {
  llvm::LLVMContext &c = branch->getContext();
  llvm::SmallVector<llvm::Metadata *, 4> nodes{nullptr};
  if (const llvm::MDNode *old = branch->getMetadata(llvm::LLVMContext::MD_loop))
    nodes.append(old->op_begin() + 1, old->op_end());
  nodes.push_back(llvm::MDNode::get(c, {llvm::MDString::get(c, count), llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(llvm::Type::getInt32Ty(c), copies))}));
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
               const auto *name = node && node->getNumOperands() ? llvm::dyn_cast<llvm::MDString>(node->getOperand(0)) : nullptr;
               return name && name->getString() == count;
             });
    });
  });
}

llvm::PreservedAnalyses UnrollLoops::run(llvm::Function &f, llvm::FunctionAnalysisManager &am) {
  constexpr size_t most = 1500; // instructions; 2048 of the assembler's are what runs at full speed (an H200)
  auto &loops = am.getResult<llvm::LoopAnalysis>(f);
  llvm::SmallVector<llvm::Loop *, 4> wanted;
  for (llvm::Loop *loop : loops.getLoopsInPreorder())
    if (loop->isInnermost() && llvm::getOptionalIntLoopAttribute(loop, count))
      wanted.push_back(loop);
  for (llvm::Loop *loop : wanted) {
    const auto copies = static_cast<unsigned>(*llvm::getOptionalIntLoopAttribute(loop, count));
    size_t length = 0;
    for (const llvm::BasicBlock *b : loop->blocks())
      length += b->size();
    if (length * copies > most)
      continue;
    llvm::OptimizationRemarkEmitter &remarks = am.getResult<llvm::OptimizationRemarkEmitterAnalysis>(f);
    llvm::UnrollLoopOptions options{.Count = copies, .Force = true, .Runtime = false, .AllowExpensiveTripCount = false, .UnrollRemainder = false, .ForgetAllSCEV = false};
    llvm::UnrollLoop(loop, options, &loops, &am.getResult<llvm::ScalarEvolutionAnalysis>(f), &am.getResult<llvm::DominatorTreeAnalysis>(f), &am.getResult<llvm::AssumptionAnalysis>(f),
                     &am.getResult<llvm::TargetIRAnalysis>(f), &remarks, /*PreserveLCSSA=*/true);
  }
  return wanted.empty() ? llvm::PreservedAnalyses::all() : llvm::PreservedAnalyses::none();
}

} // namespace tegula::nvidia
