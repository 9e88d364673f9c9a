// Contexts, devices, output, interrupts. The environment is read here and nowhere below.
#include "runtime/Dtype.h"
#include "api/Bundles.h"
#include "api/Handles.h"
#include "api/Record.h"
#include "api/Sized.h"
#include "api/Specialize.h"
#include "ir/StageVerifier.h"
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

using namespace tegula;
using namespace tegula::api;

static std::string environment(const char *name) {
  const char *v = std::getenv(name);
  return v ? v : "";
}

static bool truthy(const std::string &v) {
  static constexpr std::string_view yes[] = {"1", "true", "on", "yes", "y"};
  std::string lower;
  for (char c : v) lower += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  for (std::string_view y : yes)
    if (lower == y) return true;
  return false;
}

/// TEGULA_CPU_TARGET: an instruction set that launches are compiled for in place of the richest one of this machine.
static bool readForcedTarget(const std::string &name, std::optional<Target> &out) {
  if (name.empty()) return true;
  out = parseTarget(name);
  if (!out || !out->isCpu()) {
    fail(TEGULA_INVALID_ARGUMENT, "TEGULA_CPU_TARGET: " + noSuchTarget(name));
    return false;
  }
  if (hostProcessor()->runs(*out->what)) return true;
  fail(TEGULA_UNSUPPORTED, "TEGULA_CPU_TARGET is `" + name + "`, which this machine cannot execute");
  return false;
}

/// Seconds to nanoseconds; 0 for a negative number. Nullopt: not a number, or more than a century.
static std::optional<uint64_t> hangTime(double seconds) {
  if (!(seconds <= 3.2e9)) return std::nullopt;
  return seconds <= 0 ? 0 : static_cast<uint64_t>(seconds * 1e9);
}

/// TEGULA_HANG_S.
static bool readHangTime(const std::string &text, uint64_t &out) {
  if (text.empty()) return true;
  char *end;
  std::optional<uint64_t> ns = hangTime(std::strtod(text.c_str(), &end));
  if (*end || !ns) {
    fail(TEGULA_INVALID_ARGUMENT, "TEGULA_HANG_S is `" + text + "`; it must be a number of seconds");
    return false;
  }
  out = *ns;
  return true;
}

/// TEGULA_NO_JIT: 1 or warn.
static bool readNoJit(const std::string &text, int32_t &out) {
  bool off = text.empty() || text == "0" || text == "off" || text == "false";
  out = off ? TEGULA_NO_JIT_OFF : text == "warn" ? TEGULA_NO_JIT_WARN : TEGULA_NO_JIT_ERROR;
  if (off || text == "warn" || truthy(text)) return true;
  fail(TEGULA_INVALID_ARGUMENT, "TEGULA_NO_JIT is `" + text + "`; it must be 1, warn, or not be set");
  return false;
}

struct LevelName {
  lang::Level level;
  std::string_view name; // in $TEGULA_TRITON_LEVEL
};
static constexpr LevelName levels[] = {{lang::Level::v36, "3.6"}, {lang::Level::v37, "3.7"}, {lang::Level::v39, "3.9"}};

static std::optional<lang::Level> levelNamed(std::string_view name) {
  for (const LevelName &l : levels)
    if (l.name == name) return l.level;
  return std::nullopt;
}

/// As launch options give it: 36, 37, 39.
static std::optional<lang::Level> levelNumbered(int64_t number) {
  for (const LevelName &l : levels)
    if (static_cast<int64_t>(l.level) == number) return l.level;
  return std::nullopt;
}

/// TEGULA_TUNE, TEGULA_TUNE_BYTES, TEGULA_TUNE_DRY.
static bool readTuning(const std::string &how, const std::string &bytes, const std::string &dry, TuneSettings &out) {
  out.rehearses = dry == "sim";
  if (!dry.empty() && !out.rehearses) {
    fail(TEGULA_INVALID_ARGUMENT, "TEGULA_TUNE_DRY is `" + dry + "`; it must be `sim`, or not be set");
    return false;
  }
  out.deterministic = how == "deterministic";
  if (!how.empty() && !out.deterministic) {
    fail(TEGULA_INVALID_ARGUMENT, "TEGULA_TUNE is `" + how + "`; it must be `deterministic`, or not be set");
    return false;
  }
  if (bytes.empty()) return true;
  char *end;
  errno = 0;
  out.copyBytes = std::strtoull(bytes.c_str(), &end, 10);
  if (!*end && !errno && bytes[0] != '-') return true;
  fail(TEGULA_INVALID_ARGUMENT, "TEGULA_TUNE_BYTES is `" + bytes + "`; it must be a number of bytes");
  return false;
}

