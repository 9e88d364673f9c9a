// Tuners: selects the configuration of a kernel to launch for given arguments. src/tune decides what to measure, and
// how.
#include "api/Specialize.h"
#include "api/Sized.h"
#include "api/TuneRun.h"
#include "api/TuneSpace.h"
#include <algorithm>
#include <cstdio>
#include <cstring>

using namespace tegula;
using namespace tegula::api;
using runtime::Status;

namespace {
/// The inputs of a choice: numbers of the arguments in its key, types of pointers, the device.
struct TuneKey {
  static constexpr unsigned maxWords = 2 * BoundCall::maxLeaves;
  uint64_t words[maxWords];
  unsigned count = 0;
  void add(uint64_t w) {
    if (count < maxWords) words[count++] = w;
  }
};

/// How an argument affects the choice.
enum class Part : uint8_t {
  Type,  // only its type counts
  Value, // its value, too
  Chosen // it comes from a configuration
};

/// Properties of an argument that ensure the same key. Checked without branches: a look-up is half of the cost that a
/// tuner adds to a launch.
struct Likeness {
  uint32_t headMask = 0, head = 0; // of its first four bytes: kind, type, flags
  uint64_t mask = 0, bits = 0;     // of its number

  Likeness(const TegulaArg &a, Part part) {
    if (part == Part::Chosen) return;
    bool isPointer = a.kind == TEGULA_ARG_POINTER;
    TegulaArg all{};
    all.kind = 0xFF, all.dtype = static_cast<TegulaDtype>(isPointer ? 0xFF : 0);
    std::memcpy(&headMask, &all, sizeof headMask);
    std::memcpy(&head, &a, sizeof head);
    head &= headMask;
    bool isNumber = a.kind == TEGULA_ARG_INT || a.kind == TEGULA_ARG_UINT || a.kind == TEGULA_ARG_BOOL ||
                    a.kind == TEGULA_ARG_FLOAT;
    if (isNumber && part == Part::Value) mask = ~uint64_t(0), bits = a.u.u;
  }
  /// False: the key depends on more than the number of such arguments.
  static bool canTell(const TegulaArg &a) { return a.kind != TEGULA_ARG_TUPLE && a.kind != TEGULA_ARG_VALUE; }
  bool holds(const TegulaArg &a) const {
    uint32_t now;
    std::memcpy(&now, &a, sizeof now);
    return (now & headMask) == head && (a.u.u & mask) == bits;
  }
};

/// Immutable once it is in the list; read without a lock.
struct Choice {
  std::vector<uint64_t> key;
  size_t config = 0; // among all of the tuner's
  std::shared_ptr<const std::vector<TuneConfig>> list; // the list that contains `use`
  const TuneConfig *use = nullptr;
  std::string report;
  const Choice *next = nullptr;
  int32_t device = -1;
  std::vector<Likeness> alike; // of the arguments that it was made for; empty: not decidable

  bool is(const TuneKey &k) const { return key.size() == k.count && std::equal(key.begin(), key.end(), k.words); }
  /// Is the choice for this call? True only if is() is true; false as soon as the check would take longer.
  bool isPlainly(const TegulaArg *args, size_t count, int32_t d) const {
    if (d != device || count != alike.size()) return false;
    for (size_t i = 0; i < count; ++i)
      if (!alike[i].holds(args[i])) return false;
    return true;
  }
};
} // namespace

static std::atomic<uint64_t> tunersMade{0};

/// Configurations that are tuned together.
struct ConfigList {
  std::shared_ptr<const std::vector<TuneConfig>> configs;
  std::vector<tune::Point> points; // their points in a space
  size_t first = 0;                // index of the first, among all of the tuner's
};

struct TegulaTuner : RefCounted {
  ~TegulaTuner() {
    for (const Choice *c = choices.load(); c;) delete std::exchange(c, c->next);
  }
  const uint64_t id = ++tunersMade;
  Ref<TegulaFunction> function;
  /// One list; for a tuner that proposes configurations, one for each choice.
  std::vector<ConfigList> lists;
  mutable std::mutex listMutex;
  bool proposes = false;
  TegulaTunerOptions options = TEGULA_TUNER_OPTIONS_INIT;
  std::vector<Part> parts; // of each parameter
  std::vector<std::string> names; // of the parameters
  std::mutex mutex;         // for tuning, and for adding to `choices`
  std::atomic<const Choice *> choices{nullptr}, recent{nullptr};

