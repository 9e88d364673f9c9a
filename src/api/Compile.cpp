// parse (already done) -> sema -> passes -> target -> object -> loaded code. Every stage is timed.
#include "api/Compile.h"
#include "api/Specialize.h"
#include "passes/Pipeline.h"
#include "support/Hash.h"
#include "syntax/Parser.h"
#include <algorithm>
#include <chrono>
#include <cstring>
#include <elf.h>
#include <link.h>

namespace tegula::api {

static uint64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// ---- the cache key

namespace {
struct BuildIdSearch {
  uintptr_t address;
  std::string id;
};
} // namespace

/// Finds the GNU build id note of the loaded file that holds `address`.
static int findBuildId(dl_phdr_info *info, size_t, void *data) {
  auto *search = static_cast<BuildIdSearch *>(data);
  bool ours = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) &p = info->dlpi_phdr[i];
    uintptr_t begin = info->dlpi_addr + p.p_vaddr;
    ours |= p.p_type == PT_LOAD && search->address >= begin && search->address < begin + p.p_memsz;
  }
  if (!ours) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) &p = info->dlpi_phdr[i];
    if (p.p_type != PT_NOTE) continue;
    auto *at = reinterpret_cast<const char *>(info->dlpi_addr + p.p_vaddr), *end = at + p.p_memsz;
    while (end - at >= static_cast<ptrdiff_t>(sizeof(ElfW(Nhdr)))) {
      auto *n = reinterpret_cast<const ElfW(Nhdr) *>(at);
      const char *name = at + sizeof *n, *desc = name + ((n->n_namesz + 3) & ~3u);
      if (n->n_type == NT_GNU_BUILD_ID && n->n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0)
        search->id.assign(desc, n->n_descsz);
      at = desc + ((n->n_descsz + 3) & ~3u);
    }
  }
  return 1;
}

/// What the code of this very compiler hashes to: kernels of another build are never taken for ours.
static const std::string &compilerId() {
  static const std::string id = [] {
    BuildIdSearch s{reinterpret_cast<uintptr_t>(&findBuildId), {}};
    dl_iterate_phdr(findBuildId, &s);
    return std::string(tegula_version()) + "/" + s.id;
  }();
  return id;
}

static runtime::Digest cacheKey(const CompileRequest &r) {
  Hasher h;
  h.field("tegula kernel 1").field(compilerId()).field(uint64_t(TEGULA_CPU_ABI_VERSION));
  h.field(r.function->fn->contentHash()).field(r.function->fn->name).field(specKey(r.specs));
  h.field(r.options.word()).field(uint64_t(r.options.maxnreg)).field(cpu::targetKey(r.target));
  return h.digest();
}

// ---- stages

static sema::Options semaOptions(const CompileRequest &r, bool annotate) {
  sema::Options o;
  o.target.name = "cpu";
  o.target.debug = r.options.debug;
  o.target.sanitizeOverflow = r.options.sanitizeOverflow;
  o.target.fpFusion = r.options.fpFusion;
  o.annotate = annotate;
  return o;
}

static cpu::CpuOptions cpuOptions(const CompileRequest &r) {
  cpu::CpuOptions o;
  o.debugInfo = r.options.debugInfo;
  o.checked = r.options.checked;
  o.fpFusion = r.options.fpFusion;
  o.optLevel = r.options.optLevel;
  return o;
}

/// Source to tile IR after the passes; null after reporting.
static std::unique_ptr<ir::Module> toTile(const CompileRequest &r, TegulaTimings &times, DiagEngine &diag, bool print) {
  uint64_t start = now();
  sema::Instantiation inst = sema::instantiate(r.function->fn, r.specs, semaOptions(r, false), diag);
  uint64_t middle = now();
  times.sema = middle - start;
  if (print) r.function->context->print(TEGULA_STATIC_PRINT, inst.staticOutput);
  if (!inst.module || diag.hasErrors()) return nullptr;
  runPipeline(*inst.module);
  times.passes = now() - middle;
  return std::move(inst.module);
}

