// Fuzzes the reader of textual IR: whatever it accepts must survive the passes and print to text that reads back the same.
#include "ir/Text.h"
#include "ir/Verifier.h"
#include "passes/AxisFacts.h"
#include "passes/Pipeline.h"
#include <cstdio>
#include <cstdlib>

using namespace tegula;

static void check(bool ok, const std::string &what) {
  if (ok)
    return;
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  DiagEngine diag;
  auto file = std::make_shared<SourceFile>("fuzz.ir", std::string(reinterpret_cast<const char *>(data), size));
  std::unique_ptr<ir::Module> m = ir::parse(file, diag);
  check(m || diag.hasErrors(), "refused without a message");
  if (!m)
    return 0;
  std::string text = ir::print(*m);
  auto again = std::make_shared<SourceFile>("again.ir", text);
  std::unique_ptr<ir::Module> copy = ir::parse(again, diag);
  check(copy != nullptr, "does not read back:\n" + text + renderAll(diag));
  check(ir::print(*copy) == text, "reads back as something else:\n" + text + ir::print(*copy));
  runPipeline(*m);
  std::string why;
  check(ir::verify(*m, &why), "after the pipeline: " + why);
  runPipeline(*copy, nullptr, nullptr, {}, true);
  check(ir::verify(*copy, &why), "after the pipeline with wide offsets: " + why);
  for (const ir::Module *module : {m.get(), copy.get()})
    for (const ir::Function *f : module->functions)
      AxisFacts facts(*f);
  return 0;
}
