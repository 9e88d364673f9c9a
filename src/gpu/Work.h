// Estimates the instructions that an operation takes for each element of its tile, for decisions about the size of
// straight-line code. Also the number of bytes to keep in flight.
#pragma once
#include "gpu/TargetInfo.h"
#include <vector>

namespace tegula::gpu {

/// Bytes in flight that keep a multiprocessor's share of the memory bandwidth busy (Little's law), measured with loops
/// of sums, norms and softmax on an H200.
inline constexpr unsigned bytesInFlight = 48 << 10;

/// Instructions for one element; 0 for operations that only name elements.
int64_t instructionsOf(const ir::Op &op);
/// Instructions for all elements of the operation that one of `threads` threads holds; 0 for scalars.
int64_t instructionsOf(const ir::Op &op, int64_t threads);

/// A lower bound of the clocks that a multiprocessor takes for the operations of a block, without their regions: `work`
/// for instructions on elements, `products` for dots of GPU IR.
struct Clocks {
  double work = 0, products = 0;

  /// Do the products take at least as long as a load from memory? Then loads need to be at most one iteration ahead.
  bool coverMemory() const { return products >= memoryLatency; }

private:
  static constexpr double memoryLatency = 500;
};
Clocks clocksOf(const ir::Block &b, const TargetInfo &target, unsigned warps);
/// The same without the operations `done` of the block, and without work whose results only they use: the warps that
/// execute them (a producer) do that work, too.
Clocks clocksWithout(const std::vector<ir::Op *> &done, const ir::Block &b, const TargetInfo &target, unsigned warps);

} // namespace tegula::gpu