  const Choice *find(const TuneKey &key) const {
    for (const Choice *c = choices.load(std::memory_order_acquire); c; c = c->next)
      if (c->is(key)) return c;
    return nullptr;
  }
};

/// This thread's latest choice, valid while the tuner of that id lives.
static thread_local struct {
  const Choice *choice;
  uint64_t tuner;
} last;

// ---- making one

/// A tuner without configurations. Null: the last error is set.
static std::unique_ptr<TegulaTuner> makeTuner(TegulaFunction &f, const TegulaTunerOptions *options) {
  auto made = std::make_unique<TegulaTuner>();
  TegulaTuner &t = *made;
  t.function = Ref(&f);
  if (options && !takeSized(options, t.options))
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_tuner_create: `size` of the options is not set"), nullptr;
  const std::vector<Param> &params = f.params();
  t.parts.resize(params.size(), t.options.key ? Part::Type : Part::Value);
  for (const Param &p : params) t.names.push_back(p.name);
  for (size_t i = 0; t.options.key && i < t.options.key_count; ++i) {
    const char *name = t.options.key[i];
    auto p = std::find(t.names.begin(), t.names.end(), name ? name : "");
    if (p == t.names.end()) {
      fail(TEGULA_INVALID_ARGUMENT, "tegula_tuner_create: the key names `" + std::string(name ? name : "") +
                                        "`, which is no parameter of `" + f.fn->name + "`");
      return nullptr;
    }
    t.parts[static_cast<size_t>(p - t.names.begin())] = Part::Value;
  }
  return made;
}

static void noteChosen(TegulaTuner &t, const std::vector<TuneConfig> &configs) {
  for (const TuneConfig &c : configs)
    for (const TuneConfig::Value &v : c.values) t.parts[v.param] = Part::Chosen;
}

TegulaStatus tegula_tuner_create(TegulaFunction *f, const TegulaConfig *configs, size_t count,
                                 const TegulaTunerOptions *options, TegulaTuner **out) {
  if (!f || (!configs && count) || !out) return fail(TEGULA_INVALID_ARGUMENT, "tegula_tuner_create: null argument");
  if (!count) return fail(TEGULA_INVALID_ARGUMENT, "tegula_tuner_create: there are no configurations");
  GateSection section;
  std::unique_ptr<TegulaTuner> t = makeTuner(*f, options);
  if (!t) return TEGULA_INVALID_ARGUMENT;
  auto list = std::make_shared<std::vector<TuneConfig>>(count);
  size_t step = configs->size; // an older program's structs are smaller
  if (!isSized(configs) || step % alignof(TegulaConfig))
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_tuner_create: `size` of a configuration is not set");
  for (size_t i = 0; i < count; ++i)
    if (!readConfig(*f, *reinterpret_cast<const TegulaConfig *>(reinterpret_cast<const char *>(configs) + i * step),
                    (*list)[i]))
      return TEGULA_INVALID_ARGUMENT;
  noteChosen(*t, *list);
  t->lists.push_back({std::move(list), {}, 0});
  *out = t.release();
  return TEGULA_OK;
}

TegulaStatus tegula_tuner_create_space(TegulaFunction *f, const TegulaSpace *space, const TegulaTunerOptions *options,
                                       TegulaTuner **out) {
  if (!f || !out) return fail(TEGULA_INVALID_ARGUMENT, "tegula_tuner_create_space: null argument");
  GateSection section;
  std::unique_ptr<TegulaTuner> t = makeTuner(*f, options);
  if (!t) return TEGULA_INVALID_ARGUMENT;
  t->proposes = !space;
  if (space) {
    auto list = std::make_shared<std::vector<TuneConfig>>();
    std::vector<tune::Point> points;
    if (!readSpace(*f, *space, *list, points)) return tegula_last_status();
    noteChosen(*t, *list);
    t->lists.push_back({std::move(list), std::move(points), 0});
  }
  *out = t.release();
  return TEGULA_OK;
}

void tegula_tuner_retain(TegulaTuner *t) { retain(t); }
void tegula_tuner_release(TegulaTuner *t) { release(t); }

