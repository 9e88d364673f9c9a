// parse (already done) -> sema -> passes -> target -> object -> loaded code. Every stage is timed.
#include "api/Compile.h"
#include "api/Bundles.h"
#include "api/Record.h"
#include "api/Specialize.h"
#include "ir/Walk.h"
#include "passes/Pipeline.h"
#include "passes/SplitLoops.h"
#include "support/BuildId.h"
#include "support/Clock.h"
#include "support/Hash.h"
#include "syntax/Parser.h"
#include <algorithm>
#include <cstring>
#include <elf.h>
#include <link.h>

namespace tegula::api {

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
    if (search->id.empty())
      search->id = buildIdIn({reinterpret_cast<const char *>(info->dlpi_addr + p.p_vaddr), p.p_memsz});
  }
  return 1;
}

/// The hash of this compiler's code: kernels of another build are never used.
const std::string &compilerId() {
  static const std::string &id = *new std::string([] {
    BuildIdSearch s{reinterpret_cast<uintptr_t>(&findBuildId), {}};
    dl_iterate_phdr(findBuildId, &s);
    return std::string(tegula_version()) + "/" + s.id;
  }());
  return id;
}

static runtime::Digest cacheKey(const CompileRequest &r) {
  Hasher h;
  h.field("tegula kernel 2").field(compilerId()).field(uint64_t(TEGULA_CPU_ABI_VERSION));
  h.field(r.function->fn->contentHash()).field(r.name).field(specKey(r.specs));
  CompileOptions o = r.options;
  o.device = 0; // GPUs of one kind share the code
  h.field(o.word()).field(uint64_t(r.options.maxnreg)).field(targetKey(r.target));
  if (o.keepsPtx) h.field("ptx");
  if (o.facts.form) h.field("form").field(uint64_t(o.facts.form));
  return h.digest();
}

// ---- stages

static sema::Options semaOptions(const CompileRequest &r, bool annotate) {
  sema::Options o;
  describeTarget(r.target, o.target);
  o.target.numWarps = r.options.numWarps;
  o.target.debug = r.options.debug;
  o.target.sanitizeOverflow = r.options.sanitizeOverflow;
  o.target.fpFusion = r.options.fpFusion;
  o.target.level = r.options.level;
  o.target.strict = r.options.strict;
  o.annotate = annotate;
  return o;
}

bool preparedTile(ir::Module &tile, const Target &target, const CompileOptions &options, DiagEngine &diag) {
  const ir::StageVerifier verifier(options.verify, diag, options.reproducers ? *options.reproducers : "");
  if (!verifier.check(tile, "instantiation")) return false;
  if (std::optional<ir::AsmExecutor> by = target->asmExecutor())
    if (!ir::expandAsm(tile, *by, diag) || !verifier.check(tile, "expand-asm")) return false;
  if (!target->prepare(tile, targetOptions(options), verifier)) return false;
  checkSplitLoops(tile, diag);
  return !diag.hasErrors();
}

/// Source to tile IR after the passes; null after reporting.
static std::unique_ptr<ir::Module> toTile(const CompileRequest &r, TegulaTimings &times, DiagEngine &diag, bool print) {
  uint64_t start = steadyNs();
  sema::Instantiation inst = sema::instantiate(r.function->fn, r.specs, semaOptions(r, false), diag);
  uint64_t middle = steadyNs();
  times.sema = middle - start;
  if (print) r.function->context->print(TEGULA_STATIC_PRINT, inst.staticOutput);
  if (!inst.module || diag.hasErrors()) return nullptr;
  if (!r.name.empty()) inst.module->kernel()->name = r.name;
  if (!preparedTile(*inst.module, r.target, r.options, diag)) return nullptr;
  times.passes = steadyNs() - middle;
  return std::move(inst.module);
}

// ---- kernels

std::string hexOf(const runtime::Digest &key) {
  std::string text;
  for (uint8_t b : key) text += "0123456789abcdef"[b >> 4], text += "0123456789abcdef"[b & 15];
  return text;
}

