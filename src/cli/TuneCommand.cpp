// tegula tune: the fastest configuration of a kernel on this machine; files of results.
#include "api/ConfigNumbers.h"
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
      {0, "auto", "", "propose the constants that are not given, num_warps and num_stages, from what the kernel does, the shapes and the device"},
      {0, "all", "", "time all configurations: more than 32 are searched otherwise"},
      {'d', "device", "NAME", "cpu, cuda, cuda:1, sim, sim:sm_80 ... (default: TEGULA_DEVICE, else a GPU if there is one, else cpu)"},
      {0, "top", "N", "time only the N that the cost model likes best"},
      {0, "budget-ms", "N", "time no further configuration after so long; of a search, the time for all of it"},
      {0, "deterministic", "", "the cost model chooses, nothing runs"},
      {0, "cuda-graph", "", "time rows of launches in CUDA graphs, with warm caches"},
      {0, "no-validate", "", "use configurations whose results differ from those of most others, too"},
      {0, "no-persist", "", "neither take results from files nor keep them"},
      {0, "save-project", "", "add the results to the project's file, tegula.tune.json"},
      {0, "explain", "", "where the configurations came from, and what the cost model says of the chosen one"},
      {0, "json", "", "all that was found as JSON on standard output"},
      {0, "show", "FILE", "print a file of results, and do nothing else"},
      {0, "merge", "FILE", "join files of results into the one of --output, and do nothing else", true},
      {0, "forget", "", "forget what the user's files know of the kernel, and do nothing else; with --config, of those configurations"},
      {0, "config", "TEXT", "a configuration as tables show it, for --forget: 'BLOCK: 64, num_warps: 4'", true},
      {'o', "output", "FILE", "where --merge writes"},
  };
  out.insert(out.end(), launchOptionSpecs.begin(), launchOptionSpecs.end());
  return out;
}

/// Integers of a configuration, and otherwise those of `others`.
NameLookup numbersOf(const TegulaConfig &config, const NameLookup &others) {
  return [&](std::string_view name) -> std::optional<int64_t> {
    for (size_t i = 0; i < config.value_count; ++i)
      if (int64_t v; name == config.values[i].name && tegula_value_as_int(config.values[i].value, &v) == TEGULA_OK)
        return v;
    if (const api::ConfigNumber *n = api::configNumber(name); n && config.*n->config) return config.*n->config;
    return others(name);
  };
}

/// The inputs of the grid.
struct Grids {
  std::string text;
  NameLookup names;
  std::string error;
  static int32_t of(void *user, const TegulaConfig *config, int64_t grid[3]) {
    auto &g = *static_cast<Grids *>(user);
    return evaluateGrid(g.text, numbersOf(*config, g.names), grid, g.error) ? 0 : 1;
  }
};

/// --where: all of the expressions must hold.
struct Constraint {
  std::vector<std::string> texts;
  NameLookup names;
  static int32_t of(void *user, const TegulaConfig *config) {
    auto &c = *static_cast<Constraint *>(user);
    std::string error;
    bool holds = true;
    for (const std::string &text : c.texts) {
      std::optional<int64_t> v = evaluate(text, numbersOf(*config, c.names), error);
      if (!v) return tegula_fail(TEGULA_INVALID_ARGUMENT, ("--where: " + error).c_str()), -1;
      holds = holds && *v != 0;
    }
    return holds;
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
      rows.push_back(
          {c["state"] == "untried" ? 1e30 : 1e31, text + model + "  " + name + "  " + std::string(c["state"]) +
                                                      (why.empty() ? "" : ": " + why.substr(0, why.find('\n')))});
    }
  }
  std::sort(rows.begin(), rows.end(),
            [](const Row &a, const Row &b) { return std::tie(a.ns, a.text) < std::tie(b.ns, b.text); });
  std::printf("%10s  %5s %10s  configuration\n", "us", "x", "model us");
  for (const Row &r : rows) std::printf("%s\n", r.text.c_str());
}

