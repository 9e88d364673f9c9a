// Options of a compilation by their names in manifests.
#pragma once
#include "api/Handles.h"
#include <nlohmann/json.hpp>

namespace tegula::api {

/// Calls f(name, option) on each; `Options` is CompileOptions or const.
template <typename Options, typename F> void eachNamedOption(Options &o, F &&f) {
  f("num_warps", o.numWarps), f("num_stages", o.numStages), f("num_ctas", o.numCtas), f("maxnreg", o.maxnreg);
  f("debug", o.debug), f("checked", o.checked), f("debug_info", o.debugInfo), f("fp_fusion", o.fpFusion),
      f("sanitize_overflow", o.sanitizeOverflow);
  f("strict", o.strict), f("cooperative", o.cooperative), f("programmatic_launch", o.programmaticLaunch),
      f("wide_offsets", o.wide), f("keep_subnormals", o.keepsSubnormals);
  f("opt_level", o.optLevel), f("language_level", o.level), f("clusters", o.clusters);
}

/// The options that differ from their defaults.
inline nlohmann::json optionsJson(const CompileOptions &o) {
  nlohmann::json j = nlohmann::json::object();
  const CompileOptions usual;
  std::vector<int64_t> defaults;
  eachNamedOption(usual, [&](const char *, auto v) { defaults.push_back(static_cast<int64_t>(v)); });
  size_t i = 0;
  eachNamedOption(o, [&](const char *name, auto v) {
    if (static_cast<int64_t>(v) != defaults[i++]) j[name] = static_cast<int64_t>(v);
  });
  return j;
}

/// Reads options: numbers, true and false. False: `why` says what is wrong.
inline bool readOptionsJson(const nlohmann::json &j, CompileOptions &o, std::string &why) {
  for (auto it = j.begin(); it != j.end(); ++it) {
    bool known = false, good = it->is_number_integer() || it->is_boolean();
    int64_t v = it->is_boolean() ? it->get<bool>() : it->is_number_integer() ? it->get<int64_t>() : 0;
    eachNamedOption(o, [&]<typename T>(const char *name, T &option) {
      if (it.key() != name) return;
      known = true;
      good = good && v >= 0 && v <= (std::is_same_v<T, bool> ? 1 : std::is_same_v<T, uint8_t> ? 3 : 1 << 20);
      if constexpr (std::is_same_v<T, lang::Level>) good = good && (v == 36 || v == 37 || v == 39);
      if (good) option = static_cast<T>(v);
    });
    if (known && good) continue;
    why = known ? "option `" + it.key() + "` cannot be " + it->dump() : "there is no option `" + it.key() + "`";
    return false;
  }
  const bool powers = o.numWarps > 0 && o.numWarps <= 64 && !(o.numWarps & (o.numWarps - 1)),
             small = o.numStages > 0 && o.numStages < 256 && o.numCtas > 0 && o.numCtas < 256;
  if (!powers) why = "num_warps must be a power of 2, at most 64";
  else if (!small) why = "num_stages and num_ctas must be between 1 and 255";
  return powers && small;
}

} // namespace tegula::api
