// The numeric launch options that a configuration may set, in the order in which texts list them.
#pragma once
#include "tegula/tegula.h"
#include <string_view>

namespace tegula::api {

struct ConfigNumber {
  const char *name;
  int32_t TegulaConfig::*config; // 0: not set
  int32_t TegulaLaunchOptions::*option;
};
inline constexpr ConfigNumber configNumbers[] = {
    {"num_warps", &TegulaConfig::num_warps, &TegulaLaunchOptions::num_warps},
    {"num_stages", &TegulaConfig::num_stages, &TegulaLaunchOptions::num_stages},
    {"num_ctas", &TegulaConfig::num_ctas, &TegulaLaunchOptions::num_ctas},
    {"maxnreg", &TegulaConfig::maxnreg, &TegulaLaunchOptions::maxnreg}};

/// The row of this name; null: there is none.
inline const ConfigNumber *configNumber(std::string_view name) {
  for (const ConfigNumber &n : configNumbers)
    if (name == n.name) return &n;
  return nullptr;
}

/// The options of a launch with the numbers that a configuration sets.
inline void applyNumbers(const TegulaConfig &config, TegulaLaunchOptions &options) {
  for (const ConfigNumber &n : configNumbers)
    if (config.*n.config) options.*n.option = config.*n.config;
}

} // namespace tegula::api
