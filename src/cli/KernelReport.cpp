// --info and --remarks of compile and run.
#include "cli/Cli.h"
#include "support/Diag.h"
#include "support/Npy.h"
#include <cstdio>
#include <map>
#include <memory>

namespace tegula::cli {

const std::vector<OptionSpec> reportOptionSpecs = {
    {0, "info", "",
     "what the kernel takes: registers, spills, shared memory, blocks per multiprocessor, bytes of code"},
    {0, "remarks", "",
     "accesses that are not vectorized, loops that are not pipelined, dots that wait for each other, spills: each with its line and the reason"},
};

static void printInfo(TegulaKernel *kernel) {
  TegulaKernelInfo i{};
  i.size = sizeof i;
  if (tegula_kernel_info(kernel, &i) != TEGULA_OK) return;
  std::fprintf(stderr, "%s for %s: %s\n", i.name, i.target, i.signature);
  if (i.threads == 0) {
    std::fprintf(stderr, "  %llu bytes of object file, %llu bytes of scratch per thread\n",
                 static_cast<unsigned long long>(i.object_bytes), static_cast<unsigned long long>(i.scratch_bytes));
    return;
  }
  std::fprintf(stderr, "  %u threads per block, clusters of %u, %d stages, %u bytes of shared memory\n", i.threads,
               i.cluster_ctas, i.num_stages, i.shared_bytes);
  if (i.registers)
    std::fprintf(stderr, "  %u registers per thread, %u bytes spilled, %u bytes of local memory\n", i.registers,
                 i.spill_bytes, i.local_bytes);
  else if (std::string_view(i.target).starts_with("sm_"))
    std::fprintf(stderr, "  registers are known once the code was assembled (assembler: %s)\n",
                 tegula_assembler_name());
  if (i.blocks_per_core) std::fprintf(stderr, "  %u blocks fit on a multiprocessor\n", i.blocks_per_core);
}

/// The location of a line and display column; none if the file has no such line.
static Loc placeIn(const SourceFile &file, uint32_t line, uint32_t column) {
  size_t at = 0;
  for (uint32_t n = 1; n < line; ++n) {
    at = file.text().find('\n', at);
    if (at == std::string_view::npos) return {};
    ++at;
  }
  auto offset = static_cast<uint32_t>(at), end = static_cast<uint32_t>(at + file.lineText(offset).size());
  while (offset < end && file.lineCol(offset).col < column) ++offset;
  return {&file, offset, std::min(offset + 1, end)};
}

/// Prints a remark with its source line, as diagnostics are shown, if the file still exists.
static void printRemark(const TegulaRemark &r, std::map<std::string, std::unique_ptr<SourceFile>> &files) {
  std::string text, error;
  auto [it, isNew] = files.try_emplace(r.file);
  if (isNew && *r.file && readFile(r.file, text, error))
    it->second = std::make_unique<SourceFile>(r.file, std::move(text));
  if (Loc place = it->second ? placeIn(*it->second, r.line, r.column) : Loc()) {
    DiagKind kind{r.kind, Severity::Remark, "{0}"};
    Diagnostic d;
    d.kind = &kind;
    d.loc = place;
    d.args.emplace_back(r.message);
    std::fputs(render(d).c_str(), stderr);
    return;
  }
  if (*r.file) std::fprintf(stderr, "%s:%u:%u: ", r.file, r.line, r.column);
  std::fprintf(stderr, "remark: %s [%s]\n", r.message, r.kind);
}

void reportKernel(const CommandLine &line, TegulaKernel *kernel) {
  if (line.has("info")) printInfo(kernel);
  std::map<std::string, std::unique_ptr<SourceFile>> files;
  TegulaRemark r;
  for (size_t i = 0, n = line.has("remarks") ? tegula_kernel_remark_count(kernel) : 0; i < n; ++i)
    if (tegula_kernel_remark(kernel, i, &r) == TEGULA_OK) printRemark(r, files);
}

} // namespace tegula::cli
