// Option parsing, errors, and functions shared by several commands.
#include "cli/Cli.h"
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tegula::cli {

bool parseCommandLine(const std::vector<OptionSpec> &specs, const std::vector<std::string> &args, CommandLine &out,
                      std::string &error) {
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string &a = args[i];
    if (a.size() < 2 || a[0] != '-' || a == "--") {
      if (a == "--") {
        out.positional.insert(out.positional.end(), args.begin() + i + 1, args.end());
        break;
      }
      out.positional.push_back(a);
      continue;
    }
    const OptionSpec *spec = nullptr;
    std::optional<std::string> value;
    if (a[1] == '-') {
      size_t eq = a.find('=');
      std::string name = a.substr(2, eq == std::string::npos ? eq : eq - 2);
      if (eq != std::string::npos) value = a.substr(eq + 1);
      for (auto &s : specs)
        if (name == s.longName) spec = &s;
    } else {
      for (auto &s : specs)
        if (a[1] == s.shortName) spec = &s;
      if (spec && a.size() > 2) value = a.substr(2);
    }
    if (!spec) {
      error = "unknown option `" + a + "`";
      return false;
    }
    if (!*spec->value) {
      if (value) {
        error = "option `" + a.substr(0, a.find('=')) + "` takes no value";
        return false;
      }
      out.options[spec->longName].push_back("");
      continue;
    }
    if (!value) {
      if (i + 1 == args.size()) {
        error = "option `" + a + "` needs " + spec->value;
        return false;
      }
      value = args[++i];
    }
    auto &list = out.options[spec->longName];
    if (!list.empty() && !spec->repeated) {
      error = std::string("option `--") + spec->longName + "` is given twice";
      return false;
    }
    list.push_back(*value);
  }
  return true;
}

std::string describeOptions(const std::vector<OptionSpec> &specs) {
  std::string out;
  for (auto &s : specs) {
    std::string left = "  ";
    left += s.shortName ? std::string("-") + s.shortName + ", " : "    ";
    left += std::string("--") + s.longName + (*s.value ? std::string(" ") + s.value : "");
    if (left.size() < 30) left.resize(30, ' ');
    out += left + " " + s.help + "\n";
  }
  return out;
}

bool parseCount(const std::string &name, const std::string &text, int32_t &out, std::string &error) {
  char *end;
  errno = 0;
  long v = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end || errno || v < 1 || v > 1 << 20)
    return error = name + " takes a positive number, found `" + text + "`", false;
  out = static_cast<int32_t>(v);
  return true;
}

bool parseNumber(const std::string &text, double &out) {
  char *end;
  out = std::strtod(text.c_str(), &end);
  return !text.empty() && !*end && std::isfinite(out);
}

int fail(const std::string &message) {
  std::fprintf(stderr, "tegula: %s%s", message.c_str(), !message.empty() && message.back() == '\n' ? "" : "\n");
  return UserError;
}

int usage(const std::string &message) {
  std::fprintf(stderr, "tegula: %s\n", message.c_str());
  return UsageError;
}

int misuse(const std::vector<std::string> &argv, const std::string &error, const std::string &syntax) {
  bool asked = std::any_of(argv.begin(), argv.end(), [](const std::string &a) { return a == "--help" || a == "-h"; });
  if (!asked) return usage(error + "\nusage: " + syntax);
  std::printf("usage: %s%s", syntax.c_str(), syntax.ends_with('\n') ? "" : "\n");
  return Ok;
}

int failLast() {
  if (tegula_last_status() == TEGULA_COMPILE_ERROR) { // diagnostics carry file and line themselves
    std::fprintf(stderr, "%s\n", tegula_last_error());
    return UserError;
  }
  return fail(tegula_last_error());
}

