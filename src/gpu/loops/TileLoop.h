// The loop over tiles around a pipelined loop (a persistent kernel): rings and mbarriers live as long as it, and a
// tile's first copies start before the epilogue of the tile before.
//
//   rings, mbarriers;  prologue of the first tile
//   for tile (slot, phase) {
//     for k (slot, phase) { ... }            the ring goes on where it was
//     release the last stage;  prologue of the next tile, if there is one
//     epilogue
//   }
// The prologue is written once, as a template over the values of a tile, and placed twice: with the values of the first
// tile in front of the loop, with those of the next one (a LoopSlice of the tile loop) inside.
#pragma once
#include "gpu/LoopSlice.h"
#include "gpu/TargetInfo.h"

namespace tegula::gpu {

class TileLoop {
public:
  using Map = LoopSlice::Map;

  /// `inner` must stand directly in the body of a For.
  explicit TileLoop(ir::Op &inner) : loop_(*inner.parent->parent->op), body_(*loop_.region(0)), slice_(loop_) {}

  /// Does anything in the body forbid to keep the rings, or to load the next tile before this one is stored?
  /// `freeBytes` of shared memory are left beside the rings; `loads` are what the rings hold (desc_load).
  static bool allows(const ir::Module &m, const ir::Op &inner, const TargetInfo &target, uint64_t freeBytes,
                     const std::vector<const ir::Op *> &loads);

  /// Can the values of another tile be computed for everything that `prologue` uses? `given` are its parameters.
  bool covers(const ir::Block &prologue, const Map &given);
  /// Appends a copy of `prologue` at the builder's block. `map` gives its parameters and the tile (firstTile,
  /// nextTile).
  void place(ir::Builder &b, const ir::Block &prologue, Map map) const;

  Map firstTile() const { return slice_.start(); }
  Map nextTile(ir::Builder &b) const { return slice_.next(b, {}); }
  /// i1: there is a first tile; there is one after this.
  ir::Value *hasFirst(ir::Builder &b) const { return runsAhead(b, loop_, loop_.operands[0], 0); }
  ir::Value *hasNext(ir::Builder &b) const { return runsAhead(b, loop_, body_.args[0], 1); }

  ir::Op &op() const { return loop_; }

private:
  ir::Op &loop_;
  ir::Block &body_;
  LoopSlice slice_;
};

} // namespace tegula::gpu
