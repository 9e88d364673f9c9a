// The cases of test/lowering/*.ir: what targets say about IR that the language does not make. `# RUN:` names the
// target.
#include "../Sections.h"
#include "ir/Text.h"
#include "targets/cpu/Cpu.h"
#include "targets/nvidia/Nvidia.h"

using namespace tegula;

namespace {

std::string compileCase(const test::Section &c) {
  DiagEngine diag;
  // The messages point into the text.
  auto file = std::make_shared<SourceFile>("case", c.input);
  std::unique_ptr<ir::Module> m = ir::parse(file, diag);
  if (!m)
    return renderAll(diag);
  std::optional<std::string> text;
  if (auto gpu = nvidia::parseTarget(c.run))
    text = nvidia::emitStage(*m, *gpu, {}, nvidia::Stage::Llvm, diag);
  else if (auto cpu = cpu::parseTarget(c.run))
    text = cpu::emitStage(*m, *cpu, {}, cpu::Stage::Plan, diag);
  else
    return "no target " + c.run;
  EXPECT_EQ(text.has_value(), !diag.hasErrors());
  return renderAll(diag) + (text ? "compiles\n" : "");
}

TEST(Golden, Lowering) { test::checkSections("lowering", 6, compileCase); }

} // namespace
