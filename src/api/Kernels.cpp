// Queries of a compiled kernel.
#include "api/Compile.h"
#include "api/Repeat.h"
#include "api/Sized.h"
#include "api/Specialize.h"
#include <cstring>

using namespace tegula;
using namespace tegula::api;

TegulaKernel::TegulaKernel() = default;
TegulaKernel::~TegulaKernel() {
  GateSection section; // debuggers are notified that the code is gone
  code.reset();
}

void tegula_kernel_retain(TegulaKernel *k) { retain(k); }
void tegula_kernel_release(TegulaKernel *k) { release(k); }

runtime::GpuUse tegula::api::useOf(const TegulaKernel &k) {
  runtime::GpuUse use = k.code ? k.code->use() : runtime::GpuUse();
  return use.registers ? use : k.info.gpu.use;
}

const char *tegula_kernel_stage_name(TegulaKernel *k, size_t index) {
  if (!k) return nullptr;
  std::vector<const char *> names = stageNames(&k->target);
  return index < names.size() ? names[index] : nullptr;
}

TegulaStatus tegula_kernel_info(TegulaKernel *k, TegulaKernelInfo *out) {
  if (!k || !isSized(out)) return fail(TEGULA_INVALID_ARGUMENT, "tegula_kernel_info: null argument or `size` not set");
  TegulaKernelInfo i{};
  i.size = sizeof i;
  i.name = k->name.c_str();
  i.symbol = k->info.symbol.c_str();
  i.hash = k->hash.c_str();
  i.target = k->target.name.c_str();
  i.signature = k->signature.c_str();
  i.num_warps = k->options.numWarps;
  i.num_stages = k->options.numStages;
  i.num_ctas = k->options.numCtas;
  i.checked = k->options.checked;
  i.debug = k->options.debug;
  i.debug_info = k->options.debugInfo;
  i.origin = k->origin;
  i.arg_count = static_cast<uint32_t>(k->info.args.size());
  i.scratch_bytes = k->info.scratchBytes;
  i.object_bytes = k->object.size();
  i.code_bytes = k->code ? k->code->codeBytes() : 0;
  runtime::GpuUse use = useOf(*k);
  i.threads = k->info.gpu.threads;
  i.cluster_ctas = k->info.gpu.threads ? k->info.gpu.clusterCtas : 0;
  i.registers = use.registers;
  i.spill_bytes = use.spillBytes;
  i.local_bytes = use.localBytes;
  i.shared_bytes = use.sharedBytes;
  i.blocks_per_core = use.blocksPerCore;
  giveSized(i, out);
  return TEGULA_OK;
}

TegulaStatus tegula_kernel_timings(TegulaKernel *k, TegulaTimings *out) {
  if (!k || !isSized(out))
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_kernel_timings: null argument or `size` not set");
  giveSized(k->timings, out);
  return TEGULA_OK;
}

size_t tegula_kernel_remark_count(TegulaKernel *k) { return k ? k->info.remarks.size() : 0; }

TegulaStatus tegula_kernel_remark(TegulaKernel *k, size_t index, TegulaRemark *out) {
  if (!k || !out || index >= k->info.remarks.size())
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_kernel_remark: null argument, or no such remark");
  const runtime::RemarkInfo &r = k->info.remarks[index];
  *out = {r.kind.c_str(), r.text.c_str(), r.file.c_str(), r.line, r.column};
  return TEGULA_OK;
}

static std::string makeMetadata(const TegulaKernel &k) {
  auto text = [](const char *name, const std::string &v) { return "\"" + std::string(name) + "\":" + jsonString(v); };
  auto number = [](const char *name, uint64_t v) { return "\"" + std::string(name) + "\":" + std::to_string(v); };
  auto flag = [](const char *name, bool v) { return "\"" + std::string(name) + (v ? "\":true" : "\":false"); };
  std::string j = "{" + text("name", k.name) + "," + text("symbol", k.info.symbol) + "," + text("hash", k.hash) + "," +
                  text("target", k.target.name) + "," + text("signature", k.signature) + "," +
                  number("num_warps", k.options.numWarps) + "," + number("num_stages", k.options.numStages) + "," +
                  number("num_ctas", k.options.numCtas) + "," + flag("checked", k.options.checked) + "," +
                  flag("debug", k.options.debug) + "," + flag("debug_info", k.options.debugInfo) + "," +
                  flag("enable_fp_fusion", k.options.fpFusion) + "," +
                  flag("enable_reflect_ftz", !k.options.keepsSubnormals) + "," +
                  flag("sanitize_overflow", k.options.sanitizeOverflow) + "," +
                  number("language_level", uint64_t(k.options.level)) + "," + flag("strict", k.options.strict) + "," +
                  flag("wide_offsets", k.options.wide) + "," + number("opt_level", k.options.optLevel) + "," +
                  number("scratch_bytes", k.info.scratchBytes) + "," + number("stack_bytes", k.info.stackBytes) + "," +
                  flag("waits", k.info.waits) + "," + number("arg_bytes", k.info.argBytes) + "," +
                  number("object_bytes", k.object.size());
  if (const runtime::GpuInfo &g = k.info.gpu; g.threads) {
    runtime::GpuUse use = useOf(k);
    j += "," + number("threads", g.threads) + "," + number("cluster_ctas", g.clusterCtas) + "," +
         number("shared", use.sharedBytes) + "," + number("n_regs", use.registers) + "," +
         number("n_spills", use.spillBytes / 4) + "," + number("local_bytes", use.localBytes) + "," +
         number("blocks_per_core", use.blocksPerCore) + "," + flag("cooperative", g.cooperative) + "," +
         flag("programmatic_launch", g.programmaticLaunch);
  }
  j += ",\"args\":[";
  for (size_t i = 0; i < k.info.args.size(); ++i) {
    const runtime::ArgInfo &a = k.info.args[i];
    j += (i ? ",{" : "{") + text("name", a.name) + "," +
         text("type", (a.isPtr ? "*" : "") + std::string(tegula_dtype_name(a.dtype))) + "," +
         number("offset", a.offset) + "," + flag("read", a.read) + "," + flag("written", a.written) + "}";
  }
  return j + "]}";
}