static const TuneConfig *configAt(const TegulaTuner *t, size_t i) {
  if (!t) return nullptr;
  std::lock_guard lock(t->listMutex);
  for (const ConfigList &l : t->lists)
    if (i >= l.first && i - l.first < l.configs->size()) return &(*l.configs)[i - l.first];
  return nullptr;
}
const char *tegula_tuner_config_name(const TegulaTuner *t, size_t i) {
  const TuneConfig *c = configAt(t, i);
  return c ? c->name.c_str() : nullptr;
}
const TegulaConfig *tegula_tuner_config(const TegulaTuner *t, size_t i) {
  const TuneConfig *c = configAt(t, i);
  return c ? &c->view : nullptr;
}

// ---- choosing

static void addToKey(const TegulaArg &a, bool keyed, TuneKey &key) {
  switch (a.kind) {
  case TEGULA_ARG_POINTER: return key.add(uint64_t(1) << 32 | a.dtype);
  case TEGULA_ARG_TUPLE:
    for (uint32_t i = 0; i < a.count && a.u.items; ++i) addToKey(a.u.items[i], keyed, key);
    return;
  case TEGULA_ARG_INT: case TEGULA_ARG_UINT: case TEGULA_ARG_BOOL: case TEGULA_ARG_FLOAT:
    if (keyed) key.add(a.u.u);
    return;
  case TEGULA_ARG_VALUE:
    if (keyed && a.u.value) key.add(a.u.value->keyWords()[0]);
    return;
  default: return;
  }
}

static void makeKey(const TegulaTuner &t, const TegulaArg *args, size_t count, int32_t device, TuneKey &key) {
  key.add(static_cast<uint32_t>(device));
  for (size_t i = 0; i < count; ++i)
    if (t.parts[i] != Part::Chosen) addToKey(args[i], t.parts[i] == Part::Value, key);
}

/// "M=4096, N=4096, x:*fp16": the meaning of the key, for people.
static std::string keyText(const TegulaTuner &t, const TegulaArg *args, size_t count) {
  std::string out;
  auto add = [&](const std::string &item) { out += (out.empty() ? "" : ", ") + item; };
  auto walk = [&](auto &&self, const std::string &name, const TegulaArg &a, bool keyed) -> void {
    char number[32];
    switch (a.kind) {
    case TEGULA_ARG_POINTER: return add(name + ":*" + tegula_dtype_name(a.dtype));
    case TEGULA_ARG_TUPLE:
      for (uint32_t i = 0; i < a.count && a.u.items; ++i)
        self(self, name + "." + std::to_string(i), a.u.items[i], keyed);
      return;
    case TEGULA_ARG_UINT: return keyed ? add(name + "=" + std::to_string(a.u.u)) : void();
    case TEGULA_ARG_INT: case TEGULA_ARG_BOOL: return keyed ? add(name + "=" + std::to_string(a.u.i)) : void();
    case TEGULA_ARG_FLOAT:
      return std::snprintf(number, sizeof number, "%.9g", a.u.f), keyed ? add(name + "=" + number) : void();
    case TEGULA_ARG_VALUE: return keyed && a.u.value ? add(name + "=" + a.u.value->reprText()) : void();
    default: return;
    }
  };
  for (size_t i = 0; i < count; ++i)
    if (t.parts[i] != Part::Chosen) walk(walk, t.names[i], args[i], t.parts[i] == Part::Value);
  return out;
}

/// The configurations for these arguments. False: the last error is set.
static bool listFor(TegulaTuner &t, const TuneSubject::Call &call, const TegulaArg *args, size_t count, ConfigList &out,
                    std::string &recipe) {
  if (!t.proposes) return out = t.lists.front(), true;
  auto configs = std::make_shared<std::vector<TuneConfig>>();
  if (!proposeConfigs(*t.function, call, args, count, *configs, out.points, recipe)) return false;
  out.configs = std::move(configs);
  std::lock_guard lock(t.listMutex);
  if (!t.lists.empty()) out.first = t.lists.back().first + t.lists.back().configs->size();
  t.lists.push_back(out);
  return true;
}

/// Is the kernel written as text for each configuration?
static bool isFamily(const std::vector<TuneConfig> &configs) {
  return std::any_of(configs.begin(), configs.end(), [](const TuneConfig &c) { return bool(c.function); });
}

