// See ProductBlocks.h.
#include "targets/nvidia/occupancy/ProductBlocks.h"
#include "abi/Multiprocessor.h"
#include "gpu/Dots.h"
#include <algorithm>
#include <vector>

namespace tegula::nvidia {

namespace sm = abi::multiprocessor;

using ir::Block;
using ir::Op;
using ir::OpKind;
using ir::Type;
using ir::Value;

/// Is the value, which a loop carries, what an asynchronous dot of it adds to, or gives?
static bool isOfDot(const Block &body, const Value *carried) {
  const Value *next = body.terminator()->operands[carried->index - 1];
  if (next->def && next->def->kind == OpKind::DotWait)
    next = next->def->operands[next->index];
  return (next->def && next->def->kind == OpKind::Dot) ||
         std::ranges::any_of(body.ops, [&](const Op *op) {
           if (op->kind != OpKind::Dot)
             return false;
           const Op *zeroes = tegula::gpu::zeroesOf(*op);
           return (zeroes ? zeroes->operands[2] : op->operands[2]) == carried;
         });
}

/// 32-bit registers of a thread that a loop with asynchronous dots cannot do without, of the loop with most; 0 if there
/// is none: their results, sums of their type beside them (to which results are added once they are there: products of
/// fp8 with scales by blocks), and addresses, or operands on their way through registers where those are more (rows
/// that are not aligned, which no copy takes:
/// 128x128x32 by four warps hold 128 and 32, spilled 640 bytes with three blocks, and were assembled a second time for
/// two).
static int64_t needOfLoops(const Block &b, int64_t threads) {
  constexpr int64_t addresses = 40, besideOperands = 16;
  auto registersOf = [&](const Type &t) { return t.numel() * ir::byteWidth(t.elem) / 4 / threads; };
  int64_t most = 0, sum = 0, loaded = 0;
  std::vector<Type> types;
  for (const Op *op : b.ops) {
    for (const ir::Region *r : op->regions)
      most = std::max(most, needOfLoops(*r->block, threads));
    if (op->kind == OpKind::Load && !op->result()->type.isScalar())
      loaded += registersOf(op->result()->type);
    if (op->kind == OpKind::Dot && tegula::gpu::isAsyncMma(*op)) {
      sum += registersOf(op->result()->type);
      types.push_back(op->result()->type);
    }
  }
  if (!b.parent->op || b.parent->op->kind != OpKind::For)
    return most;
  for (const Value *v : b.args)
    if (std::ranges::find(types, v->type) != types.end() && !isOfDot(b, v))
      sum += registersOf(v->type);
  return std::max(most, sum ? sum + std::max(addresses, loaded + besideOperands) : 0);
}

/// Of the loop with most: 32-bit registers of a thread for the sums of mma.sync. Negative where a product is
/// asynchronous, stands in several loops, reads what is computed or widened in one, or is added to a sum outside: there
/// is no telling what those take. So it is where one stands in no loop, unless a loop's sum is what it is added to
/// (low-rank adapters).
static int64_t sumsOfSyncDots(const Block &b, int64_t threads) {
  const Op *loop = b.parent->op && b.parent->op->kind == OpKind::For ? b.parent->op : nullptr;
  // In a loop over tiles, whose grid has as many programs as there are SMs, nobody else comes.
  const bool isInLoop = loop && !loop->parent->parent->op;
  const auto isAsItIs = [](const Value *v) { return v->def && v->def->kind == OpKind::SharedLoad; };
  int64_t most = 0, registers = 0;
  for (const Op *op : b.ops) {
    for (const ir::Region *r : op->regions) {
      const int64_t inside = sumsOfSyncDots(*r->block, threads);
      if (inside < 0)
        return inside;
      most = std::max(most, inside);
    }
    if (op->kind != OpKind::Dot)
      continue;
    const Value *sum = op->operands[2];
    if (!b.parent->op && !tegula::gpu::isAsyncMma(*op) && sum->def && sum->def->kind == OpKind::For)
      continue;
    const bool addsToCarried = sum->block == &b && !sum->def, addsToDot = sum->def && sum->def->kind == OpKind::Dot;
    if (!isInLoop || tegula::gpu::isAsyncMma(*op) || ir::isFp8(op->operands[0]->type.elem) ||
        !isAsItIs(op->operands[0]) || !isAsItIs(op->operands[1]) || !(addsToCarried || addsToDot))
      return -1;
    registers += addsToDot ? 0 : op->result()->type.numel() / threads;
  }
  return std::max(most, registers);
}

/// Has a loop of the kernel's own several products?
static bool hasSeveralInLoop(const Block &kernel) {
  return std::ranges::any_of(kernel.ops, [](const Op *op) {
    return op->kind == OpKind::For && std::ranges::count(op->region(0)->ops, OpKind::Dot, &Op::kind) > 1;
  });
}

/// Loops of mma.sync wait for copies, unless others compute meanwhile: with few stages 32 warps on an SM, where shared
/// memory has room for them, for the registers that the assembler takes if it may (2048x4096x4096 bf16, 32x64x32 by
/// four warps, two stages, H200: 74 registers and six blocks 424 us, 64 and eight 358, 48 and ten 372, Triton's 47 and
/// ten 411). Up to sixteen warps run without being asked for, where an iteration has one product; the assembler took
/// 166 registers for two (32x128x64 and 32x16x64) that their copies had been planned for sixteen warps with.
static unsigned blocksOfSyncDots(const Block &b, unsigned warps, unsigned most) {
  constexpr unsigned enoughWarps = 32, usual = 16;
  constexpr int64_t others = 40; // addresses and fragments
  const int64_t sums = sumsOfSyncDots(b, 32 * int64_t{warps});
  unsigned blocks = sums > 0 ? std::min(most, enoughWarps / warps) : 0;
  while (blocks > 1 && sm::registersOf(blocks * warps) < sums + others)
    --blocks;
  const bool areAsked = blocks * warps > usual || (blocks > 1 && blocks * warps == usual && hasSeveralInLoop(b));
  return areAsked ? blocks : 0;
}

/// Loops with asynchronous dots have chosen their rings and how their dots overlap for that many blocks
/// (gpu/loops/PipelinedLoop.h): up to sixteen warps on an SM. Without a wish what follows the loop (an activation of
/// the whole tile) may take the registers of a neighbour. One block more than planned for, where what its loop cannot
/// do without leaves room for it: the assembler tells.
static unsigned blocksOfDots(const Block &b, const Options &options, unsigned most) {
  constexpr unsigned enoughWarps = 16;
  const int64_t need = needOfLoops(b, 32 * int64_t{options.numWarps});
  unsigned blocks = need ? std::min(most, enoughWarps / options.numWarps) : 0;
  while (blocks > 1 && sm::registersOf(blocks * options.numWarps) < need)
    --blocks;
  return blocks > 1 ? blocks : 0;
}

unsigned blocksOfProducts(const ir::Function &kernel, const Options &options, unsigned most) {
  const unsigned blocks = blocksOfDots(*kernel.block(), options, most);
  return blocks ? blocks : blocksOfSyncDots(*kernel.block(), options.numWarps, most);
}

} // namespace tegula::nvidia
