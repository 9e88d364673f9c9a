// What a fuzzer asserts, in builds of any kind.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <string>

namespace tegula::fuzz {

/// Ends the process with `what` unless `ok`: a finding.
inline void check(bool ok, const std::string &what) {
  if (ok)
    return;
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

} // namespace tegula::fuzz
