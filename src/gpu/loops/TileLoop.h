// The loop over tiles around a pipelined loop (a persistent kernel): rings and mbarriers live for the whole tile loop,
// and a tile's first copies start before the epilogue of the previous tile.
//
//   rings, mbarriers;  prologue of the first tile
//   for tile (slot, phase) {
//     for k (slot, phase) { ... }            continues at the ring's current slot
//     release the last stage;  prologue of the next tile, if there is one
//     epilogue
//   }
// The prologue is built once, as a template over the values of a tile, and placed twice: before the loop with the
// values of the first tile, and in the loop with those of the next tile (a LoopSlice of the tile loop).
#pragma once
#include "gpu/LoopSlice.h"
#include "gpu/TargetInfo.h"

namespace tegula::gpu {

class TileLoop {
public:
  using Map = LoopSlice::Map;

  /// `inner` must be directly in the body of a For.
  explicit TileLoop(ir::Op &inner) : loop_(*inner.parent->parent->op), body_(*loop_.region(0)), slice_(loop_) {}

  /// May the rings live across tiles, and may the next tile's loads start before this tile is stored? False if the
  /// body's operations need more shared memory than `freeBytes`, which are left beside the rings, or may store to
  /// memory that `loads`, the desc_loads of the rings, read.
  static bool allows(const ir::Module &m, const ir::Op &inner, const TargetInfo &target, uint64_t freeBytes,
                     const std::vector<const ir::Op *> &loads);

  /// Can everything that `prologue` uses be computed for another tile? `given` are the prologue's parameters.
  bool covers(const ir::Block &prologue, const Map &given);
  /// Appends a copy of `prologue` to the builder's block. `map` gives the values of the prologue's parameters and of
  /// the tile (firstTile, nextTile).
  void place(ir::Builder &b, const ir::Block &prologue, Map map) const;

  Map firstTile() const { return slice_.start(); }
  Map nextTile(ir::Builder &b) const { return slice_.next(b, {}); }
  /// i1: is there a first tile; is there one after this?
  ir::Value *hasFirst(ir::Builder &b) const { return runsAhead(b, loop_, loop_.operands[0], 0); }
  ir::Value *hasNext(ir::Builder &b) const { return runsAhead(b, loop_, body_.args[0], 1); }

  ir::Op &op() const { return loop_; }

private:
  ir::Op &loop_;
  ir::Block &body_;
  LoopSlice slice_;
};

} // namespace tegula::gpu
