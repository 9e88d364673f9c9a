// Any bytes: parse, print, render; nothing may crash, hang or read outside.
#include "syntax/Parser.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace tegula;
  if (size > 20000) return 0;
  DiagEngine diag;
  auto file = std::make_shared<SourceFile>("fuzz.py", std::string(reinterpret_cast<const char *>(data), size));
  auto tree = syntax::parse(file, diag);
  syntax::print(*tree);
  renderAll(diag);
  renderJson(diag);
  return 0;
}