bool makePlan(TegulaKernel &k) {
  std::vector<PackItem> plan;
  uint32_t leaf = 0;
  auto visit = [&](auto &&self, const sema::ParamSpec &s, const KernelParam *p) -> void {
    if (s.kind == sema::ParamSpec::Kind::Tuple) {
      for (const sema::ParamSpec &item : s.items) self(self, item, nullptr);
      return;
    }
    if (s.kind == sema::ParamSpec::Kind::Runtime)
      plan.push_back({leaf, 0, s.dtype.scalar, s.dtype.isPtr, false, p && p->annotated,
                      static_cast<int32_t>(s.divisibility), s.overlap});
    ++leaf;
  };
  for (size_t i = 0; i < k.specs.size(); ++i) visit(visit, k.specs[i], &k.params[i]);
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
  for (const Param &p : r.function->params()) k.params.push_back({p.name, p.annotated});
  k.specs = r.specs;
  k.options = r.options;
  k.target = r.target;
  k.name = r.name;
  k.signature = signatureText(r.function->params(), r.specs);
  k.key = key;
  k.hash = hexOf(key);
  k.timings.size = sizeof k.timings;
}

std::vector<runtime::RemarkInfo> remarksOf(const DiagEngine &diag, const ir::Module &tile, const Generated &made) {
  std::vector<runtime::RemarkInfo> list;
  for (const Diagnostic &d : diag.all()) {
    if (d.kind->severity != Severity::Remark) continue;
    LineCol at = d.loc ? d.loc.file->lineCol(d.loc.begin) : LineCol();
    list.push_back({d.kind->name, d.message(), d.loc ? d.loc.file->name() : "", at.line, at.col});
  }
  if (!made.serialized.empty()) {
    Loc first; // of the dots: the assembler names no line
    ir::anyOp(*tile.kernel()->block(),
              [&](const ir::Op &op) { return op.kind == ir::OpKind::Dot && (first = op.loc, true); });
    LineCol at = first ? first.file->lineCol(first.begin) : LineCol();
    list.push_back({"dotsSerialized",
                    "the dots of this kernel wait for each other: " + made.serialized +
                        "; smaller blocks, more warps or fewer stages help",
                    first ? first.file->name() : "", at.line, at.col});
  }
  return list;
}

/// Adds remarks that only the assembler, or the driver in its place, can give; so they are not in the cache.
static void remarkSpills(TegulaKernel &k) {
  runtime::GpuUse use = useOf(k);
  if (use.spillBytes == 0) return;
  const Loc place = k.fn->def->loc.origin();
  const SourceFile *file = place.file;
  LineCol at = file ? file->lineCol(place.begin) : LineCol();
  k.info.remarks.push_back(
      {"spills",
       std::to_string(use.spillBytes) + " bytes of registers are spilled to memory in each thread, which has " +
           std::to_string(use.registers) + " registers; more warps, smaller blocks or a larger maxnreg help",
       file ? file->name() : "", at.line, at.col});
}

/// A kernel of the function with the same machine code. On a CPU num_warps, num_stages, num_ctas and maxnreg have no
/// effect unless the source reads them during compilation, and then the tile IR differs.
static const TegulaKernel *twinOf(const CompileRequest &r, const TegulaKernel &k) {
  CompileOptions mine = k.options;
  for (auto &bucket : r.function->buckets)
    for (const KernelNode *n = bucket.load(std::memory_order_acquire); n; n = n->next) {
      const TegulaKernel &other = *n->kernel;
      mine.numWarps = other.options.numWarps, mine.numStages = other.options.numStages,
      mine.numCtas = other.options.numCtas;
      if (other.fn == k.fn && other.tileDigest == k.tileDigest && other.name == k.name &&
          other.target.sameCode(k.target) && mine.word() == other.options.word())
        return &other;
    }
  return nullptr;
}

