// See RowBlocks.h.
#include "targets/nvidia/occupancy/RowBlocks.h"
#include "abi/Multiprocessor.h"
#include "gpu/parts/ChooseCluster.h"
#include "gpu/parts/HeldRows.h"
#include "ir/Walk.h"
#include <algorithm>

namespace tegula::nvidia {

namespace sm = abi::multiprocessor;

using ir::Op;
using ir::OpKind;

unsigned blocksOfRows(const ir::Function &kernel, unsigned threads, unsigned most) {
  constexpr unsigned overhead = 16, least = 32;
  auto isLoopOrDot = [](const Op &op) {
    return op.kind == OpKind::For || op.kind == OpKind::While || op.kind == OpKind::Dot ||
           op.kind == OpKind::Partitions;
  };
  if (ir::anyOp(*kernel.block(), isLoopOrDot))
    return 0;
  const tegula::gpu::HeldRows held = tegula::gpu::heldRows(kernel, threads);
  unsigned blocks = held.reduction ? most : 0;
  while (blocks > 1 && sm::registersOf(blocks * threads / 32) < std::max(least, held.words + overhead))
    --blocks;
  return blocks > 1 ? blocks : 0;
}

unsigned blocksOfStaged(unsigned threads, unsigned most) {
  constexpr unsigned enough = tegula::gpu::ClusterLimits{}.staged;
  unsigned blocks = most;
  while (blocks > 1 && sm::registersOf(blocks * threads / 32) < enough)
    --blocks;
  return blocks > 1 ? blocks : 0;
}

} // namespace tegula::nvidia
