// tegula verify: compares every configuration and class of a kernel on generated inputs, on two devices.
#include "api/ConfigNumbers.h"
#include "cli/Launching.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <set>

namespace tegula::cli {
namespace {

std::vector<OptionSpec> specs() {
  std::vector<OptionSpec> out = {
      {0, "grid", "EXPRS", "1 to 3 expressions over integer arguments and constants"},
      {'a', "arg", "NAME=VALUE",
       "argument, as for tegula run; integers are also tried as 1, as a multiple of 16 and as none", true},
      {'c', "const", "NAME=VALUE", "compile-time constant", true},
      {0, "configs", "NAME=VALUES",
       "values of a constant, or of num_warps, num_stages, num_ctas, maxnreg: 16,32,64; all combinations are verified",
       true},
      {0, "devices", "A,B", "the two devices (default: cpu,cuda where there is a GPU, else cpu,sim)"},
      {0, "tolerance", "R",
       "largest relative difference; 0: the same bits (default: what the kernel and its element types allow)"},
      {0, "given-only", "", "only the arguments as they are given, aligned, without other classes"},
  };
  out.insert(out.end(), launchOptionSpecs.begin(), launchOptionSpecs.end());
  return out;
}

/// One value for each --configs.
struct Config {
  std::vector<std::string> constants; // NAME=VALUE, as -c takes them
  TegulaConfig numbers{};             // num_warps and other options, 0: not given
  std::string text;                   // for people: all of it
};

/// All combinations of --configs; one without values if there are none.
bool configsOf(const CommandLine &line, std::vector<Config> &out, std::string &error) {
  out.assign(1, {});
  for (const std::string &item : line.all("configs")) {
    const size_t eq = item.find('=');
    if (eq == item.npos || eq == 0 || eq + 1 == item.size())
      return error = "`--configs " + item + "`: write NAME=VALUE,VALUE", false;
    const std::string name = item.substr(0, eq);
    const api::ConfigNumber *number = api::configNumber(name);
    std::vector<Config> next;
    for (const Config &c : out)
      for (const std::string &value : splitList(std::string_view(item).substr(eq + 1))) {
        if (value.empty()) return error = "`--configs " + item + "`: a value is empty", false;
        Config &made = next.emplace_back(c);
        const std::string text = name + "=" + value;
        made.text += (made.text.empty() ? "" : " ") + text;
        if (!number) made.constants.push_back(text);
        else if (made.numbers.*number->config)
          return error = "`--configs " + item + "`: `" + name + "` is given twice", false;
        else if (!parseCount("--configs " + name, value, made.numbers.*number->config, error)) return false;
      }
    out = std::move(next);
  }
  return true;
}

/// Values of an integer in different classes: as given, a multiple of 16, and neither 1 nor a multiple of 16.
std::vector<int64_t> variantsOf(int64_t given) {
  std::vector<int64_t> out = {given};
  auto add = [&](int64_t v) {
    if (std::find(out.begin(), out.end(), v) == out.end()) out.push_back(v);
  };
  if (given < 1) return out;
  add((given + 15) / 16 * 16);
  add(given % 16 && given != 1 ? given : given + 1);
  add(1);
  return out;
}

enum class Fill { Given, Random, Adversarial };
constexpr const char *fillNames[] = {"given", "random", "adversarial"};

/// Difficult values: zeros of both signs, infinities, NaNs, the smallest and the largest numbers, midpoints between two
/// numbers.
void fill(ArgValue &a, Fill how, unsigned seed) {
  if (how == Fill::Given || !a.isBuffer || !isFloat(a.dtype)) return;
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  const double big = a.dtype == TEGULA_FP64                             ? 1e300
                     : a.dtype == TEGULA_FP32 || a.dtype == TEGULA_BF16 ? 3e38
                     : a.dtype == TEGULA_FP16                           ? 65504
                                                                        : 448;
  const double tiny = a.dtype == TEGULA_FP64                             ? 5e-324
                      : a.dtype == TEGULA_FP32 || a.dtype == TEGULA_BF16 ? 1e-45
                      : a.dtype == TEGULA_FP16                           ? 6e-8
                                                                         : 0.002;
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const double special[] = {0, -0.0, 1, -1, 0.5, -2.5, inf, -inf, nan,
                            big, -big, tiny, -tiny, 1e-5, 3, 1.0000001, 65519.996, 2049};
  for (size_t i = 0, n = static_cast<size_t>(a.array.count()); i < n; ++i) {
    double v = how == Fill::Random || random() % 4 == 0 ? normal(random) : special[random() % std::size(special)];
    uint64_t bits = 0;
    if (a.dtype >= TEGULA_FP16) bits = tegula_float_to_bits(a.dtype, v);
    else bits = random() & 0xff; // all bit patterns are valid in fp8
    std::memcpy(a.memory.get() + i * a.array.elementBytes, &bits, a.array.elementBytes);
  }
}

/// Moves the targets of pointers by one element, so that no address is a multiple of 16. Every buffer of the command
/// line has room after it.
void misalign(std::vector<TegulaArg> &args) {
  for (TegulaArg &a : args) {
    if (a.kind != TEGULA_ARG_POINTER || !a.u.ptr) continue;
    auto *at = static_cast<char *>(a.u.ptr);
    const size_t width = tegula_dtype_bytes(a.dtype);
    std::memmove(at + width, at, static_cast<size_t>(a.u2.extent));
    a.u.ptr = at + width;
  }
}

/// The classes of the arguments for which the kernel is compiled on one device.
std::string signatureOf(TegulaFunction *function, const std::vector<TegulaArg> &args, TegulaLaunchOptions options,
                        int32_t device) {
  options.device = device;
  TegulaKernel *made = nullptr;
  if (tegula_compile(function, args.data(), args.size(), &options, &made) != TEGULA_OK) return "";
  Handle<TegulaKernel> kernel(made);
  TegulaKernelInfo info{};
  info.size = sizeof info;
  return tegula_kernel_info(made, &info) == TEGULA_OK ? info.signature : "";
}

struct Verifier {
  const CommandLine &line;
  TegulaFunction *function;
  int32_t first = 0, second = 0;
  double tolerance = -1;
  size_t verified = 0, skipped = 0, different = 0;
  std::set<std::string> signatures;

