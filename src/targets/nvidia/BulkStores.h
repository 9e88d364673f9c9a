// Stores and reductions by TMA (cp.async.bulk.tensor, cp.reduce.async.bulk.tensor): how a tensor in registers reaches
// memory.
//
// Each warp stores its own part of the tile, step by step: a part of the tile that the warp holds alone goes to a
// buffer of the warp in shared memory, and one lane starts the copy from there. So no warp waits for another one. That
// needs a layout in which the lanes of a warp and some of its registers span a rectangle; accumulators and coalesced
// layouts are of that kind.
#pragma once
#include "targets/nvidia/Descriptors.h"
#include <optional>

namespace tegula::nvidia {

struct BulkStore {
  TmaTile step;                   // the part of the tile that a warp stores at a time, a tile of its own in the buffer
  layout::LinearLayout registers; // register, lane -> coordinates in the step
  layout::LinearLayout memory;    // offset -> coordinates in the step
  struct Step {
    std::vector<uint16_t> registers; // of the tensor, for each register of `registers`
    std::vector<uint32_t> at;        // where the step begins, without what the warp adds
  };
  std::vector<Step> steps;
  uint32_t bytes = 0; // of a buffer, with what alignment needs
  unsigned warps = 1;
  uint32_t idleWarps = 0; // warps with one of these bits hold copies
  bool isPoor = false;    // many small copies, or short rows: another layout is worth a conversion

  /// Shared memory for this number of buffers a warp.
  uint64_t sharedBytes(unsigned buffers) const { return uint64_t{warps} * buffers * bytes; }
};

/// Nullopt if the lanes of a warp hold no rectangle.
std::optional<BulkStore> planBulkStore(const layout::LinearLayout &l, const ir::Shape &shape, ir::Elem elem);
/// A layout that always has a plan, for tensors whose own one has none or a poor one: warps own adjacent rows.
layout::LinearLayout bulkStoreLayout(const ir::Shape &shape, ir::Elem elem, unsigned warps);

/// Bytes of a tile from which on a store by pointers is not the shorter way.
inline constexpr int64_t leastBulkStore = 2048;
/// Is there an instruction for this reduction? Elements as the tensor map has them.
bool hasBulkReduce(std::string_view rmw, ir::Elem elem);
/// Would `v` be stored as well by pointers: it lives where a coalesced access wants it? Then nothing is gained by the
/// way through shared memory.
bool livesCoalesced(const ir::Value *v);

} // namespace tegula::nvidia
