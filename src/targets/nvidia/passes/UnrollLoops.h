// Loops whose iterations hand values on in a row (what is loaded some iterations ahead, into registers) are written as
// many times as it takes for each value to stay in one register.
#pragma once
#include "ir/Ir.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"

namespace tegula::nvidia {

/// How many times the body of a `for` (GPU IR) should stand in it; 1: once.
///
///   for k: next = load p(k + 2); use(a); a = b; b = next        a move into `b` is a use of `next`: the warp waits for the load in the iteration that started it, or in the one after
///
/// With the body three times `a`, `b` and `next` take turns in three registers, nothing is moved, and nobody waits
/// before the use: modulo variable expansion (M. Lam, Software pipelining, PLDI 1988, section 2.3). The assembler does
/// not do that by itself. Not loops with asynchronous dots: it serializes those where their accumulators cross branches
/// (C7514).
unsigned copiesOfBody(const ir::Op &loop);

/// Has `unroll` do that with the loop that `branch` closes. `areWhole`: an iteration that runs is followed by those of
/// all other copies.
void wantCopies(llvm::BranchInst *branch, unsigned copies, bool areWhole = false);

bool hasWantedCopies(const llvm::Module &m);

/// Wants copies of innermost loops that load from memory, store there and run a few times, as many as they have
/// iterations: a constant, or all of a group
///
///   first = pid * 4
///   for head in range(first, min(first + 4, 32)): store(p + head * 128, f(load(p + head * 128)))          four times or never, as `first` and 32 are multiples of 4
///
/// where copies have no test of their own. Their addresses are constants away from one another, so that the assembler
/// knows that they are apart, and starts all loads before the first store: it unrolls loops itself, but computes an
/// address in each copy, and there every load waits for the stores before it. Loops that only load want the same where
/// a constant says how often they run and all that they load fits into a few registers: what they gain is those
/// addresses (four words of five arrays: 177 -> 113 instructions of the loop around). Rewrites nothing.
struct FindShortLoops : llvm::PassInfoMixin<FindShortLoops> {
  llvm::PreservedAnalyses run(llvm::Function &f, llvm::FunctionAnalysisManager &am);
};

/// Innermost loops with that wish, if their copies fit into the instruction cache together. Every copy begins with the
/// test whether its iteration runs, so there is no loop for the rest.
struct UnrollLoops : llvm::PassInfoMixin<UnrollLoops> {
  llvm::PreservedAnalyses run(llvm::Function &f, llvm::FunctionAnalysisManager &am);
};

} // namespace tegula::nvidia
