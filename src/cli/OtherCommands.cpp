// tegula check, info, cache: the small commands.
#include "cli/Cli.h"
#include <cstdio>

namespace tegula::cli {

int checkCommand(const std::vector<std::string> &argv) {
  std::vector<OptionSpec> options = {{0, "json", "", "diagnostics as one JSON array on standard output"}};
  CommandLine line;
  std::string error;
  if (!parseCommandLine(options, argv, line, error) || line.positional.empty())
    return misuse(argv, error.empty() ? "check takes at least one FILE.py" : error,
                  "tegula check FILE.py ... [--json]");
  TegulaContext *ctx = nullptr;
  if (tegula_context_create(nullptr, &ctx) != TEGULA_OK) return failLast();
  Handle<TegulaContext> context(ctx);
  bool json = line.has("json");
  int result = Ok;
  for (const std::string &path : line.positional) {
    TegulaModule *module = nullptr;
    TegulaStatus status = tegula_module_from_file(ctx, path.c_str(), &module);
    Handle<TegulaModule> owner(module);
    if (status == TEGULA_OK) status = tegula_module_check(module);
    if (status != TEGULA_OK && status != TEGULA_COMPILE_ERROR) return failLast();
    if (json) {
      std::printf("%s", tegula_diagnostics_json());
    } else {
      for (size_t i = 0; i < tegula_diagnostic_count(); ++i) {
        TegulaDiagnostic d{};
        if (tegula_diagnostic_get(i, &d) == TEGULA_OK) std::fputs(d.rendered, stderr);
      }
      if (status == TEGULA_OK)
        std::printf("%s: %zu kernels, no errors\n", path.c_str(), tegula_module_kernel_count(module));
    }
    if (status != TEGULA_OK) result = UserError;
  }
  return result;
}

static void printGpu(const TegulaDeviceInfo &d) {
  std::printf("device %s: %s\n  target %s, compute capability %u.%u, %u KiB shared memory per block", d.name,
              d.description, d.target, d.capability / 10, d.capability % 10, d.max_shared_bytes >> 10);
  if (d.kind == TEGULA_DEVICE_CUDA)
    std::printf(", %u multiprocessors, %.1f GiB, L2 %llu KiB", d.cores, static_cast<double>(d.memory_bytes) / (1 << 30),
                static_cast<unsigned long long>(d.l2_bytes >> 10));
  std::printf("\n");
}

int infoCommand(const std::vector<std::string> &argv) {
  if (!argv.empty()) return misuse(argv, "info takes no arguments", "tegula info");
  TegulaContext *ctx = nullptr;
  if (tegula_context_create(nullptr, &ctx) != TEGULA_OK) return failLast();
  Handle<TegulaContext> context(ctx);
  std::printf("tegula %s\n", tegula_version());
  for (size_t i = 0; i < tegula_device_count(ctx); ++i) {
    TegulaDeviceInfo d{};
    d.size = sizeof d;
    if (TegulaStatus s = tegula_device_info(ctx, i, &d); s == TEGULA_UNSUPPORTED) continue;
    else if (s != TEGULA_OK) return failLast();
    if (d.kind != TEGULA_DEVICE_CPU) {
      printGpu(d);
      continue;
    }
    std::printf(
        "device %s: %s\n  target %s (%u-bit vectors), %u cores, %.1f GiB, L1 %llu KiB, L2 %llu KiB\n  features %s\n",
        d.name, d.description, d.target, d.vector_bits, d.cores, static_cast<double>(d.memory_bytes) / (1 << 30),
        static_cast<unsigned long long>(d.l1_bytes >> 10), static_cast<unsigned long long>(d.l2_bytes >> 10),
        d.features);
  }
  int32_t gpu;
  if (tegula_device_find(ctx, "cuda", &gpu) != TEGULA_OK) std::printf("no cuda device: %s\n", tegula_last_error());
  std::printf("assembler of GPU code: %s\n", tegula_assembler_name());
  std::printf("targets:");
  for (size_t i = 0; tegula_target_name(i); ++i) std::printf(" %s", tegula_target_name(i));
  TegulaCacheStat stat{};
  stat.size = sizeof stat;
  if (tegula_cache_stat(ctx, &stat) == TEGULA_OK)
    std::printf("\ncache: %s\n", *stat.disabled ? stat.disabled : stat.directory);
  return Ok;
}

int cacheCommand(const std::vector<std::string> &argv) {
  std::vector<OptionSpec> options = {{0, "stat", "", "where the cache is and what it holds"},
                                     {0, "clear", "", "removes every entry"}};
  CommandLine line;
  std::string error;
  if (!parseCommandLine(options, argv, line, error) || !line.positional.empty() || line.options.size() != 1)
    return misuse(
        argv, error.empty() ? "cache takes --stat or --clear" : error,
        "tegula cache --stat | --clear\nThe directory is $TEGULA_CACHE_DIR, else tegula below $XDG_CACHE_HOME or ~/.cache (empty: no cache).\n"
        "What was not used for the longest time is removed when it holds more than $TEGULA_CACHE_LIMIT_MB (1024).");
  TegulaContext *ctx = nullptr;
  if (tegula_context_create(nullptr, &ctx) != TEGULA_OK) return failLast();
  Handle<TegulaContext> context(ctx);
  if (line.has("clear")) {
    uint64_t removed = 0;
    if (tegula_cache_clear(ctx, &removed) != TEGULA_OK) return failLast();
    std::printf("%llu entries removed\n", static_cast<unsigned long long>(removed));
    return Ok;
  }
  TegulaCacheStat s{};
  s.size = sizeof s;
  if (tegula_cache_stat(ctx, &s) != TEGULA_OK) return failLast();
  std::printf("directory: %s\n%sentries: %llu\nbytes: %llu\n", s.directory,
              *s.disabled ? (std::string("off: ") + s.disabled + "\n").c_str() : "",
              static_cast<unsigned long long>(s.entries), static_cast<unsigned long long>(s.bytes));
  return Ok;
}

} // namespace tegula::cli
