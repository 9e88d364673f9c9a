#include "api/Bundles.h"
#include "api/Saved.h"
#include "api/Specialize.h"
#include "lang/Descriptor.h"
#include "runtime/BundleMachine.h"
#include "runtime/BundleMatch.h"
#include "runtime/Ed25519.h"
#include "support/Hash.h"
#include <algorithm>
#include <cstring>
#include <set>

namespace tegula::api {

using runtime::Bundle;
using runtime::BundleEntry;
using runtime::BundleParam;
using runtime::BundleRecord;
using runtime::Status;
using sema::ParamSpec;

void BundleLayers::add(std::shared_ptr<const Bundle> bundle) {
  std::lock_guard lock(mutex_);
  layers_.push_back(std::move(bundle));
}

std::vector<std::shared_ptr<const Bundle>> BundleLayers::all() const {
  std::lock_guard lock(mutex_);
  return layers_;
}

// ---- classes

/// lang::key() with functions by their meaning, not by their location.
static std::string portableKey(const lang::Value &v) {
  using FunctionPtr = std::shared_ptr<const lang::Function>;
  if (v.is<FunctionPtr>()) return "F" + v.get<FunctionPtr>()->sourceHash();
  if (!v.isTuple()) return lang::key(v);
  std::string text = "(";
  for (const lang::Value &item : v.items()) text += portableKey(item) + ",";
  return text + ")";
}

static std::string portableKey(const ParamSpec &s) {
  if (s.kind == ParamSpec::Kind::Constexpr) return "=" + portableKey(s.value);
  if (s.kind == ParamSpec::Kind::Runtime)
    return lang::code(s.dtype) + ":" + std::to_string(s.divisibility) +
           (s.sameAs >= 0 ? "@" + std::to_string(s.sameAs) : "") + (s.overlap ? "~" + std::to_string(s.overlap) : "");
  std::string text = "(";
  if (s.recordClass) {
    text = s.recordClass->name + text;
    for (const std::string &field : s.recordClass->fields) text += field + ",";
  }
  for (const ParamSpec &item : s.items) text += portableKey(item) + ";";
  return text + ")";
}

/// The options that affect the code and that launches do not give as numbers, in one word.
static uint64_t otherOptions(const CompileOptions &given) {
  CompileOptions o = given;
  o.numWarps = o.numStages = o.numCtas = 0;
  o.device = 0, o.wide = o.verify = false;
  o.clusters = 0; // how many blocks share a program is internal to the code
  return o.word();
}

static runtime::BundleOptions optionsOf(const CompileOptions &o) {
  return {o.numWarps, o.numStages, o.numCtas, o.maxnreg, o.wide, otherOptions(o)};
}

runtime::Digest classKeyOf(const CompileRequest &r) {
  Hasher h;
  h.field("tegula class 1").field(r.function->fn->sourceHash()).field(r.name);
  for (const ParamSpec &s : r.specs) h.field(portableKey(s));
  const runtime::BundleOptions o = optionsOf(r.options);
  for (int32_t n : {o.numWarps, o.numStages, o.numCtas, o.maxnreg}) h.field(static_cast<uint64_t>(n));
  h.field(uint64_t(o.wide)).field(o.other);
  return h.digest();
}

static BundleParam paramOf(const ParamSpec &s) {
  BundleParam p;
  if (s.kind == ParamSpec::Kind::Runtime) {
    p.kind = BundleParam::Kind::Runtime;
    p.dtype = static_cast<TegulaDtype>(s.dtype.scalar);
    p.isPtr = s.dtype.isPtr;
    p.divisibility = static_cast<uint32_t>(s.divisibility);
    p.sameAs = s.sameAs;
    p.overlap = s.overlap;
    return p;
  }
  if (s.kind == ParamSpec::Kind::Tuple) {
    p.kind = BundleParam::Kind::Tuple;
    p.isDescriptor = s.isDescriptor();
    if (p.isDescriptor) p.text = sema::descriptorText(s);
    for (const ParamSpec &item : s.items) p.items.push_back(paramOf(item));
    return p;
  }
  using Constant = BundleParam::Constant;
  const lang::Value &v = s.value;
  p.kind = BundleParam::Kind::Constant;
  p.text = lang::repr(v);
  p.constant = v.isNone()    ? Constant::None
               : v.isBool()  ? Constant::Bool
               : v.isInt()   ? Constant::Int
               : v.isFloat() ? Constant::Float
                             : Constant::Other;
  if (v.isBool() || v.isInt()) {
    p.number = static_cast<int64_t>(v.asInt());
    if (p.number != v.asInt()) p.constant = Constant::Other;
  }
  if (v.isFloat()) p.real = v.asFloat();
  return p;
}

BundleRecord classOf(const CompileRequest &r) {
  BundleRecord c;
  const std::vector<Param> &params = r.function->params();
  c.signature = signatureText(params, r.specs);
  c.options = optionsOf(r.options);
  for (size_t i = 0; i < r.specs.size() && i < params.size(); ++i) {
    BundleParam &p = c.params.emplace_back(paramOf(r.specs[i]));
    p.name = params[i].name;
    p.isConstexpr = params[i].isConstexpr;
    p.checksRange = params[i].annotated;
  }
  return c;
}

std::string classText(const CompileRequest &r) {
  const CompileOptions &o = r.options;
  std::string text = signatureText(r.function->params(), r.specs) + " for " + r.target.name;
  auto number = [&](const char *name, int64_t v, int64_t usual) {
    if (v != usual) text += ", " + std::string(name) + " " + std::to_string(v);
  };
  number("num_warps", o.numWarps, 4), number("num_stages", o.numStages, 3), number("num_ctas", o.numCtas, 1),
      number("maxnreg", o.maxnreg, 0);
  if (o.wide) text += ", with offsets of 64 bits";
  if (o.checked) text += ", checked";
  if (o.debug) text += ", debug";
  return text;
}

std::string needsOf(const Target &t, bool isCubin) { return t->needs(isCubin ? t.arch : ""); }

Target portable(const Target &t) {
  const std::string name = t->portable();
  return name.empty() ? t : *parseTarget(name);
}

// ---- entries

/// A path without machine-specific parts.
static std::string portablePath(const std::string &path, const std::string &root) {
  if (!root.empty() && path.starts_with(root)) return path.substr(root.size());
  size_t slash = path.rfind('/');
  return !path.empty() && path[0] == '/' && slash != path.npos ? path.substr(slash + 1) : path;
}

runtime::NewBundleEntry entryOf(const TegulaKernel &k, const CompileRequest &r, const std::string &root) {
  runtime::NewBundleEntry e;
  e.kernel = k.name;
  e.target = k.target.name;
  e.needs = needsOf(k.target, k.isCubin());
  e.classKey = classKeyOf(r);
  e.record = classOf(r);
  e.record.info = k.info;
  for (runtime::SiteInfo &s : e.record.info.sites) s.file = portablePath(s.file, root);
  for (runtime::RemarkInfo &m : e.record.info.remarks) m.file = portablePath(m.file, root);
  for (runtime::SharedTileInfo &t : e.record.info.gpu.tiles) t.file = portablePath(t.file, root);
  e.record.properties = savedProperties(k);
  e.record.properties.emplace_back("source", r.function->fn->sourceHash());
  e.code = k.object;
  return e;
}

/// Can the request's device run it, and at which rank?
static int rankFor(const CompileRequest &r, const BundleEntry &e) {
  std::string why;
  if (r.target.isSim()) return e.target == r.target.name ? runtime::simRank(e.needs, why) : -1;
  const std::optional<Target> of = parseTarget(e.target);
  if (!of || of->what->machine() != r.target->machine()) return -1;
  if (r.target.isGpu())
    return r.device ? runtime::gpuRank(e.needs, r.device->device->properties().capability, why) : -1;
  return runtime::cpuRank(e.needs, runtime::cpuRankOf(needsOf(r.target, false)), why);
}

/// The record of an entry. Damage is reported once, and the entry counts as missing.
static bool readRecord(TegulaContext &c, const Bundle &b, uint32_t i, BundleRecord &record, std::string &trouble) {
  Status s = b.record(i, record);
  if (s) return true;
  if (trouble.find(s.text) == trouble.npos) {
    trouble += (trouble.empty() ? "" : "; ") + s.text;
    c.warn(s.text);
  }
  return false;
}

namespace {
struct Found {
  const Bundle *bundle = nullptr;
  uint32_t index = 0;
  BundleRecord record;
  int rank = -1;
  unsigned facts = 0;
};
} // namespace

/// Has the record the same source?
static bool sameSource(const BundleRecord &record, const std::string &source) {
  for (const auto &[name, value] : record.properties)
    if (name == "source") return value == source;
  return false;
}

static bool find(const CompileRequest &r, const std::vector<std::shared_ptr<const Bundle>> &layers, BundleFit fit,
                 Found &best, std::string &trouble) {
  const runtime::Digest key = classKeyOf(r);
  const BundleRecord wanted = classOf(r);
  const std::string source = r.function->fn->sourceHash();
  for (const std::shared_ptr<const Bundle> &b : layers)
    for (uint32_t i : fit == BundleFit::Exact ? b->ofClass(key) : b->ofKernel(r.name)) {
      int rank = rankFor(r, b->entries()[i]);
      if (rank < 0 || (fit == BundleFit::Exact && rank <= best.rank)) continue;
      BundleRecord record;
      if (!readRecord(*r.function->context, *b, i, record, trouble)) continue;
      if (fit == BundleFit::General && (!sameSource(record, source) || !covers(record, wanted))) continue;
      unsigned facts = factsOf(record);
      // 64-bit offsets serve requests for them, and otherwise only requests that no other entry serves.
      auto worth = [&](bool wide, unsigned n, int by) { return std::tuple(wide == r.options.wide, n, by); };
      if (best.bundle &&
          worth(record.options.wide, facts, rank) <= worth(best.record.options.wide, best.facts, best.rank))
        continue;
      best = {b.get(), i, std::move(record), rank, facts};
    }
  return best.bundle;
}

bool takeBundled(const CompileRequest &r, TegulaKernel &k, BundleFit fit, std::string &trouble) {
  TegulaContext &c = *r.function->context;
  if (!c.bundles || !r.device) return false;
  Found found;
  std::vector<std::shared_ptr<const Bundle>> layers = c.bundles->all();
  if (!find(r, layers, fit, found, trouble)) return false;
  if (Status s = found.bundle->code(found.index, k.object); !s) {
    trouble += (trouble.empty() ? "" : "; ") + s.text;
    c.warn(s.text);
    k.object.clear();
    return false;
  }
  const uint8_t device = k.options.device;
  const std::vector<KernelParam> params = k.params;
  const std::string name = k.name;
  if (!readSaved(found.record.properties, k)) {
    trouble += found.bundle->name() + ": " + found.bundle->entries()[found.index].title() + " is damaged";
    return false;
  }
  k.info = std::move(found.record.info);
  k.options.device = device;
  k.options.reproducers = r.options.reproducers;
  k.params = params;
  k.name = name;
  k.origin = TEGULA_FROM_BUNDLE;
  return argumentsFit(k);
}

// ---- no_jit

/// The nearest entries of the bundles: of those that the device runs, the ones with the fewest differences.
static std::string nearestTo(const CompileRequest &r, const std::vector<std::shared_ptr<const Bundle>> &layers) {
  const BundleRecord wanted = classOf(r);
  const std::string source = r.function->fn->sourceHash();
  std::set<std::string> elsewhere;
  std::set<std::pair<unsigned, std::string>> here;
  for (const std::shared_ptr<const Bundle> &b : layers)
    for (uint32_t i : b->ofKernel(r.name)) {
      BundleRecord record;
      const BundleEntry &e = b->entries()[i];
      if (rankFor(r, e) < 0) elsewhere.insert(e.target);
      else if (Status s = b->record(i, record); !s) here.emplace(1000, s.text);
      else if (!sameSource(record, source))
        here.emplace(999, record.signature + " in " + b->name() + " is of another source");
      else {
        unsigned count = 0;
        std::string difference = differenceOf(record, wanted, &count);
        here.emplace(count, record.signature + " in " + b->name() + " has " + difference);
      }
    }
  if (here.empty() && elsewhere.empty()) return ", and nothing of that name";
  std::string text;
  // Forms of one signature (64-bit offsets, checks) differ in more than the first difference, which is the only one
  // shown.
  std::vector<std::string> lines;
  for (const auto &[count, line] : here)
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
  constexpr size_t most = 3;
  for (size_t i = 0; i < std::min(lines.size(), most); ++i) text += "\n  " + lines[i];
  if (lines.size() > most) text += "\n  and " + std::to_string(lines.size() - most) + " more";
  if (!lines.empty()) return "; nearest:" + text;
  for (const std::string &t : elsewhere) text += (text.empty() ? "" : ", ") + t;
  return "; they have it for " + text;
}

bool mayCompile(const CompileRequest &r, const std::string &trouble) {
  TegulaContext &c = *r.function->context;
  const int32_t mode = c.noJit.load(std::memory_order_relaxed);
  // ahead-of-time compilation asks for code for another machine
  if (mode == TEGULA_NO_JIT_OFF || !r.device) return true;
  std::vector<std::shared_ptr<const Bundle>> layers =
      c.bundles ? c.bundles->all() : std::vector<std::shared_ptr<const Bundle>>();
  std::string text = "`" + r.name + "` is not compiled ahead of time for " + classText(r);
  if (layers.empty()) text += ": no bundle is loaded";
  else text += ": the bundles do not have this class" + nearestTo(r, layers);
  if (!trouble.empty()) text += "\n  " + trouble;
  if (mode == TEGULA_NO_JIT_WARN) {
    c.warn(text + "\n  it is compiled now (no_jit=warn)");
    return true;
  }
  fail(TEGULA_NOT_COMPILED, text);
  return false;
}

// ---- layers

void CacheLayers::addOne(std::string item) {
  if (item.empty()) return;
  (item.ends_with(".tgb") ? archives : directories).push_back(std::move(item));
}

void CacheLayers::add(std::string_view list) {
  while (!list.empty()) {
    size_t n = std::min(list.find(':'), list.size());
    addOne(std::string(list.substr(0, n)));
    list.remove_prefix(std::min(n + 1, list.size()));
  }
}

static bool addLayer(TegulaContext &c, const std::string &path, const runtime::PublicKey *key, bool trusted,
                     Status &status) {
  std::shared_ptr<const Bundle> b = Bundle::open(path, key, trusted, status);
  if (!b) return false;
  for (const std::string &note : b->notes()) c.warn(note);
  if (!c.bundles) c.bundles = std::make_shared<BundleLayers>();
  c.bundles->add(std::move(b));
  return true;
}

void openLayers(TegulaContext &c, const std::vector<std::string> &archives) {
  for (const std::string &path : archives) {
    Status status;
    if (!addLayer(c, path, nullptr, false, status)) c.warn("the layer " + status.text + "; it is not used");
  }
}

} // namespace tegula::api

using namespace tegula;
using namespace tegula::api;

TegulaStatus tegula_context_load_bundle(TegulaContext *c, const char *path, const uint8_t *publicKey) {
  if (!c || !path) return fail(TEGULA_INVALID_ARGUMENT, "tegula_context_load_bundle: null argument");
  GateSection section;
  runtime::PublicKey key;
  if (publicKey) std::memcpy(key.data(), publicKey, key.size());
  runtime::Status status;
  return addLayer(*c, path, publicKey ? &key : nullptr, true, status) ? TEGULA_OK : fail(status);
}

TegulaStatus tegula_context_set_no_jit(TegulaContext *c, int32_t mode) {
  if (!c || mode < TEGULA_NO_JIT_OFF || mode > TEGULA_NO_JIT_WARN)
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_context_set_no_jit: null context, or no such mode");
  c->noJit.store(mode, std::memory_order_relaxed);
  return TEGULA_OK;
}

int32_t tegula_context_no_jit(const TegulaContext *c) {
  return c ? c->noJit.load(std::memory_order_relaxed) : static_cast<int32_t>(TEGULA_NO_JIT_OFF);
}