const char *tegula_kernel_metadata_json(TegulaKernel *k) {
  if (!k) return "{}";
  GateSection section;
  std::lock_guard lock(k->mutex);
  if (k->metadata.empty()) k->metadata = makeMetadata(*k);
  return k->metadata.c_str();
}

namespace {
/// A kernel keeps its source, not the function handle: this replaces the handle for one more compilation.
struct StandIn {
  Ref<TegulaFunction> handle;
  explicit StandIn(const TegulaKernel &k) {
    auto *f = new TegulaFunction;
    handle = Ref(f);
    release(f);
    f->context = k.context;
    f->keep = k.keep;
    f->fn = k.fn;
  }
};
} // namespace

/// A kernel that was loaded from bytes has no source.
static bool hasSource(const TegulaKernel &k) {
  if (k.fn) return true;
  fail(TEGULA_UNSUPPORTED,
       "`" + k.name + "` was loaded from bytes, which hold its code, not what it was compiled from");
  return false;
}

TegulaStatus tegula_kernel_compile_for(TegulaKernel *k, const char *target, TegulaKernel **out) {
  if (!k || !target || !out) return fail(TEGULA_INVALID_ARGUMENT, "tegula_kernel_compile_for: null argument");
  std::optional<Target> t = parseTarget(target);
  if (!t) return fail(TEGULA_NOT_FOUND, noSuchTarget(target));
  if (!k->tile && !hasSource(*k)) return TEGULA_UNSUPPORTED;
  GateSection section;
  TegulaKernel *made = k->tile ? compileTile(*k->context, k->tile, k->options, *t, nullptr)
                               : compileKernel({StandIn(*k).handle.get(), k->specs, k->options, *t, nullptr, k->name});
  if (!made) return tegula_last_status();
  *out = made;
  return TEGULA_OK;
}

TegulaStatus tegula_kernel_asm(TegulaKernel *k, const char *stage, const char **text, size_t *length) {
  if (!k || !stage || !text || !length) return fail(TEGULA_INVALID_ARGUMENT, "tegula_kernel_asm: null argument");
  if (!checkStage(stage, &k->target)) return TEGULA_NOT_FOUND;
  // The loaded code: an object, a cubin, or PTX for the driver.
  const char *loaded = !k->target.isGpu() ? "obj" : k->isCubin() ? "cubin" : "ptx";
  if (std::strcmp(stage, loaded) == 0) {
    *text = k->object.data();
    *length = k->object.size() - (std::strcmp(loaded, "ptx") == 0 && !k->object.empty()); // without the final NUL
    return TEGULA_OK;
  }
  GateSection section;
  std::unique_lock lock(k->mutex);
  auto it = k->stages.find(stage);
  if (it == k->stages.end()) {
    // Without the lock, as the user's functions may be called. Two threads may make the same text; one result stays.
    lock.unlock();
    if (!k->tile && !hasSource(*k)) return TEGULA_UNSUPPORTED;
    std::string out;
    bool emitted =
        k->tile ? emitTile(*k, stage, out)
                : emitStage({StandIn(*k).handle.get(), k->specs, k->options, k->target, nullptr, k->name}, stage, out);
    if (!emitted) return tegula_last_status();
    lock.lock();
    it = k->stages.emplace(stage, std::move(out)).first;
  }
  *text = it->second.c_str();
  *length = it->second.size();
  return TEGULA_OK;
}

const char *tegula_stage_name(size_t index) {
  GateSection section;
  static const auto &names = *new std::vector<const char *>(stageNames(nullptr));
  return index < names.size() ? names[index] : nullptr;
}
