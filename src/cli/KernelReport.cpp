// --info and --remarks of compile and run.
#include "cli/Cli.h"
#include <cstdio>

namespace tegula::cli {

const std::vector<OptionSpec> reportOptionSpecs = {
    {0, "info", "", "what the kernel takes: registers, spills, shared memory, blocks per multiprocessor, bytes of code"},
    {0, "remarks", "", "accesses that are not vectorized, loops that are not pipelined, spills: each with its line and the reason"},
};

static void printInfo(TegulaKernel *kernel) {
  TegulaKernelInfo i{};
  i.size = sizeof i;
  if (tegula_kernel_info(kernel, &i) != TEGULA_OK) return;
  std::fprintf(stderr, "%s for %s: %s\n", i.name, i.target, i.signature);
  if (i.threads == 0) {
    std::fprintf(stderr, "  %llu bytes of object file, %llu bytes of scratch per thread\n", static_cast<unsigned long long>(i.object_bytes),
                 static_cast<unsigned long long>(i.scratch_bytes));
    return;
  }
  std::fprintf(stderr, "  %u threads per block, clusters of %u, %d stages, %u bytes of shared memory\n", i.threads, i.cluster_ctas, i.num_stages, i.shared_bytes);
  if (i.registers)
    std::fprintf(stderr, "  %u registers per thread, %u bytes spilled, %u bytes of local memory\n", i.registers, i.spill_bytes, i.local_bytes);
  else if (std::string_view(i.target).starts_with("sm_"))
    std::fprintf(stderr, "  registers are known once the code was assembled (assembler: %s)\n", tegula_assembler_name());
  if (i.blocks_per_core) std::fprintf(stderr, "  %u blocks fit on a multiprocessor\n", i.blocks_per_core);
}

void reportKernel(const CommandLine &line, TegulaKernel *kernel) {
  if (line.has("info")) printInfo(kernel);
  TegulaRemark r;
  for (size_t i = 0, n = line.has("remarks") ? tegula_kernel_remark_count(kernel) : 0; i < n; ++i) {
    if (tegula_kernel_remark(kernel, i, &r) != TEGULA_OK) continue;
    if (*r.file) std::fprintf(stderr, "%s:%u:%u: ", r.file, r.line, r.column);
    std::fprintf(stderr, "remark: %s [%s]\n", r.message, r.kind);
  }
}

} // namespace tegula::cli
