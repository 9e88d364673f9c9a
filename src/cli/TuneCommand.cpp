// tegula tune: the fastest configuration of a kernel on this machine; files of results.
#include "cli/Launching.h"
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <tuple>

namespace tegula::cli {
namespace {

using Json = nlohmann::json;

std::vector<OptionSpec> specs() {
  std::vector<OptionSpec> out = {
      {0, "grid", "EXPRS", "1 to 3 expressions over integer arguments, constants and what is tuned: 'cdiv(n, BLOCK), 4'"},
      {'a', "arg", "NAME=VALUE", "argument, as for tegula run", true},
      {'c', "const", "NAME=VALUE", "compile-time constant that is not tuned", true},
      {'t', "try", "NAME=VALUES", "values of a constant, or of num_warps, num_stages, num_ctas, maxnreg: 16,32,64 or powers(16, 256) or range(1, 5)", true},
      {0, "where", "EXPR", "only configurations for which this holds: 'BLOCK_M * BLOCK_N <= 16384'", true},
      {'d', "device", "NAME", "cpu, cuda, cuda:1, sim, sim:sm_80 ... (default: TEGULA_DEVICE, else a GPU if there is one, else cpu)"},
      {0, "top", "N", "time only the N that the cost model likes best"},
      {0, "budget-ms", "N", "time no further configuration after so long"},
      {0, "deterministic", "", "the cost model chooses, nothing runs"},
      {0, "no-validate", "", "use configurations whose results differ from those of most others, too"},
      {0, "no-persist", "", "neither take results from files nor keep them"},
      {0, "save-project", "", "add the results to the project's file, tegula.tune.json"},
      {0, "explain", "", "what the cost model says of the chosen configuration"},
      {0, "json", "", "all that was found as JSON on standard output"},
      {0, "show", "FILE", "print a file of results, and do nothing else"},
      {0, "merge", "FILE", "join files of results into the one of --output, and do nothing else", true},
      {'o', "output", "FILE", "where --merge writes"},
  };
  out.insert(out.end(), launchOptionSpecs.begin(), launchOptionSpecs.end());
  return out;
}

/// What -t names: its values, and whether it is an option of the launch instead of a parameter.
struct Axis {
  std::string name;
  bool isOption = false;
  std::vector<Handle<TegulaValue>> values;
};

/// A number of launches that configurations set.
struct LaunchNumber {
  const char *name;
  int32_t TegulaConfig::*config;
  int32_t TegulaLaunchOptions::*option;
};
constexpr LaunchNumber launchNumbers[] = {{"num_warps", &TegulaConfig::num_warps, &TegulaLaunchOptions::num_warps},
                                          {"num_stages", &TegulaConfig::num_stages, &TegulaLaunchOptions::num_stages},
                                          {"num_ctas", &TegulaConfig::num_ctas, &TegulaLaunchOptions::num_ctas},
                                          {"maxnreg", &TegulaConfig::maxnreg, &TegulaLaunchOptions::maxnreg}};

/// Null: it is none.
const LaunchNumber *launchNumber(std::string_view name) {
  for (const LaunchNumber &n : launchNumbers)
    if (name == n.name) return &n;
  return nullptr;
}

bool isParameter(TegulaFunction *f, const std::string &name) {
  for (size_t i = 0; i < tegula_function_param_count(f); ++i) {
    TegulaParam p{};
    if (tegula_function_param(f, i, &p) == TEGULA_OK && name == p.name) return true;
  }
  return false;
}

/// "powers(16, 256)" and "range(1, 5)" as numbers; nullopt: it is neither.
std::optional<std::vector<int64_t>> series(const std::string &text, std::string &error) {
  size_t open = text.find('(');
  if (open == std::string::npos || text.back() != ')') return std::nullopt;
  std::string kind = text.substr(0, open);
  if (kind != "powers" && kind != "range") return std::nullopt;
  std::vector<int64_t> bounds, out;
  NameLookup none = [](std::string_view) { return std::nullopt; };
  for (const std::string &item : splitList(std::string_view(text).substr(open + 1, text.size() - open - 2))) {
    std::optional<int64_t> v = evaluate(item, none, error);
    if (!v) return out;
    bounds.push_back(*v);
  }
  bool powers = kind == "powers";
  if (bounds.size() < 2 || bounds.size() > (powers ? 2u : 3u)) return error = "powers takes (first, last), range (first, end) or (first, end, step)", out;
  int64_t step = bounds.size() == 3 ? bounds[2] : 1;
  if (powers ? bounds[0] < 1 : step < 1) return error = "`" + text + "` has no end", out;
  for (int64_t v = bounds[0]; powers ? v <= bounds[1] : v < bounds[1]; v = powers ? v * 2 : v + step) {
    if (out.size() == 4096) return error = "`" + text + "` has more than 4096 values", out;
    out.push_back(v);
  }
  return out;
}

bool parseAxis(TegulaFunction *f, const std::string &item, Axis &out, std::string &error) {
  size_t eq = item.find('=');
  if (eq == 0 || eq == std::string::npos || eq + 1 == item.size()) return error = "-t " + item + ": write NAME=VALUES", false;
  out.name = item.substr(0, eq);
  out.isOption = launchNumber(out.name) && !isParameter(f, out.name);
  if (!out.isOption && !isParameter(f, out.name)) return error = std::string("-t ") + out.name + ": `" + tegula_function_name(f) + "` has no parameter of that name", false;
  for (const std::string &text : splitList(std::string_view(item).substr(eq + 1))) {
    std::optional<std::vector<int64_t>> numbers = series(text, error);
    if (!error.empty()) return error = "-t " + item + ": " + error, false;
    if (numbers)
      for (int64_t n : *numbers) out.values.emplace_back(tegula_value_int(n));
    else if (TegulaValue *v = tegula_value_parse(text.c_str())) out.values.emplace_back(v);
    else return error = "-t " + item + ": " + tegula_last_error(), false;
  }
  if (out.values.empty()) return error = "-t " + item + ": there are no values", false;
  for (const Handle<TegulaValue> &v : out.values)
    if (int64_t n; out.isOption && (tegula_value_as_int(v.get(), &n) != TEGULA_OK || n < 1 || n > 1 << 20)) return error = "-t " + item + ": `" + out.name + "` takes positive numbers", false;
  return true;
}

/// One configuration: an index into each axis.
struct Point {
  std::vector<size_t> at;
  std::vector<TegulaNamedValue> values;
  TegulaConfig config{};
};

std::optional<int64_t> numberAt(const std::vector<Axis> &axes, const Point &p, std::string_view name) {
  for (size_t a = 0; a < axes.size(); ++a)
    if (int64_t n; name == axes[a].name && tegula_value_as_int(axes[a].values[p.at[a]].get(), &n) == TEGULA_OK) return n;
  return std::nullopt;
}

/// All combinations that --where leaves. False with a message.
bool combine(const std::vector<Axis> &axes, const std::vector<std::string> &where, const NameLookup &others, std::deque<Point> &out, std::string &error) {
  std::vector<size_t> at(axes.size(), 0);
  for (bool more = true; more;) {
    Point p;
    p.at = at;
    bool holds = true;
    NameLookup names = [&](std::string_view n) { auto v = numberAt(axes, p, n); return v ? v : others(n); };
    for (const std::string &w : where) {
      std::optional<int64_t> v = evaluate(w, names, error);
      if (!v) return error = "--where: " + error, false;
      holds = holds && *v != 0;
    }
    if (holds) out.push_back(std::move(p));
    if (out.size() > 100000) return error = "there are more than 100000 configurations", false;
    more = false;
    for (size_t a = axes.size(); a-- > 0 && !more;) {
      more = ++at[a] < axes[a].values.size();
      if (!more) at[a] = 0;
    }
  }
  if (out.empty()) return error = "--where leaves no configuration", false;
  for (Point &p : out) {
    p.config.size = sizeof p.config;
    for (size_t a = 0; a < axes.size(); ++a) {
      TegulaValue *v = axes[a].values[p.at[a]].get();
      if (!axes[a].isOption) p.values.push_back({axes[a].name.c_str(), v});
      else p.config.*launchNumber(axes[a].name)->config = static_cast<int32_t>(*numberAt(axes, p, axes[a].name));
    }
    p.config.values = p.values.data();
    p.config.value_count = p.values.size();
  }
  return true;
}

/// What the grid is computed from.
struct Grids {
  std::string text;
  NameLookup names;
  std::string error;
  static int32_t of(void *user, const TegulaConfig *config, int64_t grid[3]) {
    auto &g = *static_cast<Grids *>(user);
    NameLookup names = [&](std::string_view name) -> std::optional<int64_t> {
      for (size_t i = 0; i < config->value_count; ++i)
        if (int64_t v; name == config->values[i].name && tegula_value_as_int(config->values[i].value, &v) == TEGULA_OK) return v;
      if (const LaunchNumber *n = launchNumber(name); n && config->*n->config) return config->*n->config;
      return g.names(name);
    };
    return readGrid(g.text, names, grid, g.error) ? 0 : 1;
  }
};

void printTable(const Json &report) {
  struct Row {
    double ns;
    std::string text;
  };
  std::vector<Row> rows;
  double best = 0;
  for (const Json &c : report["configs"])
    if (c["state"] == "ok" && (best == 0 || c["median_ns"] < best)) best = c["median_ns"];
  char text[160];
  for (const Json &c : report["configs"]) {
    std::string name = c["config"];
    double estimate = c.value("estimate_ns", 0.0);
    std::string model;
    if (estimate > 0) std::snprintf(text, sizeof text, "%10.2f", estimate / 1e3), model = text;
    else model = std::string(9, ' ') + "-";
    if (c["state"] == "ok") {
      double ns = c["median_ns"];
      std::snprintf(text, sizeof text, "%10.2f  %5.2f ", ns / 1e3, ns / best);
      rows.push_back({ns, text + model + "  " + name});
    } else {
      std::string why = c.value("reason", "");
      std::snprintf(text, sizeof text, "%10s  %5s ", "-", "-");
      rows.push_back({c["state"] == "untried" ? 1e30 : 1e31, text + model + "  " + name + "  " + std::string(c["state"]) + (why.empty() ? "" : ": " + why.substr(0, why.find('\n')))});
    }
  }
  std::sort(rows.begin(), rows.end(), [](const Row &a, const Row &b) { return std::tie(a.ns, a.text) < std::tie(b.ns, b.text); });
  std::printf("%10s  %5s %10s  configuration\n", "us", "x", "model us");
  for (const Row &r : rows) std::printf("%s\n", r.text.c_str());
}

int showFile(const std::string &path) {
  char *text = nullptr;
  if (tegula_results_show(path.c_str(), &text) != TEGULA_OK) return failLast();
  std::fputs(text, stdout);
  tegula_free(text);
  return Ok;
}

int mergeFiles(const CommandLine &line) {
  std::vector<const char *> paths;
  for (const std::string &p : line.all("merge")) paths.push_back(p.c_str());
  for (const std::string &p : line.positional) paths.push_back(p.c_str());
  return tegula_results_merge(paths.data(), paths.size(), line.get("output").c_str()) == TEGULA_OK ? Ok : failLast();
}

bool readNumber(const CommandLine &line, const char *name, double &out, std::string &error) {
  if (!line.has(name)) return true;
  std::string text = line.get(name);
  char *end;
  out = std::strtod(text.c_str(), &end);
  if (!text.empty() && !*end && out > 0 && out < 1e9) return true;
  return error = std::string("--") + name + " takes a positive number, found `" + text + "`", false;
}

/// What the model says of one configuration; text for people.
int explain(TegulaFunction *f, const Point &p, Grids &grids, const std::vector<TegulaArg> &packed, TegulaLaunchOptions options) {
  std::vector<TegulaArg> args = packed;
  for (const TegulaNamedValue &v : p.values)
    for (size_t i = 0; i < args.size(); ++i) {
      TegulaParam param{};
      if (tegula_function_param(f, i, &param) == TEGULA_OK && std::strcmp(param.name, v.name) == 0) args[i] = tegula_constant(v.value);
    }
  for (const LaunchNumber &n : launchNumbers)
    if (p.config.*n.config) options.*n.option = p.config.*n.config;
  TegulaKernel *k = nullptr;
  int64_t grid[3] = {1, 1, 1};
  if (Grids::of(&grids, &p.config, grid)) return fail("--grid: " + grids.error);
  if (tegula_compile(f, args.data(), args.size(), &options, &k) != TEGULA_OK) return failLast();
  Handle<TegulaKernel> owner(k);
  double ns;
  const char *why;
  if (tegula_kernel_estimate(k, grid, args.data(), args.size(), &options, &ns, &why) != TEGULA_OK) return failLast();
  std::printf("the model: %.2f us; %s\n", ns / 1e3, why);
  return Ok;
}

} // namespace

int tuneCommand(const std::vector<std::string> &argv) {
  CommandLine line;
  std::string error;
  auto options = specs();
  const std::string syntax = "tegula tune FILE.py::KERNEL --grid EXPRS -t NAME=VALUES ... [options]\ntegula tune --show FILE\ntegula tune --merge FILE --merge FILE ... -o FILE\n" + describeOptions(options);
  if (!parseCommandLine(options, argv, line, error)) return misuse(argv, error, syntax);
  if (line.has("show")) return showFile(line.get("show"));
  if (line.has("merge")) return line.has("output") ? mergeFiles(line) : misuse(argv, "--merge needs -o FILE", syntax);
  if (line.positional.size() != 1 || !line.has("grid") || !line.has("try"))
    return misuse(argv, line.positional.size() != 1 ? "tune takes one FILE.py::KERNEL" : line.has("grid") ? "tune needs -t NAME=VALUES" : "tune needs --grid", syntax);
  Constants constants;
  std::vector<ArgValue> args;
  TegulaLaunchOptions launch;
  TegulaTunerOptions how = TEGULA_TUNER_OPTIONS_INIT;
  double top = 0;
  if (!parseLaunchOptions(line, launch, error) || !readNumber(line, "top", top, error) || !readNumber(line, "budget-ms", how.budget_ms, error)) return usage(error);
  how.top_k = static_cast<uint32_t>(top);
  if (line.has("deterministic")) how.deterministic = 1;
  if (line.has("no-validate")) how.validate = 0;
  if (line.has("no-persist")) how.persist = 0;
  if (!parseConstants(line.all("const"), constants, error) || !parseArguments(line.all("arg"), constants, args, error)) return fail(error);
  auto ref = openKernel(line.positional[0]);
  if (!ref) return UserError;
  TegulaFunction *f = ref->function.get();
  if (!chooseDevice(line, ref->context.get(), launch)) return failLast();
  std::vector<Axis> axes;
  std::vector<std::string> tuned;
  for (const std::string &item : line.all("try")) {
    if (!parseAxis(f, item, axes.emplace_back(), error)) return fail(error);
    tuned.push_back(axes.back().name);
  }
  Grids grids{line.get("grid"), integersOf(args, constants), ""};
  std::deque<Point> points;
  if (!combine(axes, line.all("where"), grids.names, points, error)) return fail(error);
  std::vector<TegulaArg> packed;
  if (!bindParameters(f, args, constants, tuned, packed, error)) return fail(error);
  DeviceBuffers buffers(ref->context.get(), launch.device);
  if (!buffers.move(args, packed)) return failLast();
  Descriptors descriptors;
  if (!descriptors.make(f, args, packed, error)) return fail(error);
  std::vector<TegulaConfig> configs;
  for (const Point &p : points) configs.push_back(p.config);
  TegulaTuner *made = nullptr;
  if (tegula_tuner_create(f, configs.data(), configs.size(), &how, &made) != TEGULA_OK) return failLast();
  Handle<TegulaTuner> tuner(made);
  cancelOnInterrupt(ref->context.get());
  size_t chosen = 0;
  TegulaStatus status = tegula_tuner_choose(tuner.get(), Grids::of, &grids, packed.data(), packed.size(), &launch, &chosen);
  if (status == TEGULA_CANCELLED) return fail("interrupted"), 130;
  if (status != TEGULA_OK) return grids.error.empty() ? failLast() : fail("--grid: " + grids.error);
  std::string text = tegula_tuner_report_json(tuner.get());
  Json report = Json::parse(text, nullptr, false);
  if (line.has("save-project") && tegula_tuner_write_project(tuner.get(), nullptr) != TEGULA_OK) return failLast();
  if (line.has("json")) {
    std::printf("%s\n", text.c_str());
  } else {
    printTable(report);
    std::printf("best: %s (%s, %zu configurations, %.2f s)\n", tegula_tuner_config_name(tuner.get(), chosen), report["by"].get<std::string>().c_str(), points.size(), report["seconds"].get<double>());
  }
  return line.has("explain") ? explain(f, points[chosen], grids, packed, launch) : Ok;
}

} // namespace tegula::cli
