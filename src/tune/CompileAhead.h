// Configurations compiled on several threads ahead of timing, each with a limit of time.
#pragma once
#include "tune/Tuner.h"

namespace tegula::tune {

/// Compiles the `wanted` configurations on up to `threads` threads and gives one Compiled for each configuration of the
/// subject (those not wanted are empty). One that takes longer than `timeoutNs` is a failure to be skipped; its thread
/// goes on by itself and keeps `subject` alive. On threads of somebody else's (`executor`, if it has a function) it is
/// waited for: they cannot be left behind.
std::vector<Compiled> compileAhead(const std::shared_ptr<Subject> &subject, const std::vector<size_t> &wanted,
                                   unsigned threads, double timeoutNs,
                                   const runtime::ThreadPool::Executor &executor = {});

} // namespace tegula::tune
