// Where asynchronous dots have to be waited for: at the first use of a result, as late as that allows.
#pragma once
#include "ir/Ir.h"
#include <vector>

namespace tegula::gpu {

/// A wait before `before`, an operation of the body or of a branch in it: only `younger` dots may still run; `values`
/// are results (or carried values that stand for results of the last iteration) that exist from here on.
struct DotWaitPoint {
  const ir::Op *before;
  std::vector<const ir::Op *> younger;
  std::vector<ir::Value *> values;
  /// So many groups of products are those, as far as a wait can count.
  int64_t pending() const;
};

struct AsyncDots {
  std::vector<DotWaitPoint> waits; // in program order
  /// Dots still running when an iteration ends, and what the body yields for them: their results, or those of branches
  /// that pass these on.
  std::vector<const ir::Op *> atEnd;
  std::vector<const ir::Value *> yielded;
  bool isAtEnd(const ir::Op *dot) const;
  /// The operation before which those of the iteration before are done: there is a wait for it. Null if none run on.
  const ir::Op *oldDone = nullptr;
};

/// `dots`: the dots of the body that may run asynchronously, in program order. `doneBefore`: an operation of the body,
/// or null; what started before it, in this iteration or the last one, is waited for there at the latest.
AsyncDots placeDotWaits(const ir::Block &body, const std::vector<ir::Op *> &dots, const ir::Op *doneBefore = nullptr);

} // namespace tegula::gpu
