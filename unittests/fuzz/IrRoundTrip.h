// Texts of IR in fuzzers.
#pragma once
#include "Check.h"
#include "ir/Text.h"

namespace tegula::fuzz {

/// The module of a text; null if it is refused, which takes a message.
inline std::unique_ptr<ir::Module> parsed(std::string text) {
  DiagEngine diag;
  std::unique_ptr<ir::Module> m = ir::parse(std::make_shared<SourceFile>("fuzz.ir", std::move(text)), diag);
  check(m || diag.hasErrors(), "refused without a message");
  return m;
}

/// What `m` reads back as from its text, which must print as the same text.
inline std::unique_ptr<ir::Module> readBack(const ir::Module &m) {
  DiagEngine diag;
  std::string text = ir::print(m);
  std::unique_ptr<ir::Module> copy = ir::parse(std::make_shared<SourceFile>("again.ir", text), diag);
  check(copy != nullptr, "does not read back:\n" + text + renderAll(diag));
  check(ir::print(*copy) == text, "reads back as something else:\n" + text + ir::print(*copy));
  return copy;
}

} // namespace tegula::fuzz
