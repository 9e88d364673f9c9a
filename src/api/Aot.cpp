// Queues, compiles and writes bundles; reports gaps.
#include "api/Aot.h"
#include "api/Specialize.h"
#include "runtime/BundleMatch.h"
#include "runtime/Ed25519.h"
#include "support/Expr.h"
#include <algorithm>
#include <cstring>
#include <set>
#include <unistd.h>

using namespace tegula;
using namespace tegula::api;
using runtime::Status;

bool api::targetsNamed(TegulaContext &c, const char *const *names, size_t count, std::vector<Target> &out) {
  for (size_t i = 0; i < count; ++i) {
    std::optional<Target> t = names[i] ? parseTarget(names[i]) : std::nullopt;
    if (!t) return fail(TEGULA_NOT_FOUND, noSuchTarget(names[i] ? names[i] : "")), false;
    out.push_back(portable(*t));
  }
  if (out.empty()) out.push_back(portable(c.hostTarget()));
  return true;
}

/// The class whose pointers may all overlap; empty if it has fewer than two, or states itself which overlap.
static std::vector<sema::ParamSpec> overlapping(std::vector<sema::ParamSpec> specs) {
  unsigned pointers = 0;
  bool isSaid = false;
  auto visit = [&](auto &&self, sema::ParamSpec &s) -> void {
    for (sema::ParamSpec &item : s.items) self(self, item);
    if (s.kind != sema::ParamSpec::Kind::Runtime || !s.dtype.isPtr) return;
    isSaid |= s.overlap != 0;
    s.sameAs = -1, s.overlap = 1;
    ++pointers;
  };
  for (sema::ParamSpec &s : specs) visit(visit, s);
  if (pointers < 2 || isSaid) specs.clear();
  return specs;
}

/// The names in the grid must be those of numbers, constants or not. Otherwise the error would only be found where the
/// bundle is launched.
static bool gridFits(const AotJob &job, const std::vector<Param> &params) {
  if (job.grid.empty()) return true;
  auto isNumber = [&](std::string_view name) {
    for (size_t i = 0; i < params.size(); ++i)
      if (const sema::ParamSpec &s = job.specs[i]; params[i].name == name)
        return s.kind == sema::ParamSpec::Kind::Runtime
                   ? s.dtype.isInt()
                   : s.kind == sema::ParamSpec::Kind::Constexpr && (s.value.isInt() || s.value.isBool());
    return false;
  };
  std::string error;
  if (checkGrid(job.grid, isNumber, error)) return true;
  fail(TEGULA_INVALID_ARGUMENT, "`" + job.function->fn->name + "`: grid `" + job.grid + "`: " + error);
  return false;
}

bool TegulaAot::add(AotJob job, int32_t classes) {
  if (job.targets.empty()) return true;
  const std::vector<Param> &params = job.function->params();
  if (!gridFits(job, params)) return false;
  auto put = [&](std::vector<sema::ParamSpec> specs, const LaunchForm &form) {
    AotJob one = job;
    one.specs = std::move(specs);
    one.options.wide = one.options.wide || form.wide;
    one.options.checked = one.options.checked || form.nulls;
    if (form.nulls) std::erase_if(one.targets, [](const Target &t) { return !t.isCpu(); });
    if (!one.targets.empty()) jobs.push_back(std::move(one));
  };
  if (classes == TEGULA_CLASSES_GIVEN || classes == TEGULA_CLASSES_GENERIC) put(job.specs, {});
  if (classes == TEGULA_CLASSES_GIVEN) return true;
  std::vector<std::pair<LaunchForm, std::vector<std::vector<sema::ParamSpec>>>> all;
  constexpr uint64_t most = 4096;
  uint64_t count = 0;
  for (const LaunchForm &form : formsOf(job.specs, job.options)) {
    ClassList list(params, job.specs, form.nulls);
    auto &specs = all.emplace_back(form, std::vector<std::vector<sema::ParamSpec>>()).second;
    if (classes == TEGULA_CLASSES_GENERIC) {
      // One that accepts every launch of this form.
      for (const auto &c : list.each()) (specs.empty() ? specs.emplace_back() : specs.front()).push_back(c.back());
      for (size_t i = 0; i < job.specs.size(); ++i) specs.front()[i].sameAs = job.specs[i].sameAs;
      // And one for launches in which pointers share memory in any way.
      if (std::vector<sema::ParamSpec> sharing = overlapping(specs.front()); !sharing.empty())
        specs.push_back(std::move(sharing));
      continue;
    }
    const uint64_t here = classes == TEGULA_CLASSES_ALL ? list.all() : list.distinct();
    count = here > UINT64_MAX - count ? UINT64_MAX : count + here;
    if (count > most) continue;
    list.addDistinct(most, specs);
    if (classes == TEGULA_CLASSES_ALL) list.addMerged(most, specs);
  }
  if (count > most) {
    fail(
        TEGULA_OUT_OF_RESOURCES,
        "`" + job.function->fn->name + "` has " + std::to_string(count) + " classes; at most " + std::to_string(most) +
            " are compiled (do_not_specialize makes them fewer, and so does `distinct`, without those in which two parameters are one buffer)");
    return false;
  }
  for (auto &[form, list] : all)
    for (std::vector<sema::ParamSpec> &specs : list) put(std::move(specs), form);
  return true;
}

