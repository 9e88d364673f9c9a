// The cases of test/passes/*.ir: `# RUN:` lists the passes, the output is the IR after the last one.
#include "../Sections.h"
#include "ir/Text.h"
#include "ir/Verifier.h"
#include "passes/Pipeline.h"

using namespace tegula;

namespace {

std::string runCase(const test::Section &c) {
  DiagEngine diag;
  auto file = std::make_shared<SourceFile>("case", c.input);
  std::unique_ptr<ir::Module> m = ir::parse(file, diag);
  if (!m)
    return renderAll(diag);
  std::istringstream names(c.run);
  for (std::string n; std::getline(names, n, ',');) {
    const PassEntry *p = findPass(n);
    if (!p)
      return "no pass " + n;
    p->run(*m);
    std::string why;
    if (!ir::verify(*m, &why))
      return "after " + n + ": " + why + "\n" + ir::print(*m);
  }
  return ir::print(*m);
}

TEST(Golden, Passes) { test::checkSections("passes", 30, runCase); }

} // namespace
