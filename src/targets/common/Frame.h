// What compiling for any target begins with: the check of shapes, the clock of stages, the places reports refer to.
#pragma once
#include "ir/Ir.h"
#include "support/Diag.h"
#include "targets/Meta.h"
#include <chrono>

namespace tegula::targets {

/// Every tensor in the block (and in regions inside) has power-of-two extents, as everything after planning assumes.
/// Reports the first that has not.
bool checkExtents(const ir::Block &b, DiagEngine &diag);

/// The place of `op` and what its kind of report says: message of an assert, prefix and operands of a print. `kernel`:
/// name for operations that were not inlined. Site::arg stays unknown.
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
