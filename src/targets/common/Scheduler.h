// Selects the LLVM scheduler that orders the nodes of a block.
#pragma once

namespace tegula::targets {

/// Selects LLVM's fast scheduler for large blocks of unoptimized code, for all targets in this process's copy of LLVM.
/// The default scheduler updates an order of the nodes while it resolves conflicts over registers in use (flags on
/// x86), which took 100 s for a block of one kernel. Thread-safe. Call it before any code generation.
void chooseScheduler();

} // namespace tegula::targets
