// NVIDIA GPUs, and their simulator, behind the interface of targets (targets/Target.h).
#include "gpu/parts/ChooseCluster.h"
#include "gpu/parts/SplitTiles.h"
#include "passes/Pipeline.h"
#include "passes/SplitLoops.h"
#include "passes/WorkCount.h"
#include "targets/Target.h"
#include "targets/nvidia/Codegen.h"
#include "targets/nvidia/TargetInfo.h"
#include "targets/nvidia/WidenDots.h"

namespace tegula::targets {

namespace {

using nvidia::NvTarget;

class NvCode final : public Target {
public:
  NvCode(std::string_view name, const NvTarget &t, const Family &f) : Target(f), name_(name), settings_(t), info_(t) {}

  Machine machine() const override { return settings_.simulate ? Machine::Sim : Machine::Gpu; }
  std::string key() const override { return nvidia::targetKey(settings_) + (settings_.simulate ? "|" + host() : ""); }
  Language language() const override { return {"cuda", static_cast<int>(settings_.sm), "tf32"}; }
  std::optional<ir::AsmExecutor> asmExecutor() const override {
    return settings_.simulate ? std::optional(ir::AsmExecutor{"the simulator", false}) : std::nullopt;
  }
  bool makesPtx() const override { return !settings_.simulate; }
  uint64_t sharedLimit() const override { return settings_.sharedLimit(); }
  const gpu::TargetInfo *gpuInfo() const override { return &info_; }

  std::string needs(std::string_view cubin) const override {
    if (settings_.simulate)
      return "sim sm_" + std::to_string(settings_.sm) + " " + host();
    return cubin.empty() ? "ptx " + name_ : "cubin " + std::string(cubin);
  }
  std::string simulator() const override { return settings_.simulate ? "" : "sim:" + name_; }

  Refusal refuses(const Options &o) const override {
    std::string warps = std::to_string(o.numWarps), ctas = std::to_string(o.numCtas);
    auto refusal = [](Refusal::Kind kind, std::string text) { return Refusal{kind, std::move(text), "", 0, 0}; };
    if (o.numWarps > 32)
      return {Refusal::Kind::Exhausted, "num_warps is " + warps + "; a block of a GPU has at most 32 warps", "threads",
              uint64_t(o.numWarps) * NvTarget::lanes, 1024};
    if (o.numCtas & (o.numCtas - 1))
      return refusal(Refusal::Kind::Invalid, "num_ctas is " + ctas + "; it must be a power of 2");
    if (o.numCtas > 1 && settings_.sm < 90)
      return refusal(Refusal::Kind::Invalid,
                     "num_ctas is " + ctas + "; num_ctas > 1 requires NVIDIA SM90+ (Hopper), the target is " + name_);
    if (o.numCtas > 16)
      return {Refusal::Kind::Exhausted, "num_ctas is " + ctas, "blocks of a cluster", o.numCtas, 16};
    return {};
  }

  bool prepare(ir::Module &tile, const Options &options, const ir::StageVerifier &verifier) const override {
    // A GPU has no place for calls between blocks of threads: everything is inlined.
    for (ir::Function *f : tile.functions)
      f->noinline_ = false;
    const nvidia::DescriptorContext context{&settings_, options.numWarps, options.numCtas};
    if (!runPipeline(tile, nvidia::keepDescriptor, &context, verifier, options.wide))
      return false;
    nvidia::widenDots(tile, settings_);
    return verifier.check(tile, "widen-dots");
  }

  std::optional<Compiled> compile(const ir::Module &tile, const Options &options, DiagEngine &diag) const override {
    Work work = options.depth == Depth::Source ? countWork(tile) : workHere(tile, options);
    std::optional<Compiled> out = nvidia::compile(tile, settings_, options, diag);
    if (!out)
      return std::nullopt;
    out->meta.checked = options.checked;
    out->meta.splitsByGrid = info_.clusterLimit() > 1 && splitOf(*tile.kernel()) < 0;
    // Warps that only copy run ahead as far as the shared memory goes.
    if (out->meta.threads > NvTarget::lanes * options.numWarps)
      for (WorkScope &s : work.scopes)
        s.stages = s.stages ? 64 : 0;
    out->work = std::move(work);
    return out;
  }

  std::span<const char *const> stages() const override {
    static constexpr const char *onGpu[] = {"gpu", "llvm", "ptx"}, *onSim[] = {"gpu", "llvm", "obj"};
    return settings_.simulate ? std::span(onSim) : std::span(onGpu);
  }
  std::optional<std::string> emit(const ir::Module &tile, const Options &options, std::string_view stage,
                                  std::string_view lastPass, DiagEngine &diag) const override {
    using nvidia::Stage;
    static constexpr std::pair<std::string_view, Stage> table[] = {
        {"gpu", Stage::Gpu}, {"llvm", Stage::Llvm}, {"ptx", Stage::Ptx}, {"obj", Stage::Object}};
    for (auto [name, which] : table)
      if (stage == name)
        return nvidia::emitStage(tile, settings_, options, which, diag, lastPass);
    return std::nullopt;
  }

private:
  /// The processor that simulated kernels are compiled for, in the words of bundles.
  static std::string host() {
    std::string cpu = nvidia::simulatorCpu();
    return cpu == "generic" ? "aarch64" : cpu;
  }

  /// Tiles of which a thread would hold too much are read once for each loop over their parts: counted as the passes
  /// split them.
  Work workHere(const ir::Module &tile, const Options &o) const {
    std::unique_ptr<ir::Module> parts =
        o.numCtas == 1 && tile.kernel() && gpu::chooseCluster(tile, info_, o).ctas == 1
            ? gpu::splitTiles(tile, NvTarget::lanes * o.numWarps, settings_.sharedLimit())
            : nullptr;
    Work work = countWork(parts ? *parts : tile);
    for (WorkScope &s : work.scopes)
      if (s.kind == WorkScope::Kind::Loop && !s.stages)
        s.stages = o.numStages;
    return work;
  }

  const std::string name_;
  const NvTarget settings_;
  const nvidia::NvTargetInfo info_;
};

} // namespace

extern const Family nvidiaFamily;

namespace {

TargetRef parse(std::string_view name) {
  std::optional<NvTarget> t = nvidia::parseTarget(name);
  return t ? std::make_shared<NvCode>(name, *t, nvidiaFamily) : nullptr;
}

/// Generations between and after ours run the code of the last one below; the assembler makes it theirs.
std::optional<Family::GpuCode> forGpu(uint32_t capability) {
  static constexpr struct {
    uint32_t from;
    const char *name;
  } rows[] = {{100, "sm_89"}, {90, "sm_90a"}, {89, "sm_89"}, {86, "sm_86"}, {80, "sm_80"}};
  for (const auto &r : rows)
    if (capability >= r.from)
      return Family::GpuCode{r.name, capability == r.from ? r.name : "sm_" + std::to_string(capability)};
  return std::nullopt;
}

} // namespace

constinit const Family nvidiaFamily{.name = "nvidia",
                                    .parse = parse,
                                    .names = nvidia::knownTargetNames,
                                    .driver = "cuda",
                                    .forGpu = forGpu,
                                    .oldestGpu = "8.0 (Ampere)"};

} // namespace tegula::targets
