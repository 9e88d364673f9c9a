// The target facts for the passes of the GPU level (gpu/TargetInfo.h), for NVIDIA GPUs.
#pragma once
#include "abi/Multiprocessor.h"
#include "targets/nvidia/Nvidia.h"
#include <algorithm>

namespace tegula::nvidia {

class NvTargetInfo final : public TargetInfo {
public:
  explicit NvTargetInfo(const NvTarget &target) : target_(target) {}

  std::string name() const override { return targetName(target_); }
  unsigned lanes() const override { return NvTarget::lanes; }
  unsigned registerLimit(unsigned threads) const override {
    return std::min(abi::multiprocessor::mostRegisters, abi::multiprocessor::registers / threads);
  }
  unsigned threadLimit() const override { return abi::multiprocessor::threads; }
  uint32_t sharedLimit() const override { return target_.sharedLimit(); }
  unsigned clusterLimit() const override { return target_.sm >= 90 ? 16 : 1; }
  bool copiesBlocks() const override { return target_.sm == 90 && target_.archFeatures; }
  layout::ConversionOptions conversions() const override;
  int64_t atomicElements(const ir::Op &rmw) const override;
  ProducerWarps producerWarps(const gpu::Options &options) const override;
  ProducerWarps gatheringWarps(const gpu::Options &options) const override;
  unsigned issueRate() const override { return 4 * NvTarget::lanes; }

  DotChoice chooseDot(const ir::Op &dot, unsigned warps) const override;
  LinearLayout accumulatorLayout(const DotChoice &c, const ir::Op &dot, unsigned warps) const override;
  LinearLayout operandLayout(const DotChoice &c, const ir::Op &dot, unsigned operand, unsigned warps) const override;
  LinearLayout operandTile(const DotChoice &c, const ir::Type &operand, bool isA,
                           const LinearLayout &registers) const override;
  unsigned dotRate(const DotChoice &c, const ir::Op &dot) const override;
  unsigned dotRounds(const DotChoice &c, const ir::Module &m, const ir::Op &dot) const override;

  LinearLayout blockTile(const ir::Op &load) const override;
  bool canMulticast(const ir::Type &tile, unsigned ctas) const override;
  void describeBlock(ir::Op &now, const ir::Op &access, const AxisFacts &facts) const override;
  LinearLayout blockStoreLayout(const LinearLayout &have, const ir::Type &block, unsigned warps) const override;
  BlockStore blockStore(const ir::Module &m, const ir::Op &op) const override;

private:
  const NvTarget target_;
};

} // namespace tegula::nvidia
