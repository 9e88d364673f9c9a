// Kernels from the text of tile IR: a stage's output, perhaps edited by hand, or the output of another program.
#include "api/Compile.h"
#include "api/Specialize.h"
#include "ir/Text.h"
#include "ir/Verifier.h"
#include "passes/Pipeline.h"
#include "support/Clock.h"
#include "support/Hash.h"
#include <algorithm>

namespace tegula::api {

namespace {

/// The module in the form that targets accept; null after reporting to `diag`, or with the error in `status`.
std::unique_ptr<ir::Module> readTile(const std::shared_ptr<const SourceFile> &file, const Target &target,
                                     const CompileOptions &options, DiagEngine &diag, runtime::Status &status) {
  std::unique_ptr<ir::Module> module = ir::parse(file, diag);
  if (!module || diag.hasErrors()) return nullptr;
  if (std::string why; !ir::verify(*module, &why, nullptr, ir::Level::Tile)) { // it was valid IR of one of the levels
    status = runtime::Status::error(
        TEGULA_INVALID_ARGUMENT,
        "`" + file->name() +
            "` is IR of the GPU level: it has layouts or uses shared memory; what can be compiled is tile IR, " +
            "which stage `tile` shows");
    return nullptr;
  }
  return preparedTile(*module, target, options, diag) ? std::move(module) : nullptr;
}

bool hasKernel(const ir::Module &m, const SourceFile &file) {
  if (std::any_of(m.functions.begin(), m.functions.end(), [](const ir::Function *f) { return f->isKernel; }))
    return true;
  fail(TEGULA_INVALID_ARGUMENT, "`" + file.name() + "` has no kernel");
  return false;
}

/// Types, names and facts of the kernel's arguments, as if from a signature.
void describeArguments(const ir::Function &f, TegulaKernel &k) {
  std::vector<Param> params;
  for (size_t i = 0; i < f.argInfo.size(); ++i) {
    const ir::Value &v = *f.block()->args[i];
    const ir::ArgInfo &a = f.argInfo[i];
    auto scalar = static_cast<lang::Scalar>(dtypeOf(v.type.elem, a.isSigned));
    k.specs.push_back(sema::ParamSpec::runtime(v.type.isPtr ? lang::Dtype::ptr(scalar, a.isConst) : lang::dtype(scalar),
                                               a.divisibility));
    k.specs.back().sameAs = a.sameAs;
    k.specs.back().overlap = a.overlap;
    params.emplace_back().name = v.name.empty() ? "arg" + std::to_string(i) : v.name;
    k.params.push_back({params.back().name, false});
  }
  k.signature = signatureText(params, k.specs);
}

bool fill(TegulaKernel &k) {
  DiagEngine diag;
  uint64_t start = steadyNs();
  runtime::Status status;
  std::unique_ptr<ir::Module> tile = readTile(k.tile, k.target, k.options, diag, status);
  if (!status) return fail(status), false;
  if (!tile) {
    if (report(diag) == TEGULA_OK)
      fail(TEGULA_INTERNAL_ERROR, "reading `" + k.tile->name() + "` failed without a message");
    return false;
  }
  if (!hasKernel(*tile, *k.tile)) return false;
  k.name = tile->kernel()->name;
  k.timings.parse = steadyNs() - start;
  Generated out;
  bool made = generate(*tile, k.target, k.options, k.name, out, k.timings, diag, status);
  if (!status) return fail(status), false;
  if (!made || diag.hasErrors()) {
    if (report(diag) == TEGULA_OK)
      fail(TEGULA_INTERNAL_ERROR, "generating code for `" + k.name + "` failed without a message");
    return false;
  }
  report(diag);
  describeArguments(*tile->kernel(), k);
  k.object = std::move(out.code);
  k.info = std::move(out.info);
  k.info.remarks = remarksOf(diag, *tile, out);
  if (makePlan(k)) return true;
  fail(TEGULA_INTERNAL_ERROR, "`" + k.name + "`: the compiled kernel has other arguments than its text");
  return false;
}

} // namespace

TegulaKernel *compileTile(TegulaContext &c, std::shared_ptr<const SourceFile> file, const CompileOptions &options,
                          const Target &target, DeviceEntry *device) {
  GateSection section;
  clearDiagnostics();
  uint64_t start = steadyNs();
  Ref<TegulaKernel> k;
  {
    auto *fresh = new TegulaKernel;
    k = Ref(fresh);
    release(fresh);
  }
  k->context = Ref(&c);
  k->tile = std::move(file);
  k->options = options;
  k->target = target;
  k->timings.size = sizeof k->timings;
  CompileOptions keyed = options;
  keyed.device = 0;
  k->key = Hasher()
               .field("tegula tile")
               .field(tegula_version())
               .field(k->tile->text())
               .field(keyed.word())
               .field(uint64_t(options.maxnreg))
               .field(targetKey(target))
               .digest();
  k->hash = hexOf(k->key);
  if (!onCompilerStack(false, [&] { return fill(*k); }) || (device && !loadOn(*k, *device))) return nullptr;
  k->timings.total = steadyNs() - start;
  retain(k.get());
  return k.get();
}

bool emitTile(const TegulaKernel &k, std::string_view stage, std::string &out) {
  if (stage == "source") return out = std::string(k.tile->text()), true;
  if (stage == "ast" || stage == "tree") {
    fail(TEGULA_UNSUPPORTED,
         "`" + k.name + "` was compiled from tile IR, which has no stage `" + std::string(stage) + "`");
    return false;
  }
  return onCompilerStack(false, [&] {
    DiagEngine diag;
    runtime::Status status;
    std::optional<std::string> text;
    if (std::unique_ptr<ir::Module> tile = readTile(k.tile, k.target, k.options, diag, status))
      text =
          stage == "tile" ? ir::print(*tile) : emitTargetStage(*tile, k.target, k.options, k.name, stage, diag, status);
    if (!status) return fail(status), false;
    if (report(diag) != TEGULA_OK) return false;
    if (!text)
      return fail(TEGULA_INTERNAL_ERROR,
                  "stage `" + std::string(stage) + "` of `" + k.name + "` failed without a message"),
             false;
    out = std::move(*text);
    return true;
  });
}

} // namespace tegula::api

using namespace tegula;
using namespace tegula::api;

TegulaStatus tegula_compile_tile(TegulaContext *c, const char *name, const char *text, size_t length,
                                 const char *target, const TegulaLaunchOptions *options, TegulaKernel **out) {
  constexpr size_t limit = size_t(16) << 20;
  if (!c || !name || (!text && length) || !out)
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_compile_tile: null argument");
  if (length > limit)
    return fail(TEGULA_INVALID_ARGUMENT, std::string("tegula_compile_tile: `") + name + "` has more than 16 MiB");
  GateSection section;
  CallOptions call;
  CompileRequest r;
  if (!c->resolve(options, call)) return tegula_last_status();
  r.options = call.compile;
  if (!chooseTarget(*c, target, call, r)) return tegula_last_status();
  auto file = std::make_shared<const SourceFile>(name, std::string(text ? text : "", length));
  TegulaKernel *k = compileTile(*c, std::move(file), r.options, r.target, r.device);
  if (!k) return tegula_last_status();
  *out = k;
  return TEGULA_OK;
}