  /// One launch. False: the command line is wrong, and `error` has the message.
  bool one(const Config &config, const std::vector<std::string> &argTexts, bool aligned, Fill how,
           const std::string &label, std::string &error) {
    std::vector<std::string> constTexts = line.all("const");
    constTexts.insert(constTexts.end(), config.constants.begin(), config.constants.end());
    TegulaLaunchOptions options;
    Constants constants;
    std::vector<ArgValue> args;
    if (!parseLaunchOptions(line, options, error) || !parseConstants(constTexts, constants, error) ||
        !parseArguments(argTexts, constants, args, error))
      return false;
    api::applyNumbers(config.numbers, options);
    for (size_t i = 0; i < args.size(); ++i) fill(args[i], how, static_cast<unsigned>(17 * i + 1));
    int64_t grid[3] = {1, 1, 1};
    if (!evaluateGrid(line.get("grid"), integersOf(args, constants), grid, error))
      return error = "--grid: " + error, false;
    std::vector<TegulaArg> packed;
    if (!bindParameters(function, args, constants, {}, packed, error)) return false;
    if (!aligned) misalign(packed);
    Descriptors descriptors;
    if (!descriptors.make(function, args, packed, error)) return !aligned; // descriptors are always aligned
    compare(config.text, label, grid, packed, options);
    return true;
  }

private:
  void compare(const std::string &config, const std::string &label, const int64_t grid[3],
               const std::vector<TegulaArg> &args, const TegulaLaunchOptions &options) {
    const std::string head = tegula_function_name(function) + (config.empty() ? "" : " " + config) + ": " + label;
    // The kernel may not accept every number: a first run checks that it stays within its arguments.
    TegulaLaunchOptions checked = options;
    checked.checked = 1, checked.device = TEGULA_DEVICE_INDEX_CPU;
    std::string result;
    // A limit of the target is not a difference: too little shared memory, say.
    if (!launch(grid, args, checked, TEGULA_DEVICE_INDEX_CPU, TEGULA_DEVICE_INDEX_CPU, 0, result) ||
        !launch(grid, args, options, first, second, tolerance, result)) {
      std::string why = tegula_last_error();
      ++skipped;
      std::printf("skip  %s: %s\n", head.c_str(), why.substr(0, why.find('\n')).c_str());
      return;
    }
    const std::string signature = signatureOf(function, args, options, first);
    signatures.insert(config + "|" + signature);
    ++verified;
    const bool same = result == "=" || result == "~";
    different += !same;
    std::printf("%s  %s, %s%s%s\n", same ? "ok  " : "DIFF", head.c_str(), signature.c_str(),
                same ? result == "=" ? " (same bits)" : " (near)" : "\n      ", same ? "" : result.c_str());
  }