/// By default the temporary folder.
static std::string reproducerFolder(std::string asked) {
  std::error_code unused;
  return asked.empty() ? std::filesystem::temp_directory_path(unused).string() : asked;
}

TegulaStatus tegula_context_create(const TegulaContextOptions *options, TegulaContext **out) {
  if (!out) return fail(TEGULA_INVALID_ARGUMENT, "tegula_context_create: `out` is null");
  TegulaContextOptions o = TEGULA_CONTEXT_OPTIONS_INIT;
  if (options && !takeSized(options, o))
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_context_create: `size` of the options is not set");
  if (o.read_only_cache_dir_count && !o.read_only_cache_dirs)
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_context_create: read_only_cache_dirs is null");
  CacheLayers layers;
  for (size_t i = 0; i < o.read_only_cache_dir_count; ++i)
    if (o.read_only_cache_dirs[i]) layers.addOne(o.read_only_cache_dirs[i]);
  layers.add(environment("TEGULA_CACHE_LAYERS"));
  GateSection section;
  std::optional<Target> target;
  if (!readForcedTarget(environment("TEGULA_CPU_TARGET"), target)) return tegula_last_status();
  int32_t noJit = TEGULA_NO_JIT_OFF;
  if (!readNoJit(environment("TEGULA_NO_JIT"), noJit)) return tegula_last_status();
  uint64_t hangNs = 0;
  if (!readHangTime(environment("TEGULA_HANG_S"), hangNs)) return tegula_last_status();
  std::string levelName = environment("TEGULA_TRITON_LEVEL");
  std::optional<lang::Level> level = levelName.empty() ? lang::latestLevel : levelNamed(levelName);
  if (!level) return fail(TEGULA_INVALID_ARGUMENT, "TEGULA_TRITON_LEVEL is '" + levelName + "'; it must be 3.6, 3.7 or 3.9");
  std::string dir = o.cache_dir ? o.cache_dir : runtime::defaultCacheDirectory();
  uint64_t limit = static_cast<uint64_t>(std::max(0ll, std::atoll(environment("TEGULA_CACHE_LIMIT_MB").c_str()))) << 20;
  auto made = std::make_unique<TegulaContext>(dir, std::move(layers.directories), limit ? limit : runtime::DiskCache::defaultLimit);
  TegulaContext *c = made.get();
  if (!readTuning(environment("TEGULA_TUNE"), environment("TEGULA_TUNE_BYTES"), environment("TEGULA_TUNE_DRY"), c->tuning)) return tegula_last_status();
  // Results of tuning lie beside the code, unless the environment says otherwise.
  c->tuning.places = tune::Places::fromEnvironment();
  if (!std::getenv("TEGULA_TUNE_DIR")) c->tuning.places.directory = dir;
  c->forcedTarget = std::move(target);
  c->hangNs = hangNs;
  c->level = *level;
  c->deviceName = environment("TEGULA_DEVICE");
  if (o.allocator) c->allocator = *o.allocator;
  if (o.allocator && (!o.allocator->allocate || !o.allocator->free)) return fail(TEGULA_INVALID_ARGUMENT, "tegula_context_create: the allocator has a null function");
  if (o.executor && !o.executor->run) return fail(TEGULA_INVALID_ARGUMENT, "tegula_context_create: the executor has a null function");
  if (o.executor) c->pool.runOn({o.executor->user, o.executor->run});
  c->logFn = o.log;
  c->logUser = o.log_user;
  c->disk.onRefusal = [c](const std::string &why) { c->warn(why); };
  int64_t threads = o.num_threads;
  if (threads <= 0) threads = std::atoll(environment("TEGULA_NUM_THREADS").c_str());
  if (threads <= 0) threads = runtime::ThreadPool::availableCores();
  c->threads = static_cast<unsigned>(std::min<int64_t>(threads, runtime::ThreadPool::maxThreads));
  c->debug = o.debug >= 0 ? o.debug : truthy(environment("TEGULA_DEBUG"));
  c->checked = o.checked >= 0 ? o.checked : truthy(environment("TEGULA_CHECK"));
  c->verify = truthy(environment("TEGULA_VERIFY"));
  if (c->verify || ir::verifiesAlways) c->reproducers = std::make_shared<const std::string>(reproducerFolder(environment("TEGULA_REPRODUCER_DIR")));
  c->strict = truthy(environment("TEGULA_STRICT"));
  c->noJit.store(noJit);
  openLayers(*c, layers.archives);
  if (std::string path = environment("TEGULA_RECORD"); !path.empty()) c->recorder = std::make_shared<Recorder>(path);
  *out = made.release();
  return TEGULA_OK;
}

void tegula_context_retain(TegulaContext *c) { retain(c); }
void tegula_context_release(TegulaContext *c) { release(c); }

