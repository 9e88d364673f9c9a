// Targets by name, and the calls of the code generators.
#include "api/Backend.h"
#include "api/Handles.h"
#include "passes/WorkCount.h"
#include "runtime/cuda/Assembler.h"
#include "runtime/cuda/Driver.h"
#if TEGULA_HAS_NVIDIA
#include "gpu/Passes.h"
#include "gpu/SplitTiles.h"
#include "targets/nvidia/WidenDots.h"
#endif
#include <chrono>

namespace tegula::api {

using runtime::Status;
namespace cuda = runtime::cuda;

// ---- targets

std::optional<Target> parseTarget(std::string_view name) {
  if (std::optional<cpu::CpuTarget> c = cpu::parseTarget(name)) return Target{*c, std::string(name), {}};
#if TEGULA_HAS_NVIDIA
  if (std::optional<nvidia::NvTarget> n = nvidia::parseTarget(name)) return Target{*n, std::string(name), n->simulate ? "" : std::string(name)};
#endif
  return std::nullopt;
}

std::vector<std::string> targetNames() {
  std::vector<std::string> names = cpu::knownTargetNames();
#if TEGULA_HAS_NVIDIA
  for (std::string &n : nvidia::knownTargetNames()) names.push_back(std::move(n));
#endif
  return names;
}

std::string noSuchTarget(std::string_view name) {
  std::string names;
  for (const std::string &n : targetNames()) names += (names.empty() ? "" : ", ") + n;
  return "there is no target `" + std::string(name) + "`; targets are " + names;
}

std::optional<Target> targetOfGpu(uint32_t capability) {
  // Generations between and after ours run the code of the last one below; the assembler makes it theirs.
  struct Row {
    uint32_t from;
    const char *name;
  };
  static constexpr Row rows[] = {{100, "sm_89"}, {90, "sm_90a"}, {89, "sm_89"}, {86, "sm_86"}, {80, "sm_80"}};
  for (const Row &r : rows) {
    if (capability < r.from) continue;
    std::optional<Target> t = parseTarget(r.name);
    if (t && capability != r.from) t->arch = "sm_" + std::to_string(capability);
    return t;
  }
  return std::nullopt;
}

std::string assemblerName() {
  Status why;
  if (const cuda::Assembler *a = cuda::Assembler::get(why)) return a->version();
  int driver = cuda::installedDriverVersion();
  return driver ? "driver " + cuda::versionText(driver) : "none";
}

std::string targetKey(const Target &t) {
  if (t.cpu()) return cpu::targetKey(*t.cpu());
#if TEGULA_HAS_NVIDIA
  return nvidia::targetKey(*t.nv()) + (t.isGpu() ? "|" + t.arch + "|" + assemblerName() : "");
#else
  return {};
#endif
}

void describeTarget(const Target &t, lang::TargetInfo &out) {
  if (t.cpu()) {
    out.name = "cpu";
    return;
  }
  out.name = "cuda";
  out.cudaCapability = static_cast<int>(t.nv()->sm);
  out.defaultDotPrecision = "tf32";
}

// ---- what generators say, in the runtime's words

TegulaDtype dtypeOf(ir::Elem e, bool isSigned) {
  using ir::Elem;
  switch (e) {
  case Elem::I1: return TEGULA_INT1;
  case Elem::I8: return isSigned ? TEGULA_INT8 : TEGULA_UINT8;
  case Elem::I16: return isSigned ? TEGULA_INT16 : TEGULA_UINT16;
  case Elem::I32: return isSigned ? TEGULA_INT32 : TEGULA_UINT32;
  case Elem::I64: return isSigned ? TEGULA_INT64 : TEGULA_UINT64;
  case Elem::F8E5M2: return TEGULA_FP8E5;
  case Elem::F8E4M3FN: return TEGULA_FP8E4NV;
  case Elem::F8E4B15: return TEGULA_FP8E4B15;
  case Elem::F8E4B8: return TEGULA_FP8E4B8;
  case Elem::F8E5B16: return TEGULA_FP8E5B16;
  case Elem::F16: return TEGULA_FP16;
  case Elem::BF16: return TEGULA_BF16;
  case Elem::F32: return TEGULA_FP32;
  case Elem::F64: return TEGULA_FP64;
  case Elem::Void: break;
  }
  return TEGULA_VOID;
}

/// Arguments and sites, the same for every target.
static runtime::KernelInfo infoOf(const std::string &name, const std::string &symbol, const std::vector<targets::ArgSlot> &args, uint32_t argBytes,
                                  const std::vector<targets::Site> &sites) {
  runtime::KernelInfo k;
  k.name = name;
  k.symbol = symbol;
  for (const targets::ArgSlot &a : args) k.args.push_back({a.name, dtypeOf(a.type.elem, a.isSigned), a.type.isPtr, a.read, a.written, a.offset});
  k.argBytes = argBytes;
  for (const targets::Site &s : sites) {
    runtime::SiteInfo site{static_cast<runtime::SiteInfo::Kind>(s.kind), s.file, s.function, s.text, s.line, s.column, s.arg, s.hex, {}};
    for (const targets::Site::Operand &o : s.operands)
      site.operands.push_back({dtypeOf(o.type.elem, o.isSigned), o.type.isPtr, {o.type.shape.begin(), o.type.shape.end()}});
    k.sites.push_back(std::move(site));
  }
  return k;
}

std::optional<ir::AsmExecutor> asmExecutor(const Target &t) {
  if (t.isGpu()) return std::nullopt;
  return t.cpu() ? ir::AsmExecutor{"a CPU", true} : ir::AsmExecutor{"the simulator", false};
}

void finishTile(ir::Module &tile, const Target &t) {
#if TEGULA_HAS_NVIDIA
  if (t.nv()) nvidia::widenDots(tile, *t.nv());
#endif
}

// ---- CPU

static cpu::CpuOptions cpuOptions(const CompileOptions &c, bool codeless = false) {
  cpu::CpuOptions o;
  o.codeless = codeless;
  o.debugInfo = c.debugInfo;
  o.checked = c.checked;
  o.fpFusion = c.fpFusion;
  o.optLevel = c.optLevel;
  o.verify = c.verify;
  return o;
}

static bool generateCpu(const ir::Module &tile, const cpu::CpuTarget &t, const cpu::CpuOptions &o, const std::string &name, Generated &out,
                        TegulaTimings &times, DiagEngine &diag) {
  std::optional<cpu::CpuKernel> compiled = cpu::compile(tile, t, o, diag);
  if (!compiled) return false;
  times.plan = compiled->times.planNs;
  times.emit = compiled->times.emitNs;
  times.optimize = compiled->times.optimizeNs;
  times.codegen = compiled->times.codegenNs;
  const cpu::KernelMeta &m = compiled->meta;
  out.info = infoOf(name, m.symbol, m.args, m.argBytes, m.sites);
  out.info.scratchBytes = m.scratchBytes;
  out.info.stackBytes = m.stackBytes;
  out.info.waits = m.waits;
  out.info.checked = m.checked;
  out.code = std::move(compiled->object);
  return true;
}

// ---- GPU and simulator

#if TEGULA_HAS_NVIDIA
static nvidia::NvOptions nvOptions(const CompileOptions &c, bool codeless = false) {
  nvidia::NvOptions o;
  o.codeless = codeless;
  o.numWarps = static_cast<unsigned>(c.numWarps);
  o.numStages = static_cast<unsigned>(c.numStages);
  o.numCtas = static_cast<unsigned>(c.numCtas);
  o.maxRegisters = static_cast<unsigned>(c.maxnreg);
  o.fpFusion = c.fpFusion;
  o.debugInfo = c.debugInfo;
  o.checked = c.checked;
  o.optLevel = c.optLevel;
  o.verify = c.verify;
  if (c.reproducers) o.reproducers = *c.reproducers;
  return o;
}

/// PTX to a cubin in place, if there is an assembler; else the driver takes the PTX when the kernel is loaded.
static Status assemble(const Target &t, const CompileOptions &o, Generated &g, uint64_t &ns) {
  Status why;
  const cuda::Assembler *a = cuda::Assembler::get(why);
  if (!a) return Status::ok();
  constexpr int readsOurPtx = 12040; // PTX 8.4 (targets/nvidia/Codegen.cpp)
  if (cuda::isForDriver({g.code.data(), g.code.size()}) && (o.keepsPtx || cuda::installedDriverVersion() >= readsOurPtx)) return Status::ok();
  auto start = std::chrono::steady_clock::now();
  cuda::AssembleOptions ao;
  ao.arch = t.arch;
  ao.lineInfo = o.debugInfo;
  cuda::Assembly out;
  if (Status s = a->assemble({g.code.data(), g.code.size()}, g.info.name, ao, out); !s) return s;
  g.code = std::move(out.cubin);
  g.info.gpu.use.registers = out.stats.registers;
  g.info.gpu.use.spillBytes = out.stats.spillStoreBytes;
  g.info.gpu.use.localBytes = out.stats.stackBytes;
  g.info.gpu.use.sharedBytes = g.info.gpu.sharedBytes;
  ns = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
  return Status::ok();
}

/// Options that no GPU of the target can serve.
static Status checkOptions(const nvidia::NvTarget &t, const std::string &target, const CompileOptions &o, const std::string &name) {
  std::string kernel = "`" + name + "`: ", warps = std::to_string(o.numWarps), ctas = std::to_string(o.numCtas);
  if (o.numWarps > 32)
    return Status::exhausted("threads", uint64_t(o.numWarps) * 32, 1024, kernel + "num_warps is " + warps + "; a block of a GPU has at most 32 warps");
  if (o.numCtas & (o.numCtas - 1)) return Status::error(TEGULA_INVALID_ARGUMENT, kernel + "num_ctas is " + ctas + "; it must be a power of 2");
  if (o.numCtas > 1 && t.sm < 90)
    return Status::error(TEGULA_UNSUPPORTED, kernel + "num_ctas is " + ctas + "; clusters need sm_90 or later, the target is " + target);
  if (o.numCtas > 16)
    return Status::exhausted("blocks of a cluster", static_cast<uint64_t>(o.numCtas), 16, kernel + "num_ctas is " + ctas);
  if (o.maxnreg > 255)
    return Status::error(TEGULA_INVALID_ARGUMENT, kernel + "maxnreg is " + std::to_string(o.maxnreg) + "; a thread has at most 255 registers");
  return Status::ok();
}

static bool generateNv(const ir::Module &tile, const Target &t, const CompileOptions &o, const std::string &name, Generated &out,
                       TegulaTimings &times, DiagEngine &diag, Status &status, bool codeless = false) {
  status = checkOptions(*t.nv(), t.name, o, name);
  if (!status) return false;
  std::optional<nvidia::GpuKernel> compiled = nvidia::compile(tile, *t.nv(), nvOptions(o, codeless), diag);
  if (!compiled) return false;
  times.plan = compiled->times.passesNs;
  times.emit = compiled->times.lowerNs;
  times.optimize = compiled->times.optimizeNs;
  times.codegen = compiled->times.codegenNs;
  const nvidia::GpuKernelMeta &m = compiled->meta;
  out.info = infoOf(name, m.symbol, m.args, m.argBytes, m.sites);
  out.info.checked = o.checked;
  for (const nvidia::TensorMap &t : m.tensorMaps) {
    auto term = [](const nvidia::TensorMap::Term &x) { return runtime::TensorMapTerm{x.arg, x.value, x.gridAxis, x.arg2}; };
    runtime::TensorMapInfo info{dtypeOf(t.elem, t.isSigned), t.nanFill, t.swizzle, term(t.base), {}, {}, t.box, t.roundTf32, t.merged};
    for (size_t d = 0; d < t.box.size(); ++d) info.extents.push_back(term(t.extents[d])), info.strides.push_back(term(t.strides[d]));
    out.info.tensorMaps.push_back(std::move(info));
  }
  runtime::GpuInfo &g = out.info.gpu;
  g.threads = m.threads;
  g.clusterCtas = m.clusterCtas;
  for (const targets::SharedTile &tile : m.sharedTiles) g.tiles.push_back({tile.bytes, tile.what, tile.file, tile.line, tile.column});
  if (uint64_t limit = t.nv()->sharedLimit(); m.sharedBytes > limit) {
    status = tooMuchShared(out.info, m.sharedBytes, limit, t.name);
    return false;
  }
  g.sharedBytes = static_cast<uint32_t>(m.sharedBytes);
  g.cooperative = m.cooperative || o.cooperative;
  g.programmaticLaunch = m.programmaticLaunch || o.programmaticLaunch;
  g.use.sharedBytes = g.sharedBytes;
  out.code = std::move(compiled->code);
  return true;
}
#endif

#if TEGULA_HAS_NVIDIA
/// Tiles of which a thread would hold too much are read once for each loop over their parts: counted as the target splits them.
static Work workOnNv(const ir::Module &tile, const nvidia::NvTarget &target, const CompileOptions &o) {
  const nvidia::NvOptions n = nvOptions(o);
  std::unique_ptr<ir::Module> parts = n.numCtas == 1 && tile.kernel() ? gpu::splitTiles(tile, nvidia::NvTarget::lanes * n.numWarps, target.sharedLimit()) : nullptr;
  Work work = countWork(parts ? *parts : tile);
  for (WorkScope &s : work.scopes)
    if (s.kind == WorkScope::Kind::Loop && !s.stages) s.stages = n.numStages;
  return work;
}
#endif

bool generate(const ir::Module &tile, const Target &t, const CompileOptions &o, const std::string &name, Generated &out, TegulaTimings &times,
              DiagEngine &diag, Status &status, Depth depth) {
  const bool codeless = depth != Depth::Code;
  if (t.cpu()) {
    Work work = countWork(tile);
    if (!generateCpu(tile, *t.cpu(), cpuOptions(o, codeless), name, out, times, diag)) return false;
    out.info.work = std::move(work);
    return true;
  }
#if TEGULA_HAS_NVIDIA
  Work work = depth == Depth::Source ? countWork(tile) : workOnNv(tile, *t.nv(), o);
  if (!generateNv(tile, t, o, name, out, times, diag, status, codeless) || diag.hasErrors()) return false;
  // Warps that only copy run ahead as far as the shared memory goes.
  if (out.info.gpu.threads > 32 * static_cast<uint32_t>(o.numWarps))
    for (WorkScope &s : work.scopes) s.stages = s.stages ? 64 : 0;
  out.info.work = std::move(work);
  if (!t.isGpu() || codeless) return static_cast<bool>(status);
  status = assemble(t, o, out, times.assemble);
  if (status || o.debugInfo) return static_cast<bool>(status);
  // Refused. Once more with line tables, so that the message names lines of the kernel.
  CompileOptions withLines = o;
  withLines.debugInfo = true;
  Generated again;
  TegulaTimings unused{};
  Status ignored;
  if (generateNv(tile, t, withLines, name, again, unused, diag, ignored))
    if (Status s = assemble(t, withLines, again, unused.assemble); !s) status = std::move(s);
#endif
  return static_cast<bool>(status);
}

// ---- stages

std::span<const char *const> targetStages(const Target &t) {
  static constexpr const char *onCpu[] = {"cpu", "llvm", "asm", "obj"}, *onGpu[] = {"gpu", "llvm", "ptx", "cubin"}, *onSim[] = {"gpu", "llvm", "obj"};
  if (t.cpu()) return onCpu;
  return t.isGpu() ? std::span<const char *const>(onGpu) : onSim;
}

std::vector<const char *> gpuPassNames() {
  std::vector<const char *> names;
#if TEGULA_HAS_NVIDIA
  for (const gpu::GpuPass &p : gpu::gpuPasses()) names.push_back(p.name);
#endif
  return names;
}

#if TEGULA_HAS_NVIDIA
static std::optional<std::string> emitNv(const ir::Module &tile, const Target &t, const CompileOptions &o, const std::string &name,
                                         std::string_view stage, DiagEngine &diag, Status &status) {
  using nvidia::Stage;
  static constexpr std::pair<std::string_view, Stage> stages[] = {
      {"gpu", Stage::Gpu}, {"llvm", Stage::Llvm}, {"ptx", Stage::Ptx}, {"obj", Stage::Object}};
  status = checkOptions(*t.nv(), t.name, o, name);
  if (!status) return std::nullopt;
  const size_t at = std::min(stage.find('@'), stage.size());
  for (auto [n, which] : stages)
    if (stage.substr(0, at) == n) return nvidia::emitStage(tile, *t.nv(), nvOptions(o), which, diag, stage.substr(std::min(at + 1, stage.size())));
  // A cubin: all the way.
  Generated g;
  TegulaTimings times{};
  if (!generate(tile, t, o, name, g, times, diag, status)) return std::nullopt;
  if (g.code.empty() || g.code[0] != '\x7f') {
    cuda::Assembler::get(status);
    if (status) status = Status::error(TEGULA_UNSUPPORTED, "there is no assembler for a cubin");
    return std::nullopt;
  }
  return std::string(g.code.data(), g.code.size());
}
#endif

std::optional<std::string> emitTargetStage(const ir::Module &tile, const Target &t, const CompileOptions &o, const std::string &name,
                                           std::string_view stage, DiagEngine &diag, Status &status) {
  if (t.cpu()) {
    using cpu::Stage;
    static constexpr std::pair<std::string_view, Stage> stages[] = {
        {"cpu", Stage::Plan}, {"llvm", Stage::Llvm}, {"asm", Stage::Asm}, {"obj", Stage::Object}};
    for (auto [n, which] : stages)
      if (stage == n) return cpu::emitStage(tile, *t.cpu(), cpuOptions(o), which, diag);
    return std::nullopt;
  }
#if TEGULA_HAS_NVIDIA
  return emitNv(tile, t, o, name, stage, diag, status);
#else
  return std::nullopt;
#endif
}

} // namespace tegula::api
