// See Target.h. No LLVM here: what tests put in the place of code generators links it, too.
#include "targets/Target.h"
#include "passes/Pipeline.h"

namespace tegula::targets {

bool Target::prepare(ir::Module &tile, const Options &options, const ir::StageVerifier &verifier) const {
  return runPipeline(tile, nullptr, nullptr, verifier, options.wide);
}

} // namespace tegula::targets
