// How runtime functions report failure: a code of tegula.h and a sentence for users.
#pragma once
#include "tegula/tegula.h"
#include <optional>
#include <string>
#include <utility>

namespace tegula::runtime {

/// The exhausted resource, for TEGULA_OUT_OF_RESOURCES; a null name: the numbers are not known.
struct Shortage {
  const char *name = nullptr; // "shared memory", "threads" ...: a constant
  uint64_t required = 0, limit = 0;
};

/// True on success. The text is lower-case, without a final stop.
struct [[nodiscard]] Status {
  TegulaStatus code = TEGULA_OK;
  std::string text;
  Shortage shortage{};

  explicit operator bool() const { return code == TEGULA_OK; }
  static Status ok() { return {}; }
  static Status error(TegulaStatus code, std::string text) { return {code, std::move(text)}; }
  /// TEGULA_OUT_OF_RESOURCES, worded as programs written for Triton expect; `text` is the rest.
  static Status exhausted(const char *name, uint64_t required, uint64_t limit, const std::string &text);
};

} // namespace tegula::runtime