TegulaStatus tegula_context_set_output(TegulaContext *c, TegulaOutputFn fn, void *user) {
  if (!c) return fail(TEGULA_INVALID_ARGUMENT, "tegula_context_set_output: null context");
  c->setOutput(fn, user);
  return TEGULA_OK;
}

TegulaStatus tegula_context_set_interrupt(TegulaContext *c, TegulaInterruptFn fn, void *user) {
  if (!c) return fail(TEGULA_INVALID_ARGUMENT, "tegula_context_set_interrupt: null context");
  c->interrupt = fn;
  c->interruptUser = user;
  return TEGULA_OK;
}

void tegula_shutdown(void (*before_sleep)(void)) { closeGateForExit(before_sleep); }

void tegula_cancel(TegulaContext *c) {
  if (c) c->cancel.cancelAll();
}

void TegulaContext::setOutput(TegulaOutputFn fn, void *user) {
  GatePause pause;
  std::lock_guard lock(outputMutex_);
  output_ = fn;
  outputUser_ = user;
}

void TegulaContext::afterFork() {
  new (&outputMutex_) std::recursive_mutex;
  new (&logMutex_) std::recursive_mutex;
  new (&allocatedMutex) std::mutex;
}

void TegulaContext::log(int32_t severity, std::string_view text) {
  GatePause pause;
  std::lock_guard lock(logMutex_);
  logFn(logUser, severity, text.data(), text.size());
}

void TegulaContext::warn(std::string_view text) {
  if (logFn) log(TEGULA_WARNING, text);
  else std::fprintf(stderr, "tegula: warning: %.*s\n", static_cast<int>(text.size()), text.data());
}

void TegulaContext::print(int32_t stream, std::string_view text) {
  if (text.empty()) return;
  GatePause pause;
  std::lock_guard lock(outputMutex_);
  if (output_) return output_(outputUser_, stream, text.data(), text.size());
  fwrite(text.data(), 1, text.size(), stdout);
  fflush(stdout);
}

int32_t TegulaContext::inferDevice(const TegulaArg *args, size_t count) {
  int32_t device = deviceName.empty() ? -1 : environmentDevice();
  if (!environmentStatus_) {
    fail(environmentStatus_.code, "TEGULA_DEVICE: " + environmentStatus_.text);
    return -1;
  }
  if (device < 0 && cudaInUse.load(std::memory_order_relaxed)) device = deviceOf(args, count);
  // Without pointers: where the thread's other CUDA calls go, else the CPU.
  if (device < 0) device = cudaInUse.load(std::memory_order_relaxed) ? currentDevice() : DeviceIndex::cpu;
  return device;
}

bool TegulaContext::resolve(const TegulaLaunchOptions *options, CallOptions &out, const TegulaArg *args, size_t count) {
  CompileOptions &c = out.compile;
  int32_t device = isSized(options) ? options->device : -1;
  out.deviceGiven = device >= 0;
  if (!out.deviceGiven && (device = inferDevice(args, count)) < 0) return false;
  if (device > 255) {
    fail(TEGULA_NOT_FOUND, "there is no device " + std::to_string(device));
    return false;
  }
  out.device = device;
  c.device = static_cast<uint8_t>(device);
  c.debug = debug;
  c.level = level;
  c.debugInfo = debug;
  c.checked = checked;
  c.verify = verify;
  c.reproducers = reproducers;
  c.strict = strict;
  out.threads = threads;
  out.hangNs = hangNs;
  if (!options) return true;
  if (!isSized(options)) {
    fail(TEGULA_INVALID_ARGUMENT, "`size` of the launch options is not set");
    return false;
  }
  const TegulaLaunchOptions &o = *options;
  auto wrong = [](const char *name, int64_t value, const char *rule) {
    fail(TEGULA_INVALID_ARGUMENT, std::string(name) + " is " + std::to_string(value) + "; it must be " + rule);
    return false;
  };
  constexpr int mostWarps = 64;
  if (o.num_warps < 0 || (o.num_warps & (o.num_warps - 1))) return wrong("num_warps", o.num_warps, "a power of 2, at most 64");
  if (o.num_warps > mostWarps) { // as on GPUs: a tuner goes on without the configuration
    const std::string text = "num_warps is " + std::to_string(o.num_warps) + "; it must be a power of 2, at most 64";
    return fail(runtime::Status::exhausted("threads", uint64_t(o.num_warps) * 32, mostWarps * 32, text)), false;
  }
  if (o.num_stages < 0 || o.num_stages > 255) return wrong("num_stages", o.num_stages, "between 1 and 255");
  if (o.num_ctas < 0 || o.num_ctas > 255) return wrong("num_ctas", o.num_ctas, "between 1 and 255");
  if (o.maxnreg < 0) return wrong("maxnreg", o.maxnreg, "positive");
  if (o.num_threads < 0) return wrong("num_threads", o.num_threads, "positive, or 0 for all cores");
  if (o.hang_s != 0) {
    std::optional<uint64_t> ns = hangTime(o.hang_s);
    if (!ns) {
      fail(TEGULA_INVALID_ARGUMENT, "hang_s must be a number of seconds");
      return false;
    }
    out.hangNs = *ns;
  }
  if (o.language_level != 0) {
    std::optional<lang::Level> level = levelNumbered(o.language_level);
    if (!level) return wrong("language_level", o.language_level, "36, 37 or 39");
    c.level = *level;
  }
  if (o.opt_level > 3) return wrong("opt_level", o.opt_level, "between 0 and 3");
  if (o.num_warps) c.numWarps = o.num_warps;
  if (o.num_stages) c.numStages = o.num_stages;
  if (o.num_ctas) c.numCtas = o.num_ctas;
  c.maxnreg = o.maxnreg;
  c.cooperative = o.cooperative != 0;
  c.programmaticLaunch = o.programmatic_launch != 0;
  out.stream = o.stream;
  if (o.debug >= 0) c.debug = o.debug;
  if (o.checked >= 0) c.checked = o.checked;
  if (o.strict >= 0) c.strict = o.strict;
  c.wide = o.wide_offsets > 0;
  if (hasField(o, &TegulaLaunchOptions::memory_user)) out.memory = o.memory, out.memoryUser = o.memory_user;
  if (o.debug_info >= 0) c.debugInfo = o.debug_info;
  if (o.fp_fusion >= 0) c.fpFusion = o.fp_fusion;
  if (o.sanitize_overflow >= 0) c.sanitizeOverflow = o.sanitize_overflow;
  if (o.opt_level >= 0) c.optLevel = static_cast<uint8_t>(o.opt_level);
  if (o.num_threads) out.threads = std::min<unsigned>(o.num_threads, runtime::ThreadPool::maxThreads);
  return true;
}

