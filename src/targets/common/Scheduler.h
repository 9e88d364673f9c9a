// Which of LLVM's schedulers puts the nodes of a block in order.
#pragma once

namespace tegula::targets {

/// Code that is made without optimization has the fast scheduler for large blocks, of all targets in this copy of LLVM.
/// The usual one keeps an order of the nodes up to date while it looks for a way around registers in use (flags on
/// x86), which took 100 s for a block of one kernel. Thread-safe; before any code is made.
void chooseScheduler();

} // namespace tegula::targets
