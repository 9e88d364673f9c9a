#include "cli/Launching.h"
#include <algorithm>
#include <csignal>

namespace tegula::cli {

static TegulaContext *interrupted;
static void onInterrupt(int) {
  if (interrupted) tegula_cancel(interrupted);
}

void cancelOnInterrupt(TegulaContext *context) {
  interrupted = context;
  std::signal(SIGINT, onInterrupt);
}

bool chooseDevice(const CommandLine &line, TegulaContext *context, TegulaLaunchOptions &options) {
  if (line.has("device")) return tegula_device_find(context, line.get("device").c_str(), &options.device) == TEGULA_OK;
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

bool Descriptors::make(TegulaFunction *function, const std::vector<ArgValue> &args, std::vector<TegulaArg> &packed, std::string &error) {
  for (size_t i = 0; i < packed.size(); ++i) {
    TegulaParam p{};
    tegula_function_param(function, i, &p);
    for (const ArgValue &a : args)
      if (a.name == p.name && !a.block.empty() && !wrap(a, packed[i])) return error = "`-a " + a.name + "`: " + tegula_last_error(), false;
  }
  return true;
}

bool Descriptors::wrap(const ArgValue &a, TegulaArg &arg) {
  std::vector<int64_t> shape(a.array.shape.begin(), a.array.shape.end()), strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  // A rank of 0 is refused, and so are ranks that differ.
  size_t rank = shape.size() == a.block.size() ? shape.size() : 0;
  return tegula_tensor_descriptor(&storage_.emplace_back(), arg, rank, shape.data(), strides.data(), a.block.data(),
                                  (a.nanPadding ? TEGULA_PADDING_NAN : TEGULA_PADDING_ZERO) | (a.roundTf32 ? TEGULA_ROUND_TF32 : 0), &arg) == TEGULA_OK;
}

bool bindParameters(TegulaFunction *function, const std::vector<ArgValue> &args, const Constants &constants, const std::vector<std::string> &later,
                    std::vector<TegulaArg> &out, std::string &error) {
  std::vector<bool> used(args.size());
  std::vector<bool> constUsed(constants.names.size());
  size_t count = tegula_function_param_count(function);
  for (size_t i = 0; i < count; ++i) {
    TegulaParam p{};
    tegula_function_param(function, i, &p);
    TegulaArg arg{};
    for (size_t k = 0; k < args.size(); ++k) {
      if (args[k].name != p.name) continue;
      used[k] = true;
      arg = args[k].isBuffer ? tegula_ptr(args[k].memory.get(), args[k].dtype, static_cast<int64_t>(args[k].bytes)) : args[k].scalar;
    }
    for (size_t k = 0; k < constants.names.size(); ++k) {
      if (constants.names[k] != p.name) continue;
      if (arg.kind != TEGULA_ARG_MISSING) {
        error = "`" + constants.names[k] + "` is given with -a and with -c";
        return false;
      }
      constUsed[k] = true;
      arg = tegula_constant(constants.values[k].get());
    }
    bool isLater = std::find(later.begin(), later.end(), p.name) != later.end();
    if (arg.kind == TEGULA_ARG_MISSING && !p.default_value && !isLater) {
      error = std::string("parameter `") + p.name + "` of `" + tegula_function_name(function) + "` is not given; use " +
              (p.flags & TEGULA_PARAM_CONSTEXPR ? "-c " : "-a ") + p.name + "=...";
      return false;
    }
    out.push_back(arg);
  }
  for (size_t k = 0; k < args.size(); ++k)
    if (!used[k]) return error = std::string("`") + tegula_function_name(function) + "` has no parameter `" + args[k].name + "`", false;
  for (size_t k = 0; k < constants.names.size(); ++k)
    if (!constUsed[k]) return error = std::string("`") + tegula_function_name(function) + "` has no parameter `" + constants.names[k] + "`", false;
  return true;
}

} // namespace tegula::cli
