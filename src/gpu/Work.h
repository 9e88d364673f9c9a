// How many instructions an operation takes for each element of its tile: an estimate, for decisions about the size of
// straight code; and how much memory wants to be asked for at once.
#pragma once
#include "gpu/TargetInfo.h"
#include <vector>

namespace tegula::gpu {

/// Bytes under way that keep a multiprocessor's share of the memory busy (Little's law), measured on sums, norms and
/// softmax by loops of an H200.
inline constexpr unsigned bytesInFlight = 48 << 10;

/// For one element; 0 for what only names elements.
int64_t instructionsOf(const ir::Op &op);
/// For all of the operation's elements that one of `threads` threads has; 0 for scalars.
int64_t instructionsOf(const ir::Op &op, int64_t threads);

/// Clocks that a block's operations themselves, not regions in it, take a multiprocessor at least: work on elements,
/// which is issued; products of dots in GPU IR.
struct Clocks {
  double work = 0, products = 0;

  /// Do the products take as long as a load from memory? Then loads need to be one iteration ahead at most.
  bool coverMemory() const { return products >= memoryLatency; }

private:
  static constexpr double memoryLatency = 500;
};
Clocks clocksOf(const ir::Block &b, const TargetInfo &target, unsigned warps);
/// The same without work that only the operands of these operations of the block are computed from: whoever does them
/// (a producer) does that, too.
Clocks clocksWithout(const std::vector<ir::Op *> &done, const ir::Block &b, const TargetInfo &target, unsigned warps);

} // namespace tegula::gpu