static TegulaDtype dtypeOf(ir::Elem e, bool isSigned) {
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

/// The target's words for a kernel in the runtime's: the same facts without types of the IR.
static runtime::KernelInfo infoOf(const cpu::KernelMeta &m, const std::string &name) {
  runtime::KernelInfo k;
  k.name = name;
  k.symbol = m.symbol;
  for (const cpu::ArgSlot &a : m.args)
    k.args.push_back({a.name, dtypeOf(a.type.elem, a.isSigned), a.type.isPtr, a.written, a.offset});
  k.argBytes = m.argBytes;
  k.scratchBytes = m.scratchBytes;
  k.checked = m.checked;
  for (const cpu::Site &s : m.sites) {
    runtime::SiteInfo site{static_cast<runtime::SiteInfo::Kind>(s.kind), s.file, s.function, s.text, s.line, s.column, s.arg, s.hex, {}};
    for (const cpu::Site::Operand &o : s.operands)
      site.operands.push_back({dtypeOf(o.type.elem, o.isSigned), o.type.isPtr, {o.type.shape.begin(), o.type.shape.end()}});
    k.sites.push_back(std::move(site));
  }
  return k;
}

// ---- kernels

/// Runtime leaves in order, against the slots of the argument block. False if they do not match.
static bool makePlan(TegulaKernel &k, const std::vector<Param> &params) {
  std::vector<PackItem> plan;
  uint32_t leaf = 0;
  auto visit = [&](auto &&self, const sema::ParamSpec &s, const Param *p) -> void {
    if (s.kind == sema::ParamSpec::Kind::Tuple) {
      for (const sema::ParamSpec &item : s.items) self(self, item, nullptr);
      return;
    }
    if (s.kind == sema::ParamSpec::Kind::Runtime)
      plan.push_back({leaf, 0, s.dtype.scalar, s.dtype.isPtr, false, p && p->annotated, static_cast<int32_t>(s.divisibility)});
    ++leaf;
  };
  for (size_t i = 0; i < k.specs.size(); ++i) visit(visit, k.specs[i], &params[i]);
  if (plan.size() != k.info.args.size()) return false;
  for (size_t i = 0; i < plan.size(); ++i) {
    plan[i].offset = k.info.args[i].offset;
    plan[i].written = k.info.args[i].written;
    if (plan[i].isPtr != k.info.args[i].isPtr) return false;
  }
  k.pack = std::move(plan);
  k.leafCount = leaf;
  return true;
}

static void describe(TegulaKernel &k, const CompileRequest &r, const runtime::Digest &key) {
  k.context = r.function->context;
  k.keep = r.function->keep;
  k.fn = r.function->fn;
  k.specs = r.specs;
  k.options = r.options;
  k.target = r.target;
  k.targetName = r.targetName;
  k.name = r.function->fn->name;
  k.signature = signatureText(r.function->params(), r.specs);
  for (uint8_t b : key) k.hash += "0123456789abcdef"[b >> 4], k.hash += "0123456789abcdef"[b & 15];
  k.timings.size = sizeof k.timings;
}

static bool compileObject(const CompileRequest &r, TegulaKernel &k) {
  DiagEngine diag;
  k.timings.parse = r.function->parseNs;
  std::unique_ptr<ir::Module> tile = toTile(r, k.timings, diag, true);
  if (!tile) {
    if (report(diag) == TEGULA_OK) fail(TEGULA_INTERNAL_ERROR, "compiling `" + k.name + "` failed without a message");
    return false;
  }
  std::optional<cpu::CpuKernel> compiled = cpu::compile(*tile, r.target, cpuOptions(r), diag);
  if (!compiled || diag.hasErrors()) {
    if (report(diag) == TEGULA_OK) fail(TEGULA_INTERNAL_ERROR, "generating code for `" + k.name + "` failed without a message");
    return false;
  }
  report(diag);
  k.timings.plan = compiled->times.planNs;
  k.timings.emit = compiled->times.emitNs;
  k.timings.optimize = compiled->times.optimizeNs;
  k.timings.codegen = compiled->times.codegenNs;
  k.object = std::move(compiled->object);
  k.info = infoOf(compiled->meta, k.name);
  return true;
}

TegulaKernel *compileKernel(const CompileRequest &r) {
  uint64_t start = now();
  TegulaContext &c = *r.function->context;
  Ref<TegulaKernel> k;
  {
    auto *fresh = new TegulaKernel;
    k = Ref(fresh);
    release(fresh);
  }
  runtime::Digest key = cacheKey(r);
  describe(*k, r, key);
  clearDiagnostics();
  runtime::CacheEntry entry;
  if (c.disk.find(key, entry)) {
    k->origin = TEGULA_FROM_DISK_CACHE;
    k->info = std::move(entry.info);
    k->object = std::move(entry.object);
  } else {
    if (!compileObject(r, *k)) return nullptr;
    ++c.compiles;
    entry = {k->info, k->object, {{"name", k->name}, {"target", k->targetName}, {"signature", k->signature}}};
    c.disk.store(key, entry);
  }
  if (!makePlan(*k, r.function->params())) {
    fail(TEGULA_INTERNAL_ERROR, "`" + k->name + "`: the compiled kernel has other arguments than its signature");
    return nullptr;
  }
  uint64_t beforeLoad = now();
  if (r.load) {
    runtime::Status status;
    k->code = runtime::CpuKernel::load(k->info, k->object, status);
    if (!k->code) {
      fail(status);
      return nullptr;
    }
  }
  uint64_t end = now();
  k->timings.load = end - beforeLoad;
  k->timings.total = end - start + k->timings.parse;
  retain(k.get());
  return k.get();
}

static KernelNode *findNode(TegulaFunction &f, const BoundCall &call, uint64_t hash) {
  KernelNode *n = f.buckets[hash % TegulaFunction::bucketCount].load(std::memory_order_acquire);
  for (; n; n = n->next)
    if (n->hash == hash && n->key.size() == call.wordCount &&
        std::memcmp(n->key.data(), call.words, call.wordCount * sizeof(uint64_t)) == 0)
      return n;
  return nullptr;
}

/// Waits for the thread that compiles the same; takes its result or its error over.
static TegulaKernel *await(TegulaFunction &f, std::unique_lock<std::mutex> &lock, PendingCompile &p) {
  f.compiled.wait(lock, [&] { return p.done; });
  if (!p.kernel) adopt(p.report);
  return p.kernel;
}

TegulaKernel *kernelFor(TegulaFunction &f, const TegulaArg *args, size_t count, const CompileOptions &options,
                        const BoundCall &call) {
  uint64_t hash = call.hash();
  if (KernelNode *n = findNode(f, call, hash)) return n->kernel;
  std::vector<uint64_t> key(call.words, call.words + call.wordCount);
  std::unique_lock lock(f.mutex);
  if (KernelNode *n = findNode(f, call, hash)) return n->kernel;
  if (auto it = f.pending.find(key); it != f.pending.end()) {
    std::shared_ptr<PendingCompile> p = it->second;
    return await(f, lock, *p);
  }
  auto mine = std::make_shared<PendingCompile>();
  f.pending.emplace(key, mine);
  lock.unlock();

  CompileRequest r{&f, specsOf(f, args, count), options, f.context->hostTarget(), f.context->cpuInfo().target, true};
  TegulaKernel *kernel = compileKernel(r);

  lock.lock();
  mine->done = true;
  mine->kernel = kernel;
  if (kernel) {
    std::atomic<KernelNode *> &bucket = f.buckets[hash % TegulaFunction::bucketCount];
    bucket.store(new KernelNode{key, hash, kernel, bucket.load(std::memory_order_relaxed)}, std::memory_order_release);
  } else {
    mine->report = snapshot();
  }
  f.pending.erase(key);
  f.compiled.notify_all();
  return kernel;
}

// ---- single stages

bool checkStage(std::string_view stage) {
  std::string list;
  for (const char *n : stageNames) {
    if (stage == n) return true;
    list += (list.empty() ? "" : ", ") + std::string(n);
  }
  fail(TEGULA_NOT_FOUND, "there is no stage `" + std::string(stage) + "`; stages are " + list);
  return false;
}

bool emitStage(const CompileRequest &r, std::string_view stage, std::string &out) {
  if (!checkStage(stage)) return false;
  const lang::Function &fn = *r.function->fn;
  if (stage == "source") return out = std::string(fn.def->loc.text()), true;
  if (stage == "ast") return out = syntax::print(*fn.tree), true;
  DiagEngine diag;
  TegulaTimings times{};
  std::optional<std::string> text;
  if (stage == "tree") {
    sema::Instantiation inst = sema::instantiate(r.function->fn, r.specs, semaOptions(r, true), diag);
    if (inst.module) text = std::move(inst.tree);
  } else if (std::unique_ptr<ir::Module> tile = toTile(r, times, diag, false)) {
    static constexpr std::pair<std::string_view, cpu::Stage> stages[] = {
        {"cpu", cpu::Stage::Plan}, {"llvm", cpu::Stage::Llvm}, {"asm", cpu::Stage::Asm}, {"obj", cpu::Stage::Object}};
    if (stage == "tile") text = ir::print(*tile);
    for (auto [name, which] : stages)
      if (stage == name) text = cpu::emitStage(*tile, r.target, cpuOptions(r), which, diag);
  }
  if (TegulaStatus s = report(diag); s != TEGULA_OK) return false;
  if (!text) {
    fail(TEGULA_INTERNAL_ERROR, "stage `" + std::string(stage) + "` of `" + fn.name + "` failed without a message");
    return false;
  }
  out = std::move(*text);
  return true;
}

} // namespace tegula::api
