// tegula specializations: the forms of a kernel that launches can ask for.
#include "cli/Cli.h"
#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace tegula::cli {
namespace {

using Json = nlohmann::json;

/// Values of one integer argument, in order.
struct Sweep {
  std::string name;
  int64_t first = 0, last = -1;
};

/// "n=1..64". False: not a sweep.
bool parseSweep(const std::string &text, Sweep &out) {
  const size_t eq = text.find('='), dots = text.find("..", eq == text.npos ? 0 : eq);
  if (eq == text.npos || eq == 0 || dots == text.npos) return false;
  auto number = [&](size_t begin, size_t end, int64_t &value) {
    auto [stop, error] = std::from_chars(text.data() + begin, text.data() + end, value);
    return error == std::errc() && stop == text.data() + end;
  };
  out.name = text.substr(0, eq);
  constexpr uint64_t most = 1000000;
  return number(eq + 1, dots, out.first) && number(dots + 2, text.size(), out.last) && out.first <= out.last &&
         static_cast<uint64_t>(out.last) - static_cast<uint64_t>(out.first) < most;
}

void printClasses(const Json &all) {
  auto text = [](const Json &j) { return j.get<std::string>(); };
  auto number = [](const Json &j) { return static_cast<unsigned long long>(j.get<uint64_t>()); };
  auto joined = [&](const Json &list, const char *between) {
    std::string out;
    for (const Json &item : list) out += (out.empty() ? "" : between) + text(item);
    return out;
  };
  std::printf("%s: %llu classes\n", text(all["kernel"]).c_str(), number(all["count"]));
  for (const Json &p : all["parameters"])
    std::printf("  %s: %s\n", text(p["name"]).c_str(), joined(p["classes"], " | ").c_str());
  for (const Json &group : all["one_buffer"])
    std::printf("  one buffer for several of %s makes others\n", joined(group, ", ").c_str());
  for (const Json &form : all["forms"])
    std::printf("  %llu %s\n", number(form["count"]),
                form["null_pointers"].get<bool>()          ? "for launches with null pointers on a CPU"
                : form["options"].contains("wide_offsets") ? "for launches with tensors of 2^30 elements or more"
                                                           : "for others");
  std::printf("  %llu in all\n", number(all["all"]));
}

/// Is an integer of this value in a class: "i32", "i32:16", or a number?
bool takes(const std::string &of, int64_t value) {
  const bool literal = !of.empty() && (std::isdigit(static_cast<unsigned char>(of[0])) || of[0] == '-');
  if (literal) return std::atoll(of.c_str()) == value;
  const size_t colon = of.find(':');
  return colon == of.npos || value % std::atoll(of.c_str() + colon + 1) == 0;
}

void printSweep(const Sweep &sweep, const Json &classes) {
  std::map<std::string, std::vector<int64_t>> groups;
  for (int64_t v = sweep.first, count = sweep.last - sweep.first + 1; count; ++v, --count)
    // A value asks for the first class that accepts it: classes go from the one with most facts to the one with none.
    for (const Json &c : classes)
      if (std::string of = c.get<std::string>(); takes(of, v)) {
        groups[of].push_back(v);
        break;
      }
  std::printf("%s from %lld to %lld: %zu classes\n", sweep.name.c_str(), static_cast<long long>(sweep.first),
              static_cast<long long>(sweep.last), groups.size());
  constexpr size_t most = 8;
  for (auto &[of, values] : groups) {
    std::string shown;
    for (size_t i = 0; i < values.size() && i < most; ++i) shown += (i ? ", " : "") + std::to_string(values[i]);
    std::printf("  %-10s %zu values: %s%s\n", of.c_str(), values.size(), shown.c_str(),
                values.size() > most ? ", ..." : "");
  }
}

} // namespace

int specializationsCommand(const std::vector<std::string> &argv) {
  std::vector<OptionSpec> options = {
      {0, "sig", "ITEMS",
       "types of the arguments: 'x:*f32, n:i32', as for tegula compile; what is said of divisibility does not matter"},
      {'c', "const", "NAME=VALUE", "compile-time constant", true},
      {0, "sweep", "NAME=A..B", "which of these values of an integer argument ask for which class"},
      {0, "json", "", "all of it as JSON on standard output"},
  };
  CommandLine line;
  std::string error;
  if (!parseCommandLine(options, argv, line, error) || line.positional.size() != 1)
    return misuse(argv, error.empty() ? "specializations takes one FILE.py::KERNEL" : error,
                  "tegula specializations FILE.py::KERNEL --sig ITEMS [options]\n" + describeOptions(options));
  Sweep sweep;
  if (line.has("sweep") && !parseSweep(line.get("sweep"), sweep))
    return usage("--sweep takes NAME=FIRST..LAST, at most 10^6 values, found `" + line.get("sweep") + "`");
  Constants constants;
  if (!parseConstants(line.all("const"), constants, error)) return fail(error);
  auto ref = openKernel(line.positional[0]);
  if (!ref) return UserError;
  auto named = constants.list();
  char *text = nullptr;
  constexpr size_t limit = 4096;
  if (tegula_specializations(ref->function.get(), line.get("sig").c_str(), named.data(), named.size(), nullptr, limit,
                             &text) != TEGULA_OK)
    return failLast();
  std::unique_ptr<char, void (*)(void *)> owner(text, tegula_free);
  if (line.has("json")) {
    std::printf("%s\n", text);
    return Ok;
  }
  const Json all = Json::parse(text, nullptr, false);
  const Json *swept = nullptr;
  for (const Json &p : all["parameters"])
    if (p["name"] == sweep.name) swept = &p;
  if (line.has("sweep") && !swept) return fail("--sweep: `" + sweep.name + "` is no parameter of the kernel");
  printClasses(all);
  if (swept) printSweep(sweep, (*swept)["classes"]);
  else
    for (const Json &s : all["signatures"]) std::printf("%s\n", s.get<std::string>().c_str());
  return Ok;
}

} // namespace tegula::cli
