// The steps of a launch, for tegula_launch (Launch.cpp) and bound launches (Bound.cpp), which combine them differently.
#pragma once
#include "api/Handles.h"
#include "api/Specialize.h"
#include <optional>

namespace tegula::api {

/// The kernel for a call, found or compiled; fills in `call` and `bound`. `launched`: the number of programs of a
/// launch; in calls that only compile (nullopt), a null pointer stands for any pointer. Null: the last error is set.
TegulaKernel *prepare(TegulaFunction &f, const TegulaArg *args, size_t count, const TegulaLaunchOptions *options,
                      CallOptions &call, BoundCall &bound, std::optional<int64_t> launched);

/// Libraries pass a null pointer for a tensor without elements: a kernel may receive it but not dereference it. On a
/// CPU a dereference would end the process, so such launches use the checked form of the kernel, which fails with the
/// argument's name. There is one such form, whatever is known about addresses (api/Classes.cpp lists it). True if the
/// call is such a launch and does not use that form yet.
bool hasNulls(const BoundCall &bound, const CallOptions &call);

/// The form of a kernel that a launch wants, where there are several (support/LaunchForms.h; for a grid that leaves
/// multiprocessors idle, one whose loops several CTAs share). Compiles it when it is first wanted, and sets `call` and
/// `bound` to that form. Returns the kernel itself if that fails. Null: the last error is set.
TegulaKernel *inForm(TegulaFunction &f, const TegulaArg *args, size_t count, CallOptions &call, BoundCall &bound,
                     TegulaKernel *k, int64_t programs);

/// Checks the strides among packed arguments. False, with the last error set: a stride is so large that the kernel,
/// code for a CPU, would access wrong addresses, and inForm() was not called or had no other code.
bool takesStrides(const TegulaKernel &k, int64_t programs, const char *block);

/// Packs the leaves and runs the kernel, if it takes the strides.
TegulaStatus run(const TegulaKernel &k, const int32_t grid[3], int64_t programs, const TegulaArg *const *leaves,
                 const CallOptions &call);

/// The options of a call that running a kernel needs.
struct RunOptions {
  unsigned threads = 1;
  uint64_t hangNs = 0;
  void *stream = nullptr;
};
/// Runs a packed call. `block` has room for runtime::argRoom bytes after the arguments, which may be written.
TegulaStatus runBlock(const TegulaKernel &k, const int32_t grid[3], int64_t programs, char *block,
                      const TegulaCpuExtent *extents, const RunOptions &o);

} // namespace tegula::api
