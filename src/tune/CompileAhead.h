// Compiles configurations on several threads ahead of timing, each with a time limit.
#pragma once
#include "tune/Tuner.h"

namespace tegula::tune {

/// Compiles the `wanted` configurations on up to `threads` threads. Returns one Compiled for each configuration of the
/// subject (empty for those not wanted). A configuration that takes longer than `timeoutNs` fails and is skipped; its
/// thread continues and keeps `subject` alive. Threads of `executor`, if it has a function, belong to the caller: they
/// are waited for, as they cannot be left behind.
std::vector<Compiled> compileAhead(const std::shared_ptr<Subject> &subject, const std::vector<size_t> &wanted,
                                   unsigned threads, double timeoutNs,
                                   const runtime::ThreadPool::Executor &executor = {});

} // namespace tegula::tune
