// Reductions and scans: within a thread, across the lanes of a warp, across warps (LowerReduce.cpp); extrema and their
// indices (LowerExtremum.cpp).
#pragma once
#include "targets/nvidia/lower/LowerPart.h"

namespace tegula::nvidia {

struct Lowering::Reductions : Part {
  using Part::Part;
  using MaybeArg = std::optional<ArgExtremum>; // set: the reduction is an argmin or argmax

  void reduce(const Op &op), scan(const Op &op);
  Regs combine(const Op &op, llvm::ArrayRef<V> left, llvm::ArrayRef<V> right);
  Regs select(V cond, const Regs &a, const Regs &b);
  /// Reduces the elements of one result that a thread holds, in the order of their coordinates.
  Regs reduceInThread(const Op &op, llvm::ArrayRef<unsigned> registers);
  V maskedSum(const Op &op, llvm::ArrayRef<unsigned> registers);
  std::optional<Regs> reduceBf16Words(const Op &op, llvm::ArrayRef<unsigned> registers),
      reduceHalves(const Op &op, llvm::ArrayRef<unsigned> registers);
  /// Reduces parts in order, as a tree of pairs: this keeps dependence chains short.
  Regs reducePairs(const Op &op, llvm::ArrayRef<Regs> parts);
  Regs acrossLanes(const Op &op, const MaybeArg &arg, Regs part, uint32_t lanes, bool repeat);
  void hideIntegers(llvm::MutableArrayRef<Regs> parts);
  void reduceWarps(const Op &op, const MaybeArg &arg, llvm::SmallVectorImpl<Regs> &parts);
  llvm::SmallVector<Regs, 16> loadParts(const Op &op, unsigned ways,
                                        llvm::function_ref<V(size_t k, unsigned way)> address);
  Regs partsOfLanes(const Op &op, const MaybeArg &arg, unsigned each, uint32_t lanes, bool repeat,
                    llvm::function_ref<V(size_t k, unsigned way)> address);

  // Extrema. `lanes`: bits of the lane index to reduce over. `repeat`: lanes that differ in other bits hold the same.
  MaybeArg argExtremumOf(const Op &op) const;
  V voteLanes(ir::OpKind kind, V x), reduxLanes(ir::OpKind kind, V x, uint32_t lanes, bool repeat);
  V extremum(ir::OpKind kind, V x, V y), extremumOfLanes(ir::OpKind kind, V x, uint32_t lanes, bool repeat),
      extremumOfPairs(ir::OpKind kind, llvm::ArrayRef<V> x);
  // `ascend`: the indices of `pairs` are ascending
  Regs winner(const Op &op, const ArgExtremum &x, llvm::ArrayRef<Regs> pairs, uint32_t lanes, bool repeat, V &found,
              bool ascend = false);
  /// The extrema of a warp, by part, that an earlier reduction of this tile along this axis computed: argmax(x) and
  /// max(x) share them. Null: the operation is no such reduction.
  llvm::SmallVector<V, 8> *findExtrema(const Op &op, const MaybeArg &arg, size_t parts);
};

/// Whether the indices of a reduction's pairs grow with the coordinate along its axis.
bool indicesAscend(const ir::Op &reduce);

} // namespace tegula::nvidia
