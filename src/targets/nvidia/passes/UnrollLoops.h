// Unrolls loops that pass values through several iterations (data loaded some iterations ahead, into registers), as
// often as it takes for each value to stay in one register.
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
/// With three copies of the body, `a`, `b` and `next` rotate through three registers, no move remains, and the warp
/// waits only at the use: modulo variable expansion (M. Lam, Software pipelining, PLDI 1988, section 2.3). The
/// assembler does not do it automatically. Loops with asynchronous dots stay as they are: the assembler serializes dots
/// whose accumulators cross branches (C7514).
unsigned copiesOfBody(const ir::Op &loop);

/// Requests that UnrollLoops makes `copies` copies of the body of the loop whose back edge is `branch`. `areWhole`: the
/// loop runs `copies` times or not at all, so that the first test is the only one that remains.
void wantCopies(llvm::BranchInst *branch, unsigned copies, bool areWhole = false);

bool hasWantedCopies(const llvm::Module &m);

/// Requests full unrolling of innermost loops that load from memory, store to it and have a small trip count: a
/// constant, or all iterations of a group
///
///   first = pid * 4
///   for head in range(first, min(first + 4, 32)): store(p + head * 128, f(load(p + head * 128)))          four times or never, as `first` and 32 are multiples of 4
///
/// where only the first copy needs a test. The addresses of the copies differ by constants, so the assembler proves
/// that they do not alias, and issues all loads before the first store. The assembler unrolls loops itself, but
/// computes an address in each copy, and every load then waits for the stores before it. Loops that only load are
/// unrolled if their trip count is constant and their loads fit into a few registers: this saves address computations
/// (four words of five arrays: 177 -> 113 instructions of the surrounding loop). The pass rewrites nothing itself.
struct FindShortLoops : llvm::PassInfoMixin<FindShortLoops> {
  llvm::PreservedAnalyses run(llvm::Function &f, llvm::FunctionAnalysisManager &am);
};

/// Unrolls the innermost loops with such a request, if all their copies fit into the instruction cache. Every copy
/// begins with the loop's exit test, so there is no epilogue loop.
struct UnrollLoops : llvm::PassInfoMixin<UnrollLoops> {
  llvm::PreservedAnalyses run(llvm::Function &f, llvm::FunctionAnalysisManager &am);
};

} // namespace tegula::nvidia