TegulaStatus tegula_aot_create(TegulaContext *c, TegulaAot **out) {
  if (!c || !out) return fail(TEGULA_INVALID_ARGUMENT, "tegula_aot_create: null argument");
  auto *a = new TegulaAot;
  a->context = Ref(c);
  *out = a;
  return TEGULA_OK;
}

void tegula_aot_release(TegulaAot *a) {
  GateSection section;
  release(a);
}

static bool isClasses(int32_t classes) {
  return classes >= TEGULA_CLASSES_GENERIC && classes <= TEGULA_CLASSES_DISTINCT;
}

TegulaStatus tegula_aot_add(TegulaAot *a, TegulaFunction *f, const char *signature, const TegulaNamedValue *constants,
                            size_t constantCount, const char *const *targets, size_t targetCount,
                            const TegulaLaunchOptions *options, const char *grid, int32_t classes) {
  if (!a || !f || (constantCount && !constants) || (targetCount && !targets) || !isClasses(classes))
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_aot_add: null argument, or no such classes");
  GateSection section;
  CallOptions call;
  AotJob job;
  job.function = Ref(f);
  if (!a->context->resolve(options, call) ||
      !parseSignature(*f, signature ? signature : "", constants, constantCount, job.specs) ||
      !targetsNamed(*a->context, targets, targetCount, job.targets))
    return tegula_last_status();
  job.options = call.compile;
  job.grid = grid ? grid : "";
  job.where = "`" + f->fn->name + "`";
  return a->add(std::move(job), classes) ? TEGULA_OK : tegula_last_status();
}

TegulaStatus tegula_aot_add_manifest(TegulaAot *a, const char *path, const char *const *targets, size_t targetCount,
                                     int32_t classes) {
  if (!a || !path || (targetCount && !targets) || (classes != -1 && !isClasses(classes)))
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_aot_add_manifest: null argument, or no such classes");
  GateSection section;
  std::vector<Target> given;
  if (targetCount && !targetsNamed(*a->context, targets, targetCount, given)) return tegula_last_status();
  return readManifest(*a, path, given, classes) ? TEGULA_OK : tegula_last_status();
}

namespace {

/// One compilation: a class for a target.
struct Piece {
  size_t job;
  const Target *target;
  CompileRequest request;
};

CompileRequest requestOf(const AotJob &job, const Target &t) {
  CompileRequest r{job.function.get(), job.specs, job.options, t, nullptr, job.name};
  r.options.keepsPtx = true;
  r.options.device = 0;
  return r;
}

/// Each class and target once, in the order of the jobs from `first` on. False: the last error is set.
bool piecesOf(const TegulaAot &a, size_t first, std::vector<Piece> &out) {
  std::set<std::pair<runtime::Digest, std::string>> known;
  for (size_t i = first; i < a.jobs.size(); ++i)
    for (const Target &t : a.jobs[i].targets) {
      CompileRequest r = requestOf(a.jobs[i], t);
      if (!giveName(r)) return false;
      if (known.emplace(classKeyOf(r), r.name + "|" + t.name).second) out.push_back({i, &t, std::move(r)});
    }
  return true;
}

/// Compiles pieces in parallel. The first error stops all, unless the pieces are optional; which error is the first
/// depends only on the order of the pieces that were begun.
struct CompileTask final : runtime::RangeTask {
  const TegulaAot &aot;
  std::vector<Piece> &pieces;
  std::vector<runtime::NewBundleEntry> made;
  std::vector<std::string> leftOut; // by piece; "": it was compiled
  std::vector<char> splits;         // GpuInfo::splitsByGrid
  bool isOptional = false;          // pieces that cannot be compiled are not an error
  std::mutex mutex;
  size_t failedAt = SIZE_MAX;
  TegulaStatus status = TEGULA_OK;
  std::string error, root;