static bool compileObject(const CompileRequest &r, TegulaKernel &k) {
  DiagEngine diag;
  k.timings.parse = r.function->parseNs;
  std::unique_ptr<ir::Module> tile = toTile(r, k.timings, diag, true);
  if (!tile) {
    if (report(diag) == TEGULA_OK) fail(TEGULA_INTERNAL_ERROR, "compiling `" + k.name + "` failed without a message");
    return false;
  }
  if (r.target.isCpu()) {
    k.tileDigest = Hasher().field(ir::print(*tile)).field(uint64_t(r.options.facts.form)).digest();
    if (const TegulaKernel *twin = twinOf(r, k)) {
      report(diag);
      k.object = twin->object;
      k.info = twin->info;
      return true;
    }
  }
  Generated out;
  runtime::Status status;
  // Ctrl-C: Python's handlers may fork(), or launch kernels.
  const auto interrupted = [&c = *r.function->context] {
    if (!c.interrupt) return false;
    GatePause pause;
    return c.interrupt(c.interruptUser) != 0;
  };
  bool made = generate(*tile, r.target, r.options, k.name, out, k.timings, diag, status, Depth::Code, interrupted);
  if (!status) return fail(status), false;
  if (!made || diag.hasErrors()) {
    if (report(diag) == TEGULA_OK)
      fail(TEGULA_INTERNAL_ERROR, "generating code for `" + k.name + "` failed without a message");
    return false;
  }
  report(diag);
  k.object = std::move(out.code);
  k.info = std::move(out.info);
  k.info.remarks = remarksOf(diag, *tile, out);
  return true;
}

