// Kernels as bytes: a cache entry (runtime/CacheFile.h) whose properties hold the other data that launches need. The
// kernel's source is not among them, so a loaded kernel has no stages except its code and those made before saving.
#include "api/Compile.h"
#include "api/Saved.h"
#include "api/Specialize.h"
#include "lang/Descriptor.h"
#include "support/Clock.h"
#include <cstdlib>
#include <cstring>
#include <limits>

namespace tegula::api {

using sema::ParamSpec;

namespace {

constexpr const char *stagePrefix = "stage:";
constexpr unsigned deepest = 64; // tuples in tuples

// ---- values and specializations

enum class Tag : uint8_t { None, Bool, Int, Float, Str, Dtype, Tuple, Other };

void write(ByteWriter &w, const lang::Value &v) {
  auto tag = [&](Tag t) { w.u8(static_cast<uint8_t>(t)); };
  if (v.isNone()) return tag(Tag::None);
  if (v.isBool()) return tag(Tag::Bool), w.u8(v.asBool());
  if (v.isInt())
    return tag(Tag::Int), w.u64(static_cast<uint64_t>(v.asInt())), w.u64(static_cast<uint64_t>(v.asInt() >> 64));
  if (v.isFloat()) return tag(Tag::Float), w.u64(std::bit_cast<uint64_t>(v.asFloat()));
  if (v.isStr()) return tag(Tag::Str), w.str(v.asStr());
  if (v.isDtype()) return tag(Tag::Dtype), w.str(lang::code(v.asDtype()));
  if (!v.isTuple()) return tag(Tag::Other), w.str(lang::repr(v));
  tag(Tag::Tuple);
  w.u64(v.items().size());
  for (const lang::Value &item : v.items()) write(w, item);
}

lang::Value readValue(ByteReader &r, unsigned depth) {
  if (depth > deepest) return lang::Value::error();
  switch (static_cast<Tag>(r.u8())) {
  case Tag::None: return lang::Value::none();
  case Tag::Bool: return lang::Value::boolean(r.flag());
  case Tag::Int: {
    uint64_t low = r.u64(), high = r.u64();
    return lang::Value::integer(static_cast<lang::Int>(static_cast<unsigned __int128>(high) << 64 | low));
  }
  case Tag::Float: return lang::Value::number(std::bit_cast<double>(r.u64()));
  case Tag::Str: return lang::Value::str(r.str());
  case Tag::Dtype: {
    std::optional<lang::Dtype> d = lang::parseDtype(r.str());
    return d ? lang::Value::type(*d) : lang::Value::error();
  }
  case Tag::Tuple: {
    std::vector<lang::Value> items; // grows with the actual data, not with the count in the bytes
    for (size_t n = r.count(1); n && !r.failed(); --n)
      if (items.push_back(readValue(r, depth + 1)); items.back().isError()) return items.back();
    return lang::Value::tuple(std::move(items));
  }
  case Tag::Other: return lang::Value(std::make_shared<const lang::OpaqueValue>(lang::OpaqueValue{r.str(), 0}));
  }
  return lang::Value::error();
}

void write(ByteWriter &w, const ParamSpec &s) {
  w.u8(static_cast<uint8_t>(s.kind));
  switch (s.kind) {
  case ParamSpec::Kind::Runtime:
    w.str(lang::code(s.dtype));
    w.u64(static_cast<uint64_t>(s.divisibility));
    w.u32(static_cast<uint32_t>(s.sameAs + 1));
    return w.u32(static_cast<uint32_t>(s.overlap));
  case ParamSpec::Kind::Constexpr: return write(w, s.value);
  case ParamSpec::Kind::Tuple:
    w.u8(s.isDescriptor());
    w.u64(s.items.size());
    for (const ParamSpec &item : s.items) write(w, item);
  }
}

/// Has it the parts of a descriptor that descriptorText() relies on?
bool isWhole(const ParamSpec &s) {
  static const ParamSpec &one =
      *new ParamSpec(ParamSpec::descriptor(lang::dtype(lang::Scalar::Fp32), ir::Shape{4}, false));
  if (s.items.size() != one.items.size()) return false;
  for (size_t i = 0; i < s.items.size(); ++i)
    if (s.items[i].kind != one.items[i].kind) return false;
  return s.items.back().value.isBool() && s.items[static_cast<size_t>(lang::DescField::Padding)].value.isStr();
}

bool readSpec(ByteReader &r, ParamSpec &s, unsigned depth) {
  uint8_t kind = r.u8();
  if (kind > static_cast<uint8_t>(ParamSpec::Kind::Tuple) || depth > deepest) return false;
  s.kind = static_cast<ParamSpec::Kind>(kind);
  if (s.kind == ParamSpec::Kind::Constexpr) return s.value = readValue(r, depth + 1), !s.value.isError();
  if (s.kind == ParamSpec::Kind::Runtime) {
    std::optional<lang::Dtype> d = lang::parseDtype(r.str());
    uint64_t divisibility = r.u64();
    if (!d || d->isVoid() || divisibility < 1 || divisibility > 1 << 20) return false;
    s.dtype = *d;
    s.divisibility = static_cast<int64_t>(divisibility);
    s.sameAs = static_cast<int32_t>(r.u32()) - 1;
    s.overlap = static_cast<int32_t>(r.u32());
    return !r.failed();
  }
  bool isDescriptor = r.flag();
  for (size_t n = r.count(1); n; --n)
    if (!readSpec(r, s.items.emplace_back(), depth + 1)) return false;
  if (isDescriptor) s.recordClass = lang::descriptorClass();
  return !isDescriptor || isWhole(s);
}

std::string text(const ByteWriter &w) { return {w.bytes.begin(), w.bytes.end()}; }

// ---- parameters, options, target

std::string paramsText(const TegulaKernel &k) {
  ByteWriter w;
  w.u64(k.specs.size());
  for (size_t i = 0; i < k.specs.size(); ++i) {
    w.str(k.params[i].name);
    w.u8(k.params[i].annotated);
    write(w, k.specs[i]);
  }
  return text(w);
}

bool readParams(const std::string &bytes, TegulaKernel &k) {
  ByteReader r(bytes.data(), bytes.size());
  for (size_t n = r.count(1); n; --n) {
    KernelParam &p = k.params.emplace_back();
    p.name = r.str();
    p.annotated = r.flag();
    if (!readSpec(r, k.specs.emplace_back(), 0)) return false;
  }
  return !r.failed() && r.atEnd() && sema::sameAsFits(k.specs);
}

/// Calls `f` on each option, so that writer and reader use the same order.
template <typename Options, typename F> void eachOption(Options &o, F &&f) {
  f(o.numWarps), f(o.numStages), f(o.numCtas), f(o.maxnreg), f(o.debug), f(o.checked), f(o.debugInfo), f(o.fpFusion),
      f(o.sanitizeOverflow);
  f(o.verify), f(o.strict), f(o.wide), f(o.keepsSubnormals), f(o.optLevel), f(o.cooperative), f(o.programmaticLaunch),
      f(o.level), f(o.clusters);
}

std::string optionsText(const CompileOptions &options) {
  ByteWriter w;
  eachOption(options, [&](auto v) { w.u32(static_cast<uint32_t>(v)); });
  return text(w);
}

bool readOptions(const std::string &bytes, CompileOptions &options) {
  ByteReader r(bytes.data(), bytes.size());
  eachOption(options, [&]<typename T>(T &v) { v = static_cast<T>(r.u32()); });
  return !r.failed() && r.atEnd();
}

/// Its name, and what the name leaves open: "cpu" differs between machines.
std::string targetText(const Target &t) {
  ByteWriter w;
  w.str(t.name);
  w.str(t.arch);
  const std::string more = t->saved();
  w.u8(!more.empty());
  w.raw(more.data(), more.size());
  return text(w);
}

bool readTarget(const std::string &bytes, Target &t) {
  ByteReader r(bytes.data(), bytes.size());
  std::string name = r.str(), arch = r.str();
  const bool hasMore = r.flag();
  std::string more(r.left(), 0);
  r.raw(more.data(), more.size());
  std::optional<Target> known = parseTarget(name);
  if (!known || hasMore != !known->what->saved().empty()) return false;
  t = *known;
  t.arch = arch;
  if (hasMore && !(t.what = t.what->family.restore(more))) return false;
  return !r.failed() && r.atEnd();
}

} // namespace

SavedProperties savedProperties(const TegulaKernel &k) {
  return {{"version", tegula_version()},       {"name", k.name},
          {"signature", k.signature},          {"params", paramsText(k)},
          {"options", optionsText(k.options)}, {"target", targetText(k.target)}};
}

static const std::string *property(const SavedProperties &all, std::string_view name) {
  for (const auto &[key, value] : all)
    if (key == name) return &value;
  return nullptr;
}

bool readSaved(const SavedProperties &all, TegulaKernel &k) {
  const std::string *params = property(all, "params"), *options = property(all, "options"),
                    *target = property(all, "target"), *signature = property(all, "signature"),
                    *name = property(all, "name");
  if (!params || !options || !target || !signature || !name) return false;
  k.params.clear(), k.specs.clear();
  if (!readParams(*params, k) || !readOptions(*options, k.options) || !readTarget(*target, k.target)) return false;
  k.name = *name;
  k.signature = *signature;
  return true;
}

namespace {

// ---- loading

TegulaStatus damaged() {
  return fail(TEGULA_INVALID_ARGUMENT, "these bytes are no kernel that tegula_kernel_save gave, or they are damaged");
}

/// A device that runs the code: the requested one, else any. Null without an error if there is none.
DeviceEntry *homeOf(TegulaContext &c, const TegulaKernel &k, int32_t device, runtime::Status &status) {
  const Target &t = k.target;
  // For a CPU, the actual processor counts, not the target of launches.
  const Target machine = hostProcessor();
  auto runs = [&](const DeviceEntry *e) {
    if (!e || !e->unusable) return false;
    if (t.isCpu()) return e->target.isCpu() && machine->runs(*t.what);
    // PTX runs on later GPUs, too; machine code does not.
    return e->target.sameCode(t) && (!t.isGpu() || e->target.arch == t.arch || !k.isCubin());
  };
  runtime::Status why;
  if (device >= 0) {
    DeviceEntry *e = c.device(device, status);
    if (!e || runs(e)) return e;
    status = runtime::Status::error(TEGULA_UNSUPPORTED, "the kernel was compiled for `" + t.name + "`, which " +
                                                            e->description + " does not run");
    return nullptr;
  }
  if (t.isCpu()) {
    DeviceEntry *e = c.device(DeviceIndex::cpu, why);
    return runs(e) ? e : nullptr;
  }
  if (t.isSim()) {
    int32_t index;
    return c.findDevice(t.name, index, why) ? c.device(index, why) : nullptr;
  }
  if (DeviceEntry *e = c.device(c.currentDevice(), why); runs(e)) return e;
  for (size_t i = 0, n = c.cudaCount(); i < n; ++i)
    if (DeviceEntry *e = c.device(DeviceIndex::firstCuda + static_cast<int32_t>(i), why); runs(e)) return e;
  return nullptr;
}

/// The process's context; null with the last error set.
TegulaContext *sharedContext() {
  static std::mutex mutex; // only in a GateSection
  static TegulaContext *context;
  std::lock_guard lock(mutex);
  if (!context) tegula_context_create(nullptr, &context);
  return context;
}

} // namespace

bool argumentsFit(const TegulaKernel &k) {
  for (const runtime::ArgInfo &a : k.info.args)
    if (uint64_t(a.offset) + (a.isPtr ? sizeof(void *) : tegula_dtype_bytes(a.dtype)) > k.info.argBytes) return false;
  return true;
}

namespace {

TegulaStatus load(TegulaContext &c, std::span<const char> bytes, int32_t device, TegulaKernel **out) {
  Ref<TegulaKernel> k;
  {
    auto *fresh = new TegulaKernel;
    k = Ref(fresh);
    release(fresh);
  }
  runtime::CacheEntry entry;
  runtime::Digest key;
  if (runtime::EntryFormat format = runtime::formatOf(bytes, key); format != runtime::EntryFormat::Ours)
    return format == runtime::EntryFormat::None
               ? damaged()
               : fail(TEGULA_UNSUPPORTED, "the kernel was saved by another version of tegula");
  if (!runtime::decodeEntry(bytes, key, entry)) return damaged();
  const std::string *version = property(entry.properties, "version");
  if (!version) return damaged();
  if (*version != tegula_version())
    return fail(TEGULA_UNSUPPORTED, "the kernel was saved by tegula " + *version + "; this is " + tegula_version());
  if (!readSaved(entry.properties, *k)) return damaged();
  uint64_t start = steadyNs();
  k->context = Ref(&c);
  k->key = key;
  k->hash = hexOf(key);
  k->origin = TEGULA_FROM_BYTES;
  k->info = std::move(entry.info);
  k->object = std::move(entry.object);
  k->timings.size = sizeof k->timings;
  for (auto &[stage, text] : entry.properties)
    if (stage.starts_with(stagePrefix)) k->stages.emplace(stage.substr(std::strlen(stagePrefix)), std::move(text));
  if (!makePlan(*k) || !argumentsFit(*k)) return damaged();
  runtime::Status status;
  DeviceEntry *home = homeOf(c, *k, device, status);
  if (!status) return fail(status);
  if (home && !loadOn(*k, *home)) return tegula_last_status();
  k->timings.load = k->timings.total = steadyNs() - start;
  retain(k.get());
  *out = k.get();
  return TEGULA_OK;
}

} // namespace
} // namespace tegula::api

