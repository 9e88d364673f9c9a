// See TargetInfo.h.
#include "targets/nvidia/TargetInfo.h"
#include "targets/nvidia/BulkStores.h"
#include "targets/nvidia/Descriptors.h"
#include "targets/nvidia/DotChoice.h"

namespace tegula::nvidia {

using namespace ir;

layout::ConversionOptions NvTargetInfo::conversions() const {
  layout::ConversionOptions o;
  o.stmatrix = target_.sm >= 90;
  return o;
}

/// Sums of floats, 16 bytes on sm_90, pairs of 16 bits before (bf16: in a loop around a compare-and-swap of the pair).
int64_t NvTargetInfo::atomicElements(const Op &op) const {
  const Type &t = op.operands[1]->type;
  bool isSum = op.rmw() == "fadd" && !t.isPtr, is16 = bitWidth(t.elem) == 16;
  return isSum && target_.sm >= 90 && bitWidth(t.elem) < 64 ? 16 / byteWidth(t.elem) : isSum && is16 ? 2 : 1;
}

/// Registers are given to warps when a block starts, to each the same, and each quarter of an SM has 512 for every
/// lane: with one warp more than eight the nine get 168 each. A whole warpgroup can give back what it does not need
/// (PTX ISA, setmaxnreg; docs/hopper.md section 4). A warpgroup that keeps `producer` registers a thread beside those
/// of `options`, which get what it leaves of a quarter of a multiprocessor.
static ProducerWarps warpgroupBeside(const gpu::Options &options, unsigned producer) {
  constexpr unsigned perQuarter = 512, most = 240;
  unsigned groups = options.numWarps / 4;
  if (options.maxRegisters || options.numWarps % 4 || groups < 2)
    return {.warps = 0};
  unsigned each = perQuarter / (groups + 1) / 8 * 8, consumer = ((groups + 1) * each - producer) / groups / 8 * 8;
  return {4, producer, std::min(consumer, most)};
}

ProducerWarps NvTargetInfo::producerWarps(const gpu::Options &options) const {
  const ProducerWarps group = warpgroupBeside(options, 40);
  return group.warps ? group : ProducerWarps{};
}

/// Addresses of a few rows, and what masks compare.
ProducerWarps NvTargetInfo::gatheringWarps(const gpu::Options &options) const { return warpgroupBeside(options, 88); }

DotChoice NvTargetInfo::chooseDot(const Op &dot, unsigned warps) const {
  return nvidia::chooseDot(dot, target_, warps);
}

LinearLayout NvTargetInfo::accumulatorLayout(const DotChoice &c, const Op &dot, unsigned warps) const {
  return nvidia::accumulatorLayout(c, dot, warps);
}

LinearLayout NvTargetInfo::operandLayout(const DotChoice &c, const Op &dot, unsigned operand, unsigned warps) const {
  return dotOperandLayout(c, dot, operand, warps);
}

LinearLayout NvTargetInfo::operandTile(const DotChoice &c, const Type &operand, bool isA,
                                       const LinearLayout &registers) const {
  if (c.kind == DotKind::FmaTiles)
    return plainTile(operand, registers);
  return sharedOperand(operand, isA, contiguousAxis(registers, byteWidth(operand.elem))).memory;
}

/// Of 16-bit operands: wgmma 2048, mma.sync 1024 (sm_80, and half of wgmma's rate on sm_90) or 512; of others by their
/// width.
unsigned NvTargetInfo::dotRate(const DotChoice &c, const Op &dot) const {
  if (c.kind == DotKind::Fma || c.kind == DotKind::FmaTiles)
    return 4 * NvTarget::lanes;
  const unsigned halves = c.kind == DotKind::AsyncMma ? 2048 : target_.sm == 80 || target_.sm >= 90 ? 1024 : 512;
  return halves * 16 / std::max(8u, bitWidth(dot.operands[0]->type.elem));
}

unsigned NvTargetInfo::dotRounds(const DotChoice &c, const Module &m, const Op &dot) const {
  const Type &a = dot.operands[0]->type, &b = dot.operands[1]->type;
  auto operand = [&](const Type &t, bool isA) {
    return sharedOperand(t, isA, contiguousAxis(m.layoutOf(t), byteWidth(t.elem)));
  };
  MatrixInstr instr = matrixInstr(c, dot);
  return nvidia::dotRounds(instr, operand(a, true), operand(b, false), static_cast<unsigned>(a.shape[1]) / instr.k)
      .rounds;
}

LinearLayout NvTargetInfo::blockTile(const Op &load) const { return tmaTile(load); }

bool NvTargetInfo::canMulticast(const Type &tile, unsigned ctas) const {
  return TmaTile(tile.shape, tile.elem, ctas).hasParts();
}

void NvTargetInfo::describeBlock(Op &now, const Op &access, const AxisFacts &facts) const {
  if (access.kind == OpKind::DescLoad) {
    if (descAccess(access).hasRows())
      now.set(attr::merged, mergedColumns(access, facts));
  } else if (std::vector<int64_t> dims = signedOffsets(access, facts); !dims.empty()) {
    now.set(attr::anySign, std::move(dims));
  }
}

LinearLayout NvTargetInfo::blockStoreLayout(const LinearLayout &have, const Type &block, unsigned warps) const {
  std::optional<BulkStore> plan = planBulkStore(have, block.shape, block.elem);
  return plan && !plan->isPoor ? have : bulkStoreLayout(block.shape, block.elem, warps);
}

BlockStore NvTargetInfo::blockStore(const Module &m, const Op &op) const {
  if (op.kind != OpKind::DescStore && op.kind != OpKind::DescReduce)
    return {};
  const Type &t = op.operands.back()->type;
  // None: a layout by hand, as assign-layouts asks blockStoreLayout() for one that has a plan. Code generation says so.
  const std::optional<BulkStore> plan = planBulkStore(m.layoutOf(t), t.shape, t.elem);
  return plan ? BlockStore{plan->sharedBytes(1), static_cast<unsigned>(plan->steps.size())} : BlockStore{};
}

} // namespace tegula::nvidia
