// The C interface for kernels linked into a program; the launch path is the same as for loaded ones.
#include "runtime/Launch.h"
#include "tegula/runtime.h"
#include <algorithm>

using namespace tegula::runtime;

struct TegulaRuntime {
  ThreadPool pool;
  CancelTable cancel;
  unsigned threads = 1;
};

namespace {
struct Silent final : LaunchHooks {
  void print(const std::string &) override {}
};
} // namespace

TegulaStatus tegula_runtime_create(int32_t numThreads, TegulaRuntime **out) {
  if (!out || numThreads < 0) return TEGULA_INVALID_ARGUMENT;
  auto *r = new TegulaRuntime;
  r->threads = numThreads ? std::min<unsigned>(numThreads, ThreadPool::maxThreads) : ThreadPool::availableCores();
  *out = r;
  return TEGULA_OK;
}

void tegula_runtime_destroy(TegulaRuntime *runtime) { delete runtime; }

TegulaStatus tegula_runtime_run(TegulaRuntime *runtime, TegulaCpuEntry entry, const void *args, uint64_t scratchBytes,
                                const int64_t grid[3], int32_t threads, TegulaCpuFault *fault) {
  if (!runtime || !entry || !grid || threads < 0) return TEGULA_INVALID_ARGUMENT;
  KernelInfo info;
  info.scratchBytes = scratchBytes;
  // The object has no record of it; this exceeds the needs of code for tiles.
  info.stackBytes = 256 << 10;
  info.waits = true;
  CpuKernel kernel(std::move(info), entry);
  LaunchRequest request;
  if (Status s = checkGrid(grid, request.grid, request.programs); !s) return s.code;
  if (request.programs == 0) return TEGULA_OK;
  request.kernel = &kernel;
  request.args = args;
  request.threads = threads ? static_cast<unsigned>(threads) : runtime->threads;
  Silent hooks;
  LaunchOutcome outcome;
  Status s = launch(request, runtime->pool, runtime->cancel, hooks, outcome);
  if (fault) *fault = outcome.fault;
  return s.code;
}
