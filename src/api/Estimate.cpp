// Estimates of launches: converts arguments to numbers, and combines the device's ceilings with the model of src/tune.
#include "api/Compile.h"
#include "api/Specialize.h"
#include "tune/Model.h"

using namespace tegula;
using namespace tegula::api;

LaunchNumbers::LaunchNumbers(const TegulaKernel &k, const TegulaArg *const *leaves) {
  for (const PackItem &item : k.pack) {
    const TegulaArg &a = *leaves[item.leaf];
    bool isInteger = a.kind == TEGULA_ARG_INT || a.kind == TEGULA_ARG_UINT || a.kind == TEGULA_ARG_BOOL;
    values.push_back(!item.isPtr && isInteger ? a.u.i : 0);
    extents.push_back(item.isPtr ? a.u2.extent : -1);
  }
}

namespace {
tune::CpuCeilings ceilingsOf(const targets::Processor &t, unsigned threads) {
  tune::CpuCeilings c;
  c.threads = std::max(threads, 1u);
  c.vectorBits = t.vectorBits;
  c.fmasPerClock = t.fma ? 2 : 1;
  c.l1Bytes = static_cast<double>(t.l1Bytes), c.l2Bytes = static_cast<double>(t.l2Bytes),
  c.l3Bytes = static_cast<double>(t.l3Bytes);
  c.dots16 = t.dots16, c.dots8 = t.dots8;
  return c;
}

tune::Estimate estimateOf(const TegulaKernel &k, const tune::Launch &launch, unsigned threads) {
  if (const targets::Processor *cpu = k.target->processor())
    return tune::estimateCpu(k.info, launch, ceilingsOf(*cpu, threads));
  uint32_t capability = static_cast<uint32_t>(k.target->language().capability), cores = 0;
  std::string description;
  if (k.device && k.target.isGpu()) {
    const runtime::DeviceProperties &p = k.device->device->properties();
    capability = p.capability, cores = p.cores, description = p.description;
  }
  return tune::estimateGpu(k.info, useOf(k), launch, tune::gpuCeilings(capability, description, cores));
}
} // namespace

TegulaStatus tegula_kernel_estimate(TegulaKernel *k, const int64_t grid[3], const TegulaArg *args, size_t count,
                                    const TegulaLaunchOptions *options, double *ns, const char **why) {
  if (!k || !grid || !ns || (!args && count))
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_kernel_estimate: null argument");
  int32_t extents[3];
  int64_t programs;
  if (runtime::Status s = runtime::checkGrid(grid, extents, programs); !s)
    return fail(s.code, "`" + k->name + "`: " + s.text);
  if (k->info.work.scopes.empty())
    return fail(TEGULA_UNSUPPORTED, "`" + k->name + "`: nothing is known of the kernel's work");
  CallOptions call;
  if (!k->context->resolve(options, call)) return TEGULA_INVALID_ARGUMENT;
  const TegulaArg *leaves[BoundCall::maxLeaves];
  if (!matchArgs(*k, args, count, leaves)) return TEGULA_INVALID_ARGUMENT;
  LaunchNumbers n(*k, leaves);
  tune::Estimate e = estimateOf(*k, {{grid[0], grid[1], grid[2]}, n.values, n.extents}, call.threads);
  *ns = e.ns;
  if (why) {
    thread_local std::string text;
    text = e.why();
    *why = text.c_str();
  }
  return TEGULA_OK;
}