/// Symbol tables need names of letters, digits and underscores only.
static bool checkName(const CompileRequest &r, const std::string &name) {
  auto allowed = [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  if (!name.empty() && !(name[0] >= '0' && name[0] <= '9') && std::all_of(name.begin(), name.end(), allowed))
    return true;
  fail(TEGULA_INVALID_ARGUMENT, "`" + r.function->fn->name + "`: `" + name +
                                    "` is an invalid kernel identifier: letters, digits and underscores make one");
  return false;
}

bool giveName(CompileRequest &r) {
  if (!r.name.empty()) return true;
  r.name = r.function->fn->name;
  if (!r.function->namer) return true;
  char text[1024] = "";
  std::string signature = signatureText(r.function->params(), r.specs);
  int32_t given;
  {
    GatePause pause;
    given = r.function->namer(r.function->namerUser, signature.c_str(), text, sizeof text);
  }
  if (given < 0) return true;
  if (!given) {
    fail(TEGULA_INVALID_ARGUMENT, "`" + r.name + "`: its `repr` gives no name");
    return false;
  }
  text[sizeof text - 1] = 0;
  std::string name = text;
  if (size_t dot = name.rfind('.'); dot != name.npos) name.erase(0, dot + 1);
  if (!checkName(r, name)) return false;
  r.name = std::move(name);
  return true;
}

bool loadOn(TegulaKernel &k, DeviceEntry &device) {
  runtime::Status status;
  k.device = &device;
  k.options.device = static_cast<uint8_t>(device.index);
  k.code = device.device->load(k.info, k.object, status);
  if (!k.code) fail(status);
  return k.code != nullptr;
}

/// The form that the request wants, if it differs from `found`; else 0.
static uint8_t otherForm(const CompileRequest &r, const LaunchForms &found) {
  const LaunchFacts &facts = r.options.facts;
  if (facts.form || !found.asks()) return 0;
  const uint8_t wanted = found.formFor(facts);
  return wanted == found.form ? 0 : wanted;
}

/// Code for the kernel, from a bundle, the disk cache or the compiler. False: the last error is set. If the cache's
/// code has another form than the launch wants, request and key are changed to that form.
static bool findObject(TegulaContext &c, CompileRequest &r, runtime::Digest &key, TegulaKernel &k) {
  std::string trouble;
  if (!r.options.facts.form && takeBundled(r, k, BundleFit::Exact, trouble)) return true;
  runtime::CacheEntry entry;
  if (c.disk.find(key, entry)) {
    if (const uint8_t form = otherForm(r, entry.info.forms)) {
      CompileRequest other = r;
      other.options.facts.form = form;
      runtime::Digest itsKey = cacheKey(other);
      // If compilation is not allowed, any form will do.
      if (runtime::CacheEntry its;
          c.noJit.load(std::memory_order_relaxed) == TEGULA_NO_JIT_OFF || c.disk.find(itsKey, its)) {
        r = std::move(other), key = itsKey;
        return findObject(c, r, key, k);
      }
    }
    k.origin = TEGULA_FROM_DISK_CACHE;
    k.info = std::move(entry.info);
    k.object = std::move(entry.object);
    return true;
  }
  // If compilation is not allowed, code that assumes less will do.
  if (c.noJit.load(std::memory_order_relaxed) != TEGULA_NO_JIT_OFF && takeBundled(r, k, BundleFit::General, trouble))
    return true;
  if (!mayCompile(r, trouble) || !compileObject(r, k)) return false;
  ++c.compiles;
  entry = {k.info, k.object, {{"name", k.name}, {"target", k.target.name}, {"signature", k.signature}}};
  c.disk.store(key, entry);
  return true;
}

static TegulaKernel *compileHere(const CompileRequest &given) {
  GateSection section;
  uint64_t start = steadyNs();
  CompileRequest r = given;
  if (!giveName(r)) return nullptr;
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
  if (!findObject(c, r, key, *k)) return nullptr;
  k->key = key, k->hash = hexOf(key);
  k->options.facts = {};
  k->options.facts.form = k->info.forms.form; // stages show this kernel's form
  if (!makePlan(*k)) {
    fail(TEGULA_INTERNAL_ERROR, "`" + k->name + "`: the compiled kernel has other arguments than its signature");
    return nullptr;
  }
  uint64_t beforeLoad = steadyNs();
  if (r.device && !loadOn(*k, *r.device)) {
    // An automatic cluster may find no room if other users have some multiprocessors (MPS, MIG): then each program has
    // one block.
    const bool isChosen = k->info.gpu.clusterCtas > 1 && r.options.numCtas == 1;
    if (!isChosen || r.options.clusters == 0 || tegula_last_status() != TEGULA_OUT_OF_RESOURCES) return nullptr;
    c.remark(
        [&] { return "`" + k->name + "` is compiled for one block in place of a cluster: " + tegula_last_error(); });
    CompileRequest alone = given;
    alone.options.clusters = 0;
    return compileHere(alone);
  }
  remarkSpills(*k);
  // By now LLVM has made its lazy static objects, and exit() destroys the latest objects first.
  static const bool registered = (closeGateAtExit(), true);
  (void)registered;
  uint64_t end = steadyNs();
  k->timings.load = end - beforeLoad;
  k->timings.total = end - start + k->timings.parse;
  if (c.recorder && !given.options.facts.form) c.recorder->add(given, *k);
  c.remark([&] {
    char ms[32];
    std::snprintf(ms, sizeof ms, "%.1f", double(k->timings.total) / 1e6);
    return (k->origin == TEGULA_FROM_COMPILER ? "compiled `"
            : k->origin == TEGULA_FROM_BUNDLE ? "took from a bundle `"
                                              : "took from the disk cache `") +
           k->name + "` for " + k->target.name + " in " + ms + " ms: " + k->signature;
  });
  retain(k.get());
  return k.get();
}

uint32_t coresOf(const DeviceEntry &device) {
  const runtime::DeviceProperties &p = device.device->properties();
  return p.kind == runtime::DeviceProperties::Kind::Cuda ? p.cores : LaunchFacts::usualCores;
}

/// The device of a call, if code can be generated for it.
static DeviceEntry *usableDevice(TegulaFunction &f, int32_t index) {
  runtime::Status status;
  DeviceEntry *e = f.context->device(index, status);
  if (e && e->unusable) return e;
  fail(e ? e->unusable : status);
  return nullptr;
}

static TegulaKernel *sketchHere(const CompileRequest &r, Depth depth) {
  GateSection section;
  auto *fresh = new TegulaKernel;
  Ref<TegulaKernel> k(fresh);
  release(fresh);
  describe(*k, r, {});
  if (k->name.empty()) k->name = r.function->fn->name;
  clearDiagnostics();
  DiagEngine diag;
  runtime::Status status;
  Generated out;
  std::unique_ptr<ir::Module> tile = toTile(r, k->timings, diag, false);
  bool made = tile && generate(*tile, r.target, r.options, k->name, out, k->timings, diag, status, depth);
  if (!status) return fail(status), nullptr;
  if (!made || diag.hasErrors()) {
    if (report(diag) == TEGULA_OK) fail(TEGULA_INTERNAL_ERROR, "compiling `" + k->name + "` failed without a message");
    return nullptr;
  }
  k->info = std::move(out.info);
  k->device = r.device;
  if (!makePlan(*k)) {
    fail(TEGULA_INTERNAL_ERROR, "`" + k->name + "`: the kernel has other arguments than its signature");
    return nullptr;
  }
  retain(k.get());
  return k.get();
}

TegulaKernel *sketchKernel(TegulaFunction &f, const TegulaArg *args, size_t count, const TegulaLaunchOptions *given,
                           Depth depth) {
  CallOptions options;
  BoundCall call;
  if (!f.context->resolve(given, options, args, count) || !bind(f, args, count, options.compile, call)) return nullptr;
  return onCompilerStack<TegulaKernel *>(nullptr, [&]() -> TegulaKernel * {
    DeviceEntry *device = usableDevice(f, options.device);
    if (!device) return nullptr;
    CompileRequest r{&f, specsOf(f, args, count), options.compile, device->target, device, {}};
    r.options.wide = call.wide;
    return sketchHere(r, depth);
  });
}

TegulaKernel *compileKernel(const CompileRequest &request) {
  return onCompilerStack<TegulaKernel *>(nullptr, [&] { return compileHere(request); });
}

static KernelNode *findNode(TegulaFunction &f, const BoundCall &call, uint64_t hash) {
  KernelNode *n = f.buckets[hash % TegulaFunction::bucketCount].load(std::memory_order_acquire);
  for (; n; n = n->next)
    if (n->hash == hash && n->key.size() == call.wordCount &&
        std::memcmp(n->key.data(), call.words, call.wordCount * sizeof(uint64_t)) == 0)
      return n;
  return nullptr;
}

TegulaKernel *findKernel(TegulaFunction &f, const BoundCall &call) {
  KernelNode *n = findNode(f, call, call.hash());
  return n ? n->kernel : nullptr;
}

/// Waits for the thread that compiles the same kernel; takes over its result or error. False: it was interrupted.
static bool await(PendingCompile &p, TegulaKernel *&kernel) {
  GatePause pause;
  p.done.wait(false, std::memory_order_acquire);
  kernel = p.kernel;
  if (!p.kernel && !p.cancelled) adopt(p.report);
  return !p.cancelled;
}

TegulaKernel *kernelFor(TegulaFunction &f, const TegulaArg *args, size_t count, const CallOptions &options,
                        const BoundCall &call) {
  uint64_t hash = call.hash();
  if (KernelNode *n = findNode(f, call, hash)) return n->kernel;
  GateSection section;
  DeviceEntry *device = usableDevice(f, options.device);
  if (!device) return nullptr;
  std::vector<uint64_t> key(call.words, call.words + call.wordCount);
  std::unique_lock lock(f.mutex);
  for (;;) {
    if (KernelNode *n = findNode(f, call, hash)) return n->kernel;
    auto it = f.pending.find(key);
    if (it == f.pending.end() || it->second->generation != forkGeneration() ||
        it->second->thread == std::this_thread::get_id())
      break;
    std::shared_ptr<PendingCompile> p = it->second;
    lock.unlock();
    if (TegulaKernel *kernel; await(*p, kernel)) return kernel;
    lock.lock();
  }
  auto mine = std::make_shared<PendingCompile>();
  f.pending.insert_or_assign(key, mine);
  lock.unlock();

  CompileRequest r{&f, specsOf(f, args, count, call.nulls), options.compile, device->target, device};
  r.options.wide = call.wide;
  r.options.facts.cores = coresOf(*device);
  r.options.facts.arguments = integersOf(r.specs, call.leaves);
  TegulaKernel *kernel = compileKernel(r);

  lock.lock();
  mine->kernel = kernel;
  if (kernel) {
    std::atomic<KernelNode *> &bucket = f.buckets[hash % TegulaFunction::bucketCount];
    bucket.store(new KernelNode{key, hash, kernel, bucket.load(std::memory_order_relaxed)}, std::memory_order_release);
  } else {
    mine->report = snapshot();
    mine->cancelled = tegula_last_status() == TEGULA_CANCELLED;
  }
  // After a fork() in a callback of this compilation the table may hold another thread's entry.
  if (auto it = f.pending.find(key); it != f.pending.end() && it->second == mine) f.pending.erase(it);
  mine->done.store(true, std::memory_order_release);
  mine->done.notify_all();
  return kernel;
}

// ---- single stages

std::vector<const char *> stageNames(const Target *t) {
  std::vector<const char *> names(std::begin(commonStages), std::end(commonStages));
  auto add = [&](const Target &of) {
    for (const char *n : targetStages(of))
      if (std::none_of(names.begin(), names.end(), [&](const char *known) { return std::strcmp(known, n) == 0; }))
        names.push_back(n);
  };
  if (t) add(*t);
  else
    for (const std::string &name : targetNames()) add(*parseTarget(name));
  return names;
}

/// Checks the part of "gpu@assign-layouts" after the stage.
static bool checkPass(std::string_view name) {
  std::string list;
  for (const char *n : gpuPassNames()) {
    if (name == n) return true;
    list += (list.empty() ? "" : ", ") + std::string(n);
  }
  fail(TEGULA_NOT_FOUND, "there is no pass `" + std::string(name) + "` of stage `gpu`; passes are " + list);
  return false;
}

bool checkStage(std::string_view stage, const Target *t) {
  constexpr std::string_view ofPass = "gpu@";
  std::string list;
  for (const char *n : stageNames(t)) {
    if (stage == n) return true;
    if (stage.starts_with(ofPass) && n == std::string_view("gpu")) return checkPass(stage.substr(ofPass.size()));
    list += (list.empty() ? "" : ", ") + std::string(n);
  }
  fail(TEGULA_NOT_FOUND,
       "there is no stage `" + std::string(stage) + "`" + (t ? " for `" + t->name + "`" : "") + "; stages are " + list);
  return false;
}

static bool emitHere(const CompileRequest &r, std::string_view stage, std::string &out) {
  GateSection section;
  const lang::Function &fn = *r.function->fn;
  if (stage == "source") return out = std::string(fn.def->loc.text()), true;
  if (stage == "ast") return out = syntax::print(*fn.def), true;
  if (!checkStage(stage, &r.target)) return false;
  DiagEngine diag;
  TegulaTimings times{};
  runtime::Status status;
  std::optional<std::string> text;
  if (stage == "tree") {
    sema::Instantiation inst = sema::instantiate(r.function->fn, r.specs, semaOptions(r, true), diag);
    if (inst.module) text = std::move(inst.tree);
  } else if (std::unique_ptr<ir::Module> tile = toTile(r, times, diag, false)) {
    text = stage == "tile"
               ? ir::print(*tile)
               : emitTargetStage(*tile, r.target, r.options, r.name.empty() ? fn.name : r.name, stage, diag, status);
  }
  if (!status) return fail(status), false;
  if (TegulaStatus s = report(diag); s != TEGULA_OK) return false;
  if (!text) {
    fail(TEGULA_INTERNAL_ERROR, "stage `" + std::string(stage) + "` of `" + fn.name + "` failed without a message");
    return false;
  }
  out = std::move(*text);
  return true;
}

bool emitStage(const CompileRequest &r, std::string_view stage, std::string &out) {
  return onCompilerStack(false, [&] { return emitHere(r, stage, out); });
}

} // namespace tegula::api