void printBest(const Json &report, const char *config) {
  const Json &configs = report["configs"];
  size_t tried = static_cast<size_t>(
      std::count_if(configs.begin(), configs.end(), [](const Json &c) { return c["state"] != "untried"; }));
  std::string count = std::to_string(configs.size()) + " configurations";
  if (tried && tried < configs.size()) count = std::to_string(tried) + " of " + count;
  for (const Json &remark : report["remarks"]) std::printf("remark: %s\n", remark.get<std::string>().c_str());
  std::printf("best: %s (%s, %s, %.2f s)\n", config, report["by"].get<std::string>().c_str(), count.c_str(),
              report["seconds"].get<double>());
}

/// The constants that may be left to the recipe.
std::vector<std::string> constantsOf(TegulaFunction *f) {
  std::vector<std::string> out;
  for (size_t i = 0; i < tegula_function_param_count(f); ++i)
    if (TegulaParam p{}; tegula_function_param(f, i, &p) == TEGULA_OK && (p.flags & TEGULA_PARAM_CONSTEXPR))
      out.push_back(p.name);
  return out;
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

int forget(const CommandLine &line) {
  auto ref = openKernel(line.positional[0]);
  if (!ref) return UserError;
  std::vector<const char *> configs;
  for (const std::string &c : line.all("config")) configs.push_back(c.c_str());
  size_t count = 0;
  if (tegula_results_forget(ref->function.get(), configs.data(), configs.size(), &count) != TEGULA_OK)
    return failLast();
  std::printf("forgotten: %zu results\n", count);
  return Ok;
}

bool readNumber(const CommandLine &line, const char *name, double &out, std::string &error) {
  if (!line.has(name)) return true;
  std::string text = line.get(name);
  if (parseNumber(text, out) && out > 0 && out < 1e9) return true;
  return error = std::string("--") + name + " takes a positive number, found `" + text + "`", false;
}

/// Prints the origin of the configurations, and which was tried first.
void explainReport(const Json &report) {
  if (report.contains("guess")) {
    const Json &g = report["guess"];
    std::printf("guess: %s, of an entry of version %s for %s; %s\n", g["config"].get<std::string>().c_str(),
                g["version"].get<std::string>().c_str(), g["device"].get<std::string>().c_str(),
                g["used"] == "first" ? "timed first" : "chosen, nothing was timed");
  }
  if (!report.contains("recipe")) return;
  const Json &recipe = report["recipe"];
  std::printf("recipe: %s, %zu configurations\n", recipe["kind"].get<std::string>().c_str(), recipe["configs"].size());
  for (const Json &axis : recipe["axes"])
    std::printf("  %s = %s: %s\n", axis["name"].get<std::string>().c_str(), axis["values"].dump().c_str(),
                axis["reason"].get<std::string>().c_str());
  for (const Json &reason : recipe["reasons"]) std::printf("  %s\n", reason.get<std::string>().c_str());
}

/// Prints the model's estimate of one configuration, for people.
int explain(TegulaFunction *f, const TegulaConfig &config, Grids &grids, const std::vector<TegulaArg> &packed,
            TegulaLaunchOptions options) {
  std::vector<TegulaArg> args = packed;
  for (size_t v = 0; v < config.value_count; ++v)
    for (size_t i = 0; i < args.size(); ++i) {
      TegulaParam param{};
      if (tegula_function_param(f, i, &param) == TEGULA_OK && std::strcmp(param.name, config.values[v].name) == 0)
        args[i] = tegula_constant(config.values[v].value);
    }
  api::applyNumbers(config, options);
  TegulaKernel *k = nullptr;
  int64_t grid[3] = {1, 1, 1};
  if (Grids::of(&grids, &config, grid)) return fail("--grid: " + grids.error);
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
  const std::string syntax =
      "tegula tune FILE.py::KERNEL --grid EXPRS -t NAME=VALUES ... [options]\ntegula tune --show FILE\ntegula tune --merge FILE --merge FILE ... -o FILE\ntegula tune --forget FILE.py::KERNEL [--config TEXT ...]\n" +
      describeOptions(options);
  if (!parseCommandLine(options, argv, line, error)) return misuse(argv, error, syntax);
  if (line.has("show")) return showFile(line.get("show"));
  if (line.has("merge")) return line.has("output") ? mergeFiles(line) : misuse(argv, "--merge needs -o FILE", syntax);
  if (line.has("forget"))
    return line.positional.size() == 1 ? forget(line) : misuse(argv, "--forget takes one FILE.py::KERNEL", syntax);
  if (line.has("config")) return misuse(argv, "--config goes with --forget", syntax);
  if (line.positional.size() != 1 || !line.has("grid") || line.has("try") == line.has("auto"))
    return misuse(argv,
                  line.positional.size() != 1 ? "tune takes one FILE.py::KERNEL"
                  : !line.has("grid")         ? "tune needs --grid"
                  : line.has("auto")          ? "--auto proposes values, -t gives them; one of both"
                                              : "tune needs -t NAME=VALUES or --auto",
                  syntax);
  Constants constants;
  std::vector<ArgValue> args;
  TegulaLaunchOptions launch;
  TegulaTunerOptions how = TEGULA_TUNER_OPTIONS_INIT;
  double top = 0;
  if (!parseLaunchOptions(line, launch, error) || !readNumber(line, "top", top, error) ||
      !readNumber(line, "budget-ms", how.budget_ms, error))
    return usage(error);
  how.top_k = static_cast<uint32_t>(top);
  if (line.has("deterministic")) how.deterministic = 1;
  if (line.has("cuda-graph")) how.cuda_graph = 1;
  if (line.has("no-validate")) how.validate = 0;
  if (line.has("no-persist")) how.persist = 0;
  if (line.has("all")) how.search = 0;
  if (!parseConstants(line.all("const"), constants, error) || !parseArguments(line.all("arg"), constants, args, error))
    return fail(error);
  auto ref = openKernel(line.positional[0]);
  if (!ref) return UserError;
  TegulaFunction *f = ref->function.get();
  if (!chooseDevice(line, ref->context.get(), launch)) return failLast();
  std::vector<std::string> names, values;
  for (const std::string &item : line.all("try")) {
    size_t eq = item.find('=');
    if (eq == 0 || eq == std::string::npos || eq + 1 == item.size()) return fail("-t " + item + ": write NAME=VALUES");
    names.push_back(item.substr(0, eq));
    values.push_back(item.substr(eq + 1));
  }
  Grids grids{line.get("grid"), integersOf(args, constants), ""};
  const bool isAuto = line.has("auto");
  std::vector<TegulaAxis> axes;
  for (size_t a = 0; a < names.size(); ++a) axes.push_back({names[a].c_str(), values[a].c_str(), nullptr, 0});
  Constraint constraint{line.all("where"), grids.names};
  TegulaSpace space{sizeof space, axes.data(), axes.size(), constraint.texts.empty() ? nullptr : Constraint::of,
                    &constraint};
  TegulaTuner *made = nullptr;
  if (tegula_tuner_create_space(f, isAuto ? nullptr : &space, &how, &made) != TEGULA_OK) return failLast();
  Handle<TegulaTuner> tuner(made);
  std::vector<TegulaArg> packed;
  if (!bindParameters(f, args, constants, isAuto ? constantsOf(f) : names, packed, error)) return fail(error);
  DeviceBuffers buffers(ref->context.get(), launch.device);
  if (!buffers.move(args, packed)) return failLast();
  Descriptors descriptors;
  if (!descriptors.make(f, args, packed, error)) return fail(error);
  handleSignals(ref->context.get(), launch);
  size_t chosen = 0;
  TegulaStatus status =
      tegula_tuner_choose(tuner.get(), Grids::of, &grids, packed.data(), packed.size(), &launch, &chosen);
  if (status == TEGULA_CANCELLED) return fail("interrupted"), 130;
  if (status != TEGULA_OK) return grids.error.empty() ? failLast() : fail("--grid: " + grids.error);
  std::string text = tegula_tuner_report_json(tuner.get());
  Json report = Json::parse(text, nullptr, false);
  if (line.has("save-project") && tegula_tuner_write_project(tuner.get(), nullptr) != TEGULA_OK) return failLast();
  if (line.has("json")) {
    std::printf("%s\n", text.c_str());
  } else {
    printTable(report);
    printBest(report, tegula_tuner_config_name(tuner.get(), chosen));
  }
  if (!line.has("explain")) return Ok;
  if (!line.has("json")) explainReport(report);
  return explain(f, *tegula_tuner_config(tuner.get(), chosen), grids, packed, launch);
}

} // namespace tegula::cli
