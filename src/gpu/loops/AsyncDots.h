// Places the waits for asynchronous dots of a loop: as late as possible, before the first use of a result.
#pragma once
#include "ir/Ir.h"
#include <vector>

namespace tegula::gpu {

/// A wait before `before`, an operation of the body or of a branch in it. Only the `younger` dots may still run after
/// the wait. `values` are the results that are complete from here on; a loop-carried value stands for a result of the
/// last iteration.
struct DotWaitPoint {
  const ir::Op *before;
  std::vector<const ir::Op *> younger;
  std::vector<ir::Value *> values;
  /// The number of wgmma groups of `younger`, at most the largest count that a wait can name (7).
  int64_t pending() const;
};

struct AsyncDots {
  std::vector<DotWaitPoint> waits; // in program order
  /// Dots still in flight when an iteration ends, and the values that the body yields for them: their results, or the
  /// results of branches that pass these on.
  std::vector<const ir::Op *> atEnd;
  std::vector<const ir::Value *> yielded;
  bool isAtEnd(const ir::Op *dot) const;
  /// The operation before which the wait for the dots of the previous iteration stands. Null if none are in flight
  /// across the back edge.
  const ir::Op *oldDone = nullptr;
};

/// `dots`: the dots of the body that may run asynchronously, in program order. `doneBefore`: an operation of the body,
/// or null. Dots that started before it, in this iteration or the last one, are waited for there at the latest.
AsyncDots placeDotWaits(const ir::Block &body, const std::vector<ir::Op *> &dots, const ir::Op *doneBefore = nullptr);

} // namespace tegula::gpu