std::optional<KernelRef> openKernel(const std::string &spec) {
  size_t colons = spec.rfind("::");
  if (colons == std::string::npos || colons == 0 || colons + 2 == spec.size()) {
    fail("`" + spec + "` does not name a kernel; write FILE.py::KERNEL");
    return std::nullopt;
  }
  KernelRef ref;
  TegulaContext *ctx = nullptr;
  TegulaModule *module = nullptr;
  TegulaFunction *function = nullptr;
  if (tegula_context_create(nullptr, &ctx) != TEGULA_OK) return failLast(), std::nullopt;
  ref.context.reset(ctx);
  if (tegula_module_from_file(ctx, spec.substr(0, colons).c_str(), &module) != TEGULA_OK)
    return failLast(), std::nullopt;
  ref.module.reset(module);
  if (tegula_module_function(module, spec.substr(colons + 2).c_str(), &function) != TEGULA_OK)
    return failLast(), std::nullopt;
  ref.function.reset(function);
  return ref;
}

std::vector<TegulaNamedValue> Constants::list() const {
  std::vector<TegulaNamedValue> out;
  for (size_t i = 0; i < names.size(); ++i) out.push_back({names[i].c_str(), values[i].get()});
  return out;
}

TegulaValue *Constants::find(std::string_view name) const {
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return values[i].get();
  return nullptr;
}

std::optional<int64_t> Constants::integer(std::string_view name) const {
  int64_t v;
  TegulaValue *value = find(name);
  return value && tegula_value_as_int(value, &v) == TEGULA_OK ? std::optional(v) : std::nullopt;
}

bool parseConstants(const std::vector<std::string> &items, Constants &out, std::string &error) {
  for (const std::string &item : items) {
    size_t eq = item.find('=');
    if (eq == std::string::npos || eq == 0) {
      error = "`-c " + item + "`: write NAME=VALUE";
      return false;
    }
    std::string name = item.substr(0, eq);
    if (out.find(name)) {
      error = "constant `" + name + "` is given twice";
      return false;
    }
    Handle<TegulaValue> value(tegula_value_parse(item.c_str() + eq + 1));
    if (!value) {
      error = "`-c " + item + "`: " + tegula_last_error();
      return false;
    }
    out.names.push_back(name);
    out.values.push_back(std::move(value));
  }
  return true;
}

const std::vector<OptionSpec> launchOptionSpecs = {
    {0, "num-warps", "N", "warps per program (GPUs)"},
    {0, "num-stages", "N", "depth of software pipelining (GPUs)"},
    {0, "num-ctas", "N", "thread blocks per cluster (GPUs)"},
    {0, "no-clusters", "", "long rows of a program are not shared among the thread blocks of a cluster (GPUs)"},
    {0, "maxnreg", "N", "registers per thread at most (GPUs)"},
    {0, "threads", "N", "CPU threads of the launch (default: all cores, or TEGULA_NUM_THREADS)"},
    {0, "hang-s", "SECONDS",
     "end a launch that makes no progress for so long (default: TEGULA_HANG_S, else never; not on GPUs)"},
    {0, "check", "", "check every access against the extents of the buffers"},
    {0, "strict", "", "refuse what Triton does not have: break, continue, slices of blocks ..."},
    {0, "wide-offsets", "", "compute offsets and masks in 64 bits, as for tensors of 2^30 elements and more"},
    {'g', "debug", "", "device_assert active; code can be stepped through with gdb"},
};

bool parseLaunchOptions(const CommandLine &line, TegulaLaunchOptions &out, std::string &error) {
  out = TEGULA_LAUNCH_OPTIONS_INIT;
  struct Row {
    const char *name;
    int32_t *field;
  };
  for (Row r : {Row{"num-warps", &out.num_warps}, Row{"num-stages", &out.num_stages}, Row{"num-ctas", &out.num_ctas},
                Row{"maxnreg", &out.maxnreg}, Row{"threads", &out.num_threads}})
    if (line.has(r.name) && !parseCount(std::string("--") + r.name, line.get(r.name), *r.field, error)) return false;
  if (line.has("hang-s")) {
    std::string text = line.get("hang-s");
    if (!parseNumber(text, out.hang_s) || out.hang_s <= 0 || out.hang_s >= 1e9) {
      error = "--hang-s takes a positive number of seconds, found `" + text + "`";
      return false;
    }
  }
  if (line.has("check")) out.checked = 1;
  if (line.has("strict")) out.strict = 1;
  if (line.has("no-clusters")) out.clusters = -1;
  if (line.has("wide-offsets")) out.wide_offsets = 1;
  if (line.has("debug")) out.debug = out.debug_info = 1;
  return true;
}

} // namespace tegula::cli
