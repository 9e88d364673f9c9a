// Stores and reductions by TMA (cp.async.bulk.tensor, cp.reduce.async.bulk.tensor): the plan that moves a tensor from
// registers to memory.
//
// Each warp stores its own part of the tile, step by step: it writes a rectangle that it alone holds to its own buffer
// in shared memory, and one lane starts the copy from there. So no warp waits for another. The layout must let the
// lanes of a warp and some of its registers span a rectangle; accumulators and coalesced layouts do.
#pragma once
#include "targets/nvidia/Descriptors.h"
#include <optional>

namespace tegula::nvidia {

struct BulkStore {
  TmaTile step;                   // the rectangle that a warp stores at a time, as a tile in the buffer
  layout::LinearLayout registers; // register, lane -> coordinates in the step
  layout::LinearLayout memory;    // offset -> coordinates in the step
  struct Step {
    std::vector<uint16_t> registers; // the tensor's register for each register of BulkStore::registers
    std::vector<uint32_t> at;        // coordinates at which the step begins, without the warp's offset
  };
  std::vector<Step> steps;
  uint32_t bytes = 0; // of one buffer, padded for alignment
  unsigned warps = 1;
  uint32_t idleWarps = 0; // bits of the warp index: a warp with one of them set holds replicated elements
  bool isPoor = false;    // many small copies, or short rows: converting to another layout pays

  /// Bytes of shared memory for this number of buffers per warp.
  uint64_t sharedBytes(unsigned buffers) const { return uint64_t{warps} * buffers * bytes; }
};

/// The plan for a tensor in layout `l`; nullopt if the lanes of a warp hold no rectangle.
std::optional<BulkStore> planBulkStore(const layout::LinearLayout &l, const ir::Shape &shape, ir::Elem elem);
/// A layout that always has a plan, for tensors whose own layout has none or a poor one: warps own adjacent rows.
layout::LinearLayout bulkStoreLayout(const ir::Shape &shape, ir::Elem elem, unsigned warps);

/// Tiles of fewer bytes are stored by pointers, which takes fewer instructions for them.
inline constexpr int64_t leastBulkStore = 2048;
/// Whether an instruction exists for this reduction. `elem`: the element type of the tensor map.
bool hasBulkReduce(std::string_view rmw, ir::Elem elem);
/// Whether `v` already has the layout of a coalesced store by pointers. A store through shared memory gains nothing
/// then.
bool livesCoalesced(const ir::Value *v);

} // namespace tegula::nvidia
