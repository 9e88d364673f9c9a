// Kernels from text to tile IR after the passes: whatever the text is, there is a module that keeps the rules of the
// IR, or a message. Inputs are changed by KernelMutator, so that most of them parse.
#include "Check.h"
#include "KernelMutator.h"
#include "LanguageNames.h"
#include "api/Compile.h"
#include "ir/Interp.h"
#include "ir/Text.h"
#include "ir/Verifier.h"
#include "passes/AxisFacts.h"
#include "passes/Pipeline.h"
#include "sema/Sema.h"
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace tegula;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

using fuzz::check;

/// What the code generators ask of sema; which of them follows from the text.
static sema::Options optionsFor(std::string_view text) {
  sema::Options o;
  o.maxSteps = 50'000;
  size_t hash = std::hash<std::string_view>()(text);
  if (int capability = std::array{0, 80, 90, 0}[hash % 4]) {
    o.target.name = "cuda";
    o.target.cudaCapability = capability;
    o.target.defaultDotPrecision = "tf32";
  }
  o.target.debug = hash & 4;
  o.target.sanitizeOverflow = hash & 8;
  o.annotate = hash & 16;
  return o;
}

/// Runs the kernel on a little memory; faults and endless loops are results like any other.
static void interpret(const ir::Module &m) {
  static std::vector<char> memory(4096);
  ir::Interp in(m);
  in.maxSteps = 20'000;
  in.addBuffer(memory.data(), memory.size());
  std::vector<uint64_t> args;
  for (const ir::Value *a : m.kernel()->block()->args)
    args.push_back(a->type.isPtr ? reinterpret_cast<uint64_t>(memory.data()) : 3);
  (void)in.run(args, {2, 1, 1});
}

static void compile(const std::string &text, const std::shared_ptr<const lang::Function> &kernel,
                    const std::string &signature, DiagEngine &diag) {
  TegulaFunction f;
  f.fn = kernel;
  std::vector<sema::ParamSpec> specs;
  if (!api::parseSignature(f, signature, nullptr, 0, specs))
    return;
  sema::Instantiation inst = sema::instantiate(kernel, specs, optionsFor(text), diag);
  if (!inst.module) {
    check(diag.hasErrors(), "refused without a message");
    return;
  }
  std::string why;
  check(ir::verify(*inst.module, &why), "sema: " + why);
  if (diag.hasErrors())
    return;
  interpret(*inst.module);
  runPipeline(*inst.module);
  check(ir::verify(*inst.module, &why), "after the pipeline: " + why);
  for (const ir::Function *function : inst.module->functions)
    AxisFacts facts(*function);
  std::string printed = ir::print(*inst.module);
  DiagEngine again;
  check(ir::parse(std::make_shared<SourceFile>("again.ir", printed), again) != nullptr,
        "does not read back:\n" + printed + renderAll(again));
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size > 20000)
    return 0;
  std::string text(reinterpret_cast<const char *>(data), size);
  sema::ModuleLoader loader;
  DiagEngine diag;
  std::shared_ptr<const lang::Module> m = loader.loadText("fuzz.py", text, diag);
  check(m || diag.hasErrors(), "refused without a message");
  std::optional<fuzz::CompileLine> line = fuzz::compileLine(text);
  if (m) {
    DiagEngine checked;
    sema::checkModule(*m, false, checked);
    renderAll(checked);
    if (std::shared_ptr<const lang::Function> kernel =
            line ? sema::ModuleLoader::kernel(*m, line->kernel, diag) : nullptr)
      compile(text, kernel, line->signature, diag);
  }
  renderAll(diag);
  renderJson(diag);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize, unsigned seed) {
  if (seed % 16 == 0)
    return LLVMFuzzerMutate(data, size, maxSize);
  fuzz::KernelMutator mutator(seed, fuzz::languageNames());
  std::string text = mutator.mutate(std::string(reinterpret_cast<const char *>(data), size), 1 + seed / 16 % 3);
  size = std::min(text.size(), maxSize);
  std::memcpy(data, text.data(), size);
  return size;
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t aSize, const uint8_t *b, size_t bSize,
                                            uint8_t *out, size_t maxSize, unsigned seed) {
  fuzz::KernelMutator mutator(seed, fuzz::languageNames());
  std::string text = mutator.splice(std::string(reinterpret_cast<const char *>(a), aSize),
                                    std::string(reinterpret_cast<const char *>(b), bSize));
  size_t size = std::min(text.size(), maxSize);
  std::memcpy(out, text.data(), size);
  return size;
}
