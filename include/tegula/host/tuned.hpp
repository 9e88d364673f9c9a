// Kernels whose configuration is measured. Included by tegula/tegula.hpp.
#pragma once
#include "tegula/host/kernel.hpp"
#include <functional>

namespace tegula {
inline namespace v0 {
/// One configuration of a kernel: values for constexpr parameters, options of its launches (0: what the launch says).
struct Config {
  std::vector<std::pair<std::string, Value>> values;
  int32_t numWarps = 0, numStages = 0, numCtas = 0, maxnreg = 0;
  Function function{}; // launched in its place, with the same parameters (kernels in C++); empty: the tuner's
};

/// The configuration that a grid is computed for.
class ConfigView {
public:
  explicit ConfigView(const TegulaConfig &c) : c_(c) {}
  /// The integer value of a parameter, 0 if the configuration has none of that name.
  int64_t operator[](std::string_view name) const {
    int64_t v = 0;
    for (size_t i = 0; i < c_.value_count; ++i)
      if (name == c_.values[i].name) (void)tegula_value_as_int(c_.values[i].value, &v);
    return v;
  }
  const TegulaConfig &raw() const { return c_; }

private:
  const TegulaConfig &c_;
};

/// Values of one parameter or option of launches in a Space: "16, 32", "powers(16, 256)", "range(2, 5)" (TegulaAxis).
struct Axis {
  std::string name, values;
};

/// A product of values, and which of the configurations count (all, if `where` is empty).
///   tegula::Space{{{"BM", "powers(32, 256)"}, {"num_warps", "4, 8"}}, [](tegula::ConfigView c) { return c["BM"] * c.raw().num_warps <= 1024; }}
struct Space {
  std::vector<Axis> axes;
  std::function<bool(ConfigView)> where;
};

/// Options of a tuner with their defaults; set the fields you need.
struct TunerOptions : TegulaTunerOptions {
  TunerOptions() : TegulaTunerOptions(TEGULA_TUNER_OPTIONS_INIT) {}
};

/// A kernel whose configuration is measured at the first launch with arguments of a new kind (tegula_tuner_launch). `key`: parameters for whose
/// values a choice is good; empty: all numbers.
///   auto grid = [&](tegula::ConfigView c) { return tegula::Grid((n + c["BLOCK"] - 1) / c["BLOCK"]); };
///   tegula::Status s = tuned(grid, {x, y, out, n});
class Autotuned : public detail::Handle<TegulaTuner, tegula_tuner_retain, tegula_tuner_release> {
public:
  using Handle::Handle;
  static Result<Autotuned> create(const Function &function, std::span<const Config> configs, const std::vector<std::string> &key = {},
                                  TunerOptions options = {}) {
    std::vector<std::vector<TegulaNamedValue>> values;
    std::vector<TegulaConfig> raw;
    for (const Config &c : configs) {
      std::vector<TegulaNamedValue> &list = values.emplace_back();
      for (auto &[name, value] : c.values) list.push_back({name.c_str(), value.get()});
      raw.push_back({sizeof(TegulaConfig), list.data(), list.size(), c.numWarps, c.numStages, c.numCtas, c.maxnreg, c.function.get()});
    }
    std::vector<const char *> names;
    for (const std::string &k : key) names.push_back(k.c_str());
    if (!key.empty()) options.key = names.data(), options.key_count = names.size();
    TegulaTuner *t = nullptr;
    if (Status s = Status::from(tegula_tuner_create(function.get(), raw.data(), raw.size(), &options, &t)); !s) return s;
    return Autotuned(t);
  }
  /// The configurations of a space; more than 32 are searched (tegula_tuner_create_space).
  static Result<Autotuned> search(const Function &function, const Space &space, const std::vector<std::string> &key = {}, TunerOptions options = {}) {
    std::vector<TegulaAxis> axes;
    for (const Axis &a : space.axes) axes.push_back({a.name.c_str(), a.values.c_str(), nullptr, 0});
    TegulaSpace raw{sizeof raw, axes.data(), axes.size(), nullptr, nullptr};
    auto where = [](void *user, const TegulaConfig *config) -> int32_t { return (*static_cast<const std::function<bool(ConfigView)> *>(user))(ConfigView(*config)); };
    if (space.where) raw.where = where, raw.user = const_cast<std::function<bool(ConfigView)> *>(&space.where);
    return fromSpace(function, &raw, key, options);
  }
  /// For a kernel whose constexpr parameters the launches leave out: they are proposed from what the kernel does, the shapes and the device (tegula_propose).
  static Result<Autotuned> automatic(const Function &function, const std::vector<std::string> &key = {}, TunerOptions options = {}) {
    return fromSpace(function, nullptr, key, options);
  }
  /// `grid`: from a ConfigView to a Grid.
  template <std::invocable<ConfigView> GridFn>
  Status operator()(GridFn &&grid, std::span<const Arg> args, const LaunchOptions &options = {}) const {
    return Status::from(tegula_tuner_launch(get(), call<GridFn>, const_cast<void *>(static_cast<const void *>(std::addressof(grid))), Kernel::raw(args), args.size(), &options, nullptr));
  }
  template <std::invocable<ConfigView> GridFn>
  Status operator()(GridFn &&grid, std::initializer_list<Arg> args, const LaunchOptions &options = {}) const {
    return (*this)(std::forward<GridFn>(grid), std::span(args.begin(), args.size()), options);
  }
  /// Index of the configuration for these arguments; tunes if need be, launches nothing.
  template <std::invocable<ConfigView> GridFn>
  Result<size_t> choose(GridFn &&grid, std::span<const Arg> args, const LaunchOptions &options = {}) const {
    size_t i = 0;
    if (Status s = Status::from(tegula_tuner_choose(get(), call<GridFn>, const_cast<void *>(static_cast<const void *>(std::addressof(grid))), Kernel::raw(args), args.size(), &options, &i)); !s) return s;
    return i;
  }
  /// What the tuning found for the last launch of this thread (tegula_tuner_report_json).
  std::string report() const { return tegula_tuner_report_json(get()); }
  std::string configName(size_t i) const {
    const char *name = tegula_tuner_config_name(get(), i);
    return name ? name : "";
  }

private:
  static Result<Autotuned> fromSpace(const Function &function, const TegulaSpace *space, const std::vector<std::string> &key, TunerOptions options) {
    std::vector<const char *> names;
    for (const std::string &k : key) names.push_back(k.c_str());
    if (!key.empty()) options.key = names.data(), options.key_count = names.size();
    TegulaTuner *t = nullptr;
    if (Status s = Status::from(tegula_tuner_create_space(function.get(), space, &options, &t)); !s) return s;
    return Autotuned(t);
  }
  template <typename GridFn> static int32_t call(void *user, const TegulaConfig *config, int64_t grid[3]) {
    Grid g = (*static_cast<std::remove_reference_t<GridFn> *>(user))(ConfigView(*config));
    for (int i = 0; i < 3; ++i) grid[i] = g.n[i];
    return 0;
  }
};

} // inline namespace v0
} // namespace tegula
