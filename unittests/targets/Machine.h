// The machine that tests of generated code may count on: this one, or a lesser one of the same architecture that
// $TEGULA_CPU_TARGET names, so that every test also runs with instruction sets hidden.
#pragma once
#include "targets/cpu/Cpu.h"
#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>
#include <string>

namespace tegula::cpu::test {

/// The name of the machine's target: "cpu:native" unless $TEGULA_CPU_TARGET names another one.
inline std::string machineName() {
  const char *name = std::getenv("TEGULA_CPU_TARGET");
  return name && *name ? name : "cpu:native";
}

/// Whether the machine executes code for the target `name` ("cpu:avx512", ...); says so on stdout if it does not.
inline bool runsHere(const std::string &name) {
  std::optional<CpuTarget> code = parseTarget(name), machine = parseTarget(machineName());
  bool runs = code && machine && runsOn(*code, *machine);
  if (!runs)
    printf("not run here: %s, %s lacks it\n", name.c_str(), machineName().c_str());
  return runs;
}

/// Of a test whose parameter is a target's name.
inline std::string testName(const testing::TestParamInfo<std::string> &info) {
  std::string s = info.param;
  for (char &c : s)
    c = isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return s;
}

} // namespace tegula::cpu::test