using namespace tegula;
using namespace tegula::api;

TegulaStatus tegula_kernel_save(TegulaKernel *k, char **bytes, size_t *length) {
  if (!k || !bytes || !length) return fail(TEGULA_INVALID_ARGUMENT, "tegula_kernel_save: null argument");
  if (k->object.empty()) return fail(TEGULA_UNSUPPORTED, "`" + k->name + "` is a sketch: it has no code to save");
  GateSection section;
  runtime::CacheEntry entry{k->info, k->object, {}};
  entry.properties = savedProperties(*k);
  {
    std::lock_guard lock(k->mutex);
    for (const auto &[stage, text] : k->stages) entry.properties.emplace_back(stagePrefix + stage, text);
  }
  std::vector<char> file = runtime::encodeEntry(k->key, entry);
  char *copy = static_cast<char *>(std::malloc(file.size()));
  if (!copy) return fail(TEGULA_OUT_OF_RESOURCES, "no memory for the bytes of `" + k->name + "`");
  std::memcpy(copy, file.data(), file.size());
  *bytes = copy;
  *length = file.size();
  return TEGULA_OK;
}

TegulaStatus tegula_kernel_load(TegulaContext *c, const char *bytes, size_t length, int32_t device,
                                TegulaKernel **out) {
  if (!bytes || !out) return fail(TEGULA_INVALID_ARGUMENT, "tegula_kernel_load: null argument");
  GateSection section;
  clearDiagnostics();
  if (!c && !(c = sharedContext())) return tegula_last_status();
  return load(*c, {bytes, length}, device, out);
}
