// How runtime functions report failure: a code of tegula.h and one sentence for people.
#pragma once
#include "tegula/tegula.h"
#include <optional>
#include <string>
#include <utility>

namespace tegula::runtime {

/// True when it worked. The text is lower-case, without a final stop.
struct [[nodiscard]] Status {
  TegulaStatus code = TEGULA_OK;
  std::string text;

  explicit operator bool() const { return code == TEGULA_OK; }
  static Status ok() { return {}; }
  static Status error(TegulaStatus code, std::string text) { return {code, std::move(text)}; }
};

} // namespace tegula::runtime
