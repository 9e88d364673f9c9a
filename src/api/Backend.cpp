// Targets by name, and calls of the code generators.
#include "api/Backend.h"
#include "api/Handles.h"
#include "gpu/Passes.h"
#include "runtime/cuda/Assembler.h"
#include "runtime/cuda/Driver.h"
#include <chrono>
#include <cstring>

namespace tegula::api {

using runtime::Status;
namespace cuda = runtime::cuda;

// ---- targets

std::optional<Target> parseTarget(std::string_view name) {
  for (const targets::Family *f : targets::families())
    if (targets::TargetRef t = f->parse(name)) {
      const bool assembled = t->makesPtx();
      return Target{std::move(t), std::string(name), assembled ? std::string(name) : ""};
    }
  return std::nullopt;
}

std::vector<std::string> targetNames() {
  std::vector<std::string> names;
  for (const targets::Family *f : targets::families())
    for (std::string &n : f->names()) names.push_back(std::move(n));
  return names;
}

std::string noSuchTarget(std::string_view name) {
  std::string names;
  for (const std::string &n : targetNames()) names += (names.empty() ? "" : ", ") + n;
  return "there is no target `" + std::string(name) + "`; targets are " + names;
}

Target hostProcessor() {
  for (const targets::Family *f : targets::families())
    if (f->host) {
      targets::TargetRef t = f->host();
      std::string name = t->portable();
      return {std::move(t), std::move(name), {}};
    }
  return {};
}

std::optional<Target> targetOfGpu(std::string_view driver, uint32_t capability, std::string &why) {
  why = "this build has none for GPUs";
  for (const targets::Family *f : targets::families()) {
    if (!f->driver || driver != f->driver) continue;
    if (std::optional<targets::Family::GpuCode> code = f->forGpu(capability)) {
      std::optional<Target> t = parseTarget(code->target);
      if (t) t->arch = std::move(code->arch);
      return t;
    }
    why = std::string("it needs ") + f->oldestGpu + " or later";
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
  if (!t->makesPtx()) return t->key();
  const std::string &assembler = cuda::Assembler::identity();
  return t->key() + "|" + t.arch + "|" + (assembler.empty() ? assemblerName() : assembler);
}

void describeTarget(const Target &t, lang::TargetInfo &out) {
  const targets::Language l = t->language();
  out.name = l.name;
  out.cudaCapability = l.capability;
  out.defaultDotPrecision = l.dotPrecision;
}

targets::Options targetOptions(const CompileOptions &c, Depth depth) {
  targets::Options o;
  o.numWarps = static_cast<unsigned>(c.numWarps);
  o.numStages = static_cast<unsigned>(c.numStages);
  o.numCtas = static_cast<unsigned>(c.numCtas);
  // A limit above a thread's maximum (255) has no effect: assemblers ignore it, and libraries compute 65536 / threads.
  o.maxRegisters = c.maxnreg > 255 ? 0 : static_cast<unsigned>(c.maxnreg);
  // All blocks of a cooperative launch must run at once; and a caller that bounds registers has chosen how many warps
  // hold the rows.
  o.clusters = c.cooperative || o.maxRegisters ? gpu::Clusters::Never : static_cast<gpu::Clusters>(c.clusters);
  o.fpFusion = c.fpFusion;
  o.keepsSubnormals = c.keepsSubnormals;
  o.debugInfo = c.debugInfo;
  o.checked = c.checked;
  o.wide = c.wide;
  o.verify = c.verify;
  o.optLevel = c.optLevel;
  o.depth = depth;
  o.facts = c.facts;
  if (c.reproducers) o.reproducers = *c.reproducers;
  return o;
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

static runtime::TensorMapInfo infoOf(const targets::TensorMap &t) {
  auto term = [](const targets::TensorMap::Term &x) {
    return runtime::TensorMapTerm{x.arg, x.value, x.gridAxis, x.arg2};
  };
  runtime::TensorMapInfo info{
      dtypeOf(t.elem, t.isSigned), t.nanFill, t.swizzle, term(t.base), {}, {}, t.box, t.roundTf32, t.merged};
  for (size_t d = 0; d < t.box.size(); ++d)
    info.extents.push_back(term(t.extents[d])), info.strides.push_back(term(t.strides[d]));
  return info;
}

static runtime::KernelInfo infoOf(const std::string &name, const targets::KernelMeta &m) {
  runtime::KernelInfo k;
  k.name = name;
  k.symbol = m.symbol;
  k.checked = m.checked;
  k.scratchBytes = m.scratchBytes;
  k.stackBytes = m.stackBytes;
  k.waits = m.waits;
  for (const targets::ArgSlot &a : m.args)
    k.args.push_back({a.name, dtypeOf(a.type.elem, a.isSigned), a.type.isPtr, a.read, a.written, a.offset});
  k.argBytes = m.argBytes;
  for (const targets::Site &s : m.sites) {
    runtime::SiteInfo site{
        static_cast<runtime::SiteInfo::Kind>(s.kind), s.file, s.function, s.text, s.line, s.column, s.arg, s.hex, {}};
    for (const targets::Site::Operand &o : s.operands)
      site.operands.push_back(
          {dtypeOf(o.type.elem, o.isSigned), o.type.isPtr, {o.type.shape.begin(), o.type.shape.end()}});
    k.sites.push_back(std::move(site));
  }
  for (const targets::TensorMap &t : m.tensorMaps) k.tensorMaps.push_back(infoOf(t));
  k.gpu.threads = m.threads;
  k.gpu.clusterCtas = m.clusterCtas;
  k.gpu.splitsByGrid = m.splitsByGrid;
  k.forms = m.forms;
  k.gpu.mostBlocks = m.mostBlocks;
  for (const targets::SharedTile &t : m.sharedTiles) k.gpu.tiles.push_back({t.bytes, t.what, t.file, t.line, t.column});
  return k;
}

/// Checks for options that no machine of the target supports.
static Status checkOptions(const Target &t, const targets::Options &o, const std::string &name) {
  using Kind = targets::Refusal::Kind;
  const targets::Refusal r = t->refuses(o);
  const std::string text = "`" + name + "`: " + r.text;
  switch (r.kind) {
  case Kind::None: return Status::ok();
  case Kind::Exhausted: return Status::exhausted(r.resource, r.wanted, r.most, text);
  case Kind::Invalid: return Status::error(TEGULA_INVALID_ARGUMENT, text);
  case Kind::Unsupported: return Status::error(TEGULA_UNSUPPORTED, text);
  }
  return Status::ok();
}

// ---- code

/// Assembles PTX to a cubin in place, if there is an assembler. Without one, and for kernels that it compiles to worse
/// code, the driver takes the PTX when the kernel is loaded.
static Status assemble(const Target &t, const CompileOptions &o, Generated &g, uint64_t &ns) {
  Status why;
  const cuda::Assembler *a = cuda::Assembler::get(why);
  if (!a) return Status::ok();
  const std::string_view ptx(g.code.data(), g.code.size());
  if (!o.asCubin && (o.keepsPtx ? cuda::isForWholeProgram(ptx) : a->leavesToDriver(ptx))) return Status::ok();
  auto start = std::chrono::steady_clock::now();
  cuda::AssembleOptions ao;
  ao.arch = t.arch;
  ao.lineInfo = o.debugInfo;
  ao.sharedBytes = g.info.gpu.sharedBytes;
  cuda::Assembly out;
  if (Status s = a->assemble(ptx, g.info.name, ao, out); !s) return s;
  g.code = std::move(out.cubin);
  g.info.gpu.use.registers = out.stats.registers;
  g.info.gpu.use.spillBytes = out.stats.spillStoreBytes;
  g.info.gpu.use.localBytes = out.stats.stackBytes;
  g.info.gpu.use.sharedBytes = g.info.gpu.sharedBytes;
  g.serialized = std::move(out.stats.serialized);
  ns = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
  return Status::ok();
}

static bool generateOnce(const ir::Module &tile, const Target &t, const CompileOptions &o, const std::string &name,
                         Generated &out, TegulaTimings &times, DiagEngine &diag, Status &status, Depth depth,
                         const std::function<bool()> &interrupted = {}) {
  targets::Options options = targetOptions(o, depth);
  options.interrupted = interrupted;
  status = checkOptions(t, options, name);
  if (!status) return false;
  std::optional<targets::Compiled> compiled = t->compile(tile, options, diag);
  if (!compiled) return false;
  times.plan = compiled->times.planNs;
  times.emit = compiled->times.emitNs;
  times.optimize = compiled->times.optimizeNs;
  times.codegen = compiled->times.codegenNs;
  out.info = infoOf(name, compiled->meta);
  out.info.work = std::move(compiled->work);
  out.code = std::move(compiled->code);
  if (t.isCpu()) return true;
  runtime::GpuInfo &g = out.info.gpu;
  const targets::KernelMeta &m = compiled->meta;
  if (uint64_t limit = t->sharedLimit(); m.sharedBytes > limit) {
    status = tooMuchShared(out.info, m.sharedBytes, limit, t.name);
    return false;
  }
  g.sharedBytes = g.use.sharedBytes = static_cast<uint32_t>(m.sharedBytes);
  g.cooperative = m.cooperative || o.cooperative;
  g.programmaticLaunch = m.programmaticLaunch || o.programmaticLaunch;
  return true;
}

bool generate(const ir::Module &tile, const Target &t, const CompileOptions &o, const std::string &name, Generated &out,
              TegulaTimings &times, DiagEngine &diag, Status &status, Depth depth,
              const std::function<bool()> &interrupted) {
  bool ended = false;
  const auto asked = [&] { return ended = ended || (interrupted && interrupted()); };
  const bool isForAssembler = t->makesPtx() && depth == Depth::Code;
  const cuda::AssemblerOpening opening(isForAssembler);
  const bool made = !asked() && generateOnce(tile, t, o, name, out, times, diag, status, depth, asked);
  const bool assembles = made && !diag.hasErrors() && isForAssembler;
  if (assembles) asked();
  if (ended) status = Status::error(TEGULA_CANCELLED, "the compilation of `" + name + "` was interrupted");
  if (!made || ended || diag.hasErrors()) return false;
  if (!assembles) return static_cast<bool>(status);
  status = assemble(t, o, out, times.assemble);
  if (status || o.debugInfo) return static_cast<bool>(status);
  // Rejected. Tries again with line tables, so that the message names lines of the kernel.
  CompileOptions withLines = o;
  withLines.debugInfo = true;
  Generated again;
  TegulaTimings unused{};
  Status ignored;
  if (generateOnce(tile, t, withLines, name, again, unused, diag, ignored, depth))
    if (Status s = assemble(t, withLines, again, unused.assemble); !s) status = std::move(s);
  return static_cast<bool>(status);
}

// ---- stages

/// The last stage of a target that makes PTX: the assembler's output.
static constexpr const char *assembled = "cubin";

std::vector<const char *> targetStages(const Target &t) {
  std::span<const char *const> own = t->stages();
  std::vector<const char *> names(own.begin(), own.end());
  if (t->makesPtx()) names.push_back(assembled);
  return names;
}

std::vector<const char *> gpuPassNames() {
  std::vector<const char *> names;
  for (const gpu::GpuPass &p : gpu::gpuPasses()) names.push_back(p.name);
  return names;
}

std::optional<std::string> emitTargetStage(const ir::Module &tile, const Target &t, const CompileOptions &o,
                                           const std::string &name, std::string_view stage, DiagEngine &diag,
                                           Status &status) {
  const targets::Options options = targetOptions(o);
  status = checkOptions(t, options, name);
  if (!status) return std::nullopt;
  Generated g;
  TegulaTimings times{};
  if (stage == "ptx" && t->makesPtx()) {
    // As for a launch: a kernel that needs more shared memory than a block has is rejected before code generation, the
    // longest stage.
    if (!generateOnce(tile, t, o, name, g, times, diag, status, Depth::Code)) return std::nullopt;
    return std::string(g.code.data(), g.code.size() - 1); // without the NUL
  }
  if (stage != assembled) {
    const size_t at = std::min(stage.find('@'), stage.size());
    return t->emit(tile, options, stage.substr(0, at), stage.substr(std::min(at + 1, stage.size())), diag);
  }
  CompileOptions assembles = o;
  assembles.asCubin = true;
  if (!generate(tile, t, assembles, name, g, times, diag, status)) return std::nullopt;
  if (g.code.empty() || g.code[0] != '\x7f') {
    cuda::Assembler::get(status);
    if (status) status = Status::error(TEGULA_UNSUPPORTED, "there is no assembler for a cubin");
    return std::nullopt;
  }
  return std::string(g.code.data(), g.code.size());
}

} // namespace tegula::api