/// Tunes for these arguments. Null: the last error is set.
static const Choice *tuneFor(TegulaTuner &t, const TuneKey &key, const TuneSubject::Call &call, const TegulaArg *args,
                             size_t count, int32_t device) {
  TuneJob job;
  ConfigList list;
  if (!listFor(t, call, args, count, list, job.recipe)) return nullptr;
  auto subject = std::make_shared<TuneSubject>(t.function, list.configs, args, count, call);
  job.subject = subject;
  job.name = t.function->fn->name;
  job.function = t.function.get();
  job.arguments = subject->given = keyText(t, args, count);
  job.device = device;
  job.stream = call.options.stream;
  for (const TuneConfig &c : *list.configs)
    if (isFamily(*list.configs))
      job.texts.push_back((c.function ? c.function : t.function)->fn->sourceHash().substr(0, 12));
  readOptions(t.options, *t.function->context, job);
  // A list that was made from a space is one: the search learns about each parameter separately.
  if (list.points.empty() && t.options.search > 0) list.points = pointsOf(*list.configs);
  searchIf(t.options, list.points, job);
  TuneReport report;
  Status s = runTuning(*t.function->context, job, report);
  for (const std::string &w : report.warnings) t.function->context->warn(w);
  if (!s) return fail(s), nullptr;
  auto *choice = new Choice{{key.words, key.words + key.count},
                            list.first + report.best,
                            list.configs,
                            &(*list.configs)[report.best],
                            std::move(report.json),
                            t.choices.load(std::memory_order_relaxed),
                            device,
                            {}};
  for (size_t i = 0; i < count && std::all_of(args, args + count, Likeness::canTell); ++i)
    choice->alike.emplace_back(args[i], t.parts[i]);
  t.choices.store(choice, std::memory_order_release);
  return choice;
}

/// `call`: its device is filled in if it can no longer change.
static const Choice *choose(TegulaTuner &t, TuneSubject::Call &call, const TegulaArg *args, size_t count) {
  int32_t device = call.options.device >= 0 ? call.options.device : t.function->context->inferDevice(args, count);
  if (device < 0) return nullptr;
  auto remember = [&](const Choice *c) {
    last = {c, t.id};
    // Memory that counts as the CPU's may turn out to be a GPU's when the kernel is compiled.
    if (device != DeviceIndex::cpu) call.options.device = device;
    return c;
  };
  if (const Choice *c = t.recent.load(std::memory_order_acquire); c && c->isPlainly(args, count, device))
    return remember(c);
  TuneKey key;
  makeKey(t, args, count, device, key);
  const Choice *c = t.find(key);
  if (!c) {
    std::lock_guard lock(t.mutex); // other threads that want the same wait for it
    if (!(c = t.find(key)) && !(c = tuneFor(t, key, call, args, count, device))) return nullptr;
  }
  t.recent.store(c, std::memory_order_release);
  return remember(c);
}

/// The checks common to all calls; fills in `call`.
static bool begin(const char *function, TegulaTuner *t, TegulaGridFn grid, void *user, const TegulaArg *args,
                  size_t count, const TegulaLaunchOptions *options, TuneSubject::Call &call) {
  if (!t || !grid || (!args && count))
    return fail(TEGULA_INVALID_ARGUMENT, std::string(function) + ": null argument"), false;
  if (count > t->names.size() || count > BoundCall::maxLeaves)
    return fail(TEGULA_INVALID_ARGUMENT, "`" + t->function->fn->name + "` takes " + std::to_string(t->names.size()) +
                                             " arguments, " + std::to_string(count) + " were given"),
           false;
  call = {grid, user, TEGULA_LAUNCH_OPTIONS_INIT};
  if (!options) return true;
  if (!takeSized(options, call.options))
    return fail(TEGULA_INVALID_ARGUMENT, std::string(function) + ": `size` of the options is not set"), false;
  return true;
}

TegulaStatus tegula_tuner_choose(TegulaTuner *t, TegulaGridFn grid, void *user, const TegulaArg *args, size_t count,
                                 const TegulaLaunchOptions *options, size_t *config) {
  TuneSubject::Call call;
  if (!config) return fail(TEGULA_INVALID_ARGUMENT, "tegula_tuner_choose: null argument");
  if (!begin("tegula_tuner_choose", t, grid, user, args, count, options, call)) return TEGULA_INVALID_ARGUMENT;
  const Choice *c = choose(*t, call, args, count);
  if (!c) return tegula_last_status();
  *config = c->config;
  return TEGULA_OK;
}

