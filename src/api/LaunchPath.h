// The steps of a launch, for those who take them apart: tegula_launch (Launch.cpp) and bound launches (Bound.cpp).
#pragma once
#include "api/Handles.h"
#include "api/Specialize.h"
#include <optional>

namespace tegula::api {

/// The kernel for a call: found, or compiled. `launched`: programs of a launch, whose null pointers do not stand for
/// others. Fills `call` and `bound` in. Null with the last error set.
TegulaKernel *prepare(TegulaFunction &f, const TegulaArg *args, size_t count, const TegulaLaunchOptions *options,
                      CallOptions &call, BoundCall &bound, std::optional<int64_t> launched);

/// A null pointer, as libraries give it for a tensor without elements, may be passed but not followed. On a CPU that
/// would be the end of the process, so such launches take the checked form of the kernel, which fails with the
/// argument's name: one form whatever else is known of addresses (api/Classes.cpp lists it). True if this is one, and
/// does not have that form yet.
bool hasNulls(const BoundCall &bound, const CallOptions &call);

/// The form of a kernel that a launch wants (support/LaunchForms.h; for a grid that leaves multiprocessors idle, one
/// whose loops several CTAs share), where there are several: compiled when it is first wanted; `call` and `bound` are
/// of that form then. The kernel itself where that fails. Null with the last error set.
TegulaKernel *inForm(TegulaFunction &f, const TegulaArg *args, size_t count, CallOptions &call, BoundCall &bound,
                     TegulaKernel *k, int64_t programs);

/// False, with the last error set: of packed arguments, strides are so large that the kernel, code for a CPU, would not
/// access what it should, and inForm() was not asked, or had no other code.
bool takesStrides(const TegulaKernel &k, int64_t programs, const char *block);

/// Packs the leaves and runs the kernel, if it takes the strides.
TegulaStatus run(const TegulaKernel &k, const int32_t grid[3], int64_t programs, const TegulaArg *const *leaves,
                 const CallOptions &call);

/// What of a call's options matters to running it.
struct RunOptions {
  unsigned threads = 1;
  uint64_t hangNs = 0;
  void *stream = nullptr;
};
/// Runs what is packed. `block` has room for runtime::argRoom bytes behind the arguments, which may be written to.
TegulaStatus runBlock(const TegulaKernel &k, const int32_t grid[3], int64_t programs, char *block,
                      const TegulaCpuExtent *extents, const RunOptions &o);

} // namespace tegula::api