  CompileTask(const TegulaAot &a, std::vector<Piece> &p)
      : aot(a), pieces(p), made(p.size()), leftOut(p.size()), splits(p.size()) {}
  bool run(int64_t begin, int64_t end) override {
    for (int64_t i = begin; i < end; ++i) {
      Piece &p = pieces[static_cast<size_t>(i)];
      TegulaKernel *k = compileKernel(p.request);
      if (!k && (isOptional || aot.flags & TEGULA_AOT_KEEP_GOING)) {
        std::string why = tegula_last_error();
        leftOut[static_cast<size_t>(i)] =
            "`" + p.request.name + "` " + classText(p.request) + ": " + why.substr(0, why.find('\n'));
        continue;
      }
      if (!k) {
        std::lock_guard lock(mutex);
        if (static_cast<size_t>(i) < failedAt) {
          failedAt = static_cast<size_t>(i);
          status = tegula_last_status();
          error = aot.jobs[p.job].where + " for " + p.target->name + ": " + tegula_last_error();
        }
        return false;
      }
      made[static_cast<size_t>(i)] = entryOf(*k, p.request, root);
      made[static_cast<size_t>(i)].record.grid = aot.jobs[p.job].grid;
      splits[static_cast<size_t>(i)] = k->info.gpu.splitsByGrid && p.request.options.numCtas == 1;
      release(k);
    }
    return true;
  }
};

std::string workingFolder() {
  char *cwd = getcwd(nullptr, 0);
  std::string text = cwd ? std::string(cwd) + "/" : "";
  std::free(cwd);
  return text;
}

} // namespace

TegulaStatus tegula_aot_compile(TegulaAot *a, size_t *entries) {
  if (!a) return fail(TEGULA_INVALID_ARGUMENT, "tegula_aot_compile: null argument");
  GateSection section;
  std::vector<Piece> pieces;
  if (!piecesOf(*a, a->compiled, pieces)) return tegula_last_status();
  auto compileAll = [&](CompileTask &task, const std::vector<Piece> &all) {
    task.root = workingFolder();
    // The threads have sections of their own; this one waits for them.
    GatePause pause;
    if (!all.empty()) a->context->pool.run(task, static_cast<int64_t>(all.size()), a->context->threads, true);
  };
  CompileTask task(*a, pieces);
  compileAll(task, pieces);
  if (task.status != TEGULA_OK) return fail(task.status, task.error);
  // The forms for launches that leave multiprocessors idle (inForm() in Launch.cpp) come last, so that a launch that
  // does not ask for them finds the whole kernels first.
  std::vector<Piece> parts;
  for (size_t i = 0; i < pieces.size(); ++i)
    for (const int32_t n : {2, 4, 8})
      if (task.splits[i]) parts.push_back(pieces[i]), parts.back().request.options.numCtas = n;
  CompileTask forms(*a, parts);
  forms.isOptional = true;
  compileAll(forms, parts);
  for (size_t i = 0; i < pieces.size(); ++i)
    if (task.leftOut[i].empty()) a->entries.push_back(std::move(task.made[i]));
    else a->leftOut.push_back(std::move(task.leftOut[i]));
  for (size_t i = 0; i < parts.size(); ++i)
    if (forms.leftOut[i].empty()) a->entries.push_back(std::move(forms.made[i]));
  a->compiled = a->jobs.size();
  if (entries) *entries = a->entries.size();
  return TEGULA_OK;
}

TegulaStatus tegula_aot_set_flags(TegulaAot *a, uint32_t flags) {
  if (!a || flags & ~uint32_t(TEGULA_AOT_ANY_TARGET | TEGULA_AOT_KEEP_GOING))
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_aot_set_flags: null argument, or no such flag");
  a->flags = flags;
  return TEGULA_OK;
}