TegulaStatus tegula_tuner_launch(TegulaTuner *t, TegulaGridFn grid, void *user, const TegulaArg *args, size_t count,
                                 const TegulaLaunchOptions *options, TegulaKernel **kernel) {
  TuneSubject::Call call;
  if (!begin("tegula_tuner_launch", t, grid, user, args, count, options, call)) return TEGULA_INVALID_ARGUMENT;
  const Choice *c = choose(*t, call, args, count);
  if (!c) return tegula_last_status();
  const TuneConfig &config = *c->use;
  TegulaArg all[BoundCall::maxLeaves];
  size_t n = config.apply(args, count, all);
  config.apply(call.options);
  int64_t extents[3];
  if (!gridOf(*t->function, config, grid, user, extents)) return TEGULA_INVALID_ARGUMENT;
  return tegula_launch(config.function ? config.function.get() : t->function.get(), extents, all, n, &call.options,
                       kernel);
}

const char *tegula_tuner_report_json(TegulaTuner *t) {
  return t && last.tuner == t->id && last.choice ? last.choice->report.c_str() : "{}";
}

// ---- files

static TegulaStatus statusOf(const Status &s) { return s ? TEGULA_OK : fail(s); }

TegulaStatus tegula_tuner_write_project(TegulaTuner *t, const char *path) {
  if (!t) return fail(TEGULA_INVALID_ARGUMENT, "tegula_tuner_write_project: null tuner");
  TegulaFunction *f = t->function.get();
  bool family = false;
  {
    std::lock_guard lock(t->listMutex);
    for (const ConfigList &l : t->lists) family |= isFamily(*l.configs);
  }
  return statusOf(f->context->tuning.results().writeProject(kernelKeyOf(*f, family), path ? path : ""));
}

TegulaStatus tegula_results_forget(TegulaFunction *f, const char *const *configs, size_t config_count, size_t *count) {
  if (!f || (!configs && config_count)) return fail(TEGULA_INVALID_ARGUMENT, "tegula_results_forget: null argument");
  tune::KernelKey kernel = kernelKeyOf(*f);
  size_t all = 0, each = 0;
  std::string unknown;
  for (size_t i = 0; i < std::max<size_t>(config_count, 1); ++i) {
    const char *config = config_count ? configs[i] : "";
    if (!config || (config_count && !*config))
      return fail(TEGULA_INVALID_ARGUMENT, "tegula_results_forget: a configuration is null or empty");
    if (Status s = f->context->tuning.results().forget(kernel, config, each); !s) return fail(s);
    size_t others = 0;
    if (Status s = f->context->tuning.results().forget(kernelKeyOf(*f, true), config, others); !s) return fail(s);
    all += each += others;
    if (config_count && !each) unknown += (unknown.empty() ? "(" : ", (") + std::string(config) + ")";
  }
  if (count) *count = all;
  if (!unknown.empty()) return fail(TEGULA_NOT_FOUND, "`" + f->fn->name + "`: there are no results of " + unknown);
  return TEGULA_OK;
}

TegulaStatus tegula_results_show(const char *path, char **text) {
  if (!path || !text) return fail(TEGULA_INVALID_ARGUMENT, "tegula_results_show: null argument");
  tune::Results r;
  if (Status s = tune::readFile(path, r); !s) return fail(s);
  *text = strdup(tune::show(r).c_str());
  return TEGULA_OK;
}

TegulaStatus tegula_results_merge(const char *const *paths, size_t count, const char *out) {
  if (!paths || !out) return fail(TEGULA_INVALID_ARGUMENT, "tegula_results_merge: null argument");
  tune::Results all;
  for (size_t i = 0; i < count; ++i) {
    tune::Results one;
    if (!paths[i]) return fail(TEGULA_INVALID_ARGUMENT, "tegula_results_merge: null path");
    if (Status s = tune::readFile(paths[i], one); !s) return fail(s);
    all.join(one);
  }
  return statusOf(tune::writeFile(out, all));
}
