// Fuzzes the reader of textual IR: whatever it accepts must survive the passes and print to text that reads back the
// same.
#include "IrRoundTrip.h"
#include "ir/Verifier.h"
#include "passes/AxisFacts.h"
#include "passes/Pipeline.h"

using namespace tegula;

using fuzz::check;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::unique_ptr<ir::Module> m = fuzz::parsed(std::string(reinterpret_cast<const char *>(data), size));
  if (!m)
    return 0;
  std::unique_ptr<ir::Module> copy = fuzz::readBack(*m);
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
