// The cases of test/ir/*.ir: what the reader and the verifier say about a text; the IR itself if they have nothing to
// say.
#include "../Sections.h"
#include "ir/Text.h"

using namespace tegula;

namespace {

std::string readCase(const test::Section &c) {
  DiagEngine diag;
  // The messages point into the text.
  auto file = std::make_shared<SourceFile>("case", c.input);
  std::unique_ptr<ir::Module> m = ir::parse(file, diag);
  return renderAll(diag) + (m ? ir::print(*m) : "");
}

TEST(Golden, Ir) { test::checkSections("ir", 70, readCase); }

} // namespace
