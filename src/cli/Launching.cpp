#include "cli/Launching.h"
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <unistd.h>

namespace tegula::cli {

namespace {
TegulaContext *interrupted;
void onInterrupt(int) {
  if (interrupted) tegula_cancel(interrupted);
}

// Only writes, and restores the signal's default: the access is repeated, and the process ends as it would have.
template <bool checked> void onCrash(int) {
  static constexpr char unchecked[] =
      "tegula: segmentation fault: most likely the kernel accesses memory outside of its buffers; --check says where\n";
  static constexpr char inChecks[] =
      "tegula: segmentation fault, although every access is checked: this is a mistake in tegula\n";
  if (checked) (void)!write(STDERR_FILENO, inChecks, sizeof inChecks - 1);
  else (void)!write(STDERR_FILENO, unchecked, sizeof unchecked - 1);
}
} // namespace

void handleSignals(TegulaContext *context, const TegulaLaunchOptions &options) {
  interrupted = context;
  std::signal(SIGINT, onInterrupt);
  struct sigaction crash = {};
  crash.sa_handler = options.checked > 0 ? onCrash<true> : onCrash<false>;
  crash.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGSEGV, &crash, nullptr);
}

bool chooseDevice(const CommandLine &line, TegulaContext *context, TegulaLaunchOptions &options) {
  if (line.has("device")) return tegula_device_find(context, line.get("device").c_str(), &options.device) == TEGULA_OK;
  // A name without a device is an error here; tegula_device_default() has to ignore it.
  const char *named = std::getenv("TEGULA_DEVICE");
  if (named && *named && tegula_device_find(context, named, &options.device) != TEGULA_OK)
    return tegula_fail(tegula_last_status(), ("TEGULA_DEVICE: " + std::string(tegula_last_error())).c_str()), false;
  options.device = tegula_device_default(context);
  return true;
}

NameLookup integersOf(const std::vector<ArgValue> &args, const Constants &constants) {
  return [&](std::string_view name) -> std::optional<int64_t> {
    for (auto &a : args)
      if (a.name == name) return a.integer;
    return constants.integer(name);
  };
}

bool Descriptors::make(TegulaFunction *function, const std::vector<ArgValue> &args, std::vector<TegulaArg> &packed,
                       std::string &error) {
  for (size_t i = 0; i < packed.size(); ++i) {
    TegulaParam p{};
    tegula_function_param(function, i, &p);
    for (const ArgValue &a : args)
      if (a.name == p.name && !a.block.empty() && !wrap(a, packed[i]))
        return error = "`-a " + a.name + "`: " + tegula_last_error(), false;
  }
  return true;
}

bool Descriptors::wrap(const ArgValue &a, TegulaArg &arg) {
  std::vector<int64_t> shape(a.array.shape.begin(), a.array.shape.end()), strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  // A rank of 0 is rejected, and so are ranks that differ.
  size_t rank = shape.size() == a.block.size() ? shape.size() : 0;
  return tegula_tensor_descriptor(&storage_.emplace_back(), arg, rank, shape.data(), strides.data(), a.block.data(),
                                  (a.nanPadding ? TEGULA_PADDING_NAN : TEGULA_PADDING_ZERO) |
                                      (a.roundTf32 ? TEGULA_ROUND_TF32 : 0),
                                  &arg) == TEGULA_OK;
}

bool bindParameters(TegulaFunction *function, const std::vector<ArgValue> &args, const Constants &constants,
                    const std::vector<std::string> &later, std::vector<TegulaArg> &out, std::string &error) {
  const std::string kernel = std::string("`") + tegula_function_name(function) + "`";
  std::vector<TegulaParam> params(tegula_function_param_count(function));
  for (size_t i = 0; i < params.size(); ++i) tegula_function_param(function, i, &params[i]);
  auto isParam = [&](const std::string &name) {
    return std::any_of(params.begin(), params.end(), [&](const TegulaParam &p) { return name == p.name; });
  };
  // Before missing parameters are reported: a misspelled name causes both errors.
  for (const ArgValue &a : args)
    if (!isParam(a.name)) return error = kernel + " has no parameter `" + a.name + "`", false;
  for (const std::string &name : constants.names)
    if (!isParam(name)) return error = kernel + " has no parameter `" + name + "`", false;
  for (const TegulaParam &p : params) {
    TegulaArg arg{};
    for (const ArgValue &a : args)
      if (a.name == p.name)
        arg = a.isBuffer ? tegula_ptr(a.memory.get(), a.dtype, static_cast<int64_t>(a.bytes)) : a.scalar;
    if (TegulaValue *value = constants.find(p.name)) {
      if (arg.kind != TEGULA_ARG_MISSING)
        return error = std::string("`") + p.name + "` is given with -a and with -c", false;
      arg = tegula_constant(value);
    }
    const bool isLater = std::find(later.begin(), later.end(), p.name) != later.end();
    if (arg.kind == TEGULA_ARG_MISSING && !p.default_value && !isLater)
      return error = std::string("parameter `") + p.name + "` of " + kernel + " is not given; use " +
                     (p.flags & TEGULA_PARAM_CONSTEXPR ? "-c " : "-a ") + p.name + "=...",
             false;
    out.push_back(arg);
  }
  return true;
}

} // namespace tegula::cli