TegulaStatus tegula_aot_left_out(TegulaAot *a, char **text, size_t *count) {
  if (!a || !text || !count) return fail(TEGULA_INVALID_ARGUMENT, "tegula_aot_left_out: null argument");
  if (TegulaStatus s = tegula_aot_compile(a, nullptr); s != TEGULA_OK) return s;
  std::string lines;
  for (const std::string &l : a->leftOut) lines += l + "\n";
  *count = a->leftOut.size();
  for (const auto &[target, kernels] : a->ofOtherKinds) {
    lines += std::to_string(kernels) + (kernels == 1 ? " kernel" : " kernels") + " recorded for " + target +
             ": no target that is asked for is of that kind\n";
    *count += kernels;
  }
  *text = strdup(lines.c_str());
  return TEGULA_OK;
}

TegulaStatus tegula_aot_write(TegulaAot *a, const char *path, const uint8_t *secretKey) {
  if (!a || !path) return fail(TEGULA_INVALID_ARGUMENT, "tegula_aot_write: null argument");
  if (TegulaStatus s = tegula_aot_compile(a, nullptr); s != TEGULA_OK) return s;
  GateSection section;
  runtime::SecretKey key;
  if (secretKey) std::memcpy(key.data(), secretKey, key.size());
  std::vector<char> bytes;
  if (Status s = runtime::encodeBundle(a->entries, secretKey ? &key : nullptr, bytes); !s) return fail(s);
  Status s = runtime::writeBundle(path, bytes);
  return s ? TEGULA_OK : fail(s);
}

TegulaStatus tegula_aot_header(TegulaAot *a, const char *name, char **text) {
  if (!a || !name || !text) return fail(TEGULA_INVALID_ARGUMENT, "tegula_aot_header: null argument");
  if (TegulaStatus s = tegula_aot_compile(a, nullptr); s != TEGULA_OK) return s;
  GateSection section;
  std::string identifier;
  for (char c : std::string(name)) identifier += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (identifier.empty() || std::isdigit(static_cast<unsigned char>(identifier[0]))) identifier = "k" + identifier;
  *text = strdup(headerOf(a->entries, identifier).c_str());
  return TEGULA_OK;
}

TegulaStatus tegula_aot_gaps(TegulaAot *a, const char *path, const uint8_t *publicKey, char **text, size_t *count) {
  if (!a || !path || !text || !count) return fail(TEGULA_INVALID_ARGUMENT, "tegula_aot_gaps: null argument");
  GateSection section;
  runtime::PublicKey key;
  if (publicKey) std::memcpy(key.data(), publicKey, key.size());
  Status status;
  std::shared_ptr<const runtime::Bundle> b = runtime::Bundle::open(path, publicKey ? &key : nullptr, true, status);
  if (!b) return fail(status);
  std::vector<Piece> pieces;
  if (!piecesOf(*a, 0, pieces)) return tegula_last_status();
  std::string lines;
  size_t gaps = 0;
  for (const Piece &p : pieces) {
    bool found = false;
    std::string damage;
    for (uint32_t i : b->ofClass(classKeyOf(p.request)))
      if (b->entries()[i].target == p.target->name) {
        runtime::BundleRecord record;
        std::vector<char> code;
        Status s = b->record(i, record);
        if (s) s = b->code(i, code);
        found = static_cast<bool>(s);
        damage = s.text;
      }
    if (found) continue;
    ++gaps;
    lines += "`" + p.request.name + "` " + classText(p.request) + (damage.empty() ? "" : ": " + damage) + "\n";
  }
  *text = strdup(lines.c_str());
  *count = gaps;
  return TEGULA_OK;
}

TegulaStatus tegula_aot_make_keys(uint8_t publicKey[32], uint8_t secretKey[64]) {
  if (!publicKey || !secretKey) return fail(TEGULA_INVALID_ARGUMENT, "tegula_aot_make_keys: null argument");
  runtime::PublicKey p;
  runtime::SecretKey s;
  if (Status status = runtime::makeKeys(p, s); !status) return fail(status);
  std::memcpy(publicKey, p.data(), p.size());
  std::memcpy(secretKey, s.data(), s.size());
  return TEGULA_OK;
}
