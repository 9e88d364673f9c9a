// tegula run: compiles a kernel, launches it on files and generated buffers, and saves, prints, times.
#include "cli/Launching.h"
#include <algorithm>
#include <chrono>
#include <cstdio>

namespace tegula::cli {
namespace {

std::vector<OptionSpec> specs() {
  std::vector<OptionSpec> out = {
      {0, "grid", "EXPRS", "1 to 3 expressions over integer arguments and constants: 'cdiv(n, BLOCK), 4'"},
      {'a', "arg", "NAME=VALUE",
       "argument: @file.npy, empty|zeros|ones|randn|arange:dtype[shape], tensordesc[block]: in front of these, number, none, true, false",
       true},
      {'c', "const", "NAME=VALUE", "compile-time constant: int, float, true/false, dtype, 'string'", true},
      {'d', "device", "NAME",
       "cpu, cuda, cuda:1, sim, sim:sm_80 ... (default: TEGULA_DEVICE, else a GPU if there is one, else cpu)"},
      {0, "save", "NAME=FILE", "writes a buffer to a .npy file after the run", true},
      {0, "print", "NAME", "prints a buffer after the run", true},
      {0, "time", "", "median time of repeated launches, and GB/s from the bytes of the arguments"},
  };
  out.insert(out.end(), reportOptionSpecs.begin(), reportOptionSpecs.end());
  out.insert(out.end(), launchOptionSpecs.begin(), launchOptionSpecs.end());
  return out;
}

int report(const std::vector<ArgValue> &args, TegulaFunction *function, const int64_t grid[3],
           const std::vector<TegulaArg> &packed, const TegulaLaunchOptions &options, const DeviceBuffers &buffers) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  auto begin = Clock::now();
  // On a GPU several launches are timed together, so that the final wait is not attributed to one launch.
  unsigned together = buffers.isGpu() ? 20 : 1;
  while (times.size() < 5 || (times.size() < 1000 && Clock::now() - begin < std::chrono::milliseconds(500))) {
    auto t0 = Clock::now();
    for (unsigned i = 0; i < together; ++i)
      if (tegula_launch(function, grid, packed.data(), packed.size(), &options, nullptr) != TEGULA_OK)
        return failLast();
    if (buffers.isGpu() && !buffers.wait()) return failLast();
    times.push_back(std::chrono::duration<double>(Clock::now() - t0).count() / together);
  }
  std::sort(times.begin(), times.end());
  double median = times[times.size() / 2];
  size_t bytes = 0;
  for (auto &a : args) bytes += a.isBuffer ? a.bytes : 0;
  std::printf("%.3f us (median of %zu launches), %.2f GB/s over %zu bytes of arguments\n", median * 1e6, times.size(),
              static_cast<double>(bytes) / median * 1e-9, bytes);
  return Ok;
}

int saveAndPrint(const CommandLine &line, const std::vector<ArgValue> &args) {
  auto find = [&](const std::string &name) -> const ArgValue * {
    for (auto &a : args)
      if (a.isBuffer && a.name == name) return &a;
    return nullptr;
  };
  for (const std::string &item : line.all("save")) {
    size_t eq = item.find('=');
    const ArgValue *a = find(item.substr(0, eq));
    NpyArray image = a->array;
    image.data.assign(a->memory.get(), a->memory.get() + a->bytes);
    std::string error;
    if (!writeFile(item.substr(eq + 1), formatNpy(image), error)) return fail(error);
  }
  for (const std::string &name : line.all("print")) {
    const ArgValue *a = find(name);
    std::string shape;
    for (int64_t d : a->array.shape) shape += (shape.empty() ? "" : ", ") + std::to_string(d);
    std::printf("%s: %s[%s]\n%s\n", name.c_str(), a->array.dtype.c_str(), shape.c_str(), formatBuffer(*a).c_str());
  }
  return Ok;
}

// Names in --save and --print are checked before anything runs, so that no result is lost to a typing error.
bool checkOutputs(const CommandLine &line, const std::vector<ArgValue> &args, std::string &error) {
  auto known = [&](const std::string &name) {
    return std::any_of(args.begin(), args.end(), [&](auto &a) { return a.isBuffer && a.name == name; });
  };
  for (const std::string &item : line.all("save")) {
    size_t eq = item.find('=');
    if (eq == std::string::npos || eq + 1 == item.size()) return error = "--save " + item + ": write NAME=FILE", false;
    if (!known(item.substr(0, eq)))
      return error = "--save: no buffer `" + item.substr(0, eq) + "` was given with -a", false;
  }
  for (const std::string &name : line.all("print"))
    if (!known(name)) return error = "--print: no buffer `" + name + "` was given with -a", false;
  return true;
}

} // namespace

int runCommand(const std::vector<std::string> &argv) {
  CommandLine line;
  std::string error;
  auto options = specs();
  if (!parseCommandLine(options, argv, line, error) || line.positional.size() != 1 || !line.has("grid")) {
    if (error.empty()) error = line.positional.size() != 1 ? "run takes one FILE.py::KERNEL" : "run needs --grid";
    return misuse(argv, error, "tegula run FILE.py::KERNEL --grid EXPRS [options]\n" + describeOptions(options));
  }
  Constants constants;
  std::vector<ArgValue> args;
  TegulaLaunchOptions launch;
  if (!parseLaunchOptions(line, launch, error)) return usage(error);
  if (!parseConstants(line.all("const"), constants, error) || !parseArguments(line.all("arg"), constants, args, error))
    return fail(error);
  int64_t grid[3] = {1, 1, 1};
  if (!evaluateGrid(line.get("grid"), integersOf(args, constants), grid, error)) return fail("--grid: " + error);
  if (!checkOutputs(line, args, error)) return fail(error);
  auto ref = openKernel(line.positional[0]);
  if (!ref) return UserError;
  if (!chooseDevice(line, ref->context.get(), launch)) return failLast();
  std::vector<TegulaArg> packed;
  if (!bindParameters(ref->function.get(), args, constants, {}, packed, error)) return fail(error);
  DeviceBuffers buffers(ref->context.get(), launch.device);
  if (!buffers.move(args, packed)) return failLast();
  Descriptors descriptors;
  if (!descriptors.make(ref->function.get(), args, packed, error)) return fail(error);
  handleSignals(ref->context.get(), launch);
  TegulaKernel *kernel = nullptr;
  TegulaStatus status = tegula_launch(ref->function.get(), grid, packed.data(), packed.size(), &launch, &kernel);
  if (status == TEGULA_CANCELLED) {
    fail("interrupted");
    return 130;
  }
  if (status != TEGULA_OK || !buffers.copyBack()) return failLast();
  reportKernel(line, kernel);
  if (int code = saveAndPrint(line, args)) return code;
  return line.has("time") ? report(args, ref->function.get(), grid, packed, launch, buffers) : Ok;
}

} // namespace tegula::cli
