// Helpers that every target's compile() uses: the check of shapes, the timer of stages, the source locations of
// reports.
#pragma once
#include "ir/Ir.h"
#include "support/Diag.h"
#include "targets/Meta.h"
#include <chrono>

namespace tegula::targets {

/// Checks that every tensor in the block (and in nested regions) has power-of-two extents, as the code after planning
/// assumes. Reports the first violation and returns false.
bool checkExtents(const ir::Block &b, DiagEngine &diag);

/// The source location of `op`, and the text of its report: the message of an assert, the prefix and operands of a
/// print. `kernel`: function name for operations that were not inlined. Site::arg stays unknown.
Site siteAt(const ir::Module &m, const ir::Op &op, Site::Kind kind, const std::string &kernel);

/// Adds the time since the last call (or construction) to a counter, nanoseconds.
class Lap {
public:
  void into(uint64_t &counter) {
    auto now = std::chrono::steady_clock::now();
    counter += static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now - last_).count());
    last_ = now;
  }

private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

} // namespace tegula::targets