  /// tegula_verify(). False: a launch failed, and the last error has the reason.
  bool launch(const int64_t grid[3], const std::vector<TegulaArg> &args, const TegulaLaunchOptions &options,
              int32_t one, int32_t other, double allowed, std::string &result) {
    char *text = nullptr;
    TegulaStatus status = tegula_verify(function, grid, args.data(), args.size(), &options, one, other, allowed, &text);
    std::unique_ptr<char, void (*)(void *)> owner(text, tegula_free);
    result = text ? text : "";
    return status == TEGULA_OK;
  }
};

/// The command line's arguments with all classes of its integers; each integer varied separately if all combinations
/// are too many.
std::vector<std::vector<std::string>> callsOf(const std::vector<std::string> &given) {
  constexpr size_t most = 64;
  std::vector<std::vector<std::string>> calls(1, given);
  for (size_t i = 0; i < given.size(); ++i) {
    const size_t eq = given[i].find('=');
    char *end = nullptr;
    const int64_t value = eq == given[i].npos ? 0 : std::strtoll(given[i].c_str() + eq + 1, &end, 0);
    if (!end || *end || end == given[i].c_str() + eq + 1) continue;
    std::vector<std::vector<std::string>> next = calls;
    for (int64_t variant : variantsOf(value)) {
      if (variant == value) continue;
      size_t bases = calls.size() * 4 <= most ? calls.size() : 1;
      for (size_t k = 0; k < bases; ++k) {
        next.push_back(calls[k]);
        next.back()[i] = given[i].substr(0, eq + 1) + std::to_string(variant);
      }
    }
    calls = std::move(next);
  }
  return calls;
}

} // namespace

int verifyCommand(const std::vector<std::string> &argv) {
  CommandLine line;
  std::string error;
  const std::vector<OptionSpec> known = specs();
  if (!parseCommandLine(known, argv, line, error) || line.positional.size() != 1 || !line.has("grid")) {
    if (error.empty()) error = line.positional.size() != 1 ? "verify takes one FILE.py::KERNEL" : "verify needs --grid";
    return misuse(argv, error, "tegula verify FILE.py::KERNEL --grid EXPRS [options]\n" + describeOptions(known));
  }
  std::vector<Config> configs;
  if (!configsOf(line, configs, error)) return usage(error);
  auto ref = openKernel(line.positional[0]);
  if (!ref) return UserError;
  TegulaContext *context = ref->context.get();
  Verifier v{line, ref->function.get()};
  int32_t gpu;
  std::vector<std::string> devices =
      line.has("devices")
          ? splitList(line.get("devices"))
          : std::vector<std::string>{"cpu", tegula_device_find(context, "cuda", &gpu) == TEGULA_OK ? "cuda" : "sim"};
  if (devices.size() != 2) return usage("--devices takes two, found `" + line.get("devices") + "`");
  if (tegula_device_find(context, devices[0].c_str(), &v.first) != TEGULA_OK ||
      tegula_device_find(context, devices[1].c_str(), &v.second) != TEGULA_OK)
    return failLast();
  if (line.has("tolerance") && (!parseNumber(line.get("tolerance"), v.tolerance) || v.tolerance < 0))
    return usage("--tolerance takes a number that is not negative, found `" + line.get("tolerance") + "`");
  TegulaLaunchOptions options;
  if (!parseLaunchOptions(line, options, error)) return usage(error);
  handleSignals(context, options);
  const std::vector<std::vector<std::string>> calls =
      line.has("given-only") ? std::vector(1, line.all("arg")) : callsOf(line.all("arg"));
  for (const Config &config : configs)
    for (const std::vector<std::string> &call : calls)
      for (bool aligned : {true, false}) {
        if (!aligned && line.has("given-only")) continue;
        for (Fill how : {Fill::Given, Fill::Random, Fill::Adversarial}) {
          std::string label;
          for (const std::string &a : call)
            if (a.find(':') == a.npos && a.find('@') == a.npos) label += a + " ";
          label += std::string(aligned ? "" : "unaligned ") + fillNames[static_cast<int>(how)];
          if (!v.one(config, call, aligned, how, label, error)) return fail(error);
        }
      }
  std::printf("%zu launches of %zu classes on %s and %s: %zu differ, %zu skipped\n", v.verified, v.signatures.size(),
              devices[0].c_str(), devices[1].c_str(), v.different, v.skipped);
  if (!v.verified) return fail("nothing was verified");
  return v.different ? UserError : Ok;
}

} // namespace tegula::cli
