// tegula compile: one stage of a kernel as text or bytes, for any target, with no device.
#include "cli/Cli.h"
#include "support/Npy.h"
#include <cstdio>

namespace tegula::cli {

int compileCommand(const std::vector<std::string> &argv) {
  std::vector<OptionSpec> options = {
      {0, "sig", "ITEMS",
       "arguments: 'x:*f32:16, n:i32, stride:1', each name:type[:divisibility] or name:literal (out:*f32:x is the buffer of x); types like *f32, i32, tensordesc<f16[64, 32]>"},
      {'c', "const", "NAME=VALUE", "compile-time constant", true},
      {'t', "target", "NAME",
       "cpu, cpu:avx2, cpu:aarch64, sm_80, sm_90a, sim, ... (see tegula info; default: this machine's CPU)"},
      {0, "emit", "STAGE",
       "ast, tree, tile; CPU: cpu, llvm, asm, obj; GPU: gpu, gpu@PASS, llvm, ptx, cubin (default: obj, of a GPU cubin)"},
      {0, "programs", "N", "programs of the launches to come, where code depends on how many there are (GPUs)"},
      {0, "integers", "NAME=N,...",
       "values of integer parameters in the launches to come, where code depends on how often loops run (GPUs)"},
      {'o', "output", "FILE", "where to write (default: standard output; obj and cubin need it)"},
  };
  options.insert(options.end(), reportOptionSpecs.begin(), reportOptionSpecs.end());
  options.insert(options.end(), launchOptionSpecs.begin(), launchOptionSpecs.end());
  CommandLine line;
  std::string error;
  if (!parseCommandLine(options, argv, line, error) || line.positional.size() != 1)
    return misuse(argv, error.empty() ? "compile takes one FILE.py::KERNEL" : error,
                  "tegula compile FILE.py::KERNEL --sig ITEMS [options]\n" + describeOptions(options));
  std::string target = line.get("target");
  std::string stage = line.get("emit", target.starts_with("sm_") ? "cubin" : "obj"), output = line.get("output", "-");
  bool reports = line.has("info") || line.has("remarks"), emits = !reports || line.has("emit") || output != "-";
  if (emits && output == "-" && stage == "obj") return usage("an object file needs -o FILE");
  if (emits && output == "-" && stage == "cubin") return usage("a cubin needs -o FILE");
  Constants constants;
  TegulaLaunchOptions launch;
  if (!parseLaunchOptions(line, launch, error)) return usage(error);
  int32_t programs = 0;
  if (line.has("programs") && !parseCount("--programs", line.get("programs"), programs, error)) return usage(error);
  const std::string integers = line.get("integers");
  launch.programs = programs, launch.integers = integers.c_str();
  if (!parseConstants(line.all("const"), constants, error)) return fail(error);
  auto ref = openKernel(line.positional[0]);
  if (!ref) return UserError;
  auto list = constants.list();
  if (reports) {
    TegulaKernel *kernel = nullptr;
    if (tegula_compile_signature(ref->function.get(), line.get("sig").c_str(), list.data(), list.size(),
                                 target.empty() ? nullptr : target.c_str(), &launch, &kernel) != TEGULA_OK)
      return failLast();
    reportKernel(line, Handle<TegulaKernel>(kernel).get());
  }
  if (!emits) return Ok;
  char *text = nullptr;
  size_t length = 0;
  if (tegula_emit(ref->function.get(), line.get("sig").c_str(), list.data(), list.size(),
                  target.empty() ? nullptr : target.c_str(), &launch, stage.c_str(), &text, &length) != TEGULA_OK)
    return failLast();
  std::unique_ptr<char, void (*)(void *)> owner(text, tegula_free);
  if (output == "-") {
    std::fwrite(text, 1, length, stdout); // Main.cpp checks that it was written
    return Ok;
  }
  return writeFile(output, std::string_view(text, length), error) ? Ok : fail(error);
}

} // namespace tegula::cli