const char *tegula_target_name(size_t index) {
  GateSection section;
  static const auto &names = *new std::vector<std::string>(targetNames());
  return index < names.size() ? names[index].c_str() : nullptr;
}

#define TEGULA_TEXT(x) #x
#define TEGULA_DOTTED(a, b, c) TEGULA_TEXT(a) "." TEGULA_TEXT(b) "." TEGULA_TEXT(c)
const char *tegula_version(void) { return TEGULA_DOTTED(TEGULA_VERSION_MAJOR, TEGULA_VERSION_MINOR, TEGULA_VERSION_PATCH); }
int32_t tegula_abi_version(void) { return TEGULA_ABI_VERSION; }

TegulaStatus tegula_cache_stat(TegulaContext *c, TegulaCacheStat *out) {
  if (!c || !isSized(out)) return fail(TEGULA_INVALID_ARGUMENT, "tegula_cache_stat: null argument or `size` not set");
  GateSection section;
  runtime::DiskCache::Usage u = c->disk.usage();
  // Text that lives as long as the context: both strings are fixed once the directory was opened.
  static thread_local std::string directory, reason;
  directory = c->disk.path();
  reason = c->disk.disabledReason();
  TegulaCacheStat s{sizeof s, directory.c_str(), reason.c_str(), u.entries, u.bytes, c->memoryHits, c->disk.hits,
                    c->compiles, c->disk.writes, c->disk.errors, c->disk.corrupted};
  giveSized(s, out);
  return TEGULA_OK;
}

TegulaStatus tegula_cache_clear(TegulaContext *c, uint64_t *removed) {
  if (!c) return fail(TEGULA_INVALID_ARGUMENT, "tegula_cache_clear: null context");
  GateSection section;
  uint64_t n = c->disk.clear();
  if (removed) *removed = n;
  return TEGULA_OK;
}

void tegula_free(void *memory) { std::free(memory); }

TegulaStatus tegula_dtype_parse(const char *text, TegulaDtype *out, int32_t *isPointer) {
  if (!text || !out) return fail(TEGULA_INVALID_ARGUMENT, "tegula_dtype_parse: null argument");
  auto d = lang::parseDtype(text);
  if (!d || (d->isPtr && !isPointer))
    return fail(TEGULA_INVALID_ARGUMENT, std::string("`") + text + "` is not a data type");
  *out = static_cast<TegulaDtype>(d->scalar);
  if (isPointer) *isPointer = d->isPtr;
  return TEGULA_OK;
}
const char *tegula_dtype_name(TegulaDtype d) { return d < runtime::dtypeCount ? runtime::dtypeInfo(d).name : ""; }
uint32_t tegula_dtype_bytes(TegulaDtype d) { return d < runtime::dtypeCount ? runtime::dtypeInfo(d).bytes : 0; }
